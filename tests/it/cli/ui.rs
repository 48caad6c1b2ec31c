//! `ui`: who has access to Flink's interface on the local port, and what reaches Flink.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use http::{Method, StatusCode};
use reqwest::{Client, RequestBuilder, Url, redirect};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::commands::{JOB_ID, flink};
use super::signals::{World, ended, lines, send};
use crate::support::fake_flink::FakeFlink;
use crate::support::patience::PATIENCE;

/// The open interface of a job.
struct Opened {
    _world: World,
    _child: Child,
    flink: FakeFlink,
    /// As printed, with the token.
    address: Url,
}

impl Opened {
    async fn new() -> Self {
        let (flink, address) = flink().await;
        let (world, child, address) = open(address).await;
        Self { _world: world, _child: child, flink, address }
    }

    /// The origin of the interface.
    fn own(&self) -> String {
        self.address.origin().ascii_serialization()
    }

    fn send(&self, method: Method, path: &str) -> RequestBuilder {
        client().request(method, self.address.join(path).unwrap())
    }

    /// Opens the address as a browser does, and returns the cookie.
    async fn enter(&self) -> String {
        let entered = client().get(self.address.clone()).send().await.unwrap();
        let cookie = entered.headers().get(SET_COOKIE).map(|value| value.to_str().unwrap());
        cookie.unwrap_or_default().split(';').next().unwrap().to_owned()
    }

    /// The requests that have reached Flink.
    fn arrived(&self) -> Vec<String> {
        self.flink.requests("")
    }
}

/// Starts the command with a JobManager at `flink`.
async fn open(flink: String) -> (World, Child, Url) {
    let world = World::new(flink).await;
    world.cluster.insert(pod("True"));
    let mut child = world.start(&["ui", "wordcount", "--port", "0"]);
    let address = lines(&mut child, 1).await.remove(0).parse().unwrap();
    (world, child, address)
}

fn pod(is_ready: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "wordcount-0", "namespace": "default",
            "labels": {"app": "wordcount", "component": "jobmanager"}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": is_ready}]}})
}

fn token(address: &Url) -> String {
    let token = address.query_pairs().find(|(name, _)| name == "token");
    token.map(|(_, token)| token.into_owned()).unwrap_or_default()
}

fn client() -> Client {
    Client::builder().redirect(redirect::Policy::none()).build().unwrap()
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

fn form(jar: &[u8]) -> (&'static str, Vec<u8>) {
    let head =
        "--b\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"a.jar\"\r\n\r\n";
    let body = [head.as_bytes(), jar, b"\r\n--b--\r\n"].concat();
    ("multipart/form-data; boundary=b", body)
}

#[tokio::test]
async fn pages_of_others_neither_read_nor_change_flink() {
    let opened = Opened::new().await;
    let cookie = opened.enter().await;
    let before = opened.arrived();
    // The browser sends the cookie to every port of this machine.
    let with = |method, path: &str| opened.send(method, path).header(COOKIE, &cookie);
    let foreign = "http://127.0.0.1:3000";
    let (kind, body) = form(b"jar");
    let upload =
        || with(Method::POST, "/jars/upload").header(CONTENT_TYPE, kind).body(body.clone());
    assert_eq!(status(upload().header(ORIGIN, foreign)).await, 403);
    assert_eq!(status(upload().header(ORIGIN, "null")).await, 403);
    assert_eq!(status(upload()).await, 403, "the cookie alone is not enough");
    assert_eq!(status(upload().header("sec-fetch-site", "same-site")).await, 403);
    for method in [Method::POST, Method::PATCH, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let path = format!("/jobs/{JOB_ID}");
        assert_eq!(status(with(method, &path).header(ORIGIN, foreign)).await, 403);
    }
    // Flink cancels a job by GET, too.
    let cancel = format!("/jobs/{JOB_ID}/yarn-cancel");
    assert_eq!(status(with(Method::GET, &cancel)).await, 403);
    assert_eq!(status(with(Method::GET, &cancel).header("sec-fetch-site", "none")).await, 403);
    let read = || with(Method::GET, "/jobs/overview");
    assert_eq!(status(read().header(ORIGIN, foreign)).await, 403);
    assert_eq!(status(read().header("sec-fetch-site", "cross-site")).await, 403);
    assert_eq!(status(read().header(HOST, "evil.example")).await, 403);
    // Nor does anyone on this machine who does not have the token.
    assert_eq!(status(opened.send(Method::GET, "/jobs/overview")).await, 401);
    let posted = opened.send(Method::POST, "/jars/upload").header(ORIGIN, opened.own());
    assert_eq!(status(posted).await, 401);
    let guessed = opened.send(Method::POST, "/jars/upload").header(AUTHORIZATION, "Bearer x");
    assert_eq!(status(guessed).await, 403);
    let stolen = with(Method::POST, "/jars/upload").bearer_auth(token(&opened.address));
    assert_eq!(status(stolen.header(ORIGIN, foreign)).await, 403);
    assert_eq!(opened.arrived(), before, "nothing of this has reached Flink");
}

#[tokio::test]
async fn the_interface_works_and_a_jar_arrives_whole() {
    let opened = Opened::new().await;
    let entered = client().get(opened.address.clone()).send().await.unwrap();
    assert_eq!(entered.status(), StatusCode::SEE_OTHER);
    assert_eq!(entered.headers()[LOCATION], format!("/#/job/running/{JOB_ID}/overview"));
    let cookie = opened.enter().await;
    let page = opened.send(Method::GET, "/").header(COOKIE, &cookie).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'self' "), "{policy}");
    assert!(page.text().await.unwrap().contains("Fake Flink Web Dashboard"));

    let jar = vec![b'j'; 3 << 19];
    let (kind, body) = form(&jar);
    let upload = opened.send(Method::POST, "/jars/upload").header(CONTENT_TYPE, kind);
    let upload = upload.header(COOKIE, &cookie).header(ORIGIN, opened.own()).body(body);
    let answer: Value =
        serde_json::from_str(&upload.send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(answer["status"], "success", "{answer}");

    // A program shows the token.
    let cancel = opened.send(Method::PATCH, &format!("/jobs/{JOB_ID}?mode=cancel"));
    assert_eq!(status(cancel.bearer_auth(token(&opened.address))).await, 202);
    // Flink's own button cancels by GET; a browser says that it comes from the interface.
    let cancel = opened.send(Method::GET, &format!("/jobs/{JOB_ID}/yarn-cancel"));
    let cancel = cancel.header(COOKIE, &cookie).header("sec-fetch-site", "same-origin");
    assert_ne!(status(cancel).await, 403);
    assert_eq!(opened.flink.requests("yarn-cancel").len(), 1);
    let heard = opened.flink.heard();
    for secret in ["cookie", "authorization", "origin", &*token(&opened.address)] {
        assert!(!heard.contains(secret), "{secret}: {heard}");
    }
}

#[tokio::test]
async fn a_jar_is_passed_on_while_it_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (world, _child, address) = open(listener.local_addr().unwrap().to_string()).await;
    let (sender, chunks) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let body = futures::stream::unfold(chunks, async |mut chunks| {
        chunks.recv().await.map(|chunk| (chunk, chunks))
    });
    let upload = client().post(address.join("/jars/upload").unwrap()).bearer_auth(token(&address));
    let upload = tokio::spawn(upload.body(reqwest::Body::wrap_stream(body)).send());
    sender.send(Ok(Bytes::from_static(b"first half"))).await.unwrap();
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.expect("it comes").unwrap();
    let mut heard = Vec::new();
    let mut read_until = async |end: &str| {
        while !String::from_utf8_lossy(&heard).contains(end) {
            let read = timeout(PATIENCE, stream.read_buf(&mut heard)).await.expect("it comes");
            assert_ne!(read.unwrap(), 0, "{}", String::from_utf8_lossy(&heard));
        }
    };
    read_until("first half").await;
    sender.send(Ok(Bytes::from_static(b"other half"))).await.unwrap();
    drop(sender);
    read_until("other half\r\n0\r\n\r\n").await;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    let answer = timeout(PATIENCE, upload).await.expect("it ends").unwrap().unwrap();
    assert_eq!(answer.text().await.unwrap(), "{}");
    drop(world);
}

#[tokio::test]
async fn it_is_open_until_ctrl_c_and_says_once_why_flink_does_not_answer() {
    let (_flink, address) = flink().await;
    let (world, child, address) = open(address).await;
    world.cluster.insert(pod("False"));
    let upload = || {
        let request = client().post(address.join("/jars/upload").unwrap());
        request.bearer_auth(token(&address)).body("{}")
    };
    for _ in 0..2 {
        assert_eq!(status(upload()).await, 502, "no pod is ready");
    }
    world.cluster.insert(pod("True"));
    assert_eq!(status(upload()).await, 400, "Flink's own answer");
    send(&child, Signal::INT);
    let (code, error) = ended(child).await;
    assert_eq!(code, Some(0), "{error}");
    let trouble = "no pod with labels `app=wordcount,component=jobmanager` is ready";
    assert_eq!(error.lines().next(), Some("open until Ctrl-C"), "{error}");
    assert_eq!(error.matches(trouble).count(), 1, "{error}");
    assert!(upload().send().await.is_err(), "nothing listens any more");
    assert_eq!(world.cluster.writes(), []);
}
