use expect_test::{Expect, expect};

use super::*;
use crate::settings::tests::settings;

fn config(options: &[(&str, &str)]) -> FlinkConfig {
    let prefix = "kubernetes.operator.plugins.";
    options.iter().map(|(key, value)| (format!("{prefix}{key}"), *value)).collect()
}

#[track_caller]
fn check_refusal(options: &[(&str, &str)], expected: Expect) {
    let problems = Rules::read(&config(options)).unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    check_refusal(
        &[
            ("evaluators.a.expression", "object.spec"),
            ("evaluators.b.class", "org.example.Evaluator"),
            ("alignments.BALANCED.expression", "1"),
            ("executors.c.expression", "scalings.("),
            ("executors.d.timeout", "1 s"),
            ("executors.e.expression", "true"),
            ("executors.e.failure-policy", "Ignore"),
            ("executors.f.url", "ftp://example.com"),
        ],
        expect![[r#"
            operator configuration `kubernetes.operator.plugins.evaluators.a.expression`: uses an unknown variable `object`: expected one of `job`, `parameters`, `vertex`, `metrics` and `inputs`
            operator configuration `kubernetes.operator.plugins.evaluators.b.class`: Java classes cannot be loaded here; set `expression` or `url` instead
            operator configuration `kubernetes.operator.plugins.alignments.BALANCED.expression`: a built-in mode has this name: choose another one
            operator configuration `kubernetes.operator.plugins.executors.c.expression`: is not CEL: at 1:10: Syntax error: no viable alternative at input '.('
            operator configuration `kubernetes.operator.plugins.executors.d.expression`: set `expression` or `url`
            operator configuration `kubernetes.operator.plugins.executors.e.failure-policy`: unknown option: expected one of expression, url, headers, timeout
            operator configuration `kubernetes.operator.plugins.executors.f.url`: expected an http or https URL"#]],
    );
}

#[test]
fn a_name_that_nobody_defines_is_reported_with_what_to_define() {
    let rules = Rules::read(&config(&[
        ("evaluators.mine.expression", "null"),
        ("executors.away.url", "https://away.example.com"),
    ]))
    .unwrap();
    let check = |options: &[_]| rules.check(&settings(options));
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&[("metrics.custom-evaluators", "mine")]), Ok(()));
    assert_eq!(check(&[("scaling.custom-executors", "away")]), Ok(()));
    let described = |key: &str, group: &str, name: &str| {
        Err(format!(
            "`job.autoscaler.{key}` names `{name}`, which is not defined: set \
             `kubernetes.operator.plugins.{group}.{name}.expression` or `….url` in the \
             configuration that the operator starts with; Java classes cannot be loaded here"
        ))
    };
    for (key, group) in [
        ("scaling.custom-executors", "executors"),
        ("scaling.parallelism-alignment.mode", "alignments"),
    ] {
        // An evaluator of that name is neither of them.
        assert_eq!(check(&[(key, "mine")]), described(key, group, "mine"));
    }
    let mode = "scaling.parallelism-alignment.mode";
    assert_eq!(check(&[(mode, "balanced")]), described(mode, "alignments", "balanced"));
    let executors = "scaling.custom-executors";
    assert_eq!(check(&[(executors, "away;gone")]), described(executors, "executors", "gone"));
}

#[test]
fn what_is_asked_at_an_address_cannot_be_tried() {
    let rules = Rules::read(&config(&[("executors.away.url", "https://away.example.com")]));
    let refused = rules.unwrap().check_offline(&settings(&[("scaling.custom-executors", "away")]));
    let described = "executor `away` has a URL, and only an expression can be tried";
    assert_eq!(refused, Err(described.to_owned()));
}

#[test]
fn a_job_names_one_evaluator_and_each_executor_once() {
    let config = |options: &[(&str, &str)]| -> FlinkConfig {
        options.iter().map(|(key, value)| (format!("job.autoscaler.{key}"), *value)).collect()
    };
    let two = config(&[("metrics.custom-evaluators", "one;two")]);
    let error = Settings::read(&two).unwrap_err();
    assert!(error.to_string().ends_with("expected one name: a job has one evaluator"), "{error}");
    let plugins = settings(&[
        ("metrics.custom-evaluators", "one;one"),
        ("scaling.custom-executors", "b;a;b"),
    ])
    .plugins;
    let names: Vec<&str> = plugins.iter().map(|named| &*named.id.name).collect();
    assert_eq!(names, ["one", "b", "a"]);
}

#[test]
fn parameters_come_under_both_names_and_the_current_one_wins() {
    let prefix = "job.autoscaler.metrics.custom-evaluator.mine";
    let config = FlinkConfig::from_iter([
        ("kubernetes.operator.job.autoscaler.metrics.custom-evaluators", "mine".to_owned()),
        (&format!("kubernetes.operator.{prefix}.rate"), "1".to_owned()),
        (&format!("kubernetes.operator.{prefix}.class"), "org.example.Mine".to_owned()),
        (&format!("{prefix}.rate"), "2".to_owned()),
    ]);
    let evaluator = Settings::read(&config).unwrap().plugins.evaluator.unwrap();
    let described: Vec<String> =
        evaluator.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(described, ["class=org.example.Mine", "rate=2"]);
}
