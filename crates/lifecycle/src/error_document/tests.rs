use expect_test::expect;

use super::wording::{NOT_BACK, NOT_STABLE, NOT_STOPPED, ROLLED_BACK, SECOND_JOB, SET_BACK};
use super::*;

fn went_back() -> WentBack {
    WentBack { message: "set back".to_owned(), job_id: Some("a1".to_owned()), nonce: Some(3) }
}

fn part(message: &str, note: Option<ErrorNote>) -> Part {
    Part { message: message.to_owned(), note }
}

#[test]
fn a_document_says_what_it_is_known_by() {
    let document = Document {
        reason: Some("Error".to_owned()),
        http_response_code: Some(400),
        causes: vec![went_back().into(), part("rolled back", Some(ErrorNote::RolledBack))],
        stop_attempts: Some(Attempts { count: 1, last: 5, generation: 2, deployed: 0 }),
        ..Document::of(ErrorType::UpgradeFailure, part("failed", Some(ErrorNote::NotStopped)))
    };
    let pretty: Value = serde_json::from_str(&document.to_text()).unwrap();
    expect![[r#"
        {
          "type": "org.apache.flink.kubernetes.operator.exception.UpgradeFailureException",
          "message": "failed",
          "additionalMetadata": {
            "note": "notStopped",
            "format": 2,
            "reason": "Error",
            "httpResponseCode": 400,
            "stopAttempts": {
              "count": 1,
              "last": 5,
              "generation": 2,
              "deployed": 0
            }
          },
          "throwableList": [
            {
              "message": "set back",
              "additionalMetadata": {
                "note": {
                  "wentBack": {
                    "message": "set back",
                    "jobId": "a1",
                    "nonce": 3
                  }
                }
              }
            },
            {
              "message": "rolled back",
              "additionalMetadata": {
                "note": "rolledBack"
              }
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&pretty).unwrap());
    let stored = StoredError::read(Some(&document.to_text()));
    assert_eq!(stored.note(), Some(&ErrorNote::NotStopped));
    assert_eq!(stored.went_back(), Some(went_back()));
    assert_eq!(stored.part(&ErrorNote::RolledBack).unwrap().message, "rolled back");
    assert_eq!(stored.stop_attempts, document.stop_attempts);
    assert_eq!(stored.lost(), None);
}

/// Text is not parsed, whatever it quotes.
#[test]
fn the_wording_of_a_document_with_notes_is_not_read() {
    for text in [
        format!("{NOT_STABLE} 5m{ROLLED_BACK}the image cannot be pulled"),
        format!("the job {NOT_STOPPED} and goes on"),
        format!("{SET_BACK}it was at generation 3"),
        JOB_NOT_FOUND.to_owned(),
        ENDED_UNSEEN.to_owned(),
    ] {
        let document =
            error_document(ErrorType::Reconciliation, &text, None, std::slice::from_ref(&text));
        let stored = StoredError::read(Some(&document));
        assert!(stored.parts.iter().all(|part| part.note.is_none()), "{stored:?}");
    }
}

fn old(message: &str, cause: &str) -> StoredError {
    let metadata = json!({"stopAttempts": {"count": 2, "generation": 4}});
    let document = json!({"type": "t", "message": message, "additionalMetadata": metadata,
        "throwableList": [{"message": cause}]});
    StoredError::read(Some(&document.to_string()))
}

#[test]
fn the_documents_of_older_versions_are_known_by_their_wording() {
    let rolled_back = format!("{NOT_STABLE} 5m{ROLLED_BACK}the image cannot be pulled");
    let stored = old("something else", &rolled_back);
    assert_eq!(stored.note(), None);
    assert_eq!(stored.part(&ErrorNote::RolledBack).unwrap().message, rolled_back);
    assert_eq!(stored.stop_attempts.unwrap().count, 2);
    let not_stopped = format!("the job {NOT_STOPPED} and goes on: no slots");
    assert_eq!(old(&not_stopped, "").note(), Some(&ErrorNote::NotStopped));
    let refused = format!("{NOT_STABLE} 5m (the job is FAILED{NOT_BACK}there is no metadata");
    let cause = "the job is FAILED".to_owned();
    assert_eq!(old(&refused, "").note(), Some(&ErrorNote::RollbackRefused { cause }));
    assert_eq!(old(JOB_NOT_FOUND, "").lost(), Some(LostJob::OfState));
    assert_eq!(old("something else", ENDED_UNSEEN).lost(), Some(LostJob::EndedUnseen));
}

#[test]
fn a_record_that_went_back_is_read_from_an_older_version() {
    for start in [SET_BACK, SECOND_JOB] {
        let message = format!(
            "{start}it was at generation 3 with job id a1 and is at generation 2 now, with \
             `spec.job.savepointRedeployNonce` 7. Find its newest checkpoint. Manual restore required."
        );
        let told = format!("{message} Job a1 still runs in the session cluster `s`.");
        let known = WentBack { message, job_id: Some("a1".to_owned()), nonce: Some(7) };
        assert_eq!(old(&told, "").went_back(), Some(known.clone()));
        assert_eq!(old("something else", &told).went_back(), Some(known));
    }
}

#[test]
fn a_lost_job_is_reported_as_the_java_operator_does() {
    assert_eq!(LostJob::OfState.document(), JOB_NOT_FOUND);
    for lost in [LostJob::OfState, LostJob::EndedUnseen] {
        assert_eq!(StoredError::read(Some(&lost.document())).lost(), Some(lost));
    }
}

#[test]
fn what_is_no_document_says_nothing() {
    for text in ["", "the Job Not Found", "{", "[]", r#"{"message": 3}"#, "null"] {
        let stored = StoredError::read(Some(text));
        assert!(stored.parts.is_empty() && stored.stop_attempts.is_none(), "{text}");
    }
}
