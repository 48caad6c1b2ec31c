//! Commands that only read: their requests, and their output.

use std::time::Duration;

use api::deployment::FlinkDeployment;
use axum::http::Method;
use kube::api::{Api, DeleteParams};
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{JOB_ID, Ran, cluster, flink, run, wordcount};
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::patience::PATIENCE;

fn session_job(name: &str) -> Value {
    json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"deploymentName": "session", "job": {"jarURI": "https://x/a.jar"}}})
}

#[tokio::test]
async fn list_shows_both_kinds_in_order() {
    let cluster = cluster();
    cluster.insert(session_job("clicks"));
    let ran = run(&cluster, None, "list -o name").await.succeeded();
    let names =
        "flinkdeployment.flink.apache.org/wordcount\nflinksessionjob.flink.apache.org/clicks\n";
    assert_eq!(ran.output, names);
    let ran = run(&cluster, None, "list").await.succeeded();
    let lines = ran.output.lines().collect::<Vec<_>>();
    assert!(lines[1].starts_with("wordcount "), "{}", ran.output);
    assert!(lines[2].starts_with("sessionjob/clicks "), "{}", ran.output);
    let ran = run(&cluster, None, "list --reverse -o name").await.succeeded();
    assert!(ran.output.starts_with("flinksessionjob"), "{}", ran.output);
}

#[tokio::test]
async fn whole_objects_are_a_list_in_both_forms() {
    let cluster = cluster();
    cluster.insert(session_job("clicks"));
    let ran = run(&cluster, None, "list -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!((&told["kind"], &told["apiVersion"]), (&json!("List"), &json!("v1")));
    assert_eq!(told["items"][0]["metadata"]["name"], "wordcount");
    assert_eq!(told["items"][0]["kind"], "FlinkDeployment");
    assert_eq!(told["items"][1]["spec"]["deploymentName"], "session");
    assert_eq!(ran.output, serde_json::to_string_pretty(&told).unwrap() + "\n");
    let yaml = run(&cluster, None, "list -o yaml").await.succeeded().output;
    assert!(yaml.starts_with("apiVersion: v1\nkind: List\nitems:\n- apiVersion:"), "{yaml}");
    assert_eq!(yaml.lines().filter(|line| line.starts_with("- ")).count(), 2, "{yaml}");
    let empty = run(&FakeCluster::new(), None, "list -o json").await.succeeded().output;
    assert_eq!(serde_json::from_str::<Value>(&empty).unwrap()["items"], json!([]));
}

#[tokio::test]
async fn an_unknown_name_leads_to_the_near_ones() {
    let cluster = cluster();
    cluster.insert(session_job("clicks"));
    let mut elsewhere = wordcount();
    elsewhere["metadata"] = json!({"name": "orders", "namespace": "shop"});
    cluster.insert(elsewhere);
    let hints = async |name: &str| {
        let ran = run(&cluster, None, &format!("status {name}")).await;
        ran.failed(Kind::Failed, "in namespace `default`");
        ran.hints
    };
    assert_eq!(hints("wordcoutn").await, ["did you mean `wordcount`?"]);
    assert_eq!(hints("sessionjob/click").await, ["did you mean `sessionjob/clicks`?"]);
    assert_eq!(hints("orders").await, ["namespace `shop` has one: add -n shop"]);
    assert_eq!(hints("zzz").await, ["the namespace has `wordcount`, `sessionjob/clicks`"]);
}

#[tokio::test]
async fn flink_is_asked_what_a_person_asks() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let line = "rest wordcount GET /jobs/{job}";
    let ran = run(&cluster, Some(address.clone()), line).await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(told["jid"], JOB_ID);
    let ran = run(&cluster, Some(address.clone()), "rest wordcount PATCH /jobs/{job}").await;
    ran.failed(Kind::Failed, "changes `wordcount` behind the operator's back");
    let ran = run(&cluster, Some(address), "rest wordcount GET jobs").await;
    ran.failed(Kind::Usage, "`jobs` is not a path of Flink's REST API");
}

#[tokio::test]
async fn checkpoints_are_those_that_the_job_manager_reports() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "checkpoints wordcount -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert!(told["checkpoints"].is_array() && told["counts"]["completed"].is_u64(), "{told}");
    let mut session = wordcount();
    session["metadata"] = json!({"name": "session", "namespace": "default"});
    session["spec"].as_object_mut().unwrap().remove("job");
    cluster.insert(session);
    run(&cluster, None, "checkpoints session").await.failed(Kind::Failed, "no job of its own");
}

#[tokio::test]
async fn a_wide_list_says_when_a_running_job_was_saved() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let saved = |ran: &Ran| {
        let mut lines = ran.output.lines();
        let place = lines.next().unwrap().find("SAVED").unwrap();
        lines.next().unwrap()[place..].split(' ').next().unwrap().to_owned()
    };
    run(&cluster, Some(address.clone()), "savepoint wordcount --direct").await.succeeded();
    let ran = run(&cluster, Some(address), "list -o wide").await.succeeded();
    assert!(saved(&ran).ends_with('d'), "{}", ran.output);
    assert_eq!(ran.error, "");
    let ran = run(&cluster, Some("127.0.0.1:1".to_owned()), "list -o wide").await.succeeded();
    assert_eq!(saved(&ran), "");
    assert!(ran.error.contains("SAVED of 1 running jobs is not known"), "{}", ran.error);
    assert!(ran.error.contains("wordcount: "), "{}", ran.error);
}

#[tokio::test]
async fn events_are_those_of_the_deployment_the_latest_last() {
    let cluster = cluster();
    for (name, kind, of, at, message) in [
        ("b", "FlinkDeployment", "wordcount", "2026-01-01T00:01:00Z", "password=hunter2"),
        ("a", "Pod", "wordcount-taskmanager-1-1", "2026-01-01T00:00:00Z", "pulled"),
        ("c", "FlinkDeployment", "other", "2026-01-01T00:02:00Z", "not shown"),
    ] {
        cluster.insert(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": kind, "name": of}, "type": "Warning", "reason": "R", "message": message,
            "lastTimestamp": at, "count": 2}));
    }
    let ran = run(&cluster, None, "events wordcount -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    let messages =
        told["events"].as_array().unwrap().iter().map(|it| it["message"].as_str().unwrap());
    assert_eq!(messages.collect::<Vec<_>>(), ["pulled", "password=******"]);
    let ran = run(&cluster, None, "events wordcount").await.succeeded();
    assert!(ran.output.contains("FlinkDeployment/wordcount"), "{}", ran.output);
}

#[tokio::test]
async fn options_come_with_the_layer_that_sets_them() {
    let cluster = cluster();
    let ran = run(&cluster, None, "config wordcount --set-only -o json").await.succeeded();
    assert!(
        ran.error.contains("the operator's own configuration is not included"),
        "{}",
        ran.error
    );
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    let from = |option: &str| {
        let options = told["options"].as_array().unwrap();
        let found = options.iter().find(|it| it["option"] == option);
        found.map(|it| {
            (it["value"].as_str().unwrap().to_owned(), it["from"].as_str().unwrap().to_owned())
        })
    };
    let pair = |value: &str, from: &str| Some((value.to_owned(), from.to_owned()));
    assert_eq!(from("state.savepoints.dir"), pair("s3://b/savepoints", "wordcount"));
    assert_eq!(from("parallelism.default"), pair("2", "follows from the spec"));
}

/// Returns a savepoint of `wordcount`, taken on that day of January 2026.
fn savepoint(day: u8, is_disposed: bool) -> Value {
    json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": format!("s-{day}"), "namespace": "default", "uid": format!("u-{day}"),
            "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
            "finalizers": ["flinkstatesnapshots.flink.apache.org/finalizer"]},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"},
            "savepoint": {"disposeOnDelete": is_disposed}},
        "status": {"state": "COMPLETED", "path": format!("s3://b/{day}")}})
}

#[tokio::test]
async fn old_snapshots_go_that_nothing_refers_to() {
    let cluster = cluster();
    for (day, is_disposed) in [(1, true), (2, false), (3, true), (4, true)] {
        cluster.insert(savepoint(day, is_disposed));
    }
    let mut user = wordcount();
    user["spec"]["job"]["initialSavepointPath"] = json!("s3://b/3/_metadata");
    cluster.insert(user);
    let line = "snapshots gc wordcount --keep 1";
    let ran = run(&cluster, None, &format!("{line} --dry-run -o json")).await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    let found = told["findings"].as_array().unwrap();
    let verdicts =
        found.iter().map(|it| (it["name"].as_str().unwrap(), it["isRemovable"].as_bool().unwrap()));
    assert_eq!(verdicts.collect::<Vec<_>>(), [("s-1", true), ("s-2", false), ("s-3", false)]);
    run(&cluster, None, line).await.failed(Kind::Usage, "nothing was deleted");
    assert_eq!(cluster.writes(), []);
    let going = |name: &str| {
        let snapshot = cluster.object("flinkstatesnapshots", "default", name).unwrap();
        snapshot["metadata"]["deletionTimestamp"].is_string()
    };
    let ran = run(&cluster, None, &format!("{line} --yes")).await.succeeded();
    assert!(ran.error.contains("1 of 1 deleted"), "{}", ran.error);
    assert_eq!(["s-1", "s-2", "s-3", "s-4"].map(going), [true, false, false, false]);
    let ran = run(&cluster, None, &format!("{line} --yes --include-kept")).await.succeeded();
    assert!(ran.error.contains("1 of 1 deleted"), "{}", ran.error);
    assert_eq!(["s-2", "s-3", "s-4"].map(going), [true, false, false]);
    let second = cluster.object("flinkstatesnapshots", "default", "s-2").unwrap();
    assert_eq!(second["spec"]["savepoint"]["disposeOnDelete"], true, "its savepoint goes with it");
    run(&cluster, None, "snapshots gc wordcuont").await.failed(Kind::Failed, "no FlinkDeployment");
}

#[tokio::test]
async fn a_savepoint_is_read_without_a_cluster() {
    let cluster = FakeCluster::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("_metadata");
    std::fs::copy("tests/corpus/metadata/v6--flink-2.1-canonical", &path).unwrap();
    let folder = folder.path().display().to_string();
    let ran = run(&cluster, None, &format!("savepoint inspect {folder} -o json")).await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!((&told["formatVersion"], &told["checkpointId"]), (&json!(6), &json!(7)));
    assert_eq!(told["operators"][0]["uid"], "orders-source");
    assert!(told["outside"]["references"].as_u64().unwrap() > 0, "{told}");
    let ran =
        run(&cluster, None, &format!("savepoint inspect {folder}/_metadata")).await.succeeded();
    assert!(ran.output.contains("canonical savepoint 7, format version 6"), "{}", ran.output);
    assert_eq!(cluster.requests(), [], "a file of this machine needs no cluster");
    let mut newer = std::fs::read("tests/corpus/metadata/v7--proposed").unwrap();
    std::fs::write(&path, &newer).unwrap();
    let ran = run(&cluster, None, &format!("savepoint inspect {folder}")).await.succeeded();
    assert!(ran.output.contains("have the state of an earlier checkpoint"), "{}", ran.output);
    newer[7] = 99;
    std::fs::write(&path, &newer).unwrap();
    let ran = run(&cluster, None, &format!("savepoint inspect {folder}")).await;
    ran.failed(Kind::Failed, "its format version 99 is not supported");
    assert!(ran.hints[0].contains("the Flink that wrote it can restore it"), "{:?}", ran.hints);
    std::fs::write(&path, "PK").unwrap();
    let ran = run(&cluster, None, &format!("savepoint inspect {folder}")).await;
    ran.failed(Kind::Failed, "it is not the metadata of a savepoint or checkpoint");
    let ran = run(&cluster, None, "savepoint inspect /nowhere/savepoint-1").await;
    ran.failed(Kind::Failed, "it is not there");
}

#[tokio::test]
async fn a_snapshot_that_only_pods_can_see_says_how_to_fetch_it() {
    let cluster = cluster();
    let mut snapshot = savepoint(1, true);
    snapshot["status"]["path"] = json!("file:/flink-data/savepoint-1");
    cluster.insert(snapshot);
    let ran = run(&cluster, None, "savepoint inspect s-1").await;
    ran.failed(Kind::Failed, "is in a file system that only pods can access");
    let hint = "fetch it first: kubectl flink exec wordcount -- cat /flink-data/savepoint-1/_metadata > ./_metadata";
    assert_eq!(ran.hints[0], hint);
    run(&cluster, None, "savepoint inspect s-9")
        .await
        .failed(Kind::Failed, "no FlinkStateSnapshot");
}

#[tokio::test]
async fn a_snapshot_leads_to_its_job() {
    let cluster = cluster();
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": "s-1", "namespace": "default", "uid": "u",
            "finalizers": ["flinkstatesnapshots.flink.apache.org/finalizer"]},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"}, "savepoint": {"disposeOnDelete": false}},
        "status": {"state": "COMPLETED", "path": "s3://b/1"}}));
    let line = "snapshots dispose s-1";
    run(&cluster, None, line).await.failed(Kind::Failed, "the savepoint at `s3://b/1` is deleted");
    assert_eq!(cluster.writes(), []);
    let flags = "--unverified --leave-newer-state";
    run(&cluster, None, &format!("snapshots restore s-1 {flags}")).await.succeeded();
    let spec = super::commands::stored(&cluster)["spec"].clone();
    assert_eq!(spec["job"]["initialSavepointPath"], "s3://b/1");
    // The spec now names it.
    let ran = run(&cluster, None, &format!("{line} --yes")).await;
    ran.failed(Kind::Failed, "may be needed by FlinkDeployment `wordcount`");
    cluster.insert(wordcount());
    run(&cluster, None, &format!("{line} --yes")).await.succeeded();
    let going = cluster.object("flinkstatesnapshots", "default", "s-1").unwrap();
    assert!(going["metadata"]["deletionTimestamp"].is_string(), "{going}");
    assert_eq!(going["spec"]["savepoint"]["disposeOnDelete"], true);
    let ran = run(&cluster, None, "snapshots -A dispose s-1").await;
    ran.failed(Kind::Usage, "do not go in front of list");
}

#[tokio::test]
async fn a_watch_that_loses_its_connection_says_so_once_and_goes_on() {
    let cluster = cluster();
    cluster.fail(Method::GET, "watch=true", Fault::Status(500), 2);
    let server = cluster.clone();
    let operator = tokio::spawn(async move {
        while server.requests().iter().filter(|it| it.uri.contains("watch=true")).count() < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let failed = json!({"lifecycleState": "FAILED"});
        server.set_status("flinkdeployments", "default", "wordcount", &failed);
    });
    let watching = run(&cluster, None, "status wordcount --watch");
    // The view runs until the deployment is gone.
    let end = async {
        operator.await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let api = Api::<FlinkDeployment>::namespaced(cluster.client(), "default");
        api.delete("wordcount", &DeleteParams::default()).await.unwrap()
    };
    let (ran, _deleted) = tokio::time::timeout(PATIENCE, async { tokio::join!(watching, end) })
        .await
        .expect("the watch ends when the deployment is gone");
    let ran = ran.succeeded();
    assert_eq!(ran.error.matches("connection lost, retrying").count(), 1, "{}", ran.error);
    assert_eq!(ran.error.matches("reconnected").count(), 1, "{}", ran.error);
    assert!(ran.output.contains("wordcount: FAILED"), "{}", ran.output);
    assert!(ran.output.ends_with("wordcount: gone\n"), "{}", ran.output);
}

#[tokio::test]
async fn status_shows_events_and_goes_without_those_that_may_not_be_read() {
    let cluster = cluster();
    cluster.insert(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "FlinkDeployment", "name": "wordcount"}, "type": "Warning", "reason": "Missing",
        "message": "no image", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 1}));
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address.clone()), "status wordcount").await.succeeded();
    assert!(ran.output.contains("Warning Missing no image"), "{}", ran.output);
    cluster.refuse(Method::GET, "/events", 403, "no");
    let ran = run(&cluster, Some(address), "status wordcount").await.succeeded();
    assert!(ran.output.contains("Events unavailable"), "{}", ran.output);
}
