use super::*;

const GIB: u64 = 1 << 30;

fn pod(cpus: u64, gib: u64) -> Pod {
    Pod { cpu_millis: cpus * 1000, memory: MemorySize(gib * GIB) }
}

/// Nodes of 8 CPUs and 32 GiB, with this usage.
fn nodes(used: &[(u64, u64)]) -> Capacity {
    let node = |&(cpus, gib): &(u64, u64)| Node {
        group: None,
        allocatable: pod(8, 32),
        used: pod(cpus, gib),
    };
    Capacity(used.iter().map(node).collect())
}

fn task_managers(count: u64, cpus: u64, gib: u64) -> TaskManagers {
    TaskManagers { count, each: pod(cpus, gib) }
}

#[test]
fn task_managers_are_placed_where_they_fit_first() {
    let small = |count| task_managers(count, 2, 8);
    for (what, used, before, after, then) in [
        ("room on the first", vec![(2, 8), (0, 0)], small(1), small(4), Ok(vec![(8, 32), (0, 0)])),
        ("on two", vec![(4, 8), (0, 0)], small(0), small(3), Ok(vec![(8, 24), (2, 8)])),
        ("one too many", vec![(4, 8), (4, 8)], small(0), small(5), Err(4)),
        ("CPU is short", vec![(7, 0), (7, 0)], small(0), small(1), Err(0)),
        ("memory is short", vec![(0, 25), (0, 25)], small(0), small(1), Err(0)),
        ("nothing is split over nodes", vec![(7, 28), (7, 28)], small(0), small(1), Err(0)),
        ("its own make room", vec![(8, 32)], small(4), task_managers(2, 4, 16), Ok(vec![(8, 32)])),
        ("larger ones do not fit", vec![(8, 32)], small(4), task_managers(3, 4, 8), Err(2)),
        ("what nobody sees yet makes none", vec![(0, 0)], small(9), small(4), Ok(vec![(8, 32)])),
        ("no nodes", vec![], small(0), small(1), Err(0)),
        ("full beyond what it has", vec![(9, 40)], small(0), small(1), Err(0)),
    ] {
        let placed = nodes(&used).place(&before, &after).map_err(|no_room| match no_room {
            NoRoom::Full { placed, .. } => placed,
            NoRoom::Unknown(reason) => panic!("{reason}"),
        });
        assert_eq!(placed, then.map(|used| nodes(&used)), "{what}");
    }
}

#[test]
fn a_pod_that_requests_nothing_always_fits() {
    assert!(nodes(&[(8, 32)]).place(&task_managers(1, 0, 0), &task_managers(9, 0, 0)).is_ok());
}

#[test]
fn only_more_or_larger_ones_need_room() {
    let before = task_managers(2, 2, 8);
    for (after, is_more) in [((2, 2, 8), false), ((1, 1, 8), false), ((3, 2, 8), true)] {
        assert_eq!(task_managers(after.0, after.1, after.2).exceed(&before), is_more, "{after:?}");
    }
    assert!(task_managers(1, 3, 8).exceed(&before) && task_managers(1, 2, 9).exceed(&before));
}

#[test]
fn nodes_that_a_cluster_autoscaler_may_add_count_as_empty() {
    let text = "Cluster-autoscaler status at 2024-01-01:\nCluster-wide:\n  Health: Healthy\n\n\
                NodeGroups:\n  Name:        big\n  Health:      Healthy (ready=1)\n               \
                cloudProviderTarget=1 (minSize=1, maxSize=3))\n  Name:        gone\n  Health: Healthy\n   \
                (minSize=0, maxSize=7)\n";
    let yaml = "autoscalerStatus: Running\nclusterWide:\n  health:\n    status: Healthy\nnodeGroups:\n\
                - name: \"big\"\n  health:\n    minSize: 1\n    maxSize: 3\n- name: gone\n  health:\n    \
                maxSize: 7\n";
    let sizes = [("big".to_owned(), 3), ("gone".to_owned(), 7)].into();
    for status in [text, yaml] {
        assert_eq!(group_sizes(status), sizes, "{status}");
    }
    assert_eq!(group_sizes("clusterWide:\n  maxSize: 9\n"), BTreeMap::new());

    let mut today = nodes(&[(8, 32), (8, 32)]);
    today.0[1].group = Some("big".to_owned());
    assert!(today.place(&task_managers(0, 1, 1), &task_managers(1, 1, 1)).is_err());
    let later = today.clone().with_future_nodes(&sizes);
    assert_eq!(later.0.len(), 4, "two more of `big`; of `gone` no node tells its size");
    assert_eq!(later.0[2], Node { used: Pod::default(), ..today.0[1].clone() });
    assert!(later.place(&task_managers(0, 8, 32), &task_managers(2, 8, 32)).is_ok());
    let bounded = today.with_future_nodes(&[("big".to_owned(), usize::MAX)].into());
    assert_eq!(bounded.0.len(), 2 + FUTURE_MAX);
}
