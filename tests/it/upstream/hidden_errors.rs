//! Something went wrong, and no one was informed.

use api::status::{JobManagerDeploymentStatus, JobStatusState};
use axum::http::Method;
use config::OperatorConfig;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::event::Event;
use lifecycle::plan::{Plan, Step};
use lifecycle::world::{Fact, JobException, JobManager};
use operator::pods;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene, ago, created, described, error, job_manager};

use crate::autoscaler::events as reported_of;
use crate::support::fake_cluster::{FakeCluster, Fault, Recorded};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, with_status};

#[tokio::test]
async fn flink_37430_what_keeps_a_cluster_from_being_created_is_reported() {
    let scene = Scene::new("stateless");
    let operating = Operating::start(FakeFlink::start().await);
    let why = "deployments.apps \"orders\" is forbidden: exceeded quota: compute";
    let fault = Fault::Refused(403, why.to_owned());
    operating.cluster.fail(Method::POST, "/deployments", fault, usize::MAX);
    operating.cluster.insert(with_status(&scene.resource, &scene.status));
    let event = operating
        .until("an event tells it", |cluster| {
            cluster.objects("events").into_iter().find(|event| {
                event["message"].as_str().is_some_and(|message| message.contains(why))
            })
        })
        .await;
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("ClusterDeploymentException"))
    );
    assert_eq!(event["involvedObject"]["name"], "orders");
    operating.stop().await;
    // What prevents its pods from being created is in the status as well.
    let mut starting = Scene::running("stateless").starting();
    let refused = JobManager {
        available_replicas: 0,
        replica_failure: Some("pods \"orders-\" is forbidden: exceeded quota".to_owned()),
        ..job_manager()
    };
    starting.facts.job_manager = Fact::Known(Some(refused));
    let plan = starting.plan();
    assert!(error(&plan).contains("exceeded quota"), "{}", error(&plan));
    assert!(events(&plan).iter().any(|event| event.message.contains("exceeded quota")));
}

/// Flink 1 reads `org.a;org.b`, and takes the text of a JSON list as one element.
#[test]
fn flink_40055_a_list_of_the_operators_configuration_reaches_flink_1_as_its_own() {
    const KEY: &str = "classloader.parent-first-patterns.additional";
    let mut scene = Scene::new("stateless");
    let yaml = "classloader:\n  parent-first-patterns:\n    additional: [org.a, org.b]\n";
    scene.operator = OperatorConfig::new(config::file::parse_config_yaml(yaml).unwrap());
    assert_eq!(created(&scene.plan(), KEY).as_deref(), Some("org.a;org.b"));
}

#[tokio::test]
async fn flink_37430_a_failure_is_reported_down_to_its_innermost_cause() {
    let operating = Operating::start(FakeFlink::start().await);
    let scene = Scene::running("savepoint").operator_option("reconcile.interval", "100 ms");
    operating.run(&scene);
    operating.until_seen_running().await;
    let outermost = "org.apache.flink.runtime.JobException: Recovery is suppressed";
    let innermost = "java.net.ConnectException: lake:9000 refuses the connection";
    let chain = [
        "java.lang.Exception: Exception while creating the context of an operator",
        "org.apache.flink.util.FlinkException: Could not restore keyed state",
        "java.io.IOException: Failed to open s3://lake/chk/7",
        innermost,
    ];
    let causes = chain.map(|cause| format!("\n\tat a\nCaused by: {cause}")).concat();
    operating.flink.with("shop/orders", |cluster| {
        let (class, message) = outermost.split_once(": ").unwrap();
        let job = cluster.jobs.get_mut(JOB_ID).unwrap();
        job.fail(class, &format!("{message}{causes}"), 1_750_000_100_000);
    });
    let error = operating
        .until("the failure is in the status", |cluster| {
            let status = &cluster.object("flinkdeployments", "shop", "orders")?["status"];
            status["error"].as_str().map(str::to_owned)
        })
        .await;
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["message"], outermost);
    let told = json!([{"message": chain[0]}, {"message": innermost}]);
    assert_eq!(error["throwableList"], told);
    let is_reported = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["reason"] == "Error" && message.contains(outermost) && message.contains(innermost)
    };
    operating
        .until("an event tells it", |cluster| {
            cluster.objects("events").iter().any(is_reported).then_some(())
        })
        .await;
    operating.stop().await;
}

/// Returns a JobManager pod whose main container is in `state`, after `last`.
fn pod_in(state: Value, last: Value) -> Pod {
    let container = json!({
        "name": "flink-main-container", "image": "flink:1.20", "imageID": "", "ready": false,
        "restartCount": 3, "state": state, "lastState": last,
    });
    let pod = json!({
        "metadata": {"name": "orders-x", "creationTimestamp": "2026-01-01T11:00:00Z"},
        "status": {"phase": "Pending", "containerStatuses": [container]},
    });
    serde_json::from_value(pod).unwrap()
}

#[test]
fn flink_37470_what_keeps_a_job_manager_from_running_is_reported() {
    let waiting = |reason: &str, message: &str| {
        pod_in(json!({"waiting": {"reason": reason, "message": message}}), json!({}))
    };
    let crashed = |last: Value| {
        let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
        pod_in(state, json!({"terminated": last}))
    };
    for (pod, cause) in [
        (waiting("RunContainerError", "exec: \"flink\": not found"), "not found"),
        (
            waiting("CreateContainerConfigError", "secret \"s3\" not found"),
            "secret \"s3\" not found",
        ),
        (waiting("ImagePullBackOff", "no such tag"), "no such tag"),
        (
            crashed(json!({"exitCode": 1, "message": "no such file: job.jar"})),
            "no such file: job.jar",
        ),
        (
            crashed(json!({"exitCode": 137, "reason": "OOMKilled"})),
            "used more memory than its limit",
        ),
    ] {
        let mut scene = Scene::running("savepoint").starting();
        scene.facts.pods = Fact::Known(vec![pods::pod(&pod).unwrap()]);
        let plan = scene.plan();
        let state = plan.status.job_manager_deployment_status;
        assert_eq!(state, JobManagerDeploymentStatus::Error, "{cause}");
        assert!(error(&plan).contains(cause), "{}", error(&plan));
        assert!(
            events(&plan).iter().any(|event| event.message.contains(cause)),
            "{}",
            described(&plan)
        );
    }
}

fn events(plan: &Plan) -> Vec<&Event> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|step| match step {
            Step::Event(event) => Some(event),
            _ => None,
        })
        .collect()
}

#[test]
fn flink_37730_the_exceptions_of_a_job_are_reported_once() {
    let mut scene = Scene::running("savepoint").in_state(JobStatusState::Restarting);
    let exception = |age: i64, text: &str| JobException {
        at: ago(age).as_millisecond(),
        stack_trace: format!("java.lang.Exception: {text}\n\tat Map.map"),
        ..JobException::default()
    };
    let all = vec![exception(20, "disk is full"), exception(7200, "of this morning")];
    scene.facts.exceptions = Fact::Known(all);
    let plan = scene.plan();
    let exceptions: Vec<&Event> =
        events(&plan).into_iter().filter(|event| event.reason == "JobException").collect();
    // The operator has just started: its predecessor reported the old ones.
    let [event] = exceptions[..] else { panic!("{}", described(&plan)) };
    assert!(event.message.contains("disk is full") && event.is_warning);
    // Its key makes it one event, whoever reports it again.
    let again = scene.plan();
    let keys: Vec<_> = events(&again).into_iter().map(|event| event.key.clone()).collect();
    assert!(event.key.is_some() && keys.contains(&event.key));
}

#[tokio::test]
async fn flink_37730_an_exception_is_one_event_over_restarts_of_the_operator() {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let now = flink.now();
    let operating = Operating::start(flink);
    operating.run(&Scene::running("savepoint").operator_option("reconcile.interval", "100 ms"));
    operating.flink.with("shop/orders", |cluster| {
        let job = cluster.jobs.get_mut(JOB_ID).unwrap();
        let exception =
            |text: &str, age: i64| ("java.io.IOException".into(), text.into(), now - age);
        job.exceptions = vec![exception("disk is full", 20_000), exception("long ago", 7_200_000)];
    });
    let tries = |cluster: &FakeCluster| {
        let is_try = |request: &&Recorded| {
            request.method == Method::POST && request.body["reason"] == "JobException"
        };
        cluster.requests().iter().filter(is_try).count()
    };
    operating.until("it is told", |cluster| (tries(cluster) > 0).then_some(())).await;
    let before = tries(&operating.cluster);
    let operating = operating.restart().await;
    // The other operator cannot know what this one reported, and creates the event again.
    operating.until("it is told again", |cluster| (tries(cluster) > before).then_some(())).await;
    let looks = || operating.flink.requests("GET /jobs/overview").len();
    let seen = looks();
    operating.until("the pass is over", |_| (looks() > seen + 1).then_some(())).await;
    let told = reported_of(&operating.cluster, "JobException");
    let [event] = &told[..] else { panic!("{told:#?}") };
    assert!(event["message"].as_str().unwrap().contains("disk is full"), "{event}");
    assert_eq!(event["count"], 1, "{event}");
    operating.stop().await;
}
