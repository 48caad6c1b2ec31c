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
    let outcome = mutate(&all, Kind::FlinkDeployment, &object()).await.unwrap();
    assert_eq!(outcome.object["spec"]["job"]["parallelism"], 30);
    assert_eq!(outcome.by, ["a", "b"]);
    assert_eq!(outcome.without, Vec::<String>::new());
}

#[tokio::test]
async fn one_that_fails_stops_the_object_or_is_left_out() {
    let broken = ("policy.expression", "{'metadata': {'name': 'other'}}");
    let refusal = mutate(&mutators(&[broken]), Kind::FlinkDeployment, &object()).await;
    let told = refusal.unwrap_err();
    assert!(told.starts_with("mutator `policy` gives no answer: it changes `metadata.name`"));
    let ignored = mutators(&[broken, ("policy.failure-policy", "Ignore")]);
    let outcome = mutate(&ignored, Kind::FlinkDeployment, &object()).await.unwrap();
    assert_eq!(outcome.object, object());
    assert_eq!(outcome.without.len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_is_away_is_no_change() {
    let all = mutators(&[("policy.url", "http://127.0.0.1:9/"), ("policy.timeout", "1 s")]);
    let told = mutate(&all, Kind::FlinkDeployment, &object()).await.unwrap_err();
    assert!(told.starts_with("mutator `policy` gives no answer: no answer:"), "{told}");
}
