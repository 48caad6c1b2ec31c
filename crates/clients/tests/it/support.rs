//! A server that stands for a jar store, and requests for it.

pub(crate) mod zookeeper;

use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request as Asked;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use clients::artifact::Request;
use config::FlinkConfig;

pub(crate) const PREFIX: &str = "kubernetes.operator.user.artifacts";

/// A store with one jar at every path.
#[derive(Clone)]
pub(crate) struct Store {
    jar: Arc<Vec<u8>>,
    tag: &'static str,
    /// Answers every request with a tag as if the copy was current.
    confirms_all: bool,
    asked: Arc<Mutex<Vec<HeaderMap>>>,
    pub(crate) address: String,
}

impl Store {
    pub(crate) async fn serve(jar: &[u8], tag: &'static str, confirms_all: bool) -> Self {
        let mut store = Self {
            jar: Arc::new(jar.to_vec()),
            tag,
            confirms_all,
            asked: Arc::default(),
            address: String::new(),
        };
        let shared = store.clone();
        let answer = move |asked: Asked| {
            let shared = shared.clone();
            async move { shared.answer(asked.headers()) }
        };
        store.address = serve(Router::new().fallback(answer)).await;
        store
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        self.asked.lock().unwrap().push(headers.clone());
        let known = headers.get("if-none-match");
        if known.is_some_and(|known| self.confirms_all || known == self.tag) {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        let modified = [("last-modified", "Sat, 01 Nov 2025 00:00:00 GMT")];
        let mut answer = (modified, Body::from(self.jar.to_vec())).into_response();
        if !self.tag.is_empty() {
            answer.headers_mut().insert("etag", HeaderValue::from_static(self.tag));
        }
        answer
    }

    /// The number of requests, and of those that named a version of the jar.
    pub(crate) fn asked(&self) -> (usize, usize) {
        let asked = self.asked.lock().unwrap();
        (asked.len(), asked.iter().filter(|headers| headers.contains_key("if-none-match")).count())
    }
}

/// Serves until the test ends; returns its address.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A request of a job in the namespace, with options of its own. The operator allows local addresses unless `operator`
/// says otherwise.
pub(crate) fn request(
    (namespace, uri): (&str, &str),
    folder: &Path,
    operator: &[(&str, &str)],
    job: &[(&str, &str)],
) -> Request {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut config: FlinkConfig = [
        (format!("{PREFIX}.base.dir"), folder.to_str().unwrap()),
        (format!("{PREFIX}.allowed-schemes"), "http;https;s3;gs;abfss"),
        (format!("{PREFIX}.disallow-restricted-hosts"), "false"),
    ]
    .into_iter()
    .collect();
    config.overlay(&operator.iter().copied().collect());
    let mut effective = config.clone();
    effective.overlay(&job.iter().copied().collect());
    Request::from_config(namespace, uri, &config, &effective).unwrap()
}
