use super::*;

const BALANCED: Alignment = Alignment::Mode(AlignmentMode::Balanced);
const EVENLY: Alignment = Alignment::Mode(AlignmentMode::EvenlySpread);
const OFF: Alignment = Alignment::Mode(AlignmentMode::Off);
const LEGACY_EVENLY: Alignment = Alignment::Legacy(AdjustMode::EvenlySpread);
const LEGACY_MAX: Alignment = Alignment::Legacy(AdjustMode::MaximizeUtilisation);

/// No limits except those of the job.
const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

fn target(current: u32, target: u32, parts: u32) -> Target {
    Target { current, target, parts, max_parallelism: parts, lower: 1, upper: NO_LIMIT }
}

/// The results of all modes; a `!` marks those that are reported as limited.
#[track_caller]
fn check(target: Target, expected: &str) {
    let modes = [BALANCED, EVENLY, LEGACY_EVENLY, LEGACY_MAX];
    let results: Vec<String> = modes
        .iter()
        .map(|mode| align(&target, *mode))
        .map(|to| format!("{}{}", to.parallelism, if to.is_limited { "!" } else { "" }))
        .collect();
    assert_eq!(results.join(" "), expected);
    assert_eq!(align(&target, OFF), Aligned { parallelism: target.target, is_limited: false });
}

#[test]
fn section_16_example_2_alignment() {
    check(target(16, 24, 128), "26 32 32 26");
    check(target(200, 260, 720), "360 360 360 360");
    check(Target { upper: 300, ..target(200, 300, 720) }, "300 300 240! 240!");
    check(Target { max_parallelism: 128, ..target(7, 9, 15) }, "15 15 15 15");
    check(Target { max_parallelism: 30, ..target(20, 18, 35) }, "18 18 18 18");
    check(Target { max_parallelism: 30, lower: 20, ..target(22, 25, 35) }, "25 25 22! 22!");
    check(Target { max_parallelism: 128, ..target(80, 112, 200) }, "112 112 100! 100!");
    check(Target { max_parallelism: NO_LIMIT, ..target(24, 96, 199) }, "100 199 199 100");
    check(target(6, 5, 36), "6 6 6 6");
}

#[test]
fn section_5_1_consequences() {
    // A source gets no more subtasks than it has partitions.
    check(Target { max_parallelism: 720, upper: 200, ..target(10, 20, 15) }, "15 15 15! 15!");
    // The user's minimum is more than that.
    check(Target { max_parallelism: 720, lower: 18, ..target(18, 20, 15) }, "18 18 18! 18!");
}

#[test]
fn flink_40389_idle_subtasks_go_in_whatever_direction_the_rate_points() {
    let of = |wanted| Target { max_parallelism: 180, upper: 200, ..target(100, wanted, 15) };
    check(of(180), "15 15 15! 15!");
    check(of(50), "15 15 15! 15!");
    check(of(10), "15 15 15 15");
    check(Target { lower: 20, ..of(180) }, "20 20 20! 20!");
}

#[test]
fn a_divisor_stays() {
    check(target(10, 5, 720), "5 5 5 5");
    check(target(2, 8, 128), "8 8 8 8");
    check(target(1, 128, 128), "128 128 128 128");
}

#[test]
fn down_goes_up_to_the_next_divisor_at_most_to_where_it_was() {
    check(target(10, 7, 720), "8 8 8 8");
    check(target(128, 65, 128), "128 128 128 128");
    check(target(120, 65, 128), "65 65 64! 64!");
    check(target(5, 4, 5), "5 5 5 5");
}

#[test]
fn the_limit_keeps_divisors_away() {
    check(Target { upper: 10, ..target(4, 9, 64) }, "10 9 8! 10");
    check(Target { upper: 9, ..target(4, 9, 64) }, "9 9 8! 8!");
    check(Target { lower: 9, upper: 9, ..target(4, 9, 64) }, "9 9 9 9");
}

#[test]
fn one_subtask_is_always_even() {
    for mode in [BALANCED, EVENLY, LEGACY_EVENLY, LEGACY_MAX] {
        for parts in [1, 2, 7, 128, 32768] {
            assert_eq!(align(&target(5, 1, parts), mode).parallelism, 1);
        }
    }
}

/// The steps that the results follow from, one parallelism at a time.
fn stepped(of: &Target, is_load_reducing: bool) -> Option<u32> {
    let end = if of.is_up() { of.cap() } else { of.cap().min(of.current) };
    let most = of.parts / of.target;
    (of.target..=end)
        .find(|by| of.parts.is_multiple_of(*by) || (is_load_reducing && of.parts / by < most))
}

fn stepped_down(of: &Target) -> u32 {
    let most = of.parts / of.target;
    let last = (1..of.target).rev().find(|by| of.parts / by > most);
    let at = last.map_or(0, |last| last + u32::from(!of.parts.is_multiple_of(last)));
    at.max(of.lower)
}

#[test]
fn results_are_those_of_single_steps() {
    for (parts, wanted) in (1..80).flat_map(|parts| (1..90).map(move |wanted| (parts, wanted))) {
        for current in [1, 40, 90] {
            let of = Target { max_parallelism: 75, upper: 70, ..target(current, wanted, parts) };
            for is_load_reducing in [false, true] {
                assert_eq!(
                    of.first_above(is_load_reducing),
                    stepped(&of, is_load_reducing),
                    "{of:?}"
                );
            }
            let down = of.first_below();
            if !(down.is_limited && down.parallelism == of.current) {
                assert_eq!(down.parallelism, stepped_down(&of), "{of:?}");
            }
        }
    }
    let divisors_of = |of| divisors(of).into_iter().collect::<Vec<_>>();
    assert_eq!(divisors_of(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
    assert_eq!(divisors_of(NO_LIMIT), [1, NO_LIMIT]);
}

proptest::proptest! {
    /// Whatever the mode, the result is within the limits, and goes in the requested direction or stays, unless idle
    /// subtasks are removed.
    #[test]
    fn never_outside_of_limits(
        current in 1_u32..400,
        wanted in 1_u32..400,
        parts in 1_u32..1000,
        max_parallelism in 1_u32..1000,
        lower in 1_u32..400,
        upper in 1_u32..400,
        mode in 0_usize..5,
    ) {
        let max_parallelism = max_parallelism.max(current);
        let (lower, upper) = (lower.min(current), upper.max(current));
        let wanted = wanted.max(lower).min(upper.min(max_parallelism));
        if wanted == current {
            return Ok(());
        }
        let of = Target { current, target: wanted, parts, max_parallelism, lower, upper };
        let mode = [BALANCED, EVENLY, OFF, LEGACY_EVENLY, LEGACY_MAX][mode];
        let to = align(&of, mode).parallelism;
        proptest::prop_assert!((lower..=upper.min(max_parallelism)).contains(&to), "{of:?}: {to}");
        let is_that_way = if wanted > current { to >= current } else { to <= current };
        let is_cut = mode != OFF && current > of.cap() && to == of.cap().max(lower);
        proptest::prop_assert!(is_that_way || is_cut, "{of:?}: {to}");
    }
}
