//! A plan that stopped at an error, such as a child that the API server rejects.
//!
//! The next plan may stop there, too, and its last status would not be stored. So the error is in each status that it
//! stores on the way, and in one before anything else. It is over with the plan that is carried out.

use api::blue_green::BlueGreenStatus;
use config::secret::hide_in_document;

use crate::plan::{Plan, Step};

/// Begins the error of a status.
const PREFIX: &str = "the last step was not carried out: ";

/// Returns the status with this error, unless it has another one.
pub fn described(status: &BlueGreenStatus, why: &str) -> BlueGreenStatus {
    let mut told = forgotten(status);
    told.error.get_or_insert_with(|| hide_in_document(&format!("{PREFIX}{why}")));
    told
}

/// Returns the status without such an error.
pub(crate) fn forgotten(status: &BlueGreenStatus) -> BlueGreenStatus {
    let mut status = status.clone();
    status.error.take_if(|error| error.starts_with(PREFIX));
    status
}

/// Lets the plan say what stopped the last one before it does anything.
pub(crate) fn report_before(plan: &mut Plan, stored: &BlueGreenStatus, why: &str) {
    for step in &mut plan.steps {
        if let Step::WriteStatus(status) = step {
            **status = described(status, why);
            if is_same(status, stored) {
                (**status).clone_from(stored);
            }
        }
    }
    let first = described(stored, why);
    if first != *stored {
        plan.steps.insert(0, Step::WriteStatus(Box::new(first)));
    }
}

/// Returns true if two statuses differ at most in when they were written.
fn is_same(one: &BlueGreenStatus, other: &BlueGreenStatus) -> bool {
    let last_reconciled_timestamp = other.last_reconciled_timestamp.clone();
    BlueGreenStatus { last_reconciled_timestamp, ..one.clone() } == *other
}
