use super::*;

const NOW: &str = "2026-01-01T12:00:00Z";

/// An upgrade that is not stable after its five minutes.
fn facts() -> RollbackFacts {
    let now: Timestamp = NOW.parse().unwrap();
    RollbackFacts {
        now,
        is_enabled: true,
        state: ReconciliationState::Deployed,
        is_stable: false,
        has_target: true,
        is_version_changed: false,
        deployed: now - SignedDuration::from_mins(5),
        patience: Duration::from_mins(5),
    }
}

#[test]
fn a_spec_has_its_time_to_become_stable() {
    assert_eq!(due(&facts()), Due::Now);
    let deployed = facts().now - SignedDuration::from_mins(4);
    assert_eq!(due(&RollbackFacts { deployed, ..facts() }), Due::In(Duration::from_mins(1)));
    let ahead = facts().now + SignedDuration::from_mins(1);
    let ahead = RollbackFacts { deployed: ahead, ..facts() };
    assert_eq!(due(&ahead), Due::In(Duration::from_mins(6)), "a clock that went back");
    let endless = RollbackFacts { patience: Duration::MAX, ..facts() };
    assert!(matches!(due(&endless), Due::In(_)));
}

#[test]
fn section_12_row_3_names_what_is_never_rolled_back() {
    let never = [
        ("off", RollbackFacts { is_enabled: false, ..facts() }),
        (
            "rolled back already",
            RollbackFacts { state: ReconciliationState::RolledBack, ..facts() },
        ),
        ("stable", RollbackFacts { is_stable: true, ..facts() }),
        ("no stable spec, or a suspended one", RollbackFacts { has_target: false, ..facts() }),
        ("another Flink version", RollbackFacts { is_version_changed: true, ..facts() }),
        ("being upgraded", RollbackFacts { state: ReconciliationState::Upgrading, ..facts() }),
    ];
    for (name, facts) in never {
        assert_eq!(due(&facts), Due::Never, "{name}");
    }
}
