//! Rollback: §12, T29 to T31.

use api::deployment::DeploymentMode;
use api::status::LAST_STATE_PATH;
use api::version::FlinkVersion;
use expect_test::expect;
use lifecycle::world::{PreflightPods, TaskManagers};

use super::*;

/// Returns an upgrade to another image, ten minutes old and never seen running.
pub(super) fn failing(mode: &str) -> Scene {
    let mut scene = Scene::running(mode).operator_option("deployment.rollback.enabled", "true");
    scene = scene.edit(|spec| spec.image = Some("flink:new".to_owned()));
    let mode = scene.job().upgrade_mode;
    scene.store(JobState::Running, mode);
    scene.status.observed_generation = Some(2);
    scene.status.reconciliation_status.reconciliation_timestamp = ago(600).as_millisecond();
    scene.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    scene
}

/// The JobManager was taken down, and its pods are gone.
pub(super) fn taken_down(scene: &Scene) -> Scene {
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    scene
}

/// Returns a running job after its rollback.
pub(super) fn rolled_back() -> Scene {
    let scene = taken_down(&failing("last-state").starting());
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    scene.facts.pods = Fact::Known(vec![pod()]);
    scene.facts.jobs = Fact::Known(job(JobStatusState::Running));
    scene.clone().after(&scene.plan())
}

#[test]
fn a_job_that_runs_is_not_rolled_back_to_a_spec_that_would_not_start() {
    let mut scene = failing("last-state").operator_option("deployment.stable.checkpoints", "3");
    let refusal = PodProblem {
        reason: "FailedCreate".to_owned(),
        message: "serviceaccount `flink` not found".to_owned(),
    };
    let tried = |refusal| Fact::Known(PreflightPods { pods: vec![], refusal });
    scene.facts.preflight = tried(Some(refusal));
    let plan = scene.plan();
    let told =
        "it is not rolled back: the last stable spec would not start: FailedCreate: serviceaccount";
    assert!(error(&plan).contains(told), "{}", error(&plan));
    assert!(!step_names(&plan).contains(&"stop-job-manager"), "{:?}", step_names(&plan));
    scene.facts.preflight = tried(None);
    assert!(step_names(&scene.plan()).contains(&"stop-job-manager"));
}

#[test]
fn t29_t30_a_failed_spec_gives_way_with_ha_metadata() {
    let scene = failing("last-state").starting();
    check(
        &scene,
        expect![[r#"
            (RollingBack, R LastState, Some(Finished), Missing) RollingBack
            rolling back: removing the JobManager of the failed spec
              event Rollback: Rolling back failed deployment.
              event JobStatusChanged: Job status changed from RECONCILING to FINISHED
              write-status
              stop-job-manager
              event RolledBack: the spec did not become stable in 300s and is rolled back: the JobManager is starting
        "#]],
    );
    check(
        &taken_down(&scene),
        expect![[r#"
        (RolledBack, R LastState, Some(Reconciling), Deploying) RolledBack
        rolled back, starting from the latest checkpoint in HA metadata
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
}

#[test]
fn s12_a_job_manager_that_never_started_goes_back_to_the_savepoint() {
    let mut scene = failing("savepoint")
        .starting()
        .without_metadata()
        .path(SAVEPOINT)
        .pod_problem("ImagePullBackOff", false);
    let never = JobManager { available_replicas: 0, was_never_available: true, ..job_manager() };
    scene.facts.job_manager = Fact::Known(Some(never.clone()));
    // It might start at any moment, so this comes first.
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Error) Deployed
        removing the JobManager, which never ran
          write-status
          stop-job-manager
          event Error: [flink-main-container] ImagePullBackOff
    "#]],
    );
    let stopped =
        JobManager { is_deleting: true, is_stopped: true, is_stopped_unstarted: true, ..never };
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(Some(stopped.clone()));
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        the JobManager has ended: removing the rest
          write-status
          delete-job-manager
    "#]],
    );
    // It may still exist for a while.
    let mut deleting = scene.clone().after(&scene.plan());
    let gone = JobManager { is_stopped: false, is_stopped_unstarted: false, ..stopped };
    deleting.facts.job_manager = Fact::Known(Some(gone));
    let error = deleting.plan().status.error.unwrap();
    assert!(error.contains("is rolled back: [flink-main-container] ImagePullBackOff"), "{error}");
    let scene = taken_down(&scene);
    check(
        &scene,
        expect![[r#"
        (RollingBack, R Savepoint, Some(Finished), Missing) RollingBack
        rolling back: removing the JobManager of the failed spec
          event Rollback: Rolling back failed deployment.
          event JobStatusChanged: Job status changed from RECONCILING to FINISHED
          write-status
          event RolledBack: the spec did not become stable in 300s and is rolled back: [flink-main-container] ImagePullBackOff
    "#]],
    );
    // Java does it in one loop; here the old pods must be gone first.
    check(
        &taken_down(&scene),
        expect![[r#"
        (RolledBack, R Savepoint, Some(Reconciling), Deploying) RolledBack
        rolled back, starting from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
    // A job with HA metadata did start, and is rolled back from it.
    let mut scene = scene;
    scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
    check(
        &scene,
        expect![[r#"
        (RollingBack, R LastState, Some(Finished), Missing) RollingBack
        rolling back: removing the JobManager of the failed spec
          event Rollback: Rolling back failed deployment.
          event JobStatusChanged: Job status changed from RECONCILING to FINISHED
          write-status
          event RolledBack: the spec did not become stable in 300s and is rolled back: [flink-main-container] ImagePullBackOff
    "#]],
    );
}

#[test]
fn s12_a_job_that_failed_for_good_goes_back_from_its_last_checkpoint() {
    // Java does not roll it back, because HA metadata ended with the job. Its checkpoint is recorded.
    let scene =
        failing("savepoint").in_state(JobStatusState::Failed).without_metadata().path(CHECKPOINT);
    check(
        &scene,
        expect![[r#"
        (RollingBack, R Savepoint, Some(Failed), Missing) RollingBack
        rolling back: removing the JobManager of the failed spec
          event Rollback: Rolling back failed deployment.
          write-status
          delete-job-manager
          event RolledBack: the spec did not become stable in 300s and is rolled back: the sink is gone
    "#]],
    );
    check(
        &taken_down(&scene),
        expect![[r#"
        (RolledBack, R Savepoint, Some(Reconciling), Deploying) RolledBack
        rolled back, starting from s3://lake/chk/7
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/chk/7, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

/// The last checkpoint of the job of the stable spec.
const LEFT: &str = "s3://lake/chk/00000000000000000000000000000001/chk-7";
/// The same without folders of jobs (`execution.checkpointing.create-subdir: false`).
const SHARED: &str = "s3://lake/chk/chk-7";

fn metadata(checkpoint: Option<u64>) -> Fact<HaMetadata> {
    Fact::Known(HaMetadata { has_job: checkpoint.is_some(), checkpoint })
}

fn with_latest(path: &str) -> Fact<Checkpoints> {
    let latest = Some(CompletedState { path: path.to_owned(), at: Some(ago(5)) });
    Fact::Known(Checkpoints { latest, ..Checkpoints::default() })
}

/// Returns a job whose new program cannot restore the checkpoint that HA metadata named when it was started.
fn unrestorable(named: Option<u64>) -> Scene {
    unrestorable_from(LEFT, named)
}

fn unrestorable_from(noted: &str, named: Option<u64>) -> Scene {
    let mut scene = Scene::running("last-state")
        .operator_option("deployment.rollback.enabled", "true")
        .edit(|spec| spec.image = Some("flink:new".to_owned()));
    scene.facts.checkpoints = with_latest(noted);
    scene.facts.ha_metadata = metadata(Some(7));
    let mut scene = taken_down(&scene);
    scene.facts.ha_metadata = metadata(named);
    let mut scene = scene.clone().after(&scene.plan());
    let created = Some(ago(1));
    scene.facts.job_manager = Fact::Known(Some(JobManager { created, ..job_manager() }));
    scene.facts.pods = Fact::Known(vec![Pod { created, ..pod() }]);
    let mut failed = job(JobStatusState::Failed);
    failed[0].start_time = ago(0).as_millisecond();
    scene.facts.jobs = Fact::Known(failed);
    // Flink has no graph of it, and has deleted its metadata.
    scene.facts.checkpoints = Fact::Known(Checkpoints { is_blank: true, ..Checkpoints::default() });
    scene.facts.ha_metadata = metadata(None);
    scene
}

/// Returns the scene once the failure is on record, when the new spec has had its time.
fn overdue(scene: Scene) -> Scene {
    let mut scene = scene.clone().after(&scene.plan());
    scene.status.reconciliation_status.reconciliation_timestamp = ago(600).as_millisecond();
    let noted = scene.status.cluster_info.get_mut("LastCheckpoint");
    if let Some(noted) = noted {
        *noted = noted
            .replace(&ago(0).as_millisecond().to_string(), &ago(600).as_millisecond().to_string());
    }
    scene
}

/// The job fails before it runs, and Flink deletes its HA metadata, which was all that led to its state. Java is left
/// with nothing.
#[test]
fn s12_a_program_that_cannot_restore_gives_way_from_the_checkpoint_that_was_left() {
    let scene = overdue(unrestorable(Some(7)));
    assert_eq!(scene.status.job_status.upgrade_savepoint_path.as_deref(), Some(LEFT));
    let scene = taken_down(&scene);
    let plan = scene.plan();
    assert_eq!(plan.because, format!("rolled back, starting from {LEFT}"));
    assert_eq!(plan.status.cluster_info.get("LastCheckpoint"), None, "it has been used");
}

/// Its number is known, and Flink writes the checkpoints of a job side by side.
#[test]
fn s12_one_that_was_taken_after_the_noted_one_is_found_alongside_it() {
    let scene = overdue(unrestorable(Some(9)));
    let newest = LEFT.replace("chk-7", "chk-9");
    assert_eq!(scene.status.job_status.upgrade_savepoint_path.as_deref(), Some(&*newest));
    let plan = taken_down(&scene).plan();
    assert_eq!(plan.because, format!("rolled back, starting from {newest}"));
}

/// What may be newer is not replaced. Both are named for a person.
#[test]
fn s12_the_checkpoint_that_was_left_is_not_used_where_there_may_be_a_newer_one() {
    let change = |change: &dyn Fn(&mut Scene)| {
        let mut scene = unrestorable(Some(7));
        change(&mut scene);
        scene
    };
    let scenes = [
        (
            "the metadata named a newer one, and the job has no folder of its own",
            unrestorable_from(SHARED, Some(8)),
            "checkpoint 8",
        ),
        (
            "the failed program has taken one",
            change(&|scene| scene.facts.ha_metadata = metadata(Some(9))),
            "checkpoint 9",
        ),
        (
            "its metadata cannot be read",
            change(&|scene| scene.facts.ha_metadata = Fact::Unknown("no answer".to_owned())),
            "whether there is a newer one",
        ),
        (
            "an earlier process may have run the job",
            change(&|scene| {
                let pods = vec![Pod { has_restarted: true, created: Some(ago(1)), ..pod() }];
                scene.facts.pods = Fact::Known(pods);
            }),
            "whether there is a newer one",
        ),
        (
            "so may an earlier pod",
            change(&|scene| {
                let created = Some(ago(60));
                let made = JobManager { created, ..job_manager() };
                scene.facts.job_manager = Fact::Known(Some(made));
            }),
            "whether there is a newer one",
        ),
    ];
    for (name, scene, named) in scenes {
        let scene = overdue(scene);
        let path = scene.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some(LAST_STATE_PATH), "{name}");
        let plan = scene.plan();
        assert!(!step_names(&plan).contains(&"delete-job-manager"), "{name}");
        let error = error(&plan);
        let noted = [LEFT, SHARED].iter().any(|path| error.contains(&format!("`{path}`")));
        assert!(noted && error.contains(named), "{name}: {error}");
        assert!(error.contains(". The operator") && !error.contains(".."), "{name}: {error}");
    }
    let mut newer = unrestorable(Some(7));
    newer.facts.checkpoints = with_latest("s3://lake/chk/1/chk-9");
    let path = overdue(newer).status.job_status.upgrade_savepoint_path;
    assert_eq!(path.as_deref(), Some("s3://lake/chk/1/chk-9"), "the failed program's own");
}

/// Whoever started something else since, the note says nothing about that.
#[test]
fn s12_the_checkpoint_that_was_left_says_nothing_about_another_start() {
    let mut scene = unrestorable(Some(7));
    scene.status.reconciliation_status.reconciliation_timestamp += 1;
    let plan = scene.plan();
    let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
    assert_eq!(path, Some(LAST_STATE_PATH));

    let mut stable = unrestorable(Some(7));
    stable.facts.jobs = Fact::Known(job(JobStatusState::Running));
    assert!(stable.status.cluster_info.contains_key("LastCheckpoint"));
    let plan = stable.plan();
    assert_eq!(plan.status.cluster_info.get("LastCheckpoint"), None, "the new program runs");
}

#[test]
fn s12_a_stateless_job_goes_back_empty() {
    let scene = failing("stateless").starting();
    check(
        &taken_down(&scene),
        expect![[r#"
        (RolledBack, R Stateless, Some(Reconciling), Deploying) RolledBack
        rolled back, starting from empty state
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from nothing, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn s12_an_edit_that_is_refused_drops_no_state_of_what_is_rolled_back() {
    let refused = |scene: Scene| {
        scene.edit_job(|job| {
            job.upgrade_mode = UpgradeMode::Stateless;
            job.parallelism = Some(-1);
        })
    };
    let before = taken_down(&refused(failing("last-state").starting()));
    let under_way = refused(taken_down(&failing("last-state").starting()));
    for scene in [before, under_way] {
        let plan = scene.plan();
        assert!(
            plan.because.contains("the latest checkpoint in HA metadata"),
            "{}",
            described(&plan)
        );
    }
}

#[test]
fn s12_what_once_started_and_left_no_metadata_is_not_rolled_back() {
    let scene = failing("savepoint").starting().without_metadata().path(SAVEPOINT);
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains("it is not rolled back"), "{}", error(&plan));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        the JobManager is starting
          event RollbackRefused: the spec did not become stable in 300s (the JobManager is starting), and it is not rolled back: the job is not running, so its state cannot be saved yet
    "#]],
    );
}

#[test]
fn s12_unreadable_metadata_puts_a_rollback_off() {
    let mut scene = failing("last-state").starting();
    scene.facts.ha_metadata = Fact::Unknown("timeout".to_owned());
    assert!(step_names(&scene.plan()).is_empty());
}

#[test]
fn s12_the_state_that_was_saved_by_a_job_that_started_empty_is_not_dropped() {
    // Java uses the stored mode, which is stateless here, and starts empty.
    let mut scene = failing("last-state").starting();
    scene.store(JobState::Running, UpgradeMode::Stateless);
    let plan = taken_down(&scene).plan();
    assert!(plan.because.contains("the latest checkpoint in HA metadata"), "{}", plan.because);
}

#[test]
fn s12_rows_2_and_3_nothing_is_rolled_back_that_is_changed_stable_or_young() {
    let mut young = failing("last-state").starting();
    young.status.reconciliation_status.reconciliation_timestamp = ago(200).as_millisecond();
    let mut first = failing("last-state").starting();
    first.status.reconciliation_status.last_stable_spec = None;
    let changed = failing("last-state").starting().edit(|spec| spec.image = Some("x".to_owned()));
    let cases = [
        ("young", young, vec![]),
        ("first", first, vec![]),
        ("changed", changed, vec!["record-revision", "write-status", "stop-job-manager"]),
        (
            "off",
            failing("last-state")
                .starting()
                .operator_option("deployment.rollback.enabled", "false"),
            vec![],
        ),
        ("running", failing("last-state"), vec![]),
    ];
    for (name, scene, expected) in cases {
        let plan = scene.plan();
        assert_eq!(step_names(&plan), expected, "{name}: {}", described(&plan));
        assert_ne!(
            plan.status.reconciliation_status.state,
            ReconciliationState::RollingBack,
            "{name}"
        );
    }
    let mut young = failing("last-state").starting();
    young.status.reconciliation_status.reconciliation_timestamp = ago(299).as_millisecond();
    assert_eq!(young.plan().look_again, Some(std::time::Duration::from_secs(1)), "wakes in time");
}

#[test]
fn s12_the_target_needs_high_availability_to_read_its_metadata() {
    let mut scene = failing("last-state").starting();
    let stable = scene.status.reconciliation_status.last_stable_spec.clone().unwrap();
    let mut stable = ReconciledSpec::parse(&stable).unwrap();
    stable.spec.flink_configuration.0.insert("high-availability.type".to_owned(), json!("NONE"));
    scene.status.reconciliation_status.last_stable_spec = Some(stable.to_text());
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
}

#[test]
fn s12_a_crash_between_the_steps_is_harmless() {
    let scene = failing("last-state").starting();
    let plan = scene.plan();
    // Before the JobManager was deleted.
    let before = scene.clone().after(&plan);
    assert_eq!(step_names(&before.plan()), ["write-status", "stop-job-manager"]);
    // Before the new one was created.
    let mut down = taken_down(&scene);
    let plan = down.plan();
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else {
        panic!("{}", described(&plan))
    };
    down.status = (**intent).clone();
    assert!(step_names(&down.plan()).contains(&"create-cluster"));
    // After it was created.
    down.facts.job_manager =
        Fact::Known(Some(JobManager { available_replicas: 0, ..job_manager() }));
    check(
        &down,
        expect![[r#"
        (RolledBack, R LastState, Some(Reconciling), Deploying) RolledBack
        the JobManager was already created
          finish-cluster
    "#]],
    );
}

#[test]
fn s12_what_was_rolled_back_to_and_made_is_saved_before_a_deletion() {
    let scene = failing("savepoint").in_state(JobStatusState::Failed).without_metadata();
    let mut scene = scene.path(SAVEPOINT).operator_option("job.savepoint-on-deletion", "true");
    scene.store(JobState::Running, UpgradeMode::Savepoint);
    scene.facts.checkpoints = Fact::Known(Checkpoints::default());
    let mut down = taken_down(&scene);
    let plan = down.plan();
    assert_eq!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else {
        panic!("{}", described(&plan))
    };
    down.status = (**intent).clone();
    let down = down.delete();

    let mut made = down.clone();
    made.facts.job_manager = Fact::Known(Some(job_manager()));
    made.facts.pods = Fact::Known(vec![pod()]);
    let id = made.status.job_status.job_id.clone().unwrap();
    let [running] = <[Job; 1]>::try_from(job(JobStatusState::Running)).unwrap();
    made.facts.jobs = Fact::Known(vec![Job { id, ..running }]);
    let plan = made.plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
    assert!(!step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));

    // It may have been created and lost.
    let plan = down.plan();
    assert!(step_names(&plan).contains(&"remove-finalizer"), "{}", described(&plan));
    assert!(!step_names(&plan).contains(&"delete-ha-metadata"), "{}", described(&plan));
}

#[test]
fn what_was_rolled_back_to_made_and_lost_is_not_started_from_what_it_had_started_from() {
    let scene = failing("savepoint").in_state(JobStatusState::Failed).without_metadata();
    let mut scene = scene.path(SAVEPOINT);
    scene.store(JobState::Running, UpgradeMode::Savepoint);
    scene.facts.checkpoints = Fact::Known(Checkpoints::default());
    let mut down = taken_down(&scene);
    let plan = down.plan();
    assert_eq!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else {
        panic!("{}", described(&plan))
    };
    down.status = (**intent).clone();
    down.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
    let edited = down.clone().edit(|spec| spec.image = Some("flink:fixed".to_owned()));
    for mut lost in [down, edited] {
        let start = (0..4).find_map(|_| {
            let plan = lost.plan();
            lost.status = (*plan.status).clone();
            restored(&plan)
        });
        assert_eq!(start.as_deref(), Some("KUBERNETES_OPERATOR_LAST_STATE"));
    }
}

#[test]
fn s12_a_user_who_edits_meanwhile_wins() {
    let scene = taken_down(&failing("last-state").starting())
        .edit(|spec| spec.image = Some("flink:fixed".to_owned()));
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Deploying) Deployed
        deploying the job from the latest checkpoint in HA metadata
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[image : flink:new -> flink:fixed]), starting reconciliation.
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:fixed" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
    let suspended = taken_down(&failing("last-state").starting())
        .edit_job(|job| job.state = JobState::Suspended);
    check(
        &suspended,
        expect![[r#"
        (Deployed, S LastState, Some(Finished), Missing) Suspended
        suspended
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.state : running -> suspended]), starting reconciliation.
    "#]],
    );
    let invalid =
        taken_down(&failing("last-state").starting()).edit_job(|job| job.parallelism = Some(-1));
    let plan = invalid.plan();
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::RolledBack);
    assert!(error(&plan).contains("parallelism"), "{}", error(&plan));
}

#[test]
fn s12_an_edit_that_would_lose_the_metadata_waits_for_what_is_rolled_back_to() {
    type Edit = fn(&mut FlinkDeploymentSpec);
    let version: Edit = |spec| spec.flink_version = Some(FlinkVersion::V1_19);
    let zookeeper: Edit = |spec| {
        let options = &mut spec.flink_configuration.0;
        options.insert("high-availability.type".to_owned(), json!("zookeeper"));
        options.insert("high-availability.zookeeper.quorum".to_owned(), json!("zk:2181"));
    };
    let fixed_id: Edit = |spec| {
        let options = &mut spec.flink_configuration.0;
        options.insert("$internal.pipeline.job-id".to_owned(), json!("a".repeat(32)));
    };
    let off: Edit = |spec| {
        let options = &mut spec.flink_configuration.0;
        options.remove("high-availability.type");
        options.remove("kubernetes.operator.deployment.rollback.enabled");
    };
    for edit in [version, zookeeper, fixed_id, off] {
        for state in [JobState::Running, JobState::Suspended] {
            let down = taken_down(&failing("last-state").starting());
            let scene = down.edit(edit).edit_job(|job| job.state = state);
            let plan = scene.plan();
            assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::RolledBack);
            assert!(
                error(&plan).contains("until the last stable spec is running"),
                "{}",
                described(&plan)
            );
            let ha = created(&plan, "high-availability.type");
            assert_eq!(ha.as_deref(), Some("kubernetes"), "{}", described(&plan));
            assert_eq!(created(&plan, "$internal.pipeline.job-id").as_deref(), Some(JOB_ID));
            let last = &plan.status.reconciliation_status.last_reconciled_spec;
            assert_eq!(*last, scene.status.reconciliation_status.last_reconciled_spec);
            assert_eq!(plan.status.observed_generation, scene.status.observed_generation);
            // A running job can be saved, and then the change follows.
            let mut back = scene.after(&plan);
            back.facts.job_manager = Fact::Known(Some(job_manager()));
            back.facts.pods = Fact::Known(vec![pod()]);
            back.facts.jobs = Fact::Known(job(JobStatusState::Running));
            let plan = back.plan();
            assert!(
                step_names(&plan).iter().any(|deed| STOPS.contains(deed)),
                "{}",
                described(&plan)
            );
        }
        // A stateless job has no state to lose.
        let down = taken_down(&failing("last-state").starting());
        let scene = down.edit(edit).edit_job(|job| job.upgrade_mode = UpgradeMode::Stateless);
        let plan = scene.plan();
        assert_eq!(restored(&plan).as_deref(), Some(""), "{}", described(&plan));
    }
}

/// Steps that stop a job and leave a savepoint or a checkpoint recorded.
const STOPS: [&str; 2] = ["stop-with-savepoint", "cancel-job"];

#[test]
fn s12_another_scale_does_not_make_the_failed_spec_the_one_that_runs() {
    let mut back = rolled_back().option("scheduler-mode", "reactive");
    back.resource.spec.mode = Some(DeploymentMode::Standalone);
    let reconciliation = &mut back.status.reconciliation_status;
    for text in [&mut reconciliation.last_reconciled_spec, &mut reconciliation.last_stable_spec] {
        let mut stored = ReconciledSpec::parse(text.as_deref().unwrap()).unwrap();
        stored.spec.mode = Some(DeploymentMode::Standalone);
        *text = Some(stored.to_text());
    }
    back.facts.task_managers = Fact::Known(Some(TaskManagers {
        uid: "d2".to_owned(),
        owner_uid: Some("u1".to_owned()),
        ..TaskManagers::default()
    }));
    let stable = back.status.reconciliation_status.last_stable_spec.clone();
    let plan = back.edit_job(|job| job.parallelism = Some(4)).plan();
    let reconciliation = &plan.status.reconciliation_status;
    assert_eq!(reconciliation.state, ReconciliationState::Upgrading, "{}", described(&plan));
    assert_eq!(reconciliation.last_stable_spec, stable);
    assert!(!step_names(&plan).contains(&"scale-task-managers"), "{}", described(&plan));
}

#[test]
fn s12_rolled_back_it_rests_and_is_maintained() {
    check(
        &rolled_back(),
        expect![[r#"
        (RolledBack, R LastState, Some(Running), Ready) RolledBack
        the job is RUNNING
    "#]],
    );
    let mut lost = rolled_back();
    lost.facts.job_manager = Fact::Known(None);
    lost.facts.pods = Fact::Known(vec![]);
    check(
        &lost,
        expect![[r#"
        (RolledBack, R LastState, Some(Reconciling), Deploying) RolledBack
        recovering the lost JobManager from the latest checkpoint in HA metadata
          event Missing: Missing JobManager deployment
          event RecoverDeployment: Recovering lost deployment
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
}

#[test]
fn s12_a_rolled_back_job_that_fails_is_restarted_with_the_stable_spec() {
    let scene = rolled_back()
        .operator_option("job.restart.failed", "true")
        .in_state(JobStatusState::Failed)
        .path(CHECKPOINT);
    let plan = scene.plan();
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::RollingBack);
    check(
        &taken_down(&scene),
        expect![[r#"
        (RolledBack, R Savepoint, Some(Reconciling), Deploying) RolledBack
        rolled back, starting from s3://lake/chk/7
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/chk/7, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t31_the_stable_spec_again_restarts_nothing() {
    let scene = rolled_back().edit(|spec| spec.image = Some("flink:1.20".to_owned()));
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Running), Ready) Stable
        the spec is the one that has been running since the rollback
    "#]],
    );
}

#[test]
fn t31_an_ingress_that_changes_with_it_is_moved_next() {
    let ingress = serde_json::from_value(serde_json::json!({"template": "a.example.com"}));
    let scene = rolled_back().edit(|spec| {
        spec.image = Some("flink:1.20".to_owned());
        spec.ingress = ingress.unwrap();
    });
    let plan = scene.plan();
    let record = plan.status.reconciliation_status.last_reconciled_spec.clone().unwrap();
    assert!(!record.contains("a.example.com"), "what is not there yet is not on record: {record}");
    let next = scene.after(&plan).plan();
    let moves = |step: &Step| matches!(step, Step::Own(ClusterStep::ApplyIngress(Some(_))));
    assert!(next.steps.iter().any(moves), "{:?}", next.steps);
}

#[test]
fn s12_a_new_spec_is_upgraded_from_what_runs() {
    let scene = rolled_back().edit(|spec| spec.image = Some("flink:newer".to_owned()));
    check(
        &scene,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager and keeping HA metadata
              event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[image : flink:new -> flink:newer]), starting reconciliation.
              event Suspended: Suspending existing deployment.
              record-revision
              event JobStatusChanged: Job status changed from RUNNING to FINISHED
              write-status
              stop-job-manager
        "#]],
    );
    let suspended = rolled_back().edit_job(|job| job.state = JobState::Suspended);
    let mut down = suspended.clone().after(&suspended.plan());
    down.facts.job_manager = Fact::Known(None);
    down.facts.pods = Fact::Known(vec![]);
    check(
        &down,
        expect![[r#"
        (Deployed, S LastState, Some(Finished), Missing) Suspended
        suspended
    "#]],
    );
}

#[test]
fn a_refusal_is_not_the_cause_of_the_next_one() {
    let mut scene = failing("savepoint").gone();
    scene.store(JobState::Running, UpgradeMode::Stateless);
    scene.status.job_status.state = Some(JobStatusState::Failed);
    scene.facts.ha_metadata = Fact::Unknown("no answer".to_owned());
    scene.status.error = Some("{\"message\":\"the sink is gone\"}".to_owned());
    let told = scene.clone().after(&scene.plan());
    let message = error(&scene.plan());
    assert!(message.contains("300s (the sink is gone), and it is not rolled back"), "{message}");
    let plan = told.plan();
    assert_eq!(plan.status.error, told.status.error);
}

#[test]
fn why_a_spec_was_rolled_back_is_reported_until_there_is_another() {
    let back = rolled_back();
    let why = back.status.error.clone().unwrap();
    assert!(why.contains("is rolled back: the JobManager is starting"), "{why}");
    assert_eq!(back.plan().status.error.as_ref(), Some(&why), "nothing is written at rest");
    // New problems are reported beside it, and end.
    let worse = back.clone().starting().pod_problem("CreateContainerConfigError", false);
    let worse = worse.clone().after(&worse.plan());
    let error = worse.status.error.clone().unwrap();
    assert!(error.contains("\"message\":\"[flink-main-container] Create"), "{error}");
    assert!(error.contains("is rolled back: the JobManager is starting"), "{error}");
    assert_eq!(worse.plan().status.error, Some(error));
    let mut better = worse.clone();
    better.facts = back.facts.clone();
    assert_eq!(better.plan().status.error, Some(why));
    let next = better.edit(|spec| spec.image = Some("flink:newer".to_owned()));
    assert_eq!(next.plan().status.error, None);
}

#[test]
fn s12_a_job_that_is_not_listed_for_long_stays_rolled_back() {
    let mut back = rolled_back().operator_option("deployment.rollback.enabled", "true");
    let stable = back.status.reconciliation_status.last_stable_spec.clone();
    back.status.job_status.state = Some(JobStatusState::Reconciling);
    back.status.job_status.update_time = Some(ago(300).as_millisecond().to_string());
    back.status.reconciliation_status.reconciliation_timestamp = ago(300).as_millisecond();
    back.facts.jobs = Fact::Known(vec![]);
    let plan = back.plan();
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::RolledBack);
    assert!(plan.status.error.as_deref().unwrap().contains("Job Not Found"));
    // It is listed at last: the failed spec must not become the stable one.
    let mut listed = back.clone().after(&plan);
    listed.facts.jobs = Fact::Known(job(JobStatusState::Running));
    check(
        &listed,
        expect![[r#"
        (RolledBack, R LastState, Some(Running), Ready) RolledBack
        the job is RUNNING
          event JobStatusChanged: Job status changed from RECONCILING to RUNNING
    "#]],
    );
    assert_eq!(listed.plan().status.reconciliation_status.last_stable_spec, stable);
}

#[test]
fn s12_a_cancel_of_what_was_rolled_back_to_that_vanishes_leaves_it_on_record() {
    let back = rolled_back()
        .operator_option("deployment.rollback.enabled", "true")
        .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
        .edit(|spec| spec.image = Some("flink:newer".to_owned()));
    let plan = back.plan();
    assert!(step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
    let image = |plan: &Plan| {
        let text = plan.status.reconciliation_status.last_reconciled_spec.clone();
        ReconciledSpec::parse(&text.unwrap()).unwrap().spec.image.unwrap()
    };
    assert_eq!(image(&plan), "flink:1.20", "what runs, not what failed");
    // The cancel was lost with its JobManager, and the job still runs; its user sets the failed spec again.
    let mut vanished = back.after(&plan).edit(|spec| spec.image = Some("flink:new".to_owned()));
    vanished.facts.jobs = Fact::Known(vec![]);
    vanished.facts.ha_metadata = Fact::Unknown("no answer".to_owned());
    let plan = vanished.plan();
    let mut again = vanished.after(&plan);
    again.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = again.plan();
    assert_eq!(image(&plan), "flink:1.20");
    let stable = plan.status.reconciliation_status.last_stable_spec.clone().unwrap();
    assert!(stable.contains("flink:1.20"), "{stable}");
    assert!(step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
}
