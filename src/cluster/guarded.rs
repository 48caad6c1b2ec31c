//! A client whose writes stop at a fence: reads go on, whoever leads.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use crate::fence::{Closed, Fence};

/// Puts a fence before a client.
#[derive(Clone, Debug)]
pub(super) struct GuardLayer(pub(super) Fence);

impl<S> Layer<S> for GuardLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, fence: self.0.clone() }
    }
}

/// Around everything that a client does with a request: connecting and trying again come after it.
#[derive(Clone, Debug)]
pub(super) struct Guarded<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        if !self.fence.is_open() {
            return Box::pin(async { Err(Closed.into()) });
        }
        let answer = self.inner.call(request);
        let fence = self.fence.clone();
        Box::pin(async move { fence.guard(answer).await?.map_err(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use tower::ServiceExt;
    use tower::service_fn;

    use super::*;

    /// How many of a read and a write reach the server.
    async fn arrivals(fence: &Fence) -> usize {
        let arrived = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&arrived);
        let server = service_fn(move |_request: Request<()>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, BoxError>(Response::new(())) }
        });
        for method in [Method::GET, Method::PATCH] {
            let client = GuardLayer(fence.clone()).layer(server.clone());
            let request = Request::builder().method(method).body(()).unwrap();
            drop(client.oneshot(request).await);
        }
        arrived.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_closed_fence_lets_reads_pass_and_nothing_else() {
        let fence = Fence::default();
        assert_eq!(arrivals(&fence).await, 2);
        fence.close();
        assert_eq!(arrivals(&fence).await, 1);
    }
}
