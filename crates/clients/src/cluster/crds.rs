//! The definitions of our four kinds in a cluster.
//!
//! They are written by server-side apply. A definition that would make the API server drop a field of stored objects is
//! never written: a newer operator may have added the field.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};

use super::apply::CLI_MANAGER;
use api::crd;

/// Why the definitions are not in place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kubernetes(#[from] super::Error),
    #[error(
        "the installed `{definition}` has fields that this version does not know, and stored \
         objects would lose them: {}", fields.join(", ")
    )]
    WouldDropFields { definition: String, fields: Vec<String> },
    #[error("`{definition}` was not established after {}s", waited.as_secs())]
    NotEstablished { definition: String, waited: Duration },
    #[error("while waiting for `{definition}`")]
    Watch { definition: String, source: kube::runtime::wait::Error },
}

/// The result of applying a definition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    Created,
    Configured,
    Unchanged,
}

/// A definition that was applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Applied {
    /// Such as `flinkdeployments.flink.apache.org`.
    pub name: String,
    pub change: Change,
}

/// Returns the definitions that suit the API server: without rules if it would apply them to stored objects too.
pub async fn for_server(client: &Client) -> Result<Vec<CustomResourceDefinition>, super::Error> {
    let version = client.apiserver_version().await?;
    let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    let definitions = crd::all();
    // A version that cannot be parsed is a new one, because the old ones are known.
    if version.major == "1"
        && minor.parse().is_ok_and(|minor: u32| minor < crd::RATCHETING_SINCE_MINOR)
    {
        return Ok(definitions.into_iter().map(crd::without_rules).collect());
    }
    Ok(definitions)
}

/// Applies `definitions`, or with `dry_run` lets the API server validate them. All are checked before the first is
/// written.
pub async fn apply(
    client: &Client,
    definitions: &[CustomResourceDefinition],
    dry_run: bool,
) -> Result<Vec<Applied>, Error> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut versions_before = Vec::new();
    for definition in definitions {
        let name = name(definition);
        let before = api.get_opt(name).await.map_err(super::Error::from)?;
        if let Some(before) = &before {
            refuse_dropped_fields(before, definition)?;
        }
        versions_before.push(before.and_then(|before| before.metadata.resource_version));
    }
    let params = PatchParams { dry_run, ..PatchParams::apply(CLI_MANAGER).force() };
    let mut applied = Vec::new();
    for (definition, before) in definitions.iter().zip(versions_before) {
        let name = name(definition);
        let after = api
            .patch(name, &params, &Patch::Apply(definition))
            .await
            .map_err(super::Error::from)?;
        let change = match before {
            None => Change::Created,
            before if before == after.metadata.resource_version => Change::Unchanged,
            Some(_) => Change::Configured,
        };
        applied.push(Applied { name: name.to_owned(), change });
    }
    Ok(applied)
}

/// Waits until the API server serves all of `definitions`, for at most `timeout` in total.
pub async fn wait_until_established(
    client: &Client,
    definitions: &[CustomResourceDefinition],
    timeout: Duration,
) -> Result<(), Error> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let deadline = tokio::time::Instant::now() + timeout;
    for definition in definitions {
        let definition = name(definition);
        let established =
            await_condition(api.clone(), definition, conditions::is_crd_established());
        match tokio::time::timeout_at(deadline, established).await {
            Ok(Ok(_)) => {}
            Ok(Err(source)) => {
                return Err(Error::Watch { definition: definition.to_owned(), source });
            }
            Err(_) => {
                return Err(Error::NotEstablished {
                    definition: definition.to_owned(),
                    waited: timeout,
                });
            }
        }
    }
    Ok(())
}

/// How an installed definition differs from the one of this program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Drift {
    Missing,
    Same,
    /// It has other fields; writing ours would drop none of them.
    Different,
    /// It has fields that this version does not know.
    Newer {
        fields: Vec<String>,
    },
}

/// Compares which fields the two store: texts and defaults that an API server adds are not drift.
pub fn drift(
    installed: Option<&CustomResourceDefinition>,
    ours: &CustomResourceDefinition,
) -> Drift {
    let Some(installed) = installed else { return Drift::Missing };
    if let Err(Error::WouldDropFields { fields, .. }) = refuse_dropped_fields(installed, ours) {
        return Drift::Newer { fields };
    }
    if crd::fields(installed) == crd::fields(ours) { Drift::Same } else { Drift::Different }
}

/// Returns the names of the installed definitions that drop the conditions of a status, which those of this program keep.
///
/// # Errors
/// If the definitions cannot be read.
pub async fn without_conditions(client: &Client) -> super::Result<Vec<String>> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut found = Vec::new();
    for ours in crd::all() {
        let installed = api.get_opt(name(&ours)).await?;
        if installed.is_some_and(|installed| drops_conditions(&installed, &ours)) {
            found.push(name(&ours).to_owned());
        }
    }
    Ok(found)
}

fn drops_conditions(installed: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> bool {
    let path = format!("{}.status.conditions", ours.spec.names.kind);
    let has = |definition| crd::fields(definition).iter().any(|field| field.path == path);
    has(ours) && !has(installed)
}

/// Returns an error if `after` would make the API server prune fields of `before` from stored objects.
fn refuse_dropped_fields(
    before: &CustomResourceDefinition,
    after: &CustomResourceDefinition,
) -> Result<(), Error> {
    let after_fields = crd::fields(after);
    let kept: BTreeSet<&str> = after_fields.iter().map(|field| field.path.as_str()).collect();
    let open: Vec<&str> = after_fields
        .iter()
        .filter(|field| field.is_open)
        .map(|field| field.path.as_str())
        .collect();
    let fields: Vec<String> = crd::fields(before)
        .into_iter()
        .map(|field| field.path)
        .filter(|path| !kept.contains(path.as_str()))
        .filter(|path| !open.iter().any(|open| is_below(path, open)))
        .collect();
    if fields.is_empty() {
        return Ok(());
    }
    Err(Error::WouldDropFields { definition: name(after).to_owned(), fields })
}

/// Returns whether `path` is a field below `parent`, at any depth.
fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with(['.', '[', '{']))
}

fn name(definition: &CustomResourceDefinition) -> &str {
    definition.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_drops_conditions_is_known() {
        let all = crd::all();
        let named = |kind: &str| all.iter().find(|it| it.spec.names.kind == kind).unwrap();
        let ours = named("FlinkBlueGreenDeployment");
        let mut theirs = ours.clone();
        let schema = theirs.spec.versions[0].schema.as_mut().unwrap();
        let root = schema.open_api_v3_schema.as_mut().unwrap();
        let status = root.properties.as_mut().unwrap().get_mut("status").unwrap();
        status.properties.as_mut().unwrap().remove("conditions").unwrap();
        assert!(drops_conditions(&theirs, ours));
        assert!(!drops_conditions(ours, ours));
        // It has none in either.
        let session_job = named("FlinkSessionJob");
        assert!(!drops_conditions(session_job, session_job));
    }
}
