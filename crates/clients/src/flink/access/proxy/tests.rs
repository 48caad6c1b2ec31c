use super::*;

#[track_caller]
fn check(status: u16, body: &str, expected: &str) {
    let answer = Answer { status, content_type: None, body: body.as_bytes().to_vec() };
    let call = Call::new(http::Method::POST, "/jobs/x/stop".into());
    let found = own_words(&answer)
        .map(|(code, message)| sort(&call, code, message))
        .map_or_else(|| "Flink's".to_owned(), |error| format!("{}: {error}", error.reason()));
    assert_eq!(found, expected);
}

#[test]
fn missing_service_is_unreachable_and_no_missing_job() {
    check(
        404,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"services \"x-rest\" not found","reason":"NotFound","details":{"name":"x-rest","kind":"services"},"code":404}"#,
        "JobManagerUnreachable: JobManager did not answer `POST /jobs/x/stop`: services \"x-rest\" not found",
    );
}

#[test]
fn service_without_pods_is_unreachable() {
    check(
        503,
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no endpoints available for service \"x-rest\"","reason":"ServiceUnavailable","code":503}"#,
        "JobManagerUnreachable: JobManager did not answer `POST /jobs/x/stop`: no endpoints available for service \"x-rest\"",
    );
}

#[test]
fn pod_that_does_not_listen_is_unreachable() {
    for body in [
        "Error trying to reach service: 'dial tcp 10.0.0.5:8081: connect: connection refused'",
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"error trying to reach service: dial tcp 10.0.0.5:8081: connect: connection refused","reason":"ServiceUnavailable","code":502}"#,
    ] {
        let answer = Answer { status: 502, content_type: None, body: body.into() };
        let call = Call::new(http::Method::POST, "/jobs/x/stop".into());
        let (code, message) = own_words(&answer).unwrap();
        assert!(matches!(sort(&call, code, message), Error::Unreachable { .. }), "{body}");
    }
}

#[test]
fn connection_lost_behind_the_proxy_may_have_taken_effect() {
    check(
        502,
        "error trying to reach service: EOF",
        "FlinkDisconnected: connection broke before the answer to `POST /jobs/x/stop` was complete: error trying to reach service: EOF",
    );
}

#[test]
fn lacking_permission_is_forbidden() {
    check(
        403,
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"services \"x-rest:8081\" is forbidden","reason":"Forbidden","code":403}"#,
        "FlinkAccessForbidden: Kubernetes refused `POST /jobs/x/stop` with 403: services \"x-rest:8081\" is forbidden",
    );
}

#[test]
fn flinks_own_errors_pass() {
    check(404, r#"{"errors":["Job not found"]}"#, "Flink's");
    check(
        503,
        r#"{"errors":["Service temporarily unavailable due to an ongoing leader election."]}"#,
        "Flink's",
    );
    check(200, r#"{"jobs":[]}"#, "Flink's");
}
