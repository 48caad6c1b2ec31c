//! Flink's answers about one job. Each is read only when it is requested.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::observe::show;
use api::status::{JobStatus, JobStatusState};
use clients::flink::checkpoints::LastState;
use clients::flink::failures::ExecutionResult;
use clients::flink::rescale::ParallelismBounds;
use clients::flink::savepoints::SavepointStatus;
use clients::flink::{self, Client};
use lifecycle::world::{
    Bounds, Checkpoints, CompletedState, Fact, Failure, Job, JobException, JobMetrics, Stop,
};
use metrics::Saved;

/// Maximum number of exceptions to request in one pass; Flink itself keeps 16 by default.
const EXCEPTIONS_MAX: u32 = 20;

/// A job and its JobManager, or why that cannot be addressed.
pub(super) struct Asked<'a> {
    pub(super) status: &'a JobStatus,
    pub(super) flink: Result<Client, String>,
}

impl Asked<'_> {
    fn flink(&self) -> Result<&Client, String> {
        self.flink.as_ref().map_err(Clone::clone)
    }

    fn id(&self) -> Result<&str, String> {
        self.status.job_id.as_deref().ok_or_else(|| "the status names no job id".to_owned())
    }

    pub(super) async fn jobs(&self) -> Result<Vec<Job>, String> {
        let client = self.flink()?.without_retries();
        let overview = client.jobs_overview().await.map_err(|error| show(&error))?;
        Ok(overview
            .jobs
            .iter()
            .map(|job| Job {
                id: job.id.clone(),
                name: job.name.clone(),
                // A state of a newer Flink: nothing can be concluded from it.
                state: job.effective_state().known().unwrap_or(JobStatusState::Reconciling),
                start_time: job.start_time.unwrap_or_default(),
                modified: job.last_modification,
            })
            .collect())
    }

    /// Returns `true` if the job was just seen to have ended, or else had ended at the last look.
    fn has_ended(&self, jobs: &Fact<Vec<Job>>) -> bool {
        match jobs {
            Fact::Known(jobs) => jobs.iter().any(|job| {
                self.status.job_id.as_ref() == Some(&job.id) && job.state.is_globally_terminal()
            }),
            Fact::NotAsked | Fact::Unknown(_) => {
                self.status.state.is_some_and(JobStatusState::is_globally_terminal)
            }
        }
    }

    /// Returns the checkpoint statistics. For a job that has ended, those from before its end would lack its last
    /// state.
    pub(super) async fn checkpoints(&self, jobs: &Fact<Vec<Job>>) -> Result<Checkpoints, String> {
        let (id, client) = (self.id()?, self.flink()?);
        let answer = if self.has_ended(jobs) {
            client.final_checkpoints(id).await
        } else {
            client.current_checkpoints(id).await
        };
        let answer = answer.map_err(|error| show(&error))?;
        let flink::checkpoints::Checkpoints::Statistics(statistics) = answer else {
            return Ok(Checkpoints::default());
        };
        let at = |millis: i64| Timestamp::from_millisecond(millis).ok();
        let (latest, unusable) = match statistics.last_state() {
            LastState::None => (None, None),
            LastState::At(point) => {
                let at = point.timestamp.and_then(at);
                (Some(CompletedState { path: point.path, at }), None)
            }
            LastState::NotAddressable { .. } => {
                (None, Some("the last checkpoint lives in the JobManager's memory".to_owned()))
            }
            LastState::Discarded { .. } => {
                (None, Some("the last checkpoint was discarded".to_owned()))
            }
        };
        let is_blank = statistics.has_none() && {
            let config = client.checkpoint_config(id).await.map_err(|error| show(&error))?;
            config.is_some_and(|config| config.is_blank())
        };
        Ok(Checkpoints {
            is_blank,
            latest,
            unusable,
            pending_since: statistics
                .in_progress()
                .and_then(|checkpoint| checkpoint.trigger_timestamp)
                .and_then(at),
            state_size: statistics.state_size_bytes(),
        })
    }

    /// Returns what the job, which started at this time, has saved; `None` if it takes no checkpoints.
    pub(super) async fn saved(&self, started: i64) -> Result<Option<Saved>, String> {
        let client = self.flink()?.without_retries();
        let latest = client.latest_checkpoints(self.id()?).await.map_err(|error| show(&error))?;
        let at = |millis: i64| Timestamp::from_millisecond(millis).ok();
        Ok(latest.zip(at(started)).map(|(latest, started)| {
            let newest = latest.saved_at().and_then(at);
            Saved { newest, started }
        }))
    }

    /// Returns `true` if the job's checkpoints outlive its cancellation, with the configuration that it runs with. A
    /// job that takes none has none to lose.
    pub(super) async fn retention(&self) -> Result<bool, String> {
        let config = self.flink()?.checkpoint_config(self.id()?).await;
        let config = config.map_err(|error| show(&error))?;
        Ok(config.is_none_or(|config| config.externalization.retains_on_cancellation()))
    }

    /// Returns the state of the stop-with-savepoint whose trigger is in the status.
    pub(super) async fn stop(&self) -> Result<Stop, String> {
        let info = self.status.savepoint_info.as_ref();
        let trigger =
            info.and_then(|info| info.trigger_id.as_deref()).ok_or("no trigger is recorded")?;
        let answer = self
            .flink()?
            .savepoint_status(self.id()?, trigger)
            .await
            .map_err(|error| show(&error))?;
        Ok(stop_of(answer))
    }

    /// Returns why the job failed.
    pub(super) async fn failure(&self) -> Result<Failure, String> {
        let result =
            self.flink()?.execution_result(self.id()?).await.map_err(|error| show(&error))?;
        let ExecutionResult::Completed { failure: Some(cause), .. } = result else {
            return Err("Flink gives no cause".to_owned());
        };
        let mut chain = cause.chain().into_iter().map(str::to_owned);
        let message = chain.next().unwrap_or_default();
        let causes = chain.collect();
        Ok(Failure { message, causes, stack_trace: cause.stack_trace })
    }

    pub(super) async fn exceptions(&self) -> Result<Vec<JobException>, String> {
        let client = self.flink()?.without_retries();
        let history =
            client.exceptions(self.id()?, EXCEPTIONS_MAX).await.map_err(|error| show(&error))?;
        let known = history.entries.into_iter().filter_map(|entry| {
            Some(JobException {
                at: entry.timestamp?,
                stack_trace: entry.stacktrace,
                task_name: entry.task_name,
                endpoint: entry.endpoint.or(entry.location),
                task_manager_id: entry.task_manager_id,
                labels: entry.failure_labels,
            })
        });
        Ok(known.collect())
    }
    /// Returns the bounds of parallelism by vertex id.
    pub(super) async fn resource_requirements(&self) -> Result<BTreeMap<String, Bounds>, String> {
        let client = self.flink()?.without_retries();
        let requirements =
            client.resource_requirements(self.id()?).await.map_err(|error| show(&error))?;
        let bounds = requirements.into_iter().map(|(vertex, requirements)| {
            let ParallelismBounds { lower_bound, upper_bound } = requirements.parallelism;
            (vertex, Bounds { lower: lower_bound, upper: upper_bound })
        });
        Ok(bounds.collect())
    }

    pub(super) async fn metrics(&self) -> Result<JobMetrics, String> {
        let names = ["numRestarts", "fullRestarts", "numberOfCompletedCheckpoints"];
        let client = self.flink()?.without_retries();
        let values = client.job_metrics(self.id()?, &names).await.map_err(|error| show(&error))?;
        let number = |name: &str| values.get(name).and_then(|text| text.parse().ok());
        Ok(JobMetrics {
            // The second is the former name.
            restarts: number(names[0]).or_else(|| number(names[1])),
            completed_checkpoints: number(names[2]),
        })
    }
}

fn stop_of(status: SavepointStatus) -> Stop {
    match status {
        SavepointStatus::InProgress => Stop::Pending,
        SavepointStatus::Completed { location } => Stop::Completed { path: location },
        SavepointStatus::CompletedButStopFailed { location, cause } => {
            let message = cause.chain().join(" -> ");
            Stop::SavedNotStopped { path: location, message }
        }
        SavepointStatus::Failed(cause) => Stop::Failed { message: cause.chain().join(" -> ") },
        SavepointStatus::TriggerLost => Stop::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clients::flink::failures::FailureCause;

    #[test]
    fn savepoint_of_a_job_that_went_on_is_distinguished() {
        let location = || "file:/sp/1".to_owned();
        let cause = FailureCause {
            class: "java.io.IOException".to_owned(),
            stack_trace: "java.io.IOException: the sink is gone".to_owned(),
        };
        let completed = SavepointStatus::Completed { location: location() };
        assert_eq!(stop_of(completed), Stop::Completed { path: location() });
        let failed = SavepointStatus::CompletedButStopFailed { location: location(), cause };
        let message = "java.io.IOException: the sink is gone".to_owned();
        assert_eq!(stop_of(failed), Stop::SavedNotStopped { path: location(), message });
    }
}
