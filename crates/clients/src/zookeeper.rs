//! HA metadata that Flink keeps in ZooKeeper: reading and removing it.
//!
//! Under `<path.root>/<cluster-id>` Flink has `jobs/<job id>/checkpoints/<checkpoint>`, the graphs of jobs to recover,
//! and `leader` with a node of each live JobManager. What cannot be read is an [`Error`], never an absence: a `sync`
//! precedes each read, so that a server that lags behind does not hide what was written. Nothing is removed while a
//! JobManager still has its node, nor any metadata of a job that is not known to be the cluster's.

mod clusters;
mod ensemble;

use std::time::Duration;

use zookeeper_client::{Client, Error as Failure};

pub use clusters::{Found, clusters};
pub use ensemble::Ensemble;

use config::option::InvalidValue;
use lifecycle::world::HaMetadata;

/// Maximum time of one call, with all its requests.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of nodes removed at once: a cluster has some dozens.
const NODES_MAX: usize = 10_000;
/// Maximum depth below the cluster's node; Flink uses six levels.
const DEPTH_MAX: usize = 16;

/// A read from ZooKeeper without a result, or a removal that was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Option(#[from] InvalidValue),
    /// A kind of access that this operator does not support.
    #[error("cannot query ZooKeeper: {0}")]
    Unsupported(String),
    #[error("ZooKeeper at `{quorum}` does not answer: {problem}")]
    Unreachable { quorum: String, problem: String },
    #[error(
        "ZooKeeper at `{quorum}` does not let the operator use `{path}`, and nothing there was \
         touched: the operator does not log in with Kerberos (SASL), but with \
         `high-availability.zookeeper.client.authorization`, such as `digest:'USER:PASSWORD'`, \
         which gives access to what Flink 1.20 or later created with it"
    )]
    Forbidden { quorum: String, path: String },
    /// Its session has not expired, or it belongs to another cluster.
    #[error(
        "a JobManager is still registered at `{path}` in ZooKeeper: its metadata is not removed \
         until its session expires. If it belongs to a cluster in another namespace, give each its \
         own `high-availability.zookeeper.path.root`"
    )]
    InUse { path: String },
    #[error(
        "ZooKeeper has too many nodes under `{path}` to remove them here; inspect them with its shell"
    )]
    TooMany { path: String },
}

impl Error {
    /// Returns whether the same call, unchanged, may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::InUse { .. } => true,
            Self::Option(_)
            | Self::Unsupported(_)
            | Self::Forbidden { .. }
            | Self::TooMany { .. } => false,
        }
    }

    /// Stable name for logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Option(_) | Self::Unsupported(_) => "ZooKeeperUnsupported",
            Self::Unreachable { .. } => "ZooKeeperUnreachable",
            Self::Forbidden { .. } => "ZooKeeperForbidden",
            Self::InUse { .. } => "ZooKeeperInUse",
            Self::TooMany { .. } => "ZooKeeperTooMany",
        }
    }
}

/// Returns the metadata of the job with this id, or of any job if the id is unknown.
///
/// # Errors
/// Then nothing may be concluded.
pub async fn metadata(ensemble: &Ensemble, job_id: Option<&str>) -> Result<HaMetadata, Error> {
    in_time(ensemble, async {
        let session = Session::open(ensemble).await?;
        let jobs_path = ensemble.path("jobs");
        session.sync(&jobs_path).await?;
        let jobs = session.children(&jobs_path).await?;
        let mut metadata = HaMetadata::default();
        for job in jobs.iter().filter(|job| job_id.is_none_or(|id| id == *job)) {
            metadata.has_job = true;
            let checkpoints = session.children(&format!("{jobs_path}/{job}/checkpoints")).await?;
            let newest = checkpoints.iter().filter_map(|name| checkpoint(name)).max();
            metadata.checkpoint = metadata.checkpoint.max(newest);
        }
        Ok(metadata)
    })
    .await
}

/// Returns whether a JobManager of any version would find a job or an application to run.
///
/// # Errors
/// Then nothing may be concluded.
pub async fn has_graph(ensemble: &Ensemble) -> Result<bool, Error> {
    in_time(ensemble, async {
        let session = Session::open(ensemble).await?;
        Ok(!session.job_graphs().await?.is_empty())
    })
    .await
}

/// Removes what Flink stores of the cluster: everything, or nothing of other jobs if `jobs` are given. Those may have
/// been stopped with nothing but their metadata, and belong to a cluster of this name in another namespace. All graphs
/// are removed even so, because no JobManager may start the jobs.
///
/// # Errors
/// The next attempt removes what is left.
pub async fn delete(ensemble: &Ensemble, jobs: Option<&[String]>) -> Result<(), Error> {
    in_time(ensemble, async {
        let session = Session::open(ensemble).await?;
        session.sync(ensemble.base()).await?;
        session.refuse_beside_a_job_manager().await?;
        if let Some(jobs) = jobs {
            let folder = ensemble.path("jobs");
            for job in jobs {
                session.remove(&format!("{folder}/{job}")).await?;
            }
            if !session.children(&folder).await?.is_empty() {
                return session.remove_all(&session.job_graphs().await?).await;
            }
        }
        session.remove(ensemble.base()).await
    })
    .await
}

/// Removes the stored graphs, from which a JobManager would start the old jobs. A running JobManager would end a job
/// whose graph is removed: while one runs, only the graphs of `jobs` are removed.
///
/// # Errors
/// The next attempt removes what is left.
pub async fn forget_job_graphs(ensemble: &Ensemble, jobs: &[String]) -> Result<(), Error> {
    in_time(ensemble, async {
        let session = Session::open(ensemble).await?;
        let graphs = session.job_graphs().await?;
        let is_known = |path: &String| jobs.iter().any(|job| path.ends_with(&format!("/{job}")));
        if !graphs.iter().all(is_known) {
            session.refuse_beside_a_job_manager().await?;
        }
        session.remove_all(&graphs).await
    })
    .await
}

/// Parses the name of a checkpoint's node: its number with leading zeros.
fn checkpoint(node: &str) -> Option<u64> {
    node.bytes().all(|byte| byte.is_ascii_digit()).then(|| node.parse().ok())?
}

async fn in_time<T>(
    ensemble: &Ensemble,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(done) => done,
        Err(_) => Err(ensemble.unreachable(format!("no answer within {TIMEOUT:?}"))),
    }
}

/// A connection that ends when it is dropped.
struct Session<'a> {
    client: Client,
    ensemble: &'a Ensemble,
}

impl<'a> Session<'a> {
    async fn open(ensemble: &'a Ensemble) -> Result<Self, Error> {
        let mut connector = Client::connector()
            .with_connection_timeout(ensemble.connection_timeout)
            .with_session_timeout(TIMEOUT)
            .with_fail_eagerly();
        for (scheme, secret) in &ensemble.authorization {
            connector = connector.with_auth(scheme, secret.as_bytes());
        }
        let client = connector.connect(&ensemble.quorum).await;
        let client = client.map_err(|failure| ensemble.failure(ensemble.base(), &failure))?;
        Ok(Self { client, ensemble })
    }

    async fn sync(&self, path: &str) -> Result<(), Error> {
        self.client.sync(path).await.map_err(|failure| self.ensemble.failure(path, &failure))
    }

    /// Returns the node's children; empty if the node does not exist.
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        match self.client.list_children(path).await {
            Ok(children) => Ok(children),
            Err(Failure::NoNode) => Ok(Vec::new()),
            Err(failure) => Err(self.ensemble.failure(path, &failure)),
        }
    }

    async fn is_ephemeral(&self, path: &str) -> Result<bool, Error> {
        let stat = self.client.check_stat(path).await;
        let stat = stat.map_err(|failure| self.ensemble.failure(path, &failure))?;
        Ok(stat.is_some_and(|stat| stat.ephemeral_owner != 0))
    }

    /// Returns the node and all nodes below it, parents first.
    async fn nodes_below(&self, path: &str) -> Result<Vec<String>, Error> {
        let too_many = || Error::TooMany { path: path.to_owned() };
        let mut nodes = vec![path.to_owned()];
        let mut level = nodes.clone();
        for _ in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for parent in &level {
                let children = self.children(parent).await?;
                next.extend(children.iter().map(|child| format!("{parent}/{child}")));
            }
            if next.is_empty() {
                return Ok(nodes);
            }
            nodes.extend(next.iter().cloned());
            if nodes.len() > NODES_MAX {
                return Err(too_many());
            }
            level = next;
        }
        Err(too_many())
    }

    /// Returns the nodes of the stored graphs and applications.
    async fn job_graphs(&self) -> Result<Vec<String>, Error> {
        let mut graphs = Vec::new();
        for folder in self.ensemble.job_graphs() {
            self.sync(&folder).await?;
            let jobs = self.children(&folder).await?;
            graphs.extend(jobs.iter().map(|job| format!("{folder}/{job}")));
        }
        Ok(graphs)
    }

    async fn refuse_beside_a_job_manager(&self) -> Result<(), Error> {
        for path in self.nodes_below(&self.ensemble.path("leader")).await? {
            if self.is_ephemeral(&path).await? {
                return Err(Error::InUse { path: self.ensemble.base().to_owned() });
            }
        }
        Ok(())
    }

    async fn remove_all(&self, paths: &[String]) -> Result<(), Error> {
        for path in paths {
            self.remove(path).await?;
        }
        Ok(())
    }

    async fn remove(&self, path: &str) -> Result<(), Error> {
        for node in self.nodes_below(path).await?.iter().rev() {
            match self.client.delete(node, None).await {
                Ok(()) | Err(Failure::NoNode) => {}
                Err(failure) => return Err(self.ensemble.failure(node, &failure)),
            }
        }
        Ok(())
    }
}
