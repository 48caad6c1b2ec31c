use expect_test::{Expect, expect};

use super::*;
use crate::metric::{Evaluated, Figures};
use crate::topology::{Counters, Vertex};

const MIB: f64 = 1_048_576.0;

/// Two vertices with 50 subtasks each, which are scaled to 25 and 10.
struct Job {
    options: Vec<(&'static str, &'static str)>,
    heap: f64,
    managed: f64,
    metaspace: f64,
    slots: f64,
}

fn job() -> Job {
    Job {
        options: vec![
            ("taskmanager.numberOfTaskSlots", "5"),
            ("taskmanager.memory.process.size", "30 gb"),
            ("job.autoscaler.memory.tuning.scale-down-compensation.enabled", "false"),
        ],
        heap: 5096.0 * MIB,
        managed: 10_000.0 * MIB,
        metaspace: 100.0 * MIB,
        slots: 50.0,
    }
}

impl Job {
    fn with(mut self, key: &'static str, value: &'static str) -> Self {
        self.options.retain(|(of, _)| *of != key);
        self.options.push((key, value));
        self
    }

    fn tune(&self) -> Option<ConfigChanges> {
        let config: FlinkConfig = self.options.iter().copied().collect();
        let settings = Settings::read(&config).unwrap();
        let vertex = |inputs: &[&str]| Vertex {
            parallelism: 50,
            max_parallelism: 1000,
            inputs: inputs.iter().map(|id| ((*id).into(), ShipStrategy::Rebalance)).collect(),
            partitions: None,
            slot_sharing_group: None,
            is_finished: false,
            counters: Counters::default(),
        };
        let vertices = [("a".into(), vertex(&[])), ("b".into(), vertex(&["a"]))];
        let mut evaluation = Evaluation::default();
        for (metric, average) in [
            (Metric::HeapMemoryUsed, self.heap),
            (Metric::ManagedMemoryUsed, self.managed),
            (Metric::MetaspaceMemoryUsed, self.metaspace),
        ] {
            evaluation.job.set(metric, Evaluated::average(average));
        }
        evaluation.job.set(Metric::NumTaskSlotsUsed, Evaluated::of(self.slots));
        let scaling = |new| Scaling { current: 50, new, figures: Figures::default() };
        let scalings = [("a".into(), scaling(25)), ("b".into(), scaling(10))].into();
        let tuning = Tuning {
            config: &config,
            settings: &settings,
            topology: &Topology::new(vertices.into()).unwrap(),
            evaluation: &evaluation,
            scalings: &scalings,
            total: MemorySize::from_mebibytes(30 << 10),
        };
        tune(&tuning).unwrap()
    }

    #[track_caller]
    fn check(&self, expected: Expect) {
        let changes = self.tune().unwrap();
        let lines = changes.overrides.iter().map(|(key, value)| {
            format!("{}: {value}\n", key.trim_start_matches("taskmanager.memory."))
        });
        expected.assert_eq(&lines.collect::<String>());
        let removals: Vec<_> = changes.removals.iter().map(String::as_str).collect();
        assert_eq!(
            removals,
            [
                "taskmanager.memory.flink.size",
                "taskmanager.memory.managed.size",
                "taskmanager.memory.size",
                "taskmanager.memory.task.heap.size",
            ]
        );
    }
}

/// Numbers of the Java operator for the same job.
#[test]
fn section_8_what_is_not_used_is_given_back() {
    job().check(expect![[r"
        framework.heap.size: 0 bytes
        jvm-metaspace.size: 120 mb
        jvm-overhead.fraction: 0.054
        managed.fraction: 0.654
        network.max: 13760 kb
        network.min: 13760 kb
        process.size: 20108162027 bytes
    "]]);
}

#[test]
fn section_8_all_the_rest_may_go_to_managed_memory() {
    job().with("job.autoscaler.memory.tuning.maximize-managed-memory", "true").check(expect![[r"
        framework.heap.size: 0 bytes
        jvm-metaspace.size: 120 mb
        jvm-overhead.fraction: 0.034
        managed.fraction: 0.789
        network.max: 13760 kb
        network.min: 13760 kb
        process.size: 30 gb
    "]]);
}

#[test]
fn section_8_managed_memory_that_is_not_used_goes() {
    Job { managed: 0.0, ..job() }.check(expect![[r"
        framework.heap.size: 0 bytes
        jvm-metaspace.size: 120 mb
        jvm-overhead.fraction: 0.139
        managed.fraction: 0.0
        network.max: 13760 kb
        network.min: 13760 kb
        process.size: 7760130867 bytes
    "]]);
}

#[test]
fn section_8_fewer_task_managers_get_more_heap() {
    let key = "job.autoscaler.memory.tuning.scale-down-compensation.enabled";
    Job { managed: 0.0, ..job() }.with(key, "true").check(expect![[r"
        framework.heap.size: 0 bytes
        jvm-metaspace.size: 120 mb
        jvm-overhead.fraction: 0.076
        managed.fraction: 0.0
        network.max: 13760 kb
        network.min: 13760 kb
        process.size: 14172382822 bytes
    "]]);
}

#[test]
fn section_8_there_is_no_more_than_there_is() {
    let heap = 30_812_254_720.0;
    let metaspace = 268_435_456.0;
    Job { managed: 0.0, heap, metaspace, ..job() }.check(expect![[r"
        framework.heap.size: 0 bytes
        jvm-metaspace.size: 322122547 bytes
        jvm-overhead.fraction: 0.034
        managed.fraction: 0.0
        network.max: 13760 kb
        network.min: 13760 kb
        process.size: 30 gb
    "]]);
}

#[test]
fn what_flink_cannot_split_is_not_tuned() {
    assert_eq!(job().with("taskmanager.memory.process.size", "100 mb").tune(), None);
    assert_eq!(job().with("taskmanager.memory.network.fraction", "2").tune(), None);
}

#[test]
fn what_was_not_measured_is_not_tuned() {
    assert_eq!(Job { heap: f64::NAN, ..job() }.tune(), None);
    assert_eq!(Job { metaspace: f64::INFINITY, ..job() }.tune(), None);
    assert_eq!(Job { managed: f64::NAN, ..job() }.tune(), None);
    let key = "job.autoscaler.memory.tuning.scale-down-compensation.enabled";
    assert!(Job { slots: f64::NAN, ..job() }.with(key, "true").tune().is_some());
}

#[test]
fn section_8_channels_of_an_edge() {
    let buffers = |own, other, ship| channels(own, other, ship) * 2 + 8;
    assert_eq!(buffers(10, 10, ShipStrategy::Forward), 10);
    assert_eq!(buffers(10, 15, ShipStrategy::Forward), 12);
    assert_eq!(buffers(10, 15, ShipStrategy::Rescale), 12);
    assert_eq!(buffers(10, 15, ShipStrategy::Rebalance), 38);
    assert_eq!(buffers(10, 15, ShipStrategy::Unknown), 38);
}

#[test]
fn fractions_are_rounded_up() {
    let text = |part, whole| fraction(part, whole).unwrap();
    assert_eq!([text(1, 3), text(1, 2), text(0, 5)], ["0.334", "0.5", "0.0"]);
    assert_eq!([text(9999, 10000), text(5, 5), text(1, 8)], ["1.0", "1.0", "0.125"]);
    assert_eq!(fraction(1, 0), None);
    assert_eq!(fraction(1, -5), None);
}

proptest::proptest! {
    /// A decision that cannot be read back would leave the job without any.
    #[test]
    fn what_is_tuned_is_read_back(
        heap in 0.0..64e9_f64,
        managed in 0.0..64e9_f64,
        metaspace in 0.0..4e9_f64,
        slots in 1.0..5000.0_f64,
        is_maximized: bool,
        is_compensated: bool,
    ) {
        let text = |is: bool| if is { "true" } else { "false" };
        let tuned = Job { heap, managed, metaspace, slots, ..job() }
            .with("job.autoscaler.memory.tuning.maximize-managed-memory", text(is_maximized))
            .with(
                "job.autoscaler.memory.tuning.scale-down-compensation.enabled",
                text(is_compensated),
            )
            .tune()
            .unwrap();
        let mut stored = crate::state::Stored::default();
        stored.state.config = tuned;
        let written = crate::state::write(&stored).unwrap();
        proptest::prop_assert_eq!(crate::state::read(&written.data), Ok(stored));
    }
}
