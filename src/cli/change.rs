//! Common parts of commands that write one object: reporting the result and waiting for it.

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::args::{ChangeFlags, DryRun, DryRunMode, ObjectFormat, Output};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use super::wait::{self, Goal};
use api::NO_PREFLIGHT_ANNOTATION;
use clients::cluster::apply::{self, ObjectId, Writer};
use sandbox::archive::hex;

/// Returns the writer for a change that a person makes.
pub fn writer(dry_run: DryRunMode) -> Writer<'static> {
    Writer { is_dry_run: dry_run == DryRunMode::Server, ..Writer::CLI }
}

/// An object as a person saw it before a change of it.
#[derive(Clone, Debug)]
pub struct Expected {
    pub id: ObjectId,
    /// See [`version`].
    pub version: String,
}

impl Expected {
    /// Refuses the change if somebody has changed the object since.
    pub fn check(&self, present: Option<&Value>) -> anyhow::Result<()> {
        if present.is_some_and(|present| version(present) == self.version) {
            return Ok(());
        }
        let message = format!(
            "nothing was changed: `{}` has been changed since its spec was shown",
            self.id.name
        );
        Err(Failure::new(message).hint("look at it again, and repeat the change").into())
    }
}

/// Returns a text that differs if anything differs that a person edits. `resourceVersion` would also differ after each
/// status of a running job.
pub fn version(object: &Value) -> String {
    let metadata = &object["metadata"];
    let edited = json!([metadata["uid"], metadata["labels"], object["spec"]]);
    hex(&Sha256::digest(edited.to_string()))
}

/// Reports what was written and, if requested, waits until the operator has carried it out.
pub async fn finish(
    connection: &Connection,
    written: Value,
    verb: &str,
    flags: ChangeFlags,
    printer: &Printer,
) -> anyhow::Result<()> {
    let ChangeFlags { wait, dry_run, yes: _, output: Output { output }, untried } = flags;
    let DryRun { dry_run } = dry_run;
    report(&written, verb, dry_run, output, printer)?;
    if untried && dry_run == DryRunMode::None {
        leave_untried(connection, &written, printer).await?;
    }
    let deployment = Deployment(written);
    if deployment.paused().is_some() {
        let name = deployment.shown_name();
        printer.warning(format_args!(
            "`{name}` is paused: nothing is done about it until `kubectl flink unpause {name}`"
        ));
    }
    if !wait.wait || dry_run != DryRunMode::None {
        return Ok(());
    }
    let id = deployment.id();
    let connection =
        Connection { namespace: deployment.namespace().to_owned(), ..connection.clone() };
    let goal = Goal::Reconciled { written: Box::new(deployment) };
    wait::until(&connection, &id, &goal, wait.timeout, printer).await
}

/// Annotates the object so that the operator carries out the written generation without preflight.
async fn leave_untried(
    connection: &Connection,
    written: &Value,
    printer: &Printer,
) -> anyhow::Result<()> {
    let id = ObjectId::in_manifest(written)?;
    let Some(generation) = written.pointer("/metadata/generation").and_then(Value::as_i64) else {
        return Ok(());
    };
    if id.kind != "FlinkDeployment" {
        printer.note(format_args!(
            "`--no-preflight` has no effect on {}: preflight only tries FlinkDeployments",
            qualified_name(written)
        ));
        return Ok(());
    }
    let annotations = json!({NO_PREFLIGHT_ANNOTATION: generation.to_string()});
    let patch = json!({"metadata": {"annotations": annotations}});
    let _metadata = apply::amend(&connection.client, &id, &patch, Writer::CLI).await?;
    Ok(())
}

/// Reports a write as kubectl does, as in `flinkdeployment.flink.apache.org/x suspended`, or prints the object in the
/// format of `-o`.
pub fn report(
    object: &Value,
    verb: &str,
    dry_run: DryRunMode,
    output: Option<ObjectFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let name = qualified_name(object);
    match output {
        None | Some(ObjectFormat::Wide) => {
            printer.line(format_args!("{name} {verb}{}", dry_run.suffix()))?;
        }
        Some(ObjectFormat::Name) => printer.line(name)?,
        Some(ObjectFormat::Value(format)) => {
            printer.value(&without_managed_fields(object.clone()), format)?;
        }
    }
    Ok(())
}

/// Prints the objects as documents, as a `List`, or by the names that `name` returns.
pub fn print_all<T: Serialize>(
    objects: &[T],
    format: ObjectFormat,
    name: impl Fn(&T) -> String,
    printer: &Printer,
) -> anyhow::Result<()> {
    match format {
        ObjectFormat::Value(ValueFormat::Json) => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            printer.value(&list, ValueFormat::Json)
        }
        ObjectFormat::Value(ValueFormat::Yaml) => objects.iter().try_for_each(|object| {
            printer.line("---")?;
            printer.value(object, ValueFormat::Yaml)
        }),
        ObjectFormat::Wide | ObjectFormat::Name => {
            objects.iter().try_for_each(|object| Ok(printer.line(name(object))?))
        }
    }
}

/// Returns `kind.group/name`, as `-o name` prints it.
pub fn qualified_name(object: &Value) -> String {
    let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_lowercase();
    let name = text("/metadata/name");
    match text("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Removes field ownership, which is noise to a reader; kubectl hides it too.
pub fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}
