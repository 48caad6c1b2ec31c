use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::world::CompletedState;

mod rows;

const NOW: &str = "2026-01-01T12:00:00Z";

#[allow(clippy::unnecessary_wraps, reason = "as the facts have it")]
fn ago(seconds: i64) -> Option<Timestamp> {
    let now: Timestamp = NOW.parse().unwrap();
    Some(now - jiff::SignedDuration::from_secs(seconds))
}

/// A running last-state job with HA metadata; tests override what they need.
fn facts() -> StopFacts {
    StopFacts {
        now: NOW.parse().unwrap(),
        mode: UpgradeMode::LastState,
        started_as: UpgradeMode::LastState,
        state: Some(JobStatusState::Running),
        job_manager: JobManagerDeploymentStatus::Ready,
        is_high_availability_on: true,
        moves_metadata: false,
        is_version_changed: false,
        has_savepoint_directory: true,
        may_fall_back: true,
        may_cancel: false,
        retains_checkpoints: true,
        retention: Lazy::Known(true),
        checkpoint_age_max: None,
        job_started: ago(3600),
        path: None,
        ha_metadata: Lazy::Known(HaMetadata { has_job: true, checkpoint: Some(1) }),
        checkpoints: Lazy::Known(Checkpoints::default()),
        never_started: Lazy::Known(false),
    }
}

fn no_metadata() -> Lazy<HaMetadata> {
    Lazy::Known(HaMetadata::default())
}

#[track_caller]
fn check(facts: &StopFacts, expected: Expect) {
    expected.assert_eq(&format!("{:?}", decide_stop(facts)));
}

#[test]
fn metadata_that_would_not_be_found_again_are_not_gone_by() {
    let moves = StopFacts { moves_metadata: true, ..facts() };
    check(&moves, expect!["Ok(Cancel)"]);
    let discards = StopFacts { retains_checkpoints: false, ..moves.clone() };
    check(&discards, expect!["Ok(Savepoint)"]);
    let wait = decide_stop(&StopFacts { has_savepoint_directory: false, ..discards });
    assert_eq!(wait, Ok(StopDecision::Wait(Awaited::Change, MOVED.to_owned())));
    for mode in [UpgradeMode::LastState, UpgradeMode::Savepoint] {
        let lost = StopFacts {
            mode,
            state: Some(JobStatusState::Reconciling),
            job_manager: JobManagerDeploymentStatus::Missing,
            ..moves.clone()
        };
        assert_eq!(decide_stop(&lost), Ok(StopDecision::Refuse(MOVED.to_owned())), "{mode:?}");
        let starting = StopFacts { job_manager: JobManagerDeploymentStatus::Deploying, ..lost };
        check(
            &starting,
            expect![[
                r#"Ok(Wait(JobRunning, "the job is not running, so its state cannot be saved yet"))"#
            ]],
        );
    }
}

#[test]
fn stateless_is_stopped_as_it_is() {
    let facts = StopFacts { mode: UpgradeMode::Stateless, ..facts() };
    check(&facts, expect!["Ok(Stateless)"]);
    check(
        &StopFacts { state: Some(JobStatusState::Failed), ..facts },
        expect!["Ok(AlreadyStopped(Stateless))"],
    );
}

#[test]
fn savepoint_of_a_running_job() {
    check(&StopFacts { mode: UpgradeMode::Savepoint, ..facts() }, expect!["Ok(Savepoint)"]);
}

#[test]
fn savepoint_falls_back_to_ha_metadata_when_the_job_does_not_run() {
    let facts = StopFacts {
        mode: UpgradeMode::Savepoint,
        state: Some(JobStatusState::Reconciling),
        job_manager: JobManagerDeploymentStatus::Deploying,
        ..facts()
    };
    check(&facts, expect!["Ok(LastState)"]);
    check(
        &StopFacts { may_fall_back: false, ..facts },
        expect![[
            r#"Ok(Wait(JobRunning, "the job is not running, so its state cannot be saved yet"))"#
        ]],
    );
}

#[test]
fn an_ended_job_is_restored_from_what_it_left() {
    let facts = StopFacts {
        state: Some(JobStatusState::Finished),
        path: Some("s3://sp/1".to_owned()),
        ..facts()
    };
    check(&facts, expect!["Ok(AlreadyStopped(Savepoint))"]);
    let unknown = StopFacts { path: Some(LAST_STATE_PATH.to_owned()), ..facts.clone() };
    check(
        &unknown,
        expect![[
            r#"Ok(Refuse("Job is in terminal state but last checkpoint is unknown, possibly due to an unrecoverable restore error. Manual restore required. To go on without it, find the job's newest checkpoint or savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` to a new number"))"#
        ]],
    );
    let unasked = StopFacts { path: None, checkpoints: Lazy::NotAsked, ..facts.clone() };
    check(&unasked, expect!["Err(Checkpoints)"]);
    let none = StopFacts { checkpoints: Lazy::Known(Checkpoints::default()), ..unasked.clone() };
    let started_empty = StopFacts { started_as: UpgradeMode::Stateless, ..none.clone() };
    check(&started_empty, expect!["Ok(AlreadyStopped(Stateless))"]);
    assert!(matches!(decide_stop(&none), Ok(StopDecision::Refuse(_))), "a restore that failed");
    let silent = StopFacts { checkpoints: Lazy::Unknown("timeout".to_owned()), ..unasked };
    assert!(matches!(decide_stop(&silent), Ok(StopDecision::Refuse(_))));
}

#[test]
fn last_state_without_ha_metadata_cancels_where_checkpoints_are_retained() {
    let facts = StopFacts { ha_metadata: no_metadata(), ..facts() };
    check(&facts, expect!["Ok(Cancel)"]);
    check(&StopFacts { retains_checkpoints: false, ..facts.clone() }, expect!["Ok(Savepoint)"]);
    // The setting of `main()` is used, whatever the configuration says; and it is requested only then.
    check(&StopFacts { retention: Lazy::Known(false), ..facts.clone() }, expect!["Ok(Savepoint)"]);
    check(&StopFacts { retention: Lazy::NotAsked, ..facts.clone() }, expect!["Err(Retention)"]);
    let unasked =
        StopFacts { retention: Lazy::NotAsked, retains_checkpoints: false, ..facts.clone() };
    check(&unasked, expect!["Ok(Savepoint)"]);
    check(
        &StopFacts { retention: Lazy::Unknown("timeout".to_owned()), ..facts.clone() },
        expect![[
            r#"Ok(Wait(Fact, "could not determine whether the job's checkpoints are retained when it is cancelled: timeout"))"#
        ]],
    );
    check(
        &StopFacts { retains_checkpoints: false, has_savepoint_directory: false, ..facts },
        expect![[
            r#"Ok(Wait(Change, "the job has no HA metadata, and its checkpoints are not retained when it is cancelled: set `execution.checkpointing.savepoint-dir`"))"#
        ]],
    );
}

#[test]
fn a_job_is_not_cancelled_for_a_checkpoint_that_is_of_no_use() {
    let unusable = |facts: StopFacts| {
        let reason = Some("it was discarded".to_owned());
        let checkpoints = Lazy::Known(Checkpoints { unusable: reason, ..Checkpoints::default() });
        StopFacts { checkpoints, ..facts }
    };
    let alone = StopFacts { ha_metadata: no_metadata(), ..facts() };
    check(&StopFacts { checkpoints: Lazy::NotAsked, ..alone.clone() }, expect!["Err(Checkpoints)"]);
    check(&unusable(alone.clone()), expect!["Ok(Savepoint)"]);
    // Metadata still leads to it.
    check(&unusable(StopFacts { may_cancel: true, ..facts() }), expect!["Ok(LastState)"]);
    for without_directory in [
        StopFacts { has_savepoint_directory: false, ..alone.clone() },
        StopFacts { has_savepoint_directory: false, is_version_changed: true, ..alone.clone() },
    ] {
        let refusal = decide_stop(&unusable(without_directory));
        let Ok(StopDecision::Refuse(message)) = refusal else { panic!("{refusal:?}") };
        assert!(message.contains("it was discarded") && message.contains("savepoint-dir"));
    }
    let restarting = StopFacts { state: Some(JobStatusState::Restarting), ..alone };
    check(
        &unusable(restarting),
        expect![[
            r#"Ok(Wait(JobRunning, "the job is not running, so its state cannot be saved yet"))"#
        ]],
    );
}

#[test]
fn an_old_checkpoint_asks_for_a_savepoint() {
    let completed = |seconds| {
        Lazy::Known(Checkpoints {
            latest: Some(CompletedState { path: "s3://chk/7".to_owned(), at: ago(seconds) }),
            ..Checkpoints::default()
        })
    };
    let facts = StopFacts { checkpoint_age_max: Some(Duration::from_mins(1)), ..facts() };
    check(&StopFacts { checkpoints: completed(61), ..facts.clone() }, expect!["Ok(Savepoint)"]);
    check(&StopFacts { checkpoints: completed(30), ..facts.clone() }, expect!["Ok(LastState)"]);
    check(&StopFacts { job_started: ago(30), ..facts.clone() }, expect!["Ok(LastState)"]);
    let pending = |seconds| {
        Lazy::Known(Checkpoints { pending_since: ago(seconds), ..Checkpoints::default() })
    };
    check(
        &StopFacts { checkpoints: pending(30), ..facts.clone() },
        expect![[r#"Ok(Wait(Checkpoint, "a checkpoint is about to complete"))"#]],
    );
    check(&StopFacts { checkpoints: pending(61), ..facts }, expect!["Ok(Savepoint)"]);
}

#[test]
fn a_version_change_never_uses_ha_metadata() {
    let facts = StopFacts { is_version_changed: true, ..facts() };
    check(&facts, expect!["Ok(Savepoint)"]);
    check(&StopFacts { has_savepoint_directory: false, ..facts.clone() }, expect!["Ok(Cancel)"]);
    let restarting = StopFacts { state: Some(JobStatusState::Restarting), ..facts.clone() };
    check(&restarting, expect!["Ok(Cancel)"]);
    let lost = StopFacts {
        state: Some(JobStatusState::Reconciling),
        job_manager: JobManagerDeploymentStatus::Deploying,
        ..facts
    };
    assert!(matches!(decide_stop(&lost), Ok(StopDecision::Wait(..))));
}

#[test]
fn a_job_manager_that_never_ran_is_replaced() {
    let facts = StopFacts {
        mode: UpgradeMode::Savepoint,
        started_as: UpgradeMode::Savepoint,
        state: Some(JobStatusState::Reconciling),
        job_manager: JobManagerDeploymentStatus::Error,
        ha_metadata: no_metadata(),
        never_started: Lazy::Known(true),
        ..facts()
    };
    check(&facts, expect!["Ok(NeverStarted(Savepoint))"]);
    let ran = StopFacts { never_started: Lazy::Known(false), ..facts };
    check(
        &ran,
        expect![[
            r#"Ok(Refuse("JobManager deployment is missing and HA metadata is not available to make stateful upgrades. It is possible that the job has finished or terminally failed, or the configmaps have been deleted. Manual restore required. Find the job's newest checkpoint or savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` to a new number."))"#
        ]],
    );
}

fn states() -> impl Strategy<Value = Option<JobStatusState>> {
    proptest::sample::select(vec![
        None,
        Some(JobStatusState::Created),
        Some(JobStatusState::Running),
        Some(JobStatusState::Failing),
        Some(JobStatusState::Failed),
        Some(JobStatusState::Cancelling),
        Some(JobStatusState::Canceled),
        Some(JobStatusState::Finished),
        Some(JobStatusState::Restarting),
        Some(JobStatusState::Reconciling),
    ])
}

fn any_facts() -> impl Strategy<Value = StopFacts> {
    let modes = || {
        proptest::sample::select(vec![
            UpgradeMode::Stateless,
            UpgradeMode::Savepoint,
            UpgradeMode::LastState,
        ])
    };
    let job_managers = proptest::sample::select(vec![
        JobManagerDeploymentStatus::Ready,
        JobManagerDeploymentStatus::DeployedNotReady,
        JobManagerDeploymentStatus::Deploying,
        JobManagerDeploymentStatus::Missing,
        JobManagerDeploymentStatus::Error,
    ]);
    let paths = proptest::sample::select(vec![
        None,
        Some(LAST_STATE_PATH.to_owned()),
        Some("s3://sp/1".to_owned()),
    ]);
    let metadata = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(is_known, has_job, has_checkpoint)| {
            if is_known {
                Lazy::Known(HaMetadata { has_job, checkpoint: has_checkpoint.then_some(1) })
            } else {
                Lazy::Unknown("x".to_owned())
            }
        },
    );
    let retention = proptest::sample::select(vec![
        Lazy::Known(true),
        Lazy::Known(false),
        Lazy::Unknown("x".to_owned()),
    ]);
    let flags = proptest::array::uniform7(any::<bool>());
    let seen = (paths, metadata, retention, flags, any::<bool>());
    ((modes(), modes(), states(), job_managers), seen).prop_map(
        |((mode, started_as, state, job_manager), (path, ha_metadata, retention, flags, never))| {
            let [is_high_availability_on, is_version_changed, has_savepoint_directory, rest @ ..] =
                flags;
            let [may_fall_back, may_cancel, retains_checkpoints, has_age] = rest;
            StopFacts {
                mode,
                started_as,
                state,
                job_manager,
                is_high_availability_on,
                is_version_changed,
                has_savepoint_directory,
                may_fall_back,
                may_cancel,
                retains_checkpoints,
                retention,
                checkpoint_age_max: has_age.then_some(Duration::from_mins(1)),
                path,
                ha_metadata,
                checkpoints: Lazy::Known(Checkpoints::default()),
                never_started: Lazy::Known(never),
                ..facts()
            }
        },
    )
}

proptest! {
    #[test]
    fn the_table_is_total_and_never_drops_state_unasked(facts in any_facts()) {
        let decision = decide_stop(&facts).unwrap();
        if facts.mode != UpgradeMode::Stateless {
            prop_assert_ne!(&decision, &StopDecision::Stateless);
        }
        match decision {
            StopDecision::Savepoint => {
                prop_assert_eq!(facts.state, Some(JobStatusState::Running));
            }
            StopDecision::Cancel => {
                prop_assert!(facts.retains_checkpoints);
                prop_assert_eq!(facts.retention, Lazy::Known(true));
            }
            StopDecision::LastState => {
                let has_job = match facts.ha_metadata {
                    Lazy::Known(metadata) => metadata.has_job,
                    Lazy::Unknown(_) | Lazy::NotAsked => false,
                };
                prop_assert!(facts.is_high_availability_on && has_job);
            }
            StopDecision::NeverStarted(mode) => {
                prop_assert_eq!(facts.never_started, Lazy::Known(true));
                prop_assert_ne!(mode, UpgradeMode::LastState);
            }
            StopDecision::AlreadyStopped(mode) => {
                let is_terminal = facts.state.is_some_and(JobStatusState::is_globally_terminal);
                prop_assert!(is_terminal);
                match mode {
                    UpgradeMode::Stateless => prop_assert!(
                        facts.mode == UpgradeMode::Stateless
                            || (facts.started_as == UpgradeMode::Stateless && facts.path.is_none())
                    ),
                    UpgradeMode::Savepoint => {
                        prop_assert_eq!(facts.path.as_deref(), Some("s3://sp/1"));
                    }
                    UpgradeMode::LastState => prop_assert!(false, "nothing runs to be kept"),
                }
            }
            StopDecision::Stateless | StopDecision::Wait(..) | StopDecision::Refuse(_) => {}
        }
    }
}
