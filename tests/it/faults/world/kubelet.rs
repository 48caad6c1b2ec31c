//! Pods: a JobManager comes up when its Deployment exists, and ends when that is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::STANDBY_ANNOTATION;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Process, State, World, flink, metadata};

/// From the creation of a pod to the first answer of its JobManager, on a node with nothing else to do.
pub(super) const START: Duration = Duration::from_millis(100);
/// From the start of a session cluster's container to the first answer of its JobManager. The container's start time
/// has whole seconds, and a real JVM takes longer than one: a job submitted in that second would be in doubt.
const SESSION_START: Duration = Duration::from_millis(1100);
/// From the request to end until the process has ended, and longer for a pod that stands by.
const END: Duration = Duration::from_millis(200);
const END_OF_STANDBY: Duration = Duration::from_secs(2);
/// IP address of pods that did not stand by.
pub(super) const IP: &str = "10.0.0.1";
/// Finalizer that keeps a pod until its process has ended.
const RUNNING: &str = "test.flink.apache.org/running";
/// An image with this name cannot be pulled.
pub(in crate::faults) const BROKEN_IMAGE: &str = "flink:does-not-exist";
/// Pause before a rejected write is retried.
const AGAIN: Duration = Duration::from_millis(200);
/// How often to request the end of a pod that is missing or while the API server is down.
const STOP_TRIES: usize = 150;

pub(super) fn see_deployment(world: &Arc<World>, deployment: Deployment) {
    if deployment.metadata.deletion_timestamp.is_some() {
        return;
    }
    let uid = deployment.uid().unwrap_or_default();
    if is_of_preflight(deployment.labels()) {
        if world.state().started.insert(uid) {
            let world = Arc::clone(world);
            let _task = tokio::spawn(async move { make_replica_set(&world, &deployment).await });
        }
        return;
    }
    let wants_none = deployment.spec.replicas == Some(0);
    if wants_none && role(&deployment) == "taskmanager" {
        let world = Arc::clone(world);
        let key = format!("{}/{}", deployment.namespace().unwrap(), app(&deployment));
        let _task = tokio::spawn(async move { flink::lose_task_managers(&world, &key).await });
    }
    let is_new = world.state().started.insert(uid.clone());
    if wants_none && world.state().stopped.insert(uid) {
        let world = Arc::clone(world);
        let _task = tokio::spawn(async move { stop(&world, &deployment).await });
        return;
    }
    if !is_new {
        return;
    }
    let world = Arc::clone(world);
    let _task = tokio::spawn(async move {
        if role(&deployment) == "jobmanager" {
            start(&world, &deployment).await;
        } else {
            let _pods = adopt(&world, &deployment).await;
            report_available(&world, &deployment).await;
        }
    });
}

pub(super) fn see_pod(world: &Arc<World>, pod: Pod) {
    if is_of_preflight(pod.labels()) {
        let is_new = world.state().tried.insert(pod.uid().unwrap_or_default());
        if pod.metadata.deletion_timestamp.is_some() {
            see_end(world, pod);
        } else if is_new {
            let world = Arc::clone(world);
            let _task = tokio::spawn(async move {
                if pod.annotations().contains_key(STANDBY_ANNOTATION) {
                    stand_by(&world, &pod).await;
                } else {
                    try_out(&world, &pod).await;
                }
            });
        }
        return;
    }
    see_end(world, pod);
}

fn see_end(world: &Arc<World>, pod: Pod) {
    let is_ending = pod.metadata.deletion_timestamp.is_some()
        && pod.finalizers().iter().any(|finalizer| finalizer == RUNNING);
    if !is_ending || !world.state().ended.insert(pod.uid().unwrap_or_default()) {
        return;
    }
    let world = Arc::clone(world);
    let _task = tokio::spawn(async move { end(&world, &pod).await });
}

fn is_of_preflight(labels: &BTreeMap<String, String>) -> bool {
    labels.get("app.kubernetes.io/name").is_some_and(|name| name == "flink-preflight")
}

/// Creates a ReplicaSet as the controller of Deployments does, with the labels of the future pods.
async fn make_replica_set(world: &World, deployment: &Deployment) {
    let (namespace, name) = (deployment.namespace().unwrap(), deployment.name_any());
    let spec = serde_json::to_value(&deployment.spec).unwrap();
    let mut labels = spec["template"]["metadata"]["labels"].clone();
    labels["pod-template-hash"] = "5d4f8c7b9".into();
    let set = json!({
        "metadata": {
            "name": format!("{name}-5d4f8c7b9"), "namespace": namespace, "labels": labels,
            "ownerReferences": [controller(deployment)],
        },
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": spec["template"]["spec"],
        }},
    });
    let sets: Api<ReplicaSet> = Api::namespaced(world.client.clone(), &namespace);
    let set = serde_json::from_value(set).unwrap();
    while let Err(error) = sets.create(&PostParams::default(), &set).await {
        match error {
            kube::Error::Api(status) if status.code < 429 && status.code != 403 => return,
            _ => sleep(AGAIN).await,
        }
    }
}

/// Marks a standby pod as ready at once. Its JobManager leads once nobody holds the lock, or the lock was not renewed for
/// the duration of its own lease. Until it has ended it contends for the lock.
async fn stand_by(world: &World, pod: &Pod) {
    let (namespace, name) = (pod.namespace().unwrap(), &pod.labels()["app.kubernetes.io/instance"]);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    let spec = serde_json::to_value(&pod.spec).unwrap();
    let container = &spec["containers"][0];
    let ip = ip_of(pod);
    sleep(world.startup(&namespace)).await;
    report_pod(&pods, &pod.name_any(), "Running", running(jiff::Timestamp::now()), &ip).await;
    if pod.labels()["app.kubernetes.io/component"] != "jobmanager" {
        return;
    }
    let patch = Patch::Merge(json!({"metadata": {"finalizers": [RUNNING], "uid": pod.uid()}}));
    while let Err(error) = pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await {
        match error {
            kube::Error::Api(status) if status.code == 404 || status.code == 409 => return,
            _ => sleep(AGAIN).await,
        }
    }
    let volumes = spec["volumes"].as_array().unwrap().iter();
    let own = volumes.filter_map(|it| it["configMap"]["name"].as_str());
    let own = own.filter(|map| map.starts_with("flink-config-")).collect::<Vec<_>>()[0];
    let config = flink::Config::read(world, (&namespace, name), own, container).await;
    let key = format!("{namespace}/{name}");
    let mut config = config.expect("its ConfigMap");
    config.ip = ip;
    let config = Arc::new(config);
    world.state().contended.insert(key.clone());
    let (is_ending, _alone) = loop {
        sleep(AGAIN).await;
        let now = metadata::read(&pods, &pod.name_any()).await;
        let Some(now) = now.filter(|now| now.uid() == pod.uid()) else { return };
        if world.state().left.contains(&namespace) {
            return;
        }
        // One of those that see a free lock takes it.
        let alone = world.alone(&key).await;
        if metadata::may_lead(world, &key).await {
            break (now.metadata.deletion_timestamp.is_some(), alone);
        }
    };
    if come_up(world, &key, &pod.uid().unwrap(), &config).await && is_ending {
        world.broke(&key, "a JobManager leads that stood by and is being removed".to_owned());
    }
}

/// Adopts the Deployment's standby pods that have no other controller.
async fn adopt(world: &World, deployment: &Deployment) -> Vec<Pod> {
    let mut orphans = pods_of(world, deployment).await;
    orphans.retain(|pod| {
        pod.owner_references().iter().all(|owner| owner.controller != Some(true))
            && pod.metadata.deletion_timestamp.is_none()
            && pod.annotations().contains_key(STANDBY_ANNOTATION)
    });
    let (namespace, uid) = (deployment.namespace().unwrap(), deployment.uid().unwrap());
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    let is_job_manager = role(deployment) == "jobmanager";
    for pod in &orphans {
        {
            let mut state = world.state();
            let State { processes, adopted, .. } = &mut *state;
            let pod_uid = pod.uid().unwrap();
            for process in processes.values_mut().flatten().filter(|it| it.uid == pod_uid) {
                process.uid.clone_from(&uid);
            }
            adopted.insert(pod_uid, uid.clone());
        }
        let finalizers = if is_job_manager { vec![RUNNING] } else { Vec::new() };
        let mut owners: Vec<Value> =
            pod.owner_references().iter().map(|owner| json!(owner)).collect();
        owners.push(controller(deployment));
        let patch = Patch::Merge(json!({"metadata": {
            "ownerReferences": owners, "finalizers": finalizers,
        }}));
        while let Err(error) = pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await {
            match error {
                kube::Error::Api(status) if status.code == 404 => break,
                _ => sleep(AGAIN).await,
            }
        }
    }
    orphans
}

/// Returns the pods with a Deployment's labels.
async fn pods_of(world: &World, deployment: &Deployment) -> Vec<Pod> {
    let labels = serde_json::to_value(&deployment.spec).unwrap();
    let app = labels["template"]["metadata"]["labels"]["app"].as_str().unwrap().to_owned();
    let selector = format!("app={app},component={}", role(deployment));
    let namespace = deployment.namespace().unwrap();
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    loop {
        match pods.list(&ListParams::default().labels(&selector)).await {
            Ok(list) => return list.items,
            Err(_) => sleep(AGAIN).await,
        }
    }
}

/// Returns the name of the Deployment's cluster.
fn app(deployment: &Deployment) -> &str {
    deployment.labels().get("app").map_or("", String::as_str)
}

/// Returns the IP address of a pod that stands by: the same in every run, and another one for each generation.
fn ip_of(pod: &Pod) -> String {
    let generation = pod.annotations()[STANDBY_ANNOTATION].split('-').next().unwrap_or_default();
    let role = u8::from(pod.labels()["app.kubernetes.io/component"] == "jobmanager");
    format!("10.0.{generation}.{role}")
}

fn role(deployment: &Deployment) -> &str {
    deployment.labels().get("component").map_or("", String::as_str)
}

fn controller(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.name_any(),
        "uid": deployment.uid(), "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod that tries a spec completes, or its image cannot be pulled.
async fn try_out(world: &World, pod: &Pod) {
    let pods: Api<Pod> =
        Api::namespaced(world.client.clone(), &pod.namespace().unwrap_or_default());
    sleep(world.startup(&pod.namespace().unwrap_or_default())).await;
    let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
    if is_broken(image.as_deref()) {
        report_pod(&pods, &pod.name_any(), "Pending", unpulled(), IP).await;
    } else {
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        report_pod(&pods, &pod.name_any(), "Succeeded", done, IP).await;
    }
}

/// Whether an image cannot be pulled, from whichever registry.
fn is_broken(image: Option<&str>) -> bool {
    image.is_some_and(|image| image.ends_with(BROKEN_IMAGE))
}

fn unpulled() -> Value {
    json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
}

async fn start(world: &World, deployment: &Deployment) {
    let (namespace, name) = (deployment.namespace().unwrap(), deployment.name_any());
    let key = format!("{namespace}/{name}");
    let uid = deployment.uid().unwrap();
    if !adopt(world, deployment).await.is_empty() {
        report_available(world, deployment).await;
        return;
    }
    let spec = serde_json::to_value(&deployment.spec).unwrap();
    let container = &spec["template"]["spec"]["containers"][0];
    let pod = new_pod(deployment, container);
    report(world, deployment, 0).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    while let Err(error) = pods.create(&PostParams::default(), &pod).await {
        match error {
            kube::Error::Api(status) if status.code == 409 => break,
            // An API server that is starting rejects what it cannot decide yet.
            kube::Error::Api(status) if status.code == 403 => sleep(AGAIN).await,
            // Its namespace or its Deployment is gone.
            kube::Error::Api(status) if status.code < 429 => return,
            _ => sleep(AGAIN).await,
        }
    }
    sleep(world.startup(&namespace)).await;
    if is_broken(container["image"].as_str()) {
        report_pod(&pods, &pod.name_any(), "Pending", unpulled(), IP).await;
        return;
    }
    let map = format!("flink-config-{name}");
    let Some(config) = flink::Config::read(world, (&namespace, &name), &map, container).await
    else {
        // The pod is deleted with its Deployment, which may have been deleted right after its creation.
        let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &namespace);
        let now = deployments.get_opt(&name).await.ok().flatten();
        let is_there = now.is_some_and(|now| {
            now.uid().as_ref() == Some(&uid) && now.metadata.deletion_timestamp.is_none()
        });
        if is_there {
            world.broke(&key, "a pod waits for a ConfigMap that is not there".to_owned());
        }
        return;
    };
    let started_at = start_container(&config).await;
    let config = Arc::new(config);
    if come_up(world, &key, &uid, &config).await {
        report_pod(&pods, &pod.name_any(), "Running", running(started_at), IP).await;
        report_available(world, deployment).await;
    }
}

/// Lets the JobManager of a Deployment or standby pod lead. Returns `false` if it was told to end before.
async fn come_up(world: &World, key: &str, uid: &str, config: &Arc<flink::Config>) -> bool {
    let is_deposed = metadata::is_leader_deposed(world, key).await;
    // It must be up, with its job, before it is ended.
    let _coming_up = world.writing.read().await;
    {
        let mut state = world.state();
        let uid = state.adopted.get(uid).cloned().unwrap_or_else(|| uid.to_owned());
        if state.finished.contains(&uid) {
            return false;
        }
        let processes = state.processes.entry(key.to_owned()).or_default();
        if is_deposed && !processes.is_empty() {
            // They have noticed by now, and their jobs are suspended.
            for process in std::mem::take(processes) {
                state.overlapped.insert(key.to_owned());
                drop(state);
                flink::end(world, key, &process);
                state = world.state();
            }
        }
        let processes = state.processes.entry(key.to_owned()).or_default();
        let others = processes.iter().filter(|process| process.uid != uid).count();
        processes.push(Process { uid, config: Arc::clone(config), has_led: false });
        if others > 0 {
            state.broken.push((key.to_owned(), "two JobManagers at the same time".to_owned()));
        }
    }
    flink::start(world, key, config).await;
    let mut state = world.state();
    for process in state.processes.get_mut(key).into_iter().flatten() {
        process.has_led |= Arc::ptr_eq(&process.config, config);
    }
    true
}

/// Waits until the container's JobManager can answer; returns the container's start time.
async fn start_container(config: &flink::Config) -> jiff::Timestamp {
    let started_at = jiff::Timestamp::now();
    if config.is_session {
        sleep(SESSION_START).await;
    }
    started_at
}

/// Ends a JobManager's process and starts its container again.
pub(super) async fn restart(world: &World, deployment: &Deployment) {
    let (namespace, name) = (deployment.namespace().unwrap(), deployment.name_any());
    let (key, uid) = (format!("{namespace}/{name}"), deployment.uid().unwrap());
    let _alone = world.alone(&key).await;
    // Nobody contends for the lock until it has started again.
    let set_led = |has_led| {
        let mut state = world.state();
        let mut all = state.processes.get_mut(&key).expect("a process").iter_mut();
        let process = all.find(|one| one.uid == uid).expect("a process");
        process.has_led = has_led;
        process.clone()
    };
    flink::end(world, &key, &set_led(false));
    let spec = serde_json::to_value(&deployment.spec).unwrap();
    let container = &spec["template"]["spec"]["containers"][0];
    let map = format!("flink-config-{name}");
    let config = flink::Config::read(world, (&namespace, &name), &map, container).await;
    let config = config.expect("its ConfigMap");
    let started_at = start_container(&config).await;
    flink::start(world, &key, &config).await;
    set_led(true);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    report_pod(&pods, &pod_name(deployment), "Running", running(started_at), IP).await;
}

/// Requests the end of the pods of a Deployment that was scaled to zero.
async fn stop(world: &World, deployment: &Deployment) {
    let pods: Api<Pod> =
        Api::namespaced(world.client.clone(), &deployment.namespace().unwrap_or_default());
    let is_its = |pod: &Pod| {
        pod.owner_references().iter().any(|owner| Some(&owner.uid) == deployment.uid().as_ref())
    };
    // A JobManager's pod may still be coming; TaskManagers only have standby pods.
    let tries = if role(deployment) == "jobmanager" { STOP_TRIES } else { 1 };
    for _ in 0..tries {
        let mut is_asked = false;
        for pod in pods_of(world, deployment).await.iter().filter(|pod| is_its(pod)) {
            let now = DeleteParams::default().grace_period(0);
            is_asked |= pods.delete(&pod.name_any(), &now).await.is_ok();
        }
        if is_asked {
            return;
        }
        sleep(AGAIN).await;
    }
}

fn pod_name(deployment: &Deployment) -> String {
    format!("{}-{}", deployment.name_any(), &deployment.uid().unwrap_or_default()[..8])
}

fn new_pod(deployment: &Deployment, container: &Value) -> Pod {
    let (namespace, name) = (deployment.namespace().unwrap(), deployment.name_any());
    serde_json::from_value(json!({
        "metadata": {
            "name": pod_name(deployment),
            "namespace": namespace,
            "labels": {"app": name, "component": "jobmanager"},
            "finalizers": [RUNNING],
            "ownerReferences": [controller(deployment)],
        },
        "spec": {
            "serviceAccountName": "flink",
            "automountServiceAccountToken": false,
            "containers": [{"name": "flink-main-container", "image": container["image"]}],
        },
    }))
    .unwrap()
}

fn running(started_at: jiff::Timestamp) -> Value {
    json!({"running": {"startedAt": started_at}})
}

async fn report_pod(pods: &Api<Pod>, name: &str, phase: &str, container: Value, ip: &str) {
    let ready = if phase == "Running" { "True" } else { "False" };
    let conditions = json!([{"type": "Ready", "status": ready}]);
    let status = json!({"status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": conditions, "containerStatuses": [{
        "name": "flink-main-container", "image": "flink", "imageID": "", "ready": phase == "Running",
        "restartCount": 0, "state": container,
    }]}});
    let patch = Patch::Merge(status);
    while let Err(error) = pods.patch_status(name, &PatchParams::default(), &patch).await {
        match error {
            kube::Error::Api(status) if status.code == 404 => return,
            _ => sleep(AGAIN).await,
        }
    }
}

async fn report_available(world: &World, deployment: &Deployment) {
    report(world, deployment, deployment.spec.replicas.unwrap_or(1)).await;
}

/// Reports the status as the controller of Deployments does, which says at once that no replica is available yet: its
/// condition is as old as the Deployment, however late this is reported.
async fn report(world: &World, deployment: &Deployment, available: i32) {
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let (status, reason) = if available > 0 {
        ("True", "MinimumReplicasAvailable")
    } else {
        ("False", "MinimumReplicasUnavailable")
    };
    let since = deployment.creation_timestamp().filter(|_| available == 0);
    let since = since.map_or_else(jiff::Timestamp::now, |created| created.0);
    let status = json!({"status": {
        "observedGeneration": deployment.metadata.generation, "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": available, "availableReplicas": available,
        "conditions": [{
            "type": "Available", "status": status, "reason": reason,
            "lastTransitionTime": since, "lastUpdateTime": since,
        }],
    }});
    let namespace = deployment.namespace().unwrap();
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &namespace);
    let (name, patch) = (deployment.name_any(), Patch::Merge(status));
    while let Err(error) = deployments.patch_status(&name, &PatchParams::default(), &patch).await {
        match error {
            kube::Error::Api(status) if status.code == 404 => return,
            _ => sleep(AGAIN).await,
        }
    }
}

async fn end(world: &World, pod: &Pod) {
    let stands_by = is_of_preflight(pod.labels());
    let name = if stands_by { "app.kubernetes.io/instance" } else { "app" };
    let (namespace, name) = (pod.namespace().unwrap(), &pod.labels()[name]);
    let key = format!("{namespace}/{name}");
    let owners = pod.owner_references();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let uid = controller.map_or_else(|| pod.uid().unwrap(), |owner| owner.uid.clone());
    let slow = world.state().slow_ends.get(&namespace).copied();
    sleep(if stands_by { END_OF_STANDBY } else { slow.unwrap_or(END) }).await;
    let alone = world.alone(&key).await;
    let writing = world.writing.write().await;
    let process = {
        let mut state = world.state();
        state.finished.insert(uid.clone());
        let processes = state.processes.entry(key.clone()).or_default();
        let found = processes.iter().position(|process| process.uid == uid);
        let ended = found.map(|at| processes.remove(at));
        if ended.is_some() {
            state.left_since.insert(key.clone(), Instant::now());
        }
        ended
    };
    if let Some(process) = process {
        flink::end(world, &key, &process);
        if process.config.is_highly_available {
            metadata::release(world, &key, &process).await;
        }
    }
    drop((writing, alone));
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    while let Err(error) = pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await {
        match error {
            kube::Error::Api(status) if status.code == 404 => return,
            _ => sleep(AGAIN).await,
        }
    }
}
