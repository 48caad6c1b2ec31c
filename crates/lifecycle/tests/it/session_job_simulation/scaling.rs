//! A session job with its autoscaler in the simulated world: cycles beside the passes, a changing load, and a process
//! that dies between any two of their steps.
//!
//! A cycle measures, decides and stores, and only then does its decision become effective; a pass puts effective
//! decisions into the spec. The store outlives the process, effective decisions in memory do not. Laws: a job is only
//! scaled to what is stored; each stored decision is in the history exactly once; a job is not scaled more often than
//! decided; and under a steady load it settles at a parallelism that keeps up.

use autoscaler::cycle::{self, Facts as Measured, Outcome};
use autoscaler::effects::{InForce, with_parallelism};
use autoscaler::eligibility::{Candidate, job_to_measure};
use autoscaler::plugin::Asking;
use autoscaler::quota::TaskManager;
use autoscaler::sample::{Aggregate, ProcessReading, Reading, VertexReading};
use autoscaler::scaling_history::VertexHistory;
use autoscaler::settings::Settings;
use autoscaler::state::{self, Data, Stored};
use autoscaler::topology::{Counters, Topology, Vertex, VertexId};
use config::FlinkConfig;

use super::*;

/// Records per second that a subtask can process.
const CAPACITY: f64 = 40.0;
const LOADS: [f64; 5] = [10.0, 50.0, 90.0, 160.0, 240.0];
/// Seconds between two cycles.
const INTERVAL: i64 = 2;
const OPTIONS: [(&str, &str); 8] = [
    // No window may be shorter than this.
    ("kubernetes.operator.reconcile.interval", "2 s"),
    ("job.autoscaler.enabled", "true"),
    ("job.autoscaler.stabilization.interval", "0 s"),
    ("job.autoscaler.metrics.window", "6 s"),
    ("job.autoscaler.scale-down.interval", "0 s"),
    ("job.autoscaler.catch-up.duration", "20 s"),
    ("job.autoscaler.restart.time", "0 s"),
    // The laws need the whole history.
    ("job.autoscaler.history.max.count", "1000"),
];

/// When in a cycle the process dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Death {
    BeforeItStores,
    BeforeItCounts,
}

/// What a process knows: the effective decisions, and what the next cycle continues from.
#[derive(Clone)]
struct Book {
    work: Stored,
    stored_at: Option<Timestamp>,
}

#[derive(Clone)]
struct Scaled {
    sim: Sim,
    /// The ConfigMap.
    stored: Data,
    book: Option<Book>,
    /// Incoming records per second, and records waiting.
    load: f64,
    lag: f64,
    records_in: f64,
    /// What the job did since the last cycle.
    seconds: f64,
    read: f64,
    busy: f64,
    running_since: Timestamp,
    runs: (Option<String>, u32),
    /// Decisions that were made and stored, as the test observed them.
    decided: Vec<(u32, u32)>,
    /// Number of changes of the job's parallelism.
    changes: usize,
    /// Decisions after which the process died: before they were stored, and before they became effective.
    died: [usize; 2],
}

impl Scaled {
    fn new(mode: &str) -> Self {
        let mut sim = Sim::new(mode, true);
        for (key, value) in OPTIONS {
            sim.configure(key, value);
        }
        sim.configure("kubernetes.operator.job.restart.failed", "true");
        let running_since = sim.now;
        Self {
            sim,
            stored: Data::new(),
            book: None,
            load: LOADS[0],
            lag: 0.0,
            records_in: 0.0,
            seconds: 0.0,
            read: 0.0,
            busy: 0.0,
            running_since,
            runs: (None, 1),
            decided: vec![],
            changes: 0,
            died: [0, 0],
        }
    }

    fn stored(&self) -> Stored {
        state::read(&self.stored).expect("what was written is read")
    }

    fn history(&self) -> VertexHistory {
        self.stored()
            .state
            .scaling_history
            .get(&VertexId::from(VERTEX))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns what the process knows, and reads it from the store first if it is new.
    fn book(&mut self) -> &mut Book {
        let work = self.stored();
        self.book.get_or_insert(Book { work, stored_at: None })
    }

    fn die(&mut self) {
        self.book = None;
        self.sim.die();
    }

    // --- the operator ---

    fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        self.sim.wanted = self.wanted();
        let plan = self.sim.pass(crash_at);
        self.sim.wanted = None;
        if crash_at.is_some() {
            self.die();
        }
        self.note_what_runs();
        plan
    }

    /// Returns the resource with the effective decisions, as `operator::autoscaler` passes it on.
    fn wanted(&mut self) -> Option<FlinkSessionJob> {
        let last = self.sim.status.reconciliation_status.last_reconciled_spec.clone()?;
        let last = ReconciledJob::parse(&last).unwrap();
        let own = self.sim.resource.spec.flink_configuration.clone();
        let state = &self.book().work.state;
        let in_force = InForce::Known {
            decided: &state.overrides,
            excluded: &BTreeSet::new(),
            config: &state.config,
        };
        let running = Some(&last.spec.flink_configuration);
        let wanted = with_parallelism(&own, &FlinkConfig::flatten(&own), running, in_force);
        let mut resource = self.sim.resource.clone();
        resource.spec.flink_configuration = wanted.unwrap();
        Some(resource)
    }

    fn cycle(&mut self, death: Option<Death>) {
        let Some((topology, reading)) = self.measured() else { return };
        let config = FlinkConfig::flatten(&self.sim.resource.spec.flink_configuration);
        let settings = Settings::read(&config).unwrap();
        let facts = Measured {
            now: self.sim.now,
            zone: &TimeZone::UTC,
            settings: &settings,
            config: &config,
            topology: &topology,
            running_since: self.running_since,
            reading: &reading,
            task_manager: TaskManager::default(),
            pods: None,
            capacity: None,
            asking: Asking::default(),
        };
        let Book { mut work, mut stored_at } = self.book().clone();
        let made = cycle::run(work.state.clone(), &facts);
        let is_decision = made.outcome == Outcome::Scaled;
        if death == Some(Death::BeforeItStores) {
            self.died[0] += usize::from(is_decision);
            return self.die();
        }
        let is_due = state::is_due(&work.state, &made.state, stored_at, &settings, self.sim.now);
        work.state = made.state;
        if is_due {
            self.stored = state::write(&work).unwrap().data;
            stored_at = Some(self.sim.now);
        }
        if is_decision {
            assert!(is_due, "{}: a decision that is not stored", Law::SessionJobScaling);
            let scaling = &made.scalings[&VertexId::from(VERTEX)];
            self.decided.push((scaling.current, scaling.new));
            self.sim.log.push(format!(
                "{} decided {} -> {}, {death:?}",
                self.sim.now, scaling.current, scaling.new
            ));
        }
        if death == Some(Death::BeforeItCounts) {
            self.died[1] += usize::from(is_decision);
            return self.die();
        }
        self.book = Some(Book { work, stored_at });
    }

    // --- the world ---

    /// Returns what Flink reports about a job that is to be measured.
    fn measured(&mut self) -> Option<(Topology, Reading)> {
        let Sim { resource, status, .. } = &self.sim;
        let candidate = Candidate {
            job: resource.spec.job.as_ref(),
            status: &status.job_status,
            reconciliation: &status.reconciliation_status,
            lifecycle: status.lifecycle_state,
            observed_generation: status.observed_generation,
            generation: resource.metadata.generation?,
            is_deleting: false,
            is_paused: false,
        };
        job_to_measure(&candidate).ok()?;
        let (seconds, read) = (self.seconds.max(1.0), std::mem::take(&mut self.read));
        let busy = std::mem::take(&mut self.busy);
        self.seconds = 0.0;
        let job = self.sim.mine().filter(|job| job.state == JobStatusState::Running)?;
        let vertex = Vertex {
            parallelism: job.parallelism,
            max_parallelism: 128,
            inputs: BTreeMap::new(),
            partitions: None,
            slot_sharing_group: Some("default".to_owned()),
            is_finished: false,
            counters: Counters {
                records_in: self.records_in,
                records_out: self.records_in,
                busy: 0.0,
            },
        };
        let of = |value: f64| {
            let value = Some(value);
            Some(Aggregate { min: value, max: value, average: value, sum: value })
        };
        let reading = VertexReading {
            busy: of(1000.0 * busy / seconds),
            backpressure: of(0.0),
            source_in_per_second: of(read / seconds),
            source_in: of(self.records_in),
            source_out: of(self.records_in),
            pending: of(self.lag),
            ..VertexReading::default()
        };
        let topology = Topology::new([(VERTEX.into(), vertex)].into()).unwrap();
        let vertices = [(VERTEX.into(), reading)].into();
        Some((topology, Reading { vertices, processes: ProcessReading::default() }))
    }

    fn tick(&mut self) {
        self.sim.tick();
        self.note_what_runs();
        self.lag += self.load;
        let is_up = self.sim.away == 0;
        let job = self.sim.mine().filter(|job| is_up && job.state == JobStatusState::Running);
        let Some(parallelism) = job.map(|job| f64::from(job.parallelism)) else { return };
        let most = parallelism * CAPACITY;
        let read = self.lag.min(most);
        self.lag -= read;
        self.records_in += read;
        self.read += read;
        self.busy += read / most;
        self.seconds += 1.0;
    }

    /// Resets the measurements of a job that was started or scaled.
    fn note_what_runs(&mut self) {
        let Some(job) = self.sim.mine().filter(|job| job.state == JobStatusState::Running) else {
            return;
        };
        let runs = (Some(job.id.clone()), job.parallelism);
        if runs == self.runs {
            return;
        }
        let decided = self.stored().state.overrides.get(&VertexId::from(VERTEX)).copied();
        let law = Law::SessionJobScaling;
        assert_eq!(runs.1, decided.unwrap_or(1), "{law}: it runs with what is not stored");
        self.changes += usize::from(runs.1 != self.runs.1);
        self.runs = runs;
        self.running_since = self.sim.now;
        (self.records_in, self.read, self.busy, self.seconds) = (0.0, 0.0, 0.0, 0.0);
    }

    fn second(&mut self, death: Option<Death>, crash_at: Option<usize>) -> Plan {
        self.tick();
        if self.sim.now.as_second() % INTERVAL == 0 {
            self.cycle(death);
        }
        self.pass(crash_at)
    }

    // --- the laws ---

    fn assert_history_is_whole(&self) {
        let history: Vec<(u32, u32)> =
            self.history().values().map(|scaling| (scaling.current, scaling.new)).collect();
        let law = Law::SessionJobScaling;
        assert_eq!(history, self.decided, "{law}: a decision is lost, or there twice");
        let is_doubled = history.windows(2).any(|pair| pair[0] == pair[1]);
        assert!(!is_doubled, "{law}: decided twice: {history:?}");
        let changes = self.changes;
        assert!(changes <= self.decided.len(), "{law}: {changes} changes for {:?}", self.decided);
    }

    /// The load stays the same and nothing fails any more.
    fn assert_converges(&mut self) {
        self.sim.refuses = false;
        for _ in 0..150 {
            self.second(None, None);
        }
        let law = Law::SessionJobScaling;
        let (decided, changes) = (self.decided.len(), self.changes);
        for _ in 0..30 {
            let before = self.sim.status.clone();
            let plan = self.second(None, None);
            assert!(plan.steps.is_empty(), "{law}: at rest: {}", plan.because);
            assert_eq!(before, self.sim.status, "{law}");
        }
        assert_eq!((decided, changes), (self.decided.len(), self.changes), "{law}: it swings");
        assert!(self.lag < self.load * 2.0, "{law}: {} wait of {} a second", self.lag, self.load);
        let job = self.sim.mine().unwrap();
        let stored = self.stored().state.overrides.get(&VertexId::from(VERTEX)).copied();
        assert_eq!(job.parallelism, stored.unwrap_or(1), "{law}: it does not run as was decided");
        self.assert_history_is_whole();
    }

    /// A person names the newest state whenever the status asks for it, after each of four waits.
    fn mend(&mut self) {
        for _ in 0..4 {
            for _ in 0..50 {
                self.second(None, None);
            }
            if asks(self.sim.status.error.as_deref()) {
                self.sim.heal();
            }
        }
    }

    fn misfortune(&mut self, choices: &mut Choices) {
        match choices.below(12) {
            0 => self.sim.edit(|job| job.parallelism = Some(job.parallelism.unwrap_or(1) % 8 + 1)),
            1 => self.sim.lose_cluster(),
            2 => self.sim.refuses = true,
            3 => {
                let mut running = self.sim.jobs.iter_mut();
                let running = running.find(|job| job.state == JobStatusState::Running);
                if let Some(job) = running {
                    job.state = JobStatusState::Failed;
                }
            }
            4 => self.sim.edit(|job| job.upgrade_mode = UpgradeMode::Savepoint),
            5 => self.sim.edit(|job| job.upgrade_mode = UpgradeMode::LastState),
            _ => {
                let at = usize::try_from(choices.below(LOADS.len() as u64)).unwrap();
                self.load = LOADS[at];
            }
        }
    }
}

impl Logged for Scaled {
    fn log(&self) -> &[String] {
        &self.sim.log
    }
}

#[test]
fn a_load_that_changes_is_followed_and_then_left_alone() {
    let mut scaled = Scaled::new("last-state");
    scaled.assert_converges();
    for load in [160.0, 50.0, 240.0, 10.0] {
        scaled.load = load;
        let before = scaled.decided.len();
        scaled.assert_converges();
        assert!(scaled.decided.len() > before, "{load} is not followed");
    }
    assert!(scaled.changes >= 4);
}

/// A decision made when the load grew is stored once and carried out once, wherever the process dies in between.
#[test]
fn a_crash_between_a_decision_and_what_follows_from_it_changes_nothing_in_the_end() {
    let mut grown = Scaled::new("last-state");
    grown.assert_converges();
    grown.sim.checkpoint();
    grown.load = 90.0;
    let mut before = grown.clone();
    let second = (0..60_u64).find(|_| {
        before.second(None, None);
        !before.decided.is_empty()
    });
    let second = second.expect("nothing is decided");
    let deaths = [None, Some(Death::BeforeItStores), Some(Death::BeforeItCounts)];
    for (death, later) in deaths.into_iter().flat_map(|death| (0..3).map(move |at| (death, at))) {
        for step in 0..4 {
            show_on_failure(later, &mut grown.clone(), |scaled| {
                for now in 0..second + 4 {
                    let death = death.filter(|_| now == second);
                    scaled.second(death, (now == second + later).then_some(step));
                }
                scaled.assert_converges();
                // A decision that was not stored is made again, with more records waiting.
                if death != Some(Death::BeforeItStores) {
                    assert_eq!(scaled.decided[0], before.decided[0], "{death:?} {step}");
                }
            });
        }
    }
}

#[test]
fn users_faults_and_crashes_double_no_decision_and_lose_no_history() {
    let (mut decided, mut scaled_in_place, mut died) = (0, 0, [0, 0]);
    for seed in seeds(16) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut scaled = Scaled::new(mode);
        show_on_failure(seed, &mut scaled, |scaled| {
            for _ in 0..160 {
                if choices.below(4) == 0 {
                    scaled.sim.checkpoint();
                }
                if choices.below(20) == 0 {
                    scaled.misfortune(&mut choices);
                }
                let death = match choices.below(12) {
                    0 => Some(Death::BeforeItStores),
                    1 => Some(Death::BeforeItCounts),
                    _ => None,
                };
                let crash_at = choices.crash(8, 7);
                scaled.second(death, crash_at);
                scaled.assert_history_is_whole();
            }
            scaled.mend();
            scaled.assert_converges();
        });
        decided += scaled.decided.len();
        scaled_in_place += scaled.sim.scaled;
        died = [died[0] + scaled.died[0], died[1] + scaled.died[1]];
    }
    assert!(decided > 30 && scaled_in_place > 1, "{decided} decided, {scaled_in_place} in place");
    assert!(died.iter().all(|count| *count > 0), "hardly ever between the two: {died:?}");
}
