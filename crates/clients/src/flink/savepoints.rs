//! Savepoints: triggering them, alone or to stop a job, and finding out how they ended.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{
    checkpoints::{Checkpoints, StatePoint},
    client::{Call, Client, path, poll},
    error::Error,
    failures::{FailureCause, StatusId},
    jobs::JobState,
};
use api::status::{JobStatusState, SavepointFormatType};

/// How to stop a job with a savepoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StopRequest {
    /// `None` leaves it to Flink's `execution.checkpointing.savepoint-dir`.
    pub target_directory: Option<String>,
    /// Sends the end of time through the job: windows fire, and the state is not meant for another run of the same job.
    pub drain: bool,
    pub format: SavepointFormatType,
    /// Chosen by the caller, see [`super::new_trigger_id`].
    pub trigger_id: String,
}

/// How to take a savepoint of a job that continues.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SavepointRequest {
    /// `None` leaves it to Flink's `execution.checkpointing.savepoint-dir`.
    pub target_directory: Option<String>,
    pub format: SavepointFormatType,
    /// Chosen by the caller, see [`super::new_trigger_id`].
    pub trigger_id: String,
}

/// The status of a savepoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SavepointStatus {
    InProgress,
    Completed {
        location: String,
    },
    /// A stop-with-savepoint whose savepoint completed but whose job failed while stopping: it restarts or fails, and
    /// the savepoint is valid.
    CompletedButStopFailed {
        location: String,
        cause: FailureCause,
    },
    /// There is no savepoint, and the job continues or was restarted.
    Failed(FailureCause),
    /// This JobManager does not know the trigger (it was restarted, or forgot it after five minutes). That says nothing
    /// about the savepoint or the job.
    TriggerLost,
}

/// The outcome of a stop-with-savepoint whose response, or whose JobManager, was lost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StopOutcome {
    /// The JobManager still knows the trigger; this is its status.
    Known(SavepointStatus),
    /// The trigger is lost; the job is `FINISHED`, and this is the savepoint that stopped it.
    FinishedWith { location: String, checkpoint_id: i64 },
    /// The trigger is lost and the job has not ended: it may be stopped again.
    NotStopped(JobState),
    /// Nothing can be concluded: the job is not listed, or it ended in another way.
    Unknown { state: Option<JobState> },
}

/// The status of a savepoint's deletion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DisposalStatus {
    InProgress,
    Completed,
    Failed(FailureCause),
    /// This JobManager does not know the trigger: request the deletion again.
    TriggerLost,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StopBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    target_directory: Option<&'a str>,
    drain: bool,
    #[serde(flatten)]
    trigger: Trigger<'a>,
}

/// The body that Flink accepts since 1.15. Earlier versions reject unknown fields.
#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trigger<'a> {
    format_type: Option<SavepointFormatType>,
    trigger_id: Option<&'a str>,
}

impl<'a> Trigger<'a> {
    const OLD: Self = Self { format_type: None, trigger_id: None };

    fn new(format: SavepointFormatType, id: &'a str) -> Self {
        Self { format_type: Some(format), trigger_id: Some(id) }
    }
}

#[derive(Serialize)]
struct SavepointBody<'a> {
    #[serde(rename = "target-directory", skip_serializing_if = "Option::is_none")]
    target_directory: Option<&'a str>,
    #[serde(rename = "cancel-job")]
    cancel_job: bool,
    #[serde(flatten)]
    trigger: Trigger<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct DisposalBody<'a> {
    savepoint_path: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Triggered {
    request_id: String,
}

#[derive(Deserialize)]
struct StatusBody {
    status: StatusId,
    #[serde(default)]
    operation: Option<Operation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Operation {
    #[serde(default)]
    location: Option<String>,
    #[serde(default)]
    failure_cause: Option<FailureCause>,
}

impl Client {
    /// `POST /jobs/:jobid/stop`; returns the trigger's id, to be polled.
    ///
    /// After an error whose [`Error::effect`] is unknown, the same request may be repeated: with the same trigger id it
    /// is one operation.
    pub async fn stop_with_savepoint(
        &self,
        job_id: &str,
        request: &StopRequest,
    ) -> Result<String, Error> {
        let StopRequest { target_directory, drain, format, trigger_id } = request;
        let body = |trigger| StopBody {
            target_directory: target_directory.as_deref(),
            drain: *drain,
            trigger,
        };
        let path = path(&["jobs", job_id, "stop"])?;
        match self.trigger(path.clone(), &body(Trigger::new(*format, trigger_id))).await {
            Err(error) if error.says(is_of_old_format) => {
                self.trigger_old(path, &body(Trigger::OLD), trigger_id).await
            }
            other => other,
        }
    }

    /// `POST /jobs/:jobid/savepoints`; returns the trigger's id, to be polled.
    ///
    /// May be repeated like [`Client::stop_with_savepoint`].
    pub async fn trigger_savepoint(
        &self,
        job_id: &str,
        request: &SavepointRequest,
    ) -> Result<String, Error> {
        let SavepointRequest { target_directory, format, trigger_id } = request;
        let body = |trigger| SavepointBody {
            target_directory: target_directory.as_deref(),
            cancel_job: false,
            trigger,
        };
        let path = path(&["jobs", job_id, "savepoints"])?;
        match self.trigger(path.clone(), &body(Trigger::new(*format, trigger_id))).await {
            Err(error) if error.says(is_of_old_format) => {
                self.trigger_old(path, &body(Trigger::OLD), trigger_id).await
            }
            other => other,
        }
    }

    /// Polls the savepoint until it has ended or [`super::Deadlines::savepoint`] has passed: then it is still
    /// [`SavepointStatus::InProgress`], and may complete later.
    pub async fn await_savepoint(
        &self,
        job_id: &str,
        trigger_id: &str,
    ) -> Result<SavepointStatus, Error> {
        let ask = || self.savepoint_status(job_id, trigger_id);
        poll(self.deadlines().savepoint, ask, |status| *status == SavepointStatus::InProgress).await
    }

    /// Finds out how a stop-with-savepoint ended after its response was lost.
    pub async fn find_stop(&self, job_id: &str, trigger_id: &str) -> Result<StopOutcome, Error> {
        let status = self.savepoint_status(job_id, trigger_id).await?;
        if status != SavepointStatus::TriggerLost {
            return Ok(StopOutcome::Known(status));
        }
        let jobs = self.jobs_overview().await?;
        let Some(state) = jobs.find(job_id).map(|job| job.state.clone()) else {
            return Ok(StopOutcome::Unknown { state: None });
        };
        let known = state.known();
        if known.is_some_and(|known| !known.is_globally_terminal()) {
            return Ok(StopOutcome::NotStopped(state));
        }
        if known == Some(JobStatusState::Finished)
            && let Checkpoints::Statistics(statistics) = self.final_checkpoints(job_id).await?
            && let Some(point) = statistics.stopped_with()
        {
            let StatePoint { checkpoint_id, path, .. } = point;
            return Ok(StopOutcome::FinishedWith { location: path, checkpoint_id });
        }
        Ok(StopOutcome::Unknown { state: Some(state) })
    }

    /// `POST /savepoint-disposal`; returns the trigger's id, to be polled.
    pub async fn dispose_savepoint(&self, location: &str) -> Result<String, Error> {
        let body = DisposalBody { savepoint_path: location };
        self.trigger("/savepoint-disposal".into(), &body).await
    }

    /// `GET /savepoint-disposal/:triggerid`.
    pub async fn disposal_status(&self, trigger_id: &str) -> Result<DisposalStatus, Error> {
        let path = path(&["savepoint-disposal", trigger_id])?;
        let request = format!("GET {path}");
        let body = match self.get::<StatusBody>(path).await {
            Ok(body) => body,
            Err(error) if is_trigger_unknown(&error) => return Ok(DisposalStatus::TriggerLost),
            Err(error) => return Err(error),
        };
        let cause = body.operation.and_then(|operation| operation.failure_cause);
        match (body.status.id.as_str(), cause) {
            ("IN_PROGRESS", _) => Ok(DisposalStatus::InProgress),
            ("COMPLETED", None) => Ok(DisposalStatus::Completed),
            ("COMPLETED", Some(cause)) => Ok(DisposalStatus::Failed(cause)),
            (other, _) => Err(Error::Malformed {
                request,
                problem: format!("unknown status `{other}` of a disposal"),
            }),
        }
    }

    /// Polls the deletion until it has ended, for at most [`super::Deadlines::request`].
    pub async fn await_disposal(&self, trigger_id: &str) -> Result<DisposalStatus, Error> {
        let ask = || self.disposal_status(trigger_id);
        poll(self.deadlines().request, ask, |status| *status == DisposalStatus::InProgress).await
    }

    pub(super) async fn trigger(
        &self,
        path: String,
        body: &impl Serialize,
    ) -> Result<String, Error> {
        let call = Call::json(Method::POST, path, body)?;
        let triggered: Triggered = self.call(call, self.deadlines().request).await?;
        Ok(triggered.request_id)
    }

    /// Triggers on Flink before 1.15, which chooses the trigger's id itself. From then on our id stands for it.
    async fn trigger_old(
        &self,
        path: String,
        body: &impl Serialize,
        trigger_id: &str,
    ) -> Result<String, Error> {
        let flinks = self.trigger(path, body).await?;
        self.triggers.remember(trigger_id, &flinks);
        Ok(trigger_id.to_owned())
    }

    /// `GET /jobs/:jobid/savepoints/:triggerid`, for savepoints and for stops.
    pub async fn savepoint_status(
        &self,
        job_id: &str,
        trigger_id: &str,
    ) -> Result<SavepointStatus, Error> {
        let path = path(&["jobs", job_id, "savepoints", &self.triggers.id_of(trigger_id)])?;
        let request = format!("GET {path}");
        match self.get::<StatusBody>(path).await {
            Ok(body) => {
                savepoint_status(body).map_err(|problem| Error::Malformed { request, problem })
            }
            Err(error) if is_trigger_unknown(&error) => Ok(SavepointStatus::TriggerLost),
            Err(error) => Err(error),
        }
    }
}

impl FailureCause {
    /// Returns whether a disposal found nothing to delete.
    pub fn is_savepoint_missing(&self) -> bool {
        self.chain().iter().any(|line| {
            line.contains("Cannot find checkpoint or savepoint file/directory")
                || line.contains("Cannot find meta data file")
        })
    }
}

/// Returns whether Flink said that it has no operation with this id.
pub(super) fn is_trigger_unknown(error: &Error) -> bool {
    matches!(error, Error::Refused { status: 404, .. })
        && error.says(|line| {
            line.contains("There is no savepoint operation")
                || line.contains("There is no checkpoint operation")
                || line.contains("Operation not found under key")
        })
}

/// Returns whether Flink rejects a body because of an unknown field.
fn is_of_old_format(line: &str) -> bool {
    line.contains("Request did not match expected format")
}

fn savepoint_status(body: StatusBody) -> Result<SavepointStatus, String> {
    match body.status.id.as_str() {
        "IN_PROGRESS" => return Ok(SavepointStatus::InProgress),
        "COMPLETED" => {}
        other => return Err(format!("unknown status `{other}` of a savepoint")),
    }
    match body.operation {
        Some(Operation { location: Some(location), failure_cause: None })
            if !location.is_empty() =>
        {
            Ok(SavepointStatus::Completed { location })
        }
        Some(Operation { failure_cause: Some(cause), location: _ }) => {
            Ok(match savepoint_of_failed_stop(&cause) {
                Some(location) => SavepointStatus::CompletedButStopFailed { location, cause },
                None => SavepointStatus::Failed(cause),
            })
        }
        _ => Err("a completed savepoint has neither location nor failure".into()),
    }
}

/// Returns the path in `A savepoint has been created at: <path>, but the corresponding job <id> failed during stopping`
/// of a `StopWithSavepointStoppingException`.
fn savepoint_of_failed_stop(cause: &FailureCause) -> Option<String> {
    const EXCEPTION: &str = "StopWithSavepointStoppingException";
    let mentions = cause.class.contains(EXCEPTION) || cause.stack_trace.contains(EXCEPTION);
    let (_, after) = cause.stack_trace.split_once("A savepoint has been created at: ")?;
    let (path, _) = after.split_once(", but the corresponding job")?;
    (mentions && !path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests;
