//! Creates clients of a deployment's JobManager, connected as `--flink-access` says.

use clients::flink::access::{Access, Connector, Options, Target};
use clients::flink::{Client, Deadlines};
use config::options;

use super::connection::Connection;
use super::deployment::Deployment;

/// Creates the client; sends no request yet.
pub fn client(
    connection: &Connection,
    deployment: &Deployment,
    access: Access,
    deadlines: Deadlines,
) -> anyhow::Result<Client> {
    let options = if connection.is_lent {
        Options { access, ..Options::default() }
    } else {
        Options::from_environment(access, connection.rest_address.clone())
    };
    let connector = Connector::new(&options, connection.config.as_ref())?;
    let config = deployment.reconciled_config();
    let target = Target {
        namespace: deployment.namespace().to_owned(),
        cluster_id: deployment.name().to_owned(),
        port: config.get(&options::REST_PORT)?,
        is_tls: config.get(&options::SSL_REST_ENABLED)?,
    };
    Ok(connector.client(&target, deadlines))
}
