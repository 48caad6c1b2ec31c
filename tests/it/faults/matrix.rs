//! Every scenario, killed at every write: the end has to be that of the undisturbed run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::ground::Ground;
use super::points::{self, Point};
use super::proxy::{Fault, Moment};
use super::scenarios::{self, Scenario};
use super::trouble::{Base, Trouble, base, survive};
use crate::support::share::share;

/// What a run writes depends on its timing: of the points that all undisturbed runs came by, at most one in so
/// many may be missed in every try.
const UNREACHED_MAX: usize = 10;

/// `KUBECTL_FLINK_FAULT_POINTS`: at most how many points of each scenario; all where it is not set.
fn points_max() -> Option<usize> {
    let points = std::env::var("KUBECTL_FLINK_FAULT_POINTS").ok()?;
    Some(points.parse().expect("KUBECTL_FLINK_FAULT_POINTS is a number"))
}

/// `KUBECTL_FLINK_FAULT_SCENARIO`: only scenarios with this in their name.
fn wanted() -> Vec<&'static Scenario> {
    let part = std::env::var("KUBECTL_FLINK_FAULT_SCENARIO").unwrap_or_default();
    let wanted: Vec<_> = scenarios::ALL.iter().filter(|one| one.name.contains(&part)).collect();
    assert!(!wanted.is_empty(), "no scenario has `{part}` in its name");
    wanted
}

/// A case that is played, and what it is about.
struct Killed {
    scenario: &'static str,
    moment: Moment,
    point: Point,
    is_sure: bool,
    case: tokio::task::JoinHandle<super::trouble::Case>,
}

pub(super) async fn every_point_leads_to_the_same_end() {
    let begun = Instant::now();
    let ground = Ground::shared().await;
    let wanted = wanted();
    let bases = wanted.iter().map(|scenario| {
        let (ground, scenario) = (Arc::clone(&ground), *scenario);
        tokio::spawn(async move { (scenario, base(&ground, scenario).await) })
    });
    let mut cases = Vec::new();
    let mut failures = Vec::new();
    for task in bases.collect::<Vec<_>>() {
        match task.await {
            Ok((scenario, base)) => cases.extend(kill(&ground, scenario, base)),
            Err(error) => failures.push(format!("undisturbed: {error}")),
        }
    }
    let count = cases.len();
    let (mut required, mut reached) = (BTreeSet::new(), BTreeSet::new());
    for Killed { scenario, moment, point, is_sure, case } in cases {
        let name = format!("{scenario}, killed {moment:?} {point}");
        match case.await {
            Ok(case) => {
                let kills = points::kills(&case.recorded, &case.namespace);
                let is_spared = points::is_spared(&case.recorded, &case.namespace, &point);
                failures.extend(
                    is_spared.then(|| format!("{name}: it was written, and nobody was killed")),
                );
                reached.extend(kills.into_iter().map(|(moment, at)| (scenario, moment, at)));
                let namespace = case.namespace;
                let difference = case.difference.map(|it| format!("{name}, {namespace}: {it}"));
                failures.extend(difference);
            }
            Err(error) => failures.push(format!("{name}: {error}")),
        }
        let _is_new = required.insert((scenario, moment, point, is_sure));
    }
    let mut unreached = 0;
    for (scenario, moment, point, is_sure) in required {
        if reached.contains(&(scenario, moment, point.clone())) {
            continue;
        }
        unreached += usize::from(is_sure);
        let chance = if is_sure { "" } else { ", which is not in every run" };
        println!("{scenario}, never killed {moment:?} {point}{chance}");
    }
    println!(
        "crash matrix: {} scenarios, {count} points, {} failed, {unreached} not reached, in {:?}",
        wanted.len(),
        failures.len(),
        begun.elapsed()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count > 0, "nothing was killed");
    assert!(unreached * UNREACHED_MAX <= count, "{unreached} of {count} points were not reached");
}

/// Plays the scenario for each of its points.
fn kill(ground: &Arc<Ground>, scenario: &'static Scenario, base: Arc<Base>) -> Vec<Killed> {
    let Base { points, sure, took, .. } = &*base;
    let (name, all, sure_ones) = (scenario.name, points.len(), sure.len());
    println!("{name}: {all} writes, {sure_ones} of them in every run, {took:?} undisturbed");
    let case = |(index, moment): (usize, Moment)| {
        let point = base.points[index].clone();
        let is_sure = base.sure.contains(&point);
        let when = if moment == Moment::Before { "before" } else { "after" };
        let mut trouble = Trouble::at(format!("{when}-{}", index + 1), &point, Fault::Kill(moment));
        if !is_sure {
            trouble = trouble.perhaps();
        }
        let (ground, base) = (Arc::clone(ground), Arc::clone(&base));
        let case = async move { survive(&ground, scenario, &base, &trouble).await };
        Killed { scenario: name, moment, point, is_sure, case: tokio::spawn(case) }
    };
    spread(all, points_max()).into_iter().map(case).collect()
}

/// Before and after each write; of too many as many as are wanted, from first to last.
fn spread(writes: usize, max: Option<usize>) -> Vec<(usize, Moment)> {
    let both =
        (0..writes).flat_map(|write| [Moment::Before, Moment::After].map(|moment| (write, moment)));
    let all = share(both);
    match max {
        Some(max) if max < all.len() => {
            (0..max).map(|index| all[index * (all.len() - 1) / (max - 1).max(1)]).collect()
        }
        _ => all,
    }
}
