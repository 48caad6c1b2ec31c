//! Draws the facts about one deployment as a tree. Pure: the same facts give the same text.

use anstyle::Style;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::advice;
use super::draw::Node;
use super::facts::{Facts, FlinkFacts, JobFacts};
use crate::cli::deployment::Deployment;
use crate::cli::printer::{BOLD, DIM, GREEN, RED, YELLOW, styled};
use crate::cli::table::{age, bytes};
use api::status::LAST_STATE_PATH;
use clients::cluster::pods::Role;
use clients::flink::checkpoints::{Checkpoint, Checkpoints};
use clients::flink::jobs::{JobDetails, JobOverview, JobState, JobsOverview, TaskCounts, Vertex};

/// Maximum number of snapshots shown; the others are counted.
const SNAPSHOTS_SHOWN: usize = 5;
/// Maximum number of session jobs of a cluster shown; the others are counted.
const JOBS_SHOWN: usize = 20;
/// Maximum number of pods of one role shown; the others are counted.
const PODS_SHOWN: usize = 10;

/// Draws the tree, with each line ended; in a terminal of `width` columns, lines are wrapped between words.
pub(super) fn render(facts: &Facts, is_wide: bool, width: Option<usize>, now: Timestamp) -> String {
    let Facts { deployment, events, .. } = facts;
    let Parts { mut nodes, is_advised } = parts(facts, is_wide, now);
    nodes.extend(
        deployment.error().map(|error| Node::leaf(format!("{} {error}", styled(RED, "error:")))),
    );
    nodes.extend(advice::events_node(events, is_advised, now));
    Node::with(headline(deployment, now), nodes).drawn(width)
}

/// The nodes below the headline, without the error and the events.
pub(super) struct Parts {
    pub(super) nodes: Vec<Node>,
    /// Whether they include the advice of an autoscaler.
    is_advised: bool,
}

pub(super) fn parts(facts: &Facts, is_wide: bool, now: Timestamp) -> Parts {
    let Facts {
        deployment,
        pods,
        snapshots,
        session_cluster,
        session_jobs,
        flink,
        events,
        advised_until,
    } = facts;
    let of_role = |role| match pods {
        Ok(pods) => pod_nodes(pods, role, is_wide, now),
        Err(error) => vec![Node::leaf(styled(RED, error))],
    };
    let mut children = Vec::new();
    children.extend(paused(deployment));
    children.extend(reconciliation(deployment));
    if let Some(cluster) = session_cluster {
        children.push(cluster_node(cluster));
    } else {
        let job_manager = deployment.job_manager_status().unwrap_or("not deployed");
        let label = format!("JobManager {}", coloured(job_manager));
        children.push(Node::with(label, of_role(Role::JobManager)));
    }
    let task_managers = of_role(Role::TaskManager);
    if !task_managers.is_empty() || flink.is_some() {
        let is_over = !deployment.is_session_job() && deployment.job_state().is_some_and(is_over);
        let label = format!("TaskManagers{}", slots(flink.as_ref(), is_over));
        children.push(Node::with(label, task_managers));
    }
    if !deployment.is_session() {
        let job = flink.as_ref().and_then(|flink| flink.job.as_ref());
        children.push(job_node(deployment, job, now));
        children.extend(job.and_then(|job| checkpoint_node(job, now)));
    }
    let running = flink.as_ref().and_then(|flink| flink.overview.as_ref());
    if deployment.is_session() {
        children.extend(session_jobs_node(session_jobs, running, now));
    }
    let names = flink
        .as_ref()
        .and_then(|flink| flink.job.as_ref()?.details.as_ref().ok())
        .map(|details| details.vertices.as_slice())
        .unwrap_or_default();
    let advice = advice::node(deployment, events, *advised_until, names, now);
    let is_advised = advice.is_some();
    children.extend(advice);
    children.extend(snapshot_node(snapshots.as_deref().unwrap_or_default(), now));
    Parts { nodes: children, is_advised }
}

pub(super) fn headline(deployment: &Deployment, now: Timestamp) -> String {
    let mut about = vec![format!("namespace {}", deployment.namespace())];
    about.extend(deployment.flink_version().map(str::to_owned));
    about.extend(deployment.is_standalone().then(|| "standalone".to_owned()));
    about.push(if deployment.is_session() {
        "session cluster".to_owned()
    } else if deployment.is_session_job() {
        format!("session job, upgrade mode {}", deployment.upgrade_mode())
    } else {
        format!("upgrade mode {}", deployment.upgrade_mode())
    });
    about.extend(
        deployment.created_at().map(|created| format!("{} old", since(created.as_second(), now))),
    );
    let state = if deployment.is_being_deleted() {
        "DELETING"
    } else {
        deployment.lifecycle().unwrap_or("new")
    };
    format!(
        "{} {} {}",
        styled(BOLD, deployment.name()),
        coloured(state),
        styled(DIM, format_args!("({})", about.join(", ")))
    )
}

/// Returns a node if the operator only observes the resource.
fn paused(deployment: &Deployment) -> Option<Node> {
    Some(Node::leaf(styled(YELLOW, deployment.paused()?)))
}

/// Returns a node if the operator has not picked up the current spec.
fn reconciliation(deployment: &Deployment) -> Option<Node> {
    if deployment.is_taken_up() {
        return None;
    }
    let text = match deployment.observed_generation() {
        None => "no operator has picked it up yet".to_owned(),
        Some(observed) => {
            let waits = deployment.upgrade_waits();
            format!(
                "the operator works on generation {observed}; the spec is at {}{}{}",
                deployment.generation(),
                if deployment.is_tried() { ", and is being tried in its own pods" } else { "" },
                waits.map_or_else(String::new, |(_, message)| format!(": {message}"))
            )
        }
    };
    Some(Node::leaf(styled(YELLOW, text)))
}

fn pod_nodes(pods: &[Pod], role: Role, is_wide: bool, now: Timestamp) -> Vec<Node> {
    let pods = pods.iter().filter(|pod| Role::of(pod) == Some(role)).collect::<Vec<_>>();
    let mut nodes =
        pods.iter().take(PODS_SHOWN).map(|pod| pod_node(pod, is_wide, now)).collect::<Vec<_>>();
    if pods.len() > PODS_SHOWN {
        nodes.push(Node::leaf(format!("… and {} more", pods.len() - PODS_SHOWN)));
    }
    nodes
}

pub(super) fn pod_node(pod: &Pod, is_wide: bool, now: Timestamp) -> Node {
    let status = pod.status.as_ref();
    let containers =
        status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let ready = containers.iter().filter(|container| container.ready).count();
    let restarts: i32 = containers.iter().map(|container| container.restart_count).sum();
    let waiting = containers.iter().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting
            .reason
            .as_deref()
            .filter(|reason| *reason != "ContainerCreating" && *reason != "PodInitializing")
    });
    let phase = waiting.or_else(|| status?.phase.as_deref()).unwrap_or("Unknown");
    let mut about = vec![format!("{ready}/{} ready", containers.len())];
    if restarts > 0 {
        about.push(format!("{restarts} restarts"));
    }
    about.extend(pod.metadata.creation_timestamp.as_ref().map(|at| since(at.0.as_second(), now)));
    if is_wide {
        about.extend(status.and_then(|status| status.pod_ip.clone()));
        about.extend(pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Node::leaf(format!("{name} {} {}", coloured(phase), styled(DIM, about.join(", "))))
}

/// Shows the cluster that a session job runs in.
fn cluster_node(cluster: &Result<Deployment, String>) -> Node {
    match cluster {
        Ok(cluster) => {
            let state = cluster.job_manager_status().unwrap_or("not deployed");
            Node::leaf(format!(
                "Session cluster {}, JobManager {}",
                cluster.name(),
                coloured(state)
            ))
        }
        Err(error) => Node::leaf(styled(RED, error)),
    }
}

/// Shows the session jobs of a cluster, one line each, and jobs that run in it without a resource.
fn session_jobs_node(
    jobs: &[Deployment],
    running: Option<&JobsOverview>,
    now: Timestamp,
) -> Option<Node> {
    let mut nodes = jobs
        .iter()
        .take(JOBS_SHOWN)
        .map(|job| session_job_node(job, running, now))
        .collect::<Vec<_>>();
    let is_known = |it: &JobOverview| jobs.iter().any(|job| job.job_id() == Some(it.id.as_str()));
    let by_hand = running.map(|running| running.jobs.as_slice()).unwrap_or_default();
    let by_hand = by_hand.iter().filter(|it| !it.state.is_globally_terminal() && !is_known(it));
    let by_hand = by_hand.collect::<Vec<_>>();
    for job in by_hand.iter().take(JOBS_SHOWN) {
        let state = coloured(&job.effective_state().to_string());
        let about =
            styled(DIM, format_args!("({}, without a resource{})", job.id, tasks(job, now)));
        nodes.push(Node::leaf(format!("{} {state} {about}", job.name)));
    }
    if nodes.is_empty() {
        return None;
    }
    let hidden = jobs.len().saturating_sub(JOBS_SHOWN) + by_hand.len().saturating_sub(JOBS_SHOWN);
    if hidden > 0 {
        nodes.push(Node::leaf(format!("… and {hidden} more")));
    }
    Some(Node::with("Session jobs", nodes))
}

fn session_job_node(job: &Deployment, running: Option<&JobsOverview>, now: Timestamp) -> Node {
    let state = coloured(job.lifecycle().unwrap_or("new"));
    let about = match (job.job_state(), job.job_id()) {
        (Some(state), Some(id)) => format!(" · job {state} ({id})"),
        (Some(state), None) => format!(" · job {state}"),
        (None, _) => String::new(),
    };
    let found = job.job_id().and_then(|id| running?.find(id));
    let tasks = found.map_or_else(String::new, |found| styled(DIM, tasks(found, now)));
    let mut children = Vec::new();
    if job.lifecycle() == Some("SUSPENDED") || job.job_state().is_some_and(is_over) {
        children.extend(next_start(job));
    }
    children
        .extend(job.error().map(|error| Node::leaf(format!("{} {error}", styled(RED, "error:")))));
    Node::with(format!("{} {state}{about}{tasks}", job.name()), children)
}

/// Formats tasks and age, such as `, 4/4 tasks, for 9m`.
fn tasks(job: &JobOverview, now: Timestamp) -> String {
    let TaskCounts { total, running, finished, .. } = job.tasks;
    let since = job.start_time.map(|at| format!(", for {}", since(at / 1000, now)));
    format!(", {}/{total} tasks{}", running + finished, since.unwrap_or_default())
}

/// Shows the state that the next start uses, if it is already known.
fn next_start(job: &Deployment) -> Option<Node> {
    job.upgrade_savepoint_path().map(|path| match path {
        LAST_STATE_PATH => Node::leaf("next start from its last checkpoint"),
        path => Node::leaf(format!("next start from {path}")),
    })
}

/// Returns whether an application has ended, and with it most of its cluster.
fn is_over(state: &str) -> bool {
    matches!(state, "FINISHED" | "FAILED" | "CANCELED")
}

/// Formats slots, such as ` 2 registered, 1 of 4 slots free`.
fn slots(flink: Option<&FlinkFacts>, is_over: bool) -> String {
    let Some(flink) = flink else { return String::new() };
    match &flink.task_managers {
        Ok(registered) => {
            let all = &registered.taskmanagers;
            let slots: u32 = all.iter().map(|one| one.slots_number).sum();
            let free: u32 = all.iter().map(|one| one.free_slots).sum();
            format!(" {} registered, {free} of {slots} slots free", all.len())
        }
        // Flink has released the TaskManagers, and answers with an error.
        Err(_) if is_over => " released, the job has ended".to_owned(),
        Err(error) => format!(" {}", styled(YELLOW, error)),
    }
}

fn job_node(deployment: &Deployment, job: Option<&JobFacts>, now: Timestamp) -> Node {
    let known = deployment.job_state();
    let next = next_start(deployment);
    match job.map(|job| &job.details) {
        Some(Ok(details)) => {
            let mut node = running_job(details, job, now);
            node.children.extend(next.filter(|_| details.state.is_globally_terminal()));
            node
        }
        Some(Err(error)) if error.is_job_not_found() => Node::leaf(format!(
            "Job {}, unknown to the JobManager",
            coloured(known.unwrap_or("not started"))
        )),
        Some(Err(error)) => Node::with(
            format!("Job {} as last seen", coloured(known.unwrap_or("not started"))),
            vec![Node::leaf(styled(YELLOW, error))],
        ),
        None => Node::with(
            format!("Job {}", coloured(known.unwrap_or("not started"))),
            next.into_iter().collect(),
        ),
    }
}

fn running_job(details: &JobDetails, job: Option<&JobFacts>, now: Timestamp) -> Node {
    let mut about = vec![details.id.clone()];
    about.extend(details.start_time.map(|at| format!("for {}", since(at / 1000, now))));
    let mut children = details.vertices.iter().map(vertex_node).collect::<Vec<_>>();
    let latest = job
        .and_then(|job| job.exceptions.as_ref().ok())
        .and_then(|exceptions| exceptions.entries.first());
    if let Some(exception) = latest {
        let when = exception
            .timestamp
            .map_or_else(String::new, |at| format!(" {} ago", since(at / 1000, now)));
        let first = exception.stacktrace.lines().next().unwrap_or(&exception.name);
        children.push(Node::leaf(format!(
            "{} {first}",
            styled(YELLOW, format_args!("last failure{when}:"))
        )));
    }
    Node::with(
        format!(
            "Job {} {} {}",
            coloured(&state_text(&details.state)),
            details.name,
            styled(DIM, format_args!("({})", about.join(", ")))
        ),
        children,
    )
}

fn state_text(state: &JobState) -> String {
    match state {
        JobState::Known(known) => known.into_str().to_owned(),
        JobState::Unknown(text) => text.clone(),
    }
}

fn vertex_node(vertex: &Vertex) -> Node {
    let running = vertex.tasks.get("RUNNING").copied().unwrap_or_default()
        + vertex.tasks.get("FINISHED").copied().unwrap_or_default();
    let records = |key| vertex.metrics.get(key).and_then(Value::as_i64).unwrap_or_default();
    Node::leaf(format!(
        "{} {} {}",
        vertex.name,
        coloured(&vertex.status),
        styled(
            DIM,
            format_args!(
                "{running}/{} tasks, {} in, {} out",
                vertex.parallelism,
                records("read-records"),
                records("write-records")
            )
        )
    ))
}

fn checkpoint_node(job: &JobFacts, now: Timestamp) -> Option<Node> {
    let statistics = match &job.checkpoints {
        Ok(Checkpoints::Statistics(statistics)) => statistics,
        Ok(Checkpoints::Disabled) => {
            return Some(Node::leaf(format!("Checkpoints {}", styled(YELLOW, "are disabled"))));
        }
        // The job's own line reports that the JobManager does not answer.
        Err(_) => return None,
    };
    let mut children = Vec::new();
    if let Some(failed) = statistics.latest.failed.as_ref() {
        let why = failed.failure_message.as_deref().unwrap_or("no reason given");
        children.push(Node::leaf(format!(
            "{} #{} {why}",
            styled(YELLOW, "last failed:"),
            failed.id.unwrap_or_default()
        )));
    }
    if let Some(restored) = statistics.latest.restored.as_ref() {
        let path = restored.external_path.as_deref().unwrap_or("at an unknown path");
        // Flink reports whatever a job was started from as a savepoint.
        let is_checkpoint = path.rsplit('/').next().is_some_and(|last| last.starts_with("chk-"));
        let is_savepoint = restored.is_savepoint && !is_checkpoint;
        let kind = if is_savepoint { "savepoint" } else { "checkpoint" };
        children.push(Node::leaf(styled(DIM, format_args!("restored from {kind} {path}"))));
    }
    let counts = &statistics.counts;
    let totals = format!("{} completed, {} failed", counts.completed, counts.failed);
    let label = match &statistics.latest.completed {
        Some(checkpoint) => format!(
            "Last checkpoint {} {}",
            checkpoint_text(checkpoint, now),
            styled(DIM, format_args!("({totals})"))
        ),
        None => format!("Last checkpoint none yet {}", styled(DIM, format_args!("({totals})"))),
    };
    Some(Node::with(label, children))
}

fn checkpoint_text(checkpoint: &Checkpoint, now: Timestamp) -> String {
    let mut parts = vec![format!("#{}", checkpoint.id.unwrap_or_default())];
    parts
        .extend(checkpoint.latest_ack_timestamp.map(|at| format!("{} ago", since(at / 1000, now))));
    parts.extend(checkpoint.state_size.map(bytes));
    parts.extend(checkpoint.end_to_end_duration.map(|duration| format!("{duration} ms")));
    parts.extend(checkpoint.external_path.clone());
    parts.join(", ")
}

fn snapshot_node(snapshots: &[Value], now: Timestamp) -> Option<Node> {
    let text = |value: &Value, path: &str| {
        value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut nodes = snapshots
        .iter()
        .take(SNAPSHOTS_SHOWN)
        .map(|snapshot| {
            let created = text(snapshot, "/metadata/creationTimestamp").parse::<Timestamp>();
            let age = created
                .map_or_else(|_| String::new(), |at| format!("{} ago", since(at.as_second(), now)));
            let detail = match text(snapshot, "/status/path") {
                path if path.is_empty() => text(snapshot, "/status/error"),
                path => path,
            };
            Node::leaf(format!(
                "{} {} {detail} {}",
                text(snapshot, "/metadata/name"),
                coloured(&text(snapshot, "/status/state")),
                styled(DIM, age)
            ))
        })
        .collect::<Vec<_>>();
    if nodes.is_empty() {
        return None;
    }
    if snapshots.len() > SNAPSHOTS_SHOWN {
        nodes.push(Node::leaf(format!("… and {} more", snapshots.len() - SNAPSHOTS_SHOWN)));
    }
    Some(Node::with("Snapshots", nodes))
}

pub(super) fn since(second: i64, now: Timestamp) -> String {
    age(now.as_second() - second)
}

/// Colours a state: green for good, yellow for in progress, red for broken. The word itself says it without colour.
pub(super) fn coloured(state: &str) -> String {
    let style = match state {
        "STABLE" | "READY" | "RUNNING" | "Running" | "COMPLETED" | "FINISHED" => GREEN,
        "FAILED" | "FAILING" | "ERROR" | "ROLLED_BACK" | "ABANDONED" | "Failed"
        | "CrashLoopBackOff" | "ImagePullBackOff" | "ErrImagePull" => RED,
        "SUSPENDED" => Style::new().bold(),
        _ => YELLOW,
    };
    styled(style, state)
}
