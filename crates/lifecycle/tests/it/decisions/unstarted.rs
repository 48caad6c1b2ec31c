//! A JobManager that never ran: §8 A2. The state its job was to start from is the job's newest state, unless it does
//! start after all.

use super::taken_down::{intent, without_high_availability};
use super::*;

/// Returns a JobManager whose image cannot be pulled, of a job that was to start from a savepoint.
fn unstarted() -> Scene {
    let mut scene = Scene::running("savepoint")
        .starting()
        .without_metadata()
        .path(SAVEPOINT)
        .pod_problem("ImagePullBackOff", false);
    scene.store(JobState::Running, UpgradeMode::Savepoint);
    scene.facts.job_manager = Fact::Known(Some(never_available()));
    scene
}

/// The version in which it was seen never to have run.
fn seen() -> DeploymentVersion {
    DeploymentVersion { resource: "77".to_owned(), generation: 1 }
}

fn never_available() -> JobManager {
    JobManager {
        available_replicas: 0,
        was_never_available: true,
        version: Some(seen()),
        ..job_manager()
    }
}

fn to_another_image(scene: Scene) -> Scene {
    scene.edit(|spec| spec.image = Some("flink:other".to_owned()))
}

/// The JobManager has no replicas any more, and no pods.
fn stopped(scene: &Scene) -> Scene {
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(Some(JobManager {
        is_deleting: true,
        is_stopped: true,
        is_stopped_unstarted: true,
        ..never_available()
    }));
    scene.facts.pods = Fact::Known(vec![]);
    scene
}

fn removed(scene: &Scene) -> Scene {
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(None);
    scene
}

fn start_of(scene: &Scene) -> String {
    let told = described(&scene.plan());
    told.lines().find(|line| line.contains("create-cluster")).unwrap_or(&told).trim().to_owned()
}

#[test]
fn an_unstarted_job_manager_is_prevented_from_starting_before_anything_is_decided() {
    let scene = to_another_image(unstarted());
    let plan = scene.plan();
    let stop =
        Step::Own(ClusterStep::StopJobManager { uid: job_manager().uid, unstarted: Some(seen()) });
    assert!(plan.steps.contains(&stop), "{}", described(&plan));
    assert_eq!(
        step_names(&plan),
        ["write-status", "stop-job-manager"],
        "its start is on record as done"
    );
    let state = &plan.status.reconciliation_status;
    assert_eq!(state.state, ReconciliationState::Deployed, "the change is still to be made");
    assert_eq!(state.last_reconciled_spec, scene.status.reconciliation_status.last_reconciled_spec);

    let stopped = stopped(&scene);
    assert_eq!(step_names(&stopped.plan()), ["write-status", "delete-job-manager"]);
    let removed = removed(&stopped);
    let plan = removed.plan();
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::Upgrading);
    let start = start_of(&removed.clone().after(&plan));
    assert!(start.contains("flink:other") && start.contains(SAVEPOINT), "{start}");
}

#[test]
fn an_unstarted_job_manager_that_started_while_the_operator_was_away_is_not_taken_for_unstarted() {
    let scene = to_another_image(unstarted());
    let mut started = scene.clone().after(&scene.plan());
    started.facts = Scene::running("savepoint").facts;
    let step_names = step_names(&started.plan());
    assert!(
        step_names.contains(&"stop-with-savepoint"),
        "its newest state is saved: {step_names:?}"
    );
}

#[test]
fn an_unstarted_job_manager_that_started_before_it_was_stopped_leaves_its_state_in_metadata() {
    let mut removed = removed(&stopped(&to_another_image(unstarted())));
    removed.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
    let start = start_of(&removed.clone().after(&removed.plan()));
    assert!(start.contains("KUBERNETES_OPERATOR_LAST_STATE"), "{start}");
}

#[test]
fn an_unstarted_job_manager_that_comes_to_run_on_its_way_out_is_none() {
    let mut ending = stopped(&to_another_image(unstarted()));
    let ending_pod = |has_started| Pod { has_started, ending_since: Some(ago(1)), ..pod() };
    ending.facts.pods = Fact::Known(vec![ending_pod(false)]);
    assert_eq!(step_names(&ending.plan()), [""; 0]);
    ending.facts.pods = Fact::Known(vec![ending_pod(true)]);
    let plan = ending.plan();
    let stop = Step::Own(ClusterStep::StopJobManager { uid: job_manager().uid, unstarted: None });
    assert!(plan.steps.contains(&stop), "{}", described(&plan));
}

#[test]
fn an_unstarted_job_manager_stays_unstarted_while_its_pod_is_not_terminating() {
    let mut ending = stopped(&to_another_image(unstarted()));
    ending.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    let waiting = Pod { has_started: false, ending_since: None, ..pod() };
    ending.facts.pods = Fact::Known(vec![waiting]);
    let plan = ending.plan();
    assert_eq!(step_names(&plan), [""; 0], "it was deployed long ago: {}", described(&plan));
    ending.facts.pods = Fact::Known(vec![]);
    let start = start_of(&removed(&removed(&ending)));
    assert!(start.contains("flink:other") && start.contains(SAVEPOINT), "{start}");
}

#[test]
fn an_unstarted_job_manager_that_had_replicas_again_is_none() {
    let mut ending = stopped(&to_another_image(unstarted()));
    if let Fact::Known(Some(job_manager)) = &mut ending.facts.job_manager {
        job_manager.is_stopped_unstarted = false;
    }
    let removed = removed(&ending);
    let plan = removed.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert!(error(&plan).contains("Manual restore required"), "{}", error(&plan));
    ending.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    // A pod that is not ending belongs to replicas that someone added.
    ending.facts.pods = Fact::Known(vec![Pod { ending_since: None, ..pod() }]);
    let stop = Step::Own(ClusterStep::StopJobManager { uid: job_manager().uid, unstarted: None });
    assert!(ending.plan().steps.contains(&stop), "{}", described(&ending.plan()));
}

#[test]
fn a_change_that_is_taken_back_makes_an_unstarted_job_manager_again() {
    let back = |scene: Scene| scene.edit(|spec| spec.image = unstarted().resource.spec.image);
    let scene = to_another_image(unstarted());
    for recovery in ["true", "false"] {
        let scene = scene.clone().operator_option("jm-deployment-recovery.enabled", recovery);
        for scene in [removed(&back(stopped(&scene))), back(removed(&stopped(&scene)))] {
            let start = start_of(&scene);
            assert!(start.contains("flink:1.20") && start.contains(SAVEPOINT), "{start}");
        }
    }
}

/// As for any other start whose intent an operator died at, nothing more is known, unless there is HA metadata that
/// cannot be read.
#[test]
fn an_unstarted_job_manager_is_made_again_by_the_operator_after_the_one_that_died_at_that() {
    let back = |scene: Scene| scene.edit(|spec| spec.image = unstarted().resource.spec.image);
    for scene in [unstarted(), without_high_availability(unstarted())] {
        let mut dying = back(removed(&stopped(&to_another_image(scene))));
        let start = start_of(&dying);
        dying.status = intent(&dying.plan());
        assert_eq!(start_of(&dying), start);
    }
}

#[test]
fn a_change_that_an_unstarted_job_manager_was_removed_for_is_waited_for_a_minute() {
    let removed = removed(&stopped(&to_another_image(unstarted())));
    let invalid = removed.edit_job(|job| job.parallelism = Some(-1));
    let plan = invalid.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    let mut later = invalid.clone().after(&plan);
    let long_ago = ago(60).to_string();
    later.status.cluster_info.insert("RemovedUnstarted".to_owned(), long_ago);
    let start = start_of(&later);
    assert!(start.contains("flink:1.20") && start.contains(SAVEPOINT), "{start}");
}

/// The Java operator started it meanwhile, and left the note unchanged.
#[test]
fn an_unstarted_job_manager_that_another_operator_made_since_is_none() {
    let back = |scene: Scene| scene.edit(|spec| spec.image = unstarted().resource.spec.image);
    let noted = removed(&stopped(&to_another_image(unstarted())));
    let mut deployed = noted.clone();
    deployed.status.reconciliation_status.reconciliation_timestamp = ago(-60).as_millisecond();
    let mut seen = noted.clone();
    seen.status.job_status.start_time = Some(ago(-60).as_millisecond().to_string());
    for scene in [deployed, seen] {
        for scene in [scene.clone(), back(scene)] {
            let plan = scene.plan();
            assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
            assert!(error(&plan).contains("HA metadata is not available"), "{}", error(&plan));
        }
    }
}

#[test]
fn a_first_start_waits_for_the_pods_of_an_earlier_cluster_of_its_name() {
    let mut scene = Scene::new("stateless");
    scene.facts.pods = Fact::Known(vec![Pod { ending_since: Some(ago(3)), ..pod() }]);
    let plan = scene.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert_eq!(plan.status.error, None);
    scene.facts.pods = Fact::Known(vec![pod()]);
    let plan = scene.plan();
    assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
    assert!(error(&plan).contains("[orders-x]"), "{}", error(&plan));
    scene.facts.pods = Fact::Known(vec![]);
    assert!(step_names(&scene.plan()).contains(&"create-cluster"));
}
