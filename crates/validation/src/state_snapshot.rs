//! Rules S1 to S3, for a `FlinkStateSnapshot`.

use api::state_snapshot::{FlinkStateSnapshotSpec, JobKind, JobReference, SnapshotState};

use super::{Finding, Rule, Violation};

/// Input for the validation of a `FlinkStateSnapshot`.
#[derive(Clone, Copy, Debug)]
pub struct StateSnapshotInput<'a> {
    pub spec: &'a FlinkStateSnapshotSpec,
    /// `None` before it was first reconciled.
    pub state: Option<SnapshotState>,
    /// Whether the job that `jobReference` names exists; false if it names none.
    pub has_target: bool,
}

/// Returns all violations of a `FlinkStateSnapshot`.
pub fn validate(input: &StateSnapshotInput<'_>) -> Vec<Violation> {
    find(input).into_iter().map(|finding| finding.violation).collect()
}

/// Like [`validate`], each with its rule.
pub fn find(input: &StateSnapshotInput<'_>) -> Vec<Finding> {
    let StateSnapshotInput { spec, state, has_target } = input;
    let mut violations = Vec::new();
    if spec.savepoint.is_some() == spec.checkpoint.is_some() {
        violations.push(
            Rule::SnapshotKind
                .found("spec", "exactly one of `savepoint` and `checkpoint` must be set"),
        );
    }
    let is_record = spec.savepoint.as_ref().is_some_and(|s| s.already_exists == Some(true));
    if is_record {
        return violations;
    }
    let Some(JobReference { kind, name }) = &spec.job_reference else {
        violations.push(Rule::SnapshotJob.found(
            "spec.jobReference",
            "must be set to the `kind` and `name` of a job in this namespace",
        ));
        return violations;
    };
    // A completed snapshot may outlive its job.
    let is_new = matches!(state, None | Some(SnapshotState::TriggerPending));
    if is_new && !has_target {
        violations
            .push(Rule::SnapshotJob.found("spec.jobReference", absent(*kind, name.as_deref())));
    }
    violations
}

fn absent(kind: Option<JobKind>, name: Option<&str>) -> String {
    let (Some(kind), Some(name)) = (kind, name) else {
        return "needs both `kind` (`FlinkDeployment` or `FlinkSessionJob`) and `name`".to_owned();
    };
    let kind = kind.into_str();
    format!("there is no {kind} `{name}` in this namespace: create it first, or correct the name")
}

#[cfg(test)]
mod tests;
