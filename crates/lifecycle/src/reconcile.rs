//! One pass: observe, validate, then apply the rules of the phase.
//!
//! Applications, session clusters and session jobs share the rules and their order ([`Phase::rules`]); each kind
//! carries a rule out in its own way ([`Lifecycle`]).

use super::diff::SpecDiff;
use super::job;
use super::kind::{End, Lifecycle, Maybe};
use super::pass::Pass;
use super::phase::Phase;
use super::plan::{Plan, PlanOf, Step};
use super::problem::Halt;
use super::resource::{JobResource, StatusOfJob};
use super::rules::{Desired, Rule};
use super::wait::Awaited;
use super::world::{Question, World};
use api::job::JobState;
use api::reconciled::Reconciled;

/// Reason of a pass at the end of which the user is back at the spec that a rollback restored.
pub(super) const RETURNED: &str = "the spec is the one that has been running since the rollback";

/// Decides what to do with the resource now.
///
/// # Errors
/// The question to answer before the decision can be made.
pub fn decide<K: JobResource>(world: &World<'_, K>) -> Result<PlanOf<K>, Question> {
    K::decide(world)
}

impl<K: Lifecycle> Pass<'_, K> {
    /// Returns the plan, or the question to answer first.
    pub(super) fn decide(mut self) -> Result<PlanOf<K>, Question> {
        let end = self.run();
        self.conclude(end)
    }

    /// Runs one pass: observe, validate, reconcile.
    fn run(&mut self) -> End<K> {
        if self.is_canary() {
            return Ok(self.leave_canary());
        }
        if let Some(message) = self.paused.clone() {
            return self.only_observe(&message);
        }
        if self.world.metadata().deletion_timestamp.is_some() {
            return self.delete_resource();
        }
        if let Err(error) = self.read_last() {
            return Err(Halt::problem(K::unreadable(&error.reason)));
        }
        if !self.has_finalizer() {
            self.steps.push(Step::AddFinalizer);
        }
        if let Some(plan) = K::observe(self)? {
            return Ok(plan);
        }
        if let Some(plan) = K::validate(self)? {
            return Ok(plan);
        }
        self.warn_of_schedules();
        self.reconcile()
    }

    /// Releases a canary that the operator no longer needs for its health check.
    fn leave_canary(&self) -> PlanOf<K> {
        let plan = self.untouched("canary resource");
        let is_going = self.world.metadata().deletion_timestamp.is_some();
        if is_going && self.has_finalizer() {
            return Plan { steps: vec![Step::RemoveFinalizer], ..plan };
        }
        plan
    }

    pub(super) fn has_finalizer(&self) -> bool {
        let finalizers = self.world.metadata().finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|finalizer| finalizer == K::FINALIZER)
    }

    fn reconcile(&mut self) -> End<K> {
        let (phase, wish, record) = match self.last.clone() {
            None => (Phase::New, Desired::Same, None),
            Some(last) => {
                let diff = K::changes(&last.spec, &self.spec);
                let wish = Desired::of(diff.class(), last.job_state(), self.desired_state());
                (Phase::of_record(&self.status, last.job_state()), wish, Some((last, diff)))
            }
        };
        let record = record.as_ref().map(|(last, diff)| (&**last, diff));
        let runs = matches!(phase, Phase::Running | Phase::RolledBack);
        for rule in phase.rules().iter().filter(|rule| rule.is_for(wish)) {
            let outcome = match record {
                Some((last, _)) if runs && rule.is_change() => {
                    self.unless_unknown(last, |pass| pass.apply(*rule, record))
                }
                _ => self.apply(*rule, record),
            };
            if let Some(plan) = outcome? {
                return Ok(plan);
            }
        }
        Ok(self.rest("there is nothing to do", Some(self.interval())))
    }

    /// Tries a change of what runs. If something that it depends on cannot be found out, only the change waits: what
    /// runs is maintained as it is.
    fn unless_unknown(
        &mut self,
        last: &Reconciled<K::Spec>,
        change: impl FnOnce(&mut Self) -> Maybe<K>,
    ) -> Maybe<K> {
        let (status, steps) = (self.status.clone(), self.steps.len());
        match change(self) {
            // What was begun goes on from its record.
            Err(Halt::Cannot(because))
                if self.status.reconciliation().state == status.reconciliation().state =>
            {
                self.status = status;
                self.steps.truncate(steps);
                self.is_cut_short = true;
                let because = format!("the change waits: {because}");
                self.meanwhile(last, Awaited::Fact, because).map(Some)
            }
            outcome => outcome,
        }
    }

    fn apply(&mut self, rule: Rule, record: Option<(&Reconciled<K::Spec>, &SpecDiff)>) -> Maybe<K> {
        let Some((last, diff)) = record else {
            let settles = rule == Rule::SettleRecord;
            return if settles { K::settle_record(self) } else { K::deploy(self).map(Some) };
        };
        match rule {
            Rule::SettleRecord => K::settle_record(self),
            Rule::Deploy => K::deploy(self).map(Some),
            Rule::ContinueStop => {
                let trigger_id = job::pending_stop(self.status.job()).unwrap_or_default();
                self.continue_stop(last, &trigger_id).map(Some)
            }
            Rule::ContinueCancel => self.continue_cancel(last).map(Some),
            Rule::Start => K::start(self, last).map(Some),
            Rule::ContinueRollback => K::continue_rollback(self, last, diff).map(Some),
            Rule::FinishStart => K::finish_start(self, last, diff),
            Rule::Maintain => {
                self.forget_failed_stop();
                K::apply_ignored(self, last, diff)?;
                self.refresh_metadata();
                let refreshed = self.last.clone();
                K::maintain_or_roll_back(self, refreshed.as_deref().unwrap_or(last)).map(Some)
            }
            Rule::AwaitSavepoint => self.hold_for_savepoint(last),
            Rule::ReturnToStable => K::return_to_stable(self, last),
            Rule::RefuseVersion => {
                if self.desired_state() == JobState::Running {
                    K::refuse_version(self)?;
                }
                Ok(None)
            }
            Rule::Redeploy => K::redeploy(self, last, diff).map(Some),
            Rule::Scale => K::scale(self, last, diff),
            Rule::Stop => K::stop(self, last, diff).map(Some),
            Rule::Resume => self.announcing(diff, |pass| K::start(pass, last)).map(Some),
            Rule::StoreEdit => {
                K::refuse_edit_of_suspended(self, last)?;
                self.store_suspended(None);
                let because = "the suspended job's spec is updated";
                Ok(Some(self.rest(because, Some(self.interval()))))
            }
        }
    }
}
