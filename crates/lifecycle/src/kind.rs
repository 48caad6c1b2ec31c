//! Differences between the kinds of resources that have a job: where they get what they decide by
//! ([`Kind`]), and how they carry out the rules of their phases ([`Lifecycle`]).

use std::sync::Arc;

use super::attempts::Attempts;
use super::diff::SpecDiff;
use super::error_document::LostJob;
use super::job::StopOutcome;
use super::pass::Pass;
use super::plan::PlanOf;
use super::problem::{Halt, Problem};
use super::resource::JobResource;
use super::transitions::restore::HighAvailability;
use super::world::Job;
use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::reconciled::Reconciled;
use api::version::FlinkVersion;
use config::FlinkConfig;

/// Where a kind of resource gets what it decides by.
pub(super) trait Kind: JobResource {
    /// Facts that only passes over this kind come to know.
    type Own: Default;

    /// The configuration that the running job is looked at with.
    fn observe_config(pass: &Pass<'_, Self>) -> Result<Arc<FlinkConfig>, Halt>;

    /// A spec was stored whose job is in this state, or about to be.
    fn spec_stored(_pass: &mut Pass<'_, Self>, _state: JobState) {}

    /// Ends what the plan has no use for any more.
    fn tidy(_pass: &mut Pass<'_, Self>) {}

    /// Brings what follows from the rest of the status in line with it.
    fn settle(pass: &mut Pass<'_, Self>);

    /// The loss of the job, found by this pass or on record.
    fn lost(_pass: &Pass<'_, Self>) -> Option<LostJob> {
        None
    }

    /// Nothing is wrong any more with what the stored error was about.
    fn has_recovered(pass: &Pass<'_, Self>) -> bool;

    /// True if nothing runs until the decision can go on, and that has been so for long.
    fn is_held_up(_pass: &Pass<'_, Self>) -> bool {
        false
    }

    /// Puts the state that a job leaves that has just ended on record, while its JobManager knows it.
    fn record_end(pass: &mut Pass<'_, Self>, job: &Job) -> Result<(), Halt>;

    /// The job ended on request: the stored spec no longer runs.
    fn note_stopped(pass: &mut Pass<'_, Self>);

    /// True if the JobManager can be asked and told anything.
    fn is_answering(pass: &Pass<'_, Self>) -> bool;

    /// True if the job that runs, or ran, will not answer for its snapshots any more.
    fn is_job_over(pass: &Pass<'_, Self>) -> bool;

    /// True if a cancellation would meet a job of this id that has not ended, or could where nobody
    /// can tell; false where there is no JobManager.
    fn may_be_cancelled(pass: &Pass<'_, Self>, job_id: &str) -> Result<bool, Halt>;

    /// The version of Flink that the job runs on.
    fn flink_version(pass: &Pass<'_, Self>) -> Option<FlinkVersion>;

    /// The configuration that `spec` is submitted with.
    fn submit_config(pass: &Pass<'_, Self>, spec: &Self::Spec) -> Result<Arc<FlinkConfig>, Halt>;

    fn changes(last: &Self::Spec, wanted: &Self::Spec) -> SpecDiff;

    /// True if the two specs are for different versions of Flink.
    fn is_version_changed(_one: &Self::Spec, _other: &Self::Spec) -> bool {
        false
    }

    /// The attempts to start the job again that are on record, of any generation.
    fn attempts(pass: &Pass<'_, Self>) -> Option<Attempts>;

    /// Puts attempts on record, or none.
    fn note_attempts(pass: &mut Pass<'_, Self>, attempts: Option<Attempts>);

    /// True if TaskManagers follow when a running job asks for more slots, or fewer.
    fn has_elastic_slots(pass: &Pass<'_, Self>) -> bool;

    /// The generation of the spec that Flink was asked to scale to. A second try would meet the
    /// same refusal.
    fn scaled_to(pass: &Pass<'_, Self>) -> Option<i64>;

    /// Puts a generation on record as the one that Flink is asked to scale to, or none.
    fn note_scaling(pass: &mut Pass<'_, Self>, generation: Option<i64>);

    /// Does what there is to do while no change of the spec is carried out.
    fn maintain(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
    ) -> Result<PlanOf<Self>, Halt>;
}

/// How a pass ends.
pub(super) type End<K = FlinkDeployment> = Result<PlanOf<K>, Halt>;

/// A plan, or nothing where a rule does not apply and the next one does.
pub(super) type Maybe<K = FlinkDeployment> = Result<Option<PlanOf<K>>, Halt>;

/// How a kind of resource is observed, and how the rules of its phases are carried out.
pub(super) trait Lifecycle: Kind {
    /// A deletion begins, or goes on.
    fn enter_deletion(pass: &mut Pass<'_, Self>, begins: bool) -> Result<(), Halt>;

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

    /// The outcome of the stop where nobody can be asked.
    fn unanswered_stop(_pass: &Pass<'_, Self>) -> Option<StopOutcome> {
        None
    }

    /// Goes on without an answer to the stop, or to the cancellation, where it is waited for no longer.
    fn continue_without_answer(
        _pass: &mut Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
    ) -> Maybe<Self> {
        Ok(None)
    }

    /// Nobody knows any more whether the job was stopped.
    fn note_lost_stop(_pass: &mut Pass<'_, Self>) {}

    /// The job has ended with its savepoint on record.
    fn stopped(pass: &mut Pass<'_, Self>) -> End<Self>;

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
    ) -> Result<(), Halt> {
        Ok(())
    }

    /// The spec is in place: keeps it running, or rolls it back.
    fn maintain_or_roll_back(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>)
    -> End<Self>;

    /// After a rollback: the wanted spec is the one that runs.
    fn return_to_stable(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> Maybe<Self>;

    /// Refuses a spec of a version that no cluster is started for any more.
    fn refuse_version(_pass: &Pass<'_, Self>) -> Result<(), Halt> {
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
    ) -> Result<HighAvailability, Halt> {
        Ok(HighAvailability::Off)
    }

    /// Refuses an edit that a suspended job could not start with.
    fn refuse_edit_of_suspended(
        _pass: &Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
    ) -> Result<(), Halt> {
        Ok(())
    }
}
