//! Every scenario, with the operator killed at each write, or with the API server refusing the write for a while: the
//! end must be that of the undisturbed run. An operator that restarts with other defaults may end differently, but
//! loses no state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use strum::VariantArray;

use super::disturbance::{Base, Disturbance, base, survive};
use super::ground::Ground;
use super::points::{self, Point, What};
use super::scenarios::{self, Scenario};
use super::stage;
use testing::share::share;

/// What a run writes depends on timing: of the points that all undisturbed runs passed, at most one in this many may be
/// missed in every try.
const UNREACHED_MAX: usize = 10;

/// Returns the maximum number of points of each scenario, from `KUBECTL_FLINK_FAULT_POINTS`; `None` for all.
fn points_max() -> Option<usize> {
    let points = std::env::var("KUBECTL_FLINK_FAULT_POINTS").ok()?;
    Some(points.parse().expect("KUBECTL_FLINK_FAULT_POINTS is a number"))
}

/// Returns the scenarios with `KUBECTL_FLINK_FAULT_SCENARIO` in their name.
fn wanted() -> Vec<&'static Scenario> {
    let part = std::env::var("KUBECTL_FLINK_FAULT_SCENARIO").unwrap_or_default();
    let wanted: Vec<_> = scenarios::ALL.iter().filter(|one| one.name.contains(&part)).collect();
    assert!(!wanted.is_empty(), "no scenario has `{part}` in its name");
    wanted
}

/// A case in progress, and what it tests.
struct Struck {
    scenario: &'static str,
    what: What,
    point: Point,
    is_sure: bool,
    case: tokio::task::JoinHandle<super::disturbance::Case>,
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
            Ok((scenario, base)) => cases.extend(strike(&ground, scenario, base)),
            Err(error) => failures.push(format!("undisturbed: {error}")),
        }
    }
    let count = cases.len();
    let (mut required, mut reached) = (BTreeSet::new(), BTreeSet::new());
    for Struck { scenario, what, point, is_sure, case } in cases {
        let name = format!("{scenario}, {what} {point}");
        match case.await {
            Ok(case) => {
                let struck = points::struck(&case.recorded, &case.namespace, what);
                let is_spared = points::is_spared(&case.recorded, &case.namespace, &point);
                failures.extend(
                    is_spared.then(|| format!("{name}: it was written, and nothing happened")),
                );
                reached.extend(struck.into_iter().map(|at| (scenario, what, at)));
                let namespace = case.namespace;
                if let Some(difference) = case.difference {
                    // What the operator wrote shows where it went another way.
                    let writes = case.recorded.iter().filter(|one| one.asked.write.is_some());
                    let writes: Vec<String> = writes.map(stage::line).collect();
                    println!("{namespace}:\n{}", writes.join("\n"));
                    failures.push(format!("{name}, {namespace}: {difference}"));
                }
            }
            Err(error) => failures.push(format!("{name}: {error}")),
        }
        let _is_new = required.insert((scenario, what, point, is_sure));
    }
    let mut unreached = 0;
    for (scenario, what, point, is_sure) in required {
        if reached.contains(&(scenario, what, point.clone())) {
            continue;
        }
        unreached += usize::from(is_sure);
        let chance = if is_sure { "" } else { ", which is not in every run" };
        println!("{scenario}, never {what} {point}{chance}");
    }
    println!(
        "crash matrix: {} scenarios, {count} points, {} failed, {unreached} not reached, in {:?}",
        wanted.len(),
        failures.len(),
        begun.elapsed()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count > 0, "nothing happened");
    assert!(unreached * UNREACHED_MAX <= count, "{unreached} of {count} points were not reached");
}

/// Plays the scenario for each of its points.
fn strike(ground: &Arc<Ground>, scenario: &'static Scenario, base: Arc<Base>) -> Vec<Struck> {
    let Base { points, sure, took, .. } = &*base;
    let (name, all, sure_ones) = (scenario.name, points.len(), sure.len());
    println!("{name}: {all} writes, {sure_ones} of them in every run, {took:?} undisturbed");
    let of_what =
        |what: &'static What| points.iter().enumerate().map(move |(at, point)| (at, *what, point));
    let all = What::VARIANTS.iter().flat_map(of_what);
    let all = all.filter(|(_, what, point)| *what != What::Refused || point.is_of_kubernetes());
    let case = |(index, what, point): (usize, What, &Point)| {
        let is_sure = sure.contains(point);
        let mut trouble = Disturbance::of(what, index + 1, point);
        if !is_sure {
            trouble = trouble.perhaps();
        }
        let (ground, base, point) = (Arc::clone(ground), Arc::clone(&base), point.clone());
        let case = async move { survive(&ground, scenario, &base, &trouble).await };
        Struck { scenario: name, what, point, is_sure, case: tokio::spawn(case) }
    };
    spread(share(all), points_max()).into_iter().map(case).collect()
}

/// Picks at most `max` elements, evenly from first to last.
fn spread<T: Clone>(all: Vec<T>, max: Option<usize>) -> Vec<T> {
    match max {
        Some(max) if max < all.len() => {
            (0..max).map(|at| all[at * (all.len() - 1) / (max - 1).max(1)].clone()).collect()
        }
        _ => all,
    }
}
