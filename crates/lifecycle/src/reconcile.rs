//! What a pass does with a resource once it is observed and its spec is valid, by the phase it is in.
//!
//! Applications, session clusters and session jobs have the rules of each phase and their order in common;
//! how a rule is carried out is a kind's own ([`Lifecycle`]). `docs/lifecycle.md` is made from this file.

use super::application::{Halt, Problem};
use super::diff::{ChangeClass, SpecDiff};
use super::job;
use super::pass::{Kind, Pass, PlanOf, StatusOfJob};
use super::phase::Phase;
use super::reconciled::Reconciled;
use super::restore::HighAvailability;
use super::world::JobWorld;
use api::job::JobState;

/// Why a pass ends at whose end the user is back at the spec that a rollback went to.
pub(super) const RETURNED: &str = "the spec is the one that runs since the rollback";

/// How a pass ends.
pub(super) type End<K> = Result<PlanOf<K>, Halt<<K as Kind>::Question>>;

/// A plan, or nothing where a rule does not apply and the next one does.
pub(super) type Maybe<K> = Result<Option<PlanOf<K>>, Halt<<K as Kind>::Question>>;

/// What the user wants, beside what is on record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    /// What is on record, or what makes no difference.
    Same,
    /// Another parallelism, which may be had without a restart.
    Rescale,
    /// Another spec.
    Change,
    /// That the job stops, with any other change.
    Suspend,
    /// That the suspended job goes on, with any other change.
    Resume,
    /// Another state to start from: a new `spec.job.savepointRedeployNonce`.
    Redeploy,
}

impl Wish {
    pub const ALL: [Self; 6] =
        [Self::Same, Self::Rescale, Self::Change, Self::Suspend, Self::Resume, Self::Redeploy];

    const fn of(class: ChangeClass, last: JobState, wanted: JobState) -> Self {
        match (class, last, wanted) {
            (ChangeClass::Ignore, _, _) => Self::Same,
            (ChangeClass::SavepointRedeploy, _, _) => Self::Redeploy,
            (_, JobState::Suspended, JobState::Running) => Self::Resume,
            (_, JobState::Running, JobState::Suspended) => Self::Suspend,
            (ChangeClass::Scale, _, _) => Self::Rescale,
            (ChangeClass::Upgrade, _, _) => Self::Change,
        }
    }

    /// The wish in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Same => "no change",
            Self::Rescale => "another parallelism",
            Self::Change => "another spec",
            Self::Suspend => "`state: suspended`",
            Self::Resume => "`state: running`",
            Self::Redeploy => "another state to start from",
        }
    }
}

/// A rule of a phase. The first one that has a plan decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    SettleRecord,
    Deploy,
    ContinueStop,
    ContinueCancel,
    Start,
    ContinueRollback,
    FinishStart,
    Keep,
    AwaitSavepoint,
    ReturnToStable,
    RefuseVersion,
    Redeploy,
    Scale,
    Stop,
    Resume,
    StoreEdit,
}

impl Rule {
    /// What the rule does.
    pub const fn text(self) -> &'static str {
        match self {
            Self::SettleRecord => "refuse or wait where the record does not tell what runs",
            Self::Deploy => "deploy it for the first time, if it is not wanted suspended",
            Self::ContinueStop => "wait for the savepoint, or decide anew when the stop is lost",
            Self::ContinueCancel => "wait for the end of the job",
            Self::Start => "start the wanted spec from the restore point on record, or suspend it",
            Self::ContinueRollback => "start the last stable spec, or the wanted one after an edit",
            Self::FinishStart => "make what is missing beside a JobManager that runs",
            Self::Keep => "recover, restart, roll back, take snapshots, clean up",
            Self::AwaitSavepoint => "wait for a savepoint that is being taken",
            Self::ReturnToStable => {
                "take the spec that runs for the wanted one, where they are the same"
            }
            Self::RefuseVersion => "refuse a version of Flink that is not started any more",
            Self::Redeploy => "drop what runs for the state that is named",
            Self::Scale => "scale without a restart, where Flink can",
            Self::Stop => "stop the job by the upgrade table",
            Self::Resume => "start the wanted spec from the restore point on record",
            Self::StoreEdit => "put the wanted spec on record: a resume will start it",
        }
    }

    /// Whether the rule is looked at when the user wants this.
    pub const fn is_for(self, wish: Wish) -> bool {
        match self {
            Self::Keep => matches!(wish, Wish::Same),
            Self::Redeploy => matches!(wish, Wish::Redeploy),
            Self::Scale => matches!(wish, Wish::Rescale),
            Self::Resume => matches!(wish, Wish::Resume),
            Self::SettleRecord
            | Self::Deploy
            | Self::ContinueStop
            | Self::ContinueCancel
            | Self::Start
            | Self::ContinueRollback
            | Self::FinishStart
            | Self::AwaitSavepoint
            | Self::ReturnToStable
            | Self::RefuseVersion
            | Self::Stop
            | Self::StoreEdit => true,
        }
    }
}

impl Phase {
    /// What is looked at in this phase, in this order. What was begun is continued before an edit is carried
    /// out, but that a start which was begun gives way to another state that its user names.
    pub const fn rules(self) -> &'static [Rule] {
        use Rule::{
            AwaitSavepoint, ContinueCancel, ContinueRollback, ContinueStop, Deploy, FinishStart,
            Keep, Redeploy, RefuseVersion, Resume, ReturnToStable, Scale, SettleRecord, Start,
            Stop, StoreEdit,
        };
        match self {
            Self::New => &[SettleRecord, Deploy],
            // A pass ends before there are rules to be looked at.
            Self::Unreadable | Self::Deleting => &[],
            Self::Stopping => &[SettleRecord, ContinueStop],
            Self::Cancelling => &[SettleRecord, ContinueCancel],
            Self::Starting => &[SettleRecord, Redeploy, Start],
            Self::RollingBack => &[SettleRecord, ContinueRollback],
            Self::Running => &[
                SettleRecord,
                FinishStart,
                Keep,
                AwaitSavepoint,
                RefuseVersion,
                Redeploy,
                Scale,
                Stop,
            ],
            Self::Suspended => &[SettleRecord, Keep, RefuseVersion, Redeploy, Resume, StoreEdit],
            Self::RolledBack => &[
                SettleRecord,
                FinishStart,
                Keep,
                AwaitSavepoint,
                ReturnToStable,
                RefuseVersion,
                Redeploy,
                Stop,
            ],
        }
    }
}

/// How a kind of resource is observed, and how the rules of its phases are carried out.
pub(super) trait Lifecycle: Kind {
    /// A canary shows that the operator is alive, and has no cluster.
    fn leave_canary(pass: &Pass<'_, Self>) -> PlanOf<Self>;

    fn delete(pass: &mut Pass<'_, Self>) -> End<Self>;

    /// The record cannot be read, for this reason.
    fn unreadable(reason: &str) -> Problem;

    /// Brings the status in line with what there is.
    fn observe(pass: &mut Pass<'_, Self>) -> Maybe<Self>;

    /// A spec that is invalid, or not judged yet, is not carried out: the last good one stays in force,
    /// and where there is none the pass ends.
    fn validate(pass: &mut Pass<'_, Self>) -> Maybe<Self>;

    /// Refuses to go on, or waits, in any phase, where the record does not tell what runs.
    fn settle_record(pass: &mut Pass<'_, Self>) -> Maybe<Self>;

    /// The first start.
    fn deploy(pass: &mut Pass<'_, Self>) -> End<Self>;

    /// Follows the stop-with-savepoint that has this trigger id.
    fn continue_stop(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        trigger_id: &str,
    ) -> End<Self>;

    fn continue_cancel(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> End<Self>;

    /// Starts the stored spec, with what the user changed of it since, or leaves it suspended.
    fn start(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> End<Self>;

    fn continue_rollback(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        diff: &SpecDiff,
    ) -> End<Self>;

    /// Makes what is missing of a cluster whose JobManager was made.
    fn finish_start(
        _pass: &mut Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
        _diff: &SpecDiff,
    ) -> Maybe<Self> {
        Ok(None)
    }

    /// Carries out what changed without a restart, though nothing else did.
    fn apply_ignored(
        _pass: &mut Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
        _diff: &SpecDiff,
    ) -> Result<(), Halt<Self::Question>> {
        Ok(())
    }

    /// The spec is in place: keeps it running, or rolls it back.
    fn keep(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> End<Self>;

    /// After a rollback: the wanted spec is the one that runs.
    fn return_to_stable(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> Maybe<Self>;

    /// Refuses a spec of a version that no cluster is started for any more.
    fn refuse_version(_pass: &Pass<'_, Self>) -> Result<(), Halt<Self::Question>> {
        Ok(())
    }

    /// Another parallelism, without a restart.
    fn scale(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        diff: &SpecDiff,
    ) -> Maybe<Self>;

    /// Drops what runs, or ran, for the state that the user names.
    fn redeploy(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        diff: &SpecDiff,
    ) -> End<Self>;

    /// Stops what runs for its successor, or to be suspended.
    fn stop(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>, diff: &SpecDiff)
    -> End<Self>;

    /// High availability of `next`, where HA metadata of the job of `last` leads to its state. Session
    /// jobs have none of their own.
    fn metadata_left(
        _pass: &Pass<'_, Self>,
        _last: &Self::Spec,
        _next: &Self::Spec,
    ) -> Result<HighAvailability, Halt<Self::Question>> {
        Ok(HighAvailability::Off)
    }

    /// Refuses an edit that a suspended job could not start with.
    fn refuse_edit_of_suspended(
        _pass: &Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
    ) -> Result<(), Halt<Self::Question>> {
        Ok(())
    }
}

impl<K: Lifecycle> Pass<'_, K> {
    /// One pass: observe, validate, reconcile.
    pub(super) fn run(&mut self) -> End<K> {
        if self.is_canary() {
            return Ok(K::leave_canary(self));
        }
        if self.world.metadata().deletion_timestamp.is_some() {
            return K::delete(self);
        }
        if let Err(error) = self.read_last() {
            return Err(Halt::problem(K::unreadable(&error.reason)));
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

    fn reconcile(&mut self) -> End<K> {
        let (phase, wish, record) = match self.last.clone() {
            None => (Phase::New, Wish::Same, None),
            Some(last) => {
                let diff = K::changes(&last.spec, &self.spec);
                let wish = Wish::of(diff.class(), last.job_state(), self.desired_state());
                (Phase::of_record(&self.status, last.job_state()), wish, Some((last, diff)))
            }
        };
        let record = record.as_ref().map(|(last, diff)| (&**last, diff));
        for rule in phase.rules().iter().filter(|rule| rule.is_for(wish)) {
            if let Some(plan) = self.apply(*rule, record)? {
                return Ok(plan);
            }
        }
        Ok(self.finish("there is nothing to do", Some(self.interval())))
    }

    fn apply(&mut self, rule: Rule, record: Option<(&Reconciled<K::Spec>, &SpecDiff)>) -> Maybe<K> {
        if rule == Rule::SettleRecord {
            return K::settle_record(self);
        }
        let Some((last, diff)) = record else { return K::deploy(self).map(Some) };
        match rule {
            Rule::SettleRecord => K::settle_record(self),
            Rule::Deploy => K::deploy(self).map(Some),
            Rule::ContinueStop => {
                let trigger_id = job::pending_stop(self.status.job()).unwrap_or_default();
                K::continue_stop(self, last, &trigger_id).map(Some)
            }
            Rule::ContinueCancel => K::continue_cancel(self, last).map(Some),
            Rule::Start => K::start(self, last).map(Some),
            Rule::ContinueRollback => K::continue_rollback(self, last, diff).map(Some),
            Rule::FinishStart => K::finish_start(self, last, diff),
            Rule::Keep => {
                self.forget_failed_stop();
                K::apply_ignored(self, last, diff)?;
                self.refresh_metadata();
                let refreshed = self.last.clone();
                K::keep(self, refreshed.as_deref().unwrap_or(last)).map(Some)
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
                Ok(Some(self.finish(because, Some(self.interval()))))
            }
        }
    }
}
