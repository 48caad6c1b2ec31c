//! A Kubernetes API server in memory, behind a real `kube::Client`.
//!
//! It stores objects as JSON and implements what clients rely on: resource versions and conflicts, generations, the
//! status subresource, finalizers, owners, label and field selectors, watches, and server-side apply, for which a list
//! is a single field. Where a real one answers otherwise, `conformance` fails. Any request can be made to fail, before or after it is carried out. Pods
//! can have logs, and ports that lead to another fake.

mod failures;
mod fields;
pub(crate) mod http;
mod logs;
mod people;
mod port_forward;
mod rules;
mod selectors;
mod store;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use futures::StreamExt;
use people::Person;
use serde_json::{Value, json};
pub(crate) use store::merge;
use store::{Answer, Store};
use tokio::sync::Notify;

/// What goes wrong with one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Answers with this status and does nothing.
    Status(u16),
    /// The object is missing, as on an API server that lags behind.
    Absent,
    /// Answers with this status and message and does nothing.
    Refused(u16, String),
    /// Does nothing and never answers.
    SilentBefore,
    /// Carries out the request but never answers.
    SilentAfter,
    /// Another client has just stored this object.
    Overtaken(Box<Value>),
}

struct Injected {
    method: Method,
    path_part: String,
    fault: Fault,
    times: usize,
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) body: Value,
    /// The bearer token, if any.
    pub(crate) token: Option<String>,
}

#[derive(Default)]
struct State {
    store: Store,
    faults: Vec<Injected>,
    recorded: Vec<Recorded>,
    /// Token and access reviews.
    reviews: Vec<Recorded>,
    /// Requests proxied to JobManagers.
    proxied: Vec<Recorded>,
    /// Logs by pod name.
    logs: BTreeMap<String, String>,
    /// People by token.
    people: BTreeMap<String, Person>,
}

/// The server; clones share its state.
#[derive(Clone, Default)]
pub(crate) struct FakeCluster {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl FakeCluster {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns a client whose default namespace is `default`.
    pub(crate) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { server.serve(request).await }
        });
        kube::Client::new(service, "default")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Applies `fault` to the next `times` requests with this method and `path_part` in their path.
    pub(crate) fn fail(&self, method: Method, path_part: &str, fault: Fault, times: usize) {
        self.state().faults.push(Injected {
            method,
            path_part: path_part.to_owned(),
            fault,
            times,
        });
    }

    /// Removes all pending faults.
    pub(crate) fn heal(&self) {
        self.state().faults.clear();
    }

    /// Makes the kind with this plural name unknown to the API server.
    pub(crate) fn remove_kind(&self, plural: &str) {
        self.state().store.unknown_kinds.insert(plural.to_owned());
    }

    /// Drops the conditions of the kind with this plural name, as an API server does that has a CRD without them.
    pub(crate) fn drop_conditions(&self, plural: &str) {
        self.state().store.kinds_without_conditions.insert(plural.to_owned());
    }

    /// Rejects the next request with this method and path, with this message.
    pub(crate) fn refuse(&self, method: Method, path_part: &str, code: u16, message: &str) {
        let fault = Fault::Refused(code, message.to_owned());
        self.state().faults.push(Injected {
            method,
            path_part: path_part.to_owned(),
            fault,
            times: 1,
        });
    }

    /// Clears the recorded requests.
    pub(crate) fn forget_requests(&self) {
        self.state().recorded.clear();
    }

    /// Stores an object as is, status included, as if it had existed before.
    pub(crate) fn insert(&self, object: Value) -> Value {
        let stored = self.state().store.insert(object);
        self.changed.notify_waiters();
        stored
    }

    /// Merges `patch` into the status of an object, as its controller would write it.
    pub(crate) fn set_status(&self, plural: &str, namespace: &str, name: &str, patch: &Value) {
        self.state().store.set_status(plural, namespace, name, patch);
        self.changed.notify_waiters();
    }

    /// Returns the stored object.
    pub(crate) fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.state().store.find(plural, namespace, name).cloned()
    }

    /// Returns all objects of a kind, by namespace and name.
    pub(crate) fn objects(&self, plural: &str) -> Vec<Value> {
        self.state().store.all(plural)
    }

    /// Returns the requests that change something, in order.
    pub(crate) fn writes(&self) -> Vec<Recorded> {
        let is_write = |recorded: &&Recorded| recorded.method != Method::GET;
        self.state().recorded.iter().filter(is_write).cloned().collect()
    }

    /// Returns all requests, in order.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state().recorded.clone()
    }

    /// Returns all requests to JobManagers, in order, with the names of their headers in place of a body.
    pub(crate) fn proxied(&self) -> Vec<Recorded> {
        self.state().proxied.clone()
    }

    async fn serve(
        &self,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, Infallible> {
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let uri = parts.uri.to_string();
        let fault = {
            let mut state = self.state();
            state.recorded.push(Recorded {
                method: parts.method.clone(),
                uri: uri.clone(),
                body: body.clone(),
                token: people::token(&parts.headers),
            });
            take_fault(&mut state.faults, &parts.method, &uri)
        };
        let mut is_silent = false;
        match fault {
            Some(Fault::Status(code)) => return Ok(failure(code, "injected", "InjectedFault")),
            Some(Fault::Absent) => {
                return Ok(failure_with(404, "injected", "NotFound", &json!({"name": "injected"})));
            }
            Some(Fault::Refused(code, message)) => return Ok(failure(code, &message, "")),
            Some(Fault::SilentBefore) => return Ok(std::future::pending().await),
            Some(Fault::SilentAfter) => is_silent = true,
            Some(Fault::Overtaken(object)) => drop(self.insert(*object)),
            None => {}
        }
        if let Some(log) = self.log(&parts.uri) {
            return Ok(log);
        }
        let content_type = parts
            .headers
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let accept =
            parts.headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let request = store::Request::parse(parts.method, &parts.uri, content_type, accept, body);
        let answer = self.state().store.handle(&request);
        self.changed.notify_waiters();
        if is_silent {
            return Ok(std::future::pending().await);
        }
        Ok(match answer {
            Answer::Object(code, value) => json_response(code, &value),
            Answer::Failure { code, reason, message, details } => {
                failure_with(code, &message, reason, &details)
            }
            Answer::NoSuchPath => Response::builder()
                .status(StatusCode::NOT_FOUND)
                .body(Body::from("404 page not found\n"))
                .unwrap(),
            Answer::Watch { from } => self.watch(request, from),
        })
    }

    /// Streams the events after the resource version until the client disconnects.
    fn watch(&self, request: store::Request, from: u64) -> Response<Body> {
        let server = self.clone();
        let start = (server, request, from, VecDeque::new());
        let events =
            futures::stream::unfold(start, |(server, request, mut from, mut ready)| async move {
                loop {
                    if let Some(line) = ready.pop_front() {
                        return Some((Ok::<_, Infallible>(line), (server, request, from, ready)));
                    }
                    let changed = server.changed.clone();
                    let notified = changed.notified();
                    let (lines, up_to) = server.state().store.events(&request, from);
                    from = up_to;
                    ready.extend(lines);
                    if ready.is_empty() {
                        // The timeout covers a missed wake-up.
                        drop(tokio::time::timeout(Duration::from_millis(50), notified).await);
                    }
                }
            });
        Response::new(Body::from_stream(events.boxed()))
    }
}

fn take_fault(faults: &mut [Injected], method: &Method, uri: &str) -> Option<Fault> {
    let injected = faults.iter_mut().find(|injected| {
        injected.times > 0 && injected.method == *method && uri.contains(&injected.path_part)
    })?;
    injected.times -= 1;
    Some(injected.fault.clone())
}

fn json_response(code: u16, value: &Value) -> Response<Body> {
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Body::from(value.to_string()))
        .unwrap()
}

fn failure(code: u16, message: &str, reason: &str) -> Response<Body> {
    failure_with(code, message, reason, &Value::Null)
}

fn failure_with(code: u16, message: &str, reason: &str, details: &Value) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "message": message, "reason": reason, "details": details,
    });
    json_response(code, &status)
}
