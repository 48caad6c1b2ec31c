//! Something waited forever, or went round in circles.

use api::job::JobState;
use api::status::{
    JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH, LifecycleState,
    ReconciliationState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::error_document::message_of;
use lifecycle::world::{Checkpoints, Fact};
use serde_json::json;
use testing::scene::{CHECKPOINT, SAVEPOINT, Scene, described, error, job, step_names};

use crate::decisions::care::unhealthy;
use crate::session_job_simulation::Sim as SessionJob;
use crate::simulation::session::Session;

/// Runs a session cluster for half a minute.
fn wait(cluster: &mut Session) {
    for _ in 0..30 {
        cluster.tick();
        cluster.pass(None);
    }
}

#[test]
fn flink_27337_a_session_cluster_is_not_deleted_under_its_jobs() {
    let mut cluster = Session::new("native");
    cluster.settle();
    cluster.referring = vec!["orders".to_owned()];
    cluster.jobs = vec![JobStatusState::Running];
    cluster.mark_for_deletion();
    wait(&mut cluster);
    assert!(cluster.is_up() && !cluster.is_gone());
    assert_eq!(cluster.message(), "The session jobs [orders] should be deleted first");
    cluster.referring.clear();
    wait(&mut cluster);
    assert!(cluster.is_up() && !cluster.is_gone());
    assert!(cluster.message().contains("non terminated jobs"), "{}", cluster.message());
    cluster.jobs = vec![JobStatusState::Canceled];
    wait(&mut cluster);
    assert!(cluster.is_gone());
}

#[test]
fn flink_37320_a_job_that_finished_stays_so_without_its_job_manager() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut scene = Scene::running(mode).in_state(JobStatusState::Finished).without_metadata();
        scene.facts.job_manager = Fact::Known(None);
        scene.facts.pods = Fact::Known(vec![]);
        for _ in 0..3 {
            let plan = scene.plan();
            assert!(step_names(&plan).is_empty(), "{mode}: {}", described(&plan));
            assert_eq!(plan.status.job_status.state, Some(JobStatusState::Finished), "{mode}");
            scene = scene.after(&plan);
        }
    }
}

/// Marks a session job for deletion.
fn deleted(job: &mut SessionJob) {
    job.resource.metadata.deletion_timestamp = Some(Time(job.now));
}

/// Runs a session job for this many seconds.
fn pass_for(job: &mut SessionJob, seconds: u32) {
    for _ in 0..seconds {
        job.tick();
        job.pass(None);
    }
}

fn is_gone(job: &SessionJob) -> bool {
    job.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

#[test]
fn flink_37766_a_session_job_that_ended_before_its_cancellation_is_let_go() {
    for listed in [Some(JobStatusState::Failed), Some(JobStatusState::Finished), None] {
        let mut job = SessionJob::new("savepoint", false);
        job.settle();
        job.status.job_status.state = Some(JobStatusState::Cancelling);
        match listed {
            Some(state) => job.jobs[0].state = state,
            None => job.jobs.clear(),
        }
        deleted(&mut job);
        for _ in 0..5 {
            job.tick();
            job.pass(None);
        }
        assert!(is_gone(&job), "{listed:?}");
    }
}

#[test]
fn flink_38077_a_job_whose_job_manager_is_silent_is_not_cancelled_for_an_upgrade() {
    for state in [JobStatusState::Restarting, JobStatusState::Failing, JobStatusState::Created] {
        let mut scene = Scene::running("last-state")
            .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
            .in_state(state)
            .edit_job(|job| job.parallelism = Some(4));
        assert!(step_names(&scene.plan()).contains(&"cancel-job"), "{}", described(&scene.plan()));
        scene.facts.jobs = Fact::Unknown("timeout".to_owned());
        let plan = scene.plan();
        assert_eq!(step_names(&plan), ["record-revision", "write-status", "stop-job-manager"]);
        assert_eq!(plan.because, "removing the JobManager and keeping HA metadata");
        let plan = scene.without_metadata().plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    }
}

#[test]
fn flink_39271_a_session_job_ends_alongside_a_cluster_that_does_not_answer() {
    let mark = |job: &mut SessionJob, state: JobManagerDeploymentStatus| {
        let status = job.cluster.status.as_mut().unwrap();
        status.job_manager_deployment_status = state;
        status.reconciliation_status.state = ReconciliationState::Deployed;
    };
    // Without high availability it went with its JobManager.
    let mut lost = SessionJob::new("savepoint", false);
    lost.settle();
    deleted(&mut lost);
    mark(&mut lost, JobManagerDeploymentStatus::Missing);
    lost.pass(None);
    assert!(is_gone(&lost));
    // A JobManager that exists but never answers is waited for, for a limited time.
    let mut silent = SessionJob::new("savepoint", false);
    silent.settle();
    deleted(&mut silent);
    silent.away = u64::MAX;
    pass_for(&mut silent, 200);
    assert!(!is_gone(&silent));
    pass_for(&mut silent, 200);
    assert!(is_gone(&silent));
    // With high availability the job would come back, whenever that is. The resource stays, says why and what helps,
    // and is deleted at once when its user does that.
    let mut never = SessionJob::new("savepoint", true);
    never.settle();
    deleted(&mut never);
    never.away = u64::MAX;
    pass_for(&mut never, 3_600);
    assert!(!is_gone(&never));
    let told = message_of(never.status.error.as_deref().unwrap_or_default());
    let option = "kubernetes.operator.session.deletion.block-on-session-jobs";
    assert!(told.contains("cancel the job that its high availability brings back"), "{told}");
    assert!(told.contains(option), "{told}");
    let mut let_go = never.clone();
    let configuration = &mut let_go.cluster.spec.flink_configuration.0;
    drop(configuration.insert(option.to_owned(), json!("false")));
    let_go.cluster.metadata.deletion_timestamp = Some(Time(let_go.now));
    let_go.pass(None);
    assert!(is_gone(&let_go));
    // A cluster that is being deleted will not come back either, and is waited for a limited time.
    never.cluster.metadata.deletion_timestamp = Some(Time(never.now));
    pass_for(&mut never, 400);
    assert!(is_gone(&never));
    // With the cluster the job comes back, and is then cancelled.
    let mut kept = SessionJob::new("savepoint", true);
    kept.settle();
    deleted(&mut kept);
    mark(&mut kept, JobManagerDeploymentStatus::Missing);
    kept.away = 3;
    let plan = kept.pass(None);
    assert!(!is_gone(&kept) && plan.look_again.is_some(), "{}", plan.because);
    assert!(plan.because.contains("deletion waits for the session cluster"), "{}", plan.because);
    for _ in 0..8 {
        kept.tick();
        kept.pass(None);
    }
    assert!(is_gone(&kept));
    assert!(kept.jobs.iter().all(|job| job.state.is_globally_terminal()));
}

#[test]
fn flink_39507_the_health_check_does_not_restart_a_job_that_has_ended() {
    for state in [JobStatusState::Failed, JobStatusState::Finished] {
        let running = unhealthy("last-state");
        assert!(step_names(&running.plan()).contains(&"stop-job-manager"));
        let mut ended = running.in_state(state).path(CHECKPOINT);
        let verdict =
            json!({"timeStamp": 0, "healthResult": {"healthy": false, "error": "restarts"}});
        ended.status.cluster_info.insert("ClusterHealthInfo".to_owned(), verdict.to_string());
        let plan = ended.plan();
        assert!(step_names(&plan).is_empty(), "{state:?}: {}", described(&plan));
        assert_eq!(plan.status.job_status.state, Some(state));
    }
}

/// A session cluster and a job in it, each as the other sees it.
struct Both {
    cluster: Session,
    job: SessionJob,
}

impl Both {
    fn settled() -> Self {
        let mut cluster = Session::new("native");
        cluster.settle();
        let mut job = SessionJob::new("savepoint", true);
        job.now = cluster.now;
        job.cluster.status = Some(cluster.status.clone());
        job.settle();
        while cluster.now < job.now {
            cluster.tick();
        }
        let mut both = Self { cluster, job };
        both.pass_for(5);
        both
    }

    fn are_gone(&self) -> (bool, bool) {
        (self.cluster.is_gone(), is_gone(&self.job))
    }

    /// Runs both for this many seconds, or until both are gone.
    fn pass_for(&mut self, seconds: u32) {
        let Self { cluster, job } = self;
        for _ in 0..seconds {
            cluster.tick();
            job.tick();
            cluster.referring = if is_gone(job) { vec![] } else { vec!["orders".to_owned()] };
            if cluster.is_up() {
                cluster.jobs = job.jobs.iter().map(|job| job.state).collect();
            }
            if !cluster.is_gone() {
                cluster.pass(None);
            }
            assert!(!cluster.is_gone() || is_gone(job), "its cluster goes first");
            job.cluster.status = Some(cluster.status.clone());
            job.cluster.metadata.deletion_timestamp =
                cluster.resource.metadata.deletion_timestamp.clone();
            job.away = if cluster.is_up() { 0 } else { u64::MAX };
            if !is_gone(job) {
                job.pass(None);
            }
            if is_gone(job) && cluster.is_gone() {
                return;
            }
        }
    }
}

#[test]
fn flink_39618_a_session_cluster_and_its_job_are_deleted_together() {
    for cluster_goes_first in [true, false] {
        let mut both = Both::settled();
        assert!(both.job.jobs.iter().any(|job| job.state == JobStatusState::Running));
        if cluster_goes_first {
            both.cluster.mark_for_deletion();
            both.pass_for(60);
            assert_eq!(both.are_gone(), (false, false));
            let told = both.cluster.message();
            assert_eq!(told, "The session jobs [orders] should be deleted first");
            deleted(&mut both.job);
        } else {
            deleted(&mut both.job);
            both.cluster.mark_for_deletion();
        }
        both.pass_for(60);
        assert_eq!(both.are_gone(), (true, true), "{cluster_goes_first}");
        let jobs = &both.job.jobs;
        assert!(jobs.iter().all(|job| job.state == JobStatusState::Canceled), "it was cancelled");
    }
    // If the JobManager is gone too, the job cannot be cancelled, and no JobManager is created to ask.
    let mut both = Both::settled();
    both.cluster.mark_for_deletion();
    both.cluster.lose_job_manager();
    deleted(&mut both.job);
    both.pass_for(600);
    assert_eq!(both.are_gone(), (true, true), "{}", both.cluster.message());
}

#[test]
fn flink_38290_a_job_that_has_ended_stays_so_with_a_job_manager_that_lists_none() {
    for state in [JobStatusState::Finished, JobStatusState::Failed, JobStatusState::Canceled] {
        let mut scene = Scene::running("savepoint").path(SAVEPOINT).in_state(state);
        scene = scene.clone().after(&scene.plan());
        scene.facts.jobs = Fact::Known(vec![]);
        let error = scene.status.error.clone();
        for _ in 0..3 {
            let plan = scene.plan();
            assert_eq!(plan.status.job_status.state, Some(state));
            assert_eq!(plan.status.error, error);
            assert!(!described(&plan).contains("Missing: "), "{}", described(&plan));
            // A job that someone else cancelled is started again from the state it left.
            let rests = state != JobStatusState::Canceled;
            assert_eq!(plan.steps.is_empty(), rests, "{state:?}: {}", described(&plan));
            scene = scene.after(&plan);
        }
        if state == JobStatusState::Canceled {
            continue;
        }
        // The user's next change is carried out all the same.
        let plan = scene.edit_job(|job| job.parallelism = Some(4)).plan();
        assert!(
            step_names(&plan).contains(&"delete-job-manager"),
            "{state:?}: {}",
            described(&plan)
        );
    }
}

/// The job ended with a checkpoint in the memory of its JobManager, from which nothing can start.
#[test]
fn flink_40162_an_end_without_a_usable_checkpoint_is_seen_and_starts_nothing_empty() {
    for state in [JobStatusState::Finished, JobStatusState::Failed] {
        let mut scene = Scene::running("savepoint").without_metadata();
        let unusable = Some("the last checkpoint lives in the JobManager's memory".to_owned());
        scene.facts.jobs = Fact::Known(job(state));
        scene.facts.checkpoints =
            Fact::Known(Checkpoints { latest: None, unusable, ..Checkpoints::default() });
        let plan = scene.plan();
        let status = &plan.status.job_status;
        assert_eq!(status.state, Some(state), "{}", described(&plan));
        assert_eq!(status.upgrade_savepoint_path.as_deref(), Some(LAST_STATE_PATH));
        let plan = scene.after(&plan).edit_job(|job| job.parallelism = Some(4)).plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(error(&plan).contains("spec.job.savepointRedeployNonce"), "{}", error(&plan));
    }
}

#[test]
fn flink_40164_a_job_that_vanishes_while_it_is_suspended_by_cancel_does_not_stay_upgrading() {
    let suspended = |mode: &str| {
        let scene = Scene::running(mode)
            .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
            .without_metadata()
            .edit_job(|job| job.state = JobState::Suspended);
        let plan = scene.plan();
        assert!(step_names(&plan).contains(&"cancel-job"), "{mode}: {}", described(&plan));
        scene.after(&plan).unlisted()
    };
    let mut stateless = suspended("stateless");
    stateless.facts.job_manager = Fact::Known(None);
    stateless.facts.pods = Fact::Known(vec![]);
    let plan = stateless.plan();
    assert_eq!(
        plan.status.lifecycle_state,
        Some(LifecycleState::Suspended),
        "{}",
        described(&plan)
    );
    // With state the error says what helps, and nothing is deleted before someone has found the state.
    let mut stateful = suspended("last-state");
    for _ in 0..3 {
        let plan = stateful.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        let state = plan.status.reconciliation_status.state;
        assert_eq!(state, ReconciliationState::Deployed, "{}", described(&plan));
        assert!(error(&plan).contains("spec.job.savepointRedeployNonce"), "{}", error(&plan));
        stateful = stateful.after(&plan);
    }
}
