//! Observation of a deployment that was reconciled before: updates its status.
//!
//! A missing answer changes nothing but `RUNNING` to `RECONCILING`: silence does not mean that a job is gone.

use jiff::{SignedDuration, Timestamp};

use crate::error_document::{ErrorType, JOB_NOT_FOUND};
use crate::event::{Component, Event};
use crate::job::{self, WithoutCheckpoint};
use crate::notes::{REMOVED_UNSTARTED, STARTED_WITH, UNFINISHED_DEPLOYMENT};
use crate::pass::DeploymentPass;
use crate::pauses::SOON;
use crate::phase::Phase;
use crate::plan::Step;
use crate::problem::{Halt, Problem, foreign_deployment};
use crate::transitions::stop::OTHER_STATE;
use crate::world::{Job, JobManager, Pod, PodProblem, Stop, UNSCHEDULABLE};
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};

/// How long a JobManager may not list its job before the job is reported as lost. The list is empty while `main()`
/// runs, and while a new leader recovers its jobs.
const JOB_ABSENT_MAX: SignedDuration = SignedDuration::from_secs(120);

/// Reasons that a registry or a slow volume can cause for a moment; they are reported after a while.
const PASSING_PROBLEMS: [(&str, SignedDuration); 6] = [
    ("ErrImagePull", SignedDuration::from_secs(30)),
    ("ImagePullBackOff", SignedDuration::from_secs(30)),
    ("CreateContainerConfigError", SignedDuration::from_secs(30)),
    ("FailedMount", SignedDuration::from_secs(120)),
    ("FailedCreate", SignedDuration::from_secs(30)),
    (UNSCHEDULABLE, SignedDuration::from_secs(30)),
];

/// How long the last checkpoint of an ended job may be unreadable before that is reported.
const END_UNREAD_MAX: SignedDuration = SignedDuration::from_mins(1);

/// Name that Flink gives a job of which it knows only how it ended.
const NAME_OF_RESULT: &str = "unknown";

/// How long tasks may not all be running before missing TaskManagers are suspected.
const TASKS_MISSING_MAX: SignedDuration = SignedDuration::from_secs(20);

impl DeploymentPass<'_> {
    /// Updates the status from what is observed.
    pub(crate) fn observe(&mut self) -> Result<(), Halt> {
        let Some(last) = self.last.clone() else { return Ok(()) };
        let state = self.status.reconciliation_status.state;
        let is_cancelling = self.status.job_status.state == Some(JobStatusState::Cancelling);
        match state {
            ReconciliationState::Upgrading if !is_cancelling => {
                if !self.adopt_finished_upgrade(&last)? {
                    if last.is_first_deployment() && !self.may_have_started(&last.spec)? {
                        // Nothing was created: the first deployment starts over.
                        self.enter(Phase::New);
                    }
                    return Ok(());
                }
            }
            ReconciliationState::RollingBack => return Ok(()),
            ReconciliationState::Upgrading
            | ReconciliationState::Deployed
            | ReconciliationState::RolledBack => {}
        }
        let last = self.last.clone().unwrap_or(last);
        self.observe_job_manager(&last)?;
        let is_ready =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        if is_ready && last.job_state() == JobState::Running && !self.is_session() {
            self.observe_job()?;
        }
        self.observe_triggers()
    }

    /// Adopts an upgrade whose Deployment was created, but whose success was not written. While the start is on record
    /// without a JobManager, an existing JobManager is the previous one.
    pub(crate) fn adopt_finished_upgrade(&mut self, last: &ReconciledSpec) -> Result<bool, Halt> {
        let job_manager = self.read_job_manager()?;
        let observed_generation = self.status.observed_generation.unwrap_or(-1);
        let is_start =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let is_ours = job_manager.is_some_and(|job_manager| {
            is_start
                && !job_manager.is_deleting
                && !self.is_replaced(job_manager)
                && job_manager.generation == Some(observed_generation)
                && job_manager.owner_uid.as_deref() == Some(self.world.uid())
        });
        let is_lost = job_manager.is_none() && self.was_lost_after_its_start(&last.spec)?;
        if !is_ours && !is_lost {
            return Ok(false);
        }
        self.forget_former_cluster();
        self.store_last(job::running(last));
        self.enter(Phase::Running);
        if !self.is_session() {
            self.status.job_status.state = Some(JobStatusState::Reconciling);
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Deploying;
        self.status.task_manager = self.task_manager_info();
        self.own.is_unfinished = is_ours;
        Ok(true)
    }

    /// Returns the Deployment, or a halt if it could not be read.
    pub(crate) fn read_job_manager(&self) -> Result<Option<&JobManager>, Halt> {
        match self.world.job_manager()? {
            Ok(job_manager) => Ok(job_manager.as_ref()),
            Err(reason) => {
                Err(Halt::cannot(format!("the JobManager Deployment cannot be read: {reason}")))
            }
        }
    }

    fn observe_job_manager(&mut self, last: &ReconciledSpec) -> Result<(), Halt> {
        let before = self.status.job_manager_deployment_status;
        let is_suspended = last.job_state() == JobState::Suspended;
        let Some(job_manager) = self.read_job_manager()?.cloned() else {
            self.observe_missing_job_manager(before, is_suspended);
            return Ok(());
        };
        if job_manager.owner_uid.as_deref() != Some(self.world.uid()) {
            return Err(Halt::problem(foreign_deployment(self.world.name())));
        }
        if is_suspended {
            // It only shows how the job ended.
            self.status.job_manager_deployment_status = if job_manager.is_deleting {
                JobManagerDeploymentStatus::Missing
            } else {
                JobManagerDeploymentStatus::Ready
            };
            return Ok(());
        }
        if job_manager.is_deleting {
            self.lose_sight(JobManagerDeploymentStatus::Deploying);
            return Ok(());
        }
        REMOVED_UNSTARTED.clear(&mut self.status.cluster_info);
        if before == JobManagerDeploymentStatus::Missing {
            // A recovery created it, and did not finish.
            self.own.is_unfinished = true;
            if self.paused.is_some() {
                // Only this pass finds that out.
                UNFINISHED_DEPLOYMENT.set(&mut self.status.cluster_info, &job_manager.uid);
            }
            STARTED_WITH.clear(&mut self.status.cluster_info);
        }
        // Another object was refused.
        let refused_beside = UNFINISHED_DEPLOYMENT.get(&self.status.cluster_info);
        self.own.is_unfinished |= refused_beside.as_ref() == Some(&job_manager.uid);
        if job_manager.available_replicas > 0 {
            if job_manager.available_replicas < job_manager.replicas {
                // A standby JobManager is missing, which does not affect the job.
                self.own.pod_problem = self.lasting_problem(self.job_manager_pods()?);
            }
            return self.observe_answer();
        }
        let problem = self.start_problem(&job_manager)?;
        self.own.pod_problem.clone_from(&problem);
        match problem.filter(|problem| problem.reason != UNSCHEDULABLE) {
            Some(PodProblem { reason, message }) => {
                self.lose_sight(JobManagerDeploymentStatus::Error);
                let kind = ErrorType::DeploymentFailed;
                let component = Component::JobManagerDeployment;
                let detail = Some(reason);
                self.problem =
                    Some(Problem { detail, ..Problem::new(kind, "Error", component, message) });
            }
            None => self.lose_sight(JobManagerDeploymentStatus::Deploying),
        }
        Ok(())
    }

    /// Checks whether the REST API of a JobManager whose pod is up answers.
    fn observe_answer(&mut self) -> Result<(), Halt> {
        let silence =
            if self.is_session() { self.world.cluster()?.err() } else { self.world.jobs()?.err() };
        if let Some(reason) = silence.map(str::to_owned) {
            self.lose_sight(JobManagerDeploymentStatus::DeployedNotReady);
            self.unreachable = Some(reason);
            return Ok(());
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Ready;
        if self.is_session() {
            if self.status.reconciliation_status.state == ReconciliationState::Deployed {
                self.mark_stable();
            }
            self.refresh_cluster_info()?;
        }
        Ok(())
    }

    fn observe_missing_job_manager(
        &mut self,
        before: JobManagerDeploymentStatus,
        is_suspended: bool,
    ) {
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        if is_suspended {
            return;
        }
        if self.status.job_status.state == Some(JobStatusState::Cancelling) {
            // It will never report how the job ended: the upgrade is decided again.
            self.trust_metadata_only();
            self.decide_again();
        }
        self.lose_sight(JobManagerDeploymentStatus::Missing);
        let is_news = !matches!(
            before,
            JobManagerDeploymentStatus::Missing | JobManagerDeploymentStatus::Error
        );
        if is_news && self.removed_unstarted().is_none() {
            self.steps.push(Step::Event(Event::warning(
                "Missing",
                Component::JobManagerDeployment,
                "Missing JobManager deployment",
            )));
        }
    }

    /// Records that the JobManager is in `state` and does not answer, so that the job's state is unknown.
    fn lose_sight(&mut self, state: JobManagerDeploymentStatus) {
        self.status.job_manager_deployment_status = state;
        let may_have_changed = match self.status.job_status.state {
            Some(JobStatusState::Running) | None => true,
            // Its JobManager is gone or new: only an observed end still holds.
            Some(other) => {
                state != JobManagerDeploymentStatus::DeployedNotReady
                    && !other.is_globally_terminal()
                    && other != JobStatusState::Cancelling
            }
        };
        if may_have_changed {
            self.set_job_unknown();
        }
    }

    /// Returns the problem that keeps the JobManager from starting, unless it may be transient.
    fn start_problem(&self, job_manager: &JobManager) -> Result<Option<PodProblem>, Halt> {
        if let Some(message) = &job_manager.replica_failure
            && has_lasted(self.world.now, job_manager.created, "FailedCreate")
        {
            return Ok(Some(PodProblem {
                reason: "FailedCreate".to_owned(),
                message: message.clone(),
            }));
        }
        let age = job_manager.created.map(|created| self.world.now.duration_since(created));
        if age.is_some_and(|age| age < NOTHING_TO_SEE_YET) {
            return Ok(None);
        }
        Ok(self.lasting_problem(self.job_manager_pods()?))
    }

    fn job_manager_pods(&self) -> Result<&[Pod], Halt> {
        Ok(self.world.pods()?.map_or(&[], Vec::as_slice))
    }

    fn lasting_problem(&self, pods: &[Pod]) -> Option<PodProblem> {
        pods.iter()
            .filter_map(|pod| pod.problem.as_ref().map(|problem| (pod, problem)))
            .find(|(pod, problem)| has_lasted(self.world.now, pod.created, &problem.reason))
            .map(|(_, problem)| problem.clone())
    }

    /// Records the problem that keeps TaskManagers from running, for a job whose tasks have not all started.
    fn observe_task_managers(&mut self, state: JobStatusState) -> Result<(), Halt> {
        let waits = !state.is_globally_terminal() && state != JobStatusState::Running;
        let waited = self.world.now.duration_since(self.job_state_since());
        if waits && waited > TASKS_MISSING_MAX {
            let pods = self.world.task_manager_pods()?.map_or(&[][..], Vec::as_slice);
            self.own.pod_problem = self.lasting_problem(pods).or(self.own.pod_problem.take());
        }
        Ok(())
    }

    fn observe_job(&mut self) -> Result<(), Halt> {
        let Ok(jobs) = self.world.jobs()? else { return Ok(()) };
        let id = self.status.job_status.job_id.clone();
        let job = jobs.iter().find(|job| Some(&job.id) == id.as_ref()).cloned();
        if self.note_rerun(job.as_ref())? {
            return Ok(());
        }
        if let Some(job) = job {
            return self.observe_listed_job(&job);
        }
        self.observe_absent_job()
    }

    fn observe_listed_job(&mut self, job: &Job) -> Result<(), Halt> {
        let before = self.status.job_status.state;
        if !self.follow_listed_job(job)? {
            return Ok(());
        }
        if !job.state.is_globally_terminal() {
            self.observe_health()?;
        }
        self.observe_task_managers(job.state)?;
        if job.state == JobStatusState::Running
            && (before != Some(JobStatusState::Running)
                || !self.status.cluster_info.contains_key("flink-version"))
        {
            self.refresh_cluster_info()?;
        }
        Ok(())
    }

    /// Records the state that an ended job leaves, while its JobManager still knows it.
    pub(crate) fn record_last_state(&mut self, job: &Job) -> Result<(), Halt> {
        let is_stopping = job::pending_stop(&self.status.job_status).is_some();
        if is_stopping && let Ok(Stop::Completed { path }) = self.world.stop()? {
            self.status.job_status.upgrade_savepoint_path = Some(path.clone());
            return Ok(());
        }
        let checkpoints = self.world.checkpoints()?;
        if let Err(reason) = checkpoints
            && self.has_ended_long_ago(job)
        {
            return Err(self.report_unread_end(job.state, reason));
        }
        let without = match self.last_mode() {
            // It was stopped with a savepoint, and this is another JobManager that never saw it.
            _ if job.state == JobStatusState::Finished && is_stopping => WithoutCheckpoint::Unknown,
            _ if self.is_known_by_its_result_only(job)? => WithoutCheckpoint::Unknown,
            UpgradeMode::Stateless => WithoutCheckpoint::Empty,
            UpgradeMode::Savepoint | UpgradeMode::LastState => WithoutCheckpoint::AsStarted,
        };
        let may_have_run = self.may_have_run(job.started_at(), job.modified_at())?;
        let without = job::unless_blank(without, checkpoints, may_have_run);
        job::note_last_state(&mut self.status.job_status, job.state, checkpoints, without)?;
        if job.state == JobStatusState::Failed && without == WithoutCheckpoint::AsStarted {
            self.adopt_unrestored_checkpoint()?;
        }
        Ok(())
    }

    /// Returns true if the JobManager knows the job only by its result. A JobManager that learned from its HA store
    /// that the job has ended never saw its checkpoints. It lists the job without a name, or as started when it came up
    /// itself, unless the job was seen starting since this Deployment exists.
    fn is_known_by_its_result_only(&self, job: &Job) -> Result<bool, Halt> {
        if self.is_started_with_high_availability()? == Some(false) {
            return Ok(false);
        }
        let created = self.read_job_manager()?.and_then(|job_manager| job_manager.created);
        let seen = job::started(&self.status.job_status).filter(|seen| Some(*seen) >= created);
        let is_another = seen.is_some_and(|seen| seen.as_millisecond() != job.start_time);
        Ok(is_another || job.name == NAME_OF_RESULT)
    }

    /// Returns false for a job that has just ended, whose last checkpoint may be reported in a moment.
    fn has_ended_long_ago(&self, job: &Job) -> bool {
        job.modified_at().is_none_or(|at| self.world.now.duration_since(at) > END_UNREAD_MAX)
    }

    fn report_unread_end(&mut self, state: JobStatusState, reason: &str) -> Halt {
        self.wake_within(SOON);
        Halt::problem(Problem::upgrade(
            "UpgradeFailed",
            format!(
                "the job is {}, but its last checkpoint cannot be read: {reason}. Nothing is started \
                 until it can be. {OTHER_STATE}",
                state.into_str()
            ),
        ))
    }

    fn observe_absent_job(&mut self) -> Result<(), Halt> {
        let before = self.status.job_status.state;
        if before.is_some_and(JobStatusState::is_globally_terminal) {
            // An ended job leaves the list after a while.
            return Ok(());
        }
        let since = if before == Some(JobStatusState::Reconciling) {
            self.job_state_since()
        } else {
            self.expect_in_next_list("the JobManager")?;
            self.world.now
        };
        let was_cancelling = before == Some(JobStatusState::Cancelling);
        if was_cancelling {
            // Its JobManager will never report what it left.
            self.trust_metadata_only();
        }
        let is_lost = was_cancelling || self.world.now.duration_since(since) > JOB_ABSENT_MAX;
        self.set_job_state(JobStatusState::Reconciling);
        if !is_lost {
            return Ok(());
        }
        self.own.is_job_lost = true;
        if self.status.reconciliation_status.state == ReconciliationState::Upgrading {
            // It was being cancelled: the upgrade is decided again. A rolled-back spec stays so, or the spec that
            // failed would be taken for the running one.
            self.enter(Phase::Running);
        }
        self.problem = Some(Problem { reason: "Missing", ..Problem::of_job(JOB_NOT_FOUND) });
        Ok(())
    }

    fn refresh_cluster_info(&mut self) -> Result<(), Halt> {
        if let Ok(cluster) = self.world.cluster()? {
            let totals = self.totals(cluster.task_managers);
            let info = &mut self.status.cluster_info;
            info.insert("flink-version".to_owned(), cluster.flink_version.clone());
            info.insert("flink-revision".to_owned(), cluster.flink_revision.clone());
            info.extend(totals);
        }
        Ok(())
    }
}

fn has_lasted(now: Timestamp, since: Option<Timestamp>, reason: &str) -> bool {
    let grace = PASSING_PROBLEMS
        .iter()
        .find(|(passing, _)| *passing == reason)
        .map_or(SignedDuration::ZERO, |(_, grace)| *grace);
    since.is_none_or(|since| now.duration_since(since) >= grace)
}

/// How long after its creation a Deployment's pods are not checked, since no problem lasts that soon. Listing pods
/// costs the API server as much as a write.
const NOTHING_TO_SEE_YET: SignedDuration = SignedDuration::from_secs(2);
