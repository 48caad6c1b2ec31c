//! The Java operator takes over for a while.
//!
//! This is a small model of what it does: it observes, stops by last-state, savepoint or cancel, records the state for
//! the next start, and redeploys; its status has its own form. What is known to lose state there is left out, because
//! it proves nothing about what follows: a start without a path although there is state, or with one although the spec
//! was stored at a first start; a rollback or a recovery from metadata without a checkpoint.

use api::deployment::FlinkDeploymentSpec;
use api::job::JobSpec;
use api::reconciled::{Reconciled, ReconciledSpec, StoredSpec, deployed};
use api::status::{JobManagerDeploymentStatus, ReconciliationState};
use config::FlinkConfig;
use config::options::{DEPLOYMENT_READINESS_TIMEOUT, DEPLOYMENT_ROLLBACK_ENABLED};
use lifecycle::diff::{ChangeClass, diff};

use super::*;

/// Returns a message in the Java operator's error format.
pub(crate) fn error(message: &str) -> String {
    let kind = "org.apache.flink.kubernetes.operator.exception.ReconciliationException";
    json!({"type": kind, "message": message, "throwableList": []}).to_string()
}

/// Stores `spec`, which is about to be deployed, or is already, in which case nothing is left to do.
pub(crate) fn store<S: StoredSpec>(
    reconciliation: &mut ReconciliationStatus,
    spec: &S,
    state: JobState,
    mode: UpgradeMode,
    is_done: bool,
    now: Timestamp,
) {
    let before = last::<S>(reconciliation);
    let is_first = before.as_ref().is_none_or(|last| is_done && last.is_first_deployment());
    let mut spec = spec.clone();
    let before = before.as_ref().and_then(|last| last.spec.job());
    if let Some(job) = spec.job_mut() {
        (job.state, job.upgrade_mode) = (state, mode);
        if let Some(before) = before {
            job.savepoint_trigger_nonce = before.savepoint_trigger_nonce;
            job.checkpoint_trigger_nonce = before.checkpoint_trigger_nonce;
        }
    }
    let text = Reconciled::new(spec, is_first).to_text();
    reconciliation.state =
        if is_done { ReconciliationState::Deployed } else { ReconciliationState::Upgrading };
    reconciliation.reconciliation_timestamp = now.as_millisecond();
    if is_done && state == JobState::Suspended {
        reconciliation.last_stable_spec = Some(text.clone());
    }
    reconciliation.last_reconciled_spec = Some(text);
}

pub(crate) fn last<S: StoredSpec>(reconciliation: &ReconciliationStatus) -> Option<Reconciled<S>> {
    let text = reconciliation.last_reconciled_spec.as_deref()?;
    Some(Reconciled::parse(text).unwrap())
}

/// Changes the job of the stored spec, whose state or way of stopping has changed.
pub(crate) fn change_last<S: StoredSpec>(
    reconciliation: &mut ReconciliationStatus,
    change: impl FnOnce(&mut JobSpec),
) {
    let Some(mut last) = last::<S>(reconciliation) else { return };
    let is_stopped = last.job_state() == JobState::Running;
    if let Some(job) = last.spec.job_mut() {
        change(job);
    }
    if is_stopped {
        last.first_deployment = Some(false);
    }
    reconciliation.last_reconciled_spec = Some(last.to_text());
}

/// Returns what the next start restores.
pub(crate) fn path(job: &JobStatus) -> Option<String> {
    let last = job.savepoint_info.as_ref().and_then(|info| info.last_savepoint.as_ref());
    let last = || last.and_then(|savepoint| savepoint.location.clone());
    job.upgrade_savepoint_path.clone().or_else(last)
}

/// Observes a recorded trigger, whoever made it: while its job runs nothing else is done, and afterwards it is given
/// up. Returns whether to wait for it.
pub(crate) fn observe_trigger(job: &mut JobStatus, triggers: &BTreeMap<String, String>) -> bool {
    let runs = job.state == Some(JobStatusState::Running);
    let Some(info) = &mut job.savepoint_info else { return false };
    let Some(id) = info.trigger_id.clone() else { return false };
    if runs && !triggers.contains_key(&id) {
        return true;
    }
    if let (true, Some(path)) = (runs, triggers.get(&id)) {
        let savepoint = info.last_savepoint.get_or_insert_default();
        savepoint.location = Some(path.clone());
    }
    (info.trigger_id, info.trigger_timestamp, info.trigger_type) = (None, None, None);
    false
}

/// Observes the job as listed, and the state that it left if it has ended.
pub(crate) fn observe_job<S: StoredSpec>(
    job: &mut JobStatus,
    reconciliation: &mut ReconciliationStatus,
    state: JobStatusState,
    newest: Option<&(u64, String)>,
    now: Timestamp,
) {
    let was_cancelling = job.state == Some(JobStatusState::Cancelling);
    if job.state != Some(state) {
        job.update_time = Some(now.as_millisecond().to_string());
    }
    job.state = Some(state);
    let has_ended = state.is_globally_terminal();
    if has_ended && (newest.is_some() || state == JobStatusState::Canceled) {
        job.upgrade_savepoint_path = newest.map(|(_, path)| path.clone());
    }
    if state == JobStatusState::Canceled || has_ended && was_cancelling {
        change_last::<S>(reconciliation, |job| job.state = JobState::Suspended);
    }
    if state == JobStatusState::Running && reconciliation.state == ReconciliationState::Deployed {
        reconciliation.last_stable_spec.clone_from(&reconciliation.last_reconciled_spec);
    }
}

/// Whether the model ignores this: Java stores a job that was cancelled before it had any state as stopped with a
/// nameless one, for which a person is asked.
pub(crate) fn sees_nothing(state: JobStatusState, newest: Option<&(u64, String)>) -> bool {
    state == JobStatusState::Canceled && newest.is_none()
}

/// Derives the lifecycle state like the Java operator, as far as this operator could be misled by it.
pub(crate) fn lifecycle<S: StoredSpec>(reconciliation: &ReconciliationStatus) -> LifecycleState {
    let last = last::<S>(reconciliation);
    match (reconciliation.state, last) {
        (_, None) => LifecycleState::Created,
        (ReconciliationState::Upgrading, _) => LifecycleState::Upgrading,
        (_, Some(last)) if last.job_state() == JobState::Suspended => LifecycleState::Suspended,
        (_, Some(_)) if reconciliation.last_reconciled_spec == reconciliation.last_stable_spec => {
            LifecycleState::Stable
        }
        (_, Some(_)) => LifecycleState::Deployed,
    }
}

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
                "Java: {} {:?} {:?}",
                phase(&status.reconciliation_status, &status.job_status),
                status.job_manager_deployment_status,
                status.job_status.upgrade_savepoint_path,
            );
            if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
                self.log.push(format!("{} {line}", self.now));
            }
        }
        if choices.below(2) == 0 {
            // Early versions replace unknown fields, including how a removed JobManager was started or removed.
            if self.job_manager.as_ref().is_none_or(|jm| jm.is_deleting) {
                self.doubt.last();
            }
            self.status.cluster_info = [("flink-version".to_owned(), "1.20.1".to_owned())].into();
        }
        self.periodic = Memory::default();
        self.upheaval = Upheaval::default();
    }

    pub(super) fn java_pass(&mut self) {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return self.java_delete();
        }
        if !self.runs_again_unseen() && self.java_observe().is_some() {
            self.java_reconcile();
        }
        let state = lifecycle::<FlinkDeploymentSpec>(&self.status.reconciliation_status);
        self.status.lifecycle_state = Some(state);
    }

    /// Whether a job with a recorded stop or end runs again, which happens without high availability. Only the recorded
    /// start time shows that, and the Java operator would replace it by that of the new run.
    fn runs_again_unseen(&self) -> bool {
        let recorded = self.status.job_status.start_time.as_deref();
        let is_another = self.job.as_ref().is_some_and(|job| {
            recorded.is_some_and(|at| at != job.started.as_millisecond().to_string())
        });
        let is_about_to = self.job.is_none() && self.job_manager.is_some();
        let may_be_another = is_another || is_about_to;
        !self.is_high_availability_on && self.is_end_on_record() && may_be_another
    }

    /// Returns `None` if the pass ends with it.
    fn java_observe(&mut self) -> Option<()> {
        let (is_up, answers, now) = (self.is_up(), self.answers(), self.now);
        let job_manager = self.job_manager.clone();
        let DeploymentStatus {
            job_status: job,
            reconciliation_status: record,
            job_manager_deployment_status: status,
            observed_generation,
            error: told,
            ..
        } = &mut self.status;
        let Some(last) = last::<FlinkDeploymentSpec>(record) else {
            return Some(());
        };
        if record.state == ReconciliationState::RollingBack {
            return Some(());
        }
        let is_cancelling = job.state == Some(JobStatusState::Cancelling);
        if record.state == ReconciliationState::Upgrading && !is_cancelling {
            let generation = observed_generation.unwrap_or(-1);
            let is_made = job_manager
                .as_ref()
                .is_some_and(|jm| !jm.is_deleting && jm.generation == Some(generation));
            if is_made && *status == JobManagerDeploymentStatus::Missing {
                change_last::<FlinkDeploymentSpec>(record, |job| {
                    job.state = JobState::Running;
                });
                job.state = Some(JobStatusState::Reconciling);
                record.state = ReconciliationState::Deployed;
                *status = JobManagerDeploymentStatus::Deploying;
            } else if last.is_first_deployment() {
                record.last_reconciled_spec = None;
                return Some(());
            } else {
                return Some(());
            }
        } else if last.job_state() == JobState::Suspended {
            return Some(());
        }
        let has_ended = job.state.is_some_and(JobStatusState::is_globally_terminal);
        if job_manager.is_none() || !answers {
            if !has_ended && !is_cancelling {
                job.state = Some(JobStatusState::Reconciling);
            }
            *status = match (job_manager, self.is_image_broken) {
                (None, _) => JobManagerDeploymentStatus::Missing,
                (Some(_), true) => JobManagerDeploymentStatus::Error,
                (Some(_), false) => JobManagerDeploymentStatus::Deploying,
            };
            *told = Some(error("Missing JobManager deployment"));
            return Some(());
        }
        if !is_up {
            return Some(());
        }
        *status = JobManagerDeploymentStatus::Ready;
        let found = self.job.as_ref().filter(|found| job.job_id.as_ref() == Some(&found.id));
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
        job.start_time = Some(found.started.as_millisecond().to_string());
        observe_job::<FlinkDeploymentSpec>(job, record, found.state, found.newest(), now);
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
        let (generation, now) = (self.resource.metadata.generation, self.now);
        if wanted.parallelism == Some(-1) {
            self.status.error = Some(error("Job parallelism must be larger than 0"));
            return;
        }
        let record = &mut self.status.reconciliation_status;
        let Some(last) = last::<FlinkDeploymentSpec>(record) else {
            if wanted.state == JobState::Running {
                let path = wanted.initial_savepoint_path.clone();
                let mode =
                    if path.is_some() { UpgradeMode::Savepoint } else { UpgradeMode::Stateless };
                self.status.job_status.upgrade_savepoint_path = path;
                self.java_store(JobState::Suspended, mode, false);
                self.java_resume(mode);
            }
            return;
        };
        let class = diff(&last.spec, &spec).class();
        let is_upgrading = record.state == ReconciliationState::Upgrading;
        let is_changed = class != ChangeClass::Ignore || is_upgrading;
        if record.state == ReconciliationState::RollingBack {
            return self.java_roll_back(&last, is_changed);
        }
        if !is_changed {
            self.status.observed_generation = generation;
            if self.java_gives_up(&last) {
                return self.java_start_rollback();
            }
            self.java_recover(&last);
            return;
        }
        let runs = deployed(record, &last).into_owned();
        if !is_upgrading && diff(&runs.spec, &spec).class() == ChangeClass::Ignore {
            store(record, &spec, wanted.state, runs.spec.job.unwrap().upgrade_mode, true, now);
            self.status.observed_generation = generation;
            return;
        }
        if class == ChangeClass::SavepointRedeploy {
            self.java_redeploy(&wanted);
        } else if last.job_state() == JobState::Running {
            self.java_stop(&wanted);
        } else if wanted.state == JobState::Running {
            let mode = last.spec.job.unwrap().upgrade_mode;
            self.java_store(JobState::Suspended, mode, false);
            self.java_resume(mode);
        }
    }

    /// Whether the spec has not become stable in time.
    fn java_gives_up(&self, last: &ReconciledSpec) -> bool {
        let mut config = self.operator.base.clone();
        config.overlay(&FlinkConfig::flatten(&self.resource.spec.flink_configuration));
        let record = &self.status.reconciliation_status;
        let stable = record.last_stable_spec.as_deref();
        let stable = stable.map(|text| ReconciledSpec::parse(text).unwrap());
        let timeout = config.get(&DEPLOYMENT_READINESS_TIMEOUT).unwrap();
        let waited = self.now.as_millisecond() - record.reconciliation_timestamp;
        config.get(&DEPLOYMENT_ROLLBACK_ENABLED).unwrap()
            && record.state == ReconciliationState::Deployed
            && record.last_stable_spec != record.last_reconciled_spec
            && stable.is_some_and(|stable| stable.job_state() == JobState::Running)
            && waited > i64::try_from(timeout.as_millis()).unwrap()
            && last.job_state() == JobState::Running
            && self.java_has_high_availability()
            && self.java_has_checkpoint()
    }

    fn java_start_rollback(&mut self) {
        self.java_removes(true);
        self.status.job_status.state = Some(JobStatusState::Finished);
        self.java_rolls_back(ReconciliationState::RollingBack, UpgradeMode::LastState);
    }

    /// Keeps the failed spec recorded, with how the stable one is started.
    fn java_rolls_back(&mut self, state: ReconciliationState, mode: UpgradeMode) {
        let now = self.now.as_millisecond();
        let record = &mut self.status.reconciliation_status;
        (record.state, record.reconciliation_timestamp) = (state, now);
        let mut last = last::<FlinkDeploymentSpec>(record).unwrap();
        last.spec.job.as_mut().unwrap().upgrade_mode = mode;
        record.last_reconciled_spec = Some(last.to_text());
        self.status.error = None;
    }

    /// Starts the stable spec, or the one that its user requests instead. It never checks whether the job was stopped:
    /// it fails in each pass while there is one.
    fn java_roll_back(&mut self, last: &ReconciledSpec, is_changed: bool) {
        let job = &self.status.job_status;
        let has_ended = job.state.is_some_and(JobStatusState::is_globally_terminal);
        let status = self.status.job_manager_deployment_status;
        if status != JobManagerDeploymentStatus::Missing && !has_ended {
            self.status.error = Some(error("IllegalArgumentException"));
            return;
        }
        let mode = last.spec.job.as_ref().unwrap().upgrade_mode;
        if is_changed {
            self.status.reconciliation_status.state = ReconciliationState::Upgrading;
            if self.resource.spec.job.as_ref().unwrap().state == JobState::Running {
                self.java_resume(mode);
            }
            return;
        }
        let stable = self.status.reconciliation_status.last_stable_spec.clone();
        let stable = ReconciledSpec::parse(&stable.unwrap()).unwrap().spec;
        if self.java_starts(&stable, mode) {
            self.java_rolls_back(ReconciliationState::RolledBack, mode);
        }
    }

    /// Deletes without waiting for anything that could save the job.
    fn java_delete(&mut self) {
        // An operator that does not know of the deletion yet misses the metadata.
        self.doubt.last();
        if !self.java_removes(false) {
            self.ha.clear();
            self.resource.metadata.finalizers = None;
        }
    }

    fn java_store(&mut self, state: JobState, mode: UpgradeMode, is_done: bool) {
        let (spec, now) = (&self.resource.spec, self.now);
        store(&mut self.status.reconciliation_status, spec, state, mode, is_done, now);
        self.status.observed_generation = self.resource.metadata.generation;
        self.status.error = None;
    }

    /// Drops the state and starts the job from the path that the user named.
    fn java_redeploy(&mut self, wanted: &JobSpec) {
        if self.java_removes(false) {
            return;
        }
        self.status.job_status.upgrade_savepoint_path.clone_from(&wanted.initial_savepoint_path);
        self.status.job_status.state = Some(JobStatusState::Finished);
        if wanted.state == JobState::Running {
            self.java_resume(UpgradeMode::Savepoint);
        } else {
            self.java_store(JobState::Suspended, UpgradeMode::Savepoint, true);
        }
        let record = &mut self.status.reconciliation_status;
        record.last_stable_spec.clone_from(&record.last_reconciled_spec);
    }

    /// Removes the JobManager; returns whether it still has to wait.
    fn java_removes(&mut self, keeps_metadata: bool) -> bool {
        if self.job_manager.is_some() {
            // It scales to zero first.
            self.lose_job_manager();
            if !keeps_metadata {
                self.ha.clear();
            }
        }
        if let Some(workers) = &mut self.workers {
            workers.fact.is_deleting = true;
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.pods_linger > 0 || self.workers.is_some()
    }

    fn java_has_high_availability(&self) -> bool {
        let kind = self.resource.spec.flink_configuration.0.get("high-availability.type");
        self.is_high_availability_on && kind.is_some_and(|kind| kind == "kubernetes")
    }

    /// Whether there is HA metadata of the job with a checkpoint.
    fn java_has_checkpoint(&self) -> bool {
        let id = self.status.job_status.job_id.as_ref();
        id.and_then(|id| self.ha.get(id)).is_some_and(Option::is_some)
    }

    fn java_stop(&mut self, wanted: &JobSpec) {
        let state = self.status.job_status.state;
        let is_ready =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        let runs = is_ready && self.answers() && state == Some(JobStatusState::Running);
        let may_use_metadata = self.java_has_high_availability() && self.java_has_checkpoint();
        if state == Some(JobStatusState::Cancelling) {
            return;
        }
        if state.is_some_and(JobStatusState::is_globally_terminal)
            && (state == Some(JobStatusState::Canceled) || self.ha.is_empty() || is_ready)
        {
            match path(&self.status.job_status).as_deref() {
                None => {}
                Some(LAST_STATE_PATH) => {
                    self.status.error = Some(error(
                        "Job is in terminal state but last checkpoint is unknown, possibly due to \
                         an unrecoverable restore error. Manual restore required.",
                    ));
                }
                Some(_) => self.java_go_on(wanted, UpgradeMode::Savepoint),
            }
        } else if runs && wanted.upgrade_mode == UpgradeMode::Savepoint {
            let trigger_id = self.id();
            self.finish_stop(&trigger_id);
            let has_ended =
                self.job.as_ref().is_some_and(|job| job.state == JobStatusState::Finished);
            if let (true, Some(path)) = (has_ended, self.triggers.get(&trigger_id)) {
                let job = &mut self.status.job_status;
                job.upgrade_savepoint_path = Some(path.clone());
                job.state = Some(JobStatusState::Finished);
                self.java_suspend(wanted, UpgradeMode::Savepoint);
            } else {
                self.status.error = Some(error("Savepoint failed"));
            }
        } else if may_use_metadata {
            // It waits for the pods to end before the next start.
            self.java_removes(true);
            self.status.job_status.state = Some(JobStatusState::Finished);
            self.java_suspend(wanted, UpgradeMode::LastState);
        } else if runs && self.ha.is_empty() {
            let id = self.status.job_status.job_id.clone().unwrap();
            self.flink_cancel(&id);
            self.status.job_status.state = Some(JobStatusState::Cancelling);
            let record = &mut self.status.reconciliation_status;
            record.state = ReconciliationState::Upgrading;
            change_last::<FlinkDeploymentSpec>(record, |job| {
                job.upgrade_mode = UpgradeMode::Savepoint;
            });
        }
    }

    /// The stopped job starts again in the next pass, or stays stopped.
    fn java_suspend(&mut self, wanted: &JobSpec, mode: UpgradeMode) {
        self.java_store(JobState::Suspended, mode, wanted.state == JobState::Suspended);
    }

    /// A job that had ended starts again in the same pass.
    fn java_go_on(&mut self, wanted: &JobSpec, mode: UpgradeMode) {
        self.java_suspend(wanted, mode);
        if wanted.state == JobState::Running {
            self.java_resume(mode);
        }
    }

    fn java_resume(&mut self, mode: UpgradeMode) {
        if self.java_starts(&self.resource.spec.clone(), mode) {
            self.java_store(JobState::Running, mode, true);
        }
    }

    /// Starts the spec. Returns `false` if it waits or a person is asked.
    fn java_starts(&mut self, spec: &FlinkDeploymentSpec, mode: UpgradeMode) -> bool {
        let requires_metadata = mode == UpgradeMode::LastState;
        let path = match mode {
            UpgradeMode::Stateless | UpgradeMode::Savepoint => path(&self.status.job_status),
            UpgradeMode::LastState if !self.java_has_checkpoint() => {
                self.status.error = Some(error(
                    "HA metadata is not available to restore from last state. It is possible that \
                     the job has finished or terminally failed, or the configmaps have been deleted.",
                ));
                return false;
            }
            UpgradeMode::LastState => Some(LAST_STATE_PATH.to_owned()),
        };
        let drops_state = path.is_some() == (mode == UpgradeMode::Stateless);
        if drops_state || self.java_removes(requires_metadata) {
            return false;
        }
        let job = &mut self.status.job_status;
        if requires_metadata {
            job.upgrade_savepoint_path.clone_from(&path);
        }
        let fresh = if job.job_id.is_none() || !requires_metadata { Some(self.id()) } else { None };
        let job = &mut self.status.job_status;
        job.job_id = fresh.or(job.job_id.take());
        self.java_launch(spec, path, self.resource.metadata.generation);
        true
    }

    fn java_launch(
        &mut self,
        spec: &FlinkDeploymentSpec,
        path: Option<String>,
        generation: Option<i64>,
    ) {
        let option = |key: &str| spec.flink_configuration.0.get(key).and_then(|it| it.as_str());
        let launch = Launch {
            generation,
            image: spec.image.clone().unwrap_or_default(),
            parallelism: spec.job.as_ref().and_then(|job| job.parallelism),
            overrides: parallelism(option(OVERRIDES)),
            job_id: self.status.job_status.job_id.clone().unwrap(),
            path,
            is_high_availability_on: option("high-availability.type") == Some("kubernetes"),
        };
        self.launch(&launch, false);
        // A recovery finds and keeps them.
        if spec.mode == Some(DeploymentMode::Standalone) && self.workers.is_none() {
            let uid = self.id();
            self.workers = Some(Workers::new(uid, spec.image.clone().unwrap_or_default()));
        }
        self.status.cluster_info.remove("ClusterHealthInfo");
        self.status.job_status.state = Some(JobStatusState::Reconciling);
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Deploying;
    }

    /// Recreates a lost JobManager, without the generation of its spec.
    fn java_recover(&mut self, last: &ReconciledSpec) {
        let state = self.status.job_status.state;
        let is_lost = self.status.job_manager_deployment_status
            == JobManagerDeploymentStatus::Missing
            && last.job_state() == JobState::Running
            && !state.is_some_and(JobStatusState::is_globally_terminal);
        let may_recover = self.java_has_high_availability() && self.java_has_checkpoint();
        if is_lost && may_recover && self.pods_linger == 0 && self.job_manager.is_none() {
            self.status.job_status.upgrade_savepoint_path = Some(LAST_STATE_PATH.to_owned());
            let spec = deployed(&self.status.reconciliation_status, last).into_owned().spec;
            self.java_launch(&spec, Some(LAST_STATE_PATH.to_owned()), None);
        }
    }
}

/// Counts the log lines for each of these actions of the Java operator.
pub(crate) fn count_deeds<const N: usize>(done: &mut [usize; N], log: &[String], deeds: [&str; N]) {
    for (count, deed) in done.iter_mut().zip(deeds) {
        *count += log.iter().filter(|line| line.contains("Java: ") && line.contains(deed)).count();
    }
}

/// One operator begins a deletion and the other one completes it.
#[test]
fn a_spell_of_the_java_operator_does_not_keep_a_deleted_resource() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new(if seed % 3 == 0 { "savepoint" } else { "last-state" });
        if seed % 2 == 0 {
            sim = sim.standalone();
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..choices.below(20) {
                sim.tick();
                if choices.below(6) == 0 {
                    sim.misfortune(&mut choices);
                }
                sim.pass(None);
            }
            sim.resource.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(sim.now));
            for _ in 0..60 {
                sim.tick();
                if choices.below(3) == 0 {
                    sim.java_pass();
                } else {
                    let crash_at = choices.crash(4, 4);
                    sim.pass(crash_at);
                }
            }
            assert!(sim.job_manager.is_none() && sim.workers.is_none());
            assert!(sim.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
        });
    }
}

/// Actions that must occur in some run.
const DEEDS: [&str; 6] = [
    "Upgrading last-state",
    "Upgrading savepoint",
    "CANCELLING",
    "Deploying",
    "RollingBack",
    "RolledBack",
];

#[test]
fn spells_of_the_java_operator_lose_no_record() {
    let mut done = [0; DEEDS.len()];
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim =
            if seed % 3 == 0 { Sim::without_high_availability(mode) } else { Sim::new(mode) };
        sim.has_snapshot_resources = seed % 4 < 2;
        sim.is_slow = seed % 7 < 3;
        if seed % 5 < 2 {
            sim = sim.standalone();
        }
        if seed % 3 > 0 {
            sim = sim.with_rollback();
            sim.set("kubernetes.operator.deployment.readiness.timeout", "9 s");
        }
        if seed % 11 < 7 {
            sim = sim.without_trial();
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
