//! Equivalent kubectl commands, as `--dry-run` shows them, without secrets.

use serde_json::{Value, json};

use super::deployment::Deployment;
use clients::artifact::storage;
use clients::cluster::apply::{ObjectId, Writer};
use config::secret;

/// Appended to a command that does not work exactly as shown.
const HIDDEN_NOTE: &str = " (a secret is hidden: fill it in)";

/// Returns the command for a merge patch of an existing object.
pub(super) fn patch(present: &Deployment, patch: &Value) -> String {
    merge_patch(&present.id(), patch)
}

/// Returns the command for a merge patch of the object with this identity.
pub(super) fn merge_patch(id: &ObjectId, patch: &Value) -> String {
    let (shown, note) = without_secrets(patch);
    format!(
        "equivalent: kubectl patch {} {} -n {} --type merge -p {}{note}",
        id.kind.to_lowercase(),
        id.name,
        id.namespace.as_deref().unwrap_or_default(),
        quoted(&shown.to_string())
    )
}

/// Returns the command for a server-side apply of a whole object.
pub(super) fn apply(object: &Value, writer: Writer<'_>) -> String {
    let (shown, note) = without_secrets(object);
    let object = quoted(&shown.to_string());
    format!("equivalent: printf %s {object} | kubectl apply {} -f -{note}", flags(writer))
}

/// Returns the command for a server-side apply of a file; `namespace` applies to objects without one.
pub(super) fn apply_file(file: &str, namespace: Option<&str>, writer: Writer<'_>) -> String {
    let file = if file == "stdin" { "-".to_owned() } else { quoted_where_needed(file) };
    let namespace = namespace.map(|it| format!(" -n {it}")).unwrap_or_default();
    format!("equivalent: kubectl apply {}{namespace} -f {file}", flags(writer))
}

/// Returns the flags that make kubectl write as this program does.
pub(super) fn flags(writer: Writer<'_>) -> String {
    let force = if writer.is_forced { " --force-conflicts" } else { "" };
    format!("--server-side --field-manager {}{force}", writer.manager)
}

/// Returns the spec without its secrets.
pub(super) fn spec_without_secrets(spec: &Value) -> Value {
    let (mut object, _) = without_secrets(&json!({"spec": spec}));
    object["spec"].take()
}

/// Returns the value without its secrets, and the note to append to the command.
fn without_secrets(value: &Value) -> (Value, &'static str) {
    let mut shown = value.clone();
    secret::hide_in_value(&mut shown, None);
    for spec in ["/spec", "/spec/template/spec"] {
        let Some(spec) = shown.pointer_mut(spec) else { continue };
        if let Some(configuration) = spec.get_mut("flinkConfiguration") {
            hide_options("", configuration);
        }
        for path in ["/job/initialSavepointPath", "/job/jarURI"] {
            if let Some(Value::String(uri)) = spec.pointer_mut(path) {
                *uri = storage::shown(uri);
            }
        }
    }
    let note = if shown == *value { "" } else { HIDDEN_NOTE };
    (shown, note)
}

fn hide_options(key: &str, value: &mut Value) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                hide_options(&key, value);
            }
        }
        Value::String(text) => *text = secret::shown(key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
    }
}

/// Quotes a text as one shell word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(super) fn quoted_where_needed(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn orders() -> Deployment {
        Deployment(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "shop"}}))
    }

    #[test]
    fn a_patch_has_no_secrets() {
        let change = json!({"spec": {"image": "it's", "flinkConfiguration": {"s3": {"secret-key": "hunter2"}, "a": "b"}}});
        expect![[r#"equivalent: kubectl patch flinkdeployment orders -n shop --type merge -p '{"spec":{"image":"it'\''s","flinkConfiguration":{"s3":{"secret-key":"******"},"a":"b"}}}' (a secret is hidden: fill it in)"#]]
            .assert_eq(&patch(&orders(), &change));
    }

    #[test]
    fn a_whole_object_has_no_secrets() {
        let object = json!({"kind": "FlinkSessionJob", "spec": {"job": {
            "jarURI": "https://me:hunter2@repo/a.jar?sig=hunter2", "args": ["--password", "hunter2"]}}});
        let shown = apply(&object, Writer { is_forced: true, ..Writer::CLI });
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.ends_with("-f - (a secret is hidden: fill it in)"), "{shown}");
        expect![[r#"equivalent: printf %s '{"kind":"Role"}' | kubectl apply --server-side --field-manager kubectl-flink -f -"#]]
            .assert_eq(&apply(&json!({"kind": "Role"}), Writer::CLI));
    }

    #[test]
    fn a_file_is_named_as_a_shell_takes_it() {
        let of = |file| apply_file(file, Some("shop"), Writer::CLI);
        assert!(of("jobs/orders.yaml").ends_with("-n shop -f jobs/orders.yaml"));
        assert!(of("my jobs/it's.yaml").ends_with(r"-f 'my jobs/it'\''s.yaml'"));
        assert!(of("stdin").ends_with("-f -"));
        assert!(apply_file("a.yaml", None, Writer::CLI).ends_with("kubectl-flink -f a.yaml"));
    }
}
