//! `promote` and `abort`: a person's decisions about the switch of a blue/green deployment.
//!
//! Each is an annotation with the id of the observed switch, so that it applies to no later one.

use clap::Args;
use serde_json::json;

use super::args::{DryRun, DryRunMode, Global, ObjectFormat, Output, Yes};
use super::deployment::Deployment;
use super::failure::Failure;
use super::lookup;
use super::printer::Printer;
use super::{change, complete, equivalent};
use api::blue_green::{
    ABORT_ANNOTATION, Colour, FlinkBlueGreenDeployment, GIVEN_UP, PROGRESSING, PROMOTE_ANNOTATION,
    RETRY_ANNOTATION,
};
use clients::cluster::apply::{self, ObjectId};
use clients::cluster::read;

/// Which resource, and how the answer is told.
#[derive(Args)]
struct Target {
    /// The FlinkBlueGreenDeployment, also as bluegreen/NAME
    #[arg(add = complete::blue_green_deployments())]
    name: String,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// Arguments of `promote`.
#[derive(Args)]
#[command(after_help = "\
The other colour takes over as soon as it is ready, without waiting for
kubernetes.operator.bluegreen.deployment-deletion.delay. It never takes over before it is ready.

Examples:
  kubectl flink promote orders
  kubectl flink promote orders --retry")]
pub struct PromoteArgs {
    #[command(flatten)]
    target: Target,
    /// Retry the aborted spec
    #[arg(long)]
    retry: bool,
}

/// Arguments of `abort`.
#[derive(Args)]
#[command(after_help = "\
The serving colour continues unchanged, and the other one is deleted. The aborted spec is not tried
again until it is changed, or until you run: kubectl flink promote NAME --retry

Examples:
  kubectl flink abort orders")]
pub struct AbortArgs {
    #[command(flatten)]
    target: Target,
}

/// A requested decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verb {
    Promote,
    Retry,
    Abort,
}

/// Ends the deletion delay, or retries an abandoned switch.
pub async fn promote(args: PromoteArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let PromoteArgs { target, retry } = args;
    run(target, if retry { Verb::Retry } else { Verb::Promote }, global, printer).await
}

/// Abandons the current switch.
pub async fn abort(args: AbortArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    run(args.target, Verb::Abort, global, printer).await
}

async fn run(target: Target, verb: Verb, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let Target { name, dry_run: DryRun { dry_run }, yes: _, output: Output { output } } = target;
    let name = lookup::plain(&name).to_owned();
    let connection = global.connect().await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let present = lookup::fetch_blue_green(&connection, &name).await?;
    let id = ObjectId::of::<FlinkBlueGreenDeployment>(namespace, &name);
    let resource: FlinkBlueGreenDeployment = serde_json::from_value(present.0.clone())?;
    let child = match started(&resource) {
        Some(colour) => {
            let child = lookup::id(&connection, &colour.child_of(&name));
            read::get_value(client, &child).await?.map(Deployment)
        }
        None => None,
    };
    let uid = child.as_ref().and_then(Deployment::uid);
    let (annotation, value, verb) = decide(&resource, uid, verb)?;
    let patch = json!({"metadata": {"annotations": {annotation: value}}});
    if dry_run != DryRunMode::None {
        printer.note(equivalent::merge_patch(&id, &patch));
    }
    let written = if dry_run == DryRunMode::Client {
        present.0
    } else {
        apply::merge_patch(client, &id, &patch, change::writer(dry_run)).await?
    };
    change::report(&written, verb, dry_run, output, printer)
}

/// Returns the colour that is being started to replace the serving one.
fn started(resource: &FlinkBlueGreenDeployment) -> Option<Colour> {
    let state = resource.status.as_ref()?.blue_green_state?;
    Colour::ALL.into_iter().find(|colour| colour.transitioning_to() == state)
}

/// Returns the annotation, its value, and the word for what was done. `uid` is that of the starting colour.
///
/// # Errors
/// If no switch is in a state to which the decision applies.
fn decide(
    resource: &FlinkBlueGreenDeployment,
    uid: Option<&str>,
    verb: Verb,
) -> Result<(&'static str, String, &'static str), Failure> {
    let name = resource.metadata.name.as_deref().unwrap_or_default();
    let status = resource.status.clone().unwrap_or_default();
    let progress = status.conditions.iter().find(|it| it.type_.as_deref() == Some(PROGRESSING));
    let told = progress.and_then(|it| it.message.clone());
    let refuse = |what: &str| {
        let failure = Failure::new(format!("`{name}` was not changed: {what}"));
        match &told {
            Some(told) => failure.hint(format!("the operator says: {told}")),
            None => failure,
        }
    };
    if verb == Verb::Retry {
        let given_up = progress.filter(|it| {
            GIVEN_UP.contains(&it.reason.as_deref().unwrap_or_default())
                && it.observed_generation == resource.metadata.generation
        });
        let since = given_up.and_then(|it| it.last_transition_time.clone());
        let since =
            since.ok_or_else(|| refuse("its current spec was neither aborted nor rolled back"))?;
        return Ok((RETRY_ANNOTATION, since, "retried"));
    }
    if let (Some(colour), Some(uid)) = (started(resource), uid) {
        let child = colour.child_of(name);
        return match verb {
            Verb::Abort if status.is_decided() => {
                Err(refuse(&format!("`{child}` has already taken over")))
            }
            Verb::Abort => Ok((ABORT_ANNOTATION, uid.to_owned(), "aborted")),
            Verb::Promote | Verb::Retry => Ok((PROMOTE_ANNOTATION, uid.to_owned(), "promoted")),
        };
    }
    match (verb, status.savepoint_trigger_id) {
        (Verb::Abort, Some(trigger_id)) => Ok((ABORT_ANNOTATION, trigger_id, "aborted")),
        (Verb::Promote, Some(_)) => {
            Err(refuse("the other colour does not start before the savepoint is complete"))
        }
        (Verb::Abort | Verb::Promote | Verb::Retry, _) => {
            Err(refuse("no switch to the other colour is in progress"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(status: serde_json::Value) -> FlinkBlueGreenDeployment {
        let object = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
            "metadata": {"name": "orders", "generation": 1}, "spec": {}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn decided(status: serde_json::Value, verb: Verb) -> Result<(&'static str, String), String> {
        let resource = resource(status);
        let uid = started(&resource).map(|_| "u1");
        match decide(&resource, uid, verb) {
            Ok((annotation, value, _)) => Ok((annotation, value)),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn each_names_the_switch_that_is_under_way() {
        let starting = json!({"blueGreenState": "TRANSITIONING_TO_GREEN", "abortTimestamp": "2026-01-01T00:00:00Z"});
        let saving = json!({"blueGreenState": "SAVEPOINTING_BLUE", "savepointTriggerId": "t1"});
        let promote = (PROMOTE_ANNOTATION, "u1".to_owned());
        assert_eq!(decided(starting.clone(), Verb::Promote), Ok(promote));
        assert_eq!(decided(starting, Verb::Abort), Ok((ABORT_ANNOTATION, "u1".to_owned())));
        assert_eq!(decided(saving.clone(), Verb::Abort), Ok((ABORT_ANNOTATION, "t1".to_owned())));
        let why = decided(saving, Verb::Promote).unwrap_err();
        assert!(why.contains("before the savepoint is complete"), "{why}");
    }

    #[test]
    fn what_has_taken_over_is_not_given_up() {
        let status = json!({"blueGreenState": "TRANSITIONING_TO_GREEN",
            "deploymentReadyTimestamp": "2026-01-01T00:00:00Z"});
        let why = decided(status, Verb::Abort).unwrap_err();
        assert!(why.contains("`orders-green` has already taken over"), "{why}");
    }

    #[test]
    fn only_what_was_given_up_is_tried_again() {
        let condition = |reason| {
            json!({"blueGreenState": "ACTIVE_BLUE", "conditions": [{"type": "Progressing", "status": "False",
                "reason": reason, "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
        };
        let retry = (RETRY_ANNOTATION, "2026-01-01T00:00:00Z".to_owned());
        assert_eq!(decided(condition("Aborted"), Verb::Retry), Ok(retry));
        let why = decided(condition("ValidationError"), Verb::Retry).unwrap_err();
        assert!(why.contains("was neither aborted nor rolled back"), "{why}");
        assert!(decided(json!({}), Verb::Abort).unwrap_err().contains("no switch"));
    }
}
