//! Other operators that may manage the same resources.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, ResourceExt};
use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use crate::cli::operator::config as operator_config;
use clients::cluster::{self, read};
use config::namespaces::Namespaces;
use config::options;
use operator::install::objects::NAME;

/// Label value of the Java operator's pods.
const JAVA_OPERATOR: &str = "flink-kubernetes-operator";

/// Refuses to install beside another operator of the same resources: the two would undo each other's work.
pub(super) async fn refuse(
    client: &Client,
    given: &Map<String, Value>,
    namespace: &str,
) -> anyhow::Result<()> {
    let ours = given.get("nameOverride").and_then(Value::as_str).filter(|it| !it.is_empty());
    let ours = (namespace, ours.unwrap_or(NAME));
    let selector = format!("app.kubernetes.io/name in ({JAVA_OPERATOR},{NAME})");
    let found = read::list::<Deployment>(client, read::Scope::AllNamespaces, Some(&selector)).await;
    let found = match found {
        // A user who may not read other namespaces may still install into their own.
        Err(cluster::Error::Forbidden { .. }) => return Ok(()),
        found => found?,
    };
    let is_running = |it: &Deployment| it.spec.replicas != Some(0);
    let is_other = |it: &Deployment| {
        (it.namespace().unwrap_or_default().as_str(), it.name_any().as_str()) != ours
    };
    let named = given.get("watchNamespaces").map(names).unwrap_or_default();
    for other in found.iter().filter(|it| is_running(it) && is_other(it)) {
        let watched = watched_by(client, other).await;
        let is_apart = !named.is_empty() && named.is_disjoint(&watched);
        if watched.is_empty() || !is_apart {
            return Err(same_resources(other));
        }
    }
    Ok(())
}

fn same_resources(other: &Deployment) -> anyhow::Error {
    let (name, namespace) = (other.name_any(), other.namespace().unwrap_or_default());
    Failure::new(format!(
        "another operator may operate the same resources: deployment `{name}` in namespace `{namespace}`"
    ))
    .hint(format!(
        "stop it first, jobs keep running: kubectl scale deployment {name} -n {namespace} --replicas 0"
    ))
    .hint(format!(
        "its webhooks would then reject every change, so remove them as well: helm uninstall, or kubectl \
         delete validatingwebhookconfiguration,mutatingwebhookconfiguration \
         flink-operator-{namespace}-webhook-configuration"
    ))
    .hint("or give each its own namespaces, with --watch-namespaces")
    .into()
}

/// Returns the namespaces that an operator watches; empty if it watches all, or if they cannot be read.
async fn watched_by(client: &Client, operator: &Deployment) -> BTreeSet<String> {
    let told = set_by_environment(operator);
    if !told.is_empty() {
        return told;
    }
    let namespace = operator.namespace().unwrap_or_default();
    let Ok(files) = operator_config::of_installation(client, &namespace).await else {
        return BTreeSet::new();
    };
    match files.merged().get(&options::WATCHED_NAMESPACES) {
        Ok(Namespaces::Named(names)) => names,
        Ok(Namespaces::All) | Err(_) => BTreeSet::new(),
    }
}

fn set_by_environment(operator: &Deployment) -> BTreeSet<String> {
    let pod = operator.spec.template.spec.as_ref();
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let variables = containers.iter().flat_map(|container| container.env.iter().flatten());
    variables
        .filter(|variable| variable.name == "WATCH_NAMESPACES")
        .filter_map(|variable| variable.value.as_deref())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn names(list: &Value) -> BTreeSet<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
