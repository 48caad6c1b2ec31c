//! Reads: one object, or all of a kind.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::Result;

/// Objects asked for in one request of a list.
const PAGE_SIZE: u32 = 500;

/// Where to look.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope<'a> {
    Namespace(&'a str),
    AllNamespaces,
}

impl Scope<'_> {
    /// Access to the kind in this scope.
    pub fn api<K>(self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
            Self::AllNamespaces => Api::all(client.clone()),
        }
    }
}

/// The object, or nothing when it is not there.
pub async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    match Api::<K>::namespaced(client.clone(), namespace)
        .get(name)
        .await
        .map_err(super::Error::from)
    {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// All objects of the kind that carry the labels, page by page.
pub async fn list<K>(
    client: &Client,
    scope: Scope<'_>,
    label_selector: Option<&str>,
) -> Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = scope.api(client);
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
