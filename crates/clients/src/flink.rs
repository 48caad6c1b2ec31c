//! Flink's REST API, as an operator and a kubectl plugin use it.
//!
//! [`Client`] talks to one JobManager and is cheap to clone; [`access::Connector`] creates clients and holds the
//! process's only connection pool. What could not be found out is an [`Error`], never an absence: only a response of
//! Flink itself says that a job, a trigger or a jar does not exist, and a lost response is [`Effect::Unknown`].
//!
//! ```text
//! Connector::new(&Options, Option<&kube::Config>) -> Result<Connector, Error>
//! Connector::client(&Target { namespace, cluster_id, port, is_tls }, Deadlines) -> Client
//! Client::at(base_url, Deadlines) -> Result<Client, Error>            one base URL, for tests and tools
//! Client::without_retries() -> Client                                 each call is tried once
//!
//! config() -> ClusterConfig                                           GET /config
//! is_up() -> bool                                                     the probe: within one second
//! jobs_overview() -> JobsOverview            .find(job_id) -> Option<&JobOverview>, .effective_state()
//! cancel(job_id) -> CancelAnswer             Accepted | AlreadyTerminal(state) | JobNotFound
//! stop_with_savepoint(job_id, &StopRequest) -> String                 the trigger's id
//! trigger_savepoint(job_id, &SavepointRequest) -> String              the trigger's id
//! savepoint_status(job_id, trigger_id) -> SavepointStatus
//!     InProgress | Completed { location } | CompletedButStopFailed { location, cause } | Failed(cause) | TriggerLost
//! await_savepoint(job_id, trigger_id) -> SavepointStatus              polls until its end
//! find_stop(job_id, trigger_id) -> StopOutcome                        after a lost response
//!     Known(SavepointStatus) | FinishedWith { location, .. } | NotStopped(state) | Unknown { state }
//! dispose_savepoint(location) -> String, disposal_status, await_disposal -> DisposalStatus
//! checkpoints(job_id) -> Checkpoints         Disabled | Statistics(CheckpointStatistics)
//!                                           up to 3 s old; for decisions, use one of:
//! current_checkpoints(job_id) -> Checkpoints of a job that may run: the newest state is not discarded
//! final_checkpoints(job_id) -> Checkpoints   waits until the response is from after the job's end
//! CheckpointStatistics::last_state() -> LastState   None | At(StatePoint) | NotAddressable | Discarded
//! trigger_checkpoint(job_id, CheckpointKind, trigger_id) -> String, checkpoint_status, checkpoint
//! job(job_id) -> JobDetails, exceptions(job_id, limit) -> JobExceptions
//! execution_result(job_id) -> ExecutionResult    InProgress | Completed { status, failure }
//! overview, taskmanagers, job_manager_config, job_metrics(job_id, names), …
//! measure(job_id, &mut Names) -> Measured { running_since, topology, reading }      for the autoscaler
//! upload_jar(name, bytes) -> jar_id, run_jar(jar_id, version, &RunRequest) -> RunAnswer, delete_jar
//! sql_gateway::Gateway::connect(client) -> Gateway    sessions of a SQL gateway, in pods of its own
//! resource_requirements(job_id), set_resource_requirements(job_id, &ResourceRequirements)
//! ```
//!
//! All return `Result<_, flink::Error>`, except `is_up`. A GET is retried within its deadline while the failure is
//! transient; any other call is retried only if it cannot have reached Flink, or if Flink said that it has no leader.
//! The rules are those of Flink 1.15 to 2.x.

pub mod access;
mod body;
pub mod checkpoints;
mod client;
pub mod cluster;
mod error;
pub mod failures;
pub mod jars;
pub mod jobs;
pub mod metrics;
pub mod patience;
pub mod rescale;
pub mod savepoints;
pub mod scaling;
pub mod sql_gateway;
mod triggers;
mod wire;

pub use body::{KnownFile, Stream, streamed};
pub use client::{Client, Deadlines, Page, Passed, new_trigger_id};
pub use error::{Effect, Error};
