//! Hot upgrades of a standalone job on real Flink: for how long it writes nothing, and that it writes each record once.

use std::time::Duration;

use api::STANDBY_ANNOTATION;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cluster::silence::Silence;
use super::cluster::{Cluster, JOB};

const STANDING_BY: &str = "app.kubernetes.io/name=flink-preflight";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn pods_that_stand_by_take_over() {
    let mut cluster = Cluster::new("hot");
    let mut job = cluster.job();
    job["spec"]["mode"] = json!("standalone");
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    cluster.start(&job);
    job["spec"]["restartNonce"] = json!(1);
    let ordinary = upgrade(&cluster, &job);
    assert!(!stood_by(&cluster.job_manager()));

    job["spec"]["flinkConfiguration"]["kubernetes.operator.job.upgrade.hot.enabled"] =
        json!("true");
    job["spec"]["restartNonce"] = json!(2);
    let mut hot = vec![upgrade(&cluster, &job)];
    assert_taken_over(&cluster, 1);

    // Change arguments, configuration and the number of TaskManagers.
    job["spec"]["job"]["parallelism"] = json!(2);
    job["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] = json!("1");
    job["spec"]["flinkConfiguration"]["env.log.level"] = json!("WARN");
    hot.push(upgrade(&cluster, &job));
    assert_taken_over(&cluster, 2);
    let is_two = |_: &Value| cluster.vertices().iter().any(|it| it["parallelism"] == 2);
    cluster.wait_until("of two subtasks", is_two);

    // A spec that does not start stops nothing.
    let (runs, good) = (cluster.job_manager_incarnation(), job.clone());
    job["spec"]["image"] = json!("registry.invalid/flink:none");
    cluster.deploy(&job);
    cluster.wait_until("refused", |job| job["status"]["error"].is_string());
    assert_eq!(cluster.job_manager_incarnation(), runs);
    cluster.deploy(&good);
    cluster.wait_until("tidy", |_| cluster.pods(STANDING_BY).is_empty());
    assert_eq!(cluster.job_manager_incarnation(), runs);

    // A pod that took over is replaced like any other.
    cluster.kill_job_manager();
    cluster.wait_until_writing();
    job = good;
    job["spec"]["restartNonce"] = json!(3);
    hot.push(upgrade(&cluster, &job));
    assert_taken_over(&cluster, 2);
    println!(
        "== no record was written for {:.1} s in an ordinary last-state upgrade, and for {} s in hot ones",
        ordinary.as_secs_f64(),
        hot.iter().map(|it| format!("{:.1}", it.as_secs_f64())).collect::<Vec<_>>().join(", "),
    );
    cluster.suspend();
    assert!(cluster.pods(&format!("app={JOB}")).is_empty(), "no pod is left");
    cluster.resume();
    cluster.delete_and_count();
    assert!(cluster.pods(STANDING_BY).is_empty());
}

/// Upgrades the job and returns for how long it wrote nothing.
#[track_caller]
fn upgrade(cluster: &Cluster, job: &Value) -> Duration {
    let silence = Silence::watch(cluster);
    cluster.upgrade(job);
    silence.longest()
}

fn stood_by(pod: &Pod) -> bool {
    pod.annotations().contains_key(STANDBY_ANNOTATION)
}

/// Asserts that the pods belong to Deployments of the usual names, which have created no others.
#[track_caller]
fn assert_taken_over(cluster: &Cluster, task_managers: usize) {
    let job_manager = cluster.job_manager();
    assert!(stood_by(&job_manager), "{:?}", job_manager.metadata);
    let of_job_manager = job_manager.owner_references()[0].name.clone();
    assert!(of_job_manager.starts_with(&format!("{JOB}-")), "{of_job_manager}");
    assert_eq!(job_manager.owner_references().len(), 1);
    let others = cluster.task_managers();
    assert_eq!(others.len(), task_managers);
    assert!(others.iter().all(stood_by));
    assert!(cluster.pods(STANDING_BY).is_empty(), "none stands by any more");
    let status = &cluster.observed()["status"];
    let last = &status["jobStatus"]["checkpointInfo"]["lastCheckpoint"];
    assert_eq!(last["triggerType"], "UPGRADE", "{status:#}");
}
