//! HA metadata that Flink keeps in ZooKeeper: reading and removing it.
//!
//! Under `<path.root>/<cluster-id>` Flink has `jobs/<job id>/checkpoints/<checkpoint>`, the graphs of jobs to recover,
//! and `leader` with a node of each live JobManager. What cannot be read is an [`Error`], never an absence: a `sync`
//! precedes each read, so that a server that lags behind does not hide what was written. Nothing is removed while a
//! JobManager still has its node, nor any metadata of a job that is not known to be the cluster's. A spec may name any
//! path, so nothing is removed either from a tree with a node that Flink does not create there.

mod clusters;
mod ensemble;
mod tree;

use std::time::Duration;

use zookeeper_client::{Client, Error as Failure};

pub use clusters::{Found, clusters};
pub use ensemble::Ensemble;
use tree::{Node, OF_JOB_MANAGERS};

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
    /// Somebody else's, or another cluster's.
    #[error(
        "`{path}` in ZooKeeper at `{quorum}` contains what Flink does not create for a cluster \
         ({found}), and nothing there was removed. If it belongs to others, give this cluster its \
         own `high-availability.zookeeper.path.root`; if nobody needs it, remove it with \
         ZooKeeper's shell (`deleteall`)"
    )]
    Foreign { quorum: String, path: String, found: String },
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
            | Self::Foreign { .. }
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
            Self::Foreign { .. } => "ZooKeeperForeignNodes",
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
        let nodes = session.own_nodes().await?;
        session.refuse_with_a_job_manager(&nodes).await?;
        let folder = ensemble.path("jobs/");
        // `None` if the node belongs to no job.
        let is_of_others = |node: &Node| {
            let job = node.path.strip_prefix(&folder)?.split('/').next()?;
            Some(!jobs?.iter().any(|known| known == job))
        };
        let keeps_others = nodes.iter().any(|node| is_of_others(node) == Some(true));
        let is_removed = |node: &&Node| {
            !keeps_others || is_of_others(node) == Some(false) || ensemble.is_of_graph(node)
        };
        session.remove(nodes.iter().filter(is_removed)).await
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
        if graphs.is_empty() {
            return Ok(());
        }
        let nodes = session.own_nodes().await?;
        let is_known = |path: &String| jobs.iter().any(|job| path.ends_with(&format!("/{job}")));
        if !graphs.iter().all(is_known) {
            session.refuse_with_a_job_manager(&nodes).await?;
        }
        session.remove(nodes.iter().filter(|node| ensemble.is_of_graph(node))).await
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

    /// Returns the node and all nodes below it, parents first. At a node that is not `expected` it stops, and returns
    /// what it has read until then.
    async fn nodes_below(
        &self,
        path: &str,
        expected: impl Fn(&Node) -> bool,
    ) -> Result<Vec<Node>, Error> {
        let too_many = || Error::TooMany { path: path.to_owned() };
        let mut nodes: Vec<Node> = Vec::new();
        let mut level = vec![path.to_owned()];
        for _ in 0..=DEPTH_MAX {
            let mut next = Vec::new();
            let mut is_expected = true;
            for path in level {
                let (children, stat) = match self.client.get_children(&path).await {
                    Ok((children, stat)) => (children, Some(stat)),
                    Err(Failure::NoNode) => (Vec::new(), None),
                    Err(failure) => return Err(self.ensemble.failure(&path, &failure)),
                };
                next.extend(children.iter().map(|child| format!("{path}/{child}")));
                nodes.push(Node { path, stat });
                is_expected &= nodes.last().is_some_and(&expected);
                if nodes.len() + next.len() > NODES_MAX && is_expected {
                    return Err(too_many());
                }
            }
            if next.is_empty() || !is_expected {
                return Ok(nodes);
            }
            level = next;
        }
        Err(too_many())
    }

    /// Returns all nodes of the cluster.
    ///
    /// # Errors
    /// If any of them is not one that Flink creates, which includes those of a cluster inside, or around.
    async fn own_nodes(&self) -> Result<Vec<Node>, Error> {
        let Self { ensemble, .. } = self;
        self.sync(ensemble.base()).await?;
        let is_own = |node: &Node| ensemble.is_of_cluster(node);
        let mut nodes = self.nodes_below(ensemble.base(), is_own).await?;
        nodes.retain(|node| node.stat.is_some());
        let foreign: Vec<_> = nodes.iter().filter(|node| !is_own(node)).collect();
        let found = match (&*foreign, &*nodes) {
            // A graph, or another end of a tree: the node of a cluster has no data.
            ([], [Node { stat: Some(stat), .. }]) if stat.data_length > 0 => "data".to_owned(),
            ([], _) => return Ok(nodes),
            _ => ensemble.names(&foreign),
        };
        let (quorum, path) = (ensemble.quorum.clone(), ensemble.base().to_owned());
        Err(Error::Foreign { quorum, path, found })
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

    /// Refuses if a process is registered in the cluster, or a JobManager in a cluster that contains this one.
    async fn refuse_with_a_job_manager(&self, nodes: &[Node]) -> Result<(), Error> {
        let in_use = |path: &str| Err(Error::InUse { path: path.to_owned() });
        let Self { ensemble, .. } = self;
        let base = ensemble.base();
        if nodes.iter().any(Node::is_ephemeral) {
            return in_use(base);
        }
        let parents = base.match_indices('/').map(|(at, _)| &base[..at]);
        for parent in parents.filter(|_| !nodes.is_empty()) {
            for folder in OF_JOB_MANAGERS {
                let folder = format!("{parent}/{folder}");
                for process in self.children(&folder).await? {
                    let path = format!("{folder}/{process}");
                    let stat = self.client.check_stat(&path).await;
                    let stat = stat.map_err(|failure| ensemble.failure(&path, &failure))?;
                    if (Node { path, stat }).is_ephemeral() {
                        return in_use(if parent.is_empty() { "/" } else { parent });
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes exactly these nodes, children first. One with children that are not among them stays.
    async fn remove(&self, nodes: impl DoubleEndedIterator<Item = &Node>) -> Result<(), Error> {
        for Node { path, .. } in nodes.rev() {
            match self.client.delete(path, None).await {
                Ok(()) | Err(Failure::NoNode) => {}
                Err(failure) => return Err(self.ensemble.failure(path, &failure)),
            }
        }
        Ok(())
    }
}
