//! `operator install` and `operator upgrade`.
//!
//! An object of another owner is never taken over: the account and rights of the jobs are left unchanged, and anything
//! else is refused by name.

mod changes;
mod from_java;
mod others;
mod values;
mod waiting;

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::{MANAGED_BY, MANAGER, VALUES, namespace, shadow};
use crate::cli::args::{DryRun, DryRunMode, Global, ObjectFormat, Output, Wait};
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use crate::cli::{change, crds};
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation, Writer};
use clients::cluster::{crds as definitions, namespaces, read};
use operator::install::merge::merge;
use operator::install::objects::Release;
use operator::install::without_effect::without_effect;

use changes::{Change, Kind, changes, shown, superfluous};
pub(super) use changes::{is_of_jobs, manager};
use values::{ValueArgs, typed};
use waiting::until_available;

/// How long to wait for the API server to serve the definitions.
const DEFINITIONS: Duration = Duration::from_mins(1);

/// Arguments of `operator install`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Operate the whole cluster from namespace flink-operator, and wait until the operator runs
  kubectl flink operator install --wait

  # Operate two namespaces with two pods, one of which leads
  kubectl flink operator install --watch-namespaces shop,fraud --replicas 2

  # Show what would be created, or keep it in a repository
  kubectl flink operator install --dry-run=client -o yaml

  # What would this operator do to the resources of another one, such as the Java operator? Changes nothing
  kubectl flink operator install --check

  # Convert the values of an installed Java operator, and report what differs. Changes nothing
  kubectl flink operator install --from-java > values.yaml

  # Values of the Helm chart, under the same names
  kubectl flink operator install --values values.yaml --set image.repository=registry.example/kubectl-flink")]
pub(super) struct InstallArgs {
    /// Operate these namespaces; default: the whole cluster
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
    /// Number of operator pods, one of which leads
    #[arg(long, value_name = "COUNT")]
    replicas: Option<i32>,
    /// Convert the values of an installed Java operator's release, and report what differs; change
    /// nothing
    #[arg(long, conflicts_with_all = [
        "watch_namespaces", "replicas", "files", "set", "set_string", "check", "dry_run", "wait", "yes",
        "output",
    ])]
    from_java: bool,
    /// Name of that release, in the namespace of -n; default: the running one
    #[arg(long, value_name = "NAME", requires = "from_java")]
    release: Option<String>,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    how: How,
}

/// Arguments of `operator upgrade`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # What would this version of the operator do right away? Changes nothing
  kubectl flink operator upgrade --check

  # Upgrade to the version of this program
  kubectl flink operator upgrade --wait

  # Change one value and keep the others
  kubectl flink operator upgrade --set operatorPod.resources.limits.memory=512Mi")]
pub(super) struct UpgradeArgs {
    /// Discard the values of the installation and only use those given now
    #[arg(long)]
    reset_values: bool,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    how: How,
}

/// What installing and upgrading share.
#[derive(Args)]
struct How {
    /// Do not install or change the CRDs, for example if you lack the permission
    #[arg(long)]
    skip_crds: bool,
    /// Change nothing: show what the operator would do first to each existing resource, except
    /// scheduled snapshots and their cleanup. Exits with 0 if it would leave all as they are,
    /// otherwise with 1
    #[arg(long, conflicts_with_all = ["dry_run", "wait", "yes"])]
    check: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// Installs what is missing and updates what exists.
pub(super) async fn install(
    args: InstallArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let InstallArgs { watch_namespaces, replicas, from_java, release, values, how } = args;
    if from_java {
        return from_java::run(release.as_deref(), global, printer).await;
    }
    let mut given = values.read()?;
    if !watch_namespaces.is_empty() {
        given.insert("watchNamespaces".to_owned(), json!(watch_namespaces));
    }
    if let Some(replicas) = replicas {
        given.insert("replicas".to_owned(), json!(replicas));
    }
    Box::pin(put(given, &how, global, printer)).await
}

/// Upgrades an installation to this version.
pub(super) async fn upgrade(
    args: UpgradeArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let UpgradeArgs { reset_values, values, how } = args;
    let client = global.connect().await?.client;
    let namespace = namespace(global);
    let installed = installed(&client, &namespace).await?;
    let mut given = if reset_values {
        Map::new()
    } else {
        values_of(&installed).map_err(|failure| {
            failure.hint(
                "pass all values again: kubectl flink operator upgrade --reset-values --values FILE",
            )
        })?
    };
    merge(&mut given, values.read()?);
    Box::pin(put(given, &how, global, printer)).await
}

/// Returns the operator's Deployment of an earlier `operator install`.
pub(super) async fn installed(client: &Client, namespace: &str) -> anyhow::Result<Deployment> {
    let selector = format!("{MANAGED_BY}={MANAGER}");
    let found =
        read::list::<Deployment>(client, read::Scope::Namespace(namespace), Some(&selector))
            .await?;
    found.into_iter().find(|it| it.annotations().contains_key(VALUES)).ok_or_else(|| {
        Failure::new(format!("no operator is installed in namespace `{namespace}`"))
            .hint("name its namespace with -n; an operator installed by Helm is upgraded and removed by Helm")
            .hint("install it: kubectl flink operator install")
            .into()
    })
}

/// Returns the values an installation was made with, without the defaults.
pub(super) fn values_of(installed: &Deployment) -> Result<Map<String, Value>, Failure> {
    let text = installed.annotations().get(VALUES).map(String::as_str).unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        Failure::new(format!(
            "annotation `{VALUES}` of deployment `{}` is not a map of values: {error}",
            installed.name_any()
        ))
    })
}

async fn put(
    given: Map<String, Value>,
    how: &How,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let How { skip_crds, check, yes, wait, dry_run: DryRun { dry_run }, output: Output { output } } =
        how;
    for value in without_effect(&given) {
        printer.warning(value);
    }
    let values = typed(&given)?;
    if !*check && values.default_configuration.create {
        for remark in shadow::files(&values)?.remarks {
            printer.warning(remark);
        }
    }
    if *check {
        let connection = global.connect().await?;
        if *skip_crds {
            for name in definitions::without_conditions(&connection.client).await? {
                printer.warning(format_args!(
                    "the installed CRD `{name}` drops the conditions of a status, which Argo CD, \
                     Flux and `kubectl wait` go by: install the CRDs as well"
                ));
            }
        }
        return Box::pin(shadow::run(&values, &connection, *output, printer)).await;
    }
    let namespace = namespace(global);
    let objects = objects(&given, &namespace)?;
    if let (DryRunMode::Client, Some(format)) = (*dry_run, *output) {
        return change::print_all(&objects, format, change::qualified_name, printer);
    }
    let connection = global.connect().await?;
    let client = &connection.client;
    others::refuse(client, &given, &namespace).await?;
    let has_namespace = namespaces::exists(client, &namespace).await?;
    let changes = changes(client, &objects).await?;
    let superfluous = superfluous(client, &namespace, &objects).await?;
    if !has_namespace {
        printer.note(format_args!("namespace/{namespace} is created"));
    }
    for Change { object, kind } in &changes {
        printer.note(format_args!("{} {}", shown(object), kind.said()));
    }
    for object in &superfluous {
        printer.note(format_args!("{} goes", shown(object)));
    }
    let is_asking = printer.terminals().input && !yes && *dry_run == DryRunMode::None;
    if is_asking && !printer.confirm("Continue?")? {
        return Err(Failure::new("nothing was changed").into());
    }
    // Delete these first: a webhook that no longer answers would block what follows.
    if *dry_run == DryRunMode::None {
        for object in &superfluous {
            let deletion = Deletion::with(Propagation::Foreground);
            apply::delete(client, &ObjectId::in_manifest(object)?, deletion).await?;
        }
    }
    if !skip_crds {
        crds::put(global, printer, *dry_run, DEFINITIONS).await?;
    }
    if !has_namespace && *dry_run == DryRunMode::None {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {MANAGED_BY: MANAGER}},
        });
        apply::apply(client, &object, Writer::CLI).await?;
    }
    let writer = Writer { is_forced: true, ..change::writer(*dry_run) };
    for Change { object, kind } in &changes {
        // The API server cannot check objects in a namespace that does not exist yet.
        let is_shown =
            *dry_run == DryRunMode::Client || (*dry_run == DryRunMode::Server && !has_namespace);
        if *kind != Kind::Foreign {
            let applied = if is_shown {
                object.clone()
            } else {
                apply::apply(client, object, writer).await?
            };
            change::report(&applied, "applied", *dry_run, *output, printer)?;
        }
    }
    if *dry_run != DryRunMode::None {
        return Ok(());
    }
    if wait.wait {
        until_available(client, &namespace, &objects, wait.timeout, printer).await?;
    }
    printer.hint(
        "deploy a job: kubectl flink deploy -n NAMESPACE; its namespace needs `kubectl flink init \
        --skip-crds -n NAMESPACE` first, unless the operator watches it by name",
    );
    Ok(())
}

/// Returns the objects of the release to apply, and the values it was made from.
pub(super) fn objects(given: &Map<String, Value>, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let values = typed(given)?;
    let release = Release {
        namespace,
        version: env!("CARGO_PKG_VERSION"),
        managed_by: MANAGER,
        values: &values,
    };
    let mut objects = release.objects();
    if let Some(deployment) = objects.iter_mut().find(|it| it["kind"] == "Deployment") {
        deployment["metadata"]["annotations"] =
            json!({VALUES: Value::from(given.clone()).to_string()});
    }
    Ok(objects)
}
