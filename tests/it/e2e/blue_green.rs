//! Two colours of which one serves, on real Flink.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster::{Cluster, project, said};
use crate::support::program::other;

const KIND: &str = "FlinkBlueGreenDeployment";
const NAME: &str = "counter";
const LOOK_EVERY: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_mins(6);

fn resource(cluster: &Cluster) -> Value {
    const OPTIONS: &str = "kubernetes.operator.bluegreen";
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": cluster.namespace},
        "spec": {
            "configuration": {
                format!("{OPTIONS}.abort.grace-period"): "4 min",
                format!("{OPTIONS}.reconciliation.reschedule-interval"): "1 s",
                format!("{OPTIONS}.deployment-deletion.delay"): "3 s",
            },
            "template": {"spec": cluster.job()["spec"]},
        },
    })
}

impl Cluster {
    /// Waits until this is so, and tells the longest time without a new record.
    #[track_caller]
    fn wait_while_serving(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        let (mut records, mut since, mut longest) = (self.records(), begun, Duration::ZERO);
        loop {
            let now = self.records();
            if now > records {
                (records, since) = (now, Instant::now());
            }
            longest = longest.max(since.elapsed());
            let seen = self.look_at(KIND, NAME);
            if is_so(&seen) {
                let took = begun.elapsed().as_secs_f64();
                let longest = longest.as_secs_f64();
                println!(
                    "-- {what} after {took:.1} s, {longest:.1} s at most without a new record"
                );
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "not {what}: {seen:#}");
            thread::sleep(LOOK_EVERY);
        }
    }

    /// This colour serves, and the other one is gone.
    #[track_caller]
    fn wait_until_serving(&self, wanted: &str, other: &str) {
        let other = format!("{NAME}-{other}");
        self.wait_while_serving(wanted, |seen| {
            let status = &seen["status"];
            let is_there =
                status["blueGreenState"] == wanted && status["jobStatus"]["state"] == "RUNNING";
            is_there && self.look_at("FlinkDeployment", &other).is_null()
        });
        self.wait_until_writing();
    }
}

/// Every record at least once, each with the state that it has to have; twice what was done between a savepoint and the
/// end of the former colour.
#[test]
#[ignore = "needs a sandbox with real Flink"]
fn blue_green_transitions_lose_nothing() {
    let mut cluster = Cluster::new("blue-green");
    cluster.start_operator();
    cluster.create(&resource(&cluster));
    cluster.wait_until_serving("ACTIVE_BLUE", "green");

    // By a savepoint, under load.
    let scale = ["scale", "bluegreen/counter", "--parallelism", "2", "--wait", "--timeout", "1m"];
    cluster.flink(&scale[..4]);
    cluster.wait_until_serving("ACTIVE_GREEN", "blue");
    assert!(cluster.flink(&scale).ends_with("counter unchanged\n"));

    // A target that does not come up.
    cluster.edit_resource(
        KIND,
        NAME,
        json!({"spec": {
            "configuration": {"kubernetes.operator.bluegreen.abort.grace-period": "15 s"},
            "template": {"spec": {"image": "flink:no-such-tag"}},
        }}),
    );
    let given_up = cluster.wait_while_serving("given up", |seen| {
        seen["status"]["blueGreenState"] == "ACTIVE_GREEN"
            && seen["status"]["jobStatus"]["state"] == "FAILING"
    });
    let error = given_up["status"]["error"].as_str().unwrap();
    assert!(error.contains("`counter-blue` is given up"), "{error}");
    cluster.wait_until_writing();

    // Another one, and an operator that is killed twice on the way.
    cluster.edit_resource(KIND, NAME, json!({"spec": {
        "configuration": {"kubernetes.operator.bluegreen.abort.grace-period": "4 min"},
        "template": {"spec": {"image": "flink:1.20", "job": {"parallelism": 1, "upgradeMode": "last-state"}}},
    }}));
    for state in ["SAVEPOINTING_GREEN", "TRANSITIONING_TO_BLUE"] {
        let is_past = |seen: &Value| seen["status"]["blueGreenState"] == "ACTIVE_BLUE";
        cluster.wait_while_serving(state, |seen| {
            seen["status"]["blueGreenState"] == state || is_past(seen)
        });
        cluster.kill_operator();
        cluster.start_operator();
    }
    cluster.wait_until_serving("ACTIVE_BLUE", "green");

    cluster.delete(KIND, NAME);
    for child in ["counter-blue", "counter-green"] {
        cluster.wait_until_one("FlinkDeployment", child, "gone", Value::is_null);
    }
    let check = other(project().join("examples/jobs/check"))
        .arg(cluster.data().join("output"))
        .output()
        .unwrap();
    let told = said(&check);
    println!("-- {told}");
    assert!(
        told.contains(": 0 lost, ") && told.contains(" 0 with wrong state, 0 malformed"),
        "{told}"
    );
}
