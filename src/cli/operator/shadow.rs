//! `operator install --check` and `operator upgrade --check`: what the operator would do first about each existing
//! resource. Changes nothing.
//!
//! The decisions are the operator's own, with the configuration that the installation would have. Only what depends on
//! existing snapshots is left out: periodic snapshots, and the cleanup of old ones.

use anyhow::Context as _;
use futures::{StreamExt, stream};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::args::ObjectFormat;
use crate::cli::connection::Connection;
use crate::cli::failure::Failure;
use crate::cli::operator::pod_files::{Deployed, lacking};
use crate::cli::operator_config::Files;
use crate::cli::printer::Printer;
use crate::cli::table;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use api::{CANARY_LABEL, is_canary};
use clients::cluster;
use clients::cluster::read::{Scope, list_values, or_none};
use clients::flink::access::{Access, Connector, Options};
use config::namespaces::Namespaces;
use config::{OperatorConfig, options};
use operator::context::Context;
use operator::install::values::Values;
use operator::pass;
use operator::preview::{self, Preview};

/// Maximum number of resources evaluated concurrently.
const LOOKERS: usize = 16;

/// The findings, as `-o json` shows them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Number of resources that were evaluated.
    resources: usize,
    /// Resources that would not be left unchanged, or that could not be evaluated.
    findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    kind: String,
    namespace: String,
    name: String,
    /// Names of steps, in order; empty if only the status would change.
    steps: Vec<String>,
    because: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Evaluates everything in the namespaces of the installation. Fails if the operator would change anything.
pub(super) async fn run(
    values: &Values,
    connection: &Connection,
    output: Option<ObjectFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let operator = configuration(values, printer)?;
    let options = Options::from_environment(Access::Auto, connection.rest_address.clone());
    let connector = Connector::new(&options, connection.config.as_ref())
        .context("while preparing connections to JobManagers")?;
    let client = &connection.client;
    let namespaces = namespaces(values, &operator)?;
    let selector = operator.base.find(&options::LABEL_SELECTOR)?;
    let context =
        Context::new(client.clone(), operator.clone(), connector, true).blind_to_snapshots();
    let all = resources(client, &namespaces, selector.as_deref()).await?;
    let resources = all.len();
    let deployments: Vec<FlinkDeployment> = all
        .iter()
        .filter(|resource| resource["kind"] == "FlinkDeployment")
        // One that cannot be parsed is among the findings.
        .filter_map(|resource| serde_json::from_value(resource.clone()).ok())
        .collect();
    let fleet = deployments.iter().map(Deployed::from);
    for remark in lacking(values, &operator, fleet) {
        printer.warning(remark);
    }
    let findings: Vec<Option<Finding>> = stream::iter(all)
        .map(|resource| inspect(resource, &context))
        .buffered(LOOKERS)
        .collect()
        .await;
    let report = Report { resources, findings: findings.into_iter().flatten().collect() };
    print(&report, output, printer)?;
    match report.findings.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "{count} of {resources} resources would be changed or have errors"
        ))
        .hint("nothing was changed")
        .into()),
    }
}

/// Returns the operator's configuration, as its ConfigMap would hold it.
pub(super) fn files(values: &Values) -> anyhow::Result<Files> {
    let (file, text) = values.default_configuration.file();
    Files::of_text(file, format!("value `defaultConfiguration.{file}`"), text)
}

fn configuration(values: &Values, printer: &Printer) -> anyhow::Result<OperatorConfig> {
    let files = files(values)?;
    for remark in &files.remarks {
        printer.warning(remark);
    }
    Ok(OperatorConfig::new(files.merged()))
}

/// Returns the namespaces that the installation would watch; empty for the whole cluster.
fn namespaces(values: &Values, operator: &OperatorConfig) -> anyhow::Result<Vec<String>> {
    if !values.watch_namespaces.is_empty() {
        return Ok(values.watch_namespaces.clone());
    }
    Ok(match operator.base.find(&options::WATCHED_NAMESPACES)? {
        Some(Namespaces::Named(names)) => names.into_iter().collect(),
        Some(Namespaces::All) | None => vec![],
    })
}

/// Returns all stored resources that the operator would look at. Snapshots are not filtered by label: they belong to
/// the operator of their job, whatever their own labels are.
async fn resources(
    client: &kube::Client,
    namespaces: &[String],
    selector: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    let scopes = match namespaces {
        [] => vec![Scope::AllNamespaces],
        names => names.iter().map(|name| Scope::Namespace(name)).collect(),
    };
    let mut all = Vec::new();
    for scope in scopes {
        all.extend(of_kind::<FlinkDeployment>(client, scope, selector).await?);
        all.extend(of_kind::<FlinkSessionJob>(client, scope, selector).await?);
        all.extend(of_kind::<FlinkStateSnapshot>(client, scope, None).await?);
        all.extend(of_kind::<FlinkBlueGreenDeployment>(client, scope, selector).await?);
    }
    // Canaries are redeployed all the time, which is their purpose.
    all.retain(|resource| {
        let label = resource["metadata"]["labels"][CANARY_LABEL].as_str();
        !is_canary(resource["kind"].as_str().unwrap_or_default(), label)
    });
    Ok(all)
}

async fn of_kind<K>(
    client: &kube::Client,
    scope: Scope<'_>,
    selector: Option<&str>,
) -> cluster::Result<Vec<Value>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    or_none::<K, _>(client, list_values::<K>(client, scope, selector).await).await
}

/// Returns what the next pass would do; `None` if it leaves everything unchanged.
async fn inspect(resource: Value, context: &Context) -> Option<Finding> {
    let text =
        |path: &str| resource.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, namespace, name) =
        (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    if kind == "FlinkBlueGreenDeployment" {
        let error = resource.pointer("/status/error").and_then(Value::as_str);
        let stored_error = error.map(str::to_owned);
        let plan = match serde_json::from_value(resource) {
            Ok(resource) => operator::blue_green::preview(&resource, context).await,
            Err(error) => {
                let because = "the resource cannot be parsed".to_owned();
                let error = Some(error.to_string());
                return Some(Finding { kind, namespace, name, steps: vec![], because, error });
            }
        };
        let (steps, because, error) = match plan {
            Ok(plan) => {
                let names = plan.steps.iter().map(|step| step.name().to_owned());
                let steps: Vec<_> = names.filter(|name| name != "event").collect();
                let is_new = plan.status.error != stored_error;
                (steps, plan.because, plan.status.error.filter(|_| is_new))
            }
            Err(error) => (vec![], String::new(), Some(format!("{error:#}"))),
        };
        let is_left_alone = steps.is_empty() && error.is_none();
        return (!is_left_alone).then_some(Finding {
            kind,
            namespace,
            name,
            steps,
            because,
            error,
        });
    }
    let preview = match kind.as_str() {
        "FlinkDeployment" => ahead(resource, |it| preview::of_deployment(it, context)).await,
        "FlinkSessionJob" => ahead(resource, |it| preview::of_session_job(it, context)).await,
        _ => ahead(resource, |it| preview::of_snapshot(it, context)).await,
    };
    finding(preview).map(|(steps, because, error)| Finding {
        kind,
        namespace,
        name,
        steps,
        because,
        error,
    })
}

/// Returns the next pass over a resource, or why there is none.
async fn ahead<K, F>(resource: Value, inspect: impl FnOnce(K) -> F) -> Result<Preview, String>
where
    K: DeserializeOwned,
    F: Future<Output = Result<Preview, pass::Error>>,
{
    let resource = serde_json::from_value(resource).map_err(|error| {
        format!("the resource cannot be parsed and would be left alone: {error}")
    })?;
    let preview = Box::pin(inspect(resource)).await;
    preview.map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}

type News = (Vec<String>, String, Option<String>);

/// Returns the steps, reason and error of a pass, or `None` if there is nothing to report. Pure.
fn finding(preview: Result<Preview, String>) -> Option<News> {
    match preview {
        Ok(Preview { steps, error: None, .. }) if steps.is_empty() => None,
        Ok(Preview { because, steps, error, blocker: _ }) => {
            Some((steps.into_iter().map(str::to_owned).collect(), because, error))
        }
        Err(error) => Some((vec![], "not decided".to_owned(), Some(error))),
    }
}

fn print(report: &Report, output: Option<ObjectFormat>, printer: &Printer) -> anyhow::Result<()> {
    match output {
        Some(ObjectFormat::Name) => {
            Err(Failure::usage("--check supports text, json and yaml").into())
        }
        Some(ObjectFormat::Value(format)) => printer.value(report, format),
        None | Some(ObjectFormat::Wide) if report.findings.is_empty() => Ok(printer.line(
            format_args!("the operator would leave all {} resources unchanged", report.resources),
        )?),
        None | Some(ObjectFormat::Wide) => Ok(printer.line(shown(&report.findings))?),
    }
}

fn shown(findings: &[Finding]) -> String {
    let rows = findings.iter().map(|finding| {
        let Finding { kind, namespace, name, steps, because, error } = finding;
        let would = if steps.is_empty() { table::NONE.to_owned() } else { steps.join(", ") };
        let why = match error {
            Some(error) => format!("{because}: {error}"),
            None => because.clone(),
        };
        vec![namespace.clone(), format!("{kind}/{name}"), would, why]
    });
    table::render(&["NAMESPACE", "NAME", "WOULD", "BECAUSE"], rows.collect())
}

#[cfg(test)]
mod tests;
