use std::collections::BTreeMap;
use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

const INTERVAL: Option<Duration> = Some(Duration::from_mins(5));

/// An API server that answers by the path and query of a request.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<BTreeMap<&'static str, (u16, Value)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn answer(&self, path: &'static str, code: u16, answer: Value) {
        self.answers.lock().unwrap().insert(path, (code, answer));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let text = request.uri().to_string();
            server.asked.lock().unwrap().push(text.clone());
            let answers = server.answers.lock().unwrap();
            // The longest that matches: the path of a later page has more in its query.
            let found =
                answers.iter().filter(|(path, _)| path.split('+').all(|of| text.contains(of)));
            let (code, body) = found.max_by_key(|(path, _)| path.len()).map_or_else(
                || (404, json!({"kind": "Status", "code": 404, "message": text, "reason": "NotFound"})),
                |(_, answer)| answer.clone(),
            );
            let response =
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, kube::Error>(response.unwrap()) }
        });
        Client::new(service, "default")
    }
}

fn list(items: &[Value], next: &str) -> Value {
    json!({"metadata": {"continue": next}, "items": items})
}

fn node(name: &str, spec: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {GROUP_LABEL: "workers"}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "3920m", "memory": "16Gi"}},
    })
}

fn pod(node: &str, requests: &Value) -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
    })
}

fn refused() -> Value {
    json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "nodes is forbidden"})
}

#[tokio::test]
async fn what_nodes_have_left_is_read_page_by_page_once_in_an_interval() {
    let server = Server::default();
    let taint = json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]});
    let pool = json!({"taints": [{"key": "flink", "effect": "NoSchedule"}]});
    let cordoned = json!({"unschedulable": true});
    let first = [node("a", json!({})), node("b", cordoned)];
    server.answer("/api/v1/nodes?", 200, list(&first, "more"));
    let rest = [node("c", taint), node("d", pool)];
    server.answer("/api/v1/nodes?+continue=more", 200, list(&rest, ""));
    let pods = [
        pod("a", &json!({"cpu": "500m", "memory": "1Gi"})),
        pod("a", &json!({"cpu": "1"})),
        pod("b", &json!({"cpu": "1"})),
    ];
    server.answer("/api/v1/pods?", 200, list(&pods, ""));
    let (mut view, client) = (View::default(), server.client());

    assert_eq!(view.refresh(INTERVAL, &client).await, None);
    let known = view.known.as_deref().unwrap().as_ref().unwrap();
    let free = |node: &capacity::Node| {
        (
            node.allocatable.cpu_millis - node.used.cpu_millis,
            (node.allocatable.memory.bytes() - node.used.memory.bytes()) >> 30,
        )
    };
    let free: Vec<(u64, u64)> = known.0.iter().map(free).collect();
    assert_eq!(
        free,
        [(2420, 15), (3920, 16)],
        "neither the cordoned one nor one that is not ready"
    );
    let asked = server.asked();
    assert_eq!(
        asked.len(),
        4,
        "two pages of nodes, one of pods, the cluster autoscaler: {asked:?}"
    );
    assert!(asked[2].contains("nodeName"), "{asked:?}");

    let status =
        json!({"data": {"status": "nodeGroups:\n- name: workers\n  health:\n    maxSize: 5\n"}});
    server.answer("/configmaps/cluster-autoscaler-status", 200, status);
    assert_eq!(view.refresh(INTERVAL, &client).await, None);
    assert_eq!(server.asked(), [""; 0], "it is not due");
    view.at = view.at.and_then(|at| at.checked_sub(Duration::from_mins(6)));
    assert_eq!(view.refresh(INTERVAL, &client).await, None);
    assert_eq!(view.known.as_deref().unwrap().as_ref().unwrap().0.len(), 5, "three may still come");

    assert_eq!(view.refresh(None, &client).await, None);
    assert!(view.known.is_none(), "off");
}

#[tokio::test]
async fn without_the_right_it_is_reported_once_and_nothing_is_judged() {
    let server = Server::default();
    server.answer("/api/v1/nodes?", 403, refused());
    let (mut view, client) = (View::default(), server.client());
    let told = view.refresh(INTERVAL, &client).await.unwrap();
    assert!(told.contains("nodes is forbidden"), "{told}");
    assert!(view.known.is_none());
    view.at = None;
    assert_eq!(view.refresh(INTERVAL, &client).await, None, "told before");
    assert_eq!(server.asked().len(), 2);
    // The rights were granted meanwhile.
    server.answer("/api/v1/nodes?", 200, list(&[node("a", json!({}))], ""));
    server.answer("/api/v1/pods?", 200, list(&[], ""));
    view.at = None;
    assert_eq!(view.refresh(INTERVAL, &client).await, None);
    assert!(matches!(view.known.as_deref(), Some(Ok(_))));
}

#[tokio::test]
async fn what_cannot_be_read_is_no_room() {
    let server = Server::default();
    server.answer("/api/v1/nodes?", 200, list(&[node("a", json!({}))], ""));
    let broken = json!({"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd is away"});
    server.answer("/api/v1/pods?", 500, broken);
    let (mut view, client) = (View::default(), server.client());
    assert_eq!(view.refresh(INTERVAL, &client).await, None);
    let Some(Err(reason)) = view.known.as_deref() else { panic!("known") };
    assert!(reason.contains("etcd is away"), "{reason}");
}

#[test]
fn requests_are_counted_as_the_scheduler_counts_them() {
    let of = |spec: Value| {
        let Pod { cpu_millis, memory } =
            requests(&serde_json::from_value(json!({"spec": spec})).unwrap());
        (cpu_millis, memory.bytes())
    };
    let container =
        |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "10"}}});
    let sidecar = |cpu: &str| {
        let mut container = container(cpu);
        container["restartPolicy"] = json!("Always");
        container
    };
    for (what, spec, request) in [
        ("nothing", json!({"containers": [{"name": "c"}]}), (0, 0)),
        ("all containers", json!({"containers": [container("1"), container("500m")]}), (1500, 20)),
        (
            "a larger init container",
            json!({"initContainers": [container("3"), container("2")], "containers": [container("1")]}),
            (3000, 10),
        ),
        (
            "a sidecar goes on",
            json!({"initContainers": [sidecar("1"), container("1500m")], "containers": [container("1")]}),
            (2500, 20),
        ),
        (
            "overhead",
            json!({"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "5"}}),
            (1250, 15),
        ),
    ] {
        assert_eq!(of(spec), request, "{what}");
    }
}

#[test]
fn room_that_another_cycle_took_meanwhile_is_not_taken_again() {
    let mut view = View { known: Some(Arc::new(Ok(Capacity::default()))), ..View::default() };
    let seen = view.known.clone();
    let left = Capacity(vec![capacity::Node::default()]);
    assert!(view.take(seen.as_ref(), &left));
    assert!(!view.take(seen.as_ref(), &Capacity::default()), "it has seen what is no longer true");
    assert_eq!(view.known.as_deref(), Some(&Ok(left.clone())));
    assert!(view.take(view.known.clone().as_ref(), &left));
}
