//! How the client handles a JobManager that misbehaves.

use std::time::{Duration, Instant};

use api::status::{JobStatusState, SavepointFormatType};
use clients::flink::{
    Client, Deadlines, Effect, Error,
    access::{Access, Connector, Options, Target},
    checkpoints::{Checkpoints, LastState},
    failures::ExecutionResult,
    jobs::{CancelAnswer, JobState},
    savepoints::{SavepointRequest, SavepointStatus, StopOutcome, StopRequest},
};

use crate::support::fake_flink::{FakeFlink, Fault, Job, short_deadlines};
use crate::support::patience::DEADLINES;

const JOB: &str = "aaaa0000000000000000000000000001";
const TRIGGER: &str = "bbbb0000000000000000000000000001";

async fn with_running_job() -> (FakeFlink, Client) {
    let fake = FakeFlink::start().await;
    fake.run_job(JOB);
    let client = fake.client();
    (fake, client)
}

/// Returns a client that does not wait long for an answer.
fn hasty(fake: &FakeFlink) -> Client {
    Client::at(&fake.base_url(), short_deadlines()).unwrap()
}

fn stop() -> StopRequest {
    StopRequest {
        target_directory: Some("file:/savepoints".into()),
        drain: false,
        format: SavepointFormatType::Canonical,
        trigger_id: TRIGGER.into(),
    }
}

fn savepoint() -> SavepointRequest {
    SavepointRequest {
        target_directory: Some("file:/savepoints".into()),
        format: SavepointFormatType::Canonical,
        trigger_id: TRIGGER.into(),
    }
}

#[tokio::test]
async fn get_is_repeated_while_there_is_no_leader() {
    let (fake, client) = with_running_job().await;
    fake.inject("/jobs/overview", Fault::NoLeader, 2);
    assert!(client.jobs_overview().await.unwrap().find(JOB).is_some());
    assert_eq!(fake.requests("/jobs/overview").len(), 3);
}

#[tokio::test]
async fn get_is_repeated_over_gateways_and_broken_connections() {
    for fault in [Fault::BadGateway, Fault::CutAnswer] {
        let (fake, client) = with_running_job().await;
        fake.inject("/jobs/overview", fault, 1);
        assert!(client.jobs_overview().await.unwrap().find(JOB).is_some(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_lasting_failure_ends_with_the_deadline_and_says_what_it_was() {
    let (fake, _) = with_running_job().await;
    fake.inject("/jobs/overview", Fault::NoLeader, usize::MAX);
    let started = Instant::now();
    let error = hasty(&fake).jobs_overview().await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 503, .. }), "{error:?}");
    assert!(error.is_transient() && !error.is_job_not_found());
    println!("given up after {:?} of {:?}", started.elapsed(), short_deadlines().request);
    assert!(error.to_string().contains("leader election"), "{error}");
}

#[tokio::test]
async fn without_retries_each_call_is_made_once() {
    let (fake, client) = with_running_job().await;
    fake.inject("/jobs/overview", Fault::NoLeader, 1);
    assert!(client.without_retries().jobs_overview().await.is_err());
    assert_eq!(fake.requests("/jobs/overview").len(), 1);
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let (fake, _) = with_running_job().await;
    fake.inject("/jobs/overview", Fault::SilentBefore, 1);
    let error = hasty(&fake).jobs_overview().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { sent_maybe: true, .. }), "{error:?}");
    assert_eq!(error.reason(), "FlinkTimeout");
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::at(&url, short_deadlines()).unwrap();
    assert!(!client.is_up().await);
    for error in [
        client.jobs_overview().await.unwrap_err(),
        client.cancel(JOB).await.unwrap_err(),
        client.stop_with_savepoint(JOB, &stop()).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert_eq!(error.effect(), Effect::Nothing);
        assert!(error.to_string().contains("refused"), "{error}");
    }
}

#[tokio::test]
async fn answers_that_are_none() {
    let (fake, client) = with_running_job().await;
    fake.inject("/jobs/overview", Fault::Garbage, 1);
    let error = client.jobs_overview().await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    assert!(!error.is_transient());
    fake.inject("/jobs/overview", Fault::Endless, 1);
    let error = client.jobs_overview().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn lost_answer_to_a_stop_is_not_followed_by_a_second_stop() {
    for fault in [Fault::SilentAfter, Fault::CutAnswer] {
        let (fake, client) = with_running_job().await;
        fake.inject("POST", fault, 1);
        let error = hasty(&fake).stop_with_savepoint(JOB, &stop()).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{error:?}");
        assert_eq!(fake.requests("/stop").len(), 1);
        // The caller knows the trigger's id and polls.
        let status = client.await_savepoint(JOB, TRIGGER).await.unwrap();
        let SavepointStatus::Completed { location } = status else { panic!("{status:?}") };
        // Repeating it does not start another operation.
        client.stop_with_savepoint(JOB, &stop()).await.unwrap();
        let again = client.savepoint_status(JOB, TRIGGER).await.unwrap();
        assert_eq!(again, SavepointStatus::Completed { location });
    }
}

#[tokio::test]
async fn flink_that_chooses_the_ids_of_triggers_is_asked_by_ours() {
    let (fake, client) = with_running_job().await;
    fake.with("", |cluster| cluster.is_before_1_15 = true);
    assert_eq!(client.trigger_savepoint(JOB, &savepoint()).await.unwrap(), TRIGGER);
    let status = client.await_savepoint(JOB, TRIGGER).await.unwrap();
    assert!(matches!(status, SavepointStatus::Completed { .. }), "{status:?}");
    let other = "bbbb0000000000000000000000000002";
    let request = StopRequest { trigger_id: other.into(), ..stop() };
    assert_eq!(client.stop_with_savepoint(JOB, &request).await.unwrap(), other);
    let status = client.await_savepoint(JOB, other).await.unwrap();
    assert!(matches!(status, SavepointStatus::Completed { .. }), "{status:?}");
    assert_eq!(fake.requests("/stop").len(), 2, "once in the newer form");
}

#[tokio::test]
async fn internal_errors_are_not_repeated_where_they_may_have_had_an_effect() {
    let (fake, client) = with_running_job().await;
    fake.inject("PATCH", Fault::InternalError, 1);
    let error = client.cancel(JOB).await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 500, .. }), "{error:?}");
    assert_eq!((error.effect(), fake.requests("PATCH").len()), (Effect::Unknown, 1));
    fake.inject("PATCH", Fault::NoLeader, 1);
    assert_eq!(client.cancel(JOB).await.unwrap(), CancelAnswer::Accepted);
    assert_eq!(fake.requests("PATCH").len(), 3);
}

#[tokio::test]
async fn cancelled_without_an_answer_shows_in_the_job() {
    let (fake, client) = with_running_job().await;
    fake.inject("PATCH", Fault::SilentAfter, 1);
    let error = hasty(&fake).cancel(JOB).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let jobs = client.jobs_overview().await.unwrap();
    assert_eq!(jobs.find(JOB).unwrap().state, JobState::Known(JobStatusState::Canceled));
}

#[tokio::test]
async fn leader_that_changes_during_a_stop_leaves_the_trigger_lost() {
    let (fake, client) = with_running_job().await;
    client.stop_with_savepoint(JOB, &stop()).await.unwrap();
    assert_eq!(client.savepoint_status(JOB, TRIGGER).await.unwrap(), SavepointStatus::InProgress);
    fake.change_leader();
    assert_eq!(client.savepoint_status(JOB, TRIGGER).await.unwrap(), SavepointStatus::TriggerLost);
    assert_eq!(
        client.find_stop(JOB, TRIGGER).await.unwrap(),
        StopOutcome::NotStopped(JobState::Known(JobStatusState::Running))
    );
    let Checkpoints::Statistics(statistics) = client.checkpoints(JOB).await.unwrap() else {
        panic!("disabled")
    };
    assert!(statistics.latest.restored.is_some());
}

#[tokio::test]
async fn empty_list_does_not_say_that_a_stop_ended() {
    let (fake, client) = with_running_job().await;
    fake.inject("/jobs/overview", Fault::NoJobs, 1);
    let outcome = client.find_stop(JOB, TRIGGER).await.unwrap();
    assert_eq!(outcome, StopOutcome::Unknown { state: None });
}

#[tokio::test]
async fn earlier_savepoint_of_a_finished_job_is_not_what_it_stopped_with() {
    let (fake, client) = with_running_job().await;
    client.trigger_savepoint(JOB, &savepoint()).await.unwrap();
    client.await_savepoint(JOB, TRIGGER).await.unwrap();
    fake.with_job(JOB, |job| {
        job.operations.clear();
        job.state = "FINISHED".into();
    });
    assert_eq!(
        client.find_stop(JOB, TRIGGER).await.unwrap(),
        StopOutcome::Unknown { state: Some(JobState::Known(JobStatusState::Finished)) }
    );
}

#[tokio::test]
async fn savepoint_of_a_job_that_failed_while_stopping_is_good() {
    let (fake, client) = with_running_job().await;
    fake.with_job(JOB, |job| job.fails_while_stopping = true);
    client.stop_with_savepoint(JOB, &stop()).await.unwrap();
    let status = client.await_savepoint(JOB, TRIGGER).await.unwrap();
    let SavepointStatus::CompletedButStopFailed { location, cause } = status else {
        panic!("{status:?}")
    };
    assert!(location.starts_with("file:/savepoints/savepoint-aaaa00-"), "{location}");
    assert!(cause.class.ends_with("StopWithSavepointStoppingException"));
}

#[tokio::test]
async fn failed_savepoint_leaves_the_job_running() {
    let (fake, client) = with_running_job().await;
    fake.with_job(JOB, |job| job.savepoint_failure = Some("disk is full".into()));
    client.stop_with_savepoint(JOB, &stop()).await.unwrap();
    let status = client.await_savepoint(JOB, TRIGGER).await.unwrap();
    let SavepointStatus::Failed(cause) = status else { panic!("{status:?}") };
    assert!(cause.root().ends_with("disk is full"), "{cause:?}");
    let jobs = client.jobs_overview().await.unwrap();
    assert_eq!(jobs.find(JOB).unwrap().state, JobState::Known(JobStatusState::Running));
}

#[tokio::test]
async fn savepoint_that_takes_longer_than_we_wait_is_in_progress() {
    let (fake, _) = with_running_job().await;
    fake.with_job(JOB, |job| job.savepoint_steps = usize::MAX);
    let patience = Deadlines { savepoint: Duration::from_millis(100), ..DEADLINES };
    let client = Client::at(&fake.base_url(), patience).unwrap();
    client.trigger_savepoint(JOB, &savepoint()).await.unwrap();
    let status = client.await_savepoint(JOB, TRIGGER).await.unwrap();
    assert_eq!(status, SavepointStatus::InProgress);
}

#[tokio::test]
async fn job_without_checkpoints() {
    let (fake, client) = with_running_job().await;
    fake.with_job(JOB, |job| job.is_checkpointing = false);
    assert_eq!(client.checkpoints(JOB).await.unwrap(), Checkpoints::Disabled);
}

#[tokio::test]
async fn failed_job_says_why() {
    let (fake, client) = with_running_job().await;
    fake.with_job(JOB, |job| job.fail("java.io.IOException", "disk is full", 1_750_000_000_000));
    let ExecutionResult::Completed { status, failure: Some(cause) } =
        client.execution_result(JOB).await.unwrap()
    else {
        panic!("no failure")
    };
    assert_eq!((status.as_str(), cause.root()), ("FAILED", "java.io.IOException: disk is full"));
    let exceptions = client.exceptions(JOB, 5).await.unwrap();
    assert_eq!(exceptions.entries[0].name, "java.io.IOException");
    let Checkpoints::Statistics(statistics) = client.checkpoints(JOB).await.unwrap() else {
        panic!("disabled")
    };
    assert_eq!(statistics.last_state(), LastState::None);
}

#[tokio::test]
async fn one_address_for_all_clusters_keeps_them_apart() {
    let fake = FakeFlink::start().await;
    fake.with("shop/orders", |cluster| cluster.jobs.insert(JOB.into(), Job::running(JOB, 0)));
    let options = Options {
        access: Access::Auto,
        rest_address: Some(fake.address().into()),
        extra_headers: "X-Team: shop\n".into(),
        ..Options::default()
    };
    let connector = Connector::new(&options, None).unwrap();
    let client = |namespace: &str, cluster_id: &str| {
        let (namespace, cluster_id) = (namespace.to_owned(), cluster_id.to_owned());
        let target = Target { namespace, cluster_id, port: 8081, is_tls: false };
        connector.client(&target, DEADLINES).without_retries()
    };
    assert!(client("shop", "orders").jobs_overview().await.unwrap().find(JOB).is_some());
    let error = client("shop", "carts").jobs_overview().await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 503, .. }), "{error:?}");
}

#[test]
fn options_that_cannot_be_used_are_refused_at_once() {
    let options = Options { extra_headers: "secret-token".into(), ..Options::default() };
    let error = Connector::new(&options, None).unwrap_err();
    assert!(!error.to_string().contains("secret-token"), "{error}");
    let file = Some("/no/such/file.pem".into());
    let options = Options { certificate_authorities: file, ..Options::default() };
    let error = Connector::new(&options, None).unwrap_err();
    assert!(error.to_string().contains("/no/such/file.pem"), "{error}");
    let options = Options { access: Access::Proxy, ..Options::default() };
    assert!(matches!(Connector::new(&options, None), Err(Error::Invalid { .. })));
}
