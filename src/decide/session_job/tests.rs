//! What upstream's tests demand of session jobs, and where ours does better.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::json;

use super::plan::Submission;
use super::world::{Facts, FailedSubmission, Tried};
use super::*;
use crate::api::session_job::{FlinkSessionJobSpec, SessionJobStatus};
use crate::api::status::{LAST_STATE_PATH, LifecycleState};
use crate::config::OperatorConfig;
use crate::decide::extension::verdict::{Opinion, Validators, Verdict};
use crate::decide::lifecycle::JOB_NOT_FOUND;
use crate::decide::memo::Memo;
use crate::decide::reconciled::ReconciledJob;
use crate::decide::snapshot::world::Trigger;
use crate::decide::trigger::{KnownSnapshot, Memory};
use crate::decide::world::{
    Bounds, Checkpoints, CompletedState, Fact, Failure, Fresh, Job, JobException, JobMetrics, Stop,
};

const FIRST_ID: &str = "00000000000000000000000000000001";

/// A session job with its cluster, and what Flink would say.
struct Case {
    resource: FlinkSessionJob,
    status: SessionJobStatus,
    cluster: Option<FlinkDeployment>,
    operator: OperatorConfig,
    failed_submission: Option<FailedSubmission>,
    /// `None`: the cluster does not answer.
    jobs: Option<Vec<Job>>,
    checkpoints: Option<Checkpoints>,
    stop: Stop,
    jar: Fact<()>,
    metrics: JobMetrics,
    bounds: BTreeMap<String, Bounds>,
    /// Whether snapshots are resources, and those of the job.
    has_snapshot_resources: bool,
    snapshots: Vec<KnownSnapshot>,
    /// How the snapshot of the job's own bookkeeping stands.
    trigger: Trigger,
    periodic: Memory,
    tried: Tried,
    validators: Validators,
    verdict: Fact<Verdict>,
    now: jiff::Timestamp,
    ids: u32,
    /// What the decisions so far asked for.
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
        "status": {"jobManagerDeploymentStatus": "READY"},
    }));
    Case {
        resource: resource.unwrap(),
        status: SessionJobStatus::default(),
        cluster: Some(cluster.unwrap()),
        operator: OperatorConfig::default(),
        failed_submission: None,
        jobs: Some(vec![]),
        checkpoints: Some(Checkpoints::default()),
        stop: Stop::NotFound,
        jar: Fact::Known(()),
        metrics: JobMetrics::default(),
        bounds: BTreeMap::new(),
        has_snapshot_resources: true,
        snapshots: vec![],
        trigger: Trigger::Pending,
        periodic: Memory::default(),
        tried: Tried::default(),
        validators: Validators::default(),
        verdict: Fact::NotAsked,
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

    /// The cluster lists the job in `state`.
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

    fn job(&mut self) -> &mut crate::api::job::JobSpec {
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
                now: self.now,
                resource: &self.resource,
                status: &self.status,
                cluster: self.cluster.as_ref(),
                operator: &self.operator,
                has_snapshot_resources: self.has_snapshot_resources,
                fresh: fresh.clone(),
                told_exceptions: None,
                periodic: self.periodic.clone(),
                zone: TimeZone::UTC,
                validators: self.validators.clone(),
                failed_submission: self.failed_submission.clone(),
                tried: self.tried,
                facts: facts.clone(),
                memo: Memo::default(),
            };
            match decide(&world) {
                Ok(plan) => return plan,
                Err(question) => {
                    self.asked.push(question);
                    self.answer(question, &mut facts);
                }
            }
        }
        panic!("no decision after {:?}", self.asked);
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
            Question::Stop => facts.stop = Fact::Known(self.stop.clone()),
            Question::Failure => {
                let failure =
                    Failure { message: "job err".to_owned(), causes: vec!["root".to_owned()] };
                facts.failure = Fact::Known(failure);
            }
            Question::Exceptions => facts.exceptions = Fact::Known(Vec::<JobException>::new()),
            Question::Jar => facts.jar = self.jar.clone(),
            Question::JobMetrics => facts.job_metrics = Fact::Known(self.metrics.clone()),
            Question::ResourceRequirements => {
                facts.resource_requirements = Fact::Known(self.bounds.clone());
            }
            Question::Snapshots => facts.snapshots = Fact::Known(self.snapshots.clone()),
            Question::Savepoint => facts.savepoint = Fact::Known(self.trigger.clone()),
            Question::Checkpoint => facts.checkpoint = Fact::Known(self.trigger.clone()),
            Question::Revisions => facts.revisions = Fact::Known(vec![]),
            Question::Verdict => facts.verdict = self.verdict.clone(),
        }
    }

    /// A pass whose steps all succeed.
    fn pass(&mut self) -> Plan {
        let plan = self.plan();
        for step in &plan.steps {
            if let Step::Remember(tried) = step {
                self.tried = *tried;
            } else if let Step::Snapshot(step) = step
                && let Some(kind) = step.periodic()
            {
                self.periodic.note(kind, self.now);
            }
        }
        self.status = (*plan.status).clone();
        self.now += jiff::SignedDuration::from_secs(1);
        plan
    }

    /// A pass that ends at its submission, which fails.
    fn fail_to_submit(&mut self, message: &str) -> Plan {
        let plan = self.plan();
        for step in &plan.steps {
            match step {
                Step::WriteStatus(status) => self.status = (**status).clone(),
                Step::Submit(submission) => {
                    let attempts = self.failed_submission.as_ref().map_or(1, |f| f.attempts + 1);
                    self.failed_submission = Some(FailedSubmission {
                        job_id: submission.job_id.clone(),
                        generation: self.resource.metadata.generation.unwrap(),
                        message: message.to_owned(),
                        at: self.now,
                        attempts,
                    });
                    return plan;
                }
                Step::AddFinalizer
                | Step::RemoveFinalizer
                | Step::SetSessionLabel { .. }
                | Step::Event(_)
                | Step::RecordRevision(_)
                | Step::Snapshot(_)
                | Step::ScaleJob { .. }
                | Step::Remember(_)
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
            let Step::Submit(submission) = step else { return None };
            Some(&**submission)
        })
        .unwrap_or_else(|| panic!("nothing submitted: {}: {:?}", plan.because, names(plan)))
}

#[test]
fn s01_nothing_is_submitted_while_the_cluster_is_not_ready() {
    for state in [
        JobManagerDeploymentStatus::Missing,
        JobManagerDeploymentStatus::Deploying,
        JobManagerDeploymentStatus::DeployedNotReady,
        JobManagerDeploymentStatus::Error,
    ] {
        let mut case = Case::running("savepoint");
        case.cluster_is(state);
        case.edit(|spec| spec.restart_nonce = Some(1));
        let before = case.status.clone();
        let plan = case.pass();
        assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
        assert_eq!(case.status, before);
        assert_eq!(case.asked, []);
    }
}

#[test]
fn s01_a_missing_cluster_is_told_and_waited_for() {
    let mut case = case("savepoint");
    case.cluster = None;
    let before = case.status.clone();
    let plan = case.pass();
    assert_eq!(case.status, before);
    assert_eq!(reasons(&plan), ["Missing"]);
    assert!(plan.because.contains("session cluster `cluster` does not exist"), "{}", plan.because);
    assert_eq!(plan.look_again, None);
}

#[test]
fn s02_a_ready_cluster_gets_the_job_and_running_is_stable() {
    let mut case = case("last-state");
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label", "write-status", "submit-job"]);
    assert_eq!(reasons(&plan), ["Submit"]);
    assert_eq!(case.state(), Some(JobStatusState::Reconciling));
    assert_eq!(case.id(), FIRST_ID);
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deployed));
    let submission = submitted(&plan);
    assert_eq!(submission.savepoint_path, None);
    assert_eq!(submission.configuration["execution.checkpointing.interval"], "5 min");
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert_eq!(events(&plan)[0].1, "Job status changed from RECONCILING to RUNNING");
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
    assert_eq!(case.last().spec.job.unwrap().upgrade_mode.as_str(), "stateless");
}

#[test]
fn a_stable_job_costs_one_question_and_no_write() {
    let mut case = Case::running("savepoint");
    case.resource.metadata.finalizers = Some(vec![SESSION_JOB_FINALIZER.to_owned()]);
    case.resource.metadata.labels = Some([(SESSION_LABEL.to_owned(), "cluster".to_owned())].into());
    let _exceptions_told = case.pass();
    let before = case.status.clone();
    let plan = case.pass();
    assert!(plan.steps.is_empty());
    assert_eq!(case.status, before);
    assert_eq!(plan.look_again, Some(Duration::from_mins(1)));
}

#[test]
fn the_job_id_is_stored_before_anything_is_uploaded() {
    let mut case = case("stateless");
    let plan = case.plan();
    let at = |name| names(&plan).iter().position(|step| *step == name).unwrap();
    assert!(at("write-status") < at("submit-job"));
    let Some(Step::WriteStatus(intent)) =
        plan.steps.iter().find(|step| matches!(step, Step::WriteStatus(_)))
    else {
        panic!("no intent")
    };
    assert_eq!(intent.job_status.job_id.as_deref(), Some(FIRST_ID));
    assert_eq!(intent.job_status.state, Some(JobStatusState::Reconciling));
    assert_eq!(intent.reconciliation_status.state, ReconciliationState::Upgrading);
}

#[test]
fn s03_a_submission_that_fails_is_told_and_made_again_with_the_same_id() {
    let mut case = case("stateless");
    case.fail_to_submit("no such jar");
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert_eq!(events(&plan), [("Error", "no such jar".to_owned())]);
    assert_eq!(case.id(), FIRST_ID);
    assert_eq!(case.state(), Some(JobStatusState::Reconciling));
    assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
    assert!(case.status.error.as_ref().unwrap().contains("no such jar"));
    case.now += jiff::SignedDuration::from_secs(10);
    let plan = case.pass();
    assert_eq!(submitted(&plan).job_id, FIRST_ID);
    assert_eq!(case.status.error, None);
}

#[test]
fn submissions_that_keep_failing_are_made_less_and_less_often() {
    let mut case = case("stateless");
    case.fail_to_submit("refused");
    let mut pauses = vec![];
    for _ in 0..14 {
        let pause = case.plan().look_again.unwrap();
        pauses.push(pause.as_secs());
        case.now += jiff::SignedDuration::try_from(pause).unwrap();
        case.fail_to_submit("refused");
    }
    assert_eq!(pauses[..3], [5, 7, 11]);
    assert_eq!(pauses.last(), Some(&300));
}

#[test]
fn a_changed_spec_is_submitted_at_once_after_a_failure() {
    let mut case = case("stateless");
    case.fail_to_submit("no such jar");
    case.edit(|spec| spec.job.as_mut().unwrap().jar_uri = Some("https://repo/k.jar".to_owned()));
    let plan = case.pass();
    assert_eq!(submitted(&plan).jar_uri.as_deref(), Some("https://repo/k.jar"));
}

#[test]
fn nothing_is_submitted_again_before_it_is_known_whether_the_job_runs() {
    let mut case = case("stateless");
    case.fail_to_submit("the answer was lost");
    case.failed_submission = None;
    case.jobs = None;
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert!(plan.because.contains("cannot be listed"), "{}", plan.because);
}

#[test]
fn s04_two_jobs_of_a_cluster_are_kept_apart() {
    let mut case = Case::running("savepoint");
    let mine = case.jobs.clone().unwrap().remove(0);
    let other = Job { id: "other".to_owned(), state: JobStatusState::Failed, ..mine.clone() };
    case.jobs = Some(vec![other, mine]);
    case.pass();
    assert_eq!(case.state(), Some(JobStatusState::Running));
}

#[test]
fn s05_a_stateless_job_that_the_cluster_lost_is_submitted_again() {
    let mut case = Case::running("stateless");
    case.jobs = Some(vec![]);
    let plan = case.pass();
    assert_eq!(reasons(&plan)[0], "Missing");
    assert!(events(&plan)[0].1.starts_with(JOB_NOT_FOUND));
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_ne!(submitted(&plan).job_id, FIRST_ID, "what ran before has used up its id");
    assert_eq!(submitted(&plan).savepoint_path, None);
}

#[test]
fn s05_a_stateful_job_that_the_cluster_lost_is_never_started_empty() {
    for mode in ["savepoint", "last-state"] {
        let mut case = Case::running(mode);
        case.jobs = Some(vec![]);
        let plan = case.pass();
        assert_eq!(reasons(&plan), ["Missing"]);
        assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
        assert_eq!(case.state(), Some(JobStatusState::Reconciling));
        assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
        for _ in 0..3 {
            case.edit(|spec| spec.restart_nonce = Some(spec.restart_nonce.unwrap_or(0) + 1));
            let plan = case.pass();
            assert!(!names(&plan).contains(&"submit-job"), "{mode}: {}", plan.because);
            assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
        }
        // The way out that the message names.
        case.edit(|spec| {
            let job = spec.job.as_mut().unwrap();
            job.initial_savepoint_path = Some("s3://lake/chk/7".to_owned());
            job.savepoint_redeploy_nonce = Some(1);
        });
        let plan = case.pass();
        assert!(names(&plan).contains(&"cancel-job"), "{:?}", names(&plan));
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/7"));
        assert_eq!(case.status.error, None);
    }
}

#[test]
fn a_job_that_was_just_submitted_may_not_be_listed_yet() {
    let mut case = case("savepoint");
    case.pass();
    let plan = case.pass();
    assert_eq!(reasons(&plan), [""; 0]);
    case.now += jiff::SignedDuration::from_secs(20);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["Missing"]);
}

#[test]
fn s06_last_state_cancels_and_goes_on_from_the_newest_checkpoint() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["write-status", "cancel-job"]);
    assert_eq!(reasons(&plan), ["SpecChanged", "Suspended", "JobStatusChanged"]);
    assert_eq!(case.state(), Some(JobStatusState::Cancelling));
    assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
    let last = case.last();
    assert_eq!(last.job_state(), JobState::Running, "the old spec stays until the job has ended");
    assert_eq!(last.spec.job.unwrap().upgrade_mode.as_str(), "savepoint");
    assert_eq!(last.spec.restart_nonce, None);
    // One more completes before the end.
    case.checkpoints = Some(at("s3://lake/chk/2"));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/2"));
    assert_ne!(submitted(&plan).job_id, FIRST_ID);
    assert_eq!(case.last().spec.job.unwrap().upgrade_mode.as_str(), "savepoint");
    assert!(names(&plan).contains(&"record-revision"));
}

#[test]
fn s06_a_suspend_always_ends_suspended_with_its_state() {
    for (mode, expected) in [
        ("last-state", Some("s3://lake/chk/1")),
        ("stateless", None),
        ("savepoint", Some("s3://sp")),
    ] {
        let mut case = Case::running(mode);
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
        case.pass();
        case.stop = Stop::Completed { path: "s3://sp".to_owned() };
        let end =
            if mode == "savepoint" { JobStatusState::Finished } else { JobStatusState::Canceled };
        case.list(end);
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Suspended), "{mode}");
        assert_eq!(case.path(), expected, "{mode}");
        let before = case.status.clone();
        case.pass();
        assert_eq!(case.status, before, "{mode}: at rest");
        case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Running);
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), expected, "{mode}");
    }
}

#[test]
fn q01_resuming_stateless_starts_empty() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
    case.pass();
    case.list(JobStatusState::Canceled);
    case.pass();
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.state = JobState::Running;
        job.upgrade_mode = crate::api::job::UpgradeMode::Stateless;
    });
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None);
}

#[test]
fn s07_a_job_that_vanishes_while_it_is_cancelled_is_not_guessed_at() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.jobs = Some(vec![]);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["Missing"]);
    assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    let plan = case.pass();
    assert_eq!(reasons(&plan), [""; 0]);
    assert!(!names(&plan).contains(&"submit-job"));
    case.delete();
    let plan = case.pass();
    assert!(names(&plan).contains(&"remove-finalizer"));
}

#[test]
fn s08_a_savepoint_upgrade_goes_on_from_its_savepoint() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["write-status", "stop-with-savepoint"]);
    case.stop = Stop::Pending;
    let plan = case.pass();
    assert_eq!(plan.because, "waiting for the savepoint");
    case.stop = Stop::Completed { path: "s3://lake/sp/0".to_owned() };
    case.list(JobStatusState::Finished);
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["create-snapshot", "record-revision"]);
    assert_eq!(case.state(), Some(JobStatusState::Finished));
    assert_eq!(case.status.job_status.job_id, None);
    assert_eq!(case.path(), Some("s3://lake/sp/0"));
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/sp/0"));
    assert_eq!(case.last().spec.restart_nonce, Some(1));
}

#[test]
fn s08_a_savepoint_that_fails_leaves_the_job_running() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.stop = Stop::Failed { message: "disk full".to_owned() };
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert_eq!(case.state(), Some(JobStatusState::Running));
    assert!(case.status.error.as_ref().unwrap().contains("disk full"));
    assert!(!names(&plan).contains(&"cancel-job"));
}

#[test]
fn s09_a_savepoint_is_only_taken_of_a_running_job() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.upgrade.last-state-fallback.enabled", "false");
    case.list(JobStatusState::Restarting);
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
    assert!(plan.because.contains("its state cannot be saved yet"), "{}", plan.because);
}

#[test]
fn a_job_that_is_being_made_is_not_cancelled_for_its_state() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.list(JobStatusState::Initializing);
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
}

#[test]
fn statistics_that_lost_what_was_known_are_no_licence_to_start_empty() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    // Its JobManager went while it was cancelled, and the recovered job ended before it was made.
    case.checkpoints = Some(Checkpoints::default());
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.path(), Some(LAST_STATE_PATH));
    assert!(case.status.error.as_ref().unwrap().contains("Manual restore required."));
}

#[test]
fn a_job_without_any_checkpoint_starts_empty_again() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None);
}

#[test]
fn checkpoints_that_are_not_retained_are_not_relied_on() {
    let mut case = case("last-state");
    case.set("execution.checkpointing.externalized-checkpoint-retention", "DELETE_ON_CANCELLATION");
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).contains(&"stop-with-savepoint"), "{}", plan.because);
}

#[test]
fn a_job_that_somebody_cancelled_goes_on_from_its_checkpoint() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/9"));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/9"));
}

#[test]
fn a_stateless_upgrade_cancels_and_starts_empty() {
    let mut case = Case::running("stateless");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"));
    assert_eq!(case.last().job_state(), JobState::Running);
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None);
}

#[test]
fn a_cancel_that_never_arrived_is_sent_again() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"));
    case.list(JobStatusState::Cancelling);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"));
    assert_eq!(plan.because, "waiting for the job to be cancelled");
}

#[test]
fn a_jar_that_cannot_be_had_does_not_stop_the_running_job() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut case = Case::running(mode);
        case.jar = Fact::Unknown("404 Not Found".to_owned());
        case.edit(|spec| {
            spec.job.as_mut().unwrap().jar_uri = Some("https://repo/no.jar".to_owned());
        });
        let plan = case.pass();
        assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
        assert!(case.status.error.as_ref().unwrap().contains("404 Not Found"), "{mode}");
        assert_eq!(case.state(), Some(JobStatusState::Running));
    }
}

#[test]
fn a_restart_is_made_with_the_spec_that_failed_only_when_asked_for() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/3"));
    case.list(JobStatusState::Failed);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["JobStatusChanged", "Error"]);
    assert_eq!(case.path(), Some("s3://lake/chk/3"));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
    case.now += jiff::SignedDuration::from_mins(1);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"));
    case.set("kubernetes.operator.job.restart.failed", "true");
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/3"));
    assert_eq!(case.status.error, None);
}

#[test]
fn the_first_start_takes_the_initial_savepoint() {
    let mut case = case("savepoint");
    case.job().initial_savepoint_path = Some("s3://old".to_owned());
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://old"));
    assert_eq!(case.path(), Some("s3://old"));
    assert_eq!(case.last().spec.job.unwrap().upgrade_mode.as_str(), "savepoint");
}

#[test]
fn a_redeploy_drops_the_state_and_takes_the_named_savepoint() {
    let mut case = Case::running("stateless");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://wanted".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://wanted"));
}

#[test]
fn a_job_that_is_created_suspended_waits() {
    let mut case = case("savepoint");
    case.job().state = JobState::Suspended;
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Created));
}

#[test]
fn an_invalid_edit_does_not_touch_the_running_job() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.deployment_name = Some("another".to_owned()));
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["ValidationError"]);
    assert!(!names(&plan).contains(&"stop-with-savepoint"));
    assert_eq!(case.state(), Some(JobStatusState::Running));
}

#[test]
fn an_application_cluster_takes_no_session_job() {
    let mut case = case("stateless");
    case.cluster.as_mut().unwrap().spec.job = Some(crate::api::job::JobSpec::default());
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["ValidationError"]);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
}

#[test]
fn s10_deletion_cancels_the_job_and_waits_for_its_end() {
    let mut case = Case::running("savepoint");
    case.delete();
    let plan = case.pass();
    assert_eq!(names(&plan), ["write-status", "write-status", "cancel-job"]);
    assert_eq!(reasons(&plan)[0], "Cleanup");
    assert_eq!(case.state(), Some(JobStatusState::Cancelling));
    case.list(JobStatusState::Cancelling);
    let plan = case.pass();
    assert_eq!(names(&plan), [""; 0]);
    case.jobs = None;
    let plan = case.pass();
    assert_eq!(names(&plan), [""; 0], "silence is not the end of a job");
    case.jobs = Some(vec![]);
    assert_eq!(names(&case.pass()), ["remove-finalizer"]);
}

#[test]
fn s11_a_deleted_cluster_takes_its_jobs_along_only_when_told_so() {
    for (blocks, expected) in [("false", "remove-finalizer"), ("true", "cancel-job")] {
        let mut case = Case::running("savepoint");
        case.set_in_cluster("kubernetes.operator.session.deletion.block-on-session-jobs", blocks);
        let status = case.cluster.as_mut().unwrap().status.as_mut().unwrap();
        status.lifecycle_state = Some(LifecycleState::Deleting);
        case.delete();
        let plan = case.pass();
        assert_eq!(names(&plan).last(), Some(&expected));
    }
}

#[test]
fn s12_deletion_without_a_cluster_that_answers() {
    let mut case = Case::running("savepoint");
    case.delete();
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    assert_eq!(names(&case.plan()).last(), Some(&"remove-finalizer"));
    case.set_in_cluster("high-availability.type", "kubernetes");
    let plan = case.plan();
    assert_eq!(names(&plan), ["write-status"]);
    assert_eq!(plan.look_again, Some(Duration::from_secs(10)));
    assert!(plan.because.contains("block-on-session-jobs"), "{}", plan.because);
    case.status.job_status.state = Some(JobStatusState::Cancelling);
    assert_eq!(names(&case.plan()), ["write-status"]);
    case.cluster = None;
    assert_eq!(names(&case.plan()).last(), Some(&"remove-finalizer"));
}

#[test]
fn s13_an_ended_job_needs_no_cluster_to_be_deleted() {
    let mut case = Case::running("savepoint");
    case.list(JobStatusState::Finished);
    case.pass();
    case.cluster = None;
    case.delete();
    assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
}

#[test]
fn a_job_that_was_never_deployed_is_deleted_at_once() {
    let mut case = case("savepoint");
    case.delete();
    assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
}

#[test]
fn a_submission_that_may_still_arrive_is_looked_for_before_deletion() {
    let mut case = case("savepoint");
    case.fail_to_submit("the answer was lost");
    case.list(JobStatusState::Created);
    case.delete();
    assert!(names(&case.pass()).contains(&"cancel-job"));
}

#[test]
fn q08_a_failing_savepoint_blocks_deletion_with_a_way_out() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.delete();
    let plan = case.pass();
    assert_eq!(names(&plan).last(), Some(&"stop-with-savepoint"));
    case.stop = Stop::Failed { message: "disk full".to_owned() };
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert!(case.status.error.as_ref().unwrap().contains("savepoint-on-deletion: false"));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deleting));
    case.set("kubernetes.operator.job.savepoint-on-deletion", "false");
    assert_eq!(names(&case.pass()).last(), Some(&"cancel-job"));
}

#[test]
fn a_savepoint_before_deletion_is_kept_on_record() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.delete();
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/last".to_owned() };
    case.list(JobStatusState::Finished);
    let plan = case.pass();
    assert_eq!(names(&plan), ["create-snapshot", "write-status", "remove-finalizer"]);
}

#[test]
fn q11_only_a_deletion_drains_the_job() {
    let drains = |plan: &Plan| {
        plan.steps.iter().find_map(|step| {
            let Step::TriggerStop { drain, .. } = step else { return None };
            Some(*drain)
        })
    };
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.set("kubernetes.operator.job.drain-on-savepoint-deletion", "true");
    case.edit(|spec| spec.restart_nonce = Some(1));
    assert_eq!(drains(&case.plan()), Some(false));
    case.delete();
    assert_eq!(drains(&case.plan()), Some(true));
}

#[test]
fn s14_a_job_that_was_submitted_before_a_crash_is_adopted() {
    let mut case = case("savepoint");
    case.fail_to_submit("crash");
    case.failed_submission = None;
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"));
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    assert_eq!(case.state(), Some(JobStatusState::Running));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
}

#[test]
fn s14_a_first_submission_that_never_arrived_starts_over() {
    let mut case = case("savepoint");
    case.job().initial_savepoint_path = Some("s3://old".to_owned());
    case.fail_to_submit("crash");
    case.failed_submission = None;
    let plan = case.pass();
    assert_eq!(submitted(&plan).job_id, FIRST_ID);
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://old"));
}

#[test]
fn q05_a_crash_with_the_cluster_gone_is_simply_waited_out() {
    let mut case = case("savepoint");
    case.fail_to_submit("crash");
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    let plan = case.pass();
    assert_eq!(case.asked, []);
    assert!(!names(&plan).contains(&"submit-job"));
}

#[test]
fn s15_a_resource_cannot_allow_itself_a_scheme() {
    let mut case = case("stateless");
    case.set("kubernetes.operator.user.artifacts.allowed-schemes", "http;https");
    case.job().jar_uri = Some("http://repo/j.jar".to_owned());
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["ValidationError"]);
}

#[test]
fn an_unsupported_version_of_the_cluster_is_told_once() {
    let mut case = case("stateless");
    case.cluster.as_mut().unwrap().spec.flink_version = None;
    let before = case.status.clone();
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["UnsupportedFlinkVersion"]);
    assert_eq!(case.status, before);
}

#[test]
fn a_stored_spec_that_cannot_be_read_stops_everything() {
    let mut case = Case::running("savepoint");
    case.status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
    let plan = case.pass();
    assert_eq!(names(&plan), [""; 0]);
    assert!(plan.because.contains("not readable"), "{}", plan.because);
}

#[test]
fn the_stored_spec_is_written_as_java_does() {
    let case = Case::running("savepoint");
    let text = case.status.reconciliation_status.last_reconciled_spec.unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"spec":{"job":{"jarURI":"https://repo/j.jar","parallelism":2,"entryClass":null,"#,
            r#""args":[],"state":"running","savepointTriggerNonce":null,"#,
            r#""initialSavepointPath":null,"checkpointTriggerNonce":null,"#,
            r#""upgradeMode":"stateless","allowNonRestoredState":null,"#,
            r#""savepointRedeployNonce":null,"autoscalerResetNonce":null},"restartNonce":null,"#,
            r#""flinkConfiguration":{},"deploymentName":"cluster"},"resource_metadata":"#,
            r#"{"apiVersion":"flink.apache.org/v1beta1","firstDeployment":true}}"#
        )
    );
}

/// A job whose new spec does not come up within its time.
fn failing_upgrade(mode: &str) -> Case {
    let mut case = case(mode);
    case.set("kubernetes.operator.deployment.rollback.enabled", "true");
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(9));
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/chk/1".to_owned() };
    let end = if mode == "savepoint" { JobStatusState::Finished } else { JobStatusState::Canceled };
    case.list(end);
    case.pass();
    if mode == "savepoint" {
        case.pass();
    }
    case.list(JobStatusState::Restarting);
    case.pass();
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deployed));
    case.now += jiff::SignedDuration::from_mins(5);
    case
}

#[test]
fn a_spec_that_does_not_become_stable_gives_way_to_the_one_before() {
    for (mode, expected) in [
        ("savepoint", Some("s3://lake/chk/2")),
        ("last-state", Some("s3://lake/chk/2")),
        ("stateless", None),
    ] {
        let mut case = failing_upgrade(mode);
        case.checkpoints = Some(at("s3://lake/chk/2"));
        let plan = case.pass();
        assert!(names(&plan).contains(&"cancel-job"), "{mode}: {}", plan.because);
        assert_eq!(reasons(&plan)[0], "Rollback", "{mode}");
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RollingBack));
        case.list(JobStatusState::Canceled);
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), expected, "{mode}");
        assert_eq!(submitted(&plan).parallelism, Some(2), "{mode}");
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RolledBack), "{mode}");
        case.list(JobStatusState::Running);
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RolledBack), "{mode}");
        assert_eq!(case.last().spec.job.unwrap().parallelism, Some(9), "the failed spec stays");
        let before = case.status.clone();
        let plan = case.pass();
        assert_eq!(case.status, before, "{mode}: at rest: {}", plan.because);
        // Back at what runs: nothing is restarted.
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(2));
        let plan = case.pass();
        assert!(!names(&plan).contains(&"cancel-job"), "{mode}");
        assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable), "{mode}");
    }
}

#[test]
fn a_rollback_goes_on_after_a_crash_and_runs_one_job() {
    let mut case = failing_upgrade("last-state");
    case.pass();
    case.list(JobStatusState::Canceled);
    case.fail_to_submit("crash");
    let id = case.id().to_owned();
    case.failed_submission = None;
    let unsubmitted = case.plan();
    assert_eq!(submitted(&unsubmitted).job_id, id);
    assert_eq!(submitted(&unsubmitted).parallelism, Some(2));
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RolledBack));
}

#[test]
fn a_new_spec_wins_over_a_rollback() {
    let mut case = failing_upgrade("last-state");
    case.pass();
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(5));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).parallelism, Some(5));
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/1"));
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
}

#[test]
fn a_job_that_cannot_be_saved_is_not_rolled_back() {
    let mut case = failing_upgrade("last-state");
    case.list(JobStatusState::Initializing);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
    assert_eq!(reasons(&plan).last(), Some(&"RollbackRefused"));
    case.jobs = Some(vec![]);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
}

#[test]
fn an_invalid_edit_does_not_make_a_job_stateless() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
    case.jobs = Some(vec![]);
    for _ in 0..3 {
        let plan = case.pass();
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    }
    assert_eq!(case.last().job_state(), JobState::Running);
}

fn age(case: &mut Case, seconds: i64) {
    case.now += jiff::SignedDuration::from_secs(seconds);
}

fn blocker(plan: &Plan) -> Option<crate::decide::blocker::Reason> {
    plan.blocker.as_ref().map(|blocker| blocker.reason)
}

#[test]
fn a_cluster_that_goes_and_does_not_answer_takes_its_jobs_along() {
    use crate::decide::blocker::Reason;
    for (savepoint, silent, goes) in [
        ("false", true, true),
        ("false", false, true),
        ("true", true, false),
        ("true", false, false),
    ] {
        let mut case = Case::running("savepoint");
        case.set("kubernetes.operator.job.savepoint-on-deletion", savepoint);
        case.set_in_cluster("high-availability.type", "kubernetes");
        case.delete();
        case.cluster.as_mut().unwrap().metadata.deletion_timestamp =
            case.resource.metadata.deletion_timestamp.clone();
        if silent {
            case.jobs = None;
        } else {
            case.cluster_is(JobManagerDeploymentStatus::Missing);
        }
        let plan = case.pass();
        assert_eq!(blocker(&plan), Some(Reason::SessionCluster));
        assert_eq!(plan.blocker.unwrap().deadline.is_some(), goes);
        age(&mut case, 301);
        let plan = case.pass();
        assert_eq!(names(&plan).contains(&"remove-finalizer"), goes, "{}", plan.because);
        let is_told = case.status.error.as_deref().is_some_and(|e| e.contains("CleanupFailed"));
        assert_eq!(is_told, !goes, "{:?}", case.status.error);
    }
}

#[test]
fn a_cluster_that_stays_away_is_told_and_waited_for() {
    let mut case = Case::running("savepoint");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.delete();
    case.jobs = None;
    case.pass();
    assert_eq!(case.status.error, None);
    age(&mut case, 301);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"remove-finalizer"), "its high availability brings it back");
    assert!(case.status.error.as_ref().unwrap().contains("block-on-session-jobs"));
}

#[test]
fn a_silent_job_manager_without_high_availability_is_asked_for_a_while() {
    let mut case = Case::running("savepoint");
    case.cluster_is(JobManagerDeploymentStatus::DeployedNotReady);
    case.delete();
    assert!(!names(&case.pass()).contains(&"remove-finalizer"), "the job may run");
    age(&mut case, 301);
    assert!(names(&case.pass()).contains(&"remove-finalizer"));
}

#[test]
fn a_job_that_does_not_end_is_told() {
    let mut case = Case::running("savepoint");
    case.delete();
    case.pass();
    case.list(JobStatusState::Cancelling);
    age(&mut case, 301);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"remove-finalizer"));
    assert!(case.status.error.as_ref().unwrap().contains("TaskManager"));
}

#[test]
fn a_canary_is_let_go() {
    let mut case = Case::running("stateless");
    case.resource.metadata.labels =
        Some([(crate::api::CANARY_LABEL.to_owned(), "true".to_owned())].into_iter().collect());
    case.delete();
    assert_eq!(names(&case.pass()), ["remove-finalizer"]);
}

fn opinion(answer: Result<Vec<crate::decide::validate::Violation>, String>) -> Fact<Verdict> {
    let on_failure = crate::decide::extension::verdict::FailurePolicy::Fail;
    let validator = "policy".to_owned();
    Fact::Known(Verdict::Given(vec![Opinion { validator, on_failure, answer }]))
}

#[test]
fn a_validator_outside_is_asked_about_changes_and_never_about_what_runs() {
    let mut case = Case::running("savepoint");
    case.validators.has_any = true;
    case.plan();
    assert!(!case.asked.contains(&Question::Verdict), "{:?}", case.asked);

    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(9));
    let job_id = case.status.job_status.job_id.clone();
    let violation = crate::decide::validate::Violation::new("spec.job.parallelism", "is too much");
    case.verdict = opinion(Ok(vec![violation]));
    let plan = case.pass();
    assert!(case.asked.contains(&Question::Verdict));
    assert!(plan.status.error.as_deref().unwrap().contains("spec.job.parallelism: is too much"));
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::TriggerStop { .. })));
    assert_eq!(case.status.job_status.job_id, job_id);
    assert_eq!(case.status.observed_generation, Some(1));

    case.verdict = opinion(Err("it answered 503".to_owned()));
    let plan = case.pass();
    assert!(plan.status.error.as_deref().unwrap().contains("ValidatorUnavailable"));
    assert_eq!(plan.look_again, Some(Duration::from_secs(5)));
    assert_eq!(case.status.job_status.state, Some(JobStatusState::Running));

    case.verdict = opinion(Ok(vec![]));
    let plan = case.pass();
    assert_eq!(plan.status.error, None);
    assert!(plan.steps.iter().any(|step| matches!(step, Step::TriggerStop { .. })));
}

#[test]
fn deleting_waits_for_no_validator() {
    let mut case = Case::running("savepoint");
    case.validators.has_any = true;
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(9));
    case.delete();
    case.pass();
    assert!(!case.asked.contains(&Question::Verdict), "{:?}", case.asked);
}

mod care;
