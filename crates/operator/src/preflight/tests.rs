use serde_json::json;

use super::*;

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
}

fn container(name: &str, state: Value) -> Value {
    let id = if state.get("waiting").is_some() { "" } else { "sha256:1" };
    json!({"name": name, "image": "i", "imageID": id, "ready": false, "restartCount": 0, "state": state})
}

fn main_in(state: Value) -> PreflightState {
    state_of(&[container(MAIN_CONTAINER, state)])
}

fn state_of(containers: &[Value]) -> PreflightState {
    state(&pod(json!({"phase": "Running", "containerStatuses": containers})))
}

fn reported_problem(state: PreflightState) -> (String, String) {
    let PreflightState::Troubled(PodProblem { reason, message }) = state else {
        panic!("{state:?}")
    };
    (reason, message)
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn done() -> Value {
    json!({"terminated": {"exitCode": 0, "reason": "Completed"}})
}

#[test]
fn a_pod_is_on_its_way_until_its_check_is_done() {
    assert_eq!(state(&pod(json!({"phase": "Pending"}))), PreflightState::Pending);
    assert_eq!(main_in(waiting("PodInitializing", "")), PreflightState::Pending);
    assert_eq!(main_in(json!({"running": {}})), PreflightState::Pending);
    assert_eq!(main_in(done()), PreflightState::Passed);
    assert_eq!(state(&pod(json!({"phase": "Failed"}))), PreflightState::Over);
}

#[test]
fn what_keeps_a_container_from_running_is_reported() {
    for reason in ["ErrImagePull", "ImagePullBackOff"] {
        let (reason, message) = reported_problem(main_in(waiting(reason, "not found")));
        assert_eq!((&*reason, &*message), ("ImagePullBackOff", "[flink-main-container] not found"));
    }
    for reason in ["CreateContainerConfigError", "InvalidImageName", "CreateContainerError"] {
        assert_eq!(reported_problem(main_in(waiting(reason, "why"))).0, reason);
    }
    let log = "trying\ncurl: (22) The requested URL returned error: 404\n";
    let failed = json!({"terminated": {"exitCode": 22, "reason": "Error", "message": log}});
    let init = json!({"phase": "Pending", "initContainerStatuses": [container("fetch", failed)]});
    let (reason, message) = reported_problem(state(&pod(init)));
    assert_eq!(reason, "Error");
    assert!(message.contains("[fetch]") && message.contains("404"), "{message}");
}

#[test]
fn a_check_that_failed_stays_so_while_it_is_tried_again() {
    let failed = json!({"terminated": {"exitCode": 1, "message": "the jar /a.jar is not there"}});
    let told = reported_problem(main_in(failed.clone()));
    assert_eq!(told.1, "[flink-main-container] the jar /a.jar is not there");
    for now in [waiting("CrashLoopBackOff", "back-off 10s"), json!({"running": {}})] {
        let mut again = container(MAIN_CONTAINER, now);
        again["lastState"] = failed.clone();
        assert_eq!(reported_problem(state_of(&[again])), told);
    }
    let mut passed = container(MAIN_CONTAINER, done());
    passed["lastState"] = failed;
    assert_eq!(state_of(&[passed]), PreflightState::Passed);
}

#[test]
fn a_check_that_needs_more_memory_than_it_has_says_nothing_of_the_spec() {
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    assert_eq!(reported_problem(main_in(killed.clone())).0, UNTRIABLE);
    let init = json!({"initContainerStatuses": [container("fetch", killed)]});
    assert_eq!(
        reported_problem(state(&pod(init))).0,
        "OOMKilled",
        "which has what its template says"
    );
}

#[test]
fn of_a_sidecar_only_its_image_counts() {
    let alongside =
        |state: Value| state_of(&[container(MAIN_CONTAINER, done()), container("logs", state)]);
    assert_eq!(
        reported_problem(alongside(waiting("ErrImagePull", "no such image"))).1,
        "[logs] no such image"
    );
    assert_eq!(alongside(waiting("ContainerCreating", "")), PreflightState::Pending);
    for state in [
        done(),
        json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no `true` in it"}}),
        waiting("RunContainerError", "no `true` in it"),
        waiting("CrashLoopBackOff", "back-off 10s"),
    ] {
        assert_eq!(alongside(state.clone()), PreflightState::Passed, "{state}");
    }
}

#[test]
fn a_pod_without_a_node_says_why() {
    let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory."}]);
    let (reason, message) =
        reported_problem(state(&pod(json!({"phase": "Pending", "conditions": conditions}))));
    assert_eq!(reason, "Unschedulable");
    assert!(message.contains("Insufficient memory"));
}

#[test]
fn a_quota_is_judged_without_what_makes_room() {
    let of = |cpu: &str, memory: &str| {
        json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "2", "memory": memory}}}]}})
    };
    let old: Vec<Pod> = [of("1", "1Gi"), of("1", "1Gi")]
        .into_iter()
        .map(|it| serde_json::from_value(it).unwrap())
        .collect();
    let message = |used: &str, limited: &str| {
        format!(
            "pods \"orders-preflight-jobmanager\" is forbidden: exceeded quota: team, \
             requested: requests.cpu=1, used: requests.cpu={used}, limited: requests.cpu={limited}"
        )
    };
    let new = [of("1", "1Gi"), of("1500m", "1Gi")];
    assert!(!is_over_without(&message("2", "2500m"), &old, &new));
    assert!(is_over_without(&message("2", "2"), &old, &new));
    assert!(is_over_without(&message("3", "3"), &old, &new), "another one has a part of it");
    let pods = "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(!is_over_without(pods, &old, &new));
    assert!(is_over_without(pods, &old[..1], &new));
}

#[test]
fn a_right_that_is_missing_says_nothing_of_the_spec() {
    let user = "system:serviceaccount:flink:operator".to_owned();
    let (verb, resource) = ("create".to_owned(), "pods".to_owned());
    let forbidden =
        cluster::Error::Forbidden { user, verb, resource, namespace: Some("shop".to_owned()) };
    assert!(matches!(Refused::of(&forbidden), Some(Refused::NotAllowed(_))));
    let name = "orders-preflight-jobmanager".to_owned();
    let exists = cluster::Error::AlreadyExists { resource: "pods".to_owned(), name };
    assert!(matches!(Refused::of(&exists), Some(Refused::Name(_))));
    let rejected = |message: &str| cluster::Error::Rejected { message: message.to_owned() };
    let of = |message: &str| Refused::of(&rejected(message));
    assert!(matches!(
        of("pods \"a\" is forbidden: exceeded quota: small"),
        Some(Refused::Quota(_))
    ));
    assert!(matches!(of("pods \"a\" is forbidden: violates PodSecurity"), Some(Refused::Pod(_))));
    assert_eq!(of("admission webhook \"w\" does not support dry run"), None);
}
