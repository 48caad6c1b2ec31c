//! Pods and Deployments as facts: what of their status a decision looks at.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::GENERATION_ANNOTATION;
use crate::decide::world;

/// Name of Flink's container in its pods.
pub const MAIN_CONTAINER: &str = "flink-main-container";

/// Waiting reasons that mean that a container cannot start.
const WAITING_PROBLEMS: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "RunContainerError",
    "CreateContainerConfigError",
    "OOMKilled",
];

/// The Deployment of a JobManager as a fact.
pub fn job_manager(deployment: &Deployment) -> world::JobManager {
    let metadata = &deployment.metadata;
    let status = deployment.status.clone().unwrap_or_default();
    let created = metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
    let conditions = status.conditions.unwrap_or_default();
    let replica_failure = conditions
        .iter()
        .find(|condition| {
            condition.type_.as_deref() == Some("ReplicaFailure")
                && condition.status.as_deref() == Some("True")
                && condition.reason.as_deref() == Some("FailedCreate")
        })
        .map(|condition| condition.message.clone().unwrap_or_default());
    // A JobManager takes longer than this to become available, so a transition so early is none.
    let was_never_available = conditions.iter().any(|condition| {
        let since = condition.last_transition_time.as_ref().map(|Time(at)| *at);
        condition.type_.as_deref() == Some("Available")
            && condition.status.as_deref() == Some("False")
            && matches!((since, created), (Some(since), Some(created))
                if since.duration_since(created) <= jiff::SignedDuration::from_secs(2))
    });
    world::JobManager {
        uid: metadata.uid.clone().unwrap_or_default(),
        owner_uid: metadata
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.kind == "FlinkDeployment")
            .map(|owner| owner.uid.clone()),
        generation: metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(GENERATION_ANNOTATION))
            .and_then(|text| text.parse().ok()),
        is_deleting: metadata.deletion_timestamp.is_some(),
        replicas: status.replicas.unwrap_or(0),
        available_replicas: status.available_replicas.unwrap_or(0),
        replica_failure,
        was_never_available,
        created,
    }
}

/// A JobManager pod as a fact; nothing for one that has ended.
pub fn pod(pod: &Pod) -> Option<world::Pod> {
    let status = pod.status.clone().unwrap_or_default();
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let containers = status.container_statuses.unwrap_or_default();
    let has_started =
        containers.iter().filter(|container| container.name == MAIN_CONTAINER).any(|container| {
            let state = container.state.clone().unwrap_or_default();
            container.restart_count > 0 || state.running.is_some() || state.terminated.is_some()
        });
    let init_containers = status.init_container_statuses.unwrap_or_default();
    Some(world::Pod {
        name: pod.metadata.name.clone().unwrap_or_default(),
        created: pod.metadata.creation_timestamp.as_ref().map(|Time(at)| *at),
        has_started,
        problem: init_containers.iter().chain(&containers).find_map(container_problem),
    })
}

fn container_problem(container: &ContainerStatus) -> Option<world::PodProblem> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone()?;
    if !WAITING_PROBLEMS.contains(&reason.as_str()) {
        return None;
    }
    let mut message = waiting.message.clone().unwrap_or_else(|| reason.clone());
    if reason == "CrashLoopBackOff" {
        let terminated = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        if let Some(terminated) = terminated {
            let end = terminated
                .message
                .clone()
                .unwrap_or_else(|| format!("exit code {}", terminated.exit_code));
            message = format!("CrashLoop - {end}");
        }
    }
    Some(world::PodProblem { reason, message: format!("[{}] {message}", container.name) })
}

/// Whether a pod is scheduled and has waited for its volumes or sandbox ever since.
pub(super) fn waits_for_volumes(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let is_true = |kind: &str| {
        status.conditions.iter().flatten().any(|c| c.type_ == kind && c.status == "True")
    };
    is_true("PodScheduled") && !is_true("PodReadyToStartContainers") && !is_true("Ready")
}
