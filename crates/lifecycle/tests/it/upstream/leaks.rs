//! Something was left behind: files, objects, memory, connections.

use std::collections::BTreeSet;

use api::deployment::DeploymentMode;
use api::job::UpgradeMode;
use api::state_snapshot::SnapshotState;
use api::status::{JobStatusState, Savepoint, SavepointInfo, SnapshotTriggerType};
use lifecycle::plan::{ClusterStep, SnapshotStep, Step};
use lifecycle::snapshots::restore_undisposed_entries;
use lifecycle::trigger::known::{KnownSnapshot, SnapshotKind};
use lifecycle::world::{Fact, JobManager, TaskManagers};
use testing::scene::{
    SAVEPOINT, Scene, ago, created, described, error, job, job_manager, pod, started_without,
    step_names,
};

use crate::decisions::reload::stopped_for_suspension;
use crate::simulation::Sim;
use crate::simulation::session::Session;

const STORE_PATH: &str = "job-result-store.storage-path";

#[test]
fn flink_27569_the_result_of_a_job_outlives_its_end() {
    for mode in [UpgradeMode::Stateless, UpgradeMode::Savepoint, UpgradeMode::LastState] {
        let plan = Scene::running("savepoint").path(SAVEPOINT).upgrading(mode).plan();
        // Otherwise a JobManager that comes back after the end would run the job again.
        let is_removed = created(&plan, "job-result-store.delete-on-commit");
        assert_eq!(is_removed.as_deref(), Some("false"), "{}", described(&plan));
        // And one that ends with its job would be restarted by its Deployment.
        let ends = created(&plan, "execution.shutdown-on-application-finish");
        assert_eq!(ends.as_deref(), Some("false"));
    }
}

#[test]
fn flink_27569_a_job_manager_that_comes_back_does_not_run_an_ended_job_again() {
    let ended = || Scene::running("savepoint").path(SAVEPOINT).in_state(JobStatusState::Finished);
    let mut starts = ended();
    starts.facts.job_manager =
        Fact::Known(Some(JobManager { available_replicas: 0, ..job_manager() }));
    starts.facts.jobs = Fact::Unknown("no answer".to_owned());
    // It found the result: it has no such job, or has one that is finished.
    let mut without = ended().without_metadata();
    without.facts.jobs = Fact::Known(vec![]);
    for mut scene in [starts, without, ended()] {
        for _ in 0..3 {
            let plan = scene.plan();
            assert!(step_names(&plan).is_empty(), "{}", described(&plan));
            assert_eq!(plan.status.job_status.state, Some(JobStatusState::Finished));
            scene = scene.after(&plan);
        }
    }
    // Without high availability there is no result to find: a job that runs then is not taken for the ended one, and
    // nothing follows from it.
    let mut again = ended().option("high-availability.type", "NONE").without_metadata();
    let mut jobs = job(JobStatusState::Running);
    jobs[0].start_time = ago(120).as_millisecond();
    again.facts.jobs = Fact::Known(jobs);
    let plan = again.edit_job(|job| job.parallelism = Some(4)).plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains("runs the job again from where it began"), "{}", error(&plan));
}

#[test]
fn flink_27569_a_default_that_came_later_keeps_no_job_manager_that_would_run_its_job_again() {
    let suspended = stopped_for_suspension(started_without("savepoint"));
    let plan = suspended.plan();
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

#[test]
fn flink_27573_each_start_has_a_job_result_store_of_its_own() {
    let mut sim = Sim::new("last-state");
    let mut paths = BTreeSet::new();
    for nonce in 1..4 {
        sim.edit(|resource| resource.spec.restart_nonce = Some(nonce));
        let path = (0..60).find_map(|_| {
            sim.tick();
            created(&sim.pass(None), STORE_PATH)
        });
        let path = path.expect("it starts");
        assert!(path.starts_with("s3://lake/ha/job-result-store/orders/"), "{path}");
        assert!(paths.insert(path.clone()), "{path} has what the job before left");
        sim.settle();
    }
}

#[test]
fn flink_34438_nothing_is_started_before_the_old_deployments_are_gone() {
    let stopped = || Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    assert!(step_names(&stopped().plan()).contains(&"create-cluster"));
    let mut deleting = stopped();
    deleting.facts.job_manager =
        Fact::Known(Some(JobManager { is_deleting: true, available_replicas: 0, ..job_manager() }));
    let mut lingering = stopped();
    lingering.facts.pods = Fact::Known(vec![pod()]);
    for scene in [deleting, lingering] {
        let plan = scene.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(plan.look_again.is_some());
    }
    // The same for that of the TaskManagers, if they have one.
    let standalone = |task_managers| {
        let mut scene = Scene::running("savepoint");
        scene.resource.spec.mode = Some(DeploymentMode::Standalone);
        let mut scene = scene.path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
        scene.facts.task_managers = Fact::Known(task_managers);
        scene.plan()
    };
    assert!(step_names(&standalone(None)).contains(&"create-cluster"));
    let plan = standalone(Some(TaskManagers {
        uid: "t1".to_owned(),
        owner_uid: Some("u1".to_owned()),
        is_deleting: true,
        deleting_since: Some(ago(5)),
    }));
    assert!(step_names(&plan).is_empty() && plan.look_again.is_some(), "{}", described(&plan));
    // The simulation fails on a start beside TaskManagers that are being deleted, or that have another spec.
    let mut sim = Sim::new("savepoint").standalone();
    sim.settle();
    sim.edit(|resource| resource.spec.restart_nonce = Some(1));
    sim.settle();
    assert_eq!(sim.starts, 2);
}

#[test]
fn flink_39439_a_savepoint_that_could_not_be_disposed_of_stays_in_the_history() {
    let mut scene = Scene::running("savepoint")
        .operator_option("savepoint.history.max.count", "1")
        .operator_option("savepoint.dispose-on-delete", "true");
    let entry = |age: i64| Savepoint {
        time_stamp: ago(age).as_millisecond(),
        location: Some(format!("s3://lake/sp/aged-{age}")),
        trigger_type: Some(SnapshotTriggerType::Periodic),
        ..Savepoint::default()
    };
    let history = vec![entry(30), entry(20), entry(10)];
    scene.status.job_status.savepoint_info =
        Some(SavepointInfo { savepoint_history: history.clone(), ..SavepointInfo::default() });
    scene.facts.revisions = Fact::Known(vec![]);
    let nobody = |age: i64| (format!("s3://lake/sp/aged-{age}"), vec![]);
    scene.facts.references = Fact::Known([30, 20, 10].map(nobody).into());
    let plan = scene.plan();
    let disposed: Vec<&str> =
        step_names(&plan).into_iter().filter(|d| *d == "dispose-savepoint").collect();
    assert_eq!(disposed.len(), 2, "{}", described(&plan));
    // A run may use the files of what it was restored from.
    let claiming = scene.clone().option("execution.state-recovery.claim-mode", "CLAIM");
    let kept = claiming.plan();
    assert!(!step_names(&kept).contains(&"dispose-savepoint"), "{}", described(&kept));
    assert_eq!(kept.status.job_status.savepoint_info.unwrap().savepoint_history.len(), 1);
    // The JobManager refuses the first, and the second is not tried before it.
    let undisposed = ["s3://lake/sp/aged-30".to_owned(), "s3://lake/sp/aged-20".to_owned()];
    let mut end = plan.status.job_status.clone();
    restore_undisposed_entries(&mut end, &scene.status.job_status, &undisposed);
    assert_eq!(end.savepoint_info.unwrap().savepoint_history, history);
}

#[test]
fn flink_39559_a_session_cluster_that_was_recovered_still_has_its_owner() {
    for mode in ["native", "standalone"] {
        let mut cluster = Session::new(mode);
        cluster.settle();
        cluster.lose_job_manager();
        let objects = (0..30).find_map(|_| {
            cluster.tick();
            cluster.pass(None).steps.into_iter().find_map(|step| match step {
                Step::Own(ClusterStep::CreateCluster(objects)) => Some(objects),
                _ => None,
            })
        });
        let objects = objects.expect("it is recovered");
        for object in [Some(&objects.deployment), objects.task_managers.as_ref()] {
            let Some(object) = object else { continue };
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!((&owner["kind"], &owner["uid"]), (&"FlinkDeployment".into(), &"u1".into()));
        }
        cluster.settle();
    }
}

#[test]
fn flink_40384_a_snapshot_under_way_is_not_too_old() {
    let snapshot = |name: &str, age, state| KnownSnapshot {
        name: name.to_owned(),
        uid: String::new(),
        version: String::new(),
        kind: SnapshotKind::Savepoint,
        trigger_type: SnapshotTriggerType::Periodic,
        state,
        created: ago(age),
        path: None,
        nonce: None,
        asked_by: None,
        notices: Vec::new(),
        is_disposed_of: false,
        is_deleting: false,
    };
    let deleted = |snapshots| {
        let mut scene =
            Scene::running("savepoint").operator_option("savepoint.history.max.age", "1 min");
        scene.facts.snapshots = Fact::Known(snapshots);
        let steps = scene.plan().steps.into_iter();
        let names = steps.filter_map(|step| match step {
            Step::Snapshot(SnapshotStep::Delete { name, .. }) => Some(name),
            _ => None,
        });
        names.collect::<Vec<_>>()
    };
    let first = || snapshot("first", 600, SnapshotState::Completed);
    for state in [SnapshotState::TriggerPending, SnapshotState::InProgress] {
        assert_eq!(deleted(vec![first(), snapshot("next", 120, state)]), [""; 0], "{state:?}");
        // Not one whose retries cannot all have taken that long.
        let stuck = snapshot("next", 7_200, state);
        assert_eq!(deleted(vec![stuck, first()]), ["next"], "{state:?}");
    }
    let ended = vec![first(), snapshot("next", 120, SnapshotState::Completed)];
    assert_eq!(deleted(ended), ["first"], "it is the one that is kept");
}
