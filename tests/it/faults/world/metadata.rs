//! HA metadata: what Flink writes into ConfigMaps while jobs run, and reads when it starts.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{InMap, Kept, Process, World};
use crate::support::fake_flink::Job;
use crate::support::patience::PATIENCE;

/// Interval for writing checkpoints to HA metadata.
const EVERY: Duration = Duration::from_millis(100);
/// Key prefix of a stored job graph, in Flink 1 and in Flink 2.
const GRAPH: [&str; 2] = ["jobGraph-", "executionPlan-"];
/// Annotation with the leader among the JobManagers that compete for a ConfigMap.
const LOCK: &str = "control-plane.alpha.kubernetes.io/leader";
/// Key under which a leader publishes its address.
const LEADER: &str = "org.apache.flink.k8s.leader.resourcemanager";
/// Begins the identity of a JobManager that holds the lock.
const JOB_MANAGER: &str = "job-manager-";
/// How long a lock that is not renewed is left to its holder.
const LEASE: Duration = Duration::from_secs(15);
/// How long a JobManager takes itself for the leader after it has lost the lock.
const BELIEVES: Duration = Duration::from_secs(10);

/// Reads an object, `None` if it does not exist; retries while the API server is down.
pub(super) async fn read<K>(api: &Api<K>, name: &str) -> Option<K>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    loop {
        match api.get_opt(name).await {
            Ok(found) => return found,
            Err(_) => sleep(EVERY).await,
        }
    }
}

pub(super) async fn has_checkpoint_in_map(world: &World, key: &str, job_id: &str) -> bool {
    let map = read(&maps(world, key), &format!("{}-{job_id}-config-map", name_of(key))).await;
    map.is_some_and(|map| {
        map.data.iter().flatten().any(|(key, _)| key.starts_with("checkpointID-"))
    })
}

fn maps(world: &World, key: &str) -> Api<ConfigMap> {
    Api::namespaced(world.client.clone(), key.split_once('/').unwrap().0)
}

fn name_of(key: &str) -> &str {
    key.split_once('/').unwrap().1
}

/// Returns the prefix that the running version uses; it does not look for the other one.
fn graph_prefix(world: &World, key: &str) -> &'static str {
    let state = world.state();
    let process = state.processes.get(key).and_then(|all| all.last());
    GRAPH[usize::from(process.is_some_and(|process| process.is_flink_2))]
}

/// Returns stored graphs by job id.
pub(super) async fn graphs(world: &World, key: &str) -> BTreeMap<String, String> {
    let map = leader_map(world, key).await;
    let data = map.and_then(|map| map.data).unwrap_or_default();
    let prefix = graph_prefix(world, key);
    let graph =
        |(key, graph): (String, String)| Some((key.strip_prefix(prefix)?.to_owned(), graph));
    data.into_iter().filter_map(graph).collect()
}

/// Stores the graph before the job runs, as Flink does.
pub(super) async fn write_graph(world: &World, key: &str, job_id: &str, graph: &str) {
    let start = Instant::now();
    while !store_graph(world, key, job_id, Some(graph)).await {
        if start.elapsed() > PATIENCE {
            return world.broke(key, "the graph of a job cannot be stored".to_owned());
        }
        sleep(EVERY).await;
    }
}

/// Stores or removes the graph of a job; returns whether that was done.
async fn store_graph(world: &World, cluster: &str, job_id: &str, graph: Option<&str>) -> bool {
    let (maps, map) = (maps(world, cluster), format!("{}-cluster-config-map", name_of(cluster)));
    let (namespace, name) = cluster.split_once('/').unwrap();
    if graph.is_some() && !apply(&maps, metadata(namespace, name, &map, None)).await {
        return false;
    }
    let key = format!("{}{job_id}", graph_prefix(world, cluster));
    let patch = Patch::Merge(json!({"data": {key: graph}}));
    match maps.patch(&map, &PatchParams::default(), &patch).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => graph.is_none() && status.code == 404,
        Err(_) => false,
    }
}

/// Returns whether a JobManager that waits may take the cluster's lock: it has no holder, or its holder has not renewed
/// it for the lease that the JobManager is configured with, whatever the lock says. A JobManager that runs renews it.
pub(super) async fn may_lead(world: &World, key: &str) -> bool {
    let Some(lock) = lock(world, key).await else { return false };
    let holder = lock["holderIdentity"].as_str().unwrap_or_default();
    if holder.starts_with(JOB_MANAGER) {
        let state = world.state();
        let runs = state.processes.get(key).is_some_and(|processes| !processes.is_empty());
        return !runs && state.left_since.get(key).is_some_and(|at| at.elapsed() > LEASE);
    }
    holder.is_empty() || age(&lock["renewTime"]).is_some_and(|age| age > LEASE)
}

/// Returns whether the operator has held the lock for so long that a JobManager that led before knows.
pub(super) async fn is_leader_deposed(world: &World, key: &str) -> bool {
    let Some(lock) = lock(world, key).await else { return false };
    is_held_by_operator(&lock) && age(&lock["acquireTime"]).is_some_and(|age| age > BELIEVES)
}

async fn lock(world: &World, key: &str) -> Option<Value> {
    lock_of(&leader_map(world, key).await?)
}

/// Returns the ConfigMap that JobManagers contend for.
async fn leader_map(world: &World, key: &str) -> Option<ConfigMap> {
    read(&maps(world, key), &format!("{}-cluster-config-map", name_of(key))).await
}

fn lock_of(map: &ConfigMap) -> Option<Value> {
    serde_json::from_str(map.annotations().get(LOCK)?).ok()
}

fn is_held_by_operator(lock: &Value) -> bool {
    lock["holderIdentity"].as_str().is_some_and(|it| it.starts_with("kubectl-flink"))
}

/// Returns how long ago something was.
fn age(at: &Value) -> Option<Duration> {
    let at = at.as_str()?.parse::<jiff::Timestamp>().ok()?;
    Duration::try_from(jiff::Timestamp::now().duration_since(at)).ok()
}

/// TaskManagers leave a JobManager whose addresses are removed. If it runs, it fails their job.
async fn follow_addresses(world: &World, key: &str) {
    let Some(process) = contended(world, key) else { return };
    let Some(map) = leader_map(world, key).await else { return };
    let is_published = map.data.iter().flatten().any(|(key, _)| key == LEADER);
    // A JobManager that takes the lock is about to publish them.
    let was_deposed = lock_of(&map).is_some_and(|lock| is_held_by_operator(&lock));
    let state = world.state();
    let runs =
        state.processes.get(key).is_some_and(|all| all.iter().any(|it| it.uid == process.uid));
    drop(state);
    if was_deposed && !is_published && runs {
        super::flink::fail_jobs(world, key);
    }
}

/// Returns the JobManager of a cluster in which others stand by. Only there does the operator take the lock.
fn contended(world: &World, key: &str) -> Option<Process> {
    let state = world.state();
    let is_contended = state.contended.contains(key);
    state.processes.get(key).and_then(|all| all.first()).filter(|_| is_contended).cloned()
}

/// A JobManager that runs takes the lock again if it has no holder any more, and stores its job graph.
async fn lead_again(world: &World, key: &str) {
    let Some(process) = contended(world, key) else { return };
    let is_free = |lock: Value| lock["holderIdentity"].as_str().is_some_and(str::is_empty);
    if lock(world, key).await.is_some_and(is_free) {
        lead(world, key, &process.ip).await;
        let (job_id, graph) = &process.job;
        let _is_stored = store_graph(world, key, job_id, Some(graph)).await;
    }
}

/// Takes the lock and publishes the address. A JobManager does not release the lock when it ends.
pub(super) async fn lead(world: &World, key: &str, ip: &str) {
    let holder = format!("{JOB_MANAGER}{ip}");
    let lock = json!({"holderIdentity": holder, "leaseDuration": 15.0, "leaderTransitions": 0,
        "acquireTime": "2026-01-01T00:00:00Z", "renewTime": "2026-01-01T00:00:00Z"});
    let address = format!("session,pekko.tcp://flink@{ip}:6123/user/rpc/resourcemanager_0");
    let patch = Patch::Merge(json!({
        "metadata": {"annotations": {LOCK: lock.to_string()}}, "data": {LEADER: address},
    }));
    let (maps, map) = (maps(world, key), format!("{}-cluster-config-map", name_of(key)));
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match maps.patch(&map, &PatchParams::default(), &patch).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(_) => sleep(EVERY).await,
        }
    }
}

/// Maintains the ConfigMaps of highly available clusters as Flink does.
pub(super) async fn keep(world: Weak<World>) {
    loop {
        sleep(EVERY).await;
        let Some(world) = world.upgrade() else { return };
        let clusters: Vec<String> = {
            let state = world.state();
            let available = state.processes.iter().filter(|(_, processes)| {
                processes.iter().any(|process| process.is_highly_available)
            });
            available.map(|(key, _)| key.clone()).collect()
        };
        futures::future::join_all(clusters.iter().map(|key| keep_of(&world, key))).await;
    }
}

pub(super) async fn keep_of(world: &World, key: &str) {
    follow_addresses(world, key).await;
    lead_again(world, key).await;
    let _writing = world.writing.read().await;
    // It may have ended since it was listed.
    let Some(is_session) =
        world.state().processes.get(key).and_then(|all| all.first()).map(|one| one.is_session)
    else {
        return;
    };
    let jobs: Vec<(String, bool, Option<i64>)> = world.flink.with(key, |cluster| {
        let state = |job: &Job| {
            // The first checkpoint only, until one is triggered: a new one completes with each request.
            let first = job.restored.as_ref().or(job.checkpoints.first()).map(|one| one.id);
            let checkpoint = first.max(job.asked_checkpoint());
            (job.id.clone(), job.is_terminal(), checkpoint)
        };
        cluster.jobs.values().map(state).collect()
    });
    let (namespace, name) = key.split_once('/').unwrap();
    let maps = maps(world, key);
    for (id, is_terminal, checkpoint) in jobs {
        let map = format!("{name}-{id}-config-map");
        let kept =
            world.state().kept.get(&(key.to_owned(), id.clone())).cloned().unwrap_or_default();
        let wanted = (!is_terminal).then_some(InMap { checkpoint });
        if kept.in_map == wanted {
            continue;
        }
        let is_done = match wanted {
            None => delete(&maps, &map).await && store_graph(world, key, &id, None).await,
            Some(InMap { checkpoint }) => {
                let leader = metadata(namespace, name, &format!("{name}-cluster-config-map"), None);
                let job = metadata(namespace, name, &map, checkpoint);
                apply(&maps, leader).await
                    && apply(&maps, job).await
                    && (!is_session || store_graph(world, key, &id, Some("submitted")).await)
            }
        };
        if is_done {
            let mut state = world.state();
            let kept: &mut Kept = state.kept.entry((key.to_owned(), id)).or_default();
            kept.in_map = wanted;
        }
    }
}

fn metadata(namespace: &str, cluster: &str, name: &str, checkpoint: Option<i64>) -> ConfigMap {
    let data = if let Some(number) = checkpoint {
        json!({format!("checkpointID-{number:019}"): "rO0ABXNy", "counter": "2"})
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
