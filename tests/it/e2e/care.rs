//! What the operator does to real jobs by itself: rollback, restart, scaling in place.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::Api;

use super::*;

/// How long a spec may take to become stable.
const LIMIT: &str = "kubernetes.operator.deployment.readiness.timeout";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_broken_image_is_rolled_back_and_nothing_is_lost() {
    let mut cluster = Cluster::new("rollback");
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.deployment.rollback.enabled"] = json!("true");
    options[LIMIT] = json!(BEYOND_PATIENCE);
    options["kubernetes.operator.job.upgrade.preflight"] = json!("none");
    cluster.start(&job);

    let mut broken = job.clone();
    broken["spec"]["image"] = json!("flink:does-not-exist");
    cluster.deploy(&broken);
    // Its time is up once it is known what is wrong, which takes as long as making the pod.
    cluster.wait_until("in error", |deployment| {
        let error = deployment["status"]["error"].as_str().unwrap_or_default();
        is(deployment, "jobManagerDeploymentStatus", "ERROR") && error.contains("does-not-exist")
    });
    broken["spec"]["flinkConfiguration"][LIMIT] = json!("1s");
    cluster.deploy(&broken);
    let back = cluster.wait_until("ROLLED_BACK and running", |deployment| {
        is(deployment, "lifecycleState", "ROLLED_BACK")
            && deployment["status"]["jobStatus"]["state"] == "RUNNING"
    });
    let error = back["status"]["error"].as_str().unwrap();
    assert!(
        error.contains("is rolled back") && error.contains("does-not-exist"),
        "tells why: {error}"
    );
    cluster.wait_until_writing();

    // The spec is set to what runs already: nothing is restarted.
    let incarnation = cluster.job_manager_incarnation();
    cluster.deploy(&job);
    cluster.wait_until_stable();
    assert_eq!(cluster.job_manager_incarnation(), incarnation);
    cluster.wait_until_writing();
    cluster.delete_and_count();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_failed_job_is_started_again_from_its_last_checkpoint() {
    let mut cluster = Cluster::new("restart");
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.job.restart.failed"] = json!("true");
    options["restart-strategy.type"] = json!("none");
    cluster.start(&job);
    let job_id = |deployment: &Value| deployment["status"]["jobStatus"]["jobId"].clone();
    let first = job_id(&cluster.observed());

    cluster.kill_task_manager();
    let again = cluster.wait_until("started again", |deployment| {
        job_id(deployment) != first && deployment["status"]["jobStatus"]["state"] == "RUNNING"
    });
    let path = again["status"]["jobStatus"]["upgradeSavepointPath"].as_str().unwrap();
    assert!(path.contains("/chk-"), "from a checkpoint: {path}");
    cluster.wait_until_writing();
    cluster.delete_and_count();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn parallelism_is_changed_without_a_restart() {
    let mut cluster = Cluster::new("scaling");
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["jobmanager.scheduler"] = json!("adaptive");
    cluster.start(&job);
    let incarnation = cluster.job_manager_incarnation();

    let vertices = cluster.vertices();
    let last = vertices.last().unwrap()["id"].as_str().unwrap().to_owned();
    job["spec"]["flinkConfiguration"]["pipeline.jobvertex-parallelism-overrides"] =
        json!(format!("{last}:2"));
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.wait_until("scaled", |_| {
        cluster.vertices().iter().any(|vertex| vertex["id"] == *last && vertex["parallelism"] == 2)
    });
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "no upgrade");
    cluster.wait_until_writing();
    cluster.delete_and_count();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_standby_job_manager_takes_over_and_an_unhealthy_job_is_restarted() {
    let mut cluster = Cluster::new("standby");
    cluster.configure_operator(&[("kubernetes.operator.reconcile.interval", "5 s")]);
    let mut job = cluster.job();
    job["spec"]["jobManager"]["replicas"] = json!(2);
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.cluster.health-check.enabled"] = json!("true");
    options["kubernetes.operator.cluster.health-check.restarts.threshold"] = json!("1");
    options["kubernetes.operator.cluster.health-check.restarts.window"] = json!(BEYOND_PATIENCE);
    options["restart-strategy.type"] = json!("fixed-delay");
    options["restart-strategy.fixed-delay.attempts"] = json!("100");
    cluster.start(&job);
    let both = cluster.job_managers();
    assert_eq!(both.len(), 2);

    // The other one continues the job.
    let address = cluster.leader();
    let ip = |pod: &Pod| pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    let leader = both.iter().find(|pod| address.contains(&ip(pod))).unwrap();
    Cluster::kill_job_manager_in(leader);
    cluster.wait_until("led by the other", |_| cluster.leader() != address);
    cluster.wait_until_writing();
    cluster.wait_until_stable();
    let job_id = |job: &Value| job["status"]["jobStatus"]["jobId"].clone();

    // More restarts than allowed: the operator starts the job again, from its last state.
    let pods = |cluster: &Cluster| {
        cluster.job_managers().iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>()
    };
    let (before, first) = (pods(&cluster), job_id(&cluster.observed()));
    for _ in 0..3 {
        if pods(&cluster) != before {
            break;
        }
        cluster.kill_task_manager();
        thread::sleep(Duration::from_secs(2));
        cluster.wait_until_writing();
    }
    cluster.wait_until("restarted", |_| {
        let now = pods(&cluster);
        now.len() == 2 && now.iter().all(|pod| !before.contains(pod))
    });
    assert_eq!(job_id(&cluster.wait_until_stable()), first);
    cluster.wait_until_writing();
    cluster.delete_and_count();
}

impl Cluster {
    pub(super) fn job_details(&self) -> Option<Value> {
        let id = self.observed()["status"]["jobStatus"]["jobId"].as_str()?.to_owned();
        self.rest(&format!("/jobs/{id}"))
    }

    /// Returns the address of the leading JobManager, from Flink's ConfigMap.
    fn leader(&self) -> String {
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), &self.namespace);
        let map = self.wait_for(maps.get(&format!("{JOB}-cluster-config-map"))).unwrap();
        let data = map.data.unwrap_or_default();
        data.get("org.apache.flink.k8s.leader.restserver").cloned().unwrap_or_default()
    }

    pub(super) fn vertices(&self) -> Vec<Value> {
        let details = self.job_details().unwrap_or_default();
        details["vertices"].as_array().cloned().unwrap_or_default()
    }
}
