//! Laws that hold for every world, likely or not.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

#[derive(Clone, Debug)]
struct Case {
    mode: &'static str,
    stored_mode: UpgradeMode,
    stored_state: JobState,
    state: ReconciliationState,
    seen: Option<JobStatusState>,
    listed: Fact<Option<JobStatusState>>,
    job_manager: JobManagerDeploymentStatus,
    /// Available replicas, whether it is being deleted, whether it was never available.
    deployment: Option<(i32, bool, bool)>,
    pods: usize,
    metadata: Option<(bool, bool)>,
    path: Option<&'static str>,
    has_checkpoints: Option<bool>,
    edit: u8,
    options: [bool; 4],
    age_seconds: i64,
    is_deleting: bool,
}

fn job_state() -> impl Strategy<Value = JobStatusState> {
    select(vec![
        JobStatusState::Created,
        JobStatusState::Running,
        JobStatusState::Restarting,
        JobStatusState::Failed,
        JobStatusState::Cancelling,
        JobStatusState::Canceled,
        JobStatusState::Finished,
        JobStatusState::Reconciling,
    ])
}

fn cases() -> impl Strategy<Value = Case> {
    let stored = (
        select(vec!["stateless", "savepoint", "last-state"]),
        select(vec![UpgradeMode::Stateless, UpgradeMode::Savepoint, UpgradeMode::LastState]),
        select(vec![JobState::Running, JobState::Suspended]),
        select(vec![
            ReconciliationState::Deployed,
            ReconciliationState::Upgrading,
            ReconciliationState::RollingBack,
            ReconciliationState::RolledBack,
        ]),
        prop::option::of(job_state()),
        select(vec![
            JobManagerDeploymentStatus::Ready,
            JobManagerDeploymentStatus::DeployedNotReady,
            JobManagerDeploymentStatus::Deploying,
            JobManagerDeploymentStatus::Missing,
            JobManagerDeploymentStatus::Error,
        ]),
    );
    let world = (
        prop::option::of(job_state()).prop_flat_map(|state| {
            select(vec![Fact::Known(state), Fact::Unknown("no answer".to_owned())])
        }),
        prop::option::of((0..2_i32, any::<bool>(), any::<bool>())),
        0..2_usize,
        prop::option::of((any::<bool>(), any::<bool>())),
        select(vec![None, Some(SAVEPOINT), Some(api::status::LAST_STATE_PATH)]),
        prop::option::of(any::<bool>()),
    );
    let asked = (0..5_u8, any::<[bool; 4]>(), 0..1000_i64, any::<bool>());
    (stored, world, asked).prop_map(|(stored, world, asked)| {
        let (mode, stored_mode, stored_state, state, seen, job_manager) = stored;
        let (listed, deployment, pods, metadata, path, has_checkpoints) = world;
        let (edit, options, age_seconds, is_deleting) = asked;
        Case {
            mode,
            stored_mode,
            stored_state,
            state,
            seen,
            listed,
            job_manager,
            deployment,
            pods,
            metadata,
            path,
            has_checkpoints,
            edit,
            options,
            age_seconds,
            is_deleting: is_deleting && edit == 0,
        }
    })
}

fn scene(case: &Case) -> Scene {
    let [rollback, restart, cancel, snapshots] = case.options;
    let mut scene = Scene::running(case.mode)
        .operator_option("deployment.rollback.enabled", &rollback.to_string())
        .operator_option("job.restart.failed", &restart.to_string())
        .operator_option("job.upgrade.last-state.job-cancel.enabled", &cancel.to_string())
        .operator_option("job.savepoint-on-deletion", &snapshots.to_string());
    if case.age_seconds % 2 == 0 {
        // The stored spec failed, while the previous one was stable.
        scene = scene.edit(|spec| spec.image = Some("flink:new".to_owned()));
        scene.status.observed_generation = Some(2);
    }
    scene.store(case.stored_state, case.stored_mode);
    scene.status.reconciliation_status.state = case.state;
    scene.status.reconciliation_status.reconciliation_timestamp =
        ago(case.age_seconds).as_millisecond();
    scene.status.job_status.state = case.seen;
    scene.status.job_status.upgrade_savepoint_path = case.path.map(str::to_owned);
    scene.status.job_manager_deployment_status = case.job_manager;
    scene.facts.job_manager =
        Fact::Known(case.deployment.map(|(available, is_deleting, never)| JobManager {
            available_replicas: available,
            is_deleting,
            was_never_available: never,
            ..job_manager()
        }));
    scene.facts.pods = Fact::Known(vec![pod(); case.pods]);
    scene.facts.jobs = match case.listed {
        Fact::Known(Some(state)) => Fact::Known(job(state)),
        Fact::Known(None) => Fact::Known(vec![]),
        Fact::NotAsked | Fact::Unknown(_) => Fact::Unknown("no answer".to_owned()),
    };
    scene.facts.ha_metadata = match case.metadata {
        Some((has_job, has_checkpoint)) => Fact::Known(HaMetadata {
            has_job,
            checkpoint: (has_job && has_checkpoint).then_some(1),
        }),
        None => Fact::Unknown("no answer".to_owned()),
    };
    scene.facts.checkpoints = match case.has_checkpoints {
        Some(true) => scene.facts.checkpoints,
        Some(false) => Fact::Known(Checkpoints::default()),
        None => Fact::Unknown("no answer".to_owned()),
    };
    scene = match case.edit {
        1 => scene.edit_job(|job| job.parallelism = Some(4)),
        2 => scene.edit_job(|job| job.state = JobState::Suspended),
        3 => scene.edit_job(|job| job.parallelism = Some(-1)),
        4 => scene.edit(|spec| spec.restart_nonce = Some(9)),
        _ => scene,
    };
    if case.is_deleting { scene.delete() } else { scene }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// `Scene::plan` panics if there is no plan, or if the same world yields two.
    #[test]
    fn every_world_has_one_plan_that_is_safe(case in cases()) {
        let scene = scene(&case);
        let plan = scene.plan();
        let position = |name: &str| plan.steps.iter().position(|step| step.name() == name);

        // The intent is written before anything is destroyed or created.
        if !case.is_deleting {
            for deed in ["delete-job-manager", "create-cluster", "stop-with-savepoint", "scale-job"] {
                if let Some(at) = position(deed) {
                    prop_assert!(position("write-status").is_some_and(|written| written < at));
                }
            }
        }
        // Never a second JobManager.
        if position("create-cluster").is_some() {
            prop_assert!(case.deployment.is_none() && case.pods == 0);
        }
        // A stateful job starts empty only if it was stopped that way, or is known to have no state.
        if restored(&plan).is_some_and(|path| path.is_empty())
            && case.mode != "stateless"
        {
            let is_stopped = case.stored_state == JobState::Suspended
                || matches!(
                    case.state,
                    ReconciliationState::Upgrading | ReconciliationState::RollingBack
                );
            let was_stopped_empty = case.stored_mode == UpgradeMode::Stateless && is_stopped;
            let has_no_checkpoint = case.metadata == Some((true, false))
                && (case.path.is_none() || case.stored_mode == UpgradeMode::Stateless);
            prop_assert!(was_stopped_empty || has_no_checkpoint, "{}", described(&plan));
        }
        // A path that a start restores is the recorded one, or newer.
        if let Some(path) = restored(&plan).filter(|path| !path.is_empty()) {
            let known = [case.path, Some(CHECKPOINT), Some(api::status::LAST_STATE_PATH)];
            prop_assert!(known.contains(&Some(path.as_str())), "{path}");
        }
        // Only the finalizer's removal releases a resource.
        if position("remove-finalizer").is_some() {
            prop_assert!(case.is_deleting && case.deployment.is_none() && case.pods == 0);
        }
    }

    /// The state that a plan without steps leaves is kept by the next plan.
    #[test]
    fn a_world_at_rest_stays_at_rest(case in cases()) {
        let mut scene = scene(&case);
        for _ in 0..4 {
            let plan = scene.plan();
            if plan.steps.iter().any(|step| !matches!(step, Step::Event(_))) {
                return Ok(());
            }
            scene = scene.after(&plan);
        }
        let plan = scene.plan();
        prop_assert_eq!(&*plan.status, &scene.status, "{}", described(&plan));
        // An event with a key is recorded once, however often it is emitted.
        let is_once = |step: &Step| matches!(step, Step::Event(event) if event.key.is_some());
        prop_assert!(plan.steps.iter().all(is_once), "{}", described(&plan));
    }
}
