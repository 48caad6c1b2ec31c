//! `restore`: restarts a job from a given state.
//!
//! The job's current state is left behind, so every doubt is a question with a flag of its own: newer state, a path
//! that cannot be checked, a snapshot of another job. Known errors are refused.

mod source;

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::args::{ChangeFlags, DryRunMode, Global};
use super::connection::Connection;
use super::deployment::{Deployment, blue_green_name};
use super::failure::Failure;
use super::printer::Printer;
use super::{complete, edit, lookup, table};
use api::blue_green::Colour;
use clients::artifact::storage::{self, Storage};
use config::{FlinkConfig, OperatorConfig};
use source::Source;
use state::references::is_checkpoint_of;

/// How long reading a savepoint's folder may take; slower storage is treated as out of reach.
const CHECK_MAX: Duration = Duration::from_secs(20);
/// File that identifies a folder as a savepoint or checkpoint.
const METADATA: &str = "_metadata";

/// Arguments of `restore`.
#[derive(Args)]
#[command(after_help = "\
Everything the job has done since is lost, and later records are read again. To be able to return, first take a savepoint
with `kubectl flink savepoint NAME`. The job restarts immediately; a suspended one starts from there when it is resumed.

Examples:
  kubectl flink restore orders --from s3://bucket/savepoints/savepoint-0a1b2c-3d4e5f --wait
  kubectl flink restore orders --from orders-savepoint-manual-1767225600000    # a FlinkStateSnapshot
  kubectl flink restore orders --from 3          # the state that revision 3 left, see: kubectl flink history
  kubectl flink restore orders --from 3 --dry-run=client    # shows the patch")]
pub struct RestoreArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Path of a savepoint or checkpoint, name of a FlinkStateSnapshot, or number of a revision
    #[arg(long, value_name = "PATH|SNAPSHOT|REVISION", add = complete::restore_points())]
    from: String,
    #[command(flatten)]
    flags: RestoreFlags,
}

/// Arguments of `snapshots restore`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink snapshots restore orders-savepoint-manual-1767225600000 --wait")]
pub struct SnapshotArgs {
    /// The FlinkStateSnapshot
    #[arg(add = complete::snapshots())]
    snapshot: String,
    #[command(flatten)]
    flags: RestoreFlags,
}

/// An answer to each question, and how the change is made.
#[derive(Args, Clone, Copy)]
pub struct RestoreFlags {
    /// Accept losing what the job has done since that state; do not ask
    #[arg(long)]
    leave_newer_state: bool,
    /// Do not check that there is a savepoint at the path; do not ask
    #[arg(long)]
    unverified: bool,
    /// Accept a snapshot of another job; do not ask
    #[arg(long)]
    of_another_job: bool,
    #[command(flatten)]
    change: ChangeFlags,
}

/// Result of looking for a savepoint or checkpoint at a path.
#[derive(Debug, Eq, PartialEq)]
enum Lookup {
    Found,
    Absent,
    /// Why the path could not be checked.
    OutOfReach(String),
}

/// Finds the state, asks for the necessary confirmations, and sets where the job starts from.
pub async fn run(args: RestoreArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let RestoreArgs { name, from, flags } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch_to_change(&connection, &name).await?;
    let source = source::find(&connection, &present, &from).await?;
    restore(&connection, &present, source, flags, printer).await
}

/// Restores the job that the snapshot was taken of.
pub(super) async fn snapshot(
    args: SnapshotArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let SnapshotArgs { snapshot, flags } = args;
    let connection = global.connect().await?;
    let source = source::snapshot(&connection, &snapshot).await?;
    let Some(name) = source.of.clone() else {
        return Err(Failure::new(format!("FlinkStateSnapshot `{snapshot}` does not name a job"))
            .hint(format!("name one: kubectl flink restore NAME --from snapshot/{snapshot}"))
            .into());
    };
    let mut present = lookup::fetch(&connection, &name).await?;
    if let Some(parent) = present.blue_green_parent() {
        let parent = blue_green_name(parent);
        present = lookup::fetch_to_change(&connection, &parent).await?;
    }
    restore(&connection, &present, source, flags, printer).await
}

async fn restore(
    connection: &Connection,
    present: &Deployment,
    source: Source,
    flags: RestoreFlags,
    printer: &Printer,
) -> anyhow::Result<()> {
    let RestoreFlags { leave_newer_state, unverified, of_another_job, change } = flags;
    let is_dry = change.dry_run.dry_run != DryRunMode::None;
    let name = present.shown_name();
    if present.is_session() {
        return Err(Failure::new(format!(
            "`{name}` is a session cluster: it has no state of its own"
        ))
        .hint("restore its jobs instead: kubectl flink restore sessionjob/NAME --from …")
        .into());
    }
    let Source { path, what, taken_at, of } = source;
    // Flink accepts the file instead of the directory, but checking it needs the directory.
    let path = path.strip_suffix("/_metadata").map(str::to_owned).unwrap_or(path);
    if is_on_its_way(present) {
        return Err(Failure::new(format!(
            "nothing was changed: `{name}` is being stopped or started, and continues from the state chosen \
             for that"
        ))
        .hint(format!("wait until that has finished, then restore: kubectl flink status {name} -w"))
        .into());
    }
    let ask = |doubt: &str, flag: &str, is_agreed: bool| {
        if is_dry || is_agreed {
            printer.warning(doubt);
            return Ok(());
        }
        edit::agree(doubt, flag, printer)
    };
    if let Some(other) = of.filter(|of| *of != name && !is_colour_of(of, present)) {
        let doubt = format!("{what} belongs to `{other}`, not to `{name}`");
        ask(&doubt, "--of-another-job", of_another_job)?;
    }
    if is_own_live_checkpoint(present, &path) {
        return Err(Failure::new(format!(
            "nothing was changed: `{}` is a checkpoint of the running job: Flink deletes it when the job \
             takes newer ones or stops",
            storage::shown(&path)
        ))
        .hint(format!("take a savepoint, and restore that: kubectl flink savepoint {name}"))
        .hint(format!("or suspend the job first: kubectl flink suspend {name} --wait"))
        .into());
    }
    if !unverified {
        match inspect(present, &path).await {
            Lookup::Found => {}
            Lookup::Absent => {
                return Err(Failure::new(format!(
                    "nothing was changed: there is no {METADATA} in `{}`, so it is not a savepoint or \
                     checkpoint",
                    storage::shown(&path)
                ))
                .hint(format!("list snapshots: kubectl flink snapshots {name}"))
                .into());
            }
            Lookup::OutOfReach(why) => {
                let shown = storage::shown(&path);
                let doubt = format!(
                    "could not check from here whether there is a savepoint at `{shown}`: {why}. If there \
                     is none, `{name}` will not start"
                );
                ask(&doubt, "--unverified", false)?;
            }
        }
    }
    if let Some(doubt) = left_behind(present, &what, taken_at, Timestamp::now()) {
        ask(&doubt, "--leave-newer-state", leave_newer_state)?;
    }
    let nonce = edit::next_nonce(present, "/job/savepointRedeployNonce");
    let wanted =
        json!({"spec": {"job": {"initialSavepointPath": path, "savepointRedeployNonce": nonce}}});
    if present.desired_state() == "suspended" {
        printer.note(format_args!(
            "`{name}` stays suspended; to start it: kubectl flink resume {name}"
        ));
    }
    edit::send(connection, present, &wanted, "restored", change, printer).await
}

/// A savepoint of either colour belongs to the blue/green deployment.
fn is_colour_of(name: &str, present: &Deployment) -> bool {
    let stored = present.stored();
    let is_it = |colour: Colour| colour.child_of(stored.name()) == name;
    stored.is_blue_green() && Colour::ALL.into_iter().any(is_it)
}

/// Describes the newer state that the job loses, as a sentence; `None` if it never ran.
fn left_behind(
    present: &Deployment,
    what: &str,
    taken_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<String> {
    if !present.was_deployed() {
        return None;
    }
    let name = present.shown_name();
    let age = taken_at.map(|at| format!(", {} ago,", table::age(now.as_second() - at.as_second())));
    Some(format!(
        "`{name}` goes back to {what}{} and leaves all newer state behind",
        age.unwrap_or_default()
    ))
}

/// Returns true while an upgrade, a suspension or a rollback is under way. A restore would come too late for it, and
/// would be considered done. After an error, the operation waits for its user, and a restore is possible.
fn is_on_its_way(present: &Deployment) -> bool {
    let of_status = |path: &str| present.0.pointer(path).and_then(Value::as_str);
    let is_moving = matches!(
        of_status("/status/reconciliationStatus/state"),
        Some("UPGRADING" | "ROLLING_BACK")
    );
    let stored = present.stored();
    if stored.is_blue_green() && !matches!(stored.lifecycle(), Some("ACTIVE_BLUE" | "ACTIVE_GREEN"))
    {
        return stored.was_deployed() && stored.error().is_none();
    }
    is_moving && of_status("/status/error").is_none_or(str::is_empty)
}

/// Returns true if the path is a checkpoint of the running job, which may be deleted before it is used.
fn is_own_live_checkpoint(present: &Deployment, path: &str) -> bool {
    let is_over = matches!(present.job_state(), Some("FINISHED" | "FAILED" | "CANCELED"));
    // With the latter nothing runs until someone names the state.
    let is_stopped = matches!(present.lifecycle(), Some("SUSPENDED" | "FAILED")) || is_over;
    !is_stopped && present.job_id().is_some_and(|id| is_checkpoint_of(path, id))
}

/// Checks the path as the operator would, with the job's own options.
async fn inspect(present: &Deployment, path: &str) -> Lookup {
    let own = present.flink_config();
    let operator: FlinkConfig = OperatorConfig::default().base;
    let looking = async {
        let storage = Storage::open(path, &operator, &own)?;
        storage.files_directly_in("").await
    };
    match tokio::time::timeout(CHECK_MAX, looking).await {
        Ok(Ok(files)) if files.iter().any(|file| file.path.ends_with(METADATA)) => Lookup::Found,
        Ok(Ok(_)) => Lookup::Absent,
        Ok(Err(error)) => Lookup::OutOfReach(error.to_string()),
        Err(_) => Lookup::OutOfReach(format!("no answer within {}s", CHECK_MAX.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn newer_state_is_named_with_its_age() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let mut present = Deployment(json!({"metadata": {"name": "orders"}, "spec": {"job": {}}}));
        assert_eq!(left_behind(&present, "revision 3", None, now), None);
        present.0["status"] = json!({"reconciliationStatus": {"lastReconciledSpec": "{}"}});
        let at = "2026-01-01T00:00:00Z".parse().ok();
        expect!["`orders` goes back to revision 3, 60m ago, and leaves all newer state behind"]
            .assert_eq(&left_behind(&present, "revision 3", at, now).unwrap());
        expect!["`orders` goes back to `s3://b/1` and leaves all newer state behind"]
            .assert_eq(&left_behind(&present, "`s3://b/1`", None, now).unwrap());
    }

    #[test]
    fn what_is_on_its_way_is_not_restored_to_another_place() {
        let with = |state: &str, error: Value| {
            Deployment(
                json!({"status": {"error": error, "reconciliationStatus": {"state": state}}}),
            )
        };
        assert!(is_on_its_way(&with("UPGRADING", Value::Null)));
        assert!(is_on_its_way(&with("ROLLING_BACK", Value::Null)));
        assert!(!is_on_its_way(&with("UPGRADING", json!("HA metadata is gone"))));
        assert!(!is_on_its_way(&with("DEPLOYED", Value::Null)));
        assert!(!is_on_its_way(&Deployment(json!({}))));
    }

    #[test]
    fn a_checkpoint_of_the_running_job_is_no_place_to_go_back_to() {
        let with = |lifecycle: &str| {
            Deployment(
                json!({"status": {"lifecycleState": lifecycle, "jobStatus": {"jobId": "abc", "state": "RUNNING"}}}),
            )
        };
        let is_live = |lifecycle: &str, path| is_own_live_checkpoint(&with(lifecycle), path);
        assert!(is_live("STABLE", "s3://b/checkpoints/abc/chk-7"));
        assert!(is_live("STABLE", "s3://b/checkpoints/abc/chk-7/_metadata"));
        assert!(!is_live("SUSPENDED", "s3://b/checkpoints/abc/chk-7"));
        assert!(!is_live("FAILED", "s3://b/checkpoints/abc/chk-7"), "it waits for this answer");
        assert!(!is_live("STABLE", "s3://b/checkpoints/def/chk-7"));
        assert!(!is_live("STABLE", "s3://b/savepoints/abc/savepoint-7"));
    }

    #[tokio::test]
    async fn a_path_that_only_pods_see_is_not_concluded_from() {
        let present = Deployment(json!({"spec": {"job": {}}}));
        let look = inspect(&present, "file:///flink/savepoints/1").await;
        assert!(matches!(look, Lookup::OutOfReach(_)), "{look:?}");
    }
}
