//! Asks every JobManager which checkpoints it has completed and from which it has started.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::check::{Checkpoint, Lineage, Start};
use super::colours::Colours;
use super::stage::Stage;

const POLL_EVERY: Duration = Duration::from_secs(2);
const CLUSTERS: [&str; 5] = ["native", "standalone", "lab", "colours-blue", "colours-green"];

/// What was seen until the end.
#[derive(Default)]
pub(super) struct Checkpoints {
    pub(super) lineages: BTreeMap<String, Lineage>,
    /// Starts from state that was older than what was durable.
    pub(super) older: Vec<String>,
}

impl Checkpoints {
    pub(super) fn watch(mut self, stage: &Stage, colours: &Colours, is_over: &AtomicBool) -> Self {
        while !is_over.load(Ordering::Relaxed) {
            for cluster in CLUSTERS {
                self.inspect(stage, colours, cluster);
            }
            thread::sleep(POLL_EVERY);
        }
        for (name, lineage) in &self.lineages {
            let went_back = lineage.went_back();
            if !went_back.is_empty() {
                self.older.push(format!("{name}: checkpoints {went_back:?} follow higher ones"));
            }
        }
        self
    }

    fn inspect(&mut self, stage: &Stage, colours: &Colours, cluster: &str) {
        let uid =
            if cluster.starts_with("colours") { colours.uid(cluster) } else { Some(String::new()) };
        let Some(uid) = uid else { return };
        let name = if uid.is_empty() { cluster.to_owned() } else { format!("{cluster}/{uid}") };
        let Ok(jobs) = rest(stage, cluster, "/jobs") else { return };
        for job in jobs["jobs"].as_array().into_iter().flatten() {
            let id = job["id"].as_str().unwrap_or_default();
            let Ok(statistics) = rest(stage, cluster, &format!("/jobs/{id}/checkpoints")) else {
                continue;
            };
            self.restored(stage, colours, (&name, id), &statistics["latest"]["restored"]);
            let history = statistics["history"].as_array().into_iter().flatten();
            for one in
                history.filter(|it| it["status"] == "COMPLETED" && it["is_savepoint"] == false)
            {
                self.completed(stage, colours, (&name, &uid, id), one);
            }
        }
    }

    fn completed(
        &mut self,
        stage: &Stage,
        colours: &Colours,
        (name, uid, job): (&str, &str, &str),
        one: &Value,
    ) {
        let (Some(id), Some(at)) = (one["id"].as_u64(), one["latest_ack_timestamp"].as_u64())
        else {
            return;
        };
        let lineage = self.lineages.entry(name.to_owned()).or_default();
        if lineage.complete(Checkpoint { id, at }) {
            colours.complete(uid, id);
            let details = json!({"id": id, "at": at, "job": job, "path": one["external_path"]});
            stage.history.note("completed", name, details);
        }
    }

    fn restored(
        &mut self,
        stage: &Stage,
        colours: &Colours,
        (name, job): (&str, &str),
        one: &Value,
    ) {
        let (Some(id), Some(at)) = (one["id"].as_u64(), one["restore_timestamp"].as_u64()) else {
            return;
        };
        let is_first = self.lineages.get(name).is_none_or(|it| it.counts() == (0, 0));
        let lineage = self.lineages.entry(name.to_owned()).or_default();
        let newer = match lineage.restore(Checkpoint { id, at }) {
            Start::Known => return,
            Start::Newest => None,
            Start::OlderThan(newer) => Some(newer.id),
        };
        let floor = colours.floor().filter(|_| is_first && name.contains('/'));
        let details = json!({
            "id": id, "at": at, "job": job, "path": one["external_path"],
            "newer": newer, "floor": floor,
        });
        if newer.is_some() || floor.is_some_and(|floor| floor > id) {
            self.older.push(format!("{name}: {details}"));
            stage.history.emit("older", name, details);
        } else {
            stage.history.note("restored", name, details);
        }
    }
}

/// Returns an answer of a JobManager.
fn rest(stage: &Stage, cluster: &str, path: &str) -> Result<Value, String> {
    let namespace = &stage.cluster.namespace;
    let uri = format!("/api/v1/namespaces/{namespace}/services/{cluster}-rest:8081/proxy{path}");
    let request = http::Request::get(uri).body(Vec::new()).map_err(|error| error.to_string())?;
    stage.ask(stage.cluster.client().request(request))
}
