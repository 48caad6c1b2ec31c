//! The operator's own HTTP endpoints: a listener and what it answers, path by path.
//!
//! For probes and scrapers inside the cluster: plain HTTP/1.1, one request a connection, and a bound
//! on everything. Answers are made from memory, so that no request waits for anything.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at the same time; more wait for one of them to end.
const CONNECTIONS_MAX: usize = 64;
/// The longest that one connection may take, from its beginning to the last byte of its answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a request's head: a probe's has some hundred.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Pause after a connection that could not be accepted, as when no file is left to open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers a request from what is in memory: it must not block.
pub type Handler = Arc<dyn Fn(&Parts) -> Response<Bytes> + Send + Sync>;

/// What is answered where: GET and HEAD of these paths.
#[derive(Clone, Default)]
pub struct Routes(BTreeMap<&'static str, Handler>);

impl Routes {
    /// With `handler` at exactly this path, such as `/metrics`.
    #[must_use]
    pub fn at(
        mut self,
        path: &'static str,
        handler: impl Fn(&Parts) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        let _replaced = self.0.insert(path, Arc::new(handler));
        self
    }

    fn answer(&self, request: &Parts) -> Response<Bytes> {
        let Some(handler) = self.0.get(request.uri.path()) else {
            let paths = self.0.keys().copied().collect::<Vec<_>>().join(" ");
            return text(StatusCode::NOT_FOUND, format!("not found; there is: {paths}\n"));
        };
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        }
        handler(request)
    }
}

/// An answer in plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// An open port that answers nobody yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
}

/// A port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("port {port} cannot be opened: {source}")]
pub struct PortTaken {
    port: u16,
    source: io::Error,
}

impl Listener {
    /// Opens the port on all addresses of the pod, both families where there are both; 0 takes any
    /// that is free.
    pub async fn open(port: u16) -> Result<Self, PortTaken> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let bound = match TcpListener::bind(any).await {
            // A kernel without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind(("0.0.0.0", port)).await
            }
            other => other,
        };
        Ok(Self { socket: bound.map_err(|source| PortTaken { port, source })? })
    }

    /// Opens the port on this address alone.
    pub async fn at(address: SocketAddr) -> Result<Self, PortTaken> {
        let bound = TcpListener::bind(address).await;
        let port = address.port();
        Ok(Self { socket: bound.map_err(|source| PortTaken { port, source })? })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The port, for one that was opened as 0.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Has every connection answered, no more than `connections_max` at the same time: the others
    /// wait for one of them to end. Until it is dropped; what is open then ends with it.
    pub async fn each<C>(self, connections_max: usize, answer: impl Fn(TcpStream) -> C)
    where
        C: Future<Output = ()> + Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(connections_max));
        let mut connections = tokio::task::JoinSet::new();
        // An error means that the semaphore was closed, which nobody does.
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let stream = match self.socket.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            let connection = answer(stream);
            let _handle = connections.spawn(async move {
                connection.await;
                drop(slot);
            });
        }
    }

    /// Answers by `routes`.
    pub async fn serve(self, routes: Routes) {
        let answer = |stream| {
            // Whoever asks so slowly is not answered.
            let answered =
                tokio::time::timeout(CONNECTION_TIME_MAX, answer_one(stream, routes.clone()));
            answered.map(drop)
        };
        self.each(CONNECTIONS_MAX, answer).await;
    }
}

async fn answer_one(stream: TcpStream, routes: Routes) {
    let service = service_fn(move |request: Request<Incoming>| {
        // The body is nobody's concern; hyper drops it unread.
        let (head, _body) = request.into_parts();
        let response = routes.answer(&head).map(Full::new);
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection broken");
    }
}

#[cfg(test)]
mod tests;
