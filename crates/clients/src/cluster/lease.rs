//! The Lease object by which operators agree on who leads.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};

use super::access::Operation;
use super::{Error, Result};
use election::{lease, shard};

/// Says what the holder operates, so that an installation knows its own lease.
pub const OPERATES: &str = "kubectl-flink/operates";

/// Who shares the work under the Lease of a number of shards.
pub const MEMBERS: &str = "kubectl-flink/members";

/// The operations that taking part in the election needs.
pub const OPERATIONS: [Operation; 3] = [operation("get"), operation("create"), operation("update")];

const fn operation(verb: &'static str) -> Operation {
    Operation { verb, group: "coordination.k8s.io", resource: "leases", subresource: None }
}

/// Who asks for the lease.
#[derive(Clone, Debug)]
pub struct Holder {
    pub identity: String,
    pub duration: Duration,
    /// Which resources, in words.
    pub operates: String,
    /// Who else holds it with this one: [`shard::Roster`]; absent where it is held by one.
    pub members: Option<BTreeMap<String, u64>>,
}

/// One Lease of the cluster.
#[derive(Clone)]
pub struct Leases {
    api: Api<Lease>,
    name: String,
}

impl Leases {
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned() }
    }

    pub async fn read(&self) -> Result<Option<Lease>> {
        Ok(self.api.get_opt(&self.name).await?)
    }

    /// Makes the lease, held by `holder`.
    pub async fn create(&self, holder: &Holder, now: Timestamp) -> Result<Lease> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        };
        Ok(self.api.create(&PostParams::default(), &held_by(lease, holder, now)).await?)
    }

    /// Takes or renews the lease as it was read: one that was written since is a conflict.
    pub async fn replace(&self, lease: Lease, holder: &Holder, now: Timestamp) -> Result<Lease> {
        let lease = held_by(lease, holder, now);
        Ok(self.api.replace(&self.name, &PostParams::default(), &lease).await?)
    }

    /// Gives the lease back, so that nobody has to wait for its end.
    pub async fn release(&self, mut lease: Lease, now: Timestamp) -> Result<()> {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(now));
        self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        Ok(())
    }

    /// The lease over time; nothing while there is none. Lost connections are made again.
    pub fn watch(&self) -> impl Stream<Item = Result<Option<Lease>>> + Send + use<> {
        watcher::watch_object(self.api.clone(), &self.name)
            .default_backoff()
            .map(|seen| seen.map_err(super::read::from_watch))
    }
}

fn held_by(mut lease: Lease, holder: &Holder, now: Timestamp) -> Lease {
    let annotations: &mut BTreeMap<String, String> = lease.annotations_mut();
    let _former = annotations.insert(OPERATES.to_owned(), holder.operates.clone());
    let _former = match &holder.members {
        Some(members) => annotations.insert(MEMBERS.to_owned(), shard::roster_text(members)),
        None => annotations.remove(MEMBERS),
    };
    lease.spec = Some(spec(lease.spec, holder, now));
    lease
}

fn spec(before: Option<LeaseSpec>, holder: &Holder, now: Timestamp) -> LeaseSpec {
    let is_first = before.is_none();
    let before = before.unwrap_or_default();
    let is_renewal = before.holder_identity.as_ref() == Some(&holder.identity);
    let changes = before.lease_transitions.unwrap_or(0);
    let seconds = holder.duration.as_secs() + u64::from(holder.duration.subsec_nanos() > 0);
    LeaseSpec {
        holder_identity: Some(holder.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        lease_transitions: Some(changes.saturating_add(i32::from(!is_renewal && !is_first))),
        acquire_time: if is_renewal { before.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        ..before
    }
}

/// Reduces a Lease to what decisions are made of. Its times only tell one renewal from another.
pub fn seen(lease: &Lease) -> lease::Lease {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    lease::Lease {
        holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
        version: lease.resource_version().and_then(|text| text.parse().ok()).unwrap_or(0),
        renewal: format!("{spec:?}"),
        duration: seconds.map(Duration::from_secs),
    }
}

/// The holder's own text about what it operates. Nothing if the holder is another program.
pub fn operates(lease: &Lease) -> Option<&str> {
    lease.annotations().get(OPERATES).map(String::as_str)
}

/// Who shares it, as its last renewal says.
pub fn members(lease: &Lease) -> BTreeMap<String, u64> {
    lease.annotations().get(MEMBERS).map(|text| shard::parse_roster(text)).unwrap_or_default()
}

/// True if a write was refused because somebody else's came first.
pub fn is_beaten(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(identity: &str) -> Holder {
        let (identity, operates) = (identity.to_owned(), "all namespaces".to_owned());
        Holder { identity, duration: Duration::from_millis(2500), operates, members: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_lease_that_changes_hands_counts_it() {
        let first = held_by(Lease::default(), &holder("a"), at(1));
        let spec = first.spec.clone().unwrap();
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!(spec.lease_duration_seconds, Some(3), "part of a second is kept");
        let renewed = held_by(first, &holder("a"), at(2)).spec.unwrap();
        assert_eq!(renewed.acquire_time, Some(MicroTime(at(1))));
        let taken = held_by(Lease { spec: Some(renewed), ..Lease::default() }, &holder("b"), at(3));
        let spec = taken.spec.clone().unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time), (Some(1), Some(MicroTime(at(3)))));
        assert_eq!(operates(&taken), Some("all namespaces"));
    }

    #[test]
    fn labels_are_no_renewal_and_a_new_time_is() {
        let lease = held_by(Lease::default(), &holder("a"), at(1));
        let mut labelled = lease.clone();
        labelled.labels_mut().insert("team".to_owned(), "data".to_owned());
        labelled.metadata.resource_version = Some("7".to_owned());
        assert_eq!(seen(&lease).renewal, seen(&labelled).renewal);
        assert_eq!(seen(&labelled).version, 7);
        assert_ne!(
            seen(&lease).renewal,
            seen(&held_by(lease.clone(), &holder("a"), at(2))).renewal
        );
    }
}
