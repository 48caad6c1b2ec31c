//! When both colours of the blue/green deployment may write, and from which checkpoint the other one must start.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::output::{Marks, Overlap};
use super::plan::Target;
use super::stage::Stage;

#[derive(Default)]
struct State {
    /// Uid of each child.
    uids: BTreeMap<String, String>,
    overlaps: Vec<Overlap>,
    /// Marks when one colour was last there and nothing was under way; none before the first one serves.
    calm: Option<Marks>,
    /// The newest completed checkpoint of the colour that served then.
    calm_checkpoint: u64,
}

#[derive(Default)]
pub(super) struct Colours {
    state: Mutex<State>,
    /// The newest completed checkpoint of each child, by uid.
    newest: Mutex<BTreeMap<String, u64>>,
}

impl Colours {
    /// Takes a look at the resources, with the marks from before they were read and from after.
    pub(super) fn inspect(&self, stage: &Stage, seen: &[Value], before: Marks, after: &Marks) {
        let name = Target::Colours.name();
        let is_child = |it: &&Value| {
            it["kind"] == "FlinkDeployment"
                && it["metadata"]["name"].as_str().is_some_and(|it| it.starts_with(name))
        };
        let children: Vec<&Value> = seen.iter().filter(is_child).collect();
        let is_parent = |it: &&Value| it["kind"] == Target::Colours.kind();
        let Some(parent) = seen.iter().find(is_parent) else { return };
        let phase = parent["status"]["blueGreenState"].as_str().unwrap_or_default();
        let is_calm = phase.starts_with("ACTIVE_") && children.len() <= 1;
        let mut own = self.state.lock().unwrap();
        let uid = |child: &Value| child["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        own.uids = children
            .iter()
            .map(|child| {
                (child["metadata"]["name"].as_str().unwrap_or_default().to_owned(), uid(child))
            })
            .collect();
        let is_open = own.overlaps.last().is_some_and(|it| it.up_to.is_none());
        if is_calm {
            if is_open {
                stage.history.note("calm", name, json!({"marks": after}));
                own.overlaps.last_mut().unwrap().up_to = Some(after.clone());
            }
            own.calm = Some(before);
            let newest = self.newest.lock().unwrap();
            let of_child = children.first().and_then(|child| newest.get(&uid(child)));
            own.calm_checkpoint = of_child.copied().unwrap_or_default();
        } else if let Some(after) = own.calm.clone().filter(|_| !is_open) {
            stage.history.note(
                "transition",
                name,
                json!({"marks": after, "checkpoint": own.calm_checkpoint}),
            );
            own.overlaps.push(Overlap { after, up_to: None });
        }
    }

    /// Returns the uid of a child, if there is one of this name.
    pub(super) fn uid(&self, child: &str) -> Option<String> {
        self.state.lock().unwrap().uids.get(child).cloned()
    }

    /// Notes a completed checkpoint of a child.
    pub(super) fn complete(&self, uid: &str, id: u64) {
        let mut newest = self.newest.lock().unwrap();
        let newest = newest.entry(uid.to_owned()).or_default();
        *newest = id.max(*newest);
    }

    /// Returns the checkpoint that the other colour's first start must not be older than, during a transition.
    pub(super) fn floor(&self) -> Option<u64> {
        let own = self.state.lock().unwrap();
        own.overlaps.last().filter(|it| it.up_to.is_none()).map(|_| own.calm_checkpoint)
    }

    /// Returns how often a record may be there again.
    pub(super) fn promised(&self, key: u64, sequence: u64) -> usize {
        let own = self.state.lock().unwrap();
        own.overlaps.iter().filter(|it| it.has(key, sequence)).count()
    }

    pub(super) fn transitions(&self) -> usize {
        self.state.lock().unwrap().overlaps.len()
    }
}
