use futures::future::BoxFuture;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::*;
use crate::controller::notify_others;
use crate::listener::{CloudEvent, Listener, Undelivered};
use clients::flink::access::{Connector, Options};
use lifecycle::event::Event;

struct Ears(UnboundedSender<Value>);

impl Listener for Ears {
    fn name(&self) -> &'static str {
        "ears"
    }

    fn hear<'a>(&'a self, event: &'a CloudEvent) -> BoxFuture<'a, Result<(), Undelivered>> {
        let _heard = self.0.send(event.body().clone());
        Box::pin(async { Ok(()) })
    }
}

/// An API server that returns what it is sent.
fn client() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async {
        Ok::<_, kube::Error>(Response::new(request.into_body()))
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn listeners_get_events_statuses_and_the_end() {
    let (told, mut heard) = unbounded_channel();
    let connector = Connector::new(&Options::default(), None).unwrap();
    let context = Context::new(client(), OperatorConfig::default(), connector, true)
        .with_listeners(vec![Arc::new(Ears(told))]);
    let mut resource: FlinkBlueGreenDeployment = serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "1", "resourceVersion": "1"},
        "spec": {"template": {"spec": {}}},
    }))
    .unwrap();
    let status = BlueGreenStatus {
        blue_green_state: Some(BlueGreenState::ActiveBlue),
        ..BlueGreenStatus::default()
    };
    let mut act = Act::new(&context, resource.clone());
    act.write_status(&status).await.unwrap();
    act.record_event(Event::normal("CutOver", Component::Operator, "it serves")).await.unwrap();
    resource.status = Some(status);
    notify_others(&watcher::Event::Delete(DeserializeGuard(Ok(resource))), &context);
    context.listeners.finish().await;
    let mut lines = Vec::new();
    while let Ok(body) = heard.try_recv() {
        let (data, about) = (&body["data"], &body["data"]["resource"]["kind"]);
        let places = ["/status/blueGreenState", "/event/message", "/previousStatus/blueGreenState"];
        let what = places.iter().find_map(|place| data.pointer(place));
        lines.push(format!("{} {about}: {}", body["type"], what.unwrap()));
    }
    expect_test::expect![[r#"
        "org.apache.flink.kubernetes.status" "FlinkBlueGreenDeployment": "ACTIVE_BLUE"
        "org.apache.flink.kubernetes.event" "FlinkBlueGreenDeployment": "it serves"
        "org.apache.flink.kubernetes.deleted" "FlinkBlueGreenDeployment": "ACTIVE_BLUE""#]]
    .assert_eq(&lines.join("\n"));
}
