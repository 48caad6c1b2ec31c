use proptest::prelude::*;

use super::*;
use crate::flink::{
    checkpoints::CheckpointStatistics,
    cluster::{ClusterConfig, ClusterOverview, TaskManagers},
    failures::JobException,
    jobs::{JobDetails, JobsOverview},
    metrics::AggregatedMetric,
    rescale::{Rescale, ResourceRequirements},
};

/// Responses of Flink 1.17 to 2.3, shortened.
const DOCUMENTS: [&str; 11] = [
    r#"{"refresh-interval":3000,"timezone-name":"Coordinated Universal Time","timezone-offset":0,"flink-version":"1.17.2","flink-revision":"c0027e5 @ 2023-11-09T13:24:38+01:00","features":{"web-submit":true,"web-cancel":false}}"#,
    r#"{"taskmanagers":1,"slots-total":4,"slots-available":4,"jobs-running":0,"jobs-finished":0,"jobs-cancelled":0,"jobs-failed":0,"flink-version":"1.20.5","flink-commit":"0980485"}"#,
    r#"{"taskmanagers":[{"id":"127.0.0.1:37391-b3ce1b","path":"pekko.tcp://x","dataPort":44447,"jmxPort":-1,"timeSinceLastHeartbeat":1795248145682,"slotsNumber":4,"freeSlots":4,"hardware":{"cpuCores":2,"physicalMemory":25276510208,"freeMemory":146800640,"managedMemory":231525584},"memoryConfiguration":{"frameworkHeap":134217728,"taskHeap":12582912,"totalProcessMemory":1048576000}}]}"#,
    r#"{"jobs":[{"jid":"a","name":"n","start-time":1,"end-time":-1,"duration":221,"state":"RUNNING","last-modification":2,"tasks":{"running":0,"canceling":0,"canceled":0,"total":2,"created":0,"scheduled":2,"deploying":0,"reconciling":0,"finished":0,"initializing":0,"failed":0},"pending-operators":0}]}"#,
    r#"{"jid":"a","name":"n","isStoppable":false,"state":"RUNNING","start-time":1,"end-time":-1,"maxParallelism":-1,"now":3,"timestamps":{"RUNNING":2,"FAILED":0},"vertices":[{"id":"v","name":"s","maxParallelism":128,"parallelism":1,"status":"RUNNING","tasks":{"RUNNING":1},"metrics":{"read-bytes":0}}],"plan":{"nodes":[{"id":"v","inputs":[{"num":0,"id":"w","ship_strategy":"HASH"}]}]}}"#,
    r#"{"counts":{"restored":0,"total":1,"in_progress":0,"completed":1,"failed":0},"summary":{"state_size":{"min":1,"p50":"NaN"}},"latest":{"completed":{"className":"completed","id":3,"status":"COMPLETED","is_savepoint":false,"savepointFormat":null,"trigger_timestamp":5,"external_path":"file:/c/chk-3","discarded":false},"savepoint":null,"failed":{"id":2,"status":"FAILED","latest_ack_timestamp":-1,"failure_message":"x"},"restored":{"id":1,"restore_timestamp":1,"is_savepoint":true,"external_path":null}},"history":[{"id":3,"status":"IN_PROGRESS"}]}"#,
    r#"{"exceptionName":"java.io.IOException","stacktrace":"x\n\tat y","timestamp":5,"taskName":"t","location":"h:1","taskManagerId":"m","concurrentExceptions":[{"exceptionName":"y","timestamp":6}]}"#,
    r#"[{"id":"busyTimeMsPerSecond","min":1.0,"max":"NaN","avg":null,"sum":4}]"#,
    r#"{"v":{"parallelism":{"lowerBound":1,"upperBound":4}}}"#,
    r#"[{"rescaleUuid":"ed54","resourceRequirementsUuid":"b8ca","rescaleAttemptId":1,"vertices":{},"slots":{},"schedulerStates":[],"startTimestampInMillis":1795810076155,"endTimestampInMillis":null,"terminalState":null,"triggerCause":"UPDATE_REQUIREMENT","terminatedReason":null}]"#,
    r#"{"errors":["Internal server error.","<Exception on server side:\nx\n\tat y"]}"#,
];

/// Runs every parser of responses on any bytes.
fn read_as_everything(body: &[u8]) -> usize {
    let mut read_by = 0;
    read_by += usize::from(read::<ClusterConfig>(body).is_ok());
    read_by += usize::from(read::<ClusterOverview>(body).is_ok());
    read_by += usize::from(read::<TaskManagers>(body).is_ok());
    if let Ok(overview) = read::<JobsOverview>(body) {
        overview.jobs.iter().for_each(|job| drop(job.effective_state().to_string()));
        read_by += 1;
    }
    read_by += usize::from(read::<JobDetails>(body).is_ok());
    if let Ok(statistics) = read::<CheckpointStatistics>(body) {
        drop((statistics.last_state(), statistics.stopped_with()));
        read_by += 1;
    }
    read_by += usize::from(read::<JobException>(body).is_ok());
    read_by += usize::from(read::<Vec<AggregatedMetric>>(body).is_ok());
    read_by += usize::from(read::<ResourceRequirements>(body).is_ok());
    read_by += usize::from(read::<Vec<Rescale>>(body).is_ok());
    read_by += usize::from(errors(body).is_some());
    read_by + usize::from(kubernetes_status(body).is_some())
}

#[test]
fn every_document_is_read() {
    for document in DOCUMENTS {
        assert!(read_as_everything(document.as_bytes()) > 0, "{document}");
    }
    let metrics: Vec<AggregatedMetric> = read(DOCUMENTS[7].as_bytes()).unwrap();
    assert_eq!((metrics[0].min, metrics[0].max, metrics[0].avg), (Some(1.0), None, None));
}

proptest! {
    #[test]
    fn no_cut_document_is_read(
        document in proptest::sample::select(&DOCUMENTS[..]), length in 0_usize..200,
    ) {
        let cut = &document[..length % document.len()];
        prop_assert_eq!(read_as_everything(cut.as_bytes()), 0, "{}", cut);
    }

    #[test]
    fn what_cannot_be_read_is_reported_in_one_short_line(body in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Err(problem) = read::<JobsOverview>(&body) {
            prop_assert!(problem.lines().count() <= 1 && problem.chars().count() < 700, "{}", problem);
        }
    }
}

/// Whoever writes a body of nothing but numbers must not hold up other tasks, or take all memory.
#[tokio::test]
async fn a_long_body_is_read_alongside_other_tasks_and_within_limits() {
    let numbers = |count: usize| format!("[{}]", vec!["0"; count].join(",")).into_bytes();
    let mut short = std::pin::pin!(read_any::<Vec<u8>>(numbers(10)));
    assert!(futures::poll!(&mut short).is_ready());
    let mut long = std::pin::pin!(read_any::<Vec<u8>>(numbers(900_000)));
    assert!(futures::poll!(&mut long).is_pending());
    assert_eq!(long.await.map(|all| all.len()), Ok(900_000));
    let refused = read_any::<serde_json::Value>(numbers(1_000_001)).await.unwrap_err();
    assert_eq!(refused, "it has 1000001 values, and at most 1000000 are read");
    let long_error = format!("{{\"errors\":[\"{}\"]}}", "x".repeat(ERROR_MAX));
    assert_eq!(errors(long_error.as_bytes()), None);
}
