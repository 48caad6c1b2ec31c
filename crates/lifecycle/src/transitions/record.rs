//! Records of a pass: the stored specs, the job's state, errors, and the end of the plan.

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
use crate::job;
use crate::kind::{End, Kind};
use crate::pass::Pass;
use crate::plan::{Plan, Superseded};
use crate::plan::{PlanOf, Step};
use crate::problem::{Halt, NOT_CARRIED_OUT, Problem};
use crate::resource::StatusOfJob;
use crate::world::{Checkpoints, Job};
use api::job::{JobSpec, JobState, UpgradeMode};
use api::reconciled::{Reconciled, StoredSpec, deployed};
use api::status::{JobStatusState, LifecycleState, ReconciliationState, ReconciliationStatus};
use config::{FlinkConfig, options};
use state::restore_point::RestorePoint;

/// Shortest pause between two looks at what rests: one resource must not keep others waiting.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Longer than this no request to cancel a job is on its way.
const CANCEL_ON_ITS_WAY_MAX: SignedDuration = SignedDuration::from_secs(10);

impl<K: Kind> Pass<'_, K> {
    /// The job of the spec; an empty one for a session cluster.
    pub(crate) fn job(&self) -> JobSpec {
        self.spec.job().cloned().unwrap_or_default()
    }

    /// The state that the user names to start from; a blank path is none.
    pub(crate) fn named_state(&self) -> Option<String> {
        let path = self.spec.job()?.initial_savepoint_path.as_ref()?;
        (!path.trim().is_empty()).then(|| path.clone())
    }

    pub(crate) fn desired_state(&self) -> JobState {
        self.spec.job().map_or(JobState::Running, |job| job.state)
    }

    /// True if the job keeps no state, by a spec that was judged and is carried out. Observing comes
    /// first, and a spec that will be refused drops no state.
    pub(crate) fn is_stateless_for_certain(&self) -> bool {
        self.job().upgrade_mode == UpgradeMode::Stateless
            && self.status.observed_generation() == Some(self.world.generation())
    }

    /// How the running job was started, or the stopped one was stopped.
    pub(crate) fn last_mode(&self) -> UpgradeMode {
        let job = self.last.as_ref().and_then(|last| last.spec.job());
        job.map_or(UpgradeMode::Stateless, |job| job.upgrade_mode)
    }

    /// Returns the spec that runs: after a rollback not the last one but the last stable one.
    pub(crate) fn deployed_spec(&self, last: &Reconciled<K::Spec>) -> K::Spec {
        deployed(self.status.reconciliation(), last).into_owned().spec
    }

    /// The restore point on record: the path of the last savepoint or checkpoint.
    pub(crate) fn savepoint_path(&self) -> Option<String> {
        job::savepoint_path(self.status.job())
    }

    pub(crate) fn job_id(&self) -> Result<String, Halt> {
        job::id(self.status.job()).ok_or_else(|| Halt::cannot("the status has no job id"))
    }

    /// The configuration that what runs is looked at with, with the operator's options as they are
    /// wanted now.
    pub(crate) fn observe_config(&self) -> Result<Arc<FlinkConfig>, Halt> {
        K::observe_config(self)
    }

    /// `kubernetes.operator.reconcile.interval`, which a resource may set, and no shorter than a second.
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

    /// When the job got the state it has, or was deployed, whichever is later.
    pub(crate) fn job_state_since(&self) -> Timestamp {
        job::state_since(self.status.job(), self.status.reconciliation(), self.world.now)
    }

    /// Stores `last`, with the trigger nonces that were used up so far.
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

    /// The wanted spec is about to replace what runs: nothing runs for it yet.
    pub(crate) fn store_before_deploy(&mut self, mode: UpgradeMode, is_first: bool) {
        if self.status.job().state == Some(JobStatusState::Cancelling) {
            // The Java operator cancels what it rolls back. Its end is not waited for.
            self.set_job_state(JobStatusState::Finished);
        }
        let last = self.stored(JobState::Suspended, mode, is_first);
        self.store_deployed(last, ReconciliationState::Upgrading);
        K::spec_stored(self, JobState::Suspended);
    }

    /// The wanted spec runs, or is about to.
    pub(crate) fn store_running(&mut self, mode: UpgradeMode, is_first: bool) {
        let last = self.stored(JobState::Running, mode, is_first);
        self.store_deployed(last, ReconciliationState::Deployed);
        K::spec_stored(self, JobState::Running);
    }

    pub(crate) fn store_deployed(&mut self, last: Reconciled<K::Spec>, state: ReconciliationState) {
        self.store_last(last);
        self.status.set_observed_generation(self.generation);
        let now = self.world.now.as_millisecond();
        let reconciliation = self.status.reconciliation_mut();
        reconciliation.state = state;
        reconciliation.reconciliation_timestamp = now;
        self.status.set_error(None);
    }

    /// The wanted spec is the one that runs already. It was started as the rollback noted, whatever
    /// the user would have it now.
    pub(crate) fn store_as_it_runs(&mut self) {
        let last = self.stored(JobState::Running, self.last_mode(), false);
        self.store_deployed(last, ReconciliationState::Deployed);
    }

    /// The job is stopped and stays so; `mode` says how it was stopped.
    pub(crate) fn store_suspended(&mut self, mode: Option<UpgradeMode>) {
        let mode = mode.unwrap_or_else(|| self.last_mode());
        let last = self.stored(JobState::Suspended, mode, false);
        self.store_deployed(last, ReconciliationState::Deployed);
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

    /// A change that needs nothing done is still noted as seen.
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

    /// The job that is being cancelled is listed as `state`; answers whether the cancel stands. A request
    /// that was just made may be on its way, and is made again. One that never arrived is decided anew:
    /// what was noted of the job's state is as old, and its user may want something else by now.
    pub(crate) fn is_cancel_on_its_way(&mut self, state: JobStatusState) -> bool {
        let is_lost = state != JobStatusState::Cancelling;
        // The state that its successor starts from was named, and the successor is stored.
        let is_final =
            self.last.as_ref().is_some_and(|last| last.job_state() == JobState::Suspended);
        let age = self.world.now.duration_since(self.job_state_since());
        if is_lost && !is_final && age > CANCEL_ON_ITS_WAY_MAX {
            self.set_job_state(state);
            self.status.reconciliation_mut().state = ReconciliationState::Deployed;
            return false;
        }
        self.is_cancel_lost = is_lost;
        true
    }

    /// True if a job whose JobManager has no statistics may have had state all the same, by when it
    /// `started` and `ended`, or now. One that never ran is given up when the adaptive scheduler has
    /// waited for its first resources; one that lived longer may have run, lost them, and waited.
    pub(crate) fn may_have_run(
        &self,
        started: Option<Timestamp>,
        ended: Option<Timestamp>,
    ) -> Result<bool, Halt> {
        if self.is_stable() {
            return Ok(true);
        }
        let wait = job::resource_wait(&*self.observe_config()?);
        // Of a job that was cancelled without an execution graph, Flink does not tell when.
        let ended = ended.filter(|ended| Some(*ended) >= started).unwrap_or(self.world.now);
        let lived = started.map(|at| ended.duration_since(at));
        Ok(lived.is_none_or(|lived| lived > wait))
    }

    /// The statistics as the upgrade table takes them: it is blank only what may have had state.
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

    /// The last spec that was stable.
    pub(crate) fn stable_spec(&self) -> Option<Reconciled<K::Spec>> {
        let text = self.status.reconciliation().last_stable_spec.as_ref()?;
        self.world.memo.parse(text).ok().map(|stable| Reconciled::clone(&stable))
    }

    /// Says once per generation what changed.
    pub(crate) fn announce(&mut self, diff: &SpecDiff) {
        self.steps.extend(diff.announcement(self.generation).map(Step::from));
    }

    /// Says what changed in front of what `start` does about it. Where that is refused, the refusal
    /// says it all: nothing is to be sent to the API server in each pass until somebody answers it.
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

    pub(crate) fn announce_stop(&mut self) {
        self.tell(Event::normal(
            "Suspended",
            Component::JobManagerDeployment,
            "Suspending existing deployment.",
        ));
    }

    /// Adds an event to the plan.
    pub(crate) fn tell(&mut self, event: Event) {
        self.steps.push(event.into());
    }

    /// Tells each exception of the job once, as an event.
    pub(crate) fn report_exceptions(&mut self, job: &Job) -> Result<(), Halt> {
        let (told, now) = (self.world.told_exceptions.as_ref(), self.world.now);
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

    /// The status as it is now must be stored before the steps that follow.
    pub(crate) fn write_intent(&mut self) {
        self.settle();
        self.steps.push(Step::WriteStatus(Box::new(self.status.clone())));
    }

    /// Brings the derived fields in line with the rest.
    fn settle(&mut self) {
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
        K::settle(self);
        if let Some(error) = self.status.error() {
            let error = Form::of(&self.world.operator.base).apply(error);
            self.status.set_error(Some(error));
        }
    }

    /// Stores an error with the stops that failed so far.
    fn store_error(&mut self, document: Document) {
        let stop_attempts = self.failed_stops();
        let text = Document { stop_attempts, ..document }.to_text();
        self.status.set_error(Some(text));
    }

    /// True if the error of the status is none, over, what the last plan stopped at itself, or something
    /// that can be told beside it.
    pub(crate) fn has_room(&self) -> bool {
        if self.rollback_on_record().is_some() || self.failed_stop_on_record().is_some() {
            return true;
        }
        let Some(error) = self.status.error() else { return true };
        reason_of(error).as_deref() == Some(NOT_CARRIED_OUT) || K::has_recovered(self)
    }

    /// True if the stored error is what a plan stopped at, which is over, and nothing else is told
    /// in it.
    fn is_carried_out(&self) -> bool {
        let error = self.status.error().unwrap_or_default();
        reason_of(error).as_deref() == Some(NOT_CARRIED_OUT)
            && StoredError::read(Some(error)).went_back().is_none()
            && K::lost(self).is_none()
    }

    /// The stored status with the error that the last plan stopped at. This one may stop there, too,
    /// and what it comes to would not be stored.
    fn report_first(&mut self) {
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

    /// Why the spec was rolled back. It stays in the status until there is another spec: by itself,
    /// or as a cause of what is wrong beside it. The Java operator does not keep why.
    fn rollback_on_record(&self) -> Option<Part> {
        let state = self.status.reconciliation().state;
        let is_back =
            matches!(state, ReconciliationState::RollingBack | ReconciliationState::RolledBack);
        let note = ErrorNote::RolledBack;
        let is_told = self.problem.as_ref().is_some_and(|it| it.note.as_ref() == Some(&note));
        if !is_back || is_told {
            return None;
        }
        let stored = &self.world.status;
        let part = StoredError::read(stored.error()).part(&note);
        let was_over = stored.reconciliation().state == ReconciliationState::RolledBack;
        let unknown = || Part { message: ROLLED_BACK_BEFORE.to_owned(), note: Some(note) };
        part.or_else(|| was_over.then(unknown))
    }

    /// That the record went back stays in the status beside what else is wrong.
    fn set_back_on_record(&self) -> Option<Part> {
        let is_told = |problem: &Problem| matches!(problem.note, Some(ErrorNote::WentBack(_)));
        if self.problem.as_ref().is_some_and(is_told) {
            return None;
        }
        StoredError::read(self.world.status.error()).went_back().map(Part::from)
    }

    /// The plan as it stands, with its reason.
    pub(crate) fn finish(
        &mut self,
        because: impl Into<String>,
        look_again: Option<Duration>,
    ) -> PlanOf<K> {
        K::tidy(self);
        self.settle();
        self.report_first();
        let look_again = match (look_again, self.wake) {
            (Some(pause), Some(wake)) => Some(pause.min(wake)),
            (pause, wake) => pause.or(wake),
        };
        if let Some(problem) = &self.problem
            && self.status.error() != self.world.status.error()
        {
            let event = job::problem_event(problem);
            self.tell(event);
        }
        Plan {
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            because: because.into(),
            look_again,
            blocker: self.blocker.take(),
        }
    }

    /// A plan that changes nothing at all, not even the status.
    pub(crate) fn untouched(&self, because: impl Into<String>) -> PlanOf<K> {
        Plan {
            steps: vec![],
            status: Box::new(self.world.status.clone()),
            because: because.into(),
            look_again: None,
            blocker: None,
        }
    }

    pub(crate) fn is_marked_deleting(&self) -> bool {
        self.status.lifecycle_state() == Some(LifecycleState::Deleting)
    }
}
