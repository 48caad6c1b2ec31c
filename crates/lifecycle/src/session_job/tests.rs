//! What upstream's tests require of session jobs, and where this operator does better.

mod blank;
mod care;
mod deletion;
mod etcd_restore;
mod leaving;
mod nodes;
mod redeploy;
mod rollback;
mod second_job;
mod spec;
mod start;
mod submission;
mod turns;
mod upgrade;
mod upstream;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::plan::Submission;
use super::world::{Arrival, FailedSubmission, Remembered, Tried};
use super::*;
use crate::error_document::JOB_NOT_FOUND;
use crate::error_document::WentBack;
use crate::node_notice::Node;
use crate::notes::STARTED_WITH;
use crate::reconcile::decide;
use crate::trigger::known::KnownSnapshot;
use crate::trigger::memory::Memory;
use crate::verdict::{Opinion, Validators, Verdict};
use crate::wait::Waiting;
use crate::world::{
    Bounds, Checkpoints, CompletedState, Fact, Failure, Fresh, Job, JobException, JobMetrics, Stop,
    Turn,
};
use crate::world::{Facts, Trigger};
use api::SESSION_JOB_FINALIZER;
use api::job::JobState;
use api::session_job::{FlinkSessionJobSpec, SessionJobStatus};
use api::status::{JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH, LifecycleState};
use config::cluster::high_availability_of;
use config::{FlinkConfig, OperatorConfig};

/// The first half is derived from the uid `u1`.
const FIRST_ID: &str = "bb82030dbc2bcaba19b76daa80000001";

/// A session job with its cluster, and Flink's answers.
struct Case {
    resource: FlinkSessionJob,
    status: SessionJobStatus,
    cluster: Option<FlinkDeployment>,
    operator: OperatorConfig,
    failed_submission: Option<FailedSubmission>,
    /// `None` if the cluster does not answer.
    jobs: Option<Vec<Job>>,
    checkpoints: Option<Checkpoints>,
    retention: Fact<bool>,
    stop: Stop,
    jar: Fact<()>,
    turn: Fact<Turn>,
    metrics: JobMetrics,
    bounds: BTreeMap<String, Bounds>,
    /// Whether snapshots are resources, and the job's snapshots.
    has_snapshot_resources: bool,
    snapshots: Vec<KnownSnapshot>,
    /// State of the snapshot of the job's own bookkeeping.
    trigger: Trigger,
    periodic: Memory,
    /// What else refers to each savepoint of the history.
    holders: Result<Vec<String>, String>,
    tried: Tried,
    went_back: Option<WentBack>,
    validators: Validators,
    verdict: Fact<Verdict>,
    nodes: Fact<Vec<Node>>,
    job_manager_start: Fact<jiff::Timestamp>,
    /// `NotAsked` if the cluster was started with its current spec and the operator's current defaults.
    deployed_config: Fact<FlinkConfig>,
    /// What the last plan waited for: a list with the job, for long.
    waits: Option<Waiting>,
    now: jiff::Timestamp,
    ids: u32,
    /// The questions of the decisions so far.
    asked: Vec<Question>,
}

fn case(mode: &str) -> Case {
    let resource = serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkSessionJob",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 1},
        "spec": {
            "deploymentName": "cluster",
            "job": {"jarURI": "https://repo/j.jar", "parallelism": 2, "upgradeMode": mode},
        },
    }));
    let cluster = serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "cluster", "namespace": "shop", "uid": "c1", "generation": 1},
        "spec": {
            "image": "flink:1.20",
            "flinkVersion": "v1_20",
            "flinkConfiguration": {
                "execution.checkpointing.dir": "s3://lake/chk",
                "execution.checkpointing.savepoint-dir": "s3://lake/sp",
            },
        },
        "status": {
            "jobManagerDeploymentStatus": "READY",
            "clusterInfo": {STARTED_WITH.key: "{}"},
        },
    }));
    Case {
        resource: resource.unwrap(),
        status: SessionJobStatus::default(),
        cluster: Some(cluster.unwrap()),
        operator: OperatorConfig::default(),
        failed_submission: None,
        jobs: Some(vec![]),
        checkpoints: Some(Checkpoints::default()),
        retention: Fact::Known(true),
        stop: Stop::NotFound,
        jar: Fact::Known(()),
        turn: Fact::Known(Turn::Taken),
        metrics: JobMetrics::default(),
        bounds: BTreeMap::new(),
        has_snapshot_resources: true,
        snapshots: vec![],
        trigger: Trigger::Pending,
        periodic: Memory::default(),
        holders: Ok(vec![]),
        tried: Tried::default(),
        went_back: None,
        validators: Validators::default(),
        verdict: Fact::NotAsked,
        nodes: Fact::Known(vec![]),
        deployed_config: Fact::NotAsked,
        job_manager_start: Fact::Known("2025-12-31T00:00:00Z".parse().unwrap()),
        waits: Some(Waiting::new(Awaited::JobListed, jiff::Timestamp::UNIX_EPOCH, None)),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        ids: 0,
        asked: vec![],
    }
}

fn at(path: &str) -> Checkpoints {
    let latest = CompletedState { path: path.to_owned(), at: None };
    Checkpoints { latest: Some(latest), ..Checkpoints::default() }
}

impl Case {
    /// A case whose job runs.
    fn running(mode: &str) -> Self {
        let mut case = case(mode);
        case.pass();
        case.list(JobStatusState::Running);
        case.pass();
        assert_eq!(case.status.job_status.state, Some(JobStatusState::Running));
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
        case
    }

    /// Makes the cluster list the job in `state`.
    fn list(&mut self, state: JobStatusState) {
        let id = self.status.job_status.job_id.clone().unwrap();
        self.jobs =
            Some(vec![Job { id, name: "orders".to_owned(), state, start_time: 1, modified: None }]);
    }

    fn edit(&mut self, edit: impl FnOnce(&mut FlinkSessionJobSpec)) {
        edit(&mut self.resource.spec);
        *self.resource.metadata.generation.as_mut().unwrap() += 1;
    }

    fn set(&mut self, key: &str, value: &str) {
        let value = serde_json::Value::from(value);
        self.resource.spec.flink_configuration.0.insert(key.to_owned(), value);
    }

    fn set_in_cluster(&mut self, key: &str, value: &str) {
        let cluster = self.cluster.as_mut().unwrap();
        let value = serde_json::Value::from(value);
        cluster.spec.flink_configuration.0.insert(key.to_owned(), value);
    }

    fn job(&mut self) -> &mut api::job::JobSpec {
        self.resource.spec.job.as_mut().unwrap()
    }

    fn delete(&mut self) {
        self.resource.metadata.finalizers = Some(vec![SESSION_JOB_FINALIZER.to_owned()]);
        self.resource.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
    }

    fn cluster_is(&mut self, state: JobManagerDeploymentStatus) {
        let cluster = self.cluster.as_mut().unwrap();
        cluster.status.as_mut().unwrap().job_manager_deployment_status = state;
    }

    fn cluster_stands(&mut self, state: ReconciliationState) {
        let cluster = self.cluster.as_mut().unwrap();
        cluster.status.as_mut().unwrap().reconciliation_status.state = state;
    }

    fn plan(&mut self) -> Plan {
        self.ids += 1;
        let fresh = Fresh {
            job_id: format!("{:032}", self.ids),
            trigger_id: format!("trigger{}", self.ids),
            uuid: String::new(),
        };
        let mut facts = Facts::default();
        self.asked.clear();
        for _ in 0..14 {
            let world = World {
                has_snapshot_resources: self.has_snapshot_resources,
                fresh: fresh.clone(),
                waits: self.waits,
                periodic: self.periodic.clone(),
                went_back: self.went_back.clone(),
                validators: self.validators.clone(),
                facts: facts.clone(),
                remembered: Remembered {
                    failed_submission: self.failed_submission.clone(),
                    tried: self.tried,
                },
                ..World::new(
                    self.now,
                    (&self.resource, &self.status),
                    self.cluster.as_ref(),
                    &self.operator,
                )
            };
            match decide(&world) {
                Ok(plan) => {
                    self.assert_phases(&plan);
                    return plan;
                }
                Err(question) => {
                    self.asked.push(question.clone());
                    self.answer(question, &mut facts);
                }
            }
        }
        panic!("no decision after {:?}", self.asked);
    }

    /// Checks that each status that the plan stores has a phase that may follow the previous one.
    fn assert_phases(&self, plan: &Plan) {
        let written = plan.steps.iter().filter_map(|step| {
            if let Step::WriteStatus(status) = step { Some(&**status) } else { None }
        });
        let mut last = Phase::of::<FlinkSessionJob>(&self.status);
        for next in written.chain([&*plan.status]).map(Phase::of::<FlinkSessionJob>) {
            assert!(last.may_lead_to(next), "a pass led from {last:?} to {next:?}");
            last = next;
        }
    }

    fn cluster_config(&self) -> FlinkConfig {
        let spec = &self.cluster.as_ref().unwrap().spec;
        let mut config = self.operator.defaults("shop", spec.flink_version);
        config.overlay(&FlinkConfig::flatten(&spec.flink_configuration));
        high_availability_of(&config)
    }

    fn answer(&self, question: Question, facts: &mut Facts) {
        let none = || Fact::Unknown("no answer".to_owned());
        match question {
            Question::Jobs => facts.jobs = self.jobs.clone().map_or_else(none, Fact::Known),
            Question::Checkpoints => {
                facts.checkpoints = self
                    .checkpoints
                    .clone()
                    .map_or_else(|| Fact::Unknown("no answer".to_owned()), Fact::Known);
            }
            Question::Retention => facts.retention = self.retention.clone(),
            Question::Stop => facts.stop = Fact::Known(self.stop.clone()),
            Question::Failure => {
                let failure = Failure {
                    message: "job err".to_owned(),
                    causes: vec!["root".to_owned()],
                    ..Failure::default()
                };
                facts.failure = Fact::Known(failure);
            }
            Question::Exceptions => facts.exceptions = Fact::Known(Vec::<JobException>::new()),
            Question::Jar => facts.jar = self.jar.clone(),
            Question::Turn => facts.turn = self.turn.clone(),
            Question::DeployedConfig => {
                facts.deployed_config = match &self.deployed_config {
                    Fact::NotAsked => Fact::Known(self.cluster_config()),
                    known @ (Fact::Unknown(_) | Fact::Known(_)) => known.clone(),
                };
            }
            Question::JobMetrics => facts.job_metrics = Fact::Known(self.metrics.clone()),
            Question::ResourceRequirements => {
                facts.resource_requirements = Fact::Known(self.bounds.clone());
            }
            Question::Snapshots => facts.snapshots = Fact::Known(self.snapshots.clone()),
            Question::Savepoint => facts.savepoint = Fact::Known(self.trigger.clone()),
            Question::Checkpoint => facts.checkpoint = Fact::Known(self.trigger.clone()),
            Question::Revisions => facts.revisions = Fact::Known(vec![]),
            Question::References => facts.references = self.references(),
            Question::Verdict => facts.verdict = self.verdict.clone(),
            Question::Nodes => facts.nodes = self.nodes.clone(),
            Question::PodNodes => facts.pod_nodes = Fact::Known(["n1".to_owned()].into()),
            Question::JobManagerStart => {
                facts.job_manager_start = self.job_manager_start.clone();
            }
            Question::JobManager
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

    fn references(&self) -> Fact<BTreeMap<String, Vec<String>>> {
        let holders = match &self.holders {
            Ok(holders) => holders,
            Err(reason) => return Fact::Unknown(reason.clone()),
        };
        let history = self.status.job_status.savepoint_info.iter();
        let paths = history.flat_map(|info| &info.savepoint_history);
        let paths = paths.filter_map(|savepoint| savepoint.location.clone());
        Fact::Known(paths.map(|path| (path, holders.clone())).collect())
    }

    /// Runs a pass whose steps all succeed.
    fn pass(&mut self) -> Plan {
        let plan = self.plan();
        for step in &plan.steps {
            if let Step::Own(SessionJobStep::Remember(tried)) = step {
                self.tried = *tried;
            } else if let Step::Snapshot(step) = step {
                if let Some(kind) = step.periodic() {
                    self.periodic.note(kind, self.now);
                }
                if let crate::plan::SnapshotStep::Take(snapshot) = step {
                    self.periodic.note_taken(snapshot);
                }
                self.periodic.notices.note(&step.notices(), self.now);
            }
        }
        self.status = (*plan.status).clone();
        self.now += jiff::SignedDuration::from_secs(1);
        plan
    }

    /// Runs a pass that ends at its submission, which is refused.
    fn fail_to_submit(&mut self, message: &str) -> Plan {
        self.end_at_submission(message, false)
    }

    /// Runs a pass that ends at its submission, and it is unknown whether Flink has it.
    fn lose_answer(&mut self) -> Plan {
        self.end_at_submission("no answer", true)
    }

    fn end_at_submission(&mut self, message: &str, may_arrive: bool) -> Plan {
        let plan = self.plan();
        for step in &plan.steps {
            match step {
                Step::WriteStatus(status) => self.status = (**status).clone(),
                Step::Own(SessionJobStep::Submit(submission)) => {
                    let attempts = self.failed_submission.as_ref().map_or(1, |f| f.attempts + 1);
                    self.failed_submission = Some(FailedSubmission {
                        job_id: submission.job_id.clone(),
                        generation: self.resource.metadata.generation.unwrap(),
                        message: message.to_owned(),
                        http_response_code: Some(400),
                        may_arrive: if may_arrive {
                            Some(Arrival::again(submission.may_arrive, self.now, self.now))
                        } else {
                            submission.may_arrive
                        },
                        at: self.now,
                        attempts,
                    });
                    return plan;
                }
                Step::AddFinalizer
                | Step::RemoveFinalizer
                | Step::Event(_)
                | Step::RecordRevision(_)
                | Step::Snapshot(_)
                | Step::ScaleJob { .. }
                | Step::Own(SessionJobStep::SetSessionLabel { .. } | SessionJobStep::Remember(_))
                | Step::TriggerStop { .. }
                | Step::CancelJob { .. } => {}
            }
        }
        panic!("nothing was submitted: {:?}", names(&plan));
    }

    fn path(&self) -> Option<&str> {
        self.status.job_status.upgrade_savepoint_path.as_deref()
    }

    fn state(&self) -> Option<JobStatusState> {
        self.status.job_status.state
    }

    fn id(&self) -> &str {
        self.status.job_status.job_id.as_deref().unwrap_or_default()
    }

    fn last(&self) -> ReconciledJob {
        let text = self.status.reconciliation_status.last_reconciled_spec.as_ref().unwrap();
        ReconciledJob::parse(text).unwrap()
    }

    fn reconciliation(&self) -> ReconciliationState {
        self.status.reconciliation_status.state
    }
}

fn names(plan: &Plan) -> Vec<&'static str> {
    plan.steps.iter().map(Step::name).filter(|name| *name != "event").collect()
}

fn events(plan: &Plan) -> Vec<(&'static str, String)> {
    let event = |step: &Step| {
        let Step::Event(event) = step else { return None };
        Some((event.reason, event.message.clone()))
    };
    plan.steps.iter().filter_map(event).collect()
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    events(plan).into_iter().map(|(reason, _)| reason).collect()
}

fn submitted(plan: &Plan) -> &Submission {
    plan.steps
        .iter()
        .find_map(|step| {
            let Step::Own(SessionJobStep::Submit(submission)) = step else { return None };
            Some(&**submission)
        })
        .unwrap_or_else(|| panic!("nothing submitted: {}: {:?}", plan.because, names(plan)))
}
