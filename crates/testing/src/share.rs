//! The share of a long test that a run executes: all of it, or a different part with each commit.

/// Parses `KUBECTL_FLINK_TEST_SHARE`: `1/8` selects every eighth item, from the second on.
fn parts() -> (usize, usize) {
    let Ok(share) = std::env::var("KUBECTL_FLINK_TEST_SHARE") else { return (0, 1) };
    let parts = share.split_once('/').and_then(|(which, of)| {
        let (which, of) = (which.parse().ok()?, of.parse().ok()?);
        (which < of).then_some((which, of))
    });
    parts.expect("KUBECTL_FLINK_TEST_SHARE is a share such as 0/8")
}

/// Whether this run executes only a part.
pub fn is_partial() -> bool {
    parts().1 > 1
}

/// Returns this run's share of many items.
pub fn share<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    part(all, usize::MAX)
}

/// Returns this run's share of a few slow items, at least a third of them.
pub fn third<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    part(all, 3)
}

/// Returns one of several ways to run test number `number`, a different one with each commit; the first if all tests
/// run.
pub fn one_of<T: Copy>(ways: &[T], number: usize) -> T {
    let (which, of) = parts();
    ways[if of > 1 { (which + number) % ways.len() } else { 0 }]
}

fn part<T>(all: impl IntoIterator<Item = T>, of_max: usize) -> Vec<T> {
    let (which, of) = parts();
    let of = of.min(of_max);
    all.into_iter().skip(which % of).step_by(of).collect()
}
