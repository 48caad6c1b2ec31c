//! Asks the API server which operations the caller may carry out.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

use super::Result;

/// An operation of the Kubernetes API, as RBAC grants it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Operation {
    pub verb: &'static str,
    /// Empty for the core group.
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
}

impl Operation {
    /// Returns the operation as `kubectl auth can-i` shows it: `patch flinkdeployments.flink.apache.org/status`.
    pub fn shown(&self) -> String {
        let mut text = format!("{} {}", self.verb, self.resource);
        if !self.group.is_empty() {
            text.push('.');
            text.push_str(self.group);
        }
        if let Some(subresource) = self.subresource {
            text.push('/');
            text.push_str(subresource);
        }
        text
    }
}

/// Returns whether the caller may carry out the operation in the namespace. A response without a verdict allows
/// nothing.
pub async fn may(client: &Client, namespace: &str, operation: Operation) -> Result<bool> {
    ask(client, namespace, None, operation).await
}

/// As [`may`], for the object of this name: a role may allow no other one.
pub async fn may_named(
    client: &Client,
    namespace: &str,
    name: &str,
    operation: Operation,
) -> Result<bool> {
    ask(client, namespace, Some(name), operation).await
}

async fn ask(
    client: &Client,
    namespace: &str,
    name: Option<&str>,
    operation: Operation,
) -> Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                name: name.map(str::to_owned),
                verb: Some(operation.verb.to_owned()),
                group: Some(operation.group.to_owned()),
                resource: Some(operation.resource.to_owned()),
                subresource: operation.subresource.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            non_resource_attributes: None,
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
