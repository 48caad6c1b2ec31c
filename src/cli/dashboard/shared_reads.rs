//! A client that sends each request to the API server once: the parts of a page need the same pods, snapshots and
//! events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, UPGRADE};
use http::{Method, Request, Response, response};
use kube::Client;
use kube::client::Body;
use tokio::sync::OnceCell;
use tower::BoxError;

use super::resource::PART_TIME_MAX;

/// Maximum age of lists of the whole cluster, which are long and seldom change. They tell which operators run.
const CLUSTER_LIST_AGE_MAX: Duration = Duration::from_secs(30);

/// Answers that requests share.
#[derive(Default)]
struct Answers(Mutex<BTreeMap<String, Asked>>);

/// When a question was asked, and its answer once it is there.
type Asked = (Instant, Arc<OnceCell<Answer>>);

#[derive(Clone)]
struct Answer {
    head: response::Parts,
    body: Bytes,
}

impl From<Answer> for Response<Body> {
    fn from(Answer { head, body }: Answer) -> Self {
        Self::from_parts(head, body.into())
    }
}

impl Answers {
    /// Returns the answer to this request, which may be that of an earlier request.
    async fn get(
        &self,
        client: &Client,
        request: Request<Body>,
        age_max: Duration,
    ) -> Result<Response<Body>, BoxError> {
        let shared = self.at(&request, age_max);
        let asked = shared.get_or_try_init(async || {
            let (head, body) =
                client.send(request).await.map_err(|error| Err(error.into()))?.into_parts();
            let body = body.collect_bytes().await.map_err(|error| Err(error.into()))?;
            let answer = Answer { head, body };
            // Errors are not shared: they may be over by the next request.
            if answer.head.status.is_success() { Ok(answer) } else { Err(Ok(answer.into())) }
        });
        asked.await.map_or_else(|unshared| unshared, |answer| Ok(answer.clone().into()))
    }

    fn at(&self, request: &Request<Body>, age_max: Duration) -> Arc<OnceCell<Answer>> {
        let key = format!("{} {:?}", request.uri(), request.headers().get(ACCEPT));
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, (asked_at, _)| asked_at.elapsed() < age_max);
        let (_, answer) = answers.entry(key).or_insert_with(|| (Instant::now(), Arc::default()));
        Arc::clone(answer)
    }
}

/// Creates clients with a person's rights.
pub(super) struct SharedReads {
    client: Client,
    of_cluster: Arc<Answers>,
}

impl SharedReads {
    pub(super) fn new(client: Client) -> Self {
        Self { client, of_cluster: Arc::default() }
    }

    /// Creates a client that reads one page.
    pub(super) fn client(&self) -> Client {
        let (client, of_cluster) = (self.client.clone(), Arc::clone(&self.of_cluster));
        let of_page = Arc::<Answers>::default();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, of_cluster, of_page) =
                (client.clone(), Arc::clone(&of_cluster), Arc::clone(&of_page));
            async move {
                match Read::of(&request) {
                    Some(Read::Cluster) => {
                        of_cluster.get(&client, request, CLUSTER_LIST_AGE_MAX).await
                    }
                    Some(Read::Namespace) => of_page.get(&client, request, PART_TIME_MAX).await,
                    None => client.send(request).await.map_err(Into::into),
                }
            }
        });
        Client::new(service, namespace)
    }
}

/// A request whose answer can be shared.
#[derive(Debug, Eq, PartialEq)]
enum Read {
    /// A list of the whole cluster.
    Cluster,
    /// A list or an object of a namespace.
    Namespace,
}

impl Read {
    /// Returns `None` for a write, a watch, or a subresource such as a log or a tunnel.
    fn of<B>(request: &Request<B>) -> Option<Self> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if request.method() != Method::GET || is_watch || request.headers().contains_key(UPGRADE) {
            return None;
        }
        match request.uri().path().split('/').skip(1).collect::<Vec<_>>()[..] {
            ["api", _, _] | ["apis", _, _, _] => Some(Self::Cluster),
            ["api", _, "namespaces", _, _]
            | ["api", _, "namespaces", _, _, _]
            | ["apis", _, _, "namespaces", _, _]
            | ["apis", _, _, "namespaces", _, _, _] => Some(Self::Namespace),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::StatusCode;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use serde_json::json;

    use super::*;

    /// Returns a client of a fake cluster, with the number of requests that have reached it.
    fn cluster(status: StatusCode) -> (Client, Arc<AtomicUsize>) {
        let arrived = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&arrived);
        let service = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                // Lets the other requests start meanwhile.
                tokio::task::yield_now().await;
                let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [
                    {"metadata": {"name": "orders-1"}}
                ]});
                Response::builder().status(status).body(Body::from(list.to_string().into_bytes()))
            }
        });
        (Client::new(service, "default"), arrived)
    }

    async fn list(client: &Client, namespace: &str) -> kube::Result<usize> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        Ok(pods.list(&kube::api::ListParams::default()).await?.items.len())
    }

    #[tokio::test]
    async fn parts_of_a_page_share_what_they_read_and_pages_do_not() {
        let (client, arrived) = cluster(StatusCode::OK);
        let reads = SharedReads::new(client);
        let page = reads.client();
        let (one, other, elsewhere) =
            tokio::join!(list(&page, "shop"), list(&page, "shop"), list(&page, "lab"));
        assert_eq!((one.unwrap(), other.unwrap(), elsewhere.unwrap()), (1, 1, 1));
        assert_eq!(arrived.load(Ordering::Relaxed), 2);
        assert_eq!(list(&reads.client(), "shop").await.unwrap(), 1);
        assert_eq!(arrived.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn pages_share_lists_of_the_whole_cluster() {
        let (client, arrived) = cluster(StatusCode::OK);
        let reads = SharedReads::new(client);
        for _ in 0..3 {
            let pods: Api<Pod> = Api::all(reads.client());
            assert_eq!(pods.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
        }
        assert_eq!(arrived.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_refusal_is_not_shared() {
        let (client, arrived) = cluster(StatusCode::TOO_MANY_REQUESTS);
        let page = SharedReads::new(client).client();
        for _ in 0..2 {
            list(&page, "shop").await.unwrap_err();
        }
        assert_eq!(arrived.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn only_reads_of_objects_are_shared() {
        let of = |method, path: &str| {
            Read::of(&Request::builder().method(method).uri(path).body(()).unwrap())
        };
        let get = |path| of(Method::GET, path);
        assert_eq!(get("/api/v1/namespaces/shop/pods?limit=500"), Some(Read::Namespace));
        assert_eq!(get("/apis/apps/v1/namespaces/shop/deployments/orders"), Some(Read::Namespace));
        assert_eq!(get("/apis/coordination.k8s.io/v1/leases"), Some(Read::Cluster));
        assert_eq!(get("/api/v1/namespaces/shop/pods?watch=true"), None);
        assert_eq!(get("/api/v1/namespaces/shop/pods/orders-1/log"), None);
        assert_eq!(get("/api/v1/namespaces/shop/services/orders-rest:8081/proxy/jobs"), None);
        assert_eq!(of(Method::POST, "/api/v1/namespaces/shop/pods"), None);
    }
}
