//! Edits of the resources, as any client can make them, and a good spec for all of them at the end.

use std::thread;
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::faults::{Heal, until_done};
use super::plan::{Edit, Target};
use super::stage::{BAD_IMAGE, Stage};

/// For how long an edit is tried while the API server does not take it.
const TRIES: Duration = Duration::from_secs(20);
pub(super) const HOT: &str = "kubernetes.operator.job.upgrade.hot.enabled";

pub(super) fn make<'a>(stage: &'a Stage, target: Target, edit: &Edit) -> Result<Heal<'a>, String> {
    if let Edit::Snapshot(number) = edit {
        return snapshot(stage, target, *number).map(|()| Box::new(|| ()) as Heal<'a>);
    }
    let (spec, back) = change(edit, &stage.image);
    let start = Instant::now();
    while let Err(error) = stage.edit(target, &spec) {
        if start.elapsed() >= TRIES {
            return Err(error);
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(Box::new(move || {
        if let Some(back) = back {
            until_done("an edit taken back", || stage.edit(target, &back));
        }
    }))
}

/// Returns what changes in the spec, and how that is taken back.
fn change(edit: &Edit, image: &str) -> (Value, Option<Value>) {
    let options = |key: &str, value: String| json!({"flinkConfiguration": {key: value}});
    match edit {
        Edit::Parallelism(number) => (json!({"job": {"parallelism": number}}), None),
        Edit::UpgradeMode(mode) => (json!({"job": {"upgradeMode": mode}}), None),
        Edit::Option(pause) => {
            (options("execution.checkpointing.min-pause", format!("{pause} ms")), None)
        }
        Edit::RestartNonce(nonce) => (json!({"restartNonce": nonce}), None),
        Edit::Hot(is_hot) => (options(HOT, is_hot.to_string()), None),
        Edit::SavepointNonce(nonce) => (json!({"job": {"savepointTriggerNonce": nonce}}), None),
        Edit::Suspend => {
            let state = |state: &str| json!({"job": {"state": state}});
            (state("suspended"), Some(state("running")))
        }
        Edit::BadImage => (json!({"image": BAD_IMAGE}), Some(json!({"image": image}))),
        Edit::Snapshot(_) => (json!({}), None),
    }
}

fn snapshot(stage: &Stage, target: Target, number: u64) -> Result<(), String> {
    let name = format!("{}-{number}", target.name());
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkStateSnapshot",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 3,
            "jobReference": {"kind": target.kind(), "name": target.name()},
            "savepoint": {},
        },
    }))
    .map_err(|error| error.to_string())?;
    let snapshots = stage.cluster.resources("FlinkStateSnapshot");
    stage.ask(snapshots.create(&PostParams::default(), &object)).map(drop)
}

/// Gives everything a spec that can run, all at once. A new nonce has a blue/green deployment try again what it gave up.
pub(super) fn mend(stage: &Stage) {
    for target in Target::ALL {
        let mut spec = json!({"restartNonce": 1_000_000});
        if target != Target::Session {
            spec["image"] = json!(stage.image);
        }
        if target != Target::Lab {
            spec["job"] = json!({"state": "running", "upgradeMode": "savepoint"});
        }
        until_done("a good spec", || stage.edit(target, &spec));
        stage.history.emit("mended", target.name(), spec);
    }
}
