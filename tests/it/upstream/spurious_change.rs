//! Something was restarted, replaced or written although nothing had changed.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kubectl_flink::api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use kubectl_flink::api::session_job::FlinkSessionJobSpec;
use kubectl_flink::decide::diff::{ChangeClass, diff, diff_session_job};
use kubectl_flink::decide::plan::Step;
use kubectl_flink::operator::mutator::{Kind, Mutator, Subject, mutate};
use serde_json::{Value, json};

use crate::decisions::{Scene, deeds, told};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;
use crate::support::operating::with_status;

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
        assert!(deeds(&plan).is_empty(), "{}", told(&plan));
        assert_eq!(plan.status.observed_generation, Some(2));
        let again = edited.after(&plan);
        assert_eq!(*again.plan().status, again.status, "written once");
    }
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
    let ingress = |cluster: &crate::support::fake_cluster::FakeCluster| {
        cluster.object("ingresses", "shop", "orders")
    };
    let first = operating.until("an Ingress is made", ingress).await;
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("FlinkDeployment"), &resource["metadata"]["uid"])
    );
    // An upgrade deletes the Deployment, with everything that belongs to it.
    let client = operating.cluster.client();
    let deployments: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
        kube::Api::namespaced(client, "shop");
    drop(deployments.delete("orders", &kube::api::DeleteParams::default()).await.unwrap());
    assert!(operating.cluster.objects("services").is_empty(), "what is the Deployment's is gone");
    let second = ingress(&operating.cluster).expect("the Ingress stays");
    assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);
    operating.stop().await;
}

/// The Java operator restarts the job.
#[test]
fn an_edited_ingress_is_put_in_place_and_restarts_nothing() {
    let ingress = |template: &str| serde_json::from_value(json!({"template": template})).unwrap();
    let put = |plan: &kubectl_flink::decide::plan::Plan| {
        let one = |step: &Step| match step {
            Step::ApplyIngress(ingress) => Some(ingress.clone()),
            _ => None,
        };
        plan.steps.iter().filter_map(one).collect::<Vec<_>>()
    };
    for mode in ["stateless", "savepoint", "last-state"] {
        let edited =
            Scene::running(mode).edit(|spec| spec.ingress = ingress("{{name}}.example.com"));
        let plan = edited.plan();
        assert_eq!(deeds(&plan), ["apply-ingress"], "{mode}: {}", told(&plan));
        let made = put(&plan)[0].clone().unwrap();
        assert_eq!(made["spec"]["rules"][0]["host"], "orders.example.com");
        let reconciliation = &plan.status.reconciliation_status;
        let last = reconciliation.last_reconciled_spec.as_deref().unwrap();
        assert!(last.contains("{{name}}.example.com"), "{last}");
        assert_eq!(reconciliation.last_stable_spec.as_deref(), Some(last), "it is stable still");
        let again = edited.after(&plan);
        assert!(deeds(&again.plan()).is_empty(), "{}", told(&again.plan()));
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
    scene.store(kubectl_flink::api::job::JobState::Running, scene.job().upgrade_mode);
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
        assert!(deeds(&plan).is_empty(), "{}", told(&plan));
        let edited = scene.clone().edit(|spec| {
            drop(
                spec.flink_configuration
                    .0
                    .insert("taskmanager.numberOfTaskSlots".into(), json!("2")),
            );
        });
        let plan = edited.plan();
        let is_told = plan.steps.iter().any(|step| {
            matches!(step, Step::Event(event) if event.message.contains("flinkConfiguration.taskmanager.numberOfTaskSlots : null -> 2"))
        });
        assert!(is_told, "{}", told(&plan));
    }
}

/// One that has nothing to say.
struct Content;

impl Mutator for Content {
    fn name(&self) -> &'static str {
        "content"
    }

    fn mutate<'a>(&'a self, _subject: &'a Subject) -> BoxFuture<'a, Result<Value, String>> {
        async { Ok(Value::Null) }.boxed()
    }
}

#[tokio::test]
async fn flink_39509_an_object_that_no_mutator_changes_is_handed_on_as_it_was_written() {
    // With numbers as text, nulls and fields that nobody knows: all that a round trip would lose.
    let object = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "labels": null, "unknown": [1.50]},
        "spec": {"flinkConfiguration": {"a": 1, "b": "1"}, "job": null, "newer": {"x": null}},
    });
    let mutated = mutate(&[Arc::new(Content)], Kind::FlinkDeployment, &object, None).await.unwrap();
    assert_eq!(mutated.object.to_string(), object.to_string());
    assert!(mutated.by.is_empty());
}
