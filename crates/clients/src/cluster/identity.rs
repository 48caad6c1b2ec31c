//! Asks the API server who owns a token, and what that person may do.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

use super::Result;
use super::access::Operation;

/// A user that the API server knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity(UserInfo);

impl Identity {
    /// The name, such as `system:serviceaccount:shop:jane`.
    pub fn name(&self) -> &str {
        self.0.username.as_deref().unwrap_or_default()
    }

    /// Distinguishes users who had the same name one after the other.
    pub fn uid(&self) -> &str {
        self.0.uid.as_deref().unwrap_or_default()
    }
}

/// Returns the owner of a token; `None` if the API server does not accept it.
///
/// # Errors
/// If the API server cannot say.
pub async fn of_token(client: &Client, token: &str) -> Result<Option<Identity>> {
    let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let status = answer.status.filter(|status| status.authenticated == Some(true));
    Ok(status.and_then(|status| status.user).map(Identity).filter(|it| !it.name().is_empty()))
}

/// Returns whether this person may carry out the operation in the namespace, or in all namespaces if it is `None`. A
/// response without a verdict allows nothing.
///
/// # Errors
/// If the API server cannot say.
pub async fn may(
    client: &Client,
    Identity(user): &Identity,
    namespace: Option<&str>,
    operation: Operation,
) -> Result<bool> {
    let UserInfo { extra, groups, uid, username } = user.clone();
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: namespace.map(str::to_owned),
                verb: Some(operation.verb.to_owned()),
                group: Some(operation.group.to_owned()),
                resource: Some(operation.resource.to_owned()),
                subresource: operation.subresource.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            extra,
            groups,
            uid,
            user: username,
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
