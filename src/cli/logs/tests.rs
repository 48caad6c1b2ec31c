use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use clap::Parser;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::cli::connection::Connection;

const POLL: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: LogsArgs,
}

fn pod(name: &str, container_id: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "status": {
            "phase": "Running",
            "containerStatuses": [{
                "name": MAIN_CONTAINER, "containerID": container_id, "image": "flink",
                "imageID": "", "ready": true, "restartCount": 0,
            }],
        },
    })
}

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// Returns a log that never pauses for as long as the pause between two looks.
fn endless_log() -> Answer {
    let lines = stream::unfold(0, |number| async move {
        tokio::time::sleep(POLL / 10).await;
        Some((Ok(Frame::data(Bytes::from(format!("line {number}\n")))), number + 1))
    });
    Response::new(UnsyncBoxBody::new(StreamBody::new(lines)))
}

fn list(pods: Vec<Value>) -> Answer {
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods});
    let body = stream::iter([Ok(Frame::data(Bytes::from(list.to_string())))]).boxed();
    Response::new(UnsyncBoxBody::new(StreamBody::new(body)))
}

/// Returns what is printed until `end`, if the nth look at the pods finds `pods(n)`.
async fn follow(end: &str, pods: fn(usize) -> Vec<Value>) -> String {
    let looks = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = if request.uri().path().ends_with("/log") {
            endless_log()
        } else {
            list(pods(looks.fetch_add(1, Ordering::Relaxed)))
        };
        async move { Ok::<_, std::io::Error>(answer) }
    });
    let connection = Connection {
        client: Client::new(service, "default"),
        namespace: "default".to_owned(),
        config: None,
        rest_address: None,
        is_lent: false,
    };
    let global = Global { connection: Some(connection), ..Global::default() };
    let (printer, transcript) = Printer::in_memory();
    let Line { args } = Line::parse_from(["logs", "orders", "--follow"]);
    let ended = async {
        while !transcript.output().contains(end) {
            tokio::time::sleep(POLL).await;
        }
        // Anything printed too often is printed by now.
        tokio::time::sleep(2 * POLL).await;
    };
    tokio::select! {
        result = show(args, &global, &printer, POLL) => panic!("it ended: {result:?}"),
        end = tokio::time::timeout(PATIENCE, ended) => end.expect("it comes"),
    }
    transcript.output()
}

#[tokio::test]
async fn pods_that_come_later_are_read_though_others_never_pause() {
    let seen = follow("[second] line 0", |look| match look {
        0 => vec![pod("first", "c1")],
        _ => vec![pod("first", "c1"), pod("second", "c2")],
    })
    .await;
    assert_eq!(seen.matches("[first] line 0\n").count(), 1, "{seen}");
}

#[tokio::test]
async fn a_container_that_was_started_again_is_read_again() {
    let seen = follow("[later] line 0", |look| match look {
        0 => vec![pod("first", "c1")],
        _ => vec![pod("first", "c2"), pod("later", "c3")],
    })
    .await;
    assert_eq!(seen.matches("[first] line 0\n").count(), 2, "{seen}");
}

#[tokio::test]
async fn pods_that_are_gone_make_room_for_others() {
    fn many(from: usize) -> Vec<Value> {
        (from..from + PODS_MAX).map(|n| pod(&format!("p{n}"), "c")).collect()
    }
    let last = format!("[p{}] line 0", 2 * PODS_MAX - 1);
    follow(&last, |look| many(if look == 0 { 0 } else { PODS_MAX })).await;
}
