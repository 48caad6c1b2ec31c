//! Requests straight to the REST endpoint, over the process's connection pool.

use std::time::Duration;

use reqwest::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::Target;
use crate::flink::{
    client::{Answer, Call, Payload},
    error::{BoxError, Error},
};

/// The largest answer that is read. `/jobs/overview` of 10,000 session jobs takes 4 MiB.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A JobManager that does not accept a connection in this time is not reached.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// A Service's address outlives its pods: idle connections are dropped before the usual reconcile
/// interval has passed, so that the next look at a cluster finds the pod of the day.
const POOL_IDLE: Duration = Duration::from_secs(10);

/// The process's connections to Flink.
pub(super) fn pool(headers: HeaderMap) -> Result<reqwest::Client, Error> {
    // reqwest's builder panics where the process has no TLS provider; a second one is refused.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .default_headers(headers)
        .user_agent(concat!("kubectl-flink/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // Names inside the cluster are never to be resolved by a proxy outside.
        .no_proxy()
        .connect_timeout(CONNECT_DEADLINE)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(2)
        .tcp_nodelay(true)
        .build()
        .map_err(|error| Error::Invalid { problem: format!("HTTP client: {}", chain(&error)) })
}

/// Reads `Name:value` lines.
pub(super) fn parse_headers(lines: &str) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        // The line may hold a secret: only its position is told.
        let (name, value) = parsed.ok_or_else(|| Error::Invalid {
            problem: "invalid line in `FLINK_REST_CLIENT_HEADERS`: expected `Name:value`".into(),
        })?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// The REST endpoint at one URL.
#[derive(Clone, Debug)]
pub(in crate::flink) struct Direct {
    http: reqwest::Client,
    /// Without a `/` at its end.
    base_url: String,
    /// What to send as `Host` where the URL does not say it.
    host: Option<HeaderValue>,
}

impl Direct {
    pub(in crate::flink) fn at(base_url: &str) -> Result<Self, Error> {
        url::Url::parse(base_url).map_err(|error| Error::Invalid {
            problem: format!("invalid base URL `{base_url}`: {error}"),
        })?;
        let base_url = base_url.trim_end_matches('/').to_owned();
        Ok(Self { http: pool(HeaderMap::new())?, base_url, host: None })
    }

    pub(super) fn of(http: reqwest::Client, target: &Target, address: Option<&str>) -> Self {
        let scheme = if target.is_tls { "https" } else { "http" };
        let host = format!("{}.{}:{}", target.service(), target.namespace, target.port);
        match address {
            Some(address) => Self {
                http,
                base_url: format!("{scheme}://{address}"),
                host: HeaderValue::from_str(&host).ok(),
            },
            None => Self { http, base_url: format!("{scheme}://{host}"), host: None },
        }
    }

    pub(super) async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        let started = Instant::now();
        let mut request = self
            .http
            .request(call.method.clone(), format!("{}{}", self.base_url, call.path))
            .timeout(within);
        if let Some(host) = &self.host {
            request = request.header(HOST, host);
        }
        request = match &call.payload {
            Payload::Empty => request,
            Payload::Json(body) => {
                request.header("Content-Type", "application/json").body(body.clone())
            }
        };
        let fail = |error| failure(call, error, started.elapsed());
        let mut response = request.send().await.map_err(fail)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(fail)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Error::TooLarge { request: call.name(), limit: ANSWER_BYTES_MAX });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body })
    }

    /// Whether the port accepts a connection.
    pub(super) async fn is_up(&self, within: Duration) -> bool {
        let Some(address) = url::Url::parse(&self.base_url)
            .ok()
            .and_then(|url| Some((url.host_str()?.to_owned(), url.port_or_known_default()?)))
        else {
            return false;
        };
        let connected = tokio::time::timeout(within, tokio::net::TcpStream::connect(address)).await;
        matches!(connected, Ok(Ok(_)))
    }
}

/// Where in the exchange it failed decides whether Flink may have seen the request.
fn failure(call: &Call, error: reqwest::Error, elapsed: Duration) -> Error {
    let request = call.name();
    if error.is_connect() {
        let problem = chain(&error);
        return Error::Unreachable { request, problem, source: Some(Box::new(error)) };
    }
    if error.is_builder() {
        return Error::Invalid { problem: format!("`{request}`: {}", chain(&error)) };
    }
    if error.is_timeout() {
        return Error::Timeout { request, after: elapsed, sent_maybe: true };
    }
    let problem = chain(&error);
    Error::Disconnected { request, problem, source: Some(Box::new(error) as BoxError) }
}

/// The innermost cause, which is the one that says something ("Connection refused").
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
