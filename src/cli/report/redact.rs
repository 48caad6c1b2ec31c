//! Takes secrets out of what goes into an archive: by the keys they stand under, and by what looks like
//! one in any text.

use serde_json::Value;

use crate::config::secret::{HIDDEN, hide_in, is_secret, shown};
use crate::decide::extension::subject::hide_secrets;

/// Values in a Flink configuration of the REST API, and environment variables, stand beside their key.
const NAMES: [&str; 2] = ["name", "key"];

/// The object without secrets and without what only the API server reads.
pub(super) fn object(mut value: Value) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            // A whole manifest, as it was before.
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    hide_secrets(&mut value, None);
    redact(&mut value, None);
    value
}

fn redact(value: &mut Value, key: Option<&str>) {
    match value {
        Value::String(text) => {
            *text = match key {
                Some(key) if is_reference(key) => std::mem::take(text),
                Some(key) if is_secret(key) && !text.is_empty() => HIDDEN.to_owned(),
                Some(key) => hide_in(&shown(key, text)),
                None => hide_in(text),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, key)),
        Value::Object(fields) => {
            let named =
                NAMES.iter().find_map(|name| fields.get(*name)?.as_str()).map(str::to_owned);
            for (key, value) in fields.iter_mut() {
                match named.as_deref().filter(|_| key == "value") {
                    Some(named) => redact(value, Some(named)),
                    None => redact(value, Some(key)),
                }
            }
        }
        Value::Number(_) if key.is_some_and(is_secret) => *value = Value::from(HIDDEN),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Names of Secrets and of accounts are no secrets, and lead to what is wrong.
fn is_reference(key: &str) -> bool {
    matches!(key, "secretName" | "automountServiceAccountToken" | "tokenExpirationSeconds")
}

/// A text without what looks like a secret.
pub(super) fn text(text: &str) -> String {
    hide_in(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_taken_out_wherever_they_stand() {
        let object = object(json!({
            "metadata": {"name": "x", "managedFields": [1],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}},
            "spec": {
                "flinkConfiguration": {"s3.secret-key": "hunter2", "s3.endpoint": "http://minio",
                    "env.java.opts.all": "-Dx.password=hunter2"},
                "job": {"args": ["--password=hunter2", "--token", "hunter2", "--topic", "orders"]},
                "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "TOPIC", "value": "orders"}],
                "volumes": [{"secret": {"secretName": "s3-credentials"}}],
            },
            "status": {"reconciliationStatus": {"lastReconciledSpec":
                json!({"spec": {"flinkConfiguration": {"s3.secret-key": "hunter2"}}}).to_string()}},
            "options": [{"key": "s3.access-key", "value": "hunter2"}, {"key": "a", "value": "b"}],
        }));
        let text = object.to_string();
        assert!(!text.contains("hunter2") && !text.contains("managedFields"), "{text}");
        assert!(!text.contains("last-applied"), "{text}");
        for kept in ["http://minio", "orders", "s3-credentials", "\"value\":\"b\""] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }
}
