//! The operator's own HTTP endpoints: an open port, and connections with limits on everything.
//!
//! For probes and scrapers inside the cluster: plain HTTP/1.1, one request per connection. Answers come from memory, so
//! that no request waits for anything. The webhook accepts connections itself, with its own limits.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::MethodRouter;
use axum::serve;
use futures::FutureExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Maximum number of concurrent connections.
const CONNECTIONS_MAX: usize = 64;
/// Maximum duration of a connection, from its beginning to the last byte of its answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bytes in a request's head; a probe's has a few hundred.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Answers exactly these paths. Any other path is answered with a list of them. An answer must not
/// block.
pub fn routes<const N: usize>(methods: &str, paths: [(&'static str, MethodRouter); N]) -> Router {
    let there_is = paths.each_ref().map(|(path, _)| *path).join(" ");
    let elsewhere = (StatusCode::NOT_FOUND, format!("not found; available: {there_is}\n"));
    let otherwise = (StatusCode::METHOD_NOT_ALLOWED, format!("only {methods}\n"));
    let routes = paths.into_iter().fold(Router::new(), |all, (path, by)| all.route(path, by));
    routes.fallback(|| async { elsewhere }).method_not_allowed_fallback(|| async { otherwise })
}

/// An open port that does not answer yet.
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
    /// Opens the port on all addresses of the pod, in both families if both exist; 0 takes any free port.
    pub async fn open(port: u16) -> Result<Self, PortTaken> {
        match Self::at((Ipv6Addr::UNSPECIFIED, port).into()).await {
            // The kernel has no IPv6.
            Err(error) if error.source.kind() != io::ErrorKind::AddrInUse => {
                Self::at((Ipv4Addr::UNSPECIFIED, port).into()).await
            }
            other => other,
        }
    }

    /// Opens the port on this address only.
    pub async fn at(address: SocketAddr) -> Result<Self, PortTaken> {
        let bound = TcpListener::bind(address).await;
        let port = address.port();
        Ok(Self { socket: bound.map_err(|source| PortTaken { port, source })? })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the port, which is not known yet if 0 was requested.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.address()?.port())
    }

    /// Has every connection answered, at most `connections_max` at the same time: one more ends the oldest. If they
    /// waited instead, idle connections of any pod would keep others from an answer, such as the kubelet's probes.
    /// Runs until it is dropped, which ends open connections.
    pub async fn each<C>(mut self, connections_max: usize, answer: impl Fn(TcpStream) -> C)
    where
        C: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            // Retries by itself, for example when no file descriptor is free.
            let (stream, _) = serve::Listener::accept(&mut self.socket).await;
            while connections.try_join_next().is_some() {}
            by_age.retain(|connection| !connection.is_finished());
            if by_age.len() >= connections_max
                && let Some(oldest) = by_age.pop_front()
            {
                oldest.abort();
            }
            by_age.push_back(connections.spawn(answer(stream)));
        }
    }

    /// Answers with `routes`.
    pub async fn serve(self, routes: Router) {
        let answer = |stream| {
            let answered = converse(stream, routes.clone(), CONNECTION_TIME_MAX, false);
            // A client that is this slow gets no answer.
            tokio::time::timeout(CONNECTION_TIME_MAX, answered).map(drop)
        };
        self.each(CONNECTIONS_MAX, answer).await;
    }
}

/// Answers with `routes` until the other end is done, or has not sent the head of a request for this long.
pub async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    routes: Router,
    head_time_max: Duration,
    keep_alive: bool,
) {
    // axum's own server has none of these limits.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(keep_alive)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection broken");
    }
}

#[cfg(test)]
mod tests;
