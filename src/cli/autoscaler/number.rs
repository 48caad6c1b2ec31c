//! Figures, which may be without a bound, or not known.

use serde::{Serialize, Serializer};

use crate::cli::table::NONE;
use autoscaler::rate::two_decimals;

/// In JSON a number, `"Infinity"`, or null where it is not known.
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

/// For a person.
pub(in crate::cli) fn shown(number: f64) -> String {
    if number.is_nan() {
        NONE.to_owned()
    } else if number.is_infinite() {
        "∞".to_owned()
    } else {
        two_decimals(number)
    }
}
