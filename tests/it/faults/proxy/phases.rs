//! Checks that each status that an operator stores has a phase that may follow the previous one.

use std::collections::BTreeMap;

use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use lifecycle::phase::Phase;
use serde_json::Value;

#[derive(Default)]
pub(super) struct Stored {
    /// By uid.
    pub(super) last: BTreeMap<String, Phase>,
    pub(super) broken: Vec<String>,
}

impl Stored {
    /// Records the object with which the API server answered a write of its status.
    pub(super) fn note(&mut self, object: &[u8]) {
        let Ok(object) = serde_json::from_slice::<Value>(object) else { return };
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let (uid, name) = (uid.to_owned(), object["metadata"]["name"].to_string());
        let phase = match object["kind"].as_str() {
            Some("FlinkDeployment") => {
                let read = serde_json::from_value::<FlinkDeployment>(object).unwrap();
                Phase::of::<FlinkDeployment>(&read.status.unwrap_or_default())
            }
            Some("FlinkSessionJob") => {
                let read = serde_json::from_value::<FlinkSessionJob>(object).unwrap();
                Phase::of::<FlinkSessionJob>(&read.status.unwrap_or_default())
            }
            _ => return,
        };
        match self.last.insert(uid, phase) {
            Some(before) if !before.may_lead_to(phase) => {
                self.broken.push(format!("a status of {name} led from {before:?} to {phase:?}"));
            }
            // The phase before the first write is unknown.
            Some(_) | None => {}
        }
    }
}
