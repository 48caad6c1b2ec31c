//! Hot upgrades: standby pods take over from the running ones, or are removed.

use std::time::Duration;

use super::*;
use api::deployment::DeploymentMode;
use api::version::FlinkVersion;
use lifecycle::notes::{HANDED_OVER, PREFLIGHT, Standby, Trial};
use lifecycle::plan::SnapshotStep;
use lifecycle::world::{
    Leader, PreflightPod, PreflightPods, PreflightState, Question, StandbyPod, TaskManagers,
    Trigger,
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
    scene.facts.task_manager_pods = Fact::Known(vec![pod()]);
    scene.facts.standby_pods = Fact::Known(vec![]);
    scene.facts.leader = Fact::Known(Leader::Other);
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

fn standby(scene: &mut Scene, wanted: &Preflight, state: &PreflightState) {
    let pod = |pod: &serde_json::Value| PreflightPod {
        name: pod["metadata"]["name"].as_str().unwrap().to_owned(),
        digest: wanted.digest.clone(),
        created: Some(ago(5)),
        state: state.clone(),
    };
    let pods = wanted.pods.iter().map(pod).collect();
    scene.facts.preflight = Fact::Known(PreflightPods { pods, refusal: None });
    let run = &wanted.pods[0]["metadata"]["annotations"][api::STANDBY_ANNOTATION];
    scene.facts.standby_pods = Fact::Known(standby_pods(run.as_str().unwrap()));
}

/// Returns a JobManager and a TaskManager that stand by.
fn standby_pods(run: &str) -> Vec<StandbyPod> {
    let pod = |name: &str, is_job_manager| StandbyPod {
        name: format!("orders-{run}-{name}-1"),
        run: run.to_owned(),
        is_job_manager,
        ..StandbyPod::default()
    };
    vec![pod("jobmanager", true), pod("taskmanager", false)]
}

fn standby_pods_of(scene: &mut Scene) -> &mut Vec<StandbyPod> {
    match &mut scene.facts.standby_pods {
        Fact::Known(pods) => pods,
        other => panic!("{other:?}"),
    }
}

/// The JobManager's Deployment has no replicas any more.
fn stop_job_manager(scene: &mut Scene) {
    scene.facts.job_manager = Fact::Known(Some(JobManager {
        is_stopped: true,
        is_deleting: true,
        available_replicas: 0,
        ..job_manager()
    }));
    let ending = Pod { ending_since: Some(ago(-30)), ..pod() };
    scene.facts.pods = Fact::Known(vec![ending]);
}

fn end_old_pods(scene: &mut Scene) {
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.task_managers = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.task_manager_pods = Fact::Known(vec![]);
}

/// Returns the scene in which the operator has just stopped the old JobManager.
fn taken_over() -> Scene {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standby(&mut scene, &wanted, &PreflightState::Passed);
    scene.status = (*checkpointed(&mut scene).status).clone();
    stop_job_manager(&mut scene);
    scene
}

/// Returns the scene in which the lock was released and the old cluster is gone.
fn led() -> Scene {
    let mut scene = taken_over();
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.task_manager_pods = Fact::Known(vec![]);
    let released = scene.plan();
    assert!(step_names(&released).contains(&"release-leadership"), "{:?}", step_names(&released));
    let mut scene = scene.after(&released);
    end_old_pods(&mut scene);
    scene
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
    assert_eq!(note(&made), Some(Trial::WarmingUp));
    let wanted = wanted(&scene);
    assert!(wanted.is_standby() && wanted.pods.len() == 2, "{}", wanted.pods.len());
    scene.status = (*made.status).clone();
    standby(&mut scene, &wanted, &PreflightState::Pending);
    assert!(step_names(&scene.plan()).is_empty(), "it is waited for");

    standby(&mut scene, &wanted, &PreflightState::Passed);
    let taken_over = checkpointed(&mut scene);
    let ends = ["write-status", "hold-leadership", "stop-job-manager"];
    assert!(step_names(&taken_over).ends_with(&ends), "{:?}", step_names(&taken_over));
    assert!(matches!(note(&taken_over), Some(Trial::StandingBy(_))));

    // The old pods have ended.
    let mut scene = scene.after(&taken_over);
    stop_job_manager(&mut scene);
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.task_manager_pods = Fact::Known(vec![]);
    let ended = scene.plan();
    let removed = ["release-leadership", "delete-job-manager", "delete-task-managers"];
    assert_eq!(step_names(&ended), [&["hold-leadership", "write-status"][..], &removed].concat());
    let mut scene = scene.after(&ended);
    end_old_pods(&mut scene);
    scene.facts.leader = Fact::Known(Leader::Standby);
    let started = scene.plan();
    let begins = ["write-status", "release-leadership", "create-cluster"];
    assert_eq!(&step_names(&started)[..3], &begins);
    assert_eq!(note(&started), Some(Trial::LeftOver));
}

#[test]
fn the_lead_is_held_also_after_a_crash_and_where_somebody_else_removed_the_old_job_manager() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standby(&mut scene, &wanted, &PreflightState::Passed);
    scene.status = (*checkpointed(&mut scene).status).clone();
    // The operator died after writing what it was about to do.
    let again = scene.plan();
    let held = ["hold-leadership", "write-status", "stop-job-manager"];
    assert_eq!(step_names(&again), held);
    end_old_pods(&mut scene);
    let removed = scene.plan();
    assert_eq!(step_names(&removed), ["hold-leadership", "write-status", "release-leadership"]);
}

#[test]
fn hot_hold_is_renewed_in_each_pass_while_old_pods_end() {
    let mut scene = taken_over();
    // A slow end is looked at seldom.
    scene.status.reconciliation_status.reconciliation_timestamp = ago(300).as_millisecond();
    scene.status.job_status.update_time = Some(ago(300).as_millisecond().to_string());
    for pods in [vec![Pod { ending_since: Some(ago(-30)), ..pod() }], vec![]] {
        scene.facts.pods = Fact::Known(pods);
        let plan = scene.plan();
        assert_eq!(step_names(&plan)[0], "hold-leadership", "{:?}", step_names(&plan));
        assert!(!step_names(&plan).contains(&"release-leadership"), "{:?}", step_names(&plan));
        assert!(plan.look_again.unwrap() <= Duration::from_secs(3), "{:?}", plan.look_again);
    }
    let lease = "high-availability.kubernetes.leader-election.lease-duration";
    let plan = scene.option(lease, "5 s").plan();
    assert!(plan.look_again.unwrap() <= Duration::from_secs(1), "{:?}", plan.look_again);
}

#[test]
fn hot_lead_of_a_lock_that_nobody_renewed_is_not_taken_back() {
    let mut scene = taken_over();
    stop_job_manager(&mut scene);
    scene.facts.leader = Fact::Known(Leader::Standby);
    // Its job may run on old TaskManagers.
    for pods in [vec![Pod { ending_since: Some(ago(1)), ..pod() }], vec![]] {
        scene.facts.pods = Fact::Known(pods);
        let plan = scene.plan();
        assert_eq!(step_names(&plan)[0], "hold-leadership", "{:?}", step_names(&plan));
    }
    scene.facts.task_manager_pods = Fact::Known(vec![]);
    let ended = scene.plan();
    assert!(!step_names(&ended).contains(&"hold-leadership"), "{:?}", step_names(&ended));
    assert!(step_names(&ended).contains(&"delete-job-manager"), "{:?}", step_names(&ended));
    let others = [Fact::Known(Leader::Other), Fact::Unknown("not today".to_owned())];
    for leader in others {
        scene.facts.leader = leader;
        assert_eq!(step_names(&scene.plan())[0], "hold-leadership", "{:?}", scene.facts.leader);
    }
    // A standby JobManager whose spec was changed meanwhile loses the lock.
    scene.facts.leader = Fact::Known(Leader::Standby);
    let scene = scene.edit_job(|job| job.parallelism = Some(7));
    let discarded = scene.plan();
    assert!(step_names(&discarded).contains(&"hold-leadership"), "{:?}", step_names(&discarded));
}

#[test]
fn hot_task_managers_end_after_the_job_manager_that_leads_them() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standby(&mut scene, &wanted, &PreflightState::Passed);
    let stops = checkpointed(&mut scene);
    assert!(!step_names(&stops).contains(&"stop-task-managers"), "{:?}", step_names(&stops));
    let mut scene = scene.after(&stops);
    stop_job_manager(&mut scene);
    assert_eq!(step_names(&scene.plan()), ["hold-leadership"], "its pod has not ended");
    scene.facts.pods = Fact::Known(vec![]);
    assert_eq!(step_names(&scene.plan()), ["hold-leadership", "stop-task-managers"]);
    let ending = Pod { ending_since: Some(ago(-30)), ..pod() };
    scene.facts.task_manager_pods = Fact::Known(vec![ending]);
    assert_eq!(step_names(&scene.plan()), ["hold-leadership"], "they are waited for");

    // The Deployment was deleted by somebody else, and its pod has not ended.
    let mut deleted = taken_over();
    deleted.facts.job_manager = Fact::Known(None);
    assert_eq!(step_names(&deleted.plan()), ["hold-leadership"]);
}

#[test]
fn hot_lead_is_not_believed_until_its_holder_proves_it() {
    for leader in [Leader::Nobody, Leader::Operator, Leader::Unproven] {
        let mut scene = led();
        scene.facts.leader = Fact::Known(leader);
        assert_eq!(step_names(&scene.plan()), ["release-leadership"], "{leader:?}");
    }
    // The old JobManager has taken it back.
    let scene = led();
    let taken = scene.plan();
    let again = ["hold-leadership", "write-status", "release-leadership"];
    assert_eq!(step_names(&taken), again);

    let mut proven = led();
    proven.facts.leader = Fact::Known(Leader::Standby);
    assert!(step_names(&proven.plan()).contains(&"create-cluster"));
    // Pods of an earlier run are removed without taking the lead from this one.
    let mut beside = led();
    beside.facts.leader = Fact::Known(Leader::Standby);
    standby_pods_of(&mut beside).extend(standby_pods("1-1"));
    assert_eq!(step_names(&beside.plan()), ["remove-standby"]);
    // It cannot lead any more, so its Deployment has to start another one.
    let mut gone = led();
    gone.facts.leader = Fact::Known(Leader::Nobody);
    standby_pods_of(&mut gone).retain(|pod| !pod.is_job_manager);
    assert!(step_names(&gone.plan()).contains(&"create-cluster"));
    // Nor does it for long.
    let mut late = led();
    late.facts.leader = Fact::Known(Leader::Nobody);
    let Some(Trial::StandingBy(standby)) = PREFLIGHT.get(&late.status.cluster_info) else {
        panic!("{:?}", late.status.cluster_info)
    };
    let standby = Standby { leads: Some(ago(61)), ..standby };
    PREFLIGHT.set(&mut late.status.cluster_info, &Trial::StandingBy(standby));
    assert!(step_names(&late.plan()).contains(&"create-cluster"));
}

#[test]
fn hot_pods_are_not_forgotten_before_their_deployments_have_adopted_them() {
    let mut scene = led();
    scene.facts.leader = Fact::Known(Leader::Standby);
    let started = scene.plan();
    let run = standby_pods_of(&mut scene)[0].run.clone();
    let mut scene = scene.after(&started);
    let handed_over = |scene: &Scene| HANDED_OVER.get(&scene.status.cluster_info);
    assert_eq!(handed_over(&scene), Some(run));
    scene.facts = Scene::running("last-state").facts;
    scene.facts.task_managers = hot().facts.task_managers;
    scene.facts.leader = Fact::NotAsked;
    scene.facts.standby_pods = Fact::Known(
        standby_pods("2-1")
            .into_iter()
            .map(|pod| StandbyPod { is_handed_over: true, ..pod })
            .collect(),
    );
    let waits = scene.plan();
    assert!(!step_names(&waits).contains(&"disown-standby"), "{:?}", step_names(&waits));
    assert!(!step_names(&waits).contains(&"remove-standby"), "{:?}", step_names(&waits));
    let mut scene = scene.after(&waits);
    assert!(handed_over(&scene).is_some());
    for pod in standby_pods_of(&mut scene) {
        pod.is_adopted = true;
    }
    assert!(step_names(&scene.plan()).contains(&"disown-standby"));
    scene.facts.standby_pods = Fact::Known(vec![]);
    let settled = scene.plan();
    assert_eq!(HANDED_OVER.get(&settled.status.cluster_info), None);
    assert_eq!(note(&settled), None);
}

/// Standby pods are ready, and a checkpoint was requested.
fn asked() -> Scene {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standby(&mut scene, &wanted, &PreflightState::Passed);
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
        assert_eq!(step_names(&cold), ["remove-preflight"], "{}", described(&cold));
        assert!(described(&cold).contains(why), "{}", described(&cold));
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
    assert!(
        described(&scene.plan()).contains("the job is not running"),
        "{}",
        described(&scene.plan())
    );
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
fn hot_metadata_is_read_again_before_the_release() {
    let mut scene = taken_over();
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.task_manager_pods = Fact::Known(vec![]);
    scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(6) });
    let mut deleted = scene.clone();
    end_old_pods(&mut deleted);
    for scene in [scene, deleted] {
        let refused = scene.plan();
        assert!(error(&refused).contains("checkpoint 6"), "{}", error(&refused));
        assert_eq!(step_names(&refused), ["hold-leadership", "remove-standby"]);
        // Nor as an ordinary start, when they are gone.
        let mut scene = scene.after(&refused);
        end_old_pods(&mut scene);
        scene.facts.standby_pods = Fact::Known(vec![]);
        let plan = scene.plan();
        assert!(error(&plan).contains("checkpoint 6"), "{}", error(&plan));
        assert!(!step_names(&plan).contains(&"create-cluster"), "{:?}", step_names(&plan));
        assert_eq!(note(&plan), None);
    }
    let mut unread = taken_over();
    unread.facts.pods = Fact::Known(vec![]);
    unread.facts.task_manager_pods = Fact::Known(vec![]);
    unread.facts.ha_metadata = Fact::Unknown("it does not answer".to_owned());
    assert_eq!(step_names(&unread.plan()), ["hold-leadership"], "it is waited for");
}

#[test]
fn hot_standby_of_a_discarded_spec_is_removed_at_once_and_waited_for() {
    let scene = taken_over();
    let edited = scene.clone().edit(|spec| spec.image = Some("flink:1.20.2".to_owned()));
    let plan = edited.plan();
    assert_eq!(step_names(&plan), ["hold-leadership", "remove-standby"], "old pods still run");
    assert_eq!(note(&plan), Some(Trial::LeftOver));

    // Its pods need longer than those of the old cluster.
    let mut edited = edited.after(&plan);
    end_old_pods(&mut edited);
    for pod in standby_pods_of(&mut edited) {
        pod.ending_since = Some(ago(-30));
    }
    let plan = edited.plan();
    assert_eq!(step_names(&plan), ["hold-leadership", "remove-standby"], "they are waited for");
    assert!(plan.look_again.unwrap() <= Duration::from_secs(3), "{:?}", plan.look_again);
    let mut stuck = edited.clone();
    for pod in standby_pods_of(&mut stuck) {
        pod.ending_since = Some(ago(31));
    }
    assert!(error(&stuck.plan()).contains("-jobmanager-1"), "{}", error(&stuck.plan()));

    edited.facts.standby_pods = Fact::Known(vec![]);
    let next = edited.plan();
    assert!(step_names(&next).contains(&"forget-job-graphs"), "{:?}", step_names(&next));
    assert!(!step_names(&next).contains(&"hold-leadership"), "{:?}", step_names(&next));
    assert_eq!(note(&next), None);

    // An edit that is not valid changes nothing: the spec on record is the one to start.
    let invalid = scene.edit_job(|job| job.parallelism = Some(-1));
    assert_eq!(step_names(&invalid.plan())[0], "hold-leadership");
    assert!(
        matches!(note(&invalid.plan()), Some(Trial::StandingBy(_))),
        "{:?}",
        note(&invalid.plan())
    );
}

#[test]
fn hot_pods_without_a_deployment_end_before_the_job_is_suspended_or_gone() {
    let mut scene = taken_over();
    end_old_pods(&mut scene);
    // They were handed over to Deployments that could not be created.
    for pod in standby_pods_of(&mut scene) {
        pod.is_handed_over = true;
    }
    HANDED_OVER.set(&mut scene.status.cluster_info, &"2-1".to_owned());
    let suspended = scene.clone().edit_job(|job| job.state = JobState::Suspended);
    let edited = scene.clone().edit(|spec| spec.image = Some("flink:1.20.2".to_owned()));
    for (how, scene) in [("deleted", scene.delete()), ("suspended", suspended), ("edited", edited)]
    {
        let plan = scene.plan();
        let steps = step_names(&plan);
        assert!(steps.ends_with(&["hold-leadership", "remove-standby"]), "{how}: {steps:?}");
        let is_over = |plan: &Plan| {
            let steps = step_names(plan);
            let state = plan.status.lifecycle_state.map(|it| it.into_str());
            steps.contains(&"remove-finalizer")
                || steps.contains(&"create-cluster")
                || state == Some("SUSPENDED")
        };
        assert!(!is_over(&plan), "{how}: {steps:?}");
        assert_eq!(note(&plan), Some(Trial::LeftOver), "{how}");
        let mut scene = scene.after(&plan);
        scene.facts.standby_pods = Fact::Known(vec![]);
        let plan = scene.plan();
        assert!(is_over(&plan), "{how}: {:?}", step_names(&plan));
    }
}

#[test]
fn hot_standby_that_is_not_to_take_over_cannot_lead_when_the_job_is_stopped() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    standby(&mut scene, &wanted, &PreflightState::Passed);
    let asked = scene.plan();
    let scene = scene.after(&asked).edit_job(|job| job.state = JobState::Suspended);
    let plan = scene.plan();
    let steps = step_names(&plan);
    let at = |name: &str| steps.iter().position(|step| *step == name);
    assert!(at("hold-leadership").is_some(), "{steps:?}");
    assert!(at("hold-leadership") < at("stop-job-manager"), "{steps:?}");
    assert_eq!(note(&plan), Some(Trial::LeftOver));
}

#[test]
fn hot_standby_has_ended_before_a_lost_job_manager_is_recovered() {
    let mut scene = asked();
    end_old_pods(&mut scene);
    scene.facts.jobs = Fact::Unknown("it is gone".to_owned());
    let plan = scene.plan();
    let steps = step_names(&plan);
    assert!(steps.contains(&"hold-leadership"), "{steps:?}");
    assert!(steps.contains(&"remove-standby"), "{steps:?}");
    assert!(!steps.contains(&"create-cluster"), "{steps:?}");
    let mut scene = scene.after(&plan);
    scene.facts.standby_pods = Fact::Known(vec![]);
    scene.facts.preflight = Fact::Known(PreflightPods::default());
    let plan = scene.plan();
    // The upgrade goes on as an ordinary one.
    assert_eq!(plan.status.reconciliation_status.state, ReconciliationState::Upgrading);
    assert!(!step_names(&plan).contains(&"hold-leadership"), "{:?}", step_names(&plan));
}

#[test]
fn an_upgrade_that_cannot_be_hot_says_why() {
    let described = |scene: &Scene| {
        let events = scene.plan().steps;
        events.into_iter().find_map(|step| match step {
            Step::Event(event) if event.reason == "HotUpgradeSkipped" => Some(event.message),
            _ => None,
        })
    };
    let native = Scene::running("last-state").operator_option("job.upgrade.hot.enabled", "true");
    let native = native.edit(|spec| spec.image = Some("flink:1.20.1".to_owned()));
    assert!(described(&native).unwrap().contains("standalone"), "{:?}", described(&native));
    let version = hot().edit(|spec| spec.flink_version = Some(FlinkVersion::V1_19));
    assert!(described(&version).unwrap().contains("last-state"), "{:?}", described(&version));
    let adaptive = hot().option("jobmanager.scheduler", "adaptive");
    assert!(described(&adaptive).unwrap().contains("adaptive"), "{:?}", described(&adaptive));
    let savepoint = hot().edit_job(|job| job.upgrade_mode = UpgradeMode::Savepoint);
    assert!(described(&savepoint).unwrap().contains("last-state"), "{:?}", described(&savepoint));
    assert_eq!(
        described(&Scene::running("last-state").edit(|spec| spec.restart_nonce = Some(1))),
        None
    );
}

#[test]
fn pods_that_find_no_room_to_stand_by_leave_it_to_an_ordinary_upgrade() {
    let mut scene = hot();
    let wanted = wanted(&scene);
    let reason = "Unschedulable".to_owned();
    let message =
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.".to_owned();
    let in_the_way = PreflightState::Troubled(PodProblem { reason, message });
    standby(&mut scene, &wanted, &in_the_way);
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
