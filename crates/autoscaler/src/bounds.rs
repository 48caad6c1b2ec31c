//! The parallelism bounds to request for the vertices of a running job if its spec is not written: Flink's adaptive
//! scheduler follows them in place.

use std::collections::{BTreeMap, BTreeSet};

use super::topology::VertexId;

/// Minimum and maximum parallelism of a vertex.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Zero if it was never set.
    pub lower: u32,
    pub upper: u32,
}

/// Returns the bounds to request from Flink, for all vertices of the job; `None` if the job already follows the
/// decision. As in the Java operator's standalone autoscaler, a vertex that changes gets 1 as its lower bound: with too
/// few slots the job runs with fewer subtasks rather than not at all.
pub fn wanted(
    current: &BTreeMap<VertexId, Bounds>,
    decided: &BTreeMap<VertexId, u32>,
    excluded: &BTreeSet<VertexId>,
) -> Option<BTreeMap<VertexId, Bounds>> {
    let moved = |(id, bounds): (&VertexId, &Bounds)| {
        let upper = decided.get(id).copied().filter(|upper| *upper > 0 && !excluded.contains(id));
        let bounds = match upper {
            Some(upper) if upper != bounds.upper => Bounds { lower: 1, upper },
            // Flink reports zero for a bound that was never set, but does not accept zero.
            _ => Bounds { lower: bounds.lower.clamp(1, bounds.upper.max(1)), ..*bounds },
        };
        (id.clone(), bounds)
    };
    let wanted: BTreeMap<VertexId, Bounds> = current.iter().map(moved).collect();
    let is_moved = |(id, bounds): (&VertexId, &Bounds)| {
        current.get(id).is_none_or(|before| before.upper != bounds.upper)
    };
    wanted.iter().any(is_moved).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(all: &[(&str, u32, u32)]) -> BTreeMap<VertexId, Bounds> {
        let one = |(id, lower, upper): &(&str, u32, u32)| {
            (VertexId::from(*id), Bounds { lower: *lower, upper: *upper })
        };
        all.iter().map(one).collect()
    }

    fn decided(all: &[(&str, u32)]) -> BTreeMap<VertexId, u32> {
        all.iter().map(|(id, of)| (VertexId::from(*id), *of)).collect()
    }

    #[test]
    fn section_13_a_vertex_that_is_moved_may_have_less() {
        let current = bounds(&[("a", 2, 2), ("b", 0, 3), ("c", 4, 4)]);
        let wanted = wanted(&current, &decided(&[("a", 5), ("c", 4)]), &BTreeSet::new());
        assert_eq!(wanted, Some(bounds(&[("a", 1, 5), ("b", 1, 3), ("c", 4, 4)])));
    }

    #[test]
    fn what_is_as_decided_is_not_asked_for_again() {
        let current = bounds(&[("a", 2, 5), ("b", 0, 3)]);
        let unmoved: [&[_]; 5] =
            [&[("a", 5), ("b", 3)], &[("a", 5)], &[], &[("gone", 9)], &[("a", 0)]];
        for of in unmoved {
            assert_eq!(wanted(&current, &decided(of), &BTreeSet::new()), None, "{of:?}");
        }
        assert_eq!(wanted(&BTreeMap::new(), &decided(&[("a", 5)]), &BTreeSet::new()), None);
    }

    #[test]
    fn an_excluded_vertex_is_left_as_it_is() {
        let current = bounds(&[("a", 1, 2), ("b", 1, 2)]);
        let excluded = BTreeSet::from([VertexId::from("a")]);
        let wanted = wanted(&current, &decided(&[("a", 5), ("b", 3)]), &excluded);
        assert_eq!(wanted, Some(bounds(&[("a", 1, 2), ("b", 1, 3)])));
    }
}
