//! Requests over a port-forward to a ready pod: a JobManager's, or one with a similar REST API.
//!
//! This needs no listening port on this machine: HTTP is spoken over the forwarded stream itself. One idle connection
//! is kept per cluster; concurrent calls open further ones.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Request, header};
use hyper::body::Body as _;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ListParams, Portforwarder},
};
use tokio::time::Instant;

use super::{POOL_IDLE, PodPort, SMALL_BYTES_MAX, Target, direct::innermost};
use crate::flink::{
    body::{Body, streamed},
    client::{Answer, Call, Page},
    error::{Error, excerpt},
};

/// The REST endpoint of the pods with some labels.
pub(in crate::flink) struct PortForward {
    pods: Api<Pod>,
    labels: String,
    port: u16,
    is_tls: bool,
    headers: HeaderMap,
    /// The most recently used connection, and when it was used.
    idle: Mutex<Option<(SendRequest<Body>, Instant)>>,
}

impl fmt::Debug for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortForward").field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl PortForward {
    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) fn new(kubernetes: kube::Client, target: &Target, headers: &HeaderMap) -> Self {
        let host = format!("{}.{}:{}", target.service(), target.namespace, target.port);
        let mut headers = headers.clone();
        if let Ok(host) = HeaderValue::from_str(&host) {
            headers.insert(header::HOST, host);
        }
        Self {
            pods: Api::namespaced(kubernetes, &target.namespace),
            labels: format!("app={},component=jobmanager", target.cluster_id),
            port: target.port,
            is_tls: target.is_tls,
            headers,
            idle: Mutex::new(None),
        }
    }

    /// Connects to the pods with these labels, which listen without TLS.
    pub(super) fn to_pods(kubernetes: kube::Client, pods: &PodPort, headers: &HeaderMap) -> Self {
        let mut headers = headers.clone();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        Self {
            pods: Api::namespaced(kubernetes, &pods.namespace),
            labels: pods.labels.clone(),
            port: pods.port,
            is_tls: false,
            headers,
            idle: Mutex::new(None),
        }
    }

    pub(super) async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        self.in_time(call, within, async |sent| {
            let (page, connection) = self.send(call, sent).await?;
            let answer = page.read(call).await?;
            self.keep(connection);
            Ok(answer)
        })
        .await
    }

    /// Passes a request on. The connection of a long response ends with it.
    pub(super) async fn pass(&self, call: &Call, within: Duration) -> Result<Page, Error> {
        self.in_time(call, within, async |sent| {
            let (page, connection) = self.send(call, sent).await?;
            if page.body.size_hint().upper().is_none_or(|size| size > SMALL_BYTES_MAX) {
                return Ok(page);
            }
            let answer = page.read(call).await?;
            self.keep(connection);
            Ok(answer.into())
        })
        .await
    }

    async fn in_time<T>(
        &self,
        call: &Call,
        within: Duration,
        sending: impl AsyncFnOnce(&AtomicBool) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.is_tls {
            return Err(Error::Invalid {
                problem: "a port-forward to a REST endpoint with TLS is not supported: \
                          use `--flink-access proxy` or `service`"
                    .into(),
            });
        }
        let sent = AtomicBool::new(false);
        call.in_time(within, || sent.load(Ordering::Relaxed), sending(&sent)).await
    }

    fn keep(&self, connection: SendRequest<Body>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        *idle = Some((connection, Instant::now()));
    }

    async fn send(
        &self,
        call: &Call,
        sent: &AtomicBool,
    ) -> Result<(Page, SendRequest<Body>), Error> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let usable = match kept {
            Some((mut kept, since)) if since.elapsed() < POOL_IDLE => {
                kept.ready().await.is_ok().then_some(kept)
            }
            Some(_) | None => None,
        };
        let mut connection = match usable {
            Some(usable) => usable,
            None => self.connect(call).await?,
        };
        // Taken only now: without a connection the body can still go another way.
        let (content_type, body) = call.body()?;
        let mut request = Request::builder().method(call.method.clone()).uri(&call.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(body)
            .map_err(|error| Error::Invalid { problem: format!("`{}`: {error}", call.name()) })?;
        sent.store(true, Ordering::Relaxed);
        let broken = |error: hyper::Error| {
            let request = call.name();
            let problem = innermost(&error);
            // Canceled means that the connection closed before the request was written.
            if error.is_canceled() {
                Error::Unreachable { request, problem, source: Some(Box::new(error)) }
            } else {
                Error::Disconnected { request, problem, source: Some(Box::new(error)) }
            }
        };
        let response = connection.send_request(request).await.map_err(broken)?;
        let response = response.map(streamed);
        Ok((Page::new(response), connection))
    }

    /// Opens a new connection to a ready pod.
    async fn connect(&self, call: &Call) -> Result<SendRequest<Body>, Error> {
        let Self { port, labels, .. } = self;
        let pods = self
            .pods
            .list(&ListParams::default().labels(labels))
            .await
            .map_err(|error| refused(call, error))?;
        let pod = pods.items.iter().find(|pod| is_ready(pod));
        let Some(name) = pod.and_then(|pod| pod.metadata.name.as_deref()) else {
            let problem = format!("no pod with labels `{labels}` is ready");
            return Err(Error::Unreachable { request: call.name(), problem, source: None });
        };
        let mut forwarder =
            self.pods.portforward(name, &[*port]).await.map_err(|error| refused(call, error))?;
        let unreachable = |problem: String| Error::Unreachable {
            request: call.name(),
            problem: format!("port-forward to pod `{name}`: {problem}"),
            source: None,
        };
        let stream = forwarder.take_stream(*port).ok_or_else(|| unreachable("no stream".into()))?;
        let (sender, connection) = handshake::<_, Body>(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(innermost(&error)))?;
        tokio::spawn(drive(connection, forwarder, name.to_owned()));
        Ok(sender)
    }
}

/// Copies bytes until either side closes the connection.
async fn drive(
    connection: hyper::client::conn::http1::Connection<
        TokioIo<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
        Body,
    >,
    forwarder: Portforwarder,
    pod: String,
) {
    if let Err(error) = connection.await {
        tracing::debug!(%pod, %error, "port-forward ended");
    }
    forwarder.abort();
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|conditions| {
            conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}

/// The API server did not connect us to the pod; nothing was sent to Flink.
fn refused(call: &Call, error: kube::Error) -> Error {
    let request = call.name();
    if let kube::Error::Api(status) = &error
        && matches!(status.code, 401 | 403)
    {
        let message = excerpt(&status.message);
        return Error::Forbidden { request, status: status.code, message };
    }
    let problem = format!("API server: {}", excerpt(&innermost(&error)));
    Error::Unreachable { request, problem, source: Some(Box::new(error)) }
}
