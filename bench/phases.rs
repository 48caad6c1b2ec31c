//! The measurements with a number of deployments, one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::ground::{Calls, Ground, count};
use crate::process::{Operator, others, round};
use crate::save;

/// How long all deployments may take to become STABLE: a minute, plus what a slow machine needs for each.
const STABLE_LIMIT: Duration = Duration::from_mins(1);
const STABLE_LIMIT_EACH: Duration = Duration::from_millis(300);
const STABLE: &str = "STABLE";
/// How many of those that are not STABLE are named.
const NAMED: usize = 5;
/// Number of status writes until a deployment is STABLE.
const STATUSES_TO_STABLE: usize = 2;
/// Time after start in which an operator loads what it needs; its size then is its idle size.
const IDLE_AFTER: Duration = Duration::from_secs(12);
/// Minimum pause between two reads of the API server's counts, which are a large text to produce.
const COUNTED_EVERY_MIN: Duration = Duration::from_millis(200);
/// A pause is this fraction of the expected remaining time at the pace so far.
const POLLS_UNTIL_THEN: f64 = 4.0;
const SETTLE: Duration = Duration::from_secs(15);
const MINUTE: Duration = Duration::from_mins(1);
/// Number of edits whose reaction is timed.
const EDITS: usize = 10;
/// By this time every JobManager has been asked again, so all that hang are known.
const ALL_ASKED_AGAIN: Duration = Duration::from_secs(75);

/// Maximum number of concurrent upgrades in the phase of the waves, and its configuration.
const WAVE: u32 = 20;
const WAVES: &str = "\
kubernetes.operator.upgrade.max-concurrent: 20
kubernetes.operator.upgrade.pause-after-failures: 3
kubernetes.operator.deployment.readiness.timeout: 10 s
kubernetes.operator.job.upgrade.preflight: none
";
/// How long an image that never starts is watched.
const BROKEN_FOR: Duration = Duration::from_mins(1);

/// A part of the measurement that can be left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// A minute in which nothing happens.
    Rest,
    /// One deployment at a time is changed.
    One,
    /// The operator starts while all deployments exist.
    Restart,
    /// A tenth of the JobManagers accept connections and never respond.
    Hanging,
    /// All deployments are changed at once.
    All,
    /// All deployments are changed at once under a budget, also to an image that never starts.
    Waves,
    /// Two replicas, of which the leading one is stopped, then killed.
    Failover,
}

impl Phase {
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "rest" => Self::Rest,
            "one" => Self::One,
            "restart" => Self::Restart,
            "hanging" => Self::Hanging,
            "all" => Self::All,
            "waves" => Self::Waves,
            "failover" => Self::Failover,
            _ => bail!(
                "no phase `{name}`: there are rest, one, restart, hanging, all, waves and failover"
            ),
        })
    }
}

/// How long a wave is watched.
#[derive(Clone, Copy)]
enum Until {
    AllStable,
    Elapsed(Duration),
}

/// The result of a wave.
struct Wave {
    upgrading_at_most: usize,
    /// Number of JobManagers created.
    made: f64,
    took: Duration,
}

/// What is measured, and with which programs.
pub(crate) struct Bench {
    pub(crate) ground: Ground,
    pub(crate) count: usize,
    pub(crate) command: Vec<String>,
    pub(crate) log: PathBuf,
}

/// Creates the deployments and runs the phases.
pub(crate) async fn run(bench: &Bench, phases: &[Phase], output: &Path) -> Result<Value> {
    let mut figures = json!({ "n": bench.count });
    let mut operator = bench.start(&mut figures).await?;
    bench.create(&operator, &mut figures).await?;
    save(output, &figures)?;
    for phase in phases {
        eprintln!("bench: {phase:?}");
        match phase {
            Phase::Rest => figures["steady_60s"] = bench.rest(&operator).await?,
            Phase::One => figures["upgrade_redeploy_s"] = bench.reaction(2).await?,
            Phase::Restart => {
                // Work still in progress would be attributed to the restart.
                bench.until_stable(Instant::now(), &mut json!({})).await?;
                operator.stop()?;
                let (started, restart) = bench.restart().await?;
                (operator, figures["restart"]) = (started, restart);
            }
            Phase::Hanging => figures["hanging"] = bench.hanging(&operator).await?,
            Phase::Failover => {
                bench.until_stable(Instant::now(), &mut json!({})).await?;
                operator.stop()?;
                bench.ground.forget_asked().await?;
                let (leading, failover) = Box::pin(bench.fail_over()).await?;
                (operator, figures["failover"]) = (leading, failover);
            }
            Phase::Waves => {
                bench.until_stable(Instant::now(), &mut json!({})).await?;
                operator.stop()?;
                let (started, waves) = bench.waves().await?;
                (operator, figures["waves"]) = (started, waves);
            }
            Phase::All => figures["change_all"] = bench.change_all(&operator).await?,
        }
        save(output, &figures)?;
    }
    figures["end"] = operator.usage()?.to_json();
    operator.stop()?;
    Ok(figures)
}

impl Bench {
    /// Starts the operator; records its time to a first status, and its idle size.
    pub(crate) async fn start(&self, figures: &mut Value) -> Result<Operator> {
        let start = Instant::now();
        let operator = Operator::start(&self.command, &self.log)?;
        self.ground.create("probe0").await?;
        while self.ground.lifecycle("probe0").await?.is_none() {
            if start.elapsed() > MINUTE {
                bail!("no status after a minute; the operator's log is {}", self.log.display());
            }
            sleep(Duration::from_millis(5)).await;
        }
        figures["start_to_first_status_s"] = seconds(start.elapsed());
        sleep(IDLE_AFTER).await;
        figures["idle"] = operator.usage()?.to_json();
        Ok(operator)
    }

    /// Creates all deployments at once, and waits until they are STABLE.
    pub(crate) async fn create(&self, operator: &Operator, figures: &mut Value) -> Result<()> {
        let (calls, idle) = (self.ground.calls().await?, operator.usage()?);
        let worked = self.ground.server_seconds().await?;
        let others_before = others(&self.ground.instance);
        let start = Instant::now();
        self.ground.create_all((0..self.count).map(name)).await?;
        figures["created_in_s"] = seconds(start.elapsed());
        self.until_written(&calls, start).await?;
        self.until_stable(start, figures).await?;
        let stable = operator.usage()?;
        figures["cpu_s_to_stable"] = json!(round(stable.cpu_seconds - idle.cpu_seconds));
        for (name, seconds) in others(&self.ground.instance) {
            let before = others_before.get(&name).copied().unwrap_or_default();
            figures["others_cpu_s_to_stable"][name] = json!(round(seconds - before));
        }
        self.ground.calls().await?.note(&calls, "_to_stable", figures);
        figures["at_stable"] = stable.to_json();
        figures["server_to_stable"] = self.worked_since(&worked).await?;
        Ok(())
    }

    /// Returns the number of requests of each kind since `before`, and the seconds they took the API server.
    async fn worked_since(&self, before: &BTreeMap<String, (f64, f64)>) -> Result<Value> {
        let mut server = json!({});
        for (request, (seconds, count)) in self.ground.server_seconds().await? {
            let (seconds_before, count_before) = before.get(&request).copied().unwrap_or_default();
            let (seconds, count) = (seconds - seconds_before, count - count_before);
            if seconds >= 0.5 {
                server[request] = json!({ "s": round(seconds), "count": count });
            }
        }
        Ok(server)
    }

    /// Waits until enough statuses were written since `before` for all new deployments to be STABLE. Only a list shows
    /// whether they are, but one of 10,000 takes the API server a second, at the expense of the measurement.
    async fn until_written(&self, before: &Calls, start: Instant) -> Result<()> {
        let wanted = before.statuses + (self.count * STATUSES_TO_STABLE) as f64;
        while start.elapsed() < self.limit()? {
            let written = self.ground.calls().await?.statuses;
            if written >= wanted {
                break;
            }
            let pace = (written - before.statuses) / start.elapsed().as_secs_f64();
            let left = (wanted - written) / pace.max(f64::MIN_POSITIVE);
            let pause =
                Duration::try_from_secs_f64(left / POLLS_UNTIL_THEN).unwrap_or(Duration::MAX);
            sleep(pause.clamp(COUNTED_EVERY_MIN, COUNTED_EVERY_MIN.max(start.elapsed()))).await;
        }
        Ok(())
    }

    fn limit(&self) -> Result<Duration> {
        Ok(STABLE_LIMIT + STABLE_LIMIT_EACH.saturating_mul(u32::try_from(self.count)?))
    }

    /// Waits until all deployments are STABLE, and records when they were, from `start`. One that does not become
    /// STABLE in time is a failure, not a missing figure.
    async fn until_stable(&self, start: Instant, figures: &mut Value) -> Result<()> {
        let wanted = self.count + 1;
        let limit = self.limit()?;
        loop {
            let asked = start.elapsed();
            let lifecycles = self.ground.lifecycles().await?;
            let states = count(&lifecycles);
            figures["states"] = json!(states);
            if states.get(STABLE).copied().unwrap_or(0) >= wanted {
                figures["all_stable_s"] = seconds(asked);
                return Ok(());
            }
            if asked > limit {
                let others = lifecycles.iter().filter(|(_, state)| state != STABLE);
                let others: Vec<String> =
                    others.take(NAMED).map(|(name, state)| format!("{name} {state}")).collect();
                bail!(
                    "not all of {wanted} are {STABLE} after {asked:.0?}: {states:?}; the first others: \
                     {}; the operator's logs are {}*.log",
                    others.join(", "),
                    self.log.with_extension("").display()
                );
            }
            // The list causes load, too.
            sleep(Duration::from_millis(100.max(self.count as u64 / 2))).await;
        }
    }

    /// Measures what the operator does in a minute in which nothing happens.
    async fn rest(&self, operator: &Operator) -> Result<Value> {
        sleep(SETTLE).await;
        let before = (self.ground.calls().await?, operator.usage()?);
        let flink = self.ground.flink_calls().await?;
        sleep(MINUTE).await;
        let (calls, usage) = (self.ground.calls().await?, operator.usage()?);
        let mut routes = self.ground.flink_calls().await?;
        for (route, count) in &mut routes {
            *count -= flink.get(route).copied().unwrap_or(0);
        }
        routes.retain(|_, count| *count > 0);
        let mut figures = json!({ "flink_rest": routes.values().sum::<u64>() });
        figures["flink_routes"] = json!(routes);
        calls.note(&before.0, "", &mut figures);
        figures["cpu_s"] = json!(round(usage.cpu_seconds - before.1.cpu_seconds));
        figures["rss_mb"] = json!(round(usage.rss_mb));
        figures["threads"] = json!(usage.threads);
        Ok(figures)
    }

    /// Measures the time from a changed spec to the new JobManager Deployment, for one deployment after the other.
    async fn reaction(&self, parallelism: usize) -> Result<Value> {
        let mut took = Vec::new();
        for name in (self.count.saturating_sub(EDITS)..self.count).map(name) {
            took.push(self.react(&name, parallelism).await?);
        }
        took.sort();
        let (Some(median), Some(longest)) = (took.get(took.len() / 2), took.last()) else {
            return Ok(Value::Null);
        };
        Ok(json!({ "p50": seconds(*median), "max": seconds(*longest) }))
    }

    /// Measures the time from a changed spec to the new JobManager Deployment.
    pub(crate) async fn react(&self, name: &str, parallelism: usize) -> Result<Duration> {
        let before = self.ground.job_managers.get(name).await?.metadata.uid;
        let start = Instant::now();
        self.ground.edit(name, &json!({ "job": { "parallelism": parallelism } })).await?;
        loop {
            let now = self.ground.job_managers.get_opt(name).await?;
            if now.is_some_and(|deployment| deployment.metadata.uid != before) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > MINUTE {
                bail!("`{name}` was not redeployed in a minute");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Restarts the operator; measures the time until every JobManager was asked, and what was written meanwhile.
    async fn restart(&self) -> Result<(Operator, Value)> {
        let mut figures = json!({});
        self.ground.forget_asked().await?;
        let before = self.ground.calls().await?;
        let start = Instant::now();
        let operator = Operator::start(&self.command, &self.log.with_extension("restart.log"))?;
        loop {
            let asked = self.ground.asked().await?;
            if asked > self.count {
                figures["all_observed_s"] = seconds(start.elapsed());
                break;
            }
            if start.elapsed() > MINUTE * 3 {
                bail!("{asked} of {} JobManagers were asked in three minutes", self.count + 1);
            }
            sleep(Duration::from_millis(50)).await;
        }
        let usage = operator.usage()?;
        sleep(SETTLE).await;
        self.ground.calls().await?.note(&before, "", &mut figures);
        figures["cpu_s"] = json!(round(usage.cpu_seconds));
        figures["rss_mb"] = json!(round(usage.rss_mb));
        figures["peak_mb"] = json!(round(usage.peak_mb));
        Ok((operator, figures))
    }

    /// Measures how fast the operator reacts to the change of a healthy job while a tenth of the JobManagers accept
    /// connections and never respond.
    async fn hanging(&self, operator: &Operator) -> Result<Value> {
        let without = self.reaction(3).await?;
        sleep(SETTLE).await;
        let hanging = self.count / 10;
        self.ground.stall(&name(hanging)).await?;
        let before = operator.usage()?;
        sleep(ALL_ASKED_AGAIN).await;
        let after = operator.usage()?;
        let states = self.ground.states().await?;
        let with = self.reaction(4).await?;
        self.ground.stall("").await?;
        let ratio = |which: &str| {
            let (with, without) = (with[which].as_f64(), without[which].as_f64());
            with.zip(without).map(|(with, without)| round(with / without))
        };
        let cpu = (after.cpu_seconds - before.cpu_seconds) * 60.0 / ALL_ASKED_AGAIN.as_secs_f64();
        let mut figures = json!({
            "hanging": hanging,
            "states": states,
            "without_s": without,
            "with_s": with,
            "ratio": ratio("p50"),
            "ratio_of_longest": ratio("max"),
            "cpu_s_a_minute": round(cpu),
            "rss_mb": round(after.rss_mb),
            "descriptors": after.descriptors,
        });
        let mut recovery = json!({});
        self.until_stable(Instant::now(), &mut recovery).await?;
        figures["recovered_s"] = recovery["all_stable_s"].clone();
        Ok(figures)
    }

    /// Changes all deployments at once: never more than the budget allows are UPGRADING, and an image that does not
    /// start stops at its first failures.
    async fn waves(&self) -> Result<(Operator, Value)> {
        let config = self.log.with_file_name("waves.yaml");
        fs::write(&config, WAVES)?;
        let mut command = self.command.clone();
        command.extend(["--operator-config".to_owned(), config.display().to_string()]);
        let operator = Operator::start(&command, &self.log.with_extension("waves.log"))?;
        let mut figures = json!({ "at_once": WAVE });
        let wave = self.wave(&json!({ "job": { "parallelism": 6 } }), Until::AllStable).await?;
        figures["upgrading_at_most"] = json!(wave.upgrading_at_most);
        figures["all_stable_s"] = seconds(wave.took);
        let broken = json!({ "image": "flink:broken" });
        let wave = self.wave(&broken, Until::Elapsed(BROKEN_FOR)).await?;
        figures["broken_upgrading_at_most"] = json!(wave.upgrading_at_most);
        figures["broken_touched"] = json!(wave.made);
        let wave = self.wave(&json!({ "image": "flink:1.20.9" }), Until::AllStable).await?;
        figures["mended_upgrading_at_most"] = json!(wave.upgrading_at_most);
        figures["mended_stable_s"] = seconds(wave.took);
        let usage = operator.usage()?;
        figures["cpu_s"] = json!(round(usage.cpu_seconds));
        figures["rss_mb"] = json!(round(usage.rss_mb));
        Ok((operator, figures))
    }

    /// Changes all deployments at once, and watches them until the condition is met.
    async fn wave(&self, spec: &Value, until: Until) -> Result<Wave> {
        let (before, start) = (self.ground.calls().await?.clusters, Instant::now());
        self.ground.edit_all((0..self.count).map(name), spec).await?;
        let mut upgrading_at_most = 0;
        loop {
            let states = self.ground.states().await?;
            let (made, took) = (self.ground.calls().await?.clusters - before, start.elapsed());
            let upgrading = states.get("UPGRADING").copied().unwrap_or_default();
            upgrading_at_most = upgrading_at_most.max(upgrading);
            let is_over = match until {
                Until::AllStable => {
                    made >= self.count as f64 && states.get(STABLE) == Some(&(self.count + 1))
                }
                Until::Elapsed(time) => took >= time,
            };
            if is_over {
                return Ok(Wave { upgrading_at_most, made, took });
            }
            if took > self.limit()? * 4 {
                bail!("the wave is not over: {states:?}");
            }
            sleep(COUNTED_EVERY_MIN).await;
        }
    }

    /// Changes all deployments at once, and waits until all have new JobManagers and are STABLE again.
    async fn change_all(&self, operator: &Operator) -> Result<Value> {
        let mut figures = json!({});
        let (before, usage) = (self.ground.calls().await?, operator.usage()?);
        let worked = self.ground.server_seconds().await?;
        let start = Instant::now();
        let all = (0..self.count).map(name);
        self.ground.edit_all(all, &json!({ "job": { "parallelism": 5 } })).await?;
        figures["changed_in_s"] = seconds(start.elapsed());
        let wanted = before.clusters + self.count as f64;
        let mut calls: Calls;
        loop {
            calls = self.ground.calls().await?;
            if calls.clusters >= wanted {
                break;
            }
            if start.elapsed() > self.limit()? {
                bail!("{} of {wanted} JobManagers, and the time is up", calls.clusters);
            }
            sleep(Duration::from_millis(100.max(self.count as u64 / 5))).await;
        }
        figures["all_redeployed_s"] = seconds(start.elapsed());
        self.until_stable(start, &mut figures).await?;
        self.ground.calls().await?.note(&before, "", &mut figures);
        figures["server"] = self.worked_since(&worked).await?;
        let after = operator.usage()?;
        figures["cpu_s"] = json!(round(after.cpu_seconds - usage.cpu_seconds));
        figures["rss_mb"] = json!(round(after.rss_mb));
        figures["peak_mb"] = json!(round(after.peak_mb));
        Ok(figures)
    }
}

pub(crate) fn name(index: usize) -> String {
    format!("fd-{index:05}")
}

pub(crate) fn seconds(duration: Duration) -> Value {
    json!(round(duration.as_secs_f64()))
}
