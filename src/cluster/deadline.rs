//! A client whose requests end: one that gets no answer in time has failed.
//!
//! Without it a connection that died in silence would hold a reconcile for ever.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service};

/// Silence in the middle of an answer, watches included: longer than the API server lets one last.
const SILENCE_MAX: Duration = Duration::from_mins(6);

/// No answer came in time; whether the request was carried out is not known.
#[derive(Debug, thiserror::Error)]
#[error("no answer after {}s", within.as_secs_f32())]
struct NoAnswer {
    within: Duration,
}

/// A client that waits `within` for the beginning of each answer.
///
/// # Errors
/// A configuration that no client can be made of.
pub fn client(mut config: Config, within: Duration) -> Result<Client, kube::Error> {
    config.read_timeout = Some(SILENCE_MAX.max(within));
    config.reset_reader_on_write = true;
    Ok(ClientBuilder::try_from(config)?.with_layer(&Deadline { within }).build())
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    within: Duration,
}

impl<S> Layer<S> for Deadline {
    type Service = WithDeadline<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithDeadline { inner, within: self.within }
    }
}

struct WithDeadline<S> {
    inner: S,
    within: Duration,
}

impl<S, B> Service<Request<Body>> for WithDeadline<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (answer, within) = (self.inner.call(request), self.within);
        Box::pin(async move {
            match tokio::time::timeout(within, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(NoAnswer { within }.into()),
            }
        })
    }
}
