//! The pod of the gateway that a session uses: creating it, waiting for it, and removing it.
//!
//! It is a pod rather than a Deployment. It has a deadline of its own, so that a killed program leaves nothing running
//! forever, and it is not restarted, as its sessions would be lost. A gateway that is kept is named after its contents,
//! and serves every session with the same requirements.

mod sight;

use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::apps::v1;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep_until};

use crate::cli::change;
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use crate::cli::signals::Signals;
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation};
use clients::cluster::logs::{self, LogRequest};
use clients::cluster::read::{self, Scope};
use clients::flink::access::{Access, Connector, Options, PodPort};
use clients::flink::sql_gateway::PORT;
use clients::flink::{Client, Deadlines, new_trigger_id};
use config::{options, secret};
use render::names;
use render::sql_gateway::{GATEWAY_CONTAINER, GatewayInput, gateway_pod, gateway_selector};
use sight::{Sight, is_over, judge};

/// Label that identifies the pod of a session.
const SESSION_LABEL: &str = "flink.apache.org/sql-gateway";
/// Number of digits of the label's value.
const ID_CHARS: usize = 8;
/// Deadline of a request to the gateway, during which it may load a catalog.
const REQUEST_DEADLINE: Duration = Duration::from_mins(1);
/// Deadline of the removal.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(10);
/// Limits for the log of a gateway that did not start: lines and bytes read, and lines shown.
const LOG_LINES: i64 = 30;
const LOG_BYTES_MAX: u32 = 64 * 1024;
const LOG_LINES_SHOWN: usize = 5;
/// Log messages of an image without a gateway.
const NO_GATEWAY: [&str; 3] = [
    "load main class org.apache.flink.table.gateway.SqlGateway",
    "sql gateway jar not found",
    "sql-gateway.sh: No such file",
];

/// Requirements for the gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatewayRequest<'a> {
    pub(super) image: Option<&'a str>,
    /// Whether other sessions may use it and it is kept.
    pub(super) is_retained: bool,
    pub(super) lifetime: Duration,
}

/// A gateway that answers.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) client: Client,
    pub(super) pod: ObjectId,
    /// Whether it is removed with the session.
    pub(super) is_own: bool,
}

/// The pods that meet the requirements: one for this session alone, and one for every session.
#[derive(Clone, Debug)]
pub(super) struct Manifests {
    pub(super) own: Value,
    kept: Value,
}

/// Builds the manifests from the running JobManager.
pub(super) async fn manifests(
    connection: &Connection,
    cluster: &Deployment,
    wish: GatewayRequest<'_>,
) -> anyhow::Result<Manifests> {
    let (name, namespace) = (cluster.name(), cluster.namespace());
    let id = ObjectId::of::<v1::Deployment>(namespace, &names::job_manager(name));
    let Some(job_manager) = read::get_value(&connection.client, &id).await? else {
        return Err(Failure::new(format!("the JobManager of `{name}` has no Deployment"))
            .hint(format!("see why: kubectl flink why {name}"))
            .into());
    };
    let config = cluster.reconciled_config();
    if config.get(&options::SSL_REST_ENABLED)? {
        return Err(Failure::new(format!(
            "`{name}` serves its REST API over TLS, and so would the gateway, but the port-forward to it \
             has no TLS"
        ))
        .hint(format!("run the statements in the cluster: kubectl flink exec {name} -it -- bin/sql-client.sh"))
        .into());
    }
    let pod = gateway_pod(&GatewayInput {
        cluster: name,
        uid: cluster.uid().unwrap_or_default(),
        job_manager: &job_manager,
        image: wish.image,
        rest_port: config.get(&options::REST_PORT)?,
        port: PORT,
    })?;
    let sum = Sha256::digest(pod.to_string());
    let digits = sum.iter().take(ID_CHARS / 2).map(|byte| format!("{byte:02x}"));
    let sum = digits.collect::<Vec<_>>().concat();
    Ok(Manifests {
        own: named(&pod, name, &new_trigger_id(), wish.lifetime),
        kept: named(&pod, name, &sum, wish.lifetime),
    })
}

fn named(pod: &Value, cluster: &str, id: &str, lifetime: Duration) -> Value {
    let id = id.get(..ID_CHARS).unwrap_or(id);
    let mut pod = pod.clone();
    pod["metadata"]["name"] = json!(format!("{cluster}-sql-{id}"));
    pod["metadata"]["labels"][SESSION_LABEL] = json!(id);
    pod["spec"]["activeDeadlineSeconds"] = json!(lifetime.as_secs().max(1));
    pod
}

impl Manifests {
    /// Returns the manifest of the pod to create.
    pub(super) fn wished(&self, wish: GatewayRequest<'_>) -> &Value {
        if wish.is_retained { &self.kept } else { &self.own }
    }
}

/// Uses a suitable existing gateway, else creates one; a gateway that does not start is removed.
pub(super) async fn start(
    connection: &Connection,
    cluster: &Deployment,
    manifests: &Manifests,
    wish: GatewayRequest<'_>,
    (timeout, signals): (Duration, &Signals),
    printer: &Printer,
) -> anyhow::Result<Gateway> {
    let is_there = tidy_up(connection, cluster, &manifests.kept).await?;
    let manifest = if is_there { &manifests.kept } else { manifests.wished(wish) };
    let pod = ObjectId::in_manifest(manifest)?;
    let progress = printer.progress();
    if !is_there {
        progress.set(format_args!("{}: creating the SQL gateway", cluster.name()));
        match apply::create(&connection.client, manifest, change::writer(super::NO_DRY_RUN)).await {
            Ok(_) => {}
            // Another session has created the shared gateway in the meantime.
            Err(cluster::Error::AlreadyExists { .. }) if wish.is_retained => {}
            Err(error) => return Err(refused(error, cluster)),
        }
    }
    let gateway = Gateway {
        client: client(connection, manifest)?,
        is_own: !is_there && !wish.is_retained,
        pod: pod.clone(),
    };
    let ready = wait(connection, &gateway, cluster, timeout, |phase| {
        progress.set(format_args!("{}: SQL gateway: {phase}", cluster.name()));
    });
    let result = tokio::select! {
        ready = ready => ready,
        () = signals.after(0) => {
            Err(Failure::interrupted("stopped before any statement was run").into())
        }
    };
    drop(progress);
    match result {
        Ok(()) => Ok(gateway),
        Err(error) => {
            remove(connection, &gateway, printer).await;
            Err(error)
        }
    }
}

/// Removes the cluster's gateways that have ended, and returns whether the shared one is running.
async fn tidy_up(
    connection: &Connection,
    cluster: &Deployment,
    kept: &Value,
) -> anyhow::Result<bool> {
    let scope = Scope::Namespace(cluster.namespace());
    let selector = gateway_selector(cluster.name());
    let found = read::list_values::<Pod>(&connection.client, scope, Some(&selector)).await?;
    let mut is_there = false;
    for pod in &found {
        if !is_over(pod) {
            is_there |= pod["metadata"]["name"] == kept["metadata"]["name"];
            continue;
        }
        let uid = pod["metadata"]["uid"].as_str();
        let deletion = Deletion { uid, ..Deletion::with(Propagation::Background) };
        let id = ObjectId::in_manifest(pod)?;
        // A pod that is not deleted now is found the next time.
        if let Err(error) = apply::delete(&connection.client, &id, deletion).await {
            tracing::debug!(%error, pod = id.name, "could not delete a gateway that has ended");
        }
    }
    Ok(is_there)
}

/// Returns a client of the gateway in the pod.
fn client(connection: &Connection, manifest: &Value) -> anyhow::Result<Client> {
    let deadlines = Deadlines { request: REQUEST_DEADLINE, ..Deadlines::default() };
    if let Some(address) = &connection.rest_address {
        return Ok(Client::at(&format!("http://{address}"), deadlines)?);
    }
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let id = manifest["metadata"]["labels"][SESSION_LABEL].as_str().unwrap_or_default();
    let to = PodPort {
        namespace: text("/metadata/namespace").to_owned(),
        labels: format!("{SESSION_LABEL}={id}"),
        port: PORT,
    };
    let options = Options { access: Access::PortForward, ..Options::default() };
    Ok(Connector::new(&options, connection.config.as_ref())?.pod_client(&to, deadlines)?)
}

/// Waits until the gateway is ready, and reports its progress.
async fn wait(
    connection: &Connection,
    gateway: &Gateway,
    cluster: &Deployment,
    timeout: Duration,
    emit: impl Fn(&str),
) -> anyhow::Result<()> {
    let mut watch = Box::pin(read::watch_value(&connection.client, &gateway.pod));
    let until = Instant::now() + timeout;
    let mut last = "not seen yet".to_owned();
    let name = &gateway.pod.name;
    loop {
        let seen = tokio::select! {
            seen = watch.next() => seen.context("the watch of the gateway's pod ended")?,
            () = sleep_until(until) => {
                let seconds = timeout.as_secs();
                return Err(Failure::timed_out(format!(
                    "the SQL gateway is not ready after {seconds}s: pod `{name}` is {last}"
                ))
                .hint("to wait longer, use --start-timeout")
                .into());
            }
        };
        let pod = match seen {
            Ok(Some(pod)) => pod,
            // The watch may start before its list includes the pod.
            Ok(None) => continue,
            Err(error) if error.is_transient() => {
                last = error.to_string();
                emit(&last);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match judge(&pod) {
            Sight::Ready => return Ok(()),
            Sight::Waiting(phase) => {
                emit(&phase);
                last = phase;
            }
            Sight::Failed(why) => {
                return Err(not_started(connection, gateway, cluster, &pod, &why).await.into());
            }
        }
    }
}

/// Returns why the gateway did not start, with the last lines of its log.
async fn not_started(
    connection: &Connection,
    gateway: &Gateway,
    cluster: &Deployment,
    pod: &Value,
    why: &str,
) -> Failure {
    let request = LogRequest {
        namespace: cluster.namespace().to_owned(),
        pod: gateway.pod.name.clone(),
        container: Some(GATEWAY_CONTAINER.to_owned()),
        tail_lines: Some(LOG_LINES),
        ..LogRequest::default()
    };
    // Without a log the reason has to suffice: the container may never have run, or the user may not read it.
    let log = logs::text(&connection.client, &request, LOG_BYTES_MAX).await.unwrap_or_default();
    let image = pod.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default();
    if NO_GATEWAY.iter().any(|sign| log.contains(sign)) {
        return Failure::new(format!("image `{image}` has no SQL gateway")).hint(
            "use one of the same Flink version that has flink-sql-gateway-*.jar in opt: --gateway-image IMAGE",
        );
    }
    let failure = Failure::new(format!("the SQL gateway did not start: {why}"));
    let lines = log.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
    let from = lines.len().saturating_sub(LOG_LINES_SHOWN);
    if lines.is_empty() {
        return failure;
    }
    let said = secret::hide_in(&lines.get(from..).unwrap_or_default().join("\n"));
    failure.caused_by(anyhow::Error::msg(format!("its last output:\n{said}")))
}

/// Explains why the API server rejects the pod.
fn refused(error: cluster::Error, cluster: &Deployment) -> anyhow::Error {
    let is_ours = matches!(
        error,
        cluster::Error::Rejected { .. }
            | cluster::Error::Invalid { .. }
            | cluster::Error::Forbidden { .. }
    );
    if !is_ours {
        return error.into();
    }
    Failure::new(format!("cannot create a pod for the SQL gateway of `{}`", cluster.name()))
        .caused_by(error)
        .hint("see the pod: --dry-run=client; the required permissions are in docs/permissions.md")
        .into()
}

/// Removes a gateway that was created for this session. If that fails, it ends at its own deadline.
pub(super) async fn remove(connection: &Connection, gateway: &Gateway, printer: &Printer) {
    if !gateway.is_own {
        return;
    }
    let deletion = Deletion::with(Propagation::Background);
    let deleted = apply::delete(&connection.client, &gateway.pod, deletion);
    let deleted = tokio::time::timeout(REMOVAL_DEADLINE, deleted).await;
    let why = match deleted {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {}s", REMOVAL_DEADLINE.as_secs()),
    };
    let ObjectId { name, namespace, .. } = &gateway.pod;
    printer.warning(format_args!(
        "could not delete the SQL gateway, which stays until its time limit: {why}"
    ));
    printer.hint(format_args!(
        "to remove it: kubectl delete pod {name} -n {}",
        namespace.as_deref().unwrap_or_default()
    ));
}

#[cfg(test)]
mod tests;
