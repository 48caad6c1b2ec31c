//! A deletion never hangs: each wait has a deadline, or the status says how to end it.

use api::CANARY_LABEL;
use lifecycle::blocker::Reason;

use super::*;

/// The deletion was requested this many seconds ago.
fn deleted(mut scene: Scene, seconds: i64) -> Scene {
    scene.resource.metadata.deletion_timestamp = Some(Time(ago(seconds)));
    scene
}

fn wants_savepoint(scene: Scene) -> Scene {
    scene.operator_option("job.savepoint-on-deletion", "true")
}

#[track_caller]
fn reason(plan: &Plan) -> Option<Reason> {
    plan.blocker.as_ref().map(|blocker| blocker.reason)
}

fn is_let_go(plan: &Plan) -> bool {
    step_names(plan).contains(&"remove-finalizer")
}

fn events(plan: &Plan) -> Vec<String> {
    plan.steps
        .iter()
        .filter_map(|step| match step {
            Step::Event(event) => Some(format!("{}: {}", event.reason, event.message)),
            _ => None,
        })
        .collect()
}

#[test]
fn what_does_not_end_in_time_lets_the_resource_go() {
    let ending = |since: i64| {
        let mut scene = deleted(Scene::running("last-state"), 600);
        scene.facts.job_manager = Fact::Known(Some(JobManager {
            is_deleting: true,
            deleting_since: Some(ago(since)),
            ..job_manager()
        }));
        scene
    };
    let plan = ending(60).plan();
    assert_eq!(reason(&plan), Some(Reason::JobManager));
    let deadline = plan.blocker.as_ref().unwrap().deadline.clone().unwrap();
    assert_eq!(deadline.at, ago(60) + SignedDuration::from_mins(5), "of this step, not of all");
    assert!(!is_let_go(&plan));
    let mut late = ending(301);
    late.facts.pods = Fact::Known(vec![Pod { ending_since: Some(ago(290)), ..pod() }]);
    let plan = late.plan();
    assert!(
        step_names(&plan).ends_with(&["delete-ha-metadata", "remove-finalizer"]),
        "{}",
        described(&plan)
    );
    assert!(events(&plan).iter().any(|event| event.contains("did not end")));
}

#[test]
fn pods_of_a_lost_node_do_not_hold_the_resource() {
    let mut scene = deleted(Scene::running("last-state").gone(), 600);
    scene.facts.pods = Fact::Known(vec![Pod { ending_since: Some(ago(200)), ..pod() }]);
    assert_eq!(reason(&scene.plan()), Some(Reason::Pods));
    scene.facts.pods = Fact::Known(vec![Pod { ending_since: Some(ago(301)), ..pod() }]);
    assert!(is_let_go(&scene.plan()));
}

#[test]
fn a_job_manager_that_runs_on_keeps_its_metadata() {
    let scene = Scene::running("last-state").gone();
    for (propagation, age, goes) in
        [("Orphan", 1, true), ("Foreground", 1, false), ("Foreground", 301, true)]
    {
        let mut scene = scene.clone().operator_option("resource.deletion.propagation", propagation);
        scene.facts.pods = Fact::Known(vec![pod()]);
        let plan = deleted(scene, age).plan();
        assert_eq!(is_let_go(&plan), goes, "{}", described(&plan));
        assert!(!step_names(&plan).contains(&"delete-ha-metadata"), "{}", described(&plan));
    }
}

#[test]
fn a_request_for_a_savepoint_outlives_the_job_manager() {
    let scene = deleted(wants_savepoint(Scene::running("last-state").gone()), 1);
    let plan = scene.plan();
    assert_eq!(step_names(&plan).last(), Some(&"remove-finalizer"));
    assert!(
        !step_names(&plan).contains(&"delete-ha-metadata"),
        "it leads to the newest checkpoint"
    );
    assert!(
        events(&plan).iter().any(|event| event.starts_with("SavepointError")),
        "{}",
        described(&plan)
    );
    let suspended = wants_savepoint(Scene::running("last-state").suspended(UpgradeMode::LastState));
    let plan = deleted(suspended, 1).plan();
    assert!(!step_names(&plan).contains(&"delete-ha-metadata"), "{}", described(&plan));
    for saved in [
        wants_savepoint(Scene::running("savepoint").suspended(UpgradeMode::Savepoint)),
        wants_savepoint(Scene::running("savepoint").gone().in_state(JobStatusState::Finished)),
    ] {
        let plan = deleted(saved, 1).plan();
        assert!(step_names(&plan).contains(&"delete-ha-metadata"), "{}", described(&plan));
    }
}

#[test]
fn a_savepoint_that_does_not_come_is_reported_and_waited_for() {
    for (scene, expected) in [
        (Scene::running("savepoint").silent(), Reason::JobNotRunning),
        (Scene::running("savepoint").in_state(JobStatusState::Restarting), Reason::JobNotRunning),
    ] {
        let young = deleted(wants_savepoint(scene.clone()), 10).plan();
        assert_eq!((reason(&young), young.status.error.as_deref()), (Some(expected), None));
        let old = deleted(wants_savepoint(scene), 301).plan();
        assert!(error(&old).contains("savepoint-on-deletion: false"), "{}", error(&old));
        assert_eq!(reason(&old), Some(expected));
        assert!(!step_names(&old).contains(&"delete-job-manager"), "{}", described(&old));
    }
    let scene = deleted(wants_savepoint(Scene::running("savepoint")), 10);
    let mut stopping = scene.clone().after(&scene.plan());
    stopping.facts.stop = Fact::Known(Stop::Pending);
    let plan = stopping.plan();
    assert_eq!((reason(&plan), plan.status.error.as_deref()), (Some(Reason::Savepoint), None));
    let info = stopping.status.job_status.savepoint_info.as_mut().unwrap();
    info.trigger_timestamp = Some(ago(3600).as_millisecond());
    let plan = stopping.plan();
    assert!(error(&plan).contains("savepoint-on-deletion: false"), "{}", error(&plan));
}

#[test]
fn without_a_readable_record_no_request_for_a_savepoint_is_passed_over() {
    let mut scene = deleted(Scene::running("savepoint"), 1);
    let key = "kubernetes.operator.job.savepoint-on-deletion";
    scene.resource.spec.flink_configuration.0.insert(key.to_owned(), json!("true"));
    for record in [Some("not JSON".to_owned()), None] {
        scene.status.reconciliation_status.last_reconciled_spec = record;
        let plan = scene.plan();
        assert!(error(&plan).contains("lastReconciledSpec is missing or not readable"));
        assert!(!step_names(&plan).contains(&"delete-job-manager"));
    }
    scene.resource.spec.flink_configuration.0.insert(key.to_owned(), json!("false"));
    assert!(step_names(&scene.plan()).contains(&"delete-job-manager"));
}

/// Metadata under its name belongs to an earlier resource, which may be why it was rejected.
#[test]
fn what_was_never_deployed_takes_no_metadata_along() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut scene = deleted(Scene::new(mode).gone(), 1);
        scene.status = DeploymentStatus::default();
        scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
        let plan = scene.plan();
        assert!(is_let_go(&plan), "{}", described(&plan));
        assert!(!step_names(&plan).contains(&"delete-ha-metadata"), "{}", described(&plan));
    }
}

#[test]
fn an_option_that_cannot_be_read_is_reported() {
    let scene = deleted(
        Scene::running("savepoint").operator_option("job.savepoint-on-deletion", "maybe"),
        1,
    );
    let plan = scene.plan();
    assert!(error(&plan).contains("maybe"), "{}", described(&plan));
    assert_eq!(reason(&plan), Some(Reason::Unreadable));
    let plan = deleted(scene.gone(), 1).plan();
    assert!(is_let_go(&plan), "there is nobody to take it: {}", described(&plan));
    assert!(!step_names(&plan).contains(&"delete-ha-metadata"));
}

#[test]
fn a_canary_is_let_go() {
    let mut scene = deleted(Scene::running("stateless"), 1);
    scene.resource.metadata.labels =
        Some(BTreeMap::from([(CANARY_LABEL.to_owned(), "true".to_owned())]));
    let plan = scene.plan();
    assert_eq!(plan.steps, [Step::RemoveFinalizer]);
}

/// In any scene: after an hour a deletion acts, ends, or says in the status what it waits for.
#[test]
fn an_old_deletion_acts_ends_or_reports() {
    let scenes = || {
        ["savepoint", "last-state", "stateless"].into_iter().flat_map(|mode| {
            [
                Scene::new(mode),
                Scene::running(mode),
                Scene::running(mode).silent(),
                Scene::running(mode).starting(),
                Scene::running(mode).gone(),
                Scene::running(mode).gone().without_metadata(),
                Scene::running(mode).in_state(JobStatusState::Failing),
                Scene::running(mode).in_state(JobStatusState::Cancelling),
                Scene::running(mode).pod_problem("ImagePullBackOff", false),
                Scene::running(mode).upgrading(UpgradeMode::LastState),
                Scene::running(mode).suspended(UpgradeMode::Savepoint),
            ]
        })
    };
    for option in ["false", "true", "maybe"] {
        for scene in scenes() {
            let scene = scene.operator_option("job.savepoint-on-deletion", option);
            let plan = deleted(scene, 3600).plan();
            let acts = ["remove-finalizer", "delete-job-manager", "stop-with-savepoint"];
            let is_acting = step_names(&plan).iter().any(|deed| acts.contains(deed));
            let is_reported = plan.status.error.is_some() && plan.blocker.is_some();
            assert!(is_acting || is_reported, "{option}: {}", described(&plan));
        }
    }
}
