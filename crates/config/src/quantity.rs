//! Kubernetes quantities such as `500m`, `2Gi` and `1e3`.

/// Parses a quantity as a number: cores of `500m` are 0.5, bytes of `2Gi` are 2147483648.
pub fn parse(text: &str) -> Option<f64> {
    let (number, scale) = split(text)?;
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain)? * scale.factor();
    value.is_finite().then_some(value)
}

/// Parses a whole, non-negative quantity without fraction, exactly.
pub fn parse_whole(text: &str) -> Option<u64> {
    let (number, scale) = split(text)?;
    let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'))?;
    let factor = match scale {
        Scale::Binary(power) => 1024_u64.checked_pow(power)?,
        Scale::Decimal(power) => 10_u64.checked_pow(u32::try_from(power).ok()?)?,
    };
    let value = number.checked_mul(factor)?;
    i64::try_from(value).is_ok().then_some(value)
}

/// The factor of a suffix.
#[derive(Clone, Copy)]
enum Scale {
    Binary(u32),
    Decimal(i32),
}

impl Scale {
    fn factor(self) -> f64 {
        match self {
            Self::Binary(power) => 1024_f64.powi(i32::try_from(power).unwrap_or(i32::MAX)),
            Self::Decimal(power) => 10_f64.powi(power),
        }
    }
}

/// Splits `500m` into `500` and its scale.
fn split(text: &str) -> Option<(&str, Scale)> {
    let text = text.trim();
    let suffix_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(suffix_at)?;
    let scale = match suffix {
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "" => Scale::Decimal(0),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(1),
        "Mi" => Scale::Binary(2),
        "Gi" => Scale::Binary(3),
        "Ti" => Scale::Binary(4),
        "Pi" => Scale::Binary(5),
        "Ei" => Scale::Binary(6),
        exponent => Scale::Decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some((number, scale))
}

#[cfg(test)]
mod tests;
