//! How far a blue/green transition is. It is one upgrade, although it starts a second cluster beside the first.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Record, Standing};
use crate::conditions::{Told, of_type};
use crate::paused::PAUSED;
use api::blue_green::{
    ABORTED, BlueGreenState as State, BlueGreenStatus, PROGRESSING, ROLLED_BACK, SAVEPOINT_FAILED,
    SERVING,
};
use api::status::JobStatusState;

impl Record {
    pub fn of_blue_green(metadata: &ObjectMeta, status: &BlueGreenStatus) -> Self {
        let told = Told::of(&status.conditions);
        let standing = match status.blue_green_state {
            _ if metadata.deletion_timestamp.is_some() => Standing::Idle,
            // It has not begun.
            Some(State::ActiveBlue | State::ActiveGreen) if told.is_some() => Standing::Idle,
            Some(State::ActiveBlue | State::ActiveGreen) => at_rest(status),
            Some(
                State::SavepointingBlue
                | State::SavepointingGreen
                | State::TransitioningToBlue
                | State::TransitioningToGreen,
            ) => in_transition(status),
            Some(State::InitializingBlue) | None => Standing::Idle,
        };
        Self { standing, told }
    }
}

/// Returns the standing between two transitions. A change in place is an upgrade of the child.
fn at_rest(status: &BlueGreenStatus) -> Standing {
    let progress = of_type(&status.conditions, PROGRESSING);
    let reason = progress.and_then(|progress| progress.reason.as_deref()).unwrap_or_default();
    match status.job_status.state {
        Some(JobStatusState::Failing)
            if [ABORTED, ROLLED_BACK, SAVEPOINT_FAILED].contains(&reason) =>
        {
            Standing::Failed
        }
        Some(JobStatusState::Running) if status.error.is_none() => Standing::Stable,
        _ => Standing::Idle,
    }
}

fn in_transition(status: &BlueGreenStatus) -> Standing {
    let has = |type_: &str| of_type(&status.conditions, type_);
    // The Java operator writes no conditions.
    let is_serving = has(SERVING).is_none_or(|it| it.status.as_deref() == Some("True"));
    // These wait for others, and nothing else ends them.
    let is_held_up = status.error.is_some() || has(PAUSED).is_some();
    if !is_serving {
        Standing::Starting
    } else if is_held_up || status.is_decided() {
        Standing::UnderWay
    } else {
        Standing::Preparing
    }
}
