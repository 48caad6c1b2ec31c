//! The operator as pods of the cluster, installed as users do, in a namespace with the strictest Pod Security level,
//! `restricted`.
//!
//! `tests/cluster.sh` loads the operator's image into the sandbox, and provides the paths of Helm and of the packaged chart:
//! those of this build, or of a release (`KUBECTL_FLINK_TEST_PACKAGES`).

use std::path::PathBuf;
use std::{env, fs};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, project, run, said};
use crate::support::patience::BEYOND_PATIENCE;
use crate::support::program::{other, program};

const NAME: &str = "restricted";
const OPERATOR: &str = "app.kubernetes.io/name=kubectl-flink-operator";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn the_operator_runs_as_pods_and_jobs_outlive_it() {
    let cluster = namespace("install");
    let wait = ["--yes", "--wait", "--timeout", BEYOND_PATIENCE];
    let watch = ["operator", "install", "--watch-namespaces", &cluster.namespace];
    cluster.flink(&[&watch[..], &wait[..]].concat());
    cluster.deploy(&job());
    cluster.wait_until_stable();

    // A second pod stands by, and takes over when the first one is gone.
    cluster.flink(&[&["operator", "upgrade", "--set", "replicas=2"][..], &wait[..]].concat());
    let leader = leader(&cluster);
    let pods: Api<Pod> = Api::namespaced(cluster.client(), &cluster.namespace);
    let now = DeleteParams::default().grace_period(0);
    cluster.wait_for(pods.delete(&leader, &now)).unwrap();
    cluster.edit(json!({"spec": {"job": {"parallelism": 2}}}));
    let stable = cluster.wait_until_stable();
    assert_eq!(stable["status"]["observedGeneration"], stable["metadata"]["generation"]);
    assert_ne!(self::leader(&cluster), leader);

    let left_alone = cluster.flink(&["operator", "upgrade", "--check"]);
    assert!(left_alone.contains("would leave all"), "{left_alone}");
    let before = cluster.job_manager_incarnation();
    cluster.flink(&["operator", "uninstall", "--yes"]);
    cluster.wait_until("without an operator", |_| cluster.pods(OPERATOR).is_empty());

    // What a new operator would do at once is reported, and not done.
    cluster.edit(json!({"spec": {"job": {"parallelism": 1}}}));
    let check = cluster.try_flink(&[&watch[..], &["--check"]].concat());
    let shown = said(&check);
    assert_eq!(check.status.code(), Some(1), "{shown}");
    assert!(shown.contains("FlinkDeployment/restricted"), "{shown}");
    assert!(shown.contains("stop-job-manager"), "{shown}");
    assert_eq!(cluster.job_manager_incarnation(), before, "the job runs on");
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn helm_installs_the_operator() {
    let cluster = namespace("helm");
    let chart = chart();
    let watch = format!("watchNamespaces={{{}}}", cluster.namespace);
    let release = ["kubectl-flink-operator", chart.to_str().unwrap()];
    let wait = ["--wait", "--timeout", BEYOND_PATIENCE];
    let pattern = "appender.console.layout.pattern = MINE %m%n";
    let log = format!("defaultConfiguration.log4j-console\\.properties={pattern}");
    let values = ["--set", &watch, "--set", &log];
    helm(&cluster, &[&["install"], &release[..], &values, &wait].concat());
    cluster.deploy(&job());
    cluster.wait_until_stable();
    let job_manager = cluster.job_manager().metadata.name.unwrap();
    let lines = cluster.log_of(&job_manager, "flink-main-container");
    assert!(lines.lines().any(|line| line.starts_with("MINE ")), "all jobs log so: {lines}");

    let more = ["--reuse-values", "--set", "replicas=2"];
    helm(&cluster, &[&["upgrade"], &release[..], &more, &wait].concat());
    cluster.edit(json!({"spec": {"restartNonce": 1}}));
    cluster.wait_until_stable();

    let before = cluster.job_manager_incarnation();
    helm(&cluster, &["uninstall", release[0], "--wait", "--timeout", BEYOND_PATIENCE]);
    cluster.wait_until("without an operator", |_| cluster.pods(OPERATOR).is_empty());
    assert_eq!(cluster.job_manager_incarnation(), before, "the job runs on");
}

/// Values for the Java operator's chart: its own, and some published ones.
#[test]
#[ignore = "needs a sandbox with real Flink"]
fn helm_installs_the_operator_with_values_for_the_java_operators_chart() {
    let cluster = namespace("helm-java");
    let chart = chart();
    let release = ["flink-kubernetes-operator", chart.to_str().unwrap()];
    let watch = format!("watchNamespaces={{{}}}", cluster.namespace);
    // The others need images, claims and nodes that a sandbox does not have.
    let runs = ["java-chart.yaml", "named-namespaces.yaml", "misplaced.yaml"];
    for entry in fs::read_dir(project().join("tests/golden/helm")).unwrap() {
        let file = entry.unwrap().path();
        let values = ["--values", file.to_str().unwrap(), "--set", &watch];
        let small = ["--set", "operatorPod.resources.requests.cpu=100m"];
        let is_run = runs.contains(&file.file_name().unwrap().to_str().unwrap());
        let wait: &[&str] = if is_run { &["--wait", "--timeout", BEYOND_PATIENCE] } else { &[] };
        helm(&cluster, &[&["install"], &release[..], &values, &small, wait].concat());
        let deployment = cluster.read("apps/v1", "Deployment", "kubectl-flink-operator");
        assert_eq!(deployment["status"]["readyReplicas"] == 1, is_run, "{deployment:#}");
        if file.ends_with("java-chart.yaml") {
            a_job_runs(&cluster, &deployment);
        }
        // Its namespaces are in a variable or in a ConfigMap: a second operator may have others.
        let beside = ["-n", "default", "operator", "install", "--watch-namespaces", "default"];
        let mut command = program();
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        run(command.args(beside).args(["--dry-run=server", "--yes"]));
        helm(&cluster, &["uninstall", release[0], "--wait", "--timeout", BEYOND_PATIENCE]);
    }
    values_of_a_release_are_read(&cluster);
}

/// Deploys an example, which gets stable with the image that is loaded, and removes it.
fn a_job_runs(cluster: &Cluster, deployment: &Value) {
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    let published =
        format!("{}:{}", operator::install::values::published(), env!("CARGO_PKG_VERSION"));
    assert_eq!(*image, published.as_str());
    let file = cluster.write(&job());
    // The pod is ready before the API server trusts the webhook, without which nothing is admitted.
    cluster.wait_until("admitted", |_| {
        cluster.try_flink(&["deploy", "-f", file.to_str().unwrap()]).status.success()
    });
    cluster.wait_until_stable();
    let away = ["delete", &cluster.name, "--no-savepoint", "--yes", "--wait"];
    cluster.flink(&[&away[..], &["--timeout", BEYOND_PATIENCE]].concat());
}

/// Reads a release as Helm itself stores it, of a chart with the Java operator's name and values.
fn values_of_a_release_are_read(cluster: &Cluster) {
    let chart = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(chart.path().join(name), text).unwrap();
    put("Chart.yaml", "apiVersion: v2\nname: flink-kubernetes-operator\nversion: 1.14.0\n");
    put("values.yaml", include_str!("../../golden/helm/java-chart.yaml"));
    helm(cluster, &["install", "streams", chart.path().to_str().unwrap(), "--set", "replicas=3"]);
    helm(cluster, &["upgrade", "streams", chart.path().to_str().unwrap(), "--set", "replicas=2"]);
    let told = cluster.flink(&["operator", "install", "--from-java", "--release", "streams"]);
    assert!(told.contains("replicas: 2\n") && told.contains("failurePolicy: Fail"), "{told}");
    helm(cluster, &["uninstall", "streams"]);
}

/// Creates a namespace at the level `restricted`, with the example's volume.
fn namespace(name: &str) -> Cluster {
    let mut cluster = Cluster::bare(name);
    NAME.clone_into(&mut cluster.name);
    let namespace = &cluster.namespace;
    cluster.label_namespace("pod-security.kubernetes.io/enforce", "restricted");
    cluster.create(&json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": cluster.data()},
            "claimRef": {"name": "flink-data", "namespace": namespace},
        },
    }));
    cluster.create(&json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "flink-data", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }));
    cluster
}

fn job() -> Value {
    let text = fs::read_to_string(project().join("examples/restricted.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// Returns the pod that holds the Lease.
fn leader(cluster: &Cluster) -> String {
    let lease = cluster.read("coordination.k8s.io/v1", "Lease", "kubectl-flink-operator");
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

/// Returns the path of the packaged chart.
fn chart() -> PathBuf {
    let chart = env::var_os("KUBECTL_FLINK_TEST_CHART");
    chart.expect("the path of the packaged chart: run tests/cluster.sh").into()
}

fn helm(cluster: &Cluster, args: &[&str]) {
    let helm = env::var_os("HELM").expect("HELM names the program: run tests/cluster.sh");
    let mut command = other(&helm);
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).args(["-n", &cluster.namespace]);
    run(command.args(args));
    println!("$ helm {}", args.join(" "));
}
