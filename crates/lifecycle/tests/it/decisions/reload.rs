//! The operator's configuration changes while jobs run. As in the Java operator, a spec is compared with the last
//! reconciled spec, without the defaults below it: a new default restarts no job, and applies to what is deployed next.

use lifecycle::notes::STARTED_WITH;

use super::*;

const KUBERNETES: (&str, &str) = ("high-availability.type", "kubernetes");

const NEW_DEFAULTS: &str = "\
taskmanager.memory.managed.fraction: 0.1
parallelism.default: 7
env.log.max: 7
pipeline.jobvertex-parallelism-overrides: a:9
execution.checkpointing.interval: 1 min
state.backend.type: rocksdb
kubernetes.operator.default-configuration.namespace.shop.env.log.level: DEBUG
kubernetes.operator.default-configuration.flink-version.v1_20.restart-strategy.type: none
kubernetes.operator.default-configuration.flink-version.v1_18+.jobmanager.scheduler: adaptive
";

fn operator(text: &str) -> OperatorConfig {
    OperatorConfig::new(config::file::parse_flink_conf(text))
}

/// Returns the Flink configuration that the plan deploys.
fn configuration(plan: &Plan) -> Option<String> {
    plan.steps.iter().find_map(|step| match step {
        Step::Own(ClusterStep::CreateCluster(objects)) => {
            objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().map(str::to_owned)
        }
        _ => None,
    })
}

#[test]
fn a_new_default_touches_no_running_job() {
    for mode in ["stateless", "savepoint", "last-state"] {
        for edited in [false, true] {
            let mut scene = Scene::running(mode);
            if edited {
                // The operator's own options never caused a restart either.
                scene = scene.edit(|spec| {
                    let key = "kubernetes.operator.job.restart.failed".to_owned();
                    spec.flink_configuration.0.insert(key, json!("true"));
                });
                scene = scene.clone().after(&scene.plan());
            }
            let before = scene.plan();
            scene.operator = operator(NEW_DEFAULTS);
            let after = scene.plan();
            assert_eq!(step_names(&after), [""; 0], "{mode}");
            assert_eq!(after.status, before.status, "{mode}");
        }
    }
}

/// The job was started with high availability, which is no longer a default of the operator.
fn started_with(mode: &str) -> Scene {
    let mut scene = by_default(mode);
    scene.facts.deployed_config = given(&[KUBERNETES]);
    scene
}

/// It is unknown how the job was started: its ConfigMap cannot be read, and nothing is recorded.
fn started_somehow(mut scene: Scene) -> Scene {
    scene.facts.deployed_config = Fact::Unknown("there is no ConfigMap".to_owned());
    scene
}

/// The ConfigMap cannot be read, but the status records its options.
fn on_record(scene: Scene, options: &str) -> Scene {
    let mut scene = started_somehow(scene);
    scene.status.cluster_info.insert(STARTED_WITH.key.to_owned(), options.to_owned());
    scene
}

#[test]
fn a_job_whose_high_availability_was_a_default_runs_on_without_it() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut scene = by_default(mode);
        scene.operator = operator(HA);
        assert_eq!(step_names(&scene.plan()), [""; 0], "{mode}");
        scene.operator = operator("");
        assert_eq!(step_names(&scene.plan()), [""; 0], "{mode}");
    }
}

#[test]
fn a_suspended_job_stays_so() {
    let mut scene = Scene::running("savepoint")
        .edit_job(|job| job.state = JobState::Suspended)
        .suspended(UpgradeMode::Savepoint)
        .path(SAVEPOINT);
    scene.store(JobState::Suspended, UpgradeMode::Savepoint);
    let before = step_names(&scene.plan());
    scene.operator = operator(NEW_DEFAULTS);
    assert_eq!(step_names(&scene.plan()), before);
    assert_eq!(configuration(&scene.plan()), None);
}

#[test]
fn what_is_deployed_next_has_the_new_default() {
    let upgraded = Scene::running("savepoint")
        .upgrading(UpgradeMode::Savepoint)
        .path(SAVEPOINT)
        .edit_job(|job| job.parallelism = Some(3));
    // A lost JobManager is also recreated with the current defaults.
    let recovered = Scene::running("last-state").gone();
    for mut scene in [upgraded, recovered] {
        scene.operator = operator(NEW_DEFAULTS);
        let given = configuration(&scene.plan()).expect("it is deployed");
        for line in ["env.log.max: 7", "env.log.level: DEBUG", "restart-strategy.type: none"] {
            assert!(given.lines().any(|given| given == line), "{line}\n{given}");
        }
        assert!(!given.contains("default-configuration"), "{given}");
    }
}

#[test]
fn the_operators_own_options_count_at_once() {
    let mut scene = Scene::running("savepoint");
    let before = scene.plan().look_again;
    scene.operator = operator("kubernetes.operator.reconcile.interval: 7 s\n");
    let after = scene.plan().look_again;
    assert_eq!(after, Some(std::time::Duration::from_secs(7)));
    assert_ne!(before, after);
}

/// The job has stopped with its savepoint, to be suspended.
pub(crate) fn stopped_for_suspension(scene: Scene) -> Scene {
    let scene = scene.edit_job(|job| job.state = JobState::Suspended);
    let plan = scene.plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
    let mut stopped = scene.after(&plan);
    stopped.facts.stop = Fact::Known(Stop::Completed { path: SAVEPOINT.to_owned() });
    stopped.facts.jobs = Fact::Known(job(JobStatusState::Finished));
    stopped
}

#[test]
fn a_job_manager_outlives_a_suspension_by_the_high_availability_that_it_was_started_with() {
    let without = stopped_for_suspension(started_without("savepoint"));
    let with = stopped_for_suspension(started_with("savepoint"));
    for (scene, goes) in [
        // A new pod would run the job again.
        (without.clone(), true),
        (on_record(without.clone(), "{}"), true),
        (on_record(without.clone(), "not readable"), true),
        (started_somehow(without.clone()), true),
        (with.clone(), false),
        (on_record(with, r#"{"high-availability.type":"kubernetes"}"#), false),
        // What its pods mount takes precedence over the record, which may be of an earlier start.
        (on_record(without.clone(), r#"{"high-availability.type":"kubernetes"}"#), false),
        (
            Scene {
                facts: without.facts.clone(),
                ..on_record(without, r#"{"high-availability.type":"kubernetes"}"#)
            },
            true,
        ),
    ] {
        let plan = scene.plan();
        assert_eq!(step_names(&plan).contains(&"delete-job-manager"), goes, "{}", described(&plan));
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some(SAVEPOINT), "{}", described(&plan));
    }
}

/// A restarted JobManager has the job in this state.
fn run_anew(mut scene: Scene, state: JobStatusState) -> Scene {
    let mut jobs = job(state);
    jobs[0].start_time = ago(30).as_millisecond();
    scene.facts.jobs = Fact::Known(jobs);
    scene.facts.pods = Fact::Known(vec![Pod { last_started: Some(ago(30)), ..pod() }]);
    scene
}

#[test]
fn the_next_run_of_a_job_is_recognised_by_the_high_availability_that_it_was_started_with() {
    let pending = |scene: Scene| {
        let scene = scene.edit(|spec| spec.image = Some("flink:other".to_owned()));
        let mut rerun = run_anew(scene.clone().after(&scene.plan()), JobStatusState::Running);
        let info = rerun.status.job_status.savepoint_info.as_mut().unwrap();
        info.trigger_timestamp = Some(ago(60).as_millisecond());
        rerun.facts.stop = Fact::Known(Stop::NotFound);
        rerun
    };
    let ended = |scene: Scene| {
        let scene = scene.path(SAVEPOINT).in_state(JobStatusState::Failed);
        run_anew(scene, JobStatusState::Running).edit_job(|job| job.parallelism = Some(4))
    };
    for rerun in [pending(started_without("savepoint")), ended(started_without("savepoint"))] {
        let plan = rerun.plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        assert!(
            error(&plan).contains("runs the job again from where it began"),
            "{}",
            error(&plan)
        );
        // Also in doubt, which is reported.
        let plan = started_somehow(rerun).plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        assert!(error(&plan).contains("unknown: there is no ConfigMap"), "{}", error(&plan));
    }
    // With high availability it is the same run.
    let plan = pending(started_with("savepoint")).plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
}

#[test]
fn an_end_that_is_known_by_its_result_is_so_by_the_high_availability_of_the_start() {
    let ended = |mut scene: Scene| {
        scene.store(JobState::Running, UpgradeMode::Stateless);
        let [ended] = <[Job; 1]>::try_from(job(JobStatusState::Failed)).unwrap();
        scene.facts.jobs = Fact::Known(vec![Job { name: "unknown".to_owned(), ..ended }]);
        scene.facts.checkpoints = Fact::Known(Checkpoints::default());
        scene.plan().status.job_status.upgrade_savepoint_path
    };
    let last_state = Some("KUBERNETES_OPERATOR_LAST_STATE".to_owned());
    assert_eq!(ended(started_with("savepoint")), last_state);
    assert_eq!(ended(started_somehow(started_without("savepoint"))), last_state);
    assert_eq!(ended(started_without("savepoint")), None);
}

#[test]
fn metadata_that_what_runs_did_not_write_are_not_gone_by() {
    let left_over = |mut scene: Scene| {
        scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
        scene
    };
    let edited = |scene: Scene| left_over(scene).edit_job(|job| job.parallelism = Some(4)).plan();
    // Its checkpoints are retained: it is cancelled, and starts from the last of them.
    let plan = edited(started_without("last-state"));
    assert!(step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
    // With the current default they are in another place.
    let mut moved = started_with("last-state");
    moved.facts.deployed_config = given(&[
        ("high-availability.type", "zookeeper"),
        ("high-availability.zookeeper.quorum", "zookeeper:2181"),
    ]);
    moved.operator = operator(HA);
    let plan = edited(moved.clone());
    assert!(step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
    let kept = Scene { facts: started_with("last-state").facts, ..moved };
    let plan = edited(kept);
    assert!(step_names(&plan).contains(&"stop-job-manager"), "{}", described(&plan));

    // Without a JobManager the record decides.
    let lost = |mode: &str, record: &str| {
        let mut scene = left_over(on_record(started_without(mode), record)).path(SAVEPOINT).gone();
        scene.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        scene.plan()
    };
    let plan = lost("savepoint", "{}");
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert!(error(&plan).contains("Manual restore required"), "{}", error(&plan));
    assert_eq!(restored(&lost("stateless", "{}")).as_deref(), Some(""));
    let plan = lost("savepoint", r#"{"high-availability.type":"kubernetes"}"#);
    assert_eq!(restored(&plan).as_deref(), Some("KUBERNETES_OPERATOR_LAST_STATE"));
}

#[test]
fn a_job_that_was_stopped_by_its_metadata_does_not_search_them_elsewhere() {
    let suspended = |record: &str| {
        let scene = by_default("last-state").suspended(UpgradeMode::LastState);
        let mut scene = scene.edit_job(|job| job.parallelism = Some(4));
        scene.operator = operator(HA);
        on_record(scene, record).plan()
    };
    let here = suspended(r#"{"high-availability.type":"kubernetes"}"#);
    assert!(step_names(&here).contains(&"create-cluster"), "{}", described(&here));
    let moved = suspended(
        r#"{"high-availability.type":"zookeeper","high-availability.zookeeper.quorum":"z:2181"}"#,
    );
    assert_eq!(step_names(&moved), [""; 0], "{}", described(&moved));
    assert!(error(&moved).contains("HA metadata to another place"), "{}", error(&moved));
}

#[test]
fn how_a_cluster_was_started_is_on_record_from_its_start_and_before_it_goes() {
    let record = |plan: &Plan| plan.status.cluster_info.get(STARTED_WITH.key).cloned();
    let with = Some(r#"{"high-availability.type":"kubernetes"}"#.to_owned());
    let without = Some("{}".to_owned());
    let plan = Scene::new("savepoint").plan();
    assert_eq!(
        (record(&plan), step_names(&plan).contains(&"create-cluster")),
        (with.clone(), true)
    );
    let next = by_default("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT);
    let plan = on_record(next, with.as_deref().unwrap()).plan();
    assert_eq!(
        (record(&plan), step_names(&plan).contains(&"create-cluster")),
        (without.clone(), true)
    );
    // Nothing is written about what runs, whoever started it, until it is deleted.
    let plan = started_with("savepoint").plan();
    assert_eq!((record(&plan), step_names(&plan)), (None, vec![]));
    for (scene, expected) in [
        (started_with("savepoint"), with.clone()),
        (started_without("savepoint"), without),
        (started_somehow(started_without("savepoint")), None),
        (on_record(started_without("savepoint"), with.as_deref().unwrap()), with),
    ] {
        assert_eq!(record(&scene.delete().plan()), expected);
    }
    // A JobManager that was created without recording the start as done may differ from the record.
    let mut made = on_record(started_without("savepoint"), "{}").starting();
    made.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    assert_eq!(record(&made.plan()), None);
}

/// Its JobManager, which is kept for inspection, knows that the job has ended.
#[test]
fn high_availability_that_is_turned_off_while_a_job_is_suspended_makes_no_run_of_it() {
    let suspended = Scene::running("savepoint")
        .edit_job(|job| job.state = JobState::Suspended)
        .suspended(UpgradeMode::Savepoint)
        .path(SAVEPOINT);
    let mut kept = suspended;
    kept.status.job_manager_deployment_status = JobManagerDeploymentStatus::Ready;
    kept.facts.job_manager = Fact::Known(Some(job_manager()));
    kept.facts.deployed_config = given(&[KUBERNETES]);
    // It restarted after the job was stopped.
    kept.facts.pods = Fact::Known(vec![Pod { last_started: Some(ago(20)), ..pod() }]);
    let [ended] = <[Job; 1]>::try_from(job(JobStatusState::Finished)).unwrap();
    let start_time = ago(10).as_millisecond();
    kept.facts.jobs = Fact::Known(vec![Job { name: "unknown".to_owned(), start_time, ..ended }]);
    let off = kept.edit(|spec| {
        spec.flink_configuration.0.insert("high-availability.type".to_owned(), json!("NONE"));
    });
    let resumed = off.clone().after(&off.plan()).edit_job(|job| job.state = JobState::Running);
    let plan = resumed.plan();
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

/// The error says to turn it on again, not that the state is lost.
#[test]
fn state_that_metadata_lead_to_is_not_called_lost_where_they_are_not_searched() {
    let kubernetes = r#"{"high-availability.type":"kubernetes"}"#;
    for mode in ["savepoint", "last-state"] {
        let lost = on_record(by_default(mode).gone(), kubernetes);
        let edited = lost.clone().edit_job(|job| job.parallelism = Some(3));
        for mut scene in [lost, edited] {
            let plan = scene.plan();
            assert!(!step_names(&plan).contains(&"create-cluster"), "{mode}");
            let error = plan.status.error.unwrap();
            assert!(error.contains("Set `high-availability.type` as it was"), "{error}");
            scene.operator = operator(HA);
            let goes_on = scene.plan();
            assert!(
                goes_on.status.error.is_none_or(|error| !error.contains(KUBERNETES.0)),
                "{mode}"
            );
        }
    }
}
