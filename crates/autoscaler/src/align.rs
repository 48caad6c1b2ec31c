//! Fits a parallelism to key groups or partitions, so that no subtask has one more than others.

use config::options::autoscaler::{AdjustMode, AlignmentMode};

use super::settings::Alignment;

/// The numbers that an alignment works with. None of them is zero.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub current: u32,
    /// Within all limits, and not the current one.
    pub target: u32,
    /// Key groups, or partitions where they are known.
    pub parts: u32,
    pub max_parallelism: u32,
    /// Limits from the options, widened so that the current one is within.
    pub lower: u32,
    pub upper: u32,
}

/// The result of an alignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aligned {
    pub parallelism: u32,
    /// The deprecated modes tell when they decide otherwise.
    pub is_limited: bool,
}

/// Aligns the target; it may come out as the current parallelism.
pub fn align(target: &Target, alignment: Alignment) -> Aligned {
    let kept = |parallelism| Aligned { parallelism, is_limited: false };
    let (is_load_reducing, is_legacy) = match alignment {
        Alignment::Mode(AlignmentMode::Off) => return kept(target.target),
        Alignment::Mode(AlignmentMode::Balanced) => (true, false),
        Alignment::Mode(AlignmentMode::EvenlySpread) => (false, false),
        Alignment::Legacy(AdjustMode::MaximizeUtilisation) => (true, true),
        Alignment::Legacy(AdjustMode::EvenlySpread) => (false, true),
    };
    match target.first_above(is_load_reducing) {
        Some(parallelism) => kept(parallelism),
        None if is_legacy => target.first_below(),
        None => kept(target.target.min(target.cap()).max(target.lower)),
    }
}

impl Target {
    fn is_up(&self) -> bool {
        self.target > self.current
    }

    /// The most subtasks that have something to do, within the limits.
    fn cap(&self) -> u32 {
        self.parts.min(self.max_parallelism).min(self.upper)
    }

    /// The first from the target on that divides the parts, or under which each has less.
    fn first_above(&self, is_load_reducing: bool) -> Option<u32> {
        let end = if self.is_up() { self.cap() } else { self.cap().min(self.current) };
        let most = self.parts / self.target;
        (self.target..=end).find(|parallelism| {
            self.parts.is_multiple_of(*parallelism)
                || (is_load_reducing && self.parts / parallelism < most)
        })
    }

    /// The last below the target under which none has more, unless that turns the direction round.
    /// Of a vertex with idle subtasks, it does not: these go whatever the rate is.
    fn first_below(&self) -> Aligned {
        let most = self.parts / self.target;
        let mut parallelism = self.target;
        while parallelism > 0 {
            if self.parts / parallelism > most {
                if !self.parts.is_multiple_of(parallelism) {
                    parallelism += 1;
                }
                break;
            }
            parallelism -= 1;
        }
        let parallelism = parallelism.max(self.lower);
        let is_turned =
            if self.is_up() { parallelism <= self.current } else { parallelism >= self.current };
        if is_turned && self.current <= self.cap() {
            return Aligned { parallelism: self.current, is_limited: true };
        }
        Aligned { parallelism, is_limited: parallelism != self.target }
    }
}

#[cfg(test)]
mod tests;
