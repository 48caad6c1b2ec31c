//! The writes of a scenario, named so that each is the same in every run: by what is asked, and by
//! how often that was asked before. "The seventh write" may be another one under other timing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::end_state::plain;
use super::proxy::{Asked, Fault, Moment, Recorded};
use super::stage::Script;

/// A write.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Point {
    request: String,
    /// Counts from 1 those with the same request.
    nth: usize,
}

/// What happens at a point.
#[derive(
    Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, strum::Display, strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum What {
    KilledBefore,
    KilledAfter,
    /// The API server refuses it, and when it is tried again.
    Refused,
    /// The operator is killed after it, and the next one has other defaults.
    Reconfigured,
}

/// As an admission webhook or a quota does.
pub(super) const REFUSED: Fault = Fault::Status(422, None);
/// How often.
const REFUSALS: usize = 2;

impl What {
    pub(super) fn fault(self) -> Fault {
        match self {
            Self::KilledBefore => Fault::Kill(Moment::Before),
            Self::KilledAfter | Self::Reconfigured => Fault::Kill(Moment::After),
            Self::Refused => REFUSED,
        }
    }

    fn times(self) -> usize {
        if self == Self::Refused { REFUSALS } else { 1 }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}, number {}", self.request, self.nth)
    }
}

/// Method and path, without what is another in each run.
fn request(asked: &Asked, namespace: &str) -> String {
    let (mut path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    if asked.is_event() {
        // Which event it is does not matter, and whether it was told before.
        path = &path[..path.find("/events").unwrap() + "/events".len()];
    }
    let path = plain(&path.replace(namespace, "NAMESPACE"));
    let mode = query.split('&').find(|pair| pair.starts_with("mode=")).unwrap_or_default();
    format!("{} {path} {mode}", asked.method).trim_end().to_owned()
}

impl Point {
    /// What goes wrong at this point, once.
    pub(super) fn script(&self, namespace: &str, fault: Fault) -> Script {
        self.script_of(namespace, fault, 1)
    }

    pub(super) fn script_for(&self, namespace: &str, what: What) -> Script {
        self.script_of(namespace, what.fault(), what.times())
    }

    fn script_of(&self, namespace: &str, fault: Fault, times: usize) -> Script {
        let (point, namespace, mut count) = (self.clone(), namespace.to_owned(), 0);
        Box::new(move |asked| {
            let is_it = asked.write.is_some() && request(asked, &namespace) == point.request;
            count += usize::from(is_it);
            (is_it && (point.nth..point.nth + times).contains(&count)).then_some(fault)
        })
    }

    /// An object is written, and no event.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        self.is_about(" /api") && !self.is_about("/events")
    }

    pub(super) fn is_about(&self, part: &str) -> bool {
        self.request.contains(part)
    }
}

/// The writes of a run, in order.
fn of_writes<'a>(recorded: &'a [Recorded], namespace: &str) -> Vec<(Point, &'a Recorded)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let writes = recorded.iter().filter(|one| one.asked.write.is_some());
    let point = |one: &'a Recorded| {
        let request = request(&one.asked, namespace);
        let nth = counts.entry(request.clone()).or_default();
        *nth += 1;
        (Point { request, nth: *nth }, one)
    };
    writes.map(point).collect()
}

/// The points of a run, in order.
pub(super) fn of(recorded: &[Recorded], namespace: &str) -> Vec<Point> {
    of_writes(recorded, namespace).into_iter().map(|(point, _)| point).collect()
}

/// Where this happened in a run, told by what was recorded and not by what was wanted.
pub(super) fn struck(recorded: &[Recorded], namespace: &str, what: What) -> BTreeSet<Point> {
    let is_struck = |one: &Recorded| {
        // What was to be killed after a write that was not carried out lives.
        let is_killed_after = what.fault() == Fault::Kill(Moment::After);
        one.fault == Some(what.fault()) && (one.status.is_some() || !is_killed_after)
    };
    let all = of_writes(recorded, namespace).into_iter();
    all.filter(|(_, one)| is_struck(one)).map(|(point, _)| point).collect()
}

/// The point was come by, and nothing went wrong at it.
pub(super) fn is_spared(recorded: &[Recorded], namespace: &str, point: &Point) -> bool {
    of_writes(recorded, namespace).iter().any(|(at, one)| at == point && one.fault.is_none())
}
