//! Numbers, times and compression as the Java operator writes them.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};

use super::TEXT_MAX;

const NANOS: u128 = 1_000_000_000;

/// Compresses a text and encodes it in base64.
pub(super) fn compress(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail, and reading the value would reveal missing data.
    let _written = encoder.write_all(text.as_bytes());
    STANDARD.encode(encoder.finish().unwrap_or_default())
}

/// Decompresses a value. A text that is not compressed is used as it is, because very old operators wrote it so.
pub(super) fn decompress(value: &str) -> Result<String, String> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let compressed = match STANDARD.decode(value.trim()) {
        Ok(bytes) if bytes.starts_with(&GZIP) => bytes,
        Ok(_) | Err(_) => return Ok(value.to_owned()),
    };
    // Real values compress to a tenth or less; one that expands far more was made to do so.
    let max = (compressed.len() as u64 * 400 + (1 << 20)).min(TEXT_MAX);
    let mut text = String::new();
    GzDecoder::new(compressed.as_slice())
        .take(max + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("it cannot be decompressed: {error}"))?;
    if text.len() as u64 > max {
        return Err(format!("it is more than {max} characters long when decompressed"));
    }
    Ok(text)
}

/// Formats a number as `Double.toString` does.
pub(super) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    if number == 0.0 || (1e-3..1e7).contains(&number.abs()) {
        return format!("{number:?}");
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if digits.contains('.') => format!("{digits}E{exponent}"),
        Some((digits, exponent)) => format!("{digits}.0E{exponent}"),
        None => text,
    }
}

pub(super) fn read_double(text: &str) -> Result<f64, String> {
    match text.trim() {
        "NaN" | ".nan" | ".NaN" | ".NAN" => Ok(f64::NAN),
        "Infinity" | "+Infinity" | ".inf" | "+.inf" => Ok(f64::INFINITY),
        "-Infinity" | "-.inf" => Ok(f64::NEG_INFINITY),
        number => number.parse().map_err(|_| format!("`{number}` is not a number")),
    }
}

/// Formats a time as `Instant.toString` does: with no, three, six or nine decimals.
pub(super) fn instant(time: Timestamp) -> String {
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    let decimals = match nanos {
        0 => String::new(),
        nanos if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => format!(".{:06}", nanos / 1_000),
        nanos => format!(".{nanos:09}"),
    };
    format!("{}{decimals}Z", time.strftime("%Y-%m-%dT%H:%M:%S"))
}

pub(super) fn read_instant(text: &str) -> Result<Timestamp, String> {
    let time = match read_decimal(text) {
        Some(nanos) => Timestamp::from_nanosecond(nanos).ok(),
        None => text.parse().ok(),
    };
    let time = time.filter(|time| *time >= Timestamp::UNIX_EPOCH);
    time.ok_or_else(|| format!("`{text}` is not a time"))
}

pub(super) fn read_duration(text: &str) -> Result<SignedDuration, String> {
    let no_duration = || format!("`{text}` is not a duration");
    if let Some(nanos) = read_decimal(text) {
        return SignedDuration::try_from_nanos_i128(nanos).ok_or_else(no_duration);
    }
    text.parse().map_err(|_| no_duration())
}

/// Formats seconds with nine decimals.
pub(super) fn decimal(nanos: i128) -> String {
    if nanos == 0 {
        return "0.0".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    format!("{sign}{}.{:09}", nanos / NANOS, nanos % NANOS)
}

/// Parses decimal seconds into nanoseconds; `None` for any other format.
fn read_decimal(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || seconds.len() > 19 || !is_digits(seconds) || !is_digits(fraction) {
        return None;
    }
    // Ignore more than nine decimals.
    let nanos: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    Some(sign * (seconds.parse::<i128>().ok()? * 1_000_000_000 + nanos.parse::<i128>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_java_writes_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (588.235, "588.235"),
            (0.001, "0.001"),
            (0.000_12, "1.2E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (123_456_789.5, "1.234567895E8"),
            (-2.5, "-2.5"),
            (9.223_372_036_854_776e18, "9.223372036854776E18"),
            (0.0, "0.0"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(double(number), text);
            assert_eq!(read_double(text).unwrap().to_bits(), number.to_bits());
        }
        assert!(read_double(&double(f64::NAN)).unwrap().is_nan());
        assert!(read_double("many").is_err());
    }

    #[test]
    fn times_as_java_writes_them() {
        for (text, nanos) in [
            ("2023-11-14T22:13:20Z", 0),
            ("2023-11-14T22:13:20.100Z", 100_000_000),
            ("2023-11-14T22:13:20.000120Z", 120_000),
            ("2023-11-14T22:13:20.000000001Z", 1),
        ] {
            let time = Timestamp::from_nanosecond(1_700_000_000_000_000_000 + nanos).unwrap();
            assert_eq!(instant(time), text);
            assert_eq!(read_instant(text), Ok(time));
            assert_eq!(read_instant(&decimal(time.as_nanosecond())), Ok(time));
        }
        assert!(read_instant("yesterday").is_err());
        assert!(read_instant("999999999999999999").is_err());
    }

    #[test]
    fn durations_are_decimal_seconds() {
        for (millis, text) in [
            (65_250, "65.250000000"),
            (65_000, "65.000000000"),
            (0, "0.0"),
            (-1_500, "-1.500000000"),
        ] {
            let duration = SignedDuration::from_millis(millis);
            assert_eq!(decimal(duration.as_nanos()), text);
            assert_eq!(read_duration(text), Ok(duration));
        }
        assert_eq!(read_duration("PT65S"), Ok(SignedDuration::from_secs(65)));
        assert!(read_duration("soon").is_err());
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let text = "---\na: 1\n".repeat(1000);
        assert!(compress(&text).len() < 200);
        assert_eq!(decompress(&compress(&text)), Ok(text));
        assert_eq!(decompress("---\na: 1\n"), Ok("---\na: 1\n".to_owned()));
        // Valid base64 of uncompressed data.
        assert_eq!(decompress("abcd"), Ok("abcd".to_owned()));
    }

    #[test]
    fn what_was_cut_short_is_not_taken_for_all() {
        let value = compress(&"some text that is long enough".repeat(100));
        let cut = &value[..value.len() / 8 * 4];
        assert!(decompress(cut).unwrap_err().contains("decompress"));
    }

    #[test]
    fn a_small_value_is_no_large_text() {
        let bomb = compress(&"a".repeat(19 << 20));
        assert!(decompress(&bomb).unwrap_err().contains("characters long"));
    }
}
