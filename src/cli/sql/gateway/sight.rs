//! State of the gateway's pod. Pure.

use serde_json::Value;

/// State of the pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Sight {
    Ready,
    Waiting(String),
    Failed(String),
}

/// Waiting reasons of a container that do not resolve by themselves.
const HOPELESS: [&str; 4] =
    ["ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError"];

/// Evaluates the pod.
pub(super) fn judge(pod: &Value) -> Sight {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str);
    if text("/metadata/deletionTimestamp").is_some() {
        return Sight::Failed("it is being deleted".to_owned());
    }
    let list = |path: &str| pod.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let statuses =
        || list("/status/initContainerStatuses").chain(list("/status/containerStatuses"));
    if is_over(pod) {
        let ended = statuses().filter_map(|status| status.pointer("/state/terminated"));
        let code = ended.filter_map(|ended| ended["exitCode"].as_i64()).find(|code| *code != 0);
        let reason = text("/status/reason").map(|reason| format!(" ({reason})"));
        let code = code.map(|code| format!(" with exit code {code}"));
        let (code, reason) = (code.unwrap_or_default(), reason.unwrap_or_default());
        return Sight::Failed(format!("it ended{code}{reason}"));
    }
    for waiting in statuses().filter_map(|status| status.pointer("/state/waiting")) {
        let reason = waiting["reason"].as_str().unwrap_or_default();
        if HOPELESS.contains(&reason) {
            let message = waiting["message"].as_str().unwrap_or_default();
            return Sight::Failed(format!("{reason}: {message}"));
        }
    }
    let condition =
        |kind: &str| list("/status/conditions").find(|condition| condition["type"] == kind);
    if condition("Ready").is_some_and(|ready| ready["status"] == "True") {
        return Sight::Ready;
    }
    match condition("PodScheduled").filter(|scheduled| scheduled["status"] == "False") {
        Some(unscheduled) => Sight::Waiting(format!(
            "not scheduled: {}",
            unscheduled["message"].as_str().unwrap_or("no node fits")
        )),
        None if text("/status/phase") == Some("Running") => Sight::Waiting("starting".to_owned()),
        None => Sight::Waiting("waiting for its containers".to_owned()),
    }
}

/// Returns whether the pod has terminated.
pub(super) fn is_over(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Failed" | "Succeeded"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: Value) -> Value {
        json!({"metadata": {"name": "lab-sql-1"}, "status": status})
    }

    fn failed(status: Value) -> String {
        match judge(&pod(status)) {
            Sight::Failed(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_is_ready_when_it_says_so() {
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(judge(&pod(status)), Sight::Ready);
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
        assert_eq!(judge(&pod(status)), Sight::Waiting("starting".to_owned()));
        assert_eq!(judge(&pod(json!({}))), Sight::Waiting("waiting for its containers".to_owned()));
        let status = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]});
        assert_eq!(judge(&pod(status)), Sight::Waiting("not scheduled: 0/3 nodes".to_owned()));
    }

    #[test]
    fn what_waiting_does_not_mend_is_a_failure() {
        let waiting = json!({"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]});
        assert_eq!(failed(waiting), "ImagePullBackOff: not found");
        let ended = json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]});
        assert_eq!(failed(ended), "it ended with exit code 1");
        assert_eq!(
            failed(json!({"phase": "Failed", "reason": "DeadlineExceeded"})),
            "it ended (DeadlineExceeded)"
        );
        let mut going = pod(json!({"phase": "Running"}));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(judge(&going), Sight::Failed("it is being deleted".to_owned()));
    }
}
