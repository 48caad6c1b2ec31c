//! The checks of a `FlinkSessionJob` before it is sent.

use anyhow::Context;
use serde_json::Value;

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::session_job::FlinkSessionJobSpec;
use clients::cluster::apply::ObjectId;
use clients::cluster::read;
use config::OperatorConfig;
use validation::Violation;
use validation::session_job::{SessionCluster, SessionJobInput, validate};

/// Returns all violations. The cluster is the one sent together with the job, else the existing one; without a cluster
/// its rules are not checked yet.
pub(super) async fn check(
    connection: &Connection,
    id: &ObjectId,
    wanted: &Value,
    (present, together): (Option<&Deployment>, &[Value]),
    operator: &OperatorConfig,
) -> anyhow::Result<Vec<Violation>> {
    let spec = FlinkSessionJobSpec::deserialize(&wanted["spec"])
        .with_context(|| format!("FlinkSessionJob `{}` cannot be read", id.name))?;
    let last_reconciled = present
        .and_then(Deployment::last_reconciled_spec)
        .and_then(|spec| FlinkSessionJobSpec::deserialize(spec).ok());
    let namespace = id.namespace.clone().unwrap_or_default();
    let name = spec.deployment_name.clone().unwrap_or_default();
    let cluster = cluster(connection, &namespace, &name, together).await?;
    let cluster = cluster
        .map(|cluster| FlinkDeploymentSpec::deserialize(&cluster["spec"]))
        .transpose()
        .with_context(|| format!("FlinkDeployment `{name}` cannot be read"))?;
    Ok(validate(&SessionJobInput {
        namespace: &namespace,
        spec: &spec,
        last_reconciled: last_reconciled.as_ref(),
        cluster: cluster.as_ref().map(|spec| SessionCluster { name: &name, spec }),
        operator,
        // Which hosts the operator can reach is not known here.
        host: None,
    }))
}

/// Returns the cluster that is sent together with the job, else the existing one.
pub(super) async fn cluster(
    connection: &Connection,
    namespace: &str,
    name: &str,
    together: &[Value],
) -> anyhow::Result<Option<Value>> {
    match sent_along(together, name) {
        Some(cluster) => Ok(Some(cluster)),
        None if name.is_empty() => Ok(None),
        None => {
            let id = ObjectId::of::<FlinkDeployment>(namespace, name);
            Ok(read::get_value(&connection.client, &id).await?)
        }
    }
}

fn sent_along(together: &[Value], name: &str) -> Option<Value> {
    let is_cluster =
        |object: &&Value| object["kind"] == "FlinkDeployment" && object["metadata"]["name"] == name;
    together.iter().find(is_cluster).cloned()
}
