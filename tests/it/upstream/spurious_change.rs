//! Something was restarted, replaced or written although nothing had changed.

use std::sync::Arc;

use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::{DeploymentMode, FlinkDeployment, FlinkDeploymentSpec};
use api::session_job::FlinkSessionJobSpec;
use axum::http::Method;
use config::OperatorConfig;
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::{Api, Patch, PatchParams};
use lifecycle::diff::{ChangeClass, diff, diff_session_job};
use lifecycle::plan::{ClusterStep, Step};
use operator::live::Live;
use operator::mutator::{Kind, Mutator, Subject, mutate};
use operator::webhook::admit::Jurisdiction;
use operator::webhook::{ReviewRules, Task, Turn, Webhook};
use serde_json::{Value, json};
use testing::scene::{Scene, described, step_names};
use tokio::time::Instant;

use crate::support::fake_cluster::{FakeCluster, Recorded};
use crate::support::fake_flink::{FakeFlink, Job};
use crate::support::operating::{Operating, with_status};
use crate::support::patience::PATIENCE;

const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";

#[test]
fn flink_33710_the_same_overrides_in_another_order_are_no_change() {
    let with = |overrides: &str| {
        let config = json!({OVERRIDES: overrides});
        let deployment: FlinkDeploymentSpec =
            serde_json::from_value(json!({"flinkConfiguration": config})).unwrap();
        let job: FlinkSessionJobSpec =
            serde_json::from_value(json!({"deploymentName": "c", "flinkConfiguration": config}))
                .unwrap();
        (deployment, job)
    };
    let (last, last_job) = with("a:1,b:2");
    for (overrides, is_change) in [("b:2,a:1", false), ("b:2, a:1", false), ("a:1,b:3", true)] {
        for mode in [DeploymentMode::Native, DeploymentMode::Standalone] {
            let (mut wanted, _) = with(overrides);
            wanted.mode = Some(mode);
            let last = FlinkDeploymentSpec { mode: Some(mode), ..last.clone() };
            let class = diff(&last, &wanted).class();
            assert_eq!(class != ChangeClass::Ignore, is_change, "{overrides} {mode:?}");
        }
        let class = diff_session_job(&last_job, &with(overrides).1).class();
        assert_eq!(class != ChangeClass::Ignore, is_change, "{overrides}");
    }
}

#[test]
fn flink_36890_a_change_that_asks_for_nothing_is_noted_as_seen() {
    let scene = Scene::running("savepoint");
    for edited in [
        scene.clone().edit(|_| {}),
        scene.clone().edit_job(|job| job.allow_non_restored_state = Some(true)),
        scene.edit(|spec| {
            let key = "kubernetes.operator.savepoint.history.max.count".to_owned();
            drop(spec.flink_configuration.0.insert(key, json!("3")));
        }),
    ] {
        let plan = edited.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert_eq!(plan.status.observed_generation, Some(2));
        let again = edited.after(&plan);
        assert_eq!(*again.plan().status, again.status, "written once");
    }
}

/// A program may set options, and Flink tells them. The spec alone says how its job is managed.
#[tokio::test]
async fn flink_40696_what_a_running_job_says_of_its_configuration_is_not_asked_for() {
    let mut operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("last-state").option("execution.checkpointing.interval", "10 s"));
    for passes in 1..=3 {
        let looks = || operating.flink.requests("GET /jobs/overview").len();
        operating.until("the job is looked at", |_| (looks() >= passes).then_some(())).await;
        operating = operating.restart().await;
    }
    let asked = operating.flink.requests("/config");
    let of_job = |line: &&String| !line.ends_with("/checkpoints/config");
    assert_eq!(asked.iter().filter(of_job).collect::<Vec<_>>(), [""; 0]);
    operating.stop().await;
}

fn with_ingress(scene: Scene) -> Scene {
    let ingress = json!({"template": "{{name}}.{{namespace}}.example.com"});
    let mut scene = scene;
    scene.resource.spec.ingress = serde_json::from_value(ingress).unwrap();
    scene
}

#[tokio::test]
async fn flink_37193_an_ingress_outlives_the_job_managers_behind_it() {
    let scene = with_ingress(Scene::new("stateless"));
    let operating = Operating::start(FakeFlink::start().await);
    let resource = operating.cluster.insert(with_status(&scene.resource, &scene.status));
    let ingress = |cluster: &FakeCluster| cluster.object("ingresses", "shop", "orders");
    let first = operating.until("an Ingress is made", ingress).await;
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("FlinkDeployment"), &resource["metadata"]["uid"])
    );
    let id = operating
        .until("the job is submitted", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            cluster.object("deployments", "shop", "orders")?;
            resource["status"]["jobStatus"]["jobId"].as_str().map(str::to_owned)
        })
        .await;
    let replicas = json!({"replicas": 1, "availableReplicas": 1});
    operating.cluster.set_status("deployments", "shop", "orders", &replicas);
    let job = Job::running(&id, 1_750_000_000_000);
    operating.flink.with("shop/orders", |flink| flink.jobs.insert(id, job));
    operating
        .until("the job runs", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            (resource["status"]["lifecycleState"] == "STABLE").then_some(())
        })
        .await;
    // An upgrade deletes the Deployment, with everything that belongs to it.
    let deployments: Api<FlinkDeployment> = Api::namespaced(operating.cluster.client(), "shop");
    let patch = Patch::Merge(json!({"spec": {"image": "flink:1.20.1"}}));
    drop(deployments.patch("orders", &PatchParams::default(), &patch).await.unwrap());
    let uids = |cluster: &FakeCluster, plural: &str| -> Vec<Value> {
        let objects = cluster.objects(plural).into_iter();
        objects.map(|object| object["metadata"]["uid"].clone()).collect()
    };
    let before = ["deployments", "services"].map(|plural| uids(&operating.cluster, plural));
    operating
        .until("it is upgraded", |cluster| {
            let made = cluster.object("deployments", "shop", "orders")?;
            let image = &made["spec"]["template"]["spec"]["containers"][0]["image"];
            let is_over = *image == "flink:1.20.1" && !uids(cluster, "services").is_empty();
            is_over.then_some(())
        })
        .await;
    let after = ["deployments", "services"].map(|plural| uids(&operating.cluster, plural));
    assert!(after[0] != before[0] && after[1] != before[1], "{before:?} {after:?}");
    let second = ingress(&operating.cluster).expect("the Ingress stays");
    assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let writes = operating.cluster.writes();
    let deleted = |write: &&Recorded| write.method == Method::DELETE;
    let deleted: Vec<String> = writes.iter().filter(deleted).map(|it| it.uri.clone()).collect();
    assert!(
        !deleted.is_empty() && !deleted.iter().any(|uri| uri.contains("ingress")),
        "{deleted:?}"
    );
    operating.stop().await;
}

/// The Java operator restarts the job.
#[test]
fn an_edited_ingress_is_put_in_place_and_restarts_nothing() {
    let ingress = |template: &str| serde_json::from_value(json!({"template": template})).unwrap();
    let put = |plan: &lifecycle::plan::Plan| {
        let one = |step: &Step| match step {
            Step::Own(ClusterStep::ApplyIngress(ingress)) => Some(ingress.clone()),
            _ => None,
        };
        plan.steps.iter().filter_map(one).collect::<Vec<_>>()
    };
    for mode in ["stateless", "savepoint", "last-state"] {
        let edited =
            Scene::running(mode).edit(|spec| spec.ingress = ingress("{{name}}.example.com"));
        let plan = edited.plan();
        assert_eq!(step_names(&plan), ["apply-ingress"], "{mode}: {}", described(&plan));
        let made = put(&plan)[0].clone().unwrap();
        assert_eq!(made["spec"]["rules"][0]["host"], "orders.example.com");
        let reconciliation = &plan.status.reconciliation_status;
        let last = reconciliation.last_reconciled_spec.as_deref().unwrap();
        assert!(last.contains("{{name}}.example.com"), "{last}");
        assert_eq!(reconciliation.last_stable_spec.as_deref(), Some(last), "it is stable still");
        let again = edited.after(&plan);
        assert!(step_names(&again.plan()).is_empty(), "{}", described(&again.plan()));
        let without = again.edit(|spec| spec.ingress = None);
        assert_eq!(put(&without.plan()), [None]);
        let more = again_with_image(&without);
        assert!(put(&more.plan()).is_empty(), "a restart takes it along");
    }
}

fn again_with_image(scene: &Scene) -> Scene {
    scene.clone().edit(|spec| spec.image = Some("flink:2.1".to_owned()))
}

#[test]
fn flink_38479_a_stored_spec_without_configuration_is_compared() {
    let mut scene = Scene::running("stateless");
    scene.resource.spec.flink_configuration.0.clear();
    scene.store(api::job::JobState::Running, scene.job().upgrade_mode);
    let text = scene.status.reconciliation_status.last_reconciled_spec.clone().unwrap();
    let mut stored: Value = serde_json::from_str(&text).unwrap();
    for absent in [json!(null), Value::Bool(false)] {
        let spec = stored["spec"].as_object_mut().unwrap();
        match absent {
            Value::Null => drop(spec.insert("flinkConfiguration".to_owned(), Value::Null)),
            _ => drop(spec.remove("flinkConfiguration")),
        }
        let text = Some(stored.to_string());
        scene.status.reconciliation_status.last_reconciled_spec.clone_from(&text);
        scene.status.reconciliation_status.last_stable_spec = text;
        let plan = scene.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        let edited = scene.clone().edit(|spec| {
            let options = &mut spec.flink_configuration.0;
            options.insert("taskmanager.numberOfTaskSlots".into(), json!("2"));
            options.insert("kubernetes.operator.job.upgrade.preflight".into(), json!("none"));
        });
        let plan = edited.plan();
        let is_reported = plan.steps.iter().any(|step| {
            matches!(step, Step::Event(event) if event.message.contains("flinkConfiguration.taskmanager.numberOfTaskSlots : null -> 2"))
        });
        assert!(is_reported, "{}", described(&plan));
    }
}

/// Returns a blue/green deployment with this pod template in all three places.
fn blue_green(of_pods: &Value) -> Value {
    let part = json!({"resource": {"memory": "1g", "cpu": 0.5}, "podTemplate": of_pods});
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": "trial", "namespace": "shop", "uid": "trial", "generation": 1},
        "spec": {
            "configuration": {"kubernetes.operator.bluegreen.deployment-deletion.delay": "2 s"},
            "template": {"metadata": {"labels": {"team": "data"}}, "spec": {
                "image": "flink:1.20", "flinkVersion": "v1_20", "podTemplate": of_pods,
                "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"},
                "jobManager": part, "taskManager": part,
                "job": {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "savepoint"},
            }},
        },
        "status": {"blueGreenState": "ACTIVE_BLUE", "lastReconciledSpec": "{\"spec\":{}}"},
    })
}

#[test]
fn flink_38517_what_a_template_of_pods_has_from_a_pod_is_no_change_of_a_blue_green_deployment() {
    let read = |object: &Value| -> FlinkBlueGreenDeployment {
        serde_json::from_value(object.clone()).unwrap()
    };
    let of_child = |object: &Value| read(object).spec.template.unwrap().spec.unwrap();
    let plain = json!({"metadata": {"labels": {"a": "b"}}});
    for (name, value, is_change) in [
        ("apiVersion", json!("v1"), false),
        ("kind", json!("Pod"), false),
        ("status", json!({"phase": "Running"}), false),
        ("spec", json!({"nodeName": "a"}), true),
    ] {
        let mut with = plain.clone();
        with[name] = value;
        let (before, after) = (blue_green(&plain), blue_green(&with));
        // It is read without loss, so it can be written back.
        for object in [&before, &after] {
            let written = serde_json::to_value(read(object)).unwrap();
            assert_eq!(
                written["spec"]["template"]["metadata"],
                object["spec"]["template"]["metadata"]
            );
            let pods = ["/podTemplate", "/jobManager/podTemplate", "/taskManager/podTemplate"];
            for path in pods.map(|path| format!("/spec/template/spec{path}")) {
                assert_eq!(written.pointer(&path), object.pointer(&path), "{path}");
                assert!(object.pointer(&path).is_some());
            }
            assert_eq!(read(&written), read(object));
        }
        for (one, other) in [(&before, &after), (&after, &before)] {
            let class = diff(&of_child(one), &of_child(other)).class();
            assert_eq!(class != ChangeClass::Ignore, is_change, "{name}");
            assert_eq!(diff(&of_child(one), &of_child(one)).class(), ChangeClass::Ignore);
        }
    }
}

/// A mutator that always answers the same.
struct Saying(Value);

impl Mutator for Saying {
    fn name(&self) -> &'static str {
        "saying"
    }

    fn mutate<'a>(&'a self, _subject: &'a Subject) -> BoxFuture<'a, Result<Value, String>> {
        async { Ok(self.0.clone()) }.boxed()
    }
}

fn saying(answer: Value) -> Arc<dyn Mutator> {
    Arc::new(Saying(answer))
}

/// Returns the webhook's answer about a new object.
async fn reviewed(mutators: Vec<Arc<dyn Mutator>>, object: &Value) -> Value {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7", "namespace": "shop", "operation": "CREATE",
            "kind": {"group": "flink.apache.org", "version": "v1beta1", "kind": object["kind"]},
            "object": object, "oldObject": null,
        },
    });
    let rules = ReviewRules::new(Jurisdiction::default(), vec![], mutators);
    let live = Arc::new(Live::new(OperatorConfig::default()));
    let webhook = Arc::new(Webhook::new(FakeCluster::new().client(), live, rules));
    let turn = Turn { until: Instant::now() + PATIENCE, permits: Arc::new([]) };
    let body = review.to_string().into_bytes();
    webhook.answer(Task::Mutate, body, turn).await.unwrap()["response"].take()
}

#[tokio::test]
async fn flink_39509_an_object_that_no_mutator_changes_is_handed_on_as_it_was_written() {
    // With numbers as text, nulls and unknown fields: everything that a round trip would lose.
    let object = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {
            "name": "orders", "labels": null, "unknown": [1.50], "managedFields": [],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"flinkConfiguration": {"a": 1, "b": "1"}, "job": null, "newer": {"x": null}},
        "status": {"lifecycleState": "STABLE"},
    });
    let content = saying(Value::Null);
    let mutated = mutate(&[content], Kind::FlinkDeployment, &object, None).await.unwrap();
    assert_eq!(mutated.object.to_string(), object.to_string());
    assert!(mutated.by.is_empty());
    let unchanged = json!({"uid": "7", "allowed": true});
    for mutators in [vec![], vec![saying(Value::Null)]] {
        assert_eq!(reviewed(mutators, &object).await, unchanged);
    }

    // Nor is an object rewritten that the mutator could read: a change is only that change.
    let mut object = serde_json::to_value(Scene::new("stateless").resource).unwrap();
    object["metadata"]["labels"] = json!({"app": "orders"});
    object["metadata"]["managedFields"] = json!([]);
    object["spec"]["flinkConfiguration"]["parallelism.default"] = json!(2);
    object["spec"]["job"]["entryClass"] = Value::Null;
    for nothing in [json!({}), json!([])] {
        assert_eq!(reviewed(vec![saying(nothing)], &object).await, unchanged);
    }
    let label = saying(json!({"metadata": {"labels": {"team": "data"}}}));
    let changed = reviewed(vec![label], &object).await;
    let patch: k8s_openapi::ByteString = serde_json::from_value(changed["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    let added = json!([{"op": "add", "path": "/metadata/labels/team", "value": "data"}]);
    assert_eq!(patch, added);
}
