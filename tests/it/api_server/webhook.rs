//! The admission webhook as a real API server calls it, registered as in an installation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clients::cluster::apply::{self, Writer};
use clients::cluster::webhooks::SecretName;
use config::OperatorConfig;
use jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use operator::http::Listener;
use operator::install::merge::{defaults, merge, typed};
use operator::install::objects::Release;
use operator::live::Live;
use operator::webhook::admit::Jurisdiction;
use operator::webhook::certificate::keep::{Keeper, Source};
use operator::webhook::serve::serve;
use operator::webhook::{ReviewRules, Webhook};
use serde_json::{Value, json};

use super::Server;
use crate::support::patience::PATIENCE;

fn deployment(name: &str, memory: &str) -> Value {
    let text = include_str!("../../reviews/deployment.json");
    let mut deployment: Value = serde_json::from_str(text).unwrap();
    deployment["metadata"] = json!({"name": name});
    for process in ["jobManager", "taskManager"] {
        deployment["spec"][process]["resource"]["memory"] = json!(memory);
    }
    deployment
}

/// Returns the two configurations of an installation that watches `namespace` and fails closed. Only the address
/// differs, because there is no Service here.
fn registrations(namespace: &str, host: &str, port: u16) -> Vec<Value> {
    let mut values = defaults();
    let given = json!({"watchNamespaces": [namespace], "webhook": {"create": true, "failurePolicy": "Fail"}});
    merge(&mut values, given.as_object().unwrap().clone());
    let values = typed(values).unwrap();
    let release = Release { namespace, version: "1.2.3", managed_by: "test", values: &values };
    let mut objects = release.objects();
    objects.retain(|object| object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"));
    assert_eq!(objects.len(), 2);
    for object in &mut objects {
        let config = &mut object["webhooks"][0]["clientConfig"];
        let path = config["service"]["path"].as_str().unwrap();
        *config = json!({"url": format!("https://{host}:{port}{path}")});
    }
    objects
}

async fn remove(client: &Client, object: &Value) {
    let kind = object["kind"].as_str().unwrap();
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let name = object["metadata"]["name"].as_str().unwrap();
    drop(api.delete(name, &DeleteParams::default()).await.unwrap());
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn the_api_server_refuses_what_the_webhook_refuses_and_stores_what_it_changes() {
    let server = Server::with_namespace("webhook").await;
    let (client, namespace) = (server.client.clone(), server.namespace.clone());
    // Created before there was a webhook.
    server.create(&deployment("old", "many")).await.unwrap();

    let listener = Listener::open(0).await.unwrap();
    let host = server.way_back();
    let registrations = registrations(&namespace, &host, listener.port().unwrap());
    for object in &registrations {
        apply::apply(&client, object, Writer::CLI).await.unwrap();
    }
    let name = registrations[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let secret = SecretName { namespace: namespace.clone(), name: "webhook".to_owned() };
    let source = Source::Own { secret, configuration: Some(name) };
    let (mut keeper, tls) = Keeper::new(client.clone(), source, vec![host]);
    keeper.inspect(Timestamp::now()).await.unwrap();
    keeper.inspect(Timestamp::now()).await.unwrap();
    let operator = Arc::new(Live::new(OperatorConfig::default()));
    let rules = ReviewRules::new(Jurisdiction::default(), vec![], vec![]);
    let webhook = Webhook::new(client.clone(), operator, rules);
    let task = tokio::spawn(serve(listener, tls, Arc::new(webhook)));

    let start = Instant::now();
    let refusal = loop {
        let refusal = server.refusal(&deployment("new", "many")).await;
        match refusal {
            Some(text) if text.contains("nothing was stored") => break text,
            other => assert!(start.elapsed() < PATIENCE, "not asked: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(refusal.contains("validationwebhook.flink.apache.org"), "{refusal}");
    for process in ["jobManager", "taskManager"] {
        assert!(refusal.contains(&format!("spec.{process}.resource.memory")), "{refusal}");
    }
    let new = server.create(&deployment("new", "2048m")).await.unwrap();

    let text = include_str!("../../reviews/session-job.json");
    let mut job: Value = serde_json::from_str(text).unwrap();
    job["metadata"] = json!({"generateName": "clicks-"});
    let job = server.create(&job).await.unwrap();
    assert_eq!(job["metadata"]["labels"], json!({"target.session": "session"}), "{job}");

    // Without a running webhook only requests that leave the spec unchanged succeed.
    task.abort();
    let api = server.api_of(&new);
    let params = PatchParams::default();
    let finalizers = |all: Value| Patch::Merge(json!({"metadata": {"finalizers": all}}));
    let status = Patch::Merge(json!({"status": {"error": "an error"}}));
    for name in ["old", "new"] {
        api.patch(name, &params, &finalizers(json!(["example.com/test"]))).await.unwrap();
        api.patch_status(name, &params, &status).await.unwrap();
        let edit = Patch::Merge(json!({"spec": {"job": {"parallelism": 3}}}));
        let refused = api.patch(name, &params, &edit).await.unwrap_err().to_string();
        assert!(refused.contains("webhook"), "{refused}");
        drop(api.delete(name, &DeleteParams::default()).await.unwrap());
        api.patch(name, &params, &finalizers(json!([]))).await.unwrap();
        assert!(api.get_opt(name).await.unwrap().is_none(), "{name} is gone");
    }
    for object in &registrations {
        remove(&client, object).await;
    }
    server.clean_up().await;
}
