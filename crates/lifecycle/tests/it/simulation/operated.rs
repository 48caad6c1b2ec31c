//! What the operator decides in the world of a deployment, observes of it and does to it.

use super::*;

impl Operated<FlinkDeployment> for Sim {
    fn stored(&self) -> Stored<DeploymentStatus> {
        (self.resource.metadata.generation, self.status.clone())
    }

    fn plan(&mut self) -> Plan {
        self.decisions += 1;
        let fresh = Fresh { job_id: self.id(), trigger_id: self.id(), uuid: self.id() };
        let mut facts = Facts { stopped_at: self.upheaval.stopped_at.clone(), ..Facts::default() };
        let mut memo = Memo::default();
        for _ in 0..20 {
            let world = World {
                has_snapshot_resources: self.has_snapshot_resources,
                fresh: fresh.clone(),
                waits: self.upheaval.waits,
                validators: self.validators.clone(),
                periodic: self.periodic.clone(),
                facts: facts.clone(),
                memo: std::mem::take(&mut memo),
                ..World::new(
                    self.now + self.upheaval.skew,
                    (&self.resource, &self.status),
                    None,
                    &self.operator,
                )
            };
            let decision = decide(&world);
            memo = world.memo;
            match decision {
                Ok(plan) => {
                    if are_held(&facts.references) {
                        self.periodic.held = Some(self.now);
                    }
                    assert_names_its_wait(&self.status, &plan);
                    self.upheaval.waits = plan.waits;
                    return plan;
                }
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after fifteen questions: {facts:?}");
    }

    fn note_decision(&mut self, plan: &Plan) {
        self.decided(&plan.status);
    }

    /// Carries out a step; returns whether to continue with the next one.
    fn take(&mut self, step: &Step) -> bool {
        if matches!(step, Step::Own(ClusterStep::CreateCluster(_))) && self.job_manager.is_none() {
            self.hand_over();
        }
        if self.upheaval.stops(step) {
            return false;
        }
        match step {
            Step::AddFinalizer => {
                let finalizer = api::DEPLOYMENT_FINALIZER.to_owned();
                self.resource.metadata.finalizers = Some(vec![finalizer]);
            }
            Step::RemoveFinalizer => self.resource.metadata.finalizers = None,
            // What only shows state holds up nothing.
            Step::RecordRevision(_) | Step::Snapshot(SnapshotStep::Create(_))
                if self.upheaval.is_refused(Refused::Records) => {}
            Step::WriteStatus(status) => store_deployment(&mut self.status, (**status).clone()),
            Step::RecordRevision(superseded) => {
                if let RestorePoint::Path(path) = &superseded.restore_point {
                    self.revisions.push(path.clone());
                    let excess = self.revisions.len().saturating_sub(REVISIONS_KEPT);
                    self.revisions.drain(..excess);
                }
            }
            Step::Snapshot(SnapshotStep::Create(resource)) => {
                if trigger_type(resource) == SnapshotTriggerType::Periodic {
                    self.periodic.note(SnapshotKind::Savepoint, self.now);
                }
                self.create_snapshot(resource);
            }
            Step::Snapshot(SnapshotStep::Delete { name, .. }) => self.delete_snapshot(name),
            Step::Snapshot(SnapshotStep::Take(snapshot)) => self.take_snapshot(snapshot),
            Step::Snapshot(SnapshotStep::Dispose { path, .. }) => self.dispose(path),
            Step::Event(_)
            | Step::Own(
                ClusterStep::ScaleTaskManagers { .. }
                | ClusterStep::ForgetJobGraphs { .. }
                | ClusterStep::ApplyIngress(_),
            ) => {}
            Step::Own(
                step @ (ClusterStep::StopTaskManagers { .. }
                | ClusterStep::HoldLeadership
                | ClusterStep::ReleaseLeadership
                | ClusterStep::RemoveStandby { .. }
                | ClusterStep::DisownStandby),
            ) => self.take_in_hand_over(step),
            Step::Own(ClusterStep::MakePreflight(preflight)) if preflight.is_standby() => {
                self.make_standby(preflight);
            }
            Step::Own(ClusterStep::MakePreflight(preflight)) => {
                let is_broken =
                    self.sees_broken_images && image_of(&preflight.pods[0]) == BROKEN_IMAGE;
                self.trial.make(preflight, self.now, is_broken);
            }
            Step::Own(ClusterStep::RemovePreflight) => {
                self.trial.remove();
                self.standby.remove_trial(self.now);
            }
            Step::TriggerStop { job_id, trigger_id, .. } => self.flink_stop(job_id, trigger_id),
            Step::ScaleJob { job_id, bounds } => {
                // Every other one is rejected.
                let is_taken = self.answers() && self.now.as_second() % 2 == 1;
                let job = self.job.as_mut().filter(|job| is_taken && job.id == *job_id);
                let Some(job) = job else { return false };
                job.parallelism = bounds[VERTEX].upper;
                if self.is_high_availability_on {
                    // It is stored with the job graph.
                    self.submitted_parallelism = job.parallelism;
                }
                self.scaled += 1;
            }
            Step::CancelJob { job_id, .. } => {
                if self.haze.silent == 0 {
                    self.flink_cancel(job_id);
                }
            }
            Step::Own(ClusterStep::StopJobManager { uid, unstarted }) => {
                self.stop_job_manager(uid, unstarted.as_ref());
            }
            Step::Own(ClusterStep::DeleteJobManager { uid }) => {
                if self.job_manager.as_ref().is_some_and(|jm| jm.uid == *uid) {
                    self.delete_job_manager();
                }
            }
            Step::Own(ClusterStep::DeleteTaskManagers { uid }) => {
                if let Some(workers) = self.workers.as_mut().filter(|w| w.fact.uid == *uid) {
                    workers.fact.is_deleting = true;
                }
            }
            Step::Own(ClusterStep::DeleteHaMetadata { .. }) => {
                self.ha.clear();
                self.standby.forget_lock();
            }
            Step::Own(ClusterStep::FinishCluster(objects)) => self.finish(objects),
            Step::Own(ClusterStep::CreateCluster(objects)) => self.create(objects),
        }
        true
    }

    fn conclude(&mut self, plan: &Plan) {
        let mut end = (*plan.status).clone();
        self.upheaval.note_unfinished(&mut end);
        if self.upheaval.stops_at(Refused::Status) {
            return;
        }
        store_deployment(&mut self.status, end);
        if self.upheaval.hides_metadata() {
            self.doubt.hide();
        }
        self.doubt.assert_asks_only_in_doubt(self.status.error.as_deref());
        self.doubt.end_if(self.has_seen_all());
    }

    fn die(&mut self) {
        self.upheaval.forget();
    }

    fn go_on(&mut self) {
        self.tick();
    }

    fn note_pause(&mut self) {
        self.doubt.hide();
    }

    fn note_late(&mut self) {
        self.trial.may_be_left = true;
    }

    fn second(&mut self, choices: &mut Choices) {
        self.tick();
        if choices.below(4) == 0 {
            self.checkpoint();
        }
        if choices.below(12) == 0 {
            self.misfortune(choices);
        }
        if choices.below(12) == 0 {
            self.upheave(choices);
        }
    }
}

impl Sim {
    pub(crate) fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        self.crashing_pass(crash_at)
    }

    pub(super) fn is_up(&self) -> bool {
        self.job_manager.as_ref().is_some_and(|jm| jm.available_replicas > 0 && !jm.is_deleting)
    }

    /// Whether the JobManager's REST API answers.
    pub(super) fn answers(&self) -> bool {
        self.is_up() && self.haze.silent == 0
    }

    /// Returns its Deployment as the API server shows it.
    pub(super) fn seen_job_manager(&self) -> Option<JobManager> {
        let is_unready = self.haze.unready > 0;
        self.job_manager.clone().map(|seen| JobManager {
            available_replicas: if is_unready { 0 } else { seen.available_replicas },
            ..seen
        })
    }

    pub(super) fn answer(&self, question: Question, facts: &mut Facts) {
        if self.upheaval.leaves_unknown(&question, facts) {
            return;
        }
        let is_up = self.answers();
        match question {
            Question::JobManager => facts.job_manager = Fact::Known(self.seen_job_manager()),
            Question::TaskManagers => {
                facts.task_managers = Fact::Known(self.workers.as_ref().map(|w| w.fact.clone()));
            }
            Question::SessionJobs => facts.session_jobs = Fact::Known(vec![]),
            Question::Pods => facts.pods = Fact::Known(self.pods()),
            Question::Jobs => facts.jobs = fact(is_up, || self.jobs()),
            Question::Checkpoints => {
                let is_told = is_up && self.haze.unread == 0;
                facts.checkpoints = fact(is_told, || self.checkpoints());
            }
            Question::HaMetadata => facts.ha_metadata = Fact::Known(self.ha_metadata()),
            Question::DeployedConfig => {
                let kind = if self.is_high_availability_on { "kubernetes" } else { "NONE" };
                let options = [("high-availability.type", kind)];
                facts.deployed_config = Fact::Known(options.into_iter().collect());
            }
            Question::Retention => facts.retention = fact(is_up, || true),
            Question::Stop => facts.stop = fact(is_up, || self.stop()),
            Question::Cluster => facts.cluster = fact(is_up, Cluster::default),
            Question::Exceptions => facts.exceptions = fact(is_up, Vec::new),
            Question::TaskManagerPods => {
                facts.task_manager_pods = Fact::Known(self.task_manager_pods());
            }
            Question::Remains => facts.remains = Fact::Known(self.pods()),
            Question::ResourceRequirements => {
                let upper = self.job.as_ref().map_or(1, |job| job.parallelism);
                let bounds = [(VERTEX.to_owned(), Bounds { lower: 1, upper })].into();
                facts.resource_requirements = fact(is_up, || bounds);
            }
            Question::JobMetrics => {
                facts.job_metrics = fact(is_up, lifecycle::world::JobMetrics::default);
            }
            Question::Failure => facts.failure = fact(is_up, Failure::default),
            Question::Snapshots => facts.snapshots = Fact::Known(self.snapshots.clone()),
            Question::Savepoint => {
                facts.savepoint = fact(is_up, || self.trigger(SnapshotKind::Savepoint));
            }
            Question::Checkpoint => {
                facts.checkpoint = fact(is_up, || self.trigger(SnapshotKind::Checkpoint));
            }
            Question::Verdict => facts.verdict = Fact::Known(moody_verdict(self.now)),
            Question::Turn => facts.turn = Fact::Known(self.turn()),
            Question::Refusal(_) => facts.refusal = Fact::Known(self.upheaval.foretold()),
            Question::StandbyPods => facts.standby_pods = Fact::Known(self.standby.known()),
            Question::Leader => facts.leader = Fact::Known(self.leader()),
            Question::Preflight(_) => {
                let mut known = self.trial.known();
                known.pods.extend(self.standby.trial());
                facts.preflight = Fact::Known(known);
            }
            Question::Revisions => facts.revisions = Fact::Known(self.revisions.clone()),
            Question::References => {
                let foreign = self.foreign.as_deref();
                facts.references = Fact::Known(referred_to(&self.status.job_status, foreign));
            }
            other @ (Question::Nodes
            | Question::PodNodes
            | Question::JobManagerStart
            | Question::Jar
            | Question::Files(_)) => panic!("{other:?} is not asked of an application"),
        }
    }

    pub(super) fn pods(&self) -> Vec<Pod> {
        let runs = self.job_manager.as_ref().is_some_and(|jm| !jm.is_deleting);
        let is_there = runs || self.pods_linger > 0;
        let has_started = self.job_manager.as_ref().is_none_or(|jm| !jm.was_never_available);
        let problem = self.is_image_broken.then(|| PodProblem {
            reason: "ImagePullBackOff".to_owned(),
            message: "[flink-main-container] no such image".to_owned(),
        });
        let created = self.job_manager.as_ref().and_then(|jm| jm.created);
        // A first process is up within a few seconds.
        let up_after = self.came_up.zip(created).map(|(up, created)| up.duration_since(created));
        let own = is_there.then(|| Pod {
            name: "orders-0".to_owned(),
            created,
            has_started,
            has_restarted: up_after.is_some_and(|after| after.as_secs() > 6),
            last_started: self.came_up,
            problem,
            ending_since: (!runs).then_some(self.pods_ending_since),
            finalizers: self
                .upheaval
                .keeps_pods()
                .then(|| "lab/hold".to_owned())
                .into_iter()
                .collect(),
            ..Pod::default()
        });
        own.into_iter().chain(self.standby.handed_over(true)).collect()
    }

    fn task_manager_pods(&self) -> Vec<Pod> {
        let ends_in = self.standby.workers_end_in;
        let own = self.workers.as_ref().filter(|_| ends_in != Some(0)).map(|workers| Pod {
            name: "orders-taskmanager-0".to_owned(),
            ending_since: (workers.fact.is_deleting || ends_in.is_some()).then_some(self.now),
            ..Pod::default()
        });
        own.into_iter().chain(self.standby.handed_over(false)).collect()
    }

    pub(super) fn jobs(&self) -> Vec<Job> {
        let job = |job: &Running| Job {
            id: job.id.clone(),
            name: "orders".to_owned(),
            state: job.state,
            start_time: job.started.as_millisecond(),
            modified: None,
        };
        self.job.iter().map(job).collect()
    }

    pub(super) fn checkpoints(&self) -> Checkpoints {
        let latest = self.job.as_ref().and_then(Running::newest);
        Checkpoints {
            latest: latest.map(|(_, path)| CompletedState { path: path.clone(), at: None }),
            ..Checkpoints::default()
        }
    }

    pub(super) fn ha_metadata(&self) -> HaMetadata {
        let entry = match self.status.job_status.job_id.as_ref() {
            Some(id) => self.ha.get(id),
            None => self.ha.values().next(),
        };
        HaMetadata { has_job: entry.is_some(), checkpoint: entry.copied().flatten() }
    }

    pub(super) fn stop(&self) -> Stop {
        let info = self.status.job_status.savepoint_info.as_ref();
        let asked = info.and_then(|info| info.trigger_id.as_ref());
        if asked.is_some() && asked == self.stopping.as_ref() {
            return Stop::Pending;
        }
        if asked.is_some_and(|id| self.unsaved.contains(id)) {
            return Stop::Failed { message: "the disk is full".to_owned() };
        }
        stop_on_record(&self.status.job_status, &self.triggers, &self.unstopped)
    }

    pub(super) fn trigger(&self, kind: SnapshotKind) -> Trigger {
        let noted = legacy::noted(&self.status.job_status, kind);
        let path = noted.and_then(|noted| self.triggers.get(&noted.trigger_id));
        path.map_or(Trigger::NotFound, |path| {
            let checkpoint = self.states.get(path).copied();
            Trigger::Completed { path: Some(path.clone()), checkpoint }
        })
    }

    /// The controller of snapshots takes them at once.
    pub(super) fn create_snapshot(&mut self, resource: &FlinkStateSnapshot) {
        let savepoint = resource.spec.savepoint.clone().unwrap_or_default();
        let name = resource.metadata.name.clone().unwrap();
        if self.snapshots.iter().any(|snapshot| snapshot.name == name) {
            // It was created before a crash.
            return;
        }
        let path = if savepoint.already_exists == Some(true) {
            savepoint.path
        } else {
            self.flink_savepoint(&name)
        };
        self.snapshots.push(KnownSnapshot {
            name,
            uid: String::new(),
            version: String::new(),
            kind: SnapshotKind::Savepoint,
            trigger_type: trigger_type(resource),
            state: if path.is_some() { SnapshotState::Completed } else { SnapshotState::Abandoned },
            created: self.now,
            path,
            nonce: None,
            asked_by: None,
            notices: Vec::new(),
            is_disposed_of: savepoint.dispose_on_delete == Some(true),
            is_deleting: false,
        });
    }

    /// Whether Flink needs the state: it will or may start from it, or names it as its newest.
    pub(super) fn is_in_use(&self, path: &str) -> bool {
        let submitted = self.submission.as_ref().and_then(|(_, path)| path.as_deref());
        let may_run_again = self.job_manager.is_some()
            && (!self.has_run || !self.is_high_availability_on)
            && submitted == Some(path);
        may_run_again || self.is_newest(path)
    }

    fn take_snapshot(&mut self, snapshot: &TakeSnapshot) {
        self.periodic.note_taken(snapshot);
        if snapshot.cause == Cause::Periodic {
            self.periodic.note(snapshot.kind, self.now);
        }
        let id = snapshot.request.trigger_id.clone();
        let path = match snapshot.cause {
            Cause::Upgrade if self.answers() => self.checkpoint(),
            Cause::Upgrade => None,
            Cause::Manual { .. } | Cause::Periodic => self.flink_savepoint(&id),
        };
        if let Some(path) = path {
            self.triggers.insert(id, path);
        }
    }

    /// Takes a savepoint of the running job, which continues.
    pub(super) fn flink_savepoint(&mut self, name: &str) -> Option<String> {
        let is_up = self.answers();
        let job = self.job.as_mut().filter(|job| is_up && job.state == JobStatusState::Running)?;
        let path = format!("s3://lake/sp/{name}");
        self.states.insert(path.clone(), job.records);
        job.savepoint = Some((job.records, path.clone()));
        self.saved = self.saved.max(job.records);
        Some(path)
    }

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
        if self.standby.runs_job() {
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
            if !self.standby.runs_job() {
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
        assert_eq!(self.pods_linger, 0, "a second JobManager beside the pods of the first");
        if let Some(workers) = &self.workers {
            assert!(!workers.fact.is_deleting, "a JobManager beside TaskManagers that go");
            assert_eq!(
                workers.image,
                image_in(&objects.deployment),
                "TaskManagers of another spec"
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
