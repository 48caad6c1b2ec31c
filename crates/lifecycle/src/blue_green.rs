//! A `FlinkBlueGreenDeployment`, which is not operated yet: who changes one is told so.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::conditions::PROGRESSING;
use super::event::{Component, Event};
use validation::lint::BLUE_GREEN;

/// Reason of the event and of the condition.
pub const NOT_OPERATED: &str = "NotOperated";

/// Notice about one generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    pub event: Event,
    /// To be merged into the status.
    pub status: Value,
}

/// Returns the notice for the resource with this status; none where the status says it already.
pub fn notice(metadata: &ObjectMeta, status: Option<&Value>, now: Timestamp) -> Option<Notice> {
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let field = |name: &str| status.and_then(|status| status.get(name));
    let mut conditions = field("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_ours = |condition: &Value| condition["type"] == PROGRESSING;
    let before = conditions.iter().find(|condition| is_ours(condition)).cloned();
    let before = before.filter(|condition| condition["reason"] == NOT_OPERATED);
    let generation = metadata.generation.unwrap_or_default();
    if before.as_ref().is_some_and(|condition| condition["observedGeneration"] == generation) {
        return None;
    }
    let since = before.map(|condition| condition["lastTransitionTime"].clone());
    conditions.retain(|condition| !is_ours(condition));
    conditions.push(json!({
        "type": PROGRESSING,
        "status": "False",
        "reason": NOT_OPERATED,
        "message": BLUE_GREEN,
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or_else(|| json!(now.to_string())),
    }));
    let mut status = json!({ "conditions": conditions });
    // The Java operator begins so, and cannot go on from a status without it.
    if field("blueGreenState").is_none_or(Value::is_null) {
        status["blueGreenState"] = json!("INITIALIZING_BLUE");
    }
    Some(Notice { event: Event::warning(NOT_OPERATED, Component::Operator, BLUE_GREEN), status })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn told(generation: i64, status: &Value) -> Option<Value> {
        let metadata = ObjectMeta { generation: Some(generation), ..ObjectMeta::default() };
        let notice = notice(&metadata, Some(status), NOW.parse().unwrap())?;
        assert!(notice.event.is_warning && notice.event.message == BLUE_GREEN);
        Some(notice.status)
    }

    #[test]
    fn that_it_is_not_operated_is_told_once_for_each_generation() {
        let first = told(1, &Value::Null).unwrap();
        assert_eq!(first["blueGreenState"], "INITIALIZING_BLUE");
        let condition = &first["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"]),
            (&json!("Progressing"), &json!("False"))
        );
        assert_eq!(told(1, &first), None);
        let second = told(2, &first).unwrap();
        assert_eq!(second["conditions"][0]["observedGeneration"], 2);
        assert_eq!(second["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(told(2, &second), None);
    }

    #[test]
    fn what_others_wrote_into_its_status_stays() {
        let other = json!({"type": "Audited", "status": "True"});
        let status = json!({
            "blueGreenState": "ACTIVE_GREEN", "lastReconciledSpec": "{}", "error": "lost",
            "conditions": [other],
        });
        let told = told(7, &status).unwrap();
        assert_eq!(told["conditions"][0], other);
        let fields: Vec<_> = told.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["conditions"]);
    }

    #[test]
    fn one_that_goes_is_left_alone() {
        let metadata = ObjectMeta {
            deletion_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                NOW.parse().unwrap(),
            )),
            ..ObjectMeta::default()
        };
        assert_eq!(notice(&metadata, None, NOW.parse().unwrap()), None);
    }
}
