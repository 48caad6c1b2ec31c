//! Every scenario, killed at every write: the end has to be that of the undisturbed run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::end_state;
use super::ground::Ground;
use super::proxy::{Asked, Fault, Moment};
use super::scenarios::{self, Scenario};
use super::stage::{Script, Stage};

/// Cases that are played at the same time: most of their time is waiting.
const AT_ONCE: usize = 24;

/// A run may have a write less than the undisturbed one: one point in so many may not be reached.
const UNREACHED_MAX: usize = 10;

/// A point of a scenario.
#[derive(Clone, Copy)]
struct Point {
    write: usize,
    moment: Moment,
}

/// How a scenario went.
struct Played {
    end: String,
    writes: usize,
    took: Duration,
    /// Something did go wrong.
    is_disturbed: bool,
}

/// One way in which a scenario goes wrong.
pub(super) struct Trouble {
    pub(super) name: String,
    pub(super) script: Script,
    /// Every run comes to where it begins; the number of writes is not the same in each.
    pub(super) is_sure: bool,
}

/// `KUBECTL_FLINK_FAULT_POINTS`: at most how many points of each scenario; all where it is not set.
fn points_max() -> Option<usize> {
    let points = std::env::var("KUBECTL_FLINK_FAULT_POINTS").ok()?;
    Some(points.parse().expect("KUBECTL_FLINK_FAULT_POINTS is a number"))
}

/// `KUBECTL_FLINK_FAULT_SCENARIO`: only scenarios with this in their name.
fn wanted() -> Vec<&'static Scenario> {
    let part = std::env::var("KUBECTL_FLINK_FAULT_SCENARIO").unwrap_or_default();
    scenarios::ALL.iter().filter(|scenario| scenario.name.contains(&part)).collect()
}

pub(super) async fn every_point_leads_to_the_same_end() {
    let begun = Instant::now();
    let ground = Arc::new(Ground::new("matrix").await);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let bases = wanted().into_iter().map(|scenario| {
        let (ground, room) = (Arc::clone(&ground), Arc::clone(&room));
        tokio::spawn(async move { (scenario, base(&ground, &room, scenario).await) })
    });
    let mut cases = Vec::new();
    let mut failures = Vec::new();
    for task in bases.collect::<Vec<_>>() {
        match task.await {
            Ok((scenario, base)) => {
                println!("{}: {} writes, {:?} undisturbed", scenario.name, base.writes, base.took);
                let base = Arc::new(base);
                for point in spread(base.writes, points_max()) {
                    let (ground, room) = (Arc::clone(&ground), Arc::clone(&room));
                    let base = Arc::clone(&base);
                    let case =
                        async move { disturbed(&ground, &room, scenario, point, &base).await };
                    cases.push((scenario, point, tokio::spawn(case)));
                }
            }
            Err(error) => failures.push(format!("undisturbed: {error}")),
        }
    }
    let (count, scenarios, mut unreached) = (cases.len(), wanted().len(), 0);
    for (scenario, Point { write, moment }, task) in cases {
        let name = format!("{}, killed {moment:?} write {write}", scenario.name);
        match task.await {
            Ok((is_disturbed, None)) => unreached += usize::from(!is_disturbed),
            Ok((_, Some(difference))) => failures.push(format!("{name}: {difference}")),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    println!(
        "crash matrix: {scenarios} scenarios, {count} points, {} failed, {unreached} not reached, in \
         {:?}",
        failures.len(),
        begun.elapsed()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(unreached * UNREACHED_MAX <= count, "{unreached} of {count} points were not reached");
}

/// Before and after each write; of too many as many as are wanted, from first to last.
fn spread(writes: usize, max: Option<usize>) -> Vec<Point> {
    let both = (1..=writes)
        .flat_map(|write| [Moment::Before, Moment::After].map(|moment| Point { write, moment }));
    let all: Vec<Point> = both.collect();
    match max {
        Some(max) if max < all.len() => {
            (0..max).map(|index| all[index * (all.len() - 1) / (max - 1).max(1)]).collect()
        }
        _ => all,
    }
}

async fn base(ground: &Arc<Ground>, room: &Semaphore, scenario: &Scenario) -> Played {
    let namespace = format!("case-{}-undisturbed", scenario.name.replace('_', "-"));
    let _place = room.acquire().await.unwrap();
    play(ground, &namespace, scenario, Box::new(|_| None)).await
}

/// Whether something went wrong, and what is different in the end, if anything.
async fn disturbed(
    ground: &Arc<Ground>,
    room: &Semaphore,
    scenario: &Scenario,
    Point { write, moment }: Point,
    base: &Played,
) -> (bool, Option<String>) {
    let _place = room.acquire().await.unwrap();
    let when = if moment == Moment::Before { "before" } else { "after" };
    let namespace = format!("case-{}-{when}-{write}", scenario.name.replace('_', "-"));
    let script = once(move |asked| asked.write == Some(write), Fault::Kill(moment));
    let played = play(ground, &namespace, scenario, script).await;
    (played.is_disturbed, difference(base, &played))
}

fn difference(base: &Played, played: &Played) -> Option<String> {
    (played.end != base.end)
        .then(|| similar::TextDiff::from_lines(&base.end, &played.end).unified_diff().to_string())
}

/// The fault, for the first request that is the one.
pub(super) fn once(mut is_it: impl FnMut(&Asked) -> bool + Send + 'static, fault: Fault) -> Script {
    let mut is_done = false;
    Box::new(move |asked| {
        let is_now = !is_done && is_it(asked);
        is_done |= is_now;
        is_now.then_some(fault)
    })
}

/// Plays the scenario undisturbed, and with each script: the ends have to be the same.
pub(super) async fn same_end(
    ground: &Arc<Ground>,
    scenario: &str,
    troubles: impl Fn(usize) -> Vec<Trouble>,
) {
    let scenario = scenarios::ALL.iter().find(|one| one.name == scenario).unwrap();
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let base = Arc::new(base(ground, &room, scenario).await);
    let mut cases = Vec::new();
    for Trouble { name, script, is_sure } in troubles(base.writes) {
        let (ground, room, base) = (Arc::clone(ground), Arc::clone(&room), Arc::clone(&base));
        let namespace = format!("case-{}-{name}", scenario.name.replace('_', "-"));
        cases.push((
            namespace.clone(),
            tokio::spawn(async move {
                let _place = room.acquire().await.unwrap();
                let played = play(&ground, &namespace, scenario, script).await;
                assert!(played.is_disturbed || !is_sure, "nothing went wrong");
                difference(&base, &played)
            }),
        ));
    }
    println!("{}: {} ways to go wrong", scenario.name, cases.len());
    let mut failures = Vec::new();
    for (name, case) in cases {
        match case.await {
            Ok(None) => {}
            Ok(Some(difference)) => failures.push(format!("{name}: {difference}")),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

async fn play(
    ground: &Arc<Ground>,
    namespace: &str,
    scenario: &Scenario,
    script: Script,
) -> Played {
    let begun = Instant::now();
    let stage = Stage::new(ground, namespace, script).await;
    (scenario.play)(&stage).await;
    stage.until_at_rest().await;
    stage.check_laws();
    let end = end_state::of(&stage, scenario.clusters).await;
    let recorded = stage.proxy.recorded();
    for one in &recorded {
        let is_old_list = matches!(one.fault, Some(Fault::OldList(_)));
        assert!(!is_old_list || one.status == Some(200), "no old list was given: {one:?}");
    }
    let is_disturbed = recorded.iter().any(|one| one.fault.is_some());
    if !is_disturbed && !namespace.ends_with("undisturbed") {
        println!("{namespace}: nothing went wrong, its point was not reached");
    }
    Played { end, writes: stage.proxy.writes(), took: begun.elapsed(), is_disturbed }
}
