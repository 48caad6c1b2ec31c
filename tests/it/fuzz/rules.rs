//! Options that administrators and users write to be interpreted: cron, CEL, JSON patches.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use validation::extension::cel::Rule;
use validation::extension::mutation::{difference, mutated};
use validation::extension::subject::{Kind, Subject};
use validation::schedule::Schedule;

use super::{Target, fuzz, fuzz_text, kind_of};

#[test]
fn a_schedule_goes_on_or_ends() {
    let words = &[
        "*",
        "?",
        "/",
        "-",
        ",",
        "#",
        "L",
        "LW",
        "W",
        "MON",
        "DEC",
        "0 0 0 ",
        "2099",
        "29 2",
        "31 4",
        "* * * * * ?",
    ];
    let target = Target { name: "schedule", words, bytes_max: 1 << 10, outcomes_min: 24 };
    let zones = [TimeZone::UTC, TimeZone::fixed(jiff::tz::offset(-11))];
    let times = ["2026-03-04T05:06:07Z", "2028-02-29T23:59:59Z", "9999-12-30T00:00:00Z"];
    let times = times.map(|time| time.parse::<Timestamp>().unwrap());
    fuzz_text(&target, |text| match Schedule::parse(text) {
        Ok(schedule) => {
            let mut count = 0;
            for zone in &zones {
                for time in times {
                    let next = schedule.next(time, zone);
                    assert!(next.is_none_or(|next| next > time), "{next:?} is not after {time}");
                    count += usize::from(next.is_some());
                }
            }
            format!("{count} {}", matches!(schedule, Schedule::Cron(_)))
        }
        Err(error) => kind_of(&error),
    });
}

fn subject() -> Subject {
    let object: Value = serde_yaml::from_str(include_str!("../../../examples/basic.yaml")).unwrap();
    Subject::new(Kind::FlinkDeployment, &object)
}

#[test]
fn a_rule_of_a_validator_ends() {
    let words = &[
        "object",
        "oldObject",
        "session",
        "object.spec",
        ".all(x, ",
        ".exists(y, ",
        ".map(z, ",
        ".filter(w, ",
        "has(",
        "size(",
        " in ",
        " ? ",
        " : ",
        " && ",
        "==",
        "+",
        "'a'",
        "[1, 2]",
        "{'a': 1}",
        ".matches('(a*)*b')",
        ".replace('a', 'aa')",
        ".split('')",
        ".split('', -1)",
        ".substring(1, 0)",
        ".charAt(-1)",
        ".indexOf('b', 7)",
        ".lastIndexOf('b', -7)",
        ".replace('', 'bb', -1)",
        ".matches('(((a{99}){99}){99})')",
        ".trim()",
        ".reverse()",
        "'é'",
        "r'['",
        "b'\\xff'",
        "1e400",
        "-9223372036854775808",
        "18446744073709551615u",
        " / 0",
        " % ",
        "9223372036854775807",
        "1u",
        "b'a'",
        "1.0",
        "duration('1s')",
        "string(",
        ".format([",
        ".join(",
        "true",
        "null",
        "!",
        "-",
    ];
    let target = Target { name: "cel", words, bytes_max: 4 << 10, outcomes_min: 50 };
    let subject = subject();
    fuzz_text(&target, |text| match Rule::compile(text) {
        Ok(rule) => match rule.evaluate(&subject) {
            Ok(answer) => format!("{:.20}", answer.to_string()),
            Err(error) => kind_of(&error),
        },
        Err(error) => kind_of(&error),
    });
}

#[test]
fn what_a_mutator_answers_makes_an_object_or_a_reason() {
    let words = &[
        "op",
        "add",
        "remove",
        "replace",
        "move",
        "copy",
        "test",
        "path",
        "from",
        "value",
        "/spec",
        "/spec/job/args/-",
        "/metadata/labels",
        "~0",
        "~1",
        "/0",
        "/01",
    ];
    let target = Target { name: "mutation", words, bytes_max: 16 << 10, outcomes_min: 26 };
    let object = subject().object;
    fuzz(&target, |input| {
        let answer: Value = match serde_json::from_slice(&input.bytes) {
            Ok(answer) => answer,
            Err(error) => return kind_of(&error.to_string()),
        };
        match mutated(Kind::FlinkDeployment, &object, &answer) {
            Ok(changed) => {
                let mut again = object.clone();
                json_patch_merge(&mut again, &difference(&object, &changed));
                assert_eq!(without_nulls(again), without_nulls(changed));
                "changed".to_owned()
            }
            Err(error) => kind_of(&error),
        }
    });
}

/// A second implementation of RFC 7396, so that the crate used by `mutated` is not checked against itself.
fn json_patch_merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (name, value) in fields {
        if value.is_null() {
            drop(target.remove(name));
        } else {
            json_patch_merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Removes nulls, because a merge patch cannot set a field to null.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        other => other,
    }
}
