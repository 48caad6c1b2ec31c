//! Stores a status as a pass does, and checks that its phase may follow the previous one.

use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::session_job::SessionJobStatus;
use api::status::DeploymentStatus;
use lifecycle::phase::Phase;

pub(crate) fn store_deployment(stored: &mut DeploymentStatus, next: DeploymentStatus) {
    assert_follows(Phase::of::<FlinkDeployment>(stored), Phase::of::<FlinkDeployment>(&next));
    *stored = next;
}

pub(crate) fn store_session_job(stored: &mut SessionJobStatus, next: SessionJobStatus) {
    assert_follows(Phase::of::<FlinkSessionJob>(stored), Phase::of::<FlinkSessionJob>(&next));
    *stored = next;
}

fn assert_follows(before: Phase, after: Phase) {
    assert!(before.may_lead_to(after), "a pass led from {before:?} to {after:?}");
}
