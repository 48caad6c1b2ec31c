//! `deploy`: from a manifest, from flags or from a dialogue. Everything is checked before anything is sent.

mod dialogue;
mod equivalents;
pub(super) mod flags;
mod session_job;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};

use super::args::{ChangeFlags, DryRunMode, Global, Untried};
use super::change::Expected;
use super::connection::Connection;
use super::deployment::Deployment;
use super::extension::Extensions;
use super::failure::Failure;
use super::lookup;
use super::manifest;
use super::printer::Printer;
use super::{change, operator_config, plan};
use api::blue_green::{BlueGreenStatus, FlinkBlueGreenDeploymentSpec, Recorded};
use api::deployment::FlinkDeploymentSpec;
use api::manifest::{Document, Resource};
use clients::cluster;
use clients::cluster::apply::{self, ObjectId, Writer};
use clients::cluster::read;
use config::OperatorConfig;
use flags::Flags;
use validation::blue_green::{self, BlueGreenInput};
use validation::extension::mutation::difference;
use validation::extension::subject::{Kind, Subject};
use validation::{ValidationInput, Violation, validate};

/// The kind that flags and the dialogue create.
const KIND: &str = "FlinkDeployment";
/// The kinds that this command deploys.
const KINDS: &str = "FlinkDeployment, FlinkSessionJob or FlinkBlueGreenDeployment";

/// Arguments of `deploy`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink deploy -f job.yaml --wait
  kubectl flink deploy wordcount --image registry/wordcount:1 --flink-version v1_20 \\
      --jar local:///opt/flink/usrlib/wordcount.jar --parallelism 2
  kubectl flink deploy wordcount --image registry/wordcount:2    # changes only the image
  kubectl flink deploy                                           # asks, on a terminal")]
pub struct DeployArgs {
    /// Manifest with deployments, session jobs and blue/green deployments; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// The operator's configuration, for its defaults: a file, or a directory with flink-conf.yaml
    /// or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    /// Take over fields owned by other field managers
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    untried: Untried,
    #[command(flatten)]
    change: ChangeFlags,
}

/// A manifest or patch to send for one deployment.
pub(super) enum Request {
    /// A whole manifest, sent by server-side apply.
    Manifest { manifest: Value, source: Option<Source> },
    /// Only the fields that the flags set, on top of the stored object.
    Patch { name: String, patch: Value },
}

impl Request {
    /// Returns the requests of a file, each with its position in it.
    pub(super) fn of_documents(documents: Vec<Document>, file: &str) -> Vec<Self> {
        let of_document = |document: Document| Self::Manifest {
            manifest: document.value.clone(),
            source: Some(Source { file: file.to_owned(), document }),
        };
        documents.into_iter().map(of_document).collect()
    }

    fn manifest(&self) -> Option<&Value> {
        match self {
            Self::Manifest { manifest, .. } => Some(manifest),
            Self::Patch { .. } => None,
        }
    }
}

/// Reads and checks everything, sends it, and waits if requested.
pub async fn run(args: DeployArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let DeployArgs { filename, flags, operator_config, force_conflicts, untried, change } = args;
    let change = change.or_untried(untried);
    if filename.is_none() && flags.is_empty() && !printer.terminals().input {
        return Err(Failure::usage(
            "nothing to deploy: give a manifest with -f, or a name with flags",
        )
        .hint("see: kubectl flink deploy --help")
        .into());
    }
    let operator = match operator_config {
        Some(path) => operator_config::load(Some(&path), printer)?,
        None => OperatorConfig::default(),
    };
    let extensions = Extensions::online(&operator)?;
    // Read the manifests before connecting, because their errors need no cluster.
    let manifests = filename.as_deref().map(|file| manifests(file, global)).transpose()?;
    let mut connection = global.connect().await?;
    let requests = match manifests {
        Some(documents) => {
            let file = filename.as_deref().map(manifest::shown).unwrap_or_default();
            Request::of_documents(documents, &file)
        }
        None if flags.is_empty() => match dialogue::ask(&connection, printer).await? {
            Some(manifest) => vec![Request::Manifest { manifest, source: None }],
            None => return Err(Failure::new("nothing was deployed").into()),
        },
        None => vec![from_flags(&flags, &connection).await?],
    };
    let rules = (&operator, &extensions, printer);
    let (checked, violations) = check_all(requests, &mut connection, rules).await?;
    if !violations.is_empty() {
        return Err(refusal("nothing was deployed or changed", &violations).into());
    }
    let checked = match &global.expected {
        Some(expected) => on_top_of(expected, checked)?,
        None => checked,
    };
    send_all(&checked, &connection, force_conflicts, change, printer).await
}

/// Makes the change of this object depend on what was checked, so that a concurrent change is not overwritten.
fn on_top_of(expected: &Expected, mut checked: Vec<Checked>) -> anyhow::Result<Vec<Checked>> {
    for request in checked.iter_mut().filter(|request| request.id == expected.id) {
        let present = request.present.as_ref();
        expected.check(present.map(|present| &present.0))?;
        let version = present.and_then(Deployment::resource_version);
        request.wanted["metadata"]["resourceVersion"] = json!(version);
    }
    Ok(checked)
}

/// Sends the checked requests and waits if requested.
pub(super) async fn send_all(
    checked: &[Checked],
    connection: &Connection,
    force_conflicts: bool,
    change: ChangeFlags,
    printer: &Printer,
) -> anyhow::Result<()> {
    let dry_run = change.dry_run.dry_run;
    let writer = Writer { is_forced: force_conflicts, ..change::writer(dry_run) };
    if dry_run != DryRunMode::None {
        for line in equivalents::lines(checked, connection, writer) {
            printer.note(line);
        }
    }
    for request in checked {
        if let Some(present) = request.present.as_ref().filter(|it| it.is_blue_green())
            && let Some(wanted) = request.wanted.pointer("/spec/template/spec")
        {
            plan::warn_without_room(connection, present, wanted, printer).await;
        }
        let written = send(request, connection, writer, dry_run).await?;
        change::finish(connection, written.object, written.verb, change, printer).await?;
    }
    Ok(())
}

/// The configuration, the extensions, and the printer that reports what mutators did.
pub(super) type Rules<'a> = (&'a OperatorConfig, &'a Extensions, &'a Printer);

/// Returns the requests as they would be sent, and all violations of any of them, each with the name or line at fault.
pub(super) async fn check_all(
    requests: Vec<Request>,
    connection: &mut Connection,
    rules: Rules<'_>,
) -> anyhow::Result<(Vec<Checked>, Vec<(String, Violation)>)> {
    let (_, extensions, printer) = rules;
    let requests = mutated(requests, connection, extensions, printer).await?;
    let mut checked = Vec::new();
    let mut violations = Vec::new();
    let together = requests.iter().filter_map(Request::manifest).cloned().collect::<Vec<_>>();
    for request in requests {
        let (request, found) = check(request, connection, rules, &together).await?;
        violations.extend(found);
        checked.push(request);
    }
    Ok((checked, violations))
}

/// Returns the session cluster of a session job.
async fn session_of(
    connection: &Connection,
    id: &ObjectId,
    wanted: &Value,
    together: &[Value],
) -> anyhow::Result<Option<Value>> {
    let name = wanted.pointer("/spec/deploymentName").and_then(Value::as_str).unwrap_or_default();
    if id.kind != "FlinkSessionJob" || name.is_empty() {
        return Ok(None);
    }
    let namespace = id.namespace.clone().unwrap_or_default();
    session_job::cluster(connection, &namespace, name, together).await
}

/// Applies the configured mutators to the manifests. Patches are mutated later, once the stored object is known.
async fn mutated(
    requests: Vec<Request>,
    connection: &Connection,
    extensions: &Extensions,
    printer: &Printer,
) -> anyhow::Result<Vec<Request>> {
    let mut mutated = Vec::new();
    for request in requests {
        mutated.push(match request {
            Request::Manifest { mut manifest, source } => {
                manifest["metadata"]["namespace"] = namespace_of(&manifest, connection).into();
                let manifest = extensions.mutate(&manifest, printer).await?;
                Request::Manifest { manifest, source }
            }
            patch @ Request::Patch { .. } => patch,
        });
    }
    Ok(mutated)
}

/// Where a manifest came from, to point at its lines.
pub(super) struct Source {
    file: String,
    document: Document,
}

/// A request with the object that is currently stored under its name.
pub(super) struct Checked {
    pub(super) id: ObjectId,
    request: Request,
    pub(super) present: Option<Deployment>,
    /// The resulting object, for `--dry-run=client`.
    pub(super) wanted: Value,
}

/// Checks one request and returns all its violations, before anything is sent.
async fn check(
    mut request: Request,
    connection: &mut Connection,
    (operator, extensions, printer): Rules<'_>,
    together: &[Value],
) -> anyhow::Result<(Checked, Vec<(String, Violation)>)> {
    let id = match &request {
        Request::Manifest { manifest, .. } => ObjectId {
            namespace: Some(namespace_of(manifest, connection).to_owned()),
            ..ObjectId::in_manifest(manifest)?
        },
        Request::Patch { name, .. } => lookup::id(connection, name),
    };
    let present = read::get_value(&connection.client, &id).await?.map(Deployment);
    if let Some(present) = &present {
        lookup::refuse_colour(present)?;
    }
    let wanted = match &request {
        Request::Manifest { manifest, .. } => {
            let mut manifest = manifest.clone();
            manifest["metadata"]["namespace"] = Value::from(id.namespace.clone());
            manifest
        }
        Request::Patch { patch, .. } => {
            let mut object = present.as_ref().map_or(Value::Null, |present| present.0.clone());
            merge(&mut object, patch);
            object
        }
    };
    let wanted = match &mut request {
        Request::Manifest { .. } => wanted,
        Request::Patch { patch, .. } => {
            let mutated = extensions.mutate(&wanted, printer).await?;
            merge(patch, &difference(&wanted, &mutated));
            mutated
        }
    };
    let mut violations = match id.kind.as_str() {
        "FlinkSessionJob" => {
            let known = (present.as_ref(), together);
            session_job::check(connection, &id, &wanted, known, operator).await?
        }
        "FlinkBlueGreenDeployment" => {
            check_blue_green(connection, &id, &wanted, present.as_ref(), operator).await?
        }
        _ => check_deployment(connection, &id, &wanted, present.as_ref(), operator).await?,
    };
    let last = present.as_ref().and_then(Deployment::last_reconciled_spec);
    let subject = match Kind::parse(&id.kind) {
        Some(kind) => {
            let session = session_of(connection, &id, &wanted, together).await?;
            Some(Subject::new(kind, &wanted).with_old_spec(last).with_session(session))
        }
        None => serde_json::from_value(wanted.clone()).ok().and_then(|it| blue_green::subject(&it)),
    };
    violations.extend(subject.iter().flat_map(|subject| extensions.violations(subject)));
    let source = match &request {
        Request::Manifest { source, .. } => source.as_ref(),
        Request::Patch { .. } => None,
    };
    let place = |violation: &Violation| match source {
        None => id.name.clone(),
        Some(Source { file, document }) => match document.locate(&violation.path) {
            (0, _) => file.clone(),
            (line, column) => format!("{file}:{line}:{column}"),
        },
    };
    let violations =
        violations.into_iter().map(|violation| (place(&violation), violation)).collect();
    Ok((Checked { id, request, present, wanted }, violations))
}

/// Returns all violations of a `FlinkDeployment`.
async fn check_deployment(
    connection: &Connection,
    id: &ObjectId,
    wanted: &Value,
    present: Option<&Deployment>,
    operator: &OperatorConfig,
) -> anyhow::Result<Vec<Violation>> {
    let spec = FlinkDeploymentSpec::deserialize(&wanted["spec"])
        .with_context(|| format!("FlinkDeployment `{}` cannot be read", id.name))?;
    let last_reconciled = present
        .and_then(Deployment::last_reconciled_spec)
        .and_then(|spec| FlinkDeploymentSpec::deserialize(spec).ok());
    let namespace = id.namespace.clone().unwrap_or_default();
    let mut violations = validate(&ValidationInput {
        name: &id.name,
        namespace: &namespace,
        spec: &spec,
        last_reconciled: last_reconciled.as_ref(),
        operator,
    });
    violations.extend(missing_service_account(connection, &namespace, &spec).await?);
    Ok(violations)
}

/// Returns all violations of a `FlinkBlueGreenDeployment`.
async fn check_blue_green(
    connection: &Connection,
    id: &ObjectId,
    wanted: &Value,
    present: Option<&Deployment>,
    operator: &OperatorConfig,
) -> anyhow::Result<Vec<Violation>> {
    const TEMPLATE: &str = "spec.template.";
    let spec: FlinkBlueGreenDeploymentSpec = serde_json::from_value(wanted["spec"].clone())
        .with_context(|| format!("FlinkBlueGreenDeployment `{}` cannot be read", id.name))?;
    let namespace = id.namespace.clone().unwrap_or_default();
    let template = present.and_then(Deployment::last_reconciled_spec);
    let template = template.and_then(|spec| FlinkDeploymentSpec::deserialize(spec).ok());
    let ingress = present.and_then(|present| {
        let status = present.0.get("status")?.clone();
        serde_json::from_value::<BlueGreenStatus>(status).ok()?.recorded().ingress
    });
    let input = BlueGreenInput {
        name: &id.name,
        namespace: &namespace,
        spec: &spec,
        last: &Recorded { template, ingress },
        operator,
    };
    let found = blue_green::find(&input).into_iter();
    let mut violations: Vec<Violation> = found.map(|finding| finding.violation).collect();
    if let Some(spec) = spec.template.and_then(|template| template.spec) {
        let missing = missing_service_account(connection, &namespace, &spec).await?;
        violations.extend(missing.map(|Violation { path, message }| Violation {
            path: format!("{TEMPLATE}{path}"),
            message,
        }));
    }
    Ok(violations)
}

/// Checks that the service account exists: without it Kubernetes creates no pods, and nothing else says why.
async fn missing_service_account(
    connection: &Connection,
    namespace: &str,
    spec: &FlinkDeploymentSpec,
) -> anyhow::Result<Option<Violation>> {
    let Some(name) = spec.service_account.as_deref().filter(|name| !name.trim().is_empty()) else {
        // Reported as a violation of its own.
        return Ok(None);
    };
    match read::get::<ServiceAccount>(&connection.client, namespace, name).await {
        // A user who may deploy may lack the right to read service accounts.
        Ok(Some(_)) | Err(cluster::Error::Forbidden { .. }) => Ok(None),
        Ok(None) => Ok(Some(Violation {
            path: "spec.serviceAccount".to_owned(),
            message: format!(
                "service account `{name}` does not exist in namespace `{namespace}`; create it with: \
                 kubectl flink init -n {namespace} --service-account {name}"
            ),
        })),
        Err(error) => Err(error.into()),
    }
}

/// Returns an error that lists all violations, each with the name or line at fault; nothing was sent.
pub(super) fn refusal(nothing_done: &str, violations: &[(String, Violation)]) -> Failure {
    let mut message = format!("{nothing_done}:");
    for (place, violation) in violations {
        message.push_str("\n  ");
        message.push_str(place);
        message.push_str(": ");
        message.push_str(&violation.to_string());
    }
    let needs_operator = violations.iter().any(|(_, violation)| {
        let path = &violation.path;
        let path = path.strip_prefix("spec.template.").unwrap_or(path);
        path.starts_with("spec.flinkConfiguration") || path == "spec.job.jarURI"
    });
    let failure = Failure::new(message);
    if needs_operator {
        failure.hint("options set only in the operator's configuration are not known here; pass it with --operator-config")
    } else {
        failure
    }
}

/// The object that a request wrote, and the verb that reports it.
struct Written {
    object: Value,
    verb: &'static str,
}

async fn send(
    checked: &Checked,
    connection: &Connection,
    writer: Writer<'_>,
    dry_run: DryRunMode,
) -> anyhow::Result<Written> {
    let Checked { id, request, present, wanted } = checked;
    let object = match (dry_run, request) {
        (DryRunMode::Client, _) => wanted.clone(),
        (_, Request::Manifest { .. }) => apply::apply(&connection.client, wanted, writer)
            .await
            .map_err(|error| explain(error, &id.name))?,
        (_, Request::Patch { patch, .. }) => {
            apply::merge_patch(&connection.client, id, patch, writer).await?
        }
    };
    let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
    let verb = match present {
        None => "created",
        Some(present) if dry_run == DryRunMode::None && version(&present.0) == version(&object) => {
            "unchanged"
        }
        Some(_) => "configured",
    };
    Ok(Written { object, verb })
}

fn explain(error: cluster::Error, name: &str) -> anyhow::Error {
    match error {
        cluster::Error::FieldConflict { .. } => Failure::new(format!(
            "`{name}` was not deployed: {error}"
        ))
        .hint("leave those fields out of the manifest, or take them over with --force-conflicts")
        .into(),
        other => other.into(),
    }
}

/// Returns the manifest's own namespace, else the connection's.
fn namespace_of<'a>(manifest: &'a Value, connection: &'a Connection) -> &'a str {
    manifest.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or(&connection.namespace)
}

/// Reads the manifests in a file. Refuses any other kind, because it would be ignored.
pub(super) fn manifests(file: &Path, global: &Global) -> anyhow::Result<Vec<Document>> {
    let documents = manifest::read(file, global.input.as_deref())?;
    for document in &documents {
        let metadata = match &document.resource {
            Resource::Deployment(deployment) => Some(&deployment.metadata),
            Resource::SessionJob(job) => Some(&job.metadata),
            Resource::BlueGreenDeployment(resource) => Some(&resource.metadata),
            _ => None,
        };
        let is_canary = document.is_canary();
        let Some(metadata) = metadata.filter(|_| !is_canary) else {
            let what = if is_canary { "canary" } else { document.resource.kind() };
            return Err(Failure::new(format!(
                "{}:{}: cannot deploy a {what}, only a {KINDS}",
                manifest::shown(file),
                document.locate("").0,
            ))
            .hint("apply other objects with: kubectl apply -f")
            .into());
        };
        let stated = metadata.namespace.as_deref().unwrap_or_default();
        if let Some(asked) =
            global.namespace.as_deref().filter(|asked| !stated.is_empty() && *asked != stated)
        {
            return Err(Failure::new(format!(
                "the namespace of `{}`, `{stated}`, does not match --namespace `{asked}`",
                document.resource.name()
            ))
            .into());
        }
    }
    if documents.is_empty() {
        return Err(Failure::new(format!("`{}` contains no {KINDS}", manifest::shown(file))).into());
    }
    Ok(documents)
}

/// Builds a new deployment from the flags, or a change to an existing one.
async fn from_flags(flags: &Flags, connection: &Connection) -> anyhow::Result<Request> {
    let name = flags.name()?.to_owned();
    if name.contains('/') {
        return Err(Failure::usage(format!(
            "flags can only deploy a {KIND}, which `{name}` is not"
        ))
        .hint(format!("change an existing one: kubectl flink set image {name} IMAGE"))
        .hint("or pass a manifest: kubectl flink deploy -f FILE")
        .into());
    }
    match read::get_value(&connection.client, &lookup::id(connection, &name)).await? {
        Some(_) => Ok(Request::Patch { patch: flags.patch(), name }),
        None => {
            Ok(Request::Manifest { manifest: flags.manifest(&connection.namespace)?, source: None })
        }
    }
}

/// Applies a JSON merge patch (RFC 7386) as the API server does.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests;
