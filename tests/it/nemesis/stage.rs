//! What the nemesis works on: three jobs, a blue/green deployment, an object store, and two operators of which one
//! leads.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::edits::HOT;
use super::history::History;
use super::operators::Operators;
use super::plan::{Target, What};
use super::store::{Store, plugin};
use crate::e2e::cluster::Cluster;
use crate::e2e::kerberos::address_for_pods;

/// Time for the API server, or for Flink, to answer a question of this test.
pub(super) const DEADLINE: Duration = Duration::from_secs(4);
pub(super) const KINDS: [&str; 4] =
    ["FlinkDeployment", "FlinkSessionJob", "FlinkBlueGreenDeployment", "FlinkStateSnapshot"];
/// An image that nobody has.
pub(super) const BAD_IMAGE: &str = "registry.invalid/flink:none";

impl Target {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Standalone => "standalone",
            Self::Lab => "lab",
            Self::Session => "session",
            Self::Colours => "colours",
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Session => "FlinkSessionJob",
            Self::Colours => "FlinkBlueGreenDeployment",
            Self::Native | Self::Standalone | Self::Lab => "FlinkDeployment",
        }
    }

    /// Selects the pods of its clusters.
    pub(super) fn selector(self) -> &'static str {
        match self {
            Self::Native => "app=native",
            Self::Standalone => "app=standalone",
            Self::Lab | Self::Session => "app=lab",
            Self::Colours => "app in (colours-blue,colours-green)",
        }
    }

    /// Returns a merge patch with this as the spec of its job or cluster.
    pub(super) fn patch(self, spec: &Value) -> Value {
        match self {
            Self::Colours => json!({"spec": {"template": {"spec": spec}}}),
            _ => json!({"spec": spec}),
        }
    }
}

pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) history: History,
    pub(super) store: Store,
    pub(super) operators: Operators,
    pub(super) image: String,
    /// How often a person had to name the state of a job.
    pub(super) answers: AtomicUsize,
    /// The events in progress.
    active: Mutex<Vec<What>>,
}

impl Stage {
    /// Starts everything.
    pub(super) fn set(history: History) -> Self {
        let cluster = Cluster::new("nemesis");
        let address = address_for_pods(&cluster);
        let store = cluster.wait_for(Store::start(cluster.data(), address));
        cluster.let_operator_see_nodes();
        cluster.configure_operator(&options(&store.endpoint));
        let operators = Operators::start(&cluster, history.folder());
        let image = format!("flink:{}", cluster.flink_version());
        let (answers, active) = (AtomicUsize::default(), Mutex::default());
        let stage = Self { cluster, history, store, operators, image, answers, active };
        stage.lay_out_plugin();
        for target in Target::ALL {
            stage.cluster.create(&stage.manifest(target));
        }
        stage
    }

    fn lay_out_plugin(&self) {
        let plugin = plugin(&self.cluster.flink_version());
        let folder = self.cluster.data().join("plugins/s3");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(&plugin, folder.join(plugin.file_name().unwrap())).unwrap();
    }

    fn manifest(&self, target: Target) -> Value {
        let mut manifest = self.cluster.job();
        let name = target.name();
        let arguments = json!([
            "--output",
            format!("file:///flink-data/{name}"),
            "--keys",
            "4",
            "--rate",
            "10"
        ]);
        manifest["metadata"] = json!({"name": name, "namespace": self.cluster.namespace});
        manifest["spec"]["job"]["args"] = arguments.clone();
        let spec = &mut manifest["spec"];
        // What waits for a checkpoint waits no longer than for anything else.
        spec["flinkConfiguration"]["execution.checkpointing.timeout"] = json!("1 min");
        // A dozen JVMs start on few cores.
        spec["flinkConfiguration"]["env.java.opts.all"] =
            json!("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
        match target {
            Target::Native => self.keep_state_in_store(spec),
            Target::Standalone => {
                spec["mode"] = json!("standalone");
                spec["job"]["upgradeMode"] = json!("last-state");
                spec["flinkConfiguration"][HOT] = json!("true");
            }
            Target::Lab => drop(spec.as_object_mut().unwrap().remove("job")),
            Target::Session => {
                *spec = json!({
                    "deploymentName": Target::Lab.name(),
                    "job": {
                        "jarURI": "s3://jars/jobs/job.jar",
                        "args": arguments,
                        "parallelism": 1,
                        "upgradeMode": "savepoint",
                    },
                });
            }
            Target::Colours => {
                *spec = json!({
                    "configuration": {
                        "kubernetes.operator.bluegreen.abort.grace-period": "5 min",
                        "kubernetes.operator.bluegreen.reconciliation.reschedule-interval": "1 s",
                        "kubernetes.operator.bluegreen.deployment-deletion.delay": "3 s",
                    },
                    "template": {"spec": spec.take()},
                });
            }
        }
        manifest["kind"] = json!(target.kind());
        manifest
    }

    /// Has Flink keep checkpoints, savepoints and HA metadata in the object store.
    fn keep_state_in_store(&self, spec: &mut Value) {
        let options = spec["flinkConfiguration"].as_object_mut().unwrap();
        for (key, folder) in [
            ("state.checkpoints.dir", "checkpoints"),
            ("state.savepoints.dir", "savepoints"),
            ("high-availability.storageDir", "ha"),
        ] {
            options.insert(key.to_owned(), json!(format!("s3://jars/native/{folder}")));
        }
        let access = access(&self.store.endpoint);
        options.extend(access.map(|(key, value)| (key.to_owned(), json!(value))));
        let container = &mut spec["podTemplate"]["spec"]["containers"][0];
        container["volumeMounts"].as_array_mut().unwrap().push(json!({
            "name": "flink-data",
            "mountPath": "/opt/flink/plugins/s3-fs-hadoop",
            "subPath": "plugins/s3",
        }));
    }

    pub(super) fn begin(&self, what: &What) {
        self.active.lock().unwrap().push(what.clone());
    }

    pub(super) fn end(&self, what: &What) {
        let mut active = self.active.lock().unwrap();
        let at = active.iter().position(|it| it == what);
        active.swap_remove(at.expect("an event in progress"));
    }

    /// Whether something in progress keeps the operator from writing statuses.
    pub(super) fn is_mute(&self) -> bool {
        self.active.lock().unwrap().iter().any(What::mutes_operator)
    }

    /// Runs a request, and gives up after a while: what it is for may have been stopped.
    pub(super) fn ask<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, String> {
        self.cluster.wait_for(async {
            match tokio::time::timeout(DEADLINE, request).await {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer in {DEADLINE:?}")),
            }
        })
    }

    pub(super) fn list(&self, kind: &str) -> Result<Vec<Value>, String> {
        let resources: Api<DynamicObject> = self.cluster.resources(kind);
        let listed = self.ask(resources.list(&ListParams::default()))?;
        Ok(listed.items.into_iter().map(|it| serde_json::to_value(it).unwrap()).collect())
    }

    pub(super) fn pods(&self, selector: &str) -> Result<Vec<Pod>, String> {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), &self.cluster.namespace);
        Ok(self.ask(pods.list(&ListParams::default().labels(selector)))?.items)
    }

    pub(super) fn edit(&self, target: Target, spec: &Value) -> Result<(), String> {
        let (resources, params) = (self.cluster.resources(target.kind()), PatchParams::default());
        let patch = Patch::Merge(target.patch(spec));
        self.ask(resources.patch(target.name(), &params, &patch)).map(drop)
    }
}

/// Returns how the store is reached.
fn access(endpoint: &str) -> [(&'static str, &str); 4] {
    [
        ("s3.endpoint", endpoint),
        ("s3.path.style.access", "true"),
        ("s3.access-key", "an-access-key"),
        ("s3.secret-key", "a-secret-key"),
    ]
}

/// Returns the operators' configuration.
fn options(endpoint: &str) -> Vec<(&'static str, &str)> {
    let own = [
        ("kubernetes.operator.user.artifacts.allowed-schemes", "http;s3"),
        ("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "false"),
        ("kubernetes.operator.leader-election.enabled", "true"),
        ("kubernetes.operator.leader-election.lease-name", operator::install::objects::NAME),
        ("kubernetes.operator.health.probe.enabled", "false"),
    ];
    own.into_iter().chain(access(endpoint)).collect()
}
