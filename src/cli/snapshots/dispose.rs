//! `snapshots dispose`: deletes a snapshot together with its savepoint, if nothing refers to it.
//!
//! The operator disposes of the savepoint, and checks for references itself before it does. They are checked here
//! first, because a refused disposal would only lose the record of the savepoint.

use clap::Args;
use kube::Client;
use serde_json::{Value, json};

use super::inventory::{Inventory, inventories, of_resource};
use crate::cli::args::{DryRun, DryRunMode, Global};
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use crate::cli::{change, complete, edit};
use api::STATE_SNAPSHOT_FINALIZER;
use api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation};
use clients::cluster::read::Scope;

/// Arguments of `snapshots dispose`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink snapshots dispose orders-savepoint-manual-1767225600000")]
pub(super) struct DisposeArgs {
    /// The FlinkStateSnapshot
    #[arg(add = complete::snapshots())]
    snapshot: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    dry_run: DryRun,
}

/// Checks that nothing refers to the savepoint, asks, and deletes the resource.
pub(super) async fn run(
    args: DisposeArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let DisposeArgs { snapshot: name, yes, dry_run: DryRun { dry_run } } = args;
    let connection = global.connect().await?;
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let all = inventories(client, Scope::Namespace(namespace)).await?;
    let inventory = all.first();
    let of_name = |it: &&FlinkStateSnapshot| it.metadata.name.as_deref() == Some(&name);
    let found = inventory.and_then(|all| Some((all, all.snapshots.iter().find(of_name)?)));
    let Some((inventory, resource)) = found else {
        let message = format!("no FlinkStateSnapshot `{name}` in namespace `{namespace}`");
        return Err(Failure::new(message).hint("list them: kubectl flink snapshots").into());
    };
    let path = judge(inventory, resource)?;
    let doubt = format!("the savepoint at `{path}` is deleted with FlinkStateSnapshot `{name}`");
    if dry_run == DryRunMode::None && !yes {
        edit::agree(&doubt, "--yes", printer)?;
    } else {
        printer.note(&doubt);
    }
    delete(client, resource, true, dry_run).await?;
    printer.line(format_args!(
        "flinkstatesnapshot.flink.apache.org/{name} deleted{}",
        dry_run.suffix()
    ))?;
    Ok(())
}

/// Deletes the resource in the evaluated version; `with_savepoint` first marks its savepoint for disposal.
pub(super) async fn delete(
    client: &Client,
    resource: &FlinkStateSnapshot,
    with_savepoint: bool,
    dry_run: DryRunMode,
) -> anyhow::Result<()> {
    let name = resource.metadata.name.as_deref().unwrap_or_default();
    let namespace = resource.metadata.namespace.as_deref().unwrap_or_default();
    let id = ObjectId::of::<FlinkStateSnapshot>(namespace, name);
    let savepoint = resource.spec.savepoint.as_ref().filter(|_| with_savepoint);
    let mut version = resource.metadata.resource_version.clone();
    let mut is_marked = false;
    if savepoint.is_some_and(|it| it.dispose_on_delete == Some(false)) {
        // Change only the evaluated version: a snapshot that has changed since causes a conflict.
        let change = json!({"metadata": {"resourceVersion": version},
            "spec": {"savepoint": {"disposeOnDelete": true}}});
        if dry_run != DryRunMode::Client {
            let writer = change::writer(dry_run);
            let written = apply::merge_patch(client, &id, &change, writer).await?;
            if dry_run == DryRunMode::None {
                let stored = written.pointer("/metadata/resourceVersion");
                version = stored.and_then(Value::as_str).map(str::to_owned);
                is_marked = true;
            }
        }
    }
    if dry_run != DryRunMode::Client {
        let deletion = Deletion {
            uid: resource.metadata.uid.as_deref(),
            resource_version: version.as_deref(),
            is_dry_run: dry_run == DryRunMode::Server,
            ..Deletion::with(Propagation::Background)
        };
        if let Err(error) = apply::delete(client, &id, deletion).await {
            if is_marked {
                let back = json!({"spec": {"savepoint": {"disposeOnDelete": false}}});
                apply::merge_patch(client, &id, &back, change::writer(dry_run)).await.map_err(|_| {
                    Failure::new(format!(
                        "FlinkStateSnapshot `{name}` was not deleted ({error}), but deleting it now also \
                         deletes its savepoint"
                    ))
                    .hint(format!(
                        "to keep the savepoint: kubectl patch flinkstatesnapshot {name} --type merge -p \
                         '{{\"spec\":{{\"savepoint\":{{\"disposeOnDelete\":false}}}}}}'"
                    ))
                })?;
            }
            return Err(error.into());
        }
    }
    Ok(())
}

/// Returns the path of a savepoint that may be deleted, or why it may not.
fn judge(inventory: &Inventory, resource: &FlinkStateSnapshot) -> Result<String, Failure> {
    let name = resource.metadata.name.as_deref().unwrap_or_default();
    let refused = |why: String| {
        Failure::new(format!("FlinkStateSnapshot `{name}` is not disposed of: {why}"))
    };
    if resource.spec.savepoint.is_none() {
        return Err(refused("it is a checkpoint, which only Flink deletes".to_owned()));
    }
    let status = resource.status.clone().unwrap_or_default();
    let path = status.path.filter(|path| !path.is_empty());
    let (SnapshotState::Completed, Some(path)) = (status.state, path) else {
        return Err(refused(format!(
            "it is {} and has no savepoint on record",
            status.state.into_str()
        ))
        .hint(format!("delete the record: kubectl delete flinkstatesnapshot {name}")));
    };
    let finalizers = resource.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == STATE_SNAPSHOT_FINALIZER) {
        return Err(refused("no operator manages it, so its savepoint would stay".to_owned())
            .hint("start an operator: kubectl flink operate"));
    }
    let revisions = inventory
        .revisions
        .as_ref()
        .map_err(|reason| refused(format!("references to its savepoint are unknown: {reason}")))?;
    let referrers = inventory.referrers(revisions);
    match of_resource(resource, Some(&referrers)).referred_to_by.as_deref() {
        Some([]) => Ok(path),
        Some(all) => Err(refused(format!("its savepoint may be needed by {}", all.join(", ")))),
        None => Err(refused("references to its savepoint are unknown".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(metadata: Value, spec: Value, status: Value) -> FlinkStateSnapshot {
        serde_json::from_value(json!({"apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkStateSnapshot", "metadata": metadata, "spec": spec, "status": status}))
        .unwrap()
    }

    fn judged(resource: &FlinkStateSnapshot, deployments: Vec<Value>) -> Result<String, String> {
        let deployments = deployments.into_iter().map(|it| serde_json::from_value(it).unwrap());
        let inventory = Inventory {
            namespace: "n".to_owned(),
            snapshots: vec![resource.clone()],
            deployments: deployments.collect(),
            session_jobs: Vec::new(),
            revisions: Ok(Vec::new()),
        };
        judge(&inventory, resource).map_err(|failure| failure.to_string())
    }

    #[test]
    fn only_a_savepoint_that_nothing_refers_to_is_disposed_of() {
        let metadata = json!({"name": "x", "uid": "u", "finalizers": [STATE_SNAPSHOT_FINALIZER]});
        let savepoint = json!({"savepoint": {}});
        let done = json!({"state": "COMPLETED", "path": "s3://b/1"});
        let good = resource(metadata.clone(), savepoint.clone(), done.clone());
        assert_eq!(judged(&good, vec![]).unwrap(), "s3://b/1");
        let user = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "n"},
            "spec": {"job": {"initialSavepointPath": "s3://b/1/"}}});
        assert!(
            judged(&good, vec![user])
                .unwrap_err()
                .contains("may be needed by FlinkDeployment `orders`")
        );
        let nobodys = resource(json!({"name": "x"}), savepoint.clone(), done.clone());
        assert!(judged(&nobodys, vec![]).unwrap_err().contains("no operator manages it"));
        let checkpoint = resource(metadata.clone(), json!({"checkpoint": {}}), done);
        assert!(judged(&checkpoint, vec![]).unwrap_err().contains("only Flink deletes"));
        let failed = resource(metadata, savepoint, json!({"state": "FAILED"}));
        assert!(judged(&failed, vec![]).unwrap_err().contains("no savepoint on record"));
    }
}
