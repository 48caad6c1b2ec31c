//! The port that the API server calls: HTTP/1.1 over TLS, and a bound on everything.
//!
//! Who may call is not known: a review is judged for anybody who sends one, and changes nothing. So a
//! flood of them costs a bounded amount of memory and processors, and the operator goes on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::{Error, Task, Turn, Webhook};
use crate::operator::http::{Listener, text};

/// Most bytes of a review: an object of the largest size that etcd keeps, twice, with what is around
/// it.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Reviews that are held at the same time, from their first byte on; more wait.
const HELD_MAX: usize = 64;
/// The longest that the bytes of one may take: the API server has them ready.
const READ_TIME_MAX: Duration = Duration::from_secs(3);
/// The longest that one review may take: the API server waits ten seconds.
const REVIEW_TIME_MAX: Duration = Duration::from_secs(9);
/// The longest that extensions may take over one: then what they say still arrives.
const JUDGE_TIME_MAX: Duration = Duration::from_secs(8);
/// Reviews that are judged at the same time; more wait.
const JUDGED_MAX: usize = 16;
/// Connections at the same time; more wait for one of them to end.
const CONNECTIONS_MAX: usize = 256;
/// The longest that the two sides may take to agree on keys.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may lie idle, or take over the head of a request. The API server closes it
/// after 90 seconds: it must not find one closed that it is about to use.
const IDLE_MAX: Duration = Duration::from_mins(2);
/// How long an answer may take to be read. Nobody tells when it was: a connection that is neither
/// asked anything nor idle for so much longer than [`IDLE_MAX`] is one whose answer is not taken.
const TAKE_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What new connections are made with; nothing while there is no certificate.
pub type Tls = watch::Receiver<Option<Arc<ServerConfig>>>;

/// How much is done at the same time.
struct Bounds {
    held: Arc<Semaphore>,
    judged: Arc<Semaphore>,
}

/// Answers until it is dropped; connections that are open then end with it. A new certificate counts
/// from the next connection on.
pub async fn serve(listener: Listener, tls: Tls, webhook: Arc<Webhook>) {
    let (held, judged) = (Semaphore::new(HELD_MAX), Semaphore::new(JUDGED_MAX));
    let bounds = Arc::new(Bounds { held: Arc::new(held), judged: Arc::new(judged) });
    let each = |stream| {
        let config = tls.borrow().clone();
        let (webhook, bounds) = (Arc::clone(&webhook), Arc::clone(&bounds));
        async move {
            // Without a certificate there is nothing to say.
            if let Some(config) = config {
                converse(stream, TlsAcceptor::from(config), webhook, bounds).await;
            }
        }
    };
    listener.each(CONNECTIONS_MAX, each).await;
}

async fn converse(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    webhook: Arc<Webhook>,
    bounds: Arc<Bounds>,
) {
    let stream = match tokio::time::timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // What the API server says of our certificate arrives here as well.
            tracing::debug!(%error, "no TLS with who called the webhook");
            return;
        }
        Err(_) => return,
    };
    // Put off by every request and every answer.
    let (deadline, put_off) = watch::channel(Instant::now() + IDLE_MAX + TAKE_MAX);
    let service = service_fn(move |request: Request<Incoming>| {
        let (webhook, bounds) = (Arc::clone(&webhook), Arc::clone(&bounds));
        let deadline = deadline.clone();
        async move {
            deadline.send_replace(Instant::now() + IDLE_MAX + TAKE_MAX);
            let response = answer(request, webhook, &bounds).await;
            deadline.send_replace(Instant::now() + IDLE_MAX + TAKE_MAX);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        served = served => if let Err(error) = served {
            tracing::debug!(%error, "connection broken");
        },
        () = passed(put_off) => tracing::debug!("an answer was not taken"),
    }
}

/// Ends when the deadline is over that was set last.
async fn passed(mut deadline: watch::Receiver<Instant>) {
    loop {
        let until = *deadline.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(until) => return,
            put_off = deadline.changed() => if put_off.is_err() {
                // Nobody will put it off again.
                return tokio::time::sleep_until(until).await;
            },
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    webhook: Arc<Webhook>,
    bounds: &Bounds,
) -> Response<Full<Bytes>> {
    let task = match request.uri().path() {
        "/validate" => Task::Validate,
        "/mutate" => Task::Mutate,
        _ => return told(StatusCode::NOT_FOUND, "not found; there is: /validate /mutate\n"),
    };
    if request.method() != Method::POST {
        return told(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
    }
    let until = Instant::now() + JUDGE_TIME_MAX;
    let judged = judged(task, request.into_body(), webhook, bounds, until);
    match tokio::time::timeout(REVIEW_TIME_MAX, judged).await {
        Ok(Ok(review)) => {
            let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Ok(Err((status, why))) => told(status, why + "\n"),
        Err(_) => {
            tracing::warn!(limit = ?REVIEW_TIME_MAX, "a review took too long");
            told(StatusCode::SERVICE_UNAVAILABLE, format!("longer than {REVIEW_TIME_MAX:?}\n"))
        }
    }
}

/// The review that answers the one in the body; as an error, what is told where there is none.
async fn judged(
    task: Task,
    body: Incoming,
    webhook: Arc<Webhook>,
    bounds: &Bounds,
    until: Instant,
) -> Result<Value, (StatusCode, String)> {
    let ends = |_| (StatusCode::SERVICE_UNAVAILABLE, "it ends".to_owned());
    let held = Arc::clone(&bounds.held).acquire_owned().await.map_err(ends)?;
    let read = Limited::new(body, BODY_BYTES_MAX).collect();
    let read = tokio::time::timeout(READ_TIME_MAX, read)
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, format!("not sent within {READ_TIME_MAX:?}")))?;
    let body = read.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return (StatusCode::PAYLOAD_TOO_LARGE, format!("more than {BODY_BYTES_MAX} bytes"));
        }
        (StatusCode::BAD_REQUEST, error.to_string())
    })?;
    let judged = Arc::clone(&bounds.judged).acquire_owned().await.map_err(ends)?;
    let turn = Turn { until, permits: Arc::new([held, judged]) };
    webhook.answer(task, body.to_bytes().into(), turn).await.map_err(|error| {
        let status = match &error {
            Error::Malformed(_) => StatusCode::BAD_REQUEST,
            Error::Broken { .. } => {
                tracing::error!(%error, "a review has no answer");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        (status, error.to_string())
    })
}

fn told(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    text(status, body).map(Full::new)
}
