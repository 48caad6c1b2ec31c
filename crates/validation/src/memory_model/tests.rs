use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

type Model = fn(&FlinkConfig) -> Result<(), Problem>;

/// Compares with the results of Flink 1.20.5 for the same options; the text is this crate's.
#[track_caller]
fn check(model: Model, entries: &[(&str, &str)], expected: Expect) {
    let config: FlinkConfig = entries.iter().copied().collect();
    let text = match model(&config) {
        Ok(()) => "ok".to_owned(),
        Err(Problem::Undefined) => "undefined".to_owned(),
        Err(Problem::Contradiction(problem)) => problem,
        Err(Problem::Invalid(invalid)) => invalid.to_string(),
    };
    expected.assert_eq(&text);
}

#[test]
fn job_manager_needs_one_size() {
    let check = |entries: &[(&str, &str)], expected| check(check_job_manager, entries, expected);
    check(&[], expect!["undefined"]);
    check(&[("jobmanager.memory.process.size", "1600m")], expect!["ok"]);
    check(&[("jobmanager.memory.flink.size", "1280m")], expect!["ok"]);
    check(&[("jobmanager.memory.heap.size", "1g")], expect!["ok"]);
    check(&[("jobmanager.heap.size", "1g")], expect!["ok"]);
    check(&[("jobmanager.heap.mb", "1024")], expect!["ok"]);
    check(&[("jobmanager.memory.off-heap.size", "1g")], expect!["undefined"]);
}

#[test]
fn job_manager_sizes_that_leave_nothing() {
    let check = |entries: &[(&str, &str)], expected| check(check_job_manager, entries, expected);
    check(
        &[("jobmanager.memory.process.size", "400m")],
        expect![
            "`jobmanager.memory.process.size` of 400 mb is less than the required 448 mb: \
             metaspace 256 mb, JVM overhead 192 mb"
        ],
    );
    check(
        &[("jobmanager.memory.process.size", "500m")],
        expect![
            "`jobmanager.memory.process.size` of 500 mb is less than the required 577 mb: \
             metaspace and JVM overhead 448 mb, off-heap memory 128 mb, JVM heap 1 mb"
        ],
    );
    check(
        &[("jobmanager.memory.heap.size", "1g"), ("jobmanager.memory.flink.size", "512m")],
        expect![
            "the sizes contradict each other: `jobmanager.memory.flink.size` is 512 mb, `jobmanager.memory.heap.size` is 1024 mb, `jobmanager.memory.off-heap.size` is 128 mb"
        ],
    );
    check(
        &[("jobmanager.memory.flink.size", "1g"), ("jobmanager.memory.process.size", "4g")],
        expect![
            "`jobmanager.memory.process.size` of 4096 mb leaves 2816 mb for JVM overhead, which must be from 192 mb to 1024 mb"
        ],
    );
}

#[test]
fn task_manager_needs_a_total_or_both_parts() {
    let check = |entries: &[(&str, &str)], expected| check(check_task_manager, entries, expected);
    check(&[], expect!["undefined"]);
    check(&[("taskmanager.memory.process.size", "1728m")], expect!["ok"]);
    check(&[("taskmanager.memory.flink.size", "1280m")], expect!["ok"]);
    check(
        &[("taskmanager.memory.task.heap.size", "512m"), ("taskmanager.memory.managed.size", "0")],
        expect!["ok"],
    );
    check(&[("taskmanager.memory.task.heap.size", "512m")], expect!["undefined"]);
    check(&[("taskmanager.memory.managed.size", "512m")], expect!["undefined"]);
    check(&[("taskmanager.heap.size", "1g")], expect!["undefined"]);
}

#[test]
fn task_manager_sizes_that_leave_nothing() {
    let check = |entries: &[(&str, &str)], expected| check(check_task_manager, entries, expected);
    check(
        &[("taskmanager.memory.process.size", "900m")],
        expect![
            "`taskmanager.memory.process.size` of 900 mb is less than the required 949 mb: \
             metaspace and JVM overhead 448 mb, framework and task off-heap memory 256 mb, managed \
             memory 181 mb, network memory 64 mb"
        ],
    );
    check(
        &[("taskmanager.memory.flink.size", "1g"), ("taskmanager.memory.managed.size", "1g")],
        expect![
            "`taskmanager.memory.flink.size` of 1024 mb is less than the required 1383 mb: \
             framework and task off-heap memory 256 mb, managed memory 1024 mb, network memory 103 \
             mb"
        ],
    );
    check(
        &[
            ("taskmanager.memory.flink.size", "1600m"),
            ("taskmanager.memory.task.heap.size", "100m"),
            ("taskmanager.memory.network.max", "128m"),
        ],
        expect!["604 mb are left for network memory, which must be from 64 mb to 128 mb"],
    );
    check(
        &[("taskmanager.memory.process.size", "2g"), ("taskmanager.memory.jvm-overhead.min", "2g")],
        expect![
            "`taskmanager.memory.jvm-overhead.min` is 2048 mb and `taskmanager.memory.jvm-overhead.max` is 1024 mb"
        ],
    );
    check(
        &[
            ("taskmanager.memory.process.size", "2g"),
            ("taskmanager.memory.managed.fraction", "1.0"),
        ],
        expect![
            "invalid value `1` of `taskmanager.memory.managed.fraction`: expected a number from 0 to below 1"
        ],
    );
    check(
        &[("taskmanager.memory.process.size", "lots")],
        expect![
            "invalid value `lots` of `taskmanager.memory.process.size`: expected a whole number and one of b, kb, mb, gb or tb, such as `2048 mb`, or a quantity such as `2Gi`"
        ],
    );
}

/// Flink keeps 0.4 in single precision, which is a little more than 0.4: nothing at all is left.
#[test]
fn a_share_that_uses_all_up_is_too_much() {
    check(
        check_task_manager,
        &[
            ("taskmanager.memory.flink.size", "768m"),
            ("taskmanager.memory.task.off-heap.size", "128m"),
        ],
        expect![
            "`taskmanager.memory.flink.size` of 768 mb is less than the required 769 mb: framework \
             and task off-heap memory 384 mb, managed memory 308 mb, network memory 77 mb"
        ],
    );
}

/// What Flink 1.20 logs when a TaskManager starts with its default size.
#[test]
fn the_parts_of_a_task_manager() {
    let parts = |entries: &[(&str, &str)]| {
        let config: FlinkConfig = entries.iter().copied().collect();
        task_manager_memory(&config)
    };
    let default = TaskManagerMemory {
        flink: 1_342_177_280,
        heap: 536_870_902,
        framework_off_heap: 134_217_728,
        task_off_heap: 0,
        managed: 536_870_920,
        network: 134_217_730,
        metaspace: 268_435_456,
        overhead: 201_326_592,
    };
    assert_eq!(parts(&[("taskmanager.memory.process.size", "1728m")]), Some(default));
    assert_eq!(parts(&[("taskmanager.memory.flink.size", "1280m")]), Some(default));
    let stated = parts(&[
        ("taskmanager.memory.task.heap.size", "402653174"),
        ("taskmanager.memory.managed.size", "536870920"),
    ]);
    let TaskManagerMemory { heap, managed, .. } = stated.unwrap();
    assert_eq!((heap, managed), (default.heap, default.managed));
    assert_eq!(parts(&[]), None);
    assert_eq!(parts(&[("taskmanager.memory.process.size", "300m")]), None);
}

proptest! {
    /// More memory never makes a process that starts with default fractions fail.
    #[test]
    fn more_memory_is_never_worse(mebibytes in 1_u64..20_000, more in 0_u64..20_000) {
        for (key, model) in [
            ("jobmanager.memory.process.size", check_job_manager as Model),
            ("taskmanager.memory.process.size", check_task_manager),
        ] {
            let config = |size: u64| FlinkConfig::from_iter([(key, format!("{size}m"))]);
            if model(&config(mebibytes)).is_ok() {
                prop_assert!(model(&config(mebibytes + more)).is_ok());
            }
        }
    }

    #[test]
    fn no_sizes_overflow(sizes in proptest::collection::vec("[0-9]{1,7}tb", 6)) {
        let keys = [
            "taskmanager.memory.task.heap.size", "taskmanager.memory.managed.size",
            "taskmanager.memory.framework.heap.size", "taskmanager.memory.framework.off-heap.size",
            "taskmanager.memory.task.off-heap.size", "taskmanager.memory.process.size",
        ];
        let config: FlinkConfig = keys.into_iter().zip(sizes).collect();
        let _answer = check_task_manager(&config);
    }
}
