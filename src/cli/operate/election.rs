//! Whether `operate` waits to be elected, and by which Lease.

use anyhow::Context as _;
use clap::Args;

use super::super::connection::Connection;
use super::super::failure::Failure;
use crate::cluster::{access, lease};
use crate::config::{FlinkConfig, options};
use crate::decide::lease::{Lost, Rules};
use crate::operator::election::{Settings, new_identity};

/// Flags of leader election; the rest is in the operator's configuration.
#[derive(Args)]
pub(super) struct ElectionArgs {
    /// Operate only while holding this Lease, so that several replicas may run: one leads
    #[arg(long, value_name = "NAME")]
    lease_name: Option<String>,
    /// Namespace of the Lease; that of the pod or of the kubeconfig's context unless given
    #[arg(long, value_name = "NAMESPACE", env = "OPERATOR_NAMESPACE")]
    lease_namespace: Option<String>,
}

impl ElectionArgs {
    /// The election to take part in; nothing without leader election.
    pub(super) fn settings(
        &self,
        config: &FlinkConfig,
        connection: &Connection,
        operates: String,
    ) -> anyhow::Result<Option<Settings>> {
        let is_wanted = config.get(&options::LEADER_ELECTION_ENABLED)?;
        if !is_wanted && self.lease_name.is_none() {
            return Ok(None);
        }
        let named = config.text_of(&options::LEADER_ELECTION_LEASE_NAME).map(str::trim);
        let name = self.lease_name.as_deref().or(named).filter(|name| !name.is_empty());
        let Some(name) = name else {
            let key = options::LEADER_ELECTION_LEASE_NAME.key();
            return Err(Failure::usage(format!("leader election needs `{key}`"))
                .hint("give all replicas of an installation the same name, and no other one")
                .into());
        };
        let own = connection.config.as_ref().map(|config| config.default_namespace.clone());
        let namespace = self.lease_namespace.clone().or(own);
        let namespace = namespace.unwrap_or_else(|| connection.namespace.clone());
        let rules = Rules::of(config)?;
        let (name, identity) = (name.to_owned(), new_identity());
        Ok(Some(Settings { namespace, name, identity, rules, operates }))
    }
}

/// Fails where a right is missing that the election needs: better now than by never leading.
pub(super) async fn check_rights(client: &kube::Client, settings: &Settings) -> anyhow::Result<()> {
    let Settings { namespace, .. } = settings;
    for deed in lease::DEEDS {
        let may = access::may(client, namespace, deed).await;
        if !may.context("while looking up the rights to the lease")? {
            let shown = deed.shown();
            return Err(Failure::new(format!("may not {shown} in namespace `{namespace}`"))
                .hint("leader election needs get, list, watch, create and update of leases there")
                .into());
        }
    }
    Ok(())
}

/// What the end of the leadership is told as. A new process starts clean, without what this one
/// believes to know.
pub(super) fn deposed(settings: &Settings, lost: &Lost) -> anyhow::Error {
    let Settings { namespace, name, .. } = settings;
    Failure::new(format!("the lease `{namespace}/{name}` is lost: {lost}"))
        .hint("nothing was written since; start the operator again to take part anew")
        .into()
}
