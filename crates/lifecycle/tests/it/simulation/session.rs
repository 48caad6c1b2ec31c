//! Session clusters in the same kind of world: no job of their own, and jobs of others in them.

use crate::support::phases::store_deployment;
use api::deployment::{DeploymentMode, FlinkDeployment};
use api::status::{
    DeploymentStatus, JobManagerDeploymentStatus, JobStatusState, LifecycleState,
    ReconciliationState,
};
use api::version::FlinkVersion;
use config::cluster::is_high_availability_on;
use config::file::{parse_config_yaml, parse_flink_conf};
use config::{FlinkConfig, OperatorConfig};
use lifecycle::memo::Memo;
use lifecycle::notes::AWAITS_JOBS;
use lifecycle::plan::{ClusterStep, Plan, Step};
use lifecycle::reconcile::decide;
use lifecycle::world::{
    Cluster, Fact, Facts, Fresh, HaMetadata, Job, JobManager, Pod, PodProblem, Question,
    SessionJob, World,
};
use render::Objects;
use serde_json::json;
use testing::choices::{Choices, seeds};

use super::upheaval::{Refused, Upheaval, Upheaved};
use super::{
    BROKEN_IMAGE, COMES_TO_REST, Logged, RESTS_FOR, Workers, crashes, fact, image_in, names,
    show_on_failure,
};
use jiff::{SignedDuration, Timestamp};

mod upheaval;

#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) now: Timestamp,
    pub(crate) resource: FlinkDeployment,
    pub(crate) status: DeploymentStatus,
    operator: OperatorConfig,
    pub(crate) job_manager: Option<JobManager>,
    workers: Option<Workers>,
    replicas: i32,
    is_image_broken: bool,
    /// Seconds until the pods of a deleted JobManager are gone.
    pods_linger: u64,
    starts_in: u64,
    /// States of the jobs that others submitted.
    pub(crate) jobs: Vec<JobStatusState>,
    /// Names of the session jobs that refer to the cluster. The first jobs are theirs.
    pub(crate) referring: Vec<String>,
    /// Those of them that are being stopped.
    pub(crate) stopping: Vec<String>,
    has_ha_metadata: bool,
    metadata_unreadable: bool,
    /// JobManagers made so far.
    pub(crate) made: u64,
    /// Times that an Ingress was put in place while the cluster ran.
    ingresses_moved: u64,
    /// Options that the JobManager was made with.
    made_with: FlinkConfig,
    /// `$internal.flink.version` of it.
    made_version: Option<String>,
    upheaval: Upheaval,
    ids: u64,
    log: Vec<String>,
}

fn resource(mode: &str) -> FlinkDeployment {
    serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "lab", "namespace": "shop", "uid": "u1", "generation": 1},
        "spec": {
            "image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink",
            "mode": mode,
            "flinkConfiguration": {
                "taskmanager.numberOfTaskSlots": "2",
                "high-availability.type": "kubernetes",
                "high-availability.storageDir": "s3://lake/ha",
            },
            "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
            "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
        },
    }))
    .unwrap()
}

impl Session {
    pub(crate) fn new(mode: &str) -> Self {
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            resource: resource(mode),
            status: DeploymentStatus::default(),
            operator: OperatorConfig::default(),
            job_manager: None,
            workers: None,
            replicas: 1,
            is_image_broken: false,
            pods_linger: 0,
            starts_in: 0,
            jobs: vec![],
            referring: vec![],
            stopping: vec![],
            has_ha_metadata: false,
            metadata_unreadable: false,
            made: 0,
            ingresses_moved: 0,
            made_with: FlinkConfig::new(),
            made_version: None,
            upheaval: Upheaval::default(),
            ids: 0,
            log: vec![],
        }
    }

    /// One that is rolled back soon.
    fn with_rollback() -> Self {
        let mut sim = Self::new("native");
        for (key, value) in
            [("deployment.rollback.enabled", "true"), ("deployment.readiness.timeout", "20 s")]
        {
            let key = format!("kubernetes.operator.{key}");
            drop(sim.resource.spec.flink_configuration.0.insert(key, value.into()));
        }
        sim
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("{:032x}", self.ids)
    }

    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut FlinkDeployment)) {
        let before = self.resource.spec.clone();
        edit(&mut self.resource);
        if self.resource.spec != before {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
            let spec = &self.resource.spec;
            self.log.push(format!("  user: {:?} {:?}", spec.image, spec.flink_version));
        }
    }

    pub(crate) fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        let plan = self.plan();
        self.log.push(format!("{} {}: {:?}", self.now, plan.because, names(&plan.steps)));
        for (index, step) in plan.steps.iter().enumerate() {
            if crash_at == Some(index) {
                self.log.push(format!("  crash before step {index}"));
                return plan;
            }
            if !self.take(step) {
                return plan;
            }
        }
        if crash_at.is_none() {
            let mut end = (*plan.status).clone();
            self.upheaval.note_unfinished(&mut end);
            if !self.upheaval.stops_at(Refused::Status) {
                store_deployment(&mut self.status, end);
            }
        }
        plan
    }

    fn plan(&mut self) -> Plan {
        let fresh = Fresh { job_id: self.id(), trigger_id: self.id(), uuid: self.id() };
        let mut facts = Facts { stopped_at: self.upheaval.stopped_at.clone(), ..Facts::default() };
        let mut memo = Memo::default();
        for _ in 0..15 {
            let world = World {
                fresh: fresh.clone(),
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
                Ok(plan) => return plan,
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after fifteen questions: {facts:?}");
    }

    pub(crate) fn is_up(&self) -> bool {
        self.job_manager.as_ref().is_some_and(|jm| jm.available_replicas > 0 && !jm.is_deleting)
    }

    fn answer(&self, question: Question, facts: &mut Facts) {
        let is_up = self.is_up();
        match question {
            Question::JobManager => facts.job_manager = Fact::Known(self.job_manager.clone()),
            Question::TaskManagers => {
                facts.task_managers = Fact::Known(self.workers.as_ref().map(|w| w.fact.clone()));
            }
            Question::Pods => facts.pods = Fact::Known(self.pods()),
            Question::TaskManagerPods => facts.task_manager_pods = Fact::Known(vec![]),
            Question::Jobs => facts.jobs = fact(is_up, || self.jobs()),
            Question::Cluster => facts.cluster = fact(is_up, Cluster::default),
            Question::SessionJobs => {
                let of = |(index, name): (usize, &String)| SessionJob {
                    name: name.clone(),
                    job_id: Some(format!("{index:032x}")),
                    is_active: self
                        .jobs
                        .get(index)
                        .is_some_and(|state| !state.is_globally_terminal()),
                    is_stopping: self.stopping.contains(name),
                };
                let all = self.referring.iter().enumerate().map(of);
                facts.session_jobs = Fact::Known(all.collect());
            }
            Question::HaMetadata if self.metadata_unreadable => {
                facts.ha_metadata = Fact::Unknown("it is reached over TLS".to_owned());
            }
            Question::HaMetadata => {
                let has_job = self.has_ha_metadata && self.has_running_jobs();
                facts.ha_metadata = Fact::Known(HaMetadata { has_job, has_checkpoint: has_job });
            }
            Question::Refusal(_) => facts.refusal = Fact::Known(self.upheaval.foretold()),
            Question::DeployedConfig => {
                facts.deployed_config = Fact::Known(self.made_with.clone());
            }
            other @ (Question::Checkpoints
            | Question::Retention
            | Question::Stop
            | Question::Failure
            | Question::JobMetrics
            | Question::ResourceRequirements
            | Question::Snapshots
            | Question::Savepoint
            | Question::Checkpoint
            | Question::Revisions
            | Question::References
            | Question::Nodes
            | Question::PodNodes
            | Question::JobManagerStart
            | Question::Jar
            | Question::Verdict
            | Question::Exceptions) => panic!("{other:?} is about a job"),
        }
    }

    fn jobs(&self) -> Vec<Job> {
        let job = |(index, state): (usize, &JobStatusState)| Job {
            id: format!("{index:032x}"),
            name: "query".to_owned(),
            state: *state,
            start_time: 1,
            modified: None,
        };
        self.jobs.iter().enumerate().map(job).collect()
    }

    fn pods(&self) -> Vec<Pod> {
        let problem = self.is_image_broken.then(|| PodProblem {
            reason: "ImagePullBackOff".to_owned(),
            message: "[flink-main-container] no such image".to_owned(),
        });
        let created = self.job_manager.as_ref().and_then(|jm| jm.created);
        let runs = self.job_manager.as_ref().is_some_and(|jm| !jm.is_stopped);
        let is_there = runs || self.pods_linger > 0;
        let pod = Pod {
            name: "lab-0".to_owned(),
            created,
            problem,
            ending_since: (!runs).then_some(self.now),
            ..Pod::default()
        };
        is_there.then_some(pod).into_iter().collect()
    }

    /// Whether to go on with the next step.
    fn take(&mut self, step: &Step) -> bool {
        match step {
            Step::AddFinalizer => {
                let finalizer = api::DEPLOYMENT_FINALIZER.to_owned();
                self.resource.metadata.finalizers = Some(vec![finalizer]);
            }
            Step::RemoveFinalizer => self.resource.metadata.finalizers = None,
            Step::WriteStatus(_) if self.upheaval.stops_at(Refused::Status) => return false,
            Step::WriteStatus(status) => store_deployment(&mut self.status, (**status).clone()),
            Step::RecordRevision(_) if self.upheaval.stops_at(Refused::Records) => return false,
            Step::Event(_) | Step::RecordRevision(_) => {}
            Step::Own(ClusterStep::ApplyIngress(_)) => self.ingresses_moved += 1,
            Step::Own(ClusterStep::StopJobManager { uid, .. }) => {
                self.assert_loses_no_job();
                let found = self.job_manager.as_mut().filter(|jm| jm.uid == *uid);
                if let Some(job_manager) = found {
                    job_manager.is_stopped = true;
                    job_manager.is_deleting = true;
                    job_manager.available_replicas = 0;
                    self.pods_linger = 3;
                    self.end_jobs_that_nothing_keeps();
                }
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
            Step::Own(ClusterStep::ScaleTaskManagers { uid: _, replicas }) => {
                assert!(self.workers.is_some(), "nothing to scale");
                self.replicas = *replicas;
            }
            Step::Own(ClusterStep::DeleteHaMetadata { .. }) => {
                let is_deleting = self.resource.metadata.deletion_timestamp.is_some();
                assert!(is_deleting, "HA metadata is what brings the jobs back");
                self.has_ha_metadata = false;
            }
            Step::Own(ClusterStep::FinishCluster(objects)) => self.finish(objects),
            Step::Own(ClusterStep::CreateCluster(_))
                if self.upheaval.stops_at(Refused::JobManager) =>
            {
                return false;
            }
            Step::Own(ClusterStep::CreateCluster(objects)) => self.create(objects),
            Step::Snapshot(_)
            | Step::TriggerStop { .. }
            | Step::ScaleJob { .. }
            | Step::CancelJob { .. }
            | Step::Own(ClusterStep::ForgetJobGraphs { .. }) => {
                panic!("{:?} is about a job", names(std::slice::from_ref(step)))
            }
        }
        true
    }

    fn create_workers(&mut self, objects: &Objects) {
        if self.workers.is_none() {
            let uid = self.id();
            self.workers = Workers::of(objects, uid);
            if let Some(task_managers) = &objects.task_managers {
                let replicas = task_managers["spec"]["replicas"].as_i64().unwrap();
                self.replicas = i32::try_from(replicas).unwrap();
            }
        }
    }

    fn create(&mut self, objects: &Objects) {
        if self.job_manager.is_some() {
            return;
        }
        assert!(self.resource.metadata.deletion_timestamp.is_none(), "started while being deleted");
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
        self.is_image_broken = image_in(&objects.deployment) == BROKEN_IMAGE;
        self.starts_in = 4;
        self.made += 1;
        let given = &objects.config_maps[0]["data"];
        let config = match given["config.yaml"].as_str() {
            Some(yaml) => parse_config_yaml(yaml).unwrap(),
            None => parse_flink_conf(given["flink-conf.yaml"].as_str().unwrap()),
        };
        self.recover_jobs(&config);
        self.job_manager = Some(JobManager {
            uid: self.id(),
            owner_uid: Some("u1".to_owned()),
            generation: generation.parse().ok(),
            replicas: 1,
            was_never_available: true,
            created: Some(self.now),
            ..JobManager::default()
        });
        self.finish(objects);
    }

    /// Jobs of a JobManager that sees its TaskManagers go fail for good, and are not run again.
    fn delete_job_manager(&mut self) {
        if self.job_manager.take_if(|jm| jm.is_stopped).is_none() {
            self.assert_ends_no_job();
            self.has_ha_metadata &= !self.is_up();
            self.lose_job_manager();
        }
    }

    pub(crate) fn lose_job_manager(&mut self) {
        self.job_manager = None;
        self.pods_linger = 3;
        self.end_jobs_that_nothing_keeps();
    }

    fn end_jobs_that_nothing_keeps(&mut self) {
        if !self.has_ha_metadata {
            self.jobs.clear();
        }
    }

    /// A second passes.
    pub(crate) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.upheaval.tick();
        self.pods_linger = self.pods_linger.saturating_sub(1);
        self.starts_in = self.starts_in.saturating_sub(1);
        if self.workers.as_mut().is_some_and(|workers| !workers.tick()) {
            self.workers = None;
        }
        let is_broken = self.is_image_broken;
        if let Some(job_manager) =
            self.job_manager.as_mut().filter(|jm| !is_broken && !jm.is_stopped)
            && self.starts_in == 0
        {
            job_manager.available_replicas = 1;
            job_manager.was_never_available = false;
            self.has_ha_metadata |= is_high_availability_on(&self.made_with);
        }
    }

    fn misfortune(&mut self, choices: &mut Choices) {
        match choices.below(9) {
            0 => self.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned())),
            1 | 2 => self.edit(|r| r.spec.image = Some("flink:1.20".to_owned())),
            3 => self.edit(|r| r.spec.restart_nonce = Some(r.spec.restart_nonce.unwrap_or(0) + 1)),
            // Edits that cannot work.
            4 => self.edit(|r| r.spec.service_account = None),
            5 => self.edit(|r| r.spec.job = Some(api::job::JobSpec::default())),
            6 if self.job_manager.is_some() => self.lose_job_manager(),
            7 => self.workers = None,
            _ => self.edit(|r| {
                r.spec.job = None;
                r.spec.service_account = Some("flink".to_owned());
            }),
        }
    }

    fn heal(&mut self) {
        self.end_upheaval();
        self.edit(|r| {
            r.spec.image = Some("flink:1.20".to_owned());
            r.spec.service_account = Some("flink".to_owned());
            r.spec.job = None;
        });
    }

    fn is_stable(&self) -> bool {
        let is_standalone = self.resource.spec.mode == Some(DeploymentMode::Standalone);
        self.status.lifecycle_state == Some(LifecycleState::Stable)
            && self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
            && self.status.observed_generation == self.resource.metadata.generation
            && self.workers.is_some() == is_standalone
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..200 {
            self.tick();
            self.pass(None);
            if self.is_stable() {
                return;
            }
        }
        panic!("not stable: {:?} {:?}", self.status.lifecycle_state, self.status.error);
    }

    /// The law: left alone for long enough, the operator writes nothing any more.
    fn assert_comes_to_rest(&mut self) {
        for second in 0..COMES_TO_REST + RESTS_FOR * 3 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            let is_quiet = plan.steps.is_empty() && self.status == before;
            assert!(second < COMES_TO_REST || is_quiet, "at rest: {:?}", names(&plan.steps));
        }
    }

    pub(crate) fn mark_for_deletion(&mut self) {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now);
        self.resource.metadata.deletion_timestamp = Some(now);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
    }

    pub(crate) fn message(&self) -> String {
        let error = self.status.error.as_deref().unwrap_or_default();
        lifecycle::error_document::message_of(error)
    }
}

impl Logged for Session {
    fn log(&self) -> &[String] {
        &self.log
    }
}

#[test]
fn a_new_session_cluster_becomes_stable_and_is_then_left_alone() {
    for mode in ["native", "standalone"] {
        let mut sim = Session::new(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            let condition = sim.status.conditions[0].clone();
            assert_eq!(condition.reason.as_deref(), Some("JobManagerReady"));
            assert_eq!(sim.status.job_status.state, None);
            for _ in 0..5 {
                sim.tick();
                let before = sim.status.clone();
                let plan = sim.pass(None);
                assert!(plan.steps.is_empty(), "{mode}: at rest: {:?}", names(&plan.steps));
                assert_eq!(before, sim.status, "{mode}");
            }
        });
    }
}

#[test]
fn users_faults_and_crashes_leave_one_good_session_cluster() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Session::new(if seed % 2 == 0 { "native" } else { "standalone" });
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..80 {
                sim.tick();
                if choices.below(9) == 0 {
                    sim.misfortune(&mut choices);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
    }
}

#[test]
fn a_change_of_the_spec_makes_exactly_one_new_cluster() {
    let mut sim = Session::new("standalone");
    sim.settle();
    sim.edit(|r| r.spec.restart_nonce = Some(1));
    crashes(12, |crash| {
        let mut steps = 0;
        show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
            for pass in 0..=crash.pass {
                sim.tick();
                steps = sim.pass(crash.in_pass(pass)).steps.len();
            }
            sim.settle();
            assert_eq!(sim.made, 2);
        });
        steps
    });
}

#[test]
fn a_bad_edit_leaves_the_session_cluster_alone() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.edit(|r| r.spec.job = Some(api::job::JobSpec::default()));
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.message().contains("cannot become an application"), "{}", sim.message());
    assert_eq!(sim.made, 1);
    assert!(sim.is_up());
    let condition = sim.status.conditions[0].clone();
    assert_eq!(condition.reason.as_deref(), Some("JobManagerReady"));
}

/// The Java operator stumbles over the job that there is not.
#[test]
fn q04_an_invalid_edit_does_not_stop_the_upgrade_of_a_session_cluster() {
    for mode in ["native", "standalone"] {
        let mut sim = Session::new(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            sim.edit(|r| r.spec.restart_nonce = Some(1));
            sim.tick();
            sim.pass(None);
            let state = sim.status.reconciliation_status.state;
            assert_eq!((state, sim.made), (ReconciliationState::Upgrading, 1), "{mode}");
            sim.edit(|r| r.spec.service_account = None);
            for _ in 0..30 {
                sim.tick();
                sim.pass(None);
            }
            assert!(sim.is_up(), "{mode}");
            assert!(sim.message().contains("serviceAccount"), "{mode}: {}", sim.message());
            sim.heal();
            sim.settle();
            assert_eq!(sim.made, 2, "{mode}: the one that was asked for");
        });
    }
}

/// The Java operator asks for HA metadata of a job here too.
#[test]
fn q07_a_session_cluster_is_rolled_back_without_metadata_of_a_job() {
    let mut sim = Session::with_rollback();
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        for _ in 0..60 {
            sim.tick();
            sim.pass(None);
        }
        assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
        assert!(sim.is_up() && !sim.is_image_broken);
        assert_eq!(sim.made, 3, "the stable one, the one that failed, the stable one");
    });
}

#[test]
fn reactive_task_managers_are_scaled_in_place() {
    let scale = |sim: &mut Session, replicas| {
        sim.edit(|r| r.spec.task_manager.as_mut().unwrap().replicas = Some(replicas));
        sim.settle();
        let info = sim.status.task_manager.clone().unwrap();
        assert_eq!((info.replicas, sim.replicas), (replicas, replicas));
        assert_eq!(info.label_selector, "component=taskmanager,app=lab");
        sim.made
    };
    let mut sim = Session::new("standalone");
    sim.edit(|r| {
        drop(r.spec.flink_configuration.0.insert("scheduler-mode".to_owned(), "REACTIVE".into()));
    });
    sim.settle();
    assert_eq!(scale(&mut sim, 3), 1, "the JobManager goes on");
    assert_eq!(scale(&mut sim, 1), 1);
    sim.edit(|r| {
        r.spec.ingress = serde_json::from_value(json!({"template": "lab.example.com"})).unwrap();
    });
    assert_eq!(scale(&mut sim, 2), 1);
    assert_eq!(sim.ingresses_moved, 1, "what is changed beside the scale is not forgotten");

    let mut sim = Session::new("standalone");
    sim.settle();
    assert_eq!(scale(&mut sim, 3), 2, "not reactive: the cluster is replaced");
}

#[test]
fn who_needs_the_cluster_keeps_it_from_being_deleted() {
    for mode in ["native", "standalone"] {
        let mut sim = Session::new(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            sim.referring = vec!["a".to_owned(), "b".to_owned()];
            sim.jobs = vec![JobStatusState::Finished, JobStatusState::Running];
            sim.mark_for_deletion();
            let wait = |sim: &mut Session| {
                for _ in 0..30 {
                    sim.tick();
                    sim.pass(None);
                }
            };
            wait(sim);
            assert_eq!(sim.message(), "The session jobs [a, b] should be deleted first");
            assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::Deleting));
            sim.referring.clear();
            wait(sim);
            assert_eq!(
                sim.message(),
                "The session cluster has non terminated jobs [00000000000000000000000000000001] \
                 that should be cancelled first"
            );
            assert!(sim.is_up() && !sim.is_gone());
            sim.jobs[1] = JobStatusState::Canceled;
            wait(sim);
            assert!(sim.is_gone() && sim.job_manager.is_none() && sim.workers.is_none());
            assert!(!sim.has_ha_metadata);
        });
    }
}

#[test]
fn jobs_of_a_job_manager_that_is_away_keep_the_cluster_for_a_while() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 60;
    sim.mark_for_deletion();
    for _ in 0..50 {
        sim.tick();
        sim.pass(None);
    }
    assert!(!sim.is_gone() && sim.has_ha_metadata, "{}", sim.message());
    for _ in 0..20 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.message().contains("non terminated jobs"), "{}", sim.message());

    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 10_000;
    for _ in 0..400 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone(), "it never answers: {}", sim.message());
    assert!(sim.has_ha_metadata, "all that leads to its job's state is kept");
}

/// One that sees its TaskManagers go fails jobs that have no restarts left, with their HA metadata.
#[test]
fn a_job_manager_that_never_answers_ends_before_its_task_managers() {
    for mode in ["native", "standalone"] {
        for crash_at in [None, Some(0), Some(1)] {
            let mut sim = Session::new(mode);
            sim.settle();
            sim.jobs = vec![JobStatusState::Running];
            sim.job_manager.as_mut().unwrap().available_replicas = 0;
            sim.starts_in = 10_000;
            sim.mark_for_deletion();
            let mut has_ended = false;
            for second in 0..400 {
                sim.tick();
                has_ended |= sim.pods().is_empty();
                let plan = sim.pass(crash_at.filter(|_| second % 3 == 0));
                let removes = names(&plan.steps).iter().any(|name| name.starts_with("delete-"));
                assert!(has_ended || !removes, "{mode}: {}", plan.because);
            }
            assert!(sim.is_gone() && sim.has_ha_metadata, "{mode}: {}", sim.message());
        }
    }
}

/// Nothing of Kubernetes ends the pods: the resource goes all the same.
#[test]
fn a_job_manager_that_never_ends_does_not_keep_the_resource_for_ever() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 10_000;
    sim.mark_for_deletion();
    for _ in 0..1_500 {
        sim.pods_linger = 3;
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone() && sim.has_ha_metadata, "{}", sim.message());
}

#[test]
fn an_operator_that_was_away_waits_for_a_job_manager_from_when_it_looks_first() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 10_000;
    sim.mark_for_deletion();
    sim.now += SignedDuration::from_mins(10);
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    assert!(!sim.is_gone() && sim.job_manager.is_some(), "{}", sim.message());
    sim.starts_in = 0;
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.message().contains("non terminated jobs"), "{}", sim.message());
    assert!(!sim.status.cluster_info.contains_key("AwaySince"));
}

#[test]
fn jobs_of_a_cluster_without_a_process_keep_their_metadata_when_it_is_deleted() {
    for is_missing in [false, true] {
        let mut sim = Session::new("native");
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        if is_missing {
            // Lost, and nobody looked before the deletion.
            sim.lose_job_manager();
        } else {
            let job_manager = sim.job_manager.as_mut().unwrap();
            job_manager.replicas = 0;
            job_manager.available_replicas = 0;
            sim.starts_in = 10_000;
        }
        sim.mark_for_deletion();
        let mut told = false;
        for _ in 0..60 {
            sim.tick();
            let plan = sim.pass(None);
            told |= plan.steps.iter().any(|step| {
                matches!(step, Step::Event(event) if event.message.contains("HA metadata is kept"))
            });
        }
        assert!(sim.is_gone() && told, "{is_missing}: {}", sim.message());
        assert!(sim.has_ha_metadata, "{is_missing}");
    }
}

#[test]
fn an_upgrade_under_way_does_not_move_the_metadata_of_jobs() {
    let edit = |sim: &mut Session, key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        sim.edit(|r| drop(r.spec.flink_configuration.0.insert(key, value.into())));
    };
    let wait = |sim: &mut Session| {
        for _ in 0..30 {
            sim.tick();
            sim.pass(None);
        }
    };
    for is_seen_broken in [false, true] {
        let mut sim = Session::new("native");
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        if is_seen_broken {
            wait(&mut sim);
        } else {
            sim.tick();
            sim.pass(None);
        }
        let made = sim.made;
        edit(&mut sim, "high-availability.type", "zookeeper");
        edit(&mut sim, "high-availability.zookeeper.quorum", "zookeeper:2181");
        wait(&mut sim);
        assert_eq!(sim.made, made, "{is_seen_broken}: {}", sim.message());
        assert!(sim.message().contains("whether jobs run cannot be read"), "{}", sim.message());
        // It is taken back, and goes on.
        edit(&mut sim, "high-availability.type", "kubernetes");
        sim.heal();
        sim.settle();
        assert!(sim.is_up(), "{is_seen_broken}");
    }
}

#[test]
fn a_cluster_with_jobs_does_not_move_their_metadata() {
    let move_to = |sim: &mut Session, servers: &str| {
        for (key, value) in
            [("type", "zookeeper"), ("zookeeper.quorum", servers), ("zookeeper.path.root", "/jobs")]
        {
            let key = format!("high-availability.{key}");
            sim.edit(|r| drop(r.spec.flink_configuration.0.insert(key, value.into())));
        }
        for _ in 0..30 {
            sim.tick();
            sim.pass(None);
        }
    };
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    move_to(&mut sim, "zookeeper:2181");
    assert_eq!(sim.made, 1, "{}", sim.message());
    assert!(sim.message().contains("have not ended"), "{}", sim.message());
    sim.jobs = vec![JobStatusState::Canceled];
    move_to(&mut sim, "zookeeper-2:2181");
    assert_eq!(sim.made, 2, "{}", sim.message());
}

fn version(sim: &mut Session, version: FlinkVersion) {
    sim.edit(|r| r.spec.flink_version = Some(version));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
}

/// Flink 2 looks for graphs of jobs elsewhere than Flink 1, and no version promises to read another's.
#[test]
fn a_cluster_with_jobs_keeps_its_flink_version() {
    for to in [FlinkVersion::V2_1, FlinkVersion::V1_19] {
        let mut sim = Session::new("native");
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        version(&mut sim, to);
        assert_eq!(sim.made, 1, "{}", sim.message());
        assert!(sim.message().contains("query (00000000000000000000000000000000)"), "{to}");
        assert!(sim.message().contains("suspend sessionjob/NAME"), "{}", sim.message());
        version(&mut sim, FlinkVersion::V1_20);
        assert_eq!((sim.made, sim.message().as_str()), (1, ""), "{to}: it was taken back");
        assert!(sim.is_up() && sim.is_stable());
        version(&mut sim, to);
        assert_eq!(sim.made, 1, "{}", sim.message());
        sim.jobs = vec![JobStatusState::Finished];
        sim.settle();
        assert_eq!(sim.made, 2, "what is suspended is in no metadata");
    }
}

fn awaits_jobs(sim: &Session) -> bool {
    AWAITS_JOBS.get(&sim.status.cluster_info).is_some()
}

#[test]
fn a_cluster_without_high_availability_waits_until_its_jobs_have_left() {
    let mut sim = Session::new("native");
    sim.resource.spec.flink_configuration.0.remove("high-availability.type");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    version(&mut sim, FlinkVersion::V2_1);
    let unmanaged =
        "[query (00000000000000000000000000000000)] of the session cluster belong to no";
    assert!(sim.message().contains(unmanaged), "{}", sim.message());
    assert!(
        sim.made == 1 && !awaits_jobs(&sim),
        "nobody is asked to leave for what only its user can end"
    );

    sim.referring = vec!["a".to_owned()];
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!((sim.made, sim.message().as_str()), (1, ""));
    assert!(awaits_jobs(&sim) && sim.is_up());
    version(&mut sim, FlinkVersion::V1_20);
    assert!(sim.made == 1 && !awaits_jobs(&sim), "the edit was taken back");

    version(&mut sim, FlinkVersion::V2_1);
    sim.jobs = vec![JobStatusState::Finished];
    sim.settle();
    assert!(sim.made == 2 && !awaits_jobs(&sim));
    sim.assert_comes_to_rest();
}

#[test]
fn jobs_end_with_their_cluster_where_its_user_says_so() {
    let mut sim = Session::new("native");
    let options = &mut sim.resource.spec.flink_configuration.0;
    options.remove("high-availability.type");
    options.insert("kubernetes.operator.session.upgrade.wait-for-jobs".to_owned(), "false".into());
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, 2, "{}", sim.message());
}

#[test]
fn to_turn_high_availability_off_waits_for_the_jobs() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.edit(|r| drop(r.spec.flink_configuration.0.remove("high-availability.type")));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert!(
        sim.made == 1 && sim.message().contains("belong to no FlinkSessionJob"),
        "{}",
        sim.message()
    );
}

#[test]
fn an_upgrade_under_way_does_not_change_the_flink_version_under_jobs() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    sim.tick();
    sim.pass(None);
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, 1, "{}", sim.message());
    assert!(sim.message().contains("back to v1_20"), "{}", sim.message());
    version(&mut sim, FlinkVersion::V1_20);
    sim.settle();
    assert_eq!(sim.made, 2, "it is taken back, and goes on");

    // While what is rolled back is removed.
    let mut sim = Session::with_rollback();
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
    while sim.status.reconciliation_status.state != ReconciliationState::RollingBack {
        sim.tick();
        sim.pass(None);
    }
    let made = sim.made;
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, made, "{}", sim.message());
    assert!(sim.message().contains("back to v1_20"), "{}", sim.message());
}

/// The operator was away while the cluster came up, jobs were submitted, and its JobManager was lost.
fn lost_with_jobs_that_nobody_saw() -> Session {
    let mut sim = Session::new("native");
    while !sim.is_up() {
        sim.tick();
        if sim.job_manager.is_none() {
            sim.pass(None);
        }
    }
    assert_eq!(sim.status.reconciliation_status.last_stable_spec, None);
    sim.jobs = vec![JobStatusState::Running];
    sim.lose_job_manager();
    sim
}

#[test]
fn jobs_that_nobody_saw_keep_their_metadata_when_the_cluster_is_deleted() {
    let mut sim = lost_with_jobs_that_nobody_saw();
    sim.mark_for_deletion();
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone() && sim.has_ha_metadata, "{}", sim.message());
}

#[test]
fn jobs_that_nobody_saw_keep_the_flink_version() {
    let mut sim = lost_with_jobs_that_nobody_saw();
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, 2, "it is made again as it was: {}", sim.message());
    assert!(sim.is_up() && sim.message().contains("back to v1_20"), "{}", sim.message());
    sim.jobs = vec![JobStatusState::Finished];
    sim.settle();
    assert_eq!(sim.made, 3);
}

#[test]
fn a_flink_version_that_does_not_come_up_can_be_taken_back() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
    version(&mut sim, FlinkVersion::V2_1);
    let made = sim.made;
    assert!(!sim.is_up() && made > 1, "{}", sim.message());
    sim.edit(|r| r.spec.image = Some("flink:1.20".to_owned()));
    version(&mut sim, FlinkVersion::V1_20);
    assert_eq!(sim.made, made + 1, "no job is in its metadata: {}", sim.message());
    sim.settle();
}

/// A default that moved since would have them looked for in another place than the cluster's own.
#[test]
fn metadata_that_are_not_found_where_the_cluster_never_kept_any_say_nothing_of_its_jobs() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.made_with = parse_flink_conf(
        "high-availability.type: zookeeper\nhigh-availability.zookeeper.quorum: zookeeper:2181\n",
    );
    sim.is_image_broken = true;
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert_eq!(sim.made, 1, "{}", sim.message());
    assert!(sim.message().contains("whether jobs run cannot be read"), "{}", sim.message());
}

#[test]
fn after_a_rollback_the_metadata_of_jobs_are_where_the_cluster_that_runs_keeps_them() {
    let mut sim = Session::with_rollback();
    let wait = |sim: &mut Session| {
        for _ in 0..60 {
            sim.tick();
            sim.pass(None);
        }
    };
    sim.settle();
    let place = sim.resource.spec.flink_configuration.clone();
    sim.edit(|r| {
        r.spec.image = Some(BROKEN_IMAGE.to_owned());
        for (key, value) in [("type", "zookeeper"), ("zookeeper.quorum", "zookeeper:2181")] {
            let key = format!("high-availability.{key}");
            drop(r.spec.flink_configuration.0.insert(key, value.into()));
        }
    });
    wait(&mut sim);
    assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
    sim.jobs = vec![JobStatusState::Running];
    let made = sim.made;
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    wait(&mut sim);
    assert_eq!(sim.made, made, "its jobs would not be found: {}", sim.message());
    assert!(sim.message().contains("have not ended"), "{}", sim.message());
    sim.edit(|r| r.spec.flink_configuration = place);
    wait(&mut sim);
    assert_eq!(sim.made, made + 1, "nothing moves: {}", sim.message());
}

#[test]
fn metadata_that_no_look_will_ever_read_do_not_hold_the_deletion_up() {
    let mut sim = Session::new("native");
    for (key, value) in [
        ("high-availability.type", "zookeeper"),
        ("high-availability.zookeeper.quorum", "zookeeper:2181"),
        ("env.java.opts.all", "-Dzookeeper.client.secure=true"),
    ] {
        drop(sim.resource.spec.flink_configuration.0.insert(key.to_owned(), value.into()));
    }
    sim.metadata_unreadable = true;
    sim.settle();
    sim.mark_for_deletion();
    for _ in 0..20 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone(), "{}", sim.message());
}

#[test]
fn options_let_a_needed_cluster_go() {
    for (option, has_session_jobs) in [
        ("kubernetes.operator.session.deletion.block-on-session-jobs", true),
        ("kubernetes.operator.session.deletion.block-on-unmanaged-jobs", false),
    ] {
        let mut sim = Session::new("native");
        sim.edit(|r| drop(r.spec.flink_configuration.0.insert(option.to_owned(), "false".into())));
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        sim.referring = if has_session_jobs { vec!["a".to_owned()] } else { vec![] };
        sim.mark_for_deletion();
        for _ in 0..30 {
            sim.tick();
            sim.pass(None);
        }
        assert!(sim.is_gone(), "{option}: {}", sim.message());
    }
}

#[test]
fn a_cluster_that_was_never_deployed_just_goes() {
    let mut sim = Session::new("native");
    sim.edit(|r| r.spec.service_account = None);
    sim.referring = vec!["a".to_owned()];
    sim.tick();
    sim.pass(None);
    assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::Failed));
    sim.mark_for_deletion();
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone());
    assert_eq!(sim.made, 0);
}

#[test]
fn deletion_of_a_session_cluster_ends_whatever_its_state() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Session::new(if seed % 2 == 0 { "native" } else { "standalone" });
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..choices.below(40) {
                sim.tick();
                if choices.below(6) == 0 {
                    sim.misfortune(&mut choices);
                }
                sim.pass(None);
            }
            sim.mark_for_deletion();
            // A JobManager that is away is waited for, five minutes.
            for _ in 0..400 {
                sim.tick();
                let crash_at = choices.crash(4, 4);
                sim.pass(crash_at);
            }
            assert!(sim.is_gone() && sim.job_manager.is_none() && sim.workers.is_none());
        });
    }
}
