//! The autoscaler of session jobs, and how it handles edits that do not take effect.

use std::sync::Arc;
use std::time::Duration;

use api::SESSION_JOB_FINALIZER;
use api::deployment::FlinkDeployment;
use api::reconciled::{ReconciledJob, ReconciledSpec};
use api::session_job::FlinkSessionJobSpec;
use futures::FutureExt;
use futures::future::BoxFuture;
use metrics::Metrics;
use operator::run::Watch;
use operator::validator::{Subject, Validator, Violation};
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use crate::autoscaler::{flink, run, scene, with_load};
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::Job;
use crate::support::fake_flink::load::{Load, SOURCE, WINDOW};
use crate::support::operating::{Operating, insert_job_manager_of};

const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";

/// Returns the session cluster `lab`, whose configuration enables the autoscaler for its jobs.
fn lab() -> Value {
    let mut lab = serde_json::to_value(scene(&[]).resource).unwrap();
    lab["metadata"]["name"] = json!("lab");
    lab["metadata"]["uid"] = json!("u-lab");
    lab["spec"].as_object_mut().unwrap().remove("job");
    lab["status"] = json!({
        "jobManagerDeploymentStatus": "READY",
        "observedGeneration": 1,
        "clusterInfo": {"flink-version": "1.20.1"},
        "lifecycleState": "STABLE",
    });
    let read: FlinkDeployment = serde_json::from_value(lab.clone()).unwrap();
    let text = ReconciledSpec::new(read.spec, false).to_text();
    lab["status"]["reconciliationStatus"] = json!({
        "state": "DEPLOYED", "lastReconciledSpec": text, "lastStableSpec": text,
        "reconciliationTimestamp": 1_750_000_000_000_i64,
    });
    lab
}

/// Returns the job `clicks` in it, which does not mention the autoscaler.
fn clicks() -> Value {
    let spec = json!({
        "deploymentName": "lab",
        "job": {
            "jarURI": "https://jars.example/clicks.jar", "parallelism": 1,
            "upgradeMode": "savepoint", "state": "running",
        },
    });
    let read: FlinkSessionJobSpec = serde_json::from_value(spec.clone()).unwrap();
    let text = ReconciledJob::new(read, false).to_text();
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {
            "name": "clicks", "namespace": "shop", "uid": "u-clicks", "generation": 1,
            "finalizers": [SESSION_JOB_FINALIZER], "labels": {"target.session": "lab"},
        },
        "spec": spec,
        "status": {
            "jobStatus": {
                "jobId": JOB_ID, "jobName": "clicks", "state": "RUNNING",
                "startTime": "1750000000000", "updateTime": "1750000000000",
            },
            "reconciliationStatus": {
                "state": "DEPLOYED", "lastReconciledSpec": text, "lastStableSpec": text,
                "reconciliationTimestamp": 1_750_000_000_000_i64,
            },
            "observedGeneration": 1,
            "lifecycleState": "STABLE",
        },
    })
}

async fn start() -> Operating {
    let operating = Operating::start(flink().await);
    let now = operating.flink.now();
    operating.flink.with("shop/lab", |cluster| {
        cluster.measure_memory();
        let mut job = Job::running(JOB_ID, now);
        job.load = Some(Load::new(100.0, 40.0, now));
        cluster.jobs.insert(JOB_ID.to_owned(), job);
    });
    let lab = lab();
    let read: FlinkDeployment = serde_json::from_value(lab.clone()).unwrap();
    insert_job_manager_of(&operating.cluster, &read);
    operating.cluster.insert(lab);
    operating.cluster.insert(clicks());
    operating
}

fn load<T>(operating: &Operating, inspect: impl FnOnce(&mut Load) -> T) -> T {
    operating.flink.with("shop/lab", |cluster| {
        inspect(cluster.jobs.get_mut(JOB_ID).unwrap().load.as_mut().unwrap())
    })
}

async fn until_parallelism(operating: &Operating, least: u32) {
    let is_there = |_: &FakeCluster| {
        let of = load(operating, |load| (load.parallelism[SOURCE], load.parallelism[WINDOW]));
        (of >= (least, least)).then_some(())
    };
    operating.until(&format!("parallelism {least}"), is_there).await;
}

fn last_reconciled(cluster: &FakeCluster) -> Value {
    let job = cluster.object("flinksessionjobs", "shop", "clicks").unwrap();
    let text = &job["status"]["reconciliationStatus"]["lastReconciledSpec"];
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

/// Returns the recorded parallelism of the job.
fn overrides(cluster: &FakeCluster) -> Option<String> {
    let spec = &last_reconciled(cluster)["spec"]["flinkConfiguration"];
    spec[OVERRIDES].as_str().map(str::to_owned)
}

fn stored(cluster: &FakeCluster, name: &str) -> Value {
    cluster.object("configmaps", "shop", name).map(|map| map["data"].clone()).unwrap_or_default()
}

async fn a_while() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_job_is_scaled_in_place_by_its_own_configuration() {
    let operating = start().await;
    until_parallelism(&operating, 4).await;
    let text = operating.until("it is on record", overrides).await;
    assert!(text.contains(SOURCE) && text.contains(WINDOW), "{text}");
    let job = operating.cluster.object("flinksessionjobs", "shop", "clicks").unwrap();
    assert_eq!(job["metadata"]["generation"], 1, "the user's spec is not written");
    assert_eq!(job["spec"]["flinkConfiguration"], Value::Null);
    let lab = operating.cluster.object("flinkdeployments", "shop", "lab").unwrap();
    assert!(!lab.to_string().contains(OVERRIDES), "other jobs have nothing of it");
    let map = operating.cluster.object("configmaps", "shop", "autoscaler-clicks").unwrap();
    assert_eq!(map["metadata"]["ownerReferences"][0]["kind"], "FlinkSessionJob");
    assert_eq!(operating.flink.requests("/stop"), [""; 0], "no upgrade was needed");
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_edit_of_the_session_cluster_turns_nothing_off() {
    let operating = start().await;
    until_parallelism(&operating, 4).await;
    operating.until("it is on record", overrides).await;
    let mut lab = operating.cluster.object("flinkdeployments", "shop", "lab").unwrap();
    let configuration = lab["spec"]["flinkConfiguration"].as_object_mut().unwrap();
    configuration.remove("job.autoscaler.enabled");
    configuration.insert("rest.port".to_owned(), json!("many"));
    lab["metadata"]["generation"] = json!(2);
    operating.cluster.insert(lab);
    operating
        .until("it is refused", |cluster| {
            let lab = cluster.object("flinkdeployments", "shop", "lab")?;
            lab["status"]["error"].as_str()?.contains("rest.port").then_some(())
        })
        .await;
    a_while().await;
    assert_ne!(
        stored(&operating.cluster, "autoscaler-clicks")["parallelismOverrides"],
        Value::Null
    );
    assert!(overrides(&operating.cluster).is_some(), "it runs as was decided");
    assert_eq!(operating.flink.requests("/stop"), [""; 0]);
    // The job is even scaled further.
    load(&operating, |load| load.rate = 400.0);
    until_parallelism(&operating, 11).await;
    operating.stop().await;
}

/// Rejects turning the autoscaler off.
struct Keeper;

impl Validator for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn validate<'a>(
        &'a self,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Result<Vec<Violation>, String>> {
        let option = &subject.object["spec"]["flinkConfiguration"]["job.autoscaler.enabled"];
        let path = "spec.flinkConfiguration".to_owned();
        let refused = Violation { path, message: "the autoscaler stays on".to_owned() };
        let violations = if *option == "false" { vec![refused] } else { vec![] };
        async move { Ok(violations) }.boxed()
    }
}

fn edit(operating: &Operating, generation: i64, option: &str, job: impl FnOnce(&mut Value)) {
    let mut resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    resource["spec"]["flinkConfiguration"]["job.autoscaler.enabled"] = json!(option);
    resource["metadata"]["generation"] = json!(generation);
    job(&mut resource["spec"]["job"]);
    operating.cluster.insert(resource);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_only_a_validator_refuses_clears_nothing() {
    let operating = Operating::start_judged(
        &Watch::AllNamespaces,
        FakeCluster::new(),
        flink().await,
        Metrics::default(),
        vec![Arc::new(Keeper)],
    );
    let scene: Scene = scene(&[]);
    run(&operating, &scene, 100.0);
    let is_scaled = |operating: &Operating| {
        with_load(operating, |load| load.parallelism[SOURCE] >= 4).then_some(())
    };
    operating.until("it is scaled up", |_| is_scaled(&operating)).await;
    edit(&operating, 2, "false", |_| ());
    operating
        .until("it is refused", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            resource["status"]["error"].as_str()?.contains("stays on").then_some(())
        })
        .await;
    a_while().await;
    let overrides =
        || stored(&operating.cluster, "autoscaler-orders")["parallelismOverrides"].clone();
    assert!(overrides().is_string(), "{}", overrides());

    // Once the edit is reverted, the job keeps what it has.
    let before = overrides();
    edit(&operating, 3, "true", |_| ());
    a_while().await;
    assert_eq!(operating.flink.requests("/stop"), [""; 0]);
    assert!(is_scaled(&operating).is_some() && before.is_string());

    // A reset that the validator admits does clear the state.
    edit(&operating, 4, "true", |job| job["autoscalerResetNonce"] = json!(7));
    operating
        .until("it is cleared", |cluster| {
            let data = stored(cluster, "autoscaler-orders");
            (data["parallelismOverrides"] != before).then_some(())
        })
        .await;
    operating.stop().await;
}
