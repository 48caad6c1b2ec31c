//! From which phase a pass may lead to which.

use lifecycle::phase::Phase;

/// Panics where a pass stored a phase that does not follow the one before.
pub(crate) fn assert_follows(before: Phase, after: Phase) {
    assert!(before.may_lead_to(after), "a pass led from {before:?} to {after:?}");
}
