//! Follows a deployment until the operator has carried out a change.
//!
//! [`judge`] decides from one state of the object and is pure. [`until`] watches, shows progress, reports if no
//! operator seems to act, and gives up at the timeout.

use std::time::Duration;

use futures::StreamExt;
use kube::Resource;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use super::deployment::{Deployment, blue_green_name};
use super::failure::Failure;
use super::printer::Printer;
use api::blue_green::{FlinkBlueGreenDeployment, PROGRESSING};
use clients::cluster;
use clients::cluster::apply::ObjectId;
use clients::cluster::read;

/// Time without a sign of an operator after which the user is informed.
const OPERATOR_PATIENCE: Duration = Duration::from_secs(20);

/// The goal that a command waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// The spec in this object has been carried out: the state is `STABLE`, or `SUSPENDED` if the spec says so. The
    /// object is the answer to the write, so anything that differs from it is newer.
    Reconciled { written: Box<Deployment> },
    /// The object with this uid is gone.
    Deleted { uid: Option<String> },
}

/// Result of comparing the object with the goal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    Reached,
    /// The goal cannot be reached without another change.
    Failed(String),
    Waiting {
        /// Text for the progress line.
        phase: String,
        /// True if an operator has acted since the write.
        is_taken_up: bool,
    },
}

/// Compares the object, or its absence, with the goal.
pub fn judge(goal: &Goal, seen: Option<&Deployment>) -> Verdict {
    match (goal, seen) {
        (Goal::Deleted { .. }, None) => Verdict::Reached,
        (Goal::Deleted { uid }, Some(seen)) if uid.is_some() && uid.as_deref() != seen.uid() => {
            Verdict::Reached
        }
        (Goal::Deleted { .. }, Some(seen)) => {
            let is_taken_up = matches!(seen.lifecycle(), Some("DELETING" | "DELETED"));
            let what = phase(seen);
            // The error says what the deletion waits for, such as the jobs of a session cluster.
            let phase = match seen.error().filter(|_| is_taken_up) {
                Some(error) => format!("{what} · {error}"),
                None => what,
            };
            Verdict::Waiting { phase, is_taken_up }
        }
        (Goal::Reconciled { .. }, None) => {
            Verdict::Failed("it was deleted in the meantime".to_owned())
        }
        (Goal::Reconciled { written }, Some(seen)) => judge_reconciled(written, seen),
    }
}

fn judge_reconciled(written: &Deployment, seen: &Deployment) -> Verdict {
    if seen.is_being_deleted() {
        return Verdict::Failed("it is being deleted".to_owned());
    }
    if let Some(paused) = seen.paused().filter(|_| !seen.is_taken_up()) {
        return Verdict::Failed(paused.into_owned());
    }
    if seen.generation() > written.generation() {
        return Verdict::Failed("its spec was changed again in the meantime".to_owned());
    }
    if seen.is_blue_green() {
        return judge_blue_green(seen);
    }
    let is_new = seen.resource_version() != written.resource_version();
    let cause = || seen.error().unwrap_or_else(|| "the operator gives no reason".to_owned());
    if !seen.is_taken_up() {
        // A new error without a new observed generation means that the operator has refused the spec.
        let is_refused = is_new
            && seen.error().is_some()
            && seen.error() != written.error()
            && seen.upgrade_waits().is_none();
        return match seen.lifecycle() {
            Some("FAILED") if is_new && !seen.was_deployed() => Verdict::Failed(cause()),
            _ if is_refused => Verdict::Failed(cause()),
            _ => Verdict::Waiting { phase: phase(seen), is_taken_up: false },
        };
    }
    let goal = if !seen.is_session() && seen.desired_state() == "suspended" {
        "SUSPENDED"
    } else {
        "STABLE"
    };
    match seen.lifecycle() {
        Some(state) if state == goal && (goal == "SUSPENDED" || runs(seen)) => Verdict::Reached,
        Some("FAILED") if is_new => Verdict::Failed(cause()),
        Some("ROLLED_BACK") if is_new => {
            Verdict::Failed(format!("the change was rolled back: {}", cause()))
        }
        _ => Verdict::Waiting { phase: phase(seen), is_taken_up: true },
    }
}

/// Evaluates the conditions that the operator sets. A switch under way has one of its own.
fn judge_blue_green(seen: &Deployment) -> Verdict {
    let progressing = seen.condition(PROGRESSING);
    let is_over = progressing.is_some_and(|it| it["status"] == "False");
    match (seen.is_taken_up(), seen.job_state()) {
        (false, _) => Verdict::Waiting { phase: phase(seen), is_taken_up: false },
        (true, _) if is_over => Verdict::Failed(
            seen.error().unwrap_or_else(|| "the operator gives no reason".to_owned()),
        ),
        (true, Some("RUNNING" | "SUSPENDED")) if progressing.is_none() => Verdict::Reached,
        (true, _) => Verdict::Waiting { phase: phase(seen), is_taken_up: true },
    }
}

/// Returns true if something runs. Returning to the last stable spec makes a deployment `STABLE` at once, before that.
fn runs(seen: &Deployment) -> bool {
    if seen.is_session() {
        return seen.job_manager_status() == Some("READY");
    }
    matches!(seen.job_state(), Some("RUNNING" | "FINISHED"))
}

/// Formats the state, such as `UPGRADING · JobManager DEPLOYING · job RECONCILING`.
pub fn phase(seen: &Deployment) -> String {
    let mut parts = Vec::new();
    parts.push(match seen.lifecycle() {
        Some(lifecycle) => lifecycle.to_owned(),
        None => "not yet seen by an operator".to_owned(),
    });
    parts.extend(seen.job_manager_status().map(|status| format!("JobManager {status}")));
    parts.extend(seen.job_state().map(|state| format!("job {state}")));
    let told = seen.is_blue_green().then(|| seen.condition(PROGRESSING)?.get("message")?.as_str());
    let waits = || Some(seen.upgrade_waits()?.1.into_owned());
    parts.extend(told.flatten().map(str::to_owned).or_else(waits));
    parts.join(" · ")
}

/// Watches the deployment until the goal is reached, cannot be reached, or the timeout expires.
pub async fn until(
    connection: &Connection,
    id: &ObjectId,
    goal: &Goal,
    timeout: Duration,
    printer: &Printer,
) -> anyhow::Result<()> {
    let progress = printer.progress();
    let started = Instant::now();
    let mut patience = Some(started + OPERATOR_PATIENCE);
    let name = &if id.kind == FlinkBlueGreenDeployment::kind(&()) {
        blue_green_name(&id.name)
    } else {
        id.name.clone()
    };
    let mut watch = Box::pin(read::watch_value(&connection.client, id));
    let mut leaving = Box::pin(tokio::signal::ctrl_c());
    let mut last_seen: Option<Deployment> = None;
    let mut last_error: Option<cluster::Error> = None;
    loop {
        tokio::select! {
            _ = &mut leaving => {
                return Err(interrupted(name, goal, last_seen.as_ref()).into());
            }
            () = sleep_until(started + timeout) => {
                return Err(timed_out(name, goal, timeout, last_seen.as_ref(), last_error).into());
            }
            () = sleep_until(patience.unwrap_or(started)), if patience.is_some() => {
                patience = None;
                if let Some(cause) = last_seen.as_ref().filter(|seen| !seen.is_taken_up()).and_then(Deployment::error)
                    && matches!(goal, Goal::Reconciled { .. })
                {
                    return Err(failed(name, &cause).into());
                }
                progress.hint(untaken(last_seen.as_ref(), &connection.namespace));
            }
            seen = watch.next() => match seen {
                Some(Ok(seen)) => {
                    last_error = None;
                    last_seen = seen.map(Deployment);
                    match judge(goal, last_seen.as_ref()) {
                        Verdict::Reached => {
                            if let Some(seen) = &last_seen {
                                progress.note(format_args!("{name}: {}", phase(seen)));
                            }
                            return Ok(());
                        }
                        Verdict::Failed(cause) => return Err(failed(name, &cause).into()),
                        Verdict::Waiting { phase, is_taken_up } => {
                            if is_taken_up {
                                patience = None;
                            }
                            progress.set(format_args!("{name}: {phase}"));
                        }
                    }
                }
                Some(Err(error)) if error.is_transient() => {
                    progress.set(format_args!("{name}: {error}"));
                    last_error = Some(error);
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Failure::new(format!("the watch of `{name}` ended")).into()),
            },
        }
    }
}

/// Returns advice about a change that no operator has picked up.
fn untaken(seen: Option<&Deployment>, namespace: &str) -> String {
    // Only an operator sets this state on something that was never deployed, so it is waiting for something else.
    let waiting = seen.filter(|seen| !seen.was_deployed() && seen.lifecycle() == Some("CREATED"));
    match waiting.and_then(Deployment::session_cluster) {
        Some(cluster) => format!(
            "an operator is waiting for its session cluster `{cluster}`; see: kubectl flink status \
             {cluster} -n {namespace}"
        ),
        None => format!(
            "no operator has picked this up yet; start one: kubectl flink operate -n {namespace}"
        ),
    }
}

fn failed(name: &str, cause: &str) -> Failure {
    Failure::new(format!("`{name}` failed: {cause}"))
        .hint(format!("for details: kubectl flink status {name}; kubectl flink logs {name}"))
}

/// Reports what continues in the cluster after the user has stopped waiting.
fn interrupted(name: &str, goal: &Goal, seen: Option<&Deployment>) -> Failure {
    let state = seen.map_or_else(String::new, |seen| format!(", which is {}", phase(seen)));
    let what = match goal {
        Goal::Deleted { .. } => "deletion",
        Goal::Reconciled { .. } => "change",
    };
    Failure::interrupted(format!("stopped waiting for `{name}`{state}")).hint(format!(
        "the {what} is stored, and the operator continues with it; to follow it: kubectl flink status \
         {name} -w"
    ))
}

fn timed_out(
    name: &str,
    goal: &Goal,
    timeout: Duration,
    seen: Option<&Deployment>,
    error: Option<cluster::Error>,
) -> Failure {
    let wanted = match goal {
        Goal::Deleted { .. } => "gone",
        Goal::Reconciled { written }
            if written.desired_state() == "suspended" && !written.is_session() =>
        {
            "SUSPENDED"
        }
        Goal::Reconciled { written } if written.is_blue_green() => "in its desired state",
        Goal::Reconciled { .. } => "STABLE",
    };
    let state = seen.map_or_else(String::new, |seen| format!(": it is {}", phase(seen)));
    let failure =
        Failure::timed_out(format!("`{name}` is not {wanted} after {}s{state}", timeout.as_secs()))
            .hint(format!(
                "it continues in the cluster; to follow it: kubectl flink status {name}"
            ));
    match (error, seen.and_then(Deployment::error)) {
        (Some(error), _) => failure.caused_by(error),
        (None, Some(cause)) => failure.caused_by(anyhow::Error::msg(cause)),
        (None, None) => failure,
    }
}

#[cfg(test)]
mod tests;
