//! HA metadata: what Flink writes into ConfigMaps while jobs run, and reads when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::flink::{self, Config};
use super::{InMap, Process, Retained, World};
use crate::support::fake_flink::Job;
use crate::support::patience::PATIENCE;

/// Interval for writing checkpoints to HA metadata.
const EVERY: Duration = Duration::from_millis(100);
/// Key prefix of a stored job graph, in Flink 1 and in Flink 2.
const GRAPH: [&str; 2] = ["jobGraph-", "executionPlan-"];
/// Annotation with the leader among the JobManagers that compete for a ConfigMap.
const LOCK: &str = "control-plane.alpha.kubernetes.io/leader";
/// Begins the keys under which a leader publishes its addresses.
const LEADER: &str = "org.apache.flink.k8s.leader.";
/// What has an address, besides each job.
const LED: [&str; 3] = ["dispatcher", "resourcemanager", "restserver"];
/// Begins the identity of a JobManager that holds the lock.
const JOB_MANAGER: &str = "job-manager-";
/// How long a lock that is not renewed is left to its holder.
const LEASE: Duration = Duration::from_secs(15);
/// How long a JobManager takes itself for the leader after it has lost the lock.
const BELIEVES: Duration = Duration::from_secs(10);
/// How often the leader renews the lock.
const RENEWAL: Duration = Duration::from_secs(5);

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

/// Returns stored graphs by job id.
pub(super) async fn graphs(world: &World, key: &str, config: &Config) -> BTreeMap<String, String> {
    let map = leader_map(world, key).await;
    let data = map.and_then(|map| map.data).unwrap_or_default();
    // Neither version looks for the graphs of the other one.
    let prefix = GRAPH[usize::from(config.is_flink_2)];
    let graph =
        |(key, graph): (String, String)| Some((key.strip_prefix(prefix)?.to_owned(), graph));
    data.into_iter().filter_map(graph).collect()
}

/// Stores the graph before the job runs, as Flink does.
pub(super) async fn write_graph(world: &World, key: &str, config: &Config, graph: &str) {
    let start = Instant::now();
    while !store_graph(world, key, config, &config.job_id(), Some(graph)).await {
        if start.elapsed() > PATIENCE {
            return world.broke(key, "the graph of a job cannot be stored".to_owned());
        }
        sleep(EVERY).await;
    }
}

/// Stores the graph and the address of a job, or removes both; returns whether that was done.
async fn store_graph(
    world: &World,
    cluster: &str,
    config: &Config,
    job_id: &str,
    graph: Option<&str>,
) -> bool {
    let (maps, map) = (maps(world, cluster), leader_map_name(cluster));
    if graph.is_some() && !apply(&maps, metadata(cluster, config, &map, InMap::default())).await {
        return false;
    }
    let key = format!("{}{job_id}", GRAPH[usize::from(config.is_flink_2)]);
    let led = format!("job-{job_id}");
    let address = graph.map(|_| address(config, &led));
    let patch = Patch::Merge(json!({"data": {key: graph, format!("{LEADER}{led}"): address}}));
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
    read(&maps(world, key), &leader_map_name(key)).await
}

fn leader_map_name(key: &str) -> String {
    format!("{}-cluster-config-map", name_of(key))
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

/// Returns the JobManager of a cluster whose lock others may take, once it has led.
fn contended(world: &World, key: &str) -> Option<Process> {
    let state = world.state();
    let is_contended = state.contended.contains(key);
    let process = state.processes.get(key).and_then(|all| all.first());
    process.filter(|process| is_contended && process.has_led).cloned()
}

/// Lets the JobManager renew its lock, notice that it has lost it, or take it again. Returns whether it holds the lock.
async fn contend(world: &World, key: &str) -> bool {
    let Some(process) = contended(world, key) else { return true };
    let Some(map) = leader_map(world, key).await else { return true };
    let Some(lock) = lock_of(&map) else { return true };
    let holder = lock["holderIdentity"].as_str().unwrap_or_default();
    let is_older = |field: &str, than| age(&lock[field]).is_some_and(|age| age > than);
    if holder == identity(&process.config) {
        if is_older("renewTime", RENEWAL) {
            renew(world, key, &map, lock.clone()).await;
        }
        return true;
    }
    let is_suspended = world.flink.with(key, |cluster| cluster.is_down);
    let runs = world
        .state()
        .processes
        .get(key)
        .is_some_and(|all| all.iter().any(|one| Arc::ptr_eq(&one.config, &process.config)));
    if !runs {
        return false;
    }
    if is_suspended {
        if holder.is_empty() || is_older("renewTime", LEASE) {
            flink::start(world, key, &process.config).await;
            return true;
        }
    } else if holder.is_empty() {
        lead(world, key, &process.config).await;
        if !process.config.is_session {
            let (job_id, graph) = (process.config.job_id(), process.config.graph());
            store_graph(world, key, &process.config, &job_id, Some(&graph)).await;
        }
        return true;
    } else if is_older("acquireTime", BELIEVES) {
        flink::depose(world, key, &process.config);
    } else if !map.data.iter().flatten().any(|(key, _)| key.starts_with(LEADER)) {
        // TaskManagers leave a JobManager whose addresses are removed.
        flink::fail_jobs(world, key);
    }
    false
}

/// Renews the lock, unless the ConfigMap was changed meanwhile.
async fn renew(world: &World, key: &str, map: &ConfigMap, mut lock: Value) {
    lock["renewTime"] = now().into();
    let version = map.resource_version();
    let annotations = json!({LOCK: lock.to_string()});
    let metadata = json!({"resourceVersion": version, "annotations": annotations});
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    // A JobManager whose renewal is rejected tries again.
    drop(maps(world, key).patch(&map.name_any(), &PatchParams::default(), &patch).await);
}

/// A JobManager that is asked to end removes its addresses if it holds the lock, and releases that. It may take the lock
/// again before it has ended: 1.20 mostly does not, and 2.3 does, so that the next one waits for its lease.
pub(super) async fn release(world: &World, key: &str, process: &Process) {
    let (maps, name) = (maps(world, key), leader_map_name(key));
    // One that cannot reach the API server ends, too.
    let Ok(Some(map)) = maps.get_opt(&name).await else { return };
    let Some(mut lock) = lock_of(&map) else { return };
    if !process.has_led || lock["holderIdentity"] != identity(&process.config) {
        return;
    }
    if !process.config.is_flink_2 {
        (lock["holderIdentity"], lock["leaseDuration"]) = ("".into(), 1.0.into());
        (lock["acquireTime"], lock["renewTime"]) = (now().into(), now().into());
    }
    let version = map.resource_version();
    let keys = map.data.into_iter().flatten().map(|(key, _)| key);
    let addresses = keys.filter(|key| key.starts_with(LEADER)).map(|key| (key, Value::Null));
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": version, "annotations": {LOCK: lock.to_string()}},
        "data": addresses.collect::<serde_json::Map<_, _>>(),
    }));
    drop(maps.patch(&name, &PatchParams::default(), &patch).await);
}

/// Removes what is left of a job that has ended.
pub(super) async fn clean_up(world: &World, key: &str, config: &Config, job_id: &str) {
    let (begun, maps) = (Instant::now(), maps(world, key));
    let map = format!("{}-{job_id}-config-map", name_of(key));
    while !(delete(&maps, &map).await && store_graph(world, key, config, job_id, None).await) {
        if begun.elapsed() > PATIENCE {
            return world.broke(key, "what is left of a job cannot be removed".to_owned());
        }
        sleep(EVERY).await;
    }
}

/// Returns the time in the precision in which Flink reads it.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn identity(config: &Config) -> String {
    format!("{JOB_MANAGER}{}", config.ip)
}

fn address(config: &Config, of: &str) -> String {
    format!("session,pekko.tcp://flink@{}:6123/user/rpc/{of}_0", config.ip)
}

/// Takes the lock and publishes the addresses. A JobManager that crashes does not release the lock.
pub(super) async fn lead(world: &World, key: &str, config: &Config) {
    let lease = if config.is_flink_2 { json!("PT15S") } else { json!(15.0) };
    let (maps, map) = (maps(world, key), leader_map_name(key));
    let addresses: BTreeMap<String, String> =
        LED.iter().map(|of| (format!("{LEADER}{of}"), address(config, of))).collect();
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let lock = json!({"holderIdentity": identity(config), "leaseDuration": lease,
            "leaderTransitions": 0, "acquireTime": now(), "renewTime": now()});
        let patch = Patch::Merge(json!({
            "metadata": {"annotations": {LOCK: lock.to_string()}}, "data": addresses,
        }));
        let is_there = apply(&maps, metadata(key, config, &map, InMap::default())).await;
        match maps.patch(&map, &PatchParams::default(), &patch).await {
            Ok(_) if is_there => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Ok(_) | Err(_) => sleep(EVERY).await,
        }
    }
}

/// Maintains the ConfigMaps of highly available clusters as Flink does. A cluster whose JobManager waits for something
/// holds up no other.
pub(super) async fn keep(world: Weak<World>) {
    let (mut tasks, mut busy) = (JoinSet::new(), BTreeSet::new());
    loop {
        sleep(EVERY).await;
        while let Some(done) = tasks.try_join_next() {
            busy.remove(&done.unwrap());
        }
        let Some(world) = world.upgrade() else { return };
        let clusters: Vec<String> = {
            let state = world.state();
            let available = state.processes.iter().filter(|(_, processes)| {
                processes.iter().any(|process| process.config.is_highly_available)
            });
            available.map(|(key, _)| key.clone()).collect()
        };
        for key in clusters {
            if busy.insert(key.clone()) {
                let world = Arc::clone(&world);
                tasks.spawn(async move {
                    keep_of(&world, &key).await;
                    key
                });
            }
        }
    }
}

pub(super) async fn keep_of(world: &World, key: &str) {
    // Each answer of the JobManager brings it up to date, too. By a lock that was read before it led again, it would be
    // deposed, and the graph of a job that was read before it ended would be stored after it was removed.
    let _alone = world.alone(key).await;
    let leads = contend(world, key).await;
    let _writing = world.writing.read().await;
    // It may have ended since it was listed.
    let Some(config) =
        world.state().processes.get(key).and_then(|all| all.first()).map(|one| one.config.clone())
    else {
        return;
    };
    let jobs: Vec<(String, bool, InMap)> = world.flink.with(key, |cluster| {
        let state = |job: &Job| {
            // The first checkpoint only, until one is triggered: a new one completes with each request.
            let mut taken = job.checkpoints.iter().filter(|one| one.kind == "CHECKPOINT");
            let first = job.restored.as_ref().or(taken.next()).map(|one| one.id);
            let checkpoint = first.max(job.asked_checkpoint());
            let counter = job.counter().or(checkpoint.map(|number| number + 1));
            (job.id.clone(), job.is_terminal(), InMap { checkpoint, counter })
        };
        let jobs = cluster.jobs.values().filter(|job| !job.is_suspended());
        if cluster.is_down { Vec::new() } else { jobs.map(state).collect() }
    });
    let maps = maps(world, key);
    for (id, is_terminal, map) in jobs {
        let name = format!("{}-{id}-config-map", name_of(key));
        let (in_map, wanted) = {
            let mut state = world.state();
            let kept: &mut Retained = state.kept.entry((key.to_owned(), id.clone())).or_default();
            let wanted = match (is_terminal, leads) {
                (false, _) => Some(map),
                (true, true) => None,
                // Without the lock, a JobManager cannot remove the graph, and does not get to the ConfigMap.
                (true, false) => kept.in_map.map(|_| InMap::default()),
            };
            kept.has_ended_unled = is_terminal && wanted.is_some();
            (kept.in_map, wanted)
        };
        if in_map == wanted {
            continue;
        }
        let is_done = match wanted {
            None => delete(&maps, &name).await && store_graph(world, key, &config, &id, None).await,
            Some(map) => {
                let stores_graph = config.is_session && !is_terminal;
                let leader = metadata(key, &config, &leader_map_name(key), InMap::default());
                apply(&maps, leader).await
                    && apply(&maps, metadata(key, &config, &name, map)).await
                    && (!stores_graph
                        || store_graph(world, key, &config, &id, Some("submitted")).await)
            }
        };
        if is_done {
            let mut state = world.state();
            let kept: &mut Retained = state.kept.entry((key.to_owned(), id)).or_default();
            kept.in_map = wanted;
        }
    }
}

fn metadata(cluster: &str, config: &Config, name: &str, content: InMap) -> ConfigMap {
    let (namespace, cluster) = cluster.split_once('/').unwrap();
    let mut data = json!({});
    if let Some(number) = content.checkpoint {
        data[format!("checkpointID-{number:019}")] = "rO0ABXNy".into();
    }
    if let Some(number) = content.counter {
        data["counter"] = number.to_string().into();
    }
    let mut labels = json!({"app": cluster, "type": "flink-native-kubernetes"});
    if !config.is_flink_2 {
        labels["configmap-type"] = "high-availability".into();
    }
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
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
