//! A hot upgrade: the pods of the new spec stand by while the old ones work, and only have to take over.
//!
//! It is a last-state upgrade whose trial is made by the pods to come. They contend for the lock of the JobManagers from
//! the beginning and never get it, as the old leader holds it. Once they are ready the operator takes the lock itself,
//! removes the stored job graph and ends the old pods; when these have ended the lock is let go, and the new JobManager
//! leads, runs its own program and goes on from the newest checkpoint. Until the lock is taken the old job works on, and
//! whatever goes wrong the pods that stand by are removed.

use crate::event::{Component, Event};
use crate::kind::Maybe;
use crate::notes::{PREFLIGHT, Trial, standing_by};
use crate::pass::DeploymentPass;
use crate::pauses::SOON;
use crate::plan::{ClusterStep, Step};
use crate::problem::Halt;
use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::job::JobState;
use api::status::{LAST_STATE_PATH, ReconciliationState};
use config::cluster::is_kubernetes_high_availability_on;
use config::{FlinkConfig, options};
use render::Submission;
use render::preflight::Preflight;
use state::restore_point::RestorePoint;

/// Why an upgrade is not hot although that is asked for.
pub(crate) const NOT_BY_LAST_STATE: &str = "the job is not stopped by last-state";

impl DeploymentPass<'_> {
    /// Pods of a changed spec that stand by to take over, or why there can be none; absent where none are asked for.
    pub(crate) fn standby(
        &self,
        from: &FlinkDeploymentSpec,
        to: &FlinkDeploymentSpec,
        run: &str,
    ) -> Result<Option<Result<Preflight, &'static str>>, Halt> {
        let config = self.deploy_config(to, self.generation)?;
        if !self.is_hot(&config)? {
            return Ok(None);
        }
        let is_standalone = |spec: &FlinkDeploymentSpec| {
            spec.mode.unwrap_or_default() == DeploymentMode::Standalone
        };
        let reason = if !is_standalone(from) || !is_standalone(to) {
            Some("only TaskManagers of a standalone cluster can wait for another JobManager")
        } else if !is_kubernetes_high_availability_on(&config) {
            Some("it takes high availability by Kubernetes")
        } else if takes_any_slot(&config) || takes_any_slot(&*self.observe_config()?) {
            Some("the adaptive scheduler would run the old job on the new TaskManagers")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Ok(Some(Err(reason)));
        }
        let submission = Submission {
            job_id: self.job_id()?,
            savepoint_path: Some(LAST_STATE_PATH.to_owned()),
            job_result_store_id: run.to_owned(),
        };
        let standby = self.render_with(to, &config, &submission, Preflight::standing_by)?;
        Ok(Some(standby.ok_or("its pods mount files of the operator")))
    }

    fn is_hot(&self, config: &FlinkConfig) -> Result<bool, Halt> {
        Ok(!self.is_untried() && config.get(&options::JOB_UPGRADE_HOT_ENABLED)?)
    }

    /// Names the run of the job that is to follow the one on record: the same at each look, and another's never.
    pub(crate) fn next_run(&self) -> String {
        let deployed = self.status.reconciliation_status.reconciliation_timestamp;
        format!("{}-{deployed}", self.generation)
    }

    /// Tells why an upgrade is not hot that was to be.
    pub(crate) fn tell_if_cold(&mut self, is_last_state: bool) -> Result<(), Halt> {
        let config = self.deploy_config(&self.spec, self.generation)?;
        let otherwise = (!is_last_state && self.is_hot(&config)?).then_some(NOT_BY_LAST_STATE);
        if let Some(reason) = self.own.cold_because.take().or(otherwise) {
            let message = format!(
                "The upgrade is not hot, and stops the job before it starts the next: {reason}"
            );
            self.tell(Event::normal("HotUpgradeSkipped", Component::Operator, message));
        }
        Ok(())
    }

    /// True if pods stand by that take over from what is stopped now.
    pub(crate) fn stands_by(&self) -> bool {
        standing_by(&self.status.cluster_info).is_some()
    }

    /// True if they are about to take over, and must not be removed.
    pub(crate) fn is_taking_over(&self) -> bool {
        self.stands_by()
            && self.status.reconciliation_status.state == ReconciliationState::Upgrading
            && self.desired_state() == JobState::Running
            && self.world.metadata().deletion_timestamp.is_none()
    }

    /// The run whose pods stand by, where they are of the very spec that is wanted now.
    fn wanted_run(&self) -> Result<Option<String>, Halt> {
        let Some((digest, run)) = standing_by(&self.status.cluster_info) else { return Ok(None) };
        let standby = self.standby(&self.spec, &self.spec, &run)?;
        let is_it = matches!(standby, Some(Ok(standby)) if standby.digest == digest);
        Ok(is_it.then_some(run))
    }

    /// The old JobManager has ended: the one that stands by may lead as soon as the old TaskManagers have, too. On those
    /// the new job would start only to lose them.
    pub(crate) fn let_standby_lead(&mut self) -> Maybe {
        if !self.is_taking_over() || self.wanted_run()?.is_none() {
            return Ok(None);
        }
        let pods = self.world.task_manager_pods()?;
        let pods = pods.map_err(|reason| {
            Halt::cannot(format!("the pods of the old TaskManagers cannot be read: {reason}"))
        })?;
        if !pods.is_empty() {
            let pause = self.going();
            return Ok(Some(self.finish("waiting for the old TaskManagers to end", Some(pause))));
        }
        self.steps.push(Step::Own(ClusterStep::ReleaseLeadership));
        Ok(None)
    }

    /// What is to start is what stands by, unless it was changed since: then that is removed first.
    pub(crate) fn settle_standby(&mut self, restore: &RestorePoint) -> Maybe {
        if !self.stands_by() {
            return Ok(None);
        }
        if *restore == RestorePoint::HaMetadata {
            self.own.run = self.wanted_run()?;
        }
        if self.own.run.is_some() {
            return Ok(None);
        }
        PREFLIGHT.set(&mut self.status.cluster_info, &Trial::UnderWay);
        let because = "the pods that stood by are of another spec, and are removed";
        Ok(Some(self.finish(because, Some(SOON))))
    }
}

/// True if a job runs wherever there are slots.
fn takes_any_slot(config: &FlinkConfig) -> bool {
    let is = |option, value: &str| {
        config.text_of(option).is_some_and(|it| it.eq_ignore_ascii_case(value))
    };
    is(&options::SCHEDULER, "adaptive") || is(&options::SCHEDULER_MODE, "reactive")
}
