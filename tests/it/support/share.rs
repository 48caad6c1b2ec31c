//! The part of a long test that a run tries: all of it, or with the next commit another part.

/// `KUBECTL_FLINK_TEST_SHARE`: as `1/8`, every eighth of what is counted, from the second on.
fn parts() -> (usize, usize) {
    let Ok(share) = std::env::var("KUBECTL_FLINK_TEST_SHARE") else { return (0, 1) };
    let parts = share.split_once('/').and_then(|(which, of)| {
        let (which, of) = (which.parse().ok()?, of.parse().ok()?);
        (which < of).then_some((which, of))
    });
    parts.expect("KUBECTL_FLINK_TEST_SHARE is a share such as 0/8")
}

/// Whether this run has a part alone.
pub(crate) fn is_partial() -> bool {
    parts().1 > 1
}

/// Of many things the share that is asked for.
pub(crate) fn share<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    part(all, usize::MAX)
}

/// Of few things that take long each, at least a third.
pub(crate) fn third<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    part(all, 3)
}

/// One of several ways to run test number `number`, with the next commit another one; the first where
/// all of the tests run.
pub(crate) fn one_of<T: Copy>(ways: &[T], number: usize) -> T {
    let (which, of) = parts();
    ways[if of > 1 { (which + number) % ways.len() } else { 0 }]
}

fn part<T>(all: impl IntoIterator<Item = T>, of_max: usize) -> Vec<T> {
    let (which, of) = parts();
    let of = of.min(of_max);
    all.into_iter().skip(which % of).step_by(of).collect()
}
