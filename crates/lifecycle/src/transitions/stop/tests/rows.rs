//! The upgrade table, one row per line: `spec` rows 1 to 12, and A1 to A4 if they say to wait.

use super::*;

use JobManagerDeploymentStatus::{Deploying, Missing, Ready};
use JobStatusState::{
    Canceled, Cancelling, Created, Failed, Failing, Finished, Reconciling, Restarting,
};
use StopDecision::{AlreadyStopped, Cancel, LastState, NeverStarted, Savepoint, Stateless};

/// The expected result of the table. The text of a wait or a refusal is ignored.
#[derive(Clone, Debug, PartialEq)]
enum Says {
    This(StopDecision),
    Wait,
    Refuse,
}
use Says::{Refuse, This, Wait};

fn says(facts: &StopFacts) -> Says {
    match decide_stop(facts).unwrap() {
        StopDecision::Wait(..) => Wait,
        StopDecision::Refuse(_) => Refuse,
        decision @ (Stateless | Savepoint | Cancel | LastState | AlreadyStopped(_)
        | NeverStarted(_)) => This(decision),
    }
}

const PATH: &str = "s3://sp/1";

fn savepoint() -> StopFacts {
    StopFacts { mode: UpgradeMode::Savepoint, ..facts() }
}

fn at(state: JobStatusState, facts: StopFacts) -> StopFacts {
    StopFacts { state: Some(state), ..facts }
}

fn lost(job_manager: JobManagerDeploymentStatus, facts: StopFacts) -> StopFacts {
    StopFacts { job_manager, ..at(Reconciling, facts) }
}

#[test]
fn section_8_rows_1_to_12() {
    let stateless = || StopFacts { mode: UpgradeMode::Stateless, ..facts() };
    let ended = |state| StopFacts { path: Some(PATH.to_owned()), ..at(state, facts()) };
    let version = || StopFacts { is_version_changed: true, ..facts() };
    let no_metadata = |facts| StopFacts { ha_metadata: no_metadata(), ..facts };
    let cancels = |facts| StopFacts { may_cancel: true, ..facts };
    let rows: Vec<(&str, StopFacts, Says)> = vec![
        ("1 running", stateless(), This(Stateless)),
        ("1 cancelling", at(Cancelling, stateless()), This(Stateless)),
        ("1 ended", at(Finished, stateless()), This(AlreadyStopped(UpgradeMode::Stateless))),
        ("2 finished", ended(Finished), This(AlreadyStopped(UpgradeMode::Savepoint))),
        ("2 failed", ended(Failed), This(AlreadyStopped(UpgradeMode::Savepoint))),
        (
            "2 canceled, whatever metadata is left",
            StopFacts { job_manager: Missing, ..ended(Canceled) },
            This(AlreadyStopped(UpgradeMode::Savepoint)),
        ),
        (
            "2 no metadata",
            StopFacts { job_manager: Missing, ..no_metadata(ended(Finished)) },
            This(AlreadyStopped(UpgradeMode::Savepoint)),
        ),
        (
            "2 last checkpoint unknown",
            StopFacts { path: Some(LAST_STATE_PATH.to_owned()), ..ended(Finished) },
            Refuse,
        ),
        (
            "2 not: lost with its metadata left",
            StopFacts { job_manager: Missing, ..ended(Failed) },
            This(LastState),
        ),
        ("3 savepoint", at(Cancelling, savepoint()), Wait),
        ("3 last-state", at(Cancelling, facts()), Wait),
        ("4", savepoint(), This(Savepoint)),
        (
            "4 whatever the version",
            StopFacts { is_version_changed: true, ..savepoint() },
            This(Savepoint),
        ),
        ("5", StopFacts { may_fall_back: false, ..at(Restarting, savepoint()) }, Wait),
        ("6 restarting", at(Restarting, savepoint()), This(LastState)),
        ("6 failing", at(Failing, savepoint()), This(LastState)),
        ("6 tasks not all running", at(Created, savepoint()), This(LastState)),
        ("6 cancels", cancels(at(Restarting, savepoint())), This(Cancel)),
        ("7", version(), This(Savepoint)),
        ("8 no directory", StopFacts { has_savepoint_directory: false, ..version() }, This(Cancel)),
        ("8 restarting", at(Restarting, version()), This(Cancel)),
        (
            // The Java operator cancels and finds no checkpoint.
            "8 departs: checkpoints are not retained",
            StopFacts { retains_checkpoints: false, ..at(Restarting, version()) },
            Wait,
        ),
        (
            "8 departs: the job itself says that they are not",
            StopFacts { retention: Lazy::Known(false), ..at(Restarting, version()) },
            Wait,
        ),
        ("9", lost(Deploying, version()), Wait),
        (
            "9 savepoint mode",
            lost(Deploying, StopFacts { is_version_changed: true, ..savepoint() }),
            Wait,
        ),
        ("10", facts(), This(LastState)),
        ("10 cancel allowed", cancels(facts()), This(Cancel)),
        ("10 no metadata", no_metadata(facts()), This(Cancel)),
        (
            // The Java operator deletes the cluster and then does not find what it needs.
            "10 departs: no metadata and checkpoints not retained",
            StopFacts { retains_checkpoints: false, ..no_metadata(facts()) },
            This(Savepoint),
        ),
        (
            "10 departs: no metadata and the job itself says that they are not retained",
            StopFacts { retention: Lazy::Known(false), ..no_metadata(facts()) },
            This(Savepoint),
        ),
        ("11", cancels(at(Restarting, facts())), This(Cancel)),
        (
            "11 departs: whether they are retained cannot be read",
            StopFacts {
                retention: Lazy::Unknown("timeout".to_owned()),
                ..cancels(at(Restarting, facts()))
            },
            Wait,
        ),
        ("11 no metadata", no_metadata(at(Failing, facts())), This(Cancel)),
        ("12 through A1", at(Restarting, facts()), This(LastState)),
        (
            // The Java operator treats metadata that it could not read as absent.
            "departs: metadata that cannot be read",
            StopFacts {
                ha_metadata: Lazy::Unknown("timeout".to_owned()),
                ..lost(Missing, facts())
            },
            Wait,
        ),
    ];
    for (row, facts, expected) in rows {
        assert_eq!(says(&facts), expected, "row {row}");
    }
}

/// Metadata of a job that has ended: the record is used, unless the metadata may name newer state.
#[test]
fn section_8_row_2_with_metadata_that_an_ended_job_left() {
    let ended = |state| StopFacts {
        job_manager: Missing,
        path: Some(PATH.to_owned()),
        ..at(state, facts())
    };
    let without_checkpoint = HaMetadata { has_job: true, checkpoint: None };
    let chk = || Some("s3://chk/abc/chk-7".to_owned());
    let rows: Vec<(&str, StopFacts, Says)> = vec![
        (
            "2 what is left of its metadata leads to no state",
            StopFacts { ha_metadata: Lazy::Known(without_checkpoint), ..ended(Finished) },
            This(AlreadyStopped(UpgradeMode::Savepoint)),
        ),
        (
            "2 not: the metadata that is left is no older than a checkpoint",
            StopFacts { path: chk(), ..ended(Finished) },
            This(LastState),
        ),
        (
            "2 not: the savepoint that it left may be newer than its metadata",
            ended(Finished),
            Refuse,
        ),
        (
            "2 not: metadata does not lead to another version",
            StopFacts { path: chk(), is_version_changed: true, ..ended(Failed) },
            Refuse,
        ),
    ];
    for (row, facts, expected) in rows {
        assert_eq!(says(&facts), expected, "row {row}");
    }
}

#[test]
fn section_8_a1_to_a4() {
    let no_metadata = |facts| StopFacts { ha_metadata: no_metadata(), ..facts };
    let never = |facts| StopFacts { never_started: Lazy::Known(true), ..facts };
    let started_as = |mode, facts| StopFacts { started_as: mode, ..facts };
    let by_savepoint = || started_as(UpgradeMode::Savepoint, no_metadata(lost(Deploying, facts())));
    let rows: Vec<(&str, StopFacts, Says)> = vec![
        ("A1", lost(Deploying, facts()), This(LastState)),
        ("A1 missing", lost(Missing, facts()), This(LastState)),
        (
            "A1 not: high availability is off",
            StopFacts { is_high_availability_on: false, ..lost(Missing, facts()) },
            Refuse,
        ),
        (
            "A1 not: no fallback",
            StopFacts { may_fall_back: false, ..lost(Deploying, savepoint()) },
            Wait,
        ),
        ("A2", never(by_savepoint()), This(NeverStarted(UpgradeMode::Savepoint))),
        (
            "A2 started empty",
            never(started_as(UpgradeMode::Stateless, by_savepoint())),
            This(NeverStarted(UpgradeMode::Stateless)),
        ),
        (
            "A2 not: started from metadata",
            never(started_as(UpgradeMode::LastState, by_savepoint())),
            Wait,
        ),
        ("A3 missing", no_metadata(lost(Missing, facts())), Refuse),
        ("A3 in error", no_metadata(lost(JobManagerDeploymentStatus::Error, facts())), Refuse),
        ("A4", by_savepoint(), Wait),
    ];
    for (row, facts, expected) in rows {
        assert_eq!(says(&facts), expected, "row {row}");
    }
    assert_eq!(facts().job_manager, Ready, "rows above are about one that is not");
}

#[test]
fn section_8_row_10_without_high_availability_metadata_count_for_nothing() {
    let left = StopFacts { retains_checkpoints: false, is_high_availability_on: false, ..facts() };
    assert_eq!(says(&left), This(Savepoint));
    assert_eq!(says(&StopFacts { has_savepoint_directory: false, ..left }), Wait);
}
