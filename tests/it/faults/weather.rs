//! Many simulated lives of resources under random faults, from a seed. Once the faults end everything must settle, and
//! no law of state may have been broken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use kube::api::ListParams;
use serde_json::json;
use testing::choices::Choices;
use tokio::task::JoinError;
use tokio::time::sleep;

use super::end_state::POLL_EVERY;
use super::ground::Ground;
use super::proxy::{Asked, Fault, Moment, Recorded, Side, WatchFault};
use super::scenarios::{CLUSTER, JOB, deployment, highly_available, run_in_session};
use super::stage::{DEPLOYMENT, SESSION_JOB, Script, Stage, is_stable};
use crate::support::patience::PATIENCE;

/// Number of lives at the same time.
const LIVES: u64 = 16;
/// Maximum number of rounds of lives; rounds are added until every kind of fault has occurred, which takes more of them
/// where an operator makes fewer requests in the same time.
const ROUNDS: u64 = 12;
/// Number of user actions in each life.
const ACTIONS: usize = 8;
/// Percentage of requests that fail.
const FAULTS: u64 = 12;
/// Percentage of watches that fail: there are few of them, and not every one has an event.
const FAULTS_OF_WATCHES: u64 = 36;

/// Returns the seed in `KUBECTL_FLINK_FAULT_SEED`, or a new one.
pub(super) fn seed() -> u64 {
    std::env::var("KUBECTL_FLINK_FAULT_SEED").map_or_else(
        |_| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs(),
        |text| text.parse().expect("KUBECTL_FLINK_FAULT_SEED is a number"),
    )
}

pub(super) async fn everything_settles() {
    let seed = seed();
    println!("KUBECTL_FLINK_FAULT_SEED={seed}");
    let ground = Ground::shared().await;
    let mut hits = Hits::new();
    for round in 0..ROUNDS {
        let lives = (round * LIVES..(round + 1) * LIVES).map(|life| {
            let ground = Arc::clone(&ground);
            (life, tokio::spawn(async move { live(&ground, seed, life).await }))
        });
        let mut failures = Vec::new();
        for (life, end) in lives.collect::<Vec<_>>() {
            match end.await {
                Ok(recorded) => count(&mut hits, &recorded),
                Err(end) => failures.push(format!("life {life}: {}", first_line(end))),
            }
        }
        emit(&hits);
        assert!(failures.is_empty(), "seed {seed}\n{}", failures.join("\n"));
        if missing(&hits).is_empty() {
            return;
        }
    }
    panic!("seed {seed}: what never went wrong: {:?}", missing(&hits));
}

/// A kind of fault, and the kind of request that it hit.
type Hit = (&'static str, &'static str);
type Hits = BTreeMap<Hit, usize>;

const KUBERNETES_READ: &str = "API server, read";
const KUBERNETES_WRITE: &str = "API server, write";
const WATCH: &str = "API server, watch";
const FLINK_READ: &str = "Flink, read";
const FLINK_WRITE: &str = "Flink, write";

/// All kinds of faults; one of watches has occurred once it affected an event. Which requests they hit is chance;
/// [`super::kinds`] covers each combination deliberately.
const KINDS_OF_FAULT: [&str; 22] = [
    "slow",
    "409",
    "429",
    "500",
    "503",
    "cut before",
    "cut after",
    "silent before",
    "silent after",
    "killed before",
    "killed after",
    "truncated",
    "no jobs",
    "old list",
    "watch frozen",
    "watch gone",
    "watch doubled",
    "watch replayed",
    "watch short",
    "open watches frozen",
    "open watches gone",
    "open watches doubled",
];

/// Returns the kinds that did not occur.
fn missing(hits: &Hits) -> Vec<&'static str> {
    let is_missing = |kind: &&str| hits.keys().all(|(name, _)| name != kind);
    KINDS_OF_FAULT.into_iter().filter(is_missing).collect()
}

fn count(hits: &mut Hits, recorded: &[Recorded]) {
    for one in recorded.iter().filter(|one| one.has_struck()) {
        let Recorded { asked, fault, .. } = one;
        let Some(fault) = fault else { continue };
        let of = match (asked.side, asked.method == Method::GET) {
            (Side::Kubernetes, true) if asked.is_watch => WATCH,
            (Side::Kubernetes, true) => KUBERNETES_READ,
            (Side::Kubernetes, false) => KUBERNETES_WRITE,
            (Side::Flink, true) => FLINK_READ,
            (Side::Flink, false) => FLINK_WRITE,
        };
        *hits.entry((name(*fault), of)).or_default() += 1;
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill(Moment::Before) => "killed before",
        Fault::Kill(Moment::After) => "killed after",
        Fault::Status(409, _) => "409",
        Fault::Status(429, _) => "429",
        Fault::Status(503, _) => "503",
        Fault::Status(..) => "500",
        Fault::Cut(Moment::Before) => "cut before",
        Fault::Cut(Moment::After) => "cut after",
        Fault::Silence(Moment::Before) => "silent before",
        Fault::Silence(Moment::After) => "silent after",
        Fault::Slow(_) => "slow",
        Fault::Pause(_) => "paused",
        Fault::Clock(_) => "clock set",
        Fault::Changed(_) => "changed",
        Fault::Truncated => "truncated",
        Fault::NoJobs => "no jobs",
        Fault::ForeignJobs => "foreign jobs",
        Fault::OldJobs => "old jobs",
        Fault::OldList(_) => "old list",
        Fault::Watch(WatchFault::Frozen) => "watch frozen",
        Fault::Watch(WatchFault::Held(_)) => "watch held",
        Fault::OpenWatches(WatchFault::Gone, _) => "open watches gone",
        Fault::OpenWatches(WatchFault::Doubled, _) => "open watches doubled",
        Fault::OpenWatches(..) => "open watches frozen",
        Fault::Watch(WatchFault::Gone) => "watch gone",
        Fault::Watch(WatchFault::Doubled) => "watch doubled",
        Fault::Watch(WatchFault::Replayed) => "watch replayed",
        Fault::Watch(WatchFault::Short) => "watch short",
        Fault::Elsewhere => "elsewhere",
    }
}

fn emit(hits: &Hits) {
    println!("what went wrong:");
    for ((name, of), count) in hits {
        println!("{count:>5} {name}, {of}");
    }
}

/// Returns the first line of a life's panic, which printed the rest.
fn first_line(end: JoinError) -> String {
    let text = match end.try_into_panic() {
        Ok(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
        Err(end) => end.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

/// The resource that a life is about.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Application,
    /// An application with high availability.
    Available,
    /// An application with TaskManagers in their own Deployment.
    Standalone,
    SessionJob,
}

const KINDS: [Kind; 4] = [Kind::Application, Kind::Available, Kind::Standalone, Kind::SessionJob];

impl Kind {
    fn resource(self) -> &'static str {
        if self == Self::SessionJob { SESSION_JOB } else { DEPLOYMENT }
    }

    /// Gets it running, without faults.
    async fn begin(self, stage: &Stage) {
        let manifest = match self {
            Self::SessionJob => return run_in_session(stage, "savepoint").await,
            Self::Application => deployment("savepoint"),
            Self::Available => highly_available("last-state"),
            Self::Standalone => {
                let mut standalone = highly_available("last-state");
                standalone["spec"]["mode"] = json!("standalone");
                standalone
            }
        };
        stage.create(manifest).await;
        stage.until_stable(JOB).await;
    }
}

/// Plays one life and returns the requests that were made.
async fn live(ground: &Arc<Ground>, seed: u64, life: u64) -> Vec<Recorded> {
    let mut choices = Choices::new(seed.wrapping_mul(1000).wrapping_add(life));
    let script = disturbance(Choices::new(choices.below(u64::MAX)));
    let stage = Stage::new(ground, &format!("life-{life}"), script).await;
    let kind = KINDS[usize::try_from(life).unwrap() % KINDS.len()];
    kind.begin(&stage).await;
    stage.begin();
    let mut actions = Vec::new();
    for _ in 0..ACTIONS {
        actions.push(one_action(&stage, &mut choices, kind).await);
        pass_time(&stage, 200 + choices.below(2500)).await;
    }
    // Some are deleted in the middle of it.
    let is_deleted = life.is_multiple_of(3);
    if is_deleted {
        actions.push("deleted".to_owned());
        stage.delete(kind.resource(), JOB).await;
        pass_time(&stage, 200 + choices.below(4000)).await;
    }
    println!("life {life}: {}", actions.join(", "));
    stage.proxy.calm();
    if !is_deleted {
        come_to_rest(&stage, kind).await;
        stage.delete(kind.resource(), JOB).await;
    }
    stage.until_gone(kind.resource(), JOB).await;
    if kind == Kind::SessionJob {
        stage.delete(DEPLOYMENT, CLUSTER).await;
        stage.until_gone(DEPLOYMENT, CLUSTER).await;
    }
    check_nothing_is_left(&stage).await;
    stage.check_laws();
    stage.proxy.recorded()
}

/// Without faults, one job must run, and no law may have been broken.
async fn come_to_rest(stage: &Stage, kind: Kind) {
    stage.edit(kind.resource(), JOB, json!({"job": {"state": "running"}})).await;
    stage.until(kind.resource(), JOB, "STABLE", is_stable).await;
    stage.until_at_rest().await;
    stage.check_laws();
    let running = stage.ground.world.job_managers(&stage.namespace);
    assert_eq!(running, 1, "{}", stage.described("JobManagers"));
    if kind == Kind::SessionJob {
        let key = format!("{}/{CLUSTER}", stage.namespace);
        let live =
            stage.ground.world.flink().with(&key, |cluster| {
                cluster.jobs.values().filter(|job| !job.is_terminal()).count()
            });
        assert_eq!(live, 1, "{}", stage.described("jobs"));
    }
}

/// Waits, and restarts the operator if it has died.
async fn pass_time(stage: &Stage, milliseconds: u64) {
    let until = tokio::time::Instant::now() + Duration::from_millis(milliseconds);
    while tokio::time::Instant::now() < until {
        stage.operator.tend();
        sleep(Duration::from_millis(100)).await;
    }
}

async fn one_action(stage: &Stage, choices: &mut Choices, kind: Kind) -> String {
    let is_available = matches!(kind, Kind::Available | Kind::Standalone);
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
    stage.edit(kind.resource(), JOB, spec.clone()).await;
    spec.to_string()
}

pub(super) async fn check_nothing_is_left(stage: &Stage) {
    let start = Instant::now();
    for kind in ["Deployment", "Service", "ConfigMap", "Pod"] {
        loop {
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
            assert!(
                start.elapsed() < PATIENCE,
                "{}",
                stage.described(&format!("{kind} left behind: {names:?}"))
            );
            sleep(POLL_EVERY).await;
        }
    }
}

/// Returns a script with random faults.
fn disturbance(mut choices: Choices) -> Script {
    Box::new(move |asked: &Asked| {
        if choices.below(100) >= if asked.is_watch { FAULTS_OF_WATCHES } else { FAULTS } {
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
                Fault::OldList(usize::try_from(choices.below(8)).unwrap())
            }
            (Side::Kubernetes, false, 0) => Fault::Status(409, None),
            (Side::Kubernetes, false, 1) => {
                let faults = [WatchFault::Frozen, WatchFault::Gone, WatchFault::Doubled];
                let fault = faults[usize::try_from(choices.below(3)).unwrap()];
                Fault::OpenWatches(fault, "")
            }
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
