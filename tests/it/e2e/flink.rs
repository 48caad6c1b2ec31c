//! Every way to a real session cluster.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::access::{self, Place};
use super::cluster::{Cluster, JOB, run};
use crate::support::program::other;

/// Created for one run, and worthless afterwards.
const PASSWORD: &str = "not-a-secret";

/// Returns the example job's cluster without its job: one slot manager that waits for submissions.
fn session(cluster: &Cluster) -> Value {
    let mut session = cluster.job();
    let spec = session["spec"].as_object_mut().unwrap();
    spec.remove("job");
    spec.insert("mode".to_owned(), json!("standalone"));
    let options = spec["flinkConfiguration"].as_object_mut().unwrap();
    options.retain(|key, _| !key.starts_with("high-availability"));
    spec["taskManager"]["replicas"] = json!(1);
    session
}

fn wait_until_up(cluster: &Cluster) {
    cluster.wait_until("STABLE", |session| {
        session["status"]["lifecycleState"] == "STABLE"
            && session["status"]["observedGeneration"] == session["metadata"]["generation"]
    });
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn flink_answers_on_every_way_to_it() {
    let mut cluster = Cluster::new("flink");
    cluster.start_operator();
    let mut session = session(&cluster);
    cluster.deploy(&session);
    wait_until_up(&cluster);
    for object in neighbours(&cluster) {
        cluster.create(&object);
    }
    let config = cluster.kube_config();
    let place = Place { config: &config, namespace: &cluster.namespace, cluster_id: JOB };
    cluster.wait_for(access::all(&place));

    // The same cluster with https, whose certificate no one trusts by default.
    let certificate = make_certificate(cluster.data());
    let options = session["spec"]["flinkConfiguration"].as_object_mut().unwrap();
    for (key, value) in [
        ("security.ssl.rest.enabled", "true"),
        ("security.ssl.rest.keystore", "/flink-data/rest.p12"),
        ("security.ssl.rest.keystore-type", "PKCS12"),
        ("security.ssl.rest.keystore-password", PASSWORD),
        ("security.ssl.rest.key-password", PASSWORD),
        ("security.ssl.rest.truststore", "/flink-data/rest.p12"),
        ("security.ssl.rest.truststore-type", "PKCS12"),
        ("security.ssl.rest.truststore-password", PASSWORD),
    ] {
        options.insert(key.to_owned(), json!(value));
    }
    cluster.deploy(&session);
    wait_until_up(&cluster);
    let service = cluster.service_address(&format!("{JOB}-rest"));
    cluster.wait_for(async {
        let here = forward(format!("{service}:8081")).await;
        access::https_with_a_certificate_of_its_own(&here, &certificate).await;
    });
    cluster.flink(&["delete", JOB, "--yes"]);
    cluster.wait_until("deleted", Value::is_null);
}

/// Returns the objects beside the cluster for [`access::all`].
fn neighbours(cluster: &Cluster) -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": cluster.namespace});
    let service = |name: &str, selector: Value, port: u16| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(name),
            "spec": {"selector": selector, "ports": [{"port": 8081, "targetPort": port}]},
        })
    };
    let subject =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "forwarder"});
    vec![
        service("empty-rest", json!({"app": "nobody"}), 8081),
        service("deaf-rest", json!({"app": JOB, "component": "jobmanager"}), 9),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata("forwarder"),
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata("forwarder"),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "forwarder",
            },
            "subjects": [subject],
        }),
    ]
}

/// Creates a key store for Flink in `folder`; returns its certificate, which is for 127.0.0.1.
fn make_certificate(folder: &Path) -> PathBuf {
    let store = folder.join("rest.p12");
    let keytool = |args: &[&str]| {
        let mut command = other("keytool");
        command.args(args).arg("-keystore").arg(&store);
        run(command.args(["-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "rest"]));
    };
    let subject = ["-dname", "CN=rest", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"];
    keytool(&[&["-genkeypair", "-keyalg", "RSA", "-keysize", "2048"], &subject[..]].concat());
    let certificate = folder.join("rest.pem");
    keytool(&["-exportcert", "-rfc", "-file", certificate.to_str().unwrap()]);
    run(other("chmod").arg("a+r").arg(&store));
    certificate
}

/// Forwards connections to `target` until the runtime ends. Returns its own address.
async fn forward(target: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let target = target.clone();
            tokio::spawn(async move {
                if let Ok(mut to) = tokio::net::TcpStream::connect(target).await {
                    drop(tokio::io::copy_bidirectional(&mut from, &mut to).await);
                }
            });
        }
    });
    address
}
