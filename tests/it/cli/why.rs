//! `why` against the fakes: what it reads, and how it reports what it could not read.

use axum::http::Method;
use expect_test::expect;
use serde_json::{Value, json};

use super::commands::{JOB_ID, cluster, flink, run, wordcount};
use crate::support::fake_cluster::Fault;
use crate::support::fake_flink::FakeFlink;

fn pod(name: &str, role: &str, status: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "wordcount", "component": role}},
        "spec": {"containers": []}, "status": status,
    })
}

#[tokio::test]
async fn a_failed_pull_is_found_in_the_pods() {
    let cluster = cluster();
    cluster.insert(pod("wordcount-1", "jobmanager", json!({"phase": "Pending", "containerStatuses": [{
        "name": "flink-main-container", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "flink:9: not found"}},
    }]})));
    let ran = run(&cluster, Some("127.0.0.1:1".to_owned()), "why wordcount").await.succeeded();
    expect![[r#"
        The image of `wordcount` cannot be pulled.
        Evidence (pod `wordcount-1`): flink:9: not found.
        Correct spec.image, or name a pull secret in the pod template.

        next: kubectl describe pod -n default wordcount-1
    "#]]
    .assert_eq(&ran.output);
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn exceptions_of_the_job_are_asked_for() {
    let cluster = cluster();
    let (fake, address) = flink().await;
    fail_job(&fake);
    cluster.set_status(
        "flinkdeployments",
        "default",
        "wordcount",
        &json!({"jobStatus": {"state": "FAILED"}}),
    );
    let ran = run(&cluster, Some(address), "why wordcount -o json").await.succeeded();
    expect![[r#"
        {
          "kind": "FlinkDeployment",
          "namespace": "default",
          "name": "wordcount",
          "cause": "out-of-heap",
          "what": "The heap of `wordcount` is full.",
          "evidence": "Evidence: java.lang.OutOfMemoryError: Java heap space.",
          "remedy": "Raise the memory of the process, or move state out of the heap with RocksDB.",
          "next": "kubectl flink plan wordcount --set taskManager.resources.requests.memory=SIZE",
          "unread": []
        }
    "#]]
    .assert_eq(&ran.output);
}

fn fail_job(fake: &FakeFlink) {
    fake.with("default/wordcount", |cluster| {
        let job = cluster.jobs.get_mut(JOB_ID).unwrap();
        job.fail("java.lang.OutOfMemoryError", "Java heap space", 1);
    });
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_passed_over() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    cluster.fail(Method::GET, "/pods", Fault::Refused(403, r#"pods is forbidden: User "me" cannot list resource "pods" in API group "" in the namespace "default""#.to_owned()), 9);
    cluster.fail(Method::GET, "/events", Fault::Refused(403, r#"events is forbidden: User "me" cannot list resource "events" in API group "" in the namespace "default""#.to_owned()), 9);
    let ran = run(&cluster, Some(address), "why wordcount").await.succeeded();
    assert!(ran.output.starts_with("`wordcount` is healthy."), "{}", ran.output);
    assert!(ran.error.contains("could not read pods: forbidden"), "{}", ran.error);
    assert!(ran.error.contains("could not read events: forbidden"), "{}", ran.error);
}

/// Unknown must not look like healthy.
#[tokio::test]
async fn what_the_job_manager_does_not_answer_is_said() {
    let cluster = cluster();
    let (fake, address) = flink().await;
    fake.with("default/wordcount", |cluster| cluster.jobs.clear());
    let ran = run(&cluster, Some(address), "why wordcount").await.succeeded();
    for what in ["exceptions", "checkpoints", "result"] {
        let told = format!("could not read the job's {what}: ");
        assert!(ran.error.contains(&told), "{told}: {}", ran.error);
    }
}

#[tokio::test]
async fn an_absent_operator_is_found_by_its_deployment() {
    let cluster = cluster();
    cluster.insert(json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kubectl-flink-operator", "namespace": "ops", "labels": {"app.kubernetes.io/name": "kubectl-flink-operator"}},
        "spec": {"replicas": 1, "selector": {}, "template": {}}, "status": {"replicas": 1}}));
    let mut object = wordcount();
    object["metadata"]["generation"] = json!(2);
    cluster.insert(object);
    let ran = run(&cluster, Some("127.0.0.1:1".to_owned()), "why wordcount").await.succeeded();
    assert!(ran.output.contains("No operator manages `wordcount`."), "{}", ran.output);
    assert!(
        ran.output.contains("`ops/kubectl-flink-operator` has 0 of 1 pods ready"),
        "{}",
        ran.output
    );
}
