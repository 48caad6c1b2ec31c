//! Other changes: §13, health, deadlines, pods that cannot run, and standby JobManagers.

use expect_test::expect;

use super::*;

fn conditions(plan: &Plan) -> Vec<(String, String, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    plan.status
        .conditions
        .iter()
        .map(|c| (text(&c.type_), text(&c.status), text(&c.reason)))
        .collect()
}

fn condition(type_: &str, status: &str, reason: &str) -> (String, String, String) {
    (type_.to_owned(), status.to_owned(), reason.to_owned())
}

/// Returns an unhealthy job: a minute ago there had been no restart.
pub(crate) fn unhealthy(mode: &str) -> Scene {
    let mut scene = Scene::running(mode).operator_option("cluster.health-check.enabled", "true");
    let before = json!({"timeStamp": ago(60).as_millisecond(), "numRestarts": 0,
        "numRestartsEvaluationTimeStamp": ago(60).as_millisecond()});
    scene.status.cluster_info.insert("ClusterHealthInfo".to_owned(), before.to_string());
    scene.facts.job_metrics =
        Fact::Known(JobMetrics { restarts: Some(100), completed_checkpoints: Some(1) });
    scene
}

#[test]
fn s13_3_an_unhealthy_job_gets_a_new_job_manager() {
    let scene = unhealthy("last-state");
    check(
        &scene,
        expect![[r#"
            (Deployed, R LastState, Some(Reconciling), Missing) Stable
            the job is unhealthy: replacing its JobManager
              event RestartUnhealthyJob: Restart count hit threshold: 64
              write-status
              stop-job-manager
        "#]],
    );
    let mut down = scene.clone().after(&scene.plan());
    down.facts.job_manager = Fact::Known(None);
    down.facts.pods = Fact::Known(vec![]);
    check(
        &down,
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Deploying) Stable
        recovering the lost JobManager from the latest checkpoint in HA metadata
          event RecoverDeployment: Recovering lost deployment
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
}

#[test]
fn s13_3_an_unhealthy_job_is_left_alone_where_its_state_would_be_lost() {
    let stateful = unhealthy("savepoint").without_metadata();
    assert!(step_names(&stateful.plan()).is_empty());
    let mut unreadable = unhealthy("savepoint");
    unreadable.facts.ha_metadata = Fact::Unknown("timeout".to_owned());
    assert!(step_names(&unreadable.plan()).is_empty());
    let mut unknown = unhealthy("savepoint");
    unknown.facts.job_metrics = Fact::Unknown("timeout".to_owned());
    assert!(step_names(&unknown.plan()).is_empty());
}

#[test]
fn s13_3_an_unhealthy_job_is_not_restarted_again_at_once() {
    let mut scene = unhealthy("last-state");
    let attempts = json!({"count": 1, "last": ago(4).as_millisecond(), "generation": 1});
    scene.status.cluster_info.insert("RestartAttempts".to_owned(), attempts.to_string());
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty());
    assert_eq!(plan.look_again, Some(std::time::Duration::from_secs(6)));
}

#[test]
fn s13_1_a_failed_job_whose_state_is_unknown_is_not_restarted() {
    let scene = Scene::running("last-state")
        .in_state(JobStatusState::Failed)
        .path(api::status::LAST_STATE_PATH)
        .without_metadata()
        .operator_option("job.restart.failed", "true");
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
}

#[test]
fn an_error_has_the_form_that_the_operator_asks_for() {
    let mut scene = Scene::running("savepoint").in_state(JobStatusState::Failed);
    let Fact::Known(failure) = &mut scene.facts.failure else { panic!("it is known") };
    failure.stack_trace = "java.lang.Boom: the sink is gone\n\tat a".to_owned();
    scene.operator = OperatorConfig::new(config::file::parse_flink_conf(
        "kubernetes.operator.exception.stacktrace.enabled: true\n\
         kubernetes.operator.exception.throwable.list.max.count: 0\n\
         kubernetes.operator.exception.label.mapper: refused$:network\n",
    ));
    let plan = scene.plan();
    let document: serde_json::Value =
        serde_json::from_str(plan.status.error.as_deref().unwrap()).unwrap();
    assert_eq!(document["stackTrace"], "java.lang.Boom: the sink is gone\n\tat a");
    assert_eq!(document["additionalMetadata"]["labels"], json!(["network"]));
    assert_eq!(document["throwableList"], json!([]));
    let again = scene.after(&plan).plan();
    assert_eq!(again.status.error, plan.status.error);
    assert!(step_names(&again).is_empty(), "{}", described(&again));
}

#[test]
fn a_job_that_does_not_run_in_time_is_reported_with_the_cause() {
    let mut scene = Scene::running("savepoint").starting();
    scene.status.reconciliation_status.last_stable_spec = None;
    scene.status.job_status.update_time = Some(ago(301).as_millisecond().to_string());
    scene.status.reconciliation_status.reconciliation_timestamp = ago(301).as_millisecond();
    let scene = scene.pod_problem("Unschedulable", false);
    let plan = scene.plan();
    assert_eq!(
        conditions(&plan),
        [
            condition("Running", "False", "Reconciling"),
            condition("PodsReady", "False", "Unschedulable"),
            condition("Progressing", "False", "ReadinessTimeout"),
            condition("Ready", "False", "ReadinessTimeout"),
            condition("Stalled", "True", "ReadinessTimeout"),
        ]
    );
    // No node has room yet, which is not a failure of the JobManager.
    assert_eq!(plan.status.job_manager_deployment_status, JobManagerDeploymentStatus::Deploying);
    assert!(error(&plan).contains("Unschedulable"), "{}", error(&plan));
    // All of it ends with the trouble.
    let mut healed = scene.clone().after(&plan);
    healed.facts.job_manager = Fact::Known(Some(job_manager()));
    healed.facts.pods = Fact::Known(vec![pod()]);
    healed.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = healed.plan();
    let healthy = [condition("Running", "True", "Running"), condition("Ready", "True", "Running")];
    assert_eq!(conditions(&plan), healthy);
    assert_eq!(plan.status.error, None);
}

#[test]
fn transient_pod_problems_are_no_failures() {
    for reason in ["ErrImagePull", "ImagePullBackOff", "FailedMount", "Unschedulable"] {
        let mut scene = Scene::running("savepoint").starting();
        let problem = Some(PodProblem { reason: reason.to_owned(), message: String::new() });
        let young = Pod { created: Some(ago(5)), problem, ..pod() };
        scene.facts.pods = Fact::Known(vec![young]);
        let plan = scene.plan();
        assert_eq!(
            plan.status.job_manager_deployment_status,
            JobManagerDeploymentStatus::Deploying,
            "{reason}"
        );
        let all = conditions(&plan);
        assert!(!all.iter().any(|it| it.0 == "PodsReady" || it.0 == "Stalled"), "{all:?}");
    }
}

#[test]
fn lasting_pod_problems_are_reported_as_conditions() {
    for reason in ["ImagePullBackOff", "CrashLoopBackOff", "FailedMount", "OOMKilled"] {
        let scene = Scene::running("savepoint").starting().pod_problem(reason, true);
        let plan = scene.plan();
        assert!(conditions(&plan).contains(&condition("PodsReady", "False", reason)), "{reason}");
        assert_eq!(
            plan.status.job_manager_deployment_status,
            JobManagerDeploymentStatus::Error,
            "{reason}"
        );
    }
}

#[test]
fn task_managers_that_cannot_run_are_reported_while_the_job_waits_for_them() {
    let mut scene = Scene::running("savepoint").in_state(JobStatusState::Created);
    scene.status.job_status.update_time = Some(ago(60).as_millisecond().to_string());
    let problem = Some(PodProblem {
        reason: "Unschedulable".to_owned(),
        message: "0/1 nodes are available: insufficient memory".to_owned(),
    });
    scene.facts.task_manager_pods = Fact::Known(vec![Pod { problem, ..pod() }]);
    let plan = scene.plan();
    assert!(conditions(&plan).contains(&condition("PodsReady", "False", "Unschedulable")));
    assert!(step_names(&plan).is_empty());
}

#[test]
fn a_job_manager_that_stands_by_and_cannot_run_does_not_touch_the_job() {
    let mut scene = Scene::running("last-state").pod_problem("ImagePullBackOff", false);
    scene.facts.job_manager =
        Fact::Known(Some(JobManager { replicas: 2, available_replicas: 1, ..job_manager() }));
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty());
    assert_eq!(
        conditions(&plan),
        [
            condition("Running", "True", "Running"),
            condition("PodsReady", "False", "ImagePullBackOff"),
            condition("Ready", "True", "Running"),
        ]
    );
    assert_eq!(plan.status.job_manager_deployment_status, JobManagerDeploymentStatus::Ready);
}

#[test]
fn one_job_manager_that_ever_ran_means_that_the_job_may_have_run() {
    // With two replicas the Deployment was never available, although one of them led.
    let mut scene = Scene::running("savepoint").starting().without_metadata().path(SAVEPOINT);
    scene.facts.job_manager = Fact::Known(Some(JobManager {
        replicas: 2,
        available_replicas: 0,
        was_never_available: true,
        ..job_manager()
    }));
    let standby = Pod { name: "orders-y".to_owned(), has_started: false, ..pod() };
    scene.facts.pods = Fact::Known(vec![standby, pod()]);
    let scene = scene.edit_job(|job| job.parallelism = Some(4));
    assert!(step_names(&scene.plan()).is_empty(), "{}", described(&scene.plan()));
}

#[test]
fn stable_has_to_be_proven_where_rules_say_so() {
    let proving = |update: i64, restarts: i64, checkpoints: i64| {
        let mut scene = Scene::running("last-state")
            .operator_option("deployment.stable.running-for", "1 min")
            .operator_option("deployment.stable.checkpoints", "3")
            .operator_option("deployment.stable.restarts.max", "1");
        scene.status.reconciliation_status.last_stable_spec = None;
        scene.status.reconciliation_status.reconciliation_timestamp = ago(90).as_millisecond();
        scene.status.job_status.update_time = Some(ago(update).as_millisecond().to_string());
        scene.facts.job_metrics = Fact::Known(JobMetrics {
            restarts: Some(restarts),
            completed_checkpoints: Some(checkpoints),
        });
        scene.plan().status.reconciliation_status.last_stable_spec.is_some()
    };
    assert!(!proving(59, 0, 9), "too short");
    assert!(!proving(60, 0, 2), "too few checkpoints");
    assert!(!proving(60, 2, 3), "too many restarts");
    assert!(proving(60, 1, 3));
}

#[test]
fn an_ingress_that_is_not_to_be_made_is_reported_once_per_change_of_the_spec() {
    let is_reported = |plan: &Plan| {
        let is_it = |step: &&Step| match step {
            Step::Event(event) => event.is_warning && event.reason == "IngressManagement",
            _ => false,
        };
        plan.steps.iter().filter(is_it).count() == 1
    };
    let asks = |manage: &str| {
        let ingress = serde_json::json!({"template": "{{name}}.example.com"});
        limited("manage", manage, Scene::running("savepoint"))
            .edit(|spec| spec.ingress = serde_json::from_value(ingress).unwrap())
    };
    assert!(!is_reported(&asks("true").plan()));
    let scene = asks("false");
    assert!(is_reported(&scene.plan()), "{}", described(&scene.plan()));
    let scene = scene.clone().after(&scene.plan());
    assert!(!is_reported(&scene.plan()), "once");
    let invalid = scene.clone().edit_job(|job| job.parallelism = Some(0));
    assert!(!is_reported(&invalid.plan()), "what is not accepted asks for nothing");
    let scene = scene.edit_job(|job| job.parallelism = Some(4));
    assert!(is_reported(&scene.plan()), "{}", described(&scene.plan()));
    assert!(!is_reported(&scene.edit(|spec| spec.ingress = None).plan()));
}

/// Sets an option of Ingresses in the operator's own configuration.
fn limited(option: &str, value: &str, mut scene: Scene) -> Scene {
    let key = format!("kubernetes.operator.ingress.{option}");
    scene.operator = OperatorConfig::new([(&*key, value)].into_iter().collect());
    scene
}

/// Returns the messages about Ingresses, and whether one is put in place.
fn about_ingresses(plan: &Plan) -> (String, bool) {
    let of = |step: &Step| match step {
        Step::Event(event) if event.is_warning => format!("{}: {}\n", event.reason, event.message),
        _ => String::new(),
    };
    let is_put = |step: &Step| matches!(step, Step::Own(ClusterStep::ApplyIngress(Some(_))));
    (plan.steps.iter().map(of).collect(), plan.steps.iter().any(is_put))
}

#[test]
fn the_spec_can_only_go_without_an_ingress() {
    let asks = |operator: &str, own: &str| {
        let ingress = serde_json::json!({"template": "{{name}}.example.com"});
        limited("manage", operator, Scene::running("savepoint")).edit(|spec| {
            spec.ingress = serde_json::from_value(ingress).unwrap();
            let options = serde_json::json!({"kubernetes.operator.ingress.manage": own});
            spec.flink_configuration.0.extend(options.as_object().unwrap().clone());
        })
    };
    let (text, is_put) = about_ingresses(&asks("false", "true").plan());
    assert!(text.contains("no Ingress is created") && !is_put, "{text}");
    let (text, is_put) = about_ingresses(&asks("true", "false").plan());
    assert!(text.contains("no Ingress is created") && !is_put, "{text}");
    let (text, is_put) = about_ingresses(&asks("true", "true").plan());
    assert!(text.is_empty() && is_put, "{text}");
}

#[test]
fn an_ingress_that_the_installation_does_not_allow_is_refused_unless_it_was_there() {
    let ingress = serde_json::json!({"template": "{{name}}.example.com", "annotations": {
        "nginx.ingress.kubernetes.io/configuration-snippet": "return 302 /;"}});
    let asks = |scene: Scene| {
        scene.edit(|spec| spec.ingress = serde_json::from_value(ingress.clone()).unwrap())
    };
    let (text, is_put) = about_ingresses(&asks(Scene::running("savepoint")).plan());
    assert!(text.contains("kubernetes.operator.ingress.allowed-annotations") && !is_put, "{text}");

    // It was accepted before there were limits.
    let option = "nginx.ingress.kubernetes.io/configuration-snippet";
    let before = asks(limited("allowed-annotations", option, Scene::running("savepoint")));
    let plan = before.plan();
    assert!(about_ingresses(&plan).1, "{}", described(&plan));
    let edited = limited("allowed-annotations", "", before.after(&plan))
        .edit_job(|job| job.parallelism = Some(4));
    let (text, _) = about_ingresses(&edited.plan());
    assert!(text.contains("the Ingress stays as it was, but a new one would be refused"), "{text}");
    assert!(!edited.plan().status.error.is_some_and(|error| error.contains("allowed-annotations")));
}
