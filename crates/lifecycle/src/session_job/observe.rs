//! Observation of a session job that was submitted before: updates its status.
//!
//! A session cluster lists its jobs only once it has recovered all of them, so a job that is not listed does not exist.
//! A missing answer means nothing.

use jiff::Timestamp;

use super::plan::Step;
use super::submission::START_PRECISION;
use super::{Pass, identity};
use crate::error_document::{JOB_NOT_FOUND, LostJob, StoredError};
use crate::event::{Component, Event};
use crate::job::{self, LIST_AGE_MAX, WithoutCheckpoint};
use crate::pauses::SOON;
use crate::phase::Phase;
use crate::problem::{Halt, Problem};
use crate::world::{Checkpoints, Job, Stop};
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledJob;
use api::status::{JobStatusState, ReconciliationState};
use config::cluster::is_high_availability_on;
use state::restore_point::RestorePoint;

impl Pass<'_> {
    /// Updates the status from the cluster.
    pub(super) fn observe(&mut self) -> Result<(), Halt> {
        let Some(last) = self.last.clone() else { return Ok(()) };
        let is_cancelling = self.status.job_status.state == Some(JobStatusState::Cancelling);
        match self.status.reconciliation_status.state {
            ReconciliationState::Upgrading | ReconciliationState::RollingBack if !is_cancelling => {
                if !self.adopt_submitted_job(&last)? {
                    if last.is_first_deployment() && self.may_arrive_until().is_none() {
                        // Nothing runs: the first deployment starts over.
                        self.last = None;
                    }
                    return Ok(());
                }
            }
            ReconciliationState::Upgrading
            | ReconciliationState::RollingBack
            | ReconciliationState::Deployed
            | ReconciliationState::RolledBack => {}
        }
        let is_running =
            self.last.as_ref().is_some_and(|last| last.job_state() == JobState::Running);
        if is_running || is_cancelling {
            self.observe_job()?;
        }
        self.observe_triggers()
    }

    /// Adopts a submission that reached the cluster, but whose success was not written.
    ///
    /// The same goes for a submission whose job may have run and was lost: repeated, it would start from the same state
    /// again, and drop what the job did meanwhile.
    fn adopt_submitted_job(&mut self, last: &ReconciledJob) -> Result<bool, Halt> {
        if !self.is_submission_open() {
            return Ok(false);
        }
        if self.listed_job()?.is_none() {
            let Some(why) = self.why_unknown()? else { return Ok(false) };
            self.report_unknown_submission(&why);
        }
        self.store_last(job::running(last));
        let is_back = self.status.reconciliation_status.state == ReconciliationState::RollingBack;
        self.enter(if is_back { Phase::RolledBack } else { Phase::Running });
        Ok(true)
    }

    fn report_unknown_submission(&mut self, why: &str) {
        let id = self.status.job_status.job_id.as_deref().unwrap_or_default();
        let message = format!(
            "it is unknown whether job {id} ran since it was submitted: the session cluster `{}` \
             does not list it, and {why}",
            self.cluster_name()
        );
        let mut event = Event::warning("SubmissionInDoubt", Component::Job, message);
        event.key = Some(format!("SubmissionInDoubt: {id}"));
        self.steps.push(Step::Event(event));
    }

    /// Returns the job as its cluster lists it, or a halt if the list is unavailable.
    pub(super) fn listed_job(&self) -> Result<Option<Job>, Halt> {
        let id = job::id(&self.status.job_status);
        Ok(self.list()?.iter().find(|job| Some(&job.id) == id.as_ref()).cloned())
    }

    pub(super) fn observe_job(&mut self) -> Result<(), Halt> {
        if let Err(reason) = self.world.jobs()? {
            self.lose_sight(reason.to_owned());
            return Ok(());
        }
        if job::id(&self.status.job_status).is_none() {
            self.lose_sight("the status has no job id".to_owned());
            return Ok(());
        }
        if let Some(job) = self.listed_job()? {
            return self.follow_listed_job(&job).map(drop);
        }
        self.observe_absent_job()
    }

    fn lose_sight(&mut self, reason: String) {
        if self.status.job_status.state == Some(JobStatusState::Running) {
            self.set_job_state(JobStatusState::Reconciling);
        }
        self.unreachable = Some(reason);
    }

    /// Reports an end that cannot be recorded: until it is, the status shows a running job.
    pub(super) fn report_unknown_end(&mut self, halt: Halt) -> Halt {
        let Halt::Cannot(message) = halt else { return halt };
        self.wake_within(SOON);
        Halt::problem(Problem::of_job(message))
    }

    /// Returns true if the job was cancelled to be started without its state, or from a state that the user named and
    /// that is in the status already.
    pub(super) fn is_state_dropped(&self) -> bool {
        let is_replaced = matches!(
            self.status.reconciliation_status.state,
            ReconciliationState::Upgrading | ReconciliationState::RollingBack
        );
        let is_successor_stored =
            self.last.as_ref().is_some_and(|last| last.job_state() == JobState::Suspended);
        is_replaced && (is_successor_stored || self.last_mode() == UpgradeMode::Stateless)
    }

    /// Records the state that an ended job leaves, while its JobManager still knows it.
    pub(super) fn note_end(&mut self, job: &Job) -> Result<(), Halt> {
        let state = job.state;
        let was_cancelling = self.status.job_status.state == Some(JobStatusState::Cancelling);
        if was_cancelling && self.is_state_dropped() {
            return Ok(());
        }
        let checkpoints = self.world.checkpoints()?;
        let names_none =
            matches!(checkpoints, Ok(Checkpoints { latest: None, unusable: None, .. }));
        let without = if names_none {
            self.meaning_of_no_checkpoint(state, was_cancelling)?
        } else {
            WithoutCheckpoint::Unknown
        };
        let may_have_run = self.may_have_run(job.started_at(), job.modified_at())?;
        let without = job::unless_blank(without, checkpoints, may_have_run);
        job::note_last_state(&mut self.status.job_status, state, checkpoints, without)
    }

    /// Interprets statistics of an ended job that contain no state. Those of a job that ended while a new JobManager
    /// was about to recover it are empty, whatever state it had.
    fn meaning_of_no_checkpoint(
        &self,
        state: JobStatusState,
        was_cancelling: bool,
    ) -> Result<WithoutCheckpoint, Halt> {
        let has_state = job::savepoint_path(&self.status.job_status).is_some();
        if was_cancelling {
            // The job's state was recorded before it was cancelled.
            return Ok(if has_state {
                WithoutCheckpoint::Unknown
            } else {
                WithoutCheckpoint::Empty
            });
        }
        if state == JobStatusState::Finished && job::pending_stop(&self.status.job_status).is_some()
        {
            // It was stopped with a savepoint, and this is another JobManager that never saw it.
            return Ok(WithoutCheckpoint::Unknown);
        }
        let is_recovered =
            self.cluster_started_with()?.as_ref().map_or(true, is_high_availability_on);
        let is_another = is_recovered && self.has_another_job_manager()?;
        Ok(match self.last_mode() {
            UpgradeMode::Stateless if is_another => WithoutCheckpoint::Unknown,
            UpgradeMode::Stateless => WithoutCheckpoint::Empty,
            // A job that ran names at least the state it started from.
            UpgradeMode::Savepoint | UpgradeMode::LastState if self.is_stable() || is_another => {
                WithoutCheckpoint::Unknown
            }
            UpgradeMode::Savepoint | UpgradeMode::LastState => WithoutCheckpoint::AsStarted,
        })
    }

    /// Returns true if the JobManager may have been started after the job was submitted: with high availability, the
    /// job may have run under the previous one for any length of time. Only the job's id shows when that was: the
    /// record may be of a change that did not restart it, such as of its parallelism.
    fn has_another_job_manager(&self) -> Result<bool, Halt> {
        let Some(submitted) = self.id_made_at() else { return Ok(true) };
        Ok(self.job_manager_start()? > submitted)
    }

    /// Returns a time before which no job was submitted to the JobManager; a problem if it is unavailable.
    fn job_manager_start(&self) -> Result<Timestamp, Halt> {
        let start = self.world.job_manager_start()?;
        start.map(|start| *start + START_PRECISION).map_err(|reason| {
            let message = format!(
                "could not determine what became of job {}: cannot read when the JobManager of \
                 the session cluster `{}` was started: {reason}",
                self.status.job_status.job_id.as_deref().unwrap_or_default(),
                self.cluster_name()
            );
            Halt::problem(Problem::of_job(message))
        })
    }

    /// Returns when the session cluster was created, or last changed.
    fn cluster_since(&self) -> Option<Timestamp> {
        let cluster = self.world.session_cluster?;
        let made = cluster.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let changed = cluster.status.as_ref()?.reconciliation_status.reconciliation_timestamp;
        let changed = Timestamp::from_millisecond(changed).unwrap_or(Timestamp::MAX);
        Some(made.map_or(changed, |made| made.max(changed)))
    }

    /// Returns when the job was submitted, or a little before.
    fn id_made_at(&self) -> Option<Timestamp> {
        let id = self.status.job_status.job_id.as_deref()?;
        identity::made_at(self.world.uid(), id, self.recorded_at())
    }

    /// Returns when the job was submitted, or changed while it ran.
    fn recorded_at(&self) -> Timestamp {
        let deployed = self.status.reconciliation_status.reconciliation_timestamp;
        Timestamp::from_millisecond(deployed).unwrap_or_default()
    }

    /// Records that the job ended on request: the stored spec no longer runs.
    pub(super) fn note_stopped(&mut self) {
        let Some(last) = self.last.clone() else { return };
        if last.job_state() == JobState::Suspended {
            // Its successor is stored already.
            return;
        }
        if self.is_state_dropped() {
            self.status.job_status.upgrade_savepoint_path = None;
        }
        let path = self.status.job_status.upgrade_savepoint_path.clone();
        let is_upgrading =
            self.status.reconciliation_status.state == ReconciliationState::Upgrading;
        if is_upgrading {
            let restore_point = path.clone().map_or(RestorePoint::Empty, RestorePoint::Path);
            self.supersede(&last, restore_point);
        }
        self.store_last(job::stopped(&last, path.is_some()));
    }

    /// Updates the status when the cluster answers, and has no such job.
    fn observe_absent_job(&mut self) -> Result<(), Halt> {
        let before = self.status.job_status.state;
        if before.is_some_and(JobStatusState::is_globally_terminal) {
            // An ended job leaves the list after a while.
            return Ok(());
        }
        if self.is_just_submitted() {
            return Ok(());
        }
        if self.is_stop_known()? {
            self.lose_sight("it does not list the job, which is being stopped".to_owned());
            return Ok(());
        }
        self.refuse_second_to_listed()?;
        if before == Some(JobStatusState::Cancelling) && self.is_state_dropped() {
            self.set_job_state(JobStatusState::Canceled);
            self.note_stopped();
            return Ok(());
        }
        if !self.is_loss_reported() {
            let cluster = self.cluster_name();
            self.expect_in_next_list(&format!("the session cluster `{cluster}`"))?;
        }
        self.lose_job()
    }

    /// Returns true if the JobManager knows how the stop of the job goes. Its list may be without a job that ends just
    /// then: the job does not answer any more, and is not among those that have ended yet.
    fn is_stop_known(&self) -> Result<bool, Halt> {
        let is_pending = job::pending_stop(&self.status.job_status).is_some();
        Ok(is_pending && matches!(self.world.stop()?, Ok(Stop::Pending | Stop::Completed { .. })))
    }

    /// Returns true if a list without the job may be a little older than its submission.
    pub(super) fn is_just_submitted(&self) -> bool {
        self.status.job_status.state == Some(JobStatusState::Reconciling)
            && !self.is_loss_reported()
            && self.world.now.duration_since(self.state_since()) < LIST_AGE_MAX
    }

    /// Returns when the job entered its state or was deployed, whichever is later.
    pub(super) fn state_since(&self) -> Timestamp {
        let Self { status, world, .. } = self;
        job::state_since(&status.job_status, &status.reconciliation_status, world.now)
    }

    /// Returns true if the status says that the job is lost.
    fn is_loss_reported(&self) -> bool {
        let stored = StoredError::read(self.status.error.as_deref());
        stored.lost().is_some() || stored.went_back().is_some()
    }

    fn lose_job(&mut self) -> Result<(), Halt> {
        let loss = self.loss()?;
        self.give_up_savepoint("the session cluster no longer has the job");
        job::forget_stop(&mut self.status.job_status);
        self.set_job_state(JobStatusState::Reconciling);
        let was_rolled_back =
            self.status.reconciliation_status.state == ReconciliationState::RolledBack;
        if !was_rolled_back {
            // It was being stopped, or ran: this is decided again. A rolled-back spec stays so, or the spec that failed
            // would be taken for the running one.
            self.enter(Phase::Running);
        }
        if !self.is_loss_reported() {
            let mut event = Event::warning("Missing", Component::Job, self.lost_message(loss));
            event.key = Some(format!(
                "{JOB_NOT_FOUND}: {}",
                self.status.job_status.job_id.as_deref().unwrap_or_default()
            ));
            self.steps.push(Step::Event(event));
        }
        self.own.loss = loss;
        if loss.is_none() {
            self.status.job_status.upgrade_savepoint_path = None;
            if let Some(last) = &self.last {
                self.store_last(job::stopped(last, false));
            }
            if was_rolled_back {
                // The spec that ran starts again, not the one that failed; the job's id is used up.
                self.enter(Phase::RollingBack);
                self.status.job_status.job_id = None;
            }
        }
        Ok(())
    }

    /// Returns the kind of loss of a job that the cluster no longer has; `None` if it keeps no state and is submitted
    /// again.
    fn loss(&self) -> Result<Option<LostJob>, Halt> {
        // A finding stays valid, whatever becomes of the JobManager that reported it, and while an edit is not
        // validated yet.
        let is_judged = self.status.observed_generation == Some(self.world.generation());
        let is_stateless = self.job().upgrade_mode == UpgradeMode::Stateless;
        let ended_unseen = Some(LostJob::EndedUnseen);
        if self.stored_loss() == ended_unseen && (is_stateless || !is_judged) {
            return Ok(ended_unseen);
        }
        if !self.is_stateless_for_certain() {
            return Ok(Some(LostJob::OfState));
        }
        let has_ended = self.has_ended_unseen()?;
        Ok(ended_unseen.filter(|_| has_ended))
    }

    /// Returns true if a job that is not listed has ended. A JobManager lists each of its jobs until it ends, and a
    /// while longer. With high availability, so does the next JobManager, unless the cluster itself was changed: it may
    /// have had none then.
    fn has_ended_unseen(&self) -> Result<bool, Halt> {
        // The latest time at which it was submitted: a retry has the id of the previous attempt.
        let submitted = self.recorded_at();
        let is_same_cluster = self.cluster_since().is_some_and(|since| since <= submitted);
        if is_same_cluster && self.keeps_its_jobs()? {
            return Ok(true);
        }
        // If this job was not observed, the start time on record is that of the previous one.
        let started = job::started(&self.status.job_status).unwrap_or_default();
        Ok(self.job_manager_start()? <= started.max(submitted))
    }

    /// Returns true if an unfinished job outlives its JobManager; a problem if that is unavailable.
    fn keeps_its_jobs(&self) -> Result<bool, Halt> {
        let config = self.cluster_started_with()?;
        config.as_ref().map(is_high_availability_on).map_err(|reason| {
            let message = format!(
                "could not determine what became of job {}: cannot read whether the session \
                 cluster `{}` was started with high availability: {reason}",
                self.status.job_status.job_id.as_deref().unwrap_or_default(),
                self.cluster_name()
            );
            Halt::problem(Problem::of_job(message))
        })
    }

    fn lost_message(&self, loss: Option<LostJob>) -> String {
        let id = self.status.job_status.job_id.as_deref().unwrap_or_default();
        let what = format!(
            "{JOB_NOT_FOUND}: the session cluster `{}` no longer has job {id}",
            self.cluster_name()
        );
        match loss {
            None => format!("{what}; it is submitted again"),
            Some(LostJob::EndedUnseen) => format!(
                "{what}, which ended unobserved. It is not run again automatically: set \
                 `spec.restartNonce` to a new number to run it again"
            ),
            Some(LostJob::OfState) => {
                let known = self.savepoint_path().map_or_else(String::new, |path| {
                    format!(". The newest that is known is `{path}`; a newer one may be beside it")
                });
                format!(
                    "{what}, and its newest state is not on record, so nothing is started. Find \
                     its newest checkpoint or savepoint, set `spec.job.initialSavepointPath` to it \
                     and `spec.job.savepointRedeployNonce` to a new number{known}. With high \
                     availability a cluster keeps its jobs when its JobManager is lost"
                )
            }
        }
    }
}
