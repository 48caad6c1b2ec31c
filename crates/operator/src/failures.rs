//! Counts how often passes over a resource failed in a row, which determines the pause before the next one.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use kube::ResourceExt;
use kube::runtime::reflector::Store;

use super::context::lock;
use super::kind::{Guarded, Operated};

/// Consecutive errors by uid, of no more resources than are known.
pub(super) struct Failures<K: Operated> {
    counts: Mutex<HashMap<String, u32>>,
    known: Store<Guarded<K>>,
}

impl<K: Operated> Failures<K> {
    pub(super) fn of(known: Store<Guarded<K>>) -> Self {
        Self { counts: Mutex::default(), known }
    }

    /// Adds a failure of this resource; returns how many there are.
    pub(super) fn add(&self, resource: &Guarded<K>) -> u32 {
        let mut counts = lock(&self.counts);
        if counts.len() > self.known.len() {
            // Some resources were deleted while they failed.
            let known = self.known.state();
            let uids: HashSet<String> = known.iter().filter_map(|one| one.uid()).collect();
            counts.retain(|uid, _| uids.contains(uid));
        }
        let count = counts.entry(resource.uid().unwrap_or_default()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Notes that the last pass over the resource did not fail.
    pub(super) fn end(&self, resource: &Guarded<K>) {
        lock(&self.counts).remove(&resource.uid().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use kube::runtime::reflector::store;
    use kube::runtime::watcher::Event;

    use super::*;
    use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};

    fn deployment(number: u32) -> Guarded<FlinkDeployment> {
        let mut deployment =
            FlinkDeployment::new(&format!("orders-{number}"), FlinkDeploymentSpec::default());
        deployment.metadata.uid = Some(number.to_string());
        DeserializeGuard(Ok(deployment))
    }

    #[test]
    fn errors_in_a_row_are_counted_for_what_is_there() {
        let (store, mut writer) = store();
        let failures = Failures::of(store);
        writer.apply_watcher_event(&Event::Apply(deployment(0)));
        assert_eq!([failures.add(&deployment(0)), failures.add(&deployment(0))], [1, 2]);
        for number in 1..100 {
            // Gone before its last pass ended.
            failures.add(&deployment(number));
        }
        assert!(lock(&failures.counts).len() <= 3, "{:?}", failures.counts);
        assert_eq!(failures.add(&deployment(0)), 3, "it still fails");
        failures.end(&deployment(0));
        assert_eq!(failures.add(&deployment(0)), 1);
    }
}
