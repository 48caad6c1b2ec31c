//! Flink in a JobManager: what it starts, what it keeps in HA metadata, what it leaves behind.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Kept, Process, World};
use crate::support::fake_flink::{Cluster, Job, Start};

/// How often checkpoints are brought into HA metadata.
const METADATA_EVERY: Duration = Duration::from_millis(100);
/// What the operator writes where HA metadata has to be used.
const LAST_STATE: &str = "KUBERNETES_OPERATOR_LAST_STATE";

/// What a JobManager is started with.
pub(super) struct Config {
    values: BTreeMap<String, String>,
    is_session: bool,
    pub(super) is_highly_available: bool,
    /// The job may start from nothing.
    is_stateless: bool,
}

impl Config {
    /// From the ConfigMap that its pod mounts.
    pub(super) async fn read(
        world: &World,
        namespace: &str,
        name: &str,
        container: &Value,
    ) -> Option<Self> {
        let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
        let map = read(&maps, &format!("flink-config-{name}")).await?;
        let text = map.data?.remove("flink-conf.yaml")?;
        let values: BTreeMap<String, String> = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let args = container["args"].to_string();
        let is_highly_available =
            values.get("high-availability.type").is_some_and(|kind| kind == "kubernetes");
        let kind = GroupVersionKind::gvk("flink.apache.org", "v1beta1", "FlinkDeployment");
        let resources: Api<DynamicObject> =
            Api::namespaced_with(world.client.clone(), namespace, &ApiResource::from_gvk(&kind));
        let mode = read(&resources, name).await.and_then(|found| {
            found.data.pointer("/spec/job/upgradeMode").and_then(Value::as_str).map(str::to_owned)
        });
        Some(Self {
            is_session: args.contains("kubernetes-session"),
            is_highly_available,
            is_stateless: mode.is_none_or(|mode| mode == "stateless"),
            values,
        })
    }

    fn job_id(&self) -> String {
        self.values.get("$internal.pipeline.job-id").cloned().unwrap_or_default()
    }

    fn path(&self) -> Option<&str> {
        let paths = ["execution.state-recovery.path", "execution.savepoint.path"];
        paths.iter().find_map(|key| self.values.get(*key)).map(String::as_str)
    }
}

pub(super) async fn start(world: &World, key: &str, config: &Config) {
    let job_id = config.job_id();
    let from_metadata = match (config.is_session, config.is_highly_available) {
        (false, true) => has_checkpoint_in_map(world, key, &job_id).await,
        _ => false,
    };
    let kept = {
        let mut state = world.state();
        let kept = state.kept.entry((key.to_owned(), job_id.clone())).or_default();
        // Others may have deleted the ConfigMap meanwhile.
        kept.has_checkpoint_in_map = None;
        kept.clone()
    };
    let now = world.flink.now();
    let law = world.flink.with(key, |cluster| {
        cluster.is_down = false;
        if config.is_session {
            return None;
        }
        if let Some(job) = kept.result {
            cluster.jobs.insert(job_id, job);
            return None;
        }
        let from_metadata = from_metadata.then_some(kept.checkpoint).flatten();
        submit(cluster, config, &job_id, from_metadata, now)
    });
    if let Some(law) = law {
        world.broke(key, law);
    }
}

/// The job starts as its configuration says; answers the law that this breaks.
fn submit(
    cluster: &mut Cluster,
    config: &Config,
    job_id: &str,
    from_metadata: Option<(String, i64)>,
    now: i64,
) -> Option<String> {
    let newest = cluster.newest_state();
    let mut job = Job::submitted(job_id, now);
    let mut law = None;
    let restored = match (from_metadata, config.path()) {
        (Some(checkpoint), _) => Some(checkpoint),
        (None, None) => None,
        (None, Some(path)) => {
            let found = cluster.state_at(path).map(|number| (path.to_owned(), number));
            if found.is_none() {
                if path != LAST_STATE {
                    law = Some(format!("a start from `{path}`, which is not in the store"));
                }
                job.fail("java.io.FileNotFoundException", "no state", now);
            }
            found
        }
    };
    if let Some((path, number)) = &restored {
        job.restore(*number, path, now);
    }
    let number = restored.as_ref().map(|(_, number)| *number);
    if !config.is_stateless && !job.is_terminal() && number < newest {
        law = Some(format!("a start from {restored:?}, and the newest state is {newest:?}"));
    }
    cluster.starts.push(Start { job_id: job_id.to_owned(), restored });
    cluster.jobs.insert(job_id.to_owned(), job);
    law
}

pub(super) fn end(world: &World, key: &str, process: &Process) {
    let jobs = world.flink.with(key, Cluster::go_down);
    let mut state = world.state();
    let mut stored = Vec::new();
    for (id, job) in jobs {
        let newest =
            job.checkpoints.iter().rfind(|one| one.kind == "CHECKPOINT" && !one.is_discarded);
        let kept = state.kept.entry((key.to_owned(), id)).or_default();
        let savepoints = job.checkpoints.iter().filter(|one| one.kind != "CHECKPOINT");
        stored.extend(savepoints.map(|one| (one.path.clone(), one.id)));
        if job.is_terminal() {
            // Retained, for who cancelled it.
            stored.extend(newest.map(|one| (one.path.clone(), one.id)));
            if process.is_highly_available {
                kept.result = Some(job);
            }
        } else if process.is_highly_available && kept.has_checkpoint_in_map == Some(true) {
            let restored = job.restored.as_ref();
            kept.checkpoint = newest.or(restored).map(|one| (one.path.clone(), one.id));
            stored.extend(kept.checkpoint.clone());
        } else {
            // Nobody knows of it any more, but it is there, and no older state may take its place.
            stored.extend(newest.map(|one| (one.path.clone(), one.id)));
        }
    }
    drop(state);
    world.flink.with(key, |cluster| cluster.stored.extend(stored));
}

/// An object, or nothing where it is not there. An API server that is away says neither.
async fn read<K>(api: &Api<K>, name: &str) -> Option<K>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    loop {
        match api.get_opt(name).await {
            Ok(found) => return found,
            Err(_) => sleep(METADATA_EVERY).await,
        }
    }
}

async fn has_checkpoint_in_map(world: &World, key: &str, job_id: &str) -> bool {
    let (namespace, name) = key.split_once('/').unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
    let map = read(&maps, &format!("{name}-{job_id}-config-map")).await;
    map.is_some_and(|map| {
        map.data.iter().flatten().any(|(key, _)| key.starts_with("checkpointID-"))
    })
}

/// Keeps the ConfigMaps of highly available clusters as Flink does.
pub(super) async fn keep_metadata(world: Weak<World>) {
    loop {
        sleep(METADATA_EVERY).await;
        let Some(world) = world.upgrade() else { return };
        let clusters: Vec<String> = {
            let state = world.state();
            let available = state.processes.iter().filter(|(_, processes)| {
                processes.iter().any(|process| process.is_highly_available)
            });
            available.map(|(key, _)| key.clone()).collect()
        };
        futures::future::join_all(clusters.iter().map(|key| keep_metadata_of(&world, key))).await;
    }
}

async fn keep_metadata_of(world: &World, key: &str) {
    let _writing = world.writing.read().await;
    // It may have ended since it was listed.
    if world.state().processes.get(key).is_none_or(Vec::is_empty) {
        return;
    }
    let jobs: Vec<(String, bool, bool)> = world.flink.with(key, |cluster| {
        let state = |job: &Job| {
            let has_checkpoint = job.restored.is_some() || !job.checkpoints.is_empty();
            (job.id.clone(), job.is_terminal(), has_checkpoint)
        };
        cluster.jobs.values().map(state).collect()
    });
    let (namespace, name) = key.split_once('/').unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
    for (id, is_terminal, has_checkpoint) in jobs {
        let map = format!("{name}-{id}-config-map");
        let kept =
            world.state().kept.get(&(key.to_owned(), id.clone())).cloned().unwrap_or_default();
        let wanted = (!is_terminal).then_some(has_checkpoint);
        if kept.has_checkpoint_in_map == wanted {
            continue;
        }
        let is_done = match wanted {
            None => delete(&maps, &map).await,
            Some(has_checkpoint) => {
                let leader =
                    metadata(namespace, name, &format!("{name}-cluster-config-map"), false);
                let job = metadata(namespace, name, &map, has_checkpoint);
                apply(&maps, leader).await && apply(&maps, job).await
            }
        };
        if is_done {
            let mut state = world.state();
            let kept: &mut Kept = state.kept.entry((key.to_owned(), id)).or_default();
            kept.has_checkpoint_in_map = wanted;
        }
    }
}

fn metadata(namespace: &str, cluster: &str, name: &str, has_checkpoint: bool) -> ConfigMap {
    let data = if has_checkpoint {
        json!({"checkpointID-0000000000000000001": "rO0ABXNy", "counter": "2"})
    } else {
        json!({"counter": "1"})
    };
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "namespace": namespace, "labels": {
            "app": cluster, "configmap-type": "high-availability", "type": "flink-native-kubernetes",
        }},
    }))
    .unwrap()
}

async fn apply(maps: &Api<ConfigMap>, map: ConfigMap) -> bool {
    let name = map.metadata.name.clone().unwrap();
    let params = PatchParams::apply("flink").force();
    maps.patch(&name, &params, &Patch::Apply(map)).await.is_ok()
}

async fn delete(maps: &Api<ConfigMap>, name: &str) -> bool {
    match maps.delete(name, &DeleteParams::default()).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code == 404,
        Err(_) => false,
    }
}
