//! Decides whether a job may be measured and scaled now.

use api::job::{JobSpec, JobState};
use api::status::{
    JobStatus, JobStatusState, LifecycleState, ReconciliationState, ReconciliationStatus,
};

/// The parts of a resource that decide about its eligibility.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// From the spec.
    pub job: Option<&'a JobSpec>,
    pub status: &'a JobStatus,
    pub reconciliation: &'a ReconciliationStatus,
    pub lifecycle: Option<LifecycleState>,
    pub observed_generation: Option<i64>,
    pub generation: i64,
    pub is_deleting: bool,
    pub is_paused: bool,
}

/// The reason that a job is neither measured nor scaled now.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Ineligible {
    #[error("there is no job")]
    NoJob,
    #[error("the resource is being deleted")]
    Deleting,
    #[error("the resource is paused")]
    Paused,
    #[error("the job is suspended, or about to be")]
    Suspended,
    #[error("the spec is not deployed yet")]
    NotReconciled,
    #[error("an upgrade or a rollback is under way, or the job was rolled back")]
    Moving,
    #[error("the job is not RUNNING")]
    NotRunning,
    #[error("the deployed spec is not stable yet")]
    NotStable,
}

/// Returns the id of the job to measure.
///
/// # Errors
/// Why it is not measured.
pub fn job_to_measure<'a>(candidate: &Candidate<'a>) -> Result<&'a str, Ineligible> {
    let Candidate { job, status, reconciliation, lifecycle, .. } = *candidate;
    let Some(job) = job else { return Err(Ineligible::NoJob) };
    if candidate.is_deleting {
        return Err(Ineligible::Deleting);
    }
    if candidate.is_paused {
        return Err(Ineligible::Paused);
    }
    if job.state == JobState::Suspended {
        return Err(Ineligible::Suspended);
    }
    let has_spec = reconciliation.last_reconciled_spec.is_some();
    if !has_spec || candidate.observed_generation != Some(candidate.generation) {
        return Err(Ineligible::NotReconciled);
    }
    if reconciliation.state != ReconciliationState::Deployed {
        return Err(Ineligible::Moving);
    }
    let id = status.job_id.as_deref().filter(|_| status.state == Some(JobStatusState::Running));
    let Some(id) = id else { return Err(Ineligible::NotRunning) };
    if lifecycle == Some(LifecycleState::Stable) { Ok(id) } else { Err(Ineligible::NotStable) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a measurable job after the change.
    fn check(
        change: impl FnOnce(&mut JobSpec, &mut JobStatus, &mut ReconciliationStatus),
    ) -> Option<Ineligible> {
        let (mut job, mut status) = (JobSpec::default(), JobStatus::default());
        status.job_id = Some("j".to_owned());
        status.state = Some(JobStatusState::Running);
        let mut reconciliation = ReconciliationStatus {
            last_reconciled_spec: Some("{}".to_owned()),
            state: ReconciliationState::Deployed,
            ..ReconciliationStatus::default()
        };
        change(&mut job, &mut status, &mut reconciliation);
        job_to_measure(&candidate(&job, &status, &reconciliation)).err()
    }

    fn candidate<'a>(
        job: &'a JobSpec,
        status: &'a JobStatus,
        reconciliation: &'a ReconciliationStatus,
    ) -> Candidate<'a> {
        Candidate {
            job: Some(job),
            status,
            reconciliation,
            lifecycle: Some(LifecycleState::Stable),
            observed_generation: Some(2),
            generation: 2,
            is_deleting: false,
            is_paused: false,
        }
    }

    #[test]
    fn a_stable_job_that_runs_is_measured() {
        assert_eq!(check(|_, _, _| {}), None);
    }

    #[test]
    fn a_job_that_moves_is_left_alone() {
        assert_eq!(check(|job, _, _| job.state = JobState::Suspended), Some(Ineligible::Suspended));
        for state in [
            ReconciliationState::Upgrading,
            ReconciliationState::RollingBack,
            ReconciliationState::RolledBack,
        ] {
            assert_eq!(check(|_, _, of| of.state = state), Some(Ineligible::Moving));
        }
        for state in [
            JobStatusState::Created,
            JobStatusState::Restarting,
            JobStatusState::Reconciling,
            JobStatusState::Finished,
        ] {
            assert_eq!(
                check(|_, status, _| status.state = Some(state)),
                Some(Ineligible::NotRunning)
            );
        }
        assert_eq!(
            check(|_, _, of| of.last_reconciled_spec = None),
            Some(Ineligible::NotReconciled)
        );
    }

    #[test]
    fn a_spec_that_is_new_or_unproven_comes_first() {
        let (job, status) = (JobSpec::default(), JobStatus::default());
        let reconciliation = ReconciliationStatus {
            last_reconciled_spec: Some("{}".to_owned()),
            state: ReconciliationState::Deployed,
            ..ReconciliationStatus::default()
        };
        let mut status = status;
        (status.job_id, status.state) = (Some("j".to_owned()), Some(JobStatusState::Running));
        let candidate = candidate(&job, &status, &reconciliation);
        let hold = |candidate| job_to_measure(&candidate).err();
        assert_eq!(hold(Candidate { generation: 3, ..candidate }), Some(Ineligible::NotReconciled));
        assert_eq!(hold(Candidate { is_deleting: true, ..candidate }), Some(Ineligible::Deleting));
        assert_eq!(hold(Candidate { is_paused: true, ..candidate }), Some(Ineligible::Paused));
        assert_eq!(hold(Candidate { job: None, ..candidate }), Some(Ineligible::NoJob));
        let lifecycle = Some(LifecycleState::Deployed);
        assert_eq!(hold(Candidate { lifecycle, ..candidate }), Some(Ineligible::NotStable));
    }
}
