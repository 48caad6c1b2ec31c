use std::time::{Duration, Instant};

use api::crd;
use api::deployment::FlinkDeployment;
use clients::cluster::crds::{self as definitions, Change};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Server, install};
use crate::support::patience::PATIENCE;

const API_VERSION: &str = "flink.apache.org/v1beta1";

pub(super) fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

pub(super) fn deployment(name: &str) -> Value {
    object(
        "FlinkDeployment",
        name,
        json!({
            "image": "flink:1.20",
            "flinkVersion": "v1_20",
            "serviceAccount": "flink",
            "flinkConfiguration": { "state": { "savepoints.dir": "s3://s" }, "a.b": 1, "c": null },
            "jobManager": { "resource": { "memory": "2048m", "cpu": 1 } },
            "taskManager": { "resource": { "memory": "2048m", "cpu": 0.5 } },
            "job": { "jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "last-state" }
        }),
    )
}

/// Returns `base` with `value` at `pointer`; null removes the field, because the API server drops nulls.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let mut target = &mut base;
    for part in parent.split('/').filter(|part| !part.is_empty()) {
        target = target.as_object_mut().unwrap().entry(part).or_insert(json!({}));
    }
    target.as_object_mut().unwrap().insert(name.to_owned(), value);
    base
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn definitions_are_structural_and_applied_once() {
    let server = Server::with_namespace("definitions").await;
    let api = Api::<CustomResourceDefinition>::all(server.client.clone());
    for definition in crd::all() {
        let name = definition.metadata.name.unwrap();
        let conditions = api.get(&name).await.unwrap().status.unwrap().conditions.unwrap();
        let bad = conditions.iter().find(|condition| {
            condition.type_ == "NonStructuralSchema" || condition.status != "True"
        });
        assert!(bad.is_none(), "{name}: {bad:?}");
    }
    let again = definitions::apply(&server.client, &crd::all(), true).await.unwrap();
    assert!(again.iter().all(|applied| applied.change == Change::Unchanged), "{again:?}");
    server.clean_up().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn what_is_refused() {
    let server = Server::with_namespace("refused").await;
    let container =
        |field: &str, value: Value| json!({ "containers": [{ "name": "c", field: value }] });
    let session_job = object(
        "FlinkSessionJob",
        "job",
        json!({ "deploymentName": "session", "job": { "parallelism": 1 } }),
    );
    let snapshot = object(
        "FlinkStateSnapshot",
        "snapshot",
        json!({ "savepoint": {}, "jobReference": { "kind": "FlinkDeployment", "name": "a" } }),
    );
    let blue_green = object(
        "FlinkBlueGreenDeployment",
        "orders",
        json!({ "transitionMode": "BASIC", "template": { "spec": deployment("a")["spec"] } }),
    );
    for sound in [&deployment("a"), &session_job, &snapshot, &blue_green] {
        assert_eq!(server.refusal(sound).await, None);
    }
    let cases = [
        (
            deployment("a"),
            "/spec/podTemplate/spec",
            container("image", json!(1)),
            "must be of type string",
        ),
        (
            deployment("a"),
            "/spec/jobManager/podTemplate/spec",
            container("env", json!({})),
            "must be of type array",
        ),
        (deployment("a"), "/spec/flinkVersion", json!("v1_12"), "Unsupported value"),
        (deployment("a"), "/spec/job/upgradeMode", json!("lastState"), "Unsupported value"),
        (deployment("a"), "/spec/job/parallelism", json!("2"), "must be of type integer"),
        (deployment("A-1"), "/spec/mode", Value::Null, "metadata.name"),
        (deployment(&"a".repeat(46)), "/spec/mode", Value::Null, "at most 45"),
        (deployment("a"), "/spec/flinkVersion", Value::Null, "Flink version of the image"),
        (deployment("a"), "/spec/flinkVersion", json!("v1_14"), "oldest supported version"),
        (deployment("a"), "/spec/serviceAccount", Value::Null, "service account"),
        (
            deployment("a"),
            "/spec/job/parallelism",
            Value::Null,
            "job.parallelism must be 1 or more",
        ),
        (deployment("a"), "/spec/job/parallelism", json!(0), "job.parallelism must be 1 or more"),
        (
            deployment("a"),
            "/spec/ingress",
            json!({ "className": "x" }),
            "an ingress needs a template",
        ),
        (
            deployment("a"),
            "/spec/logConfiguration",
            json!({ "log4j.properties": "" }),
            "only `log4j",
        ),
        (deployment("a"), "/spec/jobManager/replicas", json!(0), "must be 1, or more"),
        (deployment("a"), "/spec/taskManager/replicas", json!(0), "must be 1 or more"),
        (session_job.clone(), "/spec/deploymentName", json!("No"), "must start with a lower case"),
        (session_job.clone(), "/spec/deploymentName", Value::Null, "must be named"),
        (session_job.clone(), "/spec/job", Value::Null, "a session job needs a job"),
        (session_job, "/spec/job/parallelism", json!(0), "job.parallelism must be 1 or more"),
        (snapshot.clone(), "/spec/checkpoint", json!({}), "exactly one"),
        (snapshot.clone(), "/spec/savepoint", Value::Null, "exactly one"),
        (snapshot, "/spec/jobReference", Value::Null, "must be named"),
        (blue_green.clone(), "/metadata/name", json!("a".repeat(40)), "at most 39"),
        (blue_green.clone(), "/spec/transitionMode", json!("ADVANCED"), "only `BASIC`"),
        (blue_green.clone(), "/spec/template", Value::Null, "a template must be given"),
        (blue_green.clone(), "/spec/template/spec", Value::Null, "must be given"),
        (blue_green.clone(), "/spec/template/spec/job", Value::Null, "they need a job"),
        (blue_green.clone(), "/spec/ingress", json!({}), "an ingress needs a template"),
        (
            blue_green,
            "/spec/template/spec/job/parallelism",
            json!(0),
            "job.parallelism must be 1 or more",
        ),
    ];
    for (base, pointer, value, expected) in cases {
        let refusal = server.refusal(&with(base, pointer, value.clone())).await;
        let refusal = refusal.unwrap_or_else(|| panic!("{pointer} {value} was taken"));
        assert!(refusal.contains(expected), "{pointer} {value}: {refusal}");
    }
    server.clean_up().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn what_the_java_operator_takes_is_taken() {
    let server = Server::with_namespace("taken").await;
    let canary = json!({
        "apiVersion": API_VERSION, "kind": "FlinkDeployment",
        "metadata": { "name": "canary", "labels": { "flink.apache.org/canary": "true" } }
    });
    let record = object(
        "FlinkStateSnapshot",
        "s",
        json!({ "savepoint": { "alreadyExists": true, "path": "s3://p" } }),
    );
    let by_replicas = with(
        with(deployment("a"), "/spec/job/parallelism", Value::Null),
        "/spec/taskManager/replicas",
        json!(3),
    );
    let everything_null = with(
        with(
            deployment("a"),
            "/spec/podTemplate",
            json!({ "metadata": null, "spec": { "containers": null } }),
        ),
        "/spec/ingress",
        Value::Null,
    );
    let blue_green = object(
        "FlinkBlueGreenDeployment",
        "bg",
        json!({ "configuration": { "kubernetes.operator.bluegreen.abort.grace-period": "1 min" }, "template": { "spec": deployment("a")["spec"] } }),
    );
    for object in [canary, record, by_replicas, everything_null, blue_green] {
        assert_eq!(server.refusal(&object).await, None, "{object}");
    }
    for version in api::version::FlinkVersion::ALL.iter().copied() {
        let object = with(deployment("a"), "/spec/flinkVersion", json!(version.into_str()));
        assert_eq!(server.refusal(&object).await.is_none(), version.is_supported(), "{version}");
    }
    server.clean_up().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn unknown_fields_are_stored_in_pod_templates_only() {
    let server = Server::with_namespace("unknown").await;
    let template = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "fromTheFuture": 1 },
        "spec": {
            "fromTheFuture": { "deep": [1] },
            "containers": [{ "name": "c", "fromTheFuture": true, "resources": { "limits": { "cpu": 1, "memory": "1Gi" } } }]
        }
    });
    for place in
        ["/spec/podTemplate", "/spec/jobManager/podTemplate", "/spec/taskManager/podTemplate"]
    {
        let stored = server.create(&with(deployment("a"), place, template.clone())).await.unwrap();
        assert_eq!(stored.pointer(place), Some(&template));
        server
            .api("flink.apache.org", "FlinkDeployment")
            .delete("a", &DeleteParams::default())
            .await
            .unwrap();
    }
    let stored =
        server.create(&with(deployment("a"), "/spec/fromTheFuture", json!(1))).await.unwrap();
    assert_eq!(stored["spec"].get("fromTheFuture"), None);
    assert_eq!(stored["spec"]["flinkConfiguration"], deployment("a")["spec"]["flinkConfiguration"]);
    server.clean_up().await;
}

/// Complete resources as the Java operator left them, status and nulls included.
#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn stored_resources_of_the_java_operator_are_taken() {
    let server = Server::with_namespace("takeover").await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/takeover");
    let mut taken = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for mut object in serde_yaml::from_multiple::<Value>(&text).unwrap() {
            if object["kind"] != "FlinkDeployment" {
                continue;
            }
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.retain(|name, _| {
                ["name", "labels", "annotations", "finalizers"].contains(&name.as_str())
            });
            object["status"]["error"] = Value::Null;
            object["status"]["jobStatus"]["checkpointInfo"] =
                json!({ "lastCheckpoint": null, "triggerType": null });
            let created = server.create(&object).await.unwrap();
            let mut with_status: kube::api::DynamicObject =
                serde_json::from_value(created).unwrap();
            with_status.data["status"] = object["status"].clone();
            let name = with_status.metadata.name.clone().unwrap();
            let api = server.api_of(&object);
            let stored =
                api.replace_status(&name, &PostParams::default(), &with_status).await.unwrap();
            assert_eq!(
                stored.data["status"]["reconciliationStatus"],
                object["status"]["reconciliationStatus"]
            );
            assert_eq!(stored.data["status"].get("error"), None);
            let _readable: FlinkDeployment =
                serde_json::from_value(serde_json::to_value(stored).unwrap()).unwrap();
            taken += 1;
            let release = json!({ "metadata": { "finalizers": null } });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(release)).await.unwrap();
        }
    }
    assert!(taken >= 6, "{taken}");
    server.clean_up().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn task_managers_are_scaled_through_the_subresource() {
    let server = Server::with_namespace("scale").await;
    server.create(&with(deployment("a"), "/spec/taskManager/replicas", json!(2))).await.unwrap();
    let api = server.api("flink.apache.org", "FlinkDeployment");
    let scale = |replicas: i32| Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let scaled = api.patch_scale("a", &PatchParams::default(), &scale(5)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(5));
    assert_eq!(api.get("a").await.unwrap().data["spec"]["taskManager"]["replicas"], 5);
    let refused = api.patch_scale("a", &PatchParams::default(), &scale(0)).await.unwrap_err();
    assert!(refused.to_string().contains("suspended"), "{refused}");
    server.clean_up().await;
}

/// Resources stored before the rules existed, in their own group so that no other test sees the definitions without
/// rules.
#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn rules_do_not_hold_stored_resources_fast() {
    const GROUP: &str = "ratcheting.example.com";
    let server = Server::with_namespace("ratcheting").await;
    let renamed = |definition: CustomResourceDefinition| {
        let mut definition = definition;
        let name = format!("{}.{GROUP}", definition.spec.names.plural);
        definition.metadata.name = Some(name);
        definition.spec.group = GROUP.to_owned();
        definition.spec.names.short_names = None;
        definition
    };
    let new: Vec<_> = crd::all().into_iter().map(renamed).collect();
    let old: Vec<_> = new.iter().cloned().map(crd::without_rules).collect();
    install(&server.client, &old).await;
    let stored = [
        (
            "FlinkDeployment",
            "Bad.Name".to_lowercase(),
            json!({
                "flinkVersion": "v1_13", "image": "x", "ingress": {}, "job": { "parallelism": 0 },
                "logConfiguration": { "x": "y" }, "jobManager": { "replicas": 0 }, "taskManager": { "replicas": 0 }
            }),
        ),
        ("FlinkDeployment", "b".repeat(60), json!({ "job": {} })),
        ("FlinkSessionJob", "c".to_owned(), json!({ "deploymentName": "NO" })),
        ("FlinkStateSnapshot", "d".to_owned(), json!({ "savepoint": {}, "checkpoint": {} })),
        (
            "FlinkBlueGreenDeployment",
            "e".repeat(60),
            json!({ "template": { "spec": { "flinkVersion": "v1_13", "image": "x" } } }),
        ),
    ];
    for (kind, name, spec) in &stored {
        let mut object = object(kind, name, spec.clone());
        object["apiVersion"] = json!(format!("{GROUP}/v1beta1"));
        object["metadata"]["finalizers"] = json!(["example.com/finalizer"]);
        server.create(&object).await.unwrap();
    }
    install(&server.client, &new).await;
    for (kind, name, _) in &stored {
        let api = server.api(GROUP, kind);
        let params = PatchParams::default();
        wait_for_rules(&server, GROUP, kind).await;
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        api.patch(name, &params, &Patch::Merge(label)).await.unwrap();
        let status = json!({ "status": { "error": "broken" } });
        api.patch_status(name, &params, &Patch::Merge(status)).await.unwrap();
        api.delete(name, &DeleteParams::foreground()).await.unwrap();
        let release = json!({ "metadata": { "finalizers": null } });
        api.patch(name, &params, &Patch::Merge(release)).await.unwrap();
    }
    let definitions = Api::<CustomResourceDefinition>::all(server.client.clone());
    for definition in &new {
        let name = definition.metadata.name.as_deref().unwrap();
        let _deletion = definitions.delete(name, &DeleteParams::default()).await.unwrap();
    }
    server.clean_up().await;
}

/// Waits until the API server uses a changed definition, which takes a moment.
async fn wait_for_rules(server: &Server, group: &str, kind: &str) {
    let spec = match kind {
        "FlinkDeployment" => json!({ "job": {} }),
        "FlinkSessionJob" => json!({ "deploymentName": "NO" }),
        "FlinkBlueGreenDeployment" => json!({ "template": {} }),
        _ => json!({}),
    };
    let mut bad = object(kind, "probe", spec);
    bad["apiVersion"] = json!(format!("{group}/v1beta1"));
    let start = Instant::now();
    while server.refusal(&bad).await.is_none() {
        assert!(start.elapsed() < PATIENCE, "the rules of {kind} never took effect");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
