//! Where a cluster's metadata is in ZooKeeper, according to its configuration.

use std::time::Duration;

use zookeeper_client::Error as Failure;

use super::Error;
use config::cluster::{zookeeper_out_of_reach, zookeeper_place};
use config::option::InvalidValue;
use config::{FlinkConfig, options};

/// The servers, and the location of one cluster.
#[derive(Clone, Eq, PartialEq)]
pub struct Ensemble {
    /// `host:port,…`
    pub(super) quorum: String,
    /// `/flink`, shared with other clusters, below the path at the end of the option, if there is one.
    root: String,
    /// `/flink/<cluster-id>`
    base: String,
    /// Below the base: those of Flink 1.x and 2.x, and the applications of 2.3.
    job_graphs: [String; 3],
    /// Scheme and secret.
    pub(super) authorization: Vec<(String, String)>,
    pub(super) connection_timeout: Duration,
}

impl Ensemble {
    /// Returns the location that a cluster's configuration describes.
    ///
    /// # Errors
    /// If there is no quorum or cluster id, if only Flink's own process can authenticate, or if the operator's
    /// configuration does not allow the quorum or the path.
    pub fn from_config(config: &FlinkConfig, operator: &FlinkConfig) -> Result<Self, Error> {
        if let Some(reason) = zookeeper_out_of_reach(config, operator) {
            return Err(Error::Unsupported(reason));
        }
        let (quorum, root) = zookeeper_place(config)?;
        if quorum.is_empty() {
            let key = options::ZOOKEEPER_QUORUM.key();
            return Err(Error::Unsupported(format!("`{key}` names no servers")));
        }
        let cluster_id = config.text_of(&options::HA_CLUSTER_ID).unwrap_or_default();
        if join(&[cluster_id]) == "/" {
            // Otherwise everything under the root would seem to belong to this cluster.
            let key = options::HA_CLUSTER_ID.key();
            return Err(Error::Unsupported(format!("`{key}` is empty")));
        }
        let root = join(&[&root]);
        let base = join(&[&root, cluster_id]);
        let below = |path: String| join(&[&base, &path]);
        let job_graphs = [
            below(config.get(&options::ZOOKEEPER_JOB_GRAPHS)?),
            below(config.get(&options::ZOOKEEPER_EXECUTION_PLANS)?),
            below(config.get(&options::ZOOKEEPER_APPLICATIONS)?),
        ];
        let authorization = config.find(&options::ZOOKEEPER_AUTHORIZATION);
        let authorization = authorization.map_err(InvalidValue::hidden)?.unwrap_or_default();
        Ok(Self {
            quorum,
            root,
            base,
            job_graphs,
            authorization: authorization.into_iter().collect(),
            connection_timeout: config.get(&options::ZOOKEEPER_CONNECTION_TIMEOUT)?,
        })
    }

    /// Returns the address of the root path, such as `zookeeper://a:2181,b:2181/flink`.
    pub fn place(&self) -> String {
        format!("zookeeper://{}{}", self.quorum, self.root.trim_end_matches('/'))
    }

    /// Returns the parent node of the clusters.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Returns the node of the cluster.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.base)
    }

    /// Returns the nodes with the graphs of jobs, and with the applications that a JobManager runs in the same way.
    pub(super) fn job_graphs(&self) -> Vec<String> {
        let mut folders = self.job_graphs.to_vec();
        folders.dedup();
        // If a folder is the cluster's own node, it contains more than graphs.
        folders.retain(|folder| *folder != self.base);
        folders
    }

    pub(super) fn unreachable(&self, problem: String) -> Error {
        Error::Unreachable { quorum: self.quorum.clone(), problem }
    }

    pub(super) fn failure(&self, path: &str, failure: &Failure) -> Error {
        match failure {
            Failure::NoAuth | Failure::AuthFailed | Failure::InvalidAcl => {
                Error::Forbidden { quorum: self.quorum.clone(), path: path.to_owned() }
            }
            Failure::BadArguments(_) => {
                Error::Unsupported(format!("`{path}` at `{}`: {failure}", self.quorum))
            }
            other => self.unreachable(other.to_string()),
        }
    }
}

impl std::fmt::Debug for Ensemble {
    /// Omits the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ensemble")
            .field("quorum", &self.quorum)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// Joins a path as Flink does: without double or trailing slashes.
fn join(parts: &[&str]) -> String {
    let parts = parts.iter().flat_map(|part| part.split('/')).filter(|part| !part.is_empty());
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests;
