//! One job: what is known of it, and a turn in which it is measured, evaluated and scaled.
//!
//! A decision is stored, and only then carried out. In every turn, even if nothing could be measured, what is stored is
//! compared with what was requested from Flink: whatever got lost in between is made up for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::view::{JobView, VertexView};
use super::{Cluster, Shared};
use crate::heavy;
use autoscaler::advice;
use autoscaler::bounds::{Bounds, wanted};
use autoscaler::cycle::{Cycle, Outcome, OwnedFacts};
use autoscaler::evaluate::Evaluation;
use autoscaler::event_limiter::EventLimiter;
use autoscaler::events::{Disabled, Event};
use autoscaler::plugin;
use autoscaler::quota::TaskManager;
use autoscaler::scaling_history::Scaling;
use autoscaler::settings::{Settings, rest_timeout, set_over};
use autoscaler::state::{self, Stored, Written};
use autoscaler::topology::{Topology, VertexId};
use autoscaler::window::later;
use clients::flink::Client;
use clients::flink::jobs::{JobOverview, JobState};
use clients::flink::rescale::{ParallelismBounds, ResourceRequirements, VertexRequirements};
use clients::flink::scaling::{Measured, Names, Unmeasured};
use clients::store::{self, Record};
use config::FlinkConfig;
use config::options::autoscaler::ENABLED;
use config::options::{SCHEDULER, TASK_MANAGER_CPU, TASK_MANAGER_PROCESS_MEMORY};
use validation::autoscaler_options;

/// Maximum time to measure a job.
const MEASURING_MAX: Duration = Duration::from_mins(1);
/// A job's configuration is read again after this time: it changes with its JobManager.
const CONFIG_AGE_MAX: Duration = Duration::from_mins(5);
/// How long a call to Flink may take unless the options set another time.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// An error that stays the same is logged again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_mins(30);

/// The book of one job.
pub(super) struct Book {
    cluster: String,
    key: String,
    job_id: String,
    /// `None` until it is read from the store, and if someone else may have written it.
    work: Option<Work>,
    names: Names,
    config: Option<(Instant, FlinkConfig)>,
    event_limiter: EventLimiter,
    seen: Seen,
}

/// The data that cycles work with, and its stored form.
struct Work {
    kept: Record,
    stored: Stored,
    stored_at: Option<Timestamp>,
    /// It comes from the Java program, so the job is not new.
    is_taken_over: bool,
}

/// The facts about the job that others see.
#[derive(Default)]
struct Seen {
    is_off: bool,
    measured_at: Option<Timestamp>,
    outcome: Option<Outcome>,
    evaluation: Option<Evaluation>,
    parallelism: std::collections::BTreeMap<VertexId, u32>,
    advised_until: Option<Timestamp>,
    /// Why the job only gets advice.
    fixed_by: Option<String>,
    error: Option<String>,
    scalings: u64,
    balanced: u64,
    errors: u64,
}

/// Why a turn had no result.
enum Failure {
    /// Transient, as just after a start.
    Quiet(String),
    Lasting(String),
    /// The stored data must be read again.
    Store(store::Error),
}

fn stopped() -> Failure {
    Failure::Quiet("the process stops".to_owned())
}

impl Failure {
    fn lasting(error: impl fmt::Display) -> Self {
        Self::Lasting(error.to_string())
    }
}

/// The requirements that were requested from Flink, or why the job cannot be scaled in place.
type Asked = Result<ResourceRequirements, String>;

impl Book {
    pub(super) fn new(cluster: &str, job_id: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            key: format!("{cluster}#{job_id}"),
            job_id: job_id.to_owned(),
            work: None,
            names: Names::default(),
            config: None,
            event_limiter: EventLimiter::default(),
            seen: Seen::default(),
        }
    }

    /// Returns the key in the store.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Notes that the job does not run: its figures no longer hold.
    pub(super) fn rest(&mut self) {
        (self.seen.outcome, self.seen.evaluation, self.seen.error) = (None, None, None);
        // It may come back with another configuration.
        self.config = None;
    }

    /// Measures, decides, stores and scales.
    pub(super) async fn turn(&mut self, cluster: &Cluster, job: &JobOverview, shared: &Shared) {
        let now = Timestamp::now();
        let trouble = match self.work_on(cluster, job, shared).await {
            Ok(()) => {
                self.seen.error = None;
                return;
            }
            Err(trouble) => trouble,
        };
        let (cluster, job) = (&self.cluster, &self.job_id);
        let reason = match trouble {
            Failure::Quiet(reason) => {
                tracing::debug!(cluster, job, reason, "the job was not measured");
                return;
            }
            Failure::Lasting(reason) => reason,
            Failure::Store(error) => {
                // Whatever is stored now, it is read again.
                self.work = None;
                error.to_string()
            }
        };
        self.seen.errors += 1;
        if !self.event_limiter.is_suppressed(&reason, Some(REPEAT_INTERVAL), None, now) {
            tracing::warn!(cluster, job, reason, "the autoscaler does not decide");
        }
        self.seen.error = Some(reason);
    }

    async fn work_on(
        &mut self,
        cluster: &Cluster,
        job: &JobOverview,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let config = self.configuration(cluster, shared).await?;
        if !config.get(&ENABLED).map_err(Failure::lasting)? {
            return self.turn_off(shared).await;
        }
        self.seen.is_off = false;
        let violations = autoscaler_options(&config, shared.settings.interval);
        if !violations.is_empty() {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Err(Failure::Lasting(lines.join("; ")));
        }
        let mut settings = Settings::read(&config).map_err(Failure::lasting)?;
        shared.settings.rules.check(&settings).map_err(Failure::Lasting)?;
        if settings.memory_tuning.is_enabled {
            settings.memory_tuning.is_enabled = false;
            self.remark(
                "job.autoscaler.memory.tuning.enabled: memory is not tuned, because nothing \
                 restarts the job",
            );
        }
        let timeout = rest_timeout(&config, REQUEST_DEADLINE).map_err(Failure::lasting)?;
        let client = cluster.client.clone().with_request_deadline(timeout);
        if self.work.is_none() {
            self.work = Some(self.read(shared).await?);
        }
        let asked = self.asked(&client, &config).await?;
        self.seen.fixed_by = asked.as_ref().err().cloned();
        settings.fixed_by.clone_from(&self.seen.fixed_by);
        let decided = self.decide(&client, job, &config, &mut settings, shared).await;
        // An earlier decision also holds if nothing was measured. One that is not stored does not.
        if !matches!(decided, Err(Failure::Store(_)))
            && let Ok(asked) = &asked
        {
            self.apply(&client, asked, &settings).await?;
        }
        decided
    }

    /// Logs a remark, at most once per interval.
    fn remark(&mut self, text: &str) {
        if !self.event_limiter.is_suppressed(text, Some(REPEAT_INTERVAL), None, Timestamp::now()) {
            tracing::warn!(cluster = self.cluster, job = self.job_id, "{text}");
        }
    }

    /// Returns the base options, overridden by those that the job runs with and then by those of the command line.
    async fn configuration(
        &mut self,
        cluster: &Cluster,
        shared: &Shared,
    ) -> Result<FlinkConfig, Failure> {
        if let Some((read, config)) = &self.config
            && read.elapsed() < CONFIG_AGE_MAX
        {
            return Ok(config.clone());
        }
        let own = cluster.client.job_config(&self.job_id).await.map_err(Failure::lasting)?;
        let mut config = shared.settings.base.clone();
        config.overlay(&own.into_iter().collect());
        set_over(&mut config, shared.settings.set.iter());
        config.set_default(&ENABLED, "true");
        self.config = Some((Instant::now(), config.clone()));
        Ok(config)
    }

    /// Turns the autoscaler of this job off: removes what it knew, and leaves the job as it is.
    async fn turn_off(&mut self, shared: &Shared) -> Result<(), Failure> {
        if !self.seen.is_off {
            let store = &shared.store;
            store.remove(&self.key).await.map_err(Failure::Store)?;
            if !store.read_java(&self.job_id).await.map_err(Failure::Store)?.is_empty() {
                // Without data of our own, the Java program's would be taken over when the autoscaler is on again.
                let nothing = Record::default();
                let written = store.write(&self.key, &nothing, Timestamp::now()).await;
                written.map_err(Failure::Store)?;
            }
            let (cluster, job) = (&self.cluster, &self.job_id);
            tracing::info!(cluster, job, "`{}` is false for this job", ENABLED.key());
        }
        self.work = None;
        let Seen { scalings, balanced, errors, .. } = self.seen;
        self.seen = Seen { is_off: true, scalings, balanced, errors, ..Seen::default() };
        Ok(())
    }

    async fn read(&mut self, shared: &Shared) -> Result<Work, Failure> {
        let kept = shared.store.read(&self.key).await.map_err(Failure::Store)?;
        if !kept.is_stored()
            && let Some(stored) = self.take_over(shared).await?
        {
            return Ok(Work { kept, stored, stored_at: None, is_taken_over: true });
        }
        let (data, damaged) = (kept.data.clone(), kept.damaged.clone());
        let reading = heavy::run(move || state::read_damaged(&data, &damaged)).await;
        let stored = reading
            .map_err(Failure::Quiet)?
            .map_err(|unreadable| Failure::Lasting(self.repair_message(&unreadable, shared)))?;
        for state::SetAside { key, kept_as, reason } in &stored.set_aside {
            let (cluster, job) = (&self.cluster, &self.job_id);
            tracing::warn!(
                cluster,
                job,
                key,
                kept_as,
                reason,
                "a stored value cannot be read: set aside"
            );
        }
        Ok(Work { kept, stored, stored_at: None, is_taken_over: false })
    }

    /// Returns what the Java program keeps of the job in the same database; `None` if it keeps nothing.
    async fn take_over(&self, shared: &Shared) -> Result<Option<Stored>, Failure> {
        let data = shared.store.read_java(&self.job_id).await.map_err(Failure::Store)?;
        if data.is_empty() {
            return Ok(None);
        }
        let (cluster, job, store) = (&self.cluster, &self.job_id, shared.store.name());
        let reading = heavy::run(move || state::take_over(&data)).await;
        let stored = reading.map_err(Failure::Quiet)?.map_err(|unreadable| {
            Failure::Lasting(format!(
                "{store}: job `{job}`: t_flink_autoscaler_state_store: {unreadable}; nothing is \
                 decided until the rows of this job are repaired or removed"
            ))
        })?;
        for state::SetAside { key, reason, .. } in &stored.set_aside {
            tracing::warn!(
                cluster,
                job,
                key,
                reason,
                "a stored value cannot be read: not taken over"
            );
        }
        tracing::info!(cluster, job, store, "took over the Java program's state of the job");
        Ok(Some(stored))
    }

    fn repair_message(&self, unreadable: &state::Unreadable, shared: &Shared) -> String {
        format!(
            "{}: job `{}`: {unreadable}; nothing is decided until it is repaired, or the rows of \
             this job are removed",
            shared.store.name(),
            self.key
        )
    }

    /// Returns the requirements that were requested from Flink. If Flink cannot be asked, the job only gets advice.
    async fn asked(&self, client: &Client, config: &FlinkConfig) -> Result<Asked, Failure> {
        let scheduler = config.text_of(&SCHEDULER).unwrap_or("default");
        if !scheduler.trim().eq_ignore_ascii_case("adaptive") {
            let key = SCHEDULER.key();
            return Ok(Err(format!(
                "the job's `{key}` is `{scheduler}`, and only `adaptive` rescales a running job"
            )));
        }
        match client.resource_requirements(&self.job_id).await {
            Ok(asked) => Ok(Ok(asked)),
            Err(error) if error.is_no_endpoint() => {
                Ok(Err("Flink before 1.18 does not rescale a running job".to_owned()))
            }
            Err(error) if error.is_of_a_fixed_scheduler() => {
                Ok(Err("the job's scheduler does not rescale a running job".to_owned()))
            }
            Err(error) => Err(Failure::lasting(error)),
        }
    }

    async fn decide(
        &mut self,
        client: &Client,
        job: &JobOverview,
        config: &FlinkConfig,
        settings: &mut Settings,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let measuring = client.measure(&self.job_id, &mut self.names);
        let measuring = shared.stop.run_until_cancelled(measuring);
        let measured = tokio::time::timeout(MEASURING_MAX, measuring).await;
        let took_long = |_| Failure::lasting("measuring the job took longer than a minute");
        let measured = measured.map_err(took_long)?.ok_or_else(stopped)?;
        let now = Timestamp::now();
        let Measured { running_since, topology, reading } =
            measured.map_err(|error| unmeasured(&error, job, settings, now))?;
        let Some(work) = &mut self.work else { return Ok(()) };
        if !(work.kept.is_stored() || work.is_taken_over)
            && let Some(until) = advice::begin(now, settings)
        {
            let kept = &mut work.stored.kept;
            kept.entry(advice::KEY.to_owned()).or_insert_with(|| until.to_string());
        }
        settings.advised_until = advice::until(&work.stored.kept, now);
        self.seen.advised_until = settings.advised_until;
        let task_manager = TaskManager {
            cpu: config.find(&TASK_MANAGER_CPU).ok().flatten().filter(|cpu| *cpu > 0.0),
            memory: config.find(&TASK_MANAGER_PROCESS_MEMORY).ok().flatten(),
        };
        let told =
            plugin::Job { namespace: None, name: job.name.clone(), id: Some(self.job_id.clone()) };
        let facts = Arc::new(OwnedFacts {
            now,
            zone: shared.zone.clone(),
            settings: settings.clone(),
            config: config.clone(),
            topology,
            running_since,
            reading,
            task_manager,
            // A Flink cluster anywhere need not consist of pods.
            pods: None,
            job: Some(told),
        });
        let before = Arc::new(work.stored.state.clone());
        let making = shared.settings.rules.cycle(&before, &facts);
        let made = shared.stop.run_until_cancelled(making).await.ok_or_else(stopped)?;
        let Cycle { state, outcome, evaluation, scalings, events, discarded, .. } =
            made.map_err(Failure::Quiet)?;
        if let Some(why) = discarded {
            tracing::debug!(?why, job = self.job_id, "earlier samples were discarded");
        }
        let is_same = work.stored.kept.iter().all(|(key, of)| work.kept.data.get(key) == Some(of));
        let is_due = !is_same || state::is_due(&before, &state, work.stored_at, settings, now);
        work.stored.state = state;
        if is_due {
            self.store(now, shared).await?;
        }
        if outcome == Outcome::Scaled {
            let change = |(id, of): (_, &Scaling)| format!("{id}: {} -> {}", of.current, of.new);
            let changes: Vec<String> = scalings.iter().map(change).collect();
            let (cluster, job) = (&self.cluster, &self.job_id);
            tracing::info!(cluster, job, changes = changes.join(", "), "the autoscaler decided");
        }
        self.note(now, &facts.topology, outcome, evaluation);
        self.emit(&events, now);
        if let Some(failed @ (Outcome::Invalid(_) | Outcome::Unanswered(_))) = &self.seen.outcome {
            return Err(Failure::lasting(failed));
        }
        Ok(())
    }

    async fn store(&mut self, now: Timestamp, shared: &Shared) -> Result<(), Failure> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let written = match heavy::lent(&mut work.stored, state::write).await {
            Ok(written) => written,
            Err(why) => {
                self.work = None;
                return Err(Failure::Quiet(why));
            }
        };
        let Written { data, dropped_samples } = written.map_err(Failure::lasting)?;
        if dropped_samples > 0 {
            tracing::warn!(dropped_samples, "there was no room for the oldest samples");
        }
        let kept = Record { revision: work.kept.revision, data, ..Record::default() };
        let written = shared.store.write(&self.key, &kept, now).await;
        work.kept = Record { revision: written.map_err(Failure::Store)?, ..kept };
        work.stored_at = Some(now);
        Ok(())
    }

    fn note(
        &mut self,
        now: Timestamp,
        topology: &Topology,
        outcome: Outcome,
        evaluation: Option<Evaluation>,
    ) {
        match &outcome {
            Outcome::Scaled => self.seen.scalings += 1,
            other if other.is_balanced() => self.seen.balanced += 1,
            _ => {}
        }
        self.seen.measured_at = Some(now);
        self.seen.parallelism =
            topology.vertices().iter().map(|(id, of)| (id.clone(), of.parallelism)).collect();
        self.seen.evaluation = evaluation;
        self.seen.outcome = Some(outcome);
    }

    fn emit(&mut self, events: &[Event], now: Timestamp) {
        for event in events {
            let Event { is_warning, reason, message, key, interval, parallelism } = event;
            if self.event_limiter.is_suppressed(key, *interval, *parallelism, now) {
                continue;
            }
            let (cluster, job) = (&self.cluster, &self.job_id);
            if *is_warning {
                tracing::warn!(cluster, job, reason, "{message}");
            } else {
                tracing::info!(cluster, job, reason, "{message}");
            }
        }
    }

    /// Requests from Flink what is in force, if something else was requested before.
    async fn apply(
        &mut self,
        client: &Client,
        asked: &ResourceRequirements,
        settings: &Settings,
    ) -> Result<(), Failure> {
        let Some(work) = &self.work else { return Ok(()) };
        let bounds = |(id, of): (&String, &VertexRequirements)| {
            let ParallelismBounds { lower_bound: lower, upper_bound: upper } = of.parallelism;
            (VertexId::from(id.as_str()), Bounds { lower, upper })
        };
        let current = asked.iter().map(bounds).collect();
        let excluded: &BTreeSet<VertexId> = &settings.excluded_vertices;
        let Some(wanted) = wanted(&current, &work.stored.state.overrides, excluded) else {
            return Ok(());
        };
        let requirements = wanted.iter().map(|(id, bounds)| {
            let parallelism =
                ParallelismBounds { lower_bound: bounds.lower, upper_bound: bounds.upper };
            (id.as_str().to_owned(), VertexRequirements { parallelism })
        });
        let requirements = requirements.collect();
        let set = client.set_resource_requirements(&self.job_id, &requirements).await;
        set.map_err(|error| Failure::Lasting(format!("the job was not scaled: {error}")))?;
        let (cluster, job) = (&self.cluster, &self.job_id);
        let upper = wanted.iter().map(|(id, bounds)| format!("{id}: {}", bounds.upper));
        let upper: Vec<String> = upper.collect();
        tracing::info!(
            cluster,
            job,
            reason = "Scaling",
            parallelism = upper.join(", "),
            "scaled in place"
        );
        Ok(())
    }

    /// Returns the facts about the job for others.
    pub(super) fn view(&self, job: &JobOverview, state: &JobState) -> JobView {
        let Seen { outcome, evaluation, parallelism, .. } = &self.seen;
        let decided = self.work.as_ref().map(|work| &work.stored.state.overrides);
        let vertices = parallelism.iter().map(|(id, parallelism)| {
            let figures = evaluation.as_ref().and_then(|all| all.vertices.get(id));
            let decided = decided.and_then(|all| all.get(id)).copied();
            (id.clone(), VertexView::new(*parallelism, decided, figures))
        });
        let effect = match (&self.seen, outcome) {
            (Seen { is_off: true, .. }, _) => "off".to_owned(),
            (Seen { fixed_by: Some(why), .. }, _) => format!("advice: {why}"),
            (Seen { advised_until: Some(until), .. }, _) => {
                format!("advice until {until}, because the job is new")
            }
            (_, Some(Outcome::Disabled(Disabled::Scaling))) => {
                "advice: scaling is disabled".to_owned()
            }
            _ => "in place".to_owned(),
        };
        JobView {
            name: job.name.clone(),
            state: state.to_string(),
            effect,
            outcome: outcome.as_ref().map(ToString::to_string),
            error: self.seen.error.clone(),
            measured_at: self.seen.measured_at,
            scalings: self.seen.scalings,
            balanced: self.seen.balanced,
            errors: self.seen.errors,
            vertices: vertices.collect(),
        }
    }
}

/// Decides how much a missing metric means: just after a start, nothing.
fn unmeasured(
    error: &Unmeasured,
    job: &JobOverview,
    settings: &Settings,
    now: Timestamp,
) -> Failure {
    let moved = job.start_time.max(job.last_modification);
    let moved = moved.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    let is_young = moved.is_some_and(|at| now < later(at, settings.stabilization));
    match error {
        Unmeasured::NotRunning(_) => Failure::Quiet(error.to_string()),
        other if other.is_of_a_start() && is_young => Failure::Quiet(error.to_string()),
        other => Failure::lasting(other),
    }
}
