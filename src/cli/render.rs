//! `render`: prints, offline, the objects that the operator would create.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::args::{Global, ObjectFormat, Output};
use super::extension::Extensions;
use super::failure::Failure;
use super::manifest;
use super::operator_config;
use super::printer::{Printer, ValueFormat};
use api::deployment::FlinkDeployment;
use api::manifest::Resource;
use config::cluster::{ResourceId, deploy_config};
use config::{OperatorConfig, options};
use render::files::FileObject;
use render::{Objects, RenderInput, Submission, render_cluster};
use validation::extension::subject::{Kind, Subject};
use validation::{ValidationInput, Violation, validate};

/// Arguments of `render`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink render -f orders.yaml
  cat orders.yaml | kubectl flink render -f - --operator-config flink-conf.yaml")]
pub struct RenderArgs {
    /// Manifest with one or more FlinkDeployments; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// The operator's configuration: a file, or a directory with flink-conf.yaml or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// Prints every object of every `FlinkDeployment` in the file, in the order of creation.
pub async fn run(args: RenderArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let RenderArgs { filename, operator_config, output } = args;
    let operator = match operator_config {
        Some(path) => operator_config::load(Some(&path), printer)?,
        None => OperatorConfig::default(),
    };
    let extensions = Extensions::offline(&operator, printer)?;
    let mut objects = Vec::new();
    for value in read(&filename, printer)? {
        let value = extensions.mutate(&value, printer).await?;
        let deployment = FlinkDeployment::deserialize(&value)?;
        let id = resource_id(&deployment, global)?;
        let subject = Subject::new(Kind::FlinkDeployment, &value);
        refuse_invalid(&id, &deployment, &operator, extensions.violations(&subject))?;
        let rendered = render(&id, &deployment, &operator)
            .with_context(|| format!("while rendering FlinkDeployment `{}`", id.name))?;
        for FileObject { manifest, files } in &rendered.file_objects {
            printer.note(format_args!(
                "{} `{}` is shown without data: the operator fills it with {} from its own pod",
                manifest["kind"].as_str().unwrap_or_default(),
                manifest["metadata"]["name"].as_str().unwrap_or_default(),
                files.values().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", "),
            ));
        }
        objects.extend(rendered.iter().map(sorted));
    }
    if objects.is_empty() {
        return Err(Failure::new(format!(
            "no FlinkDeployment to render in `{}`",
            filename.display()
        ))
        .into());
    }
    print(&objects, output.output, printer)
}

fn print(objects: &[Value], format: Option<ObjectFormat>, printer: &Printer) -> anyhow::Result<()> {
    match format {
        Some(ObjectFormat::Value(ValueFormat::Json)) => {
            let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
            printer.value(&list, ValueFormat::Json)?;
        }
        Some(ObjectFormat::Name) => {
            for object in objects {
                let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                printer.line(format_args!("{kind}/{name}"))?;
            }
        }
        None | Some(ObjectFormat::Wide | ObjectFormat::Value(ValueFormat::Yaml)) => {
            for (index, object) in objects.iter().enumerate() {
                let separator = if index == 0 { "" } else { "---\n" };
                printer.raw(format_args!("{separator}{}", serde_yaml::to_string(object)?))?;
            }
        }
    }
    Ok(())
}

fn read(filename: &std::path::Path, printer: &Printer) -> anyhow::Result<Vec<Value>> {
    let mut deployments = Vec::new();
    for document in manifest::read(filename, None)? {
        let is_canary = document.is_canary();
        match document.resource {
            Resource::Deployment(_) if !is_canary => deployments.push(document.value),
            other => printer.note(format_args!(
                "skipped {} `{}`: {}",
                other.kind(),
                other.name(),
                if is_canary {
                    "a canary has no objects"
                } else {
                    "only a FlinkDeployment has objects"
                }
            )),
        }
    }
    Ok(deployments)
}

fn resource_id(deployment: &FlinkDeployment, global: &Global) -> anyhow::Result<ResourceId> {
    let metadata = &deployment.metadata;
    let name = metadata.name.clone().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Failure::new("`metadata.name` is missing"))?;
    let namespace = namespace(metadata.namespace.as_deref(), global.namespace.as_deref())?;
    let mut id = ResourceId { namespace, name, uid: String::new() };
    id.uid = metadata.uid.clone().unwrap_or_else(|| uuid(&placeholder(&id, "resource")));
    Ok(id)
}

/// Refuses what the operator would refuse, with all problems at once.
fn refuse_invalid(
    id: &ResourceId,
    deployment: &FlinkDeployment,
    operator: &OperatorConfig,
    of_others: Vec<Violation>,
) -> anyhow::Result<()> {
    let mut violations = validate(&ValidationInput {
        name: &id.name,
        namespace: &id.namespace,
        spec: &deployment.spec,
        last_reconciled: None,
        operator,
    });
    violations.extend(of_others);
    if violations.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        violations.iter().map(|violation| format!("\n  {violation}")).collect();
    let message = format!("`{}` cannot be deployed:{}", id.name, lines.concat());
    let failure = Failure::new(message);
    Err(if operator.base.is_empty() {
        failure.hint("pass the operator's configuration with --operator-config")
    } else {
        failure
    }
    .into())
}

/// Renders the objects of a first deployment. Ids that the API server and the operator would assign are derived from
/// the name, so that the same manifest always gives the same output.
fn render(
    id: &ResourceId,
    deployment: &FlinkDeployment,
    operator: &OperatorConfig,
) -> anyhow::Result<Objects> {
    let spec = &deployment.spec;
    let job = spec.job.as_ref();
    let upgrade_mode = job.map(|job| job.upgrade_mode);
    let generation = deployment.metadata.generation.unwrap_or(1);
    let config = deploy_config(operator, id, spec, upgrade_mode, generation)?;
    let submission = Submission {
        // The operator uses a job id that the user has fixed.
        job_id: config.find(&options::FIXED_JOB_ID)?.unwrap_or_else(|| placeholder(id, "job")),
        savepoint_path: job
            .and_then(|job| job.initial_savepoint_path.clone())
            .filter(|path| !path.trim().is_empty()),
        job_result_store_id: uuid(&placeholder(id, "run")),
    };
    // The operator's own Hadoop configuration is not known here.
    let hadoop_conf = None;
    let input = RenderInput { id, spec, config: &config, submission: &submission, hadoop_conf };
    Ok(render_cluster(&input)?.owned_by(&uuid(&placeholder(id, "deployment"))))
}

/// Returns digits that replace an id of the resource.
fn placeholder(id: &ResourceId, purpose: &str) -> String {
    digest(&format!("{}/{}/{purpose}", id.namespace, id.name))
}

/// Applies kubectl's rule: the manifest may omit the namespace, but not contradict `-n`.
fn namespace(stated: Option<&str>, asked: Option<&str>) -> anyhow::Result<String> {
    match (stated, asked) {
        (Some(stated), Some(asked)) if stated != asked => Err(Failure::new(format!(
            "the namespace of the manifest, `{stated}`, does not match --namespace `{asked}`"
        ))
        .into()),
        (Some(namespace), _) | (None, Some(namespace)) => Ok(namespace.to_owned()),
        (None, None) => Ok("default".to_owned()),
    }
}

/// Returns 32 hexadecimal digits.
fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Formats the digits as a UUID.
fn uuid(digits: &str) -> String {
    let mut uuid = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if [8, 12, 16, 20].contains(&index) {
            uuid.push('-');
        }
        uuid.push(digit);
    }
    uuid
}

/// Sorts the keys of every object in the value.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
