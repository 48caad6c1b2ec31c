use proptest::prelude::*;

use super::*;
use crate::trigger::known::SnapshotKind;
use api::state_snapshot::SnapshotState;
use api::status::SnapshotTriggerType;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), uid: format!("uid-{name}"), ..Node::default() }
}

fn tainted(name: &str, key: &str, added: Option<i64>) -> Node {
    let taint = Taint { key: key.to_owned(), value: None, added: added.map(at) };
    Node { taints: vec![taint], ..node(name) }
}

fn snapshot(of: &[&str], created: i64, state: SnapshotState) -> KnownSnapshot {
    KnownSnapshot {
        name: created.to_string(),
        uid: String::new(),
        version: String::new(),
        kind: SnapshotKind::Savepoint,
        trigger_type: SnapshotTriggerType::Periodic,
        state,
        created: at(created),
        path: None,
        nonce: None,
        asked_by: None,
        notices: of.iter().map(|name| format!("uid-{name}")).collect(),
        is_disposed_of: false,
        is_deleting: false,
    }
}

/// A job with pods on `a` and `b`, at second zero, with a cooldown of ten minutes.
fn heed(nodes: &[Node], known: &[KnownSnapshot], answered: &Answered) -> Heed {
    let facts =
        Facts { now: at(0), cooldown: Duration::from_mins(10), known, answered, is_asking: false };
    let pod_nodes = ["a", "b"].map(str::to_owned).into();
    facts.heed(facts.unanswered(nodes, &[]), &pod_nodes)
}

fn taken(heed: &Heed) -> Vec<&str> {
    match heed {
        Heed::Take(notices) => notices.iter().map(|notice| notice.node.as_str()).collect(),
        Heed::Nothing | Heed::Wait(_) => panic!("{heed:?}"),
    }
}

fn no() -> Answered {
    Answered::default()
}

#[test]
fn a_node_shows_that_it_goes_by_a_cordon_or_a_taint_that_is_known() {
    assert_eq!(notice(&node("a"), &[]), None);
    let cordoned = Node { is_unschedulable: true, ..node("a") };
    assert_eq!(notice(&cordoned, &[]).unwrap().sign, "it is cordoned");
    for key in TAINTS {
        assert_eq!(notice(&tainted("a", key, None), &[]).unwrap().sign, format!("taint `{key}`"));
    }
    for key in [
        "kubernetes.azure.com/scalesetpriority",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/out-of-service",
        "DeletionCandidateOfClusterAutoscaler",
        "dedicated",
    ] {
        assert_eq!(notice(&tainted("a", key, None), &[]), None, "{key}");
    }
    let further = [" example.com/leaving ".to_owned()];
    assert!(notice(&tainted("a", "example.com/leaving", None), &further).is_some());
}

#[test]
fn the_reason_is_reported_and_the_time_is_that_of_the_first_sign() {
    let mut node = tainted("a", UNSCHEDULABLE, Some(-50));
    node.is_unschedulable = true;
    let value = (at(-70).as_second()).to_string();
    let key = CLUSTER_AUTOSCALER.to_owned();
    node.taints.push(Taint { key, value: Some(value), added: None });
    let notice = notice(&node, &[]).unwrap();
    assert_eq!(
        (notice.sign.as_str(), notice.since),
        ("taint `ToBeDeletedByClusterAutoscaler`", Some(at(-70)))
    );
}

#[test]
fn notices_that_come_together_share_a_snapshot() {
    let nodes =
        [tainted("b", "karpenter.sh/disrupted", None), tainted("a", UNSCHEDULABLE, Some(-5))];
    let heed = heed(&nodes, &[], &no());
    assert_eq!(taken(&heed), ["a", "b"]);
    let Heed::Take(notices) = heed else { unreachable!() };
    assert_eq!(
        described(&notices),
        "Nodes `a` (taint `node.kubernetes.io/unschedulable`), `b` (taint `karpenter.sh/disrupted`) \
         are about to go"
    );
}

#[test]
fn nodes_without_pods_of_the_job_are_none_of_its_business() {
    assert_eq!(heed(&[tainted("c", UNSCHEDULABLE, None)], &[], &no()), Heed::Nothing);
    assert_eq!(heed(&[node("a")], &[], &no()), Heed::Nothing);
}

#[test]
fn a_notice_is_answered_once_whatever_became_of_the_snapshot() {
    let nodes = [tainted("a", UNSCHEDULABLE, Some(-3600))];
    for state in [SnapshotState::Completed, SnapshotState::Failed, SnapshotState::Abandoned] {
        let known = [snapshot(&["a"], -3000, state)];
        assert_eq!(heed(&nodes, &known, &no()), Heed::Nothing, "{state:?}");
    }
    // As this process remembers it, if the watch has not shown it yet.
    let mut answered = no();
    answered.note(&["uid-a".to_owned()], at(-3000));
    assert_eq!(heed(&nodes, &[], &answered), Heed::Nothing);
}

#[test]
fn a_node_that_is_cordoned_again_later_is_a_new_notice() {
    let known = [snapshot(&["a"], -3600, SnapshotState::Completed)];
    let again = [tainted("a", UNSCHEDULABLE, Some(-5))];
    assert_eq!(taken(&heed(&again, &known, &no())), ["a"]);
    // The taint with the time was added after the cordon that was answered.
    let late = [tainted("a", UNSCHEDULABLE, Some(-3570))];
    assert_eq!(heed(&late, &known, &no()), Heed::Nothing);
    // Without a time this is unknown: take no snapshot rather than two.
    assert_eq!(heed(&[tainted("a", UNSCHEDULABLE, None)], &known, &no()), Heed::Nothing);
}

#[test]
fn the_next_node_waits_for_the_cooldown_and_for_what_is_being_taken() {
    let nodes = [tainted("b", UNSCHEDULABLE, Some(-5))];
    let known = [snapshot(&["a"], -60, SnapshotState::Completed)];
    assert_eq!(heed(&nodes, &known, &no()), Heed::Wait(Duration::from_mins(9)));
    let known = [snapshot(&["a"], -600, SnapshotState::Completed)];
    assert_eq!(taken(&heed(&nodes, &known, &no())), ["b"]);
    for open in [SnapshotState::TriggerPending, SnapshotState::InProgress] {
        let known = [snapshot(&[], -6000, open)];
        assert_eq!(heed(&nodes, &known, &no()), Heed::Wait(WHILE_OPEN), "{open:?}");
    }
}

#[test]
fn what_is_remembered_is_bounded_and_keeps_the_newest() {
    let mut answered = no();
    for second in 0..3000 {
        answered.note(&[second.to_string()], at(second));
    }
    assert_eq!(answered.0.len(), REMEMBERED_MAX);
    assert_eq!(answered.newest(), Some(at(2999)));
    assert!(!answered.0.contains_key("0"));
}

/// Nodes that come and go over time, answered as decided; each pass may be a new process.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let one = |name: &'static str| {
        (any::<bool>(), prop::option::of(-4000_i64..0), 0..TAINTS.len()).prop_map(
            move |(cordoned, added, key)| {
                let mut node = tainted(name, TAINTS[key], added);
                if added.is_none() {
                    node.taints.clear();
                }
                node.is_unschedulable = cordoned;
                node
            },
        )
    };
    (one("a"), one("b"), one("c")).prop_map(|(a, b, c)| vec![a, b, c])
}

proptest! {
    /// A set of notices has one snapshot, however often the decision is made, and by whichever process.
    #[test]
    fn what_was_taken_is_never_taken_again(nodes in nodes(), forgets in any::<bool>()) {
        let mut answered = no();
        let (mut known, mut taken) = (Vec::new(), 0);
        for minute in 0..120 {
            let now = at(minute * 60);
            let cooldown = Duration::from_mins(10);
            let facts = Facts { now, cooldown, known: &known, answered: &answered, is_asking: false };
            let pod_nodes = ["a", "b", "c"].map(str::to_owned).into();
            if let Heed::Take(notices) = facts.heed(facts.unanswered(&nodes, &[]), &pod_nodes) {
                taken += 1;
                let uids: Vec<String> = notices.into_iter().map(|it| it.uid).collect();
                let mut one = snapshot(&[], minute * 60, SnapshotState::Completed);
                one.notices.clone_from(&uids);
                known.push(one);
                if !forgets {
                    answered.note(&uids, now);
                }
            }
        }
        let is_any = nodes.iter().any(|node| notice(node, &[]).is_some());
        prop_assert_eq!(taken, usize::from(is_any));
    }

    /// Nodes that leave one after the other: no two snapshots within the cooldown.
    #[test]
    fn snapshots_keep_their_distance(starts in prop::collection::vec(0_i64..7200, 1..12)) {
        let mut known: Vec<KnownSnapshot> = Vec::new();
        let names: Vec<String> = (0..starts.len()).map(|index| format!("n{index}")).collect();
        for second in (0..9000).step_by(20) {
            let gone = starts.iter().zip(&names).filter(|(start, _)| **start <= second);
            let nodes: Vec<Node> =
                gone.map(|(start, name)| tainted(name, UNSCHEDULABLE, Some(*start))).collect();
            let none = no();
            let cooldown = Duration::from_mins(10);
            let now = at(second);
            let facts = Facts { now, cooldown, known: &known, answered: &none, is_asking: false };
            let pod_nodes = names.iter().cloned().collect();
            if let Heed::Take(notices) = facts.heed(facts.unanswered(&nodes, &[]), &pod_nodes) {
                let mut one = snapshot(&[], second, SnapshotState::Completed);
                one.notices = notices.into_iter().map(|it| it.uid).collect();
                known.push(one);
            }
        }
        let mut covered: Vec<&String> = known.iter().flat_map(|it| &it.notices).collect();
        covered.sort();
        let all = covered.len();
        covered.dedup();
        prop_assert_eq!((all, covered.len()), (starts.len(), starts.len()), "each node once");
        let times: Vec<i64> = known.iter().map(|it| it.created.as_second()).collect();
        prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 600), "{times:?}");
    }
}
