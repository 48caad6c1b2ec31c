//! Carries out an event, and ends it.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::edits;
use super::operators::{COUNT, leader};
use super::plan::{Event, Rejected, Role, Target, What};
use super::stage::Stage;
use super::store::Answers;
use crate::e2e::cluster::pods::signal_jvm;
use crate::support::patience::PATIENCE;
use crate::support::program::program;

/// Where `sandbox up` of root keeps its state.
const SANDBOXES: &str = "/var/lib/kubectl-flink";
const FLINK_PODS: &str = "component in (jobmanager,taskmanager)";
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Ends an event.
pub(super) type Heal<'a> = Box<dyn FnOnce() + 'a>;

/// Carries out an event from its beginning to its end.
pub(super) fn run(stage: &Stage, event: &Event) {
    let object = format!("{:?}", event.what);
    stage.begin(&event.what);
    let heal = strike(stage, &event.what);
    let lasts = event.lasts.as_secs();
    let missed = heal.as_ref().err().cloned();
    let what = if missed.is_some() { "missed" } else { "begin" };
    stage.history.emit(what, &object, json!({"seconds": lasts, "why": missed}));
    if let Ok(heal) = heal {
        thread::sleep(event.lasts);
        heal();
        stage.history.emit("end", &object, Value::Null);
    }
    stage.end(&event.what);
}

fn strike<'a>(stage: &'a Stage, what: &'a What) -> Result<Heal<'a>, String> {
    match what {
        What::Kill(target, role) => jvm(stage, *target, *role, Signal::KILL),
        What::Pause(target, role) => jvm(stage, *target, *role, Signal::STOP),
        What::KillLeader => Ok(kill_operators(stage, vec![leader(stage)])),
        What::KillOperators => Ok(kill_operators(stage, (0..COUNT).collect())),
        What::PauseLeader => Ok(pause_operators(stage, vec![leader(stage)])),
        What::PauseOperators => Ok(pause_operators(stage, (0..COUNT).collect())),
        What::ApiServer => api_server(stage),
        What::Webhook(rejected) => webhook(stage, *rejected),
        What::StoreUnavailable => Ok(store(stage, Answers::Unavailable)),
        What::StoreSlow => Ok(store(stage, Answers::Slowly)),
        What::Cordon => cordon(stage),
        What::Drain => drain(stage),
        What::Edit(target, edit) => edits::make(stage, *target, edit),
    }
}

/// Repeats what has to succeed in the end.
pub(super) fn until_done(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    while let Err(error) = attempt() {
        assert!(start.elapsed() < PATIENCE, "{what}: {error}");
        thread::sleep(AGAIN_AFTER);
    }
}

fn jvm(stage: &Stage, target: Target, role: Role, signal: Signal) -> Result<Heal<'_>, String> {
    let (component, class) = match role {
        Role::JobManager => ("jobmanager", "ClusterEntry"),
        Role::TaskManager => ("taskmanager", "TaskExecutorRunner"),
    };
    let pods = stage.pods(&format!("{},component={component}", target.selector()))?;
    let pod = pods.into_iter().find(|pod| signal_jvm(pod, class, signal));
    let pod = pod.ok_or("no such process runs")?;
    stage.history.note(
        "signal",
        pod.metadata.name.as_deref().unwrap_or_default(),
        json!(format!("{signal:?}")),
    );
    Ok(Box::new(move || {
        if signal == Signal::STOP {
            signal_jvm(&pod, class, Signal::CONT);
        }
    }))
}

fn kill_operators(stage: &Stage, numbers: Vec<usize>) -> Heal<'_> {
    stage.history.note("killed", "operators", json!(numbers));
    for number in &numbers {
        stage.operators.kill(*number);
    }
    Box::new(move || {
        for number in numbers {
            stage.operators.release(number);
        }
    })
}

fn pause_operators(stage: &Stage, numbers: Vec<usize>) -> Heal<'_> {
    stage.history.note("paused", "operators", json!(numbers));
    for number in &numbers {
        stage.operators.signal(*number, Signal::STOP);
    }
    Box::new(move || {
        for number in numbers {
            stage.operators.signal(number, Signal::CONT);
        }
    })
}

fn api_server(stage: &Stage) -> Result<Heal<'_>, String> {
    let kubeconfig = stage.cluster.kubeconfig();
    let text = fs::read_to_string(kubeconfig).map_err(|error| error.to_string())?;
    let contexts: Value = serde_yaml::from_str(&text).map_err(|error| error.to_string())?;
    let name = contexts["current-context"].as_str().ok_or("no current context")?.to_owned();
    let identity = Path::new(SANDBOXES).join(&name).join("parts/kube-apiserver");
    let identity = fs::read_to_string(identity).map_err(|error| error.to_string())?;
    let pid = identity.split(' ').next().and_then(|pid| pid.parse().ok());
    let pid = pid.and_then(Pid::from_raw).ok_or("no process id")?;
    kill_process(pid, Signal::KILL).map_err(|error| error.to_string())?;
    Ok(Box::new(move || {
        until_done("the API server", || {
            let mut command = program();
            // It is not one of the sandboxes that tests start themselves.
            command.env_remove("KUBECTL_FLINK_SANDBOX_STATE");
            command.args(["sandbox", "up", "--name", &name, "--kubeconfig"]).arg(kubeconfig);
            let output = command.output().map_err(|error| error.to_string())?;
            let error = || String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.success().then_some(()).ok_or_else(error)
        });
    }))
}

/// Has the API server ask a webhook that is not there before it writes anything of this kind.
fn webhook(stage: &Stage, rejected: Rejected) -> Result<Heal<'_>, String> {
    let flink = ["flinkdeployments", "flinksessionjobs", "flinkbluegreendeployments"];
    let (group, resources) = match rejected {
        Rejected::Pods => ("", vec!["pods".to_owned()]),
        Rejected::Deployments => ("apps", vec!["deployments".to_owned()]),
        Rejected::ConfigMaps => ("", vec!["configmaps".to_owned()]),
        Rejected::Services => ("", vec!["services".to_owned()]),
        Rejected::Statuses => {
            ("flink.apache.org", flink.map(|kind| format!("{kind}/status")).to_vec())
        }
    };
    let namespace = &stage.cluster.namespace;
    let name = format!("{namespace}-{}", format!("{rejected:?}").to_lowercase());
    let configuration = serde_json::from_value(json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "nobody.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 2,
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{
                "apiGroups": [group],
                "apiVersions": ["*"],
                "resources": resources,
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }],
        }],
    }))
    .map_err(|error| error.to_string())?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stage.cluster.client());
    stage.ask(webhooks.create(&PostParams::default(), &configuration))?;
    Ok(Box::new(move || {
        until_done("no webhook", || {
            match stage.ask(webhooks.delete(&name, &DeleteParams::default())) {
                Err(error) if !error.contains("NotFound") => Err(error),
                _ => Ok(()),
            }
        });
    }))
}

fn store(stage: &Stage, answers: Answers) -> Heal<'_> {
    stage.store.answer(answers);
    Box::new(|| stage.store.answer(Answers::Well))
}

fn cordon(stage: &Stage) -> Result<Heal<'_>, String> {
    set_unschedulable(stage, &json!(true))?;
    Ok(Box::new(|| until_done("uncordon", || set_unschedulable(stage, &Value::Null))))
}

fn set_unschedulable(stage: &Stage, value: &Value) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(stage.cluster.client());
    let patch = Patch::Merge(json!({"spec": {"unschedulable": value}}));
    for node in stage.ask(nodes.list(&ListParams::default()))? {
        let name = node.metadata.name.unwrap_or_default();
        stage.ask(nodes.patch(&name, &PatchParams::default(), &patch))?;
    }
    Ok(())
}

fn drain(stage: &Stage) -> Result<Heal<'_>, String> {
    let heal = cordon(stage)?;
    let pods: Api<Pod> = Api::namespaced(stage.cluster.client(), &stage.cluster.namespace);
    let evicted = stage.pods(FLINK_PODS).unwrap_or_default();
    for name in evicted.into_iter().filter_map(|pod| pod.metadata.name) {
        let evicted = stage.ask(pods.evict(&name, &EvictParams::default()));
        stage.history.note("evicted", &name, json!(evicted.err()));
    }
    Ok(heal)
}
