//! Hot upgrades: standby pods take over from the running ones, or are removed.

use super::*;
use api::deployment::DeploymentMode;
use api::version::FlinkVersion;
use lifecycle::notes::{PREFLIGHT, Trial};
use lifecycle::plan::SnapshotStep;
use lifecycle::world::{
    PreflightPod, PreflightPods, PreflightState, Question, TaskManagers, Trigger,
};
use render::preflight::Preflight;

/// Returns a standalone job in mode last-state whose image will change.
fn hot() -> Scene {
    let mut scene = Scene::running("last-state").operator_option("job.upgrade.hot.enabled", "true");
    scene.facts.task_managers = Fact::Known(Some(TaskManagers {
        uid: "d2".to_owned(),
        owner_uid: Some("u1".to_owned()),
        is_deleting: false,
        deleting_since: None,
    }));
    let standalone = |spec: &mut FlinkDeploymentSpec| spec.mode = Some(DeploymentMode::Standalone);
    standalone(&mut scene.resource.spec);
    scene.store(JobState::Running, UpgradeMode::LastState);
    scene.edit(|spec| spec.image = Some("flink:1.20.1".to_owned()))
}

/// Returns the preflight that the decision requests.
fn wanted(scene: &Scene) -> Preflight {
    let facts = lifecycle::world::Facts { preflight: Fact::NotAsked, ..scene.answers() };
    match decide(&scene.world(facts)) {
        Err(Question::Preflight(wanted)) => *wanted,
        other => panic!("{other:?}"),
    }
}

fn standing(scene: &mut Scene, wanted: &Preflight, state: &PreflightState) {
    let pod = |pod: &serde_json::Value| PreflightPod {
        name: pod["metadata"]["name"].as_str().unwrap().to_owned(),
        digest: wanted.digest.clone(),
        created: Some(ago(5)),
        state: state.clone(),
    };
    let pods = wanted.pods.iter().map(pod).collect();
    scene.facts.preflight = Fact::Known(PreflightPods { pods, refusal: None });
}

fn end_old_pods(scene: &mut Scene) {
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.task_managers = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
}

/// Returns the plan once the job has completed a checkpoint with this number, which HA metadata names.
fn checkpointed(scene: &mut Scene) -> Plan {
    let asked = scene.plan();
    assert_eq!(step_names(&asked), ["write-status", "take-snapshot"]);
    scene.status = (*asked.status).clone();
    scene.facts.checkpoint = Fact::Known(Trigger::Pending);
    assert!(step_names(&scene.plan()).is_empty(), "it is waited for");
    scene.facts.checkpoint = Fact::Known(Trigger::Completed { path: None, checkpoint: Some(7) });
    scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(7) });
    scene.plan()
}

fn note(plan: &Plan) -> Option<Trial> {
    PREFLIGHT.get(&plan.status.cluster_info)
}

#[test]
fn what_stands_by_takes_over_once_it_is_ready() {
    let mut scene = hot();
    let made = scene.plan();
    assert_eq!(step_names(&made), ["write-status", "make-preflight"]);
    let wanted = wanted(&scene);
    assert!(wanted.is_standby() && wanted.pods.len() == 2, "{}", wanted.pods.len());
    scene.status = (*made.status).clone();
    standing(&mut scene, &wanted, &PreflightState::Pending);
    assert!(step_names(&scene.plan()).is_empty(), "it is waited for");

    standing(&mut scene, &wanted, &PreflightState::Passed);
    let taken_over = checkpointed(&mut scene);
    let ends = ["write-status", "hold-leadership", "stop-job-manager", "stop-task-managers"];
    assert!(step_names(&taken_over).ends_with(&ends), "{:?}", step_names(&taken_over));
    assert!(matches!(note(&taken_over), Some(Trial::StandingBy(_))));

    // The old pods have ended.
    let mut scene = scene.after(&taken_over);
    scene.facts.job_manager = Fact::Known(Some(JobManager { is_stopped: true, ..job_manager() }));
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.task_manager_pods = Fact::Known(vec![]);
    let ended = scene.plan();
    let removed = ["release-leadership", "delete-job-manager", "delete-task-managers"];
    assert_eq!(step_names(&ended), [&["write-status"][..], &removed].concat());
    let mut scene = scene.after(&ended);
    end_old_pods(&mut scene);
    let started = scene.plan();
    let begins = ["write-status", "release-leadership", "create-cluster"];
    assert_eq!(&step_names(&started)[..3], &begins);
    assert_eq!(note(&started), None);
}

#[test]
fn the_lead_is_held_also_after_a_crash_and_where_somebody_else_removed_the_old_job_manager() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standing(&mut scene, &wanted, &PreflightState::Passed);
    scene.status = (*checkpointed(&mut scene).status).clone();
    // The operator died after writing what it was about to do.
    let again = scene.plan();
    let ends = ["hold-leadership", "stop-job-manager", "stop-task-managers"];
    assert!(step_names(&again).ends_with(&ends), "{:?}", step_names(&again));
    end_old_pods(&mut scene);
    let removed = scene.plan();
    let begins = ["write-status", "hold-leadership", "release-leadership", "create-cluster"];
    assert_eq!(&step_names(&removed)[..4], &begins);
}

/// Standby pods are ready, and a checkpoint was requested.
fn asked() -> Scene {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standing(&mut scene, &wanted, &PreflightState::Passed);
    let asked = scene.plan();
    scene.after(&asked)
}

fn trigger_id(scene: &Scene) -> Option<&str> {
    scene.status.job_status.checkpoint_info.as_ref()?.trigger_id.as_deref()
}

#[test]
fn a_checkpoint_that_flink_has_not_heard_of_is_asked_for_again() {
    let mut scene = asked();
    let id = trigger_id(&scene).unwrap().to_owned();
    scene.facts.checkpoint = Fact::Known(Trigger::NotFound);
    let plan = scene.plan();
    let request = plan.steps.iter().find_map(|step| match step {
        Step::Snapshot(SnapshotStep::Take(snapshot)) => Some(&snapshot.request),
        _ => None,
    });
    assert_eq!(request.unwrap().trigger_id, id);
    scene.facts.checkpoint = Fact::Unknown("it does not answer".to_owned());
    assert!(step_names(&scene.plan()).is_empty(), "it is waited for");
}

#[test]
fn without_a_checkpoint_the_upgrade_is_an_ordinary_one() {
    let failed = Trigger::Failed { message: "the disk is full".to_owned() };
    let mut late = asked();
    let info = late.status.job_status.checkpoint_info.as_mut().unwrap();
    info.trigger_timestamp = Some(ago(12 * 60).as_millisecond());
    for (scene, checkpoint, why) in [
        (asked(), failed, "the disk is full"),
        (late, Trigger::Pending, "did not complete within 10m"),
    ] {
        let mut scene = scene;
        scene.facts.checkpoint = Fact::Known(checkpoint);
        let cold = scene.plan();
        assert_eq!(step_names(&cold), ["remove-preflight"], "{}", told(&cold));
        assert!(told(&cold).contains(why), "{}", told(&cold));
        let mut scene = scene.after(&cold);
        assert_eq!(trigger_id(&scene), None);
        scene.facts.preflight = Fact::Known(PreflightPods::default());
        assert!(!wanted(&scene).is_standby());
    }
}

#[test]
fn a_job_that_does_not_run_is_upgraded_the_ordinary_way() {
    let mut scene = hot();
    scene.facts.jobs = Fact::Known(job(JobStatusState::Restarting));
    assert!(!wanted(&scene).is_standby());
    assert!(told(&scene.plan()).contains("the job is not running"), "{}", told(&scene.plan()));
}

#[test]
fn nothing_is_stopped_while_ha_metadata_does_not_name_the_checkpoint() {
    let mut scene = asked();
    scene.facts.checkpoint = Fact::Known(Trigger::Completed { path: None, checkpoint: Some(7) });
    scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(6) });
    let plan = scene.plan();
    assert!(!step_names(&plan).contains(&"hold-leadership"), "{:?}", step_names(&plan));
    assert!(error(&plan).contains("does not name"), "{}", error(&plan));
}

#[test]
fn what_stands_by_does_not_lead_with_an_older_checkpoint() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standing(&mut scene, &wanted, &PreflightState::Passed);
    scene.status = (*checkpointed(&mut scene).status).clone();
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(6) });
    let refused = scene.plan();
    assert!(error(&refused).contains("checkpoint 6"), "{}", error(&refused));
    assert!(step_names(&refused).contains(&"remove-preflight"), "{:?}", step_names(&refused));
    // Nor as an ordinary start.
    let mut scene = scene.after(&refused);
    end_old_pods(&mut scene);
    scene.facts.preflight = Fact::Known(PreflightPods::default());
    let plan = scene.plan();
    assert!(error(&plan).contains("checkpoint 6"), "{}", error(&plan));
    assert!(!step_names(&plan).contains(&"create-cluster"), "{:?}", step_names(&plan));
}

#[test]
fn what_stands_by_for_another_spec_is_removed_before_anything_is_started() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standing(&mut scene, &wanted, &PreflightState::Passed);
    scene.status = (*checkpointed(&mut scene).status).clone();
    end_old_pods(&mut scene);
    let edited = scene.edit(|spec| spec.image = Some("flink:1.20.2".to_owned()));
    let plan = edited.plan();
    assert_eq!(step_names(&plan), ["remove-preflight"]);
    assert_eq!(note(&plan), None);
    let next = Scene { status: (*plan.status).clone(), ..edited }.plan();
    assert!(step_names(&next).contains(&"forget-job-graphs"), "{:?}", step_names(&next));
}

#[test]
fn what_stands_by_is_removed_when_nothing_is_to_start_any_more() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standing(&mut scene, &wanted, &PreflightState::Passed);
    scene.status = (*checkpointed(&mut scene).status).clone();
    scene.facts.pods = Fact::Known(vec![]);
    let suspended = scene.clone().edit_job(|job| job.state = JobState::Suspended);
    for (how, ended) in [("deleted", scene.delete()), ("suspended", suspended)] {
        let plan = ended.plan();
        assert!(step_names(&plan).contains(&"remove-preflight"), "{how}: {:?}", step_names(&plan));
    }
}

#[test]
fn an_upgrade_that_cannot_be_hot_says_why() {
    let told = |scene: &Scene| {
        let events = scene.plan().steps;
        events.into_iter().find_map(|step| match step {
            Step::Event(event) if event.reason == "HotUpgradeSkipped" => Some(event.message),
            _ => None,
        })
    };
    let native = Scene::running("last-state").operator_option("job.upgrade.hot.enabled", "true");
    let native = native.edit(|spec| spec.image = Some("flink:1.20.1".to_owned()));
    assert!(told(&native).unwrap().contains("standalone"), "{:?}", told(&native));
    let version = hot().edit(|spec| spec.flink_version = Some(FlinkVersion::V1_19));
    assert!(told(&version).unwrap().contains("last-state"), "{:?}", told(&version));
    let adaptive = hot().option("jobmanager.scheduler", "adaptive");
    assert!(told(&adaptive).unwrap().contains("adaptive"), "{:?}", told(&adaptive));
    let savepoint = hot().edit_job(|job| job.upgrade_mode = UpgradeMode::Savepoint);
    assert!(told(&savepoint).unwrap().contains("last-state"), "{:?}", told(&savepoint));
    assert_eq!(told(&Scene::running("last-state").edit(|spec| spec.restart_nonce = Some(1))), None);
}

#[test]
fn pods_that_find_no_room_to_stand_by_leave_it_to_an_ordinary_upgrade() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    let reason = "Unschedulable".to_owned();
    let message =
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.".to_owned();
    let in_the_way = PreflightState::Troubled(PodProblem { reason, message });
    standing(&mut scene, &wanted, &in_the_way);
    assert!(step_names(&scene.plan()).is_empty(), "for a while they are waited for");
    scene.facts.preflight = match scene.facts.preflight {
        Fact::Known(PreflightPods { pods, refusal }) => {
            let old = pods.into_iter().map(|pod| PreflightPod { created: Some(ago(20)), ..pod });
            Fact::Known(PreflightPods { pods: old.collect(), refusal })
        }
        other => other,
    };
    let cold = scene.plan();
    assert_eq!(step_names(&cold), ["remove-preflight"]);
    scene.status = (*cold.status).clone();
    scene.facts.preflight = Fact::Known(PreflightPods::default());
    let stopped = scene.plan();
    assert!(
        step_names(&stopped).ends_with(&["write-status", "stop-job-manager"]),
        "{:?}",
        step_names(&stopped)
    );
}
