//! What keeps the jobs of a cluster where they are, or lets them fail there.

use std::collections::BTreeSet;

/// `hold-PLACE` and `fail-PLACE`, as the scripted job of the conformance tests reads them from a folder: the places are
/// `main`, `graph`, `open`, `record`, `snapshot`, `notify` and `close`.
#[derive(Debug, Default)]
pub(crate) struct Gates(BTreeSet<String>);

impl Gates {
    pub(crate) fn set(&mut self, gate: &str, is_set: bool) {
        if is_set {
            self.0.insert(gate.to_owned());
        } else {
            self.0.remove(gate);
        }
    }

    pub(super) fn hold(&self, place: &str) -> bool {
        self.0.contains(&format!("hold-{place}"))
    }

    pub(super) fn fail(&self, place: &str) -> bool {
        self.0.contains(&format!("fail-{place}"))
    }
}
