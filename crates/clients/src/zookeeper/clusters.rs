//! Which clusters have a node below the root path, and what it contains.

use super::tree::{is_of_flink, is_of_jobs};
use super::{Ensemble, Error, NODES_MAX, Session, in_time};

/// A cluster's node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The cluster's id.
    pub name: String,
    /// Number of nodes, its own included.
    pub nodes: u64,
    pub size_bytes: u64,
    /// When any of them was last written, in milliseconds since the epoch.
    pub changed_millis: i64,
    /// Whether it contains only nodes that Flink creates.
    pub is_of_flink: bool,
    /// Whether it names jobs or checkpoints.
    pub has_state: bool,
    /// Whether a process is registered in it.
    pub is_in_use: bool,
}

/// Returns all nodes below the root path of the ensemble.
///
/// # Errors
/// Then nothing may be concluded.
pub async fn clusters(ensemble: &Ensemble) -> Result<Vec<Found>, Error> {
    in_time(ensemble, async {
        let session = Session::open(ensemble).await?;
        session.sync(ensemble.root()).await?;
        let mut found: Vec<Found> = Vec::new();
        let mut nodes = 0;
        for name in session.children(ensemble.root()).await? {
            let cluster = inspect(&session, ensemble.root(), name).await?;
            nodes += cluster.nodes;
            found.push(cluster);
            if nodes > NODES_MAX as u64 {
                return Err(Error::TooMany { path: ensemble.root().to_owned() });
            }
        }
        Ok(found)
    })
    .await
}

async fn inspect(session: &Session<'_>, root: &str, name: String) -> Result<Found, Error> {
    let base = format!("{}/{name}", root.trim_end_matches('/'));
    let mut found = Found {
        name,
        nodes: 0,
        size_bytes: 0,
        changed_millis: 0,
        is_of_flink: true,
        has_state: false,
        is_in_use: false,
    };
    let mut has_any = false;
    for node in session.nodes_below(&base, |_| true).await? {
        // It was removed meanwhile, so the cluster is in use.
        let Some(stat) = node.stat else {
            found.is_in_use = true;
            continue;
        };
        found.nodes += 1;
        found.size_bytes += u64::try_from(stat.data_length).unwrap_or_default();
        found.changed_millis = found.changed_millis.max(stat.mtime).max(stat.ctime);
        found.is_in_use |= node.is_ephemeral();
        let below: Vec<_> = node.path[base.len()..].split('/').skip(1).collect();
        let Some(first) = below.first() else { continue };
        has_any = true;
        found.is_of_flink &= node.is_ephemeral() || is_of_flink(&below);
        found.has_state |= is_of_jobs(first) && below.len() > 1;
    }
    found.is_of_flink &= has_any;
    Ok(found)
}
