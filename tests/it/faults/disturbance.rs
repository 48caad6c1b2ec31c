//! One disturbance of a scenario, and whether the scenario ends as if nothing had happened.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clock;
use super::end_state;
use super::ground::{Ground, ROOM, file};
use super::points::{self, Point, What};
use super::proxy::{Asked, Fault, Moment, Recorded};
use super::scenarios::{self, Scenario};
use super::stage::{OPERATOR_CONFIG, SNAPSHOT, Script, Stage, config_file};
use super::world::World;
use crate::support::fake_flink::Cluster;
use testing::share;

/// Maximum number of tries until the intended fault occurs: with other timing an operator may not reach the point.
const TRIES: usize = 8;
/// Of so many faults that occur in each undisturbed run, one may not occur, and one in any case.
const MISSED_MAX: usize = 10;

const REVISION: &str = "ControllerRevision";

/// Defaults that a restarted operator may get instead of its previous ones.
const OTHER_DEFAULTS: &str = "\
high-availability.type: kubernetes
high-availability.storageDir: file:/lake/ha
kubernetes.operator.job.upgrade.last-state-fallback.enabled: false
kubernetes.operator.job.upgrade.last-state.job-cancel.enabled: true
kubernetes.operator.job.restart.failed: true
kubernetes.operator.deployment.rollback.enabled: true
";

/// The place in which a script runs.
pub(super) struct Place {
    pub(super) namespace: String,
    ground: Arc<Ground>,
    cluster: &'static str,
}

impl Place {
    /// Reads or changes the scenario's Flink cluster.
    pub(super) fn flink<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let name = format!("{}/{}", self.namespace, self.cluster);
        self.ground.world.flink().with(&name, change)
    }

    /// Lets the operator have a clock that can be set.
    pub(super) fn give_clock(&self) {
        clock::set(&file(&self.ground, &format!("{}.clock", self.namespace)), 0);
    }

    /// The world around the scenario.
    pub(super) fn world(&self) -> &World {
        &self.ground.world
    }

    /// Writes the other defaults for the next operator.
    fn give_other_defaults(&self) {
        let config = format!("{OPERATOR_CONFIG}{OTHER_DEFAULTS}");
        std::fs::write(config_file(&self.ground, &self.namespace), config).unwrap();
    }
}

type ToScript = dyn Fn(Place) -> Script + Send + Sync;
type HasHappened = dyn Fn(&[Recorded]) -> bool + Send + Sync;

pub(super) struct Disturbance {
    name: String,
    script: Box<ToScript>,
    has_happened: Box<HasHappened>,
    /// Whether it must occur; otherwise a run without it also passes.
    is_sure: bool,
    /// Kind of objects that is left out of the comparison.
    without: Option<&'static str>,
    /// The job may be started more often, each time from its newest state.
    may_start_again: bool,
    ends_otherwise: bool,
}

impl Disturbance {
    pub(super) fn scripted(
        name: impl Into<String>,
        script: impl Fn(Place) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            script: Box::new(script),
            has_happened: Box::new(|recorded| recorded.iter().any(is_done)),
            is_sure: true,
            without: None,
            may_start_again: false,
            ends_otherwise: false,
        }
    }

    /// Returns the fault at this point.
    pub(super) fn at(name: impl Into<String>, point: &Point, fault: Fault) -> Self {
        let point = point.clone();
        Self::scripted(name, move |place| point.script(&place.namespace, fault))
    }

    /// Returns `what` at the point with this number.
    pub(super) fn of(what: What, number: usize, point: &Point) -> Self {
        let point = point.clone();
        // Objects that only show state are skipped if refused, and hold up nothing.
        let shown = [("/controllerrevisions", REVISION), ("/flinkstatesnapshots", SNAPSHOT)];
        let shown = shown.into_iter().find(|(part, _)| point.is_about(part)).map(|(_, kind)| kind);
        let trouble = Self::scripted(format!("{what}-{number}"), move |place| {
            let mut script = point.script_for(&place.namespace, what);
            Box::new(move |asked| {
                let fault = script(asked);
                if fault.is_some() && what == What::Reconfigured {
                    place.give_other_defaults();
                }
                fault
            })
        });
        match (what, shown) {
            (What::Reconfigured, _) => trouble.ending_otherwise(),
            (What::Refused, Some(kind)) => trouble.without(kind),
            (What::Refused | What::KilledBefore | What::KilledAfter, _) => trouble,
        }
    }

    /// Returns the fault for the first `times` matching requests.
    pub(super) fn first(
        name: impl Into<String>,
        times: usize,
        is_it: impl Fn(&Asked) -> bool + Clone + Send + Sync + 'static,
        fault: Fault,
    ) -> Self {
        Self::scripted(name, move |_| first(times, is_it.clone(), fault))
    }

    /// Sets how the record shows that it occurred.
    pub(super) fn if_shown(
        mut self,
        has_happened: impl Fn(&[Recorded]) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.has_happened = Box::new(has_happened);
        self
    }

    /// It occurred if any of the faults matches.
    pub(super) fn if_any(self, is_it: fn(Fault) -> bool) -> Self {
        self.if_shown(move |recorded| recorded.iter().filter_map(|one| one.fault).any(is_it))
    }

    pub(super) fn perhaps(mut self) -> Self {
        self.is_sure = false;
        self
    }

    /// Only requires that no law of state was broken.
    pub(super) fn ending_otherwise(mut self) -> Self {
        self.ends_otherwise = true;
        self
    }

    pub(super) fn starting_again(mut self) -> Self {
        self.may_start_again = true;
        self
    }

    pub(super) fn without(mut self, kind: &'static str) -> Self {
        self.without = Some(kind);
        self
    }
}

/// Whether the fault took effect; one meant for after a request requires that the request was carried out.
fn is_done(one: &Recorded) -> bool {
    use Moment::After;
    match one.fault {
        Some(Fault::Kill(After) | Fault::Cut(After) | Fault::Silence(After)) => {
            one.status.is_some()
        }
        _ => one.has_struck(),
    }
}

/// Returns a script with the fault for the first `times` matching requests.
pub(super) fn first(
    mut times: usize,
    mut is_it: impl FnMut(&Asked) -> bool + Send + 'static,
    fault: Fault,
) -> Script {
    Box::new(move |asked| {
        let is_now = times > 0 && is_it(asked);
        times -= usize::from(is_now);
        is_now.then_some(fault)
    })
}

/// Outcome of a scenario.
struct Played {
    end: String,
    recorded: Vec<Recorded>,
    namespace: String,
}

/// A scenario without faults.
pub(super) struct Base {
    end: String,
    /// The end if Flink rejects what it may reject.
    refused: Option<String>,
    /// Writes that any run made, in order.
    pub(super) points: Vec<Point>,
    /// Writes that every run made.
    pub(super) sure: BTreeSet<Point>,
    pub(super) took: Duration,
}

impl Base {
    /// Returns a point that every run has, at this fraction of the way from start to end.
    pub(super) fn sure_at(&self, numerator: usize, denominator: usize) -> &Point {
        let sure: Vec<&Point> = self.points.iter().filter(|it| self.sure.contains(it)).collect();
        sure[(sure.len() - 1) * numerator / denominator]
    }
}

/// Outcome of a case.
pub(super) struct Case {
    pub(super) has_happened: bool,
    /// Difference from the undisturbed end, if any.
    pub(super) difference: Option<String>,
    pub(super) recorded: Vec<Recorded>,
    pub(super) namespace: String,
}

/// Returns the number of undisturbed runs: fewer if only a share of the points is tried.
fn undisturbed_runs() -> usize {
    if share::is_partial() { 2 } else { 3 }
}

/// Returns the undisturbed outcome of the scenario; played once for all tests.
pub(super) async fn base(ground: &Arc<Ground>, scenario: &Scenario) -> Arc<Base> {
    let known = Arc::clone(ground.bases.lock().unwrap().entry(scenario.name).or_default());
    let base = known.get_or_init(async || Arc::new(Box::pin(undisturbed(ground, scenario)).await));
    Arc::clone(base.await)
}

/// Plays the scenario undisturbed several times: differences between the runs are due to chance.
async fn undisturbed(ground: &Arc<Ground>, scenario: &Scenario) -> Base {
    let begun = Instant::now();
    let calm = async |run| {
        let namespace = format!("case-{}-undisturbed-{run}", scenario.name.replace('_', "-"));
        play(ground, &namespace, scenario, Box::new(|_| None)).await
    };
    let mut others = futures::future::join_all((0..undisturbed_runs()).map(calm)).await;
    let one = others.remove(0);
    let mut points = points::of(&one.recorded, &one.namespace);
    let mut sure: BTreeSet<Point> = points.iter().cloned().collect();
    for other in others {
        if let Some(difference) = difference(&one.end, &other.end) {
            panic!("two undisturbed runs of {} end differently:\n{difference}", scenario.name);
        }
        let others = points::of(&other.recorded, &other.namespace);
        sure.retain(|point| others.contains(point));
        let new: Vec<Point> = others.into_iter().filter(|it| !points.contains(it)).collect();
        points.extend(new);
    }
    let took = begun.elapsed();
    let refused = match scenario.refusable() {
        Some(is_it) => {
            let namespace = format!("case-{}-refused", scenario.name.replace('_', "-"));
            let script = first(1, is_it, Fault::Status(500, None));
            Some(play(ground, &namespace, scenario, script).await.end)
        }
        None => None,
    };
    assert!(refused.as_ref() != Some(&one.end), "{}: a refusal changes nothing", scenario.name);
    Base { end: one.end, refused, points, sure, took }
}

/// Plays the scenario until the trouble has occurred, or the tries are used up.
pub(super) async fn survive(
    ground: &Arc<Ground>,
    scenario: &Scenario,
    base: &Base,
    trouble: &Disturbance,
) -> Case {
    let tries_max = if trouble.is_sure { TRIES } else { 1 };
    let mut tried = 1;
    loop {
        let again = if tried == 1 { String::new() } else { format!("-{tried}") };
        let name = scenario.name.replace('_', "-");
        let namespace = format!("case-{name}-{}{again}", trouble.name);
        let script = (trouble.script)(Place {
            namespace: namespace.clone(),
            ground: Arc::clone(ground),
            cluster: scenario.clusters[0],
        });
        let Played { end, recorded, namespace } = play(ground, &namespace, scenario, script).await;
        let has_happened = (trouble.has_happened)(&recorded);
        let is_refused = base.refused.as_ref() == Some(&end);
        let difference = match trouble.without {
            _ if is_refused || trouble.ends_otherwise => None,
            Some(kind) => difference(&without(kind, &base.end), &without(kind, &end)),
            None if trouble.may_start_again => {
                difference(&without_starts(&base.end), &without_starts(&end))
            }
            None => difference(&base.end, &end),
        };
        if has_happened || difference.is_some() || tried == tries_max {
            return Case { has_happened, difference, recorded, namespace };
        }
        println!("{namespace}: its point was not reached");
        tried += 1;
    }
}

/// Removes the objects of this kind, each of which ends at the first unindented brace.
fn without(kind: &str, end: &str) -> String {
    let begin = format!("{kind} {{");
    let mut is_inside = false;
    let mut kept = Vec::new();
    for line in end.lines() {
        is_inside |= line.starts_with(&begin);
        if !is_inside {
            kept.push(line);
        }
        is_inside &= line != "}";
    }
    kept.join("\n")
}

/// Removes what the jobs were started from. The laws say that it was the newest state.
fn without_starts(end: &str) -> String {
    let kept = end.lines().filter(|line| !line.starts_with("a job of "));
    kept.collect::<Vec<_>>().join("\n")
}

fn difference(expected: &str, end: &str) -> Option<String> {
    (end != expected)
        .then(|| similar::TextDiff::from_lines(expected, end).unified_diff().to_string())
}

/// Plays the scenario undisturbed and with each trouble: the ends must be the same.
pub(super) async fn same_end(
    ground: &Arc<Ground>,
    scenario: &str,
    problems: impl Fn(&Base) -> Vec<Disturbance>,
) {
    let begun = Instant::now();
    let scenario = scenarios::ALL.iter().find(|one| one.name == scenario).unwrap();
    let base = base(ground, scenario).await;
    let mut cases = Vec::new();
    for trouble in problems(&base) {
        let (ground, base) = (Arc::clone(ground), Arc::clone(&base));
        cases.push((
            trouble.name.clone(),
            tokio::spawn(async move {
                let case = survive(&ground, scenario, &base, &trouble).await;
                (case.difference, trouble.is_sure && !case.has_happened)
            }),
        ));
    }
    let count = cases.len();
    assert!(count > 0, "{}: nothing goes wrong", scenario.name);
    let (mut failures, mut missed) = (Vec::new(), Vec::new());
    for (name, case) in cases {
        match case.await {
            Ok((None, false)) => {}
            Ok((None, true)) => missed.push(name),
            Ok((Some(difference), _)) => failures.push(format!("{name}: {difference}")),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    println!("{}: {count} ways to go wrong, in {:?}", scenario.name, begun.elapsed());
    assert!(failures.is_empty(), "{}: {}", scenario.name, failures.join("\n\n"));
    // A busy operator may write less often.
    let is_usual = missed.len() <= 1.max(count / MISSED_MAX);
    assert!(is_usual, "{}: what was to go wrong did not: {missed:?}", scenario.name);
}

async fn play(
    ground: &Arc<Ground>,
    namespace: &str,
    scenario: &Scenario,
    script: Script,
) -> Played {
    let _place = ROOM.acquire().await.unwrap();
    let stage = Stage::new(ground, namespace, script).await;
    (scenario.play)(&stage).await;
    stage.until_at_rest().await;
    stage.check_laws();
    let end = end_state::of(&stage, scenario.clusters).await;
    let recorded = stage.proxy.recorded();
    for one in &recorded {
        let is_old = one.age.is_some_and(|age| age.behind > 0);
        let is_meant = matches!(one.fault, Some(Fault::OldList(_)));
        assert!(!is_meant || is_old, "no old list was given: {one:?}");
        let is_meant = matches!(one.fault, Some(Fault::OldJobs | Fault::ForeignJobs));
        assert!(!is_meant || one.status == Some(200), "no such list was given: {one:?}");
    }
    Played { end, recorded, namespace: namespace.to_owned() }
}
