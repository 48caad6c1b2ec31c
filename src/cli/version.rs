//! `version`: of this program, and of what is installed in the cluster.

use clap::Args;
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde::Serialize;

use super::args::{Global, Output};
use super::printer::Printer;
use crate::{api, cluster};

/// Plural names of the kinds that the program works with.
const PLURALS: [&str; 4] =
    ["flinkdeployments", "flinksessionjobs", "flinkstatesnapshots", "flinkbluegreendeployments"];

/// Arguments of `version`.
#[derive(Args)]
pub struct VersionArgs {
    /// Only the version of this program; the cluster is not asked
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    installed_resources: Option<Vec<String>>,
}

/// Prints the versions; fails when the cluster was to be asked and did not answer.
pub async fn run(args: VersionArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let mut versions = Versions {
        client_version: env!("CARGO_PKG_VERSION"),
        kubernetes_version: None,
        installed_resources: None,
    };
    let asked = if args.client { Ok(()) } else { ask_cluster(&mut versions, global).await };
    match args.output.output.and_then(super::args::OutputFormat::for_value) {
        Some(format) => printer.value(&versions, format)?,
        None => print_text(&versions, printer)?,
    }
    asked
}

async fn ask_cluster(versions: &mut Versions, global: &Global) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let info = connection.client.apiserver_version().await.map_err(cluster::Error::from)?;
    versions.kubernetes_version = Some(info.git_version);
    let resources = Api::<CustomResourceDefinition>::all(connection.client);
    let names = PLURALS.map(|plural| format!("{plural}.{}", api::GROUP));
    let found = join_all(names.iter().map(|name| resources.get_metadata_opt(name))).await;
    let mut installed = Vec::new();
    for (plural, found) in PLURALS.iter().zip(found) {
        if found.map_err(cluster::Error::from)?.is_some() {
            installed.push((*plural).to_owned());
        }
    }
    versions.installed_resources = Some(installed);
    Ok(())
}

fn print_text(versions: &Versions, printer: &Printer) -> anyhow::Result<()> {
    printer.line(format_args!("kubectl-flink {}", versions.client_version))?;
    if let Some(kubernetes) = &versions.kubernetes_version {
        printer.line(format_args!("Kubernetes {kubernetes}"))?;
    }
    if let Some(installed) = &versions.installed_resources {
        let installed = if installed.is_empty() { "none".to_owned() } else { installed.join(", ") };
        printer.line(format_args!("{} resources: {installed}", api::API_VERSION))?;
    }
    Ok(())
}
