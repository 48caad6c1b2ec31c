//! A namespace of a real cluster, with an operator of its own and the exactly-once job in it.
//!
//! Everything a user would do goes through the program `kubectl-flink`; what a test wants to know, it
//! reads from the API server. A test that fails prints what the operator and the pods said.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, Patch,
    PatchParams, PostParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kubectl_flink::api::version::FlinkVersion;
use kubectl_flink::cluster::apply::Writer;
use kubectl_flink::flink::access::{Access, Connector, Options, Target};
use kubectl_flink::flink::jars::RunRequest;
use kubectl_flink::flink::{self, Deadlines};
use serde_json::{Value, json};

/// Starting a JobManager and a TaskManager takes half a minute on two busy cores.
pub(super) const PATIENCE: Duration = Duration::from_mins(4);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Lines of each log that a failing test prints.
const TAIL: usize = 60;

/// The name of the job in every namespace.
pub(super) const JOB: &str = "exactly-once-counter";

pub(super) struct Cluster {
    runtime: tokio::runtime::Runtime,
    client: Client,
    kubeconfig: PathBuf,
    pub(super) namespace: String,
    /// The deployment that is looked at.
    pub(super) name: String,
    /// On this machine and, as a hostPath, in the pods.
    data: PathBuf,
    operator: Option<Child>,
}

impl Cluster {
    /// A namespace that is made ready as a user would, by `kubectl flink init`.
    pub(super) fn new(name: &str) -> Self {
        let kubeconfig = env::var_os("KUBECTL_FLINK_TEST_KUBECONFIG").map(PathBuf::from).expect(
            "KUBECTL_FLINK_TEST_KUBECONFIG names the kubeconfig of a sandbox: run tests/cluster.sh",
        );
        // Refused where another test has done it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = runtime.block_on(async { Client::try_from(kube_config(&kubeconfig).await) });
        let namespace = format!("e2e-{name}-{}", std::process::id());
        let data = PathBuf::from(format!("/tmp/kubectl-flink-{namespace}"));
        let cluster = Self {
            runtime,
            client: client.unwrap(),
            kubeconfig,
            namespace,
            name: JOB.to_owned(),
            data,
            operator: None,
        };
        cluster.lay_out();
        cluster
    }

    fn lay_out(&self) {
        fs::create_dir_all(&self.data).unwrap();
        // Flink runs as another user than this test.
        run(Command::new("chmod").arg("777").arg(&self.data));
        fs::copy(jar(), self.data.join("exactly-once-counter.jar")).unwrap();
        let namespace: Namespace = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace},
        }))
        .unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        self.runtime.block_on(namespaces.create(&PostParams::default(), &namespace)).unwrap();
        self.flink(&["init", "--yes"]);
    }

    /// `examples/jobs/exactly-once-counter.yaml`, with this test's folder as the node's.
    pub(super) fn job(&self) -> Value {
        let text = fs::read_to_string(project().join("examples/jobs/exactly-once-counter.yaml"));
        let text = text.unwrap().replace("/tmp/flink-exactly-once", self.data.to_str().unwrap());
        serde_yaml::from_str(&text).unwrap()
    }

    /// Runs `kubectl-flink`, which has to succeed. Returns its standard output.
    #[track_caller]
    pub(super) fn flink(&self, args: &[&str]) -> String {
        let output = self.try_flink(args);
        assert!(output.status.success(), "kubectl flink {args:?}: {}", said(&output));
        println!("$ kubectl flink {}\n{}", args.join(" "), said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn try_flink(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-flink"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["-n", &self.namespace]).args(args);
        command.stdin(Stdio::null());
        command
    }

    /// On this machine; `/flink-data` in the pods.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn kube_config(&self) -> Config {
        self.runtime.block_on(kube_config(&self.kubeconfig))
    }

    pub(super) fn create(&self, object: &Value) {
        let client = self.client.clone();
        let created = kubectl_flink::cluster::apply::create(&client, object, Writer::CLI);
        self.runtime.block_on(created).unwrap();
    }

    /// Cluster IP of a Service.
    pub(super) fn service_address(&self, name: &str) -> String {
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        let service = self.runtime.block_on(services.get(name)).unwrap();
        service.spec.unwrap().cluster_ip.unwrap()
    }

    /// `kubectl flink deploy -f`.
    #[track_caller]
    pub(super) fn deploy(&self, manifest: &Value) {
        let file = self.write(manifest);
        self.flink(&["deploy", "-f", file.to_str().unwrap()]);
    }

    pub(super) fn write(&self, manifest: &Value) -> PathBuf {
        let file = self.data.join("manifest.yaml");
        fs::write(&file, manifest.to_string()).unwrap();
        file
    }

    pub(super) fn start_operator(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.operator_log()).unwrap();
        let mut command = self.command(&["operate"]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.operator = Some(command.spawn().unwrap());
    }

    /// As a crash would: without a chance to finish anything.
    pub(super) fn kill_operator(&mut self) {
        if let Some(mut operator) = self.operator.take() {
            operator.kill().unwrap();
            operator.wait().unwrap();
        }
    }

    fn operator_log(&self) -> PathBuf {
        self.data.join("operator.log")
    }

    pub(super) fn deployments(&self) -> Api<DynamicObject> {
        self.resources("FlinkDeployment")
    }

    fn resources(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("flink.apache.org", "v1beta1", kind);
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The `FlinkDeployment` as it is now; `null` when it is gone.
    pub(super) fn observed(&self) -> Value {
        let found = self.runtime.block_on(self.deployments().get_opt(&self.name)).unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    /// An edit behind the program's back, as any client can make it.
    pub(super) fn edit(&self, patch: Value) {
        let params = PatchParams::default();
        let deployments = self.deployments();
        self.runtime
            .block_on(deployments.patch(&self.name, &params, &Patch::Merge(patch)))
            .unwrap();
    }

    pub(super) fn edit_status(&self, patch: Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({ "status": patch }));
        self.runtime
            .block_on(self.deployments().patch_status(&self.name, &params, &patch))
            .unwrap();
    }

    /// Waits until the deployment satisfies `fact`, and returns it.
    #[track_caller]
    pub(super) fn wait_until(&self, what: &str, fact: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let deployment = self.observed();
            if fact(&deployment) {
                println!("-- {what}: after {:.1} s", start.elapsed().as_secs_f64());
                return deployment;
            }
            assert!(start.elapsed() < PATIENCE, "not {what} in {PATIENCE:?}: {deployment:#}");
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until the newest spec runs and is known to be good.
    #[track_caller]
    pub(super) fn wait_until_stable(&self) -> Value {
        self.wait_until("STABLE", |deployment| {
            deployment["status"]["lifecycleState"] == "STABLE"
                && deployment["status"]["jobStatus"]["state"] == "RUNNING"
                && deployment["status"]["observedGeneration"]
                    == deployment["metadata"]["generation"]
        })
    }

    /// Waits until the session cluster of the newest spec answers.
    #[track_caller]
    pub(super) fn wait_until_ready(&self) -> Value {
        self.wait_until("READY", |deployment| {
            deployment["status"]["lifecycleState"] == "STABLE"
                && deployment["status"]["jobManagerDeploymentStatus"] == "READY"
                && deployment["status"]["observedGeneration"]
                    == deployment["metadata"]["generation"]
        })
    }

    /// Pods of the TaskManagers that are to stay.
    pub(super) fn task_managers(&self) -> Vec<Pod> {
        let mut pods = self.pods(&format!("app={},component=taskmanager", self.name));
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    /// Waits until the job has committed records that it had not when this was called.
    #[track_caller]
    pub(super) fn wait_until_writing(&self) {
        let before = self.records();
        let start = Instant::now();
        while self.records() <= before {
            assert!(start.elapsed() < PATIENCE, "no new record in {PATIENCE:?} behind {before}");
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Committed records, while the job may be running.
    pub(super) fn records(&self) -> usize {
        let mut records = 0;
        let buckets = fs::read_dir(self.data.join("output")).into_iter().flatten().flatten();
        for file in buckets.flat_map(|bucket| fs::read_dir(bucket.path()).into_iter().flatten()) {
            let file = file.unwrap();
            if file.file_name().to_string_lossy().starts_with("part-") {
                records += fs::read_to_string(file.path()).unwrap_or_default().lines().count();
            }
        }
        records
    }

    /// Every record once, with the right state. The job does not run.
    #[track_caller]
    pub(super) fn assert_nothing_lost_or_doubled(&self) {
        let check = project().join("examples/jobs/check");
        let output = Command::new(check).arg(self.data.join("output")).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        println!("-- {}", said(&output));
    }

    pub(super) fn savepoint_exists(&self, path: &str) -> bool {
        let below = path.trim_start_matches("file://").trim_start_matches("file:");
        let below = Path::new(below).strip_prefix("/flink-data").unwrap();
        self.data.join(below).join("_metadata").is_file()
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs what is asynchronous to its end.
    pub(super) fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(super) fn pods(&self, selector: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().labels(selector);
        self.runtime.block_on(pods.list(&params)).unwrap().items
    }

    pub(super) fn job_manager(&self) -> Pod {
        let mut pods = self.pods(&format!("app={},component=jobmanager", self.name));
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        assert_eq!(pods.len(), 1, "one JobManager pod");
        pods.remove(0)
    }

    /// Identity of the JobManager's pod, and how often its containers were started.
    pub(super) fn job_manager_incarnation(&self) -> (String, i32) {
        let pod = self.job_manager();
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        (pod.metadata.uid.unwrap(), statuses.iter().map(|container| container.restart_count).sum())
    }

    /// `kill -9` of the JobManager's JVM, from outside its container: inside, process 1 is immune.
    pub(super) fn kill_job_manager(&self) {
        kill_jvm(&self.job_manager(), "ClusterEntry");
        println!("-- killed the JobManager");
    }

    /// The same for the only TaskManager.
    pub(super) fn kill_task_manager(&self) {
        let mut pods = self.pods(&format!("app={JOB},component=taskmanager"));
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        assert_eq!(pods.len(), 1, "one TaskManager pod");
        kill_jvm(&pods[0], "TaskExecutorRunner");
        println!("-- killed the TaskManager");
    }

    /// An answer of the JobManager's REST API, through the API server.
    pub(super) fn rest(&self, path: &str) -> Option<Value> {
        let namespace = &self.namespace;
        let uri = format!("/api/v1/namespaces/{namespace}/services/{JOB}-rest:8081/proxy{path}");
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        self.runtime.block_on(self.client.request(request)).ok()
    }

    /// `kubectl scale`.
    pub(super) fn scale(&self, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let (deployments, params) = (self.deployments(), PatchParams::default());
        self.runtime.block_on(deployments.patch_scale(&self.name, &params, &patch)).unwrap();
    }

    /// The `scale` subresource: replicas and selector of its status.
    pub(super) fn scale_status(&self) -> (i32, String) {
        let scale = self.runtime.block_on(self.deployments().get_scale(&self.name)).unwrap();
        let status = scale.status.unwrap_or_default();
        (status.replicas, status.selector.unwrap_or_default())
    }

    /// Somebody deletes a Deployment behind the operator's back.
    pub(super) fn delete_deployment(&self, name: &str) {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        self.runtime.block_on(api.delete(name, &DeleteParams::default())).unwrap();
    }

    /// The JobManager's REST API.
    pub(super) fn ask_flink<T>(&self, ask: impl AsyncFnOnce(flink::Client) -> T) -> T {
        self.runtime.block_on(async {
            let config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
            let options = Options { access: Access::Proxy, ..Options::default() };
            let target = Target {
                namespace: self.namespace.clone(),
                cluster_id: self.name.clone(),
                port: 8081,
                is_tls: false,
            };
            let connector = Connector::new(&options, Some(&config)).unwrap();
            ask(connector.client(&target, Deadlines::default())).await
        })
    }

    /// Submits the job of the tests to a session cluster, and returns its id.
    pub(super) fn submit(&self) -> String {
        let jar = fs::read(jar()).unwrap();
        let job = self.job();
        let args = job["spec"]["job"]["args"].as_array().unwrap().iter();
        let request = RunRequest {
            job_id: flink::new_trigger_id(),
            entry_class: None,
            args: args.map(|arg| arg.as_str().unwrap().to_owned()).collect(),
            parallelism: Some(1),
            allow_non_restored_state: false,
            savepoint_path: None,
            configuration: BTreeMap::new(),
        };
        self.ask_flink(async |client| {
            let jar = client.upload_jar("job.jar", jar.into()).await.unwrap();
            client.run_jar(&jar, FlinkVersion::V1_20, &request).await.unwrap();
        });
        request.job_id
    }

    fn print_what_happened(&self) {
        let namespace = &self.namespace;
        println!("==== {namespace}: the deployment\n{:#}", self.observed());
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
        // Without an operator nobody removes the finalizers, which would keep the namespace.
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.runtime.block_on(async {
            let params = PatchParams::default();
            for kind in ["FlinkSessionJob", "FlinkDeployment", "FlinkStateSnapshot"] {
                let resources = self.resources(kind);
                let Ok(all) = resources.list(&ListParams::default()).await else { continue };
                for name in all.into_iter().filter_map(|object| object.metadata.name) {
                    drop(resources.patch(&name, &params, &patch).await);
                }
            }
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            drop(namespaces.delete(&self.namespace, &DeleteParams::default()).await);
        });
        drop(fs::remove_dir_all(&self.data));
    }
}

/// Kills the one process of `pod` whose command line names `class`.
fn kill_jvm(pod: &Pod, class: &str) {
    let pod = format!("pod{}", pod.metadata.uid.as_ref().unwrap());
    let mut killed = 0;
    for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
        let read = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        if read("cgroup").contains(&pod) && read("cmdline").contains(class) {
            let id = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let id = rustix::process::Pid::from_raw(id).unwrap();
            rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
            killed += 1;
        }
    }
    assert_eq!(killed, 1, "one JVM of the pod runs on this machine");
}

async fn kube_config(kubeconfig: &Path) -> Config {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap()
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The job's jar, built once a run.
pub(super) fn jar() -> &'static Path {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    JAR.get_or_init(|| {
        let jar = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exactly-once-counter.jar");
        run(Command::new(project().join("examples/jobs/build.sh")).arg(&jar));
        jar
    })
}

#[track_caller]
pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

pub(super) fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr)).trim().to_owned()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
