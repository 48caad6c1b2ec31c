//! An S3 store behind a proxy that answers 503, or late, when it is told to. Pods and operators use the same address.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use tokio::net::TcpListener;

use crate::e2e::cluster::{jar, project, said};
use crate::support::patience::PATIENCE;
use crate::support::program::other;

/// By how much a slow answer is late.
const DELAY: Duration = Duration::from_secs(2);
/// More than any state of these jobs.
const BODY_MAX: usize = 64 << 20;

/// How it answers.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Answers {
    Well,
    Unavailable,
    Slowly,
}

struct Shared {
    server: String,
    http: reqwest::Client,
    answers: AtomicU8,
    refused: AtomicUsize,
    late: AtomicUsize,
}

pub(super) struct Store {
    process: Child,
    /// `http://HOST:PORT` of the proxy.
    pub(super) endpoint: String,
    shared: Arc<Shared>,
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Store {
    /// Starts the store with the jar as `s3://jars/jobs/job.jar`, and the proxy at this address.
    pub(super) async fn start(data: &Path, address: IpAddr) -> Self {
        let (process, server) = serve(data);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let shared = Arc::new(Shared {
            server,
            http,
            answers: AtomicU8::new(0),
            refused: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(relay).with_state(Arc::clone(&shared));
        tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { process, endpoint, shared }
    }

    pub(super) fn answer(&self, how: Answers) {
        self.shared.answers.store(how as u8, Ordering::Relaxed);
    }

    /// Returns how many requests it has refused, and how many it has delayed.
    pub(super) fn struck(&self) -> (usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (read(&self.shared.refused), read(&self.shared.late))
    }
}

fn serve(data: &Path) -> (Child, String) {
    let (address, log) = (data.join("s3-address"), data.join("s3.log"));
    let file = fs::File::create(&log).unwrap();
    let mut command = other(project().join("tests/stores/s3.sh"));
    command.arg(jar()).arg(&address).stdout(file.try_clone().unwrap()).stderr(file);
    let mut process = command.spawn().unwrap();
    let start = Instant::now();
    while !address.is_file() {
        let log = || fs::read_to_string(&log).unwrap_or_default();
        assert!(process.try_wait().unwrap().is_none(), "the store ended: {}", log());
        assert!(start.elapsed() < PATIENCE, "the store is not there: {}", log());
        thread::sleep(Duration::from_millis(100));
    }
    (process, fs::read_to_string(address).unwrap())
}

async fn relay(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let answers = shared.answers.load(Ordering::Relaxed);
    if answers == Answers::Unavailable as u8 {
        shared.refused.fetch_add(1, Ordering::Relaxed);
        return plain(StatusCode::SERVICE_UNAVAILABLE);
    }
    if answers == Answers::Slowly as u8 {
        shared.late.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(DELAY).await;
    }
    // Only the store itself would know why.
    forward(&shared, request).await.unwrap_or_else(|_| plain(StatusCode::BAD_GATEWAY))
}

fn plain(status: StatusCode) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

async fn forward(shared: &Shared, request: Request) -> Result<Response, axum::Error> {
    let (mut parts, body) = request.into_parts();
    for name in [HOST, CONNECTION, EXPECT, TRANSFER_ENCODING, CONTENT_LENGTH] {
        parts.headers.remove(name);
    }
    let body = to_bytes(body, BODY_MAX).await?;
    let url = format!("{}{}", shared.server, parts.uri);
    let sent = shared.http.request(parts.method, url).headers(parts.headers).body(body).send();
    let answer = sent.await.map_err(axum::Error::new)?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if ![CONNECTION, TRANSFER_ENCODING].contains(name) {
            response = response.header(name, value);
        }
    }
    let body = answer.bytes().await.map_err(axum::Error::new)?;
    response.body(Body::from(body)).map_err(axum::Error::new)
}

/// Returns Flink's S3 file system of this version, which its image has not.
pub(super) fn plugin(flink_version: &str) -> PathBuf {
    let output = other(project().join("tests/tools.sh")).arg("s3_plugin").output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let folder = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let jars = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_of_version = |jar: &PathBuf| {
        let name = jar.file_name().unwrap().to_string_lossy();
        name.starts_with(&format!("flink-s3-fs-hadoop-{flink_version}."))
    };
    jars.into_iter().find(is_of_version).expect("the plugin of this version")
}
