//! What the operator's steps do to the cluster of a deployment, and to its job.

use super::*;

impl Sim {
    pub(super) fn flink_stop(&mut self, job_id: &str, trigger_id: &str) {
        let hears = self.haze.silent == 0;
        let is_there = hears && self.job.as_ref().is_some_and(|job| job.id == job_id);
        if !self.is_slow {
            if is_there {
                self.finish_stop(trigger_id);
            }
        } else if is_there && self.stopping.is_none() && !self.unsaved.contains(trigger_id) {
            self.stopping = Some(trigger_id.to_owned());
        }
    }

    /// The savepoint of a stop is complete.
    pub(super) fn finish_stop(&mut self, trigger_id: &str) {
        let path = format!("s3://lake/sp/{trigger_id}");
        let is_up = self.is_up();
        let Some(job) = &mut self.job else { return };
        // A stop that is asked for again is the same one.
        if !is_up || job.state != JobStatusState::Running || self.triggers.contains_key(trigger_id)
        {
            return;
        }
        let job_id = &job.id;
        job.checkpoint = Some((job.records, path.clone()));
        self.states.insert(path.clone(), job.records);
        self.durable = self.durable.max(job.records);
        self.triggers.insert(trigger_id.to_owned(), path);
        if std::mem::take(&mut self.fails_while_stopping) {
            self.unstopped.insert(trigger_id.to_owned());
            // Flink restarts a job from the savepoint that it was to stop with.
            if self.is_high_availability_on {
                self.ha.insert(job_id.to_owned(), Some(job.records));
                self.states.insert(path_in_metadata(job_id, job.records), job.records);
            }
        } else {
            job.state = JobStatusState::Finished;
            self.ha.remove(job_id);
        }
    }

    pub(super) fn flink_cancel(&mut self, job_id: &str) {
        if let Some(job) = &mut self.job
            && job.id == job_id
            && !job.state.is_globally_terminal()
        {
            job.state = JobStatusState::Cancelling;
            if !self.is_slow {
                self.finish_cancel();
            }
        }
    }

    pub(super) fn finish_cancel(&mut self) {
        if let Some(job) = &mut self.job
            && job.state == JobStatusState::Cancelling
        {
            job.state = JobStatusState::Canceled;
            self.ha.remove(&job.id);
        }
    }

    /// The savepoint of the stop in progress fails, and the job continues.
    pub(super) fn fail_savepoint(&mut self) {
        self.unsaved.extend(self.stopping.take());
    }

    pub(super) fn lose_job_manager(&mut self) {
        self.job_manager = None;
        self.end_process();
    }

    /// Someone deletes its Deployment.
    pub(super) fn lose_deployment(&mut self) {
        self.doubt.hide();
        self.lose_job_manager();
    }

    /// A job that continues from HA metadata uses its checkpoints, whatever savepoints there are.
    pub(super) fn go_back_to_checkpoints(&mut self) {
        let runs = self.job.as_ref().is_some_and(|job| !job.state.is_globally_terminal());
        if self.is_high_availability_on && runs {
            self.saved = self.saved.min(self.durable);
        }
    }

    pub(super) fn end_process(&mut self) {
        self.end_adopted(true);
        self.pods_linger = 3;
        self.pods_ending_since = self.now;
        if self.standby.runs_job {
            return;
        }
        self.go_back_to_checkpoints();
        if self.upheaval.keeps_pods() && self.is_high_availability_on {
            let runs = |job: &Running| job.state == JobStatusState::Running;
            self.out_of_reach = self.job.take_if(|job| runs(job)).or(self.out_of_reach.take());
        }
        self.job = None;
        self.submission = None;
        self.stopping = None;
        self.triggers.clear();
    }

    pub(super) fn stop_job_manager(&mut self, uid: &str, unstarted: Option<&DeploymentVersion>) {
        let is_meant = |jm: &&mut JobManager| {
            jm.uid == uid && unstarted.is_none_or(|version| jm.version.as_ref() == Some(version))
        };
        let Some(job_manager) = self.job_manager.as_mut().filter(is_meant) else { return };
        if job_manager.is_stopped {
            // A request that arrives late.
            return;
        }
        job_manager.is_stopped = true;
        job_manager.is_stopped_unstarted = unstarted.is_some();
        job_manager.is_deleting = true;
        job_manager.available_replicas = 0;
        self.end_process();
    }

    /// Kubernetes may end TaskManagers before the JobManager, whose job then exhausts its restarts.
    pub(super) fn delete_job_manager(&mut self) {
        let Some(job_manager) = &mut self.job_manager else { return };
        let was_stopped = begin_deletion(job_manager, self.now);
        if !was_stopped {
            if !self.standby.runs_job {
                self.fail_job();
            }
            self.end_process();
        }
    }

    pub(super) fn create_workers(&mut self, objects: &Objects) {
        if self.workers.is_none() {
            let uid = self.id();
            self.workers = Workers::of(objects, uid);
            self.standby.workers_end_in = None;
            self.adopt(false);
        }
    }

    pub(super) fn create(&mut self, objects: &Objects) {
        if self.job_manager.is_some() {
            return;
        }
        let law = Law::DeploymentOneJobManager;
        assert_eq!(self.pods_linger, 0, "{law}: a second one beside the pods of the first");
        if let Some(workers) = &self.workers {
            let law = Law::DeploymentTaskManagers;
            assert!(!workers.fact.is_deleting, "{law}: a JobManager beside TaskManagers that go");
            assert_eq!(
                workers.image,
                image_in(&objects.deployment),
                "{law}: TaskManagers of another spec"
            );
        }
        let annotations = &objects.deployment["metadata"]["annotations"];
        let generation = annotations[api::GENERATION_ANNOTATION].as_str().unwrap();
        let generation = generation.parse().ok().filter(|_| !self.upheaval.strips_annotations);
        if generation.is_none() {
            // Nothing tells it from the JobManager before it.
            self.doubt.hide();
        }
        let image = image_in(&objects.deployment);
        let launch = Launch::of(&objects.config_maps[0], image, generation);
        let runs = self.adopt(true);
        self.launch(&launch, runs);
        self.finish(objects);
    }

    /// Creates a Deployment, whose JobManager will start the job, unless it runs it already.
    pub(super) fn launch(&mut self, launch: &Launch, runs: bool) {
        self.is_high_availability_on = launch.is_high_availability_on;
        if !runs {
            self.starts += 1;
            self.submit(launch);
        }
        self.starts_in = if runs { 0 } else { 5 };
        self.came_up = runs.then_some(self.now);
        self.job_manager = Some(JobManager {
            uid: self.id(),
            owner_uid: Some("u1".to_owned()),
            generation: launch.generation,
            is_deleting: false,
            is_stopped: false,
            version: Some(DeploymentVersion { resource: "1".to_owned(), generation: 1 }),
            is_stopped_unstarted: false,
            deleting_since: None,
            replicas: 1,
            available_replicas: i32::from(runs),
            replica_failure: None,
            was_never_available: !runs,
            created: Some(self.now),
        });
    }

    /// Gives a JobManager the job to start once it leads.
    pub(super) fn submit(&mut self, launch: &Launch) {
        self.is_image_broken = launch.image == BROKEN_IMAGE;
        self.fails_in = (launch.parallelism == Some(FAILING_PARALLELISM)).then_some(8);
        self.submission = Some((launch.job_id.clone(), launch.path.clone()));
        self.submitted_parallelism = launch.overrides;
        self.has_run = false;
    }
}
