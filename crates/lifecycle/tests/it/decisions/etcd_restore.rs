//! The record of a job was reset with the API server's store and lacks what the job did since.

use lifecycle::transitions::etcd_restore::{Record, went_back};

use super::*;

pub(super) fn went() -> WentBack {
    let scene = Scene::running("savepoint");
    let mut known = scene.status.clone();
    known.job_status.job_id = Some("0000000000000000000000000000000f".to_owned());
    let Record { generation, job: _, reconciliation } = record_of(&scene);
    let known = Record { generation, job: &known.job_status, reconciliation };
    went_back(known, record_of(&scene), None).unwrap()
}

/// Stopped with a savepoint, which is recorded.
fn stopped() -> Scene {
    let mut scene = Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    scene.went_back = Some(went());
    scene
}

fn is_refused(scene: &Scene) -> bool {
    let plan = scene.plan();
    let error = plan.status.error.clone().unwrap_or_default();
    step_names(&plan).is_empty() && error.contains("RecordWentBack")
}

#[test]
fn a_job_is_not_started_from_a_record_that_went_back() {
    let mut scene = stopped();
    assert!(is_refused(&scene), "{}", described(&scene.plan()));
    let metadata = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    assert!(is_refused(&Scene { went_back: Some(went()), ..metadata }));
    let new = Scene { went_back: Some(went()), ..Scene::new("savepoint") };
    assert!(is_refused(&new), "{}", described(&new.plan()));
    let lost = Scene { went_back: Some(went()), ..Scene::running("last-state").gone() };
    assert!(is_refused(&lost), "{}", described(&lost.plan()));
    // The next process reads it from the status.
    scene = scene.clone().after(&scene.plan());
    scene.went_back = None;
    assert!(is_refused(&scene), "{}", described(&scene.plan()));
}

#[test]
fn a_person_may_say_what_to_start_from() {
    let scene = stopped();
    let refused = scene.clone().after(&scene.plan());
    let same = refused.clone().edit(|spec| spec.restart_nonce = Some(1));
    assert!(is_refused(&same), "{}", described(&same.plan()));
    for knows in [true, false] {
        let mut answered = refused.clone().edit_job(|job| {
            job.initial_savepoint_path = Some(CHECKPOINT.to_owned());
            job.savepoint_redeploy_nonce = Some(1);
        });
        answered.went_back = answered.went_back.filter(|_| knows);
        let stored = answered.clone().after(&answered.plan());
        let plan = stored.plan();
        assert_eq!(plan.because, format!("deploying the job from {CHECKPOINT}"), "{knows}");
    }
}

#[test]
fn a_job_without_state_and_one_that_runs_go_on() {
    let stateless = Scene::running("stateless").upgrading(UpgradeMode::Stateless);
    let stateless = Scene { went_back: Some(went()), ..stateless };
    assert_eq!(stateless.plan().because, "deploying the job from empty state");
    let running = Scene { went_back: Some(went()), ..Scene::running("savepoint") };
    assert_eq!(running.plan().status.error, None);
}

#[test]
fn the_same_start_of_the_same_job_is_no_step_back() {
    let scene = Scene::running("savepoint").path(SAVEPOINT);
    assert_eq!(went_back(record_of(&scene), record_of(&scene), None), None);
    let known = went_back(record_of(&scene), record_of(&stopped()), None).unwrap();
    assert!(known.message.contains(JOB_ID) && known.message.contains(SAVEPOINT));
    assert!(known.message.contains("savepointRedeployNonce"), "{}", known.message);
    let error = serde_json::json!({ "message": known.message }).to_string();
    assert_eq!(WentBack::read(&error), Some(known), "the status keeps all of it");
}

/// A record in the middle of a start from an earlier named path is no answer.
#[test]
fn an_answer_to_another_question_does_not_count() {
    let mut scene = Scene::running("savepoint").edit_job(|job| {
        job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    scene = scene.path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    let job = scene.resource.spec.job.clone();
    let known = Scene::running("savepoint");
    scene.went_back = went_back(record_of(&known), record_of(&scene), job.as_ref());
    assert!(is_refused(&scene), "{}", described(&scene.plan()));
    let mut next = scene.clone().after(&scene.plan());
    next.went_back = None;
    assert!(is_refused(&next), "{}", described(&next.plan()));
}

fn record_of(scene: &Scene) -> Record<'_> {
    let status = &scene.status;
    let reconciliation = &status.reconciliation_status;
    Record { generation: status.observed_generation, job: &status.job_status, reconciliation }
}
