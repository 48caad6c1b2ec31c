//! The Java operator takes over for a while, as in [`super::super::simulation::java`]. What is known to run a job twice
//! there is left out: a redeploy from a named state submits beside the job that it cancels, and a slow submission is
//! not looked for.

use api::session_job::FlinkSessionJobSpec;
use api::status::LAST_STATE_PATH;
use lifecycle::diff::{ChangeClass, diff_session_job};

use crate::simulation::java::{
    change_last, count_deeds, error, last, lifecycle, observe_job, observe_trigger, path,
    sees_nothing, store,
};

use super::*;

impl Sim {
    /// The Java operator makes some passes, then another process of this one continues.
    fn leave_to_java(&mut self, choices: &mut Choices) {
        self.log.push(format!("{} the Java operator", self.now));
        for _ in 0..=choices.below(15) {
            self.tick();
            if choices.below(4) == 0 {
                self.checkpoint();
            }
            if choices.below(8) == 0 {
                self.misfortune(choices);
            }
            self.java_pass();
            let status = &self.status;
            let line = format!(
                "Java: {} {:?}",
                phase(&status.reconciliation_status, &status.job_status),
                status.job_status.upgrade_savepoint_path,
            );
            if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
                self.log.push(format!("{} {line}", self.now));
            }
        }
        self.die();
    }

    /// Makes one pass, which does nothing unless its cluster is READY and answers.
    pub(super) fn java_pass(&mut self) {
        let status = self.cluster.status.as_ref().unwrap().job_manager_deployment_status;
        let is_ready = status == JobManagerDeploymentStatus::Ready && self.hears();
        if !is_ready || !self.late.is_empty() {
            return;
        }
        if self.resource.metadata.deletion_timestamp.is_some() {
            return self.java_delete();
        }
        if self.java_observe().is_some() {
            self.java_reconcile();
        }
        let state = lifecycle::<FlinkSessionJobSpec>(&self.status.reconciliation_status);
        self.status.lifecycle_state = Some(state);
    }

    /// Returns `None` if the pass ends with it.
    fn java_observe(&mut self) -> Option<()> {
        let now = self.now;
        let found = self.mine().cloned();
        let SessionJobStatus {
            job_status: job, reconciliation_status: record, error: told, ..
        } = &mut self.status;
        let Some(stored) = last::<FlinkSessionJobSpec>(record) else { return Some(()) };
        if record.state == ReconciliationState::RollingBack {
            return Some(());
        }
        let is_cancelling = job.state == Some(JobStatusState::Cancelling);
        if record.state == ReconciliationState::Upgrading && !is_cancelling {
            let is_listed = found.as_ref().is_some_and(|job| {
                !matches!(job.state, JobStatusState::Cancelling | JobStatusState::Canceled)
            });
            if is_listed {
                change_last::<FlinkSessionJobSpec>(record, |job| job.state = JobState::Running);
                job.state = Some(JobStatusState::Reconciling);
                record.state = ReconciliationState::Deployed;
            } else if stored.is_first_deployment() {
                record.last_reconciled_spec = None;
                return Some(());
            } else {
                return Some(());
            }
        } else if stored.job_state() == JobState::Suspended {
            return Some(());
        }
        let Some(found) = found else {
            job.state = Some(JobStatusState::Reconciling);
            record.state = ReconciliationState::Deployed;
            *told = Some("Job Not Found".to_owned());
            return Some(());
        };
        let is_unread = found.state.is_globally_terminal() && self.haze.unread > 0;
        if is_unread || sees_nothing(found.state, found.newest()) {
            return None;
        }
        if found.state == JobStatusState::Failed && job.state != Some(found.state) {
            *told = Some(error("the sink is gone"));
        }
        observe_job::<FlinkSessionJobSpec>(job, record, found.state, found.newest(), now);
        if found.state == JobStatusState::Running {
            *told = None;
        }
        Some(())
    }

    fn java_reconcile(&mut self) {
        if observe_trigger(&mut self.status.job_status, &self.triggers) {
            return;
        }
        let spec = self.resource.spec.clone();
        let wanted = spec.job.clone().unwrap();
        let generation = self.resource.metadata.generation;
        if wanted.parallelism == Some(-1) {
            self.status.error = Some(error("Job parallelism must be larger than 0"));
            return;
        }
        let record = &mut self.status.reconciliation_status;
        let Some(last) = last::<FlinkSessionJobSpec>(record) else {
            if wanted.state == JobState::Running {
                self.status.job_status.upgrade_savepoint_path = wanted.initial_savepoint_path;
                let has_path = self.status.job_status.upgrade_savepoint_path.is_some();
                let mode = if has_path { UpgradeMode::Savepoint } else { UpgradeMode::Stateless };
                self.java_submit(mode);
            }
            return;
        };
        if record.state == ReconciliationState::RollingBack {
            return self.java_roll_back(&last);
        }
        let class = diff_session_job(&last.spec, &spec).class();
        let is_upgrading = record.state == ReconciliationState::Upgrading;
        if class == ChangeClass::Ignore && !is_upgrading {
            self.status.observed_generation = generation;
        } else if class == ChangeClass::SavepointRedeploy || self.is_redeploying(&wanted) {
            // It would submit beside the job that it cancels.
        } else if last.job_state() == JobState::Running {
            self.java_stop(&wanted);
        } else if wanted.state == JobState::Running {
            self.java_submit(last.spec.job.unwrap().upgrade_mode);
        }
    }

    /// Runs the stable spec, or the one that its user requests instead. If the job was not stopped before, it would run
    /// beside the next one.
    fn java_roll_back(&mut self, last: &ReconciledJob) {
        let job = &self.status.job_status;
        if !job.state.is_some_and(JobStatusState::is_globally_terminal) {
            return;
        }
        let mode = last.spec.job.as_ref().unwrap().upgrade_mode;
        let is_changed = diff_session_job(&last.spec, &self.resource.spec).class();
        if is_changed != ChangeClass::Ignore {
            self.status.reconciliation_status.state = ReconciliationState::Upgrading;
            if self.resource.spec.job.as_ref().unwrap().state == JobState::Running {
                self.java_submit(mode);
            }
            return;
        }
        let stable = self.status.reconciliation_status.last_stable_spec.clone().unwrap();
        let stable = ReconciledJob::parse(&stable).unwrap().spec;
        if self.java_starts(&stable, mode, false) {
            let record = &mut self.status.reconciliation_status;
            record.state = ReconciliationState::RolledBack;
            record.reconciliation_timestamp = self.now.as_millisecond();
            self.status.error = None;
        }
    }

    /// Cancels the job, and releases the resource once it has ended.
    fn java_delete(&mut self) {
        let running = self.mine().filter(|job| !job.state.is_globally_terminal());
        match running.map(|job| job.id.clone()).and_then(|id| self.flink_job(&id)) {
            Some(job) => job.state = JobStatusState::Cancelling,
            None => self.resource.metadata.finalizers = None,
        }
    }

    /// Whether a job that a named state replaces has not ended yet.
    fn is_redeploying(&self, wanted: &JobSpec) -> bool {
        let is_live = self.mine().is_some_and(|job| !job.state.is_globally_terminal());
        wanted.savepoint_redeploy_nonce.is_some() && is_live
    }

    fn java_store(&mut self, state: JobState, mode: UpgradeMode, is_done: bool) {
        let (spec, now) = (&self.resource.spec, self.now);
        store(&mut self.status.reconciliation_status, spec, state, mode, is_done, now);
        self.status.observed_generation = self.resource.metadata.generation;
        self.status.error = None;
    }

    fn java_stop(&mut self, wanted: &JobSpec) {
        let state = self.status.job_status.state;
        let is_suspended = wanted.state == JobState::Suspended;
        if state == Some(JobStatusState::Cancelling) {
            return;
        }
        if state.is_some_and(JobStatusState::is_globally_terminal) {
            if path(&self.status.job_status).is_some() {
                self.java_store(JobState::Suspended, UpgradeMode::Savepoint, is_suspended);
                if !is_suspended {
                    self.java_submit(UpgradeMode::Savepoint);
                }
            }
            return;
        }
        let Some(job) = self.mine().filter(|job| job.state == JobStatusState::Running) else {
            return;
        };
        let job_id = job.id.clone();
        // Otherwise its state ends with it.
        let can_be_cancelled = job.retains;
        if wanted.upgrade_mode == UpgradeMode::Savepoint {
            let trigger_id = self.id();
            self.finish_stop(&job_id, &trigger_id);
            let has_ended = self.mine().is_some_and(|job| job.state == JobStatusState::Finished);
            if let (true, Some(path)) = (has_ended, self.triggers.get(&trigger_id)) {
                let job = &mut self.status.job_status;
                job.upgrade_savepoint_path = Some(path.clone());
                job.state = Some(JobStatusState::Finished);
                job.job_id = None;
                self.java_store(JobState::Suspended, UpgradeMode::Savepoint, is_suspended);
            } else {
                self.status.error = Some(error("Savepoint failed"));
            }
        } else if can_be_cancelled {
            self.flink_job(&job_id).unwrap().state = JobStatusState::Cancelling;
            self.status.job_status.state = Some(JobStatusState::Cancelling);
            let record = &mut self.status.reconciliation_status;
            record.state = ReconciliationState::Upgrading;
            change_last::<FlinkSessionJobSpec>(record, |job| {
                job.upgrade_mode = UpgradeMode::Savepoint;
            });
        }
    }

    fn java_submit(&mut self, mode: UpgradeMode) {
        if self.java_starts(&self.resource.spec.clone(), mode, true) {
            self.java_store(JobState::Running, mode, true);
        }
    }

    /// Submits the spec, storing that first if `stores`. Returns `false` if it waits or a person is asked. Its ids are
    /// random, and belong to no resource.
    fn java_starts(&mut self, spec: &FlinkSessionJobSpec, mode: UpgradeMode, stores: bool) -> bool {
        let restored = path(&self.status.job_status);
        let is_unknown = restored.as_deref() == Some(LAST_STATE_PATH);
        if is_unknown || restored.is_some() == (mode == UpgradeMode::Stateless) {
            return false;
        }
        let fresh = self.id();
        let is_again = self.status.job_status.state == Some(JobStatusState::Reconciling);
        let job = &mut self.status.job_status;
        let job_id = job.job_id.take().filter(|_| is_again).unwrap_or(fresh);
        job.job_id = Some(job_id.clone());
        job.state = Some(JobStatusState::Reconciling);
        if stores {
            self.java_store(JobState::Suspended, mode, false);
        }
        let option = |key: &str| spec.flink_configuration.0.get(key).and_then(|it| it.as_str());
        let overrides = option(OVERRIDES).map(|text| (OVERRIDES.to_owned(), text.to_owned()));
        let is_taken = self.submit(&Submission {
            job_id,
            may_arrive: None,
            jar_uri: None,
            entry_class: None,
            args: vec![],
            parallelism: asked(spec.job.as_ref()),
            allow_non_restored_state: false,
            savepoint_path: restored,
            configuration: overrides.into_iter().collect(),
            flink_version: api::version::FlinkVersion::V1_20,
        });
        if !is_taken {
            self.status.error = Some(error("the submission failed"));
        }
        is_taken
    }
}

/// Actions that must occur in some run.
const DEEDS: [&str; 3] = ["Upgrading savepoint to be suspended", "CANCELLING", "RECONCILING"];

#[test]
fn spells_of_the_java_operator_lose_no_record_of_a_session_job() {
    let mut done = [0; 3];
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim = Sim::new(mode, seed % 3 == 0);
        sim.has_snapshot_resources = seed % 4 < 2;
        sim.is_slow = seed % 7 < 3;
        if seed % 6 == 0 {
            sim.configure("kubernetes.operator.deployment.rollback.enabled", "true");
            sim.configure("kubernetes.operator.deployment.readiness.timeout", "9 s");
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..100 {
                sim.tick();
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
                if choices.below(8) == 0 {
                    sim.misfortune(&mut choices);
                }
                if choices.below(15) == 0 {
                    sim.leave_to_java(&mut choices);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
        count_deeds(&mut done, &sim.log, DEEDS);
    }
    assert!(done.iter().all(|count| *count > 0), "{DEEDS:?} {done:?}");
}
