//! `autoscaler` against a cluster in memory.

use std::collections::BTreeMap;

use autoscaler::cost::{self, Cost, Pod, Pods, Prices};
use autoscaler::cycle::State;
use autoscaler::delayed::{Delayed, Waiting};
use autoscaler::metric::{Evaluated, Figures, Metric};
use autoscaler::sample::Sample;
use autoscaler::scaling_history::{Reason, Scaling};
use autoscaler::state::{self, Stored};
use config::memory::MemorySize;
use expect_test::expect;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::run;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::load::{Load, SOURCE as SOURCE_VERTEX, WINDOW};
use crate::support::fake_flink::{FakeFlink, Job};

const SOURCE: &str = "20ba6b65f97481d5570070de90e4e791";
const SINK: &str = "12345678901234567890123456789012";

fn orders() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "default", "uid": "u1", "generation": 1},
        "spec": {
            "flinkVersion": "v1_20",
            "flinkConfiguration": {"job.autoscaler.enabled": "true"},
            "job": {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "savepoint"},
        },
        "status": {"lifecycleState": "STABLE", "jobStatus": {"state": "RUNNING", "jobId": "j1"}},
    })
}

/// Returns a state that was scaled an hour into 2026 and is about to be scaled down.
fn stored() -> BTreeMap<String, String> {
    let mut state = State::default();
    let mut figures = Figures::default();
    figures.set(Metric::TrueProcessingRate, Evaluated::average(588.235));
    let scaling = Scaling { current: 1, new: 4, figures };
    let scaled_at = "2026-01-01T01:00:00Z".parse().unwrap();
    state.scaling_history.insert(SOURCE.into(), [(scaled_at, scaling)].into());
    let reason = Reason { rule: "computed parallelism".to_owned(), number: 4.0 };
    state.reasons.insert(SOURCE.into(), [(scaled_at, reason)].into());
    state.overrides = [(SOURCE.into(), 4), (SINK.into(), 1)].into();
    for minute in 10..13 {
        let at = format!("2026-01-01T01:{minute}:00Z").parse().unwrap();
        state.samples.insert(at, Sample::default());
    }
    let since = "2026-01-01T01:11:00Z".parse().unwrap();
    let waiting = Waiting { since, recommended: [].into() };
    state.delayed = Delayed([(SOURCE.into(), waiting)].into());
    state::write(&Stored { state, ..Stored::default() }).unwrap().data
}

fn config_map(data: &BTreeMap<String, String>, owner: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "autoscaler-orders", "namespace": "default",
            "labels": {"component": "autoscaler", "app": "orders"},
            "ownerReferences": [{
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "name": "orders", "uid": owner,
            }],
        },
        "data": data,
    })
}

#[tokio::test]
async fn status_shows_what_is_in_force_and_how_much_is_known() {
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    cluster.insert(config_map(&stored(), "u1"));
    let ran = run(&cluster, None, "autoscaler status orders -o json").await.succeeded();
    expect![[r#"
        {
          "name": "orders",
          "jobState": "RUNNING",
          "lifecycleState": "STABLE",
          "isEnabled": true,
          "configMap": "autoscaler-orders",
          "isStored": true,
          "samples": {
            "count": 3,
            "first": "2026-01-01T01:10:00Z",
            "last": "2026-01-01T01:12:00Z"
          },
          "lastScaling": "2026-01-01T01:00:00Z",
          "vertices": {
            "12345678901234567890123456789012": {
              "parallelism": 1,
              "lastChange": null,
              "waitsSince": null
            },
            "20ba6b65f97481d5570070de90e4e791": {
              "parallelism": 4,
              "lastChange": {
                "at": "2026-01-01T01:00:00Z",
                "from": 1,
                "to": 4
              },
              "waitsSince": "2026-01-01T01:11:00Z"
            }
          },
          "configuration": {},
          "setAside": []
        }
    "#]]
    .assert_eq(&ran.output);
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    for part in ["enabled", "3 over 2m", "20ba6b65f97481d5570070de90e4e791   4", "1 -> 4, "] {
        assert!(ran.output.contains(part), "{part}: {}", ran.output);
    }
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn status_shows_what_the_last_decision_costs() {
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    let pod = |cpu_millis, gib: u64| Pod { cpu_millis, memory: MemorySize(gib << 30) };
    let pods = Pods {
        task_manager: pod(2000, 4),
        slots_per_task_manager: 1,
        job_manager: pod(1000, 2),
        job_managers: 1,
    };
    let prices = Prices { cpu_hour: Some(0.05), gib_hour: None };
    let cost = Cost { before: pods.request(1, prices), after: pods.request(4, prices) };
    let mut data = stored();
    data.insert(cost::KEY.to_owned(), cost.text());
    cluster.insert(config_map(&data, "u1"));
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    let line = "1 -> 4 TaskManagers, 3 -> 9 CPU, 6 -> 18 GiB, 0.15 -> 0.45 per hour\n";
    assert!(ran.output.contains(line), "{}", ran.output);
    let ran = run(&cluster, None, "autoscaler status orders -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(told["cost"]["after"]["taskManagers"], 4);
    assert_eq!(told["cost"]["after"]["cpuMillis"], 9000);
}

#[tokio::test]
async fn status_of_a_job_without_history_says_so() {
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    expect![[r#"
        NAME           orders
        Job            RUNNING, STABLE
        Autoscaler     enabled
        Samples        <none>
        Last scaling   <none>
    "#]]
    .assert_eq(&ran.output);
    // The state of an earlier resource of this name is not part of this one's history.
    cluster.insert(config_map(&stored(), "another"));
    let again = run(&cluster, None, "autoscaler status orders").await.succeeded();
    assert_eq!(again.output, ran.output);
}

#[tokio::test]
async fn what_is_stored_and_not_understood_is_named() {
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    let mut data = stored();
    data.insert("scalingTracking".to_owned(), "cut sho".to_owned());
    cluster.insert(config_map(&data, "u1"));
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    assert!(ran.error.contains("set aside as `scalingTracking.unreadable`"), "{}", ran.error);
    data.insert("parallelismOverrides".to_owned(), "x:many".to_owned());
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    cluster.insert(config_map(&data, "u1"));
    let ran = run(&cluster, None, "autoscaler status orders").await;
    ran.failed(Kind::Failed, "`parallelismOverrides` cannot be read");
}

#[tokio::test]
async fn status_names_custom_evaluators() {
    let cluster = FakeCluster::new();
    let mut resource = orders();
    let key = "job.autoscaler.metrics.custom-evaluators";
    resource["spec"]["flinkConfiguration"][key] = json!(["mine"]);
    cluster.insert(resource.clone());
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    let told = "evaluator `mine` takes part in the decisions: if the operator's configuration does not \
                define it, the job is not scaled and has an AutoscalerError event\n";
    assert_eq!(ran.error, told);
    resource["spec"]["flinkConfiguration"][key] = json!(["mine", "yours"]);
    cluster.insert(resource.clone());
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    let told = "warning: the job is not scaled: invalid value `mine;yours` of \
                `job.autoscaler.metrics.custom-evaluators`: expected one name: a job has one \
                evaluator\n";
    assert_eq!(ran.error, told);
    resource["spec"]["flinkConfiguration"]["job.autoscaler.enabled"] = json!(false);
    cluster.insert(resource);
    let ran = run(&cluster, None, "autoscaler status orders").await.succeeded();
    assert_eq!(ran.error, "");
}

#[tokio::test]
async fn a_session_cluster_has_no_job_to_scale() {
    let cluster = FakeCluster::new();
    let mut session = orders();
    session["spec"].as_object_mut().unwrap().remove("job");
    cluster.insert(session);
    let ran = run(&cluster, None, "autoscaler status orders").await;
    ran.failed(Kind::Failed, "has no job of its own to scale");
}

#[tokio::test]
async fn history_shows_what_was_scaled_and_by_which_rates() {
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    let ran = run(&cluster, None, "autoscaler history orders").await.succeeded();
    assert_eq!((ran.output.as_str(), ran.error.trim()), ("", "no scalings of `orders` are stored"));
    cluster.insert(config_map(&stored(), "u1"));
    let ran = run(&cluster, None, "autoscaler history orders").await.succeeded();
    expect![[r#"
        TIME                   VERTEX                             PARALLELISM   TRUE RATE   TARGET RATE   EXPECTED RATE   RESTART   DECIDED BY
        2026-01-01T01:00:00Z   20ba6b65f97481d5570070de90e4e791   1 -> 4        588.24      <none>        <none>          <none>    computed parallelism: 4.00
    "#]]
    .assert_eq(&ran.output);
    let ran = run(&cluster, None, "autoscaler history orders -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    expect![[r#"{"at":"2026-01-01T01:00:00Z","vertex":"20ba6b65f97481d5570070de90e4e791","from":1,"to":4,"trueProcessingRate":588.235,"targetDataRate":null,"expectedProcessingRate":null,"rule":"computed parallelism","number":4.0,"restartSeconds":null}"#]]
    .assert_eq(&told["scalings"][0].to_string());
}

/// Flink's answer has the format of 2.3.
#[tokio::test]
async fn history_shows_what_flink_itself_rescaled() {
    let (flink, cluster) = measured().await;
    flink.with("default/orders", |cluster| cluster.is_2_3 = true);
    let address = || Some(flink.address().to_owned());
    let line = "autoscaler history orders --rescales";
    let ran = run(&cluster, address(), line).await;
    ran.failed(Kind::Failed, "does not remember rescales");
    let rescales = json!([
        {"rescaleUuid": "ed54", "resourceRequirementsUuid": "b8ca", "rescaleAttemptId": 1, "vertices": {},
         "slots": {}, "schedulerStates": [], "startTimestampInMillis": 1_795_810_076_155_i64,
         "endTimestampInMillis": null, "terminalState": null, "triggerCause": "UPDATE_REQUIREMENT",
         "terminatedReason": null},
        {"rescaleUuid": "ed67", "resourceRequirementsUuid": "f679", "rescaleAttemptId": 1, "vertices": {},
         "slots": {}, "schedulerStates": [], "startTimestampInMillis": 1_795_810_071_540_i64,
         "endTimestampInMillis": 1_795_810_073_516_i64, "terminalState": "COMPLETED",
         "triggerCause": "INITIAL_SCHEDULE", "terminatedReason": "SUCCEEDED"},
    ]);
    flink.with("default/orders", |cluster| {
        cluster.jobs.values_mut().for_each(|job| job.rescales = Some(rescales.clone()));
    });
    let ran = run(&cluster, address(), line).await.succeeded();
    expect![[r#"
        TIME                       CAUSE                STATE         REASON      TOOK
        2026-11-27T20:07:56.155Z   UPDATE_REQUIREMENT   IN_PROGRESS   <none>      <none>
        2026-11-27T20:07:51.54Z    INITIAL_SCHEDULE     COMPLETED     SUCCEEDED   1976ms
    "#]]
    .assert_eq(&ran.output);
    let ran = run(&cluster, address(), &format!("{line} -o json")).await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(told["rescales"][1]["durationMilliseconds"], 1976);
    assert_eq!(told["rescales"][0]["state"], Value::Null);
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn reset_writes_the_nonce_and_nothing_else() {
    let cluster = FakeCluster::new();
    cluster.insert(orders());
    let mut data = stored();
    cluster.insert(config_map(&data, "u1"));
    let ran = run(&cluster, None, "autoscaler reset orders --dry-run=client").await.succeeded();
    assert!(ran.error.contains("returns `orders` to the parallelism of its spec"), "{}", ran.error);
    assert_eq!(cluster.writes(), []);
    let ran = run(&cluster, None, "autoscaler reset orders --yes").await.succeeded();
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/orders autoscaler reset\n");
    let nonce = |cluster: &FakeCluster| {
        let orders = cluster.object("flinkdeployments", "default", "orders").unwrap();
        orders["spec"]["job"]["autoscalerResetNonce"].clone()
    };
    assert_eq!((nonce(&cluster), cluster.writes().len()), (json!(1), 1));
    // Also if nothing of it can be read.
    data.insert("parallelismOverrides".to_owned(), "x:many".to_owned());
    let mut map = config_map(&data, "u1");
    map["metadata"]["resourceVersion"] = Value::Null;
    cluster.insert(map);
    run(&cluster, None, "autoscaler reset orders --yes").await.succeeded();
    assert_eq!(nonce(&cluster), json!(2));
}

/// Returns `orders` with a job whose JobManager is queried.
pub(super) async fn measured() -> (FakeFlink, FakeCluster) {
    let flink = FakeFlink::start().await;
    let now = flink.now();
    let job_id = "aaaa0000000000000000000000000001";
    let mut job = Job::running(job_id, now - 60_000);
    job.load = Some(Load::new(100.0, 40.0, now - 60_000));
    flink.with("default/orders", |cluster| {
        cluster.jobs.insert(job_id.to_owned(), job);
        let names = ["Heap.Max", "Heap.Used", "Metaspace.Used"];
        let names = names.map(|name| format!("Status.JVM.Memory.{name}"));
        let managed = "Status.Flink.Memory.Managed.Used".to_owned();
        cluster.process_metrics =
            names.into_iter().chain([managed]).map(|name| (name, 1.0)).collect();
    });
    let cluster = FakeCluster::new();
    let mut orders = orders();
    orders["status"]["jobStatus"]["jobId"] = json!(job_id);
    for role in ["jobManager", "taskManager"] {
        orders["spec"][role] = json!({"resource": {"memory": "2g", "cpu": 1}});
    }
    orders["spec"]["flinkConfiguration"]["job.autoscaler.cost.cpu-hour"] = json!("0.05");
    cluster.insert(orders);
    (flink, cluster)
}

/// Returns the autoscaler's stored state of `orders`.
pub(super) fn remembered() -> Value {
    config_map(&stored(), "u1")
}

#[tokio::test]
async fn explain_shows_for_every_vertex_the_rates_and_the_rule_that_decided() {
    let (flink, cluster) = measured().await;
    let address = Some(flink.address().to_owned());
    let ran = run(&cluster, address.clone(), "autoscaler explain orders -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(told["outcome"], "there are 1 of 2 samples");
    let ids: Vec<&Value> =
        told["vertices"].as_array().unwrap().iter().map(|of| &of["id"]).collect();
    assert_eq!(ids, [SOURCE_VERTEX, WINDOW]);
    assert_eq!(told["vertices"][0]["rule"], Value::Null, "no decision is due");
    // As it runs: one TaskManager and one JobManager.
    let requested = json!({
        "taskManagers": 1, "cpuMillis": 2000, "memoryBytes": 4_294_967_296_u64, "perHour": 0.1,
    });
    assert_eq!(told["cost"], json!({"before": requested, "after": requested}));
    assert_eq!(cluster.writes(), []);
    let ran = run(&cluster, address.clone(), "autoscaler explain orders").await.succeeded();
    let line = "Requested: 1 TaskManagers, 2 CPU, 4 GiB, 0.1 per hour";
    assert!(ran.output.contains(line), "{}", ran.output);
    // A rule that the job names is applied if the operator's configuration defines it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let define = |expression: &str| {
        let key = "kubernetes.operator.plugins.evaluators.mine.expression";
        std::fs::write(&file, format!("{key}: \"{expression}\"\n")).unwrap();
    };
    let mut ruled = cluster.object("flinkdeployments", "default", "orders").unwrap();
    ruled["spec"]["flinkConfiguration"]["job.autoscaler.metrics.custom-evaluators"] = json!("mine");
    cluster.insert(ruled);
    let ran = run(&cluster, address.clone(), "autoscaler explain orders").await;
    ran.failed(Kind::Failed, "names `mine`, which is not defined");
    define("null");
    let line = format!("autoscaler explain orders --operator-config {}", file.display());
    let ran = run(&cluster, address.clone(), &line).await.succeeded();
    assert!(ran.output.contains("there are 1 of 2 samples"), "{}", ran.output);
    define("object");
    run(&cluster, address.clone(), &line).await.failed(Kind::Failed, "unknown variable `object`");
    // A job that does not run is not measured.
    cluster.set_status(
        "flinkdeployments",
        "default",
        "orders",
        &json!({"jobStatus": {"state": "FAILED"}}),
    );
    let ran = run(&cluster, address, "autoscaler explain orders").await;
    ran.failed(Kind::Failed, "the job of `orders` is not RUNNING but FAILED");
}
