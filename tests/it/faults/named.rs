//! One kind of fault each: what goes wrong passes, and the end is that of an undisturbed run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ground::Ground;
use super::matrix::{once, same_end};
use super::proxy::{Asked, Fault, Moment, WatchFault};
use super::stage::Script;

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
                    (format!("silent-{write}"), script)
                })
                .collect()
        })
        .await;
    }
    // What is asked of Flink, in the other lives.
    for scenario in ["delete_with_savepoint", "session_job_upgrade", "session_job"] {
        same_end(&ground, scenario, |_| {
            let asked = [
                ("stop", "/stop"),
                ("run", "/run"),
                ("upload", "/upload"),
                ("cancel", "mode=cancel"),
            ];
            asked
                .map(|(name, part)| {
                    let is_it =
                        move |asked: &Asked| asked.write.is_some() && asked.path.contains(part);
                    (format!("silent-{name}"), once(is_it, Fault::Silence(Moment::After)))
                })
                .into()
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
        each.collect()
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
        for write in [1, writes / 3, writes / 2, writes - 2] {
            scripts.push((
                format!("old-list-{write}"),
                killed_then(
                    write,
                    |asked| {
                        let is_list = asked.is("GET", "/flinkdeployments?") && !asked.is_watch;
                        is_list.then_some(Fault::OldList)
                    },
                    3,
                ),
            ));
        }
        scripts
    })
    .await;
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
