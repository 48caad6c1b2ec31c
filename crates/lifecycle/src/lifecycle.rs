//! The lifecycle state and the `Running` condition, both derived from the rest of the status.

use jiff::Timestamp;

use super::conditions::condition;
use super::error_document::refusals::asks_for_state;
use super::memo::Memo;
use super::resource::StatusOfJob;
use api::job::JobState;
use api::reconciled::StoredSpec;
use api::status::{
    Condition, DeploymentStatus, JobManagerDeploymentStatus, JobStatusState, LifecycleState,
    ReconciliationState,
};

/// Returns the lifecycle state implied by the other fields; the first matching rule decides. Unlike in the Java
/// operator, it is `FAILED` if nothing changes until someone chooses the state to restore.
pub(super) fn lifecycle_state<C, S: StoredSpec>(
    status: &impl StatusOfJob,
    memo: &Memo<C, S>,
    needs_a_person: bool,
) -> LifecycleState {
    if let Some(state @ (LifecycleState::Deleting | LifecycleState::Deleted)) =
        status.lifecycle_state()
    {
        return state;
    }
    let reconciliation = status.reconciliation();
    let Some(last_reconciled) = &reconciliation.last_reconciled_spec else {
        let has_error = status.error().is_some();
        return if has_error { LifecycleState::Failed } else { LifecycleState::Created };
    };
    match reconciliation.state {
        ReconciliationState::Upgrading => return LifecycleState::Upgrading,
        ReconciliationState::RollingBack => return LifecycleState::RollingBack,
        ReconciliationState::Deployed | ReconciliationState::RolledBack => {}
    }
    let is_suspended = memo
        .parse(last_reconciled)
        .is_ok_and(|reconciled| reconciled.job_state() == JobState::Suspended);
    if is_suspended {
        return LifecycleState::Suspended;
    }
    if status.job().state == Some(JobStatusState::Failed) || needs_a_person {
        return LifecycleState::Failed;
    }
    if reconciliation.state == ReconciliationState::RolledBack {
        return LifecycleState::RolledBack;
    }
    match &reconciliation.last_stable_spec {
        Some(stable) if memo.is_same(stable, last_reconciled) => LifecycleState::Stable,
        Some(_) | None => LifecycleState::Deployed,
    }
}

/// Returns true if nothing of the cluster runs, and nothing will until someone chooses the state to restore.
pub(super) fn needs_a_person(status: &DeploymentStatus) -> bool {
    let is_gone = matches!(
        status.job_manager_deployment_status,
        JobManagerDeploymentStatus::Missing | JobManagerDeploymentStatus::Error
    );
    let error = status.error.as_deref().unwrap_or_default();
    is_gone && asks_for_state(error)
}

/// Returns the Java operator's only condition, `Running`, from the rest of the status and the previous conditions. Its
/// transition time is kept while True or False stays.
pub fn running_condition(
    status: &DeploymentStatus,
    before: &[Condition],
    is_application: bool,
    now: Timestamp,
) -> Option<Condition> {
    let (is_true, reason, message) = if is_application {
        let state = status.job_status.state?;
        let message = format!("Job status {}", state.into_str());
        (state == JobStatusState::Running, capitalised(state.into_str()), message)
    } else {
        let (reason, message) = match status.job_manager_deployment_status {
            JobManagerDeploymentStatus::Ready => {
                ("JobManagerReady", "JobManager is running and ready to receive REST API calls")
            }
            JobManagerDeploymentStatus::DeployedNotReady => (
                "DeployedNotReady",
                "JobManager is running but not ready yet to receive REST API calls",
            ),
            JobManagerDeploymentStatus::Deploying => {
                ("JobManagerIsDeploying", "JobManager process is starting up")
            }
            JobManagerDeploymentStatus::Missing => {
                ("JobManagerDeploymentMissing", "JobManager deployment not found")
            }
            JobManagerDeploymentStatus::Error => ("Error", "JobManager deployment failed"),
        };
        let is_ready = status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        (is_ready, reason.to_owned(), message.to_owned())
    };
    let text = if is_true { "True" } else { "False" };
    let told = (reason.as_str(), message.as_str());
    Some(condition(before, None, ("Running", text), told, now))
}

/// Converts `RECONCILING` to `Reconciling`.
fn capitalised(state: &str) -> String {
    let mut letters = state.chars();
    letters.next().map_or_else(String::new, |first| {
        std::iter::once(first).chain(letters.map(|c| c.to_ascii_lowercase())).collect()
    })
}
