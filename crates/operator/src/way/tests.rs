use super::*;

fn way(ways: &Ways) -> Arc<Way> {
    Arc::new(Way::new(Arc::clone(&ways.room), Arc::clone(&ways.turns)))
}

#[tokio::test]
async fn a_pass_that_waits_leaves_its_place_and_takes_turns_when_it_comes_back() {
    let ways = Ways::default();
    let passes: Vec<_> = (0..=BACK_MAX).map(|_| way(&ways)).collect();
    for pass in &passes {
        pass.step_aside();
        assert!(pass.left.notified().now_or_never().is_some(), "it makes way");
    }
    for pass in &passes[..BACK_MAX] {
        pass.come_back().await;
    }
    let last = &passes[BACK_MAX];
    assert!(last.come_back().now_or_never().is_none(), "all turns are taken");
    passes[0].end();
    last.come_back().await;
    for pass in &passes {
        pass.end();
    }
    assert_eq!(ways.room.available_permits(), AWAY_MAX);
    assert_eq!(ways.turns.available_permits(), BACK_MAX);
}

#[tokio::test]
async fn beyond_the_bound_a_pass_keeps_its_place() {
    let ways = Ways::default();
    let all =
        Arc::clone(&ways.room).acquire_many_owned(u32::try_from(AWAY_MAX).unwrap()).await.unwrap();
    let pass = way(&ways);
    pass.step_aside();
    assert!(pass.left.notified().now_or_never().is_none());
    pass.come_back().await;
    assert_eq!(ways.turns.available_permits(), BACK_MAX, "it needs no turn");
    drop(all);
}

#[tokio::test]
async fn answers_that_are_waited_for_together_are_one_wait() {
    let ways = Ways::default();
    let pass = way(&ways);
    pass.step_aside();
    pass.step_aside();
    pass.come_back().await;
    assert_eq!(ways.turns.available_permits(), BACK_MAX, "the other answer is not there yet");
    pass.come_back().await;
    assert_eq!(ways.turns.available_permits(), BACK_MAX - 1);
    assert!(pass.end() < Duration::from_secs(10));
}

#[test]
fn what_is_asked_for_meanwhile_comes_at_once_and_a_new_pass_ends_the_rest() {
    let ways = Ways::default();
    let leave = || lock(&ways.away).insert("u".to_owned(), Absence::Away { is_wanted: false });
    assert!(!ways.is_away("u"));
    leave();
    assert!(ways.is_away("u"), "there is one pass at a time");
    assert!(matches!(ways.come_to_rest("u", true), End::Wanted));
    leave();
    let End::Rest(rest) = ways.come_to_rest("u", true) else { panic!("nothing was asked for") };
    assert!(!ways.is_away("u"), "a resource that rests may be looked at");
    assert!(rest.is_cancelled());
    leave();
    assert!(matches!(ways.come_to_rest("u", false), End::Nothing));
    assert!(lock(&ways.away).is_empty());
}
