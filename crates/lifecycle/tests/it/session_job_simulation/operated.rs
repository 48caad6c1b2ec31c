//! What the operator decides in the world of a session job, observes of it and does to it.

use super::*;

impl Operated for Sim {
    operated!(FlinkSessionJob, SessionJobStatus);

    fn stored(&self) -> Stored<SessionJobStatus> {
        (self.resource.metadata.generation, self.status.clone())
    }

    fn plan(&mut self) -> Plan {
        let fresh = Fresh { job_id: self.id(), trigger_id: self.id(), uuid: self.id() };
        let mut facts = Facts { stopped_at: self.upheaval.stopped_at.clone(), ..Facts::default() };
        let mut memo = Memo::default();
        for _ in 0..14 {
            let world = World {
                has_snapshot_resources: self.has_snapshot_resources,
                fresh: fresh.clone(),
                waits: self.upheaval.waits,
                periodic: self.periodic.clone(),
                went_back: self.went_back.clone(),
                validators: self.validators.clone(),
                facts: facts.clone(),
                memo: std::mem::take(&mut memo),
                remembered: Remembered {
                    failed_submission: self.failed_submission.clone(),
                    tried: self.tried,
                },
                ..World::new(
                    self.operator_now(),
                    (self.wanted.as_ref().unwrap_or(&self.resource), &self.status),
                    Some(&self.cluster),
                    &self.operator,
                )
            };
            let decision = decide(&world);
            memo = world.memo;
            match decision {
                Ok(plan) => {
                    if are_held(&facts.references) {
                        self.periodic.held = Some(self.operator_now());
                    }
                    self.upheaval.waits = plan.waits;
                    assert_is_left_alone(&self.resource, &plan);
                    return plan;
                }
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after all questions: {facts:?}");
    }

    fn note_decision(&mut self, plan: &Plan) {
        self.decided(plan);
        let is_seen = self.hears()
            && etcd_restore::is_alive(self.status.job_status.job_id.as_deref(), &self.listed());
        if is_seen {
            self.went_back = None;
        }
    }

    fn is_in_conflict(&self, step: &Step, known: &Stored<SessionJobStatus>) -> bool {
        match step {
            Step::WriteStatus(_) => self.status != known.1,
            Step::AddFinalizer
            | Step::RemoveFinalizer
            | Step::Own(SessionJobStep::SetSessionLabel { .. }) => self.stored() != *known,
            _ => false,
        }
    }

    /// Carries out a step; returns whether to continue with the next one.
    fn take(&mut self, step: &Step) -> bool {
        let is_refused = match step {
            Step::WriteStatus(_) => self.upheaval.stops_at(Refused::Status),
            Step::AddFinalizer
            | Step::RemoveFinalizer
            | Step::Own(SessionJobStep::SetSessionLabel { .. }) => {
                self.upheaval.stops_at(Refused::All)
            }
            _ => false,
        };
        if is_refused {
            return false;
        }
        match step {
            Step::AddFinalizer => {
                let finalizer = api::SESSION_JOB_FINALIZER.to_owned();
                self.resource.metadata.finalizers = Some(vec![finalizer]);
            }
            Step::RemoveFinalizer => self.resource.metadata.finalizers = None,
            Step::Own(SessionJobStep::SetSessionLabel { cluster }) => {
                let label = ("target.session".to_owned(), cluster.clone());
                self.resource.metadata.labels = Some([label].into());
            }
            // What only shows state holds up nothing.
            Step::RecordRevision(_) | Step::Snapshot(SnapshotStep::Create(_))
                if self.upheaval.is_refused(Refused::Records) => {}
            Step::WriteStatus(status) => store_session_job(&mut self.status, (**status).clone()),
            Step::Event(_) => {}
            Step::RecordRevision(superseded) => {
                if let RestorePoint::Path(path) = &superseded.restore_point {
                    self.revisions.push(path.clone());
                    let excess = self.revisions.len().saturating_sub(REVISIONS_MAX);
                    self.revisions.drain(..excess);
                }
            }
            Step::Snapshot(step) => self.take_snapshot_step(step),
            Step::Own(SessionJobStep::Remember(tried)) => self.tried = *tried,
            Step::ScaleJob { job_id, bounds } => {
                // Every other one is rejected.
                let is_refused = self.now.as_second() % 2 == 0;
                let Some(job) = self.flink_job(job_id).filter(|_| !is_refused) else {
                    return false;
                };
                job.parallelism = bounds[VERTEX].upper;
                self.scaled += 1;
            }
            Step::TriggerStop { job_id, trigger_id, .. } => {
                if self.hears() {
                    self.flink_stop(job_id, trigger_id);
                }
            }
            Step::CancelJob { job_id, .. } => {
                // Flink lets a cancelled job's tasks end first.
                if let Some(job) = self.flink_job(job_id) {
                    job.state = JobStatusState::Cancelling;
                }
            }
            Step::Own(SessionJobStep::Submit(submission)) => return self.submit(submission),
        }
        true
    }

    fn conclude(&mut self, plan: &Plan) {
        self.upheaval.stopped_at = None;
        if self.upheaval.stops_at(Refused::Status) {
            return;
        }
        store_session_job(&mut self.status, (*plan.status).clone());
        self.note_absence_of_state();
        let error = self.status.error.as_deref();
        self.doubt.assert_asks_only_if_uncertain(Law::SessionJobAsks, error);
        self.doubt.end_if(self.has_seen_all());
        self.assert_runs_as_recorded();
    }

    /// Drops what the process knew.
    fn die(&mut self) {
        self.failed_submission = None;
        self.tried = Tried::default();
        self.periodic = Memory::default();
        self.went_back = None;
        self.upheaval.stopped_at = None;
    }

    fn go_on(&mut self) {
        self.tick();
    }

    fn note_pause(&mut self) {
        self.doubt.hide();
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
        if choices.below(12) == 0 {
            self.stir(choices);
        }
    }
}

impl Sim {
    pub(crate) fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        self.crashing_pass(crash_at)
    }

    /// Whether the status has everything that can be observed now. That of an earlier job does not.
    pub(super) fn has_seen_all(&self) -> bool {
        let record = &self.status.job_status;
        let is_expected = self.delays || !self.late.is_empty() || self.went_back.is_some();
        let is_clear = self.away == 0 && !self.haze.is_any() && self.unlisted.is_none();
        let mine = self.mine().filter(|_| is_clear && !is_expected);
        mine.is_some_and(|job| {
            self.used.last() == Some(&job.id) && shows_all(record, job.state, job.newest())
        })
    }

    /// With high availability a job may have run under an earlier JobManager, whose statistics are gone: that this one
    /// names no state does not prove that there is none.
    pub(super) fn note_absence_of_state(&mut self) {
        let may_have_had_some = self.mine().is_some_and(|job| {
            job.newest().is_none() && self.job_manager_start > self.asked_for[&job.id]
        });
        if self.is_high_availability_on && may_have_had_some {
            self.doubt.hide();
        }
    }

    /// The law: what is recorded as deployed is what runs. A deletion ends what it finds.
    pub(super) fn assert_runs_as_recorded(&self) {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return;
        }
        let reconciliation = &self.status.reconciliation_status;
        let Some(text) = &reconciliation.last_reconciled_spec else { return };
        let last = ReconciledJob::parse(text).unwrap();
        let is_deployed = reconciliation.state == ReconciliationState::Deployed;
        if is_deployed
            && last.job_state() == JobState::Running
            && let Some(job) = self.mine()
        {
            assert_eq!(job.asked, asked(last.spec.job.as_ref()), "{}", Law::SessionJobRecord);
        }
    }

    /// Returns the time on the operator's clock.
    pub(super) fn operator_now(&self) -> Timestamp {
        self.now + self.upheaval.skew
    }

    /// Resets the API server's store to this state.
    pub(super) fn set_back(&mut self, resource: FlinkSessionJob, status: SessionJobStatus) {
        self.doubt.last();
        let record = |generation, status: &SessionJobStatus| {
            let generation: Option<i64> = generation;
            (generation, status.job_status.clone(), status.reconciliation_status.clone())
        };
        let known = record(self.resource.metadata.generation, &self.status);
        let listed = record(resource.metadata.generation, &status);
        let of = |(generation, job, reconciliation)| Record { generation, job, reconciliation };
        let went_back = etcd_restore::went_back(
            of((known.0, &known.1, &known.2)),
            of((listed.0, &listed.1, &listed.2)),
            resource.spec.job.as_ref(),
        );
        self.went_back = went_back.or(self.went_back.take());
        let nonce = resource.spec.job.as_ref().and_then(|job| job.savepoint_redeploy_nonce);
        self.named = self.named.take().filter(|_| nonce.is_some());
        (self.resource, self.status) = (resource, status);
    }

    /// Whether the last job still runs, which any process can tell from its id.
    pub(super) fn is_shown_by_what_runs(&self) -> bool {
        let last = self.went_back.as_ref().and_then(|known| known.job_id.as_ref());
        last != self.status.job_status.job_id.as_ref()
            && self.jobs.iter().any(|job| {
                Some(&job.id) == last
                    && job.state == JobStatusState::Running
                    && identity::is_of("u1", &job.id)
            })
    }

    pub(super) fn answer(&self, question: Question, facts: &mut Facts) {
        if self.upheaval.leaves_unknown(&question, facts) {
            return;
        }
        let is_up = self.hears();
        let is_reported = is_up && self.haze.unread == 0;
        match question {
            Question::Jobs => facts.jobs = fact(is_up, || self.listed()),
            Question::Checkpoints => facts.checkpoints = fact(is_reported, || self.checkpoints()),
            Question::Retention => {
                let retains = self.mine().is_none_or(|job| job.retains);
                facts.retention = fact(is_up, || retains);
            }
            Question::Stop => facts.stop = fact(is_up, || self.stop()),
            Question::Failure => facts.failure = fact(is_up, Failure::default),
            Question::Exceptions => facts.exceptions = fact(is_up, Vec::new),
            Question::Verdict => facts.verdict = Fact::Known(moody_verdict(self.now)),
            Question::Jar => facts.jar = Fact::Known(()),
            Question::Turn => facts.turn = Fact::Known(self.turn()),
            Question::JobMetrics => facts.job_metrics = fact(is_up, JobMetrics::default),
            Question::ResourceRequirements => {
                let upper = self.mine().map_or(1, |job| job.parallelism);
                let bounds = [(VERTEX.to_owned(), Bounds { lower: 1, upper })].into();
                facts.resource_requirements = fact(is_up, || bounds);
            }
            Question::Snapshots => facts.snapshots = Fact::Known(self.snapshots.clone()),
            Question::Savepoint | Question::Checkpoint => {
                facts.savepoint = fact(is_up, || self.trigger());
            }
            Question::Revisions => facts.revisions = Fact::Known(self.revisions.clone()),
            Question::References => {
                let foreign = self.foreign.as_deref();
                facts.references = Fact::Known(referred_to(&self.status.job_status, foreign));
            }
            Question::JobManagerStart => {
                facts.job_manager_start = Fact::Known(self.job_manager_start);
            }
            Question::DeployedConfig => {
                let kind = if self.is_high_availability_on { "kubernetes" } else { "NONE" };
                let options = [("high-availability.type", kind)];
                facts.deployed_config = Fact::Known(options.into_iter().collect());
            }
            Question::Nodes
            | Question::PodNodes
            | Question::JobManager
            | Question::TaskManagers
            | Question::Pods
            | Question::HaMetadata
            | Question::Cluster
            | Question::TaskManagerPods
            | Question::Remains
            | Question::SessionJobs
            | Question::Files(_)
            | Question::Preflight(_)
            | Question::StandbyPods
            | Question::Leader
            | Question::Refusal(_) => panic!("not asked of a session job"),
        }
    }

    /// Whether the JobManager's REST API answers.
    pub(super) fn hears(&self) -> bool {
        self.away == 0 && self.haze.silent == 0
    }

    pub(super) fn listed(&self) -> Vec<Job> {
        let job = |job: &Running| Job {
            id: job.id.clone(),
            name: "orders".to_owned(),
            state: job.state,
            start_time: 1,
            modified: None,
        };
        let is_listed = |job: &&Running| self.unlisted.as_ref() != Some(&job.id);
        self.jobs.iter().filter(is_listed).map(job).collect()
    }

    pub(super) fn mine(&self) -> Option<&Running> {
        let id = self.status.job_status.job_id.as_ref()?;
        self.jobs.iter().find(|job| job.id == *id)
    }

    pub(super) fn checkpoints(&self) -> Checkpoints {
        let latest = self.mine().and_then(Running::newest);
        Checkpoints {
            latest: latest.map(|(_, path)| CompletedState { path: path.clone(), at: None }),
            ..Checkpoints::default()
        }
    }

    pub(super) fn stop(&self) -> Stop {
        let info = self.status.job_status.savepoint_info.as_ref();
        let asked = info.and_then(|info| info.trigger_id.as_ref());
        if asked.is_some() && asked == self.stopping.as_ref().map(|(_, trigger)| trigger) {
            return Stop::Pending;
        }
        if asked.is_some_and(|id| self.unsaved.contains(id)) {
            return Stop::Failed { message: "the disk is full".to_owned() };
        }
        stop_on_record(&self.status.job_status, &self.triggers, &self.unstopped)
    }

    pub(super) fn trigger(&self) -> Trigger {
        match self.stop() {
            Stop::Completed { path } => Trigger::Completed { path: Some(path), checkpoint: None },
            _ => Trigger::NotFound,
        }
    }

    pub(super) fn take_snapshot_step(&mut self, step: &SnapshotStep) {
        if let Some(kind) = step.periodic() {
            self.periodic.note(kind, self.operator_now());
        }
        match step {
            SnapshotStep::Create(resource) => self.create_snapshot(resource),
            SnapshotStep::Delete { name, .. } => self.delete_snapshot(name),
            SnapshotStep::Take(snapshot) => {
                self.periodic.note_taken(snapshot);
                let id = snapshot.request.trigger_id.clone();
                if let Some(path) = self.flink_savepoint(&id) {
                    self.triggers.insert(id, path);
                }
            }
            SnapshotStep::Dispose { path, .. } => self.dispose(path),
        }
    }

    /// The controller of snapshots takes them at once.
    pub(super) fn create_snapshot(&mut self, resource: &FlinkStateSnapshot) {
        let savepoint = resource.spec.savepoint.clone().expect("no checkpoints in this world");
        let name = resource.metadata.name.clone().unwrap();
        let path = if savepoint.already_exists == Some(true) {
            savepoint.path
        } else {
            self.flink_savepoint(&name)
        };
        self.snapshots.retain(|known| known.name != name);
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

    /// Takes a savepoint of the running job, which continues.
    pub(super) fn flink_savepoint(&mut self, name: &str) -> Option<String> {
        let is_up = self.hears();
        let id = self.status.job_status.job_id.clone()?;
        let job = self.jobs.iter_mut().find(|job| job.id == id);
        let job = job.filter(|job| is_up && job.state == JobStatusState::Running)?;
        let (path, records) = (format!("s3://lake/sp/{name}"), job.records);
        job.savepoint = Some((records, path.clone()));
        self.states.insert(path.clone(), records);
        self.saved = self.saved.max(records);
        Some(path)
    }

    pub(super) fn flink_job(&mut self, id: &str) -> Option<&mut Running> {
        let is_up = self.hears();
        self.jobs
            .iter_mut()
            .find(|job| job.id == id && !job.state.is_globally_terminal())
            .filter(|_| is_up)
    }

    pub(super) fn flink_stop(&mut self, job_id: &str, trigger_id: &str) {
        if !self.is_slow {
            self.finish_stop(job_id, trigger_id);
        } else if self.stopping.is_none()
            && !self.unsaved.contains(trigger_id)
            && self.flink_job(job_id).is_some_and(|job| job.state == JobStatusState::Running)
        {
            self.stopping = Some((job_id.to_owned(), trigger_id.to_owned()));
        }
    }

    /// The savepoint of the stop in progress fails, and the job continues.
    pub(super) fn fail_savepoint(&mut self) {
        self.unsaved.extend(self.stopping.take().map(|(_, trigger)| trigger));
    }

    /// The savepoint of a stop is complete.
    pub(super) fn finish_stop(&mut self, job_id: &str, trigger_id: &str) {
        let is_new = !self.triggers.contains_key(trigger_id);
        let is_failing = is_new && self.fails_while_stopping;
        let ends = !is_failing && !self.unstopped.contains(trigger_id);
        let path = format!("s3://lake/sp/{trigger_id}");
        let is_it = |job: &&mut Running| job.id == job_id;
        let Some(job) = self.jobs.iter_mut().find(is_it) else { return };
        if job.state != JobStatusState::Running {
            return;
        }
        if ends {
            job.state = JobStatusState::Finished;
        }
        job.checkpoint = Some((job.records, path.clone()));
        let records = job.records;
        if is_failing {
            self.fails_while_stopping = false;
            self.unstopped.insert(trigger_id.to_owned());
        }
        self.states.insert(path.clone(), records);
        self.durable = self.durable.max(records);
        self.triggers.insert(trigger_id.to_owned(), path);
    }

    pub(super) fn submit(&mut self, submission: &Submission) -> bool {
        let Submission { job_id, savepoint_path, configuration, .. } = submission;
        self.asked_for.entry(job_id.clone()).or_insert(self.now);
        if !self.hears() || std::mem::take(&mut self.refuses) {
            return self.fail(submission, submission.may_arrive);
        }
        if self.taken.contains(job_id) {
            self.failed_submission = None;
            self.went_back = None;
            return true;
        }
        let restored = savepoint_path.as_ref().map(|path| {
            let records = *self.states.get(path).expect("a path that was never written");
            (records, path.clone())
        });
        let records = restored.as_ref().map_or(0, |(records, _)| *records);
        let is_named = self.named.take_if(|named| savepoint_path.as_ref() == Some(named)).is_some();
        if is_named {
            self.doubt.end();
        }
        assert_eq!(
            configuration.get("execution.savepoint.path"),
            None,
            "the request names the path"
        );
        let spec = self.resource.spec.job.as_ref().unwrap();
        if is_named || spec.upgrade_mode == UpgradeMode::Stateless {
            (self.durable, self.saved) = (records, records);
        } else {
            assert!(
                records >= self.durable.max(self.saved),
                "{}: started from {records} records although {} are durable and {} saved",
                Law::SessionJobState,
                self.durable,
                self.saved
            );
        }
        let job = Running {
            id: job_id.clone(),
            asked: submission.parallelism,
            state: JobStatusState::Running,
            records,
            checkpoint: restored,
            savepoint: None,
            parallelism: parallelism(configuration.get(OVERRIDES).map(String::as_str)),
            directory: configuration
                .get("execution.checkpointing.dir")
                .map_or("s3://lake/chk", String::as_str)
                .to_owned(),
            retains: configuration
                .get("execution.checkpointing.externalized-checkpoint-retention")
                .is_none_or(|value| value == "RETAIN_ON_CANCELLATION"),
        };
        let before = self.late.iter().find(|(_, late)| late.id == job.id);
        let law = Law::SessionJobOneJob;
        assert!(before.is_none_or(|(_, late)| *late == job), "{law}: one id for two submissions");
        if std::mem::take(&mut self.delays) {
            self.doubt.hide();
            self.late.push((self.now + SignedDuration::from_secs(LATE), job));
            let now = self.operator_now();
            let arrival = Arrival::again(submission.may_arrive, now, now);
            return self.fail(submission, Some(arrival));
        }
        self.failed_submission = None;
        self.went_back = None;
        self.start(job);
        true
    }

    pub(super) fn fail(&mut self, submission: &Submission, may_arrive: Option<Arrival>) -> bool {
        self.failed_submission = Some(FailedSubmission {
            job_id: submission.job_id.clone(),
            generation: self.resource.metadata.generation.unwrap(),
            message: "refused".to_owned(),
            http_response_code: Some(400),
            may_arrive,
            at: self.operator_now(),
            attempts: 1,
        });
        false
    }

    /// Flink starts a job; it does not accept the same id again.
    pub(super) fn start(&mut self, job: Running) {
        if self.taken.contains(&job.id) {
            return;
        }
        let runs = self.jobs.iter().filter(|job| !job.state.is_globally_terminal()).count();
        assert_eq!(runs, 0, "{}: a second job beside the first", Law::SessionJobOneJob);
        self.used.push(job.id.clone());
        self.taken.insert(job.id.clone());
        self.late.retain(|(_, late)| late.id != job.id);
        self.jobs.push(job);
    }
}
