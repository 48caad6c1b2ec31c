//! Snapshots, restarts, stability and scaling of session jobs.

use jiff::SignedDuration;

use super::*;
use crate::plan::{SnapshotStep, Step, TakeSnapshot};
use crate::snapshot::request::Wanted;
use crate::snapshots::are_held;
use crate::trigger::known::{Cause, SnapshotKind};
use api::state_snapshot::{FlinkStateSnapshot, JobKind, SnapshotState};
use api::status::{Savepoint, SavepointInfo, SnapshotTriggerType};

fn snapshot_steps(plan: &Plan) -> impl Iterator<Item = &SnapshotStep> {
    plan.steps.iter().filter_map(|step| {
        let Step::Snapshot(step) = step else { return None };
        Some(step)
    })
}

fn created(plan: &Plan) -> Vec<&FlinkStateSnapshot> {
    let created = snapshot_steps(plan).filter_map(|step| {
        let SnapshotStep::Create(snapshot) = step else { return None };
        Some(&**snapshot)
    });
    created.collect()
}

fn taken(plan: &Plan) -> Option<&TakeSnapshot> {
    snapshot_steps(plan).find_map(|step| {
        let SnapshotStep::Take(snapshot) = step else { return None };
        Some(&**snapshot)
    })
}

fn savepoint(created: jiff::Timestamp, name: &str) -> KnownSnapshot {
    KnownSnapshot {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version: "7".to_owned(),
        kind: SnapshotKind::Savepoint,
        trigger_type: SnapshotTriggerType::Periodic,
        state: SnapshotState::Completed,
        created,
        path: Some(format!("s3://lake/sp/{name}")),
        nonce: None,
        asked_by: None,
        notices: Vec::new(),
        is_disposed_of: true,
        is_deleting: false,
    }
}

fn without_resources(mode: &str) -> Case {
    let mut case = Case::running(mode);
    case.has_snapshot_resources = false;
    case
}

#[test]
fn a_new_nonce_makes_one_resource_and_is_used_up() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(5));
    let plan = case.pass();
    let [snapshot] = created(&plan)[..] else { panic!("{:?}", names(&plan)) };
    let reference = snapshot.spec.job_reference.as_ref().unwrap();
    assert_eq!(reference.kind, Some(JobKind::FlinkSessionJob));
    assert_eq!(reference.name.as_deref(), Some("orders"));
    let savepoint = snapshot.spec.savepoint.as_ref().unwrap();
    assert_eq!(savepoint.path.as_deref(), Some("s3://lake/sp"), "of its cluster");
    assert_eq!(case.last().spec.job.unwrap().savepoint_trigger_nonce, Some(5));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
    assert!(created(&case.pass()).is_empty(), "once");
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = None);
    assert!(created(&case.pass()).is_empty(), "null asks for nothing");
}

#[test]
fn a_checkpoint_nonce_makes_a_checkpoint_on_a_flink_that_takes_one() {
    for (version, count) in [(FlinkVersion::V1_16, 0), (FlinkVersion::V1_17, 1)] {
        let mut case = Case::running("savepoint");
        case.cluster.as_mut().unwrap().spec.flink_version = Some(version);
        case.edit(|spec| spec.job.as_mut().unwrap().checkpoint_trigger_nonce = Some(1));
        let plan = case.pass();
        assert_eq!(created(&plan).len(), count, "{version:?}");
        assert!(created(&plan).iter().all(|snapshot| snapshot.spec.checkpoint.is_some()));
    }
}

#[test]
fn a_nonce_waits_for_the_job_to_run() {
    let mut case = Case::running("savepoint");
    case.list(JobStatusState::Restarting);
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(1));
    assert!(created(&case.pass()).is_empty());
    case.list(JobStatusState::Running);
    assert_eq!(created(&case.pass()).len(), 1);
}

#[test]
fn a_nonce_in_the_same_edit_as_a_change_fires_after_the_upgrade() {
    let mut case = Case::running("stateless");
    case.edit(|spec| {
        spec.restart_nonce = Some(1);
        spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(1);
    });
    assert!(created(&case.pass()).is_empty());
    case.list(JobStatusState::Canceled);
    assert!(created(&case.pass()).is_empty());
    case.list(JobStatusState::Running);
    assert_eq!(created(&case.pass()).len(), 1);
}

#[test]
fn a_schedule_of_the_job_or_its_cluster_fires() {
    for of_cluster in [false, true] {
        for schedule in ["10 min", "0 */10 * * * ?"] {
            let mut case = Case::running("savepoint");
            case.resource.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(case.now));
            let key = "kubernetes.operator.periodic.savepoint.interval";
            if of_cluster {
                case.set_in_cluster(key, schedule);
            } else {
                case.set(key, schedule);
            }
            let plan = case.pass();
            assert!(created(&plan).is_empty());
            assert!(plan.look_again.is_some_and(|pause| pause <= Duration::from_mins(10)));
            case.now += SignedDuration::from_mins(11);
            let plan = case.pass();
            let label =
                &created(&plan)[0].metadata.labels.as_ref().unwrap()["snapshot.trigger-type"];
            assert_eq!(label, "PERIODIC", "{schedule}");
            assert!(created(&case.pass()).is_empty(), "{schedule}");
        }
    }
}

#[test]
fn a_schedule_that_cannot_be_read_is_reported() {
    let mut case = Case::running("savepoint");
    case.edit(|_| {});
    case.set("kubernetes.operator.periodic.savepoint.interval", "now and then");
    assert_eq!(reasons(&case.pass()), ["InvalidSchedule"]);
}

#[test]
fn without_the_kind_flink_is_asked_and_the_status_keeps_the_books() {
    let mut case = without_resources("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(7));
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["write-status", "take-snapshot"], "the id is stored first");
    let request = &taken(&plan).unwrap().request;
    assert!(
        matches!(&request.what, Wanted::Savepoint { directory, .. } if directory == "s3://lake/sp")
    );
    let info = case.status.job_status.savepoint_info.clone().unwrap();
    assert_eq!(info.trigger_id.as_deref(), Some(request.trigger_id.as_str()));
    assert_eq!(case.last().spec.job.unwrap().savepoint_trigger_nonce, None, "not used up yet");
    let plan = case.pass();
    assert!(names(&plan)[2..].is_empty(), "pending");
    assert!(plan.look_again.is_some_and(|pause| pause <= Duration::from_secs(10)));
    case.trigger = Trigger::Completed { path: Some("s3://lake/sp/7".to_owned()), checkpoint: None };
    case.pass();
    let info = case.status.job_status.savepoint_info.clone().unwrap();
    assert_eq!(info.trigger_id, None);
    assert_eq!(info.last_savepoint.unwrap().location.as_deref(), Some("s3://lake/sp/7"));
    assert_eq!(info.savepoint_history.len(), 1);
    assert_eq!(case.last().spec.job.unwrap().savepoint_trigger_nonce, Some(7));
}

#[test]
fn a_nonce_that_changes_while_its_savepoint_is_taken_asks_for_another_one() {
    let ends = [
        Trigger::Completed { path: Some("s3://lake/sp/7".to_owned()), checkpoint: None },
        Trigger::Failed { message: "disk full".to_owned() },
    ];
    for end in ends {
        let mut case = without_resources("savepoint");
        case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(7));
        case.pass();
        case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(8));
        assert!(taken(&case.pass()).is_none(), "one at a time");
        case.now += SignedDuration::from_mins(2);
        case.trigger = end;
        let plan = case.pass();
        assert_eq!(case.last().spec.job.unwrap().savepoint_trigger_nonce, Some(7));
        assert_eq!(taken(&plan).unwrap().cause, Cause::Manual { nonce: 8 });
        let told = reasons(&plan);
        assert!(told.is_empty() || told == ["SavepointError"], "{told:?}");
    }
}

#[test]
fn a_failed_savepoint_is_asked_for_again_within_its_grace_period() {
    let mut case = without_resources("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(7));
    case.pass();
    case.trigger = Trigger::Failed { message: "disk full".to_owned() };
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert!(taken(&plan).is_some(), "the nonce still differs");
    case.now += SignedDuration::from_mins(2);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert!(taken(&plan).is_none(), "given up");
    assert_eq!(case.last().spec.job.unwrap().savepoint_trigger_nonce, Some(7));
}

#[test]
fn a_change_waits_for_a_savepoint_that_is_being_taken() {
    for (ignores, goes_on) in [("false", false), ("true", true)] {
        let mut case = without_resources("stateless");
        case.set("kubernetes.operator.job.upgrade.ignore-pending-savepoint", ignores);
        case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(7));
        case.pass();
        case.edit(|spec| spec.restart_nonce = Some(1));
        let plan = case.pass();
        assert_eq!(names(&plan).contains(&"cancel-job"), goes_on, "{}", plan.because);
    }
}

#[test]
fn a_job_that_is_gone_gives_its_savepoint_up() {
    let mut case = without_resources("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(7));
    case.pass();
    case.now += SignedDuration::from_mins(1);
    case.jobs = Some(vec![]);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError", "Missing"]);
    let info = case.status.job_status.savepoint_info.clone().unwrap();
    assert_eq!(info.trigger_id, None);
    assert_eq!(case.last().spec.job.unwrap().savepoint_trigger_nonce, Some(7));
}

#[test]
fn a_stop_takes_the_place_of_a_savepoint_that_is_being_taken() {
    let mut case = without_resources("savepoint");
    case.set("kubernetes.operator.job.upgrade.ignore-pending-savepoint", "true");
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_trigger_nonce = Some(7));
    case.pass();
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).contains(&"stop-with-savepoint"));
    assert!(reasons(&plan).contains(&"SavepointError"));
    let info = case.status.job_status.savepoint_info.clone().unwrap();
    assert_eq!(info.trigger_type, Some(SnapshotTriggerType::Upgrade));
}

#[test]
fn an_upgrade_savepoint_is_shown_where_that_is_wanted() {
    for (is_wanted, count) in [("true", 1), ("false", 0)] {
        let mut case = Case::running("savepoint");
        case.set("kubernetes.operator.snapshot.resource.enabled", is_wanted);
        case.edit(|spec| spec.restart_nonce = Some(1));
        case.pass();
        case.stop = Stop::Completed { path: "s3://lake/sp/0".to_owned() };
        case.list(JobStatusState::Finished);
        let plan = case.pass();
        assert_eq!(created(&plan).len(), count);
        let history = case.status.job_status.savepoint_info.clone().unwrap().savepoint_history;
        assert_eq!(history.len(), 1 - count);
        for snapshot in created(&plan) {
            let savepoint = snapshot.spec.savepoint.as_ref().unwrap();
            assert_eq!(savepoint.already_exists, Some(true));
            assert_eq!(savepoint.path.as_deref(), Some("s3://lake/sp/0"));
        }
    }
}

#[test]
fn old_snapshots_go_but_never_one_that_the_job_could_start_from() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.savepoint.history.max.count", "1");
    case.snapshots = (1..4).map(|n| savepoint(case.now, &n.to_string())).collect();
    case.status.job_status.upgrade_savepoint_path = Some("s3://lake/sp/1".to_owned());
    let deleted = |plan: &Plan| {
        let names = snapshot_steps(plan).filter_map(|step| {
            let SnapshotStep::Delete { name, .. } = step else { return None };
            Some(name.clone())
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(deleted(&case.pass()), ["2"]);
    let plan = case.pass();
    let step = snapshot_steps(&plan).find(|step| matches!(step, SnapshotStep::Delete { .. }));
    let (name, uid, version) = ("2".to_owned(), "uid-2".to_owned(), "7".to_owned());
    assert_eq!(step, Some(&SnapshotStep::Delete { name, uid, version }), "as it was seen");
    case.set("kubernetes.operator.savepoint.cleanup.enabled", "false");
    assert!(deleted(&case.pass()).is_empty());
}

/// A job without snapshot resources whose status has three savepoints, two more than allowed.
fn with_history(key: &str, value: &str) -> Case {
    let mut case = without_resources("savepoint");
    case.set(&format!("kubernetes.operator.savepoint.history.{key}"), value);
    let entry = |n: i64, age: SignedDuration| Savepoint {
        time_stamp: (case.now - age).as_millisecond(),
        location: Some(format!("s3://lake/sp/{n}")),
        ..Savepoint::default()
    };
    let savepoint_history = vec![
        entry(1, SignedDuration::from_hours(3)),
        entry(2, SignedDuration::from_hours(2)),
        entry(3, SignedDuration::ZERO),
    ];
    case.status.job_status.savepoint_info =
        Some(SavepointInfo { savepoint_history, ..SavepointInfo::default() });
    case
}

fn disposed(plan: &Plan) -> Vec<String> {
    let paths = snapshot_steps(plan).filter_map(|step| {
        let SnapshotStep::Dispose { path, .. } = step else { return None };
        Some(path.clone())
    });
    paths.collect()
}

fn history(case: &Case) -> usize {
    case.status.job_status.savepoint_info.as_ref().unwrap().savepoint_history.len()
}

#[test]
fn the_deprecated_history_is_disposed_of_by_count_and_age() {
    for (key, value) in [("max.count", "1"), ("max.age", "1 h")] {
        let mut case = with_history(key, value);
        assert_eq!(disposed(&case.pass()), ["s3://lake/sp/1", "s3://lake/sp/2"], "{key}");
        assert_eq!(history(&case), 1);
    }
}

#[test]
fn a_savepoint_of_the_history_that_others_refer_to_stays_and_is_checked_again_later() {
    let job = "FlinkSessionJob `trial` in namespace `test` (spec.job.initialSavepointPath)";
    for (holders, said) in [
        (Ok(vec![job.to_owned()]), job),
        (Err("forbidden".to_owned()), "could not determine what refers to them: forbidden"),
    ] {
        for (key, value) in [("max.count", "1"), ("max.age", "1 h")] {
            let mut case = with_history(key, value);
            case.holders = holders.clone();
            let plan = case.pass();
            assert_eq!((disposed(&plan), history(&case)), (vec![], 3), "{key}");
            let told = events(&plan);
            assert!(told[0].0 == "SavepointKept" && told[0].1.contains(said), "{told:?}");
            // The shell remembers that they are held, and does not ask again for a while.
            assert!(are_held(&case.references()));
            case.periodic.held = Some(case.now);
            case.holders = Ok(vec![]);
            case.now += SignedDuration::from_mins(4);
            assert_eq!((disposed(&case.pass()), history(&case)), (vec![], 3));
            assert!(!case.asked.contains(&Question::References));
            case.now += SignedDuration::from_mins(1);
            assert_eq!((disposed(&case.pass()).len(), history(&case)), (2, 1));
            assert!(!are_held(&case.references()));
        }
    }
}

#[test]
fn a_savepoint_of_the_history_that_is_the_newest_state_of_the_job_stays() {
    for (checkpoints, expected) in [
        (Some(at("s3://lake/sp/2")), vec!["s3://lake/sp/1"]),
        (Some(at("s3://lake/sp/1/")), vec![]),
        (None, vec![]),
        (Some(at("s3://lake/chk/7")), vec!["s3://lake/sp/1", "s3://lake/sp/2"]),
    ] {
        let mut case = with_history("max.count", "1");
        case.checkpoints = checkpoints;
        assert_eq!(disposed(&case.pass()), expected);
        assert_eq!(history(&case), 3 - expected.len());
    }
}

#[test]
fn nothing_is_disposed_of_while_the_cluster_does_not_answer() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.savepoint.history.max.count", "1");
    case.snapshots = (1..4).map(|n| savepoint(case.now, &n.to_string())).collect();
    case.jobs = None;
    assert!(!names(&case.pass()).contains(&"delete-snapshot"));
}

#[test]
fn a_failed_job_is_started_again_with_growing_pauses() {
    let mut case = Case::running("stateless");
    case.set("kubernetes.operator.job.restart.failed", "true");
    let mut pauses = Vec::new();
    for _ in 0..4 {
        case.list(JobStatusState::Failed);
        let failed = case.now;
        let plan = loop {
            let plan = case.pass();
            if names(&plan).contains(&"submit-job") {
                break plan;
            }
            assert!(plan.look_again.is_some_and(|pause| pause <= Duration::from_mins(1)));
        };
        assert!(reasons(&plan).contains(&"RestartFailedJob"));
        assert_eq!(case.status.error, None);
        pauses.push(case.now.duration_since(failed).as_secs());
        case.list(JobStatusState::Running);
        case.pass();
    }
    assert_eq!(pauses[0], 1, "at once");
    assert!(pauses.is_sorted() && pauses[1] >= 8 && pauses[3] >= 35, "{pauses:?}");
    // Another spec starts over.
    case.edit(|spec| spec.job.as_mut().unwrap().allow_non_restored_state = Some(true));
    case.pass();
    case.list(JobStatusState::Failed);
    assert!(names(&case.pass()).contains(&"submit-job"));
}

#[test]
fn a_failed_stateful_job_without_a_known_state_is_not_started_again() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/0".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case.checkpoints = Some(Checkpoints::default());
    case.list(JobStatusState::Failed);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
}

#[test]
fn a_job_is_stable_once_it_has_proven_itself() {
    let mut case = case("stateless");
    case.set("kubernetes.operator.deployment.stable.running-for", "30 s");
    case.set("kubernetes.operator.deployment.stable.checkpoints", "2");
    case.set("kubernetes.operator.deployment.stable.restarts.max", "1");
    case.pass();
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deployed));
    assert!(plan.look_again.is_some_and(|pause| pause <= Duration::from_secs(30)));
    case.now += SignedDuration::from_secs(30);
    for (restarts, completed, state) in [
        (0, 1, LifecycleState::Deployed),
        (2, 2, LifecycleState::Deployed),
        (1, 2, LifecycleState::Stable),
    ] {
        case.metrics =
            JobMetrics { restarts: Some(restarts), completed_checkpoints: Some(completed) };
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(state), "{restarts} {completed}");
    }
}

#[test]
fn a_job_that_never_proves_itself_is_rolled_back_after_both_times() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.set("kubernetes.operator.deployment.rollback.enabled", "true");
    case.set("kubernetes.operator.deployment.stable.restarts.max", "0");
    case.set("kubernetes.operator.deployment.stable.running-for", "1 min");
    case.metrics = JobMetrics { restarts: Some(3), completed_checkpoints: None };
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Canceled);
    case.pass();
    case.list(JobStatusState::Running);
    case.now += SignedDuration::from_mins(5);
    let plan = case.pass();
    assert!(!reasons(&plan).contains(&"Rollback"), "a minute is left to prove itself");
    case.now += SignedDuration::from_mins(1);
    let plan = case.pass();
    assert!(reasons(&plan).contains(&"Rollback"), "{}", plan.because);
    assert!(case.status.error.as_ref().unwrap().contains("restarted 3 times"));
}

/// A running job whose vertex may be scaled in place.
fn adaptive() -> Case {
    let mut case = case("savepoint");
    case.set_in_cluster("jobmanager.scheduler", "adaptive");
    case.set(OVERRIDES, "v1:2");
    case.bounds = [("v1".to_owned(), Bounds { lower: 1, upper: 2 })].into();
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case
}

const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";

#[test]
fn section_14_a_running_job_is_scaled_in_place() {
    let mut case = adaptive();
    case.edit(|_| {});
    case.set(OVERRIDES, "v1:4");
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["remember", "write-status", "scale-job", "remember"]);
    assert_eq!(reasons(&plan), ["SpecChanged", "Scaling"]);
    let bounds = plan.steps.iter().find_map(|step| {
        let Step::ScaleJob { bounds, .. } = step else { return None };
        Some(bounds["v1"])
    });
    assert_eq!(bounds, Some(Bounds { lower: 1, upper: 4 }));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deployed), "not seen running yet");
    case.bounds = [("v1".to_owned(), Bounds { lower: 1, upper: 4 })].into();
    let plan = case.pass();
    assert!(names(&plan)[2..].is_empty(), "{:?}", names(&plan));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
    // The autoscaler decides again, and the user's spec has the same generation.
    case.set(OVERRIDES, "v1:6");
    let plan = case.pass();
    assert!(names(&plan).contains(&"scale-job"), "{:?}: {}", names(&plan), plan.because);
}

#[test]
fn section_14_where_flink_cannot_scale_the_job_is_upgraded() {
    let check = |what: &str, change: &dyn Fn(&mut Case)| {
        let mut case = adaptive();
        case.edit(|_| {});
        case.set(OVERRIDES, "v1:4");
        change(&mut case);
        let plan = case.pass();
        assert!(!names(&plan).contains(&"scale-job"), "{what}");
        assert!(names(&plan).contains(&"stop-with-savepoint"), "{what}: {}", plan.because);
    };
    check("another scheduler", &|case| case.set_in_cluster("jobmanager.scheduler", "default"));
    check("switched off", &|case| {
        case.set("kubernetes.operator.job.upgrade.inplace-scaling.enabled", "false");
    });
    check("old Flink", &|case| {
        case.cluster.as_mut().unwrap().spec.flink_version = Some(FlinkVersion::V1_17);
    });
    check("another change beside it", &|case| case.job().parallelism = Some(7));
    check("an override that is gone", &|case| case.set(OVERRIDES, "v2:4"));
    check("refused before", &|case| {
        case.tried.scaled_to = case.resource.metadata.generation;
    });
}

/// Found by the exploration: an invalid spec replaced the report, which was then repeated in each pass.
#[test]
fn a_job_that_is_lost_is_reported_once_alongside_an_invalid_spec() {
    let mut case = Case::running("savepoint");
    case.jobs = Some(vec![]);
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
    let mut told = 0;
    for _ in 0..30 {
        told += reasons(&case.pass()).iter().filter(|reason| **reason == "Missing").count();
    }
    assert_eq!(told, 1);
    let error = case.status.error.clone().unwrap();
    assert!(error.contains("parallelism") && error.contains(JOB_NOT_FOUND), "{error}");
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(2));
    case.pass();
    assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
}
