//! What the caller may do, as the API server sees it.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

use super::Result;

/// One thing to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deed {
    pub verb: &'static str,
    /// Empty for the core group.
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
}

impl Deed {
    /// `patch flinkdeployments.flink.apache.org/status`, as people and `kubectl auth can-i` say it.
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

/// Whether the caller may do this in the namespace; an answer without a verdict allows nothing.
pub async fn may(client: &Client, namespace: &str, deed: Deed) -> Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some(deed.verb.to_owned()),
                group: Some(deed.group.to_owned()),
                resource: Some(deed.resource.to_owned()),
                subresource: deed.subresource.map(str::to_owned),
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
