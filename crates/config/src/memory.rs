//! Memory sizes: Flink's syntax first, Kubernetes' as a fallback.
//!
//! Flink's units are always binary (`2g` and `2G` are 2 GiB, `2048m` is 2 GiB), so `requests.memory: 2048m` does not
//! mean 2048 thousandths of a byte.

use super::quantity;

/// The format of a memory size, for messages.
pub const EXPECTED: &str =
    "a whole number and one of b, kb, mb, gb or tb, such as `2048 mb`, or a quantity such as `2Gi`";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct MemorySize(pub u64);

impl MemorySize {
    /// Parses Flink's syntax only, as Flink's `MemorySize.parse` does.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let bytes = digits.parse::<u64>().ok()?.checked_mul(bytes_per(unit.trim())?)?;
        (i64::try_from(bytes).is_ok()).then_some(Self(bytes))
    }

    pub const fn from_mebibytes(mebibytes: u64) -> Self {
        Self(mebibytes * MIB)
    }

    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Returns whole MiB, rounded down, as pods request memory.
    pub fn mebibytes(self) -> u64 {
        self.0 / MIB
    }
}

impl std::fmt::Display for MemorySize {
    /// Writes the size as Flink does, in the largest unit that divides it, such as `2 gb`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [("tb", TIB), ("gb", GIB), ("mb", MIB), ("kb", KIB)];
        let (unit, size) = units
            .into_iter()
            .find(|(_, size)| self.0 != 0 && self.0.is_multiple_of(*size))
            .unwrap_or(("bytes", 1));
        write!(f, "{} {unit}", self.0 / size)
    }
}

fn bytes_per(unit: &str) -> Option<u64> {
    Some(match unit.to_lowercase().as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "kb" | "kibibytes" => KIB,
        "m" | "mb" | "mebibytes" => MIB,
        "g" | "gb" | "gibibytes" => GIB,
        "t" | "tb" | "tebibytes" => TIB,
        _ => return None,
    })
}

/// Memory as a resource specifies it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatedMemory {
    /// Written in Flink's syntax.
    Flink(MemorySize),
    /// Written as a Kubernetes quantity.
    Kubernetes(MemorySize),
}

impl StatedMemory {
    /// Parses Flink's syntax, otherwise a whole number of bytes as a Kubernetes quantity, ignoring blanks and the case
    /// of letters. Fractions such as `1.5Gi` are rejected, as upstream.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(size) = MemorySize::parse(text) {
            return Some(Self::Flink(size));
        }
        let mut compact: String = text.split_whitespace().collect::<String>().to_uppercase();
        if compact.ends_with('B') {
            compact.pop();
        }
        let mended = compact.replace('I', "i").replace('K', "k").replace("ki", "Ki");
        let (whole, fraction) = mended.split_once('.').unwrap_or((&mended, ""));
        // `1e9` as a bare number arrives as `1000000000.0`.
        if whole.is_empty() || (mended.contains('.') && fraction != "0") {
            return None;
        }
        quantity::parse_whole(&mended.replace(".0", ""))
            .map(|bytes| Self::Kubernetes(MemorySize(bytes)))
    }

    pub fn size(self) -> MemorySize {
        match self {
            Self::Flink(size) | Self::Kubernetes(size) => size,
        }
    }

    /// Returns the size for the Flink configuration: Flink's form keeps its unit, a quantity becomes plain bytes.
    pub fn config_text(self) -> String {
        match self {
            Self::Flink(size) => size.to_string(),
            Self::Kubernetes(size) => size.bytes().to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
