//! Leader election of `operate`: whether to wait for leadership, and by which Lease.

use anyhow::Context as _;
use clap::Args;

use super::super::connection::Connection;
use super::super::failure::Failure;
use ::election::lease::{Lost, Rules};
use ::election::shard::SHARDS_MAX;
use clients::cluster::access::{self, Operation};
use clients::cluster::lease;
use clients::fence::Fence;
use config::{FlinkConfig, options};
use operator::election::{self, Leadership, Settings, new_identity, own_pod};
use operator::run::Operator;
use operator::sharding::{self, Sharding};

/// Flags of leader election; the rest is in the operator's configuration.
#[derive(Args)]
pub(super) struct ElectionArgs {
    /// Only operate while holding this Lease, so that one of several replicas leads
    #[arg(long, value_name = "NAME")]
    lease_name: Option<String>,
    /// Divide the namespaces into this many shards among the replicas; 0 means one leader.
    /// Overrides `kubernetes.operator.sharding.shards`
    #[arg(long, value_name = "NUMBER")]
    shards: Option<u16>,
    /// Namespace of the Lease; default: that of the pod or of the kubeconfig's context
    #[arg(long, value_name = "NAMESPACE", env = "OPERATOR_NAMESPACE")]
    lease_namespace: Option<String>,
}

impl ElectionArgs {
    /// Returns the election to take part in; `None` without leader election.
    pub(super) fn settings(
        &self,
        config: &FlinkConfig,
        connection: &Connection,
        operates: String,
    ) -> anyhow::Result<Option<Settings>> {
        let is_wanted = config.get(&options::LEADER_ELECTION_ENABLED)?;
        if !is_wanted && self.lease_name.is_none() {
            return match self.shards(config)? {
                0 => Ok(None),
                _ => Err(Failure::usage("sharding needs leader election")
                    .hint("name a Lease: --lease-name, or kubernetes.operator.leader-election.*")
                    .into()),
            };
        }
        let named = config.text_of(&options::LEADER_ELECTION_LEASE_NAME).map(str::trim);
        let name = self.lease_name.as_deref().or(named).filter(|name| !name.is_empty());
        let Some(name) = name else {
            let key = options::LEADER_ELECTION_LEASE_NAME.key();
            return Err(Failure::usage(format!("leader election needs `{key}`"))
                .hint("use the same name for all replicas of an installation, and for no other")
                .into());
        };
        let own = connection.config.as_ref().map(|config| config.default_namespace.clone());
        let namespace = self.lease_namespace.clone().or(own);
        let namespace = namespace.unwrap_or_else(|| connection.namespace.clone());
        let rules = Rules::of(config)?;
        let (name, pod) = (name.to_owned(), own_pod());
        let identity = new_identity(pod.as_deref());
        Ok(Some(Settings { namespace, name, identity, pod, rules, operates, roster: None }))
    }
}

impl ElectionArgs {
    /// Returns the number of shards the namespaces are divided into; 0 if a single process leads.
    pub(super) fn shards(&self, config: &FlinkConfig) -> anyhow::Result<u16> {
        let configured = config.get(&options::SHARDING_SHARDS)?;
        let shards = self.shards.map_or(configured, i32::from);
        match u16::try_from(shards) {
            Ok(shards) if shards <= SHARDS_MAX => Ok(shards),
            Ok(_) | Err(_) => {
                let key = options::SHARDING_SHARDS.key();
                let told = format!("`{key}` or --shards is {shards}: expected 0 to {SHARDS_MAX}");
                Err(Failure::usage(told).into())
            }
        }
    }

    /// Returns how the work is shared; `None` if a single process leads. A process that must see all resources cannot
    /// share the work.
    pub(super) fn sharding(
        &self,
        config: &FlinkConfig,
        election: Option<&Settings>,
        must_see_all: bool,
    ) -> anyhow::Result<Option<sharding::Settings>> {
        let shards = self.shards(config)?;
        if must_see_all && shards > 0 {
            let told = "--until-stable waits for all resources, but with sharding this process has only some of them";
            return Err(Failure::usage(told).hint("turn sharding off: --shards 0").into());
        }
        let election = election.filter(|_| shards > 0).cloned();
        Ok(election.map(|election| sharding::Settings { election, shards }))
    }
}

/// Role of this process in the election.
pub(super) enum Role {
    /// There is no election.
    Alone,
    Leader(Leadership),
    Sharing(Box<Sharding>),
}

impl Role {
    /// Waits until this process has lost its leadership; without leader election, forever.
    pub(super) async fn lost(&mut self) -> Lost {
        match self {
            Self::Alone => std::future::pending().await,
            Self::Leader(leadership) => leadership.lost().await,
            Self::Sharing(sharding) => sharding.lost().await,
        }
    }

    /// Runs the operator on this process's share of the work if several share it; returns like [`Role::lost`].
    pub(super) async fn drive(&mut self, operator: &Operator) -> Lost {
        match self {
            Self::Sharing(sharding) => sharding.drive(operator).await,
            Self::Alone | Self::Leader(_) => self.lost().await,
        }
    }

    /// Releases the Leases, after the last write.
    pub(super) async fn give_back(self) {
        match self {
            Self::Alone => {}
            Self::Leader(leadership) => leadership.give_back().await,
            Self::Sharing(sharding) => sharding.give_back().await,
        }
    }
}

/// Returns the fence that prevents this process from writing before it may.
pub(super) fn fence_of(
    election: Option<&Settings>,
    sharding: Option<&sharding::Settings>,
) -> Fence {
    match (election, sharding) {
        (_, Some(sharding)) => sharding.fence(),
        (Some(_), None) => Fence::shut(),
        (None, None) => Fence::default(),
    }
}

/// Waits until this process leads or may share the work.
pub(super) async fn take_part(
    client: kube::Client,
    election: &Settings,
    sharding: Option<sharding::Settings>,
    fence: &Fence,
) -> Role {
    match sharding {
        Some(sharding) => {
            Role::Sharing(Box::new(sharding::join(client, sharding, fence.clone()).await))
        }
        None => Role::Leader(election::win(client, election.clone(), fence.clone()).await),
    }
}

/// Fails if a permission is missing that the election needs or, if several processes share all namespaces, the
/// permission to list namespaces: failing now is better than never leading.
pub(super) async fn check_rights(
    client: &kube::Client,
    settings: &Settings,
    shares_all_namespaces: bool,
) -> anyhow::Result<()> {
    const LIST: Operation =
        Operation { verb: "list", group: "", resource: "namespaces", subresource: None };
    let Settings { namespace, name, .. } = settings;
    for operation in lease::OPERATIONS {
        let may = access::may_named(client, namespace, name, operation).await;
        if !may.context("while checking permissions on the Lease")? {
            let shown = operation.shown();
            return Err(Failure::new(format!(
                "not allowed to {shown} in namespace `{namespace}`, for Lease `{name}`"
            ))
            .hint("leader election needs get, create and update on leases there")
            .into());
        }
    }
    let may = !shares_all_namespaces || {
        let may = access::may(client, "", LIST).await;
        may.context("while checking permissions on namespaces")?
    };
    if may {
        return Ok(());
    }
    Err(Failure::new("not allowed to list namespaces in the cluster")
        .hint("sharding all namespaces needs list and watch on namespaces, from a ClusterRole")
        .hint("or name the namespaces to operate: --watch-namespaces")
        .into())
}

/// Returns the error for lost leadership. The operator must be restarted, because its in-memory state may be outdated.
pub(super) fn deposed(settings: &Settings, lost: &Lost) -> anyhow::Error {
    let Settings { namespace, name, .. } = settings;
    Failure::new(format!("lost the Lease `{namespace}/{name}`: {lost}"))
        .hint("nothing was written since; restart the operator to rejoin")
        .into()
}
