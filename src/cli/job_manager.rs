//! Creates clients of a deployment's JobManager, connected as `--flink-access` says.

use std::time::Duration;

use clients::flink::access::{Access, Connector, Options, Target};
use clients::flink::{Client, Deadlines};
use config::options;

use super::connection::Connection;
use super::deployment::Deployment;

/// Deadline of a request for something that is asked again soon, or of many jobs.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the deadlines of requests whose answers are worth little if they are late.
pub fn soon() -> Deadlines {
    Deadlines { request: PATIENCE, ..Deadlines::default() }
}

/// Creates the client; sends no request yet.
pub fn client(
    connection: &Connection,
    deployment: &Deployment,
    access: Access,
    deadlines: Deadlines,
) -> anyhow::Result<Client> {
    client_of(&connector(connection, access)?, deployment, deadlines)
}

/// Creates what clients of several deployments have in common.
pub fn connector(connection: &Connection, access: Access) -> anyhow::Result<Connector> {
    let options = if connection.is_lent {
        Options { access, ..Options::default() }
    } else {
        Options::from_environment(access, connection.rest_address.clone())
    };
    Ok(Connector::new(&options, connection.config.as_ref())?)
}

/// Creates a client of a deployment's JobManager; sends no request yet.
pub fn client_of(
    connector: &Connector,
    deployment: &Deployment,
    deadlines: Deadlines,
) -> anyhow::Result<Client> {
    let config = deployment.reconciled_config();
    let target = Target {
        namespace: deployment.namespace().to_owned(),
        cluster_id: deployment.name().to_owned(),
        port: config.get(&options::REST_PORT)?,
        is_tls: config.get(&options::SSL_REST_ENABLED)?,
    };
    Ok(connector.client(&target, deadlines))
}
