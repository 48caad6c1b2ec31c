//! A running operator that is to dispose of a savepoint, and what else may need that savepoint.

use std::time::Duration;

use api::STATE_SNAPSHOT_FINALIZER;
use api::reconciled::ReconciledSpec;
use axum::http::Method;
use jiff::Timestamp;
use operator::run::Watch;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use crate::autoscaler::events;
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;

const CLUSTER: &str = "shop/orders";
const PATH: &str = "s3://lake/sp/savepoint-old";

/// Returns a completed savepoint of `shop/orders` that is being deleted.
pub(crate) fn going() -> Value {
    let now = Timestamp::now();
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {
            "name": "old", "namespace": "shop", "uid": "old", "generation": 2,
            "creationTimestamp": now - Duration::from_mins(10), "deletionTimestamp": now,
            "finalizers": [STATE_SNAPSHOT_FINALIZER],
        },
        "spec": {
            "jobReference": {"kind": "FlinkDeployment", "name": "orders"},
            "savepoint": {"disposeOnDelete": true},
        },
        "status": {
            "state": "COMPLETED", "path": PATH,
            "resultTimestamp": now - Duration::from_secs(500),
        },
    })
}

/// Returns an object in the namespace `test`.
fn elsewhere(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": kind,
        "metadata": {"name": "trial", "namespace": "test", "uid": "trial", "generation": 1},
        "spec": spec,
    })
}

async fn start(watch: &Watch, cluster: FakeCluster) -> Operating {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start_in(watch, cluster, flink);
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;
    operating.flink.with(CLUSTER, |flink| flink.stored.insert(PATH.to_owned(), 1));
    operating
}

async fn until_reported(operating: &Operating, why: &str) -> String {
    let described = |cluster: &FakeCluster| events(cluster, "CleanupFailed").pop();
    let event = operating.until(why, described).await;
    event["message"].as_str().unwrap().to_owned()
}

fn is_disposed(operating: &Operating) -> bool {
    operating.flink.with(CLUSTER, |flink| flink.is_disposed(PATH))
}

async fn until_gone(operating: &Operating) {
    let is_gone = |cluster: &FakeCluster| {
        cluster.object("flinkstatesnapshots", "shop", "old").is_none().then_some(())
    };
    operating.until("the snapshot is gone", is_gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_that_another_namespace_names_is_retained_also_where_its_object_cannot_be_read()
{
    let job = json!({"initialSavepointPath": PATH, "jarURI": "local:///job.jar"});
    let mut unreadable = job.clone();
    unreadable["parallelism"] = json!("many");
    let both = Watch::Namespaces(vec!["shop".to_owned(), "test".to_owned()]);
    let all = Watch::AllNamespaces;
    let blue_green = json!({"template": {"spec": {"job": job}}});
    for (watch, kind, spec, named) in [
        (
            &all,
            "FlinkSessionJob",
            json!({"deploymentName": "none", "job": job}),
            "initialSavepointPath",
        ),
        (
            &all,
            "FlinkSessionJob",
            json!({"deploymentName": "none", "job": unreadable}),
            "in its text",
        ),
        (&all, "FlinkDeployment", json!({"job": unreadable}), "in its text"),
        (&all, "FlinkBlueGreenDeployment", blue_green.clone(), "in its text"),
        (&both, "FlinkBlueGreenDeployment", blue_green, "in its text"),
    ] {
        let cluster = FakeCluster::new();
        cluster.insert(elsewhere(kind, &spec));
        let operating = start(watch, cluster).await;
        operating.cluster.insert(going());
        until_gone(&operating).await;
        assert!(!is_disposed(&operating), "{kind} {spec}");
        let events = events(&operating.cluster, "SavepointKept");
        let message = events[0]["message"].as_str().unwrap();
        let who = format!("{kind} `trial` in namespace `test`");
        assert!(message.contains(&who) && message.contains(named), "{message}");
        operating.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_that_nobody_names_goes_once_all_that_is_watched_was_listed() {
    let cluster = FakeCluster::new();
    let of_others = "/namespaces/test/flinksessionjobs?&limit=500";
    cluster.fail(Method::GET, of_others, Fault::Status(500), usize::MAX);
    let watch = Watch::Namespaces(vec!["shop".to_owned(), "test".to_owned()]);
    let operating = start(&watch, cluster).await;
    operating.cluster.insert(going());
    let message = until_reported(&operating, "it is told who is not known").await;
    assert!(message.contains("FlinkSessionJobs of test have not been listed"), "{message}");
    assert!(!is_disposed(&operating));
    operating.cluster.heal();
    until_gone(&operating).await;
    assert!(is_disposed(&operating));
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_that_a_jobs_statistics_name_last_goes_after_the_next_checkpoint() {
    let operating = start(&Watch::AllNamespaces, FakeCluster::new()).await;
    let restart = |is_checkpointing: bool| {
        operating.flink.with(CLUSTER, |flink| {
            let job = flink.jobs.get_mut(JOB_ID).unwrap();
            job.checkpoints_by_itself = is_checkpointing;
            if !is_checkpointing {
                job.forget();
                job.restore("SAVEPOINT", 1000, PATH, 0);
            }
        });
    };
    restart(false);
    operating.cluster.insert(going());
    let message = until_reported(&operating, "it is told that the savepoint is needed").await;
    assert!(message.contains("is the newest state of its job"), "{message}");
    assert!(!is_disposed(&operating));
    restart(true);
    until_gone(&operating).await;
    assert!(is_disposed(&operating));
    operating.stop().await;
}

/// A misconfigured proxy in front of an API server answers like this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_needs_a_savepoint_is_not_missed_for_a_list_that_was_not_found() {
    let job = json!({"initialSavepointPath": PATH, "jarURI": "local:///job.jar"});
    let blue_green = json!({"template": {"spec": {"job": job}}});
    let session_job = json!({"deploymentName": "none", "job": job});
    for (kind, path, spec) in [
        ("FlinkSessionJob", "/namespaces/shop/flinksessionjobs", session_job),
        ("FlinkBlueGreenDeployment", "/flinkbluegreendeployments", blue_green),
    ] {
        let cluster = FakeCluster::new();
        let mut who = elsewhere(kind, &spec);
        who["metadata"]["namespace"] = json!("shop");
        cluster.insert(who);
        let operating = start(&Watch::AllNamespaces, cluster).await;
        operating.cluster.fail(Method::GET, path, Fault::Status(404), usize::MAX);
        operating.cluster.insert(going());
        let message = until_reported(&operating, "it is told who is not known").await;
        assert!(message.contains("did not find them"), "{message}");
        assert!(!is_disposed(&operating), "{kind}");
        operating.cluster.heal();
        until_gone(&operating).await;
        assert!(!is_disposed(&operating), "{kind}");
        operating.stop().await;
    }
}

/// A user names a savepoint, and the pass that finds it too old has not seen that yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_of_the_history_is_retained_that_the_job_names_since_the_watch_showed_it() {
    let entry = |path: &str, age| {
        let taken = Timestamp::now() - Duration::from_mins(age);
        json!({"timeStamp": taken.as_millisecond(), "location": path, "triggerType": "PERIODIC"})
    };
    let newest = entry("s3://lake/sp/savepoint-new", 1);
    let books = json!({"lastSavepoint": newest, "savepointHistory": [entry(PATH, 9), newest]});
    for (named, steps) in [(Some(PATH), vec![]), (None, vec!["dispose-savepoint"])] {
        let operating = start(&Watch::AllNamespaces, FakeCluster::new()).await;
        // Its passes over the stored resource dispose of nothing.
        let mut resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
        resource["spec"]["flinkConfiguration"]["kubernetes.operator.savepoint.cleanup.enabled"] =
            json!("false");
        resource["spec"]["job"]["initialSavepointPath"] = json!(named);
        resource["status"]["jobStatus"]["savepointInfo"] = books.clone();
        operating.cluster.insert(resource.clone());
        let configuration = &mut resource["spec"]["flinkConfiguration"];
        configuration["kubernetes.operator.savepoint.cleanup.enabled"] = json!("true");
        configuration["kubernetes.operator.savepoint.history.max.count"] = json!("1");
        configuration["kubernetes.operator.snapshot.resource.enabled"] = json!("false");
        resource["spec"]["job"]["initialSavepointPath"] = Value::Null;
        let stored = serde_json::from_value(resource["spec"].clone()).unwrap();
        resource["status"]["reconciliationStatus"]["lastReconciledSpec"] =
            json!(ReconciledSpec::new(stored, false).to_text());
        let preview = Box::pin(operating.would(serde_json::from_value(resource).unwrap())).await;
        assert_eq!(preview.steps, steps, "{}", preview.because);
        operating.stop().await;
    }
}
