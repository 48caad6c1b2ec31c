use proptest::prelude::*;

use super::*;
use crate::flink::{client::encode, wire};

fn overview(state: &str, tasks: &str) -> JobOverview {
    let body = format!(
        r#"{{"jobs":[{{"jid":"1","name":"n","start-time":5,"end-time":-1,"state":"{state}","tasks":{tasks},"pending-operators":0}}]}}"#
    );
    wire::read::<JobsOverview>(body.as_bytes()).unwrap().jobs.remove(0)
}

#[test]
fn running_job_with_a_task_that_does_not_run_is_created() {
    let state = |state, tasks| overview(state, tasks).effective_state().to_string();
    assert_eq!(state("RUNNING", r#"{"total":2,"running":1,"finished":0}"#), "CREATED");
    assert_eq!(state("RUNNING", r#"{"total":2,"running":1,"finished":1}"#), "RUNNING");
    assert_eq!(state("FAILING", r#"{"total":2,"running":1}"#), "FAILING");
    assert_eq!(state("PAUSED", r#"{"total":2}"#), "PAUSED");
}

#[test]
fn times_that_are_not_set_are_absent() {
    let job = overview("RUNNING", "{}");
    assert_eq!((job.start_time, job.end_time), (Some(5), None));
}

#[test]
fn job_without_id_is_no_answer() {
    assert!(wire::read::<JobsOverview>(br#"{"jobs":[{"state":"RUNNING"}]}"#).is_err());
    assert!(wire::read::<JobsOverview>(b"{}").is_err());
}

#[test]
fn cancelling_a_job_that_has_ended() {
    let refused = |status, text: &str| Error::Refused {
        request: "PATCH /x".into(),
        status,
        errors: vec![text.into()],
    };
    let text = "RestHandlerException: Job cancellation failed because the job has already reached another terminal state (FINISHED).\n\tat x";
    let finished = JobState::Known(JobStatusState::Finished);
    for status in [409, 400] {
        assert_eq!(
            already_terminal(&refused(status, text)),
            Some(CancelAnswer::AlreadyTerminal(Some(finished.clone())))
        );
    }
    assert_eq!(already_terminal(&refused(409, "x")), Some(CancelAnswer::AlreadyTerminal(None)));
    assert_eq!(already_terminal(&refused(400, "x")), None);
    assert_eq!(already_terminal(&refused(500, text)), None);
}

#[test]
fn ids_cannot_change_the_path() {
    assert_eq!(path(&["jobs", "a/../b c"]).unwrap(), "/jobs/a%2F..%2Fb%20c");
    assert!(path(&["jobs", ".."]).is_err());
    assert!(path(&["jobs", ""]).is_err());
}

proptest! {
    #[test]
    fn encoded_text_is_one_segment(text in ".*") {
        let encoded = encode(&text);
        prop_assert!(!encoded.contains(['/', '?', '#', ' ', ',', '&']));
    }

    #[test]
    fn every_state_reads_back(text in "[A-Z]{0,12}") {
        prop_assert_eq!(JobState::parse(&text).to_string(), text);
    }
}
