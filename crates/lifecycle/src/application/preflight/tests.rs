use serde_json::json;

use super::*;

const NOW: &str = "2026-01-01T12:00:00Z";
const TIMEOUT: Duration = Duration::from_mins(10);

fn wanted() -> Preflight {
    Preflight {
        as_deployed: Vec::new(),
        config_maps: Vec::new(),
        files: Vec::new(),
        pods: vec![json!({}), json!({})],
        digest: "d1".to_owned(),
        deployments: Vec::new(),
    }
}

fn problem(reason: &str, message: &str) -> PodProblem {
    PodProblem { reason: reason.to_owned(), message: message.to_owned() }
}

/// Evaluates a first pod of this age in seconds, and a second one that has passed.
fn judged(state: PreflightState, seconds: i64) -> Verdict {
    let now: Timestamp = NOW.parse().unwrap();
    let pod = |name: &str, state| PreflightPod {
        name: name.to_owned(),
        digest: "d1".to_owned(),
        created: Some(now - SignedDuration::from_secs(seconds)),
        state,
    };
    let pods = vec![pod("jm", state), pod("tm", PreflightState::Passed)];
    judge(&PreflightPods { pods, refusal: None }, &wanted(), now, TIMEOUT)
}

fn troubled(reason: &str, message: &str, seconds: i64) -> Verdict {
    judged(PreflightState::Troubled(problem(reason, message)), seconds)
}

#[test]
fn a_spec_passes_when_all_its_pods_have() {
    assert_eq!(judged(PreflightState::Passed, 1), Verdict::Passed);
    assert!(matches!(judged(PreflightState::Pending, 1), Verdict::Wait(_)));
    let Verdict::Refuse(reason) = judged(PreflightState::Pending, 601) else { panic!("late") };
    assert_eq!(reason, "pod `jm` did not finish within 600s", "the same at each look");
    assert_eq!(judged(PreflightState::Over, 1), Verdict::Remove);
}

#[test]
fn pods_of_another_spec_go_before_others_are_made() {
    let now = NOW.parse().unwrap();
    let judge = |pods: Vec<PreflightPod>| {
        judge(&PreflightPods { pods, refusal: None }, &wanted(), now, TIMEOUT)
    };
    assert_eq!(judge(vec![]), Verdict::Make);
    let of = |digest: &str| PreflightPod { digest: digest.to_owned(), ..PreflightPod::default() };
    assert_eq!(judge(vec![of("d1")]), Verdict::Make, "the other one is missing");
    assert_eq!(judge(vec![of("d1"), of("d0")]), Verdict::Remove);
}

#[test]
fn what_is_wrong_with_a_pod_is_refused_and_want_of_room_is_not() {
    for (reason, message) in [
        ("ImagePullBackOff", "[flink-main-container] not found"),
        ("CreateContainerConfigError", "[flink-main-container] secret \"s\" not found"),
        ("Error", "[init] exit code 1"),
        ("Unschedulable", "0/3 nodes are available: 3 node(s) didn't match Pod's node selector."),
        ("FailedMount", "MountVolume.SetUp failed: secret \"keys\" not found"),
    ] {
        assert_eq!(
            troubled(reason, message, 1),
            Verdict::Refuse(format!("pod `jm`: {reason}: {message}"))
        );
    }
    for (reason, message) in [
        ("Unschedulable", "0/1 nodes are available: 1 Insufficient memory."),
        ("Unschedulable", "0/2 nodes are available: 1 Too many pods, 1 node(s) had taints."),
        ("FailedMount", "Multi-Attach error for volume \"pvc-1\": already used by pod(s) orders-1"),
    ] {
        assert!(matches!(troubled(reason, message, 1), Verdict::Wait(_)), "{message}");
        assert!(matches!(troubled(reason, message, 20), Verdict::Untried(_)), "{message}");
    }
}

#[test]
fn a_pod_that_is_refused_says_something_of_the_spec_unless_it_is_one_of_the_trial() {
    let judge = |reason: &str| {
        let refusal = Some(problem(reason, "why"));
        let known = PreflightPods { pods: vec![], refusal };
        judge(&known, &wanted(), NOW.parse().unwrap(), TIMEOUT)
    };
    assert_eq!(judge("FailedCreate"), Verdict::Refuse("FailedCreate: why".to_owned()));
    assert_eq!(judge(UNTRIABLE), Verdict::Untried("why".to_owned()));
}

#[test]
fn only_what_a_pod_sees_is_tried() {
    let spec = |over: serde_json::Value| -> FlinkDeploymentSpec {
        let mut spec = json!({
            "image": "flink:1", "flinkConfiguration": {"a": "b"},
            "job": {"jarURI": "local:///a.jar", "parallelism": 1},
        });
        for (field, value) in over.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    };
    let before = spec(json!({}));
    let is_tried = |over| concerns_pods(&diff(&before, &spec(over)));
    for over in [
        json!({"image": "flink:2"}),
        json!({"flinkConfiguration": {"a": "c"}}),
        json!({"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}),
        json!({"job": {"jarURI": "local:///b.jar", "parallelism": 1}}),
        json!({"serviceAccount": "other"}),
        json!({"jobManager": {"resource": {"memory": "2g"}}}),
    ] {
        assert!(is_tried(over.clone()), "{over}");
    }
    for over in [
        json!({"job": {"jarURI": "local:///a.jar", "parallelism": 2, "args": ["x"]}}),
        json!({"restartNonce": 7}),
        json!({"flinkConfiguration": {"a": "b", "pipeline.jobvertex-parallelism-overrides": "v:2"}}),
        json!({"flinkConfiguration": {"a": "b", "kubernetes.operator.savepoint.history.max.age": "1 d"}}),
        json!({"ingress": {"template": "a"}}),
    ] {
        assert!(!is_tried(over.clone()), "{over}");
    }
}
