//! Many lives under random faults, from a seed. When the faults end everything has to settle, and no
//! law of state may have been broken.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use http::Method;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::sleep;

use super::ground::Ground;
use super::proxy::{Asked, Fault, Moment, Side, WatchFault};
use super::scenarios::{JOB, deployment, highly_available};
use super::stage::{DEPLOYMENT, Script, Stage};
use crate::simulation::Choices;

/// Lives at the same time.
const LIVES: u64 = 16;
/// What a user does in each.
const DEEDS: usize = 8;
/// Of a hundred requests so many go wrong.
const TROUBLE: u64 = 12;

/// The seed in `KUBECTL_FLINK_FAULT_SEED`, or a new one.
fn seed() -> u64 {
    std::env::var("KUBECTL_FLINK_FAULT_SEED").map_or_else(
        |_| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs(),
        |text| text.parse().expect("KUBECTL_FLINK_FAULT_SEED is a number"),
    )
}

pub(super) async fn everything_settles() {
    let seed = seed();
    println!("KUBECTL_FLINK_FAULT_SEED={seed}");
    let ground = Arc::new(Ground::new("weather").await);
    let lives = (0..LIVES).map(|life| {
        let ground = Arc::clone(&ground);
        tokio::spawn(async move { live(&ground, seed, life).await })
    });
    let ends = join_all(lives.collect::<Vec<_>>()).await;
    let failures: Vec<String> = ends
        .into_iter()
        .enumerate()
        .filter_map(|(life, end)| Some(format!("life {life}: {}", end.err()?)))
        .collect();
    assert!(failures.is_empty(), "seed {seed}\n{}", failures.join("\n\n"));
}

async fn live(ground: &Arc<Ground>, seed: u64, life: u64) {
    let mut choices = Choices::new(seed.wrapping_mul(1000).wrapping_add(life));
    let script = trouble(Choices::new(choices.below(u64::MAX)));
    let stage = Stage::new(ground, &format!("life-{life}"), script).await;
    let is_available = choices.below(2) == 0;
    stage
        .create(if is_available { highly_available("last-state") } else { deployment("savepoint") })
        .await;
    stage.until_stable(JOB).await;
    stage.begin();
    let mut deeds = Vec::new();
    for _ in 0..DEEDS {
        deeds.push(one_deed(&stage, &mut choices, is_available).await);
        let pause = Duration::from_millis(200 + choices.below(2500));
        let until = tokio::time::Instant::now() + pause;
        while tokio::time::Instant::now() < until {
            stage.operator.tend();
            sleep(Duration::from_millis(100)).await;
        }
    }
    println!("life {life}: {}", deeds.join(", "));
    stage.proxy.calm();
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"state": "running"}})).await;
    stage.until_stable(JOB).await;
    stage.until_at_rest().await;
    stage.check_laws();
    assert_eq!(ground.world.job_managers(&stage.namespace), 1, "{}", stage.told("JobManagers"));
    stage.delete(DEPLOYMENT, JOB).await;
    stage.until_gone(DEPLOYMENT, JOB).await;
    check_nothing_is_left(&stage).await;
    stage.check_laws();
}

async fn one_deed(stage: &Stage, choices: &mut Choices, is_available: bool) -> String {
    let spec = match choices.below(if is_available { 7 } else { 6 }) {
        0..3 => json!({"job": {"parallelism": 1 + choices.below(4)}}),
        3 => json!({"job": {"state": "suspended"}}),
        4 => json!({"job": {"state": "running"}}),
        5 => {
            stage.operator.kill();
            return "the operator is killed".to_owned();
        }
        _ => {
            json!({"job": {"upgradeMode": if choices.below(2) == 0 { "savepoint" } else { "last-state" }}})
        }
    };
    stage.edit(DEPLOYMENT, JOB, spec.clone()).await;
    spec.to_string()
}

async fn check_nothing_is_left(stage: &Stage) {
    for kind in ["Deployment", "Service", "ConfigMap", "Pod"] {
        for attempt in 0.. {
            let all = stage.api(kind).list(&ListParams::default()).await.unwrap();
            let names: Vec<String> = all
                .items
                .iter()
                .filter_map(|one| one.metadata.name.clone())
                .filter(|name| name != "kube-root-ca.crt")
                .collect();
            if names.is_empty() {
                break;
            }
            assert!(attempt < 100, "{}", stage.told(&format!("{kind} left behind: {names:?}")));
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// What goes wrong, by chance.
fn trouble(mut choices: Choices) -> Script {
    Box::new(move |asked: &Asked| {
        if choices.below(100) >= TROUBLE {
            return None;
        }
        let moment = if choices.below(2) == 0 { Moment::Before } else { Moment::After };
        let is_read = asked.method == Method::GET;
        Some(match (asked.side, is_read, choices.below(8)) {
            (Side::Kubernetes, true, kind) if asked.is_watch => Fault::Watch(match kind {
                0..2 => WatchFault::Frozen,
                2..4 => WatchFault::Gone,
                4 => WatchFault::Doubled,
                5 => WatchFault::Replayed,
                _ => WatchFault::Short,
            }),
            (Side::Kubernetes, true, 0)
                if asked.path.contains("?&") || asked.path.contains("limit=") =>
            {
                Fault::OldList
            }
            (Side::Kubernetes, false, 0) => Fault::Status(409, None),
            (Side::Flink, true, 0) if asked.path.contains("/jobs/overview") => Fault::NoJobs,
            (_, _, 0..2) => Fault::Slow(Duration::from_millis(choices.below(1500))),
            (Side::Kubernetes, _, 2) => Fault::Status(429, Some(1)),
            (Side::Flink, _, 2) => Fault::Truncated,
            (_, _, 3) => Fault::Status(500, None),
            (_, _, 4) => Fault::Status(503, None),
            (_, _, 5) => Fault::Cut(moment),
            (_, _, 6) => Fault::Silence(moment),
            (_, _, _) => Fault::Kill(moment),
        })
    })
}
