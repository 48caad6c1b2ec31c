//! Aligns a parallelism with key groups or partitions, so that no subtask has more of them than others.

use std::collections::BTreeSet;

use config::options::autoscaler::{AdjustMode, AlignmentMode};

use super::settings::Alignment;

/// The input of an alignment. No number is zero.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub current: u32,
    /// Within all limits, and different from the current one.
    pub target: u32,
    /// Number of key groups, or of partitions if they are known.
    pub parts: u32,
    pub max_parallelism: u32,
    /// Limits from the options, widened so that the current parallelism is within them.
    pub lower: u32,
    pub upper: u32,
}

/// The result of an alignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aligned {
    pub parallelism: u32,
    /// Whether a deprecated alignment mode chose another parallelism than the target. An event reports that.
    pub is_limited: bool,
}

/// Aligns the target; the result may be the current parallelism.
pub fn align(target: &Target, alignment: Alignment) -> Aligned {
    let stored = |parallelism| Aligned { parallelism, is_limited: false };
    let (is_load_reducing, is_legacy) = match alignment {
        Alignment::Mode(AlignmentMode::Off) => return stored(target.target),
        Alignment::Mode(AlignmentMode::Balanced) => (true, false),
        Alignment::Mode(AlignmentMode::EvenlySpread) => (false, false),
        Alignment::Legacy(AdjustMode::MaximizeUtilisation) => (true, true),
        Alignment::Legacy(AdjustMode::EvenlySpread) => (false, true),
    };
    match target.first_above(is_load_reducing) {
        Some(parallelism) => stored(parallelism),
        None if is_legacy => target.first_below(),
        None => stored(target.target.min(target.cap()).max(target.lower)),
    }
}

impl Target {
    fn is_up(&self) -> bool {
        self.target > self.current
    }

    /// Returns the maximum number of subtasks that have something to do, within the limits.
    fn cap(&self) -> u32 {
        self.parts.min(self.max_parallelism).min(self.upper)
    }

    /// Returns the first value from the target upwards that divides the parts, or with which each subtask has fewer.
    fn first_above(&self, is_load_reducing: bool) -> Option<u32> {
        let end = if self.is_up() { self.cap() } else { self.cap().min(self.current) };
        let divisor = divisors(self.parts).range(self.target..).next().copied();
        let most = self.parts / self.target;
        let with_fewer = self.parts.checked_div(most).filter(|_| is_load_reducing).map(|of| of + 1);
        divisor.into_iter().chain(with_fewer).min().filter(|parallelism| *parallelism <= end)
    }

    /// Returns the last value below the target with which no subtask has more parts, unless that reverses the
    /// direction. For a vertex with idle subtasks it does not: these are removed whatever the rate is.
    fn first_below(&self) -> Aligned {
        // The last value with which some subtask has more parts than with the target; 0 if there is none.
        let more = self.parts / (self.parts / self.target + 1);
        let is_even = more == 0 || self.parts.is_multiple_of(more);
        let parallelism = if is_even { more } else { more + 1 };
        let parallelism = parallelism.max(self.lower);
        let is_turned =
            if self.is_up() { parallelism <= self.current } else { parallelism >= self.current };
        if is_turned && self.current <= self.cap() {
            return Aligned { parallelism: self.current, is_limited: true };
        }
        Aligned { parallelism, is_limited: parallelism != self.target }
    }
}

/// Returns the numbers that divide another one, in steps up to its square root.
pub(super) fn divisors(of: u32) -> BTreeSet<u32> {
    let pairs = (1..=of.isqrt()).filter(|one| of.is_multiple_of(*one));
    pairs.flat_map(|one| [one, of / one]).collect()
}

#[cfg(test)]
mod tests;
