//! The ConfigMap in which the autoscaler stores what it knows of a job: `autoscaler-NAME`, with the labels of the Java
//! operator, owned by the job's resource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};

use super::apply::OPERATOR_MANAGER;
use super::{Error, Result, read};

/// Value of the label `component`.
const COMPONENT: &str = "autoscaler";

/// Data by key.
pub type Data = BTreeMap<String, String>;

/// The ConfigMap of a job, as it was read or as it will be created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobMap {
    pub data: Data,
    /// Has a resource version if it is stored.
    metadata: ObjectMeta,
}

impl JobMap {
    /// Returns one for this resource that is not stored yet.
    pub fn of<K: Resource<DynamicType = ()>>(resource: &K) -> Self {
        Self::owned_by(resource, resource.meta().name.as_deref().unwrap_or_default())
    }

    /// Returns one for the job `name`, which belongs to this resource.
    pub fn owned_by<K: Resource<DynamicType = ()>>(owner: &K, name: &str) -> Self {
        let ObjectMeta { name: owner_name, namespace, uid, .. } = owner.meta();
        let owner = OwnerReference {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            name: owner_name.clone().unwrap_or_default(),
            uid: uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        };
        let labels = [("component", COMPONENT), ("app", name)];
        let metadata = ObjectMeta {
            name: Some(object_name(name)),
            namespace: namespace.clone(),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        Self { data: Data::new(), metadata }
    }

    pub fn is_stored(&self) -> bool {
        self.metadata.resource_version.is_some()
    }

    /// Returns whether the autoscaler created it, rather than a user who chose the same name.
    fn is_labelled(&self) -> bool {
        let component = self.metadata.labels.as_ref().and_then(|labels| labels.get("component"));
        component.is_some_and(|it| it == COMPONENT)
    }

    /// Returns whether it was created for a resource with one of these uids, rather than by a user who chose the same
    /// name.
    pub fn is_of(&self, uids: &[&str]) -> bool {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        let is_unclaimed = owners.is_empty() && self.is_labelled();
        is_unclaimed || owners.iter().any(|owner| uids.contains(&owner.uid.as_str()))
    }

    /// Returns whether it was created for the resource of this kind and name, even if that no longer exists.
    pub fn is_of_resource(&self, kind: &str, name: &str) -> bool {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        self.is_labelled() && owners.iter().any(|it| it.kind == kind && it.name == name)
    }

    /// Gives it the owner of `other`, from the next time it is stored.
    pub fn set_owner_of(&mut self, other: &Self) {
        self.metadata.owner_references.clone_from(&other.metadata.owner_references);
    }

    /// Returns kind and name of its owner if that has none of these uids: a resource of another kind, or a deleted one
    /// of the same name. A ConfigMap without an owner belongs to no other resource.
    pub fn other_owner(&self, uids: &[&str]) -> Option<String> {
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        if owners.iter().any(|owner| uids.contains(&owner.uid.as_str())) {
            return None;
        }
        owners.first().map(|owner| format!("{} `{}` of uid {}", owner.kind, owner.name, owner.uid))
    }
}

/// Returns the name of the ConfigMap of a resource.
pub fn object_name(resource: &str) -> String {
    format!("{COMPONENT}-{resource}")
}

/// Reads the stored data of a resource, if there is any.
pub async fn find(client: &Client, namespace: &str, resource: &str) -> Result<Option<JobMap>> {
    let found: Option<ConfigMap> = read::get(client, namespace, &object_name(resource)).await?;
    Ok(found.map(|found| {
        let ConfigMap { data, mut metadata, .. } = found;
        metadata.managed_fields = None;
        JobMap { data: data.unwrap_or_default(), metadata }
    }))
}

/// Stores the ConfigMap if it has not changed since it was read. Otherwise the earlier writer wins, and this is a
/// conflict.
pub async fn store(client: &Client, kept: &mut JobMap) -> Result<()> {
    let (Some(name), Some(namespace)) = (&kept.metadata.name, &kept.metadata.namespace) else {
        let message = "the resource has no name or namespace: it was never stored".to_owned();
        return Err(Error::Invalid { message, causes: Vec::new() });
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let object = ConfigMap {
        data: Some(kept.data.clone()),
        metadata: kept.metadata.clone(),
        ..ConfigMap::default()
    };
    let post = PostParams { dry_run: false, field_manager: Some(OPERATOR_MANAGER.to_owned()) };
    let stored = if kept.is_stored() {
        api.replace(name, &post, &object).await?
    } else {
        api.create(&post, &object).await?
    };
    kept.metadata = ObjectMeta { managed_fields: None, ..stored.metadata };
    Ok(())
}
