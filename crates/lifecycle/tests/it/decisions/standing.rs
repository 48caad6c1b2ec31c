//! What tools that know nothing of Flink say of a resource, by the rules that they go by.

use std::fmt::Write as _;

use api::PAUSED_ANNOTATION;
use api::status::Condition;
use lifecycle::conditions::of_type;
use lifecycle::standing::{READY, RECONCILING, STALLED};
use lifecycle::upgrade_budget::Turn;
use testing::sources::path;

use super::*;

fn is_true(conditions: &[Condition], type_: &str) -> bool {
    of_type(conditions, type_).is_some_and(|it| it.status.as_deref() == Some("True"))
}

/// The rules of kstatus for a kind that it does not know: `status.observedGeneration` comes before all conditions.
fn kstatus(scene: &Scene, plan: &Plan) -> &'static str {
    let (metadata, status) = (&scene.resource.metadata, &plan.status);
    if metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let is_behind =
        status.observed_generation.is_some() && status.observed_generation != metadata.generation;
    if is_behind || is_true(&status.conditions, RECONCILING) {
        return "InProgress";
    }
    match (is_true(&status.conditions, STALLED), is_true(&status.conditions, READY)) {
        (true, _) => "Failed",
        (false, true) => "Current",
        (false, false) => "InProgress",
    }
}

/// `kubectl wait` goes by the generation of the condition, if it has one.
fn waits(scene: &Scene, plan: &Plan, type_: &str) -> &'static str {
    let condition = of_type(&plan.status.conditions, type_);
    let is_current = |it: &Condition| it.observed_generation == scene.resource.metadata.generation;
    if condition.is_some_and(is_current) && is_true(&plan.status.conditions, type_) {
        "met"
    } else {
        "waits"
    }
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
    let mut table = "| | `lifecycleState` | `Ready` | kstatus | `kubectl wait --for=condition=Ready` | `…=Stalled` |\n|---|---|---|---|---|---|\n".to_owned();
    for (what, scene) in rows {
        let plan = scene.plan();
        let ready = of_type(&plan.status.conditions, READY).unwrap();
        let state = plan.status.lifecycle_state.map_or("-", |state| state.into_str());
        writeln!(
            table,
            "| {what} | {state} | {}, {} | {} | {} | {} |",
            ready.status.as_deref().unwrap(),
            ready.reason.as_deref().unwrap(),
            kstatus(&scene, &plan),
            waits(&scene, &plan, READY),
            waits(&scene, &plan, STALLED),
        )
        .unwrap();
    }
    let page = std::fs::read_to_string(path("docs/gitops.md")).unwrap();
    assert!(page.contains(&table), "docs/gitops.md says otherwise than:\n{table}");
}

#[test]
fn an_idle_operator_writes_no_condition_again() {
    let scene = Scene::running("savepoint");
    let plan = scene.plan();
    let again = scene.after(&plan).plan();
    assert_eq!(again.status, plan.status);
}
