//! The manifests of `examples/` that need nothing beyond a sandbox, applied unchanged. Only their folders on the node
//! are moved into this test's, and what each test mentions is changed.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair};
use serde_json::{Map, Value, json};

use super::cluster::{Cluster, project, run};
use super::is;
use crate::flink_tls::Authority;
use crate::support::patience::{BEYOND_PATIENCE, PATIENCE};
use crate::support::program::other;
use testing::share::third;

const DEPLOYMENT: &str = "FlinkDeployment";

/// A name, and examples that a run tries side by side.
type Examples = (&'static str, fn(&mut Cluster));

const EXAMPLES: [Examples; 8] = [
    ("high availability and a snapshot", high_availability_and_a_snapshot),
    ("standalone and reactive", standalone_and_reactive),
    ("Flink 2 and periodic snapshots", flink_2_and_periodic_snapshots),
    ("pod template and ingress", pod_template_and_ingress),
    ("log forwarder", log_forwarder),
    ("batch", batch),
    ("session clusters and a canary", session_clusters_and_a_canary),
    ("autoscaling and a path", autoscaling_and_a_path),
];

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn examples_run() {
    let mut cluster = Cluster::new("examples");
    // For the jar of the session job, which is served from this machine.
    cluster.configure_operator(&[
        ("kubernetes.operator.user.artifacts.allowed-schemes", "http"),
        ("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "false"),
    ]);
    cluster.start_operator();
    for (name, run) in third(EXAMPLES) {
        println!("-- {name}");
        run(&mut cluster);
    }
}

fn high_availability_and_a_snapshot(cluster: &mut Cluster) {
    cluster.run_all(&["basic.yaml", "stateful-ha.yaml"], |cluster| {
        // Snapshots of the first job, requested by resources.
        for (file, below) in [
            ("snapshot.yaml", Some("savepoints")),
            ("snapshots/savepoint.yaml", Some("archive")),
            // It is deleted automatically when there are newer ones.
            ("snapshots/checkpoint.yaml", None),
        ] {
            let mut snapshot = cluster.example(file).remove(0);
            snapshot["metadata"]["namespace"] = json!(cluster.namespace);
            cluster.create(&snapshot);
            let name = snapshot["metadata"]["name"].as_str().unwrap();
            let is_completed = |snapshot: &Value| snapshot["status"]["state"] == "COMPLETED";
            let taken =
                cluster.wait_until_one("FlinkStateSnapshot", name, "COMPLETED", is_completed);
            let Some(below) = below else { continue };
            let path = taken["status"]["path"].as_str().unwrap();
            let folder = path.strip_prefix("file:/flink-data/").unwrap();
            assert!(folder.starts_with(below), "{path}");
            let metadata = cluster.data().join("flink-basic").join(folder).join("_metadata");
            assert!(metadata.is_file(), "{} is there", metadata.display());
            if below == "savepoints" {
                start_from(cluster, metadata.parent().unwrap());
            }
        }
    });
}

/// Starts another job of the same program from a savepoint that was brought along.
fn start_from(cluster: &mut Cluster, savepoint: &Path) {
    let [mut resource, job] = cluster.example("snapshots/from-savepoint.yaml").try_into().unwrap();
    let path = job["spec"]["job"]["initialSavepointPath"].as_str().unwrap().to_owned();
    assert_eq!(resource["spec"]["savepoint"]["path"], path);
    let below = path.strip_prefix("file:///flink-data/").unwrap();
    let place = cluster.data().join("flink-from-savepoint").join(below);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    run(other("cp").arg("-r").arg(savepoint).arg(&place));
    resource["metadata"]["namespace"] = json!(cluster.namespace);
    cluster.create(&resource);
    let name = resource["metadata"]["name"].as_str().unwrap();
    cluster.wait_until_one("FlinkStateSnapshot", name, "COMPLETED", |snapshot| {
        snapshot["status"]["state"] == "COMPLETED"
    });
    cluster.run(&[job], |cluster| {
        let runs = cluster.wait_until_runs(DEPLOYMENT, "from-savepoint");
        let restored = cluster.restored(&runs);
        let from = restored["external_path"].as_str().unwrap_or_default();
        assert_eq!(from.rsplit('/').next(), path.rsplit('/').next(), "{restored}");
    });
}

fn standalone_and_reactive(cluster: &mut Cluster) {
    cluster.run_all(&["standalone.yaml", "reactive.yaml"], |cluster| {
        // Without metrics it finds what to scale, and scales nothing.
        let mut scaler = cluster.example("hpa.yaml").remove(0);
        scaler["metadata"]["namespace"] = json!(cluster.namespace);
        cluster.create(&scaler);
        cluster.wait_until_one("FlinkDeployment", "reactive", "found by its scaler", |_| {
            let scaler = cluster.read("autoscaling/v2", "HorizontalPodAutoscaler", "reactive");
            let conditions = scaler["status"]["conditions"].as_array().cloned();
            conditions
                .into_iter()
                .flatten()
                .any(|it| it["type"] == "AbleToScale" && it["reason"] == "SucceededGetScale")
        });
        cluster.remove("autoscaling/v2", "HorizontalPodAutoscaler", "reactive");
    });
}

fn session_clusters_and_a_canary(cluster: &mut Cluster) {
    let [lab, mut job] = cluster.example("session-job.yaml").try_into().unwrap();
    let counter = cluster.job();
    job["spec"]["job"]["jarURI"] = json!(cluster.serve_jar());
    job["spec"]["job"]["args"] = counter["spec"]["job"]["args"].clone();
    for canary in &mut cluster.example("canary.yaml") {
        canary["metadata"]["namespace"] = json!(cluster.namespace);
        cluster.create(canary);
    }
    cluster.deploy(&lab);
    cluster.deploy(&job);
    cluster.wait_until_runs("FlinkSessionJob", "top-speed");
    for kind in [DEPLOYMENT, "FlinkSessionJob"] {
        let canary = cluster.wait_until_one(kind, "canary", "changed", |canary| {
            canary["spec"]["restartNonce"].is_number()
        });
        assert!(canary["status"].is_null(), "{canary:#}");
        cluster.delete(kind, "canary");
    }
    cluster.flink(&["delete", "sessionjob/top-speed", "--no-savepoint", "--yes"]);
    cluster.wait_until_one("FlinkSessionJob", "top-speed", "deleted", Value::is_null);
    // The other example is of the same name: it replaces the cluster.
    let alone = cluster.example("session.yaml").remove(0);
    assert_eq!(alone["metadata"]["name"], lab["metadata"]["name"]);
    cluster.deploy(&alone);
    cluster.wait_until_one(DEPLOYMENT, "session", "STABLE", |seen| {
        is(seen, "lifecycleState", "STABLE")
            && seen["status"]["observedGeneration"] == seen["metadata"]["generation"]
    });
    cluster.flink(&["delete", "session", "--yes"]);
    cluster.wait_until_one(DEPLOYMENT, "session", "deleted", Value::is_null);
}

fn autoscaling_and_a_path(cluster: &mut Cluster) {
    cluster.run_all(&["autoscaling.yaml", "ingress-path.yaml"], |cluster| {
        let told = cluster.flink(&["autoscaler", "status", "autoscaling"]);
        assert!(told.contains("autoscaling"), "{told}");
        let ingress = cluster.read("networking.k8s.io/v1", "Ingress", "ingress-path");
        let rule = &ingress["spec"]["rules"][0];
        assert_eq!(rule["host"], "flink.example.com");
        let path = format!("/{}/ingress-path(/|$)(.*)", cluster.namespace);
        assert_eq!(rule["http"]["paths"][0]["path"], path);
    });
}

fn flink_2_and_periodic_snapshots(cluster: &mut Cluster) {
    // The official image of Flink 2 contains the example's jar, but no Maven package does.
    let mut flink_2 = cluster.example("flink-2.yaml").remove(0);
    let counter = cluster.job();
    flink_2["spec"]["podTemplate"] = counter["spec"]["podTemplate"].clone();
    flink_2["spec"]["job"]["jarURI"] = counter["spec"]["job"]["jarURI"].clone();
    flink_2["spec"]["job"]["args"] = counter["spec"]["job"]["args"].clone();
    let periodic = cluster.example("periodic-snapshots.yaml").remove(0);
    cluster.run(&[flink_2, periodic], |_| {});
}

fn pod_template_and_ingress(cluster: &mut Cluster) {
    cluster.run_all(&["pod-template.yaml", "ingress.yaml"], |cluster| {
        "pod-template".clone_into(&mut cluster.name);
        let pod = cluster.task_managers().remove(0).spec.unwrap();
        let zone = pod.containers[0].env.iter().flatten().find(|one| one.name == "TZ").unwrap();
        assert_eq!(zone.value.as_deref(), Some("UTC"), "the role's template is over that of all");
        let ingress = cluster.read("networking.k8s.io/v1", "Ingress", "with-ingress");
        let rule = &ingress["spec"]["rules"][0];
        let host = format!("with-ingress.{}.flink.example.com", cluster.namespace);
        assert_eq!(rule["host"], host);
        let backend = &rule["http"]["paths"][0]["backend"]["service"];
        // No controller serves it here, but its backend answers.
        let address = cluster.service_address(backend["name"].as_str().unwrap());
        let port = &backend["port"]["number"];
        let asked = async { reqwest::get(format!("http://{address}:{port}/")).await };
        assert!(cluster.wait_for(asked).unwrap().status().is_success(), "the web UI answers");
    });
}

fn log_forwarder(cluster: &mut Cluster) {
    // Fluent Bit's image is on a registry; here Flink's own image reads the files.
    let mut forwarder = cluster.example("log-forwarder.yaml").remove(0);
    let sidecar = &mut forwarder["spec"]["podTemplate"]["spec"]["containers"][1];
    assert_eq!(sidecar["name"], "fluent-bit");
    sidecar["image"] = json!("flink:1.20");
    sidecar["command"] = json!(["sh", "-c"]);
    let wait_and_read =
        "until cat /flink-logs/*.log; do sleep 1; done; tail -n 0 -F /flink-logs/*.log";
    sidecar["args"] = json!([wait_and_read]);
    cluster.create(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "log-forwarder", "namespace": cluster.namespace},
        "data": {"fluent-bit.conf": ""},
    }));
    cluster.run(&[forwarder], |cluster| {
        "log-forwarder".clone_into(&mut cluster.name);
        for pod in [cluster.job_manager(), cluster.task_managers().remove(0)] {
            let name = pod.metadata.name.unwrap();
            // It may start long after the job.
            cluster.wait_until("with a forwarded log", |_| {
                cluster.try_log_of(&name, "fluent-bit").is_ok_and(|log| log.contains(" INFO "))
            });
        }
    });
}

fn batch(cluster: &mut Cluster) {
    // It ends by itself.
    let batch = cluster.example("batch.yaml").remove(0);
    cluster.deploy(&batch);
    let ended = cluster.wait_until_one(DEPLOYMENT, "batch", "FINISHED", |seen| {
        seen["status"]["jobStatus"]["state"] == "FINISHED" && is(seen, "lifecycleState", "STABLE")
    });
    assert!(ended["status"]["error"].is_null(), "{ended:#}");
}

/// Tests that would leave no node for the pods of other tests.
mod alone {
    use super::*;

    #[test]
    #[ignore = "needs a sandbox with real Flink"]
    fn the_example_of_spot_nodes_runs() {
        let mut cluster = Cluster::new("examples-spot");
        cluster.start_operator();
        cluster.let_operator_see_nodes();
        cluster.run_all(&["spot-nodes.yaml"], a_node_is_drained);
    }
}

/// A savepoint of the job that requested it is taken, and nothing else happens to the job.
fn a_node_is_drained(cluster: &mut Cluster) {
    "spot".clone_into(&mut cluster.name);
    let incarnation = cluster.job_manager_incarnation();
    let of_notices = |cluster: &Cluster| {
        let mut all = cluster.all("FlinkStateSnapshot");
        all.retain(|one| {
            one["metadata"]["annotations"]["flink.apache.org/node-notices"].is_string()
        });
        all
    };
    assert_eq!(of_notices(cluster), Vec::<Value>::new(), "no node was to go yet");
    let node = cluster.job_manager().spec.unwrap().node_name.unwrap();
    let cordoned = cluster.cordon(&node);
    let start = Instant::now();
    let asked = loop {
        if let Some(asked) = of_notices(cluster).pop() {
            break asked;
        }
        assert!(start.elapsed() < PATIENCE, "no snapshot for the node");
        thread::sleep(Duration::from_millis(200));
    };
    println!("-- asked for a savepoint {:.1} s after the notice", start.elapsed().as_secs_f64());
    drop(cordoned);
    assert_eq!(asked["spec"]["jobReference"]["name"], "spot");
    let name = asked["metadata"]["name"].as_str().unwrap();
    let taken = cluster.wait_until_one("FlinkStateSnapshot", name, "COMPLETED", |snapshot| {
        snapshot["status"]["state"] == "COMPLETED"
    });
    assert!(taken["status"]["path"].as_str().unwrap().contains("/savepoints/"), "{taken:#}");
    assert_eq!(of_notices(cluster).len(), 1, "a notice has one snapshot");
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "the job was left alone");
}

/// With the Secrets that cert-manager would create, an operator as a pod, and what the example omits: Flink answers
/// only clients with a certificate.
#[test]
#[ignore = "needs a sandbox with real Flink"]
fn an_example_behind_tls_runs() {
    let cluster = Cluster::bare("examples-tls");
    let namespace = &cluster.namespace;
    let text = fs::read_to_string(project().join("examples/tls.yaml")).unwrap();
    let text =
        text.replace("# security.ssl.rest.authentication", "security.ssl.rest.authentication");
    let documents: Vec<Value> = serde_yaml::from_multiple(&text).unwrap();
    let of_kind = |kind: &str| {
        let mut object = documents.iter().find(|one| one["kind"] == kind).unwrap().clone();
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    let job = of_kind("FlinkDeployment");
    let password = of_kind("Secret")["stringData"]["password"].as_str().unwrap().to_owned();
    let wanted = &documents.iter().find(|one| one["spec"]["secretName"] == "tls-rest").unwrap();
    let name = wanted["spec"]["dnsNames"][0].as_str().unwrap();
    assert_eq!(name, "tls-rest.default");
    let name = format!("tls-rest.{namespace}");
    let authority = Authority::new("flink-ca");
    let server = authority.sign_key(&rsa_key(), &name, ExtendedKeyUsagePurpose::ServerAuth);
    cluster.create_certificate("tls-rest", &authority, server, Some(&password));
    let client = authority.sign("flink-operator", ExtendedKeyUsagePurpose::ClientAuth);
    cluster.create_certificate("flink-rest-tls", &authority, client, None);
    let install = ["operator", "install", "--watch-namespaces", namespace, "--yes", "--wait"];
    let tls = ["--set", "flinkRest.tlsSecret=flink-rest-tls", "--timeout", BEYOND_PATIENCE];
    cluster.flink(&[&install[..], &tls].concat());
    cluster.deploy(&job);
    cluster.wait_until_runs(DEPLOYMENT, "tls");
    let service = cluster.service_address("tls-rest");
    let unknown = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build().unwrap();
    let asked = unknown.get(format!("https://{service}:8081/overview")).send();
    cluster.wait_for(asked).expect_err("who has no certificate is not answered");
    cluster.flink(&["delete", "tls", "--no-savepoint", "--yes"]);
    cluster.wait_until_one(DEPLOYMENT, "tls", "deleted", Value::is_null);
}

#[test]
#[ignore = "needs a sandbox with Flink 2"]
fn an_example_in_sql_runs() {
    let mut cluster = Cluster::new("examples-sql");
    cluster.start_operator();
    let script = fs::read_to_string(project().join("examples/orders.sql")).unwrap();
    cluster.create(&json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "sql-script", "namespace": cluster.namespace},
        "data": {"orders.sql": script},
    }));
    cluster.run_all(&["sql.yaml"], |cluster| cluster.wait_until_bills_are_written("sql"));
}

#[test]
#[ignore = "needs a sandbox with real Flink, and the image of tests/python-image.py"]
fn an_example_in_python_runs() {
    let mut cluster = Cluster::new("examples-python");
    cluster.start_operator();
    let mut job = cluster.example("python.yaml").remove(0);
    job["spec"]["image"] = json!("orders-python:1");
    // There is no object store, and one TaskManager does not need it.
    for folder in ["checkpoints", "savepoints"] {
        let key = format!("state.{folder}.dir");
        job["spec"]["flinkConfiguration"][key] = json!(format!("file:///tmp/{folder}"));
    }
    cluster.run(&[job], |cluster| cluster.wait_until_bills_are_written("python"));
}

/// Returns an RSA key, as cert-manager creates them and Flink's ciphers require.
fn rsa_key() -> KeyPair {
    let made = other("openssl")
        .args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output()
        .unwrap();
    KeyPair::from_pem(&String::from_utf8(made.stdout).unwrap()).unwrap()
}

impl Cluster {
    /// Creates a Secret as cert-manager does, with Java key stores if there is a password for them.
    fn create_certificate(
        &self,
        name: &str,
        authority: &Authority,
        (certificate, key): (String, String),
        password: Option<&str>,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = |file: &str| folder.path().join(file);
        for (file, text) in
            [("ca.crt", &authority.pem), ("tls.crt", &certificate), ("tls.key", &key)]
        {
            fs::write(path(file), text).unwrap();
        }
        if let Some(password) = password {
            let mut openssl = other("openssl");
            openssl.args(["pkcs12", "-export", "-passout", &format!("pass:{password}")]);
            openssl.arg("-in").arg(path("tls.crt")).arg("-inkey").arg(path("tls.key"));
            run(openssl.arg("-out").arg(path("keystore.p12")));
            let mut keytool = other("keytool");
            keytool.args(["-importcert", "-noprompt", "-alias", "ca", "-storetype", "PKCS12"]);
            keytool.args(["-storepass", password]).arg("-file").arg(path("ca.crt"));
            run(keytool.arg("-keystore").arg(path("truststore.p12")));
        }
        let data: Map<String, Value> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let content = STANDARD.encode(fs::read(entry.path()).unwrap());
                (entry.file_name().into_string().unwrap(), json!(content))
            })
            .collect();
        self.create(&json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "data": data,
        }));
    }

    /// Waits until the job of `orders.sql` or `orders.py` has billed its first hundred orders.
    #[track_caller]
    fn wait_until_bills_are_written(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        let bill = |order: u32| format!("+I[{order}, {}]", order * 119 / 100);
        let start = Instant::now();
        loop {
            let pods = self.task_managers().into_iter().filter_map(|pod| pod.metadata.name);
            let said: Vec<_> = pods.map(|pod| self.log_of(&pod, "flink-main-container")).collect();
            let is_written = |order: u32| {
                said.iter().flat_map(|log| log.lines()).any(|line| line == bill(order))
            };
            if is_written(100) {
                assert!((1..100).all(is_written), "each order is billed: {said:#?}");
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no bills in {PATIENCE:?}: {said:#?}");
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Returns the documents of a file in `examples/`.
    pub(super) fn example(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(project().join("examples").join(file)).unwrap();
        let text = text.replace("/tmp/flink-", &format!("{}/flink-", self.data().display()));
        text.split("\n---\n").map(|document| serde_yaml::from_str(document).unwrap()).collect()
    }

    /// Deploys examples at the same time, waits until they run, checks them with `look` and deletes them.
    fn run_all(&mut self, files: &[&str], inspect: impl Fn(&mut Self)) {
        let manifests: Vec<Value> = files.iter().flat_map(|file| self.example(file)).collect();
        self.run(&manifests, inspect);
    }

    fn run(&mut self, manifests: &[Value], inspect: impl Fn(&mut Self)) {
        for manifest in manifests {
            self.deploy(manifest);
        }
        let names: Vec<&str> =
            manifests.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
        for name in &names {
            self.wait_until_runs(DEPLOYMENT, name);
        }
        inspect(self);
        for name in &names {
            self.flink(&["delete", name, "--no-savepoint", "--yes"]);
        }
        for name in &names {
            self.wait_until_one(DEPLOYMENT, name, "deleted", Value::is_null);
        }
    }
}
