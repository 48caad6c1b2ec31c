//! Hot upgrades of a standalone job on real Flink: for how long it writes nothing, and that it writes each record once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::STANDBY_ANNOTATION;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cluster::silence::Silence;
use super::cluster::{Cluster, JOB};

const STANDBY_PREFIX: &str = "app.kubernetes.io/name=flink-preflight";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn pods_that_stand_by_take_over() {
    let mut cluster = Cluster::new("hot");
    let mut job = cluster.job();
    job["spec"]["mode"] = json!("standalone");
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    // What the JobManager takes for a failure of the job ends it, and removes its HA metadata.
    job["spec"]["flinkConfiguration"]["restart-strategy.type"] = json!("none");
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
    cluster.wait_until("tidy", |_| cluster.pods(STANDBY_PREFIX).is_empty());
    assert_eq!(cluster.job_manager_incarnation(), runs);

    // A pod that took over is replaced like any other.
    cluster.kill_job_manager();
    cluster.wait_until_writing();
    job = good;
    for nonce in 3..=5 {
        job["spec"]["restartNonce"] = json!(nonce);
        hot.push(upgrade(&cluster, &job));
        assert_taken_over(&cluster, 2);
    }
    println!(
        "== no record was written for {:.1} s in an ordinary last-state upgrade, and for {} s in hot ones",
        ordinary.as_secs_f64(),
        hot.iter().map(|it| format!("{:.1}", it.as_secs_f64())).collect::<Vec<_>>().join(", "),
    );
    hot.sort();
    assert!(hot[hot.len() / 2] < ordinary / 2, "{hot:?} are not hot, beside {ordinary:?}");
    cluster.suspend();
    assert!(cluster.pods(&format!("app={JOB}")).is_empty(), "no pod is left");
    cluster.resume();
    cluster.delete_and_count();
    assert!(cluster.pods(STANDBY_PREFIX).is_empty());
}

/// Minutes of upgrades; `tests/cluster.sh all` or their name runs them.
mod long {
    use super::*;
    use crate::e2e::crashes;
    use crate::faults::operator::Operator;
    use crate::faults::proxy::{Fault, Proxy};

    /// Longer than a JobManager waits for a lock that is not renewed.
    const PAUSE: Duration = Duration::from_secs(20);
    /// Method and end of the path of a request of an upgrade, and the name of that step.
    const STEPS: [(&str, &str, &str); 9] = [
        ("POST", "/pods", "new pods"),
        ("POST", "/checkpoints", "the checkpoint"),
        ("PATCH", "-cluster-config-map", "the lock"),
        ("PATCH", "/deployments/exactly-once-counter", "the stop of the JobManager"),
        ("PATCH", "/deployments/exactly-once-counter-taskmanager", "the stop of TaskManagers"),
        ("DELETE", "/deployments/exactly-once-counter", "the end of the old Deployment"),
        ("PATCH", "-jobmanager-1", "the labels of a pod"),
        ("POST", "/services", "a Service"),
        ("PUT", "/status", "the status"),
    ];

    /// Whoever leads while nobody renews the lock, no record is lost or doubled.
    #[test]
    #[ignore = "needs a sandbox with real Flink, and some minutes"]
    fn an_operator_that_is_paused_in_any_step_loses_and_doubles_nothing() {
        let cluster = Cluster::new("hot-paused");
        let operator = Arc::new(Operator::new(&cluster.operator_log()));
        let proxy = cluster.wait_for(Proxy::start(
            cluster.client(),
            "127.0.0.1:1".to_owned(),
            Arc::clone(&operator),
        ));
        operator.start(crashes::arguments(&cluster, &proxy));
        let mut job = cluster.job();
        job["spec"]["mode"] = json!("standalone");
        job["spec"]["job"]["upgradeMode"] = json!("last-state");
        let options = &mut job["spec"]["flinkConfiguration"];
        options["kubernetes.operator.job.upgrade.hot.enabled"] = json!("true");
        options["restart-strategy.type"] = json!("none");
        cluster.upgrade(&job);
        for (round, (method, end, step)) in STEPS.into_iter().enumerate() {
            let is_paused = Arc::new(AtomicBool::new(false));
            let once = Arc::clone(&is_paused);
            proxy.begin(move |asked| {
                let path = asked.path.split('?').next().unwrap_or_default();
                let is_step = asked.is(method, "") && path.ends_with(end);
                let is_now = is_step && !once.swap(true, Ordering::Relaxed);
                is_now.then_some(Fault::Pause(PAUSE))
            });
            job["spec"]["job"]["parallelism"] = json!(2 - round % 2);
            let silence = Silence::watch(&cluster);
            cluster.deploy(&job);
            cluster.wait_until_stable();
            cluster.wait_until_writing();
            let gap = silence.longest().as_secs_f64();
            println!("== paused after {step}: no record was written for {gap:.1} s");
            assert!(is_paused.load(Ordering::Relaxed), "no {method} of {end}");
        }
        cluster.delete_and_count();
    }
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
    assert!(cluster.pods(STANDBY_PREFIX).is_empty(), "none stands by any more");
    let status = &cluster.observed()["status"];
    let last = &status["jobStatus"]["checkpointInfo"]["lastCheckpoint"];
    assert_eq!(last["triggerType"], "UPGRADE", "{status:#}");
}
