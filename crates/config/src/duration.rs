//! Durations in Flink's syntax: `<integer>[ ]<unit>`, in milliseconds without a unit.
//!
//! The rule is Flink's `TimeUtils.parseDuration`: no fractions, no sign, no ISO-8601.

use std::time::Duration;

/// The format of a duration, for messages.
pub const EXPECTED: &str = "a whole number and one of d, h, min, s, ms, us or ns, such as `30 s`";

const NANOS_PER_MICRO: u128 = 1_000;
const NANOS_PER_MILLI: u128 = 1_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
const NANOS_PER_MINUTE: u128 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: u128 = 60 * NANOS_PER_MINUTE;
const NANOS_PER_DAY: u128 = 24 * NANOS_PER_HOUR;

/// The units in which durations are written, largest first.
const WRITTEN_UNITS: [(&str, u128); 7] = [
    ("d", NANOS_PER_DAY),
    ("h", NANOS_PER_HOUR),
    ("min", NANOS_PER_MINUTE),
    ("s", NANOS_PER_SECOND),
    ("ms", NANOS_PER_MILLI),
    ("us", NANOS_PER_MICRO),
    ("ns", 1),
];

/// Parses a duration; `None` if `text` is not in Flink's syntax.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    // Flink uses a signed 64-bit number and rejects what does not fit.
    let count = i64::try_from(digits.parse::<u64>().ok()?).ok()?;
    let nanos = u128::try_from(count).ok()?.checked_mul(nanos_per(unit.trim())?)?;
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
    let rest = u32::try_from(nanos % NANOS_PER_SECOND).ok()?;
    Some(Duration::new(seconds, rest))
}

fn nanos_per(unit: &str) -> Option<u128> {
    Some(match unit.to_lowercase().as_str() {
        "d" | "day" | "days" => NANOS_PER_DAY,
        "h" | "hour" | "hours" => NANOS_PER_HOUR,
        "m" | "min" | "minute" | "minutes" => NANOS_PER_MINUTE,
        "s" | "sec" | "secs" | "second" | "seconds" => NANOS_PER_SECOND,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => NANOS_PER_MILLI,
        // Both the micro sign and the Greek letter, which lower-casing does not unify.
        "us" | "µs" | "μs" | "micro" | "micros" | "microsecond" | "microseconds" => {
            NANOS_PER_MICRO
        }
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        _ => return None,
    })
}

/// Returns the duration in the largest unit that divides it, such as `5 min`.
pub fn render(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0 ms".to_owned();
    }
    let (unit, size) = WRITTEN_UNITS
        .into_iter()
        .find(|(_, size)| nanos.is_multiple_of(*size))
        .unwrap_or(("ns", 1));
    format!("{} {unit}", nanos / size)
}

#[cfg(test)]
mod tests;
