//! Laws about the requests that an operator made.

use super::proxy::Recorded;

/// Writes of the same object in a row that no decision needs, where nothing went wrong between them: a pass
/// that failed is made again from its beginning.
const SAME_WRITES_MAX: usize = 3;

/// What the record shows that must not be.
pub(super) fn broken_in(recorded: &[Recorded]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut repeated: (usize, String) = (0, String::new());
    for one in recorded {
        // One without a status got no answer in time.
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
