//! Reporters that tell metrics by themselves, each from a task of its own.

use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::endpoint::{Caller, Error};
use super::exposition::own_process;
use super::observe::tell;
use clients::fence;
use config::plugin::Endpoint;
use config::reporter::{Log, Otlp};
use metrics::Metrics;
use metrics::family::Family;
use metrics::log::lines;
use metrics::otlp::{Source, bodies};

/// Everything that is counted now.
fn all(metrics: &Metrics) -> Vec<Family> {
    let mut families = metrics.families(fence::now());
    if metrics.wants_process() {
        families.extend(own_process());
    }
    families
}

/// Told once an interval, for as long as this is polled. A report that fails is not made up for: the
/// next one has newer values.
///
/// # Errors
/// The reason that it does not start.
pub async fn to_collector(metrics: Metrics, settings: Otlp) -> Result<(), Error> {
    let Otlp { endpoint, interval, timeout, service, version } = settings;
    let Some(identity) = metrics.identity().cloned() else { return Ok(()) };
    let caller = Caller::new(Endpoint { url: endpoint, headers: Vec::new(), timeout })?;
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let started = Timestamp::now().as_nanosecond();
    let source = Source { identity, service, version, started };
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = 0_u64;
    loop {
        ticks.tick().await;
        match report(&caller, &metrics, &source).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                // A collector that is away for long does not fill the log as well.
                if failures.is_power_of_two() {
                    tracing::warn!(failures, error = tell(&error), "the collector was not told");
                }
            }
        }
    }
}

/// Lines that are written before others have their turn.
const LINES_AT_ONCE: usize = 200;

/// Written to the log once an interval, for as long as this is polled.
pub async fn to_log(metrics: Metrics, settings: Log) {
    let Log { interval, scopes } = settings;
    let Some(identity) = metrics.identity().cloned() else { return };
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let families = all(&metrics);
        let (lines, left_out) = lines(&families, &identity, &scopes);
        for (number, line) in lines.enumerate() {
            tracing::info!(target: "kubectl_flink::metrics", "{line}");
            if number % LINES_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        if left_out > 0 {
            tracing::warn!(left_out, "there are more metrics than the log is told of");
        }
    }
}

async fn report(caller: &Caller, metrics: &Metrics, source: &Source) -> Result<(), Error> {
    let families = all(metrics);
    let now = Timestamp::now().as_nanosecond();
    // One after the other, so that one body at a time is in memory.
    for body in bodies(&families, source, now) {
        drop(caller.post("application/json", body).await?);
    }
    Ok(())
}
