//! When a periodic snapshot is due: by an interval, or by a Quartz cron expression.

use std::borrow::Cow;
use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use config::duration;

/// Value of `kubernetes.operator.periodic.savepoint.interval` or its counterpart for checkpoints.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Empty, or a duration of zero.
    Off,
    Every(Duration),
    /// Six or seven fields, the first for seconds.
    Cron(Box<Cron>),
}

impl Schedule {
    /// Parses a Flink duration or a Quartz expression.
    ///
    /// # Errors
    /// A description of what is wrong, if it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Off);
        }
        if let Some(interval) = duration::parse(text) {
            return Ok(if interval.is_zero() { Self::Off } else { Self::Every(interval) });
        }
        let quartz = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Optional)
            .alternative_weekdays(true)
            .dom_and_dow(true)
            .sloppy_ranges(true)
            .build();
        quartz.parse(&with_years(text)).map(|cron| Self::Cron(Box::new(cron))).map_err(|error| {
            format!(
                "`{text}` is neither a duration ({}) nor a Quartz cron expression ({error})",
                duration::EXPECTED
            )
        })
    }

    /// Returns when it first fires after `last`; `None` if it never does.
    pub fn next(&self, last: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Off => None,
            Self::Every(interval) => {
                last.checked_add(SignedDuration::try_from(*interval).ok()?).ok()
            }
            Self::Cron(cron) => {
                let last = last.to_zoned(zone.clone());
                cron.find_next_occurrence(&last, false).ok().map(|next| next.timestamp())
            }
        }
    }

    /// Returns true if it has fired since `last`; missed times count as one.
    pub fn is_due(&self, last: Timestamp, now: Timestamp, zone: &TimeZone) -> bool {
        self.next(last, zone).is_some_and(|next| next < now)
    }
}

/// Adds Quartz's years to an expression that has none, or all of them. Otherwise, every pass would search thousands of
/// years for a time that never comes, such as the 30th of February.
fn with_years(text: &str) -> Cow<'_, str> {
    const YEARS: &str = "1970-2099";
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields[..] {
        [_, _, _, _, _, _] => Cow::Owned(format!("{text} {YEARS}")),
        [_, _, _, _, _, _, "*" | "?"] => Cow::Owned(format!("{} {YEARS}", fields[..6].join(" "))),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-03-04T{time}Z").parse().unwrap()
    }

    fn is_due(text: &str, last: &str, now: &str) -> bool {
        Schedule::parse(text).unwrap().is_due(at(last), at(now), &TimeZone::UTC)
    }

    #[test]
    fn scenario_13_cron_and_durations() {
        assert!(is_due("0 */10 * * * ?", "10:55:00", "11:05:00"));
        assert!(!is_due("0 */10 * * * ?", "11:01:00", "11:05:00"));
        assert!(is_due("10M", "10:00:00", "10:10:01"));
        assert!(!is_due("10M", "10:00:00", "10:09:59"));
        assert!(is_due("60000", "10:00:00", "10:01:01"));
        assert!(!is_due("", "00:00:00", "23:00:00"));
        assert!(!is_due("0", "00:00:00", "23:00:00"));
        for never in ["0 0 0 1 1 ? 1999", "0 0 0 1 1 ? 2000-2001"] {
            let is_due = Schedule::parse(never).is_ok_and(|schedule| {
                schedule.is_due(at("00:00:00"), at("23:00:00"), &TimeZone::UTC)
            });
            assert!(!is_due, "{never}");
        }
        for invalid in ["-1", "text", "* * * * *", "1 h 30"] {
            assert!(Schedule::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn what_never_fires_is_not_awaited_for_ever() {
        for text in ["0 0 0 30 2 ?", "0 0 0 30 2 ? *", "0 0 0 31 4,6 ?"] {
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(schedule.next(at("00:00:00"), &TimeZone::UTC), None, "{text}");
            let Schedule::Cron(cron) = schedule else { panic!("{text} is a cron expression") };
            assert!(cron.pattern.to_string().ends_with("1970-2099"), "{}", cron.pattern);
        }
        let leap = Schedule::parse("0 0 0 29 2 ?").unwrap();
        let next = leap.next(at("00:00:00"), &TimeZone::UTC);
        assert_eq!(next, Some("2028-02-29T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn cron_goes_by_the_operators_time_zone() {
        let noon = Schedule::parse("0 0 12 * * ?").unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(noon.next(at("09:00:00"), &zone), Some(at("10:00:00")));
    }

    #[test]
    fn quartz_has_days_of_its_own() {
        // 4 March 2026 is a Wednesday; Quartz counts from Sunday, which is 1.
        for (text, next) in [
            ("0 0 0 ? * 6", "2026-03-06T00:00:00Z"),
            ("0 0 0 L * ?", "2026-03-31T00:00:00Z"),
            ("0 0 0 ? * MON#2", "2026-03-09T00:00:00Z"),
            ("0 0 0 15W * ?", "2026-03-16T00:00:00Z"),
            ("0 0/5 14 * * ?", "2026-03-04T14:00:00Z"),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            let next: Timestamp = next.parse().unwrap();
            assert_eq!(schedule.next(at("10:00:00"), &TimeZone::UTC), Some(next), "{text}");
        }
    }
}
