use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// Returns the result of `preflight` for these answers about the two kinds.
async fn check(deployments: (u16, Value), snapshots: (u16, Value)) -> Result<bool, String> {
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_about_snapshots = request.uri().path().ends_with("/flinkstatesnapshots");
        let (status, body) = if is_about_snapshots { &snapshots } else { &deployments };
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let mut answer = Response::new(Body::from(body.into_bytes()));
        *answer.status_mut() = StatusCode::from_u16(*status).unwrap();
        async move { Ok::<_, std::io::Error>(answer) }
    });
    let client = kube::Client::new(service, "default");
    preflight(&client, &Watch::AllNamespaces, true).await.map_err(|error| format!("{error:#}"))
}

fn list(items: Value) -> (u16, Value) {
    (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
}

fn refusal(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": reason, "message": message,
    });
    (code, status)
}

fn missing() -> (u16, Value) {
    // The API server's answer without the CRD.
    (404, Value::from("404 page not found"))
}

#[tokio::test]
async fn a_resource_that_cannot_be_read_does_not_keep_the_operator_from_the_others() {
    let odd = json!([{
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "odd", "namespace": "shop"}, "spec": {"flinkVersion": 7},
    }]);
    assert_eq!(check(list(odd.clone()), list(odd)).await, Ok(true));
}

#[tokio::test]
async fn only_an_absent_kind_means_that_snapshots_are_no_resources() {
    assert_eq!(check(list(json!([])), missing()).await, Ok(false));
    let message = "flinkstatesnapshots.flink.apache.org is forbidden: User \"op\" cannot list \
        resource \"flinkstatesnapshots\" in API group \"flink.apache.org\" at the cluster scope";
    let forbidden = refusal(403, "Forbidden", message);
    assert_eq!(check(list(json!([])), forbidden).await, Ok(false));
    let busy = refusal(503, "ServiceUnavailable", "etcd is away");
    let error = check(list(json!([])), busy).await.unwrap_err();
    assert!(error.contains("FlinkStateSnapshot") && error.contains("503"), "{error}");
}

#[tokio::test]
async fn without_its_definition_the_remedy_is_named() {
    let error = check(missing(), missing()).await.unwrap_err();
    assert!(error.contains("kubectl flink crds --apply"), "{error}");
}

#[tokio::test]
async fn one_namespace_that_cannot_be_read_stops_the_start_unless_a_flag_allows_it() {
    let service = tower::service_fn(|request: Request<Body>| {
        let is_foreign = request.uri().path().contains("/namespaces/foreign/");
        let (status, body) =
            if is_foreign { refusal(403, "Forbidden", "not yours") } else { list(json!([])) };
        let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        async move { Ok::<_, std::io::Error>(answer) }
    });
    let client = kube::Client::new(service, "default");
    let watch = Watch::Namespaces(vec!["foreign".to_owned(), "shop".to_owned()]);
    let error = preflight(&client, &watch, true).await.unwrap_err();
    assert!(format!("{error:#}").contains("not yours"), "{error:#}");
    // Snapshots are looked for in a namespace that can be read.
    assert!(preflight(&client, &watch, false).await.unwrap());
}
