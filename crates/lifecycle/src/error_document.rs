//! `status.error`: a JSON document with the Java operator's shape.

use serde_json::{Map, Value, json};

/// Longest text of one field, in characters: the default of the Java operator's option.
const FIELD_LENGTH_MAX: usize = 2048;
/// Most causes kept: the default of the Java operator's option.
const CAUSES_MAX: usize = 2;

/// Kind of an error, by the class name that users' alerts already match on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorType {
    /// The spec cannot work, or reconciling failed.
    Reconciliation,
    /// The JobManager's pods cannot start.
    DeploymentFailed,
    /// An upgrade or restore was refused.
    UpgradeFailure,
}

impl ErrorType {
    fn class(self) -> &'static str {
        match self {
            Self::Reconciliation => {
                "org.apache.flink.kubernetes.operator.exception.ReconciliationException"
            }
            Self::DeploymentFailed => {
                "org.apache.flink.kubernetes.operator.exception.DeploymentFailedException"
            }
            Self::UpgradeFailure => {
                "org.apache.flink.kubernetes.operator.exception.UpgradeFailureException"
            }
        }
    }
}

/// The document for `message`, with an optional machine-readable `reason` and up to two causes.
pub fn error_document(
    kind: ErrorType,
    message: &str,
    reason: Option<&str>,
    causes: &[String],
) -> String {
    let mut document = Map::new();
    document.insert("type".to_owned(), json!(kind.class()));
    document.insert("message".to_owned(), json!(cut(message)));
    let mut additional = Map::new();
    if let Some(reason) = reason {
        additional.insert("reason".to_owned(), json!(reason));
    }
    document.insert("additionalMetadata".to_owned(), Value::Object(additional));
    let causes: Vec<Value> =
        causes.iter().take(CAUSES_MAX).map(|cause| json!({ "message": cut(cause) })).collect();
    document.insert("throwableList".to_owned(), Value::Array(causes));
    Value::Object(document).to_string()
}

/// What a stored error says to a person: its message, or the text itself where it is no document.
pub fn message_of(error: &str) -> String {
    serde_json::from_str::<Value>(error)
        .ok()
        .and_then(|document| document.get("message")?.as_str().map(str::to_owned))
        .unwrap_or_else(|| error.to_owned())
}

/// The machine-readable reason of a stored error.
pub fn reason_of(error: &str) -> Option<String> {
    let document: Value = serde_json::from_str(error).ok()?;
    Some(document.pointer("/additionalMetadata/reason")?.as_str()?.to_owned())
}

/// What stands between the time a spec had and why it is rolled back.
pub(super) const ROLLED_BACK: &str = " and is rolled back: ";

/// The document of a spec that was rolled back, for this reason.
pub(super) fn rolled_back(message: &str) -> String {
    error_document(ErrorType::DeploymentFailed, message, None, &[])
}

/// Why the spec was rolled back, by a stored error or one of its causes.
pub(super) fn rollback_in(error: &str) -> Option<String> {
    messages_of(error).into_iter().find(|message| message.contains(ROLLED_BACK))
}

/// What a stored error says, and then what its causes say.
pub(super) fn messages_of(error: &str) -> Vec<String> {
    let Ok(document) = serde_json::from_str::<Value>(error) else { return vec![] };
    let causes = document.get("throwableList").and_then(Value::as_array);
    std::iter::once(&document)
        .chain(causes.into_iter().flatten())
        .filter_map(|part| Some(part.get("message")?.as_str()?.to_owned()))
        .collect()
}

fn cut(text: &str) -> String {
    text.chars().take(FIELD_LENGTH_MAX).collect()
}
