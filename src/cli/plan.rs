//! `plan`: what a change would do, before it is made.
//!
//! The steps are the operator's own decisions, rehearsed on the present facts; see [`lifecycle::rehearsal`]. Nothing is
//! written: at most the API server checks a manifest in a server-side dry run.

mod assess;
pub(in crate::cli) mod assignment;
mod facts;
mod quota;
mod show;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use self::assess::{Downtime, Replay, Restore};
use self::assignment::Assignment;
use super::args::{DryRunMode, FlinkAccess, Global, Output};
use super::connection::Connection;
use super::deploy::{self, Checked, Request};
use super::deployment::Deployment;
use super::extension::Extensions;
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use super::{change, complete, lookup, manifest, operator_config};
use api::PAUSED_ANNOTATION;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::session_job::{FlinkSessionJob, FlinkSessionJobSpec};
use clients::cluster::read::{self, Scope};
use clients::cluster::{apply, pods};
use clients::flink::access::{Connector, Options};
use config::OperatorConfig;
use lifecycle::diff::{ChangeClass, SpecDiff, diff, diff_session_job};
use lifecycle::rehearsal::{Outcome, Scene};
use operator::context::Context;
use operator::rehearse;

/// Examples shown below the flags.
const EXAMPLES: &str = "\
Exit codes:
  0  nothing would change
  1  there are changes
  2  failed: the cause is on stderr, after `error:`

Examples:
  kubectl flink plan -f orders.yaml
  kubectl flink plan orders --set job.parallelism=8
  kubectl flink plan orders --set image=orders:2 --set flinkConfiguration.state.backend.type=rocksdb
  kubectl flink plan sessionjob/orders --set job.state=suspended -o json
  kubectl flink plan bluegreen/orders --set job.parallelism=8    # in spec.template.spec";

/// Arguments of `plan`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME that --set changes; without --set:
    /// what is still pending for the stored spec
    #[arg(add = complete::deployments(), conflicts_with = "filename", required_unless_present = "filename")]
    name: Option<String>,
    /// Manifest with deployments, session jobs and blue/green deployments; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// Field of the spec and its new value; null removes it. May be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = assignment::parse, conflicts_with = "filename")]
    set: Vec<Assignment>,
    /// The operator's configuration, for its defaults: a file, or a directory with flink-conf.yaml
    /// or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// Expected effects on one resource. `-o json` prints a list of these.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    kind: String,
    namespace: String,
    name: String,
    is_new: bool,
    /// `NONE`, `IGNORE`, `SCALE`, `UPGRADE`, `SAVEPOINT_REDEPLOY` or `CREATE`.
    class: &'static str,
    changes: Vec<Field>,
    /// The operator's steps, pass by pass, until the new job starts.
    passes: Vec<Scene>,
    /// Why the operator would go no further.
    halt: Option<String>,
    restore: Option<Restore>,
    replay: Option<Replay>,
    stops_job: bool,
    downtime: Option<Downtime>,
    warnings: Vec<String>,
}

/// A field that changes, without secrets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    #[serde(rename = "field")]
    path: String,
    from: String,
    to: String,
    class: &'static str,
}

impl Plan {
    /// Returns true if the change ends with a start.
    fn starts(&self) -> bool {
        let mut steps = self.passes.iter().flat_map(|pass| &pass.steps);
        steps.any(|step| matches!(step.step, "create-cluster" | "submit-job" | "create-child"))
    }

    /// Returns true if another colour takes over from a running one.
    fn switches(&self) -> bool {
        let mut steps = self.passes.iter().flat_map(|pass| &pass.steps);
        !self.is_new && steps.any(|step| step.step == "create-child")
    }

    fn is_empty(&self) -> bool {
        !self.is_new && self.changes.is_empty() && self.passes.is_empty()
    }
}

/// Reads, rehearses and prints. The exit code also reports a difference.
pub async fn run(args: PlanArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let PlanArgs { name, filename, set, operator_config, access, output: Output { output } } = args;
    let operator = match operator_config {
        Some(path) => operator_config::load(Some(&path), printer)?,
        None => OperatorConfig::default(),
    };
    let documents = filename.as_deref().map(|file| deploy::manifests(file, global)).transpose()?;
    let mut connection = global.connect().await?;
    let requests = if let Some(documents) = documents {
        let file = filename.as_deref().map(manifest::shown).unwrap_or_default();
        Request::of_documents(documents, &file)
    } else {
        let name = name.unwrap_or_default();
        let present = lookup::fetch_itself(&connection, &name).await?;
        lookup::refuse_colour(&present)?;
        vec![Request::Manifest { manifest: with(&present, &set), source: None }]
    };
    let is_manifest = filename.is_some();
    let plans = plans(requests, is_manifest, &mut connection, operator, access, printer).await?;
    match output {
        Some(format) => printer.value(&json!({ "plans": plans }), format)?,
        None => printer.line(text(&plans))?,
    }
    if plans.iter().all(Plan::is_empty) { Ok(()) } else { Err(Failure::differs().into()) }
}

/// Returns what the operator would do if the object was written like this, as `plan` prints it.
///
/// # Errors
/// If it would be refused, or if what it depends on cannot be read.
pub(super) async fn of_object(
    object: Value,
    connection: &Connection,
    access: FlinkAccess,
    printer: &Printer,
) -> anyhow::Result<String> {
    let operator = OperatorConfig::default();
    let requests = vec![Request::Manifest { manifest: object, source: None }];
    let plans = plans(requests, false, &mut connection.clone(), operator, access, printer).await?;
    Ok(text(&plans))
}

fn text(plans: &[Plan]) -> String {
    let texts = plans.iter().map(|plan| show::plan(plan, Timestamp::now()));
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Checks the requests, and rehearses each.
async fn plans(
    requests: Vec<Request>,
    is_manifest: bool,
    connection: &mut Connection,
    operator: OperatorConfig,
    access: FlinkAccess,
    printer: &Printer,
) -> anyhow::Result<Vec<Plan>> {
    let extensions = Extensions::online(&operator)?;
    let rules = (&operator, &extensions, printer);
    let (checked, violations) = deploy::check_all(requests, connection, rules).await?;
    if !violations.is_empty() {
        return Err(deploy::refusal(
            "the operator would refuse this and leave the running job alone",
            &violations,
        )
        .into());
    }
    let context = context(connection, operator, access)?;
    let mut plans = Vec::new();
    for checked in checked {
        plans.push(Box::pin(plan(checked, is_manifest, connection, &context, access)).await?);
    }
    Ok(plans)
}

/// Returns the stored object with the fields set.
fn with(present: &Deployment, set: &[Assignment]) -> Value {
    let mut object = present.0.clone();
    let spec = if present.is_blue_green() { "/spec/template/spec" } else { "/spec" };
    if let Some(spec) = object.pointer_mut(spec) {
        for assignment in set {
            assignment.put(spec);
        }
    }
    object
}

/// Returns the object as if it was unpaused, and a warning if it is paused.
fn unpaused(object: Value) -> (Value, Option<String>) {
    let mut it = Deployment(object);
    if !it.is_paused_by_itself() {
        return (it.0, None);
    }
    let annotations = it.0.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    drop(annotations.and_then(|annotations| annotations.remove(PAUSED_ANNOTATION)));
    let name = it.shown_name();
    let warning =
        format!("`{name}` is paused: this is what follows `kubectl flink unpause {name}`");
    (it.0, Some(warning))
}

/// Returns the operator's context, without its watches.
fn context(
    connection: &Connection,
    operator: OperatorConfig,
    access: FlinkAccess,
) -> anyhow::Result<Context> {
    let options = Options::from_environment(access.flink_access, connection.rest_address.clone());
    let connector = Connector::new(&options, connection.config.as_ref())
        .context("while preparing connections to JobManagers")?;
    Ok(Context::new(connection.client.clone(), operator, connector, true).blind_to_snapshots())
}

async fn plan(
    checked: Checked,
    is_manifest: bool,
    connection: &Connection,
    context: &Context,
    access: FlinkAccess,
) -> anyhow::Result<Plan> {
    let Checked { id, present, wanted, .. } = checked;
    let mut warnings = Vec::new();
    let wanted = if is_manifest {
        applied(&wanted, present.as_ref(), connection, &mut warnings).await?
    } else {
        wanted
    };
    let wanted = as_stored(wanted, present.as_ref());
    let (wanted, paused) = unpaused(wanted);
    warnings.extend(paused);
    let now = Timestamp::now();
    let scaled = scaled(&wanted, context).await?;
    let difference = difference(&scaled, present.as_ref())?;
    let outcome = rehearsed(&scaled, context).await?;
    let facts = match &present {
        Some(present) => facts::observe(connection, present, access.flink_access).await,
        None => facts::Facts::default(),
    };
    warnings.extend(facts.unread.iter().map(|unread| format!("could not read {unread}")));
    warnings.extend(show::warnings(present.as_ref(), &wanted, &outcome, &facts));
    let starts = |scene: &Scene| scene.steps.iter().any(|step| step.step == "create-child");
    if let Some(present) = present.as_ref().filter(|it| it.is_blue_green())
        && outcome.scenes.iter().any(starts)
    {
        warnings.extend(room_for_two(connection, present).await);
    }
    let restore = assess::restore(&outcome, &facts, now);
    let replay = assess::replay(&outcome, restore.as_ref(), facts.details.as_ref(), now);
    let started = facts.details.as_ref().and_then(|details| details.start_time);
    let started = started.and_then(|at| Timestamp::from_millisecond(at).ok());
    let downtime = assess::downtime(&facts.events, &facts.revisions, started);
    let Outcome { scenes, stops_job, halt, restore: _ } = outcome;
    let is_new = present.is_none();
    let class = match &difference {
        None => "CREATE",
        Some(difference) if difference.changes.is_empty() => "NONE",
        Some(difference) => difference.class().into_str(),
    };
    let changes = difference.map(|difference| fields(&difference)).unwrap_or_default();
    // Report a halt only if the plan does something; for an idle job it is no news.
    let is_waiting = !changes.is_empty() || is_new || !scenes.is_empty();
    Ok(Plan {
        kind: id.kind,
        namespace: id.namespace.unwrap_or_default(),
        name: id.name,
        is_new,
        class,
        changes,
        passes: scenes,
        halt: halt.filter(|_| is_waiting),
        restore,
        replay,
        stops_job,
        downtime: downtime.filter(|_| stops_job),
        warnings,
    })
}

/// Warns of quotas without room for both colours, if a template with this spec starts the other one.
pub(super) async fn warn_without_room(
    connection: &Connection,
    resource: &Deployment,
    wanted: &Value,
    printer: &Printer,
) {
    let spec = |value: &Value| FlinkDeploymentSpec::deserialize(value).ok();
    let last = resource.last_reconciled_spec().as_ref().and_then(spec);
    let Some((last, wanted)) = last.zip(spec(wanted)) else { return };
    let state = |spec: &FlinkDeploymentSpec| spec.job.as_ref().map(|job| job.state);
    // A change of the job's state is made in place.
    if state(&last) != state(&wanted) || diff(&last, &wanted).class() == ChangeClass::Ignore {
        return;
    }
    for shortage in room_for_two(connection, resource).await {
        printer.warning(shortage);
    }
}

/// Returns warnings about quotas without room for both colours; none if the user may not read quotas.
async fn room_for_two(connection: &Connection, present: &Deployment) -> Vec<String> {
    let (client, namespace) = (&connection.client, present.namespace());
    let scope = Scope::Namespace(namespace);
    let serving = async {
        let colours = lookup::colours(connection, present).await.ok()?;
        pods::list(client, namespace, colours.first()?.name(), None).await.ok()
    };
    let quotas = read::list::<ResourceQuota>(client, scope, None);
    let (quotas, serving) = tokio::join!(quotas, serving);
    quota::shortages(&quotas.unwrap_or_default(), &serving.unwrap_or_default())
}

/// Returns the object after server-side apply. If the user may not do a dry run, merges the manifest into the stored
/// object.
async fn applied(
    manifest: &Value,
    present: Option<&Deployment>,
    connection: &Connection,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Value> {
    let writer = apply::Writer { is_forced: true, ..change::writer(DryRunMode::Server) };
    match apply::apply(&connection.client, manifest, writer).await {
        Ok(object) => Ok(object),
        Err(error) if present.is_none() => {
            warnings.push(format!("the API server did not check the manifest: {error}"));
            Ok(manifest.clone())
        }
        Err(
            error @ (clients::cluster::Error::Forbidden { .. }
            | clients::cluster::Error::Unavailable { .. }),
        ) => {
            warnings.push(format!(
                "fields that are no longer in the manifest are assumed to stay: {error}"
            ));
            let mut object = present.map(|present| present.0.clone()).unwrap_or_default();
            json_patch::merge(&mut object["spec"], &manifest["spec"]);
            Ok(object)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sets status and metadata as they would be after the write: a changed spec has the next generation.
fn as_stored(mut wanted: Value, present: Option<&Deployment>) -> Value {
    let Some(present) = present else {
        wanted["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        wanted["metadata"]["generation"] = json!(1);
        return wanted;
    };
    let mut object = present.0.clone();
    let is_changed = object["spec"] != wanted["spec"];
    object["spec"] = wanted["spec"].take();
    object["metadata"]["generation"] = json!(present.generation() + i64::from(is_changed));
    object
}

/// Returns the difference between the running spec and the new one; `None` if nothing was ever deployed.
fn difference(wanted: &Value, present: Option<&Deployment>) -> anyhow::Result<Option<SpecDiff>> {
    let Some((present, mut last)) =
        present.and_then(|present| Some((present, present.last_reconciled_spec()?)))
    else {
        return Ok(None);
    };
    // The stored mode says how the job was started, not how it will be upgraded.
    if let (Some(mode), Some(stored)) =
        (present.0.pointer("/spec/job/upgradeMode"), last.pointer_mut("/job/upgradeMode"))
    {
        *stored = mode.clone();
    }
    if present.is_blue_green() {
        let last = FlinkDeploymentSpec::deserialize(&last).context("the stored spec")?;
        let template = &wanted["spec"]["template"]["spec"];
        return Ok(Some(diff(&last, &FlinkDeploymentSpec::deserialize(template)?)));
    }
    let is_session_job = wanted["kind"] == "FlinkSessionJob";
    Ok(Some(if is_session_job {
        let last = FlinkSessionJobSpec::deserialize(&last).context("the stored spec")?;
        diff_session_job(&last, &FlinkSessionJobSpec::deserialize(&wanted["spec"])?)
    } else {
        let last = FlinkDeploymentSpec::deserialize(&last).context("the stored spec")?;
        diff(&last, &FlinkDeploymentSpec::deserialize(&wanted["spec"])?)
    }))
}

fn fields(difference: &SpecDiff) -> Vec<Field> {
    difference
        .changes
        .iter()
        .map(|change| {
            let (from, to) = change.shown();
            Field { path: change.field.clone(), from, to, class: change.class.into_str() }
        })
        .collect()
}

/// Applies the autoscaler's decisions, as the operator does before it compares the spec.
async fn scaled(wanted: &Value, context: &Context) -> anyhow::Result<Value> {
    const UNKNOWN: &str = "could not read what the autoscaler decided";
    if wanted["kind"] == "FlinkBlueGreenDeployment" {
        return Ok(wanted.clone());
    }
    let spec = if wanted["kind"] == "FlinkSessionJob" {
        let job = FlinkSessionJob::deserialize(wanted)?;
        let scaled = rehearse::scaled_session_job(&job, context).await.context(UNKNOWN)?;
        (scaled.spec != job.spec).then(|| serde_json::to_value(&scaled.spec)).transpose()?
    } else {
        let deployment = FlinkDeployment::deserialize(wanted)?;
        let scaled = rehearse::scaled_deployment(&deployment, context).await.context(UNKNOWN)?;
        (scaled.spec != deployment.spec).then(|| serde_json::to_value(&scaled.spec)).transpose()?
    };
    let mut wanted = wanted.clone();
    if let Some(spec) = spec {
        wanted["spec"] = spec;
    }
    Ok(wanted)
}

async fn rehearsed(wanted: &Value, context: &Context) -> anyhow::Result<Outcome> {
    let outcome = if wanted["kind"] == "FlinkSessionJob" {
        let job = FlinkSessionJob::deserialize(wanted)?;
        Box::pin(rehearse::of_session_job(job, context)).await
    } else if wanted["kind"] == "FlinkBlueGreenDeployment" {
        let resource = FlinkBlueGreenDeployment::deserialize(wanted)?;
        Box::pin(rehearse::of_blue_green(resource, context)).await
    } else {
        let deployment = FlinkDeployment::deserialize(wanted)?;
        Box::pin(rehearse::of_deployment(deployment, context)).await
    };
    outcome.context("could not determine what the operator would do")
}

/// Describes the class of a plan.
fn class_text(plan: &Plan) -> &'static str {
    match plan.class {
        "CREATE" => "a new resource",
        "IGNORE" => "nothing that is running is touched",
        "SCALE" | "UPGRADE" if plan.switches() => {
            "the other colour starts, and takes over when it is ready"
        }
        "UPGRADE" if plan.stops_job && !plan.starts() => "the job is stopped",
        "UPGRADE" if plan.starts() && plan.restore.is_none() => {
            "the cluster and all its jobs are stopped and started again"
        }
        "UPGRADE" if !plan.stops_job && plan.restore.is_some() => "the job is started",
        "SCALE" => "the job is scaled",
        "UPGRADE" => "the job is stopped and started again",
        "SAVEPOINT_REDEPLOY" => {
            "the job's current state is dropped; it starts from initialSavepointPath"
        }
        _ => "nothing to do",
    }
}

/// Returns true if the class drops the state of a job.
fn drops_state(class: &str) -> bool {
    class == ChangeClass::SavepointRedeploy.into_str()
}
