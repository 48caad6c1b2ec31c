//! Temporary faults after which the end is that of an undisturbed run: answers that never arrive, and permissions that
//! are revoked for a while.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use super::disturbance::{Disturbance, first, same_end};
use super::ground::Ground;
use super::proxy::{Asked, Fault, Moment};
use super::roles;
use super::scenarios::{CLUSTER, JOB, job_in_session, session_cluster};
use super::stage::{SESSION_JOB, Script, Stage, is_stable};
use crate::support::patience::PATIENCE;
use testing::share::third;

/// How long permissions are revoked; longer if none of them is missed by then.
const AWAY: Duration = Duration::from_secs(6);

/// Writes are carried out, but the operator never gets the answer.
pub(super) async fn no_write_has_to_be_heard_of() {
    const SILENCE: Fault = Fault::Silence(Moment::After);
    let ground = Ground::shared().await;
    let at_each_point = ["savepoint_upgrade", "last_state_upgrade"].map(|scenario| {
        same_end(&ground, scenario, |base| {
            let numbered = base.points.iter().enumerate();
            let silent = numbered.map(|(index, point)| {
                let trouble = Disturbance::at(format!("silent-{}", index + 1), point, SILENCE);
                if base.sure.contains(point) { trouble } else { trouble.perhaps() }
            });
            third(silent)
        })
    });
    // Requests to Flink in the other scenarios.
    let of_flink = [
        ("delete_with_savepoint", &["/stop"][..]),
        ("session_job_upgrade", &["/stop", "/run", "/upload"]),
        ("session_job", &["/run", "/upload"]),
        ("session_job_last_state_upgrade", &["mode=cancel", "/run"]),
        ("session_job_delete", &["mode=cancel"]),
    ]
    .map(|(scenario, asked)| {
        same_end(&ground, scenario, |_| {
            let silent = |part: &&'static str| {
                let part = *part;
                let is_it = move |asked: &Asked| asked.write.is_some() && asked.path.contains(part);
                let word = part.trim_start_matches('/').trim_start_matches("mode=");
                Disturbance::first(format!("silent-{word}"), 1, is_it, SILENCE)
            };
            asked.iter().map(silent).collect()
        })
    });
    tokio::join!(join_all(at_each_point), join_all(of_flink));
}

/// Permissions that every scenario needs.
const RIGHTS: [&str; 7] = [
    "/deployments",
    "/configmaps",
    "/services",
    "/pods",
    "/flinkdeployments/",
    "/status",
    "/events",
];
/// Permissions that a session job needs once its cluster runs.
const RIGHTS_OF_JOBS: [&str; 4] = ["/flinksessionjobs", "/flinkdeployments", "/status", "/events"];
/// Permissions whose absence only means that a savepoint's resource or the history is not created, which an event or
/// the log reports.
const SHOWN: [(&str, &str); 2] = [
    ("/flinkstatesnapshots", "FlinkStateSnapshot"),
    ("/controllerrevisions", "ControllerRevision"),
];

/// Permissions are revoked in the middle of an upgrade, and granted again.
pub(super) async fn rights_may_go_and_come_back() {
    let ground = Ground::shared().await;
    let lives = [("savepoint_upgrade", &RIGHTS[..]), ("session_job_upgrade", &RIGHTS_OF_JOBS)];
    let lives = lives.map(|(scenario, rights)| {
        same_end(&ground, scenario, |_| {
            let shown = SHOWN.map(|(resource, kind)| without(resource).without(kind));
            rights.iter().map(|resource| without(resource)).chain(shown).collect()
        })
    });
    // This scenario is about the snapshot resource itself.
    let of_snapshots =
        same_end(&ground, "snapshot_by_hand", |_| vec![without("/flinkstatesnapshots")]);
    let of_roles = roles::roles_may_go_and_come_back(&ground);
    tokio::join!(join_all(lives), of_snapshots, of_roles);
}

fn without(resource: &'static str) -> Disturbance {
    Disturbance::scripted(format!("without-{}", resource.replace('/', "")), move |_| away(resource))
}

fn away(resource: &'static str) -> Script {
    let (mut since, mut is_missed): (Option<Instant>, bool) = (None, false);
    Box::new(move |asked| {
        // As a role grants it: the resource and its objects, watches included.
        let is_it = asked.path.split('?').next().is_some_and(|path| path.contains(resource))
            && asked.path.starts_with("/api");
        let begun = *since.get_or_insert_with(Instant::now);
        let is_refused = is_it && (begun.elapsed() < AWAY || !is_missed);
        is_missed |= is_refused;
        is_refused.then_some(Fault::Status(403, None))
    })
}

/// A submission whose result no one saw: the job ran while no operator did, and its cluster, which keeps no jobs, lost
/// it. It must not be started again from its original state.
pub(super) async fn a_job_that_nobody_saw_may_be_lost() {
    let ground = Ground::shared().await;
    let is_run = |asked: &Asked| asked.path.contains("/run");
    let stage = Stage::new(&ground, "unseen", first(1, is_run, Fault::Kill(Moment::After))).await;
    stage.create(session_cluster()).await;
    stage.until_stable(CLUSTER).await;
    stage.begin();
    stage.create(job_in_session("savepoint")).await;
    let key = format!("unseen/{CLUSTER}");
    let flink = ground.world.flink();
    let newest = || flink.with(&key, |cluster| cluster.newest_path());
    let start = Instant::now();
    while newest().is_none() {
        assert!(start.elapsed() < PATIENCE, "{}", stage.described("no checkpoint"));
        sleep(Duration::from_millis(200)).await;
        let now = flink.now();
        flink.with(&key, |cluster| cluster.step(now));
    }
    // Kubernetes timestamps have whole seconds.
    sleep(Duration::from_secs(1)).await;
    ground.world.crash_job_manager("unseen", CLUSTER).await;
    let newest = newest().unwrap_or_else(|| panic!("{}", stage.described("no checkpoint")));
    assert_eq!(stage.operator.starts(), 1, "{}", stage.described("an operator was there"));

    stage
        .until(SESSION_JOB, JOB, "FAILED", |job| job["status"]["lifecycleState"] == "FAILED")
        .await;
    stage.until_at_rest().await;
    let starts = flink.with(&key, |cluster| cluster.starts.len());
    assert_eq!(starts, 1, "{}", stage.described("it was submitted again"));

    let answer = json!({"initialSavepointPath": newest, "savepointRedeployNonce": 7});
    stage.edit(SESSION_JOB, JOB, json!({ "job": answer })).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
    let restored = flink.with(&key, |cluster| cluster.starts.last().unwrap().restored.clone());
    assert_eq!(
        restored.map(|(path, _)| path),
        Some(newest),
        "{}",
        stage.described("another state")
    );
    stage.until_at_rest().await;
    stage.check_laws();
}
