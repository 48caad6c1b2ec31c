//! Takes a plan's steps: one arm each, a call or two, each safe to repeat.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::observe::{Subject, tell};
use super::pods;
use super::resource::Act;
use super::snapshot::steps::SnapshotSteps;
use crate::api::ENDING_ANNOTATION;
use crate::api::deployment::FlinkDeployment;
use crate::api::state_snapshot::JobKind;
use crate::cluster;
use crate::cluster::apply::{self, Deletion, ObjectId, Writer};
use crate::config::{FlinkConfig, options};
use crate::decide::plan::{Component, Event, Step, Superseded};
use crate::decide::revision;
use crate::decide::world::{Bounds, DeploymentVersion};
use crate::flink::rescale::{ParallelismBounds, VertexRequirements};
use crate::flink::savepoints::StopRequest;
use crate::flink::{self, Effect};
use crate::render::{Objects, names};
use crate::zookeeper;

/// How long a deletion tries to remove HA metadata where the configuration cannot be read.
const CLEANUP_TIMEOUT: Duration = Duration::from_mins(5);

/// Why a plan stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// Flink refused, or what it did is not known.
    #[error("{what}: {message}")]
    Flink { what: &'static str, message: String },
    /// The JobManager cannot be addressed.
    #[error("the JobManager cannot be addressed: {0}")]
    Address(String),
    /// HA metadata in ZooKeeper was not changed.
    #[error(transparent)]
    ZooKeeper(#[from] zookeeper::Error),
    #[error("the object cannot be written: {0}")]
    Serialize(#[from] serde_json::Error),
    /// What is there under the name of an object of the cluster is no such object.
    #[error(
        "{kind} `{name}` is there already and belongs to somebody else, so that it is left as it is: \
         give it another name, or the FlinkDeployment"
    )]
    Foreign { kind: String, name: String },
    /// A snapshot that the spec asks for is refused; an event of its own tells it.
    #[error("snapshot `{name}`, which a trigger nonce asks for, cannot be created")]
    Snapshot { name: String, source: cluster::Error },
    /// An object of the cluster came in between: the next pass finds out whose it is.
    #[error("the JobManager Deployment is there already")]
    Raced,
    /// Somebody else wrote the status in between: nothing of it is overwritten.
    #[error("somebody else changed the status of the resource meanwhile")]
    StatusTaken,
}

impl Error {
    /// Whether the same steps may succeed later, although nobody mends anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Cluster(error) | Self::Snapshot { source: error, .. } => error.is_transient(),
            Self::ZooKeeper(error) => error.is_transient(),
            Self::Raced | Self::StatusTaken => true,
            Self::Flink { .. } | Self::Address(_) | Self::Serialize(_) | Self::Foreign { .. } => {
                false
            }
        }
    }

    /// Whether what was asked for may have been done all the same.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Cluster(error) => error.is_outcome_unknown(),
            Self::Flink { .. }
            | Self::Address(_)
            | Self::ZooKeeper(_)
            | Self::Serialize(_)
            | Self::Foreign { .. }
            | Self::Snapshot { .. }
            | Self::Raced
            | Self::StatusTaken => false,
        }
    }

    /// Whether the status has to tell it: it lasts, and what Flink refuses is told by what the next
    /// pass sees there. A resource that is gone has no status.
    pub(super) fn is_refusal(&self) -> bool {
        let is_told = match self {
            Self::Cluster(error) => !error.is_not_found(),
            Self::ZooKeeper(_)
            | Self::Address(_)
            | Self::Serialize(_)
            | Self::Foreign { .. }
            | Self::Snapshot { .. } => true,
            Self::Flink { .. } | Self::Raced | Self::StatusTaken => false,
        };
        is_told && (!self.is_transient() || self.names_a_way_out())
    }

    /// Passes by itself as a rule. Where it does not its text says what to do, and a person has to see it.
    fn names_a_way_out(&self) -> bool {
        matches!(self, Self::ZooKeeper(zookeeper::Error::InUse { .. }))
    }

    /// Outside the API server something does not answer, which the status tells where it lasts.
    pub(super) fn is_told_late(&self) -> bool {
        matches!(self, Self::ZooKeeper(error) if error.is_transient())
    }

    /// Stable name for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cluster(error) | Self::Snapshot { source: error, .. } => error.reason(),
            Self::Flink { .. } => "FlinkRefused",
            Self::Address(_) => "JobManagerAddress",
            Self::ZooKeeper(error) => error.reason(),
            Self::Serialize(_) => "Serialize",
            Self::Foreign { .. } => "ForeignObject",
            Self::Raced => "Raced",
            Self::StatusTaken => "StatusTaken",
        }
    }
}

impl Act<'_, FlinkDeployment> {
    /// Takes the steps in order and stops at the first error. Answers what became of those on
    /// snapshots.
    pub(super) async fn take(&mut self, steps: Vec<Step>) -> Result<SnapshotSteps, Error> {
        let mut snapshots = SnapshotSteps::default();
        for step in steps {
            match step {
                Step::Snapshot(step) => snapshots.take(step, self, || self.flink()).await?,
                other => self.step(other).await?,
            }
        }
        Ok(snapshots)
    }

    async fn step(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::AddFinalizer => self.change_finalizers(true).await,
            Step::RemoveFinalizer => self.change_finalizers(false).await,
            Step::WriteStatus(status) => self.write_status(&status).await,
            Step::Event(event) => self.record_event(event).await,
            Step::RecordRevision(superseded) => self.record_revision(*superseded).await,
            // Taken by `take`, which keeps what was not disposed of.
            Step::Snapshot(_) => Ok(()),
            Step::TriggerStop { job_id, trigger_id, directory, format, drain } => {
                let request =
                    StopRequest { target_directory: directory, drain, format, trigger_id };
                self.trigger_stop(&job_id, &request).await
            }
            Step::CancelJob { job_id, is_best_effort } => {
                self.cancel(&job_id, is_best_effort).await
            }
            Step::ScaleJob { job_id, bounds } => scale(&self.flink()?, &job_id, &bounds).await,
            Step::StopJobManager { uid, unstarted } => {
                self.stop_job_manager(&uid, unstarted.as_ref()).await
            }
            Step::DeleteJobManager { uid } => {
                self.delete_deployment(names::job_manager(&self.resource.name_any()), &uid).await
            }
            Step::DeleteTaskManagers { uid } => {
                self.delete_deployment(names::task_manager(&self.resource.name_any()), &uid).await
            }
            Step::ScaleTaskManagers { uid, replicas } => {
                self.scale_task_managers(&uid, replicas).await
            }
            Step::DeleteHaMetadata { jobs } => self.delete_ha_metadata(jobs.as_deref()).await,
            Step::ForgetJobGraphs { jobs } => self.forget_job_graphs(&jobs).await,
            Step::CreateCluster(objects) => self.create_cluster(*objects).await,
            Step::FinishCluster(objects) => self.finish_cluster(*objects).await,
            Step::ApplyIngress(ingress) => self.move_ingress(ingress.as_deref()).await,
        }
    }

    async fn record_revision(&self, superseded: Superseded) -> Result<(), Error> {
        let Superseded { spec, restore_point } = superseded;
        let reconciled = self.stored.reconciliation_status.reconciliation_timestamp;
        let content = revision::Content {
            spec: serde_json::to_value(&spec)?,
            restore_point: revision::RestorePoint::of(&restore_point),
            reconciled_at: Timestamp::from_millisecond(reconciled).unwrap_or(Timestamp::UNIX_EPOCH),
        };
        self.keep_revision(JobKind::FlinkDeployment, content).await
    }

    fn flink(&self) -> Result<flink::Client, Error> {
        self.subject().flink(self.context).map_err(Error::Address)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            resource: &self.resource,
            status: &self.stored,
            namespace: self.resource.metadata.namespace.as_deref().unwrap_or("default"),
            name: self.resource.metadata.name.as_deref().unwrap_or_default(),
            operator: &self.operator,
            memo: None,
        }
    }

    async fn trigger_stop(&self, job_id: &str, request: &StopRequest) -> Result<(), Error> {
        stop_with_savepoint(&self.flink()?, job_id, request).await
    }

    async fn cancel(&self, job_id: &str, is_best_effort: bool) -> Result<(), Error> {
        let result = match self.flink() {
            Ok(flink) => cancel(&flink, job_id).await,
            Err(error) => Err(error),
        };
        match result {
            // A JobManager that cannot even be addressed goes without it.
            Err(error @ (Error::Flink { .. } | Error::Address(_))) if is_best_effort => {
                tracing::debug!(error = tell(&error), "cancel not confirmed");
                Ok(())
            }
            other => other,
        }
    }

    async fn scale_task_managers(&self, uid: &str, replicas: i32) -> Result<(), Error> {
        let name = names::task_manager(&self.resource.name_any());
        let id = ObjectId::of::<Deployment>(&self.namespace(), &name);
        // Another incarnation is a conflict.
        let patch = json!({"metadata": {"uid": uid}, "spec": {"replicas": replicas}});
        apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await?;
        Ok(())
    }

    async fn stop_job_manager(
        &self,
        uid: &str,
        unstarted: Option<&DeploymentVersion>,
    ) -> Result<(), Error> {
        let name = names::job_manager(&self.resource.name_any());
        let id = ObjectId::of::<Deployment>(&self.namespace(), &name);
        let mut patch = json!({
            "metadata": {"uid": uid, "annotations": {ENDING_ANNOTATION: pods::ending(unstarted)}},
            "spec": {"replicas": 0},
        });
        if let Some(version) = unstarted {
            patch["metadata"]["resourceVersion"] = json!(version.resource);
        }
        match apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await {
            // Gone, or another incarnation: the next pass looks at it.
            Ok(_) | Err(cluster::Error::NotFound { .. } | cluster::Error::Conflict { .. }) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_deployment(&self, name: String, uid: &str) -> Result<(), Error> {
        let config = self.subject().config().unwrap_or_default();
        let propagation = match config.get(&options::RESOURCE_DELETION_PROPAGATION) {
            Ok(crate::config::option::DeletionPropagation::Background) => {
                apply::Propagation::Background
            }
            Ok(crate::config::option::DeletionPropagation::Orphan) => apply::Propagation::Orphan,
            Ok(crate::config::option::DeletionPropagation::Foreground) | Err(_) => {
                apply::Propagation::Foreground
            }
        };
        let id = ObjectId::of::<Deployment>(&self.namespace(), &name);
        let deletion = Deletion { uid: Some(uid), ..Deletion::with(propagation) };
        match apply::delete(&self.context.client, &id, deletion).await {
            // Another incarnation: the next pass looks at it.
            Ok(_) | Err(cluster::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// In a deletion, metadata that cannot be removed holds the resource for a while only. A start
    /// beside what is left of another job would run that job, too.
    async fn delete_ha_metadata(&self, jobs: Option<&[String]>) -> Result<(), Error> {
        let config = self.subject().config().unwrap_or_default();
        match self.subject().ha_place(self.context).delete(&config, jobs).await {
            Err(Error::ZooKeeper(error))
                if self.is_deleted() && !error.is_transient()
                    || self.is_cleanup_overdue(&config) =>
            {
                self.leave_behind("ZooKeeper", error.to_string()).await
            }
            Err(Error::Cluster(error @ cluster::Error::Forbidden { .. }))
                if self.is_cleanup_overdue(&config) =>
            {
                self.leave_behind("ConfigMaps", error.to_string()).await
            }
            other => other,
        }
    }

    fn is_deleted(&self) -> bool {
        self.resource.metadata.deletion_timestamp.is_some()
    }

    async fn leave_behind(&self, place: &str, error: String) -> Result<(), Error> {
        let message = format!(
            "HA metadata is left behind in {place}, remove it there once nothing needs it: {error}"
        );
        self.record_event(Event::warning("CleanupFailed", Component::Operator, message)).await
    }

    /// Whether the deletion has waited long enough to go on without its metadata removed.
    fn is_cleanup_overdue(&self, config: &FlinkConfig) -> bool {
        let Some(since) = &self.resource.metadata.deletion_timestamp else { return false };
        let patience = config.get(&options::RESOURCE_CLEANUP_TIMEOUT).unwrap_or(CLEANUP_TIMEOUT);
        let waited = Timestamp::now().duration_since(since.0);
        waited > SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX)
    }

    async fn forget_job_graphs(&self, jobs: &[String]) -> Result<(), Error> {
        let config = self.subject().config().map_err(Error::Address)?;
        self.subject().ha_place(self.context).forget_job_graphs(&config, jobs).await
    }

    /// ConfigMaps come first, so that no pod waits for one; they get their owner, the Deployment,
    /// once it exists, and belong to whom it belongs until then: a resource that is deleted meanwhile
    /// leaves none. A Deployment that exists already is left to the next pass: this one has not made a
    /// cluster, and what it intended stays on record, so that the next one finishes it, or tells that it
    /// is somebody else's.
    async fn create_cluster(&mut self, objects: Objects) -> Result<(), Error> {
        let client = &self.context.client;
        for map in &objects.config_maps {
            let mut map = map.clone();
            map["metadata"]["ownerReferences"] =
                objects.deployment["metadata"]["ownerReferences"].clone();
            let map = &map;
            match apply::create(client, map, Writer::OPERATOR).await {
                Ok(_) => {}
                Err(cluster::Error::AlreadyExists { .. }) => {
                    if self.find_deployment().await?.is_some() {
                        // Its JobManager would start with another job's configuration.
                        return Err(Error::Raced);
                    }
                    self.replace(map).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let deployment = match apply::create(client, &objects.deployment, Writer::OPERATOR).await {
            Ok(deployment) => deployment,
            Err(error @ cluster::Error::AlreadyExists { .. }) => {
                tracing::debug!(error = tell(&error), "looking at the Deployment that is there");
                return Err(Error::Raced);
            }
            Err(error) => return Err(error.into()),
        };
        self.context.note_sighting(&self.uid, &deployment);
        self.add_belongings(objects, &deployment.uid.unwrap_or_default()).await
    }

    async fn find_deployment(&self) -> Result<Option<Deployment>, Error> {
        let name = self.resource.name_any();
        Ok(cluster::read::get(&self.context.client, &self.namespace(), &name).await?)
    }

    async fn finish_cluster(&mut self, objects: Objects) -> Result<(), Error> {
        match self.find_deployment().await?.and_then(|deployment| deployment.metadata.uid) {
            Some(uid) => self.add_belongings(objects, &uid).await,
            None => Ok(()),
        }
    }

    /// TaskManagers of a standalone cluster, Services, Ingress, and the ownership of the
    /// ConfigMaps.
    async fn add_belongings(&self, objects: Objects, deployment_uid: &str) -> Result<(), Error> {
        let client = &self.context.client;
        let objects = objects.owned_by(deployment_uid);
        if let Some(task_managers) = &objects.task_managers {
            match apply::create(client, task_managers, Writer::OPERATOR).await {
                // Those that outlived a lost JobManager, or were made before a crash.
                Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for service in &objects.services {
            match apply::create(client, service, Writer::OPERATOR).await {
                Ok(_) => {}
                Err(cluster::Error::AlreadyExists { .. }) => self.replace(service).await?,
                Err(error) => return Err(error.into()),
            }
        }
        for map in &objects.config_maps {
            let id = ObjectId::in_manifest(map)?;
            let owners = &map["metadata"]["ownerReferences"];
            let patch = json!({"metadata": {"ownerReferences": owners}});
            apply::amend(client, &id, &patch, Writer::OPERATOR).await?;
        }
        self.put_ingress(objects.ingress.as_ref()).await?;
        Ok(())
    }

    /// Puts a changed Ingress in place while the job runs.
    async fn move_ingress(&self, ingress: Option<&Value>) -> Result<(), Error> {
        if !self.put_ingress(ingress).await? {
            return Ok(());
        }
        let what = if ingress.is_some() {
            "The Ingress is as the spec wants it"
        } else {
            "The spec wants no Ingress any more"
        };
        let message = format!("{what}, and the job goes on.");
        self.record_event(Event::normal("IngressChanged", Component::Operator, message)).await
    }

    /// Puts the Ingress in place, or the route from a Gateway, and removes what was there instead.
    /// Whether it was done: one that is refused is told, and the job is looked after all the same.
    async fn put_ingress(&self, ingress: Option<&Value>) -> Result<bool, Error> {
        let kind = ingress.and_then(|ingress| ingress["kind"].as_str());
        if let Some(ingress) = ingress {
            match self.replace(ingress).await {
                Ok(()) => {}
                Err(error) if is_refusal(&error) => {
                    let kind = kind.unwrap_or_default();
                    let message = format!(
                        "The {kind} of the web UI is not as the spec wants it, and the job runs \
                         without: {error}. Change spec.ingress, or set spec.restartNonce once what \
                         refused it is mended"
                    );
                    let event = Event::warning("IngressManagement", Component::Operator, message);
                    self.record_event(event).await?;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        if self.resource.metadata.generation == Some(1) {
            return Ok(true);
        }
        for (api_version, other) in EXPOSED_BY {
            if kind != Some(other) {
                self.delete_left_over(api_version, other).await?;
            }
        }
        Ok(true)
    }

    /// Makes an object of the cluster equal to `manifest`; one that somebody else has under its name
    /// stays theirs.
    async fn replace(&self, manifest: &Value) -> Result<(), Error> {
        let client = &self.context.client;
        let id = ObjectId::in_manifest(manifest)?;
        let found = match cluster::read::get_value(client, &id).await {
            Ok(found) => found,
            // Who may write it without reading it goes by the name.
            Err(cluster::Error::Forbidden { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if found.is_some_and(|found| !self.is_of_cluster(&found)) {
            return Err(Error::Foreign { kind: id.kind, name: id.name });
        }
        apply::apply(client, manifest, Writer::OPERATOR).await?;
        Ok(())
    }

    /// By its owner, which may be an earlier Deployment or resource of the name, or by Flink's labels.
    fn is_of_cluster(&self, found: &Value) -> bool {
        let name = self.resource.name_any();
        let metadata = &found["metadata"];
        let owners = metadata["ownerReferences"].as_array();
        let is_owner = |owner: &Value| {
            let is_cluster =
                matches!(owner["kind"].as_str(), Some("Deployment" | "FlinkDeployment"));
            let names = [names::job_manager(&name), names::task_manager(&name), name.clone()];
            is_cluster && names.iter().any(|name| owner["name"] == name.as_str())
        };
        let labels = &metadata["labels"];
        let is_flinks = labels["type"].as_str().is_some_and(|of| of.starts_with("flink-"));
        owners.into_iter().flatten().any(is_owner) || is_flinks && labels["app"] == name.as_str()
    }

    /// The Ingress or route of an earlier spec.
    async fn delete_left_over(&self, api_version: &str, kind: &str) -> Result<(), Error> {
        let client = &self.context.client;
        let id = ObjectId {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: Some(self.namespace()),
            name: self.resource.name_any(),
        };
        let found = match cluster::read::get_value(client, &id).await {
            Ok(found) => found,
            // Without the right to look at one, or where there is no such kind, none was made.
            Err(cluster::Error::Forbidden { .. } | cluster::Error::KindMissing { .. }) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let owners = found.as_ref().and_then(|it| it["metadata"]["ownerReferences"].as_array());
        if owners.into_iter().flatten().any(|owner| owner["uid"] == self.uid.as_str()) {
            let deletion = Deletion::with(apply::Propagation::Background);
            apply::delete(client, &id, deletion).await?;
        }
        Ok(())
    }
}

/// What may lead to a web UI.
const EXPOSED_BY: [(&str, &str); 2] =
    [("networking.k8s.io/v1", "Ingress"), ("gateway.networking.k8s.io/v1", ROUTE)];
const ROUTE: &str = "HTTPRoute";

/// Whether the cluster has no use for such an object, or none for this one: no reason to hold up a
/// job.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Foreign { .. }
            | Error::Cluster(
                cluster::Error::KindMissing { .. }
                    | cluster::Error::Forbidden { .. }
                    | cluster::Error::Invalid { .. }
                    | cluster::Error::Rejected { .. }
            )
    )
}

pub(super) async fn stop_with_savepoint(
    flink: &flink::Client,
    job_id: &str,
    request: &StopRequest,
) -> Result<(), Error> {
    match flink.stop_with_savepoint(job_id, request).await {
        Ok(_trigger_id) => Ok(()),
        // Whether it arrived is found out by asking for the trigger.
        Err(error) if error.effect() == Effect::Unknown => {
            tracing::debug!(error = tell(&error), "the stop may have been received");
            Ok(())
        }
        Err(error) => Err(Error::Flink {
            what: "the job cannot be stopped with a savepoint",
            message: tell(&error),
        }),
    }
}

/// Gives the vertices of a running job new bounds of parallelism.
pub(super) async fn scale(
    flink: &flink::Client,
    job_id: &str,
    bounds: &BTreeMap<String, Bounds>,
) -> Result<(), Error> {
    let requirements = bounds
        .iter()
        .map(|(vertex, bounds)| {
            let parallelism =
                ParallelismBounds { lower_bound: bounds.lower, upper_bound: bounds.upper };
            (vertex.clone(), VertexRequirements { parallelism })
        })
        .collect();
    // What became of it is read by the next pass.
    flink.set_resource_requirements(job_id, &requirements).await.map_err(|error| Error::Flink {
        what: "the job cannot be scaled in place",
        message: tell(&error),
    })
}

/// A job that has ended, or that Flink does not know, needs no cancelling.
pub(super) async fn cancel(flink: &flink::Client, job_id: &str) -> Result<(), Error> {
    match flink.cancel(job_id).await {
        Ok(_) => Ok(()),
        Err(error) if error.effect() == Effect::Unknown => {
            tracing::debug!(error = tell(&error), "cancel not confirmed");
            Ok(())
        }
        Err(error) => {
            Err(Error::Flink { what: "the job cannot be cancelled", message: tell(&error) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_zookeeper_does_not_let_happen_is_told_at_once_or_where_it_lasts() {
        let in_use = Error::from(zookeeper::Error::InUse { path: "/flink/orders".to_owned() });
        assert!(in_use.is_transient() && in_use.is_refusal(), "its text says what to do");
        let (quorum, problem) = ("zk:2181".to_owned(), "refused".to_owned());
        let away = Error::from(zookeeper::Error::Unreachable { quorum, problem });
        assert!(away.is_transient() && !away.is_refusal() && away.is_told_late());
        assert!(!Error::StatusTaken.is_told_late());
    }
}
