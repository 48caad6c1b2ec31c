//! The port that the API server calls: HTTP/1.1 over TLS, with limits on everything.
//!
//! Callers are not authenticated: a review is answered for anyone who sends one, and changes nothing. So a flood of
//! them costs a bounded amount of memory and processors, and the operator continues.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::routing::post;
use axum::{Json, Router};
use http_body_util::LengthLimitError;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use super::{Error, Task, Turn, Webhook};
use crate::http::{Listener, converse, routes};

/// Maximum number of bytes in a review: an object of the largest size that etcd stores, twice, with what is around it.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Maximum number of reviews that are held at the same time, from their first byte on; more wait.
const HELD_MAX: usize = 64;
/// Maximum time to receive the bytes of one: the API server has them ready.
const READ_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum time for one review: the API server waits ten seconds.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(9);
/// Maximum time for plugins to answer one review, so that their answers still arrive.
const JUDGE_TIME_MAX: Duration = Duration::from_secs(8);
/// Maximum number of reviews that are evaluated at the same time; more wait.
const JUDGED_MAX: usize = 16;
/// Maximum number of concurrent connections; more wait for one of them to end.
const CONNECTIONS_MAX: usize = 256;
/// Maximum duration of a TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may be idle, or take to send the head of a request. The API server closes it after 90 seconds:
/// it must not find one closed that it is about to use.
const IDLE_MAX: Duration = Duration::from_mins(2);
/// How long an answer may take to be read. Nothing reports when it was: a connection that neither gets a request nor is
/// idle for this much longer than [`IDLE_MAX`] is one whose answer is not read.
const TAKE_MAX: Duration = Duration::from_secs(10);

/// The configuration of new connections; `None` while there is no certificate.
pub type Tls = watch::Receiver<Option<Arc<ServerConfig>>>;

/// Limits on how much is done at the same time.
struct Bounds {
    held: Arc<Semaphore>,
    judged: Arc<Semaphore>,
}

/// Why there is no review.
type Refusal = (StatusCode, String);

/// Answers until it is dropped, which ends open connections. A new certificate applies from the next connection on.
pub async fn serve(listener: Listener, tls: Tls, webhook: Arc<Webhook>) {
    let (held, judged) = (Semaphore::new(HELD_MAX), Semaphore::new(JUDGED_MAX));
    let bounds = Arc::new(Bounds { held: Arc::new(held), judged: Arc::new(judged) });
    let by = |task| {
        let (webhook, bounds) = (Arc::clone(&webhook), Arc::clone(&bounds));
        post(move |body| answer(task, body, webhook, bounds))
    };
    let paths = [("/validate", by(Task::Validate)), ("/mutate", by(Task::Mutate))];
    let routes = routes("POST", paths);
    let each = |stream| {
        let (config, routes) = (tls.borrow().clone(), routes.clone());
        async move {
            // Without a certificate, the connection is closed.
            if let Some(config) = config {
                attend(stream, TlsAcceptor::from(config), routes).await;
            }
        }
    };
    listener.each(CONNECTIONS_MAX, each).await;
}

async fn attend(stream: TcpStream, acceptor: TlsAcceptor, routes: Router) {
    let stream = match timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // An error that the API server reports about our certificate arrives here, too.
            tracing::debug!(%error, "TLS handshake with a caller of the webhook failed");
            return;
        }
        Err(_) => return,
    };
    // Notified of every request and every answer.
    let sign = Arc::new(Notify::new());
    let told = Arc::clone(&sign);
    let routes = routes.layer(from_fn(move |request: Request, next: Next| {
        let told = Arc::clone(&told);
        async move {
            told.notify_one();
            let response = next.run(request).await;
            told.notify_one();
            response
        }
    }));
    let lost = async { while timeout(IDLE_MAX + TAKE_MAX, sign.notified()).await.is_ok() {} };
    tokio::select! {
        () = converse(stream, routes, IDLE_MAX, true) => {}
        () = lost => tracing::debug!("an answer was not read"),
    }
}

async fn answer(
    task: Task,
    body: Body,
    webhook: Arc<Webhook>,
    bounds: Arc<Bounds>,
) -> Result<Json<Value>, Refusal> {
    let until = Instant::now() + JUDGE_TIME_MAX;
    let judged = timeout(REVIEW_TIME_MAX, judged(task, body, webhook, &bounds, until)).await;
    let review = judged.unwrap_or_else(|_| {
        tracing::warn!(limit = ?REVIEW_TIME_MAX, "a review took too long");
        Err((StatusCode::SERVICE_UNAVAILABLE, format!("longer than {REVIEW_TIME_MAX:?}")))
    });
    review.map(Json).map_err(|(status, why)| (status, why + "\n"))
}

/// Returns the review that answers the one in the body.
async fn judged(
    task: Task,
    body: Body,
    webhook: Arc<Webhook>,
    bounds: &Bounds,
    until: Instant,
) -> Result<Value, Refusal> {
    let ends = |_| (StatusCode::SERVICE_UNAVAILABLE, "the operator is shutting down".to_owned());
    let held = Arc::clone(&bounds.held).acquire_owned().await.map_err(ends)?;
    let read = timeout(READ_TIME_MAX, to_bytes(body, BODY_BYTES_MAX))
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, format!("not sent within {READ_TIME_MAX:?}")))?;
    let body = read.map_err(|error| {
        let error = error.into_inner();
        if error.is::<LengthLimitError>() {
            return (StatusCode::PAYLOAD_TOO_LARGE, format!("more than {BODY_BYTES_MAX} bytes"));
        }
        (StatusCode::BAD_REQUEST, error.to_string())
    })?;
    let judged = Arc::clone(&bounds.judged).acquire_owned().await.map_err(ends)?;
    let turn = Turn { until, permits: Arc::new([held, judged]) };
    webhook.answer(task, body.into(), turn).await.map_err(|error| {
        let status = match &error {
            Error::Malformed(_) => StatusCode::BAD_REQUEST,
            Error::Broken { .. } => {
                tracing::error!(%error, "a review was not answered");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (status, error.to_string())
    })
}
