//! `version`: the version of this program and of what is installed in the cluster; with `--check` also whether they are
//! compatible.

mod compare;

use clap::Args;
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;

use super::args::{Global, Output};
use super::connection::Connection;
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use super::{operators, table};
use clients::cluster;
use clients::cluster::crds;
use compare::{Compared, Definition, Facts};

/// Plural names of the kinds that the program works with.
const PLURALS: [&str; 4] =
    ["flinkdeployments", "flinksessionjobs", "flinkstatesnapshots", "flinkbluegreendeployments"];

/// Version of this program.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// Columns that a narrow terminal leaves out.
const DISPENSABLE: [&str; 2] = ["EXPECTED", "FOUND"];

/// Arguments of `version`.
#[derive(Args)]
#[command(after_help = "\
With --check the exit code is 1 if something is incompatible: Kubernetes is too old, CRDs are missing or have drifted,
or the operator in the cluster has another version. What you are not allowed to read is unknown, which is not a failure.

Examples:
  kubectl flink version
  kubectl flink version --check
  kubectl flink version --check -o json | jq '.components[] | select(.result != \"passed\")'")]
pub struct VersionArgs {
    /// Only print the version of this program, without asking the cluster
    #[arg(long)]
    client: bool,
    /// Check that program, Kubernetes, CRDs and operator are compatible; fail if not
    #[arg(long, conflicts_with = "client")]
    check: bool,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: &'static str,
    kubernetes_version: Option<String>,
    installed_resources: Option<Vec<String>>,
}

/// Prints the versions. Fails if the cluster was queried and did not answer.
pub async fn run(args: VersionArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    if args.check {
        return check(args.output, global, printer).await;
    }
    let mut versions =
        Versions { client_version: PROGRAM, kubernetes_version: None, installed_resources: None };
    let asked = if args.client { Ok(()) } else { ask_cluster(&mut versions, global).await };
    match args.output.output {
        Some(format) => printer.value(&versions, format)?,
        None => print_text(&versions, printer)?,
    }
    asked
}

/// Compares the versions and prints them all. Fails if something is incompatible.
async fn check(
    Output { output }: Output<ValueFormat>,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let compared = compare::compare(PROGRAM, &observe(&connection).await?);
    let failed = compared.iter().filter(|it| it.result == super::check::Result::Failed).count();
    let whole =
        || json!({"clientVersion": PROGRAM, "matches": failed == 0, "components": compared});
    match output {
        Some(format) => printer.value(&whole(), format)?,
        None => print_comparison(&compared, printer)?,
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new("1 component is incompatible with this program").into()),
        count => {
            Err(Failure::new(format!("{count} components are incompatible with this program"))
                .into())
        }
    }
}

fn print_comparison(compared: &[Compared], printer: &Printer) -> anyhow::Result<()> {
    printer.line(format_args!("kubectl-flink {PROGRAM}\n"))?;
    printer.line(comparison(compared, printer.width()))?;
    for Compared { component, hint, .. } in compared {
        if let Some(hint) = hint {
            printer.hint(format_args!("{component}: {hint}"));
        }
    }
    Ok(())
}

/// Reads all three versions. Fails only if no API server answers.
async fn observe(connection: &Connection) -> anyhow::Result<Facts> {
    let client = &connection.client;
    let info = client.apiserver_version().await.map_err(cluster::Error::from)?;
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_default()
    };
    let kubernetes = (info.git_version, number(&info.major), number(&info.minor));
    let (definitions, operators) = tokio::join!(definitions(client), operators::installed(client));
    Ok(Facts { kubernetes, definitions, operators })
}

async fn definitions(client: &kube::Client) -> cluster::Result<Vec<Definition>> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut found = Vec::new();
    for wanted in crds::for_server(client).await? {
        let name = wanted.metadata.name.clone().unwrap_or_default();
        let present = api.get_opt(&name).await?;
        let drift = crds::drift(present.as_ref(), &wanted);
        let versions = present.map(|present| present.spec.versions).unwrap_or_default();
        let served = versions.into_iter().filter(|version| version.served);
        found.push(Definition {
            name,
            served: served.map(|version| version.name).collect(),
            drift,
        });
    }
    Ok(found)
}

fn comparison(compared: &[Compared], width: Option<usize>) -> String {
    let row = |it: &Compared| {
        vec![
            it.component.clone(),
            it.result.shown(),
            it.found.clone().unwrap_or_else(|| table::NONE.to_owned()),
            it.expected.clone(),
        ]
    };
    let headers = ["COMPONENT", "RESULT", "FOUND", "EXPECTED"];
    let rows = compared.iter().map(row).collect();
    match width {
        Some(width) => table::render_within(&headers, rows, &DISPENSABLE, width),
        None => table::render(&headers, rows),
    }
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
