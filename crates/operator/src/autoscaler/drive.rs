//! Cycles: each measures a job, decides, stores the decision, and only then lets it apply.
//!
//! A cycle runs beside the passes. It discards its result if the job changed meanwhile, if its book was closed, or if
//! someone else wrote the stored data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt;
use tracing::Instrument as _;

use super::books::{Decided, InForce, Work};
use super::in_force::{Switch, switch};
use super::report::{Failure, report_event, report_failure, report_unread_nodes};
use super::{Cluster, Scaled, candidate};
use crate::blue_green::is_switching;
use crate::context::Context;
use crate::heavy;
use crate::observe::Subject;
use crate::scaling_rules::{self, ScalingRules};
use api::state_snapshot::JobKind;
use api::status::JobStatus;
use autoscaler::advice;
use autoscaler::cost::{self, Pods};
use autoscaler::cycle::{Cycle, Outcome, OwnedFacts, State};
use autoscaler::eligibility::{Ineligible, job_to_measure};
use autoscaler::evaluate::Evaluation;
use autoscaler::events::Event;
use autoscaler::metric::REPORTED;
use autoscaler::plugin::{Answers, Job};
use autoscaler::quota::TaskManager;
use autoscaler::scaling_history::Scaling;
use autoscaler::settings::{Settings, rest_timeout};
use autoscaler::state;
use autoscaler::window::later;
use clients::cluster;
use clients::flink::Client;
use clients::flink::scaling::{Measured, Unmeasured};
use config::option::MaybeInterval;
use config::options::{
    CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL, FLINK_CLIENT_TIMEOUT, RECONCILE_INTERVAL,
};
use config::options::{TASK_MANAGER_CPU, TASK_MANAGER_PROCESS_MEMORY};
use config::{FlinkConfig, OperatorConfig};
use lifecycle::resource::StatusOfJob as _;
use metrics::scaling::{Ended, Figure};

/// Maximum time to measure a job.
const MEASURING_MAX: Duration = Duration::from_mins(1);
/// Decisions of a cycle if other jobs take room on the nodes meanwhile.
const TRIES_MAX: u32 = 10;

/// Starts a cycle if one is due; returns when the next one is.
pub(crate) fn follow<K: Scaled>(
    resource: &K,
    status: &K::Status,
    cluster: Cluster<'_>,
    operator: &OperatorConfig,
    context: &Context,
) -> Option<Duration> {
    let shared = context.autoscalers.context()?;
    let Switch::On(config) = switch(resource, cluster, operator) else { return None };
    let uid = resource.uid().unwrap_or_default();
    let hold = |hold: Ineligible| {
        tracing::debug!(%hold, "the autoscaler holds");
        context.metrics.forget_scaling_figures(&uid);
    };
    if is_switching(resource.meta(), context) {
        tracing::debug!("the autoscaler pauses: a blue/green switch is under way");
        context.metrics.forget_scaling_figures(&uid);
        return None;
    }
    let job_id = job_to_measure(&candidate(resource, status)).map_err(hold).ok()?.to_owned();
    let interval = config.get(&RECONCILE_INTERVAL).ok()?;
    let now = Instant::now();
    let begun = context.autoscalers.with(&uid, |book| {
        let next = book.begun.and_then(|begun| begun.checked_add(interval)).unwrap_or(now);
        if next > now {
            return Err(next.duration_since(now));
        }
        book.begun = Some(now);
        Ok((book.number, book.in_force.clone(), book.work.take()))
    })?;
    let (number, work) = match begun {
        Err(rest) => return Some(rest),
        Ok((number, Decided::Known(_), Some(work))) => (number, work),
        // The last cycle still runs.
        Ok((_, Decided::Known(_) | Decided::Unread | Decided::Cleared, _)) => {
            return Some(interval);
        }
        Ok((_, Decided::Unknown { reason }, _)) => {
            let resource = resource.clone();
            let report = async move { report_failure(&resource, &reason, &shared).await };
            context.autoscalers.tasks.spawn(report.in_current_span());
            // Someone may have repaired it: the next pass reads it again.
            context.autoscalers.with(&uid, |book| book.in_force = Decided::Unread);
            return Some(interval);
        }
    };
    let turn = Turn {
        resource: resource.clone(),
        flink: client(resource, status, cluster, (operator, &config), context),
        started: since(status.job()),
        job_id,
        config,
        number,
        uid,
    };
    let (room, drop) = (Arc::clone(&context.autoscalers.room), context.autoscalers.drop.clone());
    let task = async move {
        let Ok(_place) = room.acquire().await else { return };
        let _dropped = drop.run_until_cancelled(turn.cycle(work, &shared)).await;
    };
    context.autoscalers.tasks.spawn(task.in_current_span());
    Some(interval)
}

fn client<K: Scaled>(
    resource: &K,
    status: &K::Status,
    cluster: Cluster<'_>,
    (operator, config): (&OperatorConfig, &FlinkConfig),
    context: &Context,
) -> Result<Client, String> {
    let client =
        K::flink(&Subject::new((resource, status), cluster, operator), context)?.without_retries();
    let operators = config.get(&FLINK_CLIENT_TIMEOUT).map_err(|error| error.to_string())?;
    let timeout = rest_timeout(config, operators).map_err(|error| error.to_string())?;
    Ok(client.with_request_deadline(timeout))
}

/// Returns when the job's state last changed.
fn since(status: &JobStatus) -> Option<Timestamp> {
    let text = status.update_time.as_ref().or(status.start_time.as_ref())?;
    Timestamp::from_millisecond(text.parse().ok()?).ok()
}

/// A job whose cycle runs.
struct Turn<K> {
    resource: K,
    flink: Result<Client, String>,
    job_id: String,
    /// When the job's state last changed, according to the status.
    started: Option<Timestamp>,
    /// The user's spec with all defaults.
    config: Box<FlinkConfig>,
    /// Number of the book.
    number: u64,
    uid: String,
}

impl<K: Scaled> Turn<K> {
    async fn cycle(self, mut work: Work, context: &Context) {
        let autoscalers = &context.autoscalers;
        match self.made(&mut work, context).await {
            Ok(made) => self.finish(made, work, context).await,
            Err(failure) => {
                autoscalers.with_same(&self.uid, self.number, |book| book.work = Some(work));
                self.report(failure, context).await;
            }
        }
    }

    async fn made(&self, work: &mut Work, context: &Context) -> Result<Made, Failure> {
        let flink = self.flink.as_ref().map_err(|reason| Failure::lasting(reason))?;
        let mut settings =
            Settings::read(&self.config).map_err(|error| Failure::lasting(&error.to_string()))?;
        context.scaling_rules.check(&settings).map_err(Failure::Lasting)?;
        let now = Timestamp::now();
        let measuring = flink.measure(&self.job_id, &mut work.names);
        let measuring = context.autoscalers.stop.run_until_cancelled(measuring);
        let measured = tokio::time::timeout(MEASURING_MAX, measuring).await;
        let took_long = |_| Failure::lasting("measuring the job took longer than a minute");
        let measured = measured.map_err(took_long)?.ok_or_else(stopped)?;
        let Measured { running_since, topology, reading } =
            measured.map_err(|error| self.unmeasured(&error, &settings, now))?;
        if work.is_new
            && let Some(until) = advice::begin(now, &settings)
        {
            let kept = &mut work.stored.kept;
            kept.entry(advice::KEY.to_owned()).or_insert_with(|| until.to_string());
        }
        settings.advised_until = advice::until(&work.stored.kept, now);
        let task_manager = TaskManager {
            cpu: self.config.find(&TASK_MANAGER_CPU).ok().flatten().filter(|cpu| *cpu > 0.0),
            memory: self.config.find(&TASK_MANAGER_PROCESS_MEMORY).ok().flatten(),
        };
        let interval = context.operator().base.get(&CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL);
        let MaybeInterval(interval) =
            interval.map_err(|error| Failure::lasting(&error.to_string()))?;
        let facts = Arc::new(OwnedFacts {
            now,
            zone: context.zone.clone(),
            settings,
            config: (*self.config).clone(),
            topology,
            running_since,
            reading,
            task_manager,
            pods: Pods::of(&self.config, K::JOB == JobKind::FlinkSessionJob),
            job: Some(Job {
                namespace: self.resource.namespace(),
                name: self.resource.name_any(),
                id: Some(self.job_id.clone()),
            }),
        });
        let before = Arc::new(work.stored.state.clone());
        let cycle = self.run_cycle(&before, &facts, interval, context).await?;
        Ok(Made { now, before, cycle, facts })
    }

    /// Runs a cycle until all its questions are answered, and nobody else has taken the room that it needs.
    async fn run_cycle(
        &self,
        before: &Arc<State>,
        facts: &Arc<OwnedFacts>,
        interval: Option<Duration>,
        context: &Context,
    ) -> Result<Cycle, Failure> {
        let (mut answers, deadline) = (Answers::new(), ScalingRules::deadline());
        let mut tries = 0;
        loop {
            // The lock is not held while the cycle runs: every other cycle needs it.
            let capacity = {
                let mut view = context.autoscalers.capacity.lock().await;
                let refreshing = view.refresh(interval, &context.client);
                match context.autoscalers.stop.run_until_cancelled(refreshing).await {
                    Some(Some(why)) => report_unread_nodes(&self.resource, &why, context).await,
                    Some(None) => {}
                    None => return Err(stopped()),
                }
                view.known.clone()
            };
            let running = scaling_rules::run(before, facts, capacity.clone(), &mut answers);
            let cycle = running.await.map_err(Failure::Quiet)?;
            if let Outcome::Asks(question) = &cycle.outcome {
                let asking = context.scaling_rules.answer(question, deadline);
                let answer = context.autoscalers.stop.run_until_cancelled(asking).await;
                answers.insert(question.key(), answer.ok_or_else(stopped)?);
                continue;
            }
            let Some(left) = &cycle.capacity else { return Ok(cycle) };
            if context.autoscalers.capacity.lock().await.take(capacity.as_ref(), left) {
                return Ok(cycle);
            }
            tries += 1;
            if tries == TRIES_MAX {
                let why = "other jobs keep taking room on the nodes while this one is decided";
                return Err(Failure::Quiet(why.to_owned()));
            }
        }
    }

    /// Decides how much a missing metric means: just after a start, nothing.
    fn unmeasured(&self, error: &Unmeasured, settings: &Settings, now: Timestamp) -> Failure {
        let is_young = self.started.is_none_or(|at| now < later(at, settings.stabilization));
        let reason = crate::observe::show(error);
        match error {
            Unmeasured::NotRunning(_) => Failure::Quiet(reason),
            other if other.is_of_a_start() && is_young => Failure::Quiet(reason),
            Unmeasured::Flink(_)
            | Unmeasured::Topology(_)
            | Unmeasured::Missing { .. }
            | Unmeasured::Incomplete { .. }
            | Unmeasured::NoProcessMetrics => Failure::Lasting(reason),
        }
    }

    async fn finish(&self, made: Made, mut work: Work, context: &Context) {
        let Made { now, before, cycle, facts } = made;
        let (settings, autoscalers) = (&facts.settings, &context.autoscalers);
        let gate = autoscalers.with_same(&self.uid, self.number, |book| Arc::clone(&book.gate));
        let Some(gate) = gate else { return };
        let gate = gate.lock().await;
        if autoscalers.with_same(&self.uid, self.number, |_| ()).is_none() {
            return;
        }
        if !self.is_unmoved(context) {
            autoscalers.with_same(&self.uid, self.number, |book| book.work = Some(work));
            tracing::debug!("the job changed while it was measured: nothing is decided");
            return;
        }
        let Cycle { state, outcome, evaluation, decisions, scalings, excluded, cost, .. } = cycle;
        let (events, discarded) = (cycle.events, cycle.discarded);
        if let Some(why) = discarded {
            tracing::debug!(?why, "earlier samples were discarded");
        }
        if outcome == Outcome::Scaled {
            let kept = &mut work.stored.kept;
            match cost {
                Some(cost) => kept.insert(cost::KEY.to_owned(), cost.text()),
                None => kept.remove(cost::KEY),
            };
        }
        let is_decision = state.overrides != before.overrides || state.config != before.config;
        let is_same = work.stored.kept.iter().all(|(key, of)| work.kept.data.get(key) == Some(of));
        let is_due = !is_same || state::is_due(&before, &state, work.stored_at, settings, now);
        work.stored.state = state;
        if is_due && let Err(error) = store(&mut work, now, context).await {
            // Whatever is stored now, it is read again.
            autoscalers.forget(&self.uid);
            drop(gate);
            return self.report(Failure::lasting(&error), context).await;
        }
        let in_force = InForce {
            parallelism: work.stored.state.overrides.clone(),
            unscaled: excluded.difference(&settings.excluded_vertices).cloned().collect(),
            config: work.stored.state.config.clone(),
        };
        autoscalers.with_same(&self.uid, self.number, |book| {
            book.in_force = Decided::Known(Arc::new(in_force));
            book.work = Some(work);
        });
        drop(gate);
        let shown = || evaluation.as_ref().map(figures);
        context.metrics.cycle_ended(&self.uid, ended(&outcome), shown);
        if is_decision {
            let change = |(id, of): (_, &Scaling)| format!("{id}: {} -> {}", of.current, of.new);
            let changes: Vec<String> = scalings.iter().map(change).collect();
            tracing::info!(%outcome, changes = changes.join(", "), "the autoscaler decided");
        } else {
            tracing::debug!(%outcome, judged = decisions.len(), "the autoscaler looked");
        }
        self.report_events(&events, now, context).await;
        if let Outcome::Invalid(_) | Outcome::Unanswered(_) = &outcome {
            report_failure(&self.resource, &outcome.to_string(), context).await;
        }
        if is_decision {
            let namespace = self.resource.namespace().unwrap_or_default();
            K::cache(context).wake(&namespace, &self.resource.name_any());
        }
    }

    async fn report_events(&self, events: &[Event], now: Timestamp, context: &Context) {
        for event in events {
            let Event { key, interval, parallelism, .. } = event;
            let is_suppressed = context.autoscalers.with_same(&self.uid, self.number, |book| {
                book.event_limiter.is_suppressed(key, *interval, *parallelism, now)
            });
            if is_suppressed != Some(true) {
                report_event(&self.resource, event, context).await;
            }
        }
    }

    async fn report(&self, failure: Failure, context: &Context) {
        match failure {
            Failure::Quiet(reason) => tracing::debug!(reason, "the job was not measured"),
            Failure::Lasting(reason) => {
                context.metrics.cycle_ended(&self.uid, Ended::Failed, || None);
                report_failure(&self.resource, &reason, context).await;
            }
        }
    }

    /// Returns `true` if the resource is unchanged since the cycle began, and its job must still be scaled.
    fn is_unmoved(&self, context: &Context) -> bool {
        let namespace = self.resource.namespace().unwrap_or_default();
        let Some(cached) = K::cache(context).cached(&namespace, &self.resource.name_any()) else {
            return false;
        };
        let Ok(now) = &cached.0 else { return false };
        // A write that the watch has not shown yet is newer than the watch.
        let written = K::cache(context).written(&self.uid);
        let version = crate::context::resource_version(now.meta());
        if written.is_some_and(|written| written.resource_version > version) {
            return false;
        }
        let none = K::Status::default();
        let status = now.status().unwrap_or(&none);
        now.meta().uid.as_deref() == Some(&self.uid)
            && now.meta().generation == self.resource.meta().generation
            && job_to_measure(&candidate(now, status)) == Ok(&self.job_id)
            && !is_switching(now.meta(), context)
    }
}

/// The result of a cycle.
/// Returns how a cycle ended, for the metrics.
fn ended(outcome: &Outcome) -> Ended {
    match outcome {
        Outcome::Scaled => Ended::Scaled,
        other if other.is_balanced() => Ended::Balanced,
        Outcome::Invalid(_) | Outcome::Unanswered(_) => Ended::Failed,
        _ => Ended::Undecided,
    }
}

fn stopped() -> Failure {
    Failure::Quiet("the operator stops".to_owned())
}

struct Made {
    now: Timestamp,
    before: Arc<State>,
    cycle: Cycle,
    facts: Arc<OwnedFacts>,
}

async fn store(work: &mut Work, now: Timestamp, context: &Context) -> Result<(), String> {
    let written = heavy::lent(&mut work.stored, state::write).await?;
    let state::Written { data, dropped_samples } = written.map_err(|error| error.to_string())?;
    if dropped_samples > 0 {
        tracing::warn!(dropped_samples, "there was no room for the oldest samples");
    }
    work.kept.data = data;
    let stored = cluster::autoscaler::store(&context.client, &mut work.kept).await;
    stored.map_err(|error| crate::observe::show(&error))?;
    (work.stored_at, work.is_new) = (Some(now), false);
    Ok(())
}

/// Returns the figures to export.
fn figures(evaluation: &Evaluation) -> Vec<Figure> {
    let mut told = Vec::new();
    for (id, figures) in &evaluation.vertices {
        let vertex: Arc<str> = id.as_str().into();
        for (metric, has_average) in REPORTED {
            told.push(Figure {
                vertex: Arc::clone(&vertex),
                metric: metric.into_str(),
                current: figures.current(metric),
                average: has_average.then(|| figures.average(metric)),
            });
        }
    }
    told
}
