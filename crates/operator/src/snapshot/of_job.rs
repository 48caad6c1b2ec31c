//! The facts about a job's snapshots that decisions about the job need.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::Value;

use super::references::Referring;
use super::{checkpoint, index, savepoint};
use crate::context::Context;
use crate::job::Asked;
use crate::observe::show;
use crate::record::history_of;
use api::TRIGGER_NONCE_ANNOTATION;
use api::blue_green::{Colour, parent_of};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::JobStatus;
use clients::cluster;
use clients::cluster::revisions::History;
use lifecycle::legacy;
use lifecycle::resource::JobResource;
use lifecycle::snapshot::labels::trigger_type;
use lifecycle::trigger::known::{Asker, KnownSnapshot, SnapshotKind, notices_of};
use lifecycle::world::Trigger;

/// Returns the snapshots of a job, from the watch: one that it has not shown yet leads to a savepoint too many, never
/// too few. Those of one colour are those of both.
pub(crate) fn snapshots<K: JobResource>(
    job: &K,
    context: &Context,
) -> Result<Vec<KnownSnapshot>, String> {
    let namespace = job.namespace().unwrap_or_default();
    if !context.snapshots.is_listed_in(&namespace) {
        return Err("the snapshots have not been listed yet".to_owned());
    }
    let names = match parent_of(job.meta()) {
        Some(parent) => Colour::ALL.map(|colour| colour.child_of(&parent.name)).to_vec(),
        None => vec![job.name_any()],
    };
    let of_job = names.iter().flat_map(|name| index::of_job(context, &namespace, K::JOB, name));
    let of_job: Vec<_> = of_job.collect();
    Ok(of_job.iter().filter_map(|snapshot| known(snapshot.0.as_ref().ok()?)).collect())
}

/// Returns a snapshot as a fact.
fn known(snapshot: &FlinkStateSnapshot) -> Option<KnownSnapshot> {
    let (metadata, spec) = (&snapshot.metadata, &snapshot.spec);
    let status = snapshot.status.clone().unwrap_or_default();
    let annotations = metadata.annotations.as_ref();
    let nonce = annotations.and_then(|annotations| annotations.get(TRIGGER_NONCE_ANNOTATION));
    Some(KnownSnapshot {
        name: snapshot.name_any(),
        uid: snapshot.uid()?,
        version: snapshot.resource_version()?,
        kind: SnapshotKind::of(snapshot),
        trigger_type: trigger_type(snapshot),
        state: status.state,
        created: metadata.creation_timestamp.as_ref()?.0,
        path: status.path,
        nonce: nonce.and_then(|text| text.parse().ok()),
        asked_by: Asker::of(snapshot),
        notices: notices_of(snapshot),
        is_disposed_of: spec
            .savepoint
            .as_ref()
            .is_some_and(|savepoint| savepoint.dispose_on_delete != Some(false)),
        is_deleting: metadata.deletion_timestamp.is_some(),
    })
}

/// Returns the state of a snapshot that the job's status tracks.
pub(crate) async fn trigger(asked: &Asked<'_>, kind: SnapshotKind) -> Result<Trigger, String> {
    let job_id = asked.status.job_id.as_deref().ok_or("the status names no job id")?;
    let pending = legacy::noted(asked.status, kind).ok_or("no trigger is recorded")?;
    let client = asked.flink.as_ref().map_err(Clone::clone)?.clone().without_retries();
    let answer = match kind {
        SnapshotKind::Savepoint => savepoint(&client, job_id, &pending.trigger_id).await,
        SnapshotKind::Checkpoint => checkpoint(&client, job_id, &pending.trigger_id).await,
    };
    answer.map_err(|error| show(&error))
}

/// Returns the paths that revisions of the job refer to.
pub(crate) async fn revisions<K: JobResource>(
    job: &K,
    context: &Context,
) -> cluster::Result<Vec<String>> {
    let History { namespace, name, .. } = history_of(job);
    let revisions = cluster::revisions::list(&context.client, &namespace, &name).await?;
    let paths = revisions.into_iter().flat_map(|revision| {
        let initial = revision.content.spec.pointer("/job/initialSavepointPath");
        let initial = initial.and_then(Value::as_str).map(str::to_owned);
        [revision.content.restore_point.path, initial]
    });
    Ok(paths.flatten().collect())
}

/// Returns what refers to each savepoint of the history in the job's status, besides that status. The job's spec is
/// read for it, too: the watch may not have shown its last edit.
pub(crate) async fn references(
    job: &ObjectMeta,
    status: &JobStatus,
    context: &Context,
) -> Result<BTreeMap<String, Vec<String>>, String> {
    let namespace = job.namespace.as_deref().unwrap_or("default");
    let all = Box::pin(Referring::read(namespace, context)).await?;
    let history = status.savepoint_info.iter().flat_map(|info| &info.savepoint_history);
    let paths = history.filter_map(|savepoint| savepoint.location.as_deref());
    Ok(paths.map(|path| (path.to_owned(), all.to(path, job.uid.as_deref()))).collect())
}
