use super::*;

fn refused(status: u16, errors: &[&str]) -> Error {
    let errors = errors.iter().map(|text| (*text).to_owned()).collect();
    Error::Refused { request: "GET /x".into(), status, errors }
}

#[test]
fn texts_of_flink_1_20_that_mean_a_missing_job() {
    for text in [
        "org.apache.flink.runtime.rest.NotFoundException: Job 0123456789abcdef0123456789abcdef not found\n\tat org.apache.flink.X",
        "org.apache.flink.runtime.rest.handler.RestHandlerException: org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job (0123456789abcdef0123456789abcdef)\n\tat x",
        "org.apache.flink.runtime.rest.handler.RestHandlerException: Job could not be found.\n\tat x",
    ] {
        assert!(refused(404, &[text]).is_job_not_found(), "{text}");
        assert!(!refused(500, &[text]).is_job_not_found(), "{text}");
    }
}

#[test]
fn other_404s_say_nothing_of_the_job() {
    for text in [
        "Unable to load requested file /jobs/0123456789abcdef0123456789abcdef/nosuch.",
        "Not found: /jobs/0123456789abcdef0123456789abcdef/rescaling",
        "org.apache.flink.runtime.rest.handler.RestHandlerException: There is no savepoint operation with triggerId=11 for job 22.",
        "x\n\tat org.apache.flink.runtime.messages.FlinkJobNotFoundException.<init>",
    ] {
        assert!(!refused(404, &[text]).is_job_not_found(), "{text}");
    }
    let gateway = Error::NotFlink { request: "GET /x".into(), status: 404, body: "Job".into() };
    assert!(!gateway.is_job_not_found());
}

#[test]
fn message_is_one_line_with_the_cause() {
    let error = refused(
        500,
        &[
            "Internal server error.",
            "<Exception on server side:\njava.lang.IllegalStateException: no incremental\n\tat x",
        ],
    );
    assert_eq!(
        error.to_string(),
        "Flink refused `GET /x` with 500: java.lang.IllegalStateException: no incremental"
    );
}

#[test]
fn what_an_answer_says_stays_on_one_short_line() {
    let malformed = |status: &str| Error::Malformed {
        request: "GET /x".into(),
        problem: format!("unknown status `{status}` of a savepoint"),
    };
    assert_eq!(
        malformed("\n\u{1b}[2J").to_string(),
        "answer to `GET /x` cannot be read: unknown status `  [2J` of a savepoint"
    );
    assert!(malformed(&"x".repeat(10_000)).to_string().chars().count() < 400);
}

#[test]
fn only_what_cannot_have_been_carried_out_is_without_effect() {
    let request = || "POST /x".to_owned();
    let timeout = |sent_maybe| Error::Timeout {
        request: request(),
        after: Duration::from_secs(1),
        sent_maybe,
    };
    assert_eq!(timeout(true).effect(), Effect::Unknown);
    assert_eq!(timeout(false).effect(), Effect::Nothing);
    for (status, effect) in [
        (400, Effect::Nothing),
        (404, Effect::Nothing),
        (408, Effect::Unknown),
        (409, Effect::Nothing),
        (500, Effect::Unknown),
        (503, Effect::Nothing),
    ] {
        assert_eq!(refused(status, &["x"]).effect(), effect, "{status}");
    }
    let gateway = Error::NotFlink { request: request(), status: 503, body: String::new() };
    assert_eq!(gateway.effect(), Effect::Unknown);
    assert!(gateway.is_transient());
}
