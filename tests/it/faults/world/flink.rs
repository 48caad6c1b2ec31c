//! Flink in a JobManager: what it starts, and what it leaves behind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::metadata::{clean_up, graphs, has_checkpoint_in_map, keep_of, lead, read, write_graph};
use super::{InMap, Process, State, World};
use crate::support::fake_flink::{Cluster, Job, Start};

/// Value that the operator writes if HA metadata must be used.
const LAST_STATE: &str = "KUBERNETES_OPERATOR_LAST_STATE";
/// Prefixes of the options that determine a job's graph.
const GRAPH_KEYS: [&str; 3] = ["parallelism.", "pipeline.", "$internal.application."];

/// The configuration that a JobManager is started with.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts of a configuration")]
pub(super) struct Config {
    values: BTreeMap<String, String>,
    pub(super) is_session: bool,
    pub(super) is_highly_available: bool,
    pub(super) is_flink_2: bool,
    /// IP address of its pod.
    pub(super) ip: String,
    /// Whether the job may start without state.
    is_stateless: bool,
}

impl Config {
    /// Reads the ConfigMap that its pod mounts.
    pub(super) async fn read(
        world: &World,
        (namespace, name): (&str, &str),
        map: &str,
        container: &Value,
    ) -> Option<Self> {
        let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
        let map = read(&maps, map).await?;
        let mut files = map.data?;
        let nested = files.remove("config.yaml");
        let is_flink_2 = nested.is_some();
        let values: BTreeMap<String, String> = if let Some(text) = nested {
            let mut values = BTreeMap::new();
            flatten("", serde_yaml::from_str(&text).unwrap(), &mut values);
            values
        } else {
            let text = files.remove("flink-conf.yaml")?;
            let lines = text.lines().filter_map(|line| line.split_once(": "));
            lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
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
            is_flink_2,
            ip: super::kubelet::IP.to_owned(),
            is_stateless: mode.is_none_or(|mode| mode == "stateless"),
            values,
        })
    }

    pub(super) fn job_id(&self) -> String {
        self.values.get("$internal.pipeline.job-id").cloned().unwrap_or_default()
    }

    /// Returns where it keeps the results of jobs, the same for all runs unless the operator sets it.
    pub(super) fn result_store(&self) -> String {
        self.values.get("job-result-store.storage-path").cloned().unwrap_or_default()
    }

    /// Returns the job graph: what Flink derives from the job's options alone.
    pub(super) fn graph(&self) -> String {
        let is_of_job = |key: &str| GRAPH_KEYS.iter().any(|prefix| key.starts_with(prefix));
        let values = self.values.iter().filter(|(key, _)| is_of_job(key));
        let lines: Vec<String> = values.map(|(key, value)| format!("{key}: {value}")).collect();
        lines.join(", ")
    }

    /// Returns the number of records after which the scripted job of the conformance tests ends soon.
    fn records(&self) -> Option<usize> {
        let args = self.values.get("$internal.application.program-args")?;
        args.split_once(';')?.1.parse().ok().filter(|records| *records < 1000)
    }

    fn path(&self) -> Option<&str> {
        let paths = ["execution.state-recovery.path", "execution.savepoint.path"];
        paths.iter().find_map(|key| self.values.get(*key)).map(String::as_str)
    }
}

/// Flattens nested options to full keys, as Flink 2 reads its file.
fn flatten(prefix: &str, value: Value, values: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{name}"), value, values);
            }
        }
        Value::String(text) => drop(values.insert(prefix.to_owned(), text)),
        other => drop(values.insert(prefix.to_owned(), other.to_string())),
    }
}

pub(super) async fn start(world: &World, key: &str, config: &Config) {
    if config.is_session {
        return start_session(world, key, config).await;
    }
    let job_id = config.job_id();
    inherit_state(world, key, config);
    let (mut from_metadata, mut is_stored) = (false, false);
    if config.is_highly_available {
        from_metadata = has_checkpoint_in_map(world, key, &job_id).await;
        is_stored = run_stored_graphs(world, key, config).await;
        lead(world, key, config).await;
    }
    let kept = {
        let mut state = world.state();
        let kept = state.kept.entry((key.to_owned(), job_id.clone())).or_default();
        if !is_stored {
            kept.path = config.path().map(str::to_owned);
        }
        // Another client may have changed or deleted the ConfigMap meanwhile, and the graph is stored.
        kept.in_map = Some(InMap::UNSEEN);
        kept.has_ended_unled = false;
        kept.clone()
    };
    let has_ended = kept.result_for(config).is_some();
    if has_ended {
        clean_up(world, key, config, &job_id).await;
    }
    let now = world.flink.now();
    let law = world.flink.with(key, |cluster| {
        cluster.is_down = false;
        if has_ended {
            // It knows the job's result, and does not list the job.
            return None;
        }
        let from_metadata = from_metadata.then_some(kept.checkpoint).flatten();
        submit(cluster, config, &job_id, from_metadata, kept.path, now)
    });
    if let Some(law) = law {
        world.broke(key, law);
    }
}

/// A colour that starts from the other one's savepoint: from then on that one's state numbers are also its own.
fn inherit_state(world: &World, key: &str, config: &Config) {
    let other = match (key.strip_suffix("-blue"), key.strip_suffix("-green")) {
        (Some(name), _) => format!("{name}-green"),
        (None, Some(name)) => format!("{name}-blue"),
        (None, None) => return,
    };
    let Some(path) = config.path() else { return };
    let Some(number) = world.flink.with(&other, |cluster| cluster.state_at(path)) else { return };
    world.flink.with(key, |cluster| {
        cluster.stored.clear();
        cluster.jobs.clear();
        cluster.stored.insert(path.to_owned(), number);
    });
}

/// Continues the previous JobManager's jobs if HA metadata has them.
async fn start_session(world: &World, key: &str, config: &Config) {
    let graphs =
        if config.is_highly_available { graphs(world, key, config).await } else { BTreeMap::new() };
    let mut found = Vec::new();
    for id in graphs.into_keys() {
        let has_checkpoint = has_checkpoint_in_map(world, key, &id).await;
        let mut state = world.state();
        let kept = state.kept.entry((key.to_owned(), id.clone())).or_default();
        kept.in_map = Some(InMap::UNSEEN);
        kept.has_ended_unled = false;
        let checkpoint = kept.checkpoint.clone().filter(|_| has_checkpoint);
        found.push((id, kept.result_for(config).cloned(), checkpoint));
    }
    if config.is_highly_available {
        lead(world, key, config).await;
    }
    let now = world.flink.now();
    world.flink.with(key, |cluster| {
        cluster.is_down = false;
        // Flink 1 lists those that it has suspended itself.
        cluster.jobs.retain(|_, job| !config.is_flink_2 || !job.is_suspended());
        for (id, result, restored) in found {
            if let Some(job) = result {
                cluster.jobs.insert(id, job);
                continue;
            }
            cluster.submit(&id, restored.as_ref().map(|(path, _)| &**path));
            cluster.in_metadata.remove(&id);
            let mut job = Job::submitted(&id, now);
            job.checkpoints_by_itself = !cluster.only_told_checkpoints;
            if let Some((path, number)) = &restored {
                job.restore("CHECKPOINT", *number, path, now);
            }
            cluster.starts.push(Start { job_id: id.clone(), restored });
            cluster.jobs.insert(id, job);
        }
    });
}

/// Runs the graph that is stored, as Flink does whatever the new spec says. It must be the new one. Returns whether there
/// is one of the configured job, which then starts where that says.
async fn run_stored_graphs(world: &World, key: &str, config: &Config) -> bool {
    let (job_id, new) = (config.job_id(), config.graph());
    let graphs = graphs(world, key, config).await;
    let is_stored = graphs.contains_key(&job_id);
    for (id, graph) in graphs {
        let has_ended = world
            .state()
            .kept
            .get(&(key.to_owned(), id.clone()))
            .is_some_and(|kept| kept.result_for(config).is_some());
        if !has_ended && id != job_id {
            world.broke(key, format!("job {id} goes on beside {job_id}, by its stored graph"));
        } else if !has_ended && graph != new {
            world
                .broke(key, format!("`{graph}` runs by its stored graph, and the spec is `{new}`"));
        }
    }
    write_graph(world, key, config, &new).await;
    is_stored
}

/// Starts the job from HA metadata, or from a path; returns the law that this breaks.
fn submit(
    cluster: &mut Cluster,
    config: &Config,
    job_id: &str,
    from_metadata: Option<(String, i64)>,
    path: Option<String>,
    now: i64,
) -> Option<String> {
    let newest = cluster.newest_state();
    let mut job = Job::submitted(job_id, now);
    job.checkpoints_by_itself = !cluster.only_told_checkpoints;
    job.ends_after = config.records();
    let is_from_metadata = from_metadata.is_some();
    let mut law = None;
    let restored = match (from_metadata, path) {
        (Some(checkpoint), _) => Some(checkpoint),
        (None, None) => None,
        (None, Some(path)) => {
            let found = cluster.state_at(&path).map(|number| (path.clone(), number));
            if found.is_none() {
                if path != LAST_STATE {
                    law = Some(format!("a start from `{path}`, which is not in the store"));
                }
                let _cause = job.fail_to_restore(&path, now);
            }
            found
        }
    };
    if let Some((path, number)) = &restored {
        let kind = if is_from_metadata { "CHECKPOINT" } else { "SAVEPOINT" };
        job.restore(kind, *number, path, now);
    }
    let number = restored.as_ref().map(|(_, number)| *number);
    if !config.is_stateless && !job.is_terminal() && number < newest {
        law = Some(format!("a start from {restored:?}, and the newest state is {newest:?}"));
    }
    cluster.starts.push(Start { job_id: job_id.to_owned(), restored });
    cluster.jobs.insert(job_id.to_owned(), job);
    law
}

/// The TaskManagers of a cluster go. A JobManager that runs fails its job, which has no restarts left, and its checkpoints
/// leave HA metadata, even if another one holds the lock: it takes itself for the leader for some time after it was not.
pub(super) async fn lose_task_managers(world: &World, key: &str) {
    let is_led = world.state().processes.get(key).is_some_and(|processes| !processes.is_empty());
    if !is_led {
        return;
    }
    fail_jobs(world, key);
    keep_of(world, key).await;
}

/// Fails the jobs of a JobManager, which have no restarts left.
pub(super) fn fail_jobs(world: &World, key: &str) {
    let now = world.flink.now();
    world.flink.with(key, |cluster| {
        for job in cluster.jobs.values_mut().filter(|job| !job.is_terminal()) {
            job.fail("JobException", "Recovery is suppressed by NoRestartBackoffTimeStrategy", now);
        }
    });
}

/// A JobManager learns that it has lost the lock. It suspends its jobs, and does not answer until it leads again.
pub(super) fn depose(world: &World, key: &str, config: &Config) {
    let jobs = world.flink.with(key, Cluster::lose_leader);
    let mut state = world.state();
    let stored = keep(&mut state, key, config, jobs.clone());
    let mut in_metadata = BTreeMap::new();
    for id in jobs.into_keys() {
        let Some(kept) = state.kept.get_mut(&(key.to_owned(), id.clone())) else { continue };
        // Whoever runs the job next stores its graph again.
        let map = kept.in_map.replace(InMap::UNSEEN);
        if map.is_some_and(|map| map.checkpoint.is_some()) {
            in_metadata.extend(kept.checkpoint.clone().map(|checkpoint| (id, checkpoint)));
        }
    }
    drop(state);
    world.flink.with(key, |cluster| {
        cluster.stored.extend(stored);
        cluster.in_metadata.append(&mut in_metadata);
    });
}

pub(super) fn end(world: &World, key: &str, process: &Process) {
    let jobs = world.flink.with(key, Cluster::go_down);
    let stored = keep(&mut world.state(), key, &process.config, jobs);
    world.flink.with(key, |cluster| cluster.stored.extend(stored));
}

/// Keeps what is left of jobs without their JobManager; returns the numbers of their snapshots by path.
fn keep(
    state: &mut State,
    key: &str,
    config: &Config,
    jobs: BTreeMap<String, Job>,
) -> Vec<(String, i64)> {
    let mut stored = Vec::new();
    for (id, job) in jobs {
        let newest =
            job.checkpoints.iter().rfind(|one| one.kind == "CHECKPOINT" && !one.is_discarded);
        let kept = state.kept.entry((key.to_owned(), id)).or_default();
        let savepoints = job.checkpoints.iter().filter(|one| one.kind != "CHECKPOINT");
        stored.extend(savepoints.map(|one| (one.path.clone(), one.id)));
        if job.is_terminal() {
            // Retained for the operator that cancelled it.
            stored.extend(newest.map(|one| (one.path.clone(), one.id)));
            if config.is_highly_available && !kept.has_ended_unled {
                kept.result = Some((config.result_store(), job));
            }
        } else if config.is_highly_available
            && kept.in_map.is_some_and(|map| map.checkpoint.is_some())
        {
            let restored = job.restored.as_ref();
            kept.checkpoint = newest.or(restored).map(|one| (one.path.clone(), one.id));
            stored.extend(kept.checkpoint.clone());
        } else {
            // Nothing refers to it any more, but it exists, and no older state may replace it.
            stored.extend(newest.map(|one| (one.path.clone(), one.id)));
        }
    }
    stored
}
