//! One resource, everything that can be known of its cluster, and what is decided about it.

use std::collections::BTreeMap;
use std::time::Duration;

use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::job::{JobSpec, JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{
    DeploymentStatus, JobManagerDeploymentStatus, JobStatusState, LifecycleState,
    ReconciliationState,
};
use config::cluster::high_availability_of;
use config::{FlinkConfig, OperatorConfig};
use expect_test::Expect;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::error_document::WentBack;
use lifecycle::phase::Phase;
use lifecycle::plan::{ClusterStep, Plan, Step};
use lifecycle::reconcile::decide;
use lifecycle::verdict::Validators;
use lifecycle::wait::{Awaited, Waiting};
use lifecycle::world::{
    Checkpoints, Cluster, CompletedState, DeploymentVersion, Fact, Facts, Failure, Fresh,
    HaMetadata, Job, JobManager, JobMetrics, Pod, PodProblem, PreflightPods, Turn, World,
};
use serde_json::json;

use crate::laws::Law;

pub const NOW: &str = "2026-01-01T12:00:00Z";
pub const JOB_ID: &str = "00000000000000000000000000000001";
pub const SAVEPOINT: &str = "s3://lake/sp/1";
pub const CHECKPOINT: &str = "s3://lake/chk/7";

/// One resource, with everything that can be known of its cluster.
#[derive(Clone)]
pub struct Scene {
    pub resource: FlinkDeployment,
    pub status: DeploymentStatus,
    pub facts: Facts,
    pub operator: OperatorConfig,
    pub validators: Validators,
    pub went_back: Option<WentBack>,
    /// What the process before this pass waited for.
    pub waits: Option<Waiting>,
}

pub fn ago(seconds: i64) -> Timestamp {
    let now: Timestamp = NOW.parse().unwrap();
    now - SignedDuration::from_secs(seconds)
}

pub fn job_manager() -> JobManager {
    JobManager {
        uid: "d1".to_owned(),
        owner_uid: Some("u1".to_owned()),
        generation: Some(1),
        replicas: 1,
        available_replicas: 1,
        created: Some(ago(3600)),
        version: Some(DeploymentVersion { resource: "1".to_owned(), generation: 1 }),
        ..JobManager::default()
    }
}

pub fn job(state: JobStatusState) -> Vec<Job> {
    vec![Job {
        id: JOB_ID.to_owned(),
        name: "orders".to_owned(),
        state,
        start_time: ago(3600).as_millisecond(),
        modified: None,
    }]
}

pub fn pod() -> Pod {
    let created = Some(ago(3600));
    Pod { name: "orders-x".to_owned(), created, has_started: true, ..Pod::default() }
}

impl Scene {
    /// Returns a resource that the operator has not seen yet.
    pub fn new(mode: &str) -> Self {
        let resource = serde_json::from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "metadata": {
                "name": "orders", "namespace": "shop", "uid": "u1", "generation": 1,
                "finalizers": [api::DEPLOYMENT_FINALIZER],
            },
            "spec": {
                "image": "flink:1.20",
                "flinkVersion": "v1_20",
                "serviceAccount": "flink",
                "flinkConfiguration": {
                    "taskmanager.numberOfTaskSlots": "2",
                    "kubernetes.operator.job.upgrade.preflight": "objects",
                    "high-availability.type": "kubernetes",
                    "high-availability.storageDir": "s3://lake/ha",
                    "execution.checkpointing.dir": "s3://lake/chk",
                    "execution.checkpointing.savepoint-dir": "s3://lake/sp",
                },
                "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
                "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
                "job": {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": mode},
            },
        }))
        .unwrap();
        let facts = Facts {
            job_manager: Fact::Known(None),
            pods: Fact::Known(vec![]),
            jobs: Fact::Unknown("no answer".to_owned()),
            checkpoints: Fact::Unknown("no answer".to_owned()),
            retention: Fact::Known(true),
            ha_metadata: Fact::Known(HaMetadata::default()),
            stop: Fact::Unknown("no answer".to_owned()),
            cluster: Fact::Known(Cluster::default()),
            failure: Fact::Known(Failure {
                message: "the sink is gone".to_owned(),
                causes: vec!["connection refused".to_owned()],
                stack_trace: String::new(),
            }),
            exceptions: Fact::Known(vec![]),
            job_metrics: Fact::Known(JobMetrics::default()),
            task_manager_pods: Fact::Known(vec![]),
            remains: Fact::Known(vec![]),
            snapshots: Fact::Known(vec![]),
            refusal: Fact::Known(None),
            preflight: Fact::Known(PreflightPods::default()),
            turn: Fact::Known(Turn::Taken),
            ..Facts::default()
        };
        Self {
            resource,
            status: DeploymentStatus::default(),
            facts,
            operator: OperatorConfig::default(),
            validators: Validators::default(),
            went_back: None,
            waits: None,
        }
    }

    /// Returns a job that has run for an hour with the resource's spec, with HA metadata.
    pub fn running(mode: &str) -> Self {
        let mut scene = Self::new(mode);
        let mode = scene.job().upgrade_mode;
        scene.store(JobState::Running, mode);
        scene.status.reconciliation_status.state = ReconciliationState::Deployed;
        scene.status.reconciliation_status.last_stable_spec =
            scene.status.reconciliation_status.last_reconciled_spec.clone();
        scene.status.reconciliation_status.reconciliation_timestamp = ago(3600).as_millisecond();
        scene.status.observed_generation = Some(1);
        scene.status.job_manager_deployment_status = JobManagerDeploymentStatus::Ready;
        scene.status.job_status.job_id = Some(JOB_ID.to_owned());
        scene.status.job_status.job_name = Some("orders".to_owned());
        scene.status.job_status.state = Some(JobStatusState::Running);
        scene.status.job_status.start_time = Some(ago(3600).as_millisecond().to_string());
        scene.status.job_status.update_time = Some(ago(3590).as_millisecond().to_string());
        scene.status.cluster_info =
            BTreeMap::from([("flink-version".to_owned(), "1.20.1".to_owned())]);
        scene.facts.job_manager = Fact::Known(Some(job_manager()));
        scene.facts.pods = Fact::Known(vec![pod()]);
        scene.facts.jobs = Fact::Known(job(JobStatusState::Running));
        scene.facts.checkpoints = Fact::Known(Checkpoints {
            latest: Some(CompletedState { path: CHECKPOINT.to_owned(), at: Some(ago(5)) }),
            ..Checkpoints::default()
        });
        scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
        scene
    }

    /// Puts the job into `state`, in Flink and in the status.
    pub fn in_state(mut self, state: JobStatusState) -> Self {
        self.status.job_status.state = Some(state);
        self.facts.jobs = Fact::Known(job(state));
        self
    }

    /// The JobManager does not respond, and what it did is unknown.
    pub fn silent(mut self) -> Self {
        self.status.job_status.state = Some(JobStatusState::Reconciling);
        self.status.job_status.update_time = Some(ago(10).as_millisecond().to_string());
        self.facts.jobs = Fact::Unknown("no answer".to_owned());
        self.facts.checkpoints = Fact::Unknown("no answer".to_owned());
        self
    }

    /// The JobManager is starting.
    pub fn starting(self) -> Self {
        let mut scene = self.silent();
        scene.status.job_manager_deployment_status = JobManagerDeploymentStatus::Deploying;
        scene.facts.job_manager =
            Fact::Known(Some(JobManager { available_replicas: 0, ..job_manager() }));
        scene
    }

    /// The JobManager Deployment and its pods are gone.
    pub fn gone(self) -> Self {
        let mut scene = self.silent();
        scene.facts.job_manager = Fact::Known(None);
        scene.facts.pods = Fact::Known(vec![]);
        scene
    }

    /// The job was stopped with this mode, to be started again.
    pub fn upgrading(mut self, mode: UpgradeMode) -> Self {
        self.store(JobState::Suspended, mode);
        self.status.reconciliation_status.state = ReconciliationState::Upgrading;
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.status.job_status.state = Some(JobStatusState::Finished);
        self.facts.job_manager = Fact::Known(None);
        self.facts.pods = Fact::Known(vec![]);
        self
    }

    /// The job was suspended with this mode.
    pub fn suspended(self, mode: UpgradeMode) -> Self {
        let mut scene = self.upgrading(mode);
        scene.status.reconciliation_status.state = ReconciliationState::Deployed;
        scene.status.reconciliation_status.last_stable_spec =
            scene.status.reconciliation_status.last_reconciled_spec.clone();
        scene
    }

    pub fn without_metadata(mut self) -> Self {
        self.facts.ha_metadata = Fact::Known(HaMetadata::default());
        self
    }

    /// A JobManager that has not listed the job for long.
    pub fn unlisted(mut self) -> Self {
        self.facts.jobs = Fact::Known(vec![]);
        self.waits = Some(Waiting::new(Awaited::JobListed, Timestamp::UNIX_EPOCH, None));
        self
    }

    pub fn path(mut self, path: &str) -> Self {
        self.status.job_status.upgrade_savepoint_path = Some(path.to_owned());
        self
    }

    /// Applies a user's edit.
    pub fn edit(mut self, edit: impl FnOnce(&mut FlinkDeploymentSpec)) -> Self {
        edit(&mut self.resource.spec);
        *self.resource.metadata.generation.as_mut().unwrap() += 1;
        self
    }

    pub fn edit_job(self, edit: impl FnOnce(&mut JobSpec)) -> Self {
        self.edit(|spec| edit(spec.job.as_mut().unwrap()))
    }

    /// Sets an option in the spec, present from the beginning.
    pub fn option(mut self, key: &str, value: &str) -> Self {
        self.resource.spec.flink_configuration.0.insert(key.to_owned(), json!(value));
        for text in [
            &mut self.status.reconciliation_status.last_reconciled_spec,
            &mut self.status.reconciliation_status.last_stable_spec,
        ] {
            let Some(stored) = text.as_deref() else { continue };
            let mut stored = ReconciledSpec::parse(stored).unwrap();
            stored.spec.flink_configuration.0.insert(key.to_owned(), json!(value));
            *text = Some(stored.to_text());
        }
        self
    }

    pub fn operator_option(self, key: &str, value: &str) -> Self {
        self.option(&format!("kubernetes.operator.{key}"), value)
    }

    /// The pod of the JobManager cannot run.
    pub fn pod_problem(mut self, reason: &str, has_started: bool) -> Self {
        let problem = Some(PodProblem {
            reason: reason.to_owned(),
            message: format!("[flink-main-container] {reason}"),
        });
        self.facts.pods = Fact::Known(vec![Pod { has_started, problem, ..pod() }]);
        self
    }

    pub fn delete(mut self) -> Self {
        self.resource.metadata.deletion_timestamp = Some(Time(ago(1)));
        self
    }

    pub fn job(&self) -> JobSpec {
        self.resource.spec.job.clone().unwrap()
    }

    /// Records the resource's spec as reconciled.
    pub fn store(&mut self, state: JobState, mode: UpgradeMode) {
        let mut spec = self.resource.spec.clone();
        let job = spec.job.as_mut().unwrap();
        job.state = state;
        job.upgrade_mode = mode;
        let text = ReconciledSpec::new(spec, false).to_text();
        self.status.reconciliation_status.last_reconciled_spec = Some(text);
    }

    /// Returns the facts. Unless they say otherwise, the cluster runs with the options it would be started with now.
    pub fn answers(&self) -> Facts {
        let mut facts = self.facts.clone();
        if facts.deployed_config == Fact::NotAsked {
            facts.deployed_config = Fact::Known(self.started_as_now());
        }
        facts
    }

    /// Returns the options of high availability that a start of the recorded spec would get now.
    fn started_as_now(&self) -> FlinkConfig {
        let last = self.status.reconciliation_status.last_reconciled_spec.as_deref();
        let last = last.and_then(|text| ReconciledSpec::parse(text).ok());
        let spec = last.map_or_else(|| self.resource.spec.clone(), |last| last.spec);
        let mut config = self.operator.defaults("shop", spec.flink_version);
        config.overlay(&FlinkConfig::flatten(&spec.flink_configuration));
        high_availability_of(&config)
    }

    pub fn plan(&self) -> Plan {
        let world = self.world(self.answers());
        let plan = decide(&world).unwrap_or_else(|question| panic!("{question:?} is not answered"));
        assert_eq!(decide(&world), Ok(plan.clone()), "the same world, the same plan");
        phases_of(&self.status, &plan);
        assert_names_its_wait(&self.status, &plan);
        plan
    }

    /// Returns the world with these facts.
    pub fn world(&self, facts: Facts) -> World<'_> {
        World {
            went_back: self.went_back.clone(),
            waits: self.waits,
            fresh: Fresh {
                job_id: "00000000000000000000000000000002".to_owned(),
                trigger_id: "000000000000000000000000000000ff".to_owned(),
                uuid: "7e57ab1e-0000-4000-8000-000000000000".to_owned(),
            },
            validators: self.validators.clone(),
            facts,
            ..World::new(NOW.parse().unwrap(), (&self.resource, &self.status), None, &self.operator)
        }
    }

    /// Returns the scene after this plan was carried out, without its effects in the world.
    pub fn after(mut self, plan: &Plan) -> Self {
        self.status = (*plan.status).clone();
        self
    }
}

/// Returns the phases that a plan leads through, without the one before. Each may follow the one before it.
pub fn phases_of(before: &DeploymentStatus, plan: &Plan) -> Vec<Phase> {
    let written = plan.steps.iter().filter_map(|step| match step {
        Step::WriteStatus(status) => Some(&**status),
        _ => None,
    });
    let mut last = Phase::of::<FlinkDeployment>(before);
    let mut through = Vec::new();
    for next in written.chain([&*plan.status]).map(Phase::of::<FlinkDeployment>) {
        assert!(last.may_lead_to(next), "a pass led from {last:?} to {next:?}");
        if next != last {
            through.push(next);
        }
        last = next;
    }
    through
}

/// Asserts that a plan that only looks again soon says what it waits for, or why nothing happens.
pub fn assert_names_its_wait(before: &DeploymentStatus, plan: &Plan) {
    const SOON: Duration = Duration::from_secs(5);
    let is_idle = plan.steps.is_empty() && *plan.status == *before;
    let looks_soon = plan.look_again.is_some_and(|pause| pause < SOON);
    // A job that runs as it should may be due for a snapshot.
    let is_idle = is_idle && plan.status.lifecycle_state != Some(LifecycleState::Stable);
    let says = plan.waits.is_some() || plan.blocker.is_some() || before.error.is_some();
    let law = Law::DeploymentTold;
    assert!(!is_idle || !looks_soon || says, "{law}: waits without a name: {}", described(plan));
}

/// Describes the status in the words of the transition table, the reason, and the steps.
pub fn described(plan: &Plan) -> String {
    let status = &plan.status;
    let reconciliation = &status.reconciliation_status;
    let last = reconciliation.last_reconciled_spec.as_deref().map(ReconciledSpec::parse);
    let last = last.map_or("-".to_owned(), |last| {
        let last = last.unwrap();
        let state = if last.job_state() == JobState::Running { "R" } else { "S" };
        format!("{state} {:?}", last.spec.job.unwrap().upgrade_mode)
    });
    let mut text = format!(
        "({:?}, {last}, {:?}, {:?}) {:?}\n{}\n",
        reconciliation.state,
        status.job_status.state,
        status.job_manager_deployment_status,
        status.lifecycle_state.unwrap(),
        plan.because,
    );
    text.extend(plan.steps.iter().map(|step| format!("  {}\n", described_step(step))));
    text
}

pub fn described_step(step: &Step) -> String {
    match step {
        Step::Event(event) => format!("event {}: {}", event.reason, event.message),
        Step::Own(ClusterStep::CreateCluster(objects)) => {
            let config = objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().unwrap();
            let line =
                |key: &str| config.lines().find(|line| line.starts_with(key)).unwrap_or("nothing");
            let id = line("$internal.pipeline.job-id");
            let path = line("execution.savepoint.path");
            let image = &objects.deployment["spec"]["template"]["spec"]["containers"][0]["image"];
            format!("create-cluster {image} from {path}, {id}")
        }
        other => other.name().to_owned(),
    }
}

#[track_caller]
pub fn check(scene: &Scene, expected: Expect) {
    expected.assert_eq(&described(&scene.plan()));
}

/// Returns the names of the steps without events.
pub fn step_names(plan: &Plan) -> Vec<&'static str> {
    plan.steps.iter().filter(|step| !matches!(step, Step::Event(_))).map(Step::name).collect()
}

/// Returns the error of the status, as a person reads it.
pub fn error(plan: &Plan) -> String {
    let text = plan.status.error.as_deref().unwrap_or_default();
    lifecycle::error_document::message_of(text)
}

/// Returns the value of a key in the configuration of the cluster that the plan creates; empty if it creates none.
pub fn created(plan: &Plan, key: &str) -> Option<String> {
    plan.steps.iter().find_map(|step| match step {
        Step::Own(ClusterStep::CreateCluster(objects)) => {
            let config = objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().unwrap();
            let lines = || config.lines().filter_map(|line| line.split_once(": "));
            let value = lines().find(|(other, _)| *other == key).map(|(_, value)| value);
            Some(value.unwrap_or_default().to_owned())
        }
        _ => None,
    })
}

/// Returns the path that a created cluster restores from; empty if there is none.
pub fn restored(plan: &Plan) -> Option<String> {
    created(plan, "execution.savepoint.path")
}

/// Configuration of an operator with high availability by default.
pub const HA: &str =
    "high-availability.type: kubernetes\nhigh-availability.storageDir: s3://lake/ha\n";

/// Returns a running job whose spec does not mention high availability.
pub fn by_default(mode: &str) -> Scene {
    let mut scene = Scene::running(mode);
    let own = &mut scene.resource.spec.flink_configuration.0;
    own.remove("high-availability.type");
    own.remove("high-availability.storageDir");
    scene.store(JobState::Running, scene.job().upgrade_mode);
    let reconciliation = &mut scene.status.reconciliation_status;
    reconciliation.last_stable_spec.clone_from(&reconciliation.last_reconciled_spec);
    scene
}

/// Returns the options that its pods were given.
pub fn given(options: &[(&str, &str)]) -> Fact<FlinkConfig> {
    Fact::Known(options.iter().copied().collect())
}

/// The job was started without high availability, which has since become the operator's default.
pub fn started_without(mode: &str) -> Scene {
    let mut scene = by_default(mode).without_metadata();
    scene.facts.deployed_config = given(&[]);
    scene.operator = OperatorConfig::new(config::file::parse_flink_conf(HA));
    scene
}
