//! The operator's files that become part of a cluster's objects.

use std::path::Path;

use serde_json::{Value, json};
use testing::scene::Scene;

use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, error_of};

const KEYTAB: &[u8] = b"\x05\x02hunter2";
/// The keytab in base64.
const IN_BASE64: &str = "BQJodW50ZXIy";

/// Returns a resource whose keytab and `krb5.conf` are in this folder of the operator.
fn with_files_in(scene: Scene, folder: &Path) -> Scene {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    scene
        .option("security.kerberos.login.keytab", &path("it.keytab"))
        .option("security.kerberos.login.principal", "it@EXAMPLE")
        .option("security.kerberos.krb5-conf.path", &path("krb5.conf"))
}

fn allow(operating: &Operating, folder: &Path) {
    operating.configure(&format!("kubernetes.operator.kerberos.directories: {}", folder.display()));
}

fn secret(cluster: &FakeCluster) -> Option<Value> {
    cluster.object("secrets", "shop", "kerberos-keytab-orders")
}

#[tokio::test]
async fn a_keytab_is_in_its_secret_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("krb5.conf"), "[libdefaults]\n").unwrap();
    let operating = Operating::start_on(FakeCluster::new(), FakeFlink::start().await);
    allow(&operating, folder.path());
    let scene = with_files_in(Scene::new("stateless"), folder.path());
    operating.cluster.insert(serde_json::to_value(scene.resource).unwrap());
    operating
        .until("it is told that there is none", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains("it.keytab` cannot be read in the operator's pod").then_some(())
        })
        .await;
    assert_eq!(
        (secret(&operating.cluster), operating.cluster.objects("deployments")),
        (None, vec![])
    );

    std::fs::write(folder.path().join("it.keytab"), KEYTAB).unwrap();
    let owned = |object: Option<Value>| {
        let object = object?;
        (object["metadata"]["ownerReferences"][0]["kind"] == "Deployment").then_some(object)
    };
    let keytab = operating.until("a Secret of the Deployment", |it| owned(secret(it))).await;
    assert_eq!(keytab["data"], json!({"it.keytab": IN_BASE64}));
    let krb5 = |cluster: &FakeCluster| {
        owned(cluster.object("configmaps", "shop", "kerberos-krb5conf-orders"))
    };
    let krb5 = operating.until("a ConfigMap of the Deployment", krb5).await;
    assert_eq!(krb5["data"], json!({"krb5.conf": "[libdefaults]\n"}));
    for kind in ["flinkdeployments", "deployments", "configmaps", "events", "controllerrevisions"] {
        let text = json!(operating.cluster.objects(kind)).to_string();
        assert!(!text.contains(IN_BASE64) && !text.contains("hunter2"), "{kind}: {text}");
    }
    operating.stop().await;
}

#[tokio::test]
async fn a_job_runs_on_while_the_secret_of_its_keytab_is_somebody_elses() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("it.keytab", KEYTAB), ("krb5.conf", b"[libdefaults]\n")] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let cluster = FakeCluster::new();
    let theirs = cluster.insert(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kerberos-keytab-orders", "namespace": "shop"},
        "data": {"password": "c2VjcmV0"},
    }));
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start_on(cluster, flink);
    allow(&operating, folder.path());
    let edited = || Scene::running("savepoint").edit(|spec| spec.restart_nonce = Some(1));
    operating.run(&with_files_in(edited(), folder.path()));
    operating
        .until("it is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains("Secret `kerberos-keytab-orders` already exists").then_some(())
        })
        .await;
    let deployment = operating.cluster.object("deployments", "shop", "orders").unwrap();
    assert_eq!(
        (&deployment["metadata"]["uid"], secret(&operating.cluster)),
        (&json!("d1"), Some(theirs))
    );
    operating.stop().await;
}
