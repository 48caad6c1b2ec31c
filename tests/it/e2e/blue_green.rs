//! Two colours of which one serves, on real Flink.
//!
//! What the Java operator's scripts assert holds here, too:
//! - `test_bluegreen_stateless.sh` in [`start_from_nothing`];
//! - `test_bluegreen_laststate.sh` in [`change_while_the_operator_dies`], whose mode is `last-state`;
//! - `test_bluegreen_ingress_rotation.sh` in [`Cluster::wait_until_serving`], after each transition and at the end.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use api::blue_green::Colour::{self, Blue, Green};
use serde_json::{Value, json};

use super::cluster::silence::Silence;
use super::cluster::{Cluster, project, said};
use crate::support::patience::{BEYOND_PATIENCE, PATIENCE};
use crate::support::program::other;

const KIND: &str = "FlinkBlueGreenDeployment";
const CHILD: &str = "FlinkDeployment";
const NAME: &str = "counter";
const GRACE: &str = "kubernetes.operator.bluegreen.abort.grace-period";
const DELAY: &str = "kubernetes.operator.bluegreen.deployment-deletion.delay";
/// In milliseconds.
const SLOT_TIMEOUT: &str = "slot.request.timeout";
/// Output folder of a colour that starts from nothing: in that of the others all its records would be doubled.
const FROM_NOTHING: &str = "from-nothing";
const POLL_EVERY: Duration = Duration::from_millis(300);

/// Every record is written at least once, each with the right state; twice only between a savepoint and the end of the
/// job that kept running beside the colour that started from it.
#[test]
#[ignore = "needs a sandbox with real Flink"]
fn blue_green_transitions_lose_nothing() {
    let mut cluster = Cluster::new("blue-green");
    cluster.start_operator();
    cluster.create(&resource(&cluster));
    cluster.kill_operator_in(&["INITIALIZING_BLUE", "ACTIVE_BLUE"]);
    cluster.wait_until_serving(Blue);
    let scaled = scale(&cluster);
    give_up_what_does_not_come_up(&cluster);
    // From here on only the serving colour writes.
    cluster.watch_until("past what is doubled", |_| {
        let now = cluster.marks();
        scaled.up_to.iter().all(|(key, mark)| now[key] > *mark)
    });
    let failed = give_up_what_fails(&cluster);
    let (changed, savepoint) = change_while_the_operator_dies(&mut cluster);
    let savepoints = cluster.savepoints();
    start_from_nothing(&mut cluster);
    let redeployed = redeploy(&cluster, &savepoint, changed.after.clone());
    assert_eq!(cluster.savepoints(), savepoints, "neither of the two took one");

    cluster.delete(KIND, NAME);
    for colour in Colour::ALL {
        cluster.wait_until_one(CHILD, &colour.child_of(NAME), "gone", Value::is_null);
    }
    cluster.watch_until("without an Ingress", |_| cluster.ingress(NAME).is_none());
    cluster.assert_nothing_lost_or_doubled_in(FROM_NOTHING);
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
    cluster.assert_doubled_only_in(&[scaled, failed, changed, redeployed]);
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_suspend_that_waited_for_a_transition_is_carried_out_when_that_is_aborted() {
    let mut cluster = Cluster::new("blue-green-suspend");
    cluster.start_operator();
    cluster.create(&resource(&cluster));
    cluster.wait_until_serving(Blue);
    let edit = |spec: Value| {
        cluster.edit_resource(KIND, NAME, json!({"spec": {"template": {"spec": spec}}}));
    };
    edit(json!({"image": "flink:no-such-tag"}));
    cluster.wait_until_one(KIND, NAME, "on its way", |seen| {
        seen["status"]["blueGreenState"] == "TRANSITIONING_TO_GREEN"
    });
    edit(json!({"job": {"state": "suspended"}}));
    cluster.flink(&["abort", NAME]);
    cluster.wait_until_one(CHILD, &Blue.child_of(NAME), "SUSPENDED", |child| {
        child["status"]["lifecycleState"] == "SUSPENDED"
    });
    cluster.delete(KIND, NAME);
    for colour in Colour::ALL {
        cluster.wait_until_one(CHILD, &colour.child_of(NAME), "gone", Value::is_null);
    }
}

/// Returns `examples/blue-green.yaml` with the job of the tests, short waits, a target that is never given up, and an
/// Ingress for each child.
fn resource(cluster: &Cluster) -> Value {
    let mut resource = cluster.example("blue-green.yaml").remove(0);
    resource["metadata"] = json!({"name": NAME, "namespace": cluster.namespace});
    let spec = &mut resource["spec"];
    spec["configuration"] = json!({
        GRACE: BEYOND_PATIENCE,
        "kubernetes.operator.bluegreen.reconciliation.reschedule-interval": "1 s",
        DELAY: "3 s",
    });
    let mut template = cluster.job()["spec"].clone();
    template["ingress"] = spec["ingress"].clone();
    spec["template"]["spec"] = template;
    resource
}

/// Returns arguments with which the job writes to this folder.
fn args(cluster: &Cluster, output: &str) -> Value {
    let mut args = cluster.job()["spec"]["job"]["args"].clone();
    assert_eq!(args[0], "--output");
    args[1] = json!(format!("file:///flink-data/{output}"));
    args
}

/// Scales by a savepoint, under load.
fn scale(cluster: &Cluster) -> Overlap {
    let before = cluster.marks();
    let scale = ["scale", "bluegreen/counter", "--parallelism", "2"];
    let (begun, silence) = (Instant::now(), Silence::watch(cluster));
    cluster.flink(&scale);
    let green = cluster.wait_until_serving(Green);
    let (took, gap) = (begun.elapsed(), silence.longest());
    println!("== no record was written for {gap:.1?} in a transition that took {took:.1?}");
    // An ordinary upgrade writes nothing until the new cluster runs.
    assert!(gap < took / 3, "{gap:?} of {took:?}");
    cluster.assert_restored(&green);
    let again = cluster.flink(&[&scale[..], &["--wait", "--timeout", BEYOND_PATIENCE]].concat());
    assert!(again.ends_with("counter unchanged\n"), "{again}");
    Overlap { what: "scaled", after: before, up_to: cluster.marks() }
}

/// It starts from nothing: a savepoint would have to complete within the same short time.
fn give_up_what_does_not_come_up(cluster: &Cluster) {
    cluster.edit_resource(
        KIND,
        NAME,
        json!({"spec": {
            "configuration": {GRACE: "15 s"},
            "template": {"spec": {
                "image": "flink:no-such-tag",
                "job": {"upgradeMode": "stateless"},
            }},
        }}),
    );
    cluster.wait_until_given_up(Blue, "it was not ready");
}

/// The target is ready, but its job fails for good before it has served. Only this test makes it fail: Flink waits for
/// its TaskManager for as long as that takes.
fn give_up_what_fails(cluster: &Cluster) -> Overlap {
    let before = cluster.marks();
    let rate = cluster.data().join("rate");
    fs::write(&rate, "20").unwrap();
    let mut args = args(cluster, "output");
    args.as_array_mut().unwrap().extend([json!("--rate-file"), json!("/flink-data/rate")]);
    cluster.edit_resource(
        KIND,
        NAME,
        json!({"spec": {
            "configuration": {GRACE: BEYOND_PATIENCE, DELAY: BEYOND_PATIENCE},
            "template": {"spec": {
                "image": cluster.job()["spec"]["image"],
                "flinkConfiguration": {
                    "restart-strategy.type": "none",
                    SLOT_TIMEOUT: "3600000",
                    "kubernetes.operator.reconcile.interval": "2 s",
                },
                "job": {"args": args, "upgradeMode": "savepoint"},
            }},
        }}),
    );
    cluster.watch_until("ready", |seen| {
        let conditions = seen["status"]["conditions"].as_array();
        let blue = cluster.inspect(CHILD, &Blue.child_of(NAME));
        conditions.into_iter().flatten().any(|condition| condition["reason"] == "Proving")
            && blue["status"]["jobStatus"]["state"] == "RUNNING"
    });
    // It rejects a rate of no records.
    fs::write(&rate, "0").unwrap();
    cluster.wait_until_given_up(Blue, "its job failed");
    Overlap { what: "failed", after: before, up_to: cluster.marks() }
}

/// A change in mode `last-state`, with the operator killed twice in between. Returns the savepoint, too.
fn change_while_the_operator_dies(cluster: &mut Cluster) -> (Overlap, String) {
    let before = cluster.marks();
    let args = args(cluster, "output");
    cluster.edit_resource(
        KIND,
        NAME,
        json!({"spec": {
            "configuration": {DELAY: "3 s"},
            "template": {"spec": {
                "flinkConfiguration": {
                    "restart-strategy.type": null,
                    SLOT_TIMEOUT: null,
                    "kubernetes.operator.reconcile.interval": null,
                },
                "job": {"args": args, "parallelism": 1, "upgradeMode": "last-state"},
            }},
        }}),
    );
    cluster.kill_operator_in(&["SAVEPOINTING_GREEN", "TRANSITIONING_TO_BLUE", "ACTIVE_BLUE"]);
    let blue = cluster.wait_until_serving(Blue);
    let savepoint = cluster.assert_restored(&blue);
    (Overlap { what: "changed", after: before, up_to: cluster.marks() }, savepoint)
}

fn start_from_nothing(cluster: &mut Cluster) {
    let job = json!({"args": args(cluster, FROM_NOTHING), "upgradeMode": "stateless"});
    cluster.edit_resource(KIND, NAME, json!({"spec": {"template": {"spec": {"job": job}}}}));
    cluster.kill_operator_in(&["TRANSITIONING_TO_GREEN", "ACTIVE_GREEN"]);
    let green = cluster.wait_until_serving(Green);
    assert_eq!(green["spec"]["job"]["initialSavepointPath"], Value::Null);
    assert_eq!(cluster.restored(&green), Value::Null);
}

/// Redeploys from the savepoint of the previous transition, which began after these marks.
fn redeploy(cluster: &Cluster, savepoint: &str, after: BTreeMap<u64, u64>) -> Overlap {
    let up_to = cluster.marks();
    let job = json!({
        "args": args(cluster, "output"),
        "upgradeMode": "savepoint",
        "initialSavepointPath": savepoint,
        "savepointRedeployNonce": 1,
    });
    cluster.edit_resource(KIND, NAME, json!({"spec": {"template": {"spec": {"job": job}}}}));
    let blue = cluster.wait_until_serving(Blue);
    assert_eq!(cluster.assert_restored(&blue), savepoint);
    Overlap { what: "redeployed", after, up_to }
}

/// Records that a colour started from a savepoint writes again: those between two sets of marks.
struct Overlap {
    what: &'static str,
    /// Marks before the savepoint.
    after: BTreeMap<u64, u64>,
    /// Marks when only one of the two colours was left.
    up_to: BTreeMap<u64, u64>,
}

impl Overlap {
    fn has(&self, key: u64, sequence: u64) -> bool {
        self.after.get(&key).is_none_or(|mark| sequence > *mark)
            && self.up_to.get(&key).is_some_and(|mark| sequence <= *mark)
    }
}

impl Cluster {
    /// Kills the operator in each of these states, and starts another one. A state may be over before it is seen.
    #[track_caller]
    fn kill_operator_in(&mut self, states: &[&str]) {
        for (at, state) in states.iter().enumerate() {
            self.watch_until(&format!("{state} or later"), |seen| {
                states[at..].iter().any(|state| seen["status"]["blueGreenState"] == *state)
            });
            self.kill_operator();
            self.start_operator();
        }
    }

    /// Waits until the condition holds, and prints the longest time without a new record.
    #[track_caller]
    fn watch_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        let (mut records, mut since, mut longest) = (self.all_records(), begun, Duration::ZERO);
        loop {
            let now = self.all_records();
            if now > records {
                (records, since) = (now, Instant::now());
            }
            longest = longest.max(since.elapsed());
            self.assert_not_led_to_what_goes();
            let seen = self.inspect(KIND, NAME);
            if is_so(&seen) {
                let took = begun.elapsed().as_secs_f64();
                let longest = longest.as_secs_f64();
                println!(
                    "-- {what} after {took:.1} s, {longest:.1} s at most without a new record"
                );
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "not {what}: {seen:#}");
            thread::sleep(POLL_EVERY);
        }
    }

    fn all_records(&self) -> usize {
        self.records() + self.records_in(FROM_NOTHING)
    }

    fn savepoints(&self) -> usize {
        fs::read_dir(self.data().join("savepoints")).unwrap().count()
    }

    /// Waits until this colour serves: its job runs and writes, the web UI leads to it, and the other one is gone.
    /// Returns its child.
    #[track_caller]
    fn wait_until_serving(&self, colour: Colour) -> Value {
        let (child, other) = (colour.child_of(NAME), colour.other().child_of(NAME));
        let active: &str = colour.active().into();
        let seen = self.watch_until(active, |seen| {
            let status = &seen["status"];
            status["blueGreenState"] == active
                && status["jobStatus"]["state"] == "RUNNING"
                && self.inspect(CHILD, &other).is_null()
                && self.leads_to(NAME, &child)
        });
        let ingress = self.ingress(NAME).unwrap();
        let annotations = &seen["spec"]["ingress"]["annotations"];
        assert!(annotations.is_object());
        assert_eq!(ingress["metadata"]["annotations"], *annotations);
        let own_host = format!("{}-{child}", colour.name());
        for (ingress, host) in [(NAME, NAME), (child.as_str(), own_host.as_str())] {
            assert!(self.leads_to(ingress, &child), "{ingress}");
            let host = format!("{host}.{}.flink.example.com", self.namespace);
            assert_eq!(self.ingress(ingress).unwrap()["spec"]["rules"][0]["host"], host);
        }
        let before = self.all_records();
        self.watch_until("writing", |_| self.all_records() > before);
        self.wait_until_runs(CHILD, &child)
    }

    /// Waits until the target is given up for this reason and gone, and the other one serves as before.
    #[track_caller]
    fn wait_until_given_up(&self, target: Colour, why: &str) {
        let (child, serving) = (target.child_of(NAME), target.other().child_of(NAME));
        let before = self.inspect(CHILD, &serving);
        let active: &str = target.other().active().into();
        let seen = self.watch_until("given up", |seen| {
            let status = &seen["status"];
            status["blueGreenState"] == active
                && status["jobStatus"]["state"] == "FAILING"
                && self.inspect(CHILD, &child).is_null()
        });
        let error = seen["status"]["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("the transition to `{child}` was aborted: {why}")),
            "{error}"
        );
        assert!(self.leads_to(NAME, &serving));
        let now = self.wait_until_runs(CHILD, &serving);
        assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"]);
        let job_id = |child: &Value| child["status"]["jobStatus"]["jobId"].clone();
        assert_eq!(job_id(&now), job_id(&before), "its job went on");
        let before = self.all_records();
        self.watch_until("writing", |_| self.all_records() > before);
    }

    fn ingress(&self, name: &str) -> Option<Value> {
        self.find("networking.k8s.io/v1", "Ingress", name)
    }

    fn leads_to(&self, ingress: &str, child: &str) -> bool {
        self.ingress(ingress).is_some_and(|ingress| {
            let backend = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"];
            backend["service"]["name"] == format!("{child}-rest")
        })
    }

    /// Asserts that the Ingress leads elsewhere before a child is deleted.
    #[track_caller]
    fn assert_not_led_to_what_goes(&self) {
        for child in Colour::ALL.map(|colour| colour.child_of(NAME)) {
            // The child is read before the Ingress.
            let is_going = self.inspect(CHILD, &child)["metadata"]["deletionTimestamp"].is_string();
            assert!(!is_going || !self.leads_to(NAME, &child), "led to `{child}`, which goes");
        }
    }

    /// Returns what Flink restored the job of a deployment from.
    pub(super) fn restored(&self, child: &Value) -> Value {
        let name = child["metadata"]["name"].as_str().unwrap();
        let job = child["status"]["jobStatus"]["jobId"].as_str().unwrap();
        let checkpoints = self.answer_of(name, &format!("/jobs/{job}/checkpoints"));
        checkpoints["latest"]["restored"].clone()
    }

    /// Asserts that the job of a child was restored from the savepoint that its spec names, and returns that.
    #[track_caller]
    fn assert_restored(&self, child: &Value) -> String {
        let path = child["spec"]["job"]["initialSavepointPath"].as_str().unwrap();
        assert!(path.contains("/flink-data/savepoints/savepoint-"), "{path}");
        assert!(self.savepoint_exists(path), "`{path}` exists");
        let restored = self.restored(child);
        let from = restored["external_path"].as_str().unwrap_or_default();
        assert_eq!(from.rsplit('/').next(), path.rsplit('/').next(), "{restored}");
        path.to_owned()
    }

    /// Asserts that no record is duplicated beyond the overlaps that contain it, and prints how many each of them
    /// doubled.
    #[track_caller]
    fn assert_doubled_only_in(&self, overlaps: &[Overlap]) {
        let sequences = self.sequences();
        for (&(key, sequence), &times) in &sequences {
            let again = overlaps.iter().filter(|overlap| overlap.has(key, sequence)).count();
            assert!(times <= 1 + again, "key {key} sequence {sequence} stands {times} times");
        }
        for overlap in overlaps {
            let within = sequences.iter().filter(|((key, at), _)| overlap.has(*key, *at));
            let times: Vec<usize> = within.map(|(_, times)| *times).collect();
            let (most, all) = (times.len(), times.iter().sum::<usize>());
            println!("-- {}: {} doubled, {most} written meanwhile", overlap.what, all - most);
        }
    }
}
