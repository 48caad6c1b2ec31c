//! Kills the operator at one of its own requests, after which it continues where it was: a sample of
//! `faults::a_crash_at_any_write_changes_nothing_in_the_end`, with real Flink.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::json;

use super::Cluster;
use crate::faults::operator::Operator;
use crate::faults::proxy::{Asked, Fault, Moment, Proxy};
use crate::support::patience::PATIENCE;
use testing::share::third;

const POLL_EVERY: Duration = Duration::from_millis(50);

/// An interrupted upgrade.
#[derive(Clone, Copy)]
struct Cut {
    upgrade_mode: &'static str,
    moment: Moment,
    method: &'static str,
    path_part: &'static str,
}

const fn cut(
    upgrade_mode: &'static str,
    moment: Moment,
    method: &'static str,
    path_part: &'static str,
) -> Cut {
    Cut { upgrade_mode, moment, method, path_part }
}

const STATUS: &str = "/flinkdeployments/exactly-once-counter/status";
const STOP: &str = "/stop";
const JOB_MANAGER: &str = "/apis/apps/v1/namespaces/";

/// Requests that cannot be repeated or undone, and the record of them. Every third of them has both upgrade modes.
const CUTS: [Cut; 9] = [
    cut("savepoint", Moment::After, "POST", STOP),
    cut("savepoint", Moment::Before, "DELETE", JOB_MANAGER),
    cut("last-state", Moment::After, "PATCH", JOB_MANAGER),
    cut("last-state", Moment::After, "DELETE", JOB_MANAGER),
    cut("last-state", Moment::Before, "POST", JOB_MANAGER),
    cut("savepoint", Moment::After, "POST", JOB_MANAGER),
    cut("last-state", Moment::After, "POST", JOB_MANAGER),
    cut("savepoint", Moment::Before, "PUT", STATUS),
    cut("last-state", Moment::After, "PUT", STATUS),
];

impl Cut {
    fn is_at(&self, asked: &Asked) -> bool {
        asked.is(self.method, self.path_part)
            && (self.path_part != JOB_MANAGER || asked.path.contains("/deployments"))
    }
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_killed_operator_goes_on_where_it_was() {
    let cluster = Cluster::new("crashes");
    let operator = Arc::new(Operator::new(&cluster.operator_log()));
    let proxy = cluster.wait_for(Proxy::start(
        cluster.client(),
        // JobManagers are reached through the API server as well.
        "127.0.0.1:1".to_owned(),
        Arc::clone(&operator),
    ));
    operator.start(arguments(&cluster, &proxy));
    let mut job = cluster.job();
    cluster.upgrade(&job);
    for (round, cut) in third(CUTS).into_iter().enumerate() {
        job["spec"]["job"]["upgradeMode"] = json!(cut.upgrade_mode);
        job["spec"]["job"]["parallelism"] = json!(2 - round % 2);
        let mut is_cut = false;
        proxy.begin(move |asked| {
            let is_now = !is_cut && cut.is_at(asked);
            is_cut |= is_now;
            is_now.then_some(Fault::Kill(cut.moment))
        });
        let starts = operator.starts();
        cluster.deploy(&job);
        until_started_again(&operator, starts, &cut);
        cluster.wait_until_stable();
        cluster.wait_until_writing();
    }
    cluster.delete_and_count();
}

/// Starts the operator again once it has died.
fn until_started_again(operator: &Operator, starts: usize, cut: &Cut) {
    let begin = Instant::now();
    let Cut { upgrade_mode, moment, method, path_part } = cut;
    while operator.starts() == starts {
        assert!(
            begin.elapsed() < PATIENCE,
            "no {method} of {path_part} in a {upgrade_mode} upgrade"
        );
        thread::sleep(POLL_EVERY);
        operator.tend();
    }
    println!("-- killed the operator {moment:?} {method} {path_part}, {upgrade_mode}");
}

/// Returns the arguments of an operator that does everything through the proxy.
pub(super) fn arguments(cluster: &Cluster, proxy: &Proxy) -> Vec<String> {
    let file = cluster.data().join("proxy-kubeconfig.json");
    fs::write(&file, proxy.kubeconfig().to_string()).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let fixed = ["operate", "--flink-access", "proxy"].map(str::to_owned);
    let connection = ["--kubeconfig".to_owned(), path(&file), "-n".to_owned()];
    [connection.to_vec(), vec![cluster.namespace.clone()], fixed.to_vec()].concat()
}
