//! Requests directly to the REST endpoint, over the process's connection pool.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONTENT_TYPE, HOST},
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::Instant;

use super::front::Front;
use super::secure::Secure;
use super::{ANSWER_BYTES_MAX, CONNECT_DEADLINE, Options, POOL_IDLE, Target};
use crate::flink::{
    body::streamed,
    client::{Answer, Call, Page, Payload},
    error::{BoxError, Error},
};

/// Idle connections per host; a reconcile sends one request at a time.
const POOL_IDLE_CONNECTIONS: usize = 16;

/// reqwest's builder panics if the process has no TLS provider; installing a second one is refused.
pub(super) fn install_tls_provider() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// The process's connections to Flink.
pub(super) struct Pools {
    plain: reqwest::Client,
    secure: Secure,
}

impl Pools {
    /// Creates pools whose requests send `headers`.
    pub(super) fn new(headers: &HeaderMap, secure: Secure) -> Result<Self, Error> {
        let plain = pool(headers, |builder| builder.tls_certs_only([]))
            .map_err(|problem| Error::Invalid { problem })?;
        Ok(Self { plain, secure })
    }

    fn of(&self, is_tls: bool) -> Result<reqwest::Client, String> {
        if is_tls { self.secure.client() } else { Ok(self.plain.clone()) }
    }
}

pub(super) fn pool(
    headers: &HeaderMap,
    trusting: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .default_headers(headers.clone())
        .user_agent(concat!("kubectl-flink/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // A proxy outside must never resolve names inside the cluster.
        .no_proxy()
        .connect_timeout(CONNECT_DEADLINE)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_IDLE_CONNECTIONS)
        .dns_resolver(Arc::new(InCluster))
        .tcp_nodelay(true);
    trusting(builder).build().map_err(|error| format!("HTTP client: {}", innermost(&error)))
}

/// Looks the Service of a JobManager up as one of the cluster alone. While it does not exist, its short name
/// `NAME-rest.NAMESPACE` would be asked for outside, where namespaces such as `dev` and `shop` are domains.
struct InCluster;

impl Resolve for InCluster {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name_to_resolve(name.as_str());
            let found: Vec<_> = lookup_host((&*host, 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Returns the name by which to look a host up. Certificates and `Host` keep the short one, as in the Java operator.
fn name_to_resolve(host: &str) -> Cow<'_, str> {
    let is_service = host
        .split_once('.')
        .is_some_and(|(service, namespace)| service.ends_with("-rest") && !namespace.contains('.'));
    if is_service { format!("{host}.svc").into() } else { host.into() }
}

/// Parses `Name:value` lines.
pub(super) fn parse_headers(lines: &str) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        // The line may contain a secret, so only its position is reported.
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
    /// Or why there is none.
    http: Result<reqwest::Client, String>,
    /// Without a trailing `/`.
    base_url: String,
    /// The `Host` to send if it differs from that of the URL.
    host: Option<HeaderValue>,
    /// The Service to check before anything is changed.
    front: Option<Arc<Front>>,
    /// Scheme, port and `Host` of a changing call, which is made to the address behind the Service. With https the
    /// certificate shows who answers to the name.
    pinned: Option<(&'static str, u16, HeaderValue)>,
}

impl Direct {
    pub(in crate::flink) fn at(base_url: &str) -> Result<Self, Error> {
        let secure = Secure::of(&Options::default(), HeaderMap::new())?;
        Self::with(&Pools::new(&HeaderMap::new(), secure)?, base_url)
    }

    pub(super) fn with(pools: &Pools, base_url: &str) -> Result<Self, Error> {
        let url = url::Url::parse(base_url).map_err(|error| Error::Invalid {
            problem: format!("invalid base URL `{base_url}`: {error}"),
        })?;
        let base_url = base_url.trim_end_matches('/').to_owned();
        let http = pools.of(url.scheme() == "https");
        Ok(Self { http, base_url, host: None, front: None, pinned: None })
    }

    /// Returns the endpoint behind a Service, or at `address` instead. With `kubernetes` the Service is checked before
    /// anything is changed.
    pub(super) fn of(
        pools: &Pools,
        target: &Target,
        address: Option<&str>,
        kubernetes: Option<&kube::Client>,
    ) -> Self {
        let http = pools.of(target.is_tls);
        let scheme = if target.is_tls { "https" } else { "http" };
        let name = format!("{}.{}:{}", target.service(), target.namespace, target.port);
        let host = HeaderValue::from_str(&name).ok();
        let front = kubernetes.map(|client| Arc::new(Front::new(client.clone(), target)));
        if let Some(address) = address {
            let base_url = format!("{scheme}://{address}");
            return Self { http, base_url, host, front, pinned: None };
        }
        let is_named = target.is_tls && pools.secure.checks_host_name();
        let pinned = host.filter(|_| !is_named).map(|host| (scheme, target.port, host));
        Self { http, base_url: format!("{scheme}://{name}"), host: None, front, pinned }
    }

    /// Returns the URL and the `Host` of a call, unless it changes something and would not reach the cluster's own
    /// JobManager.
    async fn address(
        &self,
        call: &Call,
        within: Duration,
    ) -> Result<(Cow<'_, str>, Option<&HeaderValue>), Error> {
        match (&self.front, &self.pinned) {
            (Some(front), Some((scheme, port, host))) if !call.is_read() => {
                let address = SocketAddr::new(front.address(call, within).await?, *port);
                return Ok((format!("{scheme}://{address}").into(), Some(host)));
            }
            (Some(front), None) if !call.is_read() => front.check(call, within).await?,
            _ => {}
        }
        Ok((Cow::from(&self.base_url), self.host.as_ref()))
    }

    pub(super) async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        let started = Instant::now();
        let fail = |error| failure(call, error, started.elapsed());
        let request = self.request(call, within).await?;
        let left = within.saturating_sub(started.elapsed());
        let mut response = request.timeout(left).send().await.map_err(fail)?;
        let status = response.status().as_u16();
        let content_type = Answer::content_type(response.headers());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(fail)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Error::TooLarge { request: call.name(), limit: ANSWER_BYTES_MAX });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, content_type, body })
    }

    /// Passes a request on. The body of the response is not read yet, and has no deadline.
    pub(super) async fn pass(&self, call: &Call, within: Duration) -> Result<Page, Error> {
        let started = Instant::now();
        let response = self.request(call, within).await?.send().await;
        let response = response.map_err(|error| failure(call, error, started.elapsed()))?;
        let response = http::Response::<reqwest::Body>::from(response);
        Ok(Page::new(response.map(streamed)))
    }

    async fn request(
        &self,
        call: &Call,
        within: Duration,
    ) -> Result<reqwest::RequestBuilder, Error> {
        let http =
            self.http.as_ref().map_err(|problem| Error::Invalid { problem: problem.clone() })?;
        let (base_url, host) = self.address(call, within).await?;
        let mut request = http.request(call.method.clone(), format!("{base_url}{}", call.path));
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        if matches!(call.payload, Payload::Empty) {
            return Ok(request);
        }
        let (content_type, body) = call.body()?;
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        Ok(request.body(reqwest::Body::wrap(body)))
    }

    /// Returns whether the port accepts a connection.
    pub(super) async fn is_up(&self, within: Duration) -> bool {
        let Some((host, port)) = url::Url::parse(&self.base_url)
            .ok()
            .and_then(|url| Some((url.host_str()?.to_owned(), url.port_or_known_default()?)))
        else {
            return false;
        };
        let address = (&*name_to_resolve(&host), port);
        let connected = tokio::time::timeout(within, TcpStream::connect(address)).await;
        matches!(connected, Ok(Ok(_)))
    }
}

/// Where the exchange failed decides whether Flink may have seen the request.
fn failure(call: &Call, error: reqwest::Error, elapsed: Duration) -> Error {
    let request = call.name();
    if error.is_connect() {
        let problem = with_way_out(innermost(&error));
        return Error::Unreachable { request, problem, source: Some(Box::new(error)) };
    }
    if error.is_builder() {
        return Error::Invalid { problem: format!("`{request}`: {}", innermost(&error)) };
    }
    if error.is_timeout() {
        return Error::Timeout { request, after: elapsed, sent_maybe: true };
    }
    let problem = innermost(&error);
    Error::Disconnected { request, problem, source: Some(Box::new(error) as BoxError) }
}

/// Adds what to change if Flink's own client would accept the certificates and ciphers, but this one does not. Flink's
/// client does not check names, so certificates often lack the Service's. And early releases of Flink up to 1.20 offer,
/// by default, only a cipher without forward secrecy, which no current library has.
fn with_way_out(problem: String) -> String {
    if problem.contains("not valid for name") {
        return format!(
            "{problem}; add the name to the certificate, or accept any certificate of Flink's own \
             authorities: set `flinkRest.checkHostName: false` for the installation, or \
             FLINK_REST_CHECK_HOST_NAME=false"
        );
    }
    if problem.contains("HandshakeFailure") {
        return format!(
            "{problem}; Flink offers no cipher for its certificate that clients support: with an \
             RSA key, set `security.ssl.algorithms: {CIPHERS}`"
        );
    }
    problem
}

/// The default of later releases of Flink.
const CIPHERS: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";

/// Returns the innermost cause, which is the meaningful one ("Connection refused").
pub(in crate::flink) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_a_job_manager_is_never_resolved_outside_of_the_cluster() {
        assert_eq!(name_to_resolve("orders-rest.dev"), "orders-rest.dev.svc");
        for other in ["localhost", "10.0.0.1", "flink.example", "orders-rest.dev.svc", "a.b-rest.c"]
        {
            assert_eq!(name_to_resolve(other), other);
        }
    }
}
