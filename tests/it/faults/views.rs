//! The operator's view is outdated: after it was killed in the middle of something and restarts, or while it runs and
//! its watches go stale.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disturbance::{Base, Disturbance, first, same_end};
use super::ground::Ground;
use super::points::Point;
use super::proxy::{Asked, Fault, Moment, Recorded, VERSIONS, WatchFault};
use super::scenarios::{CLUSTER, JOB, deployment, run_in_session};
use super::stage::{DEPLOYMENT, SESSION_JOB, Stage, is_stable};
use super::weather::check_nothing_is_left;

/// Number of old lists of a resource in a row.
const OLD_LISTS: usize = 3;

/// Longer than the operator waits for anything else, but shorter than it trusts a silent watch.
const HELD: WatchFault = WatchFault::Held(Duration::from_secs(8));
/// Faults of all watches of a running operator at once.
const OF_OPEN_WATCHES: [WatchFault; 5] =
    [WatchFault::Frozen, HELD, WatchFault::Gone, WatchFault::Doubled, WatchFault::Replayed];

const DEPLOYMENTS: (&str, &str) = ("flinkdeployments", "/flinkdeployments?");
const SESSION_JOBS: (&str, &str) = ("flinksessionjobs", "/flinksessionjobs?");
const CLUSTERS: (&str, &str) = ("deployments", "/deployments?");
const PODS: (&str, &str) = ("pods", "/pods?");

pub(super) async fn a_new_operator_may_see_what_is_not() {
    let ground = Ground::shared().await;
    let of_deployments = same_end(&ground, "savepoint_upgrade", |base| {
        let mut all = watches(base);
        // Reads replace watches that report nothing and never end.
        all.extend([CLUSTERS, PODS].map(|what| frozen(base, what)));
        all.extend(old(base, DEPLOYMENTS));
        all.extend(old(base, CLUSTERS));
        all.push(old_and_frozen(base, DEPLOYMENTS));
        all
    });
    let of_session_jobs = same_end(&ground, "session_job_upgrade", |base| {
        let mut all = watches(base);
        all.extend(old(base, DEPLOYMENTS));
        all.extend(old(base, SESSION_JOBS));
        all.push(old_and_frozen(base, SESSION_JOBS));
        all
    });
    tokio::join!(of_deployments, of_session_jobs);
}

fn is_stop(asked: &Asked) -> bool {
    asked.is("POST", "/stop")
}

fn is_creation(asked: &Asked) -> bool {
    asked.is("POST", "/deployments?")
        || (asked.is("POST", "") && asked.path.ends_with("/deployments"))
}

fn is_run(asked: &Asked) -> bool {
    asked.is("POST", "/run")
}

/// The operator keeps running, and all its watches go wrong when it first stops a job, and when it first starts one
/// again.
fn stale(is_start: fn(&Asked) -> bool) -> Vec<Disturbance> {
    let at = |when: &str, is_it: fn(&Asked) -> bool| {
        OF_OPEN_WATCHES.map(|fault| {
            let name = format!("open-{}-{when}", word(fault));
            Disturbance::first(name, 1, is_it, Fault::OpenWatches(fault, ""))
        })
    };
    at("stop", is_stop).into_iter().chain(at("start", is_start)).collect()
}

fn word(fault: WatchFault) -> &'static str {
    match fault {
        WatchFault::Frozen => "frozen",
        WatchFault::Held(_) => "held",
        WatchFault::Gone => "gone",
        WatchFault::Doubled => "doubled",
        WatchFault::Replayed => "replayed",
        WatchFault::Short => "short",
    }
}

/// The watches of a running operator report nothing, too late, or more than once.
pub(super) async fn a_stale_watch_hides_nothing_for_long() {
    let ground = Ground::shared().await;
    tokio::join!(
        edits_and_deletions_are_seen(&ground),
        // No one edits anything, and the end must be that of an undisturbed run.
        same_end(&ground, "savepoint_upgrade", |_| stale(is_creation)),
        same_end(&ground, "session_job_upgrade", |_| stale(is_run)),
    );
}

/// A user edits in the middle of an upgrade, and deletes after it.
async fn edits_and_deletions_are_seen(ground: &Arc<Ground>) {
    let lives = OF_OPEN_WATCHES.into_iter().flat_map(|fault| {
        [DEPLOYMENT, SESSION_JOB].map(|kind| {
            let ground = Arc::clone(ground);
            let name = format!("stale-{}-{}", word(fault), kind.to_ascii_lowercase());
            (name.clone(), tokio::spawn(async move { hidden(&ground, &name, kind, fault).await }))
        })
    });
    let mut failures = Vec::new();
    for (name, life) in lives.collect::<Vec<_>>() {
        match life.await {
            Ok(told) => println!("{name}: {told}"),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns how much was hidden, and for how long.
async fn hidden(ground: &Arc<Ground>, name: &str, kind: &str, fault: WatchFault) -> String {
    let struck = Fault::OpenWatches(fault, "");
    let stage = Stage::new(ground, name, first(1, is_stop, struck)).await;
    if kind == SESSION_JOB {
        run_in_session(&stage, "savepoint").await;
    } else {
        stage.create(deployment("savepoint")).await;
        stage.until_stable(JOB).await;
    }
    stage.begin();
    stage.edit(kind, JOB, json!({"job": {"parallelism": 2}})).await;
    stage.until_recorded("struck", |one| one.fault == Some(struck)).await;
    let edited = Instant::now();
    stage.edit(kind, JOB, json!({"job": {"parallelism": 3}})).await;
    let is_done =
        |found: &Value| is_stable(found) && found["spec"]["job"]["parallelism"] == json!(3);
    stage.until(kind, JOB, "STABLE with the second edit", is_done).await;
    let edited = edited.elapsed();
    stage.until_at_rest().await;
    stage.check_laws();
    let recorded = stage.proxy.recorded();
    let in_upgrade: usize = recorded.iter().map(Recorded::touched).sum();
    assert!(in_upgrade > 0, "{}", stage.described("no watch was struck in the upgrade"));

    let touched = stage.proxy.strike_open_watches(fault, "");
    let deleted = Instant::now();
    stage.delete(kind, JOB).await;
    if kind == SESSION_JOB {
        stage.delete(DEPLOYMENT, CLUSTER).await;
        stage.until_gone(SESSION_JOB, JOB).await;
        stage.until_gone(DEPLOYMENT, CLUSTER).await;
    } else {
        stage.until_gone(DEPLOYMENT, JOB).await;
    }
    let deleted = deleted.elapsed();
    check_nothing_is_left(&stage).await;
    stage.check_laws();
    let after = touched.load(std::sync::atomic::Ordering::Relaxed);
    assert!(after > 0, "{}", stage.described("no watch was struck in the deletion"));
    assert_eq!(stage.operator.starts(), 1, "{}", stage.described("the operator did not run on"));
    format!("{in_upgrade} events, edited in {edited:.1?}; {after} events, gone in {deleted:.1?}")
}

fn watches(base: &Base) -> Vec<Disturbance> {
    use WatchFault::{Doubled, Gone, Replayed, Short};
    let wrong = |fault: WatchFault| {
        let then = move |asked: &Asked| asked.is_watch.then_some(Fault::Watch(fault));
        killed_then(word(fault).to_owned(), base.sure_at(1, 2), then, 12)
    };
    [Gone, Doubled, Replayed, Short].map(wrong).into()
}

fn frozen(base: &Base, (name, part): (&str, &'static str)) -> Disturbance {
    let frozen = Fault::Watch(WatchFault::Frozen);
    let is_it = move |asked: &Asked| asked.is_watch && asked.path.contains(part);
    let then = move |asked: &Asked| is_it(asked).then_some(frozen);
    killed_then(format!("frozen-{name}"), base.sure_at(1, 2), then, 100)
}

/// Lists that are slightly outdated, and as old as the known versions allow.
fn old(base: &Base, (name, part): (&'static str, &'static str)) -> Vec<Disturbance> {
    let moments = [(0, 1), (1, 2), (2, 4), (1, VERSIONS), (4, 1), (4, VERSIONS)];
    let old = moments.map(|(quarter, ago)| {
        let then = move |asked: &Asked| is_list(asked, part).then_some(Fault::OldList(ago));
        let name = format!("old-{name}-{quarter}-{ago}");
        let trouble = killed_then(name, base.sure_at(quarter, 4), then, OLD_LISTS);
        if ago == VERSIONS { trouble.if_shown(shows_others) } else { trouble.if_shown(is_behind) }
    });
    old.into()
}

/// A list is old, and its watch never reports anything new.
fn old_and_frozen(base: &Base, (name, part): (&str, &'static str)) -> Disturbance {
    let is_frozen = Fault::Watch(WatchFault::Frozen);
    let then = move |asked: &Asked| {
        if asked.is_watch {
            asked.path.contains(part).then_some(is_frozen)
        } else {
            is_list(asked, part).then_some(Fault::OldList(VERSIONS))
        }
    };
    killed_then(format!("old-frozen-{name}"), base.sure_at(1, 2), then, 2).if_shown(
        move |recorded| {
            let is_struck = |one: &Recorded| one.fault == Some(is_frozen) && one.has_struck();
            shows_others(recorded) && recorded.iter().any(is_struck)
        },
    )
}

/// Whether the list fills the operator's cache; other lists request one object to get the store's version.
fn is_list(asked: &Asked, part: &str) -> bool {
    let mut query = asked.path.split(['?', '&']);
    asked.is("GET", part) && !asked.is_watch && query.all(|pair| pair != "limit=1")
}

fn is_behind(recorded: &[Recorded]) -> bool {
    recorded.iter().any(|one| one.age.is_some_and(|age| age.behind > 0))
}

/// Whether an old list also contained other objects.
fn shows_others(recorded: &[Recorded]) -> bool {
    recorded.iter().any(|one| one.age.is_some_and(|age| age.is_other))
}

/// Kills the operator before the write; afterwards `then` makes requests fail.
fn killed_then(
    name: String,
    point: &Point,
    then: impl Fn(&Asked) -> Option<Fault> + Clone + Send + Sync + 'static,
    times: usize,
) -> Disturbance {
    let point = point.clone();
    let trouble = Disturbance::scripted(name, move |place| {
        let mut kill = point.script(&place.namespace, Fault::Kill(Moment::Before));
        let (then, mut is_killed, mut times) = (then.clone(), false, times);
        Box::new(move |asked| {
            if !is_killed {
                let fault = kill(asked);
                is_killed = fault.is_some();
                return fault;
            }
            let fault = if times > 0 { then(asked) } else { None };
            times -= usize::from(fault.is_some());
            fault
        })
    });
    trouble.if_shown(|recorded| {
        let is_kill = |one: &Recorded| matches!(one.fault, Some(Fault::Kill(_)));
        recorded.iter().any(|one| !is_kill(one) && one.has_struck())
    })
}
