//! Churn for a long time: whether the operator's resource use grows.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::ground::Ground;
use crate::phases::{Bench, name};
use crate::process::{Operator, round};
use crate::save;

/// Pause between two actions of the user.
const PAUSE: Duration = Duration::from_millis(400);
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Caches and pools fill in this time, so the slope is computed from later samples.
const WARM_UP: Duration = Duration::from_mins(10);
/// Long enough for the slowest of all actions.
const CALM_DOWN: Duration = Duration::from_mins(2);

/// The state of one deployment.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Life {
    Runs,
    Suspended,
    Absent,
}

/// Creates, edits, suspends, resumes and deletes deployments for this many minutes.
pub(crate) async fn run(bench: &Bench, minutes: u64, output: &Path) -> Result<Value> {
    let mut figures = json!({ "n": bench.count, "minutes": minutes });
    let operator = bench.start(&mut figures).await?;
    bench.create(&operator, &mut figures).await?;
    let mut samples = Vec::new();
    let mut lives = vec![Life::Runs; bench.count];
    let (start, length) = (Instant::now(), Duration::from_mins(1) * u32::try_from(minutes)?);
    let (mut actions, mut random, mut next_sample) = (0_u64, 1_u64, Duration::ZERO);
    while start.elapsed() < length {
        // Knuth's generator: the same actions in every run.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = usize::try_from(random >> 33)? % lives.len();
        lives[index] = act(&bench.ground, index, lives[index], random >> 20, actions).await?;
        actions += 1;
        if start.elapsed() >= next_sample {
            next_sample += SAMPLE_EVERY;
            samples.push(sample(&operator, start.elapsed())?);
            figures["samples"] = json!(samples);
            save(output, &figures)?;
        }
        sleep(PAUSE).await;
    }
    sleep(CALM_DOWN).await;
    samples.push(sample(&operator, start.elapsed())?);
    figures["actions"] = json!(actions);
    figures["samples"] = json!(samples);
    figures["states"] = json!(bench.ground.states().await?);
    let warm_up = WARM_UP.min(length / 3).as_secs_f64();
    for of in ["rss_mb", "descriptors", "tasks", "threads"] {
        figures["an_hour"][of] = json!(slope(&samples, of, warm_up).map(round));
    }
    figures["end"] = operator.usage()?.to_json();
    operator.stop()?;
    Ok(figures)
}

/// Runs the user's next action on a deployment. While it is being deleted, the new one waits.
async fn act(ground: &Ground, index: usize, life: Life, dice: u64, nth: u64) -> Result<Life> {
    let name = name(index);
    match (life, dice % 4) {
        (Life::Absent, _) => {
            if ground.deployments.get_opt(&name).await?.is_some() {
                return Ok(Life::Absent);
            }
            ground.create(&name).await?;
            Ok(Life::Runs)
        }
        (Life::Runs | Life::Suspended, 0) => {
            ground.deployments.delete(&name, &DeleteParams::default()).await?;
            Ok(Life::Absent)
        }
        (Life::Runs, 1) => {
            ground.edit(&name, &json!({ "job": { "state": "suspended" } })).await?;
            Ok(Life::Suspended)
        }
        (Life::Suspended, 1..) => {
            ground.edit(&name, &json!({ "job": { "state": "running" } })).await?;
            Ok(Life::Runs)
        }
        (Life::Runs, _) => {
            ground.edit(&name, &json!({ "job": { "parallelism": 1 + nth % 7 } })).await?;
            Ok(Life::Runs)
        }
    }
}

fn sample(operator: &Operator, at: Duration) -> Result<Value> {
    let usage = operator.usage()?;
    Ok(json!({
        "s": round(at.as_secs_f64()),
        "rss_mb": round(usage.rss_mb),
        "descriptors": usage.descriptors,
        "threads": usage.threads,
        "tasks": operator.tasks()?,
        "cpu_s": round(usage.cpu_seconds),
    }))
}

/// Returns the growth of the figure per hour: least squares over the samples after the warm-up.
fn slope(samples: &[Value], of: &str, warm_up: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|sample| sample["s"].as_f64().zip(sample[of].as_f64()))
        .filter(|(at, _)| *at >= warm_up)
        .collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_at, mean_of) = (mean(|point| point.0), mean(|point| point.1));
    let (mut above, mut below) = (0.0, 0.0);
    for (at, value) in &points {
        above += (at - mean_at) * (value - mean_of);
        below += (at - mean_at).powi(2);
    }
    (below > 0.0).then(|| above / below * 3600.0)
}
