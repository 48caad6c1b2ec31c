//! Reads one object, or all of a kind.

use std::fmt::Debug;
use std::time::Duration;

use backon::{BackoffBuilder, ConstantBackoff, ConstantBuilder};
use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, Request};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::apply::{ObjectId, to_value};
use super::{Error, Result};

/// Number of objects per request of a list.
const PAGE_SIZE: u32 = 500;

/// Number of objects per request of the list that a watch begins with: they are whole objects, and a page is in memory
/// at once.
const WATCHED_PAGE_SIZE: u32 = 100;

/// Which namespaces to read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope<'a> {
    Namespace(&'a str),
    AllNamespaces,
}

impl<'a> From<Option<&'a str>> for Scope<'a> {
    /// `None` is all namespaces.
    fn from(namespace: Option<&'a str>) -> Self {
        namespace.map_or(Self::AllNamespaces, Self::Namespace)
    }
}

/// A kind of objects in namespaces, read as a type.
pub trait Kind: Namespaced + Clone + Debug + DeserializeOwned {}
impl<K: Namespaced + Clone + Debug + DeserializeOwned> Kind for K {}

/// A kind of objects in namespaces.
pub trait Namespaced: Resource<DynamicType = (), Scope = NamespaceResourceScope> {}
impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Namespaced for K {}

impl Scope<'_> {
    /// Returns the API of the kind in this scope.
    pub fn api<K: Namespaced>(self, client: &Client) -> Api<K> {
        match self {
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
            Self::AllNamespaces => Api::all(client.clone()),
        }
    }
}

/// Returns the object, or `None` if it does not exist.
pub async fn get<K: Kind>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>> {
    match Api::<K>::namespaced(client.clone(), namespace).get(name).await.map_err(Error::from) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns all objects of the kind with these labels, page by page.
pub async fn list<K: Kind>(
    client: &Client,
    scope: Scope<'_>,
    label_selector: Option<&str>,
) -> Result<Vec<K>> {
    list_pages(&scope.api(client), label_selector).await
}

async fn list_pages<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    label_selector: Option<&str>,
) -> Result<Vec<K>> {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    if let Some(selector) = label_selector {
        params = params.labels(selector);
    }
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// Returns the object as stored, with fields that our types do not know; `None` if it does not exist.
pub async fn get_value(client: &Client, id: &ObjectId) -> Result<Option<Value>> {
    match id.api(client).get(&id.name).await.map_err(Error::from) {
        Ok(object) => to_value(&object).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns all objects of the kind as stored.
pub async fn list_values<K: Namespaced>(
    client: &Client,
    scope: Scope<'_>,
    label_selector: Option<&str>,
) -> Result<Vec<Value>> {
    let objects = list_pages(&dynamic_api::<K>(client, scope), label_selector).await?;
    let resource = ApiResource::erase::<K>(&());
    objects
        .into_iter()
        .map(|mut object| {
            // Items of a list have no type of their own.
            object.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
            to_value(&object)
        })
        .collect()
}

/// Returns the result of a list, and an empty one if the kind is not installed. "Not found" does not prove that: a
/// proxy in front of an API server also returns it when it has lost its target, and a reference to a savepoint must not
/// be missed. So this asks the API server which kinds it has.
///
/// # Errors
/// Those of the list and of that request.
pub async fn or_none<K, T>(client: &Client, listed: Result<Vec<T>>) -> Result<Vec<T>>
where
    K: Resource<DynamicType = ()>,
{
    let Err(Error::KindMissing { .. }) = &listed else { return listed };
    let served = client.list_api_group_resources(&K::api_version(&())).await?;
    let plural = K::plural(&());
    if served.resources.iter().any(|resource| resource.name == plural) {
        let message = format!("the API server serves {plural}, but did not find them");
        return Err(Error::Unavailable { status: 404, message });
    }
    Ok(Vec::new())
}

/// Returns the names of all objects of the kind; reads only their metadata.
pub async fn names<K: Kind>(client: &Client, scope: Scope<'_>) -> Result<Vec<String>> {
    let api: Api<K> = scope.api(client);
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut names = Vec::new();
    loop {
        let page = api.list_metadata(&params).await?;
        names.extend(page.items.into_iter().filter_map(|item| item.metadata.name));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(names),
        }
    }
}

/// Returns the namespaces that have an object of the kind with this name.
pub async fn namespaces_with<K: Kind>(client: &Client, name: &str) -> Result<Vec<String>> {
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(PAGE_SIZE);
    let found = Scope::AllNamespaces.api::<K>(client).list_metadata(&params).await?;
    Ok(found.items.into_iter().filter_map(|item| item.metadata.namespace).collect())
}

/// Reads all objects of the kind as `T`, which may be only the parts that are needed. Each page is passed on before the
/// next one is requested, so a whole fleet is never in memory.
pub async fn for_each_page<K, T>(
    client: &Client,
    scope: Scope<'_>,
    label_selector: Option<&str>,
    mut take: impl FnMut(Vec<T>) -> std::io::Result<()>,
) -> Result<std::io::Result<()>>
where
    K: Namespaced,
    T: Clone + Debug + DeserializeOwned,
{
    #[derive(serde::Deserialize)]
    struct Page<T> {
        items: Vec<T>,
        #[serde(default)]
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
    }
    let path = dynamic_api::<K>(client, scope).resource_url().to_owned();
    let mut params = ListParams::default().limit(PAGE_SIZE);
    if let Some(selector) = label_selector {
        params = params.labels(selector);
    }
    loop {
        let request =
            Request::new(path.clone()).list(&params).map_err(kube::Error::BuildRequest)?;
        let page: Page<T> = client.request(request).await?;
        if let Err(error) = take(page.items) {
            return Ok(Err(error));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(Ok(())),
        }
    }
}

/// Watches one object: its present state first, then each change; `None` when it is gone.
///
/// Reconnects within [`WATCH_RETRY_MAX`] after a lost connection, so the stream does not end.
pub fn watch_value(
    client: &Client,
    id: &ObjectId,
) -> impl Stream<Item = Result<Option<Value>>> + use<> {
    watcher::watch_object(id.api(client), &id.name).backoff(Retry::new()).map(|seen| match seen {
        Ok(Some(object)) => to_value(&object).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(from_watch(error)),
    })
}

/// Watches all objects of the kind: the present ones first, then each change.
pub fn watch_values<K: Namespaced>(
    client: &Client,
    scope: Scope<'_>,
    label_selector: Option<&str>,
) -> impl Stream<Item = Result<Seen>> + use<K> {
    let mut config = watcher::Config::default().page_size(WATCHED_PAGE_SIZE);
    if let Some(selector) = label_selector {
        config = config.labels(selector);
    }
    watcher(dynamic_api::<K>(client, scope), config).backoff(Retry::new()).filter_map(
        |event| async {
            match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    Some(to_value(&object).map(Seen::Present))
                }
                Ok(watcher::Event::Delete(object)) => Some(to_value(&object).map(Seen::Gone)),
                Ok(watcher::Event::InitDone) => Some(Ok(Seen::Complete)),
                Ok(watcher::Event::Init) => Some(Ok(Seen::Restart)),
                Err(error) => Some(Err(from_watch(error))),
            }
        },
    )
}

/// Maximum pause before a failed watch is retried.
///
/// The pause does not grow: a person is waiting, and sees the present state at most this long after the API server is
/// back.
pub const WATCH_RETRY_MAX: Duration = Duration::from_secs(4);

/// Pauses between the attempts of a watch, from half of [`WATCH_RETRY_MAX`] to all of it, so that clients that lost the
/// same API server do not reconnect at the same moment.
struct Retry(ConstantBackoff);

impl Retry {
    fn new() -> Self {
        let pauses = ConstantBuilder::new().with_delay(WATCH_RETRY_MAX / 2);
        Self(pauses.without_max_times().with_jitter().build())
    }
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for Retry {
    // Nothing to reset: each pause is like the first.
    fn reset(&mut self) {}
}

/// An item of a watch over many objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// Forget all objects: they follow again.
    Restart,
    /// The object exists, in this state.
    Present(Value),
    /// The object was deleted; this is its last state.
    Gone(Value),
    /// All existing objects have been reported.
    Complete,
}

fn dynamic_api<K: Namespaced>(client: &Client, scope: Scope<'_>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<K>(&());
    match scope {
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        Scope::AllNamespaces => Api::all_with(client.clone(), &resource),
    }
}

pub(super) fn from_watch(error: watcher::Error) -> Error {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error.into(),
        watcher::Error::WatchError(status) => kube::Error::Api(status).into(),
        other @ watcher::Error::NoResourceVersion => Error::Expired { message: other.to_string() },
    }
}
