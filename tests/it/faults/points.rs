//! The writes of a scenario, named so that each is the same in every run: by the request, and by how often that request
//! was made before. With other timing "the seventh write" may be a different one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::end_state::plain;
use super::proxy::{Asked, Fault, Moment, Recorded};
use super::stage::Script;

/// A write.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Point {
    request: String,
    /// Number among the identical requests, from 1.
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
    /// The API server rejects the write, and again when it is retried.
    Refused,
    /// The operator is killed after it, and the next one has other defaults.
    Reconfigured,
}

/// The answer of an admission webhook or a quota.
pub(super) const REFUSED: Fault = Fault::Status(422, None);
/// Number of rejections.
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

/// Returns method and path, without what differs between runs.
fn request(asked: &Asked, namespace: &str) -> String {
    let (mut path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    if asked.is_event() {
        // Which event it is, and whether it was sent before, does not matter.
        path = &path[..path.find("/events").unwrap() + "/events".len()];
    }
    let path = plain(&path.replace(namespace, "NAMESPACE"));
    let mode = query.split('&').find(|pair| pair.starts_with("mode=")).unwrap_or_default();
    format!("{} {path} {mode}", asked.method).trim_end().to_owned()
}

impl Point {
    /// Returns a script with this fault at this point, once.
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

    /// Whether it writes an object other than an event.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        self.is_about(" /api") && !self.is_about("/events")
    }

    pub(super) fn is_about(&self, part: &str) -> bool {
        self.request.contains(part)
    }
}

/// Returns the writes of a run, in order.
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

/// Returns the points of a run, in order.
pub(super) fn of(recorded: &[Recorded], namespace: &str) -> Vec<Point> {
    of_writes(recorded, namespace).into_iter().map(|(point, _)| point).collect()
}

/// Returns the points at which this happened, according to the record rather than the plan.
pub(super) fn struck(recorded: &[Recorded], namespace: &str, what: What) -> BTreeSet<Point> {
    let is_struck = |one: &Recorded| {
        // The operator is not killed after a write that was not carried out.
        let is_killed_after = what.fault() == Fault::Kill(Moment::After);
        one.fault == Some(what.fault()) && (one.status.is_some() || !is_killed_after)
    };
    let all = of_writes(recorded, namespace).into_iter();
    all.filter(|(_, one)| is_struck(one)).map(|(point, _)| point).collect()
}

/// Whether the run passed the point without a fault.
pub(super) fn is_spared(recorded: &[Recorded], namespace: &str, point: &Point) -> bool {
    of_writes(recorded, namespace).iter().any(|(at, one)| at == point && one.fault.is_none())
}
