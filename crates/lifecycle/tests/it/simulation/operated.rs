//! What the operator decides in the world of a deployment, and observes of it.

use super::*;

impl Operated for Sim {
    operated!(FlinkDeployment, DeploymentStatus);

    fn is_in_conflict(&self, step: &Step, known: &Self::Stored) -> bool {
        is_in_conflict(step, &Operated::stored(self), known)
    }

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
                    assert_is_left_alone(&self.resource, &plan);
                    return plan;
                }
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after fifteen questions: {facts:?}");
    }

    fn note_decision(&mut self, plan: &Plan) {
        self.decided(plan);
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
                    let excess = self.revisions.len().saturating_sub(REVISIONS_MAX);
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
        let error = self.status.error.as_deref();
        self.doubt.assert_asks_only_if_uncertain(Law::DeploymentAsks, error);
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
                let is_reported = is_up && self.haze.unread == 0;
                facts.checkpoints = fact(is_reported, || self.checkpoints());
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
        let problem = self.is_image_broken.then(no_such_image);
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
        self.job.iter().filter(|_| !self.is_unlisted).map(job).collect()
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
}
