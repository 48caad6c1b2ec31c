use super::*;
use crate::settings::tests::settings;
use crate::topology::{Counters, Vertex};

/// Vertices with their slot sharing groups.
fn topology(vertices: &[(&str, Option<&str>)]) -> Topology {
    let vertex = |(id, group): &(&str, Option<&str>)| {
        let vertex = Vertex {
            parallelism: 1,
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

const TASK_MANAGER: TaskManager =
    TaskManager { cpu: Some(2.0), memory: Some(MemorySize::from_mebibytes(1024)) };

fn check(changes: &[(&str, u32, u32)], options: &[(&str, &str)]) -> Option<Exceeded> {
    check_with(changes, options, TASK_MANAGER, Some("g"))
}

fn check_with(
    changes: &[(&str, u32, u32)],
    options: &[(&str, &str)],
    task_manager: TaskManager,
    group: Option<&str>,
) -> Option<Exceeded> {
    let changes =
        changes.iter().map(|(id, before, after)| ((*id).into(), (*before, *after))).collect();
    let topology = topology(&[("a", group), ("b", group), ("c", group.map(|_| "other"))]);
    exceeded(&changes, &topology, task_manager, &settings(options))
}

#[test]
fn without_a_quota_everything_is_admitted() {
    assert_eq!(check(&[("a", 1, 1000)], &[]), None);
}

#[test]
fn section_6_vertices_of_a_group_share_slots() {
    let cpu = [("quota.cpu", "8")];
    assert_eq!(check(&[("a", 1, 4), ("b", 2, 3)], &cpu), None);
    let exceeded = Exceeded::Cpu { needed: 10.0, quota: 8.0 };
    assert_eq!(check(&[("a", 1, 4), ("b", 2, 5)], &cpu), Some(exceeded));
    // Another group needs slots of its own.
    assert_eq!(check(&[("a", 1, 4), ("c", 1, 1)], &cpu), Some(exceeded));
}

#[test]
fn memory_has_a_quota_too() {
    assert_eq!(check(&[("a", 1, 4)], &[("quota.memory", "4 gb")]), None);
    let exceeded = check(&[("a", 1, 5)], &[("quota.memory", "4 gb")]).unwrap();
    assert_eq!(
        exceeded.to_string(),
        "5 gb of memory are more than `job.autoscaler.quota.memory`, which is 4 gb"
    );
}

#[test]
fn what_takes_no_more_than_before_is_admitted() {
    assert_eq!(check(&[("a", 9, 9), ("b", 9, 3)], &[("quota.cpu", "1")]), None);
}

#[test]
fn only_full_task_managers_count() {
    let settings = {
        let mut settings = settings(&[("quota.cpu", "2")]);
        settings.slots_per_task_manager = 4;
        settings
    };
    let topology = topology(&[("a", Some("g"))]);
    let check = |after| {
        let changes = [("a".into(), (1, after))].into();
        exceeded(&changes, &topology, TASK_MANAGER, &settings)
    };
    assert_eq!(check(7), None);
    assert_eq!(check(8), Some(Exceeded::Cpu { needed: 4.0, quota: 2.0 }));
}

#[test]
fn a_quota_that_cannot_be_counted_admits_nothing_more() {
    let unknown = TaskManager::default();
    let check = |options: &[_]| check_with(&[("a", 1, 2)], options, unknown, Some("g"));
    assert_eq!(check(&[("quota.cpu", "100")]), Some(Exceeded::UnknownCpu));
    assert_eq!(check(&[("quota.memory", "100 gb")]), Some(Exceeded::UnknownMemory));
    let down = check_with(&[("a", 2, 1)], &[("quota.cpu", "1")], unknown, Some("g"));
    assert_eq!(down, None);
}

#[test]
fn without_slot_sharing_groups_nothing_is_compared() {
    assert_eq!(check_with(&[("a", 1, 100)], &[("quota.cpu", "1")], TASK_MANAGER, None), None);
}
