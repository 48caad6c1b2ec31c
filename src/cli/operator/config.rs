//! `operator config`: the options in force, and the source of each.

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment as Workload;
use k8s_openapi::api::core::v1::{ConfigMap, Container};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde_json::json;

use super::NAMESPACE;
use crate::cli::args::{Global, Output, OutputFormat};
use crate::cli::complete;
use crate::cli::connection::Connection;
use crate::cli::deploy::flags::flink_version;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::lookup;
use crate::cli::operator_config::{self, Files};
use crate::cli::operators;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use api::deployment::FlinkDeploymentSpec;
use api::session_job::FlinkSessionJobSpec;
use api::version::FlinkVersion;
use clients::cluster::read;
use config::catalogue::{Effect, wrong_values};
use config::cluster::{ResourceId, deploy_config};
use config::layers::{DEFAULT, Effective, Layer, effective};
use config::session_job::{JobSpecs, job_config};
use config::{FlinkConfig, OperatorConfig, options};
use operator::install::objects::CONFIG_MAP;
use render::logging;

/// Files of the ConfigMap; if both exist, only the first one is used.
const FILES: [&str; 2] = ["flink-conf.yaml", "config.yaml"];
/// Environment variable that names the namespaces of the operator's pods, in addition to their files.
const NAMESPACES_VARIABLE: &str = "WATCH_NAMESPACES";
const ALL_NAMESPACES: [&str; 2] = ["--all-namespaces", "-A"];

/// Arguments of `operator config`.
#[derive(Args)]
#[command(after_help = "\
FROM is the layer an option comes from: its default, a file, the defaults of a namespace or Flink version, the
operator's environment or command line, a resource. Secrets are hidden.

Examples:
  # All options of the installation, including defaults
  kubectl flink operator config

  # What a file would mean for jobs of Flink 1.20 in a namespace, without a cluster
  kubectl flink operator config --operator-config config.yaml -n shop --flink-version v1_20 --set-only

  # What applies to one job, and when a change takes effect
  kubectl flink operator config orders -n shop -o wide")]
pub(super) struct ConfigArgs {
    /// Show the options of this FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: Option<String>,
    /// Show the options of clusters with this Flink version
    #[arg(long, value_name = "VERSION", value_parser = flink_version, conflicts_with = "name")]
    flink_version: Option<FlinkVersion>,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    output: Output,
}

/// Where the operator's options are, and which are shown.
#[derive(Args)]
pub(in crate::cli) struct Shown {
    /// The operator's configuration: a file, or a directory with flink-conf.yaml or config.yaml;
    /// default: the installation's ConfigMap
    #[arg(long, value_name = "PATH")]
    operator_config: Option<PathBuf>,
    /// Namespace of the installation
    #[arg(long, value_name = "NAMESPACE", env = "OPERATOR_NAMESPACE", default_value = NAMESPACE)]
    operator_namespace: String,
    /// Only options that are set
    #[arg(long)]
    set_only: bool,
}

/// One option in the output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    option: String,
    value: Option<String>,
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    set_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<&'static str>,
}

/// Layers found in an installation or its files.
#[derive(Default)]
struct Source {
    files: Files,
    /// Layers in addition to the files: the environment and the command line.
    beside: Vec<Layer>,
    /// Why the operator's own configuration could not be read.
    unread: Option<String>,
}

/// Options that apply to one resource, and remarks about the operator's configuration.
pub(in crate::cli) struct InForce {
    pub(in crate::cli) options: Vec<Effective>,
    pub(in crate::cli) remarks: Vec<String>,
}

/// Reads the layers and prints the options in force.
pub(super) async fn run(
    args: ConfigArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let ConfigArgs { name, flink_version, shown, output } = args;
    let is_of_installation = shown.operator_config.is_none();
    show(name.as_deref(), flink_version, shown, output, global, (printer, is_of_installation)).await
}

/// Prints what applies to one resource. A user who may not read the operator's own options sees only the others.
pub(in crate::cli) async fn of_resource(
    name: &str,
    shown: Shown,
    output: Output,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    show(Some(name), None, shown, output, global, (printer, false)).await
}

async fn show(
    name: Option<&str>,
    flink_version: Option<FlinkVersion>,
    shown: Shown,
    output: Output,
    global: &Global,
    (printer, must_know_operator): (&Printer, bool),
) -> anyhow::Result<()> {
    let Shown { operator_config, operator_namespace, set_only } = &shown;
    let needs_cluster = name.is_some() || operator_config.is_none();
    let connection = if needs_cluster { Some(global.connect().await?) } else { None };
    let source = match (operator_config, &connection) {
        (None, Some(connection)) if must_know_operator => {
            installed(&connection.client, operator_namespace).await?
        }
        (None, Some(connection)) => installed_if_seen(&connection.client, operator_namespace).await,
        (path, _) => Source {
            files: operator_config::read(path.as_deref())?,
            beside: of_environment(std::env::var(NAMESPACES_VARIABLE).ok().as_deref()),
            unread: None,
        },
    };
    let operator = source.operator();
    for remark in source.remarks(&operator) {
        printer.warning(remark);
    }
    let resource = match (name, &connection) {
        (Some(name), Some(connection)) => {
            Some(resource(connection, lookup::fetch(connection, name).await?).await?)
        }
        _ => None,
    };
    let namespace = match (&connection, name) {
        (Some(connection), Some(_)) => Some(connection.namespace.clone()),
        _ => global.namespace.clone(),
    };
    let version = resource.as_ref().map_or(flink_version, |resource| resource.version);
    let mut found = source.options(&operator, namespace.as_deref(), version, resource);
    found.retain(|effective| !set_only || effective.from != DEFAULT);
    print(found, output, printer)
}

/// Reads what applies to one resource. A user who may not read the operator's own options gets only the others, with a
/// remark.
pub(in crate::cli) async fn in_force(
    connection: &Connection,
    operator_namespace: &str,
    found: Deployment,
) -> anyhow::Result<InForce> {
    let source = installed_if_seen(&connection.client, operator_namespace).await;
    let operator = source.operator();
    let remarks = source.remarks(&operator);
    let resource = resource(connection, found).await?;
    let version = resource.version;
    let namespace = Some(connection.namespace.as_str());
    Ok(InForce { options: source.options(&operator, namespace, version, Some(resource)), remarks })
}

/// Reads the operator's own options, or the reason why they cannot be read.
pub(in crate::cli) async fn operator(
    client: &Client,
    namespace: &str,
) -> (OperatorConfig, Option<String>) {
    let source = installed_if_seen(client, namespace).await;
    (source.operator(), source.unread)
}

impl Source {
    fn operator(&self) -> OperatorConfig {
        OperatorConfig::new(self.files.merged())
    }

    /// Returns remarks about the configuration, including whether it could not be read.
    fn remarks(&self, operator: &OperatorConfig) -> Vec<String> {
        let unread = self
            .unread
            .iter()
            .map(|error| format!("the operator's own configuration is not included: {error}"));
        let wrong = wrong_values(&operator.base).into_iter().map(|wrong| wrong.to_string());
        unread.chain(self.files.remarks.iter().cloned()).chain(wrong).collect()
    }

    /// Returns the options in force, by name.
    fn options(
        self,
        operator: &OperatorConfig,
        namespace: Option<&str>,
        version: Option<FlinkVersion>,
        resource: Option<Resource>,
    ) -> Vec<Effective> {
        let base = self.files.files.into_iter();
        let base = base.map(|file| Layer { name: file.shown, config: file.config }).collect();
        let mut layers = operator.layers(base, namespace, version);
        layers.extend(self.beside);
        if let Some(Resource { layers: own, found, cluster, .. }) = resource {
            layers.extend(own);
            layers.extend(following(operator, &layers, &found, cluster.as_ref()));
        }
        effective(&layers)
    }
}

/// Reads the files of the ConfigMap that the pods of an installation mount.
pub(super) async fn of_installation(client: &Client, namespace: &str) -> anyhow::Result<Files> {
    let map = read::get::<ConfigMap>(client, namespace, CONFIG_MAP).await?;
    let data = map.and_then(|map| map.data).unwrap_or_default();
    let Some((file, text)) = FILES.iter().find_map(|file| Some((*file, data.get(*file)?))) else {
        let missing = format!("no configuration in ConfigMap `{CONFIG_MAP}` of `{namespace}`");
        return Err(Failure::new(missing)
            .hint("name the namespace of the installation with --operator-namespace")
            .hint("or read files, with --operator-config")
            .into());
    };
    let shown = format!("configmap/{CONFIG_MAP}, {file}");
    let mut files = Files::of_text(file, shown, text)?;
    for (name, option) in logging::FILES {
        if let Some(text) = data.get(name) {
            files.add_log_file(format!("configmap/{CONFIG_MAP}, {name}"), option, text);
        }
    }
    Ok(files)
}

/// Reads the options that the pods of an installation are given.
async fn installed(client: &Client, namespace: &str) -> anyhow::Result<Source> {
    let files = of_installation(client, namespace).await?;
    let all = read::list::<Workload>(client, read::Scope::Namespace(namespace), None).await?;
    let beside = all.iter().find_map(|it| {
        let pod = it.spec.template.spec.as_ref()?;
        Some(alongside(it, operators::operates(&pod.containers)?))
    });
    Ok(Source { files, beside: beside.unwrap_or_default(), unread: None })
}

/// Like [`installed`], but returns the reason if the user may not read it.
async fn installed_if_seen(client: &Client, namespace: &str) -> Source {
    installed(client, namespace)
        .await
        .unwrap_or_else(|error| Source { unread: Some(format!("{error:#}")), ..Source::default() })
}

/// Reads the options in an operator's Deployment; a flag takes precedence over the environment.
fn alongside(operator: &Workload, container: &Container) -> Vec<Layer> {
    let mut variables = container.env.iter().flatten();
    let variable = variables.find(|variable| variable.name == NAMESPACES_VARIABLE);
    let mut layers = of_environment(variable.and_then(|variable| variable.value.as_deref()));
    let mut arguments = container.args.iter().flatten();
    if arguments.any(|argument| ALL_NAMESPACES.contains(&argument.as_str())) {
        let by = format!("command line of deployment/{}", operator.name_any());
        layers.push(namespaces(by, "JOSDK_ALL_NAMESPACES"));
    }
    layers
}

fn of_environment(namespaces: Option<&str>) -> Vec<Layer> {
    let named = namespaces.filter(|names| !names.trim().is_empty());
    let layer = |names| self::namespaces(format!("environment, {NAMESPACES_VARIABLE}"), names);
    named.map(layer).into_iter().collect()
}

fn namespaces(name: String, names: &str) -> Layer {
    Layer { name, config: [(options::WATCHED_NAMESPACES.key(), names)].into_iter().collect() }
}

/// A resource and its own options.
struct Resource {
    /// Version of its cluster.
    version: Option<FlinkVersion>,
    layers: Vec<Layer>,
    found: Deployment,
    /// The cluster of a session job.
    cluster: Option<Deployment>,
}

async fn resource(connection: &Connection, found: Deployment) -> anyhow::Result<Resource> {
    let version = |cluster: &Deployment| cluster.flink_version().and_then(FlinkVersion::parse);
    let mut layers = vec![Layer { name: found.shown_name(), config: found.flink_config() }];
    let Some(cluster) = found.session_cluster() else {
        return Ok(Resource { version: version(&found), layers, found, cluster: None });
    };
    let cluster = lookup::fetch(connection, &format!("flinkdeployment/{cluster}")).await?;
    layers.insert(0, Layer { name: cluster.shown_name(), config: cluster.flink_config() });
    Ok(Resource { version: version(&cluster), layers, found, cluster: Some(cluster) })
}

/// Returns the options that other fields of the spec determine, such as memory and parallelism, if they differ from the
/// layers. `None` if a spec cannot be read, which is reported elsewhere.
fn following(
    operator: &OperatorConfig,
    layers: &[Layer],
    found: &Deployment,
    cluster: Option<&Deployment>,
) -> Option<Layer> {
    let of = cluster.unwrap_or(found);
    let spec = FlinkDeploymentSpec::deserialize(&of.0["spec"]).ok()?;
    let id = ResourceId {
        namespace: of.namespace().to_owned(),
        name: of.name().to_owned(),
        uid: of.uid().unwrap_or_default().to_owned(),
    };
    let config = if cluster.is_some() {
        let job = FlinkSessionJobSpec::deserialize(&found.0["spec"]).ok()?;
        job_config(&JobSpecs {
            operator,
            cluster: &id,
            deployed_cluster: &spec,
            current_cluster: &spec,
            name: found.name(),
            deployed: &job,
            current: &job,
        })
    } else {
        let mode = spec.job.as_ref().map(|job| job.upgrade_mode);
        deploy_config(operator, &id, &spec, mode, of.generation())
    };
    let mut said = FlinkConfig::new();
    for layer in layers {
        said.overlay(&layer.config);
    }
    let mut config = config.ok()?;
    let same = |key: &str, config: &FlinkConfig| said.get_text(key) == config.get_text(key);
    let whole = config.clone();
    config.retain(|key| !same(key, &whole));
    Some(Layer { name: "follows from the spec".to_owned(), config })
}

fn print(found: Vec<Effective>, output: Output, printer: &Printer) -> anyhow::Result<()> {
    let lines: Vec<Line> = found.into_iter().map(line).collect();
    match output.output {
        Some(OutputFormat::Value(format)) => printer.value(&json!({"options": lines}), format)?,
        Some(OutputFormat::Name) => {
            for line in &lines {
                printer.line(&line.option)?;
            }
        }
        None if lines.is_empty() => printer.note("nothing is set"),
        None => printer.line(render(&lines, false, printer.width()))?,
        Some(OutputFormat::Wide) => printer.line(render(&lines, true, None))?,
    }
    Ok(())
}

fn line(effective: Effective) -> Line {
    let Effective { option, value, from, set_as, effect } = effective;
    Line { option, value, from, set_as, counts: effect.map(Effect::as_str) }
}

/// Formats the options; values are truncated to fit a terminal `width` columns wide.
fn render(lines: &[Line], is_wide: bool, width: Option<usize>) -> String {
    let mut headers = vec!["OPTION", "VALUE", "FROM"];
    if is_wide {
        headers.extend(["APPLIES", "SET AS"]);
    }
    let row = |line: &Line| {
        let or_none = |text: Option<&str>| text.unwrap_or(NONE).to_owned();
        let value = or_none(line.value.as_deref().map(str::trim));
        let value = value.split_once('\n').map_or(value.clone(), |(first, _)| format!("{first} …"));
        let mut row = vec![line.option.clone(), value, line.from.clone()];
        if is_wide {
            row.extend([or_none(line.counts), or_none(line.set_as.as_deref())]);
        }
        row
    };
    let mut rows = lines.iter().map(row).collect::<Vec<_>>();
    if let Some(width) = width {
        table::cut(&headers, &mut rows, 1, width);
    }
    table::render(&headers, rows)
}
