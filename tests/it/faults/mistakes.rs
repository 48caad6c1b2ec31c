//! Faults of Flink itself: another JobManager leads, the list of jobs is wrong, a savepoint fails. The end must be that
//! of an undisturbed run.

use super::disturbance::{Disturbance, Place, same_end};
use super::ground::Ground;
use super::proxy::{Asked, Fault, Side};
use super::stage::Script;
use crate::support::fake_flink::Cluster;

/// Number of requests to Flink that fail while a new leader is elected.
const ELECTION: usize = 2;
/// Number of wrong lists of jobs in a row. For a cancelled job only one: each list that still shows it as running makes
/// the operator cancel again, in case the first request did not arrive.
const WRONG_LISTS: usize = 4;
const WRONG_LISTS_OF_CANCEL: usize = 1;

pub(super) async fn flink_may_be_wrong() {
    let ground = Ground::shared().await;
    let last_state_upgrade = same_end(&ground, "last_state_upgrade", |_| {
        let mut all = leaders(BEGIN, &[1, 2, 3]);
        all.extend(lists(WRONG_LISTS, &[BEGIN, CLUSTER_ENDS]));
        all
    });
    let savepoint_upgrade = same_end(&ground, "savepoint_upgrade", |_| {
        let mut all = leaders(STOP, &[0, 1, 2, 3, 4]);
        all.extend(lists(WRONG_LISTS, &[BEGIN, STOP, CLUSTER_ENDS]));
        all.extend(savepoints());
        all
    });
    let session_job_upgrade = same_end(&ground, "session_job_upgrade", |_| {
        let mut all = leaders(STOP, &[0, 1, 2, 3, 4]);
        all.extend(leaders(UPLOAD, &[1, 2]));
        all.extend(leaders(RUN, &[1, 2]));
        all.extend(lists(WRONG_LISTS, &[BEGIN, STOP, RUN]));
        all.extend(savepoints());
        all
    });
    let session_job_last_state_upgrade =
        same_end(&ground, "session_job_last_state_upgrade", |_| {
            let mut all = leaders(CANCEL, &[0, 1, 2]);
            all.extend(lists(WRONG_LISTS_OF_CANCEL, &[BEGIN, CANCEL, RUN]));
            all
        });
    let delete_with_savepoint = same_end(&ground, "delete_with_savepoint", |_| savepoints());
    tokio::join!(
        last_state_upgrade,
        savepoint_upgrade,
        session_job_upgrade,
        session_job_last_state_upgrade,
        delete_with_savepoint
    );
}

/// A name, and the request after which something goes wrong.
type After = (&'static str, fn(&Asked) -> bool);

const BEGIN: After = ("begin", |_| true);
const STOP: After = ("stop", |asked| asked.is("POST", "/stop"));
const CANCEL: After = ("cancel", |asked| asked.is("PATCH", "mode=cancel"));
const UPLOAD: After = ("upload", |asked| asked.is("POST", "/jars/upload"));
const RUN: After = ("run", |asked| asked.side == Side::Flink && asked.is("POST", "/run"));
const CLUSTER_ENDS: After = ("end", |asked| {
    asked.write.is_some() && asked.path.starts_with("/apis/apps/") && asked.method != "POST"
});

/// Lets another JobManager take over right before each of the `later` requests to Flink; 0 is the request itself.
fn leaders((name, is_it): After, later: &[usize]) -> Vec<Disturbance> {
    let one = |later: &usize| {
        let later = *later;
        Disturbance::scripted(format!("leader-{name}-{later}"), move |place| {
            change_leader(place, is_it, later)
        })
        .if_any(|fault| fault == Fault::Elsewhere)
    };
    later.iter().map(one).map(|trouble| unheard(trouble, name)).collect()
}

fn change_leader(place: Place, is_it: fn(&Asked) -> bool, later: usize) -> Script {
    let mut since: Option<usize> = None;
    Box::new(move |asked| {
        if asked.side != Side::Flink {
            return None;
        }
        let passed = match since {
            None if is_it(asked) => 0,
            None => return None,
            Some(passed) => passed + 1,
        };
        since = Some(passed);
        if passed == later {
            place.flink(lose_memory);
            return Some(Fault::Elsewhere);
        }
        let is_without = passed > later && passed <= later + ELECTION;
        is_without.then_some(Fault::Status(503, None))
    })
}

/// Adapts the comparison to what the operator did not observe. If the trigger that stopped a job is unknown, the job
/// continues from the newest state it reports, and no resource shows that this is a savepoint. If the end of a
/// cancelled job was not observed, no revision records the state that it left.
fn unheard(trouble: Disturbance, after: &str) -> Disturbance {
    match after {
        _ if after == STOP.0 => trouble.without("FlinkStateSnapshot"),
        _ if after == CANCEL.0 => trouble.without("ControllerRevision"),
        _ => trouble,
    }
}

/// Keeps the state that the jobs continue from in the store, and loses everything else known of them.
fn lose_memory(cluster: &mut Cluster) {
    let live = cluster.jobs.values().filter(|job| !job.is_terminal());
    let newest = live.filter_map(|job| job.checkpoints.iter().rfind(|one| !one.is_discarded));
    let newest: Vec<(String, i64)> = newest.map(|one| (one.path.clone(), one.id)).collect();
    cluster.stored.extend(newest);
    cluster.change_leader();
}

/// After each of these requests the list is that of another cluster, or an outdated one.
fn lists(times: usize, after: &[After]) -> Vec<Disturbance> {
    let wrong = [("foreign", Fault::ForeignJobs), ("old", Fault::OldJobs)];
    let both = after.iter().flat_map(|after| wrong.map(|wrong| (*after, wrong)));
    let one = |((name, is_it), (kind, fault)): (After, (&str, Fault))| {
        let script = move |_| {
            let (mut is_past, mut left) = (false, times);
            let script: Script = Box::new(move |asked| {
                is_past |= is_it(asked);
                let is_now = is_past && left > 0 && asked.is("GET", "/jobs/overview");
                left -= usize::from(is_now);
                is_now.then_some(fault)
            });
            script
        };
        unheard(Disturbance::scripted(format!("{kind}-{name}"), script), name)
    };
    both.map(one).collect()
}

/// Savepoints that fail: the job continues, and the operator asks again.
fn savepoints() -> Vec<Disturbance> {
    let fails = Disturbance::scripted("savepoint-fails", |place| {
        let mut stops = 0;
        Box::new(move |asked| {
            if !asked.is("POST", "/stop") {
                return None;
            }
            stops += 1;
            match stops {
                1 => place.flink(|cluster| {
                    for job in cluster.jobs.values_mut() {
                        job.savepoint_failure = Some("no space is left".to_owned());
                    }
                }),
                // The running job is still the previous one, and is stopped again.
                2 if place.flink(|cluster| runs_on(cluster)) => {}
                _ => return None,
            }
            Some(Fault::Elsewhere)
        })
    });
    let is_asked_again = |recorded: &[super::proxy::Recorded]| {
        recorded.iter().filter(|one| one.fault == Some(Fault::Elsewhere)).count() == 2
    };
    vec![fails.if_shown(is_asked_again)]
}

fn runs_on(cluster: &Cluster) -> bool {
    let live: Vec<_> = cluster.jobs.values().filter(|job| !job.is_terminal()).collect();
    live.len() == 1 && live[0].state == "RUNNING" && cluster.starts.len() == 1
}
