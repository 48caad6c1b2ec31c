use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use serde_json::json;

use super::*;
use crate::endpoint::fake::endpoint;
use lifecycle::verdict::{Opinion, Verdict, Version};

const TYPE: &str = "application/json";

fn config(options: &[(&str, &str)]) -> FlinkConfig {
    let prefix = "kubernetes.operator.plugins.validators.";
    options.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned())).collect()
}

fn configured_by(options: &[(&str, &str)]) -> Verdicts {
    Verdicts::new(configured(&config(options)).unwrap())
}

fn subject() -> Subject {
    let object = json!({
        "metadata": {"name": "job"},
        "spec": {"job": {"parallelism": 4}, "flinkConfiguration": {"s3.secret-key": "hush"}}
    });
    Subject::new(Kind::FlinkDeployment, &object)
}

fn judging(generation: i64) -> Judging<'static> {
    let version = Version { generation, session: None };
    Judging { namespace: "ns", name: "job", uid: "u1", version, subject: subject() }
}

fn given(verdict: Verdict) -> Vec<Opinion> {
    match verdict {
        Verdict::Given(opinions) => opinions,
        Verdict::Pending { .. } => panic!("it is not given yet"),
    }
}

fn violations(opinion: &Opinion) -> Vec<String> {
    opinion.answer.as_ref().unwrap().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn rules_and_endpoints_are_asked_together() {
    let blame = json!({"field": "spec.image", "message": "must come from our registry"});
    let answer = json!({"allowed": false, "violations": [blame]});
    let (url, mut asked) = endpoint(TYPE, vec![(200, answer)]).await;
    let verdicts = configured_by(&[
        ("size.expression", "object.spec.job.parallelism <= 3"),
        ("size.message", "at most 3"),
        ("size.field", "spec.job.parallelism"),
        ("policy.url", &url),
        ("elsewhere.url", "http://127.0.0.1:9/"),
        ("elsewhere.kinds", "FlinkStateSnapshot"),
    ]);
    let opinions = given(verdicts.ask(judging(1)).await);
    assert_eq!(violations(&opinions[0]), ["spec.image: must come from our registry"]);
    assert_eq!(violations(&opinions[1]), ["spec.job.parallelism: at most 3"]);
    assert_eq!(opinions.len(), 2);
    let request = asked.recv().await.unwrap();
    assert_eq!(request["kind"], "FlinkDeployment");
    assert_eq!(request["object"]["spec"]["job"]["parallelism"], 4);
    assert!(!request.to_string().contains("hush"), "{request}");
    let known = verdicts.known(Kind::FlinkDeployment, "u1").remembered.unwrap();
    assert_eq!((known.version.generation, known.attempts), (1, 1));
    assert_eq!(known.verdict.opinions(), opinions);
}

#[tokio::test]
async fn an_answer_that_is_none_is_reported_as_such() {
    let (url, _asked) = endpoint(
        TYPE,
        vec![
            (503, json!({})),
            (200, json!({"ok": true})),
            (200, json!({"allowed": true, "violations": [{"message": "but"}]})),
            (200, json!({"allowed": false, "message": "not on Fridays"})),
            (200, json!({"allowed": true})),
        ],
    )
    .await;
    let verdicts = configured_by(&[("policy.url", &url)]);
    let mut told = Vec::new();
    for generation in 1..=5 {
        let opinion = given(verdicts.ask(judging(generation)).await).remove(0);
        told.push(
            opinion.answer.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>()),
        );
    }
    let unclear = |text: &str| Err(text.to_owned());
    assert_eq!(told[0], unclear("it answered 503"));
    assert_eq!(told[1], unclear("its answer has neither `allowed` nor `violations`"));
    assert_eq!(told[2], unclear("its answer allows the change but contains violations"));
    assert_eq!(told[3], Ok(vec!["spec: not on Fridays".to_owned()]));
    assert_eq!(told[4], Ok(vec![]));
}

/// Counts how often it is called, and takes its time.
struct Slow {
    asked: AtomicUsize,
    takes: Duration,
}

impl Validator for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(600)
    }

    fn validate<'a>(
        &'a self,
        _subject: &'a Subject,
    ) -> BoxFuture<'a, Result<Vec<Violation>, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.takes).map(|()| Ok(vec![])).boxed()
    }
}

#[tokio::test]
async fn a_slow_one_does_not_hold_the_pass_up_and_wakes_the_resource() {
    let slow = Arc::new(Slow { asked: AtomicUsize::new(0), takes: Duration::from_millis(500) });
    let verdicts = Verdicts::new(vec![slow.clone()]);
    let mut late = verdicts.late().unwrap();
    assert_eq!(verdicts.ask(judging(1)).await, Verdict::Pending { before: vec![] });
    let judged = late.recv().await.unwrap();
    assert_eq!((judged.namespace.as_str(), judged.name.as_str()), ("ns", "job"));
    let known = verdicts.known(Kind::FlinkDeployment, "u1").remembered.unwrap();
    assert_eq!(given(known.verdict)[0].answer, Ok(vec![]));
    assert_eq!(slow.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_hanging_one_is_given_up_after_its_time() {
    let slow = Slow { asked: AtomicUsize::new(0), takes: Duration::from_hours(1) };
    let verdicts = Verdicts::new(vec![Arc::new(slow)]);
    let mut late = verdicts.late().unwrap();
    verdicts.ask(judging(1)).await;
    late.recv().await.unwrap();
    let known = verdicts.known(Kind::FlinkDeployment, "u1").remembered.unwrap();
    assert_eq!(given(known.verdict)[0].answer, Err("it took longer than 600ms".to_owned()));

    // The next attempt says what the last one said, until it has an answer of its own.
    let Verdict::Pending { before } = verdicts.ask(judging(1)).await else { unreachable!() };
    assert_eq!(before[0].answer, Err("it took longer than 600ms".to_owned()));
    assert_eq!(verdicts.known(Kind::FlinkDeployment, "u1").remembered.unwrap().attempts, 2);

    // A newer version, and the end of the resource, end an earlier validation.
    assert_eq!(verdicts.ask(judging(2)).await, Verdict::Pending { before: vec![] });
    verdicts.forget("u1");
    assert_eq!(verdicts.known(Kind::FlinkDeployment, "u1").remembered, None);
    assert!(tokio::time::timeout(Duration::from_millis(900), late.recv()).await.is_err());
}
