//! Derives from the facts the one cause that explains the others. Pure: the same facts give the same verdict.
//!
//! Problems that prevent the operator or Kubernetes from starting anything come first, then what pods report about
//! their end, then what Flink reports about the job: each hides those after it.

mod words;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use serde::Serialize;
use serde_json::Value;

use super::signs::{self, Sign};
use crate::cli::deployment::Deployment;
use crate::cli::operators;
use api::blue_green::{GIVEN_UP, PROGRESSING};
use api::status::LAST_STATE_PATH;
use clients::cluster::apply::OPERATOR_MANAGER;
use clients::cluster::events::last_seen;
use clients::cluster::pods::Role;
use clients::flink::checkpoints::Checkpoints;
use clients::flink::failures::JobException;
use lifecycle::application::preflight::PREFLIGHT_FAILED;
use lifecycle::conditions::{UPGRADES_PAUSED, WAITS_FOR_TURN};
use lifecycle::crash::cause_of_exit;
use lifecycle::error_document::refusals::{Refusal, refusal};

/// Time within which an operator picks up a new generation, in seconds.
const TAKE_UP_SECONDS: i64 = 60;
/// Maximum time until a starting JobManager answers, in seconds.
const START_SECONDS: i64 = 180;
/// Maximum age of the last refusal of pods, in seconds: their controller retries, and reports it, after 1000 seconds at
/// the latest.
const REFUSED_SECONDS: i64 = 1_100;
/// Maximum age of an exception that is relevant for a running job, in seconds.
const RECENT_SECONDS: i64 = 600;

/// Why a deployment is not in its desired state.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cause {
    Healthy,
    Starting,
    Deleting,
    Paused,
    Suspended,
    OperatorNotRunning,
    InvalidSpec,
    PreflightFailed,
    UpgradeWaits,
    WebhookRefusal,
    ServiceAccountMissing,
    QuotaExceeded,
    PodSecurity,
    Forbidden,
    ImagePull,
    ContainerConfig,
    Unschedulable,
    VolumeClaimMissing,
    VolumeClaimUnbound,
    OutOfContainerMemory,
    OutOfHeap,
    OutOfMetaspace,
    OutOfDirectMemory,
    JarUnusable,
    ClassNotFound,
    FileSystemMissing,
    SavepointIncompatible,
    SavepointMissing,
    HaMetadataMissing,
    RestoreRefused,
    CrashLoop,
    NoSlots,
    CheckpointsFailing,
    TaskManagerLost,
    SessionClusterMissing,
    SessionClusterNotReady,
    RestUnreachable,
    JobFailed,
    SwitchGivenUp,
    OperatorReports,
}

/// Outcome of asking the JobManager.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Rest {
    #[default]
    NotAsked,
    Answers,
    Silent(String),
}

/// The last log lines of an unhealthy container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LastWords {
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) text: String,
}

/// Everything that a verdict is based on.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) now: Timestamp,
    pub(super) resource: Deployment,
    /// The blue/green deployment that was asked about, of which the resource is a colour.
    pub(super) parent: Option<Deployment>,
    /// The cluster of a session job, if it exists.
    pub(super) cluster: Option<Deployment>,
    /// Whether the cluster could not be read, so that it may or may not exist.
    pub(super) is_cluster_unread: bool,
    pub(super) pods: Vec<Pod>,
    /// Events about the resource, its Deployments, ReplicaSets and pods; oldest first.
    pub(super) events: Vec<Event>,
    pub(super) logs: Vec<LastWords>,
    pub(super) rest: Rest,
    /// Exceptions of the job, newest first.
    pub(super) exceptions: Vec<JobException>,
    /// Why the job failed, according to its result.
    pub(super) failure: Option<String>,
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) operator: operators::State,
}

/// The answer: one cause in three sentences, and the next command to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    pub(super) cause: Cause,
    /// The problem, in words.
    pub(super) what: String,
    /// Quotation or fact that shows it.
    pub(super) evidence: String,
    /// Change that fixes it.
    pub(super) remedy: String,
    /// The next command to run.
    pub(super) next: String,
}

/// A finding, before it is put into words.
#[derive(Clone, Debug)]
struct Found {
    cause: Cause,
    /// A quotation or a fact.
    evidence: String,
    /// The pod that shows it.
    pod: Option<String>,
}

impl Found {
    fn new(cause: Cause, evidence: impl Into<String>) -> Self {
        Self { cause, evidence: evidence.into(), pod: None }
    }

    fn of(sign: Sign) -> Self {
        Self::new(sign.cause, sign.line)
    }

    fn in_pod(self, pod: &str) -> Self {
        Self { pod: Some(pod.to_owned()), ..self }
    }
}

/// Returns the cause that explains what is observed.
pub(super) fn verdict(facts: &Facts) -> Verdict {
    let parent = facts.parent.as_ref();
    let parent = parent.map(|parent| Facts { resource: parent.clone(), ..facts.clone() });
    if let Some(parent) = &parent
        && let Some(found) = operator_gone(parent).or_else(|| given_up(parent))
    {
        return words::verdict(found, parent);
    }
    let found = deleting(facts)
        .or_else(|| operator_gone(facts))
        .or_else(|| invalid(facts))
        .or_else(|| not_passed(facts))
        .or_else(|| session_cluster(facts))
        .or_else(|| refused_pods(facts))
        .or_else(|| bad_pods(facts))
        .or_else(|| refusal_of_operator(facts))
        .or_else(|| paused(facts))
        .or_else(|| suspended(facts))
        .or_else(|| job(facts))
        .or_else(|| refused_object(facts))
        .or_else(|| rest(facts))
        .or_else(|| stored_error(facts))
        .or_else(|| upgrade_waits(facts))
        .or_else(|| starting(facts))
        .unwrap_or_else(|| healthy(facts));
    match &parent {
        Some(parent) if matches!(found.cause, Cause::Healthy | Cause::Starting) => {
            let switching = || Some(Found::new(Cause::Starting, progress(parent)?.1));
            words::verdict(upgrade_waits(parent).or_else(switching).unwrap_or(found), parent)
        }
        Some(_) | None => words::verdict(found, facts),
    }
}

/// Returns the progress condition of a blue/green deployment, and its message.
fn progress(parent: &Facts) -> Option<(&Value, String)> {
    let condition = parent.resource.condition(PROGRESSING)?;
    Some((condition, signs::quoted(condition["message"].as_str().unwrap_or_default())))
}

/// Finds a change that was given up and needs a manual decision.
fn given_up(parent: &Facts) -> Option<Found> {
    let (condition, told) =
        progress(parent).filter(|(condition, _)| condition["status"] == "False")?;
    let cause = match condition["reason"].as_str().unwrap_or_default() {
        "ValidationError" => Cause::InvalidSpec,
        reason if GIVEN_UP.contains(&reason) => Cause::SwitchGivenUp,
        _ => Cause::OperatorReports,
    };
    Some(Found::new(cause, told))
}

fn deleting(facts: &Facts) -> Option<Found> {
    facts.resource.is_being_deleted().then(|| {
        let waits = facts.resource.error().unwrap_or_else(|| "its finalizer is set".to_owned());
        Found::new(Cause::Deleting, waits)
    })
}

fn operator_gone(facts: &Facts) -> Option<Found> {
    let resource = &facts.resource;
    let is_new = age(edited_at(resource), facts.now) < Some(TAKE_UP_SECONDS);
    // An operator that runs in the foreground has no Deployment, but it has written a status since.
    let is_seen = written_at(resource) > edited_at(resource);
    if resource.is_taken_up() || is_new || is_seen {
        return None;
    }
    match &facts.operator {
        operators::State::Gone(why) => Some(Found::new(Cause::OperatorNotRunning, why.clone())),
        // It is unknown whether an operator runs, but none has processed the resource either.
        operators::State::Unknown(_) if resource.observed_generation().is_none() => {
            Some(Found::new(
                Cause::OperatorNotRunning,
                "no operator has written a status since the resource was created",
            ))
        }
        operators::State::Unknown(_) | operators::State::Alive => None,
    }
}

/// Returns when anyone but the operator last changed the resource, else when it was created.
fn edited_at(resource: &Deployment) -> Option<Timestamp> {
    let managers = resource.0.pointer("/metadata/managedFields").and_then(Value::as_array);
    let edits = managers.into_iter().flatten().filter(|entry| {
        // Only operators write the status, under whatever manager name.
        entry["manager"] != OPERATOR_MANAGER && entry["subresource"] != "status"
    });
    let times = edits.filter_map(|entry| entry["time"].as_str()?.parse().ok());
    times.max().or_else(|| resource.created_at())
}

/// Returns when an operator last wrote the status.
fn written_at(resource: &Deployment) -> Option<Timestamp> {
    let managers = resource.0.pointer("/metadata/managedFields").and_then(Value::as_array);
    let writes = managers.into_iter().flatten().filter(|entry| entry["subresource"] == "status");
    writes.filter_map(|entry| entry["time"].as_str()?.parse().ok()).max()
}

/// Finds a validation error; its message says what would be valid.
fn invalid(facts: &Facts) -> Option<Found> {
    let error = facts.resource.error()?;
    let is_validation = facts.resource.error_reason().as_deref() == Some("ValidationError")
        || facts.events.iter().any(|event| {
            event.reason.as_deref() == Some("ValidationError")
                && event.message.as_deref().is_some_and(|message| error.contains(message))
        });
    is_validation.then(|| Found::new(Cause::InvalidSpec, signs::quoted(&error)))
}

/// Finds a spec that failed its trial start. The running job is unchanged.
fn not_passed(facts: &Facts) -> Option<Found> {
    if facts.resource.error_reason().as_deref() != Some(PREFLIGHT_FAILED) {
        return None;
    }
    Some(Found::new(Cause::PreflightFailed, signs::quoted(&facts.resource.error()?)))
}

/// Finds a changed spec whose upgrade waits. The running job is unchanged.
fn upgrade_waits(facts: &Facts) -> Option<Found> {
    let resource = &facts.resource;
    let told = resource.upgrade_waits().map(|(_, message)| message.into_owned());
    // The status of a session job has no place for it.
    let of_event = || {
        let mut events = facts.events.iter().rev();
        let told = events.find(|event| event.reason.as_deref() == Some(WAITS_FOR_TURN))?;
        told.message.clone().filter(|_| resource.is_session_job() && !resource.is_taken_up())
    };
    Some(Found::new(Cause::UpgradeWaits, signs::quoted(&told.or_else(of_event)?)))
}

fn session_cluster(facts: &Facts) -> Option<Found> {
    let name = facts.resource.session_cluster()?;
    if facts.is_cluster_unread {
        return None;
    }
    let Some(cluster) = &facts.cluster else {
        let evidence = format!("there is no FlinkDeployment `{name}` in the namespace");
        return Some(Found::new(Cause::SessionClusterMissing, evidence));
    };
    let status = cluster.job_manager_status().unwrap_or("not deployed");
    (status != "READY" && bad_pods(facts).is_none()).then(|| {
        let error = cluster.error().map_or(String::new(), |error| format!(": {error}"));
        let evidence = format!("the JobManager of `{name}` is {status}{error}");
        Found::new(Cause::SessionClusterNotReady, evidence)
    })
}

/// Finds pods that could not be created, as reported by their controller.
fn refused_pods(facts: &Facts) -> Option<Found> {
    let has_pod = |role| facts.pods.iter().any(|pod| Role::of(pod) == Some(role));
    // Once there is a JobManager, an old refusal may be about a pod that exists by now.
    let window = if has_pod(Role::JobManager) { RECENT_SECONDS } else { REFUSED_SECONDS };
    let of_events = facts.events.iter().rev().filter(|event| {
        event.reason.as_deref() == Some("FailedCreate")
            && age(last_seen(event), facts.now) < Some(window)
    });
    let messages = of_events.filter_map(|event| event.message.as_deref());
    if has_pod(Role::JobManager) && has_pod(Role::TaskManager) {
        return None;
    }
    let error = facts.resource.error();
    let of_error = error.as_deref().filter(|error| !error.contains("HA metadata"));
    messages.chain(of_error).find_map(signs::of_refusal).map(Found::of)
}

/// Finds a problem that prevents a pod from running, or ended it.
fn bad_pods(facts: &Facts) -> Option<Found> {
    let bad = |inspect: fn(&Pod, &Facts) -> Option<Found>| {
        facts
            .pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .find_map(|pod| inspect(pod, facts).map(|found| found.in_pod(name(pod))))
    };
    bad(container).or_else(|| bad(unschedulable))
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref());
    let main = status.and_then(|status| status.container_statuses.as_deref());
    init.unwrap_or_default().iter().chain(main.unwrap_or_default())
}

fn container(pod: &Pod, facts: &Facts) -> Option<Found> {
    containers(pod).find_map(|container| {
        let state = container.state.as_ref();
        let waiting = state.and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
        let message = waiting.and_then(|waiting| waiting.message.as_deref()).unwrap_or(reason);
        match reason {
            "ImagePullBackOff"
            | "ErrImagePull"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "RegistryUnavailable"
            | "ImageInspectError" => {
                return Some(Found::new(Cause::ImagePull, signs::quoted(message)));
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                return Some(Found::new(Cause::ContainerConfig, signs::quoted(message)));
            }
            _ => {}
        }
        let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        let ended = state.and_then(|state| state.terminated.as_ref()).or(last)?;
        let at = ended.finished_at.as_ref().map(|at| at.0);
        let is_recent = age(at, facts.now).is_none_or(|age| age < RECENT_SECONDS);
        let is_down = !container.ready && (reason == "CrashLoopBackOff" || ended.exit_code != 0);
        if ended.reason.as_deref() == Some("OOMKilled") && (is_down || is_recent) {
            let evidence = format!(
                "container `{}` was killed by the kernel: OOMKilled, exit code {}",
                container.name, ended.exit_code
            );
            return Some(Found::new(Cause::OutOfContainerMemory, evidence));
        }
        is_down.then(|| crash(pod, container, ended.exit_code, ended.message.as_deref(), facts))
    })
}

/// Returns why a container keeps crashing: from its log, else its message, else its exit code.
fn crash(
    pod: &Pod,
    container: &ContainerStatus,
    exit_code: i32,
    message: Option<&str>,
    facts: &Facts,
) -> Found {
    let log = facts
        .logs
        .iter()
        .find(|log| log.pod == name(pod) && log.container == container.name)
        .map(|log| log.text.as_str());
    let texts = log.into_iter().chain(message);
    if let Some(sign) = texts.clone().find_map(signs::of_text) {
        return Found::of(sign);
    }
    let cause = texts.clone().find_map(cause_of_exit).map(|cause| signs::quoted(&cause));
    let times = container.restart_count;
    Found::new(
        Cause::CrashLoop,
        match cause {
            Some(cause) => format!("{cause} (exit code {exit_code}, {times} restarts)"),
            None if log.is_none() => {
                format!("exit code {exit_code}, {times} restarts; its log could not be read")
            }
            None => format!("exit code {exit_code}, {times} restarts, nothing in the log"),
        },
    )
}

fn unschedulable(pod: &Pod, _facts: &Facts) -> Option<Found> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let condition = conditions.iter().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })?;
    let message = condition.message.as_deref().unwrap_or("no node fits");
    Some(Found::new(signs::of_scheduler(message), signs::quoted(message)))
}

/// Finds a reason for which the operator waits for a manual decision.
fn refusal_of_operator(facts: &Facts) -> Option<Found> {
    let error = facts.resource.error()?;
    let cause = match refusal(&error)? {
        Refusal::MetadataMissing => Cause::HaMetadataMissing,
        Refusal::StateInDoubt => Cause::RestoreRefused,
    };
    let known = facts.resource.upgrade_savepoint_path().filter(|path| *path != LAST_STATE_PATH);
    let known = known.filter(|path| !error.contains(path)).map_or_else(String::new, |path| {
        format!("; the newest state that is known is `{path}`, and a newer one may be beside it")
    });
    Some(Found::new(cause, format!("{}{known}", signs::quoted(&error))))
}

/// Finds a resource that the operator only observes, whatever it is like.
fn paused(facts: &Facts) -> Option<Found> {
    let resource = &facts.resource;
    let paused = resource.paused()?;
    let job =
        resource.job_state().map_or_else(String::new, |state| format!("; the job is {state}"));
    Some(Found::new(Cause::Paused, format!("{}{job}", signs::quoted(&paused))))
}

fn suspended(facts: &Facts) -> Option<Found> {
    let resource = &facts.resource;
    if resource.desired_state() != "suspended" || resource.is_session() {
        return None;
    }
    let by = who_set_state(&resource.0).map_or_else(
        || "spec.job.state is suspended".to_owned(),
        |(manager, at)| format!("`{manager}` set spec.job.state to suspended at {at}"),
    );
    Some(Found::new(Cause::Suspended, by))
}

/// Returns the field manager that owns the desired state, and since when.
fn who_set_state(object: &Value) -> Option<(String, String)> {
    let managers = object.pointer("/metadata/managedFields")?.as_array()?;
    let owner = managers
        .iter()
        .filter(|entry| entry.pointer("/fieldsV1/f:spec/f:job/f:state").is_some())
        .max_by_key(|entry| entry["time"].as_str().map(str::to_owned))?;
    Some((owner["manager"].as_str()?.to_owned(), owner["time"].as_str()?.to_owned()))
}

/// Finds a cause in what Flink reports about the job.
fn job(facts: &Facts) -> Option<Found> {
    let state = facts.resource.job_state().unwrap_or_default();
    if matches!(state, "FINISHED" | "CANCELED") {
        // It ended well, whatever exceptions it recovered from.
        return None;
    }
    let is_running = state == "RUNNING";
    let recent = facts.exceptions.iter().find(|exception| {
        let at = exception.timestamp.and_then(|at| Timestamp::from_millisecond(at).ok());
        !is_running || age(at, facts.now).is_some_and(|age| age < RECENT_SECONDS)
    });
    let failure = facts.failure.as_deref().filter(|_| !is_running);
    let texts = recent.map(|exception| exception.stacktrace.as_str()).into_iter().chain(failure);
    if let Some(sign) = texts.clone().find_map(signs::of_text) {
        return Some(Found::of(sign));
    }
    if let Some(found) = failing_checkpoints(facts) {
        return Some(found);
    }
    if matches!(state, "FAILED" | "FAILING" | "RESTARTING") {
        let cause = texts.clone().next().and_then(innermost);
        let evidence = cause.unwrap_or_else(|| format!("the job is {state}"));
        return Some(Found::new(Cause::JobFailed, evidence));
    }
    None
}

/// Returns the innermost cause of a stack trace, else its first line.
fn innermost(trace: &str) -> Option<String> {
    let lines = || trace.lines().filter(|line| !line.trim().is_empty());
    let caused = lines().rfind(|line| line.trim_start().starts_with("Caused by: "));
    caused.or_else(|| lines().next()).map(signs::quoted)
}

/// Finds a failed checkpoint that no completed one has followed.
fn failing_checkpoints(facts: &Facts) -> Option<Found> {
    let Some(Checkpoints::Statistics(statistics)) = &facts.checkpoints else { return None };
    let failed = statistics.latest.failed.as_ref()?;
    let completed = statistics.latest.completed.as_ref().and_then(|checkpoint| checkpoint.id);
    let is_newest = completed.is_none_or(|completed| failed.id > Some(completed));
    is_newest.then(|| {
        let why = failed.failure_message.as_deref().unwrap_or("Flink gives no reason");
        let evidence = format!(
            "checkpoint {} failed: {} ({} completed, {} failed)",
            failed.id.unwrap_or_default(),
            signs::quoted(why),
            statistics.counts.completed,
            statistics.counts.failed
        );
        Found::new(Cause::CheckpointsFailing, evidence)
    })
}

/// Finds an object that the API server rejects, such as the Service without which nobody reaches the JobManager.
fn refused_object(facts: &Facts) -> Option<Found> {
    signs::of_refusal(&facts.resource.error()?).map(Found::of)
}

fn rest(facts: &Facts) -> Option<Found> {
    let Rest::Silent(why) = &facts.rest else { return None };
    let since = facts.resource.reconciled_at();
    let is_starting = age(since, facts.now).is_some_and(|age| age < START_SECONDS);
    (!is_starting).then(|| Found::new(Cause::RestUnreachable, signs::quoted(why)))
}

fn stored_error(facts: &Facts) -> Option<Found> {
    let error = facts.resource.error()?;
    if facts.resource.error_reason().as_deref() == Some(UPGRADES_PAUSED) {
        return None;
    }
    let sign = signs::of_text(&error).map(Found::of);
    Some(sign.unwrap_or_else(|| Found::new(Cause::OperatorReports, signs::quoted(&error))))
}

fn starting(facts: &Facts) -> Option<Found> {
    let resource = &facts.resource;
    let lifecycle = resource.lifecycle().unwrap_or("new");
    let is_at_rest = matches!(lifecycle, "STABLE" | "DEPLOYED")
        && (resource.is_session() || matches!(resource.job_state(), Some("RUNNING" | "FINISHED")));
    (!is_at_rest || !resource.is_taken_up()).then(|| {
        let job = resource.job_state().unwrap_or("not started");
        let job_manager = resource.job_manager_status().unwrap_or("not deployed");
        let evidence =
            format!("lifecycle {lifecycle}, JobManager {job_manager}, job {job}, no failure");
        Found::new(Cause::Starting, evidence)
    })
}

fn healthy(facts: &Facts) -> Found {
    let resource = &facts.resource;
    let job = resource.job_state().unwrap_or("a session cluster");
    let lifecycle = resource.lifecycle().unwrap_or("new");
    Found::new(Cause::Healthy, format!("lifecycle {lifecycle}, job {job}"))
}

/// Returns the seconds since a time.
fn age(at: Option<Timestamp>, now: Timestamp) -> Option<i64> {
    at.map(|at| now.as_second() - at.as_second())
}

#[cfg(test)]
mod tests;
