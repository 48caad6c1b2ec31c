//! Steps in words, for people to read before the steps are taken.

use serde::Serialize;

use super::Rehearsed;
use crate::plan::{ClusterStep, SnapshotStep, Step};
use crate::resource::OwnStep;
use crate::session_job::plan::SessionJobStep;
use crate::trigger::known::Cause;
use api::state_snapshot::JobKind;

/// A step that changes something other than a status.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepText {
    /// The step's name in the operator's log.
    pub step: &'static str,
    pub text: String,
}

/// Returns the description of a step, or `None` if the step only reports something.
pub(super) fn of<K: Rehearsed>(step: &Step<K>) -> Option<StepText> {
    let text = match step {
        Step::WriteStatus(_) | Step::Event(_) => return None,
        Step::Own(step) => return K::step_text(step),
        Step::Snapshot(step) => of_snapshot(step),
        Step::AddFinalizer => "add the finalizer".to_owned(),
        Step::RemoveFinalizer => "remove the finalizer".to_owned(),
        Step::RecordRevision(superseded) => {
            let state = superseded.restore_point.describe();
            format!("record the previous spec in the history, with {state}")
        }
        Step::TriggerStop { directory, .. } => {
            let to =
                directory.as_ref().map_or(String::new(), |directory| format!(" in {directory}"));
            format!("stop the job with a savepoint{to}")
        }
        Step::CancelJob { is_best_effort: true, .. } => {
            "cancel the job, if its JobManager answers".to_owned()
        }
        Step::CancelJob { .. } if K::JOB == JobKind::FlinkSessionJob => "cancel the job".to_owned(),
        Step::CancelJob { .. } => "cancel the job; its checkpoint is kept".to_owned(),
        Step::ScaleJob { bounds, .. } => {
            format!("scale {} vertices of the running job in place", bounds.len())
        }
    };
    Some(StepText { step: step.name(), text })
}

pub(super) fn of_cluster(step: &ClusterStep) -> StepText {
    let text = match step {
        ClusterStep::StopJobManager { .. } => "stop the JobManager before its TaskManagers",
        ClusterStep::DeleteJobManager { .. } => {
            "delete the JobManager and the objects that it owns"
        }
        ClusterStep::StopTaskManagers { .. } => "stop the TaskManagers",
        ClusterStep::DeleteTaskManagers { .. } => "delete the TaskManagers' Deployment",
        ClusterStep::ScaleTaskManagers { uid: _, replicas } => {
            let text = format!("scale the TaskManagers' Deployment to {replicas} replicas");
            return StepText { step: step.name(), text };
        }
        ClusterStep::DeleteHaMetadata { .. } => "delete the HA metadata of the previous run",
        ClusterStep::ForgetJobGraphs { .. } => {
            "delete the stored job graphs, so that the new job starts"
        }
        ClusterStep::CreateCluster(_) => "create the JobManager and the objects that belong to it",
        ClusterStep::FinishCluster(_) => "create the missing objects of the JobManager",
        ClusterStep::MakePreflight(preflight) if preflight.is_standby() => {
            "start the new pods while the old ones keep running"
        }
        ClusterStep::ReleaseLeadership => "let the new JobManager become the leader",
        ClusterStep::HoldLeadership => "hold the leader lock until the old pods have ended",
        ClusterStep::MakePreflight(_) => {
            "try the new spec in one pod of each role, without touching what is running"
        }
        ClusterStep::RemovePreflight => "remove the pods that tried the spec",
        ClusterStep::RemoveStandby { .. } => "remove the pods that stood by",
        ClusterStep::DisownStandby => {
            "leave the new pods to the Deployments that have adopted them"
        }
        ClusterStep::ApplyIngress(Some(_)) => "create or update the Ingress",
        ClusterStep::ApplyIngress(None) => "remove the Ingress",
    };
    StepText { step: step.name(), text: text.to_owned() }
}

pub(super) fn of_session_job(step: &SessionJobStep) -> Option<StepText> {
    let text = match step {
        SessionJobStep::Remember(_) => return None,
        SessionJobStep::SetSessionLabel { cluster } => {
            format!("label the resource with its cluster `{cluster}`")
        }
        SessionJobStep::Submit(submission) => match &submission.jar_uri {
            Some(uri) => format!("upload `{uri}` and submit the job"),
            None => "submit the job".to_owned(),
        },
    };
    Some(StepText { step: step.name(), text })
}

fn of_snapshot(step: &SnapshotStep) -> String {
    match step {
        SnapshotStep::Create(_) => "create a FlinkStateSnapshot".to_owned(),
        SnapshotStep::Delete { name, .. } => format!("delete the FlinkStateSnapshot `{name}`"),
        SnapshotStep::Take(snapshot) if snapshot.cause == Cause::Upgrade => {
            "take a checkpoint for the new job to restore".to_owned()
        }
        SnapshotStep::Take(_) => "take a snapshot".to_owned(),
        SnapshotStep::Dispose { path, .. } => format!("dispose of {path}"),
    }
}
