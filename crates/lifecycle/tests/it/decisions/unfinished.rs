//! Objects of a cluster that the API server rejects: before a job is stopped for them, and beside a running JobManager.

use lifecycle::notes::UNFINISHED_DEPLOYMENT;

use super::*;

const REFUSAL: &str = "Service `orders-rest` cannot be made: `bad key!` is no annotation";
const ANNOTATIONS: &str = "kubernetes.rest-service.annotations";

fn annotated(spec: &mut FlinkDeploymentSpec) {
    spec.flink_configuration.0.insert(ANNOTATIONS.to_owned(), json!("bad key!:x"));
}

fn suspend(scene: Scene) -> Scene {
    scene.edit_job(|job| job.state = JobState::Suspended)
}

#[test]
fn a_job_is_not_stopped_for_objects_that_the_api_server_refuses() {
    for mode in ["stateless", "savepoint", "last-state"] {
        for redeploy in [false, true] {
            let mut scene = Scene::running(mode).edit(annotated);
            if redeploy {
                scene = scene.edit_job(|job| {
                    job.savepoint_redeploy_nonce = Some(7);
                    job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
                });
            }
            scene.facts.refusal = Fact::Known(Some(REFUSAL.to_owned()));
            let plan = scene.plan();
            assert_eq!(step_names(&plan), [""; 0], "{mode}");
            assert!(error(&plan).starts_with(REFUSAL), "{mode}: {}", error(&plan));
            assert_eq!(plan.status.job_status.state, Some(JobStatusState::Running), "{mode}");

            // If the API server cannot be asked, nothing is known.
            scene.facts.refusal = Fact::Unknown("it is away".to_owned());
            assert_eq!(step_names(&scene.plan()), [""; 0], "{mode}");
            scene.facts.refusal = Fact::Known(None);
            assert_ne!(step_names(&scene.plan()), [""; 0], "{mode}");
            // A suspended job needs no new objects.
            scene.facts.refusal = Fact::NotAsked;
            assert_ne!(step_names(&suspend(scene).plan()), [""; 0], "{mode}");
        }
    }
}

/// Only the intent of the start is recorded: its JobManager was created.
fn made(mode: &str) -> Scene {
    let mut scene = Scene::running(mode).path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    scene.facts.pods = Fact::Known(vec![pod()]);
    scene
}

/// A start that is complete except for a rejected object.
fn unfinished(mode: &str) -> Scene {
    let mut scene = Scene::running(mode);
    scene.status.cluster_info.insert(UNFINISHED_DEPLOYMENT.key.to_owned(), "d1".to_owned());
    scene
}

/// Returns the REST Service that the plan creates beside the JobManager.
fn rest_service(plan: &Plan) -> serde_json::Value {
    let made = plan.steps.iter().find_map(|step| match step {
        Step::Own(ClusterStep::FinishCluster(objects)) => objects.services.last().cloned(),
        _ => None,
    });
    made.unwrap_or_else(|| panic!("{}", described(plan)))
}

#[test]
fn what_is_missing_alongside_a_job_manager_is_made_while_nothing_else_is_wanted() {
    let plan = made("savepoint").plan();
    assert_eq!(step_names(&plan), ["finish-cluster"]);
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::Deployed);

    let mut scene = unfinished("savepoint");
    let plan = scene.plan();
    assert_eq!(step_names(&plan), ["finish-cluster"]);
    assert!(
        !plan.status.cluster_info.contains_key(UNFINISHED_DEPLOYMENT.key),
        "the last refusal is over"
    );
    assert_eq!(plan.because, "the job is RUNNING", "it is looked after all the same");
    // A different JobManager lacks nothing.
    scene.status.cluster_info.insert(UNFINISHED_DEPLOYMENT.key.to_owned(), "d0".to_owned());
    assert_eq!(step_names(&scene.plan()), [""; 0]);
}

#[test]
fn an_edit_is_followed_although_something_is_missing_alongside_the_job_manager() {
    let edits: [fn(Scene) -> Scene; 2] =
        [suspend, |scene| scene.edit(|spec| spec.restart_nonce = Some(1))];
    for edited in edits {
        let plan = edited(unfinished("stateless")).plan();
        assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
        // After a crash its creation is recorded first, whatever is rejected beside it.
        let crashed = edited(made("stateless"));
        let adopted = crashed.plan();
        assert_eq!(step_names(&adopted), ["finish-cluster"], "{}", described(&adopted));
        let mut refused = crashed.after(&adopted);
        refused.status.cluster_info.insert(UNFINISHED_DEPLOYMENT.key.to_owned(), "d1".to_owned());
        let plan = refused.plan();
        assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
    }
    let plan = suspend(unfinished("savepoint")).plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
}

#[test]
fn what_was_refused_is_made_by_the_spec_that_mends_it() {
    let refused = |scene: Scene| {
        let stored = scene.clone().edit(annotated).resource;
        let mut scene = Scene { resource: stored, ..scene };
        scene.store(JobState::Running, UpgradeMode::Savepoint);
        scene.status.observed_generation = Some(2);
        scene
    };
    let mended = |scene: Scene| {
        scene.edit(|spec| drop(spec.flink_configuration.0.shift_remove(ANNOTATIONS)))
    };
    // Its JobManager cannot be reached, and so the job cannot be saved yet.
    let scene = refused(unfinished("savepoint").silent().without_metadata());
    let annotations = |plan: &Plan| rest_service(plan)["metadata"]["annotations"].clone();
    assert_eq!(annotations(&scene.plan()), json!({"bad key!": "x"}));
    let plan = mended(scene.clone()).plan();
    assert_eq!(annotations(&plan), json!(null), "{}", described(&plan));
    assert_eq!(step_names(&plan), ["finish-cluster"], "{}", described(&plan));
    // A job that only stops applies nothing new.
    assert_eq!(annotations(&suspend(scene).plan()), json!({"bad key!": "x"}));
}
