//! The figures in the books: counts by namespace, times, and counts of each resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::super::facts::minor_version;
use super::super::family::{Family, Of, Point, Scope, Value};
use super::super::lifecycle::{BLUE_GREEN_STATES, STATES};
use super::super::scaling;
use super::super::{Facts, Kind, number};
use super::{Counts, Fleet, Group, Timings, Wait};
use api::state_snapshot::SnapshotState;
use api::status::{JobManagerDeploymentStatus, JobStatusState};

const JOB_MANAGER: [(JobManagerDeploymentStatus, &str); 5] = [
    (JobManagerDeploymentStatus::Ready, "READY"),
    (JobManagerDeploymentStatus::DeployedNotReady, "DEPLOYED_NOT_READY"),
    (JobManagerDeploymentStatus::Deploying, "DEPLOYING"),
    (JobManagerDeploymentStatus::Missing, "MISSING"),
    (JobManagerDeploymentStatus::Error, "ERROR"),
];

const SNAPSHOT: [SnapshotState; 5] = [
    SnapshotState::TriggerPending,
    SnapshotState::InProgress,
    SnapshotState::Completed,
    SnapshotState::Failed,
    SnapshotState::Abandoned,
];

/// Job states that the status of a `FlinkBlueGreenDeployment` may show.
const SERVING: [JobStatusState; 4] = [
    JobStatusState::Reconciling,
    JobStatusState::Running,
    JobStatusState::Suspended,
    JobStatusState::Failing,
];

/// The only count that is published for deleted resources, because it counts their deletion.
const DELETED: &str = "JOSDK.Resource.Event.DELETED.Count";

/// Selects the count of a resource.
type CountOf = fn(&Counts) -> u32;

/// A series exists once there is something to count, as in Java.
const OF_RESOURCE: [(&str, CountOf); 9] = [
    ("JOSDK.Resource.Event.Count", |counts| {
        counts.added.saturating_add(counts.updated).saturating_add(counts.deleted)
    }),
    ("JOSDK.Resource.Event.ADDED.Count", |counts| counts.added),
    ("JOSDK.Resource.Event.UPDATED.Count", |counts| counts.updated),
    (DELETED, |counts| counts.deleted),
    ("JOSDK.Reconciliation.Count", |counts| counts.passes),
    ("JOSDK.Reconciliation.retries.Count", |counts| counts.retries),
    ("JOSDK.Reconciliation.finished.Count", |counts| counts.finished),
    ("JOSDK.Reconciliation.failed.Count", |counts| counts.failed),
    ("JOSDK.Reconciliation.cleanup.Count", |counts| counts.cleanups),
];

/// Resources of a kind in a namespace.
#[derive(Default)]
struct Tally {
    all: u64,
    late: u64,
    paused: u64,
    lifecycle: [u64; STATES.len()],
    job_manager: [u64; JOB_MANAGER.len()],
    versions: BTreeMap<Box<str>, u64>,
    minor_versions: BTreeMap<Box<str>, u64>,
    cpu: f64,
    memory: f64,
    state_size: f64,
    savepoints: [u64; SNAPSHOT.len()],
    checkpoints: [u64; SNAPSHOT.len()],
    blue_green: [u64; BLUE_GREEN_STATES.len()],
    blue_green_job: [u64; SERVING.len()],
}

type SumOf = fn(&Tally) -> f64;
/// Counts of snapshots, in the order of [`SNAPSHOT`].
type StatesOf = fn(&Tally) -> &[u64; SNAPSHOT.len()];

/// Tallies of a kind, by namespace.
type Tallies<'t> = Vec<(&'t Arc<str>, &'t Tally)>;

impl Tally {
    fn add(&mut self, facts: &Facts, wait: Wait) {
        self.all += 1;
        self.late += u64::from(wait == Wait::Late);
        self.paused += u64::from(wait == Wait::Paused);
        if let Some(state) = facts.lifecycle() {
            count(&mut self.lifecycle, STATES.iter().position(|known| *known == state));
        }
        match facts {
            Facts::Deployment { lifecycle: _, job_manager, version, cpu, memory, state_size } => {
                let place = JOB_MANAGER.iter().position(|(known, _)| known == job_manager);
                count(&mut self.job_manager, place);
                *self.versions.entry(version.clone()).or_default() += 1;
                *self.minor_versions.entry(minor_version(version).into()).or_default() += 1;
                self.cpu += cpu;
                self.memory += memory;
                self.state_size += state_size;
            }
            Facts::SessionJob { lifecycle: _ } => {}
            Facts::Snapshot { is_savepoint, state } => {
                let of_kind =
                    if *is_savepoint { &mut self.savepoints } else { &mut self.checkpoints };
                count(of_kind, SNAPSHOT.iter().position(|known| known == state));
            }
            Facts::BlueGreen { state, job } => {
                let place = BLUE_GREEN_STATES.iter().position(|known| known == state);
                count(&mut self.blue_green, place);
                count(&mut self.blue_green_job, SERVING.iter().position(|known| known == job));
            }
        }
    }
}

fn count<const N: usize>(counts: &mut [u64; N], place: Option<usize>) {
    if let Some(count) = place.and_then(|place| counts.get_mut(place)) {
        *count += 1;
    }
}

impl Fleet {
    pub(crate) fn families(&self, now: Timestamp) -> Vec<Family> {
        let mut families = Vec::new();
        if self.settings.resources {
            self.count_resources(&mut families);
        }
        if self.settings.lifecycle {
            self.report_times(&mut families);
        }
        if self.settings.resources {
            let jobs = self.resources.values();
            let jobs = jobs.filter_map(|of| Some((&of.id, of.scaling.as_deref()?)));
            families.extend(scaling::families(jobs));
            families.push(self.ages_of_checkpoints(now));
        }
        if self.settings.passes {
            self.report_passes(&mut families);
        }
        families
    }

    fn ages_of_checkpoints(&self, now: Timestamp) -> Family {
        let points = self.all_saved().into_iter().map(|(id, saved)| {
            let age = now.duration_since(saved.newest.unwrap_or(saved.started)).as_secs_f64();
            Point { of: Of::Resource(id), label: None, value: Value::Gauge(age.max(0.0)) }
        });
        Family::new(Scope::Resource, "Checkpoint.AgeSeconds", points.collect())
    }

    fn count_resources(&self, families: &mut Vec<Family>) {
        let mut tallies: BTreeMap<(Kind, Arc<str>), Tally> =
            self.groups.keys().map(|key| (key.clone(), Tally::default())).collect();
        for resource in self.resources.values() {
            let key = (resource.id.kind, Arc::clone(&resource.id.namespace));
            tallies.entry(key).or_default().add(&resource.facts, resource.wait);
        }
        let kinds = [Kind::FlinkDeployment, Kind::FlinkSessionJob];
        let kinds = kinds.map(|kind| (kind, of_kind(&tallies, kind)));
        let of_each = kinds.iter().map(|(kind, tallies)| (*kind, tallies));
        let blue_green = of_kind(&tallies, Kind::FlinkBlueGreenDeployment);
        let counted = of_each.chain([(Kind::FlinkBlueGreenDeployment, &blue_green)]);
        let counted: Vec<Point> =
            counted.flat_map(|(kind, tallies)| gauges(kind, tallies, &|tally| tally.all)).collect();
        let of_both = |read: &dyn Fn(&Tally) -> u64| -> Vec<Point> {
            kinds.iter().flat_map(|(kind, tallies)| gauges(*kind, tallies, read)).collect()
        };
        let mut emit = |name: String, points: Vec<Point>| {
            families.push(Family::new(Scope::Namespace, name, points));
        };
        emit("Count".to_owned(), counted);
        let of_all = |read: &dyn Fn(&Tally) -> u64| -> Vec<Point> {
            let of = |kind: &Kind| gauges(*kind, &of_kind(&tallies, *kind), read);
            Kind::ALL.iter().flat_map(of).collect()
        };
        emit("Waiting.Late.Count".to_owned(), of_all(&|tally| tally.late));
        emit("Paused.Count".to_owned(), of_all(&|tally| tally.paused));
        if self.settings.lifecycle {
            for (place, state) in STATES.iter().enumerate() {
                let points = of_both(&|tally| at(&tally.lifecycle, place));
                emit(format!("Lifecycle.State.{}.Count", state.into_str()), points);
            }
        }
        let kind = Kind::FlinkDeployment;
        let deployments = of_kind(&tallies, kind);
        for (place, (_, name)) in JOB_MANAGER.iter().enumerate() {
            let points = gauges(kind, &deployments, &|tally| at(&tally.job_manager, place));
            emit(format!("JmDeploymentStatus.{name}.Count"), points);
        }
        let versions = labelled(&deployments, "FlinkVersion", |tally| &tally.versions);
        emit("FlinkVersion.Count".to_owned(), versions);
        let minor = labelled(&deployments, "FlinkMinorVersion", |tally| &tally.minor_versions);
        emit("FlinkMinorVersion.Count".to_owned(), minor);
        let sums: [(&str, SumOf); 3] = [
            ("Cpu", |tally| tally.cpu),
            ("Memory", |tally| tally.memory),
            ("StateSize", |tally| tally.state_size),
        ];
        for (name, read) in sums {
            let points = deployments
                .iter()
                .map(|(namespace, tally)| point(kind, namespace, None, Value::Gauge(read(tally))));
            emit(format!("ResourceUsage.{name}"), points.collect());
        }
        let kind = Kind::FlinkBlueGreenDeployment;
        let blue_green = of_kind(&tallies, kind);
        for (place, state) in BLUE_GREEN_STATES.iter().enumerate() {
            let points = gauges(kind, &blue_green, &|tally| at(&tally.blue_green, place));
            emit(format!("BlueGreenState.{}.Count", state.into_str()), points);
        }
        for (place, state) in SERVING.iter().enumerate() {
            let points = gauges(kind, &blue_green, &|tally| at(&tally.blue_green_job, place));
            emit(format!("JobStatus.{}.Count", state.into_str()), points);
        }
        let groups = self.groups.iter().filter(|((of, _), _)| *of == kind);
        let failures = groups.map(|((_, namespace), group)| {
            point(kind, namespace, None, Value::Count(number(group.failures)))
        });
        emit("Failures".to_owned(), failures.collect());
        let kind = Kind::FlinkStateSnapshot;
        let snapshots = of_kind(&tallies, kind);
        let ways: [(&str, StatesOf); 2] =
            [("Savepoint", |tally| &tally.savepoints), ("Checkpoint", |tally| &tally.checkpoints)];
        for (name, read) in ways {
            let all = gauges(kind, &snapshots, &|tally| read(tally).iter().sum());
            emit(format!("{name}.Count"), all);
            for (place, state) in SNAPSHOT.iter().enumerate() {
                let points = gauges(kind, &snapshots, &|tally| at(read(tally), place));
                emit(format!("{name}.State.{}.Count", state.into_str()), points);
            }
        }
    }

    /// Adds the times. Those of the operator exist from the first resource of the kind on, so that their counts grow
    /// from zero; those of a namespace once there is a value, because there may be thousands.
    fn report_times(&self, families: &mut Vec<Family>) {
        for (kind, timings) in &self.systems {
            for ((what, name), histogram) in timings {
                let name = format!("{}.Lifecycle.{what}.{name}.TimeSeconds", kind.into_str());
                families.push(Family::of_operator(name, Value::Summary(histogram.summary())));
            }
        }
        self.report_times_of_groups("Lifecycle", |group| &group.timings, families);
    }

    fn report_times_of_groups(
        &self,
        below: &str,
        read: fn(&Group) -> &Timings,
        families: &mut Vec<Family>,
    ) {
        let mut times: BTreeMap<(&str, &str), Vec<Point>> = BTreeMap::new();
        for ((kind, namespace), group) in &self.groups {
            for (timed, histogram) in read(group) {
                let value = Value::Summary(histogram.summary());
                times.entry(*timed).or_default().push(point(*kind, namespace, None, value));
            }
        }
        for ((what, name), points) in times {
            let name = format!("{below}.{what}.{name}.TimeSeconds");
            families.push(Family::new(Scope::Namespace, name, points));
        }
    }

    fn report_passes(&self, families: &mut Vec<Family>) {
        self.report_times_of_groups("JOSDK", |group| &group.passes, families);
        for (name, read) in OF_RESOURCE {
            let present = self.resources.values().map(|it| (&it.id, read(&it.counts)));
            let deleted = self.deleted.iter().filter(|_| name == DELETED);
            let counts = present.chain(deleted.map(|(id, count)| (id, *count)));
            let points = counts.filter(|(_, count)| *count > 0).map(|(id, count)| Point {
                of: Of::Resource(Arc::clone(id)),
                label: None,
                value: Value::Count(count.into()),
            });
            families.push(Family::new(Scope::Resource, name, points.collect()));
        }
    }
}

fn of_kind(tallies: &BTreeMap<(Kind, Arc<str>), Tally>, kind: Kind) -> Tallies<'_> {
    let of_kind = tallies.iter().filter(|((it, _), _)| *it == kind);
    of_kind.map(|((_, namespace), tally)| (namespace, tally)).collect()
}

fn at<const N: usize>(counts: &[u64; N], place: usize) -> u64 {
    counts.get(place).copied().unwrap_or_default()
}

fn point(
    kind: Kind,
    namespace: &Arc<str>,
    label: Option<(&'static str, Arc<str>)>,
    value: Value,
) -> Point {
    Point { of: Of::Namespace(kind, Arc::clone(namespace)), label, value }
}

fn gauges(kind: Kind, tallies: &Tallies<'_>, read: &dyn Fn(&Tally) -> u64) -> Vec<Point> {
    let value = |tally: &Tally| Value::Gauge(number(read(tally)));
    tallies.iter().map(|(namespace, tally)| point(kind, namespace, None, value(tally))).collect()
}

fn labelled(
    tallies: &Tallies<'_>,
    key: &'static str,
    read: fn(&Tally) -> &BTreeMap<Box<str>, u64>,
) -> Vec<Point> {
    let mut points = Vec::new();
    for (namespace, tally) in tallies {
        for (text, count) in read(tally) {
            let label = Some((key, Arc::from(&**text)));
            let value = Value::Gauge(number(*count));
            points.push(point(Kind::FlinkDeployment, namespace, label, value));
        }
    }
    points
}
