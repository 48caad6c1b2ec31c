//! One job ran twice, or one change was taken for another.

use api::job::UpgradeMode;
use api::reconciled::ReconciledSpec;
use api::status::JobStatusState;
use jiff::SignedDuration;
use lifecycle::notes::KEEPS_JOBS;
use lifecycle::session_job::plan::{Plan, SessionJobStep, Step};
use lifecycle::world::{Fact, JobManager};
use testing::scene::{JOB_ID, SAVEPOINT, Scene, created, described, job, job_manager, step_names};

use crate::session_job_simulation::Sim;
use crate::simulation::session::Session;

#[test]
fn flink_35831_only_a_start_from_ha_metadata_keeps_the_job_id() {
    let id = |mode: UpgradeMode| {
        let plan = Scene::running("savepoint").path(SAVEPOINT).upgrading(mode).plan();
        created(&plan, "$internal.pipeline.job-id")
            .unwrap_or_else(|| panic!("{}", described(&plan)))
    };
    assert_eq!(id(UpgradeMode::LastState), JOB_ID);
    let from_savepoint = id(UpgradeMode::Savepoint);
    let from_nothing = id(UpgradeMode::Stateless);
    for fresh in [from_savepoint, from_nothing] {
        assert_ne!(fresh, JOB_ID, "Flink would take it for the job that has ended");
        assert_eq!(fresh.len(), 32);
    }
}

fn submitted(plan: &Plan) -> Option<String> {
    plan.steps.iter().find_map(|step| match step {
        Step::Own(SessionJobStep::Submit(submission)) => Some(submission.job_id.clone()),
        _ => None,
    })
}

#[test]
fn flink_38858_a_submission_that_seems_to_fail_is_repeated_under_its_id() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut sim = Sim::new(mode, false);
        let mut ids = Vec::new();
        for _ in 0..60 {
            sim.tick();
            sim.refuses = true;
            ids.extend(submitted(&sim.pass(None)));
        }
        assert!(ids.len() > 2, "{mode}: it is tried again: {ids:?}");
        assert!(ids.iter().all(|id| *id == ids[0]), "{mode}: {ids:?}");
        sim.refuses = false;
        sim.settle();
        assert_eq!(sim.used, ids[..1], "{mode}: the job ran once");
    }
}

#[test]
fn flink_38858_a_submission_whose_answer_was_lost_runs_one_job() {
    let mut sim = Sim::new("savepoint", false);
    while sim.used.is_empty() {
        sim.tick();
        // Flink has it, and the operator ends before it can record that.
        sim.pass(Some(usize::MAX));
    }
    sim.settle();
    assert_eq!(sim.used.len(), 1);
    assert_eq!(sim.jobs.len(), 1);
}

/// Returns the parallelism in the stored spec.
fn stored(plan: &lifecycle::plan::Plan) -> Option<i32> {
    let text = plan.status.reconciliation_status.last_reconciled_spec.as_deref()?;
    ReconciledSpec::parse(text).unwrap().spec.job?.parallelism
}

#[test]
fn flink_28228_a_generation_that_was_deployed_is_not_taken_for_a_newer_one() {
    let mut scene = Scene::running("savepoint")
        .edit_job(|job| job.parallelism = Some(4))
        .upgrading(UpgradeMode::Savepoint)
        .path(SAVEPOINT);
    scene.status.observed_generation = Some(2);
    // Generation 2 was deployed, and before that was observed its user wrote generation 3.
    scene.facts.job_manager = Fact::Known(Some(JobManager {
        generation: Some(2),
        available_replicas: 0,
        ..job_manager()
    }));
    let mut scene = scene.edit_job(|job| job.parallelism = Some(6));
    let adopted = scene.plan();
    assert_eq!(step_names(&adopted), ["finish-cluster"], "{}", described(&adopted));
    assert_eq!(stored(&adopted), Some(4));
    assert_eq!(adopted.status.observed_generation, Some(2));
    // Generation 3 is carried out like any other change.
    scene = scene.after(&adopted);
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    scene.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let upgraded = scene.plan();
    assert!(step_names(&upgraded).contains(&"stop-with-savepoint"), "{}", described(&upgraded));
}

#[test]
fn flink_39165_a_session_cluster_is_not_replaced_while_its_jobs_are_being_stopped() {
    let mut sim = Session::new("native");
    sim.settle();
    (sim.jobs, sim.referring) = (vec![JobStatusState::Running], vec!["a".to_owned()]);
    sim.stopping.clone_from(&sim.referring);
    sim.saved_at = Some(sim.now + SignedDuration::from_hours(1));
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert_eq!((sim.made, sim.message().as_str()), (1, ""));
    sim.stopping.clear();
    sim.saved_at = None;
    sim.settle();
    assert_eq!(sim.made, 2, "with high availability the job comes back");
}

/// The change is made to both at once: the job records its stop after the cluster has looked, and looks at the cluster
/// before it sends the stop.
#[test]
fn flink_39165_a_session_cluster_says_that_it_is_replaced_before_it_counts_stops() {
    let mut sim = Session::new("native");
    sim.settle();
    (sim.jobs, sim.referring) = (vec![JobStatusState::Running], vec!["a".to_owned()]);
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    // The new spec is tried first.
    for _ in 0..30 {
        if keeps_jobs(&sim) {
            break;
        }
        sim.tick();
        sim.pass(None);
    }
    assert!(keeps_jobs(&sim) && sim.is_up(), "it is on record, and nothing is stopped yet");
    sim.stopping.clone_from(&sim.referring);
    sim.pass(None);
    assert!(!keeps_jobs(&sim) && sim.is_up(), "it waits for the job, which is stopped");
    sim.stopping.clear();
    sim.settle();
    assert_eq!(sim.made, 2);
    assert!(!keeps_jobs(&sim), "the next cluster stays");
}

fn keeps_jobs(sim: &Session) -> bool {
    KEEPS_JOBS.get(&sim.status.cluster_info).is_some()
}
