//! Differences between the kinds of resources that have a job: where they get the facts for decisions ([`Kind`]), and
//! how they carry out the rules of their phases ([`Lifecycle`]).

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

/// Where a kind of resource gets the facts for its decisions.
pub(super) trait Kind: JobResource {
    /// Facts that only passes over this kind collect.
    type Own: Default;

    /// Returns the configuration used to observe the running job.
    fn observe_config(pass: &Pass<'_, Self>) -> Result<Arc<FlinkConfig>, Halt>;

    /// Called when a spec was stored whose job is in this state, or about to be.
    fn spec_stored(_pass: &mut Pass<'_, Self>, _state: JobState) {}

    /// Ends what the plan no longer needs.
    fn tidy(_pass: &mut Pass<'_, Self>) {}

    /// Updates what derives from the rest of the status.
    fn settle(pass: &mut Pass<'_, Self>);

    /// Returns how the job was lost, as found by this pass or on record.
    fn lost(_pass: &Pass<'_, Self>) -> Option<LostJob> {
        None
    }

    /// Returns true if the cause of the stored error is gone.
    fn has_recovered(pass: &Pass<'_, Self>) -> bool;

    /// Returns true if nothing runs until the decision can continue, and that has been so for long.
    fn is_held_up(_pass: &Pass<'_, Self>) -> bool {
        false
    }

    /// Records the state that a job leaves when it ends, while its JobManager knows it.
    fn record_end(pass: &mut Pass<'_, Self>, job: &Job) -> Result<(), Halt>;

    /// Records that the job ended on request: the stored spec no longer runs.
    fn note_stopped(pass: &mut Pass<'_, Self>);

    /// Returns true if the JobManager accepts requests.
    fn is_answering(pass: &Pass<'_, Self>) -> bool;

    /// Returns true if the current or last job will not answer for its snapshots any more.
    fn is_job_over(pass: &Pass<'_, Self>) -> bool;

    /// Returns true if a cancellation would meet a job of this id that has not ended, or might because that is unknown;
    /// false if there is no JobManager.
    fn may_be_cancelled(pass: &Pass<'_, Self>, job_id: &str) -> Result<bool, Halt>;

    /// Returns the Flink version that the job runs on.
    fn flink_version(pass: &Pass<'_, Self>) -> Option<FlinkVersion>;

    /// Returns the configuration that `spec` is submitted with.
    fn submit_config(pass: &Pass<'_, Self>, spec: &Self::Spec) -> Result<Arc<FlinkConfig>, Halt>;

    fn changes(last: &Self::Spec, wanted: &Self::Spec) -> SpecDiff;

    /// Returns true if the two specs are for different Flink versions.
    fn is_version_changed(_one: &Self::Spec, _other: &Self::Spec) -> bool {
        false
    }

    /// Returns the recorded attempts to start the job again, of any generation.
    fn attempts(pass: &Pass<'_, Self>) -> Option<Attempts>;

    /// Records the attempts, or clears them.
    fn note_attempts(pass: &mut Pass<'_, Self>, attempts: Option<Attempts>);

    /// Returns true if the number of TaskManagers follows the slots that a running job requests.
    fn has_elastic_slots(pass: &Pass<'_, Self>) -> bool;

    /// Returns the generation of the spec that Flink was asked to scale to. A second attempt would meet the same
    /// refusal.
    fn scaled_to(pass: &Pass<'_, Self>) -> Option<i64>;

    /// Records the generation that Flink is asked to scale to, or clears it.
    fn note_scaling(pass: &mut Pass<'_, Self>, generation: Option<i64>);

    /// Does the maintenance while no change of the spec is carried out.
    fn maintain(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
    ) -> Result<PlanOf<Self>, Halt>;
}

/// How a pass ends.
pub(super) type End<K = FlinkDeployment> = Result<PlanOf<K>, Halt>;

/// A plan, or `None` if a rule does not apply and the next one does.
pub(super) type Maybe<K = FlinkDeployment> = Result<Option<PlanOf<K>>, Halt>;

/// How a kind of resource is observed, and how the rules of its phases are carried out.
pub(super) trait Lifecycle: Kind {
    /// Begins or continues a deletion.
    fn enter_deletion(pass: &mut Pass<'_, Self>, begins: bool) -> Result<(), Halt>;

    fn delete(pass: &mut Pass<'_, Self>) -> End<Self>;

    /// Returns the problem of a record that cannot be read for this reason.
    fn unreadable(reason: &str) -> Problem;

    /// Updates the status from what was observed.
    fn observe(pass: &mut Pass<'_, Self>) -> Maybe<Self>;

    /// Validates the spec. One that is invalid, or not validated yet, is not carried out: the last good one stays in
    /// force. If there is none, the pass ends.
    fn validate(pass: &mut Pass<'_, Self>) -> Maybe<Self>;

    /// Refuses to continue, or waits, in any phase if the record does not say what runs.
    fn settle_record(pass: &mut Pass<'_, Self>) -> Maybe<Self>;

    /// Starts the job for the first time.
    fn deploy(pass: &mut Pass<'_, Self>) -> End<Self>;

    /// Returns the outcome of the stop if no one can be asked.
    fn unanswered_stop(_pass: &Pass<'_, Self>) -> Option<StopOutcome> {
        None
    }

    /// Continues without an answer to the stop or the cancellation, once the wait for it is over.
    fn continue_without_answer(
        _pass: &mut Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
    ) -> Maybe<Self> {
        Ok(None)
    }

    /// Records that it can no longer be known whether the job was stopped.
    fn note_lost_stop(_pass: &mut Pass<'_, Self>) {}

    /// Continues after the job ended with its savepoint on record.
    fn stopped(pass: &mut Pass<'_, Self>) -> End<Self>;

    /// Starts the stored spec, with the user's later changes, or leaves it suspended.
    fn start(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> End<Self>;

    fn continue_rollback(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        diff: &SpecDiff,
    ) -> End<Self>;

    /// Creates what is missing of a cluster whose JobManager was created.
    fn finish_start(
        _pass: &mut Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
        _diff: &SpecDiff,
    ) -> Maybe<Self> {
        Ok(None)
    }

    /// Carries out changes that need no restart if there are no others.
    fn apply_ignored(
        _pass: &mut Pass<'_, Self>,
        _last: &Reconciled<Self::Spec>,
        _diff: &SpecDiff,
    ) -> Result<(), Halt> {
        Ok(())
    }

    /// Keeps the spec that is in place running, or rolls it back.
    fn maintain_or_roll_back(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>)
    -> End<Self>;

    /// After a rollback, accepts a desired spec that is the one running.
    fn return_to_stable(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>) -> Maybe<Self>;

    /// Refuses a spec with a Flink version for which clusters are no longer started.
    fn refuse_version(_pass: &Pass<'_, Self>) -> Result<(), Halt> {
        Ok(())
    }

    /// Changes the parallelism without a restart.
    fn scale(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        diff: &SpecDiff,
    ) -> Maybe<Self>;

    /// Drops the current or last job in favour of the state that the user names.
    fn redeploy(
        pass: &mut Pass<'_, Self>,
        last: &Reconciled<Self::Spec>,
        diff: &SpecDiff,
    ) -> End<Self>;

    /// Stops what runs, for its successor or to be suspended.
    fn stop(pass: &mut Pass<'_, Self>, last: &Reconciled<Self::Spec>, diff: &SpecDiff)
    -> End<Self>;

    /// Returns the high availability of `next`, with the HA metadata of the job of `last` that leads to its state.
    /// Session jobs have no HA metadata of their own.
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
