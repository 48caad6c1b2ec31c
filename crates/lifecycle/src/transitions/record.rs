//! What a pass records: the stored specs, the job's state, errors, and the end of the plan.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::stop::Lazy;
use super::stop::lazy;
use crate::diff::SpecDiff;
use crate::error_document::form::Form;
use crate::error_document::wording::ROLLED_BACK_BEFORE;
use crate::error_document::{Document, ErrorNote, ErrorType, Part, StoredError, reason_of};
use crate::event::{Component, Event};
use crate::job::{self, LIST_AGE_MAX};
use crate::kind::{End, Kind};
use crate::pass::Pass;
use crate::phase::Phase;
use crate::plan::{Step, Superseded};
use crate::problem::{Halt, NOT_CARRIED_OUT, Problem};
use crate::resource::StatusOfJob;
use crate::status_texts::StatusTexts;
use crate::wait::Awaited;
use crate::world::{Checkpoints, Job};
use api::job::{JobSpec, JobState, UpgradeMode};
use api::reconciled::{Reconciled, StoredSpec, deployed};
use api::status::{JobStatusState, ReconciliationState, ReconciliationStatus};
use config::{FlinkConfig, options};
use state::restore_point::RestorePoint;

/// Minimum interval between two passes over an idle resource, so that it does not delay others.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Maximum time that a request to cancel a job takes to arrive.
const CANCEL_ON_ITS_WAY_MAX: SignedDuration = SignedDuration::from_secs(10);

impl<K: Kind> Pass<'_, K> {
    /// Returns the job of the spec; an empty one for a session cluster.
    pub(crate) fn job(&self) -> JobSpec {
        self.spec.job().cloned().unwrap_or_default()
    }

    /// Returns the state to start from that the user names; a blank path is ignored.
    pub(crate) fn named_state(&self) -> Option<String> {
        let path = self.spec.job()?.initial_savepoint_path.as_ref()?;
        (!path.trim().is_empty()).then(|| path.clone())
    }

    pub(crate) fn desired_state(&self) -> JobState {
        self.spec.job().map_or(JobState::Running, |job| job.state)
    }

    /// Returns true if the job keeps no state according to a spec that was validated and is in force. The spec is
    /// observed before it is validated, and one that will be refused must not drop state.
    pub(crate) fn is_stateless_for_certain(&self) -> bool {
        self.job().upgrade_mode == UpgradeMode::Stateless
            && self.status.observed_generation() == Some(self.world.generation())
    }

    /// Returns how the running job was started, or the stopped one was stopped.
    pub(crate) fn last_mode(&self) -> UpgradeMode {
        let job = self.last.as_ref().and_then(|last| last.spec.job());
        job.map_or(UpgradeMode::Stateless, |job| job.upgrade_mode)
    }

    /// Returns the spec that runs: after a rollback it is the last stable one, not the last one.
    pub(crate) fn deployed_spec(&self, last: &Reconciled<K::Spec>) -> K::Spec {
        deployed(self.status.reconciliation(), last).into_owned().spec
    }

    /// Returns the restore point on record: the path of the last savepoint or checkpoint.
    pub(crate) fn savepoint_path(&self) -> Option<String> {
        job::savepoint_path(self.status.job())
    }

    pub(crate) fn job_id(&self) -> Result<String, Halt> {
        job::id(self.status.job()).ok_or_else(|| Halt::cannot("the status has no job id"))
    }

    /// Returns the configuration used to observe what runs, with the currently desired operator options.
    pub(crate) fn observe_config(&self) -> Result<Arc<FlinkConfig>, Halt> {
        K::observe_config(self)
    }

    /// Returns `kubernetes.operator.reconcile.interval`, which a resource may set, but at least one second.
    pub(crate) fn interval(&self) -> Duration {
        self.observe_config()
            .ok()
            .and_then(|config| config.get(&options::RECONCILE_INTERVAL).ok())
            .unwrap_or(Duration::from_mins(1))
            .max(INTERVAL_MIN)
    }

    pub(crate) fn set_job_state(&mut self, state: JobStatusState) {
        let event = job::set_state(self.status.job_mut(), state, self.world.now);
        self.steps.extend(event.map(Step::from));
    }

    /// Returns when the job entered its state or was deployed, whichever is later.
    pub(crate) fn job_state_since(&self) -> Timestamp {
        job::state_since(self.status.job(), self.status.reconciliation(), self.world.now)
    }

    /// Halts until the lists of `who` have been without the job for some time. A JobManager leaves out a job in the moment
    /// in which it ends.
    pub(crate) fn expect_in_next_list(&self, who: &str) -> Result<(), Halt> {
        if self.waited(Awaited::JobListed) >= LIST_AGE_MAX.unsigned_abs() {
            return Ok(());
        }
        let id = self.status.job().job_id.as_deref().unwrap_or_default();
        Err(Halt::Wait(Awaited::JobListed, format!("{who} does not list job {id} at present")))
    }

    /// Puts the resource into a phase. Nothing else writes `reconciliationStatus.state`; [`Phase::of_record`] reads it.
    pub(crate) fn enter(&mut self, phase: Phase) {
        if let Some(state) = phase.state() {
            self.status.reconciliation_mut().state = state;
        }
        if phase == Phase::Cancelling {
            self.set_job_state(JobStatusState::Cancelling);
        }
        if phase == Phase::New {
            self.last = None;
            self.status.reconciliation_mut().last_reconciled_spec = None;
        }
    }

    /// Records that what becomes of the job is decided again: it was being cancelled, and runs or is out of sight.
    pub(crate) fn decide_again(&mut self) {
        self.set_job_state(JobStatusState::Reconciling);
        self.enter(Phase::Running);
    }

    /// Stores `last` with the trigger nonces that were used up so far.
    pub(crate) fn store_last(&mut self, last: Reconciled<K::Spec>) {
        let reconciliation = self.status.reconciliation_mut();
        self.last = Some(Arc::new(job::store(reconciliation, self.last.as_deref(), last)));
    }

    pub(crate) fn stored(
        &self,
        state: JobState,
        mode: UpgradeMode,
        is_first: bool,
    ) -> Reconciled<K::Spec> {
        job::stored(&self.spec, state, mode, is_first)
    }

    /// Records that the desired spec is about to replace what runs: nothing runs for it yet.
    pub(crate) fn store_before_deploy(&mut self, mode: UpgradeMode, is_first: bool) {
        if self.status.job().state == Some(JobStatusState::Cancelling) {
            // The Java operator cancels what it rolls back. Its end is not awaited.
            self.set_job_state(JobStatusState::Finished);
        }
        let last = self.stored(JobState::Suspended, mode, is_first);
        self.store_deployed(last, Phase::Starting);
        K::spec_stored(self, JobState::Suspended);
    }

    /// Records that the desired spec runs, or is about to.
    pub(crate) fn store_running(&mut self, mode: UpgradeMode, is_first: bool) {
        let last = self.stored(JobState::Running, mode, is_first);
        self.store_deployed(last, Phase::Running);
        K::spec_stored(self, JobState::Running);
    }

    pub(crate) fn store_deployed(&mut self, last: Reconciled<K::Spec>, phase: Phase) {
        self.store_last(last);
        self.status.set_observed_generation(self.generation);
        self.enter(phase);
        self.stamp();
        self.status.set_error(None);
    }

    /// Records when the resource was deployed.
    pub(crate) fn stamp(&mut self) {
        self.status.reconciliation_mut().reconciliation_timestamp = self.world.now.as_millisecond();
    }

    /// Records that the desired spec already runs. It was started in the mode that the rollback noted, whatever the
    /// user requests now.
    pub(crate) fn store_as_it_runs(&mut self) {
        let last = self.stored(JobState::Running, self.last_mode(), false);
        self.store_deployed(last, Phase::Running);
    }

    /// Records that the job is stopped and stays so; `mode` is how it was stopped.
    pub(crate) fn store_suspended(&mut self, mode: Option<UpgradeMode>) {
        let mode = mode.unwrap_or_else(|| self.last_mode());
        let last = self.stored(JobState::Suspended, mode, false);
        self.store_deployed(last, Phase::Suspended);
        K::spec_stored(self, JobState::Suspended);
        self.mark_stable();
    }

    pub(crate) fn mark_stable(&mut self) {
        if !self.is_stable() {
            let reconciliation = self.status.reconciliation_mut();
            if let Some(last) = &reconciliation.last_reconciled_spec {
                reconciliation.last_stable_spec = Some(last.clone());
            }
        }
    }

    /// Records that a change was seen that requires no action.
    pub(crate) fn refresh_metadata(&mut self) {
        let Some(last) = &self.last else { return };
        if self.status.observed_generation() == Some(self.generation) {
            return;
        }
        let refreshed = job::refreshed(last, &self.spec);
        self.status.set_observed_generation(self.generation);
        let was_stable = self.is_stable();
        self.store_last(refreshed);
        if was_stable {
            self.mark_stable();
        }
    }

    /// Returns true if the cancellation of a job that is listed as `state` is still in effect. A recent request may not
    /// have arrived yet, and is repeated. One that never arrived is decided again: the recorded state of the job is as
    /// old, and its user may want something else by now.
    pub(crate) fn is_cancel_on_its_way(&mut self, state: JobStatusState) -> bool {
        let is_lost = state != JobStatusState::Cancelling;
        // The state that its successor starts from was named, and the successor is stored.
        let is_final =
            self.last.as_ref().is_some_and(|last| last.job_state() == JobState::Suspended);
        let age = self.world.now.duration_since(self.job_state_since());
        if is_lost && !is_final && age > CANCEL_ON_ITS_WAY_MAX {
            self.set_job_state(state);
            self.enter(Phase::Running);
            return false;
        }
        self.is_cancel_lost = is_lost;
        true
    }

    /// Returns true if a job whose JobManager has no statistics may still have had state, depending on when it
    /// `started` and `ended`, or on the current time. A job that never ran is given up once the adaptive scheduler has
    /// waited for its first resources. One that lived longer may have run, lost them, and waited.
    pub(crate) fn may_have_run(
        &self,
        started: Option<Timestamp>,
        ended: Option<Timestamp>,
    ) -> Result<bool, Halt> {
        if self.is_stable() {
            return Ok(true);
        }
        let wait = job::resource_wait(&*self.observe_config()?);
        // For a job cancelled without an execution graph, Flink does not report when it ended.
        let ended = ended.filter(|ended| Some(*ended) >= started).unwrap_or(self.world.now);
        let lived = started.map(|at| ended.duration_since(at));
        Ok(lived.is_none_or(|lived| lived > wait))
    }

    /// Returns the statistics for the upgrade table. There, they are blank only if the job may have had state.
    pub(crate) fn checkpoints_for_table(&self) -> Result<Lazy<Checkpoints>, Halt> {
        let mut checkpoints = lazy(self.world.checkpoints()?);
        if let Lazy::Known(Checkpoints { is_blank: is_blank @ true, .. }) = &mut checkpoints {
            let status = self.status.job();
            let has_ended = status.state.is_some_and(JobStatusState::is_globally_terminal);
            let ended = has_ended.then(|| job::updated(status));
            *is_blank = self.may_have_run(job::started(status), ended)?;
        }
        Ok(checkpoints)
    }

    pub(crate) fn is_stable(&self) -> bool {
        let ReconciliationStatus { last_reconciled_spec, last_stable_spec, .. } =
            self.status.reconciliation();
        match (last_reconciled_spec, last_stable_spec) {
            (Some(last), Some(stable)) => self.world.memo.is_same(stable, last),
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }

    /// Returns the last stable spec.
    pub(crate) fn stable_spec(&self) -> Option<Reconciled<K::Spec>> {
        let text = self.status.reconciliation().last_stable_spec.as_ref()?;
        self.world.memo.parse(text).ok().map(|stable| Reconciled::clone(&stable))
    }

    /// Announces the changes once per generation.
    pub(crate) fn announce(&mut self, diff: &SpecDiff) {
        self.steps.extend(diff.announcement(self.generation).map(Step::from));
    }

    /// Announces the changes before what `start` does about them. If it is refused, the refusal is enough: an event in
    /// each pass until someone responds would only burden the API server.
    pub(crate) fn announcing(
        &mut self,
        diff: &SpecDiff,
        start: impl FnOnce(&mut Self) -> End<K>,
    ) -> End<K> {
        let front = self.steps.len();
        let mut plan = start(self)?;
        let announcement = diff.announcement(self.generation).map(Step::from);
        let front = front.min(plan.steps.len());
        plan.steps.splice(front..front, announcement);
        Ok(plan)
    }

    /// Announces the changes, and that what runs is stopped for them.
    pub(crate) fn announce_stop(&mut self, diff: &SpecDiff) {
        self.announce(diff);
        self.emit(Event::normal(
            "Suspended",
            Component::JobManagerDeployment,
            "Suspending existing deployment.",
        ));
    }

    /// Adds an event to the plan.
    pub(crate) fn emit(&mut self, event: Event) {
        self.steps.push(event.into());
    }

    /// Reports each exception of the job once, as an event.
    pub(crate) fn report_exceptions(&mut self, job: &Job) -> Result<(), Halt> {
        let (told, now) = (self.world.reported_exceptions.as_ref(), self.world.now);
        if told.is_some_and(|told| told.is_complete_for(job)) {
            return Ok(());
        }
        let Ok(exceptions) = self.world.exceptions()? else { return Ok(()) };
        let config = self.observe_config()?;
        let events = job::exception_events(exceptions, told, &job.id, &config, now);
        self.steps.extend(events.into_iter().map(Step::from));
        Ok(())
    }

    /// Keeps the spec that ran, and the state that it leaves, for `history` and `rollback`.
    pub(crate) fn supersede(&mut self, last: &Reconciled<K::Spec>, restore_point: RestorePoint) {
        let spec = self.deployed_spec(last);
        self.steps.push(Step::RecordRevision(Box::new(Superseded { spec, restore_point })));
    }

    /// Adds a step that stores the current status before the steps that follow.
    pub(crate) fn write_intent(&mut self) {
        self.settle();
        self.steps.push(Step::WriteStatus(Box::new(self.status.clone())));
    }

    /// Updates the derived fields.
    pub(crate) fn settle(&mut self) {
        let rollback = self.rollback_on_record();
        let failed_stop = self.failed_stop_on_record();
        let stopped_at = self.world.stopped_at().filter(|_| self.has_room());
        let stopped_at = stopped_at.map(Problem::not_carried_out);
        if let Some(problem) = self.problem.as_ref().or(stopped_at.as_ref()) {
            let failed_stop = failed_stop.filter(|_| problem.note != Some(ErrorNote::NotStopped));
            let (set_back, lost) = (self.set_back_on_record(), K::lost(self).map(Part::from));
            let beside = [set_back, lost, rollback, failed_stop].into_iter().flatten();
            self.store_error(problem.document(beside));
        } else if let Some(failed_stop) = failed_stop {
            let causes = rollback.into_iter().collect();
            let document = Document::of(ErrorType::UpgradeFailure, failed_stop);
            self.store_error(Document { causes, ..document });
        } else if let Some(rollback) = rollback {
            let document = Document::of(ErrorType::DeploymentFailed, rollback);
            self.status.set_error(Some(document.to_text()));
        } else if K::has_recovered(self) || self.is_carried_out() {
            self.status.set_error(None);
        }
        let before = self.status.conditions().cloned();
        K::settle(self);
        if let Some(error) = self.status.error() {
            let error = Form::of(&self.world.operator.base).apply(error);
            self.status.set_error(Some(error));
        }
        if let Some(before) = before {
            self.report_readiness(&before);
        }
        self.status.hide_secrets();
    }

    /// Stores an error with the failed stops so far.
    fn store_error(&mut self, document: Document) {
        let stop_attempts = self.failed_stops();
        let text = Document { stop_attempts, ..document }.to_text();
        self.status.set_error(Some(text));
    }

    /// Returns true if the status has no error, or one that is over, that the last plan stopped at itself, or that can
    /// be reported alongside another one.
    pub(crate) fn has_room(&self) -> bool {
        if self.rollback_on_record().is_some() || self.failed_stop_on_record().is_some() {
            return true;
        }
        let Some(error) = self.status.error() else { return true };
        reason_of(error).as_deref() == Some(NOT_CARRIED_OUT) || K::has_recovered(self)
    }

    /// Returns true if the stored error is only one at which a plan stopped, and that is over.
    fn is_carried_out(&self) -> bool {
        let error = self.status.error().unwrap_or_default();
        reason_of(error).as_deref() == Some(NOT_CARRIED_OUT)
            && StoredError::read(Some(error)).went_back().is_none()
            && K::lost(self).is_none()
    }

    /// Stores the status with the error at which the last plan stopped. This plan may stop there, too, and its final
    /// status would not be stored.
    pub(crate) fn report_first(&mut self) {
        if self.problem.is_some() || self.world.stopped_at().is_none() {
            return;
        }
        let end = std::mem::replace(&mut self.status, self.world.status.clone());
        self.settle();
        let told = std::mem::replace(&mut self.status, end);
        if told.error() != self.world.status.error() {
            self.steps.insert(0, Step::WriteStatus(Box::new(told)));
        }
    }

    /// Returns why the spec was rolled back. This stays in the status until the spec changes, as the error itself or as
    /// a cause. The Java operator does not keep the reason.
    fn rollback_on_record(&self) -> Option<Part> {
        let state = self.status.reconciliation().state;
        let is_back =
            matches!(state, ReconciliationState::RollingBack | ReconciliationState::RolledBack);
        let note = ErrorNote::RolledBack;
        let is_reported = self.problem.as_ref().is_some_and(|it| it.note.as_ref() == Some(&note));
        if !is_back || is_reported {
            return None;
        }
        let stored = &self.world.status;
        let part = StoredError::read(stored.error()).part(&note);
        let was_over = stored.reconciliation().state == ReconciliationState::RolledBack;
        let unknown = || Part { message: ROLLED_BACK_BEFORE.to_owned(), note: Some(note) };
        part.or_else(|| was_over.then(unknown))
    }

    /// Returns that the record went back, which stays in the status alongside other errors.
    fn set_back_on_record(&self) -> Option<Part> {
        let is_reported = |problem: &Problem| matches!(problem.note, Some(ErrorNote::WentBack(_)));
        if self.problem.as_ref().is_some_and(is_reported) {
            return None;
        }
        StoredError::read(self.world.status.error()).went_back().map(Part::from)
    }
}
