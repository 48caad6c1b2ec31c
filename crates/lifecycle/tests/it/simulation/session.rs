//! Session clusters in the same kind of world: without a job of their own, but with session jobs.

use crate::support::operated::{Next, Operated, Stored, is_in_conflict, operated};
use crate::support::phases::store_deployment;
use crate::support::worlds::{
    COMES_TO_REST, Logged, RESTS_FOR, Trial, Workers, begin_deletion, crashes, fact, image_in,
    no_such_image, show_on_failure,
};
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
    Cluster, Fact, Facts, Fresh, HaMetadata, Job, JobManager, Pod, Question, SessionJob, Turn,
    World,
};
use render::Objects;
use serde_json::json;
use testing::choices::{Choices, seeds};
use testing::laws::Law;
use testing::scene::assert_names_its_wait;

use super::upheaval::{Refused, Upheaval, Upheaved};
use super::{BROKEN_IMAGE, names};
use jiff::{SignedDuration, Timestamp};

mod exploration;
mod java;
mod laws;
mod operated;
mod upheaval;

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "what a world is like, one by one")]
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
    /// When they were asked to end.
    pods_ending_since: Timestamp,
    starts_in: u64,
    /// States of the submitted session jobs.
    pub(crate) jobs: Vec<JobStatusState>,
    /// Names of the session jobs that refer to the cluster. The first jobs are theirs.
    pub(crate) referring: Vec<String>,
    /// Those that are being stopped.
    pub(crate) stopping: Vec<String>,
    /// When their savepoints are complete, if the JobManager was asked for them.
    pub(crate) saved_at: Option<Timestamp>,
    has_ha_metadata: bool,
    metadata_unreadable: bool,
    /// The JobManager is there, and does not say what runs in it.
    is_silent: bool,
    /// The operator is paused in the middle of a plan, and nobody submits jobs by hand that it has not looked for.
    is_paused: bool,
    /// The plan was made for a resource that is being deleted.
    is_deletion_known: bool,
    /// Number of created JobManagers.
    pub(crate) made: u64,
    /// How often an Ingress was applied while the cluster ran.
    ingresses_moved: u64,
    /// Options that the JobManager was created with.
    made_with: FlinkConfig,
    /// Its `$internal.flink.version`.
    made_version: Option<String>,
    upheaval: Upheaval,
    /// What it is told when it asks for a turn.
    turn: Turn,
    trial: Trial,
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
            pods_ending_since: Timestamp::UNIX_EPOCH,
            starts_in: 0,
            jobs: vec![],
            referring: vec![],
            stopping: vec![],
            saved_at: None,
            has_ha_metadata: false,
            metadata_unreadable: false,
            is_silent: false,
            is_paused: false,
            is_deletion_known: false,
            made: 0,
            ingresses_moved: 0,
            made_with: FlinkConfig::new(),
            made_version: None,
            upheaval: Upheaval::default(),
            turn: Turn::Taken,
            trial: Trial::default(),
            ids: 0,
            log: vec![],
        }
    }

    /// Returns a cluster with an early rollback.
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
        self.crashing_pass(crash_at)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.job_manager.as_ref().is_some_and(|jm| jm.available_replicas > 0 && !jm.is_deleting)
    }

    fn answer(&self, question: Question, facts: &mut Facts) {
        if self.upheaval.leaves_unknown(&question, facts) {
            return;
        }
        let is_up = self.is_up();
        match question {
            Question::JobManager => facts.job_manager = Fact::Known(self.job_manager.clone()),
            Question::TaskManagers => {
                facts.task_managers = Fact::Known(self.workers.as_ref().map(|w| w.fact.clone()));
            }
            Question::Pods => facts.pods = Fact::Known(self.pods()),
            Question::TaskManagerPods => facts.task_manager_pods = Fact::Known(vec![]),
            Question::Remains => facts.remains = Fact::Known(self.pods()),
            Question::Jobs => facts.jobs = fact(is_up && !self.is_silent, || self.jobs()),
            Question::Cluster => facts.cluster = fact(is_up, Cluster::default),
            Question::SessionJobs => {
                let of = |(index, name): (usize, &String)| SessionJob {
                    name: name.clone(),
                    job_id: Some(format!("{index:032x}")),
                    is_active: self.stopping.contains(name)
                        || self.jobs.get(index).is_some_and(|state| !state.is_globally_terminal()),
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
                facts.ha_metadata =
                    Fact::Known(HaMetadata { has_job, checkpoint: has_job.then_some(1) });
            }
            Question::Refusal(_) => facts.refusal = Fact::Known(self.upheaval.foretold()),
            Question::Turn => facts.turn = Fact::Known(self.turn.clone()),
            Question::StandbyPods => facts.standby_pods = Fact::Known(vec![]),
            Question::Leader => facts.leader = Fact::Known(lifecycle::world::Leader::Nobody),
            Question::Preflight(_) => facts.preflight = Fact::Known(self.trial.known()),
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
            | Question::Files(_)
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
        let problem = self.is_image_broken.then(no_such_image);
        let created = self.job_manager.as_ref().and_then(|jm| jm.created);
        let runs = self.job_manager.as_ref().is_some_and(|jm| !jm.is_deleting);
        let is_there = runs || self.pods_linger > 0;
        let pod = Pod {
            name: "lab-0".to_owned(),
            created,
            problem,
            ending_since: (!runs).then_some(self.pods_ending_since),
            ..Pod::default()
        };
        is_there.then_some(pod).into_iter().collect()
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
        let law = Law::SessionClusterOneJobManager;
        assert!(!self.is_deletion_known, "started while being deleted");
        assert_eq!(self.pods_linger, 0, "{law}: a second one beside the pods of the first");
        if let Some(workers) = &self.workers {
            assert!(!workers.fact.is_deleting, "{law}: a JobManager beside TaskManagers that go");
            assert_eq!(
                workers.image,
                image_in(&objects.deployment),
                "{law}: TaskManagers of another spec"
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
            generation: generation.parse().ok().filter(|_| !self.upheaval.strips_annotations),
            replicas: 1,
            was_never_available: true,
            created: Some(self.now),
            ..JobManager::default()
        });
        self.finish(objects);
    }

    /// Jobs fail for good if the JobManager sees its TaskManagers go, and are not run again.
    fn delete_job_manager(&mut self) {
        let is_up = self.is_up();
        self.assert_ends_no_job();
        let Some(job_manager) = &mut self.job_manager else { return };
        let was_stopped = begin_deletion(job_manager, self.now);
        if !was_stopped {
            self.has_ha_metadata &= !is_up;
            self.end_pods();
        }
    }

    pub(crate) fn lose_job_manager(&mut self) {
        self.job_manager = None;
        self.end_pods();
    }

    fn end_pods(&mut self) {
        self.pods_linger = 3;
        self.pods_ending_since = self.now;
        self.end_jobs_that_nothing_keeps();
    }

    fn end_jobs_that_nothing_keeps(&mut self) {
        if !self.has_ha_metadata {
            self.jobs.clear();
        }
    }

    /// Advances the clock by a second.
    pub(crate) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.upheaval.tick();
        self.trial.tick();
        self.go_on_stopping();
        if !self.upheaval.keeps_pods() {
            self.pods_linger = self.pods_linger.saturating_sub(1);
        }
        if self.pods_linger == 0 {
            // Deleted in the foreground, a Deployment goes after its pods.
            self.job_manager.take_if(|job_manager| job_manager.deleting_since.is_some());
        }
        if !self.upheaval.starts_no_pods() {
            self.starts_in = self.starts_in.saturating_sub(1);
        }
        if self.workers.as_mut().is_some_and(|workers| !workers.tick()) {
            self.workers = None;
        }
        let is_broken = self.is_image_broken;
        if let Some(job_manager) =
            self.job_manager.as_mut().filter(|jm| !is_broken && !jm.is_deleting)
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
            // Invalid edits.
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
        let DeploymentStatus { lifecycle_state, error, .. } = &self.status;
        panic!("{}: not stable: {lifecycle_state:?} {error:?}", Law::SessionClusterRests);
    }

    /// The law: left alone for long enough, the operator writes nothing more.
    fn assert_comes_to_rest(&mut self) {
        for second in 0..COMES_TO_REST + RESTS_FOR * 3 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            let is_quiet = plan.steps.is_empty() && self.status == before;
            let (law, steps) = (Law::SessionClusterRests, names(&plan.steps));
            assert!(second < COMES_TO_REST || is_quiet, "{law}: at rest: {steps:?}");
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

fn version(sim: &mut Session, version: FlinkVersion) {
    sim.edit(|r| r.spec.flink_version = Some(version));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
}

fn awaits_jobs(sim: &Session) -> bool {
    AWAITS_JOBS.get(&sim.status.cluster_info).is_some()
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
