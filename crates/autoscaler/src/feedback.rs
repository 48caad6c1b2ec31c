//! Learns from earlier scalings: whether they helped, and how well the vertex scales.

use super::metric::Metric;
use super::scaling_history::VertexHistory;
use super::settings::Settings;

/// A scale-up that gained less than expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ineffective {
    /// Expected gain in records per second.
    pub expected: f64,
    pub actual: f64,
}

/// Returns the shortfall of the last scaling of a vertex, if that was a scale-up to `current` with too little gain. A
/// gain that cannot be compared is treated as too little.
pub fn ineffective(
    history: &VertexHistory,
    current: u32,
    rate: f64,
    settings: &Settings,
) -> Option<Ineffective> {
    let (_, last) = history.last_key_value()?;
    if last.new != current || !last.is_up() {
        return None;
    }
    let before = last.figures.average(Metric::TrueProcessingRate);
    let expected = last.figures.current(Metric::ExpectedProcessingRate) - before;
    let actual = rate - before;
    let is_effective = actual / expected >= settings.effectiveness;
    (!is_effective).then_some(Ineffective { expected, actual })
}

/// Returns how much of a linear growth the vertex has reached, between the configured minimum and 1; 1 while there are
/// too few observations.
pub fn scaling_coefficient(history: &VertexHistory, min: f64, observations: u32) -> f64 {
    const LINEAR: f64 = 1.0;
    if history.is_empty() || u32::try_from(history.len()).unwrap_or(u32::MAX) < observations {
        return LINEAR;
    }
    let seen = || {
        history.values().map(|scaling| {
            let rate = scaling.figures.average(Metric::TrueProcessingRate);
            (f64::from(scaling.current), rate)
        })
    };
    // The smallest parallelism, and of equal ones the newest.
    let smallest = seen().rev().fold(None, |smallest: Option<(f64, f64)>, one| match smallest {
        Some(smallest) if smallest.0 <= one.0 => Some(smallest),
        Some(_) | None => Some(one),
    });
    let Some((parallelism, rate)) = smallest else { return LINEAR };
    let baseline = rate / parallelism;
    let (mut sum, mut squares) = (0.0, 0.0);
    for (parallelism, rate) in seen() {
        sum += parallelism * rate;
        squares += parallelism * parallelism;
    }
    let alpha = sum / (squares * baseline);
    // An infinite or missing rate shows nothing.
    if squares == 0.0 || alpha.is_nan() {
        return LINEAR;
    }
    ceil2(alpha.min(LINEAR).max(min))
}

/// Rounds up at the second decimal of the shortest decimal text; for numbers up to 1.
fn ceil2(number: f64) -> f64 {
    let text = number.to_string();
    match text.split_once('.') {
        Some(("0", fraction)) if fraction.len() > 2 => {
            fraction[..2].parse().map_or(number, |hundredths: u8| f64::from(hundredths + 1) / 100.0)
        }
        Some(_) | None => number,
    }
}

#[cfg(test)]
mod tests;
