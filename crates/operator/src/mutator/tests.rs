use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "job"},
        "spec": {"flinkVersion": "v1_20", "job": {"parallelism": 2}}
    })
}

fn mutators(options: &[(&str, &str)]) -> Vec<Arc<dyn Mutator>> {
    let prefix = "kubernetes.operator.plugins.mutators.";
    let config = options.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned()));
    configured(&config.collect()).unwrap()
}

#[tokio::test]
async fn each_gets_what_the_one_before_made() {
    let all = mutators(&[
        (
            "b.expression",
            "[{'op': 'replace', 'path': '/spec/job/parallelism', \
              'value': object.spec.job.parallelism * 10}]",
        ),
        ("a.expression", "{'spec': {'job': {'parallelism': object.spec.job.parallelism + 1}}}"),
        ("c.expression", "object.spec.job.parallelism > 100 ? {'spec': {'job': null}} : {}"),
        ("snapshots.expression", "{'spec': null}"),
        ("snapshots.kinds", "FlinkStateSnapshot"),
    ]);
    let outcome = mutate(&all, Kind::FlinkDeployment, &object(), None).await.unwrap();
    assert_eq!(outcome.object["spec"]["job"]["parallelism"], 30);
    assert_eq!(outcome.by, ["a", "b"]);
    assert_eq!(outcome.without, Vec::<String>::new());
}

#[tokio::test]
async fn one_that_fails_stops_the_object_or_is_left_out() {
    let broken = ("policy.expression", "{'metadata': {'name': 'other'}}");
    let refusal = mutate(&mutators(&[broken]), Kind::FlinkDeployment, &object(), None).await;
    let told = refusal.unwrap_err();
    assert!(told.starts_with("mutator `policy` gives no answer: it changes `metadata.name`"));
    let ignored = mutators(&[broken, ("policy.failure-policy", "Ignore")]);
    let outcome = mutate(&ignored, Kind::FlinkDeployment, &object(), None).await.unwrap();
    assert_eq!(outcome.object, object());
    assert_eq!(outcome.without.len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_away_is_no_change() {
    let all = mutators(&[("policy.url", "http://127.0.0.1:9/"), ("policy.timeout", "1 s")]);
    let told = mutate(&all, Kind::FlinkDeployment, &object(), None).await.unwrap_err();
    assert!(told.starts_with("mutator `policy` gives no answer: no answer:"), "{told}");
}

/// Never answers.
struct Hanging(&'static str, FailurePolicy);

impl Mutator for Hanging {
    fn name(&self) -> &str {
        self.0
    }

    fn on_failure(&self) -> FailurePolicy {
        self.1
    }

    fn mutate<'a>(&'a self, _: &'a Subject) -> BoxFuture<'a, Result<Value, String>> {
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn one_that_hangs_and_is_left_out_takes_nobody_elses_time() {
    let mut all = mutators(&[("z.expression", "{'spec': {'job': {'parallelism': 9}}}")]);
    all.push(Arc::new(Hanging("a", FailurePolicy::Ignore)));
    all.push(Arc::new(Hanging("b", FailurePolicy::Ignore)));
    // The others must be done by then, on any machine.
    let within = Some(Duration::from_secs(1));
    let outcome = mutate(&all, Kind::FlinkDeployment, &object(), within).await.unwrap();
    assert_eq!(outcome.object["spec"]["job"]["parallelism"], 9);
    let told = ["a", "b"].map(|it| format!("mutator `{it}` is skipped: it took longer than "));
    assert!(outcome.without.iter().zip(told).all(|(without, told)| without.starts_with(&told)));
    assert_eq!(outcome.without.len(), 2);

    all.push(Arc::new(Hanging("c", FailurePolicy::Fail)));
    let refusal = mutate(&all, Kind::FlinkDeployment, &object(), within).await.unwrap_err();
    assert!(refusal.starts_with("mutator `c` gives no answer: it took longer"), "{refusal}");
}
