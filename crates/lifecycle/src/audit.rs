//! Lines of the audit log in the Java operator's format: state changes of a resource, and every event about it. The log
//! hides secrets in all of its lines.

use super::error_document::message_of;
use super::event::{Component, Event};
use super::resource::StatusOfJob;
use api::blue_green::BlueGreenStatus;
use api::state_snapshot::StateSnapshotStatus;
use api::status::LifecycleState;
use config::secret::hide_in;

/// Returns the line for a written status, or `None` if the lifecycle state is unchanged.
pub fn of_job<S: StatusOfJob>(previous: &S, current: &S) -> Option<String> {
    if current.lifecycle_state() == previous.lifecycle_state() {
        return None;
    }
    let state = current.lifecycle_state().unwrap_or(LifecycleState::Created);
    let (level, text) = match current.error() {
        Some(error) => ("Error", message_of(error)),
        None => ("Info", description(state).to_owned()),
    };
    Some(line("Status[Job]", level, state.into_str(), &text))
}

/// Returns the line for a snapshot's status. Every change is logged.
pub fn of_snapshot(status: &StateSnapshotStatus) -> String {
    let StateSnapshotStatus { state, error, path, .. } = status;
    let text = error.as_deref().map(message_of).or_else(|| path.clone()).unwrap_or_default();
    line(
        "Status[Snapshot]",
        if error.is_some() { "Error" } else { "Info" },
        state.into_str(),
        &text,
    )
}

/// Returns the line for a blue/green deployment's status, or `None` if its state and error are unchanged.
pub fn of_blue_green(previous: &BlueGreenStatus, current: &BlueGreenStatus) -> Option<String> {
    if previous.blue_green_state == current.blue_green_state && previous.error == current.error {
        return None;
    }
    let state = current.blue_green_state.map_or("", |state| state.into_str());
    let level = if current.error.is_some() { "Error" } else { "Info" };
    Some(line("Status[BlueGreen]", level, state, current.error.as_deref().unwrap_or_default()))
}

/// Returns the line for a resource of this kind whose cleanup is done and whose finalizer is removed.
pub fn of_release(kind: &str) -> String {
    let what = match kind {
        "FlinkStateSnapshot" => "Status[Snapshot]",
        "FlinkBlueGreenDeployment" => "Status[BlueGreen]",
        _ => "Status[Job]",
    };
    let state = LifecycleState::Deleted;
    line(what, "Info", state.into_str(), description(state))
}

/// Returns the line for a recorded event.
pub fn of_event(event: &Event) -> String {
    let Event { is_warning, reason, component, message, key: _, annotations: _ } = event;
    let what = match component {
        Component::Snapshot => "Event[Snapshot]",
        Component::Operator | Component::JobManagerDeployment | Component::Job => "Event[Job]",
    };
    let level = if *is_warning { "Warning" } else { "Info" };
    line(what, level, &reason.to_uppercase(), message)
}

/// Formats a single line, whatever the text contains.
fn line(what: &str, level: &str, state: &str, text: &str) -> String {
    // Before its lines are joined, because a private key on a single line is not recognised.
    let text = hide_in(text).replace(['\n', '\r'], " ");
    format!(">>> {what:<16} | {level:<7} | {state:<15} | {text}")
}

fn description(state: LifecycleState) -> &'static str {
    match state {
        LifecycleState::Created => "The resource was created and not yet handled by the operator",
        LifecycleState::Suspended => "The resource (job) has been suspended",
        LifecycleState::Upgrading => "The resource is being upgraded",
        LifecycleState::Deployed => {
            "The resource is deployed, but not yet considered to be stable: it might be rolled back"
        }
        LifecycleState::Stable => {
            "The deployment is considered to be stable and is not rolled back"
        }
        LifecycleState::RollingBack => "The resource is being rolled back to the last stable spec",
        LifecycleState::RolledBack => "The resource is deployed with the last stable spec",
        LifecycleState::Failed => "The job terminally failed",
        LifecycleState::Deleting => "The resource is being deleted",
        LifecycleState::Deleted => "The resource has been deleted",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use api::state_snapshot::SnapshotState;
    use api::status::DeploymentStatus;

    fn status(state: LifecycleState, error: Option<&str>) -> DeploymentStatus {
        let error = error.map(str::to_owned);
        DeploymentStatus { lifecycle_state: Some(state), error, ..DeploymentStatus::default() }
    }

    #[test]
    fn lines_have_the_columns_of_the_java_operator() {
        let none = DeploymentStatus::default();
        let document = r#"{"type":"X","message":"no bucket: orders\nat Y"}"#;
        let snapshot = StateSnapshotStatus {
            state: SnapshotState::Completed,
            path: Some("s3://lake/savepoint-1".to_owned()),
            ..StateSnapshotStatus::default()
        };
        let lines = [
            of_job(&none, &status(LifecycleState::Stable, None)).unwrap(),
            of_job(&none, &status(LifecycleState::Failed, Some(document))).unwrap(),
            of_snapshot(&snapshot),
            of_event(&Event::warning("SpecChanged", Component::Job, "x\ny")),
            of_event(&Event::warning("SnapshotError", Component::Snapshot, "")),
            of_release("FlinkDeployment"),
            of_release("FlinkBlueGreenDeployment"),
        ];
        expect![[r#"
            >>> Status[Job]      | Info    | STABLE          | The deployment is considered to be stable and is not rolled back
            >>> Status[Job]      | Error   | FAILED          | no bucket: orders at Y
            >>> Status[Snapshot] | Info    | COMPLETED       | s3://lake/savepoint-1
            >>> Event[Job]       | Warning | SPECCHANGED     | x y
            >>> Event[Snapshot]  | Warning | SNAPSHOTERROR   | 
            >>> Status[Job]      | Info    | DELETED         | The resource has been deleted
            >>> Status[BlueGreen] | Info    | DELETED         | The resource has been deleted"#]].assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_state_that_stays_is_not_reported_again() {
        let before = status(LifecycleState::Stable, None);
        let now = status(LifecycleState::Stable, Some("restarts"));
        assert_eq!(of_job(&before, &now), None);
    }
}
