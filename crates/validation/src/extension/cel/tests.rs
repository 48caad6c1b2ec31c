use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::extension::subject::Kind;

fn subject() -> Subject {
    let object = json!({
        "metadata": {"name": "job", "labels": {"team": "a"}},
        "spec": {
            "flinkVersion": "v1_20",
            "job": {"parallelism": 4, "args": ["--rate", "1.5"]},
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": 2, "s3.secret-key": "hush"}
        }
    });
    let mut old = object["spec"].clone();
    old["job"]["parallelism"] = json!(3);
    Subject::new(Kind::FlinkDeployment, &object).with_old_spec(Some(old))
}

#[track_caller]
fn answer(rule: &str) -> Result<Value, String> {
    Rule::compile(rule)?.evaluate(&subject())
}

#[track_caller]
fn check_refusal(rule: &str, expected: Expect) {
    expected.assert_eq(&Rule::compile(rule).unwrap_err());
}

#[test]
fn rules_see_the_object_the_old_one_and_the_session() {
    for rule in [
        "object.spec.job.parallelism <= 4",
        "object.spec.job.parallelism * 2 == 8 && object.spec.job.parallelism > 3.5",
        "oldObject == null || object.spec.job.parallelism <= 2 * oldObject.spec.job.parallelism",
        "session == null",
        "has(object.metadata.labels.team) && !has(object.spec.ingress)",
        "'s3.secret-key' in object.spec.flinkConfiguration",
        "object.spec.flinkConfiguration['taskmanager.numberOfTaskSlots'] == 2",
        "object.metadata.name.matches('^[a-z]+$') && object.metadata.name.startsWith('j')",
        "object.spec.job.args.exists(arg, arg == '--rate')",
        "object.metadata.name.upperAscii() == 'JOB' || object.metadata.name.size() == 3",
        "object.spec.flinkVersion in ['v1_19', 'v1_20']",
    ] {
        assert_eq!(answer(rule), Ok(json!(true)), "{rule}");
    }
}

#[test]
fn a_rule_may_answer_any_json() {
    let rule = "[{'op': 'add', 'path': '/spec/job/parallelism', 'value': object.spec.job.parallelism + 1}]";
    let patch = json!([{"op": "add", "path": "/spec/job/parallelism", "value": 5}]);
    assert_eq!(answer(rule), Ok(patch));
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    check_refusal(
        "object.spec.(",
        expect!["is not CEL: at 1:13: Syntax error: no viable alternative at input '.('"],
    );
    check_refusal(
        "spec.job.parallelism < 3",
        expect![
            "uses an unknown variable `spec`: expected one of `object`, `oldObject` and `session`"
        ],
    );
    check_refusal(
        "object.metadata.name.shout() == 'X'",
        expect!["calls an unknown function `shout`"],
    );
    check_refusal("lookup(object) == 'X'", expect!["calls an unknown function `lookup`"]);
    check_refusal(
        "object.a.all(a, a.all(b, b.all(c, c.all(d, d == object.x))))",
        expect!["has 4 nested loops, and the limit is 3"],
    );
    assert!(Rule::compile(&" ".repeat(LENGTH_MAX + 1)).is_err());
    assert!(Rule::compile("").is_err());
}

/// Messages contain no values of the object, which may be secret.
#[test]
fn what_a_rule_does_wrong_is_reported_without_values() {
    let described = |rule: &str| answer(rule).unwrap_err();
    expect!["there is no `ingress`: check with `has(…)` first"]
        .assert_eq(&described("object.spec.ingress.template == 'x'"));
    for rule in [
        "object.spec.flinkConfiguration['s3.secret-key'] < 3",
        "object.spec.flinkConfiguration['s3.secret-key'] + 3 == 4",
        "int(object.spec.flinkConfiguration['s3.secret-key']) == 4",
        "object.spec.flinkConfiguration[object.spec.flinkConfiguration['s3.secret-key']] == 4",
    ] {
        let described = described(rule);
        assert!(!described.contains("hush"), "{rule}: {described}");
    }
}

/// The cost of a rule is bounded before it is evaluated: nothing could interrupt it.
#[test]
fn loops_over_long_lists_are_not_evaluated() {
    let object = json!({"spec": {"list": vec![0; 5000]}});
    let subject = Subject::new(Kind::FlinkDeployment, &object);
    let answer = |rule: &str| Rule::compile(rule).unwrap().evaluate(&subject);
    let each = "object.spec.list.all(a, ";
    assert_eq!(answer(&format!("{each}a == 0)")).unwrap(), json!(true));
    let error = answer(&format!("{each}{each}a == 0))")).unwrap_err();
    assert!(error.contains("25000000 rounds"), "{error}");
    let joined = "(object.spec.list + object.spec.list).map(a, [1, 2].map(b, a)) == []";
    assert!(answer(joined).unwrap_err().contains("rounds"));
    let few = json!({"spec": {"list": vec![0; 100]}});
    let few = Subject::new(Kind::FlinkDeployment, &few);
    let three = format!("{each}{each}{each}a == 0)))");
    assert_eq!(Rule::compile(&three).unwrap().evaluate(&few).unwrap(), json!(true));
}

#[test]
fn an_object_that_is_too_large_is_not_evaluated() {
    let object = json!({"spec": {"list": vec![0; VALUES_MAX]}});
    let subject = Subject::new(Kind::FlinkDeployment, &object);
    let described = Rule::compile("true").unwrap().evaluate(&subject).unwrap_err();
    assert_eq!(described, "the object has more than 20000 values");
}

/// Overflows the stack if [`LEVELS_MAX`] is too large; threads of the operator have a stack of this size.
#[test]
fn the_deepest_rules_do_not_run_out_of_stack() {
    let deepest = |one: &str, inner: &str, close: &str| {
        let mut text = inner.to_owned();
        let mut last = text.clone();
        for levels in 1.. {
            text = format!("{}{inner}{}", one.repeat(levels), close.repeat(levels));
            if bounds::depth(&text) > LEVELS_MAX {
                break;
            }
            last.clone_from(&text);
        }
        (last, text)
    };
    let work = move || {
        for (one, inner, close) in [
            ("(", "true", ")"),
            ("[", "1", "]"),
            ("{'a': ", "1", "}"),
            ("size([", "1", "])"),
            ("!", "true", ""),
            ("-", "1", ""),
            ("1 + ", "1", ""),
            ("true && ", "true", ""),
            ("false || ", "true", ""),
            ("true ? true : ", "true", ""),
            ("", "object", ".spec"),
            ("", "object", "['spec']"),
            ("", "'a'", ".upperAscii()"),
            ("[1].all(x, ", "true", ")"),
        ] {
            let (allowed, refused) = deepest(one, inner, close);
            // The test is whether it returns at all.
            drop(Rule::compile(&allowed).map(|rule| rule.evaluate(&subject())));
            let why = Rule::compile(&refused).unwrap_err();
            assert!(why.contains("levels deep"), "{one}{inner}{close}: {why}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap();
    thread.join().unwrap();
}
