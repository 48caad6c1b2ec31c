//! Fault tests: the real operator process against a real API server, with anything going wrong in between.
//!
//! A proxy in front of the API server and of Flink sees every request; it kills the operator at any of them, or makes
//! them fail. [`world`] plays the Flink clusters. The tests share a control plane, except those that stop or restore
//! it. See `tests/cluster.sh`.

mod clock;
mod conformance;
mod disturbance;
mod end_state;
mod ground;
mod hot;
mod kinds;
mod laws;
mod leaders;
mod matrix;
mod mistakes;
mod named;
pub(crate) mod operator;
mod parts;
mod points;
pub(crate) mod proxy;
mod replicas;
mod restored;
mod roles;
mod scenarios;
mod shards;
mod stage;
mod turns;
mod unkind;
mod views;
mod weather;
mod world;

use std::sync::LazyLock;

/// Runs a test on one runtime for all tests: what they share has tasks that outlive a single test.
fn run(test: impl Future<Output = ()>) {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(4).enable_all().build().unwrap()
    });
    RUNTIME.block_on(test);
}

#[test]
#[ignore = "needs a control plane"]
fn a_crash_at_any_write_changes_nothing_in_the_end() {
    run(matrix::every_point_leads_to_the_same_end());
}

#[test]
#[ignore = "needs a control plane"]
fn no_write_has_to_be_heard_of() {
    run(named::no_write_has_to_be_heard_of());
}

#[test]
#[ignore = "needs a control plane"]
fn rights_may_go_and_come_back() {
    run(named::rights_may_go_and_come_back());
}

#[test]
#[ignore = "needs a control plane"]
fn a_new_operator_may_see_what_is_not() {
    run(views::a_new_operator_may_see_what_is_not());
}

#[test]
#[ignore = "needs a control plane"]
fn a_stale_watch_hides_nothing_for_long() {
    run(views::a_stale_watch_hides_nothing_for_long());
}

#[test]
#[ignore = "needs a control plane"]
fn each_kind_of_fault_changes_nothing_in_the_end() {
    run(kinds::each_kind_of_fault_changes_nothing_in_the_end());
}

#[test]
#[ignore = "needs a control plane"]
fn flink_may_be_wrong() {
    run(mistakes::flink_may_be_wrong());
}

#[test]
#[ignore = "needs a control plane"]
fn a_job_that_nobody_saw_may_be_lost() {
    run(named::a_job_that_nobody_saw_may_be_lost());
}

#[test]
#[ignore = "needs a control plane"]
fn everything_settles_after_any_fault() {
    run(weather::everything_settles());
}

#[test]
#[ignore = "needs a control plane"]
fn an_unkind_world_changes_nothing_in_the_end() {
    run(unkind::nothing_changes_in_the_end());
}

#[test]
#[ignore = "needs a control plane"]
fn an_annotation_that_is_removed_is_reported() {
    run(unkind::a_removed_annotation_is_reported());
}

#[test]
#[ignore = "needs a control plane"]
fn upgrades_of_all_kinds_take_turns() {
    run(turns::upgrades_of_all_kinds_take_turns());
}

#[test]
#[ignore = "needs a control plane"]
fn metadata_is_stored_as_by_flink() {
    run(conformance::metadata_is_stored_as_by_flink());
}

#[test]
#[ignore = "needs a control plane"]
fn metadata_of_applications_is_stored_as_by_flink() {
    run(conformance::metadata_of_applications_is_stored_as_by_flink());
}

#[test]
#[ignore = "needs a control plane"]
fn standby_pods_lead_only_when_they_should() {
    run(hot::standby_pods_lead_only_when_they_should());
}

#[test]
#[ignore = "needs a control plane"]
fn an_operator_that_is_paused_in_a_hot_upgrade_loses_nothing() {
    run(hot::a_paused_operator_loses_nothing());
}

/// Tests that measure time or stop the control plane. Running beside the others would slow them down.
mod alone {
    use super::{leaders, parts, restored, run, shards};

    #[test]
    #[ignore = "needs a control plane"]
    fn of_two_operators_one_leads() {
        run(leaders::one_leads());
    }

    #[test]
    #[ignore = "needs a control plane"]
    fn several_operators_share_the_namespaces() {
        run(shards::each_has_its_part());
    }

    #[test]
    #[ignore = "needs a control plane"]
    fn etcd_may_restart() {
        run(parts::may_restart("etcd"));
    }

    #[test]
    #[ignore = "needs a control plane"]
    fn the_api_server_may_restart() {
        run(parts::may_restart("kube-apiserver"));
    }

    #[test]
    #[ignore = "needs a control plane"]
    fn the_store_may_go_back() {
        run(restored::the_store_may_go_back());
    }
}
