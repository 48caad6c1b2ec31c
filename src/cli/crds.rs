//! `crds`: prints the definitions of the four kinds, or applies them to the cluster.

use std::time::Duration;

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::args::{DryRun, DryRunMode, Global, ObjectFormat, Output, Yes, duration};
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use super::{change, equivalent};
use api::crd;
use clients::cluster::apply::Writer;
use clients::cluster::crds::{self, Change};

/// Arguments of `crds`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink crds > crds.yaml
  kubectl flink crds --apply")]
pub struct CrdsArgs {
    /// Apply them to the cluster and wait until the API server serves them
    #[arg(long, conflicts_with = "output")]
    apply: bool,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    yes: Yes,
    /// How long to wait with --apply
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    timeout: Duration,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// Prints or applies the definitions.
pub async fn run(args: CrdsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let CrdsArgs { apply, dry_run: DryRun { dry_run }, yes: _, timeout, output } = args;
    let Output { output } = output;
    if apply {
        return put(global, printer, dry_run, timeout).await;
    }
    if dry_run != DryRunMode::None {
        return Err(Failure::usage("--dry-run requires --apply: printing changes nothing").into());
    }
    let format = output.unwrap_or(ObjectFormat::Value(ValueFormat::Yaml));
    change::print_all(&crd::all(), format, object_name, printer)
}

/// Applies all definitions and waits for them.
pub(super) async fn put(
    global: &Global,
    printer: &Printer,
    dry_run: DryRunMode,
    timeout: Duration,
) -> anyhow::Result<()> {
    if dry_run != DryRunMode::None {
        let flags = equivalent::flags(Writer { is_forced: true, ..Writer::CLI });
        printer.note(format_args!("equivalent: kubectl flink crds | kubectl apply {flags} -f -"));
    }
    if dry_run == DryRunMode::Client {
        for definition in crd::all() {
            printer.line(format_args!(
                "{} applied{}",
                object_name(&definition),
                dry_run.suffix()
            ))?;
        }
        return Ok(());
    }
    let client = global.connect().await?.client;
    let definitions = crds::for_server(&client).await?;
    let applied =
        crds::apply(&client, &definitions, dry_run == DryRunMode::Server).await.map_err(explain)?;
    for (definition, applied) in definitions.iter().zip(applied) {
        let change = match applied.change {
            Change::Created => "created",
            Change::Configured => "configured",
            Change::Unchanged => "unchanged",
        };
        printer.line(format_args!("{} {change}{}", object_name(definition), dry_run.suffix()))?;
    }
    if dry_run == DryRunMode::None {
        crds::wait_until_established(&client, &definitions, timeout).await.map_err(explain)?;
    }
    Ok(())
}

/// Adds a hint to the error.
fn explain(error: crds::Error) -> anyhow::Error {
    match error {
        crds::Error::WouldDropFields { .. } => Failure::new(error.to_string())
            .hint("install a newer kubectl-flink, or drop these fields: kubectl flink crds | kubectl apply --server-side --force-conflicts -f -")
            .into(),
        crds::Error::NotEstablished { .. } => Failure::timed_out(error.to_string()).into(),
        crds::Error::Kubernetes(error) => error.into(),
        crds::Error::Watch { .. } => error.into(),
    }
}

/// Returns the object's name as kubectl prints it.
fn object_name(definition: &CustomResourceDefinition) -> String {
    format!(
        "customresourcedefinition.apiextensions.k8s.io/{}",
        definition.metadata.name.as_deref().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests;
