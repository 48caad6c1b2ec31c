//! What tools that know nothing of Flink say of a resource, by the rules that they go by.

use std::fmt::Write as _;

use api::PAUSED_ANNOTATION;
use lifecycle::world::Turn;
use serde_json::Value;
use testing::sources::path;
use testing::tools;

use super::*;

/// The resource with the status that the plan ends with.
fn object(scene: &Scene, plan: &Plan) -> Value {
    let mut object = serde_json::to_value(&scene.resource).unwrap();
    object["status"] = serde_json::to_value(&plan.status).unwrap();
    object
}

fn edited() -> Scene {
    Scene::running("savepoint").edit(|spec| spec.image = Some("flink:1.20.1".to_owned()))
}

fn with_turn(turn: Turn) -> Scene {
    let mut scene = edited();
    scene.facts.turn = Fact::Known(turn);
    scene
}

fn paused(mut scene: Scene) -> Scene {
    let annotations = scene.resource.metadata.annotations.get_or_insert_default();
    annotations.insert(PAUSED_ANNOTATION.to_owned(), "true".to_owned());
    scene
}

fn restarting() -> Scene {
    let mut scene = Scene::running("savepoint").in_state(JobStatusState::Restarting);
    scene.status.job_status.update_time = Some(ago(5).as_millisecond().to_string());
    scene
}

fn upgrading() -> Scene {
    edited().upgrading(UpgradeMode::Savepoint).path("s3://lake/sp/savepoint-1")
}

#[test]
fn tools_say_of_a_resource_what_its_status_says() {
    let rows = [
        ("a first deployment starts", Scene::new("savepoint")),
        ("the job runs", Scene::running("savepoint")),
        ("the job restarts", restarting()),
        ("the job has finished", Scene::running("savepoint").in_state(JobStatusState::Finished)),
        ("the job has failed", Scene::running("savepoint").in_state(JobStatusState::Failed)),
        ("an edit waits for its turn", with_turn(Turn::Waits)),
        ("upgrades are paused", with_turn(Turn::Paused)),
        (
            "an edit is invalid",
            Scene::running("savepoint").edit_job(|job| job.parallelism = Some(0)),
        ),
        ("the old job is being stopped", edited()),
        ("the new job is being started", upgrading()),
        (
            "it is unknown which state to restore",
            Scene::running("last-state").gone().without_metadata(),
        ),
        (
            "the job is suspended",
            Scene::running("savepoint")
                .edit_job(|job| job.state = JobState::Suspended)
                .suspended(UpgradeMode::Savepoint),
        ),
        ("an edit of a paused resource", paused(edited())),
        ("the resource is being deleted", Scene::running("savepoint").delete()),
    ];
    let mut table = "| | `lifecycleState` | `Ready` | kstatus | `kubectl wait --for=condition=Ready` | `…=Stalled` | Flux, as in `flux.yaml` | Argo CD | with our script |\n|---|---|---|---|---|---|---|---|---|\n".to_owned();
    for (what, scene) in rows {
        let plan = scene.plan();
        let state = plan.status.lifecycle_state.map_or("-", |state| state.into_str());
        let object = object(&scene, &plan);
        writeln!(
            table,
            "| {what} | {state} | {} | {} | {} |",
            tools::cells(&object),
            tools::argo_cd(&object),
            tools::argo_cd_with_our_script(&object).0,
        )
        .unwrap();
    }
    let page = std::fs::read_to_string(path("docs/gitops.md")).unwrap();
    assert!(page.contains(&table), "docs/gitops.md says otherwise than:\n{table}");
}

/// Unlike the others, these have no conditions.
#[test]
fn our_scripts_for_argo_cd_say_how_session_jobs_and_snapshots_are() {
    let job = |generation: i64, status: Value| json!({"kind": "FlinkSessionJob", "metadata": {"generation": generation}, "status": status});
    let status = |lifecycle: &str, state: &str, error: Value| {
        json!({"lifecycleState": lifecycle, "observedGeneration": 2, "error": error,
            "jobStatus": {"state": state}})
    };
    let snapshot = |status: Value| json!({"kind": "FlinkStateSnapshot", "metadata": {"generation": 1}, "status": status});
    let described = |object: Value| tools::argo_cd_with_our_script(&object);
    let said = |status: &str, message: &str| (status.to_owned(), message.to_owned());
    for (object, expected) in [
        (job(2, json!(null)), said("Progressing", "no operator has looked at it yet")),
        (job(2, status("STABLE", "RUNNING", json!(null))), said("Healthy", "the job is RUNNING")),
        (
            job(2, status("STABLE", "RESTARTING", json!(null))),
            said("Progressing", "the job is RESTARTING"),
        ),
        (
            job(3, status("STABLE", "RUNNING", json!(null))),
            said("Progressing", "the spec is not carried out yet"),
        ),
        (job(3, status("STABLE", "RUNNING", json!("refused"))), said("Degraded", "refused")),
        (
            job(2, status("SUSPENDED", "FINISHED", json!(null))),
            said("Suspended", "the job is suspended"),
        ),
        (job(2, status("FAILED", "FAILED", json!(null))), said("Degraded", "the job is FAILED")),
        (
            snapshot(json!({"state": "COMPLETED", "path": "s3://lake/sp/1"})),
            said("Healthy", "s3://lake/sp/1"),
        ),
        (snapshot(json!({"state": "IN_PROGRESS"})), said("Progressing", "IN_PROGRESS")),
        (snapshot(json!({"state": "FAILED", "error": "no space"})), said("Degraded", "no space")),
    ] {
        assert_eq!(described(object.clone()), expected, "{object}");
    }
}

#[test]
fn an_idle_operator_writes_no_condition_again() {
    let scene = Scene::running("savepoint");
    let plan = scene.plan();
    let again = scene.after(&plan).plan();
    assert_eq!(again.status, plan.status);
}
