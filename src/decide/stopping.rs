//! Stop-with-savepoint of any resource that has a job: its trigger id is stored before Flink is asked,
//! so that after a crash in between the same id is sent again.

use std::ops::ControlFlow;
use std::time::Duration;

use super::application::{Halt, Problem};
use super::deploy::GOING;
use super::diff::ChangeClass;
use super::job::{self, StopOutcome};
use super::pass::{JobStep, Kind, Pass, PlanOf, StatusOfJob};
use super::reconciled::Reconciled;
use super::record::savepoint_directory;
use super::world::JobWorld;
use crate::api::status::SavepointFormatType;
use crate::config::{FlinkConfig, options};

impl<K: Kind> Pass<'_, K> {
    /// Notes the trigger id, then asks Flink.
    pub(super) fn begin_stop(&mut self) -> Result<PlanOf<K>, Halt<K::Question>> {
        let config = self.observe_config()?;
        let format = config.get(&options::SAVEPOINT_FORMAT_TYPE)?;
        self.give_up_savepoint("an upgrade stops the job with a savepoint of its own");
        let trigger_id = self.world.fresh().trigger_id.clone();
        let now = self.world.now();
        job::note_stop(self.status.job_mut(), &trigger_id, format, now);
        self.write_intent();
        self.trigger_stop(&config, trigger_id, format)?;
        Ok(self.finish("stopping the job with a savepoint", Some(GOING)))
    }

    fn trigger_stop(
        &mut self,
        config: &FlinkConfig,
        trigger_id: String,
        format: SavepointFormatType,
    ) -> Result<(), Halt<K::Question>> {
        let job_id = self.job_id()?;
        let is_deleting = self.world.metadata().deletion_timestamp.is_some();
        let drain = is_deleting && config.get(&options::JOB_DRAIN_ON_SAVEPOINT_DELETION)?;
        let directory = savepoint_directory(config);
        self.steps.push(K::Step::trigger_stop(job_id, trigger_id, directory, format, drain));
        Ok(())
    }

    /// Sends a stop again that Flink does not know of.
    pub(super) fn resend_if_lost(
        &mut self,
        outcome: &StopOutcome,
        trigger_id: &str,
    ) -> Result<(), Halt<K::Question>> {
        if !matches!(outcome, StopOutcome::Resend) {
            return Ok(());
        }
        let config = self.observe_config()?;
        let format = config.get(&options::SAVEPOINT_FORMAT_TYPE)?;
        self.trigger_stop(&config, trigger_id.to_owned(), format)
    }

    /// A new `savepointRedeployNonce` may have come while the job was being stopped. What was saved is
    /// in the history then, and what starts next starts from the path that the user names: a spec that
    /// is stored with a nonce counts as having followed it.
    pub(super) fn heed_redeploy(&mut self, last: &Reconciled<K::Spec>) {
        let diff = K::changes(&last.spec, &self.spec);
        // Without a path, which no valid spec is, what was just saved stays.
        if diff.class() == ChangeClass::SavepointRedeploy
            && let Some(path) = self.named_state()
        {
            self.announce(&diff);
            self.status.job_mut().upgrade_savepoint_path = Some(path);
        }
    }

    /// The savepoint's path, or what to do as long as there is none.
    pub(super) fn stopped_with(
        &mut self,
        outcome: StopOutcome,
    ) -> Result<ControlFlow<PlanOf<K>, String>, Halt<K::Question>> {
        match outcome {
            StopOutcome::Saved(path) => Ok(ControlFlow::Continue(path)),
            StopOutcome::Pending | StopOutcome::Resend => {
                Ok(ControlFlow::Break(self.finish("waiting for the savepoint", Some(GOING))))
            }
            // The table decides again, now from the job's end or its missing JobManager.
            StopOutcome::Lost => {
                job::forget_stop(self.status.job_mut());
                let because = "the stop-with-savepoint was lost";
                Ok(ControlFlow::Break(self.finish(because, Some(Duration::ZERO))))
            }
            StopOutcome::Failed(message) => {
                job::forget_stop(self.status.job_mut());
                Err(Halt::problem(Problem::upgrade(
                    "SavepointError",
                    format!("the job could not be stopped with a savepoint and goes on: {message}"),
                )))
            }
        }
    }
}
