//! The operator's configuration changes while jobs run. As with the Java operator, a spec is compared
//! with the spec that was reconciled last, and not with the defaults below it: no job is restarted by
//! a new default, and what is deployed next has it.

use super::*;

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
    OperatorConfig::new(kubectl_flink::config::file::parse_flink_conf(text))
}

/// What Flink is given by the plan.
fn configuration(plan: &Plan) -> Option<String> {
    plan.steps.iter().find_map(|step| match step {
        Step::CreateCluster(objects) => {
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
                // The operator's own options never were a reason either.
                scene = scene.edit(|spec| {
                    let key = "kubernetes.operator.job.restart.failed".to_owned();
                    spec.flink_configuration.0.insert(key, json!("true"));
                });
                scene = scene.clone().after(&scene.plan());
            }
            let before = scene.plan();
            scene.operator = operator(NEW_DEFAULTS);
            let after = scene.plan();
            assert_eq!(deeds(&after), [""; 0], "{mode}");
            assert_eq!(after.status, before.status, "{mode}");
        }
    }
}

#[test]
fn a_job_whose_high_availability_was_a_default_runs_on_without_it() {
    const HA: &str =
        "high-availability.type: kubernetes\nhigh-availability.storageDir: s3://lake/ha\n";
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut scene = Scene::running(mode);
        let own = &mut scene.resource.spec.flink_configuration.0;
        own.remove("high-availability.type");
        own.remove("high-availability.storageDir");
        scene.store(JobState::Running, scene.job().upgrade_mode);
        let reconciliation = &mut scene.status.reconciliation_status;
        reconciliation.last_stable_spec.clone_from(&reconciliation.last_reconciled_spec);
        scene.operator = operator(HA);
        assert_eq!(deeds(&scene.plan()), [""; 0], "{mode}");
        scene.operator = operator("");
        assert_eq!(deeds(&scene.plan()), [""; 0], "{mode}");
    }
}

#[test]
fn a_suspended_job_stays_so() {
    let mut scene = Scene::running("savepoint")
        .edit_job(|job| job.state = JobState::Suspended)
        .suspended(UpgradeMode::Savepoint)
        .path(SAVEPOINT);
    scene.store(JobState::Suspended, UpgradeMode::Savepoint);
    let before = deeds(&scene.plan());
    scene.operator = operator(NEW_DEFAULTS);
    assert_eq!(deeds(&scene.plan()), before);
    assert_eq!(configuration(&scene.plan()), None);
}

#[test]
fn what_is_deployed_next_has_the_new_default() {
    let upgraded = Scene::running("savepoint")
        .upgrading(UpgradeMode::Savepoint)
        .path(SAVEPOINT)
        .edit_job(|job| job.parallelism = Some(3));
    // A JobManager that was lost is made from the defaults of now as well.
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
