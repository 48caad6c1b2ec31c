//! Reporters that tell metrics by themselves, each from a task of its own.

mod otlp;

use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use self::otlp::Collector;
use super::endpoint::Error;
use super::exposition::own_process;
use super::observe::tell;
use clients::fence;
use config::reporter::{Push, Scopes, To};
use metrics::family::Family;
use metrics::log::lines;
use metrics::{Identity, Metrics};

/// Lines that are written to the log before others have their turn.
const LINES_AT_ONCE: usize = 200;

/// Told once an interval, for as long as this is polled. A report that fails is not made up for: the
/// next one has newer values.
///
/// # Errors
/// The reason that it does not start.
pub async fn run(metrics: Metrics, settings: Push) -> Result<(), Error> {
    let Some(identity) = metrics.identity().cloned() else { return Ok(()) };
    let interval = settings.interval;
    let sink = Sink::open(settings, identity)?;
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = 0_u64;
    loop {
        ticks.tick().await;
        match sink.send(&all(&metrics), Timestamp::now()).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                // One that is away for long does not fill the log as well.
                if failures.is_power_of_two() {
                    let to = sink.name();
                    tracing::warn!(failures, error = tell(&error), "{to} was not told of metrics");
                }
            }
        }
    }
}

/// Everything that is counted now.
fn all(metrics: &Metrics) -> Vec<Family> {
    let mut families = metrics.families(fence::now());
    if metrics.wants_process() {
        families.extend(own_process());
    }
    families
}

/// Whom a reporter tells.
enum Sink {
    Log(Identity, Scopes),
    Otlp(Collector),
}

impl Sink {
    fn open(settings: Push, identity: Identity) -> Result<Self, Error> {
        let Push { interval: _, timeout, to } = settings;
        Ok(match to {
            To::Log(scopes) => Self::Log(identity, scopes),
            To::Otlp(otlp) => Self::Otlp(Collector::new(*otlp, identity, timeout)?),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Log(..) => "the log",
            Self::Otlp(_) => "the collector",
        }
    }

    async fn send(&self, families: &[Family], now: Timestamp) -> Result<(), Error> {
        match self {
            Self::Log(identity, scopes) => to_log(families, identity, scopes).await,
            Self::Otlp(collector) => collector.tell(families, now).await?,
        }
        Ok(())
    }
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
        tracing::warn!(left_out, "there are more metrics than the log is told of");
    }
}

#[cfg(test)]
mod tests;
