use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + 60 * minute).unwrap()
}

fn moment(minute: i64, ran: u32, decided: Option<u32>) -> Moment {
    Moment {
        at: at(minute),
        outcome: Ok(Outcome::Balanced),
        parallelism: [("a".into(), ran)].into(),
        decided: decided.map(|decided| ("a".into(), decided)).into_iter().collect(),
        lag: None,
        coming_in: None,
        processed: None,
    }
}

fn decision(minute: i64, current: u32, new: u32, outcome: Outcome) -> Decision {
    let decision = VertexDecision {
        current,
        new,
        is_outside: true,
        expected_rate: None,
        steps: vec![],
        ineffective: None,
        limited: None,
        waits_until: None,
    };
    let changes = [("a".into(), decision)].into();
    Decision { at: at(minute), outcome, changes, config: BTreeMap::new(), cost: None }
}

#[test]
fn hours_count_until_the_next_moment() {
    let moments = vec![moment(0, 2, None), moment(30, 2, Some(6)), moment(60, 2, Some(6))];
    let trace = Trace { moments, ..Trace::default() };
    let (ran, decided) = subtask_hours(&trace);
    assert!((ran - 2.0).abs() < 1e-9 && (decided - 4.0).abs() < 1e-9, "{ran} {decided}");
    assert_eq!(subtask_hours(&Trace::default()), (0.0, 0.0));
}

#[test]
fn a_clock_that_goes_back_costs_nothing() {
    let moments = vec![moment(60, 2, None), moment(0, 2, None)];
    let (ran, _) = subtask_hours(&Trace { moments, ..Trace::default() });
    assert!(ran.abs() < 1e-9);
}

#[test]
fn turning_back_is_counted() {
    let scaled = |minute, from, to| decision(minute, from, to, Outcome::Scaled);
    let decisions = vec![scaled(0, 1, 4), scaled(10, 4, 6), scaled(20, 6, 3), scaled(30, 3, 5)];
    assert_eq!(reversals(&Trace { decisions, ..Trace::default() }), 2);
    let balanced = decision(20, 6, 3, Outcome::Balanced);
    let decisions = vec![scaled(0, 1, 4), balanced];
    assert_eq!(reversals(&Trace { decisions, ..Trace::default() }), 0);
}
