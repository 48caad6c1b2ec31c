//! Takes a plan's steps. Each is an arm of a call or two, and safe to repeat.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::json;

use super::autoscaler::Cluster;
use super::objects::Unfinished;
use super::observe::{Subject, show};
use super::pods;
use super::reconcile::OperatedJob;
use super::resource::Act;
use super::session_job::jar::NotSubmitted;
use super::snapshot::steps::SnapshotSteps;
use api::ENDING_ANNOTATION;
use api::deployment::FlinkDeployment;
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Writer};
use clients::flink::rescale::{ParallelismBounds, VertexRequirements};
use clients::flink::savepoints::StopRequest;
use clients::flink::{self, Effect};
use clients::zookeeper;
use config::{FlinkConfig, options};
use lifecycle::event::{Component, Event};
use lifecycle::plan::{ClusterStep, Step};
use lifecycle::world::{Bounds, DeploymentVersion};
use render::names;

/// How old the operator's hold of the lock may be when the old JobManager is stopped: far less than a lease.
const HOLD_AGE_MAX: Duration = Duration::from_secs(3);
/// How long a deletion tries to remove HA metadata if the configuration cannot be read.
const CLEANUP_TIMEOUT: Duration = Duration::from_mins(5);

/// Why a plan stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// Flink rejected a request, or its outcome is unknown.
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
    /// Names the path, but nothing of the contents.
    #[error("the operator cannot read its file `{path}`: {reason}")]
    File { path: String, reason: String },
    /// An object that belongs to someone else has the name of an object of the cluster.
    #[error(
        "{kind} `{name}` already exists and belongs to someone else, so it is left unchanged: \
         rename it, or the FlinkDeployment"
    )]
    Foreign { kind: String, name: String },
    /// An object was stored without an annotation that the operator needs to know it by.
    #[error(
        "{kind} `{name}` was stored without the annotation `{annotation}`, so the operator cannot \
         know that it was stopped, and starts nothing: let the admission webhook or policy that \
         removes it keep the annotations of this operator"
    )]
    Annotation { kind: &'static str, name: String, annotation: &'static str },
    /// A snapshot that the spec requests was rejected; a separate event reports it.
    #[error("snapshot `{name}`, requested by a trigger nonce, cannot be created")]
    Snapshot { name: String, source: cluster::Error },
    /// The JobManager runs, but an object beside it was rejected.
    #[error(
        "{kind} `{name}` was rejected, although the JobManager runs: change the spec, or what \
         rejects it (a quota, a policy, an object of this name)"
    )]
    Unfinished { kind: String, name: String, source: Box<Self> },
    /// An object of the cluster was created concurrently; the next pass finds out whose it is.
    #[error("the JobManager Deployment already exists")]
    Raced,
    /// The stop is on record, and is sent once the cluster was replaced, or waits for it.
    #[error("the session cluster `{name}` is about to be replaced: the job is not stopped yet")]
    ClusterReplaced { name: String },
    /// Someone else wrote the status concurrently; nothing of it is overwritten.
    #[error("someone else changed the status of the resource in the meantime")]
    StatusTaken,
}

impl Error {
    /// Returns `true` if the same steps may succeed later without anyone repairing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Cluster(error) | Self::Snapshot { source: error, .. } => error.is_transient(),
            Self::ZooKeeper(error) => error.is_transient(),
            Self::ClusterReplaced { .. } | Self::Raced | Self::StatusTaken => true,
            Self::Flink { .. }
            | Self::Address(_)
            | Self::Serialize(_)
            | Self::File { .. }
            | Self::Annotation { .. }
            | Self::Foreign { .. } => false,
            Self::Unfinished { source, .. } => source.is_transient(),
        }
    }

    /// Returns `true` if the request may have been carried out despite the error.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Cluster(error) => error.is_outcome_unknown(),
            Self::Flink { .. }
            | Self::Address(_)
            | Self::ZooKeeper(_)
            | Self::Serialize(_)
            | Self::File { .. }
            | Self::Annotation { .. }
            | Self::Foreign { .. }
            | Self::Snapshot { .. }
            | Self::Unfinished { .. }
            | Self::ClusterReplaced { .. }
            | Self::Raced
            | Self::StatusTaken => false,
        }
    }

    /// Returns `true` if the status must show the error, because it lasts. Rejections by Flink are excluded: the next
    /// pass sees them in Flink's answers. A resource that is gone has no status.
    pub(super) fn is_refusal(&self) -> bool {
        let is_reported = match self {
            Self::Cluster(error) => !error.is_not_found(),
            Self::ZooKeeper(_)
            | Self::Address(_)
            | Self::Serialize(_)
            | Self::File { .. }
            | Self::Annotation { .. }
            | Self::Foreign { .. }
            | Self::Snapshot { .. }
            | Self::Unfinished { .. } => true,
            Self::Flink { .. } | Self::ClusterReplaced { .. } | Self::Raced | Self::StatusTaken => {
                false
            }
        };
        is_reported && (!self.is_transient() || self.needs_a_person())
    }

    /// Usually transient; if it persists, the message says what to do, and a person has to see it.
    fn needs_a_person(&self) -> bool {
        matches!(self, Self::ZooKeeper(zookeeper::Error::InUse { .. }))
    }

    /// Returns `true` if something may yet be done as it was tried, such as with a webhook that answers again. The
    /// status shows that only if it lasts.
    pub(super) fn is_reported_late(&self) -> bool {
        match self {
            Self::ZooKeeper(error) => error.is_transient(),
            // A webhook that fails, or an API server that is overloaded.
            Self::Cluster(error) => matches!(error, cluster::Error::Unavailable { .. }),
            Self::Unfinished { source, .. } => source.is_transient(),
            _ => false,
        }
    }

    /// Returns a stable name for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cluster(error) | Self::Snapshot { source: error, .. } => error.reason(),
            Self::Flink { .. } => "FlinkRefused",
            Self::Address(_) => "JobManagerAddress",
            Self::ZooKeeper(error) => error.reason(),
            Self::Serialize(_) => "Serialize",
            Self::File { .. } => "FileUnreadable",
            Self::Annotation { .. } => "AnnotationRemoved",
            Self::Foreign { .. } => "ForeignObject",
            Self::Unfinished { source, .. } => source.reason(),
            Self::ClusterReplaced { .. } => "ClusterReplaced",
            Self::Raced => "Raced",
            Self::StatusTaken => "StatusTaken",
        }
    }
}

/// What is left undone although the plan was carried out to its end.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) snapshots: SnapshotSteps,
    pub(super) unfinished: Option<Unfinished>,
    /// When this plan began to hold the lock of the leader.
    pub(super) held_at: Option<Instant>,
}

impl Taken {
    /// Notes in the status what is missing beside the JobManager.
    pub(super) fn note_unfinished<K: OperatedJob>(&self, status: &mut K::Status) {
        if let Some(Unfinished { uid, .. }) = &self.unfinished {
            K::note_unfinished(status, uid);
        }
    }

    /// Returns the error to report at the end of the pass.
    pub(super) fn outcome(self) -> Result<(), Error> {
        self.unfinished.map_or_else(|| self.snapshots.outcome(), |it| Err(it.refusal))
    }
}

/// Why a plan did not reach its end.
pub(super) enum Stopped {
    Error(Error),
    /// The job was not submitted, or it is unknown whether it was.
    Submission(NotSubmitted),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl<K: OperatedJob> Act<'_, K> {
    /// Takes the steps in order and stops at the first error. Returns what was left undone.
    pub(super) async fn take(
        &mut self,
        steps: Vec<Step<K>>,
        cluster: Cluster<'_>,
    ) -> Result<Taken, Stopped> {
        let mut taken = Taken::default();
        for step in steps {
            match step {
                Step::AddFinalizer => self.change_finalizers(true).await?,
                Step::RemoveFinalizer => self.change_finalizers(false).await?,
                Step::Event(event) => self.record_event(event).await?,
                Step::RecordRevision(superseded) => self.record_revision(*superseded).await?,
                Step::Snapshot(step) => {
                    taken.snapshots.take(step, self, || self.flink(cluster)).await?;
                }
                Step::WriteStatus(mut status) => {
                    taken.note_unfinished::<K>(&mut status);
                    self.write_status(&status).await?;
                }
                Step::TriggerStop { job_id, trigger_id, directory, format, drain } => {
                    K::check_stop(self, cluster).await?;
                    let request =
                        StopRequest { target_directory: directory, drain, format, trigger_id };
                    stop_with_savepoint(&self.flink(cluster)?, &job_id, &request).await?;
                }
                Step::CancelJob { job_id, is_best_effort } => {
                    if !is_best_effort {
                        K::check_stop(self, cluster).await?;
                    }
                    self.cancel(&job_id, is_best_effort, cluster).await?;
                }
                Step::ScaleJob { job_id, bounds } => {
                    scale(&self.flink(cluster)?, &job_id, &bounds).await?;
                }
                Step::Own(step) => K::take(self, step, cluster, &mut taken).await?,
            }
        }
        Ok(taken)
    }

    pub(super) fn flink(&self, cluster: Cluster<'_>) -> Result<flink::Client, Error> {
        let subject = Subject::new((&self.resource, &self.stored), cluster, &self.operator);
        K::flink(&subject, self.context).map_err(Error::Address)
    }

    async fn cancel(
        &self,
        job_id: &str,
        is_best_effort: bool,
        cluster: Cluster<'_>,
    ) -> Result<(), Error> {
        let result = match self.flink(cluster) {
            Ok(flink) => cancel(&flink, job_id).await,
            Err(error) => Err(error),
        };
        match result {
            // A JobManager that cannot even be addressed ends without a cancellation.
            Err(error @ (Error::Flink { .. } | Error::Address(_))) if is_best_effort => {
                tracing::debug!(error = show(&error), "cancel not confirmed");
                Ok(())
            }
            other => other,
        }
    }
}

impl Act<'_, FlinkDeployment> {
    /// Takes a step on the cluster.
    pub(super) async fn take_own(
        &mut self,
        step: ClusterStep,
        taken: &mut Taken,
    ) -> Result<(), Error> {
        match step {
            ClusterStep::CreateCluster(objects) => {
                taken.unfinished = self.create_cluster(*objects).await?;
                Ok(())
            }
            ClusterStep::FinishCluster(objects) => {
                taken.unfinished = self.finish_cluster(*objects).await?;
                Ok(())
            }
            ClusterStep::StopJobManager { uid, unstarted } => {
                // This process may have been paused, and the lease of the lock may be over. A JobManager that has taken
                // it back releases it when it ends, and one that stands by would run the graph that it has stored.
                if taken.held_at.is_some_and(|at| at.elapsed() > HOLD_AGE_MAX) {
                    self.hold_leadership(taken).await?;
                }
                self.stop_job_manager(&uid, unstarted.as_ref()).await
            }
            ClusterStep::DeleteJobManager { uid } => {
                self.delete_deployment(names::job_manager(&self.resource.name_any()), &uid).await
            }
            ClusterStep::DeleteTaskManagers { uid } => {
                self.delete_deployment(names::task_manager(&self.resource.name_any()), &uid).await
            }
            ClusterStep::StopTaskManagers { uid } => self.scale_task_managers(&uid, 0).await,
            ClusterStep::ScaleTaskManagers { uid, replicas } => {
                self.scale_task_managers(&uid, replicas).await
            }
            ClusterStep::DeleteHaMetadata { jobs } => {
                self.delete_ha_metadata(jobs.as_deref()).await
            }
            ClusterStep::MakePreflight(preflight) => self.make_preflight(*preflight).await,
            ClusterStep::RemovePreflight => self.remove_preflight().await,
            ClusterStep::RemoveStandby { except } => self.remove_standby(except.as_deref()).await,
            ClusterStep::DisownStandby => self.disown_standby().await,
            ClusterStep::HoldLeadership => self.hold_leadership(taken).await,
            ClusterStep::ReleaseLeadership => {
                let next = super::standby::job_managers(&self.subject(), self.context).await?;
                self.subject().ha_place(self.context).release_leadership(&next).await
            }
            ClusterStep::ForgetJobGraphs { jobs } => self.forget_job_graphs(&jobs).await,
            ClusterStep::ApplyIngress(ingress) => {
                taken.unfinished = self.move_ingress(ingress.as_deref()).await?;
                Ok(())
            }
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject::new((&self.resource, &self.stored), None, &self.operator)
    }

    async fn scale_task_managers(&self, uid: &str, replicas: i32) -> Result<(), Error> {
        let name = names::task_manager(&self.resource.name_any());
        let id = ObjectId::of::<Deployment>(&self.namespace(), &name);
        // The uid makes another incarnation a conflict.
        let patch = json!({"metadata": {"uid": uid}, "spec": {"replicas": replicas}});
        apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await?;
        Ok(())
    }

    async fn hold_leadership(&self, taken: &mut Taken) -> Result<(), Error> {
        let place = self.subject();
        taken.held_at = Some(Instant::now());
        place.ha_place(self.context).hold_leadership(Timestamp::now()).await
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
        let stored = match apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await {
            Ok(stored) => stored.annotations.unwrap_or_default(),
            // Gone, or another incarnation: the next pass handles it.
            Err(cluster::Error::NotFound { .. } | cluster::Error::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if stored.contains_key(ENDING_ANNOTATION) {
            return Ok(());
        }
        Err(Error::Annotation { kind: "Deployment", name, annotation: ENDING_ANNOTATION })
    }

    async fn delete_deployment(&self, name: String, uid: &str) -> Result<(), Error> {
        let config = self.subject().config().unwrap_or_default();
        let propagation = match config.get(&options::RESOURCE_DELETION_PROPAGATION) {
            Ok(config::option::DeletionPropagation::Background) => apply::Propagation::Background,
            Ok(config::option::DeletionPropagation::Orphan) => apply::Propagation::Orphan,
            Ok(config::option::DeletionPropagation::Foreground) | Err(_) => {
                apply::Propagation::Foreground
            }
        };
        let id = ObjectId::of::<Deployment>(&self.namespace(), &name);
        let deletion = Deletion { uid: Some(uid), ..Deletion::with(propagation) };
        match apply::delete(&self.context.client, &id, deletion).await {
            // Another incarnation: the next pass handles it.
            Ok(_) | Err(cluster::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes HA metadata. In a deletion, metadata that cannot be removed holds the resource for a limited time only.
    /// A start does not go on without removing it: it would run the other job, too.
    async fn delete_ha_metadata(&self, jobs: Option<&[String]>) -> Result<(), Error> {
        let config = self.subject().metadata_config().unwrap_or_default();
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
            "HA metadata is left behind in {place}; remove it there once nothing needs it: {error}"
        );
        self.record_event(Event::warning("CleanupFailed", Component::Operator, message)).await
    }

    /// Returns `true` if the deletion has waited long enough to continue without removing its metadata.
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

    pub(super) async fn end_leadership(&self) -> Result<(), Error> {
        let config = self.subject().config().map_err(Error::Address)?;
        self.subject().ha_place(self.context).end_leadership(&config).await
    }
}

async fn stop_with_savepoint(
    flink: &flink::Client,
    job_id: &str,
    request: &StopRequest,
) -> Result<(), Error> {
    match flink.stop_with_savepoint(job_id, request).await {
        Ok(_trigger_id) => Ok(()),
        // Polling the trigger shows whether the request arrived.
        Err(error) if error.effect() == Effect::Unknown => {
            tracing::debug!(error = show(&error), "the stop may have been received");
            Ok(())
        }
        Err(error) => Err(Error::Flink {
            what: "the job cannot be stopped with a savepoint",
            message: show(&error),
        }),
    }
}

/// Sets new bounds of parallelism for the vertices of a running job.
async fn scale(
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
    // The next pass reads the outcome.
    flink.set_resource_requirements(job_id, &requirements).await.map_err(|error| Error::Flink {
        what: "the job cannot be scaled in place",
        message: show(&error),
    })
}

/// Cancels a job. One that has ended, or that Flink does not know, needs no cancellation.
async fn cancel(flink: &flink::Client, job_id: &str) -> Result<(), Error> {
    match flink.cancel(job_id).await {
        Ok(_) => Ok(()),
        Err(error) if error.effect() == Effect::Unknown => {
            tracing::debug!(error = show(&error), "cancel not confirmed");
            Ok(())
        }
        Err(error) => {
            Err(Error::Flink { what: "the job cannot be cancelled", message: show(&error) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_zookeeper_is_reported_at_once_and_an_outage_once_it_lasts() {
        let in_use = Error::from(zookeeper::Error::InUse { path: "/flink/orders".to_owned() });
        assert!(in_use.is_transient() && in_use.is_refusal(), "its text says what to do");
        let (quorum, problem) = ("zk:2181".to_owned(), "refused".to_owned());
        let away = Error::from(zookeeper::Error::Unreachable { quorum, problem });
        assert!(away.is_transient() && !away.is_refusal() && away.is_reported_late());
        assert!(!Error::StatusTaken.is_reported_late());
    }
}
