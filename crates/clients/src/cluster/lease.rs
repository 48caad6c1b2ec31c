//! The Lease object by which operators elect a leader.

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

/// Says what the holder operates, so that an installation recognizes its own lease.
pub const OPERATES: &str = "kubectl-flink/operates";

/// The members that share the work, on the Lease of a number of shards.
pub const MEMBERS: &str = "kubectl-flink/members";

/// Which process of the pod named in the spec holds the lease, and the renewal that recorded it. Other programs and
/// scripts expect a pod name in the spec, but a restarted container is another holder.
pub const PROCESS: &str = "kubectl-flink/process";

/// The operations that the election needs.
pub const OPERATIONS: [Operation; 3] = [operation("get"), operation("create"), operation("update")];

const fn operation(verb: &'static str) -> Operation {
    Operation { verb, group: "coordination.k8s.io", resource: "leases", subresource: None }
}

/// Who requests the lease.
#[derive(Clone, Debug)]
pub struct Holder {
    /// Unique to this process.
    pub identity: String,
    /// Its pod, which the spec names as the holder; `None` if the process does not run in a pod.
    pub pod: Option<String>,
    pub duration: Duration,
    /// Which resources it operates, as text.
    pub operates: String,
    /// Who else shares it: [`shard::Roster`]; `None` if there is a single holder.
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

    /// Creates the lease, held by `holder`.
    pub async fn create(&self, holder: &Holder, now: Timestamp) -> Result<Lease> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        };
        Ok(self.api.create(&PostParams::default(), &held_by(lease, holder, now)).await?)
    }

    /// Takes or renews the lease as it was read: a newer version is a conflict.
    pub async fn replace(&self, lease: Lease, holder: &Holder, now: Timestamp) -> Result<Lease> {
        let lease = held_by(lease, holder, now);
        Ok(self.api.replace(&self.name, &PostParams::default(), &lease).await?)
    }

    /// Gives the lease back, so that no one has to wait until it expires.
    pub async fn release(&self, mut lease: Lease, now: Timestamp) -> Result<()> {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(now));
        self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        Ok(())
    }

    /// Watches the lease; `None` while it does not exist. Reconnects after lost connections.
    pub fn watch(&self) -> impl Stream<Item = Result<Option<Lease>>> + Send + use<> {
        watcher::watch_object(self.api.clone(), &self.name)
            .default_backoff()
            .map(|seen| seen.map_err(super::read::from_watch))
    }
}

fn held_by(mut lease: Lease, holder: &Holder, now: Timestamp) -> Lease {
    lease.spec = Some(spec(&lease, holder, now));
    let annotations: &mut BTreeMap<String, String> = lease.annotations_mut();
    let _former = annotations.insert(OPERATES.to_owned(), holder.operates.clone());
    let _former = match &holder.members {
        Some(members) => annotations.insert(MEMBERS.to_owned(), shard::roster_text(members)),
        None => annotations.remove(MEMBERS),
    };
    let _former = match &holder.pod {
        Some(_) => {
            let process = format!("{} {}", holder.identity, now.as_microsecond());
            annotations.insert(PROCESS.to_owned(), process)
        }
        None => annotations.remove(PROCESS),
    };
    lease
}

fn spec(before: &Lease, holder: &Holder, now: Timestamp) -> LeaseSpec {
    let is_first = before.spec.is_none();
    let is_renewal = holder_of(before) == Some(holder.identity.as_str());
    let before = before.spec.clone().unwrap_or_default();
    let changes = before.lease_transitions.unwrap_or(0);
    let seconds = holder.duration.as_secs() + u64::from(holder.duration.subsec_nanos() > 0);
    LeaseSpec {
        holder_identity: Some(holder.pod.as_ref().unwrap_or(&holder.identity).clone()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        lease_transitions: Some(changes.saturating_add(i32::from(!is_renewal && !is_first))),
        acquire_time: if is_renewal { before.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        ..before
    }
}

/// Returns the process that holds it if the last renewal named one, otherwise the holder of the spec. The annotation
/// outlives a holder that does not know it, so it is valid only for the same renewal and the same pod.
fn holder_of(lease: &Lease) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let named = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let process = lease.annotations().get(PROCESS).and_then(|text| text.rsplit_once(' '));
    let renewal = spec.renew_time.as_ref().map(|at| at.0.as_microsecond().to_string());
    let is_of_pod = |identity: &str| {
        identity.strip_prefix(named).is_some_and(|process| process.starts_with('_'))
    };
    match process {
        Some((identity, at)) if renewal.as_deref() == Some(at) && is_of_pod(identity) => {
            Some(identity)
        }
        Some(_) | None => Some(named),
    }
}

/// Reduces a Lease to what decisions need. Its times only distinguish one renewal from another.
pub fn seen(lease: &Lease) -> lease::Lease {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    lease::Lease {
        holder: holder_of(lease).map(str::to_owned),
        version: lease.resource_version().and_then(|text| text.parse().ok()).unwrap_or(0),
        renewal: format!("{spec:?}"),
        duration: seconds.map(Duration::from_secs),
    }
}

/// Returns the holder's own text about what it operates; `None` if the holder is another program.
pub fn operates(lease: &Lease) -> Option<&str> {
    lease.annotations().get(OPERATES).map(String::as_str)
}

/// Returns the members that share it, according to its last renewal.
pub fn members(lease: &Lease) -> BTreeMap<String, u64> {
    lease.annotations().get(MEMBERS).map(|text| shard::parse_roster(text)).unwrap_or_default()
}

/// Returns whether a write was refused because another one came first.
pub fn is_beaten(error: &Error) -> bool {
    matches!(error, Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(identity: &str) -> Holder {
        let (identity, operates) = (identity.to_owned(), "all namespaces".to_owned());
        let duration = Duration::from_millis(2500);
        Holder { identity, pod: None, duration, operates, members: None }
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
    fn a_pod_is_named_and_its_former_process_is_another_holder() {
        let in_pod =
            |process: &str| Holder { pod: Some("a".to_owned()), ..holder(&format!("a_{process}")) };
        let first = held_by(Lease::default(), &in_pod("1"), at(1));
        let named = |lease: &Lease| lease.spec.clone().unwrap().holder_identity;
        assert_eq!(named(&first).as_deref(), Some("a"), "whom scripts look for");
        assert_eq!(seen(&first).holder.as_deref(), Some("a_1"));
        let renewed = held_by(first.clone(), &in_pod("1"), at(2));
        assert_eq!(renewed.spec.clone().unwrap().lease_transitions, Some(0));
        let restarted = held_by(renewed.clone(), &in_pod("2"), at(3));
        assert_eq!(named(&restarted).as_deref(), Some("a"));
        assert_eq!(seen(&restarted).holder.as_deref(), Some("a_2"));
        assert_eq!(restarted.spec.clone().unwrap().lease_transitions, Some(1));
        let outside = held_by(restarted, &holder("b"), at(4));
        assert_eq!(seen(&outside).holder.as_deref(), Some("b"));
        assert!(!outside.annotations().contains_key(PROCESS));
    }

    /// For example the Java operator, which keeps annotations as they are.
    #[test]
    fn a_holder_that_knows_no_processes_is_none_of_ours() {
        let of_pod = Holder { pod: Some("a".to_owned()), ..holder("a_1") };
        let ours = held_by(Lease::default(), &of_pod, at(1));
        let held_as = |named: &str, renewed: Timestamp| {
            let mut lease = ours.clone();
            let spec = lease.spec.as_mut().unwrap();
            spec.holder_identity = Some(named.to_owned());
            spec.renew_time = Some(MicroTime(renewed));
            seen(&lease).holder
        };
        assert_eq!(held_as("a", at(1)).as_deref(), Some("a_1"), "it is as it was");
        assert_eq!(held_as("a", at(2)).as_deref(), Some("a"), "who renews it without a process");
        assert_eq!(held_as("b", at(1)).as_deref(), Some("b"), "who is written in by hand");
        assert_eq!(held_as("a_1", at(2)).as_deref(), Some("a_1"), "an earlier version's name");
        assert_eq!(held_as("", at(2)), None, "nobody's");
    }

    /// The API server stores microseconds.
    #[test]
    fn a_process_is_known_by_a_lease_that_was_stored() {
        let of_pod = Holder { pod: Some("a".to_owned()), ..holder("a_1") };
        let odd = Timestamp::new(1, 999_999_999).unwrap();
        let lease = held_by(Lease::default(), &of_pod, odd);
        let stored: Lease = serde_json::from_str(&serde_json::to_string(&lease).unwrap()).unwrap();
        assert_eq!(seen(&stored).holder.as_deref(), Some("a_1"));
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
