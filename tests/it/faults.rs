//! The real operator process against a real API server, and everything that can go wrong between.
//!
//! A proxy stands before the API server and before Flink. It sees every request, kills the operator
//! at any of them, or lets them go wrong; the clusters are played by [`world`]. Each test brings up
//! a control plane of its own and removes it. See `tests/cluster.sh`.

mod end_state;
mod ground;
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
mod trouble;
mod views;
mod weather;
mod world;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn a_crash_at_any_write_changes_nothing_in_the_end() {
    matrix::every_point_leads_to_the_same_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn no_write_has_to_be_heard_of() {
    named::no_write_has_to_be_heard_of().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn rights_may_go_and_come_back() {
    named::rights_may_go_and_come_back().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn a_new_operator_may_see_what_is_not() {
    views::a_new_operator_may_see_what_is_not().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn a_stale_watch_hides_nothing_for_long() {
    views::a_stale_watch_hides_nothing_for_long().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn each_kind_of_fault_changes_nothing_in_the_end() {
    kinds::each_kind_of_fault_changes_nothing_in_the_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn flink_may_be_wrong() {
    mistakes::flink_may_be_wrong().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn a_job_that_nobody_saw_may_be_lost() {
    named::a_job_that_nobody_saw_may_be_lost().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a control plane"]
async fn everything_settles_after_any_trouble() {
    weather::everything_settles().await;
}

/// Those that tell by the time that something takes, or stop the control plane: beside all others they would take longer.
mod alone {
    use super::{leaders, parts, restored, shards};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a control plane"]
    async fn of_two_operators_one_leads() {
        leaders::one_leads().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a control plane"]
    async fn several_operators_share_the_namespaces() {
        shards::each_has_its_part().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a control plane"]
    async fn etcd_may_restart() {
        parts::may_restart("etcd").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a control plane"]
    async fn the_api_server_may_restart() {
        parts::may_restart("kube-apiserver").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs a control plane"]
    async fn the_store_may_go_back() {
        restored::the_store_may_go_back().await;
    }
}
