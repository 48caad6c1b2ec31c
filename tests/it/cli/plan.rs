//! `plan` against the fakes: it reads, decides as the operator would, and writes nothing.

use axum::http::Method;
use expect_test::expect;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{Ran, cluster, flink, run, stored, wordcount};
use crate::support::fake_cluster::FakeCluster;

/// Returns a job as an operator leaves it: its stored spec is its spec.
pub(super) fn reconciled() -> FakeCluster {
    let cluster = cluster();
    let mut object = wordcount();
    object["metadata"]["uid"] = json!("u1");
    object["metadata"]["finalizers"] = json!(["flinkdeployments.flink.apache.org/finalizer"]);
    let last = json!({"spec": object["spec"], "resource_metadata": {"apiVersion": "flink.apache.org/v1beta1"}});
    object["status"]["reconciliationStatus"]["lastReconciledSpec"] = json!(last.to_string());
    cluster.insert(object);
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "wordcount", "namespace": "default", "uid": "d1",
            "annotations": {"flinkdeployment.flink.apache.org/generation": "1"},
            "ownerReferences": [{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "name": "wordcount", "uid": "u1"}]},
        "spec": {}, "status": {"replicas": 1, "availableReplicas": 1, "readyReplicas": 1},
    }));
    cluster
}

fn manifest(change: impl FnOnce(&mut Value)) -> tempfile::NamedTempFile {
    let mut manifest = wordcount();
    manifest.as_object_mut().unwrap().remove("status");
    manifest["metadata"] = json!({"name": "wordcount"});
    change(&mut manifest);
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    file
}

fn assert_nothing_written(cluster: &FakeCluster) {
    for write in cluster.writes() {
        assert!(write.uri.contains("dryRun=All"), "{write:?}");
    }
    assert_eq!(stored(cluster)["metadata"]["generation"], 1);
}

fn differs(ran: &Ran) {
    assert_eq!(ran.failure.as_ref().map(|(kind, _)| *kind), Some(Kind::Differs), "{}", ran.error);
}

#[tokio::test]
async fn an_upgrade_is_reported_step_by_step() {
    let cluster = reconciled();
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "plan wordcount --set image=flink:1.20-java17").await;
    differs(&ran);
    expect![[r#"
        FlinkDeployment wordcount (namespace default) UPGRADE: the job is stopped and started again

        Changes:
          upgrade  image: flink:1.20 → flink:1.20-java17

        The operator would:
          trying the new spec before anything is stopped
            1. try the new spec in one pod of each role, without touching what is running
          stopping the job with a savepoint
            2. remove the pods that tried the spec
            3. stop the job with a savepoint in s3://b/savepoints
          removing the JobManager, with the job's state on record
            4. create a FlinkStateSnapshot
            5. record the previous spec in the history, with s3://b/savepoints/savepoint-…
            6. delete the JobManager and the objects that it owns
          deploying the job from s3://b/savepoints/savepoint-…
            7. create the JobManager and the objects that belong to it

        Restore point: savepoint s3://b/savepoints/savepoint-…, taken when the job stops
        Read again:    nothing, the savepoint covers everything
        Downtime:      unknown, no earlier upgrade is on record
    "#]]
    .assert_eq(&ran.output);
    assert_nothing_written(&cluster);
}

#[tokio::test]
async fn a_plan_as_json_is_a_contract() {
    let cluster = reconciled();
    let (_flink, address) = flink().await;
    let line = "plan wordcount --set job.parallelism=4 --set flinkConfiguration.s3.secret-key=hunter2 -o json";
    let ran = run(&cluster, Some(address), line).await;
    differs(&ran);
    assert!(!ran.output.contains("hunter2"));
    expect![[r#"
        {
          "plans": [
            {
              "kind": "FlinkDeployment",
              "namespace": "default",
              "name": "wordcount",
              "isNew": false,
              "class": "UPGRADE",
              "changes": [
                {
                  "field": "job.parallelism",
                  "from": "2",
                  "to": "4",
                  "class": "UPGRADE"
                },
                {
                  "field": "flinkConfiguration.s3.secret-key",
                  "from": "null",
                  "to": "******",
                  "class": "UPGRADE"
                }
              ],
              "passes": [
                {
                  "because": "trying the new spec before anything is stopped",
                  "steps": [
                    {
                      "step": "make-preflight",
                      "text": "try the new spec in one pod of each role, without touching what is running"
                    }
                  ]
                },
                {
                  "because": "stopping the job with a savepoint",
                  "steps": [
                    {
                      "step": "remove-preflight",
                      "text": "remove the pods that tried the spec"
                    },
                    {
                      "step": "stop-with-savepoint",
                      "text": "stop the job with a savepoint in s3://b/savepoints"
                    }
                  ]
                },
                {
                  "because": "removing the JobManager, with the job's state on record",
                  "steps": [
                    {
                      "step": "create-snapshot",
                      "text": "create a FlinkStateSnapshot"
                    },
                    {
                      "step": "record-revision",
                      "text": "record the previous spec in the history, with s3://b/savepoints/savepoint-…"
                    },
                    {
                      "step": "delete-job-manager",
                      "text": "delete the JobManager and the objects that it owns"
                    }
                  ]
                },
                {
                  "because": "deploying the job from s3://b/savepoints/savepoint-…",
                  "steps": [
                    {
                      "step": "create-cluster",
                      "text": "create the JobManager and the objects that belong to it"
                    }
                  ]
                }
              ],
              "restore": {
                "kind": "savepoint",
                "path": "s3://b/savepoints/savepoint-…",
                "isPlanned": true,
                "ageSeconds": 0
              },
              "stopsJob": true,
              "warnings": []
            }
          ]
        }
    "#]].assert_eq(&ran.output);
}

#[tokio::test]
async fn nothing_to_do_is_no_difference() {
    let cluster = reconciled();
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "plan wordcount").await.succeeded();
    expect![[r#"
        FlinkDeployment wordcount (namespace default) needs no changes
    "#]]
    .assert_eq(&ran.output);
    assert_nothing_written(&cluster);
}

/// The operator merges the decision into the spec before it compares.
#[tokio::test]
async fn what_the_autoscaler_decided_is_not_reported_as_lost() {
    const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
    let vertex = "20ba6b65f97481d5570070de90e4e791";
    let cluster = reconciled();
    let mut object = stored(&cluster);
    object["spec"]["flinkConfiguration"]["job.autoscaler.enabled"] = json!("true");
    let mut last = object["spec"].clone();
    last["flinkConfiguration"][OVERRIDES] = json!(format!("{vertex}:4"));
    let last =
        json!({"spec": last, "resource_metadata": {"apiVersion": "flink.apache.org/v1beta1"}});
    object["status"]["reconciliationStatus"]["lastReconciledSpec"] = json!(last.to_string());
    cluster.insert(object);
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "autoscaler-wordcount", "namespace": "default",
            "labels": {"component": "autoscaler", "app": "wordcount"},
            "ownerReferences": [{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "name": "wordcount", "uid": "u1"}],
        },
        "data": {"parallelismOverrides": format!("{vertex}:4")},
    }));
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address.clone()), "plan wordcount").await.succeeded();
    assert!(ran.output.contains("needs no changes"), "{}", ran.output);
    let ran = run(&cluster, Some(address), "plan wordcount --set image=flink:1.20-java17").await;
    differs(&ran);
    assert!(ran.output.contains("image: flink:1.20 → flink:1.20-java17"), "{}", ran.output);
    assert!(!ran.output.contains(OVERRIDES), "{}", ran.output);
    assert_nothing_written(&cluster);
}

#[tokio::test]
async fn a_manifest_is_compared_as_the_api_server_would_store_it() {
    let cluster = reconciled();
    let (_flink, address) = flink().await;
    let file = manifest(|manifest| manifest["spec"]["job"]["state"] = json!("suspended"));
    let line = format!("plan -f {}", file.path().display());
    let ran = run(&cluster, Some(address), &line).await;
    differs(&ran);
    expect![[r#"
        FlinkDeployment wordcount (namespace default) UPGRADE: the job is stopped

        Changes:
          upgrade  job.state: running → suspended

        The operator would:
          stopping the job with a savepoint
            1. stop the job with a savepoint in s3://b/savepoints
          removing the JobManager, with the job's state on record
            2. create a FlinkStateSnapshot
            3. record the previous spec in the history, with s3://b/savepoints/savepoint-…
            4. delete the JobManager and the objects that it owns

        Downtime:      unknown, no earlier upgrade is on record
    "#]]
    .assert_eq(&ran.output);
    assert_nothing_written(&cluster);
}

#[tokio::test]
async fn a_new_resource_is_created_from_nothing() {
    let cluster = cluster();
    let file = manifest(|manifest| manifest["metadata"]["name"] = json!("fresh"));
    let ran = run(&cluster, None, &format!("plan -f {}", file.path().display())).await;
    differs(&ran);
    expect![[r#"
        FlinkDeployment fresh (namespace default) CREATE: a new resource

        The operator would:
          deploying the job from empty state
            1. add the finalizer
            2. create the JobManager and the objects that belong to it

        Restore point: none: the job starts empty
        warning: the job starts without any state: it is new
    "#]]
    .assert_eq(&ran.output);
    assert_eq!(cluster.object("flinkdeployments", "default", "fresh"), None);
}

#[tokio::test]
async fn everything_wrong_with_an_edit_is_reported_at_once() {
    let cluster = reconciled();
    let line = "plan wordcount --set job.parallelism=0 --set imagePullPolicy=Maybe";
    let ran = run(&cluster, None, line).await;
    let (kind, causes) = ran.failure.unwrap();
    assert_eq!(kind, Kind::Failed);
    assert!(
        causes[0].contains("spec.job.parallelism") && causes[0].contains("imagePullPolicy"),
        "{causes:?}"
    );
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn without_the_right_to_apply_a_manifest_is_laid_over_what_there_is() {
    let cluster = reconciled();
    let (_flink, address) = flink().await;
    cluster.refuse(Method::PATCH, "flinkdeployments/wordcount", 403,
        r#"flinkdeployments.flink.apache.org "wordcount" is forbidden: User "me" cannot patch resource "flinkdeployments" in API group "flink.apache.org" in the namespace "default""#);
    let file = manifest(|manifest| manifest["spec"]["image"] = json!("flink:1.20-java17"));
    let ran = run(&cluster, Some(address), &format!("plan -f {}", file.path().display())).await;
    differs(&ran);
    assert!(ran.output.contains("image: flink:1.20 → flink:1.20-java17"), "{}", ran.output);
    assert!(ran.output.contains("fields that are no longer in the manifest are assumed to stay"));
}

#[tokio::test]
async fn a_jobmanager_that_is_silent_is_no_reason_for_a_guess() {
    let cluster = reconciled();
    let silent = Some("127.0.0.1:1".to_owned());
    let ran = run(&cluster, silent, "plan wordcount --set image=flink:1.20-java17").await;
    differs(&ran);
    assert!(!ran.output.contains("Restore point"), "{}", ran.output);
    assert!(ran.output.contains("could not read "), "{}", ran.output);
}
