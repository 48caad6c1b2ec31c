//! What happens to a job's state between its take-down and its next start.

use super::*;

fn another_image(scene: Scene) -> Scene {
    scene.edit(|spec| spec.image = Some("flink:other".to_owned()))
}

/// The JobManager was removed, and its pods are gone.
fn removed(mut scene: Scene) -> Scene {
    let plan = scene.plan();
    scene = scene.after(&plan);
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.jobs = Fact::Unknown("no answer".to_owned());
    scene.facts.checkpoints = Fact::Unknown("no answer".to_owned());
    scene
}

pub(super) fn without_high_availability(scene: Scene) -> Scene {
    scene.option("high-availability.type", "NONE").without_metadata()
}

#[test]
fn metadata_that_lose_their_checkpoint_before_they_are_used_start_nothing() {
    let mut removed = removed(another_image(Scene::running("last-state")));
    assert_eq!(removed.status.reconciliation_status.state, ReconciliationState::Upgrading);
    let start = described(&removed.plan());
    assert!(start.contains("KUBERNETES_OPERATOR_LAST_STATE"), "{start}");

    // The job ended during the take-down, and removed its checkpoints.
    removed.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: None });
    let plan = removed.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    let error = error(&plan);
    assert!(error.contains("names no checkpoint although the job had one"), "{error}");
}

#[test]
fn ha_metadata_that_has_gone_back_is_not_restored() {
    let metadata = |newest| Fact::Known(HaMetadata { has_job: true, checkpoint: Some(newest) });
    let mut scene = another_image(Scene::running("last-state"));
    scene.facts.ha_metadata = metadata(7);
    let plan = scene.plan();
    let mut removed = removed(scene.after(&plan));
    removed.facts.ha_metadata = metadata(6);
    let plan = removed.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert!(error(&plan).contains("names checkpoint 6"), "{}", error(&plan));
    // A checkpoint that completed before the JobManager ended.
    removed.facts.ha_metadata = metadata(8);
    assert!(step_names(&removed.plan()).contains(&"create-cluster"));
    // The Java operator has started the job since, from a savepoint.
    removed.facts.ha_metadata = metadata(6);
    removed.status.job_status.start_time = Some("1795303101000".to_owned());
    assert!(step_names(&removed.plan()).contains(&"create-cluster"));
}

#[test]
fn a_first_checkpoint_that_comes_before_the_job_manager_goes_is_not_gone_by() {
    let scene = another_image(Scene::running("last-state")).path(SAVEPOINT);
    let metadata = |checkpoint| Fact::Known(HaMetadata { has_job: true, checkpoint });
    let mut scene = scene;
    scene.facts.ha_metadata = metadata(None);
    let plan = scene.plan();
    assert_eq!(plan.status.job_status.upgrade_savepoint_path.as_deref(), Some(SAVEPOINT));
    // The operator died before the JobManager was deleted.
    let mut crashed = scene.after(&plan);
    crashed.facts.ha_metadata = metadata(Some(1));
    let mut removed = removed(crashed);
    let path = removed.status.job_status.upgrade_savepoint_path.as_deref();
    assert_eq!(path, Some("KUBERNETES_OPERATOR_LAST_STATE"));
    // It failed during the take-down.
    removed.facts.ha_metadata = metadata(None);
    let plan = removed.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert!(error(&plan).contains("names no checkpoint although"), "{}", error(&plan));
}

#[test]
fn an_invalid_edit_does_not_resume_a_job_that_is_being_suspended() {
    for state in [JobState::Suspended, JobState::Running] {
        let scene = Scene::running("last-state").edit_job(|job| job.state = JobState::Suspended);
        let scene = removed(scene).edit_job(|job| {
            job.state = state;
            job.parallelism = Some(-1);
        });
        let plan = scene.plan();
        let is_started = step_names(&plan).contains(&"create-cluster");
        assert_eq!(is_started, state == JobState::Running, "{}", described(&plan));
        assert!(error(&plan).contains("parallelism"), "{}", error(&plan));
    }
}

#[test]
fn without_high_availability_an_ended_job_that_runs_again_is_not_started_from_its_older_state() {
    let mut scene = without_high_availability(Scene::running("savepoint"))
        .upgrading(UpgradeMode::Savepoint)
        .path(SAVEPOINT);
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    scene.facts.pods = Fact::Known(vec![pod()]);
    let mut scene = another_image(scene);
    scene.status.observed_generation = Some(2);
    let ended = |scene: &Scene, seconds| {
        let mut scene = scene.clone();
        scene.status.job_status.update_time = Some(ago(seconds).as_millisecond().to_string());
        scene
    };
    let is_removed = |scene: &Scene| {
        let plan = scene.plan();
        let is_removed = step_names(&plan).contains(&"delete-job-manager");
        assert_eq!(error(&plan).contains("the job ended with"), !is_removed, "{}", error(&plan));
        is_removed
    };
    for (state, seconds, goes) in [
        (JobStatusState::Finished, 3600, true),
        (JobStatusState::Running, 30, true),
        (JobStatusState::Running, 3600, false),
    ] {
        let mut scene = ended(&scene, seconds);
        scene.facts.jobs = Fact::Known(job(state));
        assert_eq!(is_removed(&scene), goes, "{state:?} {seconds}");
    }
    // The run that ended is not the listed one, however soon that came.
    for state in [JobStatusState::Running, JobStatusState::Finished] {
        let mut scene = ended(&scene, 30);
        let [job] = <[Job; 1]>::try_from(job(state)).unwrap();
        let start_time = ago(10).as_millisecond();
        scene.facts.jobs = Fact::Known(vec![Job { start_time, ..job }]);
        assert!(!is_removed(&scene), "{state:?}");
    }
    // A container that started after the end does not know of it; one that started before still does.
    let mut silent = ended(&scene, 3500);
    silent.facts.jobs = Fact::Unknown("no answer".to_owned());
    assert!(is_removed(&silent));
    let came_up = |seconds| Fact::Known(vec![Pod { last_started: Some(ago(seconds)), ..pod() }]);
    silent.facts.pods = came_up(7200);
    assert!(is_removed(&silent));
    silent.facts.pods = came_up(1800);
    assert!(!is_removed(&silent));
    // A pod that has not started may replace one that has, and so may one that does not exist yet.
    let waits = Pod { created: Some(ago(1800)), has_started: false, ..pod() };
    for pods in [vec![waits], vec![]] {
        let mut replaced = silent.clone();
        replaced.facts.pods = Fact::Known(pods);
        assert!(!is_removed(&replaced));
    }
    // A job that needs no state or names another one is upgraded.
    let again = ended(&scene, 3500);
    assert!(!is_removed(&again));
    assert!(is_removed(&again.clone().edit_job(|job| job.upgrade_mode = UpgradeMode::Stateless)));
    let named = again.edit_job(|job| {
        job.initial_savepoint_path = Some(CHECKPOINT.to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    assert!(is_removed(&named));
}

/// The end is recorded by the operator's clock, and the container's start by the node's.
#[test]
fn without_high_availability_a_run_after_the_end_is_recognised_by_the_clock_of_its_node() {
    let ended = |began: i64, recorded: i64, came_up: i64| {
        let mut scene = another_image(ended());
        let text = |seconds| Some(ago(seconds).as_millisecond().to_string());
        scene.status.job_status.start_time = text(began);
        scene.status.job_status.update_time = text(recorded);
        scene.facts.jobs = Fact::Unknown("no answer".to_owned());
        let at = |seconds| Some(ago(seconds));
        scene.facts.pods =
            Fact::Known(vec![Pod { created: at(7200), last_started: at(came_up), ..pod() }]);
        step_names(&scene.plan()).contains(&"delete-job-manager")
    };
    // It ended 600 seconds ago, and its container restarted at once.
    for ahead in [0, 300, -300] {
        assert!(!ended(3600, 600 - ahead, 590), "{ahead}");
    }
    // It ran for 40 seconds, and ended 60 seconds ago.
    for ahead in [0, 30, -300] {
        assert!(ended(100, 60 - ahead, 110), "{ahead}");
    }
}

/// The intent of a start from `SAVEPOINT`, at which the operator died.
fn started() -> Scene {
    let mut down = removed(another_image(Scene::running("savepoint").path(SAVEPOINT)));
    down.status.job_status.upgrade_savepoint_path = Some(SAVEPOINT.to_owned());
    down.store(JobState::Suspended, UpgradeMode::Savepoint);
    down.status.reconciliation_status.state = ReconciliationState::Upgrading;
    down.status.job_status.savepoint_info = None;
    down = down.without_metadata();
    down.status.job_status.state = Some(JobStatusState::Finished);
    let plan = down.plan();
    assert_eq!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
    down.status = intent(&plan);
    down
}

/// Returns the first status that the plan writes.
pub(super) fn intent(plan: &Plan) -> DeploymentStatus {
    let written = plan.steps.iter().find_map(|step| match step {
        Step::WriteStatus(status) => Some((**status).clone()),
        _ => None,
    });
    written.expect("what is about to start is on record first")
}

const WITH_CHECKPOINT: HaMetadata = HaMetadata { has_job: true, checkpoint: Some(1) };

#[test]
fn a_job_manager_that_was_made_and_lost_before_anything_was_recorded_is_recovered_by_its_metadata()
{
    let mut crashed = started();
    assert_eq!(restored(&crashed.plan()).as_deref(), Some(SAVEPOINT), "it was never made");
    let mut unreadable = crashed.clone();
    unreadable.facts.ha_metadata = Fact::Unknown("no answer".to_owned());
    let plan = unreadable.plan();
    assert_eq!(restored(&plan), None, "{}", described(&plan));
    assert!(error(&plan).contains("it is unknown whether it was"), "{}", error(&plan));
    let mut named = unreadable.edit_job(|job| {
        job.initial_savepoint_path = Some(CHECKPOINT.to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    let plan = named.plan();
    named = named.after(&plan);
    assert_eq!(restored(&named.plan()).as_deref(), Some(CHECKPOINT));
    crashed.facts.ha_metadata = Fact::Known(WITH_CHECKPOINT);
    let plan = crashed.plan();
    assert_ne!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
    let plan = crashed.after(&plan).plan();
    let told = described(&plan);
    assert!(told.contains("KUBERNETES_OPERATOR_LAST_STATE"), "{told}");
}

/// The intent of a first start from `SAVEPOINT`, at which the operator died.
fn started_first(mode: &str) -> Scene {
    let path = Some(SAVEPOINT.to_owned());
    let mut new = Scene::new(mode).edit_job(|job| job.initial_savepoint_path = path);
    let plan = new.plan();
    assert_eq!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
    new.status = intent(&plan);
    new
}

/// Its Deployment is being deleted by someone else.
fn going(scene: &Scene) -> Scene {
    let mut going = scene.clone();
    let generation = going.status.observed_generation;
    let found =
        JobManager { generation, is_deleting: true, available_replicas: 0, ..job_manager() };
    going.facts.job_manager = Fact::Known(Some(found));
    going
}

#[test]
fn a_first_start_is_not_made_again_while_nobody_knows_whether_it_was() {
    let crashed = started_first("savepoint");
    assert_eq!(restored(&crashed.plan()).as_deref(), Some(SAVEPOINT), "it was never made");
    let mut unreadable = crashed.clone();
    unreadable.facts.ha_metadata = Fact::Unknown("no answer".to_owned());
    let plan = unreadable.plan();
    assert_eq!(restored(&plan), None, "{}", described(&plan));
    assert!(error(&plan).contains("it is unknown whether it was"), "{}", error(&plan));
    assert_eq!(plan.status.job_status.job_id, crashed.status.job_status.job_id);
    // Nor is it suspended in the state that it was to start from.
    let suspended = unreadable.clone().edit_job(|job| job.state = JobState::Suspended).plan();
    assert!(error(&suspended).contains("it is unknown whether it was"), "{}", error(&suspended));
    let mut named = unreadable.edit_job(|job| {
        job.initial_savepoint_path = Some(CHECKPOINT.to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    let plan = named.plan();
    named = named.after(&plan);
    assert_eq!(restored(&named.plan()).as_deref(), Some(CHECKPOINT));
    // Without state there is nothing to lose.
    let mut stateless = started_first("stateless");
    stateless.facts.ha_metadata = Fact::Unknown("no answer".to_owned());
    assert_eq!(restored(&stateless.plan()).as_deref(), Some(SAVEPOINT));
}

#[test]
fn a_first_start_whose_job_manager_somebody_deletes_goes_on_by_its_metadata() {
    for wanted in [JobState::Running, JobState::Suspended] {
        let crashed = started_first("savepoint").edit_job(|job| job.state = wanted);
        let mut going = going(&crashed);
        let plan = going.plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        going = going.after(&plan);
        going.facts.job_manager = Fact::Known(None);
        going.facts.ha_metadata = Fact::Known(WITH_CHECKPOINT);
        let mut plan = going.plan();
        let mut all = described(&plan);
        for _ in 0..2 {
            assert_ne!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
            going = going.after(&plan);
            plan = going.plan();
            all += &described(&plan);
        }
        let by_metadata = if wanted == JobState::Running {
            "from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE"
        } else {
            "S LastState"
        };
        assert!(all.contains(by_metadata), "{all}");
        assert_eq!(plan.status.job_status.job_id, crashed.status.job_status.job_id);
    }
}

#[test]
fn a_rollback_is_not_started_again_while_nobody_knows_whether_it_was() {
    let mut rolling_back = started();
    let stable = rolling_back.status.reconciliation_status.last_stable_spec.clone();
    assert!(stable.is_some());
    rolling_back.status.reconciliation_status.state = ReconciliationState::RollingBack;
    rolling_back.facts.ha_metadata = Fact::Unknown("no answer".to_owned());
    for scene in [going(&rolling_back), rolling_back.clone()] {
        let plan = scene.plan();
        assert_eq!(restored(&plan), None, "{}", described(&plan));
    }
    let plan = rolling_back.plan();
    assert!(error(&plan).contains("it is unknown whether it was"), "{}", error(&plan));
    rolling_back.facts.ha_metadata = Fact::Known(WITH_CHECKPOINT);
    let plan = rolling_back.plan();
    assert_ne!(restored(&plan).as_deref(), Some(SAVEPOINT), "{}", described(&plan));
}

#[test]
fn a_job_manager_that_was_made_before_anything_was_recorded_is_saved_before_a_deletion() {
    let option = |scene: Scene| scene.operator_option("job.savepoint-on-deletion", "true");
    let mut made = option(started()).delete();
    let made_for = made.status.observed_generation;
    made.facts.job_manager =
        Fact::Known(Some(JobManager { generation: made_for, ..job_manager() }));
    let id = made.status.job_status.job_id.clone().unwrap();
    made.facts.jobs = Fact::Known(vec![Job { id, ..job(JobStatusState::Running).pop().unwrap() }]);
    let plan = made.plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));

    let plan = option(started()).delete().plan();
    assert!(!step_names(&plan).contains(&"delete-ha-metadata"), "{}", described(&plan));
}

#[test]
fn an_unhealthy_job_that_ends_on_its_way_out_is_not_started_from_older_state() {
    let unhealthy = care::unhealthy("last-state").path(SAVEPOINT);
    let mut down = removed(unhealthy);
    down.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: None });
    let plan = down.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert!(error(&plan).contains("names no checkpoint although"), "{}", error(&plan));
}

#[test]
fn a_cancel_that_may_never_have_arrived_does_not_spare_a_deletion_its_savepoint() {
    let mut scene = Scene::running("stateless")
        .operator_option("job.savepoint-on-deletion", "true")
        .in_state(JobStatusState::Cancelling);
    scene.status.reconciliation_status.state = ReconciliationState::Upgrading;
    scene.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = scene.delete().plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
    assert!(!step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
}

/// The JobManager's container restarted, and runs the job from its original start.
fn run_anew(mut scene: Scene, state: JobStatusState) -> Scene {
    let [job] = <[Job; 1]>::try_from(job(state)).unwrap();
    let start_time = ago(10).as_millisecond();
    scene.facts.jobs = Fact::Known(vec![Job { start_time, ..job }]);
    scene.facts.pods = Fact::Known(vec![Pod { last_started: Some(ago(20)), ..pod() }]);
    scene
}

fn ended() -> Scene {
    let mut scene = without_high_availability(Scene::running("savepoint")).path(SAVEPOINT);
    scene.status.job_status.state = Some(JobStatusState::Failed);
    scene.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    scene.facts.jobs = Fact::Known(job(JobStatusState::Failed));
    scene
}

#[test]
fn without_high_availability_the_record_of_an_ended_job_outlives_its_next_run() {
    let idle = run_anew(ended(), JobStatusState::Running);
    for scene in [idle.clone(), another_image(idle)] {
        let plan = scene.plan();
        assert_eq!(plan.status.job_status.state, Some(JobStatusState::Failed));
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some(SAVEPOINT), "the next run's end must not take its place");
        assert!(!step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
        assert!(error(&plan).contains("the job ended (FAILED) with"), "{}", error(&plan));
    }
    // A run since then that is no longer listed may have got further.
    let mut unlisted = another_image(run_anew(ended(), JobStatusState::Running));
    unlisted.facts.jobs = Fact::Known(vec![]);
    let plan = unlisted.plan();
    assert!(error(&plan).contains("either run may have"), "{}", error(&plan));
    // Its JobManager lists it as it ended, so it is the same run.
    let plan = another_image(ended()).plan();
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

/// Cancelled a minute ago for an upgrade.
fn cancelling() -> Scene {
    let mut cancelling = without_high_availability(Scene::running("last-state"));
    cancelling.status.job_status.state = Some(JobStatusState::Cancelling);
    cancelling.status.job_status.update_time = Some(ago(60).as_millisecond().to_string());
    cancelling.status.reconciliation_status.state = ReconciliationState::Upgrading;
    let mut cancelling = another_image(cancelling);
    cancelling.status.observed_generation = Some(2);
    cancelling
}

#[test]
fn without_high_availability_only_a_spec_that_is_accepted_gives_the_state_of_both_runs_up() {
    let stateless = |parallelism: i32| {
        run_anew(cancelling(), JobStatusState::Running).edit_job(|job| {
            job.upgrade_mode = UpgradeMode::Stateless;
            job.parallelism = Some(parallelism);
        })
    };
    let accepted = deeds_of(&stateless(2));
    assert!(accepted.contains(&"cancel-job"), "it goes on: {accepted:?}");
    let refused = deeds_of(&stateless(-1));
    assert!(!refused.contains(&"cancel-job"), "{refused:?}");
}

#[test]
fn without_high_availability_a_stop_is_not_asked_of_the_next_run() {
    let cancelling = cancelling();
    let again = deeds_of(&cancelling);
    assert!(again.contains(&"cancel-job"), "it never arrived: {again:?}");
    let rerun = run_anew(cancelling.clone(), JobStatusState::Running);
    assert!(error(&rerun.plan()).contains("the job was cancelled"), "{}", error(&rerun.plan()));
    assert!(!deeds_of(&rerun).contains(&"cancel-job"));
    let mut starting = rerun.clone();
    starting.facts.jobs = Fact::Known(vec![]);
    assert!(error(&starting.plan()).contains("the job was cancelled"));
    // Its user knows which of the two should continue.
    let named = rerun.edit_job(|job| {
        job.initial_savepoint_path = Some(CHECKPOINT.to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    assert!(deeds_of(&named).contains(&"delete-job-manager"));

    let deleted = run_anew(ended(), JobStatusState::Running)
        .operator_option("job.savepoint-on-deletion", "true")
        .delete();
    let plan = deleted.plan();
    assert!(!step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

#[test]
fn without_high_availability_a_deletion_does_not_save_the_run_after_a_cancelled_one() {
    let deleted = |scene: Scene| {
        let mut scene = scene.operator_option("job.savepoint-on-deletion", "true").delete();
        scene.status.job_status.state = Some(JobStatusState::Cancelling);
        scene.status.job_status.update_time = Some(ago(60).as_millisecond().to_string());
        scene.status.reconciliation_status.state = ReconciliationState::Upgrading;
        scene
    };
    let cancelling = || without_high_availability(Scene::running("last-state"));
    let rerun = deleted(run_anew(cancelling(), JobStatusState::Running));
    let mut unlisted = rerun.clone();
    unlisted.facts.jobs = Fact::Known(vec![]);
    for scene in [rerun.clone(), unlisted] {
        let plan = scene.plan();
        assert!(!step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
        assert!(error(&plan).contains("the job was cancelled"), "{}", error(&plan));
        assert_eq!(plan.status.job_status.state, Some(JobStatusState::Cancelling));
    }
    // Nothing is known of it yet, and nothing is forgotten.
    let mut silent = deleted(cancelling());
    silent.facts.jobs = Fact::Unknown("no answer".to_owned());
    let plan = silent.plan();
    assert!(plan.because.starts_with("deletion waits for the job to run"), "{}", plan.because);
    assert_eq!(plan.status.job_status.state, Some(JobStatusState::Cancelling));
    // It is the same run.
    assert!(deeds_of(&deleted(cancelling())).contains(&"stop-with-savepoint"));
}

#[test]
fn without_high_availability_a_pending_stop_is_not_taken_for_one_of_the_next_run() {
    let scene = another_image(without_high_availability(Scene::running("savepoint")));
    let stopping = scene.clone().after(&scene.plan());
    let mut rerun = run_anew(stopping, JobStatusState::Running);
    let info = rerun.status.job_status.savepoint_info.as_mut().unwrap();
    info.trigger_timestamp = Some(ago(60).as_millisecond());
    rerun.facts.stop = Fact::Known(Stop::NotFound);
    let plan = rerun.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert!(error(&plan).contains("asked to stop with a savepoint"), "{}", error(&plan));
}

#[test]
fn without_high_availability_the_job_manager_of_a_job_that_may_run_anew_is_not_retired() {
    let scene = ended().operator_option("jm-deployment.shutdown-ttl", "5 min");
    assert!(deeds_of(&scene).contains(&"delete-job-manager"));
    let mut unlisted = run_anew(scene, JobStatusState::Running);
    unlisted.facts.jobs = Fact::Known(vec![]);
    let plan = unlisted.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert!(error(&plan).contains("the job ended (FAILED) with"), "{}", error(&plan));
}

#[test]
fn a_redeploy_to_a_checkpoint_that_its_own_cancel_deletes_is_refused() {
    let own = format!("s3://lake/chk/{JOB_ID}/chk-7");
    let named = |path: &str| {
        let mut scene = Scene::running("last-state").edit_job(|job| {
            job.initial_savepoint_path = Some(path.to_owned());
            job.savepoint_redeploy_nonce = Some(1);
        });
        scene.facts.retention = Fact::Known(false);
        scene
    };
    let refused = named(&own);
    assert_eq!(deeds_of(&refused), [""; 0]);
    assert!(
        error(&refused.plan()).contains("the checkpoint would be deleted"),
        "{}",
        error(&refused.plan())
    );
    assert!(deeds_of(&named(SAVEPOINT)).contains(&"cancel-job"));
    let mut retained = named(&own);
    retained.facts.retention = Fact::Known(true);
    assert!(deeds_of(&retained).contains(&"cancel-job"));
    // No answer: the configured retention applies, because the redeploy may be what resolves it.
    let mut silent = named(&own);
    silent.facts.retention = Fact::Unknown("no answer".to_owned());
    assert!(deeds_of(&silent).contains(&"cancel-job"));
    let mut ended = named(&own);
    ended.status.job_status.state = Some(JobStatusState::Failed);
    ended.facts.jobs = Fact::Known(job(JobStatusState::Failed));
    assert!(deeds_of(&ended).contains(&"delete-job-manager"));
    // A path may not say whose checkpoint it is, or may say that it is another job's.
    assert_eq!(deeds_of(&named("s3://lake/chk/chk-7")), [""; 0]);
    let other = format!("s3://lake/chk/{}/chk-7", "a".repeat(32));
    assert!(deeds_of(&named(&other)).contains(&"cancel-job"));
}

#[test]
fn a_redeploy_to_a_checkpoint_of_a_job_that_nobody_can_cancel_is_made() {
    let own = format!("s3://lake/chk/{JOB_ID}/chk-7");
    let key = "execution.checkpointing.externalized-checkpoint-retention";
    let named = |scene: Scene| {
        let mut scene = scene.option(key, "DELETE_ON_CANCELLATION").edit_job(|job| {
            job.initial_savepoint_path = Some(own.clone());
            job.savepoint_redeploy_nonce = Some(1);
        });
        scene.facts.retention = Fact::Unknown("no answer".to_owned());
        scene
    };
    let lost = named(without_high_availability(Scene::running("savepoint")).gone());
    let plan = lost.plan();
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::Upgrading);
    assert_eq!(restored(&lost.clone().after(&plan).plan()), Some(own.clone()));
    let unlisted = named(Scene::running("savepoint")).unlisted();
    let plan = unlisted.plan();
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::Upgrading);
    // A silent JobManager may still receive the cancellation.
    let silent = named(Scene::running("savepoint").silent());
    assert!(
        error(&silent.plan()).contains("the checkpoint would be deleted"),
        "{}",
        error(&silent.plan())
    );
    // A run after the ended one still has its checkpoints.
    let mut again = run_anew(ended(), JobStatusState::Running).edit_job(|job| {
        job.initial_savepoint_path = Some(own.clone());
        job.savepoint_redeploy_nonce = Some(1);
    });
    again.facts.retention = Fact::Known(false);
    assert!(
        error(&again.plan()).contains("the checkpoint would be deleted"),
        "{}",
        error(&again.plan())
    );
}

fn deeds_of(scene: &Scene) -> Vec<&'static str> {
    step_names(&scene.plan())
}

#[test]
fn an_edit_that_is_refused_starts_no_lost_job_empty() {
    let lost = |mode: &str| Scene::running(mode).option("high-availability.type", "NONE").gone();
    let plan = lost("stateless").without_metadata().plan();
    assert_eq!(
        created(&plan, "execution.savepoint.path"),
        Some(String::new()),
        "{}",
        described(&plan)
    );
    let refused = lost("last-state").without_metadata().edit_job(|job| {
        job.upgrade_mode = UpgradeMode::Stateless;
        job.parallelism = Some(-1);
    });
    let plan = refused.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert!(error(&plan).contains("HA metadata is not available"), "{}", error(&plan));
}

#[test]
fn without_high_availability_a_job_that_failed_before_it_saved_anything_may_run_again() {
    let mut scene = without_high_availability(Scene::running("savepoint")).path(SAVEPOINT);
    scene.status.job_status.state = Some(JobStatusState::Failed);
    let [found] = <[Job; 1]>::try_from(job(JobStatusState::Running)).unwrap();
    scene.status.job_status.start_time = Some(found.start_time.to_string());
    let start_time = ago(10).as_millisecond();
    scene.facts.jobs = Fact::Known(vec![Job { start_time, ..found }]);
    for (path, is_reported) in [(SAVEPOINT, false), (CHECKPOINT, true)] {
        let latest = Some(CompletedState { path: path.to_owned(), at: None });
        scene.facts.checkpoints = Fact::Known(Checkpoints { latest, ..Checkpoints::default() });
        let plan = scene.plan();
        assert_eq!(
            error(&plan).contains("runs the job again"),
            is_reported,
            "{path}: {}",
            error(&plan)
        );
        let state = if is_reported { JobStatusState::Failed } else { JobStatusState::Running };
        assert_eq!(plan.status.job_status.state, Some(state), "{path}");
    }
}
