use expect_test::expect;

use super::*;

fn config(options: &[(&str, &str)]) -> FlinkConfig {
    let prefix = "kubernetes.operator.plugins.";
    options.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned())).collect()
}

#[test]
fn validators_come_in_the_order_of_their_names() {
    let all = validators(&config(&[
        ("validators.size.expression", "object.spec.job.parallelism <= 10"),
        ("validators.size.message", "at most 10"),
        ("validators.size.field", "spec.job.parallelism"),
        ("validators.policy.url", "https://policy.example.com/flink"),
        ("validators.policy.timeout", "2 s"),
        ("validators.policy.failure-policy", "ignore"),
        ("validators.policy.kinds", "FlinkStateSnapshot; FlinkDeployment"),
    ]))
    .unwrap();
    let [policy, size] = all.as_slice() else { unreachable!("{all:?}") };
    assert_eq!((policy.name.as_str(), size.name.as_str()), ("policy", "size"));
    assert_eq!(policy.kinds, [Kind::FlinkStateSnapshot, Kind::FlinkDeployment]);
    assert_eq!(policy.on_failure, FailurePolicy::Ignore);
    assert_eq!(size.kinds, [Kind::FlinkDeployment, Kind::FlinkSessionJob]);
    assert_eq!(size.on_failure, FailurePolicy::Fail);
}

#[test]
fn everything_that_is_wrong_is_reported_with_its_option() {
    let problems = validators(&config(&[
        ("validators.a.class", "com.example.Validator"),
        ("validators.b.expression", "object.spec."),
        ("validators.c.expression", "object.spec.job == null"),
        ("validators.d.url", "ftp://host"),
        ("validators.e.url", "http://host"),
        ("validators.e.failure-policy", "maybe"),
        ("validators.f.url", "http://host"),
        ("validators.f.kinds", "Deployment"),
        ("validators.g.url", "http://host"),
        ("validators.g.message", "no"),
        ("validators.h.message", "nobody to say it"),
        ("validators.i.url", "http://host"),
        ("validators.i.timeout", "2 min"),
    ]))
    .unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    expect![[r#"
        operator configuration `kubernetes.operator.plugins.validators.a.class`: Java classes cannot be loaded here; set `expression` or `url` instead
        operator configuration `kubernetes.operator.plugins.validators.b.expression`: is not CEL: at 1:13: Syntax error: no viable alternative at input '.'
        operator configuration `kubernetes.operator.plugins.validators.c.message`: must be set: it tells users what to do
        operator configuration `kubernetes.operator.plugins.validators.d.url`: expected an http or https URL
        operator configuration `kubernetes.operator.plugins.validators.e.failure-policy`: expected `Fail` or `Ignore`
        operator configuration `kubernetes.operator.plugins.validators.f.kinds`: expected a list, separated by `;`, of `FlinkDeployment`, `FlinkSessionJob`, `FlinkStateSnapshot`
        operator configuration `kubernetes.operator.plugins.validators.g.message`: is only allowed with `expression`
        operator configuration `kubernetes.operator.plugins.validators.h.expression`: set `expression` or `url`
        operator configuration `kubernetes.operator.plugins.validators.i.timeout`: expected a duration of at most 1 min, such as `5 s`"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn mutators_are_configured_likewise() {
    let all = mutators(&config(&[
        ("mutators.defaults.expression", "{'metadata': {'labels': {'team': 'a'}}}"),
        ("mutators.remote.url", "https://policy.example.com/mutate"),
    ]))
    .unwrap();
    assert!(matches!(
        all.as_slice(),
        [Mutator { source: Source::Rule(_), .. }, Mutator { source: Source::Http(_), .. }]
    ));
    let problem = mutators(&config(&[("mutators.x.message", "no")])).unwrap_err().remove(0);
    expect!["operator configuration `kubernetes.operator.plugins.mutators.x.message`: unknown option: expected one of expression, url, headers, timeout, failure-policy, kinds"].assert_eq(&problem.to_string());
}
