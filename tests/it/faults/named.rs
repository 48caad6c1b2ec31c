//! One kind of fault each: what goes wrong passes, and the end is that of an undisturbed run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::ground::Ground;
use super::matrix::{Trouble, once, same_end};
use super::proxy::{Asked, Fault, Moment, VERSIONS, WatchFault};
use super::scenarios::{CLUSTER, JOB, job_in_session, session_cluster};
use super::stage::{SESSION_JOB, Script, Stage, is_stable};

/// How long rights are away.
const AWAY: Duration = Duration::from_secs(6);

/// It is carried out, and the operator never hears of it.
pub(super) async fn no_write_has_to_be_heard_of() {
    let ground = Arc::new(Ground::new("silence").await);
    for scenario in ["savepoint_upgrade", "last_state_upgrade"] {
        same_end(&ground, scenario, |writes| {
            (1..=writes)
                .map(|write| {
                    let fault = Fault::Silence(Moment::After);
                    let script = once(move |asked| asked.write == Some(write), fault);
                    Trouble { name: format!("silent-{write}"), script, is_sure: write < writes / 2 }
                })
                .collect()
        })
        .await;
    }
    // What is asked of Flink, in the other lives.
    for (scenario, asked) in [
        ("delete_with_savepoint", &["/stop"][..]),
        ("session_job_upgrade", &["/stop", "/run", "/upload"]),
        ("session_job", &["/run", "/upload"]),
        ("session_job_last_state_upgrade", &["mode=cancel", "/run"]),
        ("session_job_delete", &["mode=cancel"]),
    ] {
        same_end(&ground, scenario, |_| {
            let silent = |part: &&'static str| {
                let part = *part;
                let is_it = move |asked: &Asked| asked.write.is_some() && asked.path.contains(part);
                let word = part.trim_start_matches('/').trim_start_matches("mode=");
                let script = once(is_it, Fault::Silence(Moment::After));
                Trouble { name: format!("silent-{word}"), script, is_sure: true }
            };
            asked.iter().map(silent).collect()
        })
        .await;
    }
}

/// Rights are taken away in mid-run, and given back. Not those on snapshots and revisions: without them
/// what shows a savepoint and the history is not made, which an event or the log tells.
pub(super) async fn rights_may_go_and_come_back() {
    let ground = Arc::new(Ground::new("rights").await);
    let resources = [
        "/deployments",
        "/configmaps",
        "/services",
        "/pods",
        "/flinkdeployments/",
        "/status",
        "/events",
    ];
    same_end(&ground, "savepoint_upgrade", |_| {
        let each = resources
            .iter()
            .map(|resource| (format!("without-{}", resource.replace('/', "")), away(resource)));
        each.map(surely).collect()
    })
    .await;
}

fn away(resource: &'static str) -> Script {
    let mut since: Option<Instant> = None;
    Box::new(move |asked| {
        // As a role says it: the resource and its objects, watches included.
        let is_it = asked.path.split('?').next().is_some_and(|path| path.contains(resource))
            && asked.path.starts_with("/api");
        let begun = *since.get_or_insert_with(Instant::now);
        (is_it && begun.elapsed() < AWAY).then_some(Fault::Status(403, None))
    })
}

/// The operator is killed in the middle, and what it sees when it comes back is not what is.
pub(super) async fn a_new_operator_may_see_what_is_not() {
    let ground = Arc::new(Ground::new("views").await);
    same_end(&ground, "savepoint_upgrade", |writes| {
        let mut scripts = Vec::new();
        for fault in [WatchFault::Gone, WatchFault::Doubled, WatchFault::Short] {
            let name = format!("{fault:?}").to_lowercase();
            scripts.push((
                name,
                killed_then(
                    writes / 2,
                    move |asked| asked.is_watch.then_some(Fault::Watch(fault)),
                    12,
                ),
            ));
        }
        // Reads take over from watches that show nothing and never end.
        for (name, part) in [("clusters", "/deployments?"), ("pods", "/pods?")] {
            let is_it = move |asked: &Asked| asked.is_watch && asked.path.contains(part);
            let frozen = Fault::Watch(WatchFault::Frozen);
            let then = move |asked: &Asked| is_it(asked).then_some(frozen);
            scripts.push((format!("frozen-{name}"), killed_then(writes / 2, then, 100)));
        }
        // A little behind, and as old as the scenario.
        let (third, half, last) = (writes / 3, writes / 2, writes - 2);
        for (write, ago) in
            [(1, 1), (third, 2), (half, 4), (half, VERSIONS), (last, 1), (last, VERSIONS)]
        {
            scripts.push((
                format!("old-list-{write}-{ago}"),
                killed_then(
                    write,
                    move |asked| {
                        let is_list = asked.is("GET", "/flinkdeployments?") && !asked.is_watch;
                        is_list.then_some(Fault::OldList(ago))
                    },
                    3,
                ),
            ));
        }
        scripts.into_iter().map(surely).collect()
    })
    .await;
}

/// What became of a submission nobody saw: the job ran while no operator did, and its cluster, which
/// keeps no jobs, lost it. It is not started again from where it began.
pub(super) async fn a_job_that_nobody_saw_may_be_lost() {
    let ground = Arc::new(Ground::new("unseen").await);
    let is_run = |asked: &Asked| asked.path.contains("/run");
    let stage = Stage::new(&ground, "unseen", once(is_run, Fault::Kill(Moment::After))).await;
    stage.create(session_cluster()).await;
    stage.until_stable(CLUSTER).await;
    stage.begin();
    stage.create(job_in_session("savepoint")).await;
    let key = format!("unseen/{CLUSTER}");
    let flink = ground.world.flink();
    let newest = || flink.with(&key, |cluster| cluster.newest_path());
    for _ in 0..100 {
        sleep(Duration::from_millis(200)).await;
        let now = flink.now();
        flink.with(&key, |cluster| cluster.jobs.values_mut().for_each(|job| job.step(now)));
        if newest().is_some() {
            break;
        }
    }
    // Kubernetes tells whole seconds.
    sleep(Duration::from_secs(1)).await;
    ground.world.crash_job_manager("unseen", CLUSTER).await;
    let newest = newest().unwrap_or_else(|| panic!("{}", stage.told("no checkpoint")));
    assert_eq!(stage.operator.starts(), 1, "{}", stage.told("an operator was there"));

    stage
        .until(SESSION_JOB, JOB, "FAILED", |job| job["status"]["lifecycleState"] == "FAILED")
        .await;
    stage.until_at_rest().await;
    let starts = flink.with(&key, |cluster| cluster.starts.len());
    assert_eq!(starts, 1, "{}", stage.told("it was submitted again"));

    let answer = json!({"initialSavepointPath": newest, "savepointRedeployNonce": 7});
    stage.edit(SESSION_JOB, JOB, json!({ "job": answer })).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
    let restored = flink.with(&key, |cluster| cluster.starts.last().unwrap().restored.clone());
    assert_eq!(restored.map(|(path, _)| path), Some(newest), "{}", stage.told("another state"));
    stage.until_at_rest().await;
    stage.check_laws();
}

fn surely((name, script): (String, Script)) -> Trouble {
    Trouble { name, script, is_sure: true }
}

/// Killed before the write; after it some requests go wrong.
fn killed_then(
    write: usize,
    mut then: impl FnMut(&Asked) -> Option<Fault> + Send + 'static,
    mut times: usize,
) -> Script {
    let mut is_killed = false;
    Box::new(move |asked| {
        if !is_killed {
            is_killed = asked.write == Some(write);
            return is_killed.then_some(Fault::Kill(Moment::Before));
        }
        let fault = if times > 0 { then(asked) } else { None };
        times -= usize::from(fault.is_some());
        fault
    })
}
