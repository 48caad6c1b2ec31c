//! Two of the checkers, as functions of what was seen: no start from older state, and no resource without a word.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// For how many seconds a resource whose spec is not carried out may show neither a change nor a reason: the longest wait
/// that the operator takes for normal with the options of these jobs, and time for the status to say so.
pub(super) const SILENT_MAX: f64 = 330.0;
/// The same for a resource whose only word is the state of its job or JobManager.
const STATE_ONLY_MAX: f64 = 660.0;

/// A checkpoint that Flink completed, or restored; times in milliseconds, as Flink gives them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Checkpoint {
    pub(super) id: u64,
    pub(super) at: u64,
}

/// What is known about a start.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Start {
    /// It was seen before.
    Known,
    Newest,
    /// This was durable before, and is newer.
    OlderThan(Checkpoint),
}

/// The state of a job over all its starts. Ids of checkpoints grow from start to start, since each start continues from
/// the id that it restored.
#[derive(Default)]
pub(super) struct Lineage {
    completed: Vec<Checkpoint>,
    restored: Vec<Checkpoint>,
}

impl Lineage {
    /// Adds a completed checkpoint; returns whether it is new. Savepoints are not counted: Flink does not restore one
    /// that nobody names, and none of its effects is committed.
    pub(super) fn complete(&mut self, checkpoint: Checkpoint) -> bool {
        let is_new = !self.completed.contains(&checkpoint);
        if is_new {
            self.completed.push(checkpoint);
        }
        is_new
    }

    /// Adds a start from a checkpoint or savepoint.
    pub(super) fn restore(&mut self, restored: Checkpoint) -> Start {
        if self.restored.contains(&restored) {
            return Start::Known;
        }
        self.restored.push(restored);
        let before = self.completed.iter().filter(|it| it.at < restored.at);
        let newest = before.max_by_key(|it| it.id).copied();
        newest.filter(|newest| newest.id > restored.id).map_or(Start::Newest, Start::OlderThan)
    }

    /// Returns completed checkpoints whose number is lower than that of one before: their job started from older state,
    /// or from none, which `restore` does not see.
    pub(super) fn went_back(&self) -> Vec<Checkpoint> {
        let mut by_time = self.completed.clone();
        by_time.sort_by_key(|it| it.at);
        let mut highest = 0;
        by_time.retain(|it| {
            let is_lower = it.id < highest;
            highest = highest.max(it.id);
            is_lower
        });
        by_time
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        (self.completed.len(), self.restored.len())
    }
}

/// For how long each resource has shown neither a change nor a reason although its spec is not carried out.
#[derive(Default)]
pub(super) struct Silences {
    now: BTreeMap<String, Silence>,
    longest: BTreeMap<String, f64>,
    too_long: BTreeSet<String>,
}

struct Silence {
    status: String,
    seconds: f64,
    looked_at: f64,
}

impl Silences {
    /// Takes a look at a resource, in seconds since the beginning. Returns for how long it has been silent if that has
    /// just become too long. Time in which the operator cannot write does not count.
    pub(super) fn inspect(
        &mut self,
        now: f64,
        name: &str,
        resource: &Value,
        is_mute: bool,
    ) -> Option<f64> {
        if is_carried_out(resource) || shows_text(resource) {
            self.now.remove(name);
            return None;
        }
        let status = resource["status"].to_string();
        let new = || Silence { status: status.clone(), seconds: 0.0, looked_at: now };
        let silence = self.now.entry(name.to_owned()).or_insert_with(new);
        if silence.status != status {
            *silence = new();
        }
        silence.seconds += if is_mute { 0.0 } else { now - silence.looked_at };
        silence.looked_at = now;
        let longest = self.longest.entry(name.to_owned()).or_default();
        *longest = silence.seconds.max(*longest);
        let limit = if has_state(resource) { STATE_ONLY_MAX } else { SILENT_MAX };
        let is_new = silence.seconds >= limit && self.too_long.insert(name.to_owned());
        is_new.then_some(silence.seconds)
    }

    /// Forgets a resource that is gone.
    pub(super) fn keep_only(&mut self, names: &[String]) {
        self.now.retain(|name, _| names.contains(name));
    }

    pub(super) fn longest(&self) -> &BTreeMap<String, f64> {
        &self.longest
    }
}

/// Whether the newest spec is in force and its job does what it says.
pub(super) fn is_carried_out(resource: &Value) -> bool {
    let (spec, status) = (&resource["spec"], &resource["status"]);
    if resource["metadata"]["deletionTimestamp"].is_string() {
        return false;
    }
    let is_seen = status["observedGeneration"] == resource["metadata"]["generation"];
    let is_running = status["jobStatus"]["state"] == "RUNNING";
    let wants = |spec: &Value| spec["job"]["state"] != "suspended";
    let lifecycle = status["lifecycleState"].as_str().unwrap_or_default();
    match resource["kind"].as_str().unwrap_or_default() {
        "FlinkStateSnapshot" => ["COMPLETED", "FAILED", "ABANDONED"]
            .contains(&status["state"].as_str().unwrap_or_default()),
        "FlinkBlueGreenDeployment" => {
            let wanted = wants(&spec["template"]["spec"]);
            let state = status["blueGreenState"].as_str().unwrap_or_default();
            let is_at_rest = state.starts_with("ACTIVE_") && status["error"].is_null();
            is_at_rest && is_running == wanted && is_recorded(resource)
        }
        _ if !wants(spec) => is_seen && lifecycle == "SUSPENDED",
        _ if spec["job"].is_null() => {
            is_seen && lifecycle == "STABLE" && status["jobManagerDeploymentStatus"] == "READY"
        }
        _ => is_seen && lifecycle == "STABLE" && is_running,
    }
}

/// Whether a blue/green deployment, which has no `observedGeneration`, has taken up its spec.
fn is_recorded(resource: &Value) -> bool {
    let recorded = resource["status"]["lastReconciledSpec"].as_str().unwrap_or_default();
    let recorded: Value = serde_json::from_str(recorded).unwrap_or_default();
    let [wanted, recorded] = [resource, &recorded].map(|it| &it["spec"]["template"]["spec"]);
    ["/image", "/restartNonce", "/job/parallelism"]
        .iter()
        .all(|field| wanted.pointer(field) == recorded.pointer(field))
}

/// Whether the status says what is waited for: in its error, or in a condition other than `Running`.
fn shows_text(resource: &Value) -> bool {
    let error = resource["status"]["error"].as_str().is_some_and(|error| !error.is_empty());
    error
        || messages(resource)
            .any(|(kind, status)| kind != "Running" && (status != "True" || kind == "Progressing"))
}

/// Whether the condition `Running` says in which state the job or the JobManager is instead.
fn has_state(resource: &Value) -> bool {
    messages(resource).any(|(kind, status)| kind == "Running" && status != "True")
}

/// Returns type and status of each condition with a message.
fn messages(resource: &Value) -> impl Iterator<Item = (&str, &str)> {
    let conditions = resource["status"]["conditions"].as_array().into_iter().flatten();
    let with_message =
        conditions.filter(|it| it["message"].as_str().is_some_and(|it| !it.is_empty()));
    with_message.filter_map(|it| Some((it["type"].as_str()?, it["status"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checkpoint(id: u64, at: u64) -> Checkpoint {
        Checkpoint { id, at }
    }

    #[test]
    fn a_start_from_older_state_is_found() {
        let mut lineage = Lineage::default();
        assert!(lineage.complete(checkpoint(1, 10)) && lineage.complete(checkpoint(2, 20)));
        assert!(!lineage.complete(checkpoint(2, 20)));
        assert_eq!(lineage.restore(checkpoint(2, 30)), Start::Newest);
        assert_eq!(lineage.restore(checkpoint(2, 30)), Start::Known);
        // A savepoint of the stop is newer than any checkpoint.
        assert_eq!(lineage.restore(checkpoint(3, 40)), Start::Newest);
        assert_eq!(lineage.restore(checkpoint(1, 50)), Start::OlderThan(checkpoint(2, 20)));
        assert!(lineage.went_back().is_empty());
        lineage.complete(checkpoint(2, 60));
        lineage.complete(checkpoint(1, 70));
        assert_eq!(lineage.went_back(), [checkpoint(1, 70)]);
        assert_eq!(lineage.counts(), (4, 3));
    }

    fn deployment(state: &str, error: Option<&str>) -> Value {
        json!({
            "kind": "FlinkDeployment",
            "metadata": {"generation": 2},
            "spec": {"job": {"state": "running"}},
            "status": {
                "observedGeneration": 2,
                "lifecycleState": state,
                "error": error,
                "jobStatus": {"state": "RUNNING"},
            },
        })
    }

    #[test]
    fn a_resource_without_a_word_is_found() {
        let mut silences = Silences::default();
        let mut inspect =
            |now, resource: &Value, is_mute| silences.inspect(now, "a", resource, is_mute);
        assert_eq!(inspect(0.0, &deployment("STABLE", None), false), None);
        assert_eq!(inspect(1.0, &deployment("UPGRADING", None), false), None);
        assert_eq!(inspect(100.0, &deployment("UPGRADING", None), false), None);
        // Another state, a reason, and an operator that cannot write.
        assert_eq!(inspect(400.0, &deployment("DEPLOYED", None), false), None);
        assert_eq!(inspect(729.0, &deployment("DEPLOYED", Some("why")), false), None);
        assert_eq!(inspect(730.0, &deployment("DEPLOYED", None), false), None);
        assert_eq!(inspect(930.0, &deployment("DEPLOYED", None), false), None);
        assert_eq!(inspect(1230.0, &deployment("DEPLOYED", None), true), None);
        assert_eq!(inspect(1330.0, &deployment("DEPLOYED", None), false), None);
        assert_eq!(inspect(1360.0, &deployment("DEPLOYED", None), false), Some(330.0));
        assert_eq!(inspect(1361.0, &deployment("DEPLOYED", None), false), None);
    }

    #[test]
    fn a_spec_that_nobody_has_seen_is_not_carried_out() {
        let mut resource = deployment("STABLE", None);
        assert!(is_carried_out(&resource));
        resource["metadata"]["generation"] = json!(3);
        assert!(!is_carried_out(&resource));
        resource["metadata"]["generation"] = json!(2);
        resource["spec"]["job"]["state"] = json!("suspended");
        assert!(!is_carried_out(&resource));
        resource["status"]["lifecycleState"] = json!("SUSPENDED");
        assert!(is_carried_out(&resource));
    }
}
