//! `pause` and `unpause`: have the operator only observe a resource, with an annotation on it.

use clap::Args;
use serde_json::{Value, json};

use super::args::{DryRun, DryRunMode, Global, ObjectFormat, Output};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::lookup;
use super::printer::Printer;
use super::{change, complete, edit, equivalent};
use api::PAUSED_ANNOTATION;
use clients::cluster::apply;

/// Which resource, and how the answer is told.
#[derive(Args)]
struct Target {
    /// The FlinkDeployment, sessionjob/NAME, bluegreen/NAME or snapshot/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// Arguments of `pause`.
#[derive(Args)]
#[command(after_help = "\
The operator goes on to observe the resource: its status, metrics and events are those of its job. It
starts, stops and deletes nothing, whatever changes, until the resource is unpaused. A job that runs
keeps running. The annotation is flink.apache.org/paused: \"true\"; the Java operator does not know it.

Examples:
  kubectl flink pause orders
  kubectl flink pause bluegreen/orders
  kubectl flink pause sessionjob/clicks --yes")]
pub struct PauseArgs {
    #[command(flatten)]
    target: Target,
    /// Do not ask, even if the job does not run now and would stay down
    #[arg(short, long)]
    yes: bool,
}

/// Arguments of `unpause`.
#[derive(Args)]
#[command(after_help = "\
The operator carries out what has changed meanwhile; to see it before: kubectl flink plan NAME

Examples:
  kubectl flink unpause orders
  kubectl flink unpause snapshot/orders-1")]
pub struct UnpauseArgs {
    #[command(flatten)]
    target: Target,
    /// Accepted for scripts: nothing is asked
    #[arg(short, long)]
    yes: bool,
}

/// Sets the annotation. Asks if the job is down, because it stays so.
pub async fn pause(args: PauseArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let PauseArgs { target, yes } = args;
    let connection = global.connect().await?;
    let present = find(&connection, &target.name).await?;
    if present.is_paused_by_itself() {
        return is_so_already(present, "paused", target, printer);
    }
    if let Some(down) = down(&present).filter(|_| target.dry_run.dry_run == DryRunMode::None) {
        if yes {
            printer.warning(down);
        } else {
            edit::agree(&down, "--yes", printer)?;
        }
    }
    send(&connection, present, (json!("true"), "paused"), target, printer).await
}

/// Removes the annotation.
pub async fn unpause(args: UnpauseArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let UnpauseArgs { target, yes: _ } = args;
    let connection = global.connect().await?;
    let present = find(&connection, &target.name).await?;
    let is_left_by_parent = present.blue_green_parent().is_some() && present.paused().is_some();
    if !present.is_paused_by_itself() && !is_left_by_parent {
        return is_so_already(present, "not paused", target, printer);
    }
    // Without a value, what a deleted blue/green deployment leaves is paused with it.
    let value = if is_left_by_parent { json!("false") } else { Value::Null };
    send(&connection, present, (value, "unpaused"), target, printer).await
}

/// Reads the resource itself, of any kind. A colour is paused with its blue/green deployment.
async fn find(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let present = lookup::fetch_of_any_kind(connection, name).await?;
    if let Some(parent) = present.blue_green_parent()
        && lookup::fetch_blue_green(connection, parent).await.is_ok()
    {
        let message = format!(
            "`{}` cannot be paused or unpaused by itself: it is a colour of the blue/green \
             deployment `{parent}`",
            present.name()
        );
        return Err(Failure::new(message).hint(format!("name bluegreen/{parent}")).into());
    }
    Ok(present)
}

/// Says that the job is down and stays so, if it is to run.
fn down(present: &Deployment) -> Option<String> {
    let is_up = match present.job_state() {
        _ if !present.was_deployed() || present.is_blue_green() => true,
        _ if present.is_session() => present.job_manager_status() == Some("READY"),
        Some(state) => matches!(state, "RUNNING" | "FINISHED"),
        None => false,
    };
    let is_to_run = present.is_session() || present.desired_state() == "running";
    let is_moving = matches!(present.lifecycle(), Some("UPGRADING" | "ROLLING_BACK"));
    (is_to_run && (!is_up || is_moving)).then(|| {
        format!(
            "the job of `{}` does not run now ({}): while it is paused, the operator does not start \
             it",
            present.shown_name(),
            present.lifecycle().unwrap_or("new")
        )
    })
}

fn is_so_already(
    present: Deployment,
    what: &str,
    target: Target,
    printer: &Printer,
) -> anyhow::Result<()> {
    printer.note(format_args!("`{}` is {what} already", present.shown_name()));
    let Target { name: _, dry_run: DryRun { dry_run }, output: Output { output } } = target;
    change::report(&present.0, "unchanged", dry_run, output, printer)
}

async fn send(
    connection: &Connection,
    present: Deployment,
    (value, verb): (Value, &str),
    target: Target,
    printer: &Printer,
) -> anyhow::Result<()> {
    let Target { name: _, dry_run: DryRun { dry_run }, output: Output { output } } = target;
    let patch = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}});
    let id = present.id();
    if dry_run != DryRunMode::None {
        printer.note(equivalent::merge_patch(&id, &patch));
    }
    let written = if dry_run == DryRunMode::Client {
        edit::patched(&present, &patch).0
    } else {
        apply::merge_patch(&connection.client, &id, &patch, change::writer(dry_run)).await?
    };
    change::report(&written, verb, dry_run, output, printer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(lifecycle: &str, job: &str) -> Deployment {
        Deployment(json!({"kind": "FlinkDeployment", "metadata": {"name": "orders"},
            "spec": {"job": {"state": "running"}},
            "status": {"lifecycleState": lifecycle, "jobStatus": {"state": job},
                "reconciliationStatus": {"lastReconciledSpec": "{}"}}}))
    }

    #[test]
    fn whoever_pauses_a_job_that_is_down_is_asked() {
        assert_eq!(down(&deployment("STABLE", "RUNNING")), None);
        assert_eq!(down(&deployment("STABLE", "FINISHED")), None);
        for (lifecycle, job) in
            [("UPGRADING", "FINISHED"), ("ROLLING_BACK", "RUNNING"), ("DEPLOYED", "RECONCILING")]
        {
            let asked = down(&deployment(lifecycle, job)).unwrap();
            assert!(asked.contains(lifecycle) && asked.contains("`orders`"), "{asked}");
        }
        let mut suspended = deployment("SUSPENDED", "FINISHED");
        suspended.0["spec"]["job"]["state"] = json!("suspended");
        assert_eq!(down(&suspended), None);
        let mut new = deployment("", "");
        new.0["status"] = json!({});
        assert_eq!(down(&new), None, "nothing of it was ever started");
    }

    #[test]
    fn a_session_cluster_is_down_if_it_does_not_answer() {
        let mut session = deployment("STABLE", "");
        session.0["spec"] = json!({});
        session.0["status"]["jobManagerDeploymentStatus"] = json!("READY");
        assert_eq!(down(&session), None);
        session.0["status"]["jobManagerDeploymentStatus"] = json!("MISSING");
        assert!(down(&session).is_some());
    }
}
