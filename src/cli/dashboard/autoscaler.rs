//! The autoscaler page of a job, in the words of `kubectl flink autoscaler status`, `history` and `explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use tokio::time::Instant;

use super::answers::Console;
use super::live::Page;
use super::resource::{Reader, Subject, session_jobs};
use super::seen::Seen;
use crate::cli::autoscaler::explain::{self, Report};
use crate::cli::autoscaler::stored::{self, Job};
use crate::cli::autoscaler::{history, number, status};
use crate::cli::connection::Connection;
use crate::cli::operator::config as operator_config;
use crate::cli::top::vertices::Known;
use crate::cli::{lookup, table};
use ::autoscaler::metric::Metric;
use ::autoscaler::settings::Settings;
use clients::flink::Deadlines;
use clients::flink::access::Access;
use config::options::autoscaler::ENABLED;
use config::{FlinkConfig, OperatorConfig, secret};
use console::page;
use console::page::resource::{Fragment, Tab};
use console::resource::Part;
use console::row::{Key, Row};
use console::scaling::{Autoscaler, Decision, Decisions, Now, Outcome, Rate, Shown, Vertex};

/// Pause between two measurements while a page stays open. The operator measures every minute.
const PAUSE: Duration = Duration::from_secs(30);
/// Maximum time for one response of the JobManager.
const PATIENCE: Duration = Duration::from_secs(3);

/// State of the page between two refreshes.
#[derive(Default)]
pub(super) struct PageData {
    seen: Seen<Part<Shown>>,
    explained: Option<(Instant, Part<Explained>)>,
}

/// What the autoscaler would decide, from one measurement.
struct Explained {
    report: Report,
    /// Names of vertices by id.
    names: BTreeMap<String, String>,
    at: Timestamp,
}

impl Page for PageData {
    const TAB: Tab = Tab::Autoscaler;

    async fn read(&mut self, console: &Console, key: &Key) -> Vec<Fragment> {
        let reader = &console.reader;
        let explained = &mut self.explained;
        let read = reader.inspect(key, async |subject| of(reader, subject, explained).await);
        self.seen.again(read.await);
        let (standing, shown) = (&self.seen.standing, self.seen.shown());
        page::resource::scaling::parts(console.place(), key, standing, shown)
    }

    fn row(&self) -> Option<&Row> {
        self.seen.row()
    }

    fn is_there(&self) -> bool {
        self.seen.is_there()
    }
}

/// A job with its stored scaling state and the options that apply to it.
struct Scaled {
    job: Job,
    operator: OperatorConfig,
    config: FlinkConfig,
    /// Whether `config` decides that the autoscaler is on or off: the operator's own options could be read, or the job
    /// sets it.
    is_certain: bool,
}

async fn of(
    reader: &Reader,
    subject: &Subject,
    explained: &mut Option<(Instant, Part<Explained>)>,
) -> Part<Shown> {
    if subject.object.is_session() {
        return subject.within(session_jobs(subject)).await.map(Shown::Session);
    }
    let scaled = subject.within(Box::pin(read(reader, subject))).await?;
    let is_enabled = scaled.config.get(&ENABLED).unwrap_or_default();
    if !is_enabled && scaled.job.stored.is_none() {
        return Ok(Shown::Off { is_certain: scaled.is_certain });
    }
    if !is_enabled {
        *explained = None;
    } else if explained.as_ref().is_none_or(|(at, _)| at.elapsed() >= PAUSE) {
        let found =
            subject.within(Box::pin(explain(&subject.connection, &scaled, reader.access))).await;
        *explained = Some((Instant::now(), found));
    }
    let explained = explained.as_ref().map(|(_, explained)| explained.as_ref());
    let shown = autoscaler(&scaled, is_enabled, explained);
    let shown = shown.map_err(|error| secret::hide_in(&format!("{error:#}")))?;
    Ok(Shown::Scaled(Box::new(shown)))
}

async fn read(
    reader: &Reader,
    Subject { object, connection, .. }: &Subject,
) -> anyhow::Result<Scaled> {
    let present = lookup::serving(connection, object).await?;
    let present = present.context("no colour has been created yet")?;
    let job = stored::of(connection, present).await?;
    let (operator, unread) =
        operator_config::operator(&connection.client, &reader.operator_namespace).await;
    let cluster = lookup::cluster_of(connection, &job.resource).await?;
    // The overview reports a problem with the spec.
    let config = explain::effective(&job.resource, &cluster, &operator)
        .unwrap_or_else(|_| job.resource.flink_config());
    let is_certain = unread.is_none() || config.is_set(&ENABLED);
    Ok(Scaled { job, operator, config, is_certain })
}

/// Measures the job once. Fails if the configuration has plugins that take part in the decision: they may be programs
/// elsewhere, and an open page measures again and again.
async fn explain(
    connection: &Connection,
    Scaled { job, operator, config, .. }: &Scaled,
    access: Access,
) -> anyhow::Result<Explained> {
    if let Ok(settings) = Settings::read(config)
        && let Some(named) = settings.plugins.iter().next()
    {
        bail!("{} takes part in the decision, and is only called by the command below", named.id);
    }
    let deadlines = Deadlines { request: PATIENCE, ..Deadlines::default() };
    let report = explain::explained(connection, job, operator, access, deadlines).await?;
    let at = Timestamp::now();
    let id = job.resource.job_id().unwrap_or_default();
    let cluster = lookup::cluster_of(connection, &job.resource).await?;
    let details = Known::new(connection, &cluster, id, access)?.job().await?;
    let names = details.vertices.into_iter().map(|it| (it.id, it.name)).collect();
    Ok(Explained { report, names, at })
}

fn autoscaler(
    Scaled { job, config, is_certain, .. }: &Scaled,
    is_enabled: bool,
    explained: Option<Result<&Explained, &String>>,
) -> anyhow::Result<Autoscaler> {
    let stored = job.readable()?;
    let known = status::report(job, stored);
    let on = match (is_enabled, is_certain) {
        (true, _) => "on",
        (false, true) => "off",
        (false, false) => "off, unless the operator's own configuration turns it on",
    };
    let mut facts = vec![("Autoscaler", on.to_owned())];
    let told = status::facts(&known, Timestamp::now());
    let told = told.into_iter().filter(|(name, _)| !["Job", "Autoscaler"].contains(name));
    facts.extend(told.map(|(name, value)| (name, secret::hide_in(&value))));
    let mut remarks: Vec<String> = known.set_aside.iter().map(ToString::to_string).collect();
    if is_enabled && let Err(error) = Settings::read(config) {
        remarks.push(format!("the job is not scaled: {error}"));
    }
    let remarks = remarks.iter().map(|remark| secret::hide_in(remark)).collect();
    let measured = explained.and_then(Result::ok);
    let name_of = |id: &str| {
        let name = measured.and_then(|it| it.names.get(id)).filter(|name| !name.is_empty());
        name.map_or_else(|| id.to_owned(), |name| secret::hide_in(name))
    };
    // In the order of the graph, then those that the job no longer has.
    let present = measured.iter().flat_map(|it| &it.report.vertices);
    let mut vertices: Vec<Vertex> = present
        .map(|it| Vertex { now: Some(now(it)), ..vertex(&known, &it.id, name_of(&it.id)) })
        .collect();
    let shown: BTreeSet<&str> =
        measured.iter().flat_map(|it| &it.report.vertices).map(|it| it.id.as_str()).collect();
    let others = known.vertices.keys().filter(|id| !shown.contains(id.as_str()));
    vertices.extend(others.map(|id| vertex(&known, id, name_of(id))));
    let decisions = stored.map(history::entries).unwrap_or_default();
    let decisions = decisions.into_iter().map(|entry| decision(entry, name_of)).collect();
    let outcome = explained.map(|explained| match explained {
        Ok(Explained { report, at, .. }) => Ok(Outcome {
            words: secret::hide_in(&report.outcome),
            at: table::clock(*at),
            is_backlog: report.is_backlog,
        }),
        Err(why) => Err(why.clone()),
    });
    Ok(Autoscaler { facts, remarks, vertices, decisions: Decisions::new(decisions), outcome })
}

fn vertex(known: &status::Report, id: &str, name: String) -> Vertex {
    let known = known.vertices.get(id);
    Vertex {
        name,
        decided: known.and_then(|it| it.parallelism),
        waits_since: known.and_then(|it| it.waits_since).map(Timestamp::as_second),
        now: None,
    }
}

fn now(of: &explain::Vertex) -> Now {
    let rate = |metric: Metric| {
        of.rates.get(metric.into_str()).map(|it| number::shown(it.0)).unwrap_or_default()
    };
    let rule = of.rule.as_ref().zip(of.number);
    Now {
        parallelism: of.parallelism,
        recommended: of.recommended,
        true_rate: rate(Metric::TrueProcessingRate),
        target_rate: rate(Metric::TargetDataRate),
        rule: rule.map(|(rule, number)| format!("{rule}: {}", number::shown(number.0))),
    }
}

fn decision(entry: history::Entry, name_of: impl Fn(&str) -> String) -> Decision {
    Decision {
        rule: entry.decided_by().map(|rule| secret::hide_in(&rule)),
        at: entry.at.as_second(),
        vertex: name_of(&entry.vertex),
        from: entry.from,
        to: entry.to,
        true_rate: rate(entry.true_processing_rate.0),
        target_rate: rate(entry.target_data_rate.0),
        expected_rate: rate(entry.expected_processing_rate.0),
        restart: entry.restart_seconds.map(|seconds| format!("{seconds:.0}s")),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "what is too large for it is as large as it can be"
)]
fn rate(number: f64) -> Option<Rate> {
    let amount = number.is_finite().then(|| number.round() as i64);
    (!number.is_nan()).then(|| Rate { amount, words: number::shown(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_be_without_bound_or_not_known() {
        let shown = |number| rate(number).map(|it| (it.amount, it.words));
        assert_eq!(shown(588.235), Some((Some(588), "588.24".to_owned())));
        assert_eq!(shown(f64::INFINITY), Some((None, "∞".to_owned())));
        assert_eq!(shown(f64::NAN), None);
    }
}
