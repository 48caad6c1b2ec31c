use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

const OLD: &str = "00000000000000000000000000000001";
const NEW: &str = "00000000000000000000000000000002";
const DAY: Duration = Duration::from_hours(24);

fn cluster(name: &str) -> ClusterName {
    ClusterName { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn map(of: &str, name: &str, has_state: bool) -> FoundMap {
    FoundMap {
        cluster: cluster(of),
        name: name.to_owned(),
        uid: "u".to_owned(),
        version: "1".to_owned(),
        is_autoscaler: name.starts_with("autoscaler-"),
        changed: "2026-01-01T00:00:00Z".parse().unwrap(),
        has_state,
        is_taken_care_of: false,
    }
}

fn rules() -> Rules {
    Rules { now: "2026-01-10T00:00:00Z".parse().unwrap(), age_min: DAY, includes_state: false }
}

/// Returns what `orders`, idle under its new id, and `gone` left behind.
fn inventory() -> Inventory {
    Inventory {
        maps: vec![
            map("orders", "orders-cluster-config-map", false),
            map("orders", &format!("orders-{OLD}-config-map"), false),
            map("orders", &format!("orders-{NEW}-config-map"), true),
            map("gone", "gone-cluster-config-map", false),
            map("gone", &format!("gone-{OLD}-config-map"), true),
            map("gone", "autoscaler-gone", false),
            map("ended", "ended-cluster-config-map", false),
            map("orders", "autoscaler-orders", false),
            map("gone", "flink-config-gone", false),
        ],
        named: [cluster("orders")].into(),
        settled_applications: [cluster("orders")].into(),
        running: [cluster("orders")].into(),
        mentioned: [("shop".to_owned(), NEW.to_owned())].into(),
    }
}

#[track_caller]
fn check(inventory: &Inventory, rules: &Rules, expected: Expect) {
    let lines = garbage(inventory, rules).into_iter().map(|finding| {
        let verb = if finding.is_removable { "remove" } else { "report" };
        format!("{verb} {}: {}\n", finding.name, finding.why)
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn what_nothing_names_may_go_and_state_is_reported() {
    check(
        &inventory(),
        &rules(),
        expect![[r#"
            remove autoscaler-gone: `gone` no longer exists
            remove ended-cluster-config-map: cluster `ended` no longer exists
            report gone-00000000000000000000000000000001-config-map: cluster `gone` no longer exists; it leads to the state of a job
            report gone-cluster-config-map: cluster `gone` no longer exists; it leads to the state of a job
            remove orders-00000000000000000000000000000001-config-map: `orders` no longer runs job 00000000000000000000000000000001
        "#]],
    );
}

#[test]
fn state_goes_when_it_is_asked_for() {
    let rules = Rules { includes_state: true, ..rules() };
    assert!(garbage(&inventory(), &rules).iter().all(|finding| finding.is_removable));
}

#[test]
fn what_is_young_moves_or_runs_is_left_alone() {
    let young = Rules { age_min: 30 * DAY, ..rules() };
    check(&inventory(), &young, expect![""]);
    let mut moving = inventory();
    moving.settled_applications.clear();
    moving.running.extend([cluster("gone"), cluster("ended")]);
    check(&moving, &rules(), expect![""]);
}

#[test]
fn a_session_cluster_keeps_all_of_its_jobs() {
    let mut session = inventory();
    session.settled_applications.clear();
    let names: Vec<String> =
        garbage(&session, &rules()).into_iter().map(|finding| finding.cluster).collect();
    assert!(!names.contains(&"orders".to_owned()), "{names:?}");
}

#[test]
fn ids_are_found_in_any_text() {
    let text =
        format!("{{\"path\":\"s3://b/{OLD}/chk-3\",\"id\":\"{NEW}\",\"uid\":\"00000000-0000\"}}");
    assert_eq!(job_ids_in(&text).collect::<Vec<_>>(), [OLD, NEW]);
    assert_eq!(job_ids_in(&format!("{OLD}{NEW}")).count(), 0, "a longer number is another thing");
}

prop_compose! {
    fn any_map()(
        cluster in 0..3_usize,
        id in 0..4_u8,
        form in 0..4_usize,
        days in 0..5_i64,
        has_state: bool,
        is_taken_care_of: bool,
    ) -> FoundMap {
        let of = ["orders", "orders-eu", "gone"][cluster];
        let id = format!("{id:032x}");
        let name = match form {
            0 => format!("{of}-{id}-config-map"),
            1 => format!("{of}-cluster-config-map"),
            2 => format!("{of}-{id}-jobmanager-leader"),
            _ => format!("autoscaler-{of}"),
        };
        FoundMap {
            changed: rules().now - SignedDuration::from_hours(24 * days),
            is_taken_care_of,
            ..map(of, &name, has_state)
        }
    }
}

prop_compose! {
    fn any_inventory()(
        maps in proptest::collection::vec(any_map(), 0..20),
        named in proptest::collection::btree_set(0..3_usize, 0..3),
        settled in proptest::collection::btree_set(0..3_usize, 0..3),
        running in proptest::collection::btree_set(0..3_usize, 0..3),
        mentioned in proptest::collection::btree_set(0..4_u8, 0..4),
    ) -> Inventory {
        let clusters = |chosen: BTreeSet<usize>| {
            chosen.into_iter().map(|at| cluster(["orders", "orders-eu", "gone"][at])).collect()
        };
        Inventory {
            maps,
            named: clusters(named),
            settled_applications: clusters(settled),
            running: clusters(running),
            mentioned: mentioned.into_iter().map(|id| ("shop".to_owned(), format!("{id:032x}"))).collect(),
        }
    }
}

proptest! {
    #[test]
    fn what_a_restore_could_need_is_never_in_the_plan(
        inventory in any_inventory(),
        includes_state: bool,
    ) {
        let rules = Rules { includes_state, ..rules() };
        for finding in garbage(&inventory, &rules) {
            let cluster = cluster(&finding.cluster);
            for id in job_ids_in(&finding.name) {
                let key = ("shop".to_owned(), id.to_owned());
                prop_assert!(!inventory.mentioned.contains(&key), "{}", finding.name);
            }
            let has_no_id = job_ids_in(&finding.name).next().is_none();
            if has_no_id || finding.kind == Kind::AutoscalerState {
                prop_assert!(!inventory.named.contains(&cluster));
                prop_assert!(!inventory.running.contains(&cluster));
            }
            if inventory.named.contains(&cluster) {
                prop_assert!(inventory.settled_applications.contains(&cluster));
            }
            let found = inventory.maps.iter().any(|map| {
                map.name == finding.name
                    && !map.is_taken_care_of
                    && map.changed <= rules.now - SignedDuration::from_hours(24)
                    && (includes_state || !map.has_state || !finding.is_removable)
            });
            prop_assert!(found, "{}", finding.name);
        }
    }
}
