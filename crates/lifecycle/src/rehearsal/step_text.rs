//! Steps in words: what a person reads before they are taken.

use serde::Serialize;

use crate::plan::{SnapshotStep, Step, Superseded};
use crate::session_job::plan as session_job;

/// One step that changes something beside a status.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepText {
    /// The step's name in the operator's log.
    pub step: &'static str,
    pub text: String,
}

impl StepText {
    fn new(step: &'static str, text: impl Into<String>) -> Self {
        Self { step, text: text.into() }
    }
}

/// Nothing for what only tells.
pub(super) fn of_deployment(step: &Step) -> Option<StepText> {
    Some(match step {
        Step::WriteStatus(_) | Step::Event(_) => return None,
        Step::AddFinalizer => StepText::new("add-finalizer", "mark the resource as operated"),
        Step::RemoveFinalizer => StepText::new("remove-finalizer", "let the resource go"),
        Step::RecordRevision(superseded) => of_revision(superseded),
        Step::Snapshot(step) => of_snapshot(step),
        Step::TriggerStop { directory, .. } => of_stop(directory.as_deref()),
        Step::CancelJob { is_best_effort, .. } => StepText::new(
            "cancel-job",
            if *is_best_effort {
                "cancel the job, if its JobManager answers"
            } else {
                "cancel the job; its checkpoint is kept"
            },
        ),
        Step::ScaleJob { bounds, .. } => of_scale(bounds.len()),
        Step::StopJobManager { .. } => {
            StepText::new("stop-job-manager", "end the JobManager, before its TaskManagers")
        }
        Step::DeleteJobManager { .. } => {
            StepText::new("delete-job-manager", "delete the JobManager and what it owns")
        }
        Step::DeleteTaskManagers { .. } => {
            StepText::new("delete-task-managers", "delete the TaskManagers' Deployment")
        }
        Step::ScaleTaskManagers { uid: _, replicas } => StepText::new(
            "scale-task-managers",
            format!("give the TaskManagers' Deployment {replicas} replicas"),
        ),
        Step::DeleteHaMetadata { .. } => {
            StepText::new("delete-ha-metadata", "delete the HA metadata of the former run")
        }
        Step::ForgetJobGraphs { .. } => StepText::new(
            "forget-job-graphs",
            "delete the stored job graphs, so that the new job is the one that starts",
        ),
        Step::CreateCluster(_) => {
            StepText::new("create-cluster", "create the JobManager and what belongs to it")
        }
        Step::FinishCluster(_) => {
            StepText::new("finish-cluster", "create what is missing beside the JobManager")
        }
        Step::ApplyIngress(Some(_)) => StepText::new("apply-ingress", "put the Ingress in place"),
        Step::ApplyIngress(None) => StepText::new("apply-ingress", "remove the Ingress"),
    })
}

pub(super) fn of_session_job(step: &session_job::Step) -> Option<StepText> {
    use session_job::Step;
    Some(match step {
        Step::WriteStatus(_) | Step::Event(_) | Step::Remember(_) => return None,
        Step::AddFinalizer => StepText::new("add-finalizer", "mark the resource as operated"),
        Step::RemoveFinalizer => StepText::new("remove-finalizer", "let the resource go"),
        Step::SetSessionLabel { cluster } => {
            StepText::new("set-label", format!("label the resource with its cluster `{cluster}`"))
        }
        Step::RecordRevision(superseded) => of_revision(superseded),
        Step::Snapshot(step) => of_snapshot(step),
        Step::ScaleJob { bounds, .. } => of_scale(bounds.len()),
        Step::TriggerStop { directory, .. } => of_stop(directory.as_deref()),
        Step::CancelJob { .. } => StepText::new("cancel-job", "cancel the job"),
        Step::Submit(submission) => StepText::new(
            "submit-job",
            match &submission.jar_uri {
                Some(uri) => format!("upload `{uri}` and submit the job"),
                None => "submit the job".to_owned(),
            },
        ),
    })
}

fn of_revision<S>(superseded: &Superseded<S>) -> StepText {
    StepText::new(
        "record-revision",
        format!(
            "keep the superseded spec in the history, with {}",
            superseded.restore_point.describe()
        ),
    )
}

fn of_snapshot(step: &SnapshotStep) -> StepText {
    let name = step.name();
    match step {
        SnapshotStep::Create(_) => StepText::new(name, "create a FlinkStateSnapshot"),
        SnapshotStep::Delete { name: object, .. } => {
            StepText::new(name, format!("delete the FlinkStateSnapshot `{object}`"))
        }
        SnapshotStep::Take(_) => StepText::new(name, "take a snapshot"),
        SnapshotStep::Dispose { path, .. } => StepText::new(name, format!("dispose of {path}")),
    }
}

fn of_stop(directory: Option<&str>) -> StepText {
    let to = directory.map_or(String::new(), |directory| format!(" in {directory}"));
    StepText::new("stop-with-savepoint", format!("stop the job with a savepoint{to}"))
}

fn of_scale(vertices: usize) -> StepText {
    StepText::new("scale-job", format!("scale {vertices} vertices of the running job in place"))
}
