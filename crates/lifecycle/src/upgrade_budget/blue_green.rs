//! How far a blue/green transition is. It is one upgrade, although it starts a second cluster beside the first.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Progress, Record};
use crate::conditions::{ReportedWait, of_type};
use crate::paused::PAUSED;
use api::blue_green::{
    ABORTED, BlueGreenState as State, BlueGreenStatus, PROGRESSING, ROLLED_BACK, SAVEPOINT_FAILED,
    SERVING,
};
use api::status::JobStatusState;

impl Record {
    pub fn of_blue_green(metadata: &ObjectMeta, status: &BlueGreenStatus) -> Self {
        let told = ReportedWait::of(&status.conditions);
        let standing = match status.blue_green_state {
            _ if metadata.deletion_timestamp.is_some() => Progress::Idle,
            // It has not begun.
            Some(State::ActiveBlue | State::ActiveGreen) if told.is_some() => Progress::Idle,
            Some(State::ActiveBlue | State::ActiveGreen) => at_rest(status),
            Some(
                State::SavepointingBlue
                | State::SavepointingGreen
                | State::TransitioningToBlue
                | State::TransitioningToGreen,
            ) => in_transition(status),
            Some(State::InitializingBlue) | None => Progress::Idle,
        };
        Self { standing, told }
    }
}

/// Returns the standing between two transitions. A change in place is an upgrade of the child.
fn at_rest(status: &BlueGreenStatus) -> Progress {
    let progress = of_type(&status.conditions, PROGRESSING);
    let reason = progress.and_then(|progress| progress.reason.as_deref()).unwrap_or_default();
    match status.job_status.state {
        Some(JobStatusState::Failing)
            if [ABORTED, ROLLED_BACK, SAVEPOINT_FAILED].contains(&reason) =>
        {
            Progress::Failed
        }
        Some(JobStatusState::Running) if status.error.is_none() => Progress::Stable,
        _ => Progress::Idle,
    }
}

fn in_transition(status: &BlueGreenStatus) -> Progress {
    let has = |type_: &str| of_type(&status.conditions, type_);
    // The Java operator writes no conditions.
    let is_serving = has(SERVING).is_none_or(|it| it.status.as_deref() == Some("True"));
    // These wait for others, and nothing else ends them.
    let is_held_up = status.error.is_some() || has(PAUSED).is_some();
    if !is_serving {
        Progress::Starting
    } else if is_held_up || status.is_decided() {
        Progress::UnderWay
    } else {
        Progress::Preparing
    }
}
