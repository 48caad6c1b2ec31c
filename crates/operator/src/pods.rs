//! Pods and Deployments as facts: the part of their status that decisions use.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use api::{ENDING_ANNOTATION, GENERATION_ANNOTATION, NEVER_STARTED};
use clients::cluster::workload::Workload;
use lifecycle::world;

/// Name of Flink's container in its pods.
pub const MAIN_CONTAINER: &str = "flink-main-container";

const CRASH_LOOP: &str = "CrashLoopBackOff";
/// A container that ended this often is no accident, even while it tries again.
const CRASHES_OF_A_LOOP: i32 = 2;

/// Waiting reasons that mean that a container cannot start.
const WAITING_PROBLEMS: [&str; 6] = [
    CRASH_LOOP,
    PULL_BACK_OFF,
    PULL_FAILED,
    "RunContainerError",
    "CreateContainerConfigError",
    "OOMKilled",
];

/// A pull that failed, and the pause until the next one: kubelet alternates between them.
const PULL_FAILED: &str = "ErrImagePull";
const PULL_BACK_OFF: &str = "ImagePullBackOff";

/// Reason of a container that used more memory than its limit.
pub(super) const OOM_KILLED: &str = "OOMKilled";

/// Returns the Deployment of a JobManager as a fact.
pub fn job_manager(deployment: &Workload) -> world::JobManager {
    let Workload { metadata, status } = deployment;
    let created = metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
    let conditions = &status.conditions;
    let replica_failure = conditions
        .iter()
        .find(|condition| {
            condition.type_.as_deref() == Some("ReplicaFailure")
                && condition.status.as_deref() == Some("True")
                && condition.reason.as_deref() == Some("FailedCreate")
        })
        .map(|condition| condition.message.clone().unwrap_or_default());
    // A JobManager takes longer than this to become available: with a transition this early, it never was.
    let was_never_available = conditions.iter().any(|condition| {
        let since = condition.last_transition_time.as_ref().map(|Time(at)| *at);
        condition.type_.as_deref() == Some("Available")
            && condition.status.as_deref() == Some("False")
            && matches!((since, created), (Some(since), Some(created))
                if since.duration_since(created) <= jiff::SignedDuration::from_secs(2))
    });
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
    let ending = annotation(ENDING_ANNOTATION).filter(|_| metadata.deletion_timestamp.is_none());
    let is_stopped = ending.is_some();
    world::JobManager {
        uid: metadata.uid.clone().unwrap_or_default(),
        owner_uid: owner_uid(deployment),
        generation: annotation(GENERATION_ANNOTATION).and_then(|text| text.parse().ok()),
        is_deleting: is_stopped || metadata.deletion_timestamp.is_some(),
        is_stopped,
        version: metadata
            .resource_version
            .clone()
            .zip(metadata.generation)
            .map(|(resource, generation)| world::DeploymentVersion { resource, generation }),
        is_stopped_unstarted: metadata
            .generation
            .is_some_and(|generation| ending == Some(&never_started(generation))),
        deleting_since: metadata.deletion_timestamp.as_ref().map(|Time(at)| *at),
        replicas: status.replicas,
        available_replicas: status.available_replicas,
        replica_failure,
        was_never_available,
        created,
    }
}

/// Value of [`ENDING_ANNOTATION`] for a JobManager of which no process ran until it was stopped, which gave the
/// Deployment this generation. In any other generation it had replicas again, and what those did is unknown.
fn never_started(generation: i64) -> String {
    format!("{NEVER_STARTED}/{generation}")
}

/// Value of [`ENDING_ANNOTATION`] for a JobManager that is stopped, or for one that is stopped in the version in which
/// no process of it had ever run.
pub(super) fn ending(unstarted: Option<&world::DeploymentVersion>) -> String {
    unstarted.map_or_else(|| "true".to_owned(), |seen| never_started(seen.generation + 1))
}

fn owner_uid(deployment: &Workload) -> Option<String> {
    let owners = deployment.metadata.owner_references.iter().flatten();
    let ours = owners.into_iter().find(|owner| owner.kind == "FlinkDeployment");
    ours.map(|owner| owner.uid.clone())
}

/// Returns the Deployment of a standalone cluster's TaskManagers as a fact.
pub fn task_managers(deployment: &Workload) -> world::TaskManagers {
    let metadata = &deployment.metadata;
    world::TaskManagers {
        uid: metadata.uid.clone().unwrap_or_default(),
        owner_uid: owner_uid(deployment),
        is_deleting: metadata.deletion_timestamp.is_some(),
        deleting_since: metadata.deletion_timestamp.as_ref().map(|Time(at)| *at),
    }
}

/// Returns a pod as a fact; `None` for one that has ended.
pub fn pod(pod: &Pod) -> Option<world::Pod> {
    Some(of_any_phase(pod)).filter(|pod| !pod.has_ended)
}

/// Returns a pod as a fact, whether it has ended or not.
pub(super) fn of_any_phase(pod: &Pod) -> world::Pod {
    let status = pod.status.clone().unwrap_or_default();
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let containers = status.container_statuses.unwrap_or_default();
    let has_started =
        containers.iter().filter(|container| container.name == MAIN_CONTAINER).any(|container| {
            let state = container.state.clone().unwrap_or_default();
            container.restart_count > 0 || state.running.is_some() || state.terminated.is_some()
        });
    let has_restarted = containers
        .iter()
        .any(|container| container.name == MAIN_CONTAINER && container.restart_count > 0);
    let last_started = containers
        .iter()
        .filter(|container| container.name == MAIN_CONTAINER)
        .filter_map(last_started)
        .max();
    let init_containers = status.init_container_statuses.unwrap_or_default();
    world::Pod {
        name: pod.metadata.name.clone().unwrap_or_default(),
        created: pod.metadata.creation_timestamp.as_ref().map(|Time(at)| *at),
        ending_since: pod.metadata.deletion_timestamp.as_ref().map(|Time(at)| *at),
        has_started,
        has_restarted,
        last_started,
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        finalizers: pod.metadata.finalizers.clone().unwrap_or_default(),
        problem: init_containers
            .iter()
            .chain(&containers)
            .find_map(container_problem)
            .or_else(|| unschedulable(status.conditions.as_deref().unwrap_or_default())),
        has_ended,
    }
}

/// Returns when a container last began to run, whether it has ended since or not.
fn last_started(container: &ContainerStatus) -> Option<Timestamp> {
    let states = [container.state.as_ref(), container.last_state.as_ref()];
    let started = states.into_iter().flatten().flat_map(|state| {
        let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
        let ended = state.terminated.as_ref().and_then(|ended| ended.started_at.as_ref());
        [running, ended]
    });
    started.flatten().map(|Time(at)| *at).max()
}

/// Returns since when Flink has run in a pod; `None` if it does not run.
pub(super) fn running_since(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.as_ref()?.container_statuses.as_deref().unwrap_or_default();
    let main = containers.iter().find(|container| container.name == MAIN_CONTAINER)?;
    let Time(at) = main.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
    Some(*at)
}

/// Returns the problem that no node has room, which may be temporary.
pub(super) fn unschedulable(conditions: &[PodCondition]) -> Option<world::PodProblem> {
    let condition = conditions.iter().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some(world::UNSCHEDULABLE)
    })?;
    Some(world::PodProblem {
        reason: world::UNSCHEDULABLE.to_owned(),
        message: condition.message.clone().unwrap_or_default(),
    })
}

pub(super) fn container_problem(container: &ContainerStatus) -> Option<world::PodProblem> {
    if let Some(crash) = crash_of(container) {
        let end = crash.message.clone().unwrap_or_else(|| match crash.reason.as_deref() {
            Some(OOM_KILLED) => "OOMKilled: it used more memory than its limit".to_owned(),
            Some(_) | None => format!("exit code {}", crash.exit_code),
        });
        return Some(world::PodProblem {
            reason: CRASH_LOOP.to_owned(),
            message: format!("[{}] CrashLoop - {end}", container.name),
        });
    }
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone()?;
    if !WAITING_PROBLEMS.contains(&reason.as_str()) {
        return None;
    }
    let message = waiting.message.clone().unwrap_or_else(|| reason.clone());
    let message = format!("[{}] {}", container.name, without_back_off(&message));
    // One problem has one name and one text; otherwise each attempt would be reported again.
    let reason = if reason == PULL_FAILED { PULL_BACK_OFF.to_owned() } else { reason };
    Some(world::PodProblem { reason, message })
}

/// Returns the cause that a pause between two pulls quotes; Kubernetes before 1.32 quotes none.
fn without_back_off(message: &str) -> &str {
    let cause = message.strip_prefix("Back-off pulling image ");
    cause.and_then(|rest| rest.split_once(": ErrImagePull: ")).map_or(message, |(_, cause)| cause)
}

/// Returns how a container ended that ends again and again, whether it waits for its next attempt or is at it.
fn crash_of(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let state = container.state.as_ref()?;
    let is_waiting =
        state.waiting.as_ref().is_some_and(|waiting| waiting.reason.as_deref() == Some(CRASH_LOOP));
    let is_at_it_again =
        !container.ready && state.waiting.is_none() && container.restart_count >= CRASHES_OF_A_LOOP;
    if !is_waiting && !is_at_it_again {
        return None;
    }
    let last = state.terminated.as_ref().or(container.last_state.as_ref()?.terminated.as_ref())?;
    (is_waiting || last.exit_code != 0).then_some(last)
}

/// A container that ends again and again without a message of its own.
pub(super) struct UnexplainedCrash<'p> {
    pub(super) container: &'p str,
    /// It runs again, so the log to read is that of the run before.
    pub(super) runs_again: bool,
}

pub(super) fn unexplained_crash(pod: &Pod) -> Option<UnexplainedCrash<'_>> {
    let status = pod.status.as_ref()?;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    containers.flatten().find_map(|container| {
        let crash = crash_of(container)?;
        let runs_again = container.state.as_ref().is_some_and(|state| state.running.is_some());
        // A container that runs out of memory is killed without a word in the log.
        let is_explained = crash.message.is_some() || crash.reason.as_deref() == Some(OOM_KILLED);
        (!is_explained).then_some(UnexplainedCrash { container: &container.name, runs_again })
    })
}

/// Returns `true` if a pod is scheduled and has waited for its volumes or sandbox ever since.
pub(super) fn waits_for_volumes(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let is_true = |kind: &str| {
        status.conditions.iter().flatten().any(|c| c.type_ == kind && c.status == "True")
    };
    is_true("PodScheduled") && !is_true("PodReadyToStartContainers") && !is_true("Ready")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod_with(container: &Value) -> Pod {
        serde_json::from_value(json!({"status": {"containerStatuses": [container]}})).unwrap()
    }

    fn container(restarts: i32, state: Value, exit_code: i32) -> Value {
        json!({
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
            "state": state,
            "lastState": {"terminated": {"exitCode": exit_code}},
        })
    }

    #[test]
    fn that_a_job_manager_never_ran_counts_in_the_generation_that_its_stop_made() {
        let deployment = |generation: i64, ending: &str| -> world::JobManager {
            let deployment = serde_json::from_value(json!({"metadata": {
                "name": "job", "resourceVersion": "77", "generation": generation,
                "annotations": {ENDING_ANNOTATION: ending},
            }}));
            job_manager(&deployment.unwrap())
        };
        let seen = world::DeploymentVersion { resource: "77".to_owned(), generation: 3 };
        let stopped = ending(Some(&seen));
        assert!(deployment(4, &stopped).is_stopped_unstarted);
        assert_eq!(deployment(3, &stopped).version, Some(seen));
        // Scaled up and down again, stopped by an earlier version, or one that had run.
        for (generation, ending) in [(6, &*stopped), (4, NEVER_STARTED), (4, &*ending(None))] {
            let found = deployment(generation, ending);
            assert!(found.is_stopped && !found.is_stopped_unstarted, "{generation} {ending}");
        }
    }

    #[test]
    fn a_failed_pull_and_the_pause_after_it_are_one_problem() {
        let cause = "failed to pull and unpack image \"flink:1\": not found";
        let quoted = format!("Back-off pulling image \"flink:1\": ErrImagePull: {cause}");
        let problem = |reason: &str, message: &str| {
            let state = json!({"waiting": {"reason": reason, "message": message}});
            pod(&pod_with(&container(0, state, 0))).unwrap().problem.unwrap()
        };
        let pause = problem("ImagePullBackOff", &quoted);
        assert_eq!(pause.message, format!("[main] {cause}"));
        assert_eq!(pause, problem("ErrImagePull", cause));
        let unquoted = problem("ImagePullBackOff", "Back-off pulling image \"flink:1\"");
        assert_eq!(unquoted.message, "[main] Back-off pulling image \"flink:1\"");
    }

    #[test]
    fn a_crash_loop_stays_one_while_the_container_tries_again() {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        for (restarts, state, runs_again) in
            [(1, waiting, false), (2, json!({"running": {}}), true)]
        {
            let object = pod_with(&container(restarts, state, 1));
            let problem = pod(&object).unwrap().problem.unwrap();
            assert_eq!(problem.reason, CRASH_LOOP);
            assert_eq!(problem.message, "[main] CrashLoop - exit code 1");
            let crash = unexplained_crash(&object).unwrap();
            assert_eq!((crash.container, crash.runs_again), ("main", runs_again));
        }
    }

    #[test]
    fn one_crash_or_an_orderly_end_is_no_loop() {
        for (restarts, exit_code) in [(1, 1), (5, 0)] {
            let object = pod_with(&container(restarts, json!({"running": {}}), exit_code));
            assert_eq!(pod(&object).unwrap().problem, None);
            assert!(unexplained_crash(&object).is_none());
        }
    }
}
