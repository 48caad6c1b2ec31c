//! Deletion of a `FlinkSessionJob`: its job, then its finalizer.
//!
//! Every state leads on to a step, or to a wait that has a deadline or whose reason and solution are in the status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::plan::{Plan, SessionJobStep, Step};
use super::world::Tried;
use super::{End, Maybe, Pass};
use crate::blocker::WITHOUT_SAVEPOINT;
use crate::blocker::{Blocker, Reason, give_up_at, patience};
use crate::event::{Component, Event};
use crate::job::{self};
use crate::pauses::{GOING, SOON};
use crate::problem::Halt;
use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::status::{
    JobManagerDeploymentStatus, JobStatusState, LifecycleState, ReconciliationState,
};
use config::cluster::is_high_availability_on;
use config::{FlinkConfig, options};

/// Pause while the cluster is away.
const AWAY: Duration = Duration::from_secs(10);

impl Pass<'_> {
    pub(super) fn delete(&mut self) -> End {
        let has_nothing_to_cancel = self.has_nothing_to_cancel() && self.unrecorded_job().is_none();
        let Some(cluster) = self.world.session_cluster else {
            if has_nothing_to_cancel {
                return Ok(self.end("deleted: its session cluster does not exist"));
            }
            return Ok(self.leave("does not exist", true));
        };
        if has_nothing_to_cancel {
            return self.end_of_jobs("deleted: no job of it runs");
        }
        let config = self.config_or_defaults();
        if is_going(cluster) && !config.get(&options::SESSION_DELETION_BLOCK_ON_SESSION_JOBS)? {
            return Ok(self.leave("is being deleted", is_high_availability_on(&config)));
        }
        if !self.is_cluster_ready() {
            return self.delete_without_cluster(cluster, &config);
        }
        self.delete_job(cluster, &config)
    }

    /// Forgets the cancellation for an upgrade, which may never have arrived: a job that still runs has to be saved.
    pub(super) fn forget_cancel_of_upgrade(&mut self) {
        let wants_savepoint =
            self.config_or_defaults().get(&options::JOB_SAVEPOINT_ON_DELETION) == Ok(true);
        let is_cancelling = self.status.job_status.state == Some(JobStatusState::Cancelling);
        let is_changing = matches!(
            self.status.reconciliation_status.state,
            ReconciliationState::Upgrading | ReconciliationState::RollingBack
        );
        if wants_savepoint && is_cancelling && is_changing && !self.is_state_dropped() {
            self.decide_again();
        }
    }

    /// Returns true if nothing was submitted, or what was has ended or is gone.
    fn has_nothing_to_cancel(&self) -> bool {
        let job = &self.status.job_status;
        if job::id(job).is_none() {
            return true;
        }
        if job.state == Some(JobStatusState::Cancelling) || self.is_submission_open() {
            return false;
        }
        // A stored spec that cannot be parsed says nothing about the job.
        let is_stopped = match &self.last {
            Some(last) => last.job_state() == JobState::Suspended,
            None => self.status.reconciliation_status.last_reconciled_spec.is_none(),
        };
        let is_terminal = job.state.is_some_and(JobStatusState::is_globally_terminal)
            && job::pending_stop(job).is_none();
        is_stopped || is_terminal || self.stored_loss().is_some()
    }

    pub(super) fn config_or_defaults(&self) -> Arc<FlinkConfig> {
        self.observe_config().unwrap_or_default()
    }

    /// Deletes a job whose cluster does not answer. Without high availability, the job ended with its JobManager. With
    /// it the job comes back, unless its cluster is deleted, too.
    fn delete_without_cluster(&mut self, cluster: &FlinkDeployment, config: &FlinkConfig) -> End {
        if is_down(cluster) && !self.may_bring_back(cluster, config)? {
            return Ok(self.leave("does not run and keeps no jobs", false));
        }
        self.wait_for_cluster(cluster, config, "to be READY")
    }

    /// Returns true if the job may come back although its JobManager is gone, by the options that the cluster was
    /// started with. Without a JobManager also those of the next start are used: if another operator started the last
    /// one, the record may be older than that.
    fn may_bring_back(
        &self,
        cluster: &FlinkDeployment,
        config: &FlinkConfig,
    ) -> Result<bool, Halt> {
        let is_on = self.cluster_started_with()?.ok().as_ref().map(is_high_availability_on);
        Ok(is_on != Some(false) || is_down(cluster) && is_high_availability_on(config))
    }

    /// Waits for a cluster that cannot be asked. One that is being deleted will not come back.
    fn wait_for_cluster(
        &mut self,
        cluster: &FlinkDeployment,
        config: &FlinkConfig,
        what: &str,
    ) -> End {
        let wants_savepoint = config.get(&options::JOB_SAVEPOINT_ON_DELETION)?;
        let name = self.cluster_name();
        let may_bring_back = self.may_bring_back(cluster, config)?;
        let brings_back = match self.cluster_started_with()? {
            _ if !may_bring_back => ", which may run in it".to_owned(),
            Ok(_) => " that its high availability brings back".to_owned(),
            Err(reason) => format!(
                ", which may come back: could not determine whether the cluster has high \
                 availability ({reason})"
            ),
        };
        let message = format!(
            "deletion waits for the session cluster `{name}` {what} before it can cancel the \
             job{brings_back}"
        );
        let remedy = format!(
            "to see what keeps it from running: kubectl flink status {name}; to go on without \
             it, delete the cluster with \
             `kubernetes.operator.session.deletion.block-on-session-jobs: false`"
        );
        let blocker = Blocker::new(Reason::SessionCluster, message).remedy(remedy);
        let patience = patience(Some(config));
        let is_retained = may_bring_back && !is_going(cluster);
        if is_retained || wants_savepoint {
            let metadata = if is_going(cluster) { &cluster.metadata } else { self.metadata() };
            let at = give_up_at(metadata, None, patience, self.world.now);
            let blocker = if wants_savepoint { blocker.remedy(WITHOUT_SAVEPOINT) } else { blocker };
            return self.wait(blocker, at, AWAY);
        }
        let since = self.waits_since();
        let at = give_up_at(self.metadata(), Some(since), patience, self.world.now);
        if self.world.now >= at {
            return Ok(self.leave("did not answer in time", may_bring_back));
        }
        let then = "the resource is deleted: its job ends with the cluster, or is already lost";
        let blocker = blocker.until(at, then);
        let because = blocker.message.clone();
        Ok(self.await_blocker(blocker, at, because, AWAY))
    }

    /// Returns when this process began to wait for the cluster: while no one asked, the cluster was not silent.
    fn waits_since(&mut self) -> Timestamp {
        let tried = self.world.remembered.tried;
        tried.waits_since.unwrap_or_else(|| {
            let waits_since = Some(self.world.now);
            self.steps.push(Step::Own(SessionJobStep::Remember(Tried { waits_since, ..tried })));
            self.world.now
        })
    }

    /// The cluster answers: if it falls silent again, the wait starts over.
    fn forget_wait(&mut self) {
        let tried = self.world.remembered.tried;
        if tried.waits_since.is_some() {
            self.steps
                .push(Step::Own(SessionJobStep::Remember(Tried { waits_since: None, ..tried })));
        }
    }

    fn metadata(&self) -> &kube_core::ObjectMeta {
        &self.world.resource.metadata
    }

    fn delete_job(&mut self, cluster: &FlinkDeployment, config: &FlinkConfig) -> End {
        if self.world.jobs()?.is_err() {
            return self.wait_for_cluster(cluster, config, "to answer");
        }
        self.forget_wait();
        if let Some(plan) = self.put_unrecorded_job_on_record()? {
            return Ok(plan);
        }
        if self.has_nothing_to_cancel() {
            return self.end_of_jobs("deleted: no job of it runs");
        }
        let Some(job) = self.listed_job()? else {
            if let Some(until) = self.may_arrive_until() {
                return Ok(self.wait_for_submission(until));
            }
            return self.end_of_jobs("deleted: the cluster has no such job");
        };
        let wants_savepoint = config.get(&options::JOB_SAVEPOINT_ON_DELETION)?;
        let is_cancelling = self.status.job_status.state == Some(JobStatusState::Cancelling);
        let has_ended = job.state.is_globally_terminal();
        let is_stopping = job::pending_stop(&self.status.job_status).is_some();
        if is_stopping || (wants_savepoint && !is_cancelling && !has_ended) {
            self.set_job_state(job.state);
            if let Some(plan) = self.save_before_deletion(job.state, wants_savepoint, config)? {
                return Ok(plan);
            }
        }
        if has_ended {
            self.set_job_state(job.state);
            return self.end_of_jobs("deleted: the job has ended");
        }
        if job.state == JobStatusState::Cancelling {
            self.set_job_state(JobStatusState::Cancelling);
            let blocker = Blocker::new(Reason::Cancellation, "waiting for the job to be cancelled")
                .remedy(
                    "if a task does not end, Flink ends its TaskManager after \
                     `task.cancellation.timeout`; to do so at once, delete that pod",
                );
            let at = give_up_at(self.metadata(), None, patience(Some(config)), self.world.now);
            return self.wait(blocker, at, SOON);
        }
        let job_id = self.job_id()?;
        self.set_job_state(JobStatusState::Cancelling);
        self.write_intent();
        self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
        Ok(self.go_on("cancelling the job", GOING))
    }

    /// Waits for a job that may still appear when the resource, which would end it, is gone.
    fn wait_for_submission(&mut self, until: Timestamp) -> Plan {
        let message = "deletion waits for the job: it is unknown whether it was submitted, and \
                       Flink may still start it";
        let then = "the resource is deleted: the submission started no job";
        self.await_blocker(
            Blocker::new(Reason::Submission, message).until(until, then),
            until,
            message,
            SOON,
        )
    }

    /// Carries out `job.savepoint-on-deletion`: the job is deleted only once its state is saved.
    fn save_before_deletion(
        &mut self,
        state: JobStatusState,
        wants_savepoint: bool,
        config: &FlinkConfig,
    ) -> Maybe {
        let Some(trigger_id) = job::pending_stop(&self.status.job_status) else {
            if state == JobStatusState::Running {
                let pause = self.pause_before_saving();
                return pause.map_or_else(|| self.begin_stop(), Ok).map(Some);
            }
            let blocker = Blocker::new(
                Reason::JobNotRunning,
                format!(
                    "deletion waits for the job, which is {}, to run so that a savepoint can be \
                     taken",
                    state.into_str()
                ),
            );
            let at = give_up_at(self.metadata(), None, patience(Some(config)), self.world.now);
            return self.wait(blocker.remedy(WITHOUT_SAVEPOINT), at, SOON).map(Some);
        };
        self.finish_saving(&trigger_id, config, |pass, blocker, at| {
            if !wants_savepoint && pass.world.now >= at {
                // It was for an upgrade, and is no longer needed.
                job::forget_stop(&mut pass.status.job_status);
                return Ok(None);
            }
            pass.wait(blocker.remedy(WITHOUT_SAVEPOINT), at, GOING).map(Some)
        })
    }

    /// Ends everything that still runs of this resource, after the job on record has ended.
    fn end_of_jobs(&mut self, because: &str) -> End {
        let beside = self.put_second_job_on_record()?;
        Ok(beside.unwrap_or_else(|| self.end(because)))
    }

    /// Releases the resource because the job can be neither ended nor saved, and reports what is left behind.
    /// `may_come_back`: HA metadata of the cluster may contain the job.
    fn leave(&mut self, cluster_state: &str, may_come_back: bool) -> Plan {
        let name = self.cluster_name();
        let unrecorded = self.unrecorded_job().and_then(|known| known.job_id);
        let id = unrecorded.or_else(|| job::id(&self.status.job_status)).unwrap_or_default();
        let comes_back = if may_come_back {
            format!(
                "HA metadata of the cluster (ConfigMaps `{name}-*-config-map`, or its node in \
                 ZooKeeper) may have the job: a JobManager of that name would run it again. \
                 Cancel it there, or remove the metadata once nothing needs it. "
            )
        } else {
            String::new()
        };
        let on_record = match job::savepoint_path(&self.status.job_status) {
            Some(path) => format!("The state on record is {path}"),
            None => "No savepoint is on record".to_owned(),
        };
        let message = format!(
            "job {id} could be neither cancelled nor saved, because its session cluster `{name}` \
             {cluster_state}. {comes_back}{on_record}; checkpoints retained since then are in \
             the folder `{id}` of the job's checkpoint directory"
        );
        self.steps.push(Step::Event(Event::warning("CleanupFailed", Component::Job, message)));
        self.end(&format!("deleted: its session cluster {cluster_state}"))
    }

    fn end(&mut self, because: &str) -> Plan {
        self.problem = None;
        self.steps.push(Step::RemoveFinalizer);
        self.rest(because, None)
    }
}

/// Returns true if the cluster certainly has no JobManager. One that is not available may still run, and `MISSING` is
/// also written before a JobManager is removed.
fn is_down(cluster: &FlinkDeployment) -> bool {
    let Some(status) = &cluster.status else { return false };
    let is_changing = matches!(
        status.reconciliation_status.state,
        ReconciliationState::Upgrading | ReconciliationState::RollingBack
    );
    status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing && !is_changing
}

/// Returns true if the cluster is being deleted.
fn is_going(cluster: &FlinkDeployment) -> bool {
    let state = cluster.status.as_ref().and_then(|status| status.lifecycle_state);
    cluster.metadata.deletion_timestamp.is_some()
        || matches!(state, Some(LifecycleState::Deleting | LifecycleState::Deleted))
}
