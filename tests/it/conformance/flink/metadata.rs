//! HA metadata in ConfigMaps, as scripts see it.

use std::fmt::Write;
use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::script::AGAIN;
use crate::support::patience::PATIENCE;

const LOCK: &str = "control-plane.alpha.kubernetes.io/leader";
const OPERATOR: &str = "kubectl-flink-operator";
/// Begins the keys of the addresses that a leader has published.
const LEADER: &str = "org.apache.flink.k8s.leader.";
/// Begins the keys of the graphs of jobs, in Flink 1 and in Flink 2.
const GRAPHS: [&str; 2] = ["jobGraph-", "executionPlan-"];

/// The ConfigMaps of a cluster.
pub(crate) struct Maps {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
}

/// Whether [`Maps::carry_out`] knows the call of a line, so that it does not go to Flink's REST API.
pub(super) fn is_about(line: &str) -> bool {
    let word = line.strip_prefix("until ").unwrap_or(line);
    ["metadata", "keys", "hold", "release", "delete", "kept", "unkept", "forgotten", "led"]
        .contains(&word.split(' ').next().unwrap())
}

impl Maps {
    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// `metadata`, `keys`, `hold` and `release` of the lock by the operator, `delete metadata` and `delete graphs` of a
    /// cluster that has no JobManager, `until kept JOB CHECKPOINT`, `until unkept JOB`, `until forgotten JOB` and
    /// `until led`.
    pub(super) async fn carry_out(&self, words: &[String]) -> String {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let begun = Instant::now();
        match words[..] {
            ["hold"] => self.give_lock(OPERATOR, &GRAPHS).await,
            ["hold", "addresses"] => {
                // The JobManager notices seconds later, and its TaskManagers at once.
                self.await_renewal().await;
                self.give_lock(OPERATOR, &[LEADER]).await;
            }
            ["release"] => self.give_lock("", &[LEADER]).await,
            ["delete", "metadata"] => {
                for map in self.all().await {
                    let now = DeleteParams::default();
                    drop(self.api().delete(&map.name_any(), &now).await.unwrap());
                }
            }
            ["delete", "graphs"] => self.remove(json!({}), &GRAPHS).await,
            ["metadata"] => return self.show(true).await,
            // Without the lock, which a JobManager releases and may take again before it has ended.
            ["keys"] => return self.show(false).await,
            ["until", ..] => {
                while !self.is_so(&words[1..]).await {
                    assert!(
                        begun.elapsed() < PATIENCE,
                        "not so: {words:?}\n{}",
                        self.show(true).await
                    );
                    sleep(AGAIN).await;
                }
            }
            _ => panic!("{words:?}: a call of the scripts"),
        }
        String::new()
    }

    async fn all(&self) -> Vec<ConfigMap> {
        let labels = format!("app={},type=flink-native-kubernetes", self.cluster);
        let mut all = self.api().list(&ListParams::default().labels(&labels)).await.unwrap().items;
        // The ConfigMap of the cluster comes first. The order of names would change with the random ids of jobs.
        all.sort_by_key(|map| !map.name_any().ends_with("-cluster-config-map"));
        all
    }

    async fn is_so(&self, what: &[&str]) -> bool {
        let all = self.all().await;
        let keys = |name: &str| {
            let map = all.iter().find(|map| map.name_any() == format!("{}-{name}", self.cluster));
            let data = map.and_then(|map| map.data.clone()).unwrap_or_default();
            data.into_keys().collect::<Vec<_>>()
        };
        let leaders = keys("cluster-config-map");
        match *what {
            ["kept", job, number] => {
                keys(&format!("{job}-config-map")).contains(&format!("checkpointID-{number:0>19}"))
            }
            ["forgotten", job] => {
                !all.iter().any(|map| map.name_any().contains(job))
                    && !leaders.iter().any(|key| key.ends_with(job))
            }
            // Neither its checkpoints nor the number of the next one.
            ["unkept", job] => keys(&format!("{job}-config-map")).is_empty(),
            // By its dispatcher, its resource manager and its REST server.
            ["led"] => {
                leaders.iter().filter(|key| key.starts_with(LEADER)).count() >= 3
                    && all.iter().any(|map| holder(map.annotations().get(LOCK)) == "a JobManager")
            }
            _ => panic!("{what:?}: what scripts wait for"),
        }
    }

    /// Returns each ConfigMap with its keys, and maybe with its labels and its lock.
    async fn show(&self, with_lock: bool) -> String {
        let mut text = String::new();
        for map in self.all().await {
            let name = map.name_any().replace(&self.cluster, "CLUSTER");
            let labels = map.labels().iter().map(|(key, value)| format!("{key}={value}"));
            let labels = labels.collect::<Vec<_>>().join(" ").replace(&self.cluster, "CLUSTER");
            write!(text, "{name}").unwrap();
            if with_lock {
                write!(text, ": {labels}, {}", show_lock(map.annotations().get(LOCK))).unwrap();
            }
            text.push('\n');
            for (key, value) in map.data.unwrap_or_default() {
                let value = if key == "counter" { format!(": {value}") } else { String::new() };
                writeln!(text, "  {key}{value}").unwrap();
            }
        }
        text
    }

    async fn await_renewal(&self) {
        let begun = Instant::now();
        let read = async || {
            let map = self.api().get(&self.name()).await.unwrap();
            read(map.annotations().get(LOCK)).unwrap()["renewTime"].clone()
        };
        let first = read().await;
        while read().await == first {
            assert!(begun.elapsed() < PATIENCE, "nobody renews the lock");
            sleep(AGAIN).await;
        }
    }

    /// Returns the name of the ConfigMap with the lock.
    fn name(&self) -> String {
        format!("{}-cluster-config-map", self.cluster)
    }

    /// Writes a lock that was renewed now, as the operator does, and removes the keys with these prefixes.
    async fn give_lock(&self, holder: &str, removed: &[&str]) {
        // In Flink's own precision: it cannot read another one, and nobody would ever lead again.
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        // Longer than the JobManager's own lease, by which it goes.
        let lock = json!({"holderIdentity": holder, "leaseDuration": 3600.0, "leaderTransitions": 1,
            "acquireTime": now, "renewTime": now});
        self.remove(json!({"annotations": {LOCK: lock.to_string()}}), removed).await;
    }

    /// Removes the keys with these prefixes from the ConfigMap with the lock.
    async fn remove(&self, metadata: Value, removed: &[&str]) {
        let map = self.api().get(&self.name()).await.unwrap();
        let keys = map.data.into_iter().flatten().map(|(key, _)| key);
        let keys = keys.filter(|key| removed.iter().any(|prefix| key.starts_with(prefix)));
        let removed: serde_json::Map<_, _> = keys.map(|key| (key, Value::Null)).collect();
        let patch = json!({"metadata": metadata, "data": removed});
        self.api()
            .patch(&self.name(), &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

/// Returns the lock of a ConfigMap.
fn read(lock: Option<&String>) -> Option<Value> {
    Some(serde_json::from_str(lock?).unwrap())
}

fn holder(lock: Option<&String>) -> &'static str {
    let lock = read(lock).unwrap_or_default();
    match lock["holderIdentity"].as_str() {
        None | Some("") => "nobody",
        Some(OPERATOR) => "the operator",
        Some(_) => "a JobManager",
    }
}

fn show_lock(lock: Option<&String>) -> String {
    read(lock).map_or_else(
        || "no lock".to_owned(),
        |it| format!("the lock has {} for {}", holder(lock), it["leaseDuration"]),
    )
}
