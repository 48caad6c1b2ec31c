//! The autoscaler in a running operator: what it measures, decides, stores and applies.

use api::job::{JobState, UpgradeMode};
use autoscaler::cost::Cost;
use autoscaler::state;
use axum::http::Method;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::fake_flink::load::{Load, SOURCE, WINDOW};
use crate::support::operating::Operating;

const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";

/// Returns a running job with its autoscaler on, with intervals that are short enough for a test.
pub(crate) fn scene(options: &[(&str, &str)]) -> Scene {
    let mut scene = Scene::running("savepoint");
    let quick = [
        ("kubernetes.operator.reconcile.interval", "100 ms"),
        ("jobmanager.scheduler", "adaptive"),
        ("job.autoscaler.enabled", "true"),
        ("job.autoscaler.stabilization.interval", "0 s"),
        ("job.autoscaler.metrics.window", "1 s"),
        ("job.autoscaler.scale-down.interval", "0 s"),
        ("job.autoscaler.catch-up.duration", "10 s"),
        ("job.autoscaler.restart.time", "0 s"),
    ];
    set(&mut scene, &quick);
    set(&mut scene, options);
    scene.store(JobState::Running, UpgradeMode::Savepoint);
    let reconciliation = &mut scene.status.reconciliation_status;
    reconciliation.last_stable_spec.clone_from(&reconciliation.last_reconciled_spec);
    scene
}

fn set(scene: &mut Scene, options: &[(&str, &str)]) {
    let configuration = &mut scene.resource.spec.flink_configuration.0;
    for (key, value) in options {
        configuration.insert((*key).to_owned(), json!(value));
    }
}

pub(crate) async fn flink() -> FakeFlink {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    flink
}

/// Runs the scene's job under a load.
pub(crate) fn run(operating: &Operating, scene: &Scene, rate: f64) {
    operating.run(scene);
    let now = operating.flink.now();
    operating.flink.with("shop/orders", |cluster| {
        cluster.measure_memory();
        let job = cluster.jobs.get_mut(JOB_ID).unwrap();
        (job.start, job.load) = (now, Some(Load::new(rate, 40.0, now)));
    });
}

pub(crate) fn with_load<T>(operating: &Operating, inspect: impl FnOnce(&mut Load) -> T) -> T {
    operating.flink.with("shop/orders", |cluster| {
        inspect(cluster.jobs.get_mut(JOB_ID).unwrap().load.as_mut().unwrap())
    })
}

pub(crate) fn stored(cluster: &FakeCluster) -> Option<Value> {
    cluster.object("configmaps", "shop", "autoscaler-orders")
}

pub(crate) fn state(cluster: &FakeCluster) -> Option<state::Stored> {
    let data = serde_json::from_value(stored(cluster)?["data"].clone()).ok()?;
    state::read(&data).ok()
}

pub(crate) fn parallelism(operating: &Operating) -> (u32, u32) {
    with_load(operating, |load| (load.parallelism[SOURCE], load.parallelism[WINDOW]))
}

pub(crate) fn events(cluster: &FakeCluster, reason: &str) -> Vec<Value> {
    cluster.objects("events").into_iter().filter(|event| event["reason"] == reason).collect()
}

pub(crate) fn last_reconciled(cluster: &FakeCluster) -> Value {
    let resource = cluster.object("flinkdeployments", "shop", "orders").unwrap();
    let text = &resource["status"]["reconciliationStatus"]["lastReconciledSpec"];
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

/// Waits until the job was measured this many more times.
async fn measure(operating: &Operating, times: usize) {
    let measured = || operating.flink.requests("taskmanagers/metrics").len();
    let until = measured() + times;
    operating.until("it measures", |_| (measured() >= until).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_load_scales_in_place_up_and_down_and_then_rests() {
    let operating = Operating::start(flink().await);
    run(&operating, &scene(&[]), 28.0);
    operating.until("samples are stored", stored).await;
    with_load(&operating, |load| load.rate = 100.0);
    operating.until("it is scaled up", |_| (parallelism(&operating) >= (4, 4)).then_some(())).await;
    operating
        .until("it catches up", |_| with_load(&operating, |load| load.lag < 1.0).then_some(()))
        .await;

    // After a backlog it may have more than it needs, and then stays that way.
    measure(&operating, 12).await;
    let (changes, steady) = (with_load(&operating, |load| load.changes), parallelism(&operating));
    measure(&operating, 9).await;
    assert_eq!(
        (with_load(&operating, |load| load.changes), parallelism(&operating)),
        (changes, steady)
    );
    assert!(changes <= 3, "{changes} changes to get from 1 to {steady:?}");

    with_load(&operating, |load| load.rate = 10.0);
    operating
        .until("it is scaled down", |_| (parallelism(&operating) == (1, 1)).then_some(()))
        .await;

    let resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    assert_eq!(resource["spec"]["flinkConfiguration"][OVERRIDES], Value::Null, "the user's spec");
    assert_eq!(resource["metadata"]["generation"], 1);
    let overrides = json!(format!("{WINDOW}:1,{SOURCE}:1"));
    operating
        .until("it is on record", |cluster| {
            let recorded = &last_reconciled(cluster)["spec"]["flinkConfiguration"][OVERRIDES];
            (*recorded == overrides).then_some(())
        })
        .await;
    let report = &events(&operating.cluster, "ScalingReport")[0];
    assert!(
        report["message"].as_str().unwrap().starts_with("Scaling execution enabled"),
        "{report}"
    );
    assert!(report["message"].as_str().unwrap().contains("} Requested by the pods: "), "{report}");
    let cost = Cost::stored(&state(&operating.cluster).unwrap().kept).unwrap();
    let after = (cost.after.task_managers, cost.after.cpu_millis);
    assert_eq!(after, (1, 2000), "one TaskManager and the JobManager: {cost}");
    assert!(!events(&operating.cluster, "Scaling").is_empty());
    assert_eq!(operating.flink.requests("/stop"), [""; 0], "no upgrade was needed");
    assert_eq!(events(&operating.cluster, "AutoscalerError"), [] as [Value; 0]);
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_starts_within_a_window_goes_on_with_it() {
    let operating = Operating::start(flink().await);
    run(&operating, &scene(&[("job.autoscaler.metrics.window", "3 s")]), 100.0);
    let before = operating.until("samples are stored", |cluster| {
        state(cluster).filter(|stored| stored.state.samples.len() >= 2)
    });
    let before = before.await;
    let samples = before.state.samples;
    let first = *samples.keys().next().unwrap();
    let operating = operating.restart().await;
    let next = operating.until("it measures on, or has decided", |cluster| {
        let state = state(cluster)?.state;
        let is_next = state.samples.len() > samples.len() || !state.restarts.is_empty();
        is_next.then_some(state)
    });
    let next = next.await;
    let has_decided = !next.restarts.is_empty();
    assert!(has_decided || next.samples.contains_key(&first), "not a window from the restart");
    operating.until("it is scaled up", |_| (parallelism(&operating) >= (4, 4)).then_some(())).await;
    let scaled_at =
        state(&operating.cluster).unwrap().state.restarts.keys().next().copied().unwrap();
    let waited = scaled_at.duration_since(first).as_secs_f64();
    assert!(waited >= 3.0, "a whole window: {waited}");
    // An operator that starts with a decision in effect keeps it.
    let changes = with_load(&operating, |load| load.changes);
    let operating = operating.restart().await;
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    assert_eq!(with_load(&operating, |load| load.changes), changes);
    assert_eq!(operating.flink.requests("/stop"), [""; 0]);
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_and_cut_short_decides_nothing_and_stays() {
    let operating = Operating::start(flink().await);
    let data = json!({OVERRIDES_KEY: format!("{SOURCE}:2,{WINDOW}"), "ofTomorrow": "kept"});
    operating.cluster.insert(config_map(data.clone()));
    let mut scene = scene(&[(OVERRIDES, &format!("{SOURCE}:2,{WINDOW}:2"))]);
    // It still runs with an earlier decision.
    scene.resource.spec.flink_configuration.0.remove(OVERRIDES);
    run(&operating, &scene, 100.0);
    let event = operating
        .until("it is told", |cluster| events(cluster, "AutoscalerError").into_iter().next());
    let message = event.await["message"].as_str().unwrap().to_owned();
    let reason = "`parallelismOverrides` cannot be read, and it says what is in effect";
    assert!(message.contains(reason), "{message}");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(with_load(&operating, |load| load.changes), 0);
    assert_eq!(stored(&operating.cluster).unwrap()["data"], data);
    assert_eq!(operating.flink.requests("/stop"), [""; 0], "what runs stays as it is");
    // Repairing it needs no restart of the operator.
    operating.cluster.insert(config_map(json!({OVERRIDES_KEY: format!("{SOURCE}:2,{WINDOW}:2")})));
    operating.until("it is scaled up", |_| (parallelism(&operating) >= (3, 3)).then_some(())).await;
    operating.stop().await;
}

const OVERRIDES_KEY: &str = "parallelismOverrides";

pub(crate) fn config_map(data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "autoscaler-orders", "namespace": "shop", "uid": "m1",
            "labels": {"component": "autoscaler", "app": "orders"},
            "ownerReferences": [{
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "name": "orders", "uid": "u1",
            }],
        },
        "data": data,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turned_off_it_forgets_and_the_users_parallelism_comes_back() {
    let operating = Operating::start(flink().await);
    let scene = scene(&[]);
    run(&operating, &scene, 100.0);
    // Without an autoscaler, nobody asks often whether it runs again.
    let runs =
        || operating.flink.with("shop/orders", |cluster| cluster.jobs[JOB_ID].state == "RUNNING");
    let is_scaled = |_: &FakeCluster| (parallelism(&operating) >= (4, 4) && runs()).then_some(());
    operating.until("it is scaled up", is_scaled).await;
    let mut resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    resource["spec"]["flinkConfiguration"]["job.autoscaler.enabled"] = json!("false");
    resource["metadata"]["generation"] = json!(2);
    operating.cluster.insert(resource);
    operating
        .until("it is cleared", |cluster| {
            let data = stored(cluster)?["data"].as_object().cloned().unwrap_or_default();
            data.is_empty().then_some(())
        })
        .await;
    // An override that is removed cannot be applied in place.
    operating
        .until("it is upgraded", |_| (!operating.flink.requests("/stop").is_empty()).then_some(()))
        .await;
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_the_first_windows_decisions_are_reported_and_not_carried_out() {
    const REPORTED: &str = "disabled by config job.autoscaler.advice.first-window:true until";
    // The advice ends after two windows, which on a slow machine may be before there is a decision, or before it is seen.
    for window in ["1 s", "10 s", "2 min"] {
        let operating = Operating::start(flink().await);
        let options = [
            ("job.autoscaler.advice.first-window", "true"),
            ("job.autoscaler.metrics.window", window),
        ];
        run(&operating, &scene(&options), 100.0);
        let is_reported = |event: &Value| event["message"].as_str().unwrap().contains(REPORTED);
        let inspect = |cluster: &FakeCluster| {
            let told = events(cluster, "ScalingReport").into_iter().find(is_reported);
            let is_changed = with_load(&operating, |load| load.changes) > 0;
            (is_changed || told.is_some()).then(|| told.filter(|_| !is_changed))
        };
        let told = operating.until("it is advised, or scaled", inspect).await;
        let is_scaled = |_: &FakeCluster| (parallelism(&operating) >= (4, 4)).then_some(());
        operating.until("it is scaled up later", is_scaled).await;
        operating.stop().await;
        if let Some(told) = told {
            assert!(told["metadata"]["labels"]["parallelismMap"].is_string(), "{told}");
            return;
        }
    }
    panic!("it was never advised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_of_the_java_operator_is_gone_on_with_and_no_advice_comes_first() {
    let operating = Operating::start(flink().await);
    let flow = format!("{{{SOURCE}: '2', {WINDOW}: '2'}}");
    operating.cluster.insert(config_map(json!({OVERRIDES_KEY: flow})));
    let mut scene = scene(&[(OVERRIDES, &flow), ("job.autoscaler.advice.first-window", "true")]);
    scene.resource.spec.flink_configuration.0.remove(OVERRIDES);
    run(&operating, &scene, 60.0);
    with_load(&operating, |load| load.parallelism.values_mut().for_each(|of| *of = 2));
    operating.until_seen_running().await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(with_load(&operating, |load| load.changes), 0, "nothing is restarted for the text");
    assert_eq!(operating.flink.requests("/stop"), [""; 0]);
    with_load(&operating, |load| load.rate = 200.0);
    operating.until("it is scaled up", |_| (parallelism(&operating) >= (6, 6)).then_some(())).await;
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steady_jobs_cost_a_write_now_and_then() {
    let operating = Operating::start(flink().await);
    // Samples alone are stored five times per window.
    run(&operating, &scene(&[("job.autoscaler.metrics.window", "50 min")]), 28.0);
    operating.until("samples are stored", stored).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    operating.cluster.forget_requests();
    measure(&operating, 4).await;
    let writes: Vec<String> =
        operating.cluster.writes().iter().map(|write| write.uri.clone()).collect();
    assert_eq!(writes, [""; 0]);
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_writes_meanwhile_is_not_overwritten() {
    let operating = Operating::start(flink().await);
    run(&operating, &scene(&[]), 28.0);
    operating.until("samples are stored", stored).await;
    operating.cluster.refuse(
        Method::PUT,
        "configmaps/autoscaler-orders",
        409,
        "the object has been modified",
    );
    with_load(&operating, |load| load.rate = 100.0);
    // A decision that was not stored has no effect; the next cycle decides again.
    operating
        .until("it is told", |cluster| events(cluster, "AutoscalerError").into_iter().next())
        .await;
    assert_eq!(with_load(&operating, |load| load.changes), 0);
    operating.until("it is scaled up", |_| (parallelism(&operating) >= (4, 4)).then_some(())).await;
    operating.stop().await;
}
