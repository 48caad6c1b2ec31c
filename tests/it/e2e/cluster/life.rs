//! What every test does with its job: start it, upgrade it, end it and count its records.

use serde_json::Value;

use super::{Cluster, JOB};
use crate::support::patience::BEYOND_PATIENCE;

impl Cluster {
    /// Starts the operator and waits until the job writes. Returns its resource.
    #[track_caller]
    pub(in crate::e2e) fn start(&mut self, job: &Value) -> Value {
        self.start_operator();
        self.upgrade(job)
    }

    /// Deploys the manifest and waits until its job writes. Returns its resource.
    #[track_caller]
    pub(in crate::e2e) fn upgrade(&self, job: &Value) -> Value {
        self.deploy(job);
        let stable = self.wait_until_stable();
        self.wait_until_writing();
        stable
    }

    /// Upgrades a job whose JobManager is dead.
    #[track_caller]
    pub(in crate::e2e) fn upgrade_the_dead(&self, job: &Value) -> Value {
        let (before, _) = self.job_manager_incarnation();
        self.kill_job_manager();
        let stable = self.upgrade(job);
        let (after, _) = self.job_manager_incarnation();
        assert_ne!(before, after, "the upgrade made a new JobManager");
        stable
    }

    #[track_caller]
    pub(in crate::e2e) fn suspend(&self) -> Value {
        self.flink(&["suspend", JOB]);
        self.wait_until("SUSPENDED", |job| job["status"]["lifecycleState"] == "SUSPENDED")
    }

    #[track_caller]
    pub(in crate::e2e) fn resume(&self) {
        self.flink(&["resume", JOB]);
        self.wait_until_stable();
        self.wait_until_writing();
    }

    /// Deletes the job and counts its records.
    #[track_caller]
    pub(in crate::e2e) fn delete_and_count(&self) {
        self.save_and_delete(JOB);
        self.wait_until("deleted", Value::is_null);
        self.assert_nothing_lost_or_doubled();
    }

    /// Requests the deletion of a resource, after a savepoint of its job, however long that takes.
    #[track_caller]
    pub(in crate::e2e) fn save_and_delete(&self, name: &str) {
        self.flink(&["delete", name, "--yes", "--timeout", BEYOND_PATIENCE]);
    }
}
