//! `operator install` and `operator upgrade`.
//!
//! What is there already and belongs to somebody else is never taken over: the jobs' own account and
//! rights are left as they are, and everything else is refused by name.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::{MANAGED_BY, MANAGER, VALUES, namespace, shadow};
use crate::cli::args::{DryRun, DryRunMode, Global, Output, OutputFormat, Wait};
use crate::cli::failure::Failure;
use crate::cli::printer::{Printer, ValueFormat};
use crate::cli::{change, crds};
use crate::cluster::apply::{self, Deletion, ObjectId, Propagation, Writer};
use crate::cluster::{self, namespaces, read};
use crate::install::merge::{self, Scalars, merge};
use crate::install::objects::{NAME, Release};
use crate::install::values::Values;

/// Label value of the pods of the Java operator.
const JAVA_OPERATOR: &str = "flink-kubernetes-operator";
/// How long the API server has to serve the definitions.
const DEFINITIONS: Duration = Duration::from_mins(1);

/// Arguments of `operator install`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Operate the whole cluster from namespace flink-operator, and wait until the operator runs
  kubectl flink operator install --wait

  # Operate two namespaces with two pods, one of which leads
  kubectl flink operator install --watch-namespaces shop,fraud --replicas 2

  # See what would be created, or keep it in a repository
  kubectl flink operator install --dry-run=client -o yaml

  # What would this operator do with what another one, such as the Java operator, left? Nothing is changed
  kubectl flink operator install --check

  # Values of the Helm chart, under the same names
  kubectl flink operator install --values values.yaml --set image.repository=registry.example/kubectl-flink")]
pub(super) struct InstallArgs {
    /// Operate these namespaces; the whole cluster without
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
    /// Operator pods; of several, one leads
    #[arg(long, value_name = "COUNT")]
    replicas: Option<i32>,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    how: How,
}

/// Arguments of `operator upgrade`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # What would the operator of this version do at once? Nothing is changed
  kubectl flink operator upgrade --check

  # To the version of this program
  kubectl flink operator upgrade --wait

  # Change one value and keep the others
  kubectl flink operator upgrade --set operatorPod.resources.limits.memory=512Mi")]
pub(super) struct UpgradeArgs {
    /// Forget the values of the installation: only those given now count
    #[arg(long)]
    reset_values: bool,
    #[command(flatten)]
    values: ValueArgs,
    #[command(flatten)]
    how: How,
}

/// Where values come from.
#[derive(Args)]
struct ValueArgs {
    /// File with values, in the form of the chart's values.yaml; may be repeated, later ones win
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One value, such as replicas=2; may be repeated, and wins over files
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// One value that is text whatever it looks like, such as image.tag=12
    #[arg(long, value_name = "PATH=VALUE")]
    set_string: Vec<String>,
}

/// What installing and upgrading share.
#[derive(Args)]
struct How {
    /// Leave the definitions of the Flink resources as they are, for people who may not change them
    #[arg(long)]
    skip_crds: bool,
    /// Change nothing: tell what the operator would do first about each resource that is there, but
    /// for snapshots by schedule and the end of old ones.
    /// Exits 0 when it would leave all as they are, else 1
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
    output: Output,
}

/// Installs what is not there yet, and brings up to date what is.
pub(super) async fn install(
    args: InstallArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let InstallArgs { watch_namespaces, replicas, values, how } = args;
    let mut given = values.read()?;
    if !watch_namespaces.is_empty() {
        given.insert("watchNamespaces".to_owned(), json!(watch_namespaces));
    }
    if let Some(replicas) = replicas {
        given.insert("replicas".to_owned(), json!(replicas));
    }
    Box::pin(put(given, &how, global, printer)).await
}

/// Brings an installation to this version.
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
                "give all values again: kubectl flink operator upgrade --reset-values --values FILE",
            )
        })?
    };
    merge(&mut given, values.read()?);
    Box::pin(put(given, &how, global, printer)).await
}

/// The operator's Deployment of an earlier `operator install`.
pub(super) async fn installed(client: &Client, namespace: &str) -> anyhow::Result<Deployment> {
    let selector = format!("{MANAGED_BY}={MANAGER}");
    let found =
        read::list::<Deployment>(client, read::Scope::Namespace(namespace), Some(&selector))
            .await?;
    found.into_iter().find(|it| it.annotations().contains_key(VALUES)).ok_or_else(|| {
        Failure::new(format!("no operator is installed in namespace `{namespace}`"))
            .hint("-n names the namespace; one that Helm installed is upgraded and removed by Helm")
            .hint("install it: kubectl flink operator install")
            .into()
    })
}

/// The values that an installation was made with, beside the defaults.
pub(super) fn values_of(installed: &Deployment) -> Result<Map<String, Value>, Failure> {
    let text = installed.annotations().get(VALUES).map(String::as_str).unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        Failure::new(format!(
            "annotation `{VALUES}` of deployment `{}` is no map of values: {error}",
            installed.name_any()
        ))
    })
}

impl ValueArgs {
    fn read(&self) -> anyhow::Result<Map<String, Value>> {
        let mut given = Map::new();
        for file in &self.files {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("while reading `{shown}`"))?;
            let values: Option<Map<String, Value>> =
                serde_yaml::from_str(&text).map_err(|error| {
                    Failure::new(format!("`{shown}` holds no values")).caused_by(error)
                })?;
            merge(&mut given, values.unwrap_or_default());
        }
        let typed = self.set.iter().map(|text| (text, Scalars::Typed));
        let texts = self.set_string.iter().map(|text| (text, Scalars::Text));
        for (text, scalars) in typed.chain(texts) {
            merge::set(&mut given, text, scalars)
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(given)
    }
}

async fn put(
    given: Map<String, Value>,
    how: &How,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let How { skip_crds, check, yes, wait, dry_run: DryRun { dry_run }, output: Output { output } } =
        how;
    if *check {
        let connection = global.connect().await?;
        return Box::pin(shadow::run(&typed(&given)?, &connection, *output, printer)).await;
    }
    let namespace = namespace(global);
    let objects = objects(&given, &namespace)?;
    if *dry_run == DryRunMode::Client && output.is_some() {
        return print(&objects, *output, printer);
    }
    let connection = global.connect().await?;
    let client = &connection.client;
    refuse_another_operator(client, &given, &namespace).await?;
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
    if is_asking && !printer.confirm("Go on?")? {
        return Err(Failure::new("nothing was changed").into());
    }
    // First: a webhook that nobody answers any more would be in the way of what follows.
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
        // In a namespace that is not there yet the API server cannot check anything.
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
    printer.hint("deploy a job: kubectl flink deploy -n NAMESPACE; its namespace needs `kubectl flink init --skip-crds -n NAMESPACE` first unless it is watched by name");
    Ok(())
}

/// What is applied: the objects of the release, with the values that it was made from.
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

/// The given values, and the defaults of all others.
fn typed(given: &Map<String, Value>) -> anyhow::Result<Values> {
    let mut all = merge::defaults();
    merge(&mut all, given.clone());
    let values = merge::typed(all).map_err(|error| {
        Failure::new(error.to_string())
            .hint("all values, with their defaults: helm/kubectl-flink-operator/values.yaml")
    })?;
    check(&values)?;
    Ok(values)
}

/// What types do not say.
fn check(values: &Values) -> anyhow::Result<()> {
    if !["text", "json"].contains(&values.logging.format.as_str()) {
        return Err(Failure::new(format!(
            "value `logging.format`: `{}` is none of `text`, `json`",
            values.logging.format
        ))
        .into());
    }
    if values.replicas < 0 {
        return Err(Failure::new("value `replicas` is below 0").into());
    }
    let policy = values.webhook.failure_policy.as_str();
    if !["Ignore", "Fail"].contains(&policy) {
        let message =
            format!("value `webhook.failurePolicy`: `{policy}` is none of `Ignore`, `Fail`");
        return Err(Failure::new(message).into());
    }
    if u16::try_from(values.webhook.port).is_err() || values.webhook.port == 0 {
        return Err(Failure::new("value `webhook.port` is no port").into());
    }
    Ok(())
}

fn print(objects: &[Value], output: Option<OutputFormat>, printer: &Printer) -> anyhow::Result<()> {
    match output {
        Some(OutputFormat::Json) => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            printer.value(&list, ValueFormat::Json)
        }
        Some(OutputFormat::Yaml) => {
            for object in objects {
                printer.line("---")?;
                printer.value(object, ValueFormat::Yaml)?;
            }
            Ok(())
        }
        Some(OutputFormat::Name) => {
            objects.iter().try_for_each(|object| Ok(printer.line(change::qualified_name(object))?))
        }
        Some(OutputFormat::Wide) | None => {
            Err(Failure::usage("objects have no wide form; use -o yaml, json or name").into())
        }
    }
}

struct Change {
    object: Value,
    kind: Kind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    New,
    Ours,
    /// Of the jobs, and somebody else's.
    Foreign,
}

impl Kind {
    fn said(self) -> &'static str {
        match self {
            Self::New => "is created",
            Self::Ours => "is brought up to date",
            Self::Foreign => "is not of this installation, and is left as it is",
        }
    }
}

/// `clusterrole.rbac.authorization.k8s.io/x`, with the namespace where there is one.
fn shown(object: &Value) -> String {
    let name = change::qualified_name(object);
    match object.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{name} in {namespace}"),
        None => name,
    }
}

/// What applying each object would do; an error when one belongs to somebody else.
async fn changes(client: &Client, objects: &[Value]) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    let mut foreign = Vec::new();
    for object in objects {
        let id = ObjectId::in_manifest(object)?;
        let stored = read::get_value(client, &id).await?;
        let kind = match &stored {
            None => Kind::New,
            Some(stored) if manager(stored) == Some(MANAGER) => Kind::Ours,
            // Accounts may be there before, with the rights that the cluster's owner gave them.
            Some(_) if id.kind == "ServiceAccount" || is_of_jobs(object) => Kind::Foreign,
            Some(stored) => {
                let by =
                    manager(stored).map_or_else(String::new, |by| format!(", managed by {by}"));
                foreign.push(format!("{}{by}", shown(object)));
                Kind::Foreign
            }
        };
        changes.push(Change { object: object.clone(), kind });
    }
    if foreign.is_empty() {
        return Ok(changes);
    }
    Err(Failure::new(format!(
        "these objects are there already, and not from `operator install`: {}",
        foreign.join("; ")
    ))
    .hint("choose other names, such as --set nameOverride=NAME,rbac.operatorRole.name=NAME,rbac.operatorRoleBinding.name=NAME")
    .hint("or remove the other installation first; its definitions and jobs may stay")
    .into())
}

/// What the installation of this name had made with its former values and has no use for now, the
/// last made first. Accounts stay: others may use them.
async fn superfluous(
    client: &Client,
    namespace: &str,
    objects: &[Value],
) -> anyhow::Result<Vec<Value>> {
    let Some(deployment) = objects.iter().find(|it| it["kind"] == "Deployment") else {
        return Ok(vec![]);
    };
    let id = ObjectId::in_manifest(deployment)?;
    let Some(stored) = read::get::<Deployment>(client, namespace, &id.name).await? else {
        return Ok(vec![]);
    };
    if !stored.annotations().contains_key(VALUES) {
        return Ok(vec![]);
    }
    // Values that are no values now are no reason not to go on.
    let former = values_of(&stored).ok().and_then(|values| self::objects(&values, namespace).ok());
    let ids: Vec<ObjectId> = objects.iter().flat_map(ObjectId::in_manifest).collect();
    let mut superfluous = Vec::new();
    for object in former.into_iter().flatten().rev() {
        let id = ObjectId::in_manifest(&object)?;
        let is_kept = ["Deployment", "ServiceAccount"].contains(&id.kind.as_str());
        if is_kept || is_of_jobs(&object) || ids.contains(&id) {
            continue;
        }
        let stored = read::get_value(client, &id).await?;
        if stored.as_ref().and_then(manager) == Some(MANAGER) {
            superfluous.push(object);
        }
    }
    Ok(superfluous)
}

/// Who manages a stored object, as its label says.
pub(super) fn manager(stored: &Value) -> Option<&str> {
    stored.pointer("/metadata/labels")?.get(MANAGED_BY)?.as_str()
}

/// Objects that outlive the installation: running jobs need them.
pub(super) fn is_of_jobs(object: &Value) -> bool {
    object
        .pointer("/metadata/annotations")
        .is_some_and(|it| it.get("helm.sh/resource-policy").is_some())
}

/// Two operators on the same resources would undo each other's work.
async fn refuse_another_operator(
    client: &Client,
    given: &Map<String, Value>,
    namespace: &str,
) -> anyhow::Result<()> {
    let ours = given.get("nameOverride").and_then(Value::as_str).filter(|it| !it.is_empty());
    let ours = (namespace, ours.unwrap_or(NAME));
    let selector = format!("app.kubernetes.io/name in ({JAVA_OPERATOR},{NAME})");
    let found = read::list::<Deployment>(client, read::Scope::AllNamespaces, Some(&selector)).await;
    let found = match found {
        // Who may not look at other namespaces may still install into theirs.
        Err(cluster::Error::Forbidden { .. }) => return Ok(()),
        found => found?,
    };
    let is_running = |it: &Deployment| it.spec.replicas != Some(0);
    let is_other = |it: &Deployment| {
        (it.namespace().unwrap_or_default().as_str(), it.name_any().as_str()) != ours
    };
    let is_apart = |it: &Deployment| {
        let other = watched_by(it);
        let ours = given.get("watchNamespaces").map(names).unwrap_or_default();
        !other.is_empty() && !ours.is_empty() && ours.iter().all(|name| !other.contains(name))
    };
    let Some(other) = found.iter().find(|it| is_running(it) && is_other(it) && !is_apart(it))
    else {
        return Ok(());
    };
    let (name, namespace) = (other.name_any(), other.namespace().unwrap_or_default());
    Err(Failure::new(format!(
        "another operator may operate the same resources: deployment `{name}` in namespace `{namespace}`"
    ))
    .hint(format!(
        "stop it first, jobs run on meanwhile: kubectl scale deployment {name} -n {namespace} --replicas 0"
    ))
    .hint("or give each its own namespaces, with --watch-namespaces")
    .into())
}

/// Namespaces that an operator's Deployment names; none where it operates all, or says it elsewhere.
fn watched_by(operator: &Deployment) -> Vec<String> {
    let pod = operator.spec.template.spec.as_ref();
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let variables = containers.iter().flat_map(|container| container.env.iter().flatten());
    variables
        .filter(|variable| variable.name == "WATCH_NAMESPACES")
        .filter_map(|variable| variable.value.as_deref())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn names(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn until_available(
    client: &Client,
    namespace: &str,
    objects: &[Value],
    timeout: Duration,
    printer: &Printer,
) -> anyhow::Result<()> {
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment");
    let name = deployment.and_then(|it| it.pointer("/metadata/name")).and_then(Value::as_str);
    let name = name.unwrap_or(NAME);
    let progress = printer.progress();
    progress.set(format_args!("waiting for deployment `{name}`"));
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let done = await_condition(api, name, conditions::is_deployment_completed());
    if let Ok(end) = tokio::time::timeout(timeout, done).await {
        end.with_context(|| format!("while waiting for deployment `{name}`"))?;
        return Ok(());
    }
    let why = pod_trouble(client, namespace, name).await?;
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    let look = format!("kubectl describe pods -n {namespace} -l app.kubernetes.io/name={name}");
    Err(Failure::timed_out(format!("the operator does not run after {timeout:?}{why}"))
        .hint(format!("look closer: {look}"))
        .into())
}

/// What keeps the first troubled pod of the operator from running.
async fn pod_trouble(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<String>> {
    let selector = format!("app.kubernetes.io/name={name}");
    let pods =
        read::list::<Pod>(client, read::Scope::Namespace(namespace), Some(&selector)).await?;
    Ok(pods.iter().find_map(|pod| {
        let status = pod.status.as_ref()?;
        let waiting = status.container_statuses.iter().flatten().find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let message = waiting.message.as_deref().unwrap_or_default();
            Some(format!("{} {message}", waiting.reason.as_deref()?))
        });
        let unscheduled = || {
            let conditions = status.conditions.iter().flatten();
            let mut bad =
                conditions.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
            bad.next()?.message.clone()
        };
        let why = waiting.or_else(unscheduled)?;
        Some(format!("pod `{}`: {}", pod.name_any(), why.trim()))
    }))
}
