//! The operator's own metrics: what is counted, under the names of the Java operator, and how it is reported.
//!
//! Pure: times are arguments. Everything is bounded: the series of a resource are removed with it, histograms share
//! their room, and what is not enabled is not counted. [`Metrics`] is the handle that the shell feeds;
//! [`Metrics::families`] is what reporters read.

mod facts;
pub mod family;
pub mod flat;
mod fleet;
pub mod histogram;
pub mod influxdb;
pub mod lifecycle;
pub mod log;
pub mod process;
pub mod scaling;
pub mod text;
pub mod traffic;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use self::family::{Family, Id, Of, Point, Scope, Value};
use self::fleet::Fleet;
use self::traffic::Traffic;
use config::FlinkConfig;
use config::option::InvalidValue;
use config::options::metrics as options;

pub use facts::Facts;
pub use fleet::{Saved, Sighting, Wait};

/// A kind of resource that is operated.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Kind {
    FlinkDeployment,
    FlinkSessionJob,
    FlinkStateSnapshot,
    FlinkBlueGreenDeployment,
}

impl Kind {
    const ALL: [Self; 4] = [
        Self::FlinkDeployment,
        Self::FlinkSessionJob,
        Self::FlinkStateSnapshot,
        Self::FlinkBlueGreenDeployment,
    ];
}

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Monotonic, for durations within this process.
    pub clock: Duration,
    /// For comparison with the times of others.
    pub time: Timestamp,
}

/// Selects the figures that are counted.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Settings {
    pub process: bool,
    /// Passes, and events of watches.
    pub passes: bool,
    /// Requests to the API server and to Flink.
    pub requests: bool,
    /// Also count answers by the hundreds of their codes.
    pub code_groups: bool,
    /// A request that takes this long is slow.
    pub slow: Duration,
    pub resources: bool,
    pub lifecycle: bool,
    pub namespace_histograms: bool,
    pub sample_size: u32,
}

impl Settings {
    /// Returns the settings of the operator's configuration.
    pub fn of(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        let resources = config.get(&options::RESOURCE_METRICS_ENABLED)?;
        let lifecycle = config.get(&options::RESOURCE_LIFECYCLE_METRICS_ENABLED)?;
        Ok(Self {
            process: config.get(&options::JVM_METRICS_ENABLED)?,
            passes: config.get(&options::JOSDK_METRICS_ENABLED)?,
            requests: config.get(&options::KUBERNETES_CLIENT_METRICS_ENABLED)?,
            code_groups: config.get(&options::KUBERNETES_CLIENT_METRICS_CODE_GROUPS_ENABLED)?,
            slow: config.get(&options::KUBERNETES_CLIENT_METRICS_SLOW_REQUEST_THRESHOLD)?,
            resources,
            lifecycle: resources && lifecycle,
            namespace_histograms: config
                .get(&options::RESOURCE_LIFECYCLE_NAMESPACE_HISTOGRAMS_ENABLED)?,
            sample_size: config.get(&options::METRICS_HISTOGRAM_SAMPLE_SIZE)?,
        })
    }
}

/// Identity of the operator: the labels of all its metrics.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    pub host: String,
    pub namespace: String,
    pub name: String,
}

/// Shared by everything that counts; if off, it counts nothing and keeps nothing.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<Inner>>);

struct Inner {
    settings: Settings,
    identity: Identity,
    fleet: Mutex<Fleet>,
    kubernetes: Traffic,
    flink: Traffic,
    reloads: Reloads,
    /// Whether each shard is held, by number; empty if there is a single leader.
    shards: Mutex<Vec<bool>>,
}

/// Returns the metrics of shards: each one, and the number of those that are held.
fn shard_families(shards: &[bool]) -> Vec<Family> {
    if shards.is_empty() {
        return Vec::new();
    }
    let point = |(index, is_held): (usize, &bool)| Point {
        of: Of::Operator,
        label: Some(("Shard", index.to_string().into())),
        value: Value::Gauge(f64::from(u8::from(*is_held))),
    };
    let points = shards.iter().enumerate().map(point).collect();
    let held: u32 = shards.iter().map(|is_held| u32::from(*is_held)).sum();
    vec![
        Family::new(Scope::System, "Sharding.Shard.IsHeld", points),
        Family::of_operator("Sharding.Held.Count", Value::Gauge(held.into())),
    ]
}

/// The outcomes of reading the configuration files since the start.
#[derive(Debug, Default)]
struct Reloads {
    /// How often another configuration came into force.
    applied: AtomicU64,
    /// How often one was rejected.
    refused: AtomicU64,
    /// Whether the present text of the files is rejected, so that an earlier configuration is in force.
    is_refused: AtomicBool,
}

impl Reloads {
    fn families(&self) -> [Family; 3] {
        let count = |count: &AtomicU64| Value::Count(number(count.load(Ordering::Relaxed)));
        let is_refused = number(self.is_refused.load(Ordering::Relaxed).into());
        [
            Family::of_operator("Configuration.Applied.Count", count(&self.applied)),
            Family::of_operator("Configuration.Refused.Count", count(&self.refused)),
            Family::of_operator("Configuration.IsRefused", Value::Gauge(is_refused)),
        ]
    }
}

impl Metrics {
    pub fn new(settings: Settings, identity: Identity) -> Self {
        let fleet = Mutex::new(Fleet::new(&settings));
        let traffic =
            || if settings.requests { Traffic::new(&settings) } else { Traffic::default() };
        let (kubernetes, flink) = (traffic(), traffic());
        let (reloads, shards) = (Reloads::default(), Mutex::default());
        let inner = Inner { settings, identity, fleet, kubernetes, flink, reloads, shards };
        Self(Some(Arc::new(inner)))
    }

    /// Returns the requests to the API server.
    pub fn kubernetes(&self) -> Traffic {
        self.0.as_ref().map(|inner| inner.kubernetes.clone()).unwrap_or_default()
    }

    /// Returns the requests to JobManagers.
    pub fn flink(&self) -> Traffic {
        self.0.as_ref().map(|inner| inner.flink.clone()).unwrap_or_default()
    }

    /// Returns `true` if the process's own figures are enabled.
    pub fn wants_process(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.settings.process)
    }

    /// Returns the labels of every metric; `None` if metrics are off.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.as_ref().map(|inner| &inner.identity)
    }

    fn change(&self, change: impl FnOnce(&mut Fleet)) {
        if let Some(inner) = &self.0 {
            change(&mut inner.fleet.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Notes that a watch begins to list everything of a kind, in one namespace or in all.
    pub fn list_begins(&self, kind: Kind, namespace: Option<&str>) {
        self.change(|fleet| fleet.list_begins(kind, namespace));
    }

    /// Notes that the list is complete: what it did not show is gone.
    pub fn list_ends(&self, kind: Kind, namespace: Option<&str>, now: Now) {
        self.change(|fleet| fleet.list_ends(kind, namespace, now));
    }

    /// Notes that the namespace, or with `None` the whole cluster, is no longer watched.
    pub fn scope_closes(&self, namespace: Option<&str>, now: Now) {
        for kind in Kind::ALL {
            self.change(|fleet| fleet.scope_closes(kind, namespace, now));
        }
    }

    /// Notes that a watch shows the resource. Only this makes a resource known: anything else that happens to an
    /// unknown one, such as a pass over one that was deleted, is not counted. The sighting is put together only if
    /// metrics are on.
    pub fn see<'s>(&self, sighting: impl FnOnce() -> Sighting<'s>, now: Now) {
        self.change(|fleet| fleet.see(&sighting(), now));
    }

    /// Notes that the watch shows its end.
    pub fn gone(&self, uid: &str, now: Now) {
        self.change(|fleet| fleet.gone(uid, now));
    }

    /// Returns `true` if the JobManager is to be asked now for the newest checkpoint of this running job.
    pub fn asks_when_saved(&self, uid: &str, now: Now) -> bool {
        let mut asks = false;
        self.change(|fleet| asks = fleet.asks_when_saved(uid, now));
        asks
    }

    /// Notes what a job has saved; `None` if it is not running, or takes no checkpoints.
    pub fn saved(&self, uid: &str, saved: Option<Saved>) {
        self.change(|fleet| fleet.saved(uid, saved));
    }

    /// Returns of each running job what [`Metrics::saved`] noted.
    pub fn all_saved(&self) -> Vec<(Arc<Id>, Saved)> {
        let mut all = Vec::new();
        self.change(|fleet| all = fleet.all_saved());
        all
    }

    /// Notes that its status was written, which the watch shows later.
    pub fn status_written(&self, uid: &str, version: u64, facts: impl FnOnce() -> Facts, now: Now) {
        self.change(|fleet| fleet.status_written(uid, version, facts(), now));
    }

    /// Notes that a pass wrote its metadata, or removed the finalizer.
    pub fn metadata_written(&self, uid: &str, lets_go: bool) {
        self.change(|fleet| fleet.metadata_written(uid, lets_go));
    }

    /// Notes what the resource waits for.
    pub fn note_wait(&self, uid: &str, wait: Wait) {
        self.change(|fleet| fleet.note_wait(uid, wait));
    }

    pub fn pass_begins(&self, uid: &str, is_cleanup: bool, now: Now) {
        self.change(|fleet| fleet.pass_begins(uid, is_cleanup, now));
    }

    pub fn pass_ends(&self, uid: &str, has_failed: bool, now: Now) {
        self.change(|fleet| fleet.pass_ends(uid, has_failed, now));
    }

    /// Notes that another configuration is in force from now on.
    pub fn configuration_applied(&self) {
        let Some(Inner { reloads, .. }) = self.0.as_deref() else { return };
        reloads.applied.fetch_add(1, Ordering::Relaxed);
        reloads.is_refused.store(false, Ordering::Relaxed);
    }

    /// Notes that the files have a configuration that cannot come into force.
    pub fn configuration_refused(&self) {
        let Some(Inner { reloads, .. }) = self.0.as_deref() else { return };
        reloads.refused.fetch_add(1, Ordering::Relaxed);
        reloads.is_refused.store(true, Ordering::Relaxed);
    }

    /// Notes which of this many shards this process operates.
    pub fn shards_held(&self, shards: u16, held: &BTreeSet<u16>) {
        let Some(inner) = self.0.as_deref() else { return };
        let all = (0..shards).map(|shard| held.contains(&shard)).collect();
        *inner.shards.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Notes that the files have the configuration in force again.
    pub fn configuration_confirmed(&self) {
        let Some(Inner { reloads, .. }) = self.0.as_deref() else { return };
        reloads.is_refused.store(false, Ordering::Relaxed);
    }

    /// Notes that a cycle of the autoscaler ended; its figures are put together only if metrics are on.
    pub fn cycle_ended(
        &self,
        uid: &str,
        ended: scaling::Ended,
        figures: impl FnOnce() -> Option<Vec<scaling::Figure>>,
    ) {
        self.change(|fleet| fleet.cycle_ended(uid, ended, figures()));
    }

    /// Notes that the job is not measured now.
    pub fn forget_scaling_figures(&self, uid: &str) {
        self.change(|fleet| fleet.forget_scaling_figures(uid));
    }

    /// Forgets versions, because the API server's store went back: earlier ones are news again.
    pub fn forget_versions(&self) {
        self.change(Fleet::forget_versions);
    }

    /// Returns everything that is counted.
    pub fn families(&self, now: Now) -> Vec<Family> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut families = {
            let fleet = inner.fleet.lock().unwrap_or_else(PoisonError::into_inner);
            fleet.families(now.time)
        };
        families.extend(inner.reloads.families());
        let shards = inner.shards.lock().unwrap_or_else(PoisonError::into_inner).clone();
        families.extend(shard_families(&shards));
        families.extend(inner.kubernetes.families("KubeClient", now.clock));
        families.extend(inner.flink.families("FlinkClient", now.clock));
        families
    }
}

/// Converts a count to the type of a metric.
#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53, which no count here reaches")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_is_reported_where_there_are_any() {
        assert_eq!(shard_families(&[]), []);
        let families = shard_families(&[true, false, true]);
        let [each, held] = families.as_slice() else { panic!("{families:?}") };
        let described = |point: &Point| {
            let (key, shard) = point.label.clone().unwrap();
            format!("{key} {shard} {:?}", point.value)
        };
        let described: Vec<String> = each.points.iter().map(described).collect();
        assert_eq!(described, ["Shard 0 Gauge(1.0)", "Shard 1 Gauge(0.0)", "Shard 2 Gauge(1.0)"]);
        assert_eq!(each.name, "Sharding.Shard.IsHeld");
        assert_eq!(held.points[0].value, Value::Gauge(2.0));
    }
}
