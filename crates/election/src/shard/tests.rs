use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

mod race;

const PATIENCE: Duration = Duration::from_secs(15);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Shards as letters: their holders, `.` for none since 90, `?` for unknown; `me` is `b`.
fn tenures(text: &str) -> Vec<Tenure> {
    let tenure = |letter: char| match letter {
        '?' => Tenure::Unknown,
        '.' => Tenure::Free { since: at(90) },
        'b' => Tenure::Mine,
        other => Tenure::Theirs(other.to_string()),
    };
    text.chars().map(tenure).collect()
}

fn moves_of(members: &str, shards: &str, change: impl FnOnce(&mut View<'_>)) -> Vec<Move> {
    let members = members.chars().map(String::from).collect();
    let shards = tenures(shards);
    let mut view = View {
        me: "b",
        members: &members,
        same_since: at(50),
        shards: &shards,
        helped: None,
        now: at(100),
        patience: PATIENCE,
    };
    change(&mut view);
    moves(&view)
}

#[track_caller]
fn check(members: &str, shards: &str, expected: Expect) {
    expected.assert_eq(&format!("{:?}", moves_of(members, shards, |_| {})));
}

#[test]
fn one_alone_takes_everything() {
    check("b", "....", expect!["[Take(0), Take(1), Take(2), Take(3)]"]);
    check("b", "bb.b", expect!["[Take(2)]"]);
}

#[test]
fn each_takes_its_share_from_a_place_of_its_own() {
    check("ab", "....", expect!["[Take(2), Take(3)]"]);
    check("bc", "....", expect!["[Take(0), Take(1)]"]);
    check("abc", "aa..c", expect!["[Take(2)]"]);
    check("ab", "aaab.", expect!["[Take(4)]"]);
}

#[test]
fn who_has_its_share_leaves_the_rest_to_others_for_a_while() {
    check("ab", "bba.", expect!["[]"]);
    let late = moves_of("ab", "bba.", |view| view.now = at(105));
    assert_eq!(late, [Move::Help(3)]);
}

#[test]
fn what_is_too_much_is_given_up_one_share_at_a_time() {
    check("ab", "bbbb", expect!["[GiveUp(3), GiveUp(2)]"]);
    check("abz", "bbbz", expect!["[GiveUp(2)]"]);
}

#[test]
fn of_two_with_the_same_one_gives_up() {
    // Of `a` and `b` the first has the larger share.
    check("abc", "aabb", expect!["[GiveUp(3)]"]);
    check("bcd", "bbcc", expect!["[]"]);
}

#[test]
fn nothing_is_given_up_before_things_have_settled() {
    let come = moves_of("ab", "bbbb", |view| view.same_since = at(86));
    assert!(come.is_empty(), "one has come just now");
    let helped = moves_of("ab", "bbbb", |view| view.helped = Some(at(60)));
    assert!(helped.is_empty(), "nobody else wanted it");
    let helped = moves_of("ab", "bbbb", |view| view.helped = Some(at(40)));
    assert!(!helped.is_empty(), "another one has come since");
    let helped =
        |now| moves_of("ab", "bbbb", |view| (view.helped, view.now) = (Some(at(60)), at(now)));
    assert!(helped(179).is_empty() && !helped(180).is_empty(), "it may want it again");
    check("ab", "bbb?", expect!["[]"]);
    check("ab", "bbb.", expect!["[]"]);
}

#[test]
fn who_is_gone_has_no_share_and_keeps_its_leases_until_they_end() {
    check("bc", "bczz", expect!["[]"]);
    check("bc", "bc..", expect!["[Take(2)]"]);
}

#[test]
fn a_namespace_is_in_the_same_shard_for_ever() {
    // Running clusters depend on these values: they must never change.
    let shards = ["default", "shop", "fraud", "team-a", "team-b"].map(|it| shard_of(it, 4));
    expect!["[1, 1, 1, 0, 2]"].assert_eq(&format!("{shards:?}"));
    assert_eq!(shard_of("default", 1), 0);
    assert_eq!(lease_name("operator", 2, 4), "operator-2-of-4");
}

#[test]
fn replicas_that_operate_something_else_are_no_replicas() {
    let holder = number_holder(4, "all namespaces");
    assert_eq!(holder, number_holder(4, "all namespaces"));
    assert_ne!(holder, number_holder(4, "namespace shop"));
    assert_ne!(holder, number_holder(8, "all namespaces"));
}

#[test]
fn who_does_not_report_itself_does_not_count_for_long() {
    let mut roster = Roster::new("b", PATIENCE, at(0));
    let described = |a: u64| BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), 7)]);
    roster.see(&described(1), at(10));
    assert_eq!((roster.members(at(24)).len(), roster.same_since(at(24))), (2, at(10)));
    roster.see(&described(2), at(24));
    assert_eq!(roster.members(at(38)).len(), 2);
    roster.see(&described(2), at(38));
    assert_eq!((roster.members(at(39)).len(), roster.same_since(at(39))), (1, at(39)));
    assert_eq!(roster.next(at(39)), BTreeMap::from([("b".to_owned(), 1)]));
    roster.see(&described(3), at(60));
    assert_eq!((roster.members(at(60)).len(), roster.same_since(at(60))), (2, at(60)));
    roster.see(&BTreeMap::new(), at(61));
    assert_eq!((roster.members(at(61)).len(), roster.same_since(at(61))), (1, at(61)));
}

proptest! {
    /// Every namespace is in one shard, whatever the number.
    #[test]
    fn shards_are_a_partition(name in "[a-z][a-z0-9-]{0,62}", shards in 1..=SHARDS_MAX) {
        prop_assert!(shard_of(&name, shards) < shards);
    }

    #[test]
    fn a_roster_reads_back(described in prop::collection::btree_map("[a-z0-9_.-]{1,60}", 0_u64.., 0..20)) {
        prop_assert_eq!(parse_roster(&roster_text(&described)), described);
    }

    #[test]
    fn any_text_is_a_roster(text in ".*") {
        prop_assert!(parse_roster(&text).len() <= MEMBERS_MAX);
    }

    /// Whoever comes or goes, and whoever moves first: in the end, shares differ by at most one, and nothing has moved
    /// without need.
    #[test]
    fn shares_become_even_with_the_fewest_moves(
        shards in 1_usize..12,
        holders in prop::collection::vec(0_usize..5, 12),
        members in prop::collection::btree_set(0_usize..5, 1..5),
        order in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let name = |index: usize| format!("p{index}");
        let names: BTreeSet<String> = members.iter().map(|index| name(*index)).collect();
        // The shards of a process that is gone are free.
        let mut held: Vec<Option<String>> = holders[..shards]
            .iter()
            .map(|index| Some(name(*index)).filter(|name| names.contains(name)))
            .collect();
        let count = |held: &[Option<String>], who: &str| {
            held.iter().filter(|holder| holder.as_deref() == Some(who)).count()
        };
        let (base, extra) = (shards / names.len(), shards % names.len());
        let mut counts: Vec<usize> = names.iter().map(|who| count(&held, who)).collect();
        counts.sort_unstable();
        counts.reverse();
        let fewest: usize = counts
            .iter()
            .enumerate()
            .map(|(rank, count)| (base + usize::from(rank < extra)).saturating_sub(*count))
            .sum();
        let mut taken = 0;
        let all: Vec<String> = names.iter().cloned().collect();
        for (turn, index) in order.iter().enumerate() {
            // In the end, each gets its turn.
            let who = if turn < 150 { index.get(&all) } else { &all[turn % all.len()] };
            let shards: Vec<Tenure> = held
                .iter()
                .map(|holder| match holder {
                    None => Tenure::Free { since: at(90) },
                    Some(holder) if holder == who => Tenure::Mine,
                    Some(holder) => Tenure::Theirs(holder.clone()),
                })
                .collect();
            let view = View {
                me: who,
                members: &names,
                same_since: at(50),
                shards: &shards,
                helped: None,
                now: at(100),
                patience: PATIENCE,
            };
            for one in moves(&view) {
                let (Move::Take(shard) | Move::Help(shard) | Move::GiveUp(shard)) = one;
                let shard = &mut held[usize::from(shard)];
                match one {
                    Move::Take(_) | Move::Help(_) => {
                        prop_assert!(shard.is_none(), "what is held is not taken");
                        *shard = Some(who.clone());
                        taken += 1;
                    }
                    Move::GiveUp(_) => {
                        prop_assert_eq!(shard.as_deref(), Some(who.as_str()));
                        *shard = None;
                    }
                }
            }
        }
        prop_assert!(held.iter().all(Option::is_some), "{held:?}");
        for who in &names {
            let own = count(&held, who);
            prop_assert!(own == base || own == base + 1, "{held:?}");
        }
        prop_assert_eq!(taken, fewest);
    }
}
