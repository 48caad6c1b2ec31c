use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::endpoint::fake::endpoint;
use autoscaler::plugin::Kind;

const TYPE: &str = "application/json";

fn rules(options: &[(&str, &str)]) -> ScalingRules {
    let prefix = "kubernetes.operator.plugins.evaluators.";
    let config = options.iter().map(|(key, value)| (format!("{prefix}{key}"), *value));
    ScalingRules::configured(&config.collect()).unwrap()
}

fn question() -> Question {
    let facts = [
        json!({ "name": "orders" }),
        json!({ "rate": "5", "password": "hush" }),
        json!({ "id": "a" }),
        json!({ "LAG": { "current": 3.0 } }),
        json!({}),
    ];
    let (of, vertex) = (Id::new(Kind::Evaluator, "mine"), Some("a".into()));
    Question { of, vertex, facts: facts.into() }
}

async fn answer(rules: &ScalingRules) -> Result<Value, String> {
    rules.answer(&question(), ScalingRules::deadline()).await
}

#[tokio::test]
async fn an_expression_answers_by_what_it_is_given() {
    let rule = "{'LAG': metrics.LAG.current + double(parameters.rate), 'x': parameters.password}";
    let rules = rules(&[("mine.expression", rule)]);
    assert_eq!(answer(&rules).await, Ok(json!({ "LAG": 8.0, "x": "hush" })));
}

#[tokio::test]
async fn an_endpoint_is_sent_the_same_without_secrets() {
    let (url, mut asked) = endpoint(TYPE, vec![(200, json!({ "LAG": 8 }))]).await;
    assert_eq!(answer(&rules(&[("mine.url", &url)])).await, Ok(json!({ "LAG": 8 })));
    let expected = json!({
        "kind": "evaluator",
        "name": "mine",
        "job": { "name": "orders" },
        "parameters": { "rate": "5", "password": config::secret::HIDDEN },
        "vertex": { "id": "a" },
        "metrics": { "LAG": { "current": 3.0 } },
        "inputs": {},
    });
    assert_eq!(asked.recv().await.unwrap(), expected);
}

/// Starts an endpoint that answers each call with this text, or hangs without one.
async fn raw(answer: Option<&'static str>) -> String {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut calls = Vec::new();
        while let Ok((mut call, _)) = server.accept().await {
            if let Some(answer) = answer {
                // A client that is answered before it has sent its request takes that for a broken connection.
                let _read = call.read(&mut [0; 4096]).await.unwrap();
                call.write_all(answer.as_bytes()).await.unwrap();
            }
            calls.push(call);
        }
    });
    format!("http://me:hush@{address}/?token=hush")
}

#[tokio::test]
async fn what_goes_wrong_is_reported_without_secrets() {
    let (busy, _asked) = endpoint(TYPE, vec![(500, json!({ "password": "hush" }))]).await;
    let garbage = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n<html>hush<";
    for (url, told) in [
        (busy, "it answered 500"),
        (raw(Some(garbage)).await, "its answer is not JSON: expected value at line 1 column 1"),
        (raw(Some("hush\r\n\r\n")).await, "no answer: "),
        (raw(None).await, "it took longer than 100ms"),
        ("http://me:hush@127.0.0.1:1/?token=hush".to_owned(), "no answer: "),
    ] {
        let options = [
            ("mine.url", url.as_str()),
            ("mine.timeout", "100 ms"),
            ("mine.headers", "x-key:hush"),
        ];
        let why = answer(&rules(&options)).await.unwrap_err();
        assert!(why.starts_with(told), "{why}");
        assert!(!why.contains("hush"), "{why}");
    }
    let nothing = "HTTP/1.1 204 No Content\r\n\r\n";
    let url = raw(Some(nothing)).await;
    assert_eq!(answer(&rules(&[("mine.url", &url)])).await, Ok(Value::Null));
}

#[tokio::test]
async fn all_rules_of_a_job_have_a_minute() {
    let url = raw(None).await;
    let rules = rules(&[("mine.url", &url), ("mine.timeout", "1 min")]);
    let deadline = Instant::now() + Duration::from_millis(50);
    let why = rules.answer(&question(), deadline).await.unwrap_err();
    assert_eq!(why, "the job's rules took longer than 60s");
}

#[test]
fn headers_that_are_none_are_reported() {
    let prefix = "kubernetes.operator.plugins.executors.a";
    let config = FlinkConfig::from_iter([
        (format!("{prefix}.url"), "http://127.0.0.1:9/"),
        (format!("{prefix}.headers"), "no header:hush"),
    ]);
    let Err(problems) = ScalingRules::configured(&config) else { unreachable!() };
    let told = problems[0].to_string();
    assert!(told.contains(&format!("`{prefix}.headers`")) && !told.contains("hush"), "{told}");
}
