//! `delete`: saves the state first by default, and deletes nothing without saying so.

mod explain;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use super::args::{DryRun, DryRunMode, FlinkAccess, Global, Output, Wait};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::lookup;
use super::printer::{Printer, ValueFormat};
use super::savepoint::{self, Order};
use super::wait::{self, Goal};
use super::{change, complete, job_manager};
use api::deployment::FlinkDeployment;
use api::status::{LAST_STATE_PATH, SavepointFormatType};
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation};
use clients::cluster::read;
use clients::flink::Deadlines;
use clients::flink::access::Access;
use config::options;

/// Arguments of `delete`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Stop the job with a savepoint, print its path and delete the deployment
  kubectl flink delete orders

  # What holds up the deletion? Changes nothing
  kubectl flink delete orders --explain
  kubectl flink delete snapshot/orders-1 --explain -o json

  # Which permissions does the operator lack for it?
  kubectl flink delete orders --explain --as system:serviceaccount:flink:flink-operator")]
pub struct DeleteArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Take no savepoint: the state since the last checkpoint is lost
    #[arg(long)]
    no_savepoint: bool,
    /// Do not ask; state that cannot be saved still needs --no-savepoint
    #[arg(short, long)]
    yes: bool,
    /// Directory for the savepoint; default: execution.checkpointing.savepoint-dir of the job
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "no_savepoint")]
    savepoint_path: Option<String>,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    dry_run: DryRun,
    /// Change nothing: say what holds up the deletion, until when, and what helps. Also for
    /// snapshot/NAME
    #[arg(long, conflicts_with_all = ["no_savepoint", "yes", "savepoint_path", "wait", "dry_run"])]
    explain: bool,
    /// With --explain: the operator's configuration, a file or a directory
    #[arg(long, value_name = "PATH", env = "FLINK_CONF_DIR", requires = "explain")]
    operator_config: Option<PathBuf>,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// What the deletion does to the job's state.
#[derive(Debug, Eq, PartialEq)]
enum State {
    /// A savepoint of the running job can be taken.
    Save { job_id: String },
    /// Nothing runs. Existing state stays as it is; `path` is the one that the status names.
    AtRest { path: Option<String> },
    /// Nothing runs, and only HA metadata says where the newest state is. The deletion removes it too.
    InHaMetadata { is_suspended: bool },
    /// There is state that cannot be saved.
    Endangered(Danger),
}

/// Why no savepoint can be taken.
#[derive(Debug, Eq, PartialEq)]
enum Danger {
    NoDirectory,
    NotRunning(String),
}

impl std::fmt::Display for Danger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoDirectory => formatter.write_str("no savepoint directory is configured"),
            Self::NotRunning(state) => write!(formatter, "its job is {state}"),
        }
    }
}

/// Decides what can be done about the state.
fn decide_state(deployment: &Deployment, has_directory: bool) -> State {
    let is_suspended = deployment.lifecycle() == Some("SUSPENDED");
    // Must come first: a job that was stopped for an upgrade is FINISHED too.
    if is_stopped_by_ha_metadata(deployment) {
        return State::InHaMetadata { is_suspended };
    }
    let is_over = matches!(deployment.job_state(), Some("FINISHED" | "CANCELED" | "FAILED"));
    if deployment.is_session() || !deployment.was_deployed() || is_over || is_suspended {
        let path = deployment.upgrade_savepoint_path().filter(|path| *path != LAST_STATE_PATH);
        return State::AtRest { path: path.map(Into::into) };
    }
    match savepoint::running_job(deployment) {
        Ok(_) if !has_directory => State::Endangered(Danger::NoDirectory),
        Ok(job_id) => State::Save { job_id: job_id.to_owned() },
        Err(_) => {
            let state = deployment.job_state().unwrap_or("not started");
            State::Endangered(Danger::NotRunning(state.to_owned()))
        }
    }
}

/// Returns true if the job was stopped for a suspension, an upgrade or a rollback and only its HA metadata remains.
fn is_stopped_by_ha_metadata(deployment: &Deployment) -> bool {
    let spec = deployment.last_reconciled_spec().unwrap_or_default();
    let of_job = |field: &str| spec.pointer(field).and_then(Value::as_str);
    let is_stopped = of_job("/job/state") == Some("suspended") || deployment.is_rolling_back();
    is_stopped && of_job("/job/upgradeMode") == Some("last-state")
}

/// Saves the state if it can, then deletes.
pub async fn run(args: DeleteArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let DeleteArgs {
        name,
        no_savepoint,
        yes,
        savepoint_path,
        wait,
        access,
        dry_run: DryRun { dry_run },
        explain,
        operator_config,
        output,
    } = args;
    if explain {
        let ways = (access.flink_access, operator_config.as_deref());
        return explain::run(&name, ways, global, output, printer).await;
    }
    if output.output.is_some() {
        return Err(Failure::usage("-o requires --explain").into());
    }
    let connection = global.connect().await?;
    let present = lookup::fetch_to_change(&connection, &name).await?;
    let stored = present.stored();
    refuse_paused(&stored)?;
    let cluster = saving_cluster(&connection, &present, no_savepoint).await?;
    let has_directory = savepoint_path.is_some()
        || has_directory(&connection, &present, cluster.as_ref(), (no_savepoint, &access)).await;
    let state = match decide_state(&present, has_directory) {
        state @ State::AtRest { .. } => state,
        _ if no_savepoint || cluster.is_none() => State::AtRest { path: None },
        state => state,
    };
    // `--yes` confirms the deletion, not the loss of state, which has a flag of its own.
    if yes || !printer.terminals().input {
        refuse_loss(&name, &state)?;
    }
    if !yes && dry_run == DryRunMode::None && printer.terminals().input {
        let question = question(&present, &state, no_savepoint, &connection.namespace);
        if !printer.confirm(question)? {
            return Err(Failure::new("nothing was deleted").into());
        }
    }
    // A blue/green deployment has no finalizer; those of its colours clean up.
    let all = lookup::with_colours(&connection, &stored).await?;
    let mut path = None;
    if let State::AtRest { path: left } = state {
        if let (Some(left), DryRunMode::None) = (&left, dry_run) {
            // Like the savepoint's path, this must be known even if the rest fails.
            printer.line(left)?;
        }
        path = left;
    } else if let (State::Save { job_id }, Some(cluster)) = (state, &cluster)
        && dry_run == DryRunMode::None
    {
        let timeout = wait.timeout.max(Duration::from_secs(1));
        let order = Order {
            name: present.shown_name(),
            job_id,
            path: savepoint_path,
            format: SavepointFormatType::Canonical,
            stops_job: true,
            timeout,
        };
        let location = savepoint::take(&connection, cluster, access.flink_access, &order, printer)
            .await
            .map_err(|error| {
                Failure::new(format!(
                    "`{name}` was not deleted, because its state could not be saved"
                ))
                .caused_by(error)
                .hint("delete it without a savepoint: --no-savepoint")
            })?;
        // Printed before anything is deleted, because it must be known even if the rest fails.
        printer.line(&location)?;
        path = Some(location);
    }
    if dry_run != DryRunMode::Client {
        let deletion = Deletion {
            propagation: Propagation::Background,
            uid: stored.uid(),
            resource_version: None,
            is_dry_run: dry_run == DryRunMode::Server,
        };
        apply::delete(&connection.client, &stored.id(), deletion).await?;
    }
    printer.note(format_args!("{} deleted{}", change::qualified_name(&stored.0), dry_run.suffix()));
    if let Some(path) = &path {
        printer.hint(format_args!(
            "to start from its state again, deploy it with {}: {path}",
            present.place_of("job.initialSavepointPath")
        ));
    }
    if wait.wait && dry_run == DryRunMode::None {
        let until = Instant::now() + wait.timeout;
        for it in all {
            let goal = Goal::Deleted { uid: it.uid().map(str::to_owned) };
            let left = until.saturating_duration_since(Instant::now());
            wait::until(&connection, &it.id(), &goal, left, printer).await?;
        }
    }
    Ok(())
}

fn refuse_paused(stored: &Deployment) -> Result<(), Failure> {
    if stored.paused().is_none() {
        return Ok(());
    }
    let name = stored.shown_name();
    let message = format!("`{name}` was not deleted: it is paused, and the deletion would wait");
    Err(Failure::new(message).hint(format!("unpause it first: kubectl flink unpause {name}")))
}

fn refuse_loss(name: &str, state: &State) -> Result<(), Failure> {
    match state {
        State::Save { .. } | State::AtRest { .. } => Ok(()),
        State::InHaMetadata { is_suspended } => Err(Failure::new(format!(
            "`{name}` was not deleted: only its HA metadata points to its newest state, and is deleted with \
             it"
        ))
        .hint(if *is_suspended {
            format!("resume it, then delete it with a savepoint: kubectl flink resume {name} --wait")
        } else {
            format!("delete it once its job is running; to see why it is not: kubectl flink why {name}")
        })
        .hint("or leave its state behind: --no-savepoint")),
        State::Endangered(danger) => Err(Failure::new(format!(
            "`{name}` was not deleted: no savepoint can be taken, because {danger}"
        ))
        .hint(match danger {
            Danger::NoDirectory => "name a savepoint directory: --savepoint-path DIRECTORY".to_owned(),
            Danger::NotRunning(_) => {
                format!("delete it once its job is running; to see why it is not: kubectl flink why {name}")
            }
        })
        .hint("or delete it without one: --no-savepoint")),
    }
}

/// Phrases the question that a person answers before anything happens.
fn question(present: &Deployment, state: &State, no_savepoint: bool, namespace: &str) -> String {
    let about_state = match state {
        State::Save { .. } => "its job is stopped with a savepoint first".to_owned(),
        State::AtRest { path: Some(path) } => format!("its state stays at `{path}`"),
        State::AtRest { path: None } if no_savepoint => "no savepoint is taken".to_owned(),
        State::AtRest { path: None } => "it runs no job of its own".to_owned(),
        State::InHaMetadata { .. } => {
            "ONLY ITS HA METADATA points to its newest state, and is deleted with it".to_owned()
        }
        State::Endangered(danger) => format!("NO savepoint can be taken, because {danger}"),
    };
    let stored = present.stored();
    let (kind, name) = (stored.id().kind, stored.name());
    format!("Delete {kind} `{name}` in namespace `{namespace}`? ({about_state})")
}

/// Returns the deployment whose JobManager can save the job; `None` if a session job's cluster is gone, so there is
/// nothing to save.
async fn saving_cluster(
    connection: &Connection,
    present: &Deployment,
    no_savepoint: bool,
) -> anyhow::Result<Option<Deployment>> {
    let Some(name) = present.session_cluster() else { return Ok(Some(present.clone())) };
    let id = ObjectId::of::<FlinkDeployment>(present.namespace(), &name);
    match read::get_value(&connection.client, &id).await {
        Ok(found) => Ok(found.map(Deployment)),
        Err(_) if no_savepoint => Ok(None),
        // The job may be running there.
        Err(error) => Err(Failure::new(format!(
            "`{}` was not deleted, because its session cluster `{name}` cannot be read",
            present.shown_name()
        ))
        .caused_by(error)
        .hint("delete it without a savepoint: --no-savepoint")
        .into()),
    }
}

/// Returns true if the job, its cluster, or the defaults of the running cluster set a savepoint directory.
async fn has_directory(
    connection: &Connection,
    present: &Deployment,
    cluster: Option<&Deployment>,
    (no_savepoint, access): (bool, &FlinkAccess),
) -> bool {
    let Some(cluster) = cluster else { return false };
    present.savepoint_directory().is_some()
        || cluster.savepoint_directory().is_some()
        || (!no_savepoint
            && is_directory_configured(connection, cluster, access.flink_access).await)
}

/// Returns true if the running cluster has a savepoint directory that its spec does not set, as the operator's own
/// configuration may. A JobManager that does not answer cannot take a savepoint anyway.
async fn is_directory_configured(
    connection: &Connection,
    deployment: &Deployment,
    access: Access,
) -> bool {
    if savepoint::running_job(deployment).is_err() {
        return false;
    }
    let Ok(client) = job_manager::client(connection, deployment, access, Deadlines::default())
    else {
        return false;
    };
    let config = client.without_retries().job_manager_config().await.unwrap_or_default();
    options::SAVEPOINT_DIRECTORY.keys().any(|key| config.contains_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(job_status: Value, lifecycle: &str) -> Deployment {
        Deployment(json!({"metadata": {"name": "x"}, "spec": {"job": {}}, "status": {
            "jobStatus": job_status, "lifecycleState": lifecycle,
            "reconciliationStatus": {"lastReconciledSpec": "{}"}}}))
    }

    #[test]
    fn running_job_is_saved_where_there_is_a_directory() {
        let running = deployment(json!({"state": "RUNNING", "jobId": "a"}), "STABLE");
        assert_eq!(decide_state(&running, true), State::Save { job_id: "a".to_owned() });
        assert_eq!(decide_state(&running, false), State::Endangered(Danger::NoDirectory));
    }

    #[test]
    fn state_that_cannot_be_saved_is_said_to_be_in_danger() {
        let restarting = deployment(json!({"state": "RESTARTING", "jobId": "a"}), "STABLE");
        assert_eq!(
            decide_state(&restarting, true),
            State::Endangered(Danger::NotRunning("RESTARTING".to_owned()))
        );
    }

    #[test]
    fn nothing_is_in_danger_at_rest() {
        for (state, lifecycle) in
            [("FINISHED", "STABLE"), ("RECONCILING", "SUSPENDED"), ("FAILED", "FAILED")]
        {
            assert_eq!(
                decide_state(&deployment(json!({"state": state}), lifecycle), true),
                State::AtRest { path: None }
            );
        }
        assert_eq!(
            decide_state(&Deployment(json!({"spec": {"job": {}}})), true),
            State::AtRest { path: None },
            "never deployed"
        );
        assert_eq!(
            decide_state(&Deployment(json!({"spec": {}})), true),
            State::AtRest { path: None },
            "session cluster"
        );
    }
}
