//! The scenarios of the Java operator, by their numbers in its specification, and what is better here.

mod deletion;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::world::Facts;
use super::*;
use crate::error_document::form::Form;
use crate::error_document::message_of;
use crate::verdict::{Opinion, Validators, Verdict};
use crate::world::Fact;
use api::state_snapshot::FlinkStateSnapshot;
use validation::Violation;
use validation::extension::FailurePolicy;

/// A snapshot with its world; `pass` applies what a shell would store.
struct Case {
    now: Timestamp,
    resource: FlinkStateSnapshot,
    facts: Facts,
    validators: Validators,
    events: Vec<Event>,
    steps: Vec<&'static str>,
    look_again: Option<Duration>,
}

fn savepoint(spec: Value) -> Case {
    let mut case = case(json!({
        "jobReference": {"kind": "FlinkDeployment", "name": "orders"},
        "savepoint": {},
    }));
    merge(&mut case.resource, spec);
    case
}

fn checkpoint() -> Case {
    case(json!({
        "jobReference": {"kind": "FlinkDeployment", "name": "orders"},
        "checkpoint": {},
    }))
}

fn case(spec: Value) -> Case {
    let resource = serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkStateSnapshot",
        "metadata": {
            "name": "one", "namespace": "shop", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    }))
    .unwrap();
    let mut case = Case {
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        resource,
        facts: Facts {
            references: Fact::Known(vec![]),
            newest_state: Fact::Known(None),
            ..Facts::default()
        },
        validators: Validators::default(),
        events: Vec::new(),
        steps: Vec::new(),
        look_again: None,
    };
    case.job(Some(JobStatusState::Running));
    case.trigger(Trigger::Pending);
    case
}

/// Sets fields below `spec`.
fn merge(resource: &mut FlinkStateSnapshot, with: Value) {
    let mut spec = serde_json::to_value(&resource.spec).unwrap();
    for (key, value) in with.as_object().unwrap() {
        spec[key] = value.clone();
    }
    resource.spec = serde_json::from_value(spec).unwrap();
}

impl Case {
    fn job(&mut self, state: Option<JobStatusState>) {
        self.facts.target = Fact::Known(Target::Present(Box::new(Job {
            state,
            since: Some(self.now),
            id: Some("a".repeat(32)),
            flink_version: Some(FlinkVersion::V1_20),
            savepoint_directory: Some("s3://lake/sp".to_owned()),
            timeout: SignedDuration::from_mins(10),
            claims: false,
        })));
    }

    fn edit_job(&mut self, edit: impl FnOnce(&mut Job)) {
        let Fact::Known(Target::Present(job)) = &mut self.facts.target else { panic!() };
        edit(job);
    }

    fn no_job(&mut self) {
        self.facts.target = Fact::Known(Target::Absent);
    }

    fn trigger(&mut self, trigger: Trigger) {
        self.facts.trigger = Fact::Known(trigger);
    }

    fn status(&self) -> StateSnapshotStatus {
        self.resource.status.clone().unwrap_or_default()
    }

    fn state(&self) -> SnapshotState {
        self.status().state
    }

    fn is_retained(&self) -> bool {
        self.resource.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty())
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.resource.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn later(&mut self, seconds: i64) -> &mut Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    fn world(&self) -> World<'_> {
        World {
            now: self.now,
            resource: &self.resource,
            interval: Duration::from_mins(1),
            form: Form::default(),
            trigger_id: "b".repeat(32),
            validators: self.validators.clone(),
            facts: self.facts.clone(),
        }
    }

    fn pass(&mut self) -> &mut Self {
        let plan = decide(&self.world()).unwrap();
        self.apply(plan)
    }

    fn apply(&mut self, plan: Plan) -> &mut Self {
        self.steps.clear();
        for step in plan.steps {
            self.steps.push(match step {
                Step::Mark { adds_finalizer, labels } => {
                    let metadata = &mut self.resource.metadata;
                    if adds_finalizer {
                        metadata.finalizers = Some(vec![STATE_SNAPSHOT_FINALIZER.to_owned()]);
                    }
                    let stored = metadata.labels.get_or_insert_default();
                    for (key, value) in labels {
                        match value {
                            Some(value) => drop(stored.insert(key.to_owned(), value)),
                            None => drop(stored.remove(key)),
                        }
                    }
                    "mark"
                }
                Step::WriteStatus(status) => {
                    self.resource.status = Some(*status);
                    "write"
                }
                Step::Event(event) => {
                    self.events.push(event);
                    "event"
                }
                Step::Trigger(_) => "trigger",
                Step::Dispose { .. } => "dispose",
                Step::RemoveFinalizer => {
                    self.resource.metadata.finalizers = None;
                    "remove"
                }
            });
        }
        let before = self.resource.status.clone().unwrap_or_default();
        if *plan.status != before {
            self.resource.status = Some(*plan.status);
            self.steps.push("status");
        }
        self.look_again = plan.look_again;
        self
    }

    fn delete(&mut self) -> &mut Self {
        self.resource.metadata.deletion_timestamp = Some(Time(self.now));
        self.pass()
    }

    /// Sets this status and the finalizer, as a running operator would have left them.
    fn in_state(mut self, status: Value) -> Self {
        self.resource.status = Some(serde_json::from_value(status).unwrap());
        self.resource.metadata.finalizers = Some(vec![STATE_SNAPSHOT_FINALIZER.to_owned()]);
        self
    }

    fn in_progress(self) -> Self {
        self.in_state(json!({
            "state": "IN_PROGRESS", "triggerId": "t", "triggerTimestamp": "2026-01-01T00:00:00Z",
        }))
    }

    fn completed(self) -> Self {
        self.in_state(json!({"state": "COMPLETED", "path": "s3://lake/sp/1"}))
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.reason).collect()
    }
}

#[test]
fn scenario_1_a_savepoint_is_taken_followed_and_completed() {
    let mut case = savepoint(json!({}));
    case.pass();
    assert_eq!(case.state(), SnapshotState::InProgress);
    // The id is stored before Flink gets the request.
    assert_eq!(case.steps, ["mark", "write", "trigger"]);
    assert!(case.is_retained());
    case.later(1).pass();
    assert_eq!(case.state(), SnapshotState::InProgress);
    case.trigger(Trigger::Completed { path: Some("s3://lake/sp/1".to_owned()), checkpoint: None });
    case.later(1).pass();
    assert_eq!(case.state(), SnapshotState::Completed);
    assert_eq!(case.status().path.as_deref(), Some("s3://lake/sp/1"));
    assert_eq!(case.label("snapshot.trigger-type"), Some("MANUAL"));
    assert_eq!(case.label("snapshot.state"), Some("COMPLETED"));
    case.later(1).pass();
    assert!(case.steps.is_empty() && case.look_again.is_none(), "{:?}", case.steps);
}

#[test]
fn scenario_2_an_existing_savepoint_is_recorded_at_once() {
    let spec = json!({"savepoint": {"path": "s3://lake/sp/9", "alreadyExists": true}});
    for (has_reference, can_be_read) in [(true, true), (true, false), (false, false)] {
        let mut case = savepoint(spec.clone());
        if !has_reference {
            case.resource.spec.job_reference = None;
            case.facts.target = Fact::NotAsked;
        } else if !can_be_read {
            case.facts.target = Fact::Unknown("it cannot be read".to_owned());
        }
        case.validators.has_any = true;
        case.pass();
        let status = case.status();
        assert_eq!(status.state, SnapshotState::Completed);
        assert_eq!(status.path.as_deref(), Some("s3://lake/sp/9"));
        assert_eq!(status.trigger_id, None);
        assert_eq!(case.steps, ["mark", "status"]);
    }
}

#[test]
fn scenario_3_a_missing_job_is_reported_once_and_waited_for() {
    let mut case = savepoint(json!({}));
    case.no_job();
    case.pass();
    assert_eq!(case.state(), SnapshotState::TriggerPending);
    assert_eq!(case.label("snapshot.state"), Some("TRIGGER_PENDING"));
    assert_eq!(case.label("job-reference.name"), None);
    assert_eq!(case.reasons(), ["ValidationError"]);
    let told = message_of(&case.status().error.unwrap());
    assert!(told.contains("there is no FlinkDeployment `orders`"), "{told}");
    case.later(60).pass();
    assert!(case.steps.is_empty(), "{:?}", case.steps);
    assert_eq!(case.look_again, Some(Duration::from_mins(1)));
    // Another mistake is reported, too.
    merge(&mut case.resource, json!({"savepoint": null}));
    case.later(60).pass();
    assert_eq!(case.reasons().len(), 2);
    // Once the spec is valid, nothing of it remains.
    merge(&mut case.resource, json!({"savepoint": {}}));
    case.job(Some(JobStatusState::Running));
    case.pass();
    assert_eq!((case.state(), case.status().error), (SnapshotState::InProgress, None));
}

#[test]
fn scenario_4_without_its_job_a_running_snapshot_is_abandoned() {
    let mut case = savepoint(json!({})).in_progress();
    case.no_job();
    case.pass().later(60).pass();
    assert_eq!(case.state(), SnapshotState::Abandoned);
    assert_eq!(case.reasons(), ["SnapshotAbandoned"]);
    assert!(case.events[0].message.contains("orders (FlinkDeployment)"));
    assert_eq!(case.status().path, None);
}

#[test]
fn scenario_5_with_an_ended_job_a_snapshot_is_abandoned() {
    for state in [
        JobStatusState::Canceled,
        JobStatusState::Finished,
        JobStatusState::Failed,
        JobStatusState::Failing,
        JobStatusState::Cancelling,
        JobStatusState::Suspended,
    ] {
        let mut before = savepoint(json!({}));
        before.job(Some(state));
        before.pass();
        assert_eq!(before.state(), SnapshotState::Abandoned, "{state:?}");
        assert_eq!(before.status().trigger_id, None);
        let mut after = savepoint(json!({})).in_progress();
        after.job(Some(state));
        after.trigger(Trigger::NotFound);
        after.pass();
        assert_eq!(after.state(), SnapshotState::Abandoned, "{state:?}");
        assert_eq!(after.status().trigger_id.as_deref(), Some("t"));
        // It may have completed before the job ended, which Flink still reports.
        let mut done = savepoint(json!({})).in_progress();
        done.job(Some(state));
        done.trigger(Trigger::Completed {
            path: Some("s3://lake/sp/1".to_owned()),
            checkpoint: None,
        });
        done.pass();
        assert_eq!(done.state(), SnapshotState::Completed, "{state:?}");
        assert_eq!(done.status().path.as_deref(), Some("s3://lake/sp/1"));
    }
}

#[test]
fn scenario_5_an_ended_job_whose_flink_does_not_say_that_the_snapshot_ended_is_waited_for() {
    for (answer, ends_at) in [
        (Fact::Unknown("no answer".to_owned()), 661),
        // The job's status may be older than Flink's answer.
        (Fact::Known(Trigger::Pending), 661),
        (Fact::Known(Trigger::NotFound), 1),
    ] {
        let begun = || {
            let mut case = savepoint(json!({})).in_progress();
            case.job(Some(JobStatusState::Failed));
            case.facts.trigger = answer.clone();
            case
        };
        let mut case = begun();
        case.later(ends_at - 1);
        if ends_at > 1 {
            case.pass();
            assert_eq!(case.state(), SnapshotState::InProgress, "{answer:?}");
            assert!(case.look_again.is_some());
        }
        case.later(1).pass();
        assert_eq!(case.state(), SnapshotState::Abandoned, "{answer:?}");
        let mut done = begun();
        done.later(ends_at - 1);
        if ends_at > 1 {
            done.pass();
        }
        done.trigger(Trigger::Completed {
            path: Some("s3://lake/sp/1".to_owned()),
            checkpoint: None,
        });
        done.later(1).pass();
        assert_eq!(done.status().path.as_deref(), Some("s3://lake/sp/1"), "{answer:?}");
    }
}

#[test]
fn a_timeout_beyond_all_time_is_one_that_never_passes() {
    let mut case = savepoint(json!({})).in_progress();
    case.edit_job(|job| job.timeout = SignedDuration::MAX);
    case.later(1_000_000).pass();
    assert_eq!(case.state(), SnapshotState::InProgress);
}

#[test]
fn scenario_5_a_job_whose_session_cluster_is_gone_does_not_run() {
    let none = Fact::Known(Target::Unserved("its session cluster `lab` does not exist".to_owned()));
    for mut case in [savepoint(json!({})), savepoint(json!({})).in_progress()] {
        case.facts.target = none.clone();
        case.facts.trigger = Fact::Unknown("no answer".to_owned());
        let state = case.state();
        case.later(299).pass();
        assert_eq!(case.state(), state, "it may be made anew");
        assert!(case.look_again.is_some());
        case.later(1).pass();
        assert_eq!(case.state(), SnapshotState::Abandoned);
        let told = case.status().error.unwrap();
        assert!(
            told.contains("is not running: its session cluster `lab` does not exist"),
            "{told}"
        );
    }
}

#[test]
fn scenario_6_retries_end_at_the_limit() {
    for (limit, tries) in [(0, 1), (3, 4), (7, 8)] {
        let mut case = savepoint(json!({"backoffLimit": limit}));
        case.trigger(Trigger::Failed { message: "no".to_owned() });
        for attempt in 1..=tries {
            assert_eq!(case.state(), SnapshotState::TriggerPending);
            case.later(3600).pass();
            assert_eq!(case.state(), SnapshotState::InProgress);
            case.later(1).pass();
            assert_eq!(case.status().failures, attempt);
        }
        assert_eq!(case.state(), SnapshotState::Failed);
        assert_eq!(case.look_again, None);
    }
}

#[test]
fn flink_39967_without_a_limit_there_is_no_last_retry() {
    for spec in [json!({"backoffLimit": -1}), json!({})] {
        let mut case = savepoint(spec);
        case.trigger(Trigger::Failed { message: "no".to_owned() });
        let mut pauses = Vec::new();
        for _ in 0..10 {
            case.later(3600).pass().later(1).pass();
            pauses.push(case.look_again.unwrap().as_secs());
        }
        assert_eq!(case.state(), SnapshotState::TriggerPending);
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600, 600, 600], "bounded");
    }
}

#[test]
fn scenario_7_a_savepoint_without_a_path_waits_for_one() {
    let mut case = savepoint(json!({}));
    case.edit_job(|job| job.savepoint_directory = None);
    case.pass();
    assert_eq!(case.state(), SnapshotState::TriggerPending);
    let error = message_of(&case.status().error.unwrap());
    assert!(error.contains("execution.checkpointing.savepoint-dir"), "{error}");
    merge(&mut case.resource, json!({"savepoint": {"path": "s3://lake/other"}}));
    case.pass();
    assert_eq!(case.state(), SnapshotState::TriggerPending, "not before its time");
    case.later(10).pass();
    assert_eq!(case.state(), SnapshotState::InProgress);
}

#[test]
fn scenario_8_flink_1_16_takes_no_checkpoint_on_request() {
    let mut case = checkpoint();
    merge(&mut case.resource, json!({"backoffLimit": 0}));
    case.edit_job(|job| job.flink_version = Some(FlinkVersion::V1_16));
    case.pass();
    assert_eq!(case.state(), SnapshotState::Failed);
    assert_eq!(case.status().failures, 1);
    assert!(case.status().error.unwrap().contains("1.17+"));
    assert_eq!(case.reasons(), ["CheckpointError"]);
}

#[test]
fn scenario_9_a_trigger_that_flink_lost_counts_as_a_failure() {
    let mut case = savepoint(json!({"backoffLimit": 1}));
    case.trigger(Trigger::NotFound);
    case.pass().later(60).pass();
    assert_eq!(case.state(), SnapshotState::TriggerPending);
    case.later(60).pass().later(60).pass();
    assert_eq!(case.state(), SnapshotState::Failed);
    assert_eq!(case.status().failures, 2);
    assert_eq!(case.reasons(), ["SavepointError", "SavepointError"]);
    assert_eq!(Some(&case.events[1].message), case.status().error.as_ref());
}

#[test]
fn scenario_11_labels_follow_the_job_and_are_written_once() {
    let mut case = savepoint(json!({}));
    case.no_job();
    case.pass();
    assert_eq!(case.steps, ["event", "mark", "status"]);
    case.job(Some(JobStatusState::Running));
    case.pass();
    assert_eq!(case.label("job-reference.name"), Some("orders"));
    assert_eq!(case.label("job-reference.kind"), Some("FlinkDeployment"));
    case.pass();
    assert!(case.steps.is_empty(), "{:?}", case.steps);
    // Labels of others are kept.
    case.resource.metadata.labels.get_or_insert_default().insert("team".into(), "a".into());
    case.trigger(Trigger::Completed { path: Some("s3://lake/sp/1".to_owned()), checkpoint: None });
    case.pass();
    assert_eq!(case.label("team"), Some("a"));
}

#[test]
fn a_refused_request_counts_and_an_unheard_one_does_not() {
    let mut case = savepoint(json!({}));
    case.pass();
    let plan = refused(&case.world(), &case.status(), "no such directory");
    case.apply(plan);
    assert_eq!(case.status().failures, 1);
    assert_eq!(case.state(), SnapshotState::TriggerPending);
    let mut case = savepoint(json!({})).in_progress();
    case.facts.trigger = Fact::Unknown("connection refused".to_owned());
    case.later(30).pass();
    assert_eq!((case.state(), case.status().failures), (SnapshotState::InProgress, 0));
}

#[test]
fn a_request_that_never_arrived_is_sent_again_under_its_id() {
    let mut case = savepoint(json!({})).in_progress();
    case.trigger(Trigger::NotFound);
    case.later(5);
    let plan = decide(&case.world()).unwrap();
    let is_again =
        |step: &Step| matches!(step, Step::Trigger(request) if request.trigger_id == "t");
    assert!(plan.steps.iter().any(is_again), "{:?}", plan.steps);
}

#[test]
fn a_job_on_its_way_back_is_waited_for_but_not_for_ever() {
    for state in [None, Some(JobStatusState::Reconciling), Some(JobStatusState::Restarting)] {
        for mut case in [savepoint(json!({})), savepoint(json!({})).in_progress()] {
            case.job(state);
            case.trigger(Trigger::NotFound);
            let before = case.state();
            case.later(200).pass();
            assert_eq!(case.state(), before, "{state:?}");
            case.later(200).pass();
            assert_eq!(case.state(), SnapshotState::Abandoned, "{state:?}");
        }
    }
}

/// Its own operator may never write the id.
#[test]
fn a_job_without_an_id_is_waited_for_and_reported() {
    let mut case = savepoint(json!({}));
    case.edit_job(|job| job.id = None);
    case.pass();
    assert_eq!((case.state(), case.status().error), (SnapshotState::TriggerPending, None));
    for _ in 0..3 {
        case.later(60).pass();
    }
    let told = message_of(&case.status().error.unwrap());
    assert!(told.starts_with("the status of its job has no job id. This has lasted"), "{told}");
    assert_eq!(case.reasons(), ["StillWaiting"]);
    case.job(Some(JobStatusState::Running));
    case.later(10).pass();
    assert_eq!((case.state(), case.status().error), (SnapshotState::InProgress, None));
}

#[test]
fn a_job_that_comes_back_and_goes_ends_its_snapshot_after_flinks_own_timeout() {
    let mut case = savepoint(json!({})).in_progress();
    case.trigger(Trigger::NotFound);
    for minute in 0..11 {
        case.later(60).job(Some(JobStatusState::Restarting));
        case.pass();
        assert_eq!(case.state(), SnapshotState::InProgress, "{minute}");
    }
    case.later(1).pass();
    assert_eq!(case.state(), SnapshotState::Abandoned);
    assert_eq!(case.reasons(), ["SnapshotAbandoned"]);
}

#[test]
fn a_snapshot_that_does_not_end_is_given_up_after_flinks_own_timeout() {
    for trigger in [Fact::Known(Trigger::Pending), Fact::Unknown("no answer".to_owned())] {
        let mut case = savepoint(json!({})).in_progress();
        case.facts.trigger = trigger;
        case.later(600).pass();
        assert_eq!(case.state(), SnapshotState::InProgress);
        case.later(120).pass();
        assert_eq!((case.state(), case.status().failures), (SnapshotState::TriggerPending, 1));
    }
}

#[test]
fn a_checkpoint_without_a_path_is_complete_and_reported() {
    let mut case = checkpoint().in_progress();
    case.trigger(Trigger::Completed { path: None, checkpoint: None });
    case.pass();
    assert_eq!(case.state(), SnapshotState::Completed);
    assert_eq!(case.status().path.as_deref(), Some(""));
    assert_eq!(case.reasons(), ["CheckpointError"]);
    assert!(case.events[0].message.contains("web.checkpoints.history"));
}

#[test]
fn what_another_operator_has_is_left_alone() {
    for mut case in [savepoint(json!({})), savepoint(json!({})).in_progress()] {
        case.facts.target = Fact::Known(Target::Foreign);
        case.pass();
        assert!(case.steps.is_empty());
    }
}

#[test]
fn facts_are_asked_for_only_when_needed() {
    let mut case = savepoint(json!({}));
    case.facts = Facts::default();
    assert_eq!(decide(&case.world()).unwrap_err(), Question::Target);
    let mut case = savepoint(json!({})).completed();
    case.facts = Facts::default();
    decide(&case.world()).unwrap();
}

#[test]
fn a_validator_outside_is_asked_before_a_snapshot_is_taken() {
    let mut case = savepoint(json!({}));
    case.validators.has_any = true;
    assert_eq!(decide(&case.world()), Err(Question::Verdict));
    let mut judged = |answer: Result<Vec<Violation>, String>| {
        let (validator, on_failure) = ("policy".to_owned(), FailurePolicy::Fail);
        let opinion = Opinion { validator, on_failure, answer };
        case.facts.verdict = Fact::Known(Verdict::Given(vec![opinion]));
        case.events.clear();
        case.pass();
        (case.state(), case.events.iter().map(|event| event.message.clone()).collect::<Vec<_>>())
    };
    let (state, told) = judged(Ok(vec![Violation::new("spec.savepoint", "not now")]));
    assert_eq!(
        (state, told),
        (SnapshotState::TriggerPending, vec!["spec.savepoint: not now".into()])
    );
    let (state, told) = judged(Err("it answered 503".to_owned()));
    assert_eq!(state, SnapshotState::TriggerPending);
    assert!(told[0].contains("validator `policy` did not answer"), "{told:?}");
    let (state, again) = judged(Err("it answered 503".to_owned()));
    assert_eq!((state, again), (SnapshotState::TriggerPending, vec![]), "it is on record");
    assert_eq!(judged(Ok(vec![])), (SnapshotState::InProgress, vec![]));
    assert_eq!(case.status().error, None);

    // It is in progress, and deleted: no validator is asked.
    case.facts.verdict = Fact::NotAsked;
    case.pass();
}

// --- paused ---

impl Case {
    fn pause(&mut self, value: &str) {
        let annotations = self.resource.metadata.annotations.get_or_insert_default();
        annotations.insert(api::PAUSED_ANNOTATION.to_owned(), value.to_owned());
    }
}

#[test]
fn a_paused_snapshot_is_not_taken_and_says_so_once() {
    let mut case = savepoint(json!({}));
    case.pause("true");
    case.pass();
    assert!(!case.steps.contains(&"trigger"), "{:?}", case.steps);
    let error = message_of(case.status().error.as_deref().unwrap());
    assert!(error.contains("kubectl flink unpause"), "{error}");
    let told = case.events.len();
    case.later(600).pass();
    assert_eq!((case.events.len(), case.state()), (told, SnapshotState::TriggerPending));
    case.pause("false");
    case.pass();
    assert!(case.steps.contains(&"trigger"), "{:?}", case.steps);
    assert_eq!((case.status().error, case.state()), (None, SnapshotState::InProgress));
}

#[test]
fn a_snapshot_that_is_being_taken_is_followed_while_it_is_paused() {
    let mut case = savepoint(json!({}));
    case.pass();
    case.pause("true");
    case.trigger(Trigger::NotFound);
    case.pass();
    assert!(!case.steps.contains(&"trigger"), "it is not sent again: {:?}", case.steps);
    case.trigger(Trigger::Completed { path: Some("s3://lake/sp/1".to_owned()), checkpoint: None });
    case.pass();
    assert_eq!(case.state(), SnapshotState::Completed);
}

#[test]
fn the_deletion_of_a_paused_snapshot_waits() {
    let mut case = savepoint(json!({}));
    case.pass();
    case.trigger(Trigger::Completed { path: Some("s3://lake/sp/1".to_owned()), checkpoint: None });
    case.pass();
    case.pause("true");
    case.resource.metadata.deletion_timestamp = Some(Time(case.now));
    let plan = decide(&case.world()).unwrap();
    assert_eq!(plan.blocker.as_ref().map(|blocker| blocker.reason), Some(Reason::Paused));
    case.apply(plan);
    assert!(case.is_retained(), "{:?}", case.steps);
}
