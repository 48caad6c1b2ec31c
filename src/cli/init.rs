//! `init`: creates what a namespace needs before its first job. It shows its plan first and is idempotent.
//!
//! The rights are those that Flink's native Kubernetes mode needs: a JobManager creates TaskManager pods and keeps high
//! availability data in `ConfigMaps`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::args::{DryRun, DryRunMode, Global, duration};
use super::connection::Connection;
use super::failure::Failure;
use super::printer::Printer;
use super::{change, crds, equivalent};
use clients::cluster::apply::{self, ObjectId, Writer};
use clients::cluster::namespaces;
use clients::cluster::read;
use operator::install::rules;

/// Service account of the jobs, named as in the examples and the Helm chart of the Java operator.
const SERVICE_ACCOUNT: &str = "flink";

/// Arguments of `init`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink init -n shop
  kubectl flink init -n shop --skip-crds --yes     # if somebody else installed the CRDs")]
pub struct InitArgs {
    /// Do not install or change the CRDs, for example if you lack the permission
    #[arg(long)]
    skip_crds: bool,
    /// Name of the jobs' service account, Role and `RoleBinding`
    #[arg(long, value_name = "NAME", default_value = SERVICE_ACCOUNT)]
    service_account: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// How long to wait for the API server to serve the CRDs
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    timeout: Duration,
    #[command(flatten)]
    dry_run: DryRun,
}

/// Shows the plan, asks, and applies it.
pub async fn run(args: InitArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let InitArgs { skip_crds, service_account, yes, timeout, dry_run: DryRun { dry_run } } = args;
    let connection = global.connect().await?;
    let objects = namespace_objects(&connection.namespace, &service_account);
    check_namespace(&connection).await?;
    let is_asking = printer.terminals().input && !yes && dry_run == DryRunMode::None;
    show_plan(&connection, skip_crds, &objects, printer).await?;
    if is_asking && !printer.confirm("Continue?")? {
        return Err(Failure::new("nothing was changed").into());
    }
    if !skip_crds {
        crds::put(global, printer, dry_run, timeout).await?;
    }
    let writer = Writer { is_forced: true, ..change::writer(dry_run) };
    for object in &objects {
        if dry_run != DryRunMode::None {
            printer.note(equivalent::apply(object, writer));
        }
        let applied = match dry_run {
            DryRunMode::Client => object.clone(),
            DryRunMode::None | DryRunMode::Server => {
                apply::apply(&connection.client, object, writer).await?
            }
        };
        change::report(&applied, "applied", dry_run, None, printer)?;
    }
    if dry_run == DryRunMode::None {
        printer.hint(format_args!(
            "start the operator: kubectl flink operate -n {0}; then deploy: kubectl flink deploy -n {0}",
            connection.namespace
        ));
    }
    Ok(())
}

/// Fails if the namespace does not exist. It is not created, because a typo must not create one.
async fn check_namespace(connection: &Connection) -> anyhow::Result<()> {
    let name = &connection.namespace;
    if namespaces::exists(&connection.client, name).await? {
        return Ok(());
    }
    Err(Failure::new(format!("namespace `{name}` does not exist"))
        .hint(format!("create it: kubectl create namespace {name}"))
        .into())
}

async fn show_plan(
    connection: &Connection,
    skip_crds: bool,
    objects: &[Value],
    printer: &Printer,
) -> anyhow::Result<()> {
    printer.note(format_args!("In namespace `{}`:", connection.namespace));
    for object in objects {
        let id = ObjectId::in_manifest(object)?;
        let action = match read::get_value(&connection.client, &id).await? {
            Some(_) => "exists, will be updated",
            None => "is created",
        };
        let about = object
            .pointer("/rules")
            .map_or("", |_| " (pods, configmaps and deployments of this namespace)");
        printer.note(format_args!("  {} {action}{about}", change::qualified_name(object)));
    }
    if !skip_crds {
        printer.note("In the whole cluster:");
        printer.note("  the CRDs of Flink will be installed or updated");
    }
    Ok(())
}

/// Returns the service account, Role and `RoleBinding` of the jobs.
fn namespace_objects(namespace: &str, name: &str) -> Vec<Value> {
    let metadata = json!({
        "name": name,
        "namespace": namespace,
        "labels": {"app.kubernetes.io/managed-by": "kubectl-flink"},
    });
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules::jobs(),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }),
    ]
}
