//! Stored state of a job's autoscaler.

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::lookup;
use ::autoscaler::state::{self, Stored, Unreadable};
use clients::cluster::autoscaler;
use operator::heavy;

/// A job and the stored state of its autoscaler.
pub(in crate::cli) struct Job {
    pub(in crate::cli) resource: Deployment,
    /// Name of the ConfigMap.
    pub(super) config_map: String,
    /// `None` if nothing is stored.
    pub(in crate::cli) stored: Option<Result<Stored, Unreadable>>,
}

impl Job {
    /// Returns the stored state, if there is one; an error says why it cannot be read.
    pub(in crate::cli) fn readable(&self) -> anyhow::Result<Option<&Stored>> {
        match &self.stored {
            None => Ok(None),
            Some(Ok(stored)) => Ok(Some(stored)),
            Some(Err(reason)) => {
                let message = format!("ConfigMap `{}`: {reason}", self.config_map);
                Err(Failure::new(message)
                    .hint(format!(
                        "to start over: kubectl flink autoscaler reset {}",
                        self.resource.shown_name()
                    ))
                    .into())
            }
        }
    }
}

/// Reads the job of this name; a session cluster has none.
pub(super) async fn fetch(connection: &Connection, name: &str) -> anyhow::Result<Job> {
    of(connection, lookup::fetch(connection, name).await?).await
}

/// Reads the stored state of a job; a session cluster has none.
pub(in crate::cli) async fn of(
    connection: &Connection,
    resource: Deployment,
) -> anyhow::Result<Job> {
    let name = resource.name();
    if resource.is_session() {
        return Err(Failure::new(format!(
            "`{name}` is a session cluster: it has no job of its own to scale"
        ))
        .hint("name one of its jobs as sessionjob/NAME; to list them: kubectl flink status")
        .into());
    }
    let config_map = autoscaler::object_name(name);
    let found = autoscaler::find(&connection.client, resource.namespace(), name).await?;
    // A ConfigMap owned by another resource says nothing about this job.
    let found = found.filter(|found| found.other_owner(&resource.owner_uids()).is_none());
    let stored = match found {
        Some(found) => {
            let reading = heavy::run(move || state::read(&found.data)).await;
            Some(reading.map_err(anyhow::Error::msg)?)
        }
        None => None,
    };
    Ok(Job { resource, config_map, stored })
}
