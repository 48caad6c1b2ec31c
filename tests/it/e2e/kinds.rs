//! Session clusters, standalone mode and Flink 2, on real Flink.

use clients::flink::Client;
use serde_json::{Value, json};

use super::cluster::{Cluster, JOB, said};
use super::is;

/// Returns the job of the tests as a standalone application.
fn standalone(cluster: &Cluster) -> Value {
    let mut job = cluster.job();
    job["spec"]["mode"] = json!("standalone");
    job
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_session_cluster_is_replaced_with_its_jobs_and_deleted_after_them() {
    let mut cluster = Cluster::new("session");
    cluster.name = "lab".to_owned();
    cluster.start_operator();
    let mut lab = cluster.job();
    lab["metadata"]["name"] = json!("lab");
    lab["spec"].as_object_mut().unwrap().remove("job");
    cluster.deploy(&lab);
    cluster.wait_until_ready();
    let job_id = cluster.submit();
    cluster.wait_until_writing();
    let shown = cluster.flink(&["status", "lab"]);
    assert!(shown.contains("session cluster"), "{shown}");
    for command in ["suspend", "resume", "savepoint"] {
        let refused = cluster.try_flink(&[command, "lab"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(said(&refused).contains("`lab` is a session cluster"), "{}", said(&refused));
    }

    cluster.try_an_image_in_vain(&lab);

    // A change of the spec replaces the cluster; HA metadata restores the job.
    let (before, _) = cluster.job_manager_incarnation();
    lab["spec"]["flinkConfiguration"]["env.log.level"] = json!("WARN");
    cluster.deploy(&lab);
    cluster.wait_until_ready();
    let (after, _) = cluster.job_manager_incarnation();
    assert_ne!(before, after);
    cluster.wait_until_writing();
    assert!(cluster.flink(&["history", "lab"]).contains("current"));

    // A lost JobManager is recreated as well.
    cluster.delete_deployment("lab");
    cluster.wait_until("lost", |lab| !is(lab, "jobManagerDeploymentStatus", "READY"));
    cluster.wait_until_ready();
    cluster.wait_until_writing();

    // Deletion waits for the job.
    cluster.flink(&["delete", "lab", "--yes"]);
    let blocked = cluster.wait_until("blocked", |lab| lab["status"]["error"].is_string());
    let error = blocked["status"]["error"].as_str().unwrap_or_default();
    assert!(error.contains(&format!("non terminated jobs [{job_id}]")), "{error}");
    cluster.wait_until_writing();
    cluster.ask_flink(async |client: Client| client.cancel(&job_id).await.unwrap());
    cluster.wait_until("deleted", Value::is_null);
    assert!(cluster.pods("app=lab").is_empty());
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn standalone_upgrades_lose_and_double_nothing() {
    let mut cluster = Cluster::new("standalone");
    let mut job = standalone(&cluster);
    cluster.start(&job);
    cluster.try_an_image_in_vain(&job);

    // A savepoint upgrade to two TaskManagers.
    job["spec"]["taskManager"]["replicas"] = json!(2);
    job["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] = json!("1");
    cluster.deploy(&job);
    let upgraded = cluster.wait_until_stable();
    let savepoint = upgraded["status"]["jobStatus"]["upgradeSavepointPath"].as_str();
    assert!(cluster.savepoint_exists(savepoint.expect("the upgrade's savepoint")));
    cluster.wait_until("of two TaskManagers", |_| cluster.task_managers().len() == 2);
    cluster.wait_until_writing();

    // A last-state upgrade of a job whose JobManager is dead.
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    job["spec"]["taskManager"]["replicas"] = json!(1);
    cluster.kill_job_manager();
    cluster.upgrade(&job);
    assert_eq!(cluster.task_managers().len(), 1);

    // Each Deployment is lost once.
    let task_managers = format!("{JOB}-taskmanager");
    let uid = || {
        let found = cluster.find("apps/v1", "Deployment", &task_managers)?;
        found["metadata"]["uid"].as_str().map(str::to_owned)
    };
    let lost = uid();
    cluster.delete_deployment(&task_managers);
    cluster.wait_until("with other TaskManagers", |_| uid().is_some_and(|uid| Some(uid) != lost));
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    cluster.delete_deployment(JOB);
    cluster.wait_until("lost", |job| !is(job, "jobManagerDeploymentStatus", "READY"));
    cluster.wait_until_stable();
    cluster.wait_until_writing();

    // Suspend and resume.
    cluster.suspend();
    assert!(cluster.pods(&format!("app={JOB}")).is_empty(), "no pod is left");
    cluster.resume();

    cluster.save_and_delete(JOB);
    cluster.wait_until("deleted", Value::is_null);
    assert!(cluster.pods(&format!("app={JOB}")).is_empty(), "no pod is left");
    cluster.assert_nothing_lost_or_doubled();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_reactive_job_is_scaled_in_place() {
    let mut cluster = Cluster::new("reactive");
    let mut job = standalone(&cluster);
    job["spec"]["flinkConfiguration"]["scheduler-mode"] = json!("REACTIVE");
    job["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] = json!("1");
    job["spec"]["taskManager"]["replicas"] = json!(1);
    cluster.start(&job);
    let incarnation = cluster.job_manager_incarnation();
    let selector = format!("component=taskmanager,app={JOB}");
    assert_eq!(cluster.scale_status(), (1, selector.clone()));

    cluster.scale(2);
    cluster.wait_until("scaled", |job| job["status"]["taskManager"]["replicas"] == 2);
    cluster.wait_until_stable();
    assert_eq!(cluster.scale_status(), (2, selector.clone()));
    cluster.wait_until("of two pods", |_| cluster.pods(&selector).len() == 2);
    cluster.wait_until_writing();
    cluster.scale(1);
    cluster.wait_until("scaled", |job| job["status"]["taskManager"]["replicas"] == 1);
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "the JobManager went on");

    cluster.delete_and_count();
}

#[test]
#[ignore = "needs a sandbox with Flink 2"]
fn flink_2_upgrades_lose_and_double_nothing() {
    let mut cluster = Cluster::new("flink-2");
    let mut job = cluster.job();
    job["spec"]["image"] = json!("flink:2.3");
    job["spec"]["flinkVersion"] = json!("v2_3");
    cluster.start(&job);
    let version = cluster.answer_of(JOB, "/config")["flink-version"].clone();
    assert!(version.as_str().unwrap().starts_with("2.3."), "{version}");

    job["spec"]["job"]["parallelism"] = json!(2);
    let upgraded = cluster.upgrade(&job);
    let savepoint = upgraded["status"]["jobStatus"]["upgradeSavepointPath"].as_str();
    assert!(cluster.savepoint_exists(savepoint.expect("the upgrade's savepoint")));

    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    job["spec"]["job"]["parallelism"] = json!(1);
    cluster.upgrade_the_dead(&job);
    cluster.delete_and_count();
}
