//! Steps in words: what a person reads before they are taken.

use serde::Serialize;

use crate::plan::{SnapshotStep, Step, Superseded};
use crate::session_job::plan as session_job;

/// One step that changes something beside a status.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deed {
    /// The step's name in the operator's log.
    pub step: &'static str,
    pub text: String,
}

impl Deed {
    fn new(step: &'static str, text: impl Into<String>) -> Self {
        Self { step, text: text.into() }
    }
}

/// Nothing for what only tells.
pub(super) fn of_deployment(step: &Step) -> Option<Deed> {
    Some(match step {
        Step::WriteStatus(_) | Step::Event(_) => return None,
        Step::AddFinalizer => Deed::new("add-finalizer", "mark the resource as operated"),
        Step::RemoveFinalizer => Deed::new("remove-finalizer", "let the resource go"),
        Step::RecordRevision(superseded) => of_revision(superseded),
        Step::Snapshot(step) => of_snapshot(step),
        Step::TriggerStop { directory, .. } => of_stop(directory.as_deref()),
        Step::CancelJob { is_best_effort, .. } => Deed::new(
            "cancel-job",
            if *is_best_effort {
                "cancel the job, if its JobManager answers"
            } else {
                "cancel the job; its checkpoint is kept"
            },
        ),
        Step::ScaleJob { bounds, .. } => of_scale(bounds.len()),
        Step::StopJobManager { .. } => {
            Deed::new("stop-job-manager", "end the JobManager, before its TaskManagers")
        }
        Step::DeleteJobManager { .. } => {
            Deed::new("delete-job-manager", "delete the JobManager and what it owns")
        }
        Step::DeleteTaskManagers { .. } => {
            Deed::new("delete-task-managers", "delete the TaskManagers' Deployment")
        }
        Step::ScaleTaskManagers { uid: _, replicas } => Deed::new(
            "scale-task-managers",
            format!("give the TaskManagers' Deployment {replicas} replicas"),
        ),
        Step::DeleteHaMetadata { .. } => {
            Deed::new("delete-ha-metadata", "delete the HA metadata of the former run")
        }
        Step::ForgetJobGraphs { .. } => Deed::new(
            "forget-job-graphs",
            "delete the stored job graphs, so that the new job is the one that starts",
        ),
        Step::CreateCluster(_) => {
            Deed::new("create-cluster", "create the JobManager and what belongs to it")
        }
        Step::FinishCluster(_) => {
            Deed::new("finish-cluster", "create what is missing beside the JobManager")
        }
        Step::ApplyIngress(Some(_)) => Deed::new("apply-ingress", "put the Ingress in place"),
        Step::ApplyIngress(None) => Deed::new("apply-ingress", "remove the Ingress"),
    })
}

pub(super) fn of_session_job(step: &session_job::Step) -> Option<Deed> {
    use session_job::Step;
    Some(match step {
        Step::WriteStatus(_) | Step::Event(_) | Step::Remember(_) => return None,
        Step::AddFinalizer => Deed::new("add-finalizer", "mark the resource as operated"),
        Step::RemoveFinalizer => Deed::new("remove-finalizer", "let the resource go"),
        Step::SetSessionLabel { cluster } => {
            Deed::new("set-label", format!("label the resource with its cluster `{cluster}`"))
        }
        Step::RecordRevision(superseded) => of_revision(superseded),
        Step::Snapshot(step) => of_snapshot(step),
        Step::ScaleJob { bounds, .. } => of_scale(bounds.len()),
        Step::TriggerStop { directory, .. } => of_stop(directory.as_deref()),
        Step::CancelJob { .. } => Deed::new("cancel-job", "cancel the job"),
        Step::Submit(submission) => Deed::new(
            "submit-job",
            match &submission.jar_uri {
                Some(uri) => format!("upload `{uri}` and submit the job"),
                None => "submit the job".to_owned(),
            },
        ),
    })
}

fn of_revision<S>(superseded: &Superseded<S>) -> Deed {
    Deed::new(
        "record-revision",
        format!(
            "keep the superseded spec in the history, with {}",
            superseded.restore_point.describe()
        ),
    )
}

fn of_snapshot(step: &SnapshotStep) -> Deed {
    let name = step.name();
    match step {
        SnapshotStep::Create(_) => Deed::new(name, "create a FlinkStateSnapshot"),
        SnapshotStep::Delete { name: object, .. } => {
            Deed::new(name, format!("delete the FlinkStateSnapshot `{object}`"))
        }
        SnapshotStep::Take(_) => Deed::new(name, "take a snapshot"),
        SnapshotStep::Dispose { path, .. } => Deed::new(name, format!("dispose of {path}")),
    }
}

fn of_stop(directory: Option<&str>) -> Deed {
    let to = directory.map_or(String::new(), |directory| format!(" in {directory}"));
    Deed::new("stop-with-savepoint", format!("stop the job with a savepoint{to}"))
}

fn of_scale(vertices: usize) -> Deed {
    Deed::new("scale-job", format!("scale {vertices} vertices of the running job in place"))
}
