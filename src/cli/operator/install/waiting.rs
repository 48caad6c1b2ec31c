//! Waits for the operator's pods.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use clients::cluster::read;
use operator::install::objects::NAME;

pub(super) async fn until_available(
    client: &Client,
    namespace: &str,
    objects: &[Value],
    timeout: Duration,
    printer: &Printer,
) -> anyhow::Result<()> {
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment");
    let name = deployment.and_then(|it| it.pointer("/metadata/name")).and_then(Value::as_str);
    let name = name.unwrap_or(NAME);
    let progress = printer.progress();
    progress.set(format_args!("waiting for deployment `{name}`"));
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let done = await_condition(api, name, conditions::is_deployment_completed());
    if let Ok(end) = tokio::time::timeout(timeout, done).await {
        end.with_context(|| format!("while waiting for deployment `{name}`"))?;
        return Ok(());
    }
    let why = problem_of_pod(client, namespace, name).await?;
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let look = format!("kubectl describe pods -n {namespace} -l app.kubernetes.io/name={name}");
    Err(Failure::timed_out(format!("the operator is not running after {timeout:?}{why}"))
        .hint(format!("for details: {look}"))
        .into())
}

/// Returns the problem of the operator's first pod that cannot run.
async fn problem_of_pod(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<String>> {
    let selector = format!("app.kubernetes.io/name={name}");
    let pods =
        read::list::<Pod>(client, read::Scope::Namespace(namespace), Some(&selector)).await?;
    Ok(pods.iter().find_map(|pod| {
        let status = pod.status.as_ref()?;
        let waiting = status.container_statuses.iter().flatten().find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let message = waiting.message.as_deref().unwrap_or_default();
            Some(format!("{} {message}", waiting.reason.as_deref()?))
        });
        let unscheduled = || {
            let conditions = status.conditions.iter().flatten();
            let mut bad =
                conditions.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
            bad.next()?.message.clone()
        };
        let why = waiting.or_else(unscheduled)?;
        Some(format!("pod `{}`: {}", pod.name_any(), why.trim()))
    }))
}
