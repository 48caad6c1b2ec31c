//! Reporters that push metrics, each from its own task.

mod otlp;
mod server;

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::otlp::Collector;
use self::server::send;
use super::context;
use super::endpoint::{Caller, Error};
use super::exposition::own_process;
use super::observe::show;
use clients::flink::new_trigger_id;
use config::plugin::Endpoint;
use config::reporter::{Push, PushGateway, Scopes, Server, To};
use metrics::family::Family;
use metrics::flat::{GRAPHITE, STATSD};
use metrics::log::lines;
use metrics::{Identity, Metrics, influxdb, text};

/// Number of lines to write to the log before other tasks get their turn.
const LINES_AT_ONCE: usize = 200;

/// Maximum time that a reporter may take to end.
const END_MAX: Duration = Duration::from_secs(5);

/// Reports once per interval, until `end`. A failed report is not repeated: the next one has newer values.
///
/// # Errors
/// Why it does not start.
pub async fn run(metrics: Metrics, settings: Push, end: CancellationToken) -> Result<(), Error> {
    let Some(identity) = metrics.identity().cloned() else { return Ok(()) };
    let interval = settings.interval;
    let reporter = Reporter::new(settings, identity)?;
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = 0_u64;
    while end.run_until_cancelled(ticks.tick()).await.is_some() {
        let families = all(&metrics);
        let sent = reporter.send(&families, Timestamp::now());
        match end.run_until_cancelled(sent).await {
            None => break,
            Some(Ok(())) => failures = 0,
            Some(Err(error)) => {
                failures += 1;
                // A receiver that is away for long must not fill the log as well.
                if failures.is_power_of_two() {
                    let to = reporter.sink.name();
                    tracing::warn!(failures, error = show(&error), "metrics were not sent to {to}");
                }
            }
        }
    }
    match timeout(END_MAX, reporter.end()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "metrics stay in PushGateway"),
        Err(_) => tracing::warn!("metrics stay in PushGateway, which does not answer"),
    }
    Ok(())
}

/// Returns all current metrics.
fn all(metrics: &Metrics) -> Vec<Family> {
    let mut families = metrics.families(context::now());
    if metrics.wants_process() {
        families.extend(own_process());
    }
    families
}

/// Reports metrics to one sink.
struct Reporter {
    identity: Identity,
    timeout: Duration,
    sink: Sink,
}

/// Where metrics are reported to.
enum Sink {
    Log(Scopes),
    Otlp(Collector),
    PushGateway { group: Caller, filters_label_values: bool, is_deleted: bool },
    InfluxDb(Caller),
    StatsD(Server),
    Graphite(Server),
}

impl Reporter {
    fn new(settings: Push, identity: Identity) -> Result<Self, Error> {
        let Push { interval: _, timeout, to } = settings;
        let caller = |url| Caller::new(Endpoint { url, headers: Vec::new(), timeout });
        let sink = match to {
            To::Log(scopes) => Sink::Log(scopes),
            To::Otlp(otlp) => Sink::Otlp(Collector::new(*otlp, identity.clone(), timeout)?),
            To::PushGateway(gateway) => Sink::PushGateway {
                group: caller(group(&gateway))?,
                filters_label_values: gateway.filters_label_values,
                is_deleted: gateway.is_deleted,
            },
            To::InfluxDb(url) => Sink::InfluxDb(caller(url)?),
            To::StatsD(server) => Sink::StatsD(server),
            To::Graphite(server) => Sink::Graphite(server),
        };
        Ok(Self { identity, timeout, sink })
    }

    async fn send(&self, families: &[Family], now: Timestamp) -> Result<(), Error> {
        let identity = &self.identity;
        match &self.sink {
            Sink::Log(scopes) => to_log(families, identity, scopes).await,
            Sink::Otlp(collector) => collector.emit(families, now).await?,
            Sink::PushGateway { group, filters_label_values, .. } => {
                let text = text::encode_plain(families.to_vec(), identity, *filters_label_values)
                    .map_err(|error| Error::Invalid(error.to_string()))?;
                let request = group.request(Method::PUT);
                let request = request.header(CONTENT_TYPE, text::PLAIN_CONTENT_TYPE).body(text);
                drop(group.answer(request).await?);
            }
            Sink::InfluxDb(write) => {
                for body in influxdb::bodies(families, identity, now.as_millisecond()) {
                    drop(write.post("text/plain; charset=utf-8", body).await?);
                }
            }
            Sink::StatsD(server) => {
                let line = |name: &str, number: f64| format!("{name}:{number}|g");
                let packets = STATSD.packets(families, identity, &server.scopes, line);
                send(server, self.timeout, packets).await?;
            }
            Sink::Graphite(server) => {
                let prefix = server.prefix.as_ref().map(|prefix| format!("{prefix}."));
                let prefix = prefix.unwrap_or_default();
                let line = |name: &str, number: f64| {
                    format!("{prefix}{name} {number} {}", now.as_second())
                };
                let packets = GRAPHITE.packets(families, identity, &server.scopes, line);
                send(server, self.timeout, packets).await?;
            }
        }
        Ok(())
    }

    /// Leaves nothing behind that would be taken for current values.
    async fn end(&self) -> Result<(), Error> {
        if let Sink::PushGateway { group, is_deleted: true, .. } = &self.sink {
            drop(group.answer(group.request(Method::DELETE)).await?);
        }
        Ok(())
    }
}

impl Sink {
    fn name(&self) -> &'static str {
        match self {
            Self::Log(..) => "the log",
            Self::Otlp(_) => "the collector",
            Self::PushGateway { .. } => "PushGateway",
            Self::InfluxDb(_) => "InfluxDB",
            Self::StatsD(_) => "StatsD",
            Self::Graphite(_) => "Graphite",
        }
    }
}

/// Returns where the gateway keeps the metrics of this process.
fn group(gateway: &PushGateway) -> Url {
    let suffix = if gateway.has_suffix { new_trigger_id() } else { String::new() };
    let mut url = gateway.url.clone();
    // An address with a host has a path.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["metrics", "job"]).push(&format!("{}{suffix}", gateway.job));
        path.extend(gateway.grouping.iter().flat_map(|(key, value)| [key, value]));
    }
    url
}

async fn to_log(families: &[Family], identity: &Identity, scopes: &Scopes) {
    let (lines, left_out) = lines(families, identity, scopes);
    for (number, line) in lines.enumerate() {
        tracing::info!(target: "kubectl_flink::metrics", "{line}");
        if number % LINES_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    if left_out > 0 {
        tracing::warn!(left_out, "there are more metrics than are written to the log");
    }
}

#[cfg(test)]
mod tests;
