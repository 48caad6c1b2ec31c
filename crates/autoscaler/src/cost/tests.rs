use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::topology::{Counters, Vertex};

const GIB_BYTES: u64 = 1 << 30;

/// Vertices with their parallelism and slot sharing group.
fn topology(vertices: &[(&str, u32, Option<&str>)]) -> Topology {
    let vertex = |(id, parallelism, group): &(&str, u32, Option<&str>)| {
        let vertex = Vertex {
            parallelism: *parallelism,
            max_parallelism: 128,
            inputs: BTreeMap::new(),
            partitions: None,
            slot_sharing_group: group.map(str::to_owned),
            is_finished: false,
            counters: Counters::default(),
        };
        (VertexId::from(*id), vertex)
    };
    Topology::new(vertices.iter().map(vertex).collect()).unwrap()
}

fn config(more: &[(&str, &str)]) -> FlinkConfig {
    let base = [
        ("taskmanager.numberOfTaskSlots", "2"),
        ("kubernetes.taskmanager.cpu.amount", "1.5"),
        ("taskmanager.memory.process.size", "4 gb"),
        ("kubernetes.jobmanager.cpu.amount", "0.5"),
        ("jobmanager.memory.process.size", "2 gb"),
    ];
    base.iter().chain(more).map(|(key, value)| (*key, (*value).to_owned())).collect()
}

fn prices(cpu_hour: f64, gib_hour: f64) -> Prices {
    Prices { cpu_hour: Some(cpu_hour), gib_hour: Some(gib_hour) }
}

#[test]
fn example_one_group_from_two_to_five_slots() {
    let pods = Pods::of(&config(&[]), false).unwrap();
    let job = topology(&[("source", 2, Some("default")), ("sink", 1, Some("default"))]);
    let before = slots(&job, |_, now| now);
    let after = slots(&job, |id, now| if id.as_str() == "source" { 5 } else { now });
    assert_eq!((before, after), (2, 5));
    let of = |slots| pods.request(slots, prices(0.04, 0.005));
    let cost = Cost { before: of(before), after: of(after) };
    // 1 x 1.5 + 0.5 CPU and 1 x 4 + 2 GiB: 2 x 0.04 + 6 x 0.005 = 0.11.
    assert_eq!((cost.before.task_managers, cost.before.cpu_millis), (1, 2000));
    assert_eq!(cost.before.memory_bytes, 6 * GIB_BYTES);
    assert!((cost.before.per_hour.unwrap() - 0.11).abs() < 1e-12);
    // 3 x 1.5 + 0.5 CPU and 3 x 4 + 2 GiB: 5 x 0.04 + 14 x 0.005 = 0.27.
    assert_eq!((cost.after.task_managers, cost.after.cpu_millis), (3, 5000));
    assert_eq!(cost.after.memory_bytes, 14 * GIB_BYTES);
    assert!((cost.after.per_hour.unwrap() - 0.27).abs() < 1e-12);
    assert_eq!(
        cost.to_string(),
        "1 -> 3 TaskManagers, 2 -> 5 CPU, 6 -> 14 GiB, 0.11 -> 0.27 per hour"
    );
}

#[test]
fn example_groups_of_their_own_need_slots_of_their_own() {
    let job = topology(&[("a", 3, Some("one")), ("b", 2, Some("one")), ("c", 4, Some("other"))]);
    assert_eq!(slots(&job, |_, now| now), 7);
    let unknown = topology(&[("a", 3, None), ("b", 2, None), ("c", 4, None)]);
    assert_eq!(slots(&unknown, |_, now| now), 4, "all share");
}

#[test]
fn example_a_decision_that_fits_into_the_slots_that_are_there_costs_nothing() {
    let pods = Pods::of(&config(&[]), false).unwrap();
    let of = |slots| pods.request(slots, Prices::default());
    let cost = Cost { before: of(3), after: of(4) };
    assert_eq!(cost.to_string(), "2 TaskManagers, 3.5 CPU, 10 GiB");
    assert_eq!(cost.before.per_hour, None, "without prices there is no money");
}

#[test]
fn example_tuned_memory_counts_after_the_decision() {
    let pods = Pods::of(&config(&[]), false).unwrap();
    let smaller = pods.with_memory(Some(MemorySize(3 * GIB_BYTES)));
    let cost = Cost {
        before: pods.request(4, prices(0.0, 1.0)),
        after: smaller.request(4, prices(0.0, 1.0)),
    };
    assert_eq!(cost.to_string(), "2 TaskManagers, 3.5 CPU, 10 -> 8 GiB, 10 -> 8 per hour");
    assert_eq!(pods.with_memory(None), pods);
}

#[test]
fn the_job_manager_of_a_session_job_is_there_anyway() {
    let pods = Pods::of(&config(&[]), true).unwrap();
    assert_eq!(pods.request(2, Prices::default()).cpu_millis, 1500);
    let three = Pods::of(&config(&[("kubernetes.jobmanager.replicas", "3")]), false).unwrap();
    assert_eq!(three.request(0, Prices::default()).cpu_millis, 1500, "replicas that stand by");
}

#[test]
fn what_the_configuration_does_not_say_is_as_flink_has_it_or_no_estimate() {
    let mut config = config(&[]);
    drop(config.remove("kubernetes.taskmanager.cpu.amount"));
    assert_eq!(
        Pods::of(&config, false).unwrap().task_manager.cpu_millis,
        2000,
        "a CPU for each slot"
    );
    drop(config.remove("taskmanager.memory.process.size"));
    assert_eq!(Pods::of(&config, false), None);
}

#[test]
fn one_price_is_enough_and_a_wrong_one_is_reported() {
    let read = |key: &str, value: &str| Prices::read(&config(&[(key, value)]));
    let cpu = read("job.autoscaler.cost.cpu-hour", "0.04").unwrap();
    assert_eq!(cpu, Prices { cpu_hour: Some(0.04), gib_hour: None });
    assert_eq!(cpu.per_hour(2500, MemorySize(GIB_BYTES)), Some(0.1));
    assert_eq!(Prices::read(&config(&[])), Ok(Prices::default()));
    for wrong in ["-1", "cheap", "NaN", "inf"] {
        let error = read("job.autoscaler.cost.gib-hour", wrong).unwrap_err();
        assert_eq!(error.key, "job.autoscaler.cost.gib-hour", "{wrong}");
    }
}

#[test]
fn what_is_stored_reads_back_and_what_is_no_estimate_is_none() {
    let pods = Pods::of(&config(&[]), false).unwrap();
    for prices in [Prices::default(), prices(0.03, 0.004)] {
        let cost = Cost { before: pods.request(1, prices), after: pods.request(9, prices) };
        assert_eq!(Cost::stored(&Data::from([(KEY.to_owned(), cost.text())])), Some(cost));
    }
    for text in ["", "{", "{}", "[1]", "{\"before\": 1, \"after\": 2}"] {
        assert_eq!(Cost::stored(&Data::from([(KEY.to_owned(), text.to_owned())])), None, "{text}");
    }
    assert_eq!(Cost::stored(&Data::new()), None);
}

proptest! {
    #[test]
    fn no_number_overflows_or_is_none(
        cpu in any::<u64>(), memory in any::<u64>(), slots in any::<u64>(), per in any::<u32>(),
        job_managers in any::<u32>(), cpu_hour in 0.0..f64::MAX, gib_hour in 0.0..f64::MAX,
    ) {
        let pod = Pod { cpu_millis: cpu, memory: MemorySize(memory) };
        let pods =
            Pods { task_manager: pod, slots_per_task_manager: per, job_manager: pod, job_managers };
        let requested = pods.request(slots, prices(cpu_hour, gib_hour));
        let money = requested.per_hour.unwrap();
        prop_assert!(money.is_finite() && money >= 0.0, "{money}");
        let cost = Cost { before: requested, after: requested };
        let stored = Cost::stored(&Data::from([(KEY.to_owned(), cost.text())]));
        prop_assert!(stored.is_some());
        let _shown = cost.to_string();
    }

    /// More slots never cost less.
    #[test]
    fn it_grows_with_the_slots(one in 0_u64..100_000, more in 0_u64..100_000) {
        let pods = Pods::of(&config(&[]), false).unwrap();
        let of = |slots| pods.request(slots, prices(0.04, 0.005));
        let (less, more) = (of(one), of(one + more));
        prop_assert!(less.task_managers <= more.task_managers);
        prop_assert!(less.cpu_millis <= more.cpu_millis && less.memory_bytes <= more.memory_bytes);
        prop_assert!(less.per_hour <= more.per_hour);
    }
}
