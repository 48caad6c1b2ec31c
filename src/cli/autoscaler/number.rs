//! Figures that may be infinite or unknown.

use serde::{Serialize, Serializer};

use crate::cli::table::NONE;
use autoscaler::rate::two_decimals;

/// A figure; in JSON a number, `"Infinity"`, or null if unknown.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Number(pub(in crate::cli) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_nan() {
            serializer.serialize_none()
        } else if self.0.is_infinite() {
            serializer.serialize_str("Infinity")
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// Formats a figure for people.
pub(in crate::cli) fn shown(number: f64) -> String {
    if number.is_nan() {
        NONE.to_owned()
    } else if number.is_infinite() {
        "∞".to_owned()
    } else {
        two_decimals(number)
    }
}
