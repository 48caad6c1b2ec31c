//! Arithmetic as the Java operator does it, and the type of rates that decisions use.

/// A rate that decisions may use: neither NaN nor negative. It may be infinite, as for a vertex that has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Returns the rate; `None` if it is NaN or negative, as after counters that went backwards.
    pub fn new(number: f64) -> Option<Self> {
        // Adding zero turns a negative zero into zero.
        (number >= 0.0).then_some(Self(number + 0.0))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_infinite() { f.write_str("unlimited") } else { write!(f, "{:.2}", self.0) }
    }
}

/// Rounds half up at the third decimal; a number that would become zero stays as it is.
pub fn round3(number: f64) -> f64 {
    let rounded = round_decimals(number, 3);
    if rounded == 0.0 { number } else { rounded }
}

/// Formats a number with two decimals, as Java does for people.
pub fn two_decimals(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        format!("{:.2}", round_decimals(number, 2))
    }
}

/// Rounds half up at a decimal of the shortest decimal text.
fn round_decimals(number: f64, decimals: usize) -> f64 {
    if !number.is_finite() {
        return number;
    }
    let text = number.abs().to_string();
    let Some((whole, fraction)) = text.split_once('.') else { return number };
    if fraction.len() <= decimals {
        return number;
    }
    let (kept, rest) = fraction.split_at(decimals);
    let mut digits: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    if rest.starts_with(['5', '6', '7', '8', '9']) {
        increment(&mut digits);
    }
    let point = digits.len() - decimals;
    let mut rounded = String::with_capacity(digits.len() + 1);
    for (at, digit) in digits.into_iter().enumerate() {
        if at == point {
            rounded.push('.');
        }
        rounded.push(char::from(digit));
    }
    rounded.parse::<f64>().map_or(number, |rounded| rounded.copysign(number))
}

/// Adds one to a decimal number, digit by digit.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            return;
        }
    }
    digits.insert(0, b'1');
}

/// Rounds to the nearest whole number, halves up, within the range of 64 bits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the Java operator's rounding saturates"
)]
pub fn round_half_up(number: f64) -> f64 {
    let floor = number.floor();
    // Exact, unlike `number + 0.5`.
    let rounded = if number - floor >= 0.5 { floor + 1.0 } else { floor };
    rounded as i64 as f64
}

/// Rounds towards zero, within the range of 32 bits; zero for NaN.
#[allow(clippy::cast_possible_truncation, reason = "a float cast saturates, as in Java")]
pub fn to_int(number: f64) -> i32 {
    number as i32
}

/// Returns the parallelism that a figure stands for; `None` if it is not positive.
pub fn to_parallelism(number: f64) -> Option<u32> {
    u32::try_from(to_int(number)).ok().filter(|parallelism| *parallelism > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_up_at_the_third_decimal() {
        for (number, rounded) in [
            (588.235_294_117_647_1, 588.235),
            (0.000_5, 0.001),
            (1.000_5, 1.001),
            (2.345_500_000_000_000_4, 2.346),
            // The binary value is nearer to 1.004, but the decimal text decides.
            (1.004_5, 1.005),
            (999.999_9, 1000.0),
            (9.999_95, 10.0),
            (-1.234_5, -1.235),
            (12.0, 12.0),
            (0.1, 0.1),
        ] {
            assert_eq!(round3(number).to_bits(), f64::to_bits(rounded), "{number}");
        }
    }

    #[test]
    fn two_decimals_as_java_formats_them() {
        for (number, text) in [
            (1.005, "1.01"),
            (2.345, "2.35"),
            (-2.345, "-2.35"),
            (0.001, "0.00"),
            (1234.5, "1234.50"),
            (f64::INFINITY, "Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(two_decimals(number), text);
        }
    }

    #[test]
    fn what_would_be_rounded_to_nothing_stays() {
        for number in [0.000_1, -0.000_4, 1e-12, 5e-324] {
            assert_eq!(round3(number).to_bits(), number.to_bits());
        }
        assert!(round3(f64::NAN).is_nan());
        assert_eq!(round3(f64::INFINITY).to_bits(), f64::INFINITY.to_bits());
        assert_eq!(round3(1e300).to_bits(), 1e300_f64.to_bits());
    }

    #[test]
    fn whole_numbers_as_java_rounds_them() {
        for (number, rounded) in [
            (2.5, 3.0),
            (-2.5, -2.0),
            (0.499_999_999_999_999_94, 0.0),
            (f64::INFINITY, 9.223_372_036_854_776e18),
            (f64::NAN, 0.0),
        ] {
            assert_eq!(round_half_up(number).to_bits(), f64::to_bits(rounded), "{number}");
        }
        assert_eq!([to_int(1e20), to_int(f64::NAN), to_int(-1.9)], [i32::MAX, 0, -1]);
    }

    #[test]
    fn no_rate_is_nan_or_negative() {
        assert_eq!(Rate::new(f64::NAN), None);
        assert_eq!(Rate::new(-1e-9), None);
        assert_eq!(Rate::new(f64::NEG_INFINITY), None);
        assert!(Rate::new(-0.0).unwrap().get().is_sign_positive());
        assert!(Rate::new(f64::INFINITY).unwrap().get().is_infinite());
    }
}
