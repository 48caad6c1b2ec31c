//! Histograms as Flink's reporters publish them: a count, and quantiles of the newest values.

/// The published quantiles, with their labels.
pub const QUANTILES: [(&str, f64); 6] = [
    ("0.5", 0.5),
    ("0.75", 0.75),
    ("0.95", 0.95),
    ("0.98", 0.98),
    ("0.99", 0.99),
    ("0.999", 0.999),
];

/// Maximum number of values that all histograms together keep: 8 MiB. Beyond that, a full one replaces its oldest value
/// by the newest, and an empty one keeps a single value.
const VALUES_MAX: usize = 2 * 1024 * 1024;

/// How many values histograms may keep, each and together.
#[derive(Clone, Debug)]
pub(super) struct Room {
    each: usize,
    together: usize,
    used: usize,
}

impl Room {
    pub(super) fn new(each: usize) -> Self {
        Self { each: each.max(1), together: VALUES_MAX, used: 0 }
    }
}

/// The newest values, and how many there were.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    values: Vec<f32>,
    /// Index of the oldest one, once there are as many as allowed.
    oldest: usize,
    count: u64,
}

/// The published values of a histogram. They are sorted when they are read, so that counting never waits for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub count: u64,
    values: Vec<f32>,
}

/// What most reporters publish of a histogram besides its quantiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Number of values.
    pub size: usize,
    /// `NaN` without values, like the others.
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// The standard deviation of a sample.
    pub deviation: f64,
}

impl Summary {
    pub fn statistics(&self) -> Statistics {
        let values = || self.values.iter().copied().map(f64::from);
        let number = super::number(self.values.len() as u64);
        let mean = values().sum::<f64>() / number;
        let squares = values().map(|value| (value - mean).powi(2)).sum::<f64>();
        // Zero for a single value.
        let deviation = (squares / (number - 1.0).max(1.0)).sqrt();
        Statistics {
            size: self.values.len(),
            min: values().fold(f64::NAN, f64::min),
            max: values().fold(f64::NAN, f64::max),
            mean,
            deviation: if mean.is_nan() { f64::NAN } else { deviation },
        }
    }

    /// Creates it from the newest of `count` values.
    pub fn new(count: u64, values: Vec<f32>) -> Self {
        Self { count, values }
    }

    /// Returns the quantiles in the order of [`QUANTILES`]; `NaN` without values.
    pub fn quantiles(&self) -> [f64; QUANTILES.len()] {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        QUANTILES.map(|(_, part)| quantile(&sorted, part))
    }
}

impl Histogram {
    pub(super) fn record(&mut self, value: f64, room: &mut Room) {
        self.count = self.count.saturating_add(1);
        #[allow(clippy::cast_possible_truncation, reason = "seven digits are enough of a quantile")]
        let value = value as f32;
        let is_room = room.used < room.together || self.values.is_empty();
        if is_room && self.values.len() < room.each {
            room.used += 1;
            if self.values.len() == self.values.capacity() {
                // Doubling would take up to twice the room.
                self.values.reserve_exact(if self.values.len() < 8 { 1 } else { 64 });
            }
            self.values.push(value);
            return;
        }
        self.oldest %= self.values.len();
        if let Some(oldest) = self.values.get_mut(self.oldest) {
            *oldest = value;
        }
        self.oldest += 1;
    }

    /// Gives its room back.
    pub(super) fn discard(self, room: &mut Room) {
        room.used = room.used.saturating_sub(self.values.len());
    }

    pub(super) fn summary(&self) -> Summary {
        Summary::new(self.count, self.values.clone())
    }
}

/// Interpolates as Flink's histograms do: between the two values around the place `part * (n + 1)`.
fn quantile(sorted: &[f32], part: f64) -> f64 {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return f64::NAN };
    let place = part * (super::number(sorted.len() as u64) + 1.0);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number in 0..=n"
    )]
    let below = place.floor() as usize;
    match (below.checked_sub(1).and_then(|index| sorted.get(index)), sorted.get(below)) {
        (Some(lower), Some(upper)) => {
            let (lower, upper) = (f64::from(*lower), f64::from(*upper));
            lower + place.fract() * (upper - lower)
        }
        (None, _) => f64::from(*first),
        (Some(_), None) => f64::from(*last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>, each: usize) -> Summary {
        let (mut histogram, mut room) = (Histogram::default(), Room::new(each));
        for value in values {
            histogram.record(value, &mut room);
        }
        histogram.summary()
    }

    #[test]
    fn quantiles_are_those_of_flink() {
        // The results of commons-math's `Percentile` for 1 to 100.
        let expected = [50.5, 75.75, 95.95, 98.98, 99.99, 100.0];
        let summary = of((1..=100).map(f64::from), 1000);
        assert_eq!(summary.count, 100);
        for (found, expected) in summary.quantiles().into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{summary:?}");
        }
        assert_eq!((of([7.0], 10).count, of([7.0], 10).quantiles()), (1, [7.0; 6]));
        assert!(of([], 10).quantiles().iter().all(|quantile| quantile.is_nan()));
    }

    #[test]
    fn statistics_are_those_of_the_values_that_are_there() {
        let summary = of([9.0, 2.0, 4.0, 6.0], 3);
        let expected = Statistics { size: 3, min: 2.0, max: 6.0, mean: 4.0, deviation: 2.0 };
        assert_eq!(summary.statistics(), expected);
        assert_eq!((summary.count, of([7.0], 3).statistics().deviation), (4, 0.0));
        let Statistics { size, min, max, mean, deviation } = of([], 3).statistics();
        assert_eq!(size, 0);
        assert!([min, max, mean, deviation].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn the_oldest_values_go_and_are_counted() {
        let summary = of([100.0, 100.0, 100.0, 1.0, 1.0, 1.0], 3);
        assert_eq!((summary.count, summary.quantiles()), (6, [1.0; 6]));
    }

    #[test]
    fn room_is_made_for_several_values_at_a_time() {
        let (mut histogram, mut room) = (Histogram::default(), Room::new(1000));
        let mut capacities = std::collections::BTreeSet::new();
        for value in 0..1000 {
            histogram.record(f64::from(value), &mut room);
            capacities.insert(histogram.values.capacity());
        }
        assert!(capacities.len() < 30 && histogram.values.capacity() < 1100, "{capacities:?}");
    }

    #[test]
    fn histograms_share_their_room() {
        let mut room = Room { each: 1000, together: 5, used: 0 };
        let mut all = vec![Histogram::default(); 4];
        for histogram in &mut all {
            for value in [1.0, 2.0, 3.0] {
                histogram.record(value, &mut room);
            }
        }
        let kept: Vec<usize> = all.iter().map(|histogram| histogram.values.len()).collect();
        assert_eq!(kept, [3, 2, 1, 1]);
        for histogram in all {
            histogram.discard(&mut room);
        }
        assert_eq!(room.used, 0);
    }
}
