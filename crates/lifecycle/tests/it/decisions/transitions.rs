//! The state-transition table, T1 to T35: here a first start and observations, T1 to T12.

mod stopped;
pub(super) mod stopping;

use expect_test::expect;

use super::*;

#[test]
fn t01_a_new_job_is_deployed() {
    check(
        &Scene::new("savepoint"),
        expect![[r#"
        (Deployed, R Stateless, Some(Reconciling), Deploying) Deployed
        deploying the job from empty state
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from nothing, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
    let from = Scene::new("savepoint")
        .edit_job(|job| job.initial_savepoint_path = Some(SAVEPOINT.to_owned()));
    check(
        &from,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t02_a_job_created_suspended_waits() {
    let scene = Scene::new("savepoint").edit_job(|job| job.state = JobState::Suspended);
    check(
        &scene,
        expect![[r#"
        (Upgrading, -, None, Missing) Created
        created suspended: waiting to be resumed
    "#]],
    );
}

#[test]
fn t03_an_invalid_first_spec_is_refused_until_it_changes() {
    let scene = Scene::new("savepoint").edit_job(|job| job.parallelism = Some(-1));
    let plan = scene.plan();
    assert_eq!(plan.look_again, None);
    check(
        &scene,
        expect![[r#"
        (Upgrading, -, None, Missing) Failed
        the spec is invalid and nothing was deployed yet
          event ValidationError: spec.job.parallelism: is `-1`: it must be 1 or more
    "#]],
    );
}

/// The submission of a first deployment was intended, and nothing else is known.
fn first_submission() -> Scene {
    let scene = Scene::new("savepoint")
        .edit_job(|job| job.initial_savepoint_path = Some(SAVEPOINT.to_owned()));
    let plan = scene.plan();
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else {
        panic!("{}", described(&plan))
    };
    let mut scene = scene.clone();
    scene.status = (**intent).clone();
    scene
}

#[test]
fn t04_a_first_submission_that_made_nothing_starts_over_from_the_same_savepoint() {
    check(
        &first_submission(),
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t05_a_first_submission_that_was_made_is_adopted_not_made_again() {
    let mut scene = first_submission();
    let generation = scene.resource.metadata.generation;
    scene.facts.job_manager =
        Fact::Known(Some(JobManager { generation, available_replicas: 0, ..job_manager() }));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        the JobManager was already created
          finish-cluster
    "#]],
    );
}

#[test]
fn t06_t07_a_job_manager_that_answers_is_ready_at_once() {
    // Java needs two more loops, without reading anything in them.
    let mut scene = Scene::running("savepoint").starting();
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    check(
        &scene,
        expect![[r#"
            (Deployed, R Savepoint, Some(Reconciling), DeployedNotReady) Stable
            the JobManager does not answer: no answer
        "#]],
    );
    scene.facts.jobs = Fact::Known(job(JobStatusState::Created));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Created), Ready) Stable
        the job is CREATED
          event JobStatusChanged: Job status changed from RECONCILING to CREATED
    "#]],
    );
}

#[test]
fn t08_a_job_seen_running_makes_its_spec_stable() {
    let mut scene = Scene::running("savepoint").in_state(JobStatusState::Created);
    scene.status.reconciliation_status.last_stable_spec = None;
    scene.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = scene.plan();
    let reconciliation = &plan.status.reconciliation_status;
    assert_eq!(reconciliation.last_stable_spec, reconciliation.last_reconciled_spec);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the job is RUNNING
          event JobStatusChanged: Job status changed from CREATED to RUNNING
    "#]],
    );
}

#[test]
fn t09_a_job_manager_that_went_silent_is_no_lost_job() {
    let mut scene = Scene::running("savepoint");
    scene.facts.jobs = Fact::Unknown("timeout".to_owned());
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), DeployedNotReady) Stable
        the JobManager does not answer: timeout
    "#]],
    );
    scene.facts.job_manager =
        Fact::Known(Some(JobManager { available_replicas: 0, ..job_manager() }));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Stable
        the JobManager is starting
    "#]],
    );
}

#[test]
fn t10_a_lost_deployment_is_reported_and_recovered_in_the_same_pass() {
    let mut scene = Scene::running("last-state");
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Deploying) Stable
        recovering the lost JobManager from the latest checkpoint in HA metadata
          event Missing: Missing JobManager deployment
          event RecoverDeployment: Recovering lost deployment
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
}

#[test]
fn t11_a_pod_that_cannot_start_is_an_error_reported_once() {
    let scene = Scene::running("savepoint").starting().pod_problem("CrashLoopBackOff", true);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Error) Stable
        [flink-main-container] CrashLoopBackOff
          event Error: [flink-main-container] CrashLoopBackOff
    "#]],
    );
    let again = scene.clone().after(&scene.plan());
    check(
        &again,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Error) Stable
        [flink-main-container] CrashLoopBackOff
    "#]],
    );
}

#[test]
fn t12_an_error_ends_when_the_pod_runs() {
    let scene = Scene::running("savepoint").starting().pod_problem("ErrImagePull", false);
    let failed = scene.clone().after(&scene.plan());
    let mut healed = failed;
    healed.facts.pods = Fact::Known(vec![pod()]);
    check(
        &healed,
        expect![[r#"
            (Deployed, R Savepoint, Some(Reconciling), Deploying) Stable
            the JobManager is starting
        "#]],
    );
    healed.facts.job_manager = Fact::Known(Some(job_manager()));
    healed.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = healed.plan();
    assert_eq!(plan.status.error, None);
    check(
        &healed,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the job is RUNNING
          event JobStatusChanged: Job status changed from RECONCILING to RUNNING
    "#]],
    );
}
