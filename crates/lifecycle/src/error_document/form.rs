//! The format of `status.error` that the operator's options request.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use config::label_mapper::LabelMapper;
use config::secret::hide_in_document;
use config::{FlinkConfig, options};

/// Minimum length of a field, in characters, whatever is configured. Messages that ask a person to choose a state, and
/// that are recognised by their wording, are shorter.
const FIELD_LENGTH_MIN: usize = 512;

/// Maximum lengths of a document, and the labels that are added.
#[derive(Clone, Debug)]
pub struct Form {
    field_max: usize,
    causes_max: usize,
    /// Maximum length of a stack trace, in characters; `None` to omit it.
    stack_trace_max: Option<usize>,
    labels: LabelMapper,
}

/// The format by the options' defaults.
impl Default for Form {
    fn default() -> Self {
        Self::of(&FlinkConfig::new())
    }
}

impl Form {
    /// Reads the operator's configuration. Options that cannot be parsed are reported when it is loaded.
    pub fn of(operator: &FlinkConfig) -> Self {
        let count = |option| usize::try_from(operator.get(option).unwrap_or(0)).unwrap_or(0);
        let has_stack_trace = operator.get(&options::EXCEPTION_STACKTRACE_ENABLED).unwrap_or(false);
        Self {
            field_max: count(&options::EXCEPTION_FIELD_MAX_LENGTH).max(FIELD_LENGTH_MIN),
            causes_max: count(&options::EXCEPTION_THROWABLE_LIST_MAX_COUNT),
            stack_trace_max: has_stack_trace
                .then(|| count(&options::EXCEPTION_STACKTRACE_MAX_LENGTH)),
            labels: operator.get(&options::EXCEPTION_LABEL_MAPPER).unwrap_or_default(),
        }
    }

    /// Applies the format to a document. Other text only loses its secrets, as all parts of a document do: before
    /// anything is cut, because a part of a secret is not recognised.
    pub fn apply(&self, text: &str) -> String {
        let text = hide_in_document(text);
        let Ok(Value::Object(mut document)) = serde_json::from_str(&text) else {
            return text;
        };
        let causes = match document.remove("throwableList") {
            Some(Value::Array(causes)) => causes,
            Some(_) | None => vec![],
        };
        let messages: Vec<String> = std::iter::once(&Value::Object(document.clone()))
            .chain(&causes)
            .map(|part| part["message"].as_str().unwrap_or_default().to_owned())
            .collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        self.shape(&mut document, &messages);
        let mut room = self.causes_max;
        let mut kept = Vec::new();
        for (place, cause) in causes.into_iter().enumerate() {
            let Value::Object(mut cause) = cause else { continue };
            // A fact that later passes need is kept regardless of the limit.
            let is_fact =
                cause.get("additionalMetadata").is_some_and(|it| it.get("note").is_some());
            if !is_fact && room == 0 {
                continue;
            }
            room = room.saturating_sub(1);
            self.shape(&mut cause, messages.get(place + 1..).unwrap_or_default());
            kept.push(Value::Object(cause));
        }
        document.insert("throwableList".to_owned(), Value::Array(kept));
        Value::Object(document).to_string()
    }

    /// Shortens an error, or one of its causes, and labels it by its messages and those of its causes.
    fn shape(&self, part: &mut Map<String, Value>, messages: &[&str]) {
        if let Some(Value::String(message)) = part.get_mut("message") {
            *message = cut(message, self.field_max);
        }
        if let Some(trace) = part.remove("stackTrace")
            && let (Some(trace), Some(max)) = (trace.as_str(), self.stack_trace_max)
        {
            part.insert("stackTrace".to_owned(), json!(cut(trace, max)));
        }
        // A document that was already formatted may have labels for messages that were cut off.
        let had = part.get("additionalMetadata").and_then(|it| it["labels"].as_array()).cloned();
        let mut labels = had.unwrap_or_default();
        labels.extend(self.labels.labels(messages).into_iter().map(Value::from));
        let mut seen = BTreeSet::new();
        labels.retain(|label| seen.insert(label.to_string()));
        if !labels.is_empty() {
            let metadata = part.entry("additionalMetadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("labels".to_owned(), labels.into());
            }
        }
    }
}

fn cut(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::error_document::{ErrorType, error_document};

    fn check(options: &[(&str, &str)], text: &str, expected: Expect) {
        let key = |key| format!("kubernetes.operator.exception.{key}");
        let config: FlinkConfig =
            options.iter().map(|(name, value)| (key(name), (*value).to_owned())).collect();
        let form = Form::of(&config);
        let shaped = form.apply(text);
        expected.assert_eq(&shaped);
        assert_eq!(form.apply(&shaped), shaped, "once more it is the same");
    }

    fn failed() -> String {
        let causes = ["Out of memory".to_owned(), "b".to_owned(), "c".to_owned()];
        let text = error_document(ErrorType::Reconciliation, "the job failed", None, &causes);
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["stackTrace"] = json!("java.lang.Boom: no, password=x\n\tat a");
        document.to_string()
    }

    #[test]
    fn by_default_there_are_two_causes_and_no_stack_trace() {
        check(
            &[],
            &failed(),
            expect![[
                r#"{"type":"org.apache.flink.kubernetes.operator.exception.ReconciliationException","message":"the job failed","additionalMetadata":{"format":2},"throwableList":[{"message":"Out of memory"},{"message":"b"}]}"#
            ]],
        );
    }

    #[test]
    fn an_error_says_as_much_as_is_asked_for() {
        let options = [
            ("stacktrace.enabled", "true"),
            ("stacktrace.max.length", "34"),
            ("throwable.list.max.count", "1"),
            ("label.mapper", "[Mm]emory:oom,nothing:none"),
        ];
        check(
            &options,
            &failed(),
            expect![[
                r#"{"type":"org.apache.flink.kubernetes.operator.exception.ReconciliationException","message":"the job failed","additionalMetadata":{"format":2,"labels":["oom"]},"stackTrace":"java.lang.Boom: no, password=*****","throwableList":[{"message":"Out of memory","additionalMetadata":{"labels":["oom"]}}]}"#
            ]],
        );
    }

    #[test]
    fn what_the_next_passes_need_is_retained() {
        let document = json!({"message": "m".repeat(600), "throwableList": [
            {"message": "a"}, {"message": "b", "additionalMetadata": {"note": "rolledBack"}}]});
        let options = [
            ("kubernetes.operator.exception.field.max.length", "1"),
            ("kubernetes.operator.exception.throwable.list.max.count", "0"),
        ];
        let config: FlinkConfig =
            options.map(|(key, value)| (key, value.to_owned())).into_iter().collect();
        let shaped = Form::of(&config).apply(&document.to_string());
        let shaped: Value = serde_json::from_str(&shaped).unwrap();
        assert_eq!(shaped["message"], "m".repeat(512));
        assert_eq!(shaped["throwableList"], json!([document["throwableList"][1]]));
        assert_eq!(Form::default().apply("Job Not Found"), "Job Not Found");
    }
}
