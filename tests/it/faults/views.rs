//! The operator is killed in the middle, and what it sees when it comes back is not what is.

use std::sync::Arc;

use super::ground::Ground;
use super::points::Point;
use super::proxy::{Asked, Fault, Moment, Recorded, VERSIONS, WatchFault};
use super::trouble::{Base, Trouble, same_end};

/// Lists of a resource that are old, one after the other.
const OLD_LISTS: usize = 3;

const DEPLOYMENTS: (&str, &str) = ("flinkdeployments", "/flinkdeployments?");
const SESSION_JOBS: (&str, &str) = ("flinksessionjobs", "/flinksessionjobs?");
const CLUSTERS: (&str, &str) = ("deployments", "/deployments?");
const PODS: (&str, &str) = ("pods", "/pods?");

pub(super) async fn a_new_operator_may_see_what_is_not() {
    let ground = Arc::new(Ground::new("views").await);
    same_end(&ground, "savepoint_upgrade", |base| {
        let mut all = watches(base);
        // Reads take over from watches that show nothing and never end.
        all.extend([CLUSTERS, PODS].map(|what| frozen(base, what)));
        all.extend(old(base, DEPLOYMENTS));
        all.extend(old(base, CLUSTERS));
        all.push(old_and_frozen(base, DEPLOYMENTS));
        all
    })
    .await;
    same_end(&ground, "session_job_upgrade", |base| {
        let mut all = watches(base);
        all.extend(old(base, DEPLOYMENTS));
        all.extend(old(base, SESSION_JOBS));
        all.push(old_and_frozen(base, SESSION_JOBS));
        all
    })
    .await;
}

fn watches(base: &Base) -> Vec<Trouble> {
    use WatchFault::{Doubled, Gone, Replayed, Short};
    let wrong = |fault: WatchFault| {
        let then = move |asked: &Asked| asked.is_watch.then_some(Fault::Watch(fault));
        killed_then(format!("{fault:?}").to_lowercase(), base.sure_at(1, 2), then, 12)
    };
    [Gone, Doubled, Replayed, Short].map(wrong).into()
}

fn frozen(base: &Base, (name, part): (&str, &'static str)) -> Trouble {
    let frozen = Fault::Watch(WatchFault::Frozen);
    let is_it = move |asked: &Asked| asked.is_watch && asked.path.contains(part);
    let then = move |asked: &Asked| is_it(asked).then_some(frozen);
    killed_then(format!("frozen-{name}"), base.sure_at(1, 2), then, 100)
}

/// A little behind, and as old as what is known of the store.
fn old(base: &Base, (name, part): (&'static str, &'static str)) -> Vec<Trouble> {
    let moments = [(0, 1), (1, 2), (2, 4), (1, VERSIONS), (4, 1), (4, VERSIONS)];
    let old = moments.map(|(quarter, ago)| {
        let then = move |asked: &Asked| is_list(asked, part).then_some(Fault::OldList(ago));
        let name = format!("old-{name}-{quarter}-{ago}");
        let trouble = killed_then(name, base.sure_at(quarter, 4), then, OLD_LISTS);
        if ago == VERSIONS { trouble.if_shown(shows_others) } else { trouble.if_shown(is_behind) }
    });
    old.into()
}

/// What it lists is old, and its watch never tells that there is anything new.
fn old_and_frozen(base: &Base, (name, part): (&str, &'static str)) -> Trouble {
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
            shows_others(recorded) && recorded.iter().any(|one| one.fault == Some(is_frozen))
        },
    )
}

/// A list that fills what the operator knows; other lists ask for one object, to see the store's
/// version.
fn is_list(asked: &Asked, part: &str) -> bool {
    let mut query = asked.path.split(['?', '&']);
    asked.is("GET", part) && !asked.is_watch && query.all(|pair| pair != "limit=1")
}

fn is_behind(recorded: &[Recorded]) -> bool {
    recorded.iter().any(|one| one.age.is_some_and(|age| age.behind > 0))
}

/// An old list was not only old: there were other objects in it.
fn shows_others(recorded: &[Recorded]) -> bool {
    recorded.iter().any(|one| one.age.is_some_and(|age| age.is_other))
}

/// Killed before the write; after it some requests go wrong, so many.
fn killed_then(
    name: String,
    point: &Point,
    then: impl Fn(&Asked) -> Option<Fault> + Clone + Send + Sync + 'static,
    times: usize,
) -> Trouble {
    let point = point.clone();
    let trouble = Trouble::scripted(name, move |place| {
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
    trouble.if_any(|fault| !matches!(fault, Fault::Kill(_)))
}
