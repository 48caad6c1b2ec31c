//! Hot upgrade: the pods of the new spec stand by while the old ones work, and only have to take over.
//!
//! It is a last-state upgrade whose trial uses the new pods themselves. They contend for the lock of the JobManagers
//! from the beginning and never get it, because the old leader holds it. Once they are ready, and the job has completed
//! a checkpoint since, they take over, see [`super::hand_over`]. Until then the old job keeps working, and if anything
//! goes wrong the standby pods are removed.

use std::ops::ControlFlow;

use jiff::SignedDuration;

use crate::event::{Component, Event};
use crate::kind::Maybe;
use crate::legacy;
use crate::notes::{COLD_UPGRADE, PREFLIGHT, Standby, Trial, standby_of};
use crate::pass::DeploymentPass;
use crate::pauses::GOING;
use crate::plan::{SnapshotStep, TakeSnapshot};
use crate::problem::{Halt, Problem};
use crate::snapshot::OVERDUE;
use crate::snapshot::request::{Request, Wanted};
use crate::trigger::known::{Cause, SnapshotKind};
use crate::wait::Awaited;
use crate::world::Trigger;
use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::job::JobState;
use api::reconciled::ReconciledSpec;
use api::status::{
    CheckpointType, JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH,
    SavepointFormatType,
};
use config::cluster::is_kubernetes_high_availability_on;
use config::{FlinkConfig, options};
use render::Submission;
use render::preflight::Preflight;

/// Why a requested hot upgrade is not hot.
pub(crate) const NOT_BY_LAST_STATE: &str = "the job is not stopped with last-state";

impl DeploymentPass<'_> {
    /// Returns the pods of a changed spec that stand by to take over, or why there can be none; `None` if none are
    /// requested.
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
            Some("it requires high availability with Kubernetes")
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
        let standby = self.render_with(to, &config, &submission, Preflight::standby_of)?;
        Ok(Some(standby.ok_or("its pods mount files from the operator")))
    }

    fn is_hot(&self, config: &FlinkConfig) -> Result<bool, Halt> {
        Ok(!self.is_untried() && config.get(&options::JOB_UPGRADE_HOT_ENABLED)?)
    }

    /// Returns the name of the next run of the job: the same in every pass, and never that of another run.
    pub(crate) fn next_run(&self) -> String {
        let deployed = self.status.reconciliation_status.reconciliation_timestamp;
        format!("{}-{deployed}", self.generation)
    }

    /// Reports why a requested hot upgrade is not hot.
    pub(crate) fn report_cold_upgrade(&mut self, is_last_state: bool) -> Result<(), Halt> {
        let config = self.deploy_config(&self.spec, self.generation)?;
        let otherwise = (!is_last_state && self.is_hot(&config)?).then_some(NOT_BY_LAST_STATE);
        if let Some(reason) = self.own.cold_because.take().or(otherwise) {
            self.report_cold(reason);
        }
        Ok(())
    }

    fn report_cold(&mut self, reason: &str) {
        let message = format!(
            "The upgrade is not hot and stops the job before it starts the new one: {reason}"
        );
        self.emit(Event::normal("HotUpgradeSkipped", Component::Operator, message));
    }

    /// Makes the upgrade to this generation an ordinary one, from now on.
    pub(crate) fn is_not_hot(&mut self, reason: &str) {
        COLD_UPGRADE.set(&mut self.status.cluster_info, &self.generation);
        self.forget_fresh_checkpoint();
        self.report_cold(reason);
    }

    pub(crate) fn is_job_running(&self) -> bool {
        self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
            && self.status.job_status.state == Some(JobStatusState::Running)
    }

    /// Records that the pods of the desired spec are ready to take over.
    pub(crate) fn note_standby(&mut self, digest: String) {
        let run = self.next_run();
        let before = standby_of(&self.status.cluster_info);
        let is_same = |it: &Standby| it.digest == digest && it.run == run;
        let checkpoint = before.filter(is_same).and_then(|standby| standby.checkpoint);
        let standby = Standby { digest, run, checkpoint, leads: None };
        PREFLIGHT.set(&mut self.status.cluster_info, &Trial::StandingBy(standby));
    }

    /// Has the job complete a checkpoint before the standby pods take over, so that little work is repeated; `None`
    /// once HA metadata names it. If no checkpoint completes, the upgrade is not hot.
    pub(crate) fn await_fresh_checkpoint(&mut self, last: &ReconciledSpec) -> Maybe {
        let standby = standby_of(&self.status.cluster_info);
        let is_wanted = self.desired_state() == JobState::Running;
        let Some(standby) = standby.filter(|_| is_wanted) else { return Ok(None) };
        let checkpoint = match self.fresh_checkpoint(standby)? {
            ControlFlow::Break(checkpoint) => checkpoint,
            ControlFlow::Continue(because) => {
                self.wake_within(GOING);
                return self.meanwhile(last, Awaited::Checkpoint, because).map(Some);
            }
        };
        let named = self.world.ha_metadata()?.map_err(Halt::cannot)?.checkpoint;
        if named >= Some(checkpoint) {
            return Ok(None);
        }
        let message = format!(
            "the job has completed checkpoint {checkpoint}, but its HA metadata does not name \
             it, so the next start would not restore it. Nothing is stopped"
        );
        let refusal = Halt::problem(Problem::upgrade("UpgradeFailed", message));
        self.refuse_and_maintain(last, refusal).map(Some)
    }

    /// Returns the number of the checkpoint that the job has completed since pods stand by, or what is waited for.
    fn fresh_checkpoint(&mut self, standby: Standby) -> Result<ControlFlow<u64, String>, Halt> {
        const KIND: SnapshotKind = SnapshotKind::Checkpoint;
        if let Some(checkpoint) = standby.checkpoint {
            return Ok(ControlFlow::Break(checkpoint));
        }
        if legacy::pending(&self.status.job_status, KIND).is_some() {
            return Ok(ControlFlow::Continue("another checkpoint is in progress".to_owned()));
        }
        let Some(asked) = legacy::upgrade_checkpoint(&self.status.job_status) else {
            let trigger_id = self.trigger_id(KIND);
            let formats = (SavepointFormatType::default(), CheckpointType::Unknown);
            let (job, now) = (&mut self.status.job_status, self.world.now);
            legacy::note(job, KIND, Cause::Upgrade, &trigger_id, formats, now);
            self.write_intent();
            self.ask_for_checkpoint(trigger_id)?;
            return Ok(ControlFlow::Continue("taking a checkpoint before the upgrade".to_owned()));
        };
        let timeout = self.observe_config()?.get(&options::CHECKPOINTING_TIMEOUT)?;
        let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
        let is_late = self.world.now.duration_since(asked.since) > timeout.saturating_add(OVERDUE);
        let failure = match self.world.checkpoint()? {
            Ok(Trigger::Completed { checkpoint: Some(checkpoint), .. }) => {
                let checkpoint = *checkpoint;
                legacy::complete(&mut self.status.job_status, KIND, &asked, None, None);
                let standby = Standby { checkpoint: Some(checkpoint), ..standby };
                PREFLIGHT.set(&mut self.status.cluster_info, &Trial::StandingBy(standby));
                return Ok(ControlFlow::Break(checkpoint));
            }
            Ok(Trigger::Failed { message }) => Some(message.clone()),
            Ok(_) | Err(_) if is_late => Some(format!("it did not complete within {timeout:#}")),
            Ok(Trigger::NotFound) => {
                self.ask_for_checkpoint(asked.trigger_id)?;
                None
            }
            Ok(Trigger::Pending | Trigger::Completed { .. }) | Err(_) => None,
        };
        if let Some(reason) = failure {
            self.is_not_hot(&format!("the checkpoint before it failed: {reason}"));
            self.end_preflight();
            let because = "removing the new pods; the upgrade continues without them";
            return Ok(ControlFlow::Continue(because.to_owned()));
        }
        Ok(ControlFlow::Continue("waiting for the checkpoint before the upgrade".to_owned()))
    }

    fn ask_for_checkpoint(&mut self, trigger_id: String) -> Result<(), Halt> {
        let what = Wanted::Checkpoint(CheckpointType::Unknown);
        let request = Request { job_id: self.job_id()?, trigger_id, what };
        let (kind, cause) = (SnapshotKind::Checkpoint, Cause::Upgrade);
        let step = SnapshotStep::Take(Box::new(TakeSnapshot { kind, cause, request }));
        self.steps.push(step.into());
        Ok(())
    }

    /// Forgets the requested checkpoint, which is no longer waited for.
    pub(crate) fn forget_fresh_checkpoint(&mut self) {
        if legacy::upgrade_checkpoint(&self.status.job_status).is_some() {
            legacy::forget(&mut self.status.job_status, SnapshotKind::Checkpoint);
        }
    }
}

/// Returns true if a job uses slots wherever there are any.
fn takes_any_slot(config: &FlinkConfig) -> bool {
    let is = |option, value: &str| {
        config.text_of(option).is_some_and(|it| it.eq_ignore_ascii_case(value))
    };
    is(&options::SCHEDULER, "adaptive") || is(&options::SCHEDULER_MODE, "reactive")
}
