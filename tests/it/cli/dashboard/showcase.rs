//! A typical fleet of a team, for the pictures in `docs/images`.

use serde_json::{Value, json};

use crate::support::fake_cluster::FakeCluster;

/// Kind, namespace, name, Flink version, image, parallelism, states of the resource and of its job.
type Shown = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    i64,
    &'static str,
    &'static str,
);

const FLEET: [Shown; 22] = [
    (
        "FlinkDeployment",
        "ads",
        "click-sessions",
        "v2_3",
        "ads/sessions:8.2.0",
        24,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "ads",
        "impressions",
        "v2_3",
        "ads/impressions:5.1.4",
        48,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "ads",
        "bid-features",
        "v2_3",
        "ads/features:1.9.0",
        16,
        "UPGRADING",
        "RUNNING",
    ),
    (
        "FlinkBlueGreenDeployment",
        "checkout",
        "orders",
        "v1_20",
        "checkout/orders:14.0.2",
        12,
        "ACTIVE_BLUE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "checkout",
        "orders-blue",
        "v1_20",
        "checkout/orders:14.0.2",
        12,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "checkout",
        "baskets",
        "v1_20",
        "checkout/baskets:3.3.1",
        8,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "checkout",
        "vouchers",
        "v1_20",
        "checkout/vouchers:2.0.0",
        2,
        "SUSPENDED",
        "FINISHED",
    ),
    (
        "FlinkDeployment",
        "fraud",
        "card-scores",
        "v2_3",
        "fraud/scores:21.4.0",
        64,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "fraud",
        "device-graph",
        "v2_3",
        "fraud/devices:7.0.0-rc2",
        32,
        "FAILED",
        "FAILED",
    ),
    (
        "FlinkDeployment",
        "fraud",
        "rules",
        "v2_3",
        "fraud/rules:11.8.3",
        16,
        "ROLLED_BACK",
        "RUNNING",
    ),
    ("FlinkDeployment", "fraud", "alerts", "v2_3", "fraud/alerts:4.2.2", 4, "STABLE", "RUNNING"),
    ("FlinkDeployment", "iot", "gateway", "v1_20", "flink:1.20.3", 0, "STABLE", "RUNNING"),
    ("FlinkSessionJob", "iot", "meters", "", "", 6, "STABLE", "RUNNING"),
    ("FlinkSessionJob", "iot", "outages", "", "", 2, "STABLE", "RUNNING"),
    ("FlinkSessionJob", "iot", "firmware", "", "", 2, "DEPLOYED", "RECONCILING"),
    (
        "FlinkDeployment",
        "logistics",
        "parcels",
        "v1_20",
        "logistics/parcels:6.1.0",
        20,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "logistics",
        "routes",
        "v1_20",
        "logistics/routes:2.14.0",
        10,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "logistics",
        "eta",
        "v1_20",
        "logistics/eta:9.0.1",
        40,
        "STABLE",
        "RESTARTING",
    ),
    (
        "FlinkDeployment",
        "platform",
        "audit-log",
        "v2_3",
        "platform/audit:1.0.8",
        6,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "platform",
        "cdc-accounts",
        "v2_3",
        "platform/cdc:3.5.0",
        4,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "platform",
        "cdc-orders",
        "v2_3",
        "platform/cdc:3.5.0",
        8,
        "STABLE",
        "RUNNING",
    ),
    (
        "FlinkDeployment",
        "platform",
        "schema-history",
        "v2_3",
        "platform/cdc:3.5.0",
        1,
        "STABLE",
        "RUNNING",
    ),
];

/// All of them, each with its own age.
pub(super) fn showcase() -> FakeCluster {
    let cluster = FakeCluster::new();
    let now = jiff::Timestamp::now();
    for (index, told) in FLEET.into_iter().enumerate() {
        let (kind, namespace, name, version, image, parallelism, state, job) = told;
        let hours = i64::try_from(index * 37 % 23 * 31 + 5).unwrap();
        let created = now - jiff::SignedDuration::from_hours(hours);
        let saved =
            now - jiff::SignedDuration::from_secs(i64::try_from(index * 7 % 50 + 4).unwrap());
        let checkpoint = json!({"lastCheckpoint": {"timeStamp": saved.as_millisecond()}});
        let job_status = json!({"state": job, "checkpointInfo": checkpoint});
        let error = match name {
            "device-graph" => Some(
                "Could not restore keyed state backend for KeyedProcessOperator: the new state serializer is incompatible",
            ),
            "rules" => Some(
                "The job was not running 5 minutes after it was deployed: went back to the spec of revision 8",
            ),
            "eta" => Some("Exceeded checkpoint tolerable failure threshold"),
            _ => None,
        };
        let mut spec = json!({"job": {"parallelism": parallelism, "upgradeMode": "savepoint"}});
        if parallelism == 0 {
            spec = json!({});
        }
        if !image.is_empty() {
            spec["image"] = json!(format!("registry.example.com/{image}"));
            spec["flinkVersion"] = json!(version);
        }
        let mut status = json!({"observedGeneration": 1, "jobStatus": job_status, "error": error});
        let mut object = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "generation": 1, "creationTimestamp": created,
                "labels": {"team": namespace}}});
        if kind == "FlinkBlueGreenDeployment" {
            status["blueGreenState"] = json!(state);
            object["spec"] = json!({"template": {"spec": spec}});
        } else {
            status["lifecycleState"] = Value::from(state);
            object["spec"] = spec;
        }
        object["status"] = status;
        cluster.insert(object);
    }
    cluster
}
