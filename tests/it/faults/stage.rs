//! The stage of one case: a namespace with its own operator behind its own proxy.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::ground::{Ground, file};
use super::operator::Operator;
use super::proxy::{Asked, Fault, Proxy, Recorded};
use crate::support::patience::PATIENCE;

/// Interval for checking whether the operator runs and has written.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Interval for reading an object although the operator wrote nothing: two dozen cases share two cores with their API
/// server.
const READ_EVERY: Duration = Duration::from_millis(700);
/// Idle time to wait for on a fast machine; longer than [`INTERVAL`].
const REST: Duration = Duration::from_millis(2500);
/// The operator's interval for checking settled resources.
const INTERVAL: Duration = Duration::from_secs(2);
/// More requests than a pass makes before it writes.
const REQUESTS_OF_A_PASS: u32 = 10;

/// Short intervals and timeouts, so that passes come soon and unanswered requests are given up soon.
pub(super) const OPERATOR_CONFIG: &str = "\
kubernetes.operator.reconcile.interval: 2 s
kubernetes.operator.observer.progress-check.interval: 500 ms
kubernetes.operator.flink.client.timeout: 3 s
kubernetes.operator.flink.client.cancel.timeout: 3 s
kubernetes.operator.job.submission.timeout: 5 s
";

pub(super) const DEPLOYMENT: &str = "FlinkDeployment";
pub(super) const SESSION_JOB: &str = "FlinkSessionJob";
pub(super) const SNAPSHOT: &str = "FlinkStateSnapshot";
pub(super) const BLUE_GREEN: &str = "FlinkBlueGreenDeployment";

pub(super) type Script = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

pub(super) struct Stage {
    pub(super) ground: Arc<Ground>,
    pub(super) namespace: String,
    pub(super) operator: Arc<Operator>,
    pub(super) proxy: Proxy,
    /// What goes wrong from `begin` on.
    script: std::sync::Mutex<Option<Script>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.operator.stop();
        self.ground.world.leave(&self.namespace);
    }
}

impl Stage {
    /// Creates a namespace with an operator; `script` decides what goes wrong after `begin`.
    pub(super) async fn new(ground: &Arc<Ground>, namespace: &str, script: Script) -> Self {
        lay_out(ground, namespace).await;
        let client = ground.client.clone();
        Self::in_namespace(ground, namespace, (client, OPERATOR_CONFIG), script).await
    }

    /// As [`Self::new`], in a namespace that already exists, with the operator acting as `client` and configured like this.
    pub(super) async fn in_namespace(
        ground: &Arc<Ground>,
        namespace: &str,
        (client, config): (kube::Client, &str),
        script: Script,
    ) -> Self {
        let operator = Arc::new(ground.operator(namespace));
        let flink = ground.world.flink_address().to_owned();
        let proxy = Proxy::start(client, flink, Arc::clone(&operator)).await;
        let stage = Self {
            ground: Arc::clone(ground),
            namespace: namespace.to_owned(),
            operator,
            proxy,
            script: std::sync::Mutex::new(Some(script)),
        };
        let arguments = arguments(ground, namespace, namespace, &stage.proxy, config);
        stage.operator.start(arguments);
        stage
    }

    /// Starts to number requests and to apply the script.
    pub(super) fn begin(&self) {
        let script = self.script.lock().unwrap().take();
        self.proxy.begin(script.unwrap());
    }

    pub(super) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Deployment" | "ControllerRevision" => ("apps", "v1"),
            "ConfigMap" | "Event" | "Service" | "Pod" | "Secret" => ("", "v1"),
            "Ingress" => ("networking.k8s.io", "v1"),
            _ => ("flink.apache.org", "v1beta1"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.ground.client.clone(), &self.namespace, &resource)
    }

    pub(super) async fn create(&self, object: Value) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(&kind).create(&PostParams::default(), &object).await.unwrap();
    }

    /// Merges into the spec, as `kubectl patch` does.
    pub(super) async fn edit(&self, kind: &str, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn delete(&self, kind: &str, name: &str) {
        drop(self.api(kind).delete(name, &DeleteParams::default()).await.unwrap());
    }

    /// Returns the object, or `null` if it does not exist.
    pub(super) async fn inspect(&self, kind: &str, name: &str) -> Value {
        match self.api(kind).get_opt(name).await {
            Ok(found) => serde_json::to_value(found).unwrap(),
            // A control plane that restarts is asked again.
            Err(error) => json!({ "unreadable": error.to_string() }),
        }
    }

    /// Waits until the object satisfies the condition, and restarts the operator if it has died.
    pub(super) async fn until(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        mut is_so: impl FnMut(&Value) -> bool,
    ) -> Value {
        let start = Instant::now();
        let mut looked: Option<Instant> = None;
        loop {
            self.operator.tend();
            let is_due = looked.is_none_or(|at| {
                at.elapsed() > READ_EVERY
                    || self.proxy.last_write().is_some_and(|write| write >= at)
            });
            if !is_due {
                sleep(POLL_EVERY).await;
                continue;
            }
            looked = Some(Instant::now());
            let found = self.inspect(kind, name).await;
            if is_so(&found) {
                return found;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}",
                self.described(&format!("{kind} `{name}` is not {what}: {found:#}"))
            );
            sleep(POLL_EVERY).await;
        }
    }

    /// Waits until the current spec is STABLE with a running job.
    pub(super) async fn until_stable(&self, name: &str) -> Value {
        self.until(DEPLOYMENT, name, "STABLE", is_stable).await
    }

    pub(super) async fn until_gone(&self, kind: &str, name: &str) {
        self.until(kind, name, "gone", Value::is_null).await;
    }

    /// Waits until nothing is written any more. How long the operator's next pass may take until it writes is judged by
    /// how long a read takes here: much longer on a slow machine than on a fast one.
    pub(super) async fn until_at_rest(&self) {
        let start = Instant::now();
        loop {
            self.operator.tend();
            if self.proxy.at_rest_for() >= REST {
                let asked = Instant::now();
                let _any = self.inspect(DEPLOYMENT, "any").await;
                let pass = asked.elapsed() * REQUESTS_OF_A_PASS;
                if self.proxy.at_rest_for() >= REST.max(INTERVAL + pass) {
                    return;
                }
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.described("writes go on"));
            sleep(POLL_EVERY).await;
        }
    }

    /// Waits until a recorded request satisfies the condition.
    pub(super) async fn until_recorded(&self, what: &str, is_it: impl Fn(&Recorded) -> bool) {
        let start = Instant::now();
        while !self.proxy.recorded().iter().any(&is_it) {
            assert!(start.elapsed() < PATIENCE, "{}", self.described(&format!("never {what}")));
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Panics if a law of state was broken.
    pub(super) fn check_laws(&self) {
        let mut broken = self.ground.world.broken(&self.namespace);
        broken.extend(super::laws::broken_in(&self.proxy.recorded()));
        broken.extend(self.proxy.broken_phases());
        assert!(broken.is_empty(), "{}", self.described(&broken.join("\n")));
    }

    /// Describes a failure, with what happened before.
    pub(super) fn described(&self, what: &str) -> String {
        let recorded = self.proxy.recorded();
        let broken = self.ground.world.broken(&self.namespace).join("\n");
        let writes = recorded.iter().filter(|one| one.asked.write.is_some() || one.fault.is_some());
        let writes: Vec<String> = writes.map(line).collect();
        format!(
            // Repeated, so that it is seen at the beginning and at the end.
            "{what}\n{broken}\n--- {}: writes and faults\n{}\n--- the operator, started {} times\n{}\n\
             {what}\n{broken}",
            self.namespace,
            writes.join("\n"),
            self.operator.starts(),
            self.operator.said(),
        )
    }
}

/// Creates a namespace for jobs.
pub(super) async fn lay_out(ground: &Ground, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(ground.client.clone());
    create(&namespaces, &namespace).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(ground.client.clone(), name);
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "flink"}})).unwrap();
    create(&accounts, &account).await;
}

/// Creates an object, also in an API server that is too busy for that at first.
async fn create<K>(api: &Api<K>, object: &K)
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let begun = Instant::now();
    loop {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => return,
            // It was created, and the answer said otherwise.
            Err(kube::Error::Api(status)) if status.code == 409 => return,
            Err(kube::Error::Api(status)) if status.code >= 500 && begun.elapsed() < PATIENCE => {
                sleep(Duration::from_millis(500)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the arguments of an operator called `name` that works in a namespace, behind a proxy.
pub(super) fn arguments(
    ground: &Ground,
    name: &str,
    namespace: &str,
    proxy: &Proxy,
    config: &str,
) -> Vec<String> {
    let kubeconfig = file(ground, &format!("{name}.kubeconfig"));
    let config_file = config_file(ground, name);
    std::fs::write(&kubeconfig, proxy.kubeconfig().to_string()).unwrap();
    std::fs::write(&config_file, config).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    vec![
        "--kubeconfig".to_owned(),
        text(&kubeconfig),
        "-n".to_owned(),
        namespace.to_owned(),
        // Unanswered requests are given up soon.
        "--request-timeout".to_owned(),
        "4s".to_owned(),
        "operate".to_owned(),
        "--operator-config".to_owned(),
        text(&config_file),
        "--flink-rest-address".to_owned(),
        proxy.flink_address.clone(),
    ]
}

/// Returns the path of the named operator's configuration.
pub(super) fn config_file(ground: &Ground, name: &str) -> std::path::PathBuf {
    file(ground, &format!("{name}.yaml"))
}

pub(super) fn line(recorded: &Recorded) -> String {
    let Recorded { asked, fault, status, age: _, touched: _, at: _ } = recorded;
    let number = asked.write.map_or_else(String::new, |number| number.to_string());
    let status = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let fault = fault.map_or_else(String::new, |fault| format!("  <- {fault:?}"));
    let path = asked.path.replace("fieldManager=kubectl-flink-operator", "");
    format!("{number:>3} {:6} {path} {status}{fault}", asked.method.as_str())
}

/// Whether the status is about the current spec and the job runs.
pub(super) fn is_stable(found: &Value) -> bool {
    is_current(found)
        && found["status"]["lifecycleState"] == "STABLE"
        && (found["spec"]["job"].is_null() || found["status"]["jobStatus"]["state"] == "RUNNING")
}

pub(super) fn is_suspended(found: &Value) -> bool {
    is_current(found) && found["status"]["lifecycleState"] == "SUSPENDED"
}

fn is_current(found: &Value) -> bool {
    found["status"]["observedGeneration"] == found["metadata"]["generation"]
}
