//! The registration of a webhook: the Secret with its certificate, and the authority that the API server trusts for it.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::apply::{self, ObjectId, Writer};
use super::{Error, Result, read as reads};

/// Number of attempts to write a configuration that others write too.
const TRIES_MAX: u32 = 5;

/// Identifies a Secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretName {
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A Secret as it was read.
#[derive(Clone)]
pub struct CertificateSecret(Secret);

impl CertificateSecret {
    pub const CERTIFICATE: &str = "tls.crt";
    pub const KEY: &str = "tls.key";
    pub const AUTHORITY: &str = "ca.crt";

    /// Returns the value of an entry; empty if there is none.
    pub fn get(&self, name: &str) -> Vec<u8> {
        let data = self.0.data.as_ref();
        data.and_then(|data| data.get(name)).map(|value| value.0.clone()).unwrap_or_default()
    }
}

/// Returns the Secret; `None` if it does not exist.
pub async fn read(client: &Client, name: &SecretName) -> Result<Option<CertificateSecret>> {
    let SecretName { namespace, name } = name;
    Ok(reads::get::<Secret>(client, namespace, name).await?.map(CertificateSecret))
}

/// Replaces these entries of the Secret as it was read, or creates it: a newer version is a conflict.
pub async fn write<const N: usize>(
    client: &Client,
    name: &SecretName,
    stored: Option<CertificateSecret>,
    entries: [(&str, Vec<u8>); N],
) -> Result<()> {
    let api = Api::<Secret>::namespaced(client.clone(), &name.namespace);
    let entries = entries.map(|(name, value)| (name.to_owned(), ByteString(value)));
    let params = PostParams {
        field_manager: Some(apply::OPERATOR_MANAGER.to_owned()),
        ..PostParams::default()
    };
    if let Some(CertificateSecret(mut secret)) = stored {
        secret.data.get_or_insert_default().extend(entries);
        api.replace(&name.name, &params, &secret).await?;
    } else {
        let metadata = ObjectMeta { name: Some(name.name.clone()), ..ObjectMeta::default() };
        let data = Some(BTreeMap::from(entries));
        api.create(&params, &Secret { metadata, data, ..Secret::default() }).await?;
    }
    Ok(())
}

/// Makes the API server trust the authority in `secret` when it calls the webhooks of the two configurations with this
/// name. Writes only while the Secret's authority is `authority` (PEM), because another replica may have stored another
/// one meanwhile. One of the two configurations may be missing.
pub async fn trust(
    client: &Client,
    name: &str,
    secret: &SecretName,
    authority: &[u8],
) -> Result<bool> {
    let mut is_any = false;
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let id = ObjectId {
            api_version: "admissionregistration.k8s.io/v1".to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: name.to_owned(),
        };
        match trust_in(client, &id, secret, authority).await? {
            Trust::Given => is_any = true,
            Trust::Outdated => return Ok(false),
            Trust::NoConfiguration => {}
        }
    }
    if is_any {
        return Ok(true);
    }
    Err(Error::NotFound { resource: "webhook configuration".to_owned(), name: name.to_owned() })
}

enum Trust {
    Given,
    /// The Secret holds another authority.
    Outdated,
    NoConfiguration,
}

/// Makes one configuration trust the authority.
async fn trust_in(
    client: &Client,
    id: &ObjectId,
    secret: &SecretName,
    authority: &[u8],
) -> Result<Trust> {
    let wanted = json!(ByteString(authority.to_vec()));
    let mut tries = 0;
    loop {
        let Some(stored) = reads::get_value(client, id).await? else {
            return Ok(Trust::NoConfiguration);
        };
        let Some(patch) = trusting(&stored, &wanted) else { return Ok(Trust::Given) };
        // The order matters: a replica that stores another authority writes the configuration afterwards, so this patch
        // then has an older version and is refused.
        let kept = read(client, secret).await?.map(|kept| kept.get(CertificateSecret::AUTHORITY));
        if kept.as_deref() != Some(authority) {
            return Ok(Trust::Outdated);
        }
        tries += 1;
        match apply::merge_patch(client, id, &patch, Writer::OPERATOR).await {
            Ok(_) => {
                let (kind, name) = (&id.kind, &id.name);
                tracing::info!(kind, name, "the API server trusts the webhook's certificate");
                return Ok(Trust::Given);
            }
            // Another replica wrote it, most likely the same.
            Err(Error::Conflict { .. }) if tries < TRIES_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the patch that puts `authority` into all webhooks of a configuration as it was read; `None` if it is already
/// there.
fn trusting(stored: &Value, authority: &Value) -> Option<Value> {
    let mut webhooks = stored.get("webhooks")?.as_array()?.clone();
    let mut is_changed = false;
    let configs = webhooks.iter_mut().filter_map(|it| it.get_mut("clientConfig")?.as_object_mut());
    for config in configs {
        let former = config.insert("caBundle".to_owned(), authority.clone());
        is_changed |= former.as_ref() != Some(authority);
    }
    // The patch replaces the whole list, so it must fail if another write came first.
    let version = &stored["metadata"]["resourceVersion"];
    is_changed.then(|| json!({"metadata": {"resourceVersion": version}, "webhooks": webhooks}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whom_to_trust_is_changed_and_only_when_it_is_another() {
        let stored = json!({
            "metadata": {"resourceVersion": "7"},
            "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s"}}, "failurePolicy": "Fail"}],
        });
        let patch = trusting(&stored, &json!("Q0E=")).unwrap();
        let expected = json!({
            "metadata": {"resourceVersion": "7"},
            "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s"}, "caBundle": "Q0E="}, "failurePolicy": "Fail"}],
        });
        assert_eq!(patch, expected);
        assert_eq!(trusting(&patch, &json!("Q0E=")), None, "at rest nothing is written");
        assert_eq!(trusting(&json!({}), &json!("Q0E=")), None);
    }
}
