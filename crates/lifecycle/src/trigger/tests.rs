use serde_json::json;

use super::*;
use api::state_snapshot::SnapshotState;
use api::status::{CheckpointInfo, SavepointInfo};

const START: &str = "2026-01-01T00:00:00Z";

/// A running job at a time after its creation.
struct Case {
    generation: i64,
    wanted: JobSpec,
    last: JobSpec,
    status: JobStatus,
    config: FlinkConfig,
    version: FlinkVersion,
    memory: Memory,
    known: Vec<KnownSnapshot>,
    is_target: bool,
}

fn case(options: &[(&str, &str)]) -> Case {
    let mut config: FlinkConfig =
        options.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    config.set("execution.checkpointing.savepoint-dir", "s3://lake/sp");
    Case {
        generation: 3,
        wanted: JobSpec::default(),
        last: JobSpec::default(),
        status: JobStatus { state: Some(JobStatusState::Running), ..JobStatus::default() },
        config,
        version: FlinkVersion::V1_20,
        memory: Memory::default(),
        known: Vec::new(),
        is_target: false,
    }
}

fn every_minute() -> Case {
    case(&[
        ("kubernetes.operator.periodic.savepoint.interval", "1 min"),
        ("kubernetes.operator.periodic.checkpoint.interval", "0 * * * * ?"),
    ])
}

fn at(seconds: i64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn periodic(kind: SnapshotKind, state: SnapshotState, created: i64) -> KnownSnapshot {
    KnownSnapshot {
        name: created.to_string(),
        uid: String::new(),
        version: String::new(),
        kind,
        trigger_type: SnapshotTriggerType::Periodic,
        state,
        created: at(created),
        path: None,
        nonce: None,
        asked_by: None,
        notices: Vec::new(),
        is_disposed_of: false,
        is_deleting: false,
    }
}

impl Case {
    fn with<T>(&self, seconds: i64, ask: impl FnOnce(&JobFacts<'_>) -> T) -> T {
        ask(&JobFacts {
            now: at(seconds),
            zone: &TimeZone::UTC,
            kind: JobKind::FlinkDeployment,
            namespace: "shop",
            name: "orders",
            uid: "u1",
            generation: self.generation,
            created: at(0),
            wanted: &self.wanted,
            last: &self.last,
            status: &self.status,
            config: &self.config,
            is_target: self.is_target,
            flink_version: Some(self.version),
            memory: &self.memory,
            known: &self.known,
        })
    }

    fn due(&self, seconds: i64) -> [Option<Cause>; 2] {
        self.with(seconds, |facts| SnapshotKind::ALL.map(|kind| facts.due(kind)))
    }
}

#[test]
fn a_new_nonce_asks_once_and_none_asks_for_nothing() {
    let mut case = case(&[]);
    assert_eq!(case.due(0), [None, None]);
    case.wanted.savepoint_trigger_nonce = Some(3);
    case.wanted.checkpoint_trigger_nonce = Some(4);
    let both = [Some(Cause::Manual { nonce: 3 }), Some(Cause::Manual { nonce: 4 })];
    assert_eq!(case.due(0), both, "both in one pass");
    case.last.savepoint_trigger_nonce = Some(3);
    case.last.checkpoint_trigger_nonce = Some(9);
    assert_eq!(case.due(0), [None, both[1]]);
    case.wanted.checkpoint_trigger_nonce = None;
    assert_eq!(case.due(0), [None, None], "a nonce that is taken back");
}

#[test]
fn a_job_that_does_not_run_is_left_alone() {
    let mut case = every_minute();
    case.wanted.savepoint_trigger_nonce = Some(1);
    for state in [JobStatusState::Created, JobStatusState::Finished, JobStatusState::Reconciling] {
        case.status.state = Some(state);
        assert_eq!(case.due(600), [None, None], "{state:?}");
        assert_eq!(case.with(600, |facts| facts.next_in(SnapshotKind::Savepoint)), None);
    }
}

#[test]
fn checkpoints_need_flink_1_17() {
    let mut case = every_minute();
    case.version = FlinkVersion::V1_16;
    assert_eq!(case.due(120), [Some(Cause::Periodic), None]);
}

#[test]
fn a_trigger_under_way_holds_the_next_one_back() {
    let mut case = every_minute();
    let id = Some("a".to_owned());
    case.status.savepoint_info =
        Some(SavepointInfo { trigger_id: id.clone(), ..SavepointInfo::default() });
    case.status.checkpoint_info =
        Some(CheckpointInfo { trigger_id: id, ..CheckpointInfo::default() });
    assert_eq!(case.due(600), [None, None]);
}

#[test]
fn the_last_periodic_one_is_remembered_read_or_the_jobs_own_age() {
    let mut case = every_minute();
    assert_eq!(case.due(59)[0], None);
    assert_eq!(case.due(61), [Some(Cause::Periodic); 2]);
    // After a restart of the operator the resources show it, whatever became of them.
    case.known.push(periodic(SnapshotKind::Savepoint, SnapshotState::Failed, 50));
    assert_eq!(case.due(61), [None, Some(Cause::Periodic)]);
    case.memory.note(SnapshotKind::Savepoint, at(90));
    assert_eq!(case.due(140)[0], None);
    assert_eq!(case.due(151)[0], Some(Cause::Periodic));
    // Without resources, the status does.
    let mut case = every_minute();
    case.status.savepoint_info = Some(SavepointInfo {
        last_periodic_savepoint_timestamp: at(100).as_millisecond(),
        ..SavepointInfo::default()
    });
    assert_eq!(case.due(150)[0], None);
    assert_eq!(case.due(161)[0], Some(Cause::Periodic));
}

#[test]
fn a_colour_that_does_not_serve_yet_takes_no_periodic_one() {
    let mut case = every_minute();
    case.is_target = true;
    assert_eq!(case.due(600), [None, None]);
    case.wanted.savepoint_trigger_nonce = Some(1);
    assert_eq!(case.due(600)[0], Some(Cause::Manual { nonce: 1 }), "who asks gets one");
}

#[test]
fn periodic_snapshots_do_not_overlap() {
    let mut case = every_minute();
    case.known.push(periodic(SnapshotKind::Savepoint, SnapshotState::InProgress, 0));
    assert_eq!(case.due(600), [None, Some(Cause::Periodic)]);
    case.wanted.savepoint_trigger_nonce = Some(1);
    assert_eq!(case.due(600)[0], Some(Cause::Manual { nonce: 1 }), "a person is not kept waiting");
}

#[test]
fn a_periodic_snapshot_that_does_not_end_stops_those_after_it_for_as_long_as_it_may_take() {
    let mut case = every_minute();
    case.config.set("execution.checkpointing.timeout", "2 min");
    case.known.push(periodic(SnapshotKind::Savepoint, SnapshotState::TriggerPending, 0));
    // Four attempts of three minutes, and pauses of 10, 20 and 40 seconds.
    assert_eq!(case.due(790)[0], None);
    assert_eq!(case.with(790, |facts| facts.next_in(SnapshotKind::Savepoint)), Some(OPEN_INTERVAL));
    assert_eq!(case.due(791)[0], Some(Cause::Periodic));
    case.known.push(periodic(SnapshotKind::Savepoint, SnapshotState::InProgress, 791));
    assert_eq!(case.due(900)[0], None, "one at a time");
}

#[test]
fn the_next_check_is_when_the_next_one_is_due() {
    let case = every_minute();
    let next = |seconds| case.with(seconds, |facts| facts.next_in(SnapshotKind::Savepoint));
    assert_eq!(next(20), Some(Duration::from_millis(40_050)));
    assert_eq!(next(90), Some(Duration::from_secs(1)));
}

#[test]
fn the_resource_is_that_of_the_java_operator() {
    let mut case = case(&[("kubernetes.operator.savepoint.format.type", "NATIVE")]);
    case.wanted.savepoint_trigger_nonce = Some(7);
    let manual = Cause::Manual { nonce: 7 };
    let resource = case.with(1, |facts| facts.resource(SnapshotKind::Savepoint, manual)).unwrap();
    let value = serde_json::to_value(&resource).unwrap();
    assert_eq!(
        value,
        json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkStateSnapshot",
            "metadata": {
                "name": "orders-savepoint-manual-u1-3-7",
                "namespace": "shop",
                "labels": {"snapshot.type": "SAVEPOINT", "snapshot.trigger-type": "MANUAL"},
                "annotations": {
                    "flink.apache.org/trigger-nonce": "7",
                    "flink.apache.org/triggered-by": "u1/3",
                },
            },
            "spec": {
                "jobReference": {"kind": "FlinkDeployment", "name": "orders"},
                "savepoint": {
                    "path": "s3://lake/sp", "formatType": "NATIVE",
                    "disposeOnDelete": false, "alreadyExists": false,
                },
                "backoffLimit": 3,
            },
        })
    );
    let checkpoint =
        case.with(1, |facts| facts.resource(SnapshotKind::Checkpoint, Cause::Periodic));
    let checkpoint = checkpoint.unwrap();
    assert_eq!(
        checkpoint.metadata.name.as_deref(),
        Some("orders-checkpoint-periodic-1767225601000")
    );
    assert!(checkpoint.spec.checkpoint.is_some() && checkpoint.spec.savepoint.is_none());
    // Created before a crash: not again.
    let asker = Asker::of(&resource);
    assert_eq!(asker, Some(Asker { uid: "u1".to_owned(), generation: 3 }));
    case.known.push(by_nonce(7, 1, asker));
    assert!(case.with(2, |facts| facts.was_created(SnapshotKind::Savepoint, manual)));
}

fn by_nonce(nonce: i64, created: i64, asked_by: Option<Asker>) -> KnownSnapshot {
    let known = periodic(SnapshotKind::Savepoint, SnapshotState::Completed, created);
    let trigger_type = SnapshotTriggerType::Manual;
    KnownSnapshot { trigger_type, nonce: Some(nonce), asked_by, ..known }
}

#[test]
fn a_nonce_that_was_used_before_asks_again() {
    let asked = |uid: &str, generation| Some(Asker { uid: uid.to_owned(), generation });
    let check = |asked_by: Option<Asker>, created, expected: bool, why: &str| {
        let mut case = case(&[]);
        case.known.push(by_nonce(1, created, asked_by));
        let wish = Cause::Manual { nonce: 1 };
        let was_created = case.with(9, |facts| facts.was_created(SnapshotKind::Savepoint, wish));
        assert_eq!(was_created, expected, "{why}");
    };
    check(asked("u1", 3), 1, true, "created before a crash");
    check(asked("u1", 1), 1, false, "1, then 2, then 1");
    check(asked("u0", 3), -1, false, "of another resource of the same name");
    check(None, 1, true, "by an operator that did not note it");
    check(None, -1, false, "by one, for a resource of the same name before");
}

#[test]
fn without_a_directory_there_is_no_savepoint() {
    let mut case = every_minute();
    case.config.remove("execution.checkpointing.savepoint-dir");
    assert!(case.with(1, |f| f.resource(SnapshotKind::Savepoint, Cause::Periodic)).is_none());
}

#[test]
fn the_same_request_is_the_same_resource_and_another_one_is_not() {
    let mut case = case(&[]);
    let name = |case: &Case, seconds: i64, kind: SnapshotKind, nonce: i64| {
        let resource = case.with(seconds, |facts| facts.resource(kind, Cause::Manual { nonce }));
        resource.unwrap().metadata.name.unwrap()
    };
    let first = name(&case, 1, SnapshotKind::Savepoint, 5);
    assert_eq!(name(&case, 99, SnapshotKind::Savepoint, 5), first, "whenever it is tried");
    let mut all = vec![
        first,
        name(&case, 1, SnapshotKind::Savepoint, -5),
        name(&case, 1, SnapshotKind::Checkpoint, 5),
    ];
    // The nonce was different in between.
    case.generation += 2;
    all.push(name(&case, 1, SnapshotKind::Savepoint, 5));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4, "{all:?}");
}
