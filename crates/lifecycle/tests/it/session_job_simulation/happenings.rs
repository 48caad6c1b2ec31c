//! Events in the world of a session job: time, Flink, its users, and faults.

use super::*;

impl Sim {
    /// Advances the clock by a second.
    pub(crate) fn tick(&mut self) {
        self.pass_time();
        // A JobManager may leave out a job in the moment in which it ends.
        let is_out = self.now.as_second() % 3 == 0;
        let ended = self.jobs.iter().filter(|job| job.state.is_globally_terminal());
        let new = ended.filter(|job| self.ended.insert(job.id.clone())).last();
        self.unlisted = new.filter(|_| is_out).map(|job| job.id.clone());
    }

    fn pass_time(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.go_on_deleting_snapshots();
        self.upheaval.tick();
        self.follow_cluster();
        self.away = self.away.saturating_sub(1);
        self.haze.tick();
        let is_there = self.away == 0;
        self.cluster.status.as_mut().unwrap().job_manager_deployment_status =
            if self.haze.unready > 0 {
                JobManagerDeploymentStatus::DeployedNotReady
            } else if is_there || self.ids.is_multiple_of(2) {
                JobManagerDeploymentStatus::Ready
            } else {
                JobManagerDeploymentStatus::Missing
            };
        if !is_there {
            return;
        }
        let (arrived, late) = self.late.drain(..).partition(|(at, _)| *at <= self.now);
        self.late = late;
        let arrived: Vec<(Timestamp, Running)> = arrived;
        for (_, job) in arrived {
            self.log.push(format!("{} job {} is there at last", self.now, job.id));
            self.start(job);
        }
        if let Some((job_id, trigger_id)) = self.stopping.take() {
            self.finish_stop(&job_id, &trigger_id);
        }
        for job in &mut self.jobs {
            match job.state {
                JobStatusState::Running => job.records += 7,
                JobStatusState::Cancelling => {
                    job.state = JobStatusState::Canceled;
                    if !job.retains {
                        let own = format!("{}/{}/", job.directory, job.id);
                        self.states.retain(|path, _| !path.starts_with(&own));
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn checkpoint(&mut self) {
        // No checkpoints complete while a job is stopped.
        if self.away > 0 || self.stopping.is_some() {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.state == JobStatusState::Running) {
            let path = format!("{}/{}/chk-{}", job.directory, job.id, job.records);
            self.states.insert(path.clone(), job.records);
            self.durable = self.durable.max(job.records);
            job.checkpoint = Some((job.records, path));
        }
    }

    /// The cluster's JobManager goes away; with high availability its jobs come back with it.
    pub(super) fn lose_cluster(&mut self) {
        self.doubt.hide();
        self.away = 5;
        self.job_manager_start = self.now;
        self.triggers.clear();
        self.stopping = None;
        self.late.clear();
        if !self.is_high_availability_on {
            self.jobs.clear();
            self.taken.clear();
            return;
        }
        self.jobs.retain(|job| !job.state.is_globally_terminal());
        for job in &mut self.jobs {
            job.state = JobStatusState::Running;
            job.records = job.checkpoint.as_ref().map_or(0, |(records, _)| *records);
            job.savepoint = None;
            self.saved = self.saved.min(job.records);
        }
    }

    /// No operator runs for a while; jobs continue, and their cluster may be lost.
    pub(super) fn leave_alone(&mut self, choices: &mut Choices) {
        self.log.push(format!("{} no operator runs", self.now));
        self.die();
        let (seconds, lost_at) = (3 + choices.below(15), choices.below(30));
        for second in 0..seconds {
            self.tick();
            if choices.below(3) == 0 {
                self.checkpoint();
            }
            if second == lost_at {
                self.lose_cluster();
            }
        }
    }

    pub(super) fn misfortune(&mut self, choices: &mut Choices) {
        pause(&mut self.resource.metadata, false);
        match choices.below(22) {
            0 => self.edit(|job| job.parallelism = Some(job.parallelism.unwrap_or(1) % 8 + 1)),
            1 => self.edit(|job| job.state = JobState::Suspended),
            2 | 3 => self.edit(|job| job.state = JobState::Running),
            4 => self.edit(|job| job.upgrade_mode = UpgradeMode::Savepoint),
            5 => self.edit(|job| job.upgrade_mode = UpgradeMode::LastState),
            // An invalid edit.
            6 => self.edit(|job| job.parallelism = Some(-1)),
            7 => self.lose_cluster(),
            // Its restart attempts are exhausted.
            8 => {
                if let Some(job) =
                    self.jobs.iter_mut().find(|job| job.state == JobStatusState::Running)
                {
                    job.state = JobStatusState::Failed;
                }
            }
            9 => self.refuses = true,
            16 => self.delays = true,
            11 => self.edit(|job| {
                job.savepoint_trigger_nonce = Some(asked_again(job.savepoint_trigger_nonce));
            }),
            12 => self.snapshot_often(),
            13 | 14 => {
                let parallelism = 1 + choices.below(4);
                self.configure(OVERRIDES, &format!("{VERTEX}:{parallelism}"));
            }
            15 => self.configure("kubernetes.operator.job.restart.failed", "true"),
            17 if self.stopping.is_some() => self.fail_savepoint(),
            17 => self.fails_while_stopping = true,
            // Someone cancels it without the operator.
            10 => {
                // Cancelling a job that does not retain its checkpoints would drop its state.
                if let Some(job) = self
                    .jobs
                    .iter_mut()
                    .find(|job| job.state == JobStatusState::Running && job.retains)
                {
                    job.state = JobStatusState::Cancelling;
                }
            }
            19 => self.cloud(|haze| haze.silent = 1 + choices.below(20)),
            20 => self.cloud(|haze| haze.unready = 1 + choices.below(20)),
            21 => self.cloud(|haze| haze.unread = 1 + choices.below(20)),
            18 => pause(&mut self.resource.metadata, true),
            _ => self.edit(|job| job.parallelism = Some(3)),
        }
    }

    /// Makes something of the JobManager invisible for a while.
    pub(super) fn cloud(&mut self, cloud: impl FnOnce(&mut Haze)) {
        cloud(&mut self.haze);
        self.log.push(format!("  hard to see: {:?}", self.haze));
        self.doubt.hide();
    }

    /// A person fixes the spec, and names the newest state if the operator asks for it.
    pub(super) fn heal(&mut self) {
        pause(&mut self.resource.metadata, false);
        self.end_upheaval();
        self.resource.spec.restart_nonce = Some(asked_again(self.resource.spec.restart_nonce));
        *self.resource.metadata.generation.as_mut().unwrap() += 1;
        let newest = self.states.iter().max_by_key(|(_, records)| **records);
        let newest = newest.map(|(path, _)| path.clone());
        let asks = asks(self.status.error.as_deref());
        self.edit(|job| {
            job.parallelism = Some(4);
            job.state = JobState::Running;
            match (asks, newest) {
                (false, _) => {}
                (true, Some(path)) => {
                    let nonce = asked_again(job.savepoint_redeploy_nonce);
                    job.initial_savepoint_path = Some(path);
                    job.savepoint_redeploy_nonce = Some(nonce);
                }
                // There never was any state.
                (true, None) => job.upgrade_mode = UpgradeMode::Stateless,
            }
        });
    }

    pub(super) fn is_settled(&self) -> bool {
        self.status.lifecycle_state == Some(LifecycleState::Stable)
            && self.status.observed_generation == self.resource.metadata.generation
            && self.mine().is_some_and(|job| {
                let wanted = self.resource.spec.flink_configuration.0.get(OVERRIDES);
                let wanted = parallelism(wanted.and_then(serde_json::Value::as_str));
                job.state == JobStatusState::Running && job.parallelism == wanted
            })
    }

    /// Returns the final state, whatever happened before: without times, and without ids, which a start after a crash
    /// may generate again.
    pub(super) fn end(&self) -> serde_json::Value {
        let status = &self.status;
        serde_json::json!({
            "record": recorded(&status.reconciliation_status, &status.job_status),
            "lifecycle": status.lifecycle_state,
            "error": status.error,
            "jobs": self.jobs.iter().map(|job| job.state).collect::<Vec<_>>(),
            "started": self.used.len(),
            "savepoints": self.states.len(),
            "snapshots": self.snapshots.len(),
        })
    }

    /// Settles, and collects what was stored on the way.
    pub(super) fn settle_keeping(
        &mut self,
        records: &mut Vec<(FlinkSessionJob, SessionJobStatus)>,
    ) {
        for _ in 0..120 {
            self.tick();
            self.pass(None);
            records.push((self.resource.clone(), self.status.clone()));
            if self.is_settled() {
                return;
            }
        }
        panic!("not stable: {:?}", self.status);
    }

    /// Deletes the resource, and with it the job that is not recorded.
    pub(super) fn end_and_delete(&mut self, job_id: &str) {
        self.resource.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
        for _ in 0..60 {
            self.tick();
            self.pass(None);
        }
        assert!(self.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
        let job = self.jobs.iter().find(|job| job.id == job_id);
        assert!(job.is_some_and(|job| job.state.is_globally_terminal()), "left behind");
    }

    /// The law: left alone for long enough, the operator writes nothing more.
    pub(super) fn assert_comes_to_rest(&mut self) {
        // Periodic savepoints never end.
        let options = &mut self.resource.spec.flink_configuration.0;
        let interval = "kubernetes.operator.periodic.savepoint.interval";
        if options.shift_remove(interval).is_some() {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
        }
        for _ in 0..COMES_TO_REST {
            self.tick();
            self.pass(None);
        }
        for _ in 0..RESTS_FOR * 3 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            let steps: Vec<&str> = plan.steps.iter().map(Step::name).collect();
            let law = Law::SessionJobRests;
            assert!(steps.is_empty(), "{law}: at rest: {}: {steps:?}", plan.because);
            assert_eq!(before, self.status, "{law}");
        }
    }

    pub(crate) fn settle(&mut self) {
        for round in 0..4 {
            for _ in 0..120 {
                self.tick();
                self.pass(None);
                if self.is_settled() {
                    return;
                }
            }
            assert!(round < 3, "{}: not stable: {:?}", Law::SessionJobRests, self.status);
            self.heal();
        }
    }
}
