//! A submission with an unknown outcome: the operator ended, or no answer came, and Flink may still be working on it,
//! because `main()` runs in the JobManager.
//!
//! Each id is for one submission, so that what runs under it is what is on record. The same submission may be repeated
//! at any time: Flink accepts an id only once. Anything else waits until the job is listed, until Flink has refused it,
//! or for `kubernetes.operator.job.submission.timeout`. The next submission has another id, and a job that appears
//! after that is recognised by its id as an additional one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::world::Arrival;
use super::{Maybe, Pass};
use crate::blocker::give_up_at;
use crate::error_document::reason_of;
use crate::job;
use crate::pauses::SOON;
use crate::problem::Halt;
use crate::wait::Awaited;
use api::job::JobState;
use api::reconciled::ReconciledJob;
use api::status::{JobStatusState, ReconciliationState};
use config::{duration, options};
use state::restore_point::RestorePoint;

/// Machine-readable reason of an error that says that the submission on record cannot result in a job.
pub(super) const NOT_SUBMITTED: &str = "NotSubmitted";
/// Default of `kubernetes.operator.job.submission.timeout` if the configuration cannot be read.
const PATIENCE: Duration = Duration::from_mins(10);

/// Flink's default of `jobstore.expiration-time`, the longest time to look back.
const ENDED_JOB_LISTED_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Kubernetes reports the start of a container in whole seconds, and its JobManager answers no sooner than one more
/// second later.
pub(super) const START_PRECISION: SignedDuration = SignedDuration::from_secs(1);

/// Returns true if the reported error says that the submission on record cannot result in a job.
pub(super) fn is_not_submitted(error: Option<&str>) -> bool {
    reason_of(error.unwrap_or_default()).as_deref() == Some(NOT_SUBMITTED)
}

impl Pass<'_> {
    /// Returns true if a submission was begun whose outcome is not in the status.
    pub(super) fn is_submission_open(&self) -> bool {
        let is_under_way = matches!(
            self.status.reconciliation_status.state,
            ReconciliationState::Upgrading | ReconciliationState::RollingBack
        );
        is_under_way
            && self.status.job_status.state == Some(JobStatusState::Reconciling)
            && job::id(&self.status.job_status).is_some()
            && self.last.as_ref().is_none_or(|last| last.job_state() == JobState::Suspended)
    }

    /// Returns the submission on record if it may still result in a job.
    pub(super) fn may_arrive(&self) -> Option<Arrival> {
        if !self.is_submission_open() {
            return None;
        }
        let id = self.status.job_status.job_id.as_ref();
        let failed = self.world.remembered.failed_submission.as_ref();
        if let Some(failed) = failed.filter(|failed| Some(&failed.job_id) == id) {
            return failed.may_arrive;
        }
        // The next attempt removes the error from the status before it is made.
        let since = self.state_since();
        (!is_not_submitted(self.world.status.error.as_deref()))
            .then_some(Arrival { began: since, ended: since })
    }

    /// Returns until when the submission on record may result in a job; `None` if it no longer can.
    pub(super) fn may_arrive_until(&self) -> Option<Timestamp> {
        let Arrival { ended: since, .. } = self.may_arrive()?;
        let config = self.config_or_defaults();
        let patience = config.get(&options::JOB_SUBMISSION_TIMEOUT).unwrap_or(PATIENCE);
        let metadata = &self.world.resource.metadata;
        let until = give_up_at(metadata, Some(since), patience, self.world.now);
        (self.world.now < until).then_some(until)
    }

    /// Returns why the job of the submission on record may have run although it is not listed. A JobManager forgets a
    /// job some time after its end, and all jobs when it is restarted; with high availability, it then knows the
    /// unfinished ones.
    pub(super) fn why_unknown(&self) -> Result<Option<String>, Halt> {
        let Some(Arrival { began: since, .. }) = self.may_arrive() else { return Ok(None) };
        if self.is_stateless_for_certain() {
            return Ok(None);
        }
        if self.world.now.duration_since(since) > self.ended_job_listed()? {
            let why = "Flink forgets a job that has ended after `jobstore.expiration-time`, or \
                       when there are more than `jobstore.max-capacity` of them";
            return Ok(Some(why.to_owned()));
        }
        let start = self.world.job_manager_start()?.map_err(|reason| {
            Halt::cannot(format!(
                "could not determine whether job {} was submitted, nor when the JobManager was \
                 started: {reason}",
                self.status.job_status.job_id.as_deref().unwrap_or_default()
            ))
        })?;
        Ok((*start + START_PRECISION > since)
            .then(|| format!("its JobManager was started after that, at {start}")))
    }

    /// Returns the minimum time for which the cluster lists a job that has ended.
    fn ended_job_listed(&self) -> Result<SignedDuration, Halt> {
        let config = self.observe_config()?;
        if config.get_text("jobstore.max-capacity").is_some() {
            return Ok(SignedDuration::ZERO);
        }
        let Some(text) = config.get_text("jobstore.expiration-time") else {
            return Ok(ENDED_JOB_LISTED_MAX);
        };
        // A plain number is in seconds.
        let text = text.trim();
        let seconds = text.parse().ok().map(Duration::from_secs);
        let stated = seconds.or_else(|| duration::parse(text)).unwrap_or_default();
        let stated = SignedDuration::try_from(stated).unwrap_or(SignedDuration::MAX);
        Ok(stated.min(ENDED_JOB_LISTED_MAX))
    }

    /// Waits for the outcome of the submission on record, unless it is the desired one.
    pub(super) fn settle_submission(&mut self) -> Maybe {
        if !self.is_submission_open() || self.is_submission_wanted()? {
            return Ok(None);
        }
        let Some(until) = self.may_arrive_until() else {
            // It did not result in a job, and its id must not be reused for another one.
            self.status.job_status.job_id = None;
            return Ok(None);
        };
        let because = format!(
            "it is unknown whether job {} was submitted: the desired spec waits until the \
             session cluster lists it, but not longer than {until}",
            self.job_id()?
        );
        Ok(Some(self.wait_for(Awaited::Submission, because, SOON)))
    }

    /// Returns true if the next start would repeat the submission on record.
    fn is_submission_wanted(&self) -> Result<bool, Halt> {
        let recorded = &self.world.status.reconciliation_status.last_reconciled_spec;
        let recorded = recorded.as_deref().and_then(|text| ReconciledJob::parse(text).ok());
        let Some(recorded) = recorded.filter(|_| self.desired_state() == JobState::Running) else {
            return Ok(false);
        };
        let is_first = recorded.is_first_deployment();
        let restore =
            if is_first { self.first_restore_point() } else { self.next_restore_point(&recorded)? };
        let wanted = self.stored(JobState::Suspended, restore.upgrade_mode(), is_first);
        let mut reconciliation = self.status.reconciliation_status.clone();
        let wanted = job::store(&mut reconciliation, Some(&recorded), wanted);
        let path = match restore {
            RestorePoint::Path(path) => Some(path),
            RestorePoint::Empty | RestorePoint::HaMetadata => None,
        };
        Ok(path == self.status.job_status.upgrade_savepoint_path && wanted.says_the_same(&recorded))
    }
}
