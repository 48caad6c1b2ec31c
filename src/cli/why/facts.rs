//! Reads everything that may reveal a cause, concurrently and with limits.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::verdict::{Facts, LastWords, Rest};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::lookup;
use crate::cli::{job_manager, operators};
use api::deployment::FlinkDeployment;
use clients::cluster::apply::ObjectId;
use clients::cluster::{events, logs, pods, read};
use clients::flink::access::Access;
use clients::flink::failures::ExecutionResult;
use clients::flink::{self, Client, Deadlines};

/// How long to wait for the JobManager, as a user is waiting.
const PATIENCE: Duration = Duration::from_secs(4);
/// Number of log lines read; a stack trace of Flink is seldom longer.
const LOG_LINES: i64 = 200;
const LOG_BYTES: u32 = 256 * 1024;
/// Maximum number of containers whose logs are read, of the least healthy pods.
const LOGS_MAX: usize = 4;
/// Maximum number of exceptions requested.
const EXCEPTIONS_MAX: u32 = 10;

/// Returns the facts, and what could not be read.
pub(super) async fn observe(
    connection: &Connection,
    name: &str,
    access: Access,
) -> anyhow::Result<(Facts, Vec<String>)> {
    let parent = lookup::find_blue_green(connection, name).await?;
    let resource = match &parent {
        Some(parent) => awaited(connection, parent).await?,
        None => lookup::fetch(connection, name).await?,
    };
    let mut unread = Vec::new();
    let (client, namespace) = (&connection.client, resource.namespace());
    let of_job = resource.session_cluster();
    let cluster = match of_job.as_deref() {
        None => Ok(None),
        Some(name) => {
            let id = ObjectId::of::<FlinkDeployment>(namespace, name);
            read::get_value(client, &id).await.map(|found| found.map(Deployment))
        }
    };
    let is_cluster_unread = cluster.is_err();
    // A missing cluster is a cause; one that cannot be read is not.
    let cluster = cluster.unwrap_or_else(|error| {
        unread.push(format!("the session cluster: {error}"));
        None
    });
    let runs_in = of_job.as_deref().unwrap_or(resource.name());
    let names = [resource.name(), runs_in];
    let (pods, events, operator) = tokio::join!(
        pods::list(client, namespace, runs_in, None),
        events::around(client, namespace, &names),
        operators::state(client),
    );
    let mut or_note = |what: &str, error: &dyn std::fmt::Display| {
        unread.push(format!("{what}: {error}"));
    };
    let pods = pods.unwrap_or_else(|error| {
        or_note("pods", &error);
        Vec::new()
    });
    let events = events.unwrap_or_else(|error| {
        or_note("events", &error);
        Vec::new()
    });
    if let operators::State::Unknown(why) = &operator {
        or_note("operators", why);
    }
    let mut facts = Facts {
        now: Timestamp::now(),
        cluster: cluster.clone(),
        is_cluster_unread,
        pods,
        events,
        logs: Vec::new(),
        rest: Rest::NotAsked,
        exceptions: Vec::new(),
        failure: None,
        checkpoints: None,
        operator,
        resource: resource.clone(),
        parent,
    };
    let logs = last_words(connection, &facts.pods, namespace);
    let (logs, flink) = tokio::join!(logs, ask(connection, &resource, cluster.as_ref(), access));
    for log in logs {
        match log {
            Ok(log) => facts.logs.push(log),
            Err(error) => unread.push(error),
        }
    }
    if let Some(Asked { rest, exceptions, failure, checkpoints, unread: of_flink }) = flink {
        unread.extend(of_flink);
        facts.rest = rest;
        facts.exceptions = exceptions;
        facts.failure = failure;
        facts.checkpoints = checkpoints;
    }
    Ok((facts, unread))
}

/// Returns the colour to diagnose: the starting one in a transition, else the active one.
async fn awaited(connection: &Connection, parent: &Deployment) -> anyhow::Result<Deployment> {
    let colours = lookup::colours(connection, parent).await?;
    let is_switching = parent.lifecycle().is_some_and(|it| it.starts_with("TRANSITIONING"));
    let awaited =
        if is_switching { colours.into_iter().last() } else { colours.into_iter().next() };
    // Without any colour only the operator's status is left to examine.
    Ok(awaited.unwrap_or_else(|| parent.clone()))
}

/// Returns the logs of unhealthy containers, or why one cannot be read.
async fn last_words(
    connection: &Connection,
    pods: &[Pod],
    namespace: &str,
) -> Vec<Result<LastWords, String>> {
    let ill = pods.iter().flat_map(|pod| {
        let containers = pod.status.iter().flat_map(|status| {
            let init = status.init_container_statuses.iter().flatten();
            init.chain(status.container_statuses.iter().flatten())
        });
        containers.filter(|it| has_ended(it)).map(move |container| (pod, container))
    });
    let requests = ill.take(LOGS_MAX).map(|(pod, container)| {
        let is_running = container.state.as_ref().is_some_and(|state| state.running.is_some());
        let request = logs::LogRequest {
            namespace: namespace.to_owned(),
            pod: pod.metadata.name.clone().unwrap_or_default(),
            container: Some(container.name.clone()),
            is_previous: is_running,
            tail_lines: Some(LOG_LINES),
            ..logs::LogRequest::default()
        };
        async move {
            let text = logs::text(&connection.client, &request, LOG_BYTES).await;
            let (pod, container) = (request.pod, request.container.unwrap_or_default());
            match text {
                Ok(text) => Ok(LastWords { pod, container, text }),
                Err(error) => Err(format!("the log of {pod}/{container}: {error}")),
            }
        }
    });
    join_all(requests).await
}

/// Returns whether the container has ended in a way that its log may explain.
fn has_ended(container: &ContainerStatus) -> bool {
    let states = [container.state.as_ref(), container.last_state.as_ref()];
    states
        .into_iter()
        .flatten()
        .filter_map(|state| state.terminated.as_ref())
        .any(|ended| ended.exit_code != 0)
}

/// Answers of the JobManager.
struct Asked {
    rest: Rest,
    exceptions: Vec<flink::failures::JobException>,
    failure: Option<String>,
    checkpoints: Option<flink::checkpoints::Checkpoints>,
    /// Requests that it did not answer, and why.
    unread: Vec<String>,
}

impl Asked {
    fn new(rest: Rest) -> Self {
        Self { rest, exceptions: vec![], failure: None, checkpoints: None, unread: vec![] }
    }

    /// Returns the answer; an error is noted.
    fn noted<T>(&mut self, what: &str, answer: Result<T, flink::Error>) -> Option<T> {
        answer.map_err(|error| self.unread.push(format!("{what}: {error}"))).ok()
    }
}

/// Asks the JobManager; `None` if there is none to ask.
async fn ask(
    connection: &Connection,
    resource: &Deployment,
    cluster: Option<&Deployment>,
    access: Access,
) -> Option<Asked> {
    let runs_in = cluster.unwrap_or(resource);
    if !matches!(runs_in.job_manager_status(), Some("READY" | "DEPLOYED_NOT_READY" | "DEPLOYING")) {
        return None;
    }
    let deadlines = Deadlines { request: PATIENCE, ..Deadlines::default() };
    let silent = |why: String| Asked::new(Rest::Silent(why));
    let client = match job_manager::client(connection, runs_in, access, deadlines) {
        Ok(client) => client.without_retries(),
        Err(error) => return Some(silent(format!("{error:#}"))),
    };
    if let Err(error) = client.config().await {
        return Some(silent(error.to_string()));
    }
    let mut asked = Asked::new(Rest::Answers);
    if let Some(job_id) = resource.job_id() {
        let (exceptions, checkpoints, failure) = tokio::join!(
            client.exceptions(job_id, EXCEPTIONS_MAX),
            client.checkpoints(job_id),
            failure(&client, job_id),
        );
        let exceptions = asked.noted("the job's exceptions", exceptions);
        asked.exceptions = exceptions.map(|it| it.entries).unwrap_or_default();
        asked.checkpoints = asked.noted("the job's checkpoints", checkpoints);
        asked.failure = asked.noted("the job's result", failure).flatten();
    }
    Some(asked)
}

/// Returns the stack trace of a failed job.
async fn failure(client: &Client, job_id: &str) -> Result<Option<String>, flink::Error> {
    Ok(match client.execution_result(job_id).await? {
        ExecutionResult::Completed { failure, .. } => failure.map(|failure| failure.stack_trace),
        ExecutionResult::InProgress => None,
    })
}
