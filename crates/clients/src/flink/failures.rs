//! Why a job, or an operation on it, failed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    client::{Client, path},
    error::Error,
    wire::{null_as_default, timestamp},
};

/// An exception of Flink's, as text: the serialised form is Java's own and is not parsed.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct FailureCause {
    /// The exception's class.
    #[serde(default, deserialize_with = "null_as_default")]
    pub class: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub stack_trace: String,
}

impl FailureCause {
    /// Returns `class: message` of the exception and of each of its causes, outermost first.
    pub fn chain(&self) -> Vec<&str> {
        let mut lines = self.stack_trace.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or(&self.class);
        let causes = lines.filter_map(|line| line.trim_start().strip_prefix("Caused by: "));
        std::iter::once(first).chain(causes).map(str::trim).collect()
    }

    /// Returns the innermost cause, which is the one to show in one line.
    pub fn root(&self) -> &str {
        self.chain().last().copied().unwrap_or_default()
    }

    /// Returns the stack trace's first `limit` lines, and how many were left out.
    pub fn head(&self, limit: usize) -> (Vec<&str>, usize) {
        head(&self.stack_trace, limit)
    }

    /// Returns whether the operation failed because this JobManager does not know the job.
    pub fn is_job_not_found(&self) -> bool {
        self.chain().iter().any(|line| line.contains("FlinkJobNotFoundException"))
    }
}

/// Returns the first `limit` lines of `text`, and how many more there are.
pub fn head(text: &str, limit: usize) -> (Vec<&str>, usize) {
    let total = text.lines().count();
    (text.lines().take(limit).collect(), total.saturating_sub(limit))
}

/// `GET /jobs/:jobid/exceptions`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobExceptions {
    /// Newest first.
    pub entries: Vec<JobException>,
    /// Whether Flink has more than it returned.
    pub is_truncated: bool,
}

/// One exception in a job's history.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct JobException {
    /// The exception's class.
    #[serde(default, rename = "exceptionName", deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub stacktrace: String,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "timestamp")]
    pub timestamp: Option<i64>,
    #[serde(default)]
    pub task_name: Option<String>,
    #[serde(default)]
    pub task_manager_id: Option<String>,
    /// `host:port` of the TaskManager; 1.18 and newer.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The location, under the key of older versions.
    #[serde(default)]
    pub location: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub failure_labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub concurrent_exceptions: Vec<Self>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExceptionsBody {
    #[serde(default, deserialize_with = "null_as_default")]
    exception_history: History,
}

#[derive(Default, Deserialize)]
struct History {
    #[serde(default, deserialize_with = "null_as_default")]
    entries: Vec<JobException>,
    #[serde(default, deserialize_with = "null_as_default")]
    truncated: bool,
}

/// `GET /jobs/:jobid/execution-result`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ExecutionResult {
    /// The job has not ended.
    InProgress,
    Completed {
        /// `SUCCEEDED`, `FAILED`, `CANCELED` or `UNKNOWN`.
        status: String,
        failure: Option<FailureCause>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ResultBody {
    status: StatusId,
    #[serde(default)]
    job_execution_result: Option<JobResult>,
}

/// The status of an asynchronous operation: `IN_PROGRESS` or `COMPLETED`.
#[derive(Deserialize)]
pub(super) struct StatusId {
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct JobResult {
    #[serde(default, deserialize_with = "null_as_default")]
    application_status: String,
    #[serde(default)]
    failure_cause: Option<FailureCause>,
}

impl Client {
    /// `GET /jobs/:jobid/exceptions`, at most `limit` of them.
    pub async fn exceptions(&self, job_id: &str, limit: u32) -> Result<JobExceptions, Error> {
        let path = path(&["jobs", job_id, "exceptions"])?;
        let body: ExceptionsBody = self.get(format!("{path}?maxExceptions={limit}")).await?;
        let History { mut entries, truncated } = body.exception_history;
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.timestamp));
        entries.truncate(limit as usize);
        Ok(JobExceptions { entries, is_truncated: truncated })
    }

    /// `GET /jobs/:jobid/execution-result`.
    pub async fn execution_result(&self, job_id: &str) -> Result<ExecutionResult, Error> {
        let path = path(&["jobs", job_id, "execution-result"])?;
        let request = format!("GET {path}");
        let body: ResultBody = self.get(path).await?;
        match (body.status.id.as_str(), body.job_execution_result) {
            ("IN_PROGRESS", _) => Ok(ExecutionResult::InProgress),
            ("COMPLETED", Some(result)) => Ok(ExecutionResult::Completed {
                status: result.application_status,
                failure: result.failure_cause,
            }),
            (other, _) => Err(Error::Malformed {
                request,
                problem: format!("status `{other}` without a result"),
            }),
        }
    }
}
