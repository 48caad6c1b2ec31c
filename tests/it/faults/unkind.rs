//! A world that is slower than it should be, changes what it is sent, or tells another time. The end must be that of an
//! undisturbed run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::disturbance::{Base, Disturbance, Place, same_end};
use super::ground::Ground;
use super::proxy::{Admission, Asked, Fault};
use super::scenarios::{JOB, highly_available, run, until_checkpointed};
use super::stage::{DEPLOYMENT, Script, Stage};
use testing::share::third;

const HOT: &str = "hot_upgrade";
/// Scenarios in which a cluster is started.
const LIVES: [&str; 8] = [
    "savepoint_upgrade",
    "last_state_upgrade",
    "standalone_last_state_upgrade",
    HOT,
    "rollback",
    "lost_job_manager",
    "session_cluster_upgrade_with_ha",
    "blue_green_transition",
];
/// The cluster is there before it begins.
const SESSION_JOB_LIFE: &str = "session_job_upgrade";

/// How long a node needs that is pulling images.
const STARTUP: Duration = Duration::from_secs(30);
/// Longer than a JobManager waits for a lock that is not renewed.
const END: Duration = Duration::from_secs(18);
/// Number of writes whose annotations are removed.
const WITHOUT_ANNOTATIONS: usize = 8;
/// Seconds by which a clock jumps forward: longer than most of what the operator waits for.
const FORWARD: i64 = 600;
/// Seconds by which it jumps back: longer than the lease of a lock. A deadline then comes that much later.
const BACK: i64 = 60;
/// Parts of the way from start to end after which a clock jumps.
const JUMPS: [usize; 3] = [1, 4, 8];
const PARTS: usize = 10;

pub(super) async fn nothing_changes_in_the_end() {
    let ground = Ground::shared().await;
    let lives = LIVES.map(|scenario| {
        same_end(&ground, scenario, move |base| {
            let jumps = jumps(base).map(|(trouble, seconds)| {
                // A lock that was renewed in the past is free to Flink. The old JobManager takes it again, and the job
                // is started once more, from the same checkpoint.
                let is_lock_free = scenario == HOT && seconds < 0;
                if is_lock_free { trouble.starting_again() } else { trouble }
            });
            third(slow().chain(changed()).chain(jumps))
        })
    });
    let of_session_job =
        same_end(&ground, SESSION_JOB_LIFE, |base| third(jumps(base).map(|(trouble, _)| trouble)));
    tokio::join!(join_all(lives), of_session_job);
}

fn slow() -> impl Iterator<Item = Disturbance> {
    let all = [
        Disturbance::scripted("starts-slowly", |place| {
            let slow = |place: &Place| place.world().start_slowly(&place.namespace, STARTUP);
            from_the_start(place, slow)
        }),
        Disturbance::scripted("ends-slowly", |place| {
            from_the_start(place, |place| place.world().end_slowly(&place.namespace, END))
        }),
    ];
    all.into_iter()
}

/// What the operator sends is changed: images always, and annotations for as long as an upgrade can wait for them.
fn changed() -> impl Iterator<Item = Disturbance> {
    let changed = |name: &str, times: usize, by: Admission| {
        Disturbance::first(name, times, move |asked| by.is_about(asked), Fault::Changed(by))
    };
    let all = [
        changed("without-annotations", WITHOUT_ANNOTATIONS, Admission::Annotations)
            .ending_otherwise(),
        changed("other-images", usize::MAX, Admission::Images),
    ];
    all.into_iter()
}

/// Without its annotation a stopped JobManager is not known, so nothing takes its place. The status says why.
pub(super) async fn a_removed_annotation_is_reported() {
    let by = Admission::Annotations;
    let is_removing = Arc::new(AtomicBool::new(true));
    let removes = Arc::clone(&is_removing);
    let script = move |asked: &Asked| {
        (removes.load(Ordering::Relaxed) && by.is_about(asked)).then_some(Fault::Changed(by))
    };
    let ground = Ground::shared().await;
    let stage = Stage::new(&ground, "removed-annotation", Box::new(script)).await;
    run(&stage, highly_available("last-state")).await;
    until_checkpointed(&stage).await;
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": 2}})).await;
    let is_reported = |found: &Value| {
        let error = found["status"]["error"].as_str().unwrap_or_default();
        error.contains("without the annotation `flinkdeployment.flink.apache.org/ending`")
    };
    stage.until(DEPLOYMENT, JOB, "told", is_reported).await;
    is_removing.store(false, Ordering::Relaxed);
    stage.until_stable(JOB).await;
    stage.check_laws();
}

/// The clock of the operator jumps by so many seconds after one of its writes.
fn jumps(base: &Base) -> impl Iterator<Item = (Disturbance, i64)> {
    JUMPS.iter().flat_map(|part| {
        let point = base.sure_at(*part, PARTS).clone();
        [("forward", FORWARD), ("back", -BACK)].map(|(name, seconds)| {
            let point = point.clone();
            let jump = Disturbance::scripted(format!("clock-{name}-{part}"), move |place| {
                place.give_clock();
                point.script(&place.namespace, Fault::Clock(seconds))
            });
            // Later ones are not in every run.
            (if *part == JUMPS[0] { jump } else { jump.perhaps() }, seconds)
        })
    })
}

/// Returns a script that changes the world with the first request.
fn from_the_start(place: Place, change: fn(&Place)) -> Script {
    let mut place = Some(place);
    Box::new(move |_| {
        place.take().map(|place| {
            change(&place);
            Fault::Elsewhere
        })
    })
}
