//! Signs of life of watches: when each was last asked for, and when the API server last said
//! something on it.
//!
//! A watch may be silent for an hour and be well: bookmarks, and the end that the API server gives
//! each watch after some minutes, tell it from one that is stuck. They are seen here alone, in the
//! answers as they come.

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

/// What is known of one watch; times are those of [`fence::now`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signs {
    /// It was asked for, or something came.
    pub stirred: Duration,
    /// Something came that was no refusal.
    pub heard: Option<Duration>,
}

/// All watches of a client, by path and labels.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<BTreeMap<String, Signs>>>);

impl Pulse {
    /// Each watch, with its signs.
    pub fn all(&self) -> BTreeMap<String, Signs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The watch was asked for, or is answered.
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

/// The name of what a request watches; nothing for another request.
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

/// Listens to the answers of a client.
#[derive(Clone, Debug)]
pub(super) struct PulseLayer(pub(super) Pulse);

impl<S> Layer<S> for PulseLayer {
    type Service = Listening<S>;

    fn layer(&self, inner: S) -> Listening<S> {
        Listening { inner, pulse: self.0.clone() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Listening<S> {
    inner: S,
    pulse: Pulse,
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
        let pulse = self.pulse.clone();
        if let Some(watch) = &watch {
            pulse.note(watch, false);
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into)?;
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
