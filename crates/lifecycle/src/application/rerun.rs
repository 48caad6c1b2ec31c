//! Without high availability, a restarted JobManager does not know what became of its job: it runs `main()` again under
//! the same id, from where the first run began.
//!
//! As long as nothing was requested of the job, the current run is the one that matters, as always in Flink. Once a
//! stop, a cancellation or an end is on record, that record is about a former run, and it is unknown which of the two
//! has the newest state.

use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};

use crate::job;
use crate::kind::End;
use crate::pass::DeploymentPass;
use crate::problem::{Halt, Problem};
use crate::transitions::stop::OTHER_STATE;
use crate::transitions::stop::StopDecision;
use crate::world::{Job, JobManager, Pod};
use api::job::UpgradeMode;
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, JobStatusState};
use state::references::is_same_location;

/// A job that is still listed as before its end after this time runs again.
const RUNS_AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// Kubernetes' timestamps have a resolution of one second.
const UNTIL: SignedDuration = SignedDuration::from_secs(1);

impl DeploymentPass<'_> {
    /// Returns true if the listed `job`, or its absence, does not belong to the run on record, and remembers why.
    pub(crate) fn note_rerun(&mut self, job: Option<&Job>) -> Result<bool, Halt> {
        let state = self.status.job_status.state;
        let has_ended = state.is_some_and(JobStatusState::is_globally_terminal);
        let asked = if job::pending_stop(&self.status.job_status).is_some() {
            job::stop_since(&self.status.job_status)
        } else if state == Some(JobStatusState::Cancelling) || has_ended {
            Some(job::updated(&self.status.job_status))
        } else {
            None
        };
        let Some(asked) = asked else { return Ok(false) };
        if self.is_stateless_in_force()? {
            return Ok(false);
        }
        let is_another = match job {
            Some(job) => {
                let has_failed = state == Some(JobStatusState::Failed);
                self.is_of_another_start(job)? && !(has_failed && self.goes_on_from_its_end()?)
            }
            // An ended job leaves the list after a while. The decisions that follow look at its pods.
            None => !has_ended && self.may_run_again_since(asked)?,
        };
        if is_another {
            self.own.rerun = Some(self.report_rerun()?);
        }
        Ok(is_another)
    }

    /// Returns true if the listed run's newest state is the one that the failed run left, which then is the newest of
    /// both. This also holds for a job that failed before its first checkpoint.
    fn goes_on_from_its_end(&self) -> Result<bool, Halt> {
        let Some(left) = self.savepoint_path() else { return Ok(false) };
        let Ok(checkpoints) = self.world.checkpoints()? else { return Ok(false) };
        let latest = checkpoints.latest.as_ref();
        Ok(latest.is_some_and(|latest| is_same_location(&latest.path, &left)))
    }

    /// Refuses to touch either run, except for a state that the user names.
    pub(crate) fn refuse_rerun(&mut self, last: &ReconciledSpec, message: String) -> End {
        match self.named_redeploy(last) {
            Some(diff) => self.redeploy_from_savepoint(last, &diff),
            None => Err(Halt::problem(Problem::upgrade("UpgradeFailed", message))),
        }
    }

    fn report_rerun(&self) -> Result<String, Halt> {
        let state = self.status.job_status.state;
        let before = match (job::pending_stop(&self.status.job_status), state) {
            (Some(_), _) => {
                "the job was asked to stop with a savepoint, and it is unknown whether it did"
                    .into()
            }
            (None, Some(JobStatusState::Cancelling)) => {
                "the job was cancelled, and it is unknown what it left".into()
            }
            (None, state) => {
                let path = self.savepoint_path().map(|path| format!(" with `{path}`"));
                let state = state.map_or("unknown", |it| it.into_str());
                format!("the job ended ({state}){}", path.unwrap_or_default())
            }
        };
        let again = match self.started_with()? {
            Ok(_) => {
                "its JobManager has restarted since and, without high availability, runs the job \
                 again from where it began"
                    .to_owned()
            }
            Err(reason) => format!(
                "its JobManager has restarted since and runs the job again from where it began, \
                 unless it has high availability, which is unknown: {reason}"
            ),
        };
        Ok(format!(
            "{before}: {again}. Nothing is stopped or started, because either run may have the \
             newest state. {OTHER_STATE}"
        ))
    }

    /// Returns true if a restarted JobManager may run the job again.
    fn may_begin_anew(&self) -> Result<bool, Halt> {
        Ok(self.is_started_with_high_availability()? != Some(true))
    }

    fn is_of_another_start(&self, job: &Job) -> Result<bool, Halt> {
        let recorded = job::started(&self.status.job_status);
        let is_another = recorded.is_some_and(|at| at.as_millisecond() != job.start_time);
        Ok(is_another && self.may_begin_anew()?)
    }

    /// Returns the decision, which trusts the recorded end of the job, unless something contradicts that.
    pub(crate) fn unless_run_again(&self, decision: StopDecision) -> Result<StopDecision, Halt> {
        if decision != StopDecision::AlreadyStopped(UpgradeMode::Savepoint) {
            return Ok(decision);
        }
        Ok(match self.rerun_of_ended_job()? {
            Some(message) => StopDecision::Refuse(message),
            None => decision,
        })
    }

    /// Returns why the recorded end of a job may be that of a former run. A JobManager that lists the job knows.
    pub(crate) fn rerun_of_ended_job(&self) -> Result<Option<String>, Halt> {
        let is_gone =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let is_stateless = self.job().upgrade_mode == UpgradeMode::Stateless;
        if is_gone || is_stateless || !self.may_begin_anew()? {
            return Ok(None);
        }
        let job_manager = self.read_job_manager()?;
        let is_listed = match job_manager {
            Some(job_manager) => self.job_before_removal(job_manager)?.is_some(),
            None => return Ok(None),
        };
        let ended = job::updated(&self.status.job_status);
        let is_doubtful = !is_listed && self.may_run_again_since(ended)?;
        is_doubtful.then(|| self.report_rerun()).transpose()
    }

    /// Refuses to start a job from what it left at its end if it may be running again by then, and be ahead of that.
    pub(crate) fn refuse_job_that_runs_again(
        &self,
        job_manager: &JobManager,
        last: &ReconciledSpec,
    ) -> Result<(), Halt> {
        let ended = job::updated(&self.status.job_status);
        let is_state_wanted = self.last_mode() == UpgradeMode::Savepoint
            && self.job().upgrade_mode != UpgradeMode::Stateless
            && !self.is_savepoint_redeploy(last);
        if self.is_session() || !is_state_wanted || job_manager.is_deleting {
            return Ok(());
        }
        let is_list_newer = self.world.now.duration_since(ended) > RUNS_AGAIN_AFTER;
        let found = match self.job_before_removal(job_manager)? {
            Some(job) if self.is_of_another_start(job)? => {
                format!("ran again and is {}", job.state.into_str())
            }
            Some(job) if !job.state.is_globally_terminal() && is_list_newer => {
                format!("is {} again", job.state.into_str())
            }
            None if self.may_run_again_since(ended)? => "may run again in its pod".to_owned(),
            Some(_) | None => return Ok(()),
        };
        let path = self.savepoint_path().unwrap_or_default();
        let message = format!(
            "the job ended with `{path}` but {found}, before its JobManager was removed. What it \
             has done since is not in that state, so nothing is started. {OTHER_STATE}"
        );
        Err(Halt::problem(Problem::upgrade("RestoreFailed", message)))
    }

    /// Returns why a job that is on record as being cancelled is not, or may not be, the one listed; or a wait if its
    /// JobManager does not say.
    pub(crate) fn rerun_of_cancelled_job(&self) -> Result<ControlFlow<Option<String>>, Halt> {
        let is_stateless = self.job().upgrade_mode == UpgradeMode::Stateless;
        let Some(job_manager) = self.read_job_manager()? else {
            return Ok(ControlFlow::Continue(()));
        };
        if is_stateless || !self.may_begin_anew()? {
            return Ok(ControlFlow::Continue(()));
        }
        let is_another = match self.job_before_removal(job_manager)? {
            Some(job) if !self.is_of_another_start(job)? => return Ok(ControlFlow::Continue(())),
            Some(_) => true,
            None => self.may_run_again_since(job::updated(&self.status.job_status))?,
        };
        Ok(ControlFlow::Break(is_another.then(|| self.report_rerun()).transpose()?))
    }

    /// Returns true if a JobManager has come up since then that does not know of its job's end. One that has not
    /// started yet may replace another one that did.
    fn may_run_again_since(&self, ended: Timestamp) -> Result<bool, Halt> {
        if !self.may_begin_anew()? {
            return Ok(false);
        }
        // The JobManager reported when the run began by the clock of its node, like the kubelet does for containers.
        // The end is on record by the operator's clock, which may differ.
        let began = job::started(&self.status.job_status);
        let is_later = |at: Timestamp| began.map_or(at + UNTIL > ended, |began| at > began);
        let pods = self.pods()?;
        let job_manager = self.read_job_manager()?.filter(|found| !found.is_deleting);
        let is_replaced = pods.is_empty() && job_manager.is_some_and(|found| found.replicas > 0);
        let is_newer = |pod: &Pod| pod.last_started.or(pod.created).is_some_and(is_later);
        Ok(is_replaced || pods.iter().any(is_newer))
    }
}
