//! `job.autoscaler.excluded.periods`: daily ranges and Quartz cron expressions (rule A12).

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::schedule::Schedule;

/// A period during which a job is not scaled.
#[derive(Clone, Debug)]
pub struct ExcludedPeriod {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    /// Milliseconds of the day, both ends included.
    Daily { start: u32, end: u32 },
    /// The seconds that match the expression.
    Cron(Schedule),
}

impl ExcludedPeriod {
    /// Parses one entry of the list.
    ///
    /// # Errors
    /// A description of what is wrong with it.
    pub fn parse(entry: &str) -> Result<Self, String> {
        check(entry)?;
        let part = |text: &str| match daily_range(text) {
            Some((start, end)) => Ok(Part::Daily { start, end }),
            None => Schedule::parse(text).map(Part::Cron),
        };
        let parts = entry.split("&&").map(|text| part(text.trim())).collect::<Result<_, _>>()?;
        Ok(Self { text: entry.trim().to_owned(), parts })
    }

    /// Returns true if `now` is in all of its parts.
    pub fn contains(&self, now: Timestamp, zone: &TimeZone) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Daily { start, end } => {
                let time = now.to_zoned(zone.clone()).time();
                let at = (u32::from(time.hour().unsigned_abs()) * 60
                    + u32::from(time.minute().unsigned_abs()))
                    * 60
                    + u32::from(time.second().unsigned_abs());
                let millis = at * 1000 + u32::from(time.millisecond().unsigned_abs());
                (*start..=*end).contains(&millis)
            }
            // The expression matches this second if the next match after the previous second is this one.
            Part::Cron(schedule) => Timestamp::from_second(now.as_second()).is_ok_and(|second| {
                Timestamp::from_second(now.as_second() - 1)
                    .is_ok_and(|before| schedule.next(before, zone) == Some(second))
            }),
        })
    }
}

impl std::fmt::Display for ExcludedPeriod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks one entry: a daily range, a cron expression, or one of each joined by `&&`.
pub(super) fn check(entry: &str) -> Result<(), String> {
    let parts: Vec<&str> = entry.split("&&").map(str::trim).collect();
    if parts.len() > 2 {
        return Err("at most two parts can be joined by `&&`".to_owned());
    }
    for part in &parts {
        if !is_daily_range(part)
            && let Err(problem) = check_cron(part)
        {
            return Err(format!(
                "`{part}` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron \
                 expression ({problem})"
            ));
        }
    }
    if let [first, second] = parts[..]
        && is_daily_range(first) == is_daily_range(second)
    {
        return Err("the two parts must be a daily range and a cron expression".to_owned());
    }
    Ok(())
}

/// Returns true if `text` is `H:M[:S[:millis]]-H:M[:S[:millis]]`, the start before the end.
fn is_daily_range(text: &str) -> bool {
    daily_range(text).is_some()
}

/// Returns start and end in milliseconds of the day.
fn daily_range(text: &str) -> Option<(u32, u32)> {
    let mut sides = text.split('-');
    let (Some(start), Some(end), None) = (sides.next(), sides.next(), sides.next()) else {
        return None;
    };
    Some((millis_of_day(start)?, millis_of_day(end)?)).filter(|(start, end)| start < end)
}

fn millis_of_day(text: &str) -> Option<u32> {
    let numbers: Vec<u32> =
        text.split(':').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds, millis) = match numbers[..] {
        [hours, minutes] => (hours, minutes, 0, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds, 0),
        [hours, minutes, seconds, millis] => (hours, minutes, seconds, millis),
        _ => return None,
    };
    let is_time = hours < 24 && minutes < 60 && seconds < 60 && millis < 1000;
    is_time.then(|| ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis)
}

/// A field of a cron expression.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names for `min`, `min + 1`, ….
    words: &'static [&'static str],
    kind: Kind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Plain,
    DayOfMonth,
    DayOfWeek,
}

const MONTHS: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const FIELDS: [Field; 7] = [
    Field { name: "seconds", min: 0, max: 59, words: &[], kind: Kind::Plain },
    Field { name: "minutes", min: 0, max: 59, words: &[], kind: Kind::Plain },
    Field { name: "hours", min: 0, max: 23, words: &[], kind: Kind::Plain },
    Field { name: "day of month", min: 1, max: 31, words: &[], kind: Kind::DayOfMonth },
    Field { name: "month", min: 1, max: 12, words: MONTHS, kind: Kind::Plain },
    Field { name: "day of week", min: 1, max: 7, words: DAYS, kind: Kind::DayOfWeek },
    Field { name: "year", min: 1970, max: 2299, words: &[], kind: Kind::Plain },
];

/// Checks a cron expression of 6 or 7 fields; exactly one of the two day fields is `?`.
fn check_cron(text: &str) -> Result<(), String> {
    let upper = text.to_uppercase();
    let texts: Vec<&str> = upper.split_whitespace().collect();
    if !(6..=7).contains(&texts.len()) {
        return Err(format!("expected 6 or 7 fields, found {}", texts.len()));
    }
    for (field, text) in FIELDS.iter().zip(&texts) {
        if !text.split(',').all(|item| field.accepts(item)) {
            return Err(format!("`{text}` is not a valid {}", field.name));
        }
    }
    match (texts[3] == "?", texts[5] == "?") {
        (true, true) => Err("only one of day of month and day of week can be `?`".to_owned()),
        (false, false) => Err("one of day of month and day of week must be `?`".to_owned()),
        (true, false) | (false, true) => Ok(()),
    }
}

impl Field {
    /// Returns true if the field can hold `item`, one element of its list.
    fn accepts(&self, item: &str) -> bool {
        if item == "?" {
            return self.kind != Kind::Plain;
        }
        if self.accepts_special(item) {
            return true;
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let is_step_valid = step.is_none_or(|step| {
            step.parse::<u32>().is_ok_and(|step| (1..=self.max).contains(&step))
        });
        let is_range_valid = match range.split_once('-') {
            // Quartz allows ranges that wrap around, such as `22-2` for hours.
            Some((start, end)) => self.value(start).is_some() && self.value(end).is_some(),
            None => {
                range == "*" || (range.is_empty() && step.is_some()) || self.value(range).is_some()
            }
        };
        is_step_valid && is_range_valid
    }

    /// Accepts `L`, `L-3`, `LW`, `15W` for the day of the month; `L`, `6L`, `6#3` for the day of the week.
    fn accepts_special(&self, item: &str) -> bool {
        let within = |text: &str, range: std::ops::RangeInclusive<u32>| {
            text.parse::<u32>().is_ok_and(|number| range.contains(&number))
        };
        match self.kind {
            Kind::Plain => false,
            Kind::DayOfMonth => {
                item == "L"
                    || item == "LW"
                    || item.strip_prefix("L-").is_some_and(|offset| {
                        within(offset.strip_suffix('W').unwrap_or(offset), 0..=30)
                    })
                    || item.strip_suffix('W').is_some_and(|day| within(day, 1..=31))
            }
            Kind::DayOfWeek => {
                item == "L"
                    || item.strip_suffix('L').is_some_and(|day| self.value(day).is_some())
                    || item
                        .split_once('#')
                        .is_some_and(|(day, nth)| self.value(day).is_some() && within(nth, 1..=5))
            }
        }
    }

    fn value(&self, text: &str) -> Option<u32> {
        if let Some(position) = self.words.iter().position(|word| *word == text) {
            return u32::try_from(position).ok().map(|position| self.min + position);
        }
        text.parse().ok().filter(|number| (self.min..=self.max).contains(number))
    }
}

#[cfg(test)]
mod tests;
