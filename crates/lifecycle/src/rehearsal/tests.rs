//! Rehearsals of typical changes, on worlds as the operator reads them.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::world::{self, JobManager, Turn};
use api::DEPLOYMENT_FINALIZER;

const NOW: &str = "2026-01-01T00:10:00Z";
const JOB: &str = "0123456789abcdef0123456789abcdef";

/// An application whose job runs as reconciled, in `mode`.
fn running(mode: &str) -> FlinkDeployment {
    let spec = json!({
        "image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink",
        "flinkConfiguration": {
            "state.savepoints.dir": "s3://b/sp", "state.checkpoints.dir": "s3://b/chk",
            "high-availability.type": "kubernetes", "high-availability.storageDir": "s3://b/ha",
        },
        "jobManager": {"resource": {"memory": "2g", "cpu": 1}, "replicas": 1},
        "taskManager": {"resource": {"memory": "2g", "cpu": 1}},
        "job": {"jarURI": "local:///job.jar", "parallelism": 2, "state": "running", "upgradeMode": mode},
    });
    let last =
        json!({"spec": spec, "resource_metadata": {"apiVersion": "flink.apache.org/v1beta1"}});
    from(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 2,
            "finalizers": [DEPLOYMENT_FINALIZER]},
        "spec": spec,
        "status": {
            "observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "jobId": JOB},
            "reconciliationStatus": {"state": "DEPLOYED", "reconciliationTimestamp": 1_767_225_600_000_i64,
                "lastReconciledSpec": last.to_string(), "lastStableSpec": last.to_string()},
        },
    }))
}

fn from(value: Value) -> FlinkDeployment {
    serde_json::from_value(value).unwrap()
}

/// Answers questions like a healthy cluster, and writes down the rehearsal.
fn rehearse(wanted: FlinkDeployment) -> String {
    let now = NOW.parse().unwrap();
    let mut rehearsal = Rehearsal::new(wanted, None, now);
    for _ in 0..40 {
        match rehearsal.go_on(&OperatorConfig::default()) {
            Ok(true) => {}
            Ok(false) => return shown(&rehearsal.outcome()),
            Err(question) => answer(question, &mut rehearsal.facts),
        }
    }
    panic!("it does not end");
}

fn answer(question: Question, facts: &mut Facts) {
    let at = NOW.parse().ok();
    match question {
        Question::JobManager => {
            facts.job_manager = Fact::Known(Some(JobManager {
                uid: "d1".to_owned(),
                owner_uid: Some("u1".to_owned()),
                generation: Some(1),
                replicas: 1,
                available_replicas: 1,
                created: at,
                ..JobManager::default()
            }));
        }
        Question::Jobs => {
            facts.jobs = Fact::Known(vec![Job {
                id: JOB.to_owned(),
                name: "orders".to_owned(),
                state: JobStatusState::Running,
                start_time: 1_767_225_600_000,
                modified: None,
            }]);
        }
        Question::Checkpoints => {
            facts.checkpoints = Fact::Known(state_at("s3://b/chk/j/chk-9".to_owned(), at.unwrap()));
        }
        Question::Retention => facts.retention = Fact::Known(true),
        Question::HaMetadata => {
            facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
        }
        Question::DeployedConfig => {
            let options = [("high-availability.type", "kubernetes")];
            facts.deployed_config = Fact::Known(options.into_iter().collect());
        }
        Question::Pods => facts.pods = Fact::Known(vec![]),
        Question::TaskManagers => facts.task_managers = Fact::Known(None),
        Question::TaskManagerPods => facts.task_manager_pods = Fact::Known(vec![]),
        Question::Remains => facts.remains = Fact::Known(vec![]),
        Question::Exceptions => facts.exceptions = Fact::Known(vec![]),
        Question::JobMetrics => facts.job_metrics = Fact::Known(world::JobMetrics::default()),
        Question::Cluster => facts.cluster = Fact::Unknown("not told".to_owned()),
        Question::Refusal(_) => facts.refusal = Fact::Known(None),
        Question::StandbyPods => facts.standby_pods = Fact::Known(vec![]),
        Question::Leader => facts.leader = Fact::Known(Leader::Other),
        Question::Turn => facts.turn = Fact::Known(Turn::Taken),
        Question::Preflight(_) => facts.preflight = Fact::Known(PreflightPods::default()),
        Question::Stop
        | Question::Failure
        | Question::ResourceRequirements
        | Question::SessionJobs
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
        | Question::Verdict => panic!("{question:?} is asked"),
    }
}

fn shown(outcome: &Outcome) -> String {
    let mut text = String::new();
    for scene in &outcome.scenes {
        let steps: Vec<&str> = scene.steps.iter().map(|text| text.step).collect();
        text.extend([scene.because.as_str(), ": ", &steps.join(" "), "\n"]);
    }
    if let Some(restore) = &outcome.restore {
        text.extend(["from ", &restore.describe(), "\n"]);
    }
    if let Some(halt) = &outcome.halt {
        text.extend(["halt: ", halt, "\n"]);
    }
    text
}

#[track_caller]
fn check(wanted: FlinkDeployment, expected: Expect) {
    expected.assert_eq(&rehearse(wanted));
}

#[test]
fn an_upgrade_with_a_savepoint_is_rehearsed_to_its_end() {
    let mut wanted = running("savepoint");
    wanted.spec.image = Some("flink:1.20-java17".to_owned());
    check(
        wanted,
        expect![[r#"
            trying the new spec before anything is stopped: make-preflight
            stopping the job with a savepoint: remove-preflight stop-with-savepoint
            removing the JobManager, with the job's state on record: create-snapshot record-revision delete-job-manager
            deploying the job from s3://b/sp/savepoint-…: delete-ha-metadata create-cluster
            from s3://b/sp/savepoint-…
        "#]],
    );
}

#[test]
fn an_upgrade_from_the_last_state_goes_by_ha_metadata() {
    let mut wanted = running("last-state");
    wanted.spec.image = Some("flink:1.20-java17".to_owned());
    check(
        wanted,
        expect![[r#"
            trying the new spec before anything is stopped: make-preflight
            removing the JobManager and keeping HA metadata: remove-preflight record-revision stop-job-manager
            the JobManager has ended: removing the rest: delete-job-manager
            deploying the job from the latest checkpoint in HA metadata: forget-job-graphs create-cluster
            from the latest checkpoint in HA metadata
        "#]],
    );
}

#[test]
fn a_stateless_upgrade_starts_empty() {
    let mut wanted = running("stateless");
    wanted.spec.image = Some("flink:1.20-java17".to_owned());
    check(
        wanted,
        expect![[r#"
            trying the new spec before anything is stopped: make-preflight
            stopping the job without keeping its state: remove-preflight record-revision cancel-job delete-job-manager
            deploying the job from empty state: delete-ha-metadata create-cluster
            from empty state
        "#]],
    );
}

#[test]
fn a_suspension_ends_without_a_start() {
    let mut wanted = running("savepoint");
    wanted.spec.job.as_mut().unwrap().state = api::job::JobState::Suspended;
    check(
        wanted,
        expect![[r#"
        stopping the job with a savepoint: stop-with-savepoint
        suspended with a savepoint: create-snapshot record-revision
    "#]],
    );
}

#[test]
fn nothing_is_done_about_an_unchanged_spec() {
    let mut wanted = running("savepoint");
    wanted.metadata.generation = Some(1);
    check(wanted, expect![[""]]);
}

#[test]
fn a_new_resource_is_deployed_at_once() {
    let mut wanted = running("savepoint");
    wanted.status = None;
    wanted.metadata.finalizers = None;
    let mut rehearsal = Rehearsal::new(wanted, None, NOW.parse().unwrap());
    rehearsal.facts.job_manager = Fact::Known(None);
    rehearsal.facts.pods = Fact::Known(vec![]);
    rehearsal.facts.ha_metadata = Fact::Known(HaMetadata::default());
    while rehearsal.go_on(&OperatorConfig::default()).unwrap() {}
    expect![[r#"
        deploying the job from empty state: add-finalizer forget-job-graphs create-cluster
        from empty state
    "#]]
    .assert_eq(&shown(&rehearsal.outcome()));
}

#[test]
fn a_refusal_is_where_a_rehearsal_ends() {
    let mut wanted = running("last-state");
    let status = wanted.status.as_mut().unwrap();
    status.job_status.state = Some(JobStatusState::Reconciling);
    status.job_manager_deployment_status = api::status::JobManagerDeploymentStatus::Missing;
    wanted.spec.image = Some("flink:1.20-java17".to_owned());
    let mut rehearsal = Rehearsal::new(wanted, None, NOW.parse().unwrap());
    rehearsal.facts.job_manager = Fact::Known(None);
    rehearsal.facts.ha_metadata = Fact::Known(HaMetadata::default());
    while rehearsal.go_on(&OperatorConfig::default()).unwrap_or_else(|question| {
        answer(question, &mut rehearsal.facts);
        true
    }) {}
    expect![[r#"
        halt: JobManager deployment is missing and HA metadata is not available to make stateful upgrades. It is possible that the job has finished or terminally failed, or the configmaps have been deleted. Manual restore required. Find the job's newest checkpoint or savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` to a new number.
    "#]].assert_eq(&shown(&rehearsal.outcome()));
}
