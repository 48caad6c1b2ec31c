//! Real Flink jobs on a real Kubernetes, driven as a user would drive them.
//!
//! `tests/cluster.sh` starts a sandbox and runs these. The job writes each record exactly once, so its output shows at
//! the end whether any step lost or doubled one.

mod access;
mod autoscaler;
mod blue_green;
mod care;
pub(crate) mod cluster;
mod console;
mod crashes;
mod examples;
mod flink;
mod hdfs;
mod hot;
mod install;
pub(crate) mod kerberos;
mod kinds;
mod long;
mod preflight;
mod session_jobs;
mod snapshots;
mod sql;
mod tenants;
mod waits;
mod zookeeper;

use std::thread;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use cluster::{Cluster, JOB, said};
use zookeeper::children;

use crate::support::patience::BEYOND_PATIENCE;

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn upgrades_lose_and_double_nothing() {
    let mut cluster = Cluster::new("upgrades");
    let mut job = cluster.job();
    // A Service that the API server rejects: the job runs behind a plain one, and the status reports it.
    let annotations = "kubernetes.rest-service.annotations";
    job["spec"]["flinkConfiguration"][annotations] = json!("bad key!:x");
    let first = cluster.start(&job);
    let error = first["status"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("bad key!"), "the status tells what is refused: {error}");

    // A savepoint upgrade to another parallelism, which repairs it.
    job["spec"]["flinkConfiguration"].as_object_mut().unwrap().remove(annotations);
    job["spec"]["job"]["parallelism"] = json!(2);
    let upgraded = cluster.upgrade(&job);
    assert_eq!(upgraded["status"]["error"], Value::Null);

    // The job is not stopped for it.
    let (before, _) = cluster.job_manager_incarnation();
    job["spec"]["flinkConfiguration"][annotations] = json!("bad key!:x");
    cluster.deploy(&job);
    cluster.wait_until("told", |deployment| {
        let error = deployment["status"]["error"].as_str().unwrap_or_default();
        error.contains("Nothing is stopped") && error.contains("bad key!")
    });
    cluster.wait_until_writing();
    job["spec"]["flinkConfiguration"].as_object_mut().unwrap().remove(annotations);
    cluster.deploy(&job);
    let same =
        cluster.wait_until("as before", |deployment| deployment["status"]["error"].is_null());
    assert_eq!(same["status"]["lifecycleState"], "STABLE");
    assert_eq!(
        cluster.job_manager_incarnation().0,
        before,
        "the JobManager is the one from before"
    );
    let savepoint = upgraded["status"]["jobStatus"]["upgradeSavepointPath"].as_str();
    let savepoint = savepoint.expect("the upgrade's savepoint is in the status");
    assert!(cluster.savepoint_exists(savepoint), "`{savepoint}` exists");

    // A last-state upgrade of a job whose JobManager is dead.
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    job["spec"]["job"]["parallelism"] = json!(1);
    cluster.upgrade_the_dead(&job);

    // Suspend and resume.
    cluster.suspend();
    let suspended_at = cluster.records();
    thread::sleep(Duration::from_secs(6));
    assert_eq!(cluster.records(), suspended_at, "a suspended job writes nothing");
    cluster.resume();

    // To an image that does not exist, without trying it first, and back.
    let good_image = job["spec"]["image"].clone();
    job["spec"]["image"] = json!("flink:does-not-exist");
    let file = cluster.write(&job);
    cluster.flink(&["deploy", "-f", file.to_str().unwrap(), "--no-preflight"]);
    let broken = cluster
        .wait_until("in error", |deployment| is(deployment, "jobManagerDeploymentStatus", "ERROR"));
    assert!(
        broken["status"]["error"].as_str().is_some_and(|error| error.contains("ImagePull")),
        "the status tells what is wrong: {}",
        broken["status"]["error"]
    );
    let shown = cluster.flink(&["status", JOB]);
    assert!(shown.contains("does-not-exist"), "`status` names the image");
    cluster.flink(&["rollback", JOB, "--yes"]);
    let back = cluster.wait_until_stable();
    assert_eq!(back["spec"]["image"], good_image);
    cluster.wait_until_writing();

    // Delete it, leaving a savepoint.
    cluster.delete_and_count();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn zookeeper_keeps_the_last_state() {
    let mut cluster = Cluster::new("zookeeper");
    let mut job = cluster.job();
    let quorum = cluster.start_zookeeper(zookeeper::server(&job));
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    let config = job["spec"]["flinkConfiguration"].as_object_mut().unwrap();
    config.remove("high-availability");
    config.remove("high-availability.type");
    config.insert("high-availability.type".to_owned(), json!("zookeeper"));
    config.insert("high-availability.zookeeper.quorum".to_owned(), json!(quorum));
    config.insert("high-availability.zookeeper.path.root".to_owned(), json!("/team"));
    // An earlier cluster of this name has left its job's graphs, which Flink would run too.
    let (graphs, other) = (["jobgraphs", "execution-plans", "applications"], "f".repeat(32));
    for graphs in graphs {
        zookeeper::add(&cluster, &quorum, &format!("/team/{JOB}/{graphs}/{other}"));
    }
    // Or it belongs to a running namesake, whose job it would end.
    let leader = zookeeper::register(&cluster, &quorum, &format!("/team/{JOB}/leader/latch"));
    cluster.start_operator();
    let others = || graphs.map(|of| children(&cluster, &quorum, &format!("/team/{JOB}/{of}")));
    cluster.deploy(&job);
    cluster.wait_until("refused", |deployment| {
        let error = deployment["status"]["error"].as_str().unwrap_or_default();
        error.contains("still registered") && error.contains("path.root")
    });
    assert_eq!(others(), [[other.clone()], [other.clone()], [other.clone()]]);
    drop(leader);
    let first = cluster.wait_until_stable();
    cluster.wait_until_writing();
    let id = first["status"]["jobStatus"]["jobId"].as_str().unwrap().to_owned();
    assert!(others().iter().all(|left| !left.contains(&other)), "{:?}", others());
    let nodes = |below: &str| children(&cluster, &quorum, &format!("/team/{JOB}{below}"));
    assert_eq!(nodes("/jobs"), std::slice::from_ref(&id), "Flink keeps the job in ZooKeeper");
    let checkpoints = format!("/jobs/{id}/checkpoints");
    cluster.wait_until("checkpointed", |_| !nodes(&checkpoints).is_empty());

    // Removes the nodes of a deleted cluster, and nothing of the running one.
    zookeeper::add(&cluster, &quorum, &format!("/team/gone/jobs/{id}/checkpoints/1"));
    zookeeper::add(&cluster, &quorum, "/team/of-others/notes");
    let place = format!("zookeeper://{quorum}/team");
    let removed = cluster.flink(&[
        "gc",
        "--older-than",
        "0s",
        "--include-state",
        "--sole-user-of",
        &place,
        "--yes",
    ]);
    assert!(removed.contains(&format!("{place}/gone")), "{removed}");
    let mut left = children(&cluster, &quorum, "/team");
    left.sort();
    assert_eq!(left, [JOB, "of-others"], "{removed}");
    assert!(!nodes(&checkpoints).is_empty());

    // A last-state upgrade of a job whose JobManager is dead.
    job["spec"]["job"]["parallelism"] = json!(2);
    let upgraded = cluster.upgrade_the_dead(&job);
    assert_eq!(
        upgraded["status"]["jobStatus"]["jobId"],
        json!(id),
        "last state keeps the job's id"
    );

    // Delete it, with everything that Flink stored.
    cluster.save_and_delete(JOB);
    cluster.wait_until("deleted", Value::is_null);
    assert!(nodes("").is_empty(), "nothing is left in ZooKeeper: {:?}", nodes(""));
    // Except what a stopped namesake keeps there.
    for of in [format!("jobs/{other}/checkpoints/1"), format!("jobgraphs/{other}")] {
        zookeeper::add(&cluster, &quorum, &format!("/team/{JOB}/{of}"));
    }
    zookeeper::delete(&cluster, &quorum, ["/team", JOB], &[id]);
    assert_eq!(nodes("/jobs"), std::slice::from_ref(&other));
    assert_eq!(nodes(&format!("/jobs/{other}/checkpoints")), ["1"]);
    assert!(nodes("/jobgraphs").is_empty(), "no JobManager starts it: {:?}", nodes("/jobgraphs"));
    cluster.assert_nothing_lost_or_doubled();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_bad_edit_leaves_the_job_alone() {
    let mut cluster = Cluster::new("edits");
    cluster.start_operator();
    let mut job = cluster.job();
    let options = job["spec"]["flinkConfiguration"].as_object_mut().unwrap();
    let high_availability = ["high-availability.type", "high-availability.storageDir"]
        .map(|key| (key, options.remove(key).unwrap()));
    cluster.deploy(&job);
    let stable = cluster.wait_until_stable();
    let incarnation = cluster.job_manager_incarnation();

    // `deploy` rejects it, and names every violation.
    let good = job.clone();
    job["spec"]["job"]["parallelism"] = json!(0);
    job["spec"]["jobManager"]["resources"]["requests"]["memory"] = json!("100Mi");
    let file = cluster.write(&job);
    let refused = cluster.try_flink(&["deploy", "-f", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    for field in ["spec.job.parallelism", "spec.jobManager"] {
        assert!(said(&refused).contains(field), "names `{field}`: {}", said(&refused));
    }
    let generation = |deployment: &Value| deployment["metadata"]["generation"].clone();
    assert_eq!(generation(&cluster.observed()), generation(&stable), "nothing was sent");

    // The same without `deploy`: the operator reports it and keeps what it has.
    cluster.edit(json!({"spec": {"jobManager": job["spec"]["jobManager"]}}));
    cluster.wait_until("refused", |deployment| deployment["status"]["error"].is_string());
    cluster.wait_until_writing();
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "the job is left alone");
    cluster.edit(json!({"spec": {"jobManager": good["spec"]["jobManager"]}}));
    cluster.wait_until("accepted", |deployment| {
        deployment["status"]["error"].is_null() && is(deployment, "lifecycleState", "STABLE")
    });
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "there was nothing to do");

    // The operator's own record can no longer be read.
    let record = |deployment: &Value| {
        deployment["status"]["reconciliationStatus"]["lastReconciledSpec"].clone()
    };
    let last_reconciled = record(&cluster.observed());
    let corrupt = json!({"reconciliationStatus": {"lastReconciledSpec": "{\"spec\":"}});
    cluster.kill_operator();
    cluster.edit_status(corrupt);
    cluster.edit(json!({"spec": {"job": {"parallelism": 2}}}));
    cluster.start_operator();
    cluster.wait_until("refused", |deployment| {
        deployment["status"]["error"]
            .as_str()
            .is_some_and(|error| error.contains("lastReconciledSpec"))
    });
    cluster.wait_until_writing();
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "the job is left alone");
    assert_eq!(record(&cluster.observed()), "{\"spec\":", "evidence is not overwritten");

    // Once it is repaired, the pending edit is carried out.
    cluster.edit_status(json!({"reconciliationStatus": {"lastReconciledSpec": last_reconciled}}));
    cluster.wait_until_stable();
    assert_ne!(cluster.job_manager_incarnation(), incarnation, "the edit was carried out");
    cluster.wait_until_writing();

    // High availability has since become a default of the operator. This job was started without: a new pod of its
    // JobManager would run it again while it is suspended.
    cluster.kill_operator();
    let defaults = high_availability.each_ref().map(|(key, value)| (*key, value.as_str().unwrap()));
    cluster.configure_operator(&defaults);
    cluster.start_operator();
    cluster.suspend();
    cluster.wait_until("without a JobManager", |deployment| {
        is(deployment, "jobManagerDeploymentStatus", "MISSING") && cluster.job_managers().is_empty()
    });
    let suspended_at = cluster.records();
    cluster.resume();
    let resumed = cluster.observed();
    let path = resumed["status"]["jobStatus"]["upgradeSavepointPath"].as_str().unwrap();
    assert!(cluster.savepoint_exists(path), "it goes on from `{path}`");
    assert!(cluster.records() > suspended_at);
    let started_with = resumed["status"]["clusterInfo"]["HighAvailability"].as_str().unwrap();
    assert!(started_with.contains("kubernetes"), "what is started next has it: {started_with}");
    cluster.delete_and_count();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn until_stable_answers_by_its_exit_code() {
    let cluster = Cluster::new("exit-codes");
    let mut job = cluster.job();
    cluster.deploy(&job);
    let operate = |timeout: &str| {
        let output = cluster.try_flink(&["operate", "--until-stable", "--timeout", timeout]);
        println!("-- operate --until-stable --timeout {timeout}: {}", said(&output));
        output.status.code()
    };
    assert_eq!(operate("3s"), Some(124), "no job starts in three seconds");
    assert_eq!(operate(BEYOND_PATIENCE), Some(0), "the job is STABLE");

    // A job that fails for good: it rejects a rate of no records.
    job["spec"]["job"]["args"][5] = json!("0");
    job["spec"]["job"]["upgradeMode"] = json!("stateless");
    job["spec"]["flinkConfiguration"]["restart-strategy.type"] = json!("none");
    cluster.deploy(&job);
    assert_eq!(operate(BEYOND_PATIENCE), Some(1), "the job is FAILED");
}

/// Every user of the machine reaches the node, on which the kubelet runs what it is asked to.
#[test]
#[ignore = "needs a sandbox with real Flink"]
fn nobody_is_let_in_without_a_certificate() {
    let cluster = Cluster::bare("stranger");
    let stranger = reqwest::Client::builder().tls_danger_accept_invalid_certs(true).build();
    let stranger = stranger.unwrap();
    let asked = cluster.wait_for(async {
        let nodes = kube::Api::<Node>::all(cluster.client());
        let nodes = nodes.list(&kube::api::ListParams::default()).await.unwrap();
        let mut asked = Vec::new();
        for node in nodes {
            let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
            for address in addresses.iter().filter(|it| it.type_ == "InternalIP") {
                for path in ["pods", "runningpods/", "logs/", "configz"] {
                    let url = format!("https://{}:10250/{path}", address.address);
                    asked.push((stranger.get(&url).send().await.unwrap().status(), url));
                }
            }
        }
        asked
    });
    assert!(!asked.is_empty());
    for (status, url) in asked {
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{url}");
    }
}

fn is(deployment: &Value, field: &str, value: &str) -> bool {
    deployment["status"][field] == value
}
