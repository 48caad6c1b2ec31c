//! A Deployment reduced for thousands of clusters: identity, owner and state.
//!
//! A whole one takes ten times the memory, most of it for an unused pod template, and ten times as long to parse.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use api::{ENDING_ANNOTATION, GENERATION_ANNOTATION};

/// A Deployment without its spec.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Workload {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: Status,
}

/// The part of its status that is used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    #[serde(default)]
    pub replicas: i32,
    #[serde(default)]
    pub available_replicas: i32,
    #[serde(default)]
    pub conditions: Vec<DeploymentCondition>,
}

impl Workload {
    /// Drops unused metadata before it is stored.
    pub fn prune(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.labels = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|key, _| key == GENERATION_ANNOTATION || key == ENDING_ANNOTATION);
        }
    }
}

impl Resource for Workload {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Deployment::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Deployment::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Deployment::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Deployment::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_is_read_without_its_spec_and_retained_without_what_nobody_reads() {
        let mut workload: Workload = serde_json::from_value(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "job",
                "labels": {"app": "job"},
                "annotations": {GENERATION_ANNOTATION: "3", ENDING_ANNOTATION: "x", "other": "x"},
                "managedFields": [{"manager": "m"}],
            },
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": {
                "availableReplicas": 1,
                "conditions": [{"type": "Available", "status": "True"}],
            },
        }))
        .unwrap();
        workload.prune();
        assert_eq!(workload.status.available_replicas, 1);
        assert_eq!(workload.status.conditions[0].type_.as_deref(), Some("Available"));
        let ObjectMeta { labels, annotations, managed_fields, .. } = workload.metadata;
        assert_eq!((labels, managed_fields), (None, None));
        let annotations: Vec<_> = annotations.unwrap().into_iter().collect();
        let kept = [(ENDING_ANNOTATION, "x"), (GENERATION_ANNOTATION, "3")];
        assert_eq!(annotations, kept.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let bare: Workload = serde_json::from_value(json!({"metadata": {"name": "job"}})).unwrap();
        assert_eq!(bare.status.replicas, 0);
        assert_eq!(Workload::api_version(&()), "apps/v1");
    }
}
