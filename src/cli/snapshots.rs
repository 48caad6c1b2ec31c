//! `snapshots`: the savepoints and checkpoints of jobs, and what still refers to each.
//!
//! They come from the same places that the operator reads: `FlinkStateSnapshot` resources, the deprecated history in a
//! job's status, and the last checkpoint that a running job has completed.

mod dispose;
mod gc;
mod inventory;
mod list;

use clap::{Args, Subcommand};

use super::args::Global;
use super::failure::Failure;
use super::printer::Printer;
use super::{restore, savepoint};

/// Arguments of `snapshots`.
#[derive(Args)]
#[command(after_help = "\
REFERENCES counts the specs, statuses, stored revisions and other snapshots that could still start from a snapshot.
A savepoint without references may be deleted; the operator never disposes of one with references. Flink itself
deletes checkpoints.

The default command is `list`.

Examples:
  # All snapshots of the namespace, or of all namespaces
  kubectl flink snapshots list
  kubectl flink snapshots list -A

  # Those of one job, with its last checkpoint and the references to each
  kubectl flink snapshots list orders -o wide

  # Take one, return to it, delete it with its savepoint
  kubectl flink snapshots trigger orders
  kubectl flink snapshots restore orders-savepoint-manual-1767225600000
  kubectl flink snapshots dispose orders-savepoint-manual-1767225600000

  # Delete old ones without references
  kubectl flink snapshots gc --keep 5 --older-than 720h")]
pub struct SnapshotsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: list::ListArgs,
}

/// What is done about a snapshot; without it all are listed. A job that is called like one of these
/// is listed by `snapshots list NAME`.
#[derive(Subcommand)]
enum Action {
    /// List savepoints and checkpoints, and what still refers to each
    #[command(after_help = "\
Examples:
  kubectl flink snapshots list
  kubectl flink snapshots list orders -o wide
  kubectl flink snapshots list -A -o json")]
    List(list::ListArgs),
    /// Take a savepoint, or with --checkpoint a checkpoint, of a running job
    #[command(after_help = "\
Examples:
  kubectl flink snapshots trigger orders
  kubectl flink snapshots trigger sessionjob/clicks --checkpoint")]
    Trigger(savepoint::SavepointArgs),
    /// Restart the job of a snapshot from it
    Restore(restore::SnapshotArgs),
    /// Delete a snapshot together with its savepoint, if nothing refers to it
    Dispose(dispose::DisposeArgs),
    /// Delete old, unreferenced snapshots with their savepoints
    Gc(gc::GcArgs),
}

/// Runs the subcommand.
pub async fn run(args: SnapshotsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let SnapshotsArgs { action, list } = args;
    let Some(action) = action else { return list::run(list, global, printer).await };
    if list.is_given() {
        return Err(Failure::usage(
            "names and flags of the list do not go in front of list, trigger, restore, dispose and gc",
        )
        .hint("write them behind those words, such as: kubectl flink snapshots list NAME")
        .into());
    }
    match action {
        Action::List(args) => list::run(args, global, printer).await,
        Action::Trigger(args) => savepoint::run(args, global, printer).await,
        Action::Restore(args) => restore::snapshot(args, global, printer).await,
        Action::Dispose(args) => dispose::run(args, global, printer).await,
        Action::Gc(args) => Box::pin(gc::run(args, global, printer)).await,
    }
}
