//! A namespace of a real cluster, with its own operator and the exactly-once job in it.
//!
//! Everything a user would do goes through the program `kubectl-flink`; the tests read the outcome from the API server.
//! A failing test prints the logs of the operator and the pods.

mod life;
mod nodes;
pub(crate) mod output;
pub(crate) mod pods;
mod resources;
mod rest;
mod rights;
pub(super) mod silence;
mod turn;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, thread};

use clients::cluster::apply::{Deletion, ObjectId, Propagation, Writer};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, Pod, Service};
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::support::api_client;
use crate::support::program::{other, program};
use testing::share;

const POLL_EVERY: Duration = Duration::from_millis(500);
/// Number of lines of each log that a failing test prints.
const TAIL: usize = 60;

/// Kinds of resources that a test creates, and that would remain after it.
const KINDS: [&str; 4] =
    ["FlinkBlueGreenDeployment", "FlinkSessionJob", "FlinkDeployment", "FlinkStateSnapshot"];

/// Name of the job in every namespace.
pub(super) const JOB: &str = "exactly-once-counter";

pub(crate) struct Cluster {
    runtime: tokio::runtime::Runtime,
    client: Client,
    kubeconfig: PathBuf,
    pub(crate) namespace: String,
    /// Name of the deployment under observation.
    pub(super) name: String,
    /// Path on this machine, and as a hostPath in the pods.
    data: PathBuf,
    operator: Option<Child>,
    _turn: turn::Turn,
}

impl Cluster {
    /// Creates a namespace and prepares it as a user would, with `kubectl flink init`.
    pub(crate) fn new(name: &str) -> Self {
        let cluster = Self::bare(name);
        cluster.flink(&["init", "--yes"]);
        cluster
    }

    /// Creates an empty namespace, once it is this test's turn.
    pub(super) fn bare(name: &str) -> Self {
        let turn = turn::Turn::wait();
        let kubeconfig = env::var_os("KUBECTL_FLINK_TEST_KUBECONFIG").map(PathBuf::from).expect(
            "KUBECTL_FLINK_TEST_KUBECONFIG names the kubeconfig of a sandbox: run tests/cluster.sh",
        );
        // Fails if another test was first, which is fine.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client =
            runtime.block_on(async { api_client::client(api_client::config(&kubeconfig).await) });
        let namespace = format!("e2e-{name}-{}", std::process::id());
        let data = PathBuf::from(format!("/tmp/kubectl-flink-{namespace}"));
        let cluster = Self {
            runtime,
            client,
            kubeconfig,
            namespace,
            name: JOB.to_owned(),
            data,
            operator: None,
            _turn: turn,
        };
        cluster.lay_out();
        cluster
    }

    fn lay_out(&self) {
        fs::create_dir_all(&self.data).unwrap();
        // Flink runs as another user than this test.
        run(other("chmod").arg("777").arg(&self.data));
        fs::copy(jar(), self.data.join("exactly-once-counter.jar")).unwrap();
        let namespace: Namespace = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace},
        }))
        .unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        self.runtime.block_on(namespaces.create(&PostParams::default(), &namespace)).unwrap();
    }

    /// Returns `examples/jobs/exactly-once-counter.yaml`, with this test's folder as the node's, on
    /// [`Self::flink_version`].
    pub(crate) fn job(&self) -> Value {
        let text = fs::read_to_string(project().join("examples/jobs/exactly-once-counter.yaml"));
        let text = text.unwrap().replace("/tmp/flink-exactly-once", self.data.to_str().unwrap());
        let mut job: Value = serde_yaml::from_str(&text).unwrap();
        let version = self.flink_version();
        job["spec"]["image"] = json!(format!("flink:{version}"));
        job["spec"]["flinkVersion"] = json!(format!("v{}", version.replace('.', "_")));
        job
    }

    /// Returns `KUBECTL_FLINK_TEST_FLINK`, or else a version that alternates: with each commit one half of the tests
    /// uses the newest, and with the next commit the other half.
    pub(crate) fn flink_version(&self) -> String {
        let name = self.namespace.rsplit_once('-').map_or("", |(name, _)| name);
        let number = name.bytes().map(usize::from).sum();
        let of_turn = || share::one_of(&["1.20", "2.3"], number).to_owned();
        env::var("KUBECTL_FLINK_TEST_FLINK").unwrap_or_else(|_| of_turn())
    }

    /// Runs `kubectl-flink`, which must succeed. Returns its standard output.
    #[track_caller]
    pub(super) fn flink(&self, args: &[&str]) -> String {
        let output = self.try_flink(args);
        assert!(output.status.success(), "kubectl flink {args:?}: {}", said(&output));
        println!("$ kubectl flink {}\n{}", args.join(" "), said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// As [`Self::flink`], without printing pages of output.
    #[track_caller]
    pub(super) fn flink_quietly(&self, args: &[&str]) -> String {
        let output = self.try_flink(args);
        assert!(output.status.success(), "kubectl flink {args:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn try_flink(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs kubectl itself, of whatever version this machine has.
    pub(super) fn kubectl(&self, args: &[&str]) -> Output {
        let mut command = other("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["-n", &self.namespace]);
        command.args(args).output().unwrap()
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        self.command_as(&self.kubeconfig, args)
    }

    fn command_as(&self, kubeconfig: &Path, args: &[&str]) -> Command {
        let mut command = program();
        command.arg("--kubeconfig").arg(kubeconfig).args(["-n", &self.namespace]).args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Returns the folder on this machine; it is `/flink-data` in the pods.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn kube_config(&self) -> Config {
        self.runtime.block_on(api_client::config(&self.kubeconfig))
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns an existing object of any kind in the namespace.
    pub(super) fn read(&self, api_version: &str, kind: &str, name: &str) -> Value {
        self.find(api_version, kind, name).unwrap_or_else(|| panic!("no {kind} `{name}`"))
    }

    pub(super) fn find(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let id = ObjectId {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: Some(self.namespace.clone()),
            name: name.to_owned(),
        };
        let found = clients::cluster::read::get_value(&self.client, &id);
        self.runtime.block_on(found).unwrap()
    }

    pub(super) fn label_namespace(&self, key: &str, value: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
        let params = PatchParams::default();
        self.runtime.block_on(namespaces.patch(&self.namespace, &params, &patch)).unwrap();
    }

    /// Deletes an object of any kind in the namespace, if it exists.
    pub(super) fn remove(&self, api_version: &str, kind: &str, name: &str) {
        let id = ObjectId {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: Some(self.namespace.clone()),
            name: name.to_owned(),
        };
        let deletion = Deletion::with(Propagation::Background);
        let removed = clients::cluster::apply::delete(&self.client, &id, deletion);
        self.runtime.block_on(removed).unwrap();
    }

    pub(crate) fn create(&self, object: &Value) {
        let client = self.client.clone();
        let created = clients::cluster::apply::create(&client, object, Writer::CLI);
        self.runtime.block_on(created).unwrap();
    }

    /// Returns the cluster IP of a Service.
    pub(super) fn service_address(&self, name: &str) -> String {
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        let service = self.runtime.block_on(services.get(name)).unwrap();
        service.spec.unwrap().cluster_ip.unwrap()
    }

    /// Runs `kubectl flink deploy -f`.
    #[track_caller]
    pub(super) fn deploy(&self, manifest: &Value) {
        let file = self.write(manifest);
        let config = self.operator_config();
        let mut args = vec!["deploy", "-f", file.to_str().unwrap()];
        if config.is_file() {
            args.extend(["--operator-config", config.to_str().unwrap()]);
        }
        self.flink(&args);
    }

    pub(super) fn write(&self, manifest: &Value) -> PathBuf {
        let file = self.data.join("manifest.yaml");
        fs::write(&file, manifest.to_string()).unwrap();
        file
    }

    pub(super) fn start_operator(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.operator_log()).unwrap();
        let mut command = self.command_as(&self.operator_kubeconfig(), &["operate"]);
        let config = self.operator_config();
        if config.is_file() {
            command.arg("--operator-config").arg(config);
        }
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.operator = Some(command.spawn().unwrap());
    }

    /// Writes the configuration for the operator's next start.
    pub(crate) fn configure_operator(&self, options: &[(&str, &str)]) {
        let lines: Vec<String> =
            options.iter().map(|(key, value)| format!("{key}: \"{value}\"\n")).collect();
        fs::write(self.operator_config(), lines.concat()).unwrap();
    }

    pub(crate) fn operator_config(&self) -> PathBuf {
        self.data.join("operator.yaml")
    }

    /// Kills the operator as a crash would, without a chance to finish anything.
    pub(super) fn kill_operator(&mut self) {
        if let Some(mut operator) = self.operator.take() {
            operator.kill().unwrap();
            operator.wait().unwrap();
        }
    }

    pub(super) fn operator_log(&self) -> PathBuf {
        self.data.join("operator.log")
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs a future to completion.
    pub(crate) fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs a future beside the test.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(work));
    }

    fn print_what_happened(&self) {
        let namespace = &self.namespace;
        for kind in KINDS {
            for resource in self.all(kind) {
                println!("==== {namespace}: {kind}\n{resource:#}");
            }
        }
        let log = fs::read_to_string(self.operator_log()).unwrap_or_default();
        println!("==== {namespace}: the operator's log\n{}", tail(&log));
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for pod in self.pods("") {
            let name = pod.metadata.name.unwrap_or_default();
            let status = serde_json::to_string(&pod.status).unwrap_or_default();
            println!("==== {namespace}: pod {name}: {status}");
            let params = LogParams { tail_lines: Some(60), ..LogParams::default() };
            match self.runtime.block_on(pods.logs(&name, &params)) {
                Ok(log) => println!("{log}"),
                Err(error) => println!("no log: {error}"),
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            // The cluster may be what failed, and a second panic would hide the first.
            drop(catch_unwind(AssertUnwindSafe(|| self.print_what_happened())));
        }
        self.kill_operator();
        if env::var_os("KUBECTL_FLINK_TEST_KEEP").is_some() {
            println!("kept: namespace {} and {}", self.namespace, self.data.display());
            return;
        }
        // Without an operator nothing removes the finalizers, which would keep the namespace.
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.runtime.block_on(async {
            let params = PatchParams::default();
            for kind in KINDS {
                let resources = self.resources(kind);
                let Ok(all) = resources.list(&ListParams::default()).await else { continue };
                for name in all.into_iter().filter_map(|object| object.metadata.name) {
                    drop(resources.patch(&name, &params, &patch).await);
                }
            }
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            drop(namespaces.delete(&self.namespace, &DeleteParams::default()).await);
            // Few tests create one, and no namespace's deletion includes it.
            let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
            drop(volumes.delete(&self.namespace, &DeleteParams::default()).await);
            self.forbid_to_see_nodes().await;
        });
        drop(fs::remove_dir_all(&self.data));
    }
}

pub(crate) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the job's jar, which is built once per run.
pub(crate) fn jar() -> &'static Path {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    JAR.get_or_init(|| {
        let jar = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exactly-once-counter.jar");
        run(other(project().join("examples/jobs/build.sh")).arg(&jar));
        jar
    })
}

#[track_caller]
pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

pub(crate) fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr)).trim().to_owned()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
