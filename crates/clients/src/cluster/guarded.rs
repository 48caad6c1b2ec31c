//! A client whose writes stop at a fence. Reads go on without leadership.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use crate::fence::{Closed, Fence};

/// Puts a fence in front of a client.
#[derive(Clone, Debug)]
pub(super) struct GuardLayer(pub(super) Fence);

impl<S> Layer<S> for GuardLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, fence: self.0.clone() }
    }
}

/// Wraps everything that a client does with a request, including connecting and retries.
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
        let fence = match namespace(request.uri().path()) {
            Some(namespace) => self.fence.of(namespace),
            None => self.fence.clone(),
        };
        let Ok(entry) = fence.enter() else {
            return Box::pin(async { Err(Closed.into()) });
        };
        let answer = self.inner.call(request);
        Box::pin(async move { entry.guard(answer).await?.map_err(Into::into) })
    }
}

/// Returns the namespace of a request from its path: the part after `namespaces`.
fn namespace(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    parts.find(|part| *part == "namespaces")?;
    parts.next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use tower::ServiceExt;
    use tower::service_fn;

    use super::*;

    /// Counts how many of a read and a write reach the server.
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

    #[test]
    fn a_path_shows_its_namespace() {
        let apps = "/apis/apps/v1/namespaces/shop/deployments/basic";
        assert_eq!(namespace(apps), Some("shop"));
        assert_eq!(namespace("/api/v1/namespaces/shop/events"), Some("shop"));
        assert_eq!(namespace("/api/v1/namespaces/shop"), Some("shop"));
        assert_eq!(namespace("/k8s/clusters/c-1/api/v1/namespaces/shop/pods/a"), Some("shop"));
        assert_eq!(namespace("/api/v1/namespaces"), None);
        assert_eq!(namespace("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), None);
        assert_eq!(namespace("/version"), None);
    }

    #[tokio::test]
    async fn a_write_needs_the_part_of_its_namespace() {
        let fence = Fence::shut_in_parts(2, |namespace, _| u16::from(namespace != "shop"));
        let later = crate::fence::now() + std::time::Duration::from_hours(1);
        fence.open_until(later);
        fence.part(0).open_until(later);
        let server = service_fn(|_: Request<()>| async { Ok::<_, BoxError>(Response::new(())) });
        let is_let_through = async |path: &str| {
            let client = GuardLayer(fence.clone()).layer(server);
            let request = Request::builder().method(Method::PATCH).uri(path).body(()).unwrap();
            client.oneshot(request).await.is_ok()
        };
        assert!(is_let_through("/api/v1/namespaces/shop/events").await);
        assert!(!is_let_through("/api/v1/namespaces/fraud/events").await);
        assert!(is_let_through("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await);
    }
}
