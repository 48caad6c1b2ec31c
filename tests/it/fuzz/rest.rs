//! Bodies of Flink's answers. They come over a real connection, so that what a client does before and after reading one
//! is tested too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::status::SavepointFormatType;
use api::version::FlinkVersion;
use axum::http::StatusCode;
use clients::flink::checkpoints::{CheckpointKind, CheckpointStatus, Checkpoints};
use clients::flink::failures::{ExecutionResult, FailureCause};
use clients::flink::jars::RunRequest;
use clients::flink::savepoints::{SavepointStatus, StopRequest};
use clients::flink::{Client, Error};

use super::{Input, Target, fuzz, kind_of};
use crate::support::patience::DEADLINES;

const JOB: &str = "aaaa0000000000000000000000000001";
const TRIGGER: &str = "bbbb0000000000000000000000000001";

type Answer = Arc<Mutex<(StatusCode, Vec<u8>)>>;

/// A client, and a server that gives everything the same answer.
struct Connection {
    runtime: tokio::runtime::Runtime,
    client: Client,
    answer: Answer,
}

impl Connection {
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer: Answer = Arc::default();
        let given = Arc::clone(&answer);
        let address = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = axum::Router::new().fallback(move || {
                let answer = given.lock().unwrap().clone();
                async move { answer }
            });
            drop(tokio::spawn(async move { axum::serve(listener, router).await }));
            address
        });
        let client = Client::at(&format!("http://{address}"), DEADLINES).unwrap();
        Self { runtime, client: client.without_retries(), answer }
    }

    /// Returns what the client makes of a body; the input's name selects call and status.
    fn ask(&self, input: &Input) -> String {
        let (call, status) = match input.of.rsplit_once('-') {
            Some((call, status)) if status.parse::<u16>().is_ok() => {
                (call, status.parse().unwrap())
            }
            _ => (input.of.as_str(), 200),
        };
        *self.answer.lock().unwrap() = (StatusCode::from_u16(status).unwrap(), input.bytes.clone());
        let answer = self.runtime.block_on(asked(&self.client, call));
        let told = match answer {
            Ok(told) => told,
            Err(error) => {
                assert!(
                    !matches!(error, Error::Timeout { .. } | Error::Unreachable { .. }),
                    "{error}"
                );
                let message = error.to_string();
                assert!(message.len() < 4000 && !message.contains('\n'), "{message}");
                let _ = (error.is_job_not_found(), error.is_transient(), error.effect());
                format!("{} {}", error.reason(), kind_of(&message))
            }
        };
        format!("{} {told}", input.of)
    }
}

async fn asked(client: &Client, call: &str) -> Result<String, Error> {
    Ok(match call {
        "jobs-overview" => {
            let jobs = client.jobs_overview().await?;
            let states = jobs.jobs.iter().map(|job| job.effective_state().known().is_some());
            format!("{:?}", states.take(3).collect::<Vec<_>>())
        }
        "job" => client.job(JOB).await?.vertices.len().min(9).to_string(),
        "config" => client.config().await?.flink_version.is_empty().to_string(),
        "overview" => (client.overview().await?.taskmanagers > 0).to_string(),
        "taskmanagers" => client.taskmanagers().await?.taskmanagers.len().min(9).to_string(),
        "jobmanager-config" => client.job_manager_config().await?.len().min(9).to_string(),
        "savepoint-status" => match client.savepoint_status(JOB, TRIGGER).await? {
            SavepointStatus::Failed(cause) => described(&cause),
            other => variant(&other),
        },
        "disposal-status" => variant(&client.disposal_status(TRIGGER).await?),
        "checkpoint-status" => match client.checkpoint_status(JOB, TRIGGER).await? {
            CheckpointStatus::Failed(cause) => described(&cause),
            other => variant(&other),
        },
        "checkpoint" => client.checkpoint(JOB, 7).await?.is_some().to_string(),
        "checkpoint-config" => match client.checkpoint_config(JOB).await? {
            Some(config) => config.interval.is_some().to_string(),
            None => "disabled".to_owned(),
        },
        "checkpoints" => match client.checkpoints(JOB).await? {
            Checkpoints::Disabled => "disabled".to_owned(),
            Checkpoints::Statistics(statistics) => {
                let _ = (statistics.in_progress(), statistics.state_size_bytes());
                format!(
                    "{} {}",
                    variant(&statistics.last_state()),
                    statistics.stopped_with().is_some()
                )
            }
        },
        "exceptions" => client.exceptions(JOB, 10).await?.entries.len().min(9).to_string(),
        "execution-result" => match client.execution_result(JOB).await? {
            ExecutionResult::Completed { failure: Some(cause), .. } => described(&cause),
            other => variant(&other),
        },
        "resource-requirements" => {
            client.resource_requirements(JOB).await?.len().min(9).to_string()
        }
        "job-metrics" => client.job_metrics(JOB, &["a"]).await?.len().min(9).to_string(),
        "aggregated-metrics" => {
            let metrics = client.task_manager_metrics(&["a"]).await?;
            let numbers =
                metrics.iter().flat_map(|metric| [metric.min, metric.max, metric.avg, metric.sum]);
            format!("{} {}", metrics.len().min(9), numbers.flatten().count().min(9))
        }
        "metric-names" => client.subtask_metric_names(JOB, "v").await?.len().min(9).to_string(),
        "triggered" => {
            let request = StopRequest {
                target_directory: None,
                drain: false,
                format: SavepointFormatType::Canonical,
                trigger_id: TRIGGER.to_owned(),
            };
            drop(client.trigger_checkpoint(JOB, CheckpointKind::Full, TRIGGER).await?);
            client.stop_with_savepoint(JOB, &request).await?.is_empty().to_string()
        }
        "upload" => client.upload_jar("job.jar", "jar".into()).await?.is_empty().to_string(),
        "run" => {
            let request = RunRequest {
                job_id: JOB.to_owned(),
                entry_class: None,
                args: vec![],
                parallelism: None,
                allow_non_restored_state: false,
                savepoint_path: None,
                configuration: BTreeMap::new(),
            };
            variant(&client.run_jar("id.jar", FlinkVersion::V1_20, &request).await?)
        }
        "cancel" => variant(&client.cancel(JOB).await?),
        other => panic!("no call is named `{other}`"),
    })
}

fn described(cause: &FailureCause) -> String {
    let is_known = cause.is_job_not_found() || cause.is_savepoint_missing();
    format!(
        "{} {} {is_known}",
        cause.chain().len().min(9),
        cause.head(3).1.min(1) + cause.root().len().min(1)
    )
}

/// Returns the name of an enum's variant.
fn variant(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}

#[test]
fn any_answer_of_flink_is_read_or_refused() {
    let words = &[
        "errors",
        "status",
        "id",
        "COMPLETED",
        "IN_PROGRESS",
        "operation",
        "location",
        "failure-cause",
        "stack-trace",
        "Caused by: ",
        "There is no savepoint operation",
        "A savepoint has been created at: ",
        ", but the corresponding job",
        "StopWithSavepointStoppingException",
        "jobs",
        "jid",
        "state",
        "RUNNING",
        "tasks",
        "latest",
        "completed",
        "external_path",
        "history",
        "value",
        "NaN",
        "Infinity",
        "request-id",
        "kind",
        "Status",
        "v1",
        "apiVersion",
        "message",
        "code",
    ];
    let target = Target { name: "rest", words, bytes_max: 64 << 10, outcomes_min: 145 };
    thread_local!(static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) });
    fuzz(&target, |input| {
        CONNECTION.with_borrow_mut(|connection| {
            connection.get_or_insert_with(Connection::open).ask(input)
        })
    });
}
