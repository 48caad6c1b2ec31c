//! Finds resources that were deleted while nothing watched: a watch that starts again lists those that exist, and has
//! no event for the others.

use std::collections::HashMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;

use super::kind::{Guarded, Operated};

/// What the store held when a list began and the list has not shown yet, by uid.
pub(super) struct Unlisted<K: Operated>(HashMap<String, Arc<Guarded<K>>>);

impl<K: Operated> Unlisted<K> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Follows the events of a watch, each once the store has it, and returns at the end of a list what is gone.
    pub(super) fn follow(
        &mut self,
        event: &watcher::Event<Guarded<K>>,
        store: &Store<Guarded<K>>,
    ) -> Vec<Arc<Guarded<K>>> {
        match event {
            watcher::Event::Init => {
                let known = store.state().into_iter();
                self.0 = known.map(|known| (known.uid().unwrap_or_default(), known)).collect();
            }
            watcher::Event::InitApply(listed) => {
                self.0.remove(&listed.uid().unwrap_or_default());
            }
            watcher::Event::InitDone => return std::mem::take(&mut self.0).into_values().collect(),
            watcher::Event::Apply(_) | watcher::Event::Delete(_) => {}
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use kube::runtime::reflector::store;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use api::deployment::FlinkDeployment;

    fn deployment(uid: &str) -> Guarded<FlinkDeployment> {
        let metadata = json!({"name": uid, "namespace": "shop", "uid": uid});
        let object = json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": metadata, "spec": {},
        });
        DeserializeGuard(Ok(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn what_a_new_list_does_not_show_is_gone() {
        let (store, mut writer) = store();
        let mut unlisted = Unlisted::new();
        let mut gone_after = |events: Vec<Event<Guarded<FlinkDeployment>>>| {
            let mut gone = Vec::new();
            for event in events {
                writer.apply_watcher_event(&event);
                gone.extend(unlisted.follow(&event, &store));
            }
            gone.iter().map(|gone| gone.uid().unwrap()).collect::<Vec<_>>()
        };
        let list = |uids: &[&str]| {
            let listed = uids.iter().map(|uid| Event::InitApply(deployment(uid)));
            std::iter::once(Event::Init).chain(listed).chain([Event::InitDone]).collect()
        };
        assert!(gone_after(list(&["a", "b"])).is_empty(), "nothing was known");
        assert!(gone_after(vec![Event::Apply(deployment("c"))]).is_empty());
        let [mut first, second]: [Vec<_>; 2] = [list(&["b"]), list(&["b", "d"])];
        // The list is cut off and begins again.
        first.pop();
        let mut gone = gone_after(first.into_iter().chain(second).collect());
        gone.sort();
        assert_eq!(gone, ["a", "c"]);
        assert!(gone_after(list(&["b", "d"])).is_empty(), "it is told once");
    }
}
