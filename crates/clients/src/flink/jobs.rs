//! Jobs: listing them, their state and details, and cancelling them.

use std::{collections::BTreeMap, fmt};

use http::Method;
use serde::{Deserialize, Deserializer};

use super::{
    client::{Call, Client, path},
    error::Error,
    wire::{null_as_default, timestamp},
};
use api::status::JobStatusState;

/// A job's state, as Flink reports it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum JobState {
    Known(JobStatusState),
    /// A state of a newer Flink; nothing may be concluded from it.
    Unknown(String),
}

impl JobState {
    pub fn parse(text: &str) -> Self {
        use serde::de::{IntoDeserializer, value::Error};
        let deserializer = IntoDeserializer::<Error>::into_deserializer(text);
        JobStatusState::deserialize(deserializer)
            .map_or_else(|_| Self::Unknown(text.to_owned()), Self::Known)
    }

    /// Returns the state if it is a known one.
    pub fn known(&self) -> Option<JobStatusState> {
        match self {
            Self::Known(state) => Some(*state),
            Self::Unknown(_) => None,
        }
    }

    /// Returns whether the state is `FAILED`, `CANCELED` or `FINISHED`.
    pub fn is_globally_terminal(&self) -> bool {
        self.known().is_some_and(JobStatusState::is_globally_terminal)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(state) => f.write_str(state.into_str()),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for JobState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&String::deserialize(deserializer)?))
    }
}

/// `GET /jobs/overview`.
///
/// An empty list says nothing while the application's `main()` still runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct JobsOverview {
    pub jobs: Vec<JobOverview>,
}

impl JobsOverview {
    /// Returns the job with this id, if it is listed.
    pub fn find(&self, job_id: &str) -> Option<&JobOverview> {
        self.jobs.iter().find(|job| job.id == job_id)
    }
}

/// One job of the overview; times are milliseconds since the epoch.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct JobOverview {
    #[serde(rename = "jid")]
    pub id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// As reported; see [`JobOverview::effective_state`].
    pub state: JobState,
    #[serde(default, deserialize_with = "timestamp")]
    pub start_time: Option<i64>,
    #[serde(default, deserialize_with = "timestamp")]
    pub end_time: Option<i64>,
    #[serde(default, deserialize_with = "timestamp")]
    pub last_modification: Option<i64>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub tasks: TaskCounts,
}

/// Number of tasks by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct TaskCounts {
    pub total: u32,
    pub created: u32,
    pub scheduled: u32,
    pub deploying: u32,
    pub running: u32,
    pub finished: u32,
    pub canceling: u32,
    pub canceled: u32,
    pub failed: u32,
    pub reconciling: u32,
    pub initializing: u32,
}

impl JobOverview {
    /// Returns the state, with `CREATED` for Flink's `RUNNING` while some task does not run (or has not finished) yet.
    pub fn effective_state(&self) -> JobState {
        let TaskCounts { total, running, finished, .. } = self.tasks;
        match self.state {
            JobState::Known(JobStatusState::Running)
                if running.saturating_add(finished) < total =>
            {
                JobState::Known(JobStatusState::Created)
            }
            _ => self.state.clone(),
        }
    }
}

/// `GET /jobs/:jobid`; times are milliseconds since the epoch.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct JobDetails {
    #[serde(rename = "jid")]
    pub id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    pub state: JobState,
    #[serde(default, deserialize_with = "timestamp")]
    pub start_time: Option<i64>,
    #[serde(default, deserialize_with = "timestamp")]
    pub end_time: Option<i64>,
    /// When the job entered each state; zero for never.
    #[serde(default, deserialize_with = "null_as_default")]
    pub timestamps: BTreeMap<String, i64>,
    /// May be empty while the job is `INITIALIZING`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub vertices: Vec<Vertex>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub plan: Plan,
}

/// One vertex of the job graph.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Vertex {
    pub id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(rename = "maxParallelism", default)]
    pub max_parallelism: Option<i32>,
    /// Some versions do not report it.
    #[serde(rename = "slotSharingGroupId", default)]
    pub slot_sharing_group_id: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub parallelism: u32,
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: String,
    /// Number of subtasks by state.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tasks: BTreeMap<String, u32>,
    /// Records, bytes and times so far.
    #[serde(default, deserialize_with = "null_as_default")]
    pub metrics: serde_json::Map<String, serde_json::Value>,
}

/// How the vertices are connected.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Plan {
    #[serde(default, deserialize_with = "null_as_default")]
    pub nodes: Vec<PlanNode>,
}

/// One vertex of the plan.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct PlanNode {
    pub id: String,
    #[serde(default)]
    pub parallelism: Option<u32>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub inputs: Vec<PlanInput>,
}

/// An edge, seen from the vertex that it leads to.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct PlanInput {
    pub id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub ship_strategy: String,
}

/// Flink's response to a cancellation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CancelAnswer {
    /// The job is being cancelled; it becomes `CANCELED` some time later.
    Accepted,
    /// It had already ended; contains the state if Flink names it.
    AlreadyTerminal(Option<JobState>),
    /// This JobManager does not know the job.
    JobNotFound,
}

impl Client {
    /// `GET /jobs/overview`.
    pub async fn jobs_overview(&self) -> Result<JobsOverview, Error> {
        self.get("/jobs/overview".into()).await
    }

    /// `GET /jobs/:jobid`.
    pub async fn job(&self, job_id: &str) -> Result<JobDetails, Error> {
        self.get(path(&["jobs", job_id])?).await
    }

    /// `PATCH /jobs/:jobid?mode=cancel`.
    ///
    /// After an error whose [`Error::effect`] is unknown, the job's state shows what happened.
    pub async fn cancel(&self, job_id: &str) -> Result<CancelAnswer, Error> {
        let path = format!("{}?mode=cancel", path(&["jobs", job_id])?);
        let call = Call::new(Method::PATCH, path);
        match self.send(call, self.deadlines().cancel).await {
            Ok(_) => Ok(CancelAnswer::Accepted),
            Err(error) => already_terminal(&error)
                .or_else(|| error.is_job_not_found().then_some(CancelAnswer::JobNotFound))
                .ok_or(error),
        }
    }
}

/// Parses `… already reached another terminal state (FINISHED)` of a 409 or a 400.
fn already_terminal(error: &Error) -> Option<CancelAnswer> {
    const MARK: &str = "already reached another terminal state";
    let Error::Refused { status, errors, .. } = error else { return None };
    let text = errors.iter().find(|text| text.contains(MARK));
    let state = text.and_then(|text| {
        let (_, after) = text.split_once(MARK)?;
        let (state, _) = after.trim_start().strip_prefix('(')?.split_once(')')?;
        Some(JobState::parse(state))
    });
    (*status == 409 || (*status == 400 && text.is_some()))
        .then_some(CancelAnswer::AlreadyTerminal(state))
}

#[cfg(test)]
mod tests;
