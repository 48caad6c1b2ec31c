//! Common parts of commands that change a few fields of a deployment's spec.
//!
//! Such a change is a single merge patch. Before it is sent, the resulting spec is checked, and if the job would stop
//! without its state, the user must agree. The patch carries the resource version that was checked, so a concurrent
//! change is a conflict and is not overwritten.

use clap::Args;
use serde_json::{Value, json};

use super::args::{ChangeFlags, DryRunMode, Untried};
use super::connection::Connection;
use super::deploy::merge;
use super::deployment::Deployment;
use super::failure::Failure;
use super::history::without_nulls;
use super::printer::Printer;
use super::{change, equivalent, lookup, plan};
use api::deployment::FlinkDeploymentSpec;
use api::session_job::FlinkSessionJobSpec;
use clients::cluster::apply;
use config::cluster::is_high_availability_on;
use config::{OperatorConfig, options};
use lifecycle::diff::{ChangeClass, diff, diff_session_job};
use lifecycle::notes::STARTED_WITH;
use validation::{ValidationInput, Violation, validate};

/// Flags of commands that make the job stop and start.
#[derive(Args, Clone, Copy)]
pub struct EditFlags {
    /// Accept that the job stops without its state if it would; do not ask
    #[arg(long)]
    lose_state: bool,
    #[command(flatten)]
    pub change: ChangeFlags,
}

impl EditFlags {
    #[must_use]
    pub fn or_untried(self, untried: Untried) -> Self {
        Self { change: self.change.or_untried(untried), ..self }
    }
}

/// Checks the patch, asks for confirmation if state would be lost, sends it, and waits if requested.
pub(super) async fn carry_out(
    connection: &Connection,
    present: &Deployment,
    patch: &Value,
    verb: &str,
    flags: EditFlags,
    printer: &Printer,
) -> anyhow::Result<()> {
    let change = flags.change;
    let wanted = patched(present, patch);
    if without_nulls(&wanted.0["spec"]) == without_nulls(&present.0["spec"]) {
        printer.note(format_args!("`{}` already has this spec", present.shown_name()));
        return change::finish(connection, present.stored().0, "unchanged", change, printer).await;
    }
    let violations = new_violations(present, &wanted);
    if !violations.is_empty() {
        return Err(refusal(present, &violations).into());
    }
    if present.stands_for_blue_green() {
        let wanted = &wanted.0["spec"];
        plan::warn_without_room(connection, &present.stored(), wanted, printer).await;
    }
    let jobs = if present.is_session() {
        lookup::session_jobs_of(connection, present.name()).await.map_err(|error| error.to_string())
    } else {
        Ok(Vec::new())
    };
    if let Some(loss) = decide_loss(present, &wanted, jobs.as_deref()) {
        agree_unless(&loss, flags, printer)?;
    }
    send(connection, present, patch, verb, change, printer).await
}

/// Sends a patch exactly as it was checked, and waits if requested.
pub(super) async fn send(
    connection: &Connection,
    present: &Deployment,
    patch: &Value,
    verb: &str,
    change: ChangeFlags,
    printer: &Printer,
) -> anyhow::Result<()> {
    let dry_run = change.dry_run.dry_run;
    let stored = present.stored();
    let mut patch = as_stored(present, patch.clone());
    if dry_run != DryRunMode::None {
        printer.note(equivalent::patch(&stored, &patch));
    }
    let written = if dry_run == DryRunMode::Client {
        patched(&stored, &patch).0
    } else {
        if let Some(version) = stored.resource_version() {
            patch["metadata"]["resourceVersion"] = json!(version);
        }
        let writer = change::writer(dry_run);
        apply::merge_patch(&connection.client, &stored.id(), &patch, writer).await?
    };
    change::finish(connection, written, verb, change, printer).await
}

/// Turns a patch of the spec into one of the object that holds the spec.
pub(super) fn as_stored(present: &Deployment, patch: Value) -> Value {
    if present.stands_for_blue_green() { json!({"spec": {"template": patch}}) } else { patch }
}

/// Returns the object with the patch applied.
pub(super) fn patched(present: &Deployment, patch: &Value) -> Deployment {
    let mut object = present.0.clone();
    merge(&mut object, patch);
    Deployment(object)
}

/// Asks whether the state may be lost, unless nothing will be changed or `--lose-state` is given.
pub(super) fn agree_unless(loss: &str, flags: EditFlags, printer: &Printer) -> anyhow::Result<()> {
    let EditFlags { lose_state, change } = flags;
    if change.dry_run.dry_run == DryRunMode::None && !lose_state {
        return agree(loss, "--lose-state", printer);
    }
    printer.warning(loss);
    Ok(())
}

/// Asks for confirmation. Without a terminal, the flag is required.
pub(super) fn agree(loss: &str, flag: &str, printer: &Printer) -> anyhow::Result<()> {
    if !printer.terminals().input {
        return Err(Failure::new(format!("nothing was changed: {loss}"))
            .hint(format!("to accept this, use {flag}"))
            .into());
    }
    if printer.confirm(format_args!("{loss}. Continue?"))? {
        return Ok(());
    }
    Err(Failure::new("nothing was changed").into())
}

/// Returns a nonce that differs from the present and the last reconciled one.
pub(super) fn next_nonce(present: &Deployment, path: &str) -> i64 {
    let last = present.last_reconciled_spec();
    let of =
        |spec: Option<&Value>| spec.and_then(|spec| spec.pointer(path)).and_then(Value::as_i64);
    let used = [of(present.0.get("spec")), of(last.as_ref())];
    let greatest = used.into_iter().flatten().max().unwrap_or_default();
    // Any other number works; after the maximum, start over with a number that was used long ago.
    greatest.checked_add(1).unwrap_or(1)
}

/// Describes in a sentence what the change would throw away; `None` if the state is kept.
///
/// `jobs` are those of a session cluster, or why they are not known.
fn decide_loss(
    present: &Deployment,
    wanted: &Deployment,
    jobs: Result<&[Deployment], &String>,
) -> Option<String> {
    if !present.was_deployed() || class_of(present, wanted) < ChangeClass::Scale {
        return None;
    }
    let name = present.shown_name();
    if present.is_session() {
        // The old cluster writes the metadata that the new one starts from, so both need high availability.
        let has_metadata = is_high_availability_on(&present.flink_config())
            && is_high_availability_on(&wanted.flink_config());
        if has_metadata || jobs.is_ok_and(<[_]>::is_empty) || saves_jobs(present, wanted) {
            return None;
        }
        let which = match jobs {
            Ok(jobs) => {
                let names = jobs.iter().map(|job| format!("`{}`", job.name()));
                names.collect::<Vec<_>>().join(", ")
            }
            Err(error) => format!("could not list them: {error}"),
        };
        return Some(format!(
            "session cluster `{name}` has no high availability to recover its jobs from: when it stops, \
             they are lost with their unsaved state: {which}"
        ));
    }
    let is_running = present.desired_state() == "running";
    (is_running && wanted.upgrade_mode() == "stateless").then(|| {
        let mode = present.place_of("job.upgradeMode");
        format!("{mode} of `{name}` is stateless: its job restarts without its current state")
    })
}

/// Returns true if the operator of the session cluster first stops its jobs with their state. The Java operator does
/// not, and does not record how it started a cluster.
fn saves_jobs(present: &Deployment, wanted: &Deployment) -> bool {
    let info = present.0.pointer("/status/clusterInfo");
    info.is_some_and(|info| info.get(STARTED_WITH.key).is_some())
        && wanted.flink_config().get(&options::SESSION_UPGRADE_WAIT_FOR_JOBS).unwrap_or(true)
}

/// Classifies the change. A spec that our types reject may require anything, so it is an upgrade.
fn class_of(present: &Deployment, wanted: &Deployment) -> ChangeClass {
    let class = if present.is_session_job() {
        let typed = |it: &Deployment| FlinkSessionJobSpec::deserialize(&it.0["spec"]);
        typed(present).and_then(|one| Ok(diff_session_job(&one, &typed(wanted)?).class()))
    } else {
        let typed = |it: &Deployment| FlinkDeploymentSpec::deserialize(&it.0["spec"]);
        typed(present).and_then(|one| Ok(diff(&one, &typed(wanted)?).class()))
    };
    class.unwrap_or(ChangeClass::Upgrade)
}

/// Returns the violations of the new spec that the present one does not have. The operator's defaults are not known
/// here and may fix existing violations.
fn new_violations(present: &Deployment, wanted: &Deployment) -> Vec<Violation> {
    if present.is_session_job() {
        return Vec::new();
    }
    let operator = OperatorConfig::default();
    let last = present.last_reconciled_spec();
    let last = last.and_then(|spec| FlinkDeploymentSpec::deserialize(spec).ok());
    let of = |deployment: &Deployment| {
        let Ok(spec) = FlinkDeploymentSpec::deserialize(&deployment.0["spec"]) else {
            return Vec::new();
        };
        validate(&ValidationInput {
            name: deployment.name(),
            namespace: deployment.namespace(),
            spec: &spec,
            last_reconciled: last.as_ref(),
            operator: &operator,
        })
    };
    let old = of(present);
    of(wanted).into_iter().filter(|violation| !old.contains(violation)).collect()
}

fn refusal(present: &Deployment, violations: &[Violation]) -> Failure {
    let mut message = format!("`{}` was not changed:", present.shown_name());
    for violation in violations {
        message.push_str("\n  ");
        message.push_str(&violation.to_string());
    }
    Failure::new(message)
}

#[cfg(test)]
mod tests;
