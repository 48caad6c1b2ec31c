//! Laws about the requests that an operator makes.

use super::proxy::Recorded;

/// Maximum number of identical writes in a row that no decision calls for and between which nothing went wrong: a pass
/// that failed starts again from its beginning.
const SAME_WRITES_MAX: usize = 3;

/// Returns the violations found in the record.
pub(super) fn broken_in(recorded: &[Recorded]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut repeated: (usize, String) = (0, String::new());
    for one in recorded {
        // No status means that no answer came in time.
        if one.fault.is_some() || one.status.is_none() {
            repeated = (0, String::new());
        }
        let is_taken = one.fault.is_none() && one.status.is_some_and(|status| status < 300);
        if one.asked.write.is_none() || one.asked.is_event() || !is_taken {
            continue;
        }
        let text = format!("{} {} {}", one.asked.method, one.asked.path, one.asked.body);
        repeated = if repeated.1 == text { (repeated.0 + 1, text) } else { (1, text) };
        if repeated.0 == SAME_WRITES_MAX {
            broken.push(format!("the same write again and again: {}", repeated.1));
        }
    }
    broken
}
