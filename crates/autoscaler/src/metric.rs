//! The figures of a job, by the names under which they are stored and exported.

use strum::VariantArray;

use std::collections::BTreeMap;
use std::fmt;

use super::rate::round3;

/// A figure of a vertex or of the whole job.
#[derive(
    Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, strum::IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", const_into_str)]
pub enum Metric {
    Load,
    TrueProcessingRate,
    ObservedTpr,
    TargetDataRate,
    CatchUpDataRate,
    Lag,
    Parallelism,
    RecommendedParallelism,
    MaxParallelism,
    NumSourcePartitions,
    ScaleUpRateThreshold,
    ScaleDownRateThreshold,
    ExpectedProcessingRate,
    NumRecordsIn,
    NumRecordsInPerSecond,
    NumRecordsOut,
    AccumulatedBusyTime,
    GcPressure,
    HeapMemoryUsed,
    ManagedMemoryUsed,
    MetaspaceMemoryUsed,
    HeapMaxUsageRatio,
    NumTaskSlotsUsed,
}

impl Metric {
    pub const ALL: &[Self] = Self::VARIANTS;

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.into_str() == text)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

/// A figure now and over the window; NaN for what was not measured.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated {
    pub current: f64,
    pub average: f64,
}

impl Evaluated {
    pub fn new(current: f64, average: f64) -> Self {
        Self { current: round3(current), average: round3(average) }
    }

    pub fn of(current: f64) -> Self {
        Self::new(current, f64::NAN)
    }

    pub fn average(average: f64) -> Self {
        Self::new(f64::NAN, average)
    }
}

impl PartialEq for Evaluated {
    /// Compares the figures. Two values that were not measured are equal.
    fn eq(&self, other: &Self) -> bool {
        let is_same = |one: f64, other: f64| one == other || (one.is_nan() && other.is_nan());
        is_same(self.current, other.current) && is_same(self.average, other.average)
    }
}

/// Figures of a vertex that are exported, and whether each has an average.
pub const REPORTED: [(Metric, bool); 12] = [
    (Metric::Load, true),
    (Metric::TrueProcessingRate, true),
    (Metric::TargetDataRate, true),
    (Metric::CatchUpDataRate, false),
    (Metric::Lag, false),
    (Metric::Parallelism, false),
    (Metric::RecommendedParallelism, false),
    (Metric::MaxParallelism, false),
    (Metric::NumSourcePartitions, false),
    (Metric::ScaleUpRateThreshold, false),
    (Metric::ScaleDownRateThreshold, false),
    (Metric::ExpectedProcessingRate, false),
];

/// The evaluated figures of one vertex, or of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(pub BTreeMap<Metric, Evaluated>);

impl Figures {
    pub fn current(&self, metric: Metric) -> f64 {
        self.0.get(&metric).map_or(f64::NAN, |evaluated| evaluated.current)
    }

    pub fn average(&self, metric: Metric) -> f64 {
        self.0.get(&metric).map_or(f64::NAN, |evaluated| evaluated.average)
    }

    pub fn set(&mut self, metric: Metric, evaluated: Evaluated) {
        self.0.insert(metric, evaluated);
    }

    /// Sets those of the other figures that are numbers.
    pub fn merge(&mut self, others: &[(Metric, Evaluated)]) {
        let or = |new: f64, old: f64| if new.is_nan() { old } else { new };
        for (metric, new) in others {
            let current = or(new.current, self.current(*metric));
            let average = or(new.average, self.average(*metric));
            self.set(*metric, Evaluated::new(current, average));
        }
    }
}

/// The measured figures of one vertex, or of the job, at one time. A missing one was not measured. Compact, because
/// thousands of samples are kept: each figure takes one word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// A bit for each metric that was measured, in the order of [`Metric`].
    measured: u32,
    /// Their figures, in the same order.
    figures: Box<[f64]>,
}

const _: () = assert!(Metric::ALL.len() <= u32::BITS as usize, "a bit for each metric");

impl Values {
    /// Returns the metric's bit, and the number of measured ones before it.
    fn place(&self, metric: Metric) -> (u32, usize) {
        let bit = 1_u32 << (metric as u32);
        (bit, (self.measured & (bit - 1)).count_ones() as usize)
    }

    pub fn get(&self, metric: Metric) -> Option<f64> {
        let (bit, at) = self.place(metric);
        if self.measured & bit == 0 { None } else { self.figures.get(at).copied() }
    }

    /// Sets a figure; NaN removes it.
    pub fn set(&mut self, metric: Metric, value: f64) {
        let (bit, at) = self.place(metric);
        let mut figures = std::mem::take(&mut self.figures).into_vec();
        if self.measured & bit != 0 {
            figures.remove(at);
        }
        self.measured &= !bit;
        if !value.is_nan() {
            figures.insert(at, value);
            self.measured |= bit;
        }
        self.figures = figures.into();
    }

    pub fn iter(&self) -> impl Iterator<Item = (Metric, f64)> + '_ {
        Metric::ALL.iter().copied().filter_map(|metric| Some((metric, self.get(metric)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        for metric in Metric::ALL.iter().copied() {
            assert_eq!(Metric::parse(metric.into_str()), Some(metric));
        }
        assert_eq!(Metric::parse("load"), None);
    }

    #[test]
    fn what_is_no_number_is_no_value() {
        let mut values = Values::default();
        values.set(Metric::Lag, 3.0);
        values.set(Metric::Load, 0.5);
        values.set(Metric::Lag, f64::NAN);
        assert_eq!(values.iter().collect::<Vec<_>>(), [(Metric::Load, 0.5)]);
    }

    #[test]
    fn figures_are_found_in_whatever_order_they_were_set() {
        let mut values = Values::default();
        let figures = || Metric::ALL.iter().copied().zip((0_u32..).map(f64::from)).step_by(2);
        for (metric, figure) in figures().collect::<Vec<_>>().into_iter().rev() {
            values.set(metric, figure);
        }
        values.set(Metric::Load, 0.25);
        assert_eq!(values.get(Metric::TrueProcessingRate), None);
        let found: Vec<(Metric, f64)> = values.iter().collect();
        assert_eq!(found[0], (Metric::Load, 0.25));
        assert_eq!(found[1..], figures().skip(1).collect::<Vec<_>>());
    }
}
