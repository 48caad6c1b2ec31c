//! Our client's expectations of Flink, checked against the fake and the real thing.
//!
//! The real one is a session cluster with checkpoints every few seconds, which are retained on cancellation, and
//! without a default savepoint directory.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use api::{
    status::{JobStatusState, SavepointFormatType},
    version::FlinkVersion,
};
use bytes::Bytes;
use clients::flink::{
    Client, Effect, Error,
    checkpoints::{
        CheckpointKind, CheckpointStatistics, CheckpointStatus, Checkpoints, LastState, StatePoint,
    },
    failures::ExecutionResult,
    jars::{RunAnswer, RunRequest},
    jobs::{CancelAnswer, JobState},
    new_trigger_id,
    savepoints::{DisposalStatus, SavepointRequest, SavepointStatus, StopOutcome, StopRequest},
};

use crate::support::fake_flink::FakeFlink;
use crate::support::patience::{DEADLINES, PATIENCE};

/// A job id that no cluster has.
const NO_JOB: &str = "0123456789abcdef0123456789abcdef";

/// What is submitted, and the directory of its savepoints.
#[derive(Clone)]
pub(crate) struct Submission {
    /// A jar whose job never ends.
    pub(crate) jar: Bytes,
    pub(crate) args: Vec<String>,
    /// A URL.
    pub(crate) savepoints: String,
}

#[tokio::test]
async fn fake_flink_is_like_flink() {
    let fake = FakeFlink::start().await;
    let submission = Submission {
        jar: Bytes::from_static(b"PK"),
        args: vec![],
        savepoints: "file:/savepoints".to_owned(),
    };
    all(&Client::at(&fake.base_url(), DEADLINES).unwrap(), &submission).await;
}

/// Runs every scenario, one after the other.
pub(crate) async fn all(client: &Client, submission: &Submission) {
    let directory = submission.savepoints.as_str();
    cluster_facts(client).await;
    unknown_job(client).await;
    let job_id = submitted_job_starts(client, submission, None).await;
    let job_id = job_id.as_str();
    running_job(client, job_id).await;
    savepoint_needs_a_directory(client, job_id).await;
    savepoint_and_its_deletion(client, job_id, directory).await;
    savepoint_into_nowhere_fails(client, job_id).await;
    triggered_checkpoint(client, job_id).await;
    replaced_checkpoint(client, job_id).await;
    let location = stop_with_savepoint(client, job_id, directory).await;
    let restored = submitted_job_starts(client, submission, Some(&location)).await;
    restored_job_tells_what_it_came_from(client, &restored, &location).await;
    cancelled_job_keeps_its_checkpoints(client, &restored).await;
    job_with_a_missing_savepoint_fails(client, submission).await;
}

/// Waits until `look` returns something.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until Flink answers in the short time that it has for this.
pub(crate) async fn until_up(client: &Client) {
    until("it is up", async || client.is_up().await.then_some(())).await;
}

async fn cluster_facts(client: &Client) {
    until_up(client).await;
    assert!(!client.config().await.unwrap().flink_version.is_empty());
    assert!(client.overview().await.unwrap().slots_total > 0);
    let managers = client.taskmanagers().await.unwrap().taskmanagers;
    assert!(managers[0].memory_configuration.unwrap().total_process_memory.unwrap() > 0);
    assert!(!client.job_manager_config().await.unwrap().is_empty());
    let slots = client.job_manager_metrics(&["taskSlotsTotal", "noSuchMetric"]).await.unwrap();
    assert!(slots.len() <= 1, "{slots:?}");
}

/// Every call reports that the job does not exist, and nothing else.
async fn unknown_job(client: &Client) {
    assert!(client.jobs_overview().await.unwrap().find(NO_JOB).is_none());
    assert_eq!(client.cancel(NO_JOB).await.unwrap(), CancelAnswer::JobNotFound);
    for error in [
        client.job(NO_JOB).await.unwrap_err(),
        client.checkpoints(NO_JOB).await.unwrap_err(),
        client.exceptions(NO_JOB, 5).await.unwrap_err(),
        client.execution_result(NO_JOB).await.unwrap_err(),
    ] {
        assert!(error.is_job_not_found(), "{error:?}");
        assert!(!error.is_transient());
    }
    let status = client.savepoint_status(NO_JOB, &new_trigger_id()).await.unwrap();
    assert_eq!(status, SavepointStatus::TriggerLost);
    assert_eq!(
        client.find_stop(NO_JOB, &new_trigger_id()).await.unwrap(),
        StopOutcome::Unknown { state: None }
    );
    // Flink accepts the trigger, and reports the missing job later.
    let request = stop_request("file:/tmp");
    let trigger_id = client.stop_with_savepoint(NO_JOB, &request).await.unwrap();
    match client.await_savepoint(NO_JOB, &trigger_id).await.unwrap() {
        SavepointStatus::Failed(cause) => assert!(cause.is_job_not_found(), "{cause:?}"),
        other => panic!("{other:?}"),
    }
    let error = client.job("nonsense").await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 400, .. }), "{error:?}");
    assert!(!error.is_job_not_found());
}

async fn upload(client: &Client, jar: Bytes) -> String {
    client.upload_jar("scenario.jar", jar).await.unwrap()
}

async fn run(client: &Client, jar_id: &str, request: &RunRequest) -> RunAnswer {
    client.run_jar(jar_id, FlinkVersion::V1_20, request).await.unwrap()
}

fn run_request(submission: &Submission, job_id: &str, savepoint: Option<&str>) -> RunRequest {
    RunRequest {
        job_id: job_id.into(),
        entry_class: None,
        args: submission.args.clone(),
        parallelism: Some(1),
        allow_non_restored_state: false,
        savepoint_path: savepoint.map(str::to_owned),
        configuration: BTreeMap::new(),
    }
}

/// Uploads, runs, deletes the jar, and waits until all tasks run.
async fn submitted_job_starts(
    client: &Client,
    submission: &Submission,
    savepoint: Option<&str>,
) -> String {
    let job_id = new_trigger_id();
    let jar_id = upload(client, submission.jar.clone()).await;
    let request = run_request(submission, &job_id, savepoint);
    let submitted = RunAnswer::Submitted { job_id: job_id.clone() };
    assert_eq!(run(client, &jar_id, &request).await, submitted);
    assert_eq!(run(client, &jar_id, &request).await, RunAnswer::AlreadySubmitted);
    assert!(client.delete_jar(&jar_id).await.unwrap());
    assert!(!client.delete_jar(&jar_id).await.unwrap());
    assert_eq!(run(client, &jar_id, &request).await, RunAnswer::JarMissing);
    wait_for(client, &job_id, JobStatusState::Running).await;
    job_id
}

async fn wait_for(client: &Client, job_id: &str, wanted: JobStatusState) {
    let is_so = async || {
        let jobs = client.jobs_overview().await.unwrap();
        let state = jobs.find(job_id).unwrap().effective_state();
        (state == JobState::Known(wanted)).then_some(())
    };
    until(&format!("job {job_id} becomes {wanted:?}"), is_so).await;
}

async fn statistics(client: &Client, job_id: &str) -> CheckpointStatistics {
    match client.checkpoints(job_id).await.unwrap() {
        Checkpoints::Statistics(statistics) => *statistics,
        Checkpoints::Disabled => panic!("checkpointing is disabled"),
    }
}

async fn final_statistics(client: &Client, job_id: &str) -> CheckpointStatistics {
    match client.final_checkpoints(job_id).await.unwrap() {
        Checkpoints::Statistics(statistics) => *statistics,
        Checkpoints::Disabled => panic!("checkpointing is disabled"),
    }
}

async fn last_state_point(client: &Client, job_id: &str) -> StatePoint {
    let find = async || match statistics(client, job_id).await.last_state() {
        LastState::At(point) => Some(point),
        _ => None,
    };
    until(&format!("job {job_id} has a checkpoint"), find).await
}

async fn running_job(client: &Client, job_id: &str) {
    // These are also cached for some seconds.
    let find = async || {
        let details = client.job(job_id).await.unwrap();
        (details.state == JobState::Known(JobStatusState::Running)).then_some(details)
    };
    let details = until("the details say that it runs", find).await;
    assert_eq!(details.vertices.len(), details.plan.nodes.len());
    assert!(details.start_time.is_some() && details.end_time.is_none());
    assert!(client.exceptions(job_id, 5).await.unwrap().entries.is_empty());
    assert_eq!(client.execution_result(job_id).await.unwrap(), ExecutionResult::InProgress);
    let first = last_state_point(client, job_id).await;
    assert!(!first.is_savepoint && first.timestamp.is_some());
    let config = client.checkpoint_config(job_id).await.unwrap().unwrap();
    assert!(config.externalization.enabled && config.interval.unwrap() > 0);
    let metrics = client.job_metrics(job_id, &["numRestarts", "noSuchMetric"]).await.unwrap();
    assert!(!metrics.contains_key("noSuchMetric"));
    assert_eq!(
        client.find_stop(job_id, &new_trigger_id()).await.unwrap(),
        StopOutcome::NotStopped(JobState::Known(JobStatusState::Running))
    );
    let unsupported = client.resource_requirements(job_id).await.unwrap_err();
    assert!(matches!(unsupported, Error::Refused { status: 500, .. }), "{unsupported:?}");
}

/// Cached statistics report at once that a newer checkpoint replaced their newest.
async fn replaced_checkpoint(client: &Client, job_id: &str) {
    // The fake caches statistics so briefly that only the next request finds them older.
    let start = Instant::now();
    loop {
        if let LastState::Discarded { checkpoint_id, .. } =
            statistics(client, job_id).await.last_state()
        {
            let current = client.current_checkpoints(job_id).await.unwrap();
            let Checkpoints::Statistics(current) = current else { panic!("{current:?}") };
            let LastState::At(point) = current.last_state() else { panic!("{current:?}") };
            assert!(point.checkpoint_id > checkpoint_id, "{point:?}, not {checkpoint_id}");
            return;
        }
        let is_over = start.elapsed() > PATIENCE;
        assert!(!is_over, "no statistics of job {job_id} were older than a checkpoint");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn savepoint_request(directory: &str) -> SavepointRequest {
    SavepointRequest {
        target_directory: Some(directory.into()),
        format: SavepointFormatType::Canonical,
        trigger_id: new_trigger_id(),
    }
}

fn stop_request(directory: &str) -> StopRequest {
    StopRequest {
        target_directory: Some(directory.into()),
        drain: false,
        format: SavepointFormatType::Canonical,
        trigger_id: new_trigger_id(),
    }
}

async fn savepoint_needs_a_directory(client: &Client, job_id: &str) {
    let request = SavepointRequest { target_directory: None, ..savepoint_request("") };
    let stop = StopRequest { target_directory: None, ..stop_request("") };
    for error in [
        client.trigger_savepoint(job_id, &request).await.unwrap_err(),
        client.stop_with_savepoint(job_id, &stop).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Refused { status: 400, .. }), "{error:?}");
        assert_eq!(error.effect(), Effect::Nothing);
        assert!(error.to_string().contains("must be provided"), "{error}");
    }
}

async fn savepoint_and_its_deletion(client: &Client, job_id: &str, directory: &str) {
    let request = savepoint_request(directory);
    let trigger_id = client.trigger_savepoint(job_id, &request).await.unwrap();
    assert_eq!(trigger_id, request.trigger_id);
    let SavepointStatus::Completed { location } =
        client.await_savepoint(job_id, &trigger_id).await.unwrap()
    else {
        panic!("no savepoint")
    };
    assert!(location.starts_with(directory), "{location}");
    // The same trigger is the same savepoint.
    assert_eq!(client.trigger_savepoint(job_id, &request).await.unwrap(), trigger_id);
    let again = client.await_savepoint(job_id, &trigger_id).await.unwrap();
    assert_eq!(again, SavepointStatus::Completed { location: location.clone() });
    // The statistics follow some time later.
    let find = async || statistics(client, job_id).await.latest.savepoint;
    let latest = until("the savepoint shows", find).await;
    assert_eq!(latest.external_path.as_deref(), Some(location.as_str()));
    assert!(latest.is_savepoint);

    let deletion = client.dispose_savepoint(&location).await.unwrap();
    assert_eq!(client.await_disposal(&deletion).await.unwrap(), DisposalStatus::Completed);
    let deletion = client.dispose_savepoint(&location).await.unwrap();
    match client.await_disposal(&deletion).await.unwrap() {
        DisposalStatus::Failed(cause) => {
            assert!(cause.root().contains("Cannot find"), "{cause:?}");
        }
        other => panic!("{other:?}"),
    }
    let unknown = client.disposal_status(&new_trigger_id()).await.unwrap();
    assert_eq!(unknown, DisposalStatus::TriggerLost);
}

async fn savepoint_into_nowhere_fails(client: &Client, job_id: &str) {
    let request = savepoint_request("file:///proc/nowhere");
    let trigger_id = client.trigger_savepoint(job_id, &request).await.unwrap();
    match client.await_savepoint(job_id, &trigger_id).await.unwrap() {
        SavepointStatus::Failed(cause) => assert!(!cause.is_job_not_found(), "{cause:?}"),
        other => panic!("{other:?}"),
    }
    wait_for(client, job_id, JobStatusState::Running).await;
}

async fn triggered_checkpoint(client: &Client, job_id: &str) {
    let trigger_id = new_trigger_id();
    let lost = client.checkpoint_status(job_id, &trigger_id).await.unwrap();
    assert_eq!(lost, CheckpointStatus::TriggerLost);
    let accepted =
        client.trigger_checkpoint(job_id, CheckpointKind::Full, &trigger_id).await.unwrap();
    assert_eq!(accepted, trigger_id);
    let find = async || match client.checkpoint_status(job_id, &trigger_id).await.unwrap() {
        CheckpointStatus::InProgress => None,
        CheckpointStatus::Completed { checkpoint_id } => {
            assert_eq!(client.checkpoint(job_id, 999_999).await.unwrap(), None);
            // It may be too recent for the statistics.
            client.checkpoint(job_id, checkpoint_id).await.unwrap()
        }
        other => panic!("{other:?}"),
    };
    let found = until("the checkpoint completes", find).await;
    assert!(found.external_path.is_some() && !found.is_savepoint);
}

async fn stop_with_savepoint(client: &Client, job_id: &str, directory: &str) -> String {
    let request = stop_request(directory);
    let trigger_id = client.stop_with_savepoint(job_id, &request).await.unwrap();
    let status = client.await_savepoint(job_id, &trigger_id).await.unwrap();
    let SavepointStatus::Completed { location } = status.clone() else { panic!("{status:?}") };
    wait_for(client, job_id, JobStatusState::Finished).await;
    assert_eq!(
        client.find_stop(job_id, &trigger_id).await.unwrap(),
        StopOutcome::Known(status.clone())
    );
    // Without the trigger, the statistics show it.
    match client.find_stop(job_id, &new_trigger_id()).await.unwrap() {
        StopOutcome::FinishedWith { location: found, .. } => assert_eq!(found, location),
        other => panic!("{other:?}"),
    }
    match final_statistics(client, job_id).await.last_state() {
        LastState::At(point) => {
            assert_eq!((point.path, point.is_savepoint), (location.clone(), true));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        client.cancel(job_id).await.unwrap(),
        CancelAnswer::AlreadyTerminal(Some(JobState::Known(JobStatusState::Finished)))
    );
    assert_eq!(
        client.execution_result(job_id).await.unwrap(),
        ExecutionResult::Completed { status: "SUCCEEDED".into(), failure: None }
    );
    // A second stop is accepted, and fails because the job is gone.
    let late = stop_request(directory);
    client.stop_with_savepoint(job_id, &late).await.unwrap();
    match client.await_savepoint(job_id, &late.trigger_id).await.unwrap() {
        SavepointStatus::Failed(cause) => assert!(cause.is_job_not_found(), "{cause:?}"),
        other => panic!("{other:?}"),
    }
    location
}

async fn restored_job_tells_what_it_came_from(client: &Client, job_id: &str, location: &str) {
    let restored = statistics(client, job_id).await.latest.restored.unwrap();
    assert_eq!(restored.external_path.as_deref(), Some(location));
    assert!(restored.is_savepoint && restored.restore_timestamp.is_some());
    let before = restored.id.unwrap();
    let is_so = async || {
        let point = last_state_point(client, job_id).await;
        assert!(point.checkpoint_id >= before);
        (point.checkpoint_id > before).then_some(())
    };
    until("there is a checkpoint after the restored one", is_so).await;
}

async fn cancelled_job_keeps_its_checkpoints(client: &Client, job_id: &str) {
    assert_eq!(client.cancel(job_id).await.unwrap(), CancelAnswer::Accepted);
    wait_for(client, job_id, JobStatusState::Canceled).await;
    // Repeating it is harmless.
    assert_eq!(client.cancel(job_id).await.unwrap(), CancelAnswer::Accepted);
    match final_statistics(client, job_id).await.last_state() {
        LastState::At(point) => assert!(!point.is_savepoint, "{point:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        client.find_stop(job_id, &new_trigger_id()).await.unwrap(),
        StopOutcome::Unknown { state: Some(JobState::Known(JobStatusState::Canceled)) }
    );
}

async fn job_with_a_missing_savepoint_fails(client: &Client, submission: &Submission) {
    let job_id = new_trigger_id();
    let jar_id = upload(client, submission.jar.clone()).await;
    let request = run_request(submission, &job_id, Some("file:/no/such/savepoint"));
    let error = client.run_jar(&jar_id, FlinkVersion::V1_20, &request).await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 400, .. }), "{error:?}");
    assert!(client.delete_jar(&jar_id).await.unwrap());
    match client.execution_result(&job_id).await.unwrap() {
        ExecutionResult::Completed { status, failure: Some(cause) } => {
            assert_eq!(status, "FAILED");
            assert!(cause.root().contains("Cannot find checkpoint or savepoint"), "{cause:?}");
        }
        other => panic!("{other:?}"),
    }
    let exceptions = client.exceptions(&job_id, 5).await.unwrap();
    assert!(exceptions.entries[0].timestamp.is_some(), "{exceptions:?}");
    // Nothing was restored, which differs from having nothing to restore from.
    assert_eq!(statistics(client, &job_id).await.last_state(), LastState::None);
}
