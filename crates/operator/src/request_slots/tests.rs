use super::*;

fn slots(request_slots: &RequestSlots) -> Arc<PassSlots> {
    Arc::new(PassSlots::new(
        Arc::clone(&request_slots.wait_slots),
        Arc::clone(&request_slots.resume_slots),
    ))
}

fn away_in(namespace: &str) -> Absence {
    Absence::Away { namespace: namespace.to_owned(), is_wanted: false }
}

#[test]
fn silent_job_managers_of_one_namespace_take_no_slots_of_others() {
    let request_slots = RequestSlots::default();
    for number in 0..WAITING_OF_NAMESPACE_MAX {
        assert!(!request_slots.is_at_its_share("attic"), "{number}");
        lock(&request_slots.away).insert(number.to_string(), away_in("attic"));
    }
    assert!(request_slots.is_at_its_share("attic"));
    assert!(!request_slots.is_at_its_share("shop"));
    request_slots.note_end("0", true);
    assert!(!request_slots.is_at_its_share("attic"), "one that rests is not away");
}

#[tokio::test]
async fn a_pass_that_waits_leaves_its_slot_and_needs_another_one_to_resume() {
    let request_slots = RequestSlots::default();
    let passes: Vec<_> = (0..=RESUMED_MAX).map(|_| slots(&request_slots)).collect();
    for pass in &passes {
        pass.step_aside();
        assert!(pass.left.notified().now_or_never().is_some(), "it leaves its slot");
    }
    for pass in &passes[..RESUMED_MAX] {
        pass.come_back().await;
    }
    let last = &passes[RESUMED_MAX];
    assert!(last.come_back().now_or_never().is_none(), "all slots are taken");
    passes[0].end();
    last.come_back().await;
    for pass in &passes {
        pass.end();
    }
    assert_eq!(request_slots.wait_slots.available_permits(), WAITING_MAX);
    assert_eq!(request_slots.resume_slots.available_permits(), RESUMED_MAX);
}

#[tokio::test]
async fn beyond_the_bound_a_pass_keeps_its_slot() {
    let request_slots = RequestSlots::default();
    let all = Arc::clone(&request_slots.wait_slots)
        .acquire_many_owned(u32::try_from(WAITING_MAX).unwrap())
        .await
        .unwrap();
    let pass = slots(&request_slots);
    pass.step_aside();
    assert!(pass.left.notified().now_or_never().is_none());
    pass.come_back().await;
    assert_eq!(request_slots.resume_slots.available_permits(), RESUMED_MAX, "it needs no slot");
    drop(all);
}

#[tokio::test]
async fn answers_that_are_waited_for_together_are_one_wait() {
    let request_slots = RequestSlots::default();
    let pass = slots(&request_slots);
    pass.step_aside();
    pass.step_aside();
    pass.come_back().await;
    assert_eq!(
        request_slots.resume_slots.available_permits(),
        RESUMED_MAX,
        "the other answer is not there yet"
    );
    pass.come_back().await;
    assert_eq!(request_slots.resume_slots.available_permits(), RESUMED_MAX - 1);
    assert!(pass.end() < Duration::from_secs(10));
}

#[test]
fn what_is_asked_for_meanwhile_comes_at_once_and_a_new_pass_ends_the_rest() {
    let request_slots = RequestSlots::default();
    let leave = || lock(&request_slots.away).insert("u".to_owned(), away_in("shop"));
    assert!(!request_slots.is_away("u"));
    leave();
    assert!(request_slots.is_away("u"), "there is one pass at a time");
    assert!(matches!(request_slots.note_end("u", true), End::Wanted));
    leave();
    let End::Rest(rest) = request_slots.note_end("u", true) else {
        panic!("nothing was asked for")
    };
    assert!(!request_slots.is_away("u"), "a resource that rests may be looked at");
    assert!(rest.is_cancelled());
    leave();
    assert!(matches!(request_slots.note_end("u", false), End::Nothing));
    assert!(lock(&request_slots.away).is_empty());
}
