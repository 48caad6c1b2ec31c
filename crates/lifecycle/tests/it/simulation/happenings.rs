//! Events in the world of a deployment: time, Flink, its user, and faults.

use super::*;

impl Sim {
    /// Advances the clock by a second.
    pub(crate) fn tick(&mut self) {
        self.pass_time();
        let ended = self.job.as_ref().filter(|job| job.state.is_globally_terminal());
        let ended = ended.map(|job| job.id.clone());
        // A JobManager may leave out a job in the moment in which it ends.
        self.is_unlisted = ended.is_some() && ended != self.ended && self.now.as_second() % 3 == 0;
        self.ended = ended;
    }

    fn pass_time(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.go_on_deleting_snapshots();
        self.haze.tick();
        self.upheaval.tick();
        self.trial.tick();
        if !self.upheaval.keeps_pods() {
            self.pods_linger = self.pods_linger.saturating_sub(1);
        }
        self.go_on_out_of_reach();
        if self.pods_linger == 0 {
            self.out_of_reach = None;
            // Deleted in the foreground, a Deployment goes after its pods.
            self.job_manager.take_if(|job_manager| job_manager.deleting_since.is_some());
        }
        if let Some(trigger_id) = self.stopping.take() {
            self.finish_stop(&trigger_id);
        }
        self.finish_cancel();
        let runs = self.job_manager.as_ref().is_some_and(|jm| !jm.is_deleting);
        if runs && !self.is_image_broken && !self.is_up() {
            self.starts_in -= u64::from(!self.upheaval.starts_no_pods());
            if self.starts_in == 0 {
                let job_manager = self.job_manager.as_mut().unwrap();
                job_manager.available_replicas = 1;
                job_manager.version =
                    Some(DeploymentVersion { resource: "2".to_owned(), generation: 2 });
                job_manager.was_never_available = false;
                self.came_up = Some(self.now);
                // The job result store knows a job that has ended, so it is not run again.
                if self.job.is_none() && self.standby.is_deployed_leading() {
                    self.flink_start();
                }
            }
        }
        let were_there = self.has_workers();
        let (ends, ends_in) = (!self.upheaval.keeps_pods(), &mut self.standby.workers_end_in);
        *ends_in = ends_in.map(|seconds| seconds - u64::from(ends).min(seconds));
        if self.workers.as_mut().is_some_and(|workers| !workers.tick()) {
            self.workers = None;
            self.end_adopted(false);
        }
        if were_there && !self.has_workers() {
            self.end_workers();
        }
        self.contend();
        self.fails_in = self.fails_in.map(|seconds| seconds.saturating_sub(1));
        if self.fails_in == Some(0) {
            self.fail_job();
        }
        let has_slots = self.has_slots();
        let Some(job) = &mut self.job else { return };
        match job.state {
            JobStatusState::Running if has_slots => job.records += 7,
            JobStatusState::Running => job.state = JobStatusState::Restarting,
            JobStatusState::Restarting if has_slots => job.state = JobStatusState::Running,
            _ => {}
        }
    }

    /// The job of a JobManager that was asked to end, and is not reached by that, completes checkpoints.
    fn go_on_out_of_reach(&mut self) {
        self.out_of_reach = self.out_of_reach.take().filter(|job| self.ha.contains_key(&job.id));
        if let Some(job) = &mut self.out_of_reach {
            job.records += 7;
            self.ha.insert(job.id.clone(), Some(job.records));
            self.states.insert(path_in_metadata(&job.id, job.records), job.records);
            self.durable = self.durable.max(job.records);
        }
    }

    /// Whether the job runs with the parallelism of its overrides.
    pub(super) fn is_scaled(&self) -> bool {
        let wanted = self.resource.spec.flink_configuration.0.get(OVERRIDES);
        let wanted = parallelism(wanted.and_then(serde_json::Value::as_str));
        self.job.as_ref().is_some_and(|job| job.parallelism == wanted)
    }

    pub(super) fn has_slots(&self) -> bool {
        let is_retained = |workers: &Workers| !workers.fact.is_deleting;
        !self.is_standalone()
            || self.workers.as_ref().is_some_and(is_retained)
                && self.standby.workers_end_in.is_none()
            || self.standby.has_slots()
    }

    /// Whether TaskManagers of the Deployment are there.
    fn has_workers(&self) -> bool {
        self.workers.is_some() && self.standby.workers_end_in != Some(0)
    }

    /// Someone deletes a Deployment of the standalone cluster.
    pub(super) fn lose_part(&mut self, is_job_manager: bool) {
        let runs = self.job.as_ref().is_some_and(|job| job.state == JobStatusState::Running);
        if !self.is_standalone() || !self.is_high_availability_on || !runs || !self.is_up() {
            return;
        }
        self.log.push(format!("  lost: JobManager {is_job_manager}"));
        if is_job_manager {
            self.lose_deployment();
        } else {
            self.workers = None;
        }
    }

    /// Its restart attempts are exhausted.
    pub(super) fn fail_job(&mut self) {
        if let Some(job) = &mut self.job
            && job.state == JobStatusState::Running
        {
            job.state = JobStatusState::Failed;
            self.ha.remove(&job.id);
            if self.standby.runs_job {
                // Without a Deployment of it, nobody is asked for its checkpoints.
                self.doubt.hide();
            }
        }
    }

    pub(super) fn flink_start(&mut self) {
        let (id, path) = self.submission.clone().unwrap();
        let in_metadata = self.ha.get(&id).copied();
        let restored = match (in_metadata, path.as_deref()) {
            // HA metadata takes precedence over the configured path.
            (Some(Some(records)), _) => Some((records, path_in_metadata(&id, records))),
            (_, Some(LAST_STATE_PATH)) => {
                // There is no such savepoint: the start fails, as it must if HA metadata is gone.
                self.job = Some(Running {
                    id,
                    state: JobStatusState::Failed,
                    records: 0,
                    checkpoint: None,
                    savepoint: None,
                    started: self.now,
                    parallelism: self.submitted_parallelism,
                });
                return;
            }
            (_, Some(path)) => {
                let records = *self.states.get(path).expect("a path that was never written");
                Some((records, path.to_owned()))
            }
            (_, None) => None,
        };
        let records = restored.as_ref().map_or(0, |(records, _)| *records);
        let is_stateful =
            self.resource.spec.job.as_ref().unwrap().upgrade_mode != UpgradeMode::Stateless;
        let is_named = self.named.take_if(|named| path.as_ref() == Some(named)).is_some();
        if is_named {
            self.doubt.end();
        }
        let is_rerun = std::mem::replace(&mut self.has_run, true) && !self.is_high_availability_on;
        if is_rerun {
            // Flink restarted it by itself. While nothing else is recorded, the laws apply to that run.
            if !is_stateful || !self.is_end_on_record() {
                (self.durable, self.saved) = (records, records);
            }
        } else if is_stateful && !is_named {
            let law = Law::DeploymentState;
            assert!(
                records >= self.durable,
                "{law}: started from {records} records although {} are durable",
                self.durable
            );
            assert!(
                records >= self.saved || in_metadata.is_some(),
                "{law}: started from {records} records although {} were saved",
                self.saved
            );
        } else {
            (self.durable, self.saved) = (records, records);
        }
        if self.is_high_availability_on {
            self.ha.entry(id.clone()).or_insert(None);
        }
        self.job = Some(Running {
            id,
            state: JobStatusState::Running,
            records,
            checkpoint: restored,
            savepoint: None,
            started: self.now,
            parallelism: self.submitted_parallelism,
        });
    }

    /// Whether a stop, a cancellation or an end of the job is recorded.
    pub(super) fn is_end_on_record(&self) -> bool {
        let job = &self.status.job_status;
        let is_stopping = job.savepoint_info.as_ref().is_some_and(|info| {
            info.trigger_id.is_some() && info.trigger_type == Some(SnapshotTriggerType::Upgrade)
        });
        let is_over = job.state.is_some_and(JobStatusState::is_globally_terminal);
        is_stopping || is_over || job.state == Some(JobStatusState::Cancelling)
    }

    /// Completes a checkpoint of the job and returns its path.
    pub(super) fn checkpoint(&mut self) -> Option<String> {
        // No checkpoints complete while a job is stopped.
        let takes_some = self.stopping.is_none() && self.standby.may_checkpoint();
        let is_running = |job: &&mut Running| job.state == JobStatusState::Running;
        let job = self.job.as_mut().filter(is_running).filter(|_| takes_some)?;
        let path = path_in_metadata(&job.id, job.records);
        self.states.insert(path.clone(), job.records);
        if self.is_high_availability_on {
            self.ha.insert(job.id.clone(), Some(job.records));
        }
        self.durable = self.durable.max(job.records);
        job.checkpoint = Some((job.records, path.clone()));
        Some(path)
    }

    /// The JobManager's process dies and comes back in the same Deployment.
    pub(super) fn crash_job_manager(&mut self) {
        if !self.is_up() {
            return;
        }
        let ended = self.job.as_ref().is_some_and(|job| job.state.is_globally_terminal());
        self.log.push("  lost: its process".to_owned());
        self.doubt.hide();
        if ended && self.job.as_ref().is_some_and(|job| job.newest().is_none()) {
            // Another process cannot tell that it left no state.
            self.doubt.last();
        }
        self.go_back_to_checkpoints();
        let job_manager = self.job_manager.as_mut().unwrap();
        job_manager.available_replicas = 0;
        self.stopping = None;
        self.triggers.clear();
        self.starts_in = 3;
        // Without high availability there is no job result store to remember it.
        if !ended || !self.is_high_availability_on {
            self.job = None;
        }
    }

    pub(super) fn misfortune(&mut self, choices: &mut Choices) {
        pause(&mut self.resource.metadata, false);
        match choices.below(24) {
            22 | 23 => {
                let parallelism = 1 + choices.below(4);
                self.edit(|r| {
                    let options = &mut r.spec.flink_configuration.0;
                    let overrides = format!("{VERTEX}:{parallelism}");
                    options.insert(OVERRIDES.to_owned(), json!(overrides));
                });
            }
            0 => self.edit(|r| {
                let job = Self::job_mut(r);
                job.parallelism = Some(job.parallelism.unwrap_or(1) % 6 + 1);
            }),
            1 => self.edit(|r| Self::job_mut(r).state = JobState::Suspended),
            2 | 3 => self.edit(|r| Self::job_mut(r).state = JobState::Running),
            4 => self.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned())),
            5 | 6 => self.edit(|r| r.spec.image = Some("flink:1.20".to_owned())),
            7 => self.edit(|r| Self::job_mut(r).upgrade_mode = UpgradeMode::Savepoint),
            8 => self.edit(|r| Self::job_mut(r).upgrade_mode = UpgradeMode::LastState),
            // An invalid edit.
            9 => self.edit(|r| Self::job_mut(r).parallelism = Some(-1)),
            10 => self.crash_job_manager(),
            11 => self.fail_job(),
            // Someone cancels it without the operator.
            12 if choices.below(2) == 0 => {
                let running = self.job.as_ref().filter(|job| job.state == JobStatusState::Running);
                if let Some(id) = running.map(|job| job.id.clone()) {
                    self.flink_cancel(&id);
                }
            }
            12 => self.edit(|r| Self::job_mut(r).parallelism = Some(FAILING_PARALLELISM)),
            15 => self.lose_part(true),
            16 => self.lose_part(false),
            17 if self.stopping.is_some() => self.fail_savepoint(),
            17 => self.fails_while_stopping = true,
            // Its process dies and does not come back for long, whatever is in progress.
            18 if self.is_up() => {
                self.crash_job_manager();
                self.starts_in = 60;
            }
            19 => self.cloud(|haze| haze.silent = 1 + choices.below(60)),
            20 => self.cloud(|haze| haze.unready = 1 + choices.below(30)),
            21 => self.cloud(|haze| haze.unread = 1 + choices.below(60)),
            13 => pause(&mut self.resource.metadata, true),
            _ => self.edit(|r| Self::job_mut(r).parallelism = Some(3)),
        }
    }

    /// Makes something of the JobManager invisible for a while.
    pub(super) fn cloud(&mut self, cloud: impl FnOnce(&mut Haze)) {
        if self.is_up() {
            cloud(&mut self.haze);
            self.log.push(format!("  hard to see: {:?}", self.haze));
            self.doubt.hide();
        }
    }

    pub(super) fn heal(&mut self) {
        // A JobManager that does not answer for long is rightly rolled back.
        self.haze = Haze::default();
        pause(&mut self.resource.metadata, false);
        self.end_upheaval();
        self.edit(|r| {
            r.spec.image = Some("flink:1.20".to_owned());
            // A job that has failed stays failed until a person requests another try.
            r.spec.restart_nonce = Some(asked_again(r.spec.restart_nonce));
            let job = Self::job_mut(r);
            job.parallelism = Some(4);
            job.state = JobState::Running;
        });
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..400 {
            self.tick();
            self.pass(None);
            self.answer_refusal();
            let is_stable = self.status.lifecycle_state == Some(LifecycleState::Stable)
                && self.status.observed_generation == self.resource.metadata.generation;
            if is_stable && self.has_slots() && self.is_scaled() {
                return;
            }
        }
        let DeploymentStatus { lifecycle_state, error, .. } = &self.status;
        panic!("{}: not stable: {lifecycle_state:?} {error:?}", Law::DeploymentRests);
    }

    pub(super) fn assert_at_rest(&mut self) {
        for _ in 0..3 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            let law = Law::DeploymentRests;
            assert!(plan.steps.is_empty(), "{law}: at rest: {:?}", names(&plan.steps));
            assert_eq!(before, self.status, "{law}");
        }
    }

    /// The law: left alone for long enough, the operator writes nothing more.
    pub(super) fn assert_comes_to_rest(&mut self) {
        for _ in 0..COMES_TO_REST {
            self.tick();
            self.pass(None);
            self.answer_refusal();
        }
        for _ in 0..RESTS_FOR {
            self.assert_at_rest();
        }
        let is_tried = self.status.observed_generation != self.resource.metadata.generation;
        assert!(
            is_tried || self.trial.may_be_left || self.trial.pods.is_empty(),
            "{}: pods of a trial are left: {:?}",
            Law::DeploymentTrial,
            self.trial.pods
        );
    }

    /// Returns the final state, whatever happened before: without times, and without ids, which a start after a crash
    /// may generate again.
    pub(super) fn end(&self) -> serde_json::Value {
        let status = &self.status;
        serde_json::json!({
            "record": recorded(&status.reconciliation_status, &status.job_status),
            "lifecycle": status.lifecycle_state,
            "jobManager": status.job_manager_deployment_status,
            "info": status.cluster_info,
            "error": status.error,
            "generation": self.job_manager.as_ref().map(|job_manager| job_manager.generation),
            "workers": self.workers.as_ref().map(|workers| &workers.image),
            "starts": self.starts,
            "metadata": self.ha.len(),
            "savepoints": self.states.keys().filter(|path| path.contains("/sp/")).count(),
            "snapshots": self.snapshots.len(),
        })
    }
}
