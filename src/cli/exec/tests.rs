use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as Asked, State};
use axum::response::Response;
use clap::Parser;
use futures::StreamExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role as End;

use super::*;
use crate::cli::args::{Cli, Command};
use crate::cli::connection::Connection;
use crate::cli::failure::{Kind, kind_of};

fn pod(name: &str, component: &str, phase: &str, is_ready: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "orders", "component": component}},
        "status": {"phase": phase,
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]}})
}

fn pods(all: &[Value]) -> Vec<Pod> {
    all.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect()
}

#[test]
fn a_ready_pod_is_taken_before_one_that_only_runs() {
    let all = pods(&[
        pod("orders-a", "jobmanager", "Pending", false),
        pod("orders-b", "jobmanager", "Running", false),
        pod("orders-c", "jobmanager", "Running", true),
    ]);
    let name = |found: &[Pod], wanted| {
        choose(found, wanted, "orders")
            .map(|pod| pod.metadata.name.clone().unwrap())
            .map_err(|failure| failure.to_string())
    };
    assert_eq!(name(&all, None).unwrap(), "orders-c");
    assert_eq!(name(&all[..2], None).unwrap(), "orders-b");
    assert_eq!(
        name(&all[..1], None).unwrap_err(),
        "no pod of `orders` is running: `orders-a` is Pending"
    );
    assert_eq!(name(&[], None).unwrap_err(), "`orders` has no pod to run it in");
    assert_eq!(name(&all, Some("orders-a")).unwrap(), "orders-a");
    let failure = choose(&all, Some("clicks-a"), "orders").unwrap_err();
    assert_eq!(failure.to_string(), "`orders` has no pod `clicks-a`");
    assert_eq!(failure.hints(), ["it has `orders-a`, `orders-b`, `orders-c`"]);
}

#[test]
fn the_container_is_the_one_that_the_pod_names() {
    let mut pod = pod("orders-a", "jobmanager", "Running", true);
    assert_eq!(container_of(&pods(&[pod.clone()])[0]), MAIN_CONTAINER);
    pod["metadata"]["annotations"] = json!({DEFAULT_CONTAINER: "flink"});
    assert_eq!(container_of(&pods(&[pod])[0]), "flink");
}

/// Returns the status that an API server sends when a command has ended.
fn status(command: &str) -> Option<Value> {
    match command {
        "true" | "sh" => Some(json!({"status": "Success"})),
        "false" => Some(json!({"status": "Failure", "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}})),
        "vim" => Some(json!({"status": "Failure", "message": "executable file not found"})),
        _ => None,
    }
}

type Queries = Arc<Mutex<Vec<String>>>;

/// Serves one deployment with its pods, and containers whose commands print `out` and `err`.
async fn answer(State(queries): State<Queries>, mut asked: Asked) -> Response {
    let path = asked.uri().path().to_owned();
    let query = asked.uri().query().unwrap_or_default().to_owned();
    let object = if path.ends_with("/flinkdeployments/orders") {
        json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "default"}, "spec": {}})
    } else if path.ends_with("/pods") {
        let component = if query.contains("taskmanager") { "taskmanager" } else { "jobmanager" };
        json!({"apiVersion": "v1", "kind": "PodList", "metadata": {},
            "items": [pod(&format!("orders-{component}"), component, "Running", true)]})
    } else if path.ends_with("/exec") {
        queries.lock().unwrap().push(format!("{path}?{query}"));
        let key = asked.headers()["sec-websocket-key"].as_bytes().to_vec();
        let upgrade = hyper::upgrade::on(&mut asked);
        drop(tokio::spawn(async move {
            let stream = TokioIo::new(upgrade.await.unwrap());
            serve(WebSocketStream::from_raw_socket(stream, End::Server, None).await, &query).await;
        }));
        let switched = Response::builder().status(101).header("upgrade", "websocket");
        let switched = switched.header("connection", "Upgrade");
        let switched = switched.header("sec-websocket-protocol", "v5.channel.k8s.io");
        let switched = switched.header("sec-websocket-accept", derive_accept_key(&key));
        return switched.body(Body::empty()).unwrap();
    } else {
        let missing = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": 404, "reason": "NotFound", "message": "not found", "details": {"name": "x"}});
        return Response::builder().status(404).body(Body::from(missing.to_string())).unwrap();
    };
    Response::new(Body::from(object.to_string()))
}

async fn serve(mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>, query: &str) {
    let command = query.split('&').find_map(|part| part.strip_prefix("command=")).unwrap();
    let mut output = b"\x01out \x1b[1m\xff".to_vec();
    // More than all buffers on the way can hold.
    output.resize(200_000, b'x');
    socket.send(Message::binary(output)).await.unwrap();
    socket.send(Message::binary(b"\x02err".to_vec())).await.unwrap();
    if let Some(status) = status(command) {
        let mut last = vec![3];
        last.extend(status.to_string().into_bytes());
        socket.send(Message::binary(last)).await.unwrap();
    }
    drop(socket.close(None).await);
    while matches!(socket.next().await, Some(Ok(_))) {}
}

/// Output and result of a command line, and the requests that the API server received.
struct Ran {
    output: String,
    error: String,
    result: anyhow::Result<()>,
    query: String,
}

async fn ran(line: &str) -> Ran {
    let queries = Queries::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(Arc::clone(&queries));
    drop(tokio::spawn(async move { axum::serve(listener, router).await }));
    drop(rustls::crypto::ring::default_provider().install_default());
    let config = kube::Config::new(url.parse().unwrap());
    let connection = Connection {
        client: kube::Client::try_from(config).unwrap(),
        namespace: "default".to_owned(),
        config: None,
        rest_address: None,
        is_lent: false,
    };
    let words = std::iter::once("kubectl-flink").chain(line.split_whitespace());
    let Cli { command, global } = Cli::try_parse_from(words).unwrap();
    let Command::Exec(args) = command else { panic!("`{line}` is another command") };
    let (printer, transcript) = Printer::in_memory();
    let global = Global { connection: Some(connection), ..global };
    let result = Box::pin(run(args, &global, &printer)).await;
    let query = queries.lock().unwrap().pop().unwrap_or_default();
    Ran { output: transcript.output(), error: transcript.error(), result, query }
}

#[tokio::test]
async fn all_that_a_command_writes_is_passed_on_and_its_exit_code_too() {
    let of_true = ran("exec orders -- true --help").await;
    of_true.result.unwrap();
    assert!(of_true.output.starts_with("out "), "{}", &of_true.output[..20]);
    assert!(of_true.output.len() > 199_000, "{}", of_true.output.len());
    assert_eq!(of_true.error, "err");
    assert_eq!(
        of_true.query,
        "/api/v1/namespaces/default/pods/orders-jobmanager/exec?&stdout=true&stderr=true\
         &container=flink-main-container&command=true&command=--help"
    );
    let of_false = ran("exec orders --role tm -c sidecar -- false").await;
    assert!(of_false.query.contains("/orders-taskmanager/exec"), "{}", of_false.query);
    assert!(of_false.query.contains("container=sidecar"), "{}", of_false.query);
    assert_eq!(kind_of(&of_false.result.unwrap_err()), Kind::Exited(3));
    assert_eq!(of_false.error, "err", "the command has said why");
}

#[tokio::test]
async fn what_did_not_end_by_itself_is_a_failure_of_ours() {
    let message = async |line: &str| ran(line).await.result.unwrap_err().to_string();
    assert_eq!(
        message("exec orders -- vim").await,
        "nothing was run in pod `orders-jobmanager`: executable file not found"
    );
    assert_eq!(
        message("exec orders -- sleep").await,
        "lost the connection to pod `orders-jobmanager` before the command ended; it may still be running"
    );
    assert_eq!(
        message("exec orders --pod orders-x -- true").await,
        "`orders` has no pod `orders-x`"
    );
}

#[test]
fn a_terminal_takes_input() {
    let parsed = |line: &str| Cli::try_parse_from(line.split_whitespace()).is_ok();
    assert!(parsed("kubectl-flink exec orders -it -- bash -c ls"));
    assert!(!parsed("kubectl-flink exec orders -t -- bash"));
    assert!(!parsed("kubectl-flink exec orders --role jm --pod x -- bash"));
}
