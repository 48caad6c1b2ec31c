//! Checks that must pass before anything is watched.

use anyhow::Context;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use serde::de::DeserializeOwned;

use api::deployment::FlinkDeployment;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster::{self, Error};
use operator::run::Watch;

/// Checks that deployments can be listed, and returns whether snapshots are stored as resources. Objects that cannot be
/// parsed do not fail the check, nor do namespaces that cannot be read unless `stops` is set.
pub(super) async fn preflight(
    client: &kube::Client,
    watch: &Watch,
    stops: bool,
) -> anyhow::Result<bool> {
    let scopes = watch.scopes();
    let mut readable = None;
    for scope in &scopes {
        if let Err(error) = probe::<FlinkDeployment>(client, scope.as_deref()).await {
            let is_missing = matches!(error, Error::KindMissing { .. });
            let failure = anyhow::Error::from(error);
            if !stops && !is_missing {
                let scope = scope.as_deref().unwrap_or("all namespaces");
                let error = format!("{failure:#}");
                tracing::error!(scope, error, "not operated until it can be read");
                continue;
            }
            return Err(if is_missing {
                failure.context(
                    "the FlinkDeployment resource is not installed: run `kubectl flink crds --apply`",
                )
            } else {
                failure
            });
        }
        readable = readable.or(Some(scope));
    }
    let scope = readable.or(scopes.first()).and_then(Option::as_deref);
    match probe::<FlinkStateSnapshot>(client, scope).await {
        Ok(()) => Ok(true),
        // Without the kind, permissions for it are usually missing as well.
        Err(Error::KindMissing { .. } | Error::Forbidden { .. }) => Ok(false),
        // Fail rather than guess where snapshots are recorded.
        Err(error) => Err(error).context("while looking for FlinkStateSnapshot resources"),
    }
}

async fn probe<K>(client: &kube::Client, scope: Option<&str>) -> cluster::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<DeserializeGuard<K>> = match scope {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    api.list(&ListParams::default().limit(1)).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
