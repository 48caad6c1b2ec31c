//! `delete --explain`: what blocks the deletion of a resource, and how to resolve it. Changes nothing.
//!
//! The step is the operator's own decision, made here from the same facts. [`explain`] adds what the operator cannot
//! know: who owns the finalizers, whether anyone acts on them, and the state of the namespace.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::cli::args::{Global, Output};
use crate::cli::connection::Connection;
use crate::cli::printer::{Printer, ValueFormat};
use crate::cli::{lookup, operator_config, table};
use api::{DEPLOYMENT_FINALIZER, GROUP, SESSION_JOB_FINALIZER, STATE_SNAPSHOT_FINALIZER};
use clients::cluster;
use clients::cluster::access::{Operation, may};
use clients::cluster::namespaces::{Termination, termination};
use clients::flink::access::{Access, Connector, Options};
use lifecycle::blocker::Deadline;
use operator::context::Context;
use operator::pass;
use operator::preview::{self, Preview};

/// An operator starts a deletion within moments; after this long the user is warned that it has not.
const OPERATOR_PATIENCE: Duration = Duration::from_secs(30);
const BLUE_GREEN_FINALIZER: &str = "flinkbluegreendeployments.flink.apache.org/finalizer";

/// Operations of the operator while it deletes a deployment, session job or snapshot.
const OPERATIONS: [Operation; 9] = [
    operation("patch", GROUP, "flinkdeployments", None),
    operation("update", GROUP, "flinkdeployments", Some("status")),
    operation("patch", GROUP, "flinksessionjobs", None),
    operation("list", GROUP, "flinksessionjobs", None),
    operation("patch", GROUP, "flinkstatesnapshots", None),
    operation("delete", "apps", "deployments", None),
    operation("list", "", "pods", None),
    operation("list", "", "configmaps", None),
    operation("delete", "", "configmaps", None),
];

const fn operation(
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: Option<&'static str>,
) -> Operation {
    Operation { verb, group, resource, subresource }
}

/// Something that blocks the deletion.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Blocker {
    /// A stable identifier.
    reason: String,
    message: String,
    deadline: Option<Deadline>,
    remedy: Option<String>,
}

impl Blocker {
    fn new(reason: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
            deadline: None,
            remedy: Some(remedy.into()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finalizer {
    name: String,
    owner: &'static str,
    /// Whether it belongs to the Flink operator.
    is_operators: bool,
}

/// The explanation as printed; with `-o json` a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    kind: String,
    namespace: String,
    name: String,
    /// `None` if the deletion has not been requested yet.
    deletion_requested: Option<Timestamp>,
    is_namespace_terminating: bool,
    finalizers: Vec<Finalizer>,
    /// Whether an operator has started the deletion; `None` if that leaves no sign.
    is_taken_up: Option<bool>,
    /// The current step of the deletion, or the first one if it has not begun.
    step: Option<String>,
    /// Next steps of the operator.
    next: Vec<String>,
    blockers: Vec<Blocker>,
}

/// Everything that an explanation is based on.
struct Seen {
    resource: Value,
    /// The operator's next pass; an error if it cannot be determined from here.
    preview: Result<Option<Preview>, String>,
    termination: Option<Termination>,
    /// Operations denied to the account that was asked about.
    denied: Option<Denied>,
    now: Timestamp,
}

struct Denied {
    account: String,
    operations: Vec<String>,
}

/// Reads the facts, explains and prints.
pub(super) async fn run(
    name: &str,
    (access, operator_config): (Access, Option<&Path>),
    global: &Global,
    Output { output }: Output<ValueFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    // Read as the user, and review the rights of the account that `--as` names.
    let own = Global { impersonate: None, impersonate_groups: Vec::new(), ..global.clone() };
    let (connection, asked_about) = (own.connect().await?, global.connect().await?);
    let resource = lookup::fetch_of_any_kind(&connection, name).await?.0;
    let operator = operator_config::load(operator_config, printer)?;
    let options = Options::from_environment(access, connection.rest_address.clone());
    let connector = Connector::new(&options, connection.config.as_ref())
        .context("while preparing connections to JobManagers")?;
    let context = Context::new(connection.client.clone(), operator, connector, true);
    let namespace = connection.namespace.as_str();
    let (preview, termination, denied) = tokio::join!(
        foresee(&resource, &context),
        termination(&connection.client, namespace),
        denied(&asked_about, global.impersonate.as_deref()),
    );
    let seen = Seen {
        resource,
        preview,
        termination: termination?,
        denied: denied?,
        now: Timestamp::now(),
    };
    let explanation = explain(&seen);
    match output {
        Some(format) => printer.value(&explanation, format),
        None => Ok(printer.line(shown(&explanation, seen.now))?),
    }
}

/// Previews the operator's next pass; `None` for a kind that the operator does not manage.
async fn foresee(resource: &Value, context: &Context) -> Result<Option<Preview>, String> {
    let kind = resource.get("kind").and_then(Value::as_str).unwrap_or_default();
    let unreadable = |error: serde_json::Error| {
        format!("the resource cannot be parsed, and an operator leaves it alone: {error}")
    };
    let preview = match kind {
        "FlinkDeployment" => {
            let resource = serde_json::from_value(resource.clone()).map_err(unreadable)?;
            Box::pin(preview::of_deployment_deletion(resource, context)).await
        }
        "FlinkSessionJob" => {
            let resource = serde_json::from_value(resource.clone()).map_err(unreadable)?;
            Box::pin(preview::of_session_job_deletion(resource, context)).await
        }
        "FlinkStateSnapshot" => {
            let resource = serde_json::from_value(resource.clone()).map_err(unreadable)?;
            Box::pin(preview::of_snapshot_deletion(resource, context)).await
        }
        _ => return Ok(None),
    };
    preview.map(Some).map_err(|error| describe(&error))
}

fn describe(error: &pass::Error) -> String {
    let chain =
        std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Lists what the impersonated account may not do; `None` without impersonation, as the user's own rights say nothing
/// about the operator.
async fn denied(
    connection: &Connection,
    account: Option<&str>,
) -> Result<Option<Denied>, cluster::Error> {
    let Some(account) = account else { return Ok(None) };
    let asked =
        OPERATIONS.map(|operation| may(&connection.client, &connection.namespace, operation));
    let answers = futures::future::try_join_all(asked).await?;
    let operations = OPERATIONS.iter().zip(answers).filter(|(_, is_allowed)| !is_allowed);
    let operations = operations.map(|(operation, _)| operation.shown()).collect();
    Ok(Some(Denied { account: account.to_owned(), operations }))
}

/// Builds the explanation from the facts. Pure.
fn explain(seen: &Seen) -> Explanation {
    let text = |path: &str| {
        seen.resource.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let deletion_requested: Option<Timestamp> = text("/metadata/deletionTimestamp").parse().ok();
    let finalizers = finalizers(&seen.resource);
    let is_held = finalizers.iter().any(|finalizer| finalizer.is_operators);
    let lifecycle = text("/status/lifecycleState");
    let leaves_sign = matches!(text("/kind").as_str(), "FlinkDeployment" | "FlinkSessionJob");
    let is_taken_up = (leaves_sign && deletion_requested.is_some() && is_held)
        .then_some(matches!(lifecycle.as_str(), "DELETING" | "DELETED"));
    let preview = seen.preview.as_ref().ok().and_then(Option::as_ref);
    // Without its finalizer the operator does not affect the deletion.
    let preview = preview.filter(|_| is_held || deletion_requested.is_none());
    let mut explanation = Explanation {
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        deletion_requested,
        is_namespace_terminating: seen.termination.is_some(),
        finalizers,
        is_taken_up,
        step: preview.map(|preview| preview.because.clone()),
        next: preview.iter().flat_map(|p| &p.steps).map(|step| (*step).to_owned()).collect(),
        blockers: Vec::new(),
    };
    explanation.blockers = blockers(seen, &explanation, preview);
    explanation
}

fn blockers(seen: &Seen, known: &Explanation, preview: Option<&Preview>) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if let Some(blocker) = preview.and_then(|preview| preview.blocker.as_ref()) {
        blockers.push(Blocker {
            reason: format!("{:?}", blocker.reason),
            message: blocker.message.clone(),
            deadline: blocker.deadline.clone(),
            remedy: blocker.remedy.clone(),
        });
    }
    blockers.extend(unread(seen, known));
    blockers.extend(silent_operator(seen, known, preview));
    for finalizer in known.finalizers.iter().filter(|finalizer| !finalizer.is_operators) {
        let message = format!("finalizer `{}` of {}", finalizer.name, finalizer.owner);
        let remedy = if finalizer.name == "foregroundDeletion" {
            "look at the objects that the resource owns"
        } else {
            "only its owner knows its purpose: make sure that the owner is running; removing the finalizer \
             by hand skips its cleanup"
        };
        blockers.push(Blocker::new("ForeignFinalizer", message, remedy));
    }
    if let Some(denied) = seen.denied.as_ref().filter(|denied| !denied.operations.is_empty()) {
        let message =
            format!("`{}` is not allowed to {}", denied.account, denied.operations.join(", "));
        let remedy = "grant the account these permissions; in a terminating namespace its Role and \
             RoleBinding may already be gone: grant them with a ClusterRoleBinding";
        blockers.push(Blocker::new("Forbidden", message, remedy));
    }
    if let Some(termination) = &seen.termination
        && !known.finalizers.is_empty()
    {
        let mut message =
            "the namespace is terminating, which deletes the operator's permissions and the \
             cluster's objects in any order"
                .to_owned();
        for told in &termination.messages {
            message.push_str("; ");
            message.push_str(told);
        }
        let remedy = "run an operator that has its permissions from a ClusterRoleBinding; it creates \
             nothing in such a namespace and needs nothing from it";
        blockers.push(Blocker::new("NamespaceTerminating", message, remedy));
    }
    blockers
}

/// Returns a blocker if the next step could not be determined and so may be anything.
fn unread(seen: &Seen, known: &Explanation) -> Option<Blocker> {
    match &seen.preview {
        Ok(Some(_)) => None,
        Ok(None) => Some(Blocker::new(
            "NotOperated",
            format!("this version does not operate {}", known.kind),
            "another operator must remove its finalizer",
        )),
        Err(reason) => Some(Blocker::new(
            "Unreadable",
            format!("could not determine the next step: {reason}"),
            "use an account that can read what the operator reads",
        )),
    }
}

/// Returns a blocker if no operator acts although nothing prevents it.
fn silent_operator(seen: &Seen, known: &Explanation, preview: Option<&Preview>) -> Option<Blocker> {
    let waited = seen.now.duration_since(known.deletion_requested?);
    let is_late = waited > jiff::SignedDuration::try_from(OPERATOR_PATIENCE).unwrap_or_default();
    let is_held = known.finalizers.iter().any(|finalizer| finalizer.is_operators);
    if !is_late || !is_held {
        return None;
    }
    let remedy = "check that an operator is running, that it watches this namespace and these labels, and \
         what it is allowed to do: --explain --as system:serviceaccount:NAMESPACE:ACCOUNT; or run one: \
         kubectl flink operate";
    let waits = preview.is_none_or(|preview| preview.blocker.is_some());
    let message = match known.is_taken_up {
        Some(false) => "no operator has picked up the deletion",
        Some(true) | None if waits => return None,
        Some(true) => "an operator has started, but does not continue although nothing blocks it",
        None => "no operator acts although nothing blocks it",
    };
    Some(Blocker::new("OperatorSilent", message, remedy))
}

fn finalizers(resource: &Value) -> Vec<Finalizer> {
    let names = resource.pointer("/metadata/finalizers").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| {
            let is_operators = [
                DEPLOYMENT_FINALIZER,
                SESSION_JOB_FINALIZER,
                STATE_SNAPSHOT_FINALIZER,
                BLUE_GREEN_FINALIZER,
            ]
            .contains(&name);
            let owner = match name {
                _ if is_operators => "the Flink operator, which cleans up first",
                "foregroundDeletion" => "Kubernetes, which deletes what it owns first",
                "orphan" => "Kubernetes, which orphans what it owns first",
                _ => "an unknown owner",
            };
            Finalizer { name: name.to_owned(), owner, is_operators }
        })
        .collect()
}

/// Formats the explanation for people.
fn shown(explanation: &Explanation, now: Timestamp) -> String {
    let Explanation {
        kind,
        namespace,
        name,
        deletion_requested,
        is_namespace_terminating: _,
        finalizers,
        is_taken_up,
        step,
        next,
        blockers,
    } = explanation;
    let ago = |at: Timestamp| table::age(now.duration_since(at).as_secs());
    let mut lines = vec![format!("{kind} `{name}` in namespace `{namespace}`")];
    let mut line = |name: &str, text: &str| lines.push(format!("  {name:<12}{text}"));
    match deletion_requested {
        Some(at) => line("Deletion:", &format!("requested {} ago", ago(*at))),
        None => line("Deletion:", "not requested; this is how it would start"),
    }
    for finalizer in finalizers {
        line("Finalizer:", &format!("{} ({})", finalizer.name, finalizer.owner));
    }
    if finalizers.is_empty() {
        line("Finalizer:", "none: nothing delays it");
    }
    match is_taken_up {
        Some(true) => line("Operator:", "has picked up the deletion"),
        Some(false) => line("Operator:", "has not picked up the deletion"),
        None => {}
    }
    if let Some(step) = step {
        line("Step:", step);
    }
    if !next.is_empty() {
        line("Next:", &next.join(", "));
    }
    if blockers.is_empty() {
        lines.push("Nothing blocks the deletion.".to_owned());
    }
    for Blocker { reason, message, deadline, remedy } in blockers {
        lines.push(format!("{reason}: {message}"));
        match deadline {
            Some(Deadline { at, then }) => {
                let left = now.until(*at).map_or(0, |left| left.get_seconds());
                let left = if left > 0 { format!("in {}", table::age(left)) } else { "now".into() };
                lines.push(format!("  deadline: {left}: {then}"));
            }
            None => lines.push("  deadline: none".to_owned()),
        }
        if let Some(remedy) = remedy {
            lines.push(format!("  remedy: {remedy}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
