//! The end of a case, described in words that are the same in every run: the objects, what the job was started from
//! each time, and what is in the store. State is named after the start that saved it, wherever its path appears.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::proxy::{Admission, Recorded};
use super::stage::Stage;
use crate::support::fake_flink::Cluster;
use crate::support::patience::PATIENCE;

/// Polling interval while waiting for the garbage collector.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(200);

const KINDS: [&str; 10] = [
    "FlinkBlueGreenDeployment",
    "FlinkDeployment",
    "FlinkSessionJob",
    "FlinkStateSnapshot",
    "Deployment",
    "ConfigMap",
    "Service",
    "Ingress",
    "Secret",
    "ControllerRevision",
];

/// Fields that the API server and others write into our objects.
const FOREIGN: [&str; 11] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "internalTrafficPolicy",
];

/// Describes the end of the case on this stage.
pub(super) async fn of(stage: &Stage, clusters: &[&str]) -> String {
    until_collected(stage).await;
    for cluster in clusters {
        // What Flink has still to write.
        stage.ground.world.keep_metadata(&stage.namespace, cluster).await;
    }
    let names = names(stage, clusters);
    let mut lines = Vec::new();
    for kind in KINDS {
        let objects = stage.api(kind).list(&ListParams::default()).await.unwrap();
        let mut texts: Vec<String> = objects
            .items
            .into_iter()
            .filter(|object| object.metadata.name.as_deref() != Some("kube-root-ca.crt"))
            .map(|object| {
                let mut value = serde_json::to_value(&object).unwrap();
                strip(&mut value);
                if kind == "Deployment" {
                    value["status"] = Value::Null;
                }
                if kind == "FlinkStateSnapshot" {
                    drop_labels_of_gone_job(&mut value, &lines);
                }
                if value["status"]["lifecycleState"] == "ROLLED_BACK" {
                    // The message describes what was seen when the spec was given up, which depends on timing. Only
                    // whether it gives a reason is compared.
                    let error = value["status"]["error"].as_str().unwrap_or_default();
                    let tells = error.contains("is rolled back: ");
                    value["status"]["error"] = if tells { "why" } else { error }.into();
                    // They repeat the error.
                    let conditions = value["status"]["conditions"].as_array_mut();
                    for condition in conditions.into_iter().flatten() {
                        condition["message"] = Value::Null;
                    }
                }
                let text = named(&format!("{kind} {value:#}"), &names);
                let text = plain(&text.replace(&stage.namespace, "NAMESPACE"));
                if kind == "FlinkBlueGreenDeployment" {
                    // Whether the refusal is still mentioned when a target's time is up depends on timing.
                    return text.replace(": the API server rejected the object: injected", "");
                }
                text
            })
            .collect();
        texts.sort();
        lines.extend(texts);
    }
    lines.extend(pods(stage).await);
    let running = stage.ground.world.job_managers(&stage.namespace);
    lines.push(format!("JobManagers that run: {running}"));
    for cluster in clusters {
        let key = format!("{}/{cluster}", stage.namespace);
        lines.extend(stage.ground.world.flink().with(&key, |cluster| {
            let mut lines = Vec::new();
            for start in &cluster.starts {
                // A restart of the same job gets another line than the start of another job.
                let is_again =
                    cluster.starts.iter().filter(|one| one.job_id == start.job_id).count();
                let from = start.restored.as_ref().map_or("nothing", |(path, _)| path);
                let from = plain(&named(from, &names));
                lines.push(format!("a job of {is_again} starts began from {from}"));
            }
            let mut states: Vec<&str> = cluster.jobs.values().map(|job| &*job.state).collect();
            states.sort_unstable();
            lines.push(format!("jobs: {}", states.join(", ")));
            let taken = cluster.jobs.values().flat_map(|job| &job.checkpoints);
            let taken = taken.filter(|one| one.kind != "CHECKPOINT").map(|one| &one.path);
            let stored = cluster.stored.keys().filter(|path| path.contains("savepoint-"));
            let savepoints = taken.chain(stored).filter(|path| !cluster.is_disposed(path));
            let mut savepoints: Vec<String> =
                savepoints.map(|path| plain(&named(path, &names))).collect();
            savepoints.sort();
            lines.push(format!("savepoints in the store: {}", savepoints.join(", ")));
            lines
        }));
    }
    check_jars(stage, clusters);
    Admission::undone(&lines.join("\n").replace(&stage.namespace, "NAMESPACE"))
}

/// Drops the labels of a snapshot whose job is gone. A snapshot has its job's labels while the job is found; whether it
/// was found at the last look depends on timing.
fn drop_labels_of_gone_job(snapshot: &mut Value, before: &[String]) {
    let reference = &snapshot["spec"]["jobReference"];
    let kind = reference["kind"].as_str().unwrap_or_default();
    let name = format!("\"name\": {}", reference["name"]);
    let is_there = before.iter().any(|text| text.starts_with(kind) && text.contains(&name));
    if let (false, Some(labels)) = (is_there, snapshot["metadata"]["labels"].as_object_mut()) {
        labels.retain(|key, _| !key.starts_with("job-reference."));
    }
}

/// Waits for the garbage collector, which learns of a kind's objects half a minute after its definition is installed,
/// and retries what it missed until then with growing pauses.
async fn until_collected(stage: &Stage) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let mut all = Vec::new();
        for kind in KINDS.iter().chain(&["Pod"]) {
            all.extend(stage.api(kind).list(&ListParams::default()).await.unwrap().items);
        }
        let stored: BTreeSet<String> = all.iter().filter_map(ResourceExt::uid).collect();
        let is_orphan = |object: &DynamicObject| {
            let owners = object.owner_references();
            !owners.is_empty() && owners.iter().all(|owner| !stored.contains(&owner.uid))
        };
        if !all.iter().any(is_orphan) {
            return;
        }
        sleep(POLL_EVERY).await;
    }
}

/// Checks that no more jars are left than can be excused. A jar is deleted after it was run; one remains until the
/// JobManager ends if the operator is killed in between or never gets the answer to its upload.
fn check_jars(stage: &Stage, clusters: &[&str]) {
    let jars = |cluster: &&str| {
        let key = format!("{}/{cluster}", stage.namespace);
        stage.ground.world.flink().with(&key, |cluster| cluster.uploaded())
    };
    let left = clusters.iter().map(jars).sum::<usize>();
    let is_unheard = |one: &&Recorded| one.fault.is_some() && one.asked.path.contains("/jars/");
    let unheard = stage.proxy.recorded().iter().filter(is_unheard).count();
    let excused = stage.operator.starts() - 1 + unheard;
    assert!(left <= excused, "{}", stage.described(&format!("{left} uploaded jars are left")));
}

/// Returns paths and their names, the longest path first because one may be a prefix of another.
fn names(stage: &Stage, clusters: &[&str]) -> Vec<(String, String)> {
    let of_cluster = |cluster: &&str| {
        let key = format!("{}/{cluster}", stage.namespace);
        let names = stage.ground.world.flink().with(&key, Cluster::names);
        let called = |(path, name)| (path, format!("{name} of {cluster}"));
        names.into_iter().map(called).collect::<Vec<_>>()
    };
    let mut names: Vec<(String, String)> = clusters.iter().flat_map(of_cluster).collect();
    names.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    names
}

fn named(text: &str, names: &[(String, String)]) -> String {
    names.iter().fold(text.to_owned(), |text, (path, name)| text.replace(path, name))
}

/// Describes the pods, without what depends on their nodes.
async fn pods(stage: &Stage) -> Vec<String> {
    let pods = stage.api("Pod").list(&ListParams::default()).await.unwrap();
    let pods = pods.items.iter().map(|pod| {
        let app = pod.metadata.labels.as_ref().and_then(|labels| labels.get("app"));
        let phase = &pod.data["status"]["phase"];
        let ends = pod.metadata.deletion_timestamp.as_ref().map_or("", |_| ", ends");
        format!("Pod of {app:?}: {phase}{ends}")
    });
    let mut pods: Vec<String> = pods.collect();
    pods.sort();
    pods
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => strip_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn strip_fields(fields: &mut Map<String, Value>) {
    fields.retain(|key, _| !FOREIGN.contains(&key.as_str()));
    if fields.contains_key("deletionTimestamp") {
        fields.insert("deletionTimestamp".to_owned(), "set".into());
    }
    fields.values_mut().for_each(strip);
}

/// Replaces ids, times and running numbers with placeholders.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_inside =
            plain.chars().next_back().is_some_and(|before| before.is_ascii_alphanumeric());
        let found = if is_inside {
            None
        } else {
            PATTERNS.iter().find_map(|(pattern, name)| Some((matched(rest, pattern)?, name)))
        };
        if let Some((length, name)) = found {
            plain.push_str(name);
            rest = &rest[length..];
        } else {
            plain.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    plain
}

/// Patterns and their placeholders: `x` is a hex digit, `9` a digit, `*` any number of digits; other characters match
/// themselves. The longest come first.
const PATTERNS: [(&str, &str); 10] = [
    ("checkpointID-*", "checkpointID-NUMBER"),
    ("savepoint-xxxxxx-xxxxxxxxxxxx", "savepoint-PATH"),
    ("manual-xxxxxxxx-", "manual-UID-"),
    ("9999-99-99T99:99:99", "TIME"),
    ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "UUID"),
    ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ID"),
    ("9999999999999", "MILLIS"),
    ("chk-*", "chk-NUMBER"),
    ("checkpointId\": *", "checkpointId\": NUMBER"),
    ("counter\": \"*", "counter\": \"NUMBER"),
];

/// Returns the length of the text that the pattern matches at the beginning.
fn matched(text: &str, pattern: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for expected in pattern.bytes() {
        if expected == b'*' {
            at += bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            continue;
        }
        let byte = *bytes.get(at)?;
        let fits = match expected {
            b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            b'9' => byte.is_ascii_digit(),
            other => byte == other,
        };
        if !fits {
            return None;
        }
        at += 1;
    }
    // Fractions of a second, and the zone.
    if pattern.contains('T') {
        at += bytes[at..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    }
    Some(at)
}
