//! Signs of life that a client receives from its watches and from the responses to its requests.
//!
//! For each watch: when it was last requested, and when the API server last sent something on it. A healthy watch may
//! be silent for an hour. Bookmarks, and the end that the API server sets for each watch after some minutes,
//! distinguish it from a stuck one. Both are visible only here, in the responses as they arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tower::{BoxError, Layer, Service};

use crate::fence;
use metrics::traffic::Traffic;

/// The signs of life of one watch. The times are those of [`fence::now`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signs {
    /// It was requested, or something arrived.
    pub stirred: Duration,
    /// Something other than an error arrived.
    pub heard: Option<Duration>,
}

/// All watches of a client, by path and labels.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<BTreeMap<String, Signs>>>);

impl Pulse {
    /// Returns each watch with its signs of life.
    pub fn all(&self) -> BTreeMap<String, Signs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the watches of a namespace, or with `None` those of the whole cluster, which are no longer used.
    pub fn forget(&self, namespace: Option<&str>) {
        let part = namespace.map(|name| format!("/namespaces/{name}/"));
        let is_of = |watch: &str| match &part {
            Some(part) => watch.contains(part.as_str()),
            None => !watch.contains("/namespaces/"),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|watch, _| !is_of(watch));
    }

    /// Records that the watch was requested, or that something arrived on it.
    pub fn note(&self, watch: &str, is_heard: bool) {
        let now = fence::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let signs = all.entry(watch.to_owned()).or_insert(Signs { stirred: now, heard: None });
        signs.stirred = now;
        if is_heard {
            signs.heard = Some(now);
        }
    }
}

/// Returns the name of what a request watches; `None` for other requests.
fn watch_of<B>(request: &Request<B>) -> Option<String> {
    let uri = request.uri();
    let pairs: Vec<(String, String)> =
        url::form_urlencoded::parse(uri.query()?.as_bytes()).into_owned().collect();
    let is_watch = pairs.iter().any(|(key, value)| key == "watch" && value == "true");
    let labels = pairs.iter().find(|(key, _)| key == "labelSelector");
    is_watch.then(|| match labels {
        Some((_, labels)) => format!("{} ({labels})", uri.path()),
        None => uri.path().to_owned(),
    })
}

/// Observes the responses to a client.
#[derive(Clone, Debug)]
pub(super) struct PulseLayer {
    pub(super) pulse: Pulse,
    pub(super) traffic: Traffic,
}

impl<S> Layer<S> for PulseLayer {
    type Service = Listening<S>;

    fn layer(&self, inner: S) -> Listening<S> {
        Listening { inner, heard: self.clone() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Listening<S> {
    inner: S,
    heard: PulseLayer,
}

impl<S, B, A> Service<Request<B>> for Listening<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    A: hyper::body::Body<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let watch = watch_of(&request);
        let PulseLayer { pulse, traffic } = self.heard.clone();
        let asked = fence::now();
        traffic.asked(request.method().as_str(), asked);
        if let Some(watch) = &watch {
            pulse.note(watch, false);
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let (code, now) = (answer.as_ref().ok().map(Response::status), fence::now());
            traffic.answered(code.map(|code| code.as_u16()), now.saturating_sub(asked), now);
            let answer = answer.map_err(Into::into)?;
            let Some(watch) = watch else {
                return Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()));
            };
            let is_good = answer.status().is_success();
            pulse.note(&watch, is_good);
            Ok(answer.map(|body| {
                let told = body.map_frame(move |frame| {
                    pulse.note(&watch, is_good);
                    frame
                });
                told.map_err(Into::into).boxed_unsync()
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use tower::{ServiceExt, service_fn};

    use super::*;
    use config::FlinkConfig;
    use metrics::family::Value;
    use metrics::{Identity, Metrics, Now, Settings};

    #[tokio::test]
    async fn what_a_client_hears_is_counted() {
        let identity =
            Identity { host: String::new(), namespace: String::new(), name: String::new() };
        let metrics = Metrics::new(Settings::of(&FlinkConfig::new()).unwrap(), identity);
        let layer = PulseLayer { pulse: Pulse::default(), traffic: metrics.kubernetes() };
        let server = service_fn(|request: Request<()>| async move {
            let code = match request.uri().path() {
                "/away" => return Err(BoxError::from("gone")),
                path => path.trim_start_matches('/').parse::<u16>()?,
            };
            Ok::<_, BoxError>(Response::builder().status(code).body(Empty::<Bytes>::new())?)
        });
        for path in ["/200", "/200", "/409", "/away"] {
            let request = Request::get(path).body(()).unwrap();
            drop(layer.layer(server).oneshot(request).await);
        }
        let count = |name: &str| {
            let families =
                metrics.families(Now { clock: fence::now(), time: jiff::Timestamp::now() });
            let family = families.iter().find(|family| family.name == format!("KubeClient.{name}"));
            family.map(|family| family.points[0].value.clone())
        };
        for (name, expected) in [
            ("HttpRequest.Count", 4.0),
            ("HttpRequest.GET.Count", 4.0),
            ("HttpRequest.Failed.Count", 2.0),
            ("HttpResponse.Count", 3.0),
            ("HttpResponse.200.Count", 2.0),
            ("HttpResponse.409.Count", 1.0),
        ] {
            assert_eq!(count(name), Some(Value::Count(expected)), "{name}");
        }
    }
}
