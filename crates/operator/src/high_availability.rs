//! HA metadata, wherever Flink keeps it: reads it, removes it, and removes the graph of a job that starts again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::act::Error;
use api::version::FlinkVersion;
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Writer};
use clients::cluster::leftovers::is_recovered;
use clients::fence::Fence;
use clients::flink::patience;
use clients::zookeeper::{self, Ensemble};
use config::cluster::{is_kubernetes_high_availability_on, is_zookeeper_high_availability_on};
use config::{FlinkConfig, OperatorConfig, options};
use lifecycle::world::{Fact, HaMetadata, Leader};

/// Maximum number of objects in one list; a cluster has a handful of ConfigMaps.
const LIST_MAX: u32 = 500;

/// Names the leader among the JobManagers that contend for a ConfigMap.
const LOCK_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Holder of the lock while old JobManagers end.
const HOLDER: &str = "kubectl-flink-operator";
/// Duration of the operator's lease in the lock. It only informs: others take a lock that was not renewed for the time
/// that they are themselves configured with, by default this one.
const HOLD: Duration = Duration::from_secs(15);
/// How old a renewal must be for another one.
const RENEWED: SignedDuration = SignedDuration::from_secs(1);
/// Number of further attempts to take the lock from a leader that has just renewed it.
const HOLD_TRIES: usize = 4;
/// Prefix of the ConfigMap keys under which a leader publishes its addresses. With those of an ended leader, a new
/// JobManager may register at itself in vain, and retries after 30 s.
const LEADER_KEYS: &str = "org.apache.flink.k8s.leader.";

/// A change of a ConfigMap: its new lock, if that is another one, and the keys to remove.
type Change<'a> = (Option<String>, BTreeMap<&'a str, Value>);

/// Where the metadata of a job is.
pub(super) struct Place<'a> {
    pub(super) client: &'a kube::Client,
    pub(super) namespace: &'a str,
    /// Name of the cluster.
    pub(super) name: &'a str,
    pub(super) job_id: Option<&'a str>,
    /// The cluster has jobs of others: one without checkpoints exists as its graph alone.
    pub(super) is_session: bool,
    /// Says which ZooKeeper may be used.
    pub(super) operator: &'a OperatorConfig,
    /// Nothing is removed when it is closed.
    pub(super) fence: Fence,
}

/// Kind of store that holds a cluster's metadata.
enum Store {
    ConfigMaps,
    ZooKeeper,
    /// In a store for which only Flink has a factory, or nowhere.
    Elsewhere,
}

impl Store {
    fn of(config: &FlinkConfig) -> Self {
        if is_kubernetes_high_availability_on(config) {
            Self::ConfigMaps
        } else if is_zookeeper_high_availability_on(config) {
            Self::ZooKeeper
        } else {
            Self::Elsewhere
        }
    }
}

impl Place<'_> {
    /// Returns the metadata of the job; never from a cache, because state depends on it.
    pub(super) async fn metadata(
        &self,
        config: &FlinkConfig,
    ) -> Result<Fact<HaMetadata>, cluster::Error> {
        Ok(match Store::of(config) {
            Store::ConfigMaps => {
                let maps = self.config_maps().await?;
                let mut metadata = metadata_in(&maps, self.name, self.job_id);
                metadata.has_job |= self.is_session && has_graph(&maps);
                Fact::Known(metadata)
            }
            Store::ZooKeeper => match self.metadata_in_zookeeper(config).await {
                Ok(metadata) => Fact::Known(metadata),
                Err(error) => Fact::Unknown(error.to_string()),
            },
            Store::Elsewhere => {
                let kind = config.text_of(&options::HA_TYPE).unwrap_or("NONE");
                Fact::Unknown(format!(
                    "`high-availability.type: {kind}` keeps it where this version cannot read it"
                ))
            }
        })
    }

    async fn metadata_in_zookeeper(
        &self,
        config: &FlinkConfig,
    ) -> Result<HaMetadata, zookeeper::Error> {
        let ensemble = self.ensemble(config)?;
        let mut metadata =
            patience::wait(Box::pin(zookeeper::metadata(&ensemble, self.job_id))).await?;
        if self.is_session && !metadata.has_job {
            metadata.has_job = patience::wait(Box::pin(zookeeper::has_graph(&ensemble))).await?;
        }
        Ok(metadata)
    }

    fn ensemble(&self, config: &FlinkConfig) -> Result<Ensemble, zookeeper::Error> {
        let version = config.text_of(&options::FLINK_VERSION).and_then(FlinkVersion::parse);
        Ensemble::from_config(config, &self.operator.defaults(self.namespace, version))
    }

    /// Removes what Flink keeps of the cluster; only that of `jobs` if the store may also hold metadata of others.
    /// ConfigMaps are removed whatever the configuration says now, because it may have been different before.
    pub(super) async fn delete(
        &self,
        config: &FlinkConfig,
        jobs: Option<&[String]>,
    ) -> Result<(), Error> {
        for map in self.config_maps().await? {
            let id = ObjectId::of::<ConfigMap>(self.namespace, &map.name_any());
            // Only as they were read: a request that arrives late must not remove those of the next start.
            let deletion = Deletion {
                uid: map.metadata.uid.as_deref(),
                resource_version: map.metadata.resource_version.as_deref(),
                ..Deletion::with(apply::Propagation::Background)
            };
            apply::delete(self.client, &id, deletion).await?;
        }
        if let Store::ZooKeeper = Store::of(config) {
            let ensemble = self.ensemble(config)?;
            let deletion = patience::wait(Box::pin(zookeeper::delete(&ensemble, jobs)));
            self.fence.guard(deletion).await.map_err(cluster::Error::from)??;
        }
        Ok(())
    }

    /// Removes the stored graphs of the cluster, so that a JobManager starts with the new one alone. It runs every job
    /// of which it finds a graph, including those left by an earlier resource of this name and the applications of a
    /// session cluster. In ZooKeeper, graphs of jobs other than `jobs` may belong to a running cluster of this name in
    /// another namespace.
    pub(super) async fn forget_job_graphs(
        &self,
        config: &FlinkConfig,
        jobs: &[String],
    ) -> Result<(), Error> {
        match Store::of(config) {
            Store::ConfigMaps => self.remove_with_leadership(is_recovered).await,
            Store::ZooKeeper => {
                let ensemble = self.ensemble(config)?;
                let change =
                    patience::wait(Box::pin(zookeeper::forget_job_graphs(&ensemble, jobs)));
                self.fence.guard(change).await.map_err(cluster::Error::from)??;
                Ok(())
            }
            Store::Elsewhere => Ok(()),
        }
    }

    /// Ends the leadership of a JobManager that has ended, so that the next one need not wait for its lease to expire:
    /// 15 s unless the job configures another time. A JobManager that is asked to end releases the lock, but usually
    /// takes it again before it has ended.
    pub(super) async fn end_leadership(&self, config: &FlinkConfig) -> Result<(), Error> {
        match Store::of(config) {
            Store::ConfigMaps => self.remove_with_leadership(|_| false).await,
            // A ZooKeeper session ends with its process.
            Store::ZooKeeper | Store::Elsewhere => Ok(()),
        }
    }

    /// Takes the leadership from whoever has it, and the stored graphs with it, so that the next leader runs its own
    /// program; or renews the operator's.
    pub(super) async fn hold_leadership(&self, now: Timestamp) -> Result<(), Error> {
        for _ in 0..HOLD_TRIES {
            match self.try_to_hold(now).await {
                // The leader has renewed its lock meanwhile.
                Err(Error::Cluster(cluster::Error::Conflict { .. })) => {}
                other => return other,
            }
        }
        self.try_to_hold(now).await
    }

    async fn try_to_hold(&self, now: Timestamp) -> Result<(), Error> {
        self.amend_config_maps(|map| hold(map, now)).await
    }

    /// Returns who holds the lock if that is nobody or the operator, and otherwise `None` and the addresses that the
    /// holder has published.
    pub(super) async fn leader(&self) -> Result<(Option<Leader>, Vec<IpAddr>), cluster::Error> {
        let maps = self.config_maps().await?;
        let mut leader = Some(Leader::Nobody);
        for map in &maps {
            let lock = lock_of(map).unwrap_or_default();
            match lock["holderIdentity"].as_str() {
                None | Some("") => {}
                Some(HOLDER) => leader = leader.map(|_| Leader::Operator),
                Some(_) => leader = None,
            }
        }
        Ok((leader, maps.iter().flat_map(published).collect()))
    }

    /// Releases the lock if the operator holds it, for a JobManager with one of these addresses.
    pub(super) async fn release_leadership(&self, next: &[IpAddr]) -> Result<(), Error> {
        self.amend_config_maps(|map| release(map, next)).await
    }

    /// Removes these keys, and what an ended JobManager has left of its leadership. No JobManager is running: if one
    /// writes all the same, this is a conflict.
    async fn remove_with_leadership(&self, is_stale: impl Fn(&str) -> bool) -> Result<(), Error> {
        let is_stale = |key: &str| is_stale(key) || key.starts_with(LEADER_KEYS);
        self.amend_config_maps(|map| Some((released(map), keys(map, is_stale)))).await
    }

    /// Gives each ConfigMap the lock that `change` returns and removes the keys, in the version that was read.
    /// ConfigMaps for which it returns `None` stay as they are.
    async fn amend_config_maps(
        &self,
        change: impl Fn(&ConfigMap) -> Option<Change<'_>>,
    ) -> Result<(), Error> {
        for map in &self.config_maps().await? {
            let Some((lock, removed)) = change(map) else { continue };
            if removed.is_empty() && lock.is_none() {
                continue;
            }
            let id = ObjectId::of::<ConfigMap>(self.namespace, &map.name_any());
            let annotations = lock.map(|lock| json!({LOCK_ANNOTATION: lock}));
            let patch = json!({
                "metadata": {
                    "resourceVersion": map.metadata.resource_version,
                    "annotations": annotations.unwrap_or_else(|| json!({})),
                },
                "data": removed,
            });
            apply::amend(self.client, &id, &patch, Writer::OPERATOR).await?;
        }
        Ok(())
    }

    /// Lists the ConfigMaps that Flink keeps for the cluster, without the autoscaler's, which has the same labels.
    async fn config_maps(&self) -> Result<Vec<ConfigMap>, cluster::Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
        let selector =
            format!("app={},type=flink-native-kubernetes,component!=autoscaler", self.name);
        let list = api.list(&ListParams::default().labels(&selector).limit(LIST_MAX)).await?;
        let is_ha = |map: &ConfigMap| {
            let name = map.metadata.name.as_deref().unwrap_or_default();
            name.ends_with("-config-map") || name.ends_with("-leader")
        };
        Ok(list.items.into_iter().filter(is_ha).collect())
    }
}

/// Returns keys of a ConfigMap in the form that removes them in a patch.
fn keys(map: &ConfigMap, is_removed: impl Fn(&str) -> bool) -> BTreeMap<&str, Value> {
    let keys = map.data.iter().flatten().map(|(key, _)| key.as_str());
    keys.filter(|key| is_removed(key)).map(|key| (key, Value::Null)).collect()
}

/// Returns the lock that JobManagers contend for.
fn lock_of(map: &ConfigMap) -> Option<Value> {
    serde_json::from_str(map.metadata.annotations.as_ref()?.get(LOCK_ANNOTATION)?).ok()
}

fn is_held_by_operator(map: &ConfigMap) -> bool {
    lock_of(map).is_some_and(|lock| lock["holderIdentity"] == HOLDER)
}

/// Returns `true` if the operator holds the lock, and took or renewed it a moment ago.
fn is_held_since(map: &ConfigMap, now: Timestamp) -> bool {
    let renewed = lock_of(map).and_then(|lock| lock["renewTime"].as_str()?.parse().ok());
    is_held_by_operator(map)
        && renewed.is_some_and(|renewed: Timestamp| now.duration_since(renewed) < RENEWED)
}

/// Returns the IP addresses that a leader has published.
fn published(map: &ConfigMap) -> impl Iterator<Item = IpAddr> + '_ {
    let all = map.data.iter().flatten().filter(|(key, _)| key.starts_with(LEADER_KEYS));
    all.filter_map(|(_, text)| address_in(text))
}

/// Returns the IP address in what a leader publishes: `SESSION,pekko.tcp://flink@ADDRESS:PORT/user/rpc/NAME`.
fn address_in(published: &str) -> Option<IpAddr> {
    let (_, address) = published.split_once('@')?;
    let host = match address.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        None => address.split_once(':')?.0,
    };
    host.parse().ok()
}

/// Takes the lock, or renews it, and removes the graphs. The addresses of the leader stay: without them, its TaskManagers
/// would leave it at once, while it still takes itself for the leader. It would fail a job that has no restarts left, and
/// remove the checkpoints from the job's ConfigMap.
fn hold(map: &ConfigMap, now: Timestamp) -> Option<Change<'_>> {
    let graphs = keys(map, is_recovered);
    if graphs.is_empty() && is_held_since(map, now) {
        return None;
    }
    Some((Some(held(map, now)?), graphs))
}

/// Releases the lock if the operator holds it, and removes the addresses of the leader, which has ended: who stands by
/// would look for it there. They stay if the `next` leader has led before, which may not know that it was deposed.
fn release<'a>(map: &'a ConfigMap, next: &[IpAddr]) -> Option<Change<'a>> {
    if !is_held_by_operator(map) {
        return None;
    }
    let has_led = published(map).any(|ip| next.contains(&ip));
    Some((released(map), keys(map, |key| !has_led && key.starts_with(LEADER_KEYS))))
}

/// Returns the lock of a ConfigMap with the operator as its holder; `None` if there is no lock.
fn held(map: &ConfigMap, now: Timestamp) -> Option<String> {
    let mut lock = lock_of(map)?;
    let fields = lock.as_object_mut()?;
    let transitions = fields.get("leaderTransitions").and_then(Value::as_i64).unwrap_or_default();
    let is_held = fields.get("holderIdentity").and_then(Value::as_str) == Some(HOLDER);
    // Flink cannot read a lock with another precision, and no JobManager would ever lead again.
    let now = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    fields.insert("renewTime".to_owned(), now.clone().into());
    if !is_held {
        fields.extend([
            ("holderIdentity".to_owned(), HOLDER.into()),
            ("leaseDuration".to_owned(), HOLD.as_secs_f64().into()),
            ("acquireTime".to_owned(), now.into()),
            ("leaderTransitions".to_owned(), (transitions + 1).into()),
        ]);
    }
    Some(lock.to_string())
}

/// Returns the lock of a ConfigMap without its holder; `None` if it has no holder.
fn released(map: &ConfigMap) -> Option<String> {
    let mut lock = lock_of(map)?;
    let holder = lock.get_mut("holderIdentity").filter(|it| it.as_str() != Some(""))?;
    *holder = Value::from("");
    Some(lock.to_string())
}

/// Returns the metadata of the job with this id, or of any job if the id is not known.
pub fn metadata_in(maps: &[ConfigMap], cluster: &str, job_id: Option<&str>) -> HaMetadata {
    let of_job: Vec<&ConfigMap> = maps
        .iter()
        .filter(|map| map.metadata.deletion_timestamp.is_none())
        .filter(|map| {
            let name = map.metadata.name.as_deref().unwrap_or_default();
            match job_id {
                Some(id) => {
                    name == format!("{cluster}-{id}-config-map")
                        || name == format!("{cluster}-{id}-jobmanager-leader")
                }
                None => {
                    !name.ends_with("-cluster-config-map")
                        && (name.ends_with("-config-map") || name.ends_with("-jobmanager-leader"))
                }
            }
        })
        .collect();
    HaMetadata {
        has_job: !of_job.is_empty(),
        checkpoint: of_job
            .iter()
            .flat_map(|map| map.data.iter().flatten())
            // There is a checkpoint, whatever its number.
            .filter_map(|(key, _)| Some(key.strip_prefix("checkpointID-")?.parse().unwrap_or(0)))
            .max(),
    }
}

/// Returns `true` if a JobManager of any version would find a job or an application to run.
fn has_graph(maps: &[ConfigMap]) -> bool {
    let kept = maps.iter().filter(|map| map.metadata.deletion_timestamp.is_none());
    let mut keys = kept.flat_map(|map| map.data.iter().flatten()).map(|(key, _)| key);
    keys.any(|key| is_recovered(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_released_says_all_else_that_it_said() {
        let map = |lock: &str| {
            let annotations = Some([(LOCK_ANNOTATION.to_owned(), lock.to_owned())].into());
            let metadata =
                kube::api::ObjectMeta { annotations, ..kube::api::ObjectMeta::default() };
            ConfigMap { metadata, ..ConfigMap::default() }
        };
        let held = r#"{"acquireTime":"2026-01-01T00:00:00Z","holderIdentity":"a-b","leaseDuration":15.0,"leaderTransitions":3}"#;
        let free = held.replace("a-b", "");
        let parsed = |text: Option<String>| text.map(|it| serde_json::from_str(&it).unwrap());
        let expected: Value = serde_json::from_str(&free).unwrap();
        assert_eq!(parsed(released(&map(held))), Some(expected));
        assert_eq!(released(&map(&free)), None);
        assert_eq!(released(&map("no lock")), None);
        assert_eq!(released(&ConfigMap::default()), None);
    }

    #[test]
    fn a_lock_is_taken_in_the_form_that_flink_reads() {
        let text = r#"{"holderIdentity":"a-b","leaseDuration":15.0,"leaderTransitions":3}"#;
        let annotations = Some([(LOCK_ANNOTATION.to_owned(), text.to_owned())].into());
        let metadata = kube::api::ObjectMeta { annotations, ..kube::api::ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        let now = "2026-01-01T00:00:00.123456789Z".parse().unwrap();
        let lock: Value = serde_json::from_str(&held(&map, now).unwrap()).unwrap();
        let expected = json!({"holderIdentity": HOLDER, "leaseDuration": 15.0, "leaderTransitions": 4,
            "acquireTime": "2026-01-01T00:00:00.123456Z", "renewTime": "2026-01-01T00:00:00.123456Z"});
        assert_eq!(lock, expected);
        assert_eq!(held(&ConfigMap::default(), now), None);
    }

    #[test]
    fn a_lock_that_the_operator_holds_is_renewed() {
        let text = format!(
            r#"{{"holderIdentity":"{HOLDER}","acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:00.000000Z","leaderTransitions":4}}"#
        );
        let annotations = Some([(LOCK_ANNOTATION.to_owned(), text)].into());
        let metadata = kube::api::ObjectMeta { annotations, ..kube::api::ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        let soon = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let later = "2026-01-01T00:00:03Z".parse().unwrap();
        assert!(is_held_since(&map, soon) && !is_held_since(&map, later));
        let lock: Value = serde_json::from_str(&held(&map, later).unwrap()).unwrap();
        let expected = json!({"holderIdentity": HOLDER, "leaderTransitions": 4,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:03.000000Z"});
        assert_eq!(lock, expected);
    }

    #[test]
    fn a_leader_is_recognised_by_the_address_that_it_publishes() {
        let in_rpc =
            |host: &str| address_in(&format!("ab-c,pekko.tcp://flink@{host}:6123/user/rpc/rm_0"));
        assert_eq!(in_rpc("10.42.0.7"), Some("10.42.0.7".parse().unwrap()));
        assert_eq!(in_rpc("[fd00::7]"), Some("fd00::7".parse().unwrap()));
        assert_eq!(in_rpc("orders.shop"), None);
        assert_eq!(address_in("ab-c,http://10.42.0.7:8081"), None);
    }

    #[test]
    fn what_any_flink_would_run_is_a_job() {
        for (key, expected) in [
            ("jobGraph-1", true),
            ("executionPlan-1", true),
            ("application-1", true),
            ("counter", false),
        ] {
            let data = Some([(key.to_owned(), "x".to_owned())].into());
            assert_eq!(has_graph(&[ConfigMap { data, ..ConfigMap::default() }]), expected, "{key}");
        }
    }

    /// A cluster's ConfigMap as a leader of Flink 1.20 leaves it, and the moment after its last renewal.
    fn led_by(holder: &str) -> (ConfigMap, Timestamp) {
        let lock = json!({"holderIdentity": holder, "leaseDuration": 15.0, "leaderTransitions": 3,
            "acquireTime": "2026-11-29T23:15:12.087491Z", "renewTime": "2026-11-29T23:15:32.180367Z"});
        let map = json!({
            "metadata": {
                "name": "job-cluster-config-map",
                "annotations": {LOCK_ANNOTATION: lock.to_string()},
            },
            "data": {
                "jobGraph-1": "rO0ABXNy",
                "org.apache.flink.k8s.leader.dispatcher": "1ecc,pekko.tcp://flink@10.0.0.7:6123/user/rpc/dispatcher_1",
                "org.apache.flink.k8s.leader.job-1": "1ecc,pekko.tcp://flink@10.0.0.7:6123/user/rpc/jobmanager_2",
            },
        });
        (serde_json::from_value(map).unwrap(), "2026-11-29T23:15:32.5Z".parse().unwrap())
    }

    /// `conformance::flink` has what Flink does otherwise.
    #[test]
    fn a_hold_leaves_the_addresses_of_the_leader_to_its_task_managers() {
        let (map, now) = led_by("58d35558");
        let (lock, removed) = hold(&map, now).unwrap();
        assert_eq!(removed, BTreeMap::from([("jobGraph-1", Value::Null)]));
        let lock: Value = serde_json::from_str(&lock.unwrap()).unwrap();
        assert_eq!(lock["holderIdentity"], HOLDER);
        assert_eq!(lock["renewTime"], "2026-11-29T23:15:32.500000Z");
        assert_eq!(lock["leaderTransitions"], 4);
    }

    #[test]
    fn a_release_removes_the_addresses_of_the_leader_that_has_ended() {
        let (map, _) = led_by(HOLDER);
        let (lock, removed) = release(&map, &["10.0.0.8".parse().unwrap()]).unwrap();
        assert_eq!(removed.len(), 2);
        assert!(removed.keys().all(|key| key.starts_with(LEADER_KEYS)));
        assert!(lock.unwrap().contains(r#""holderIdentity":"""#));
        let (_, removed) = release(&map, &["10.0.0.7".parse().unwrap()]).unwrap();
        assert_eq!(removed, BTreeMap::new(), "of a leader that leads again");
        let (map, _) = led_by("58d35558");
        assert!(release(&map, &[]).is_none(), "of a lock that the operator does not hold");
    }
}
