//! Removes secrets from what goes into an archive: by key, also in documents embedded in a text, and by what looks like
//! a secret in any text.

pub(super) mod plain;

use serde_json::Value;

use config::secret::{HIDDEN, hide_in_value, is_secret, shown};
use render::files::HADOOP_CONF_FILES;

/// Fields that hold the key of a value beside it: in a Flink configuration of the REST API, and in environment
/// variables.
const NAMES: [&str; 2] = ["name", "key"];
/// The arguments of a job in the configuration of its JobManager. Only the job knows which of them are secrets.
const ARGUMENTS: &str = "program-args";
/// Flink's configuration file with nested keys.
const NESTED_CONFIGURATION: &str = "config.yaml";
/// Flink's old configuration file, which looks like YAML but is not.
const FLAT_CONFIGURATION: &str = "flink-conf.yaml";
/// Maximum size of a text to be parsed as a document, in bytes; a longer one is left out.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Minimum number of characters of a single word that is taken for base64 rather than a name.
const BASE64_MIN: usize = 40;
/// Maximum number of nodes that YAML aliases may expand to.
const REPLAYED_MAX: usize = 10_000;

/// Returns the object without secrets and without fields that only the API server reads.
pub(super) fn object(mut value: Value) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            // It contains a whole earlier manifest.
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    let is_secret = value.get("kind").is_some_and(|kind| kind == "Secret");
    for (field, shows) in [("binaryData", false), ("data", !is_secret), ("stringData", !is_secret)]
    {
        let files = value.get_mut(field).and_then(Value::as_object_mut);
        for (name, file) in files.into_iter().flatten() {
            // In Hadoop's files the value is not next to its key.
            leave_out_bytes(file, shows && !HADOOP_CONF_FILES.contains(&name.as_str()));
        }
    }
    let mut documents = Documents::default();
    // Items of a list have no kind; of the lists in a report, only those of ConfigMaps have texts in `data`.
    let files = value.get_mut("data").and_then(Value::as_object_mut);
    for (name, file) in files.into_iter().flatten() {
        documents.set_aside_file(name, file);
    }
    hide(&mut value, false, documents);
    value
}

/// Leaves out what cannot be searched for secrets: bytes encoded as text, as in `binaryData` and in Flink's
/// high-availability data, and everything unless `shows` is set.
fn leave_out_bytes(file: &mut Value, shows: bool) {
    let Value::String(text) = file else { return };
    if !shows || is_base64(text) {
        *text = format!("(left out: {} characters that may contain secrets)", text.len());
    }
}

/// Returns whether the text is probably base64. A hexadecimal id is not.
fn is_base64(text: &str) -> bool {
    let text = text.trim_end();
    let is_of_it = |letter: char| plain::is_of_base64(letter) || letter.is_ascii_whitespace();
    text.len() >= BASE64_MIN
        && text.chars().all(is_of_it)
        && !text.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// Hides secrets. With `has_options`, keys are option names joined along the path; otherwise `secret` in an outer key
/// means that the value is about a Secret.
fn hide(value: &mut Value, has_options: bool, mut documents: Documents) {
    documents.set_aside(value);
    hide_in_value(value, has_options.then_some(""));
    redact(value, None, has_options);
    documents.put_back(value);
}

/// Embedded documents with their secrets removed. They are set aside meanwhile, because the search for secrets in texts
/// does not parse documents and would cut them in the middle.
#[derive(Default)]
struct Documents(Vec<String>);

impl Documents {
    /// Sets aside JSON texts, wherever they are.
    fn set_aside(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(document) = json_document(text) {
                    self.keep(text, document);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.set_aside(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.set_aside(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Sets aside a file of a ConfigMap.
    fn set_aside_file(&mut self, name: &str, file: &mut Value) {
        let Value::String(text) = file else { return };
        let document = json_document(text)
            .or_else(|| yaml_document(name, text))
            .unwrap_or_else(|| lines(text));
        self.keep(text, document);
    }

    fn keep(&mut self, text: &mut String, document: String) {
        *text = format!("\0{}", self.0.len());
        self.0.push(document);
    }

    fn put_back(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let index = text.strip_prefix('\0').and_then(|index| index.parse::<usize>().ok());
                if let Some(document) = index.and_then(|index| self.0.get_mut(index)) {
                    *text = std::mem::take(document);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_back(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.put_back(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Returns a text that is a JSON object or array, without its secrets.
fn json_document(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    if text.len() > DOCUMENT_BYTES_MAX {
        return Some(too_long(text));
    }
    let parsed: Value = serde_json::from_str(text).ok()?;
    Some(redacted(text, parsed, false, |value| serde_json::to_string(value).ok()))
}

/// Returns a text that is a YAML mapping or list, without its secrets.
fn yaml_document(name: &str, text: &str) -> Option<String> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Some(too_long(text));
    }
    if name == FLAT_CONFIGURATION {
        return None;
    }
    let options = serde_yaml::options! {
        strict_booleans: true,
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: REPLAYED_MAX },
    };
    let parsed: Value = match serde_yaml::from_str_with_options(text, options) {
        Ok(parsed) => parsed,
        // A single line of it does not show which key it belongs to.
        Err(_) if name == NESTED_CONFIGURATION => {
            return Some("(left out: not valid YAML, and may contain secrets)".to_owned());
        }
        Err(_) => return None,
    };
    if !parsed.is_object() && !parsed.is_array() {
        return None;
    }
    // Folding would split text that belongs together.
    let options = serde_yaml::ser_options! { prefer_block_scalars: false };
    let write = |value: &Value| serde_yaml::to_string_with_options(value, options).ok();
    Some(redacted(text, parsed, name == NESTED_CONFIGURATION, write))
}

fn too_long(text: &str) -> String {
    format!("(left out: {} bytes are too many to search for secrets)", text.len())
}

/// Returns the original text if it has no secret, else the document serialized again.
fn redacted(
    text: &str,
    parsed: Value,
    has_options: bool,
    write: impl FnOnce(&Value) -> Option<String>,
) -> String {
    let mut hidden = parsed.clone();
    hide(&mut hidden, has_options, Documents::default());
    if hidden == parsed {
        // Comments are lost in parsing, so search the original text.
        return plain::text(text);
    }
    write(&hidden).unwrap_or_else(|| HIDDEN.to_owned())
}

/// Redacts line by line a file that is not a document: Flink's old configuration, properties, and invalid YAML.
fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut named = None;
    let mut is_list_hidden = false;
    for line in text.lines() {
        let content = line.trim_start();
        is_list_hidden &= content.starts_with('-');
        let item = content.trim_start_matches(['-', ' ']);
        let lead = line.len() - item.len();
        let hidden = if is_list_hidden {
            format!("{}{HIDDEN}", line.get(..lead).unwrap_or_default())
        } else if let Some((key, value)) = item.split_once(": ") {
            let key = key.trim().trim_matches(['"', '\'']);
            let value = value.trim().trim_matches(['"', '\'']);
            if NAMES.contains(&key) {
                named = Some(value.to_owned());
            }
            let key = named.as_deref().filter(|_| key == "value").unwrap_or(key);
            let under = under(Some(key), value);
            if under == value {
                line.to_owned()
            } else {
                let until = line.find(": ").map_or(lead, |at| at + ": ".len());
                format!("{}{under}", line.get(..until).unwrap_or_default())
            }
        } else if let Some((key, _)) = line.split_once('=').filter(|(key, _)| is_hidden(key)) {
            format!("{key}={HIDDEN}")
        } else {
            is_list_hidden = item.trim_end().strip_suffix(':').is_some_and(is_hidden);
            line.to_owned()
        };
        shown.push_str(&hidden);
        shown.push('\n');
    }
    plain::text(&shown)
}

fn redact(value: &mut Value, key: Option<&str>, has_options: bool) {
    match value {
        Value::String(text) => *text = under(key, text),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, key, has_options)),
        Value::Object(fields) => {
            let named =
                NAMES.iter().find_map(|name| fields.get(*name)?.as_str()).map(str::to_owned);
            for (name, value) in fields.iter_mut() {
                let path = match (key, named.as_deref()) {
                    (Some(key), _) if has_options => format!("{key}.{name}"),
                    (_, Some(named)) if name == "value" => named.to_owned(),
                    _ => name.clone(),
                };
                redact(value, Some(&path), has_options);
            }
        }
        Value::Number(_) if key.is_some_and(is_hidden) => *value = Value::from(HIDDEN),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Returns the text under this key with everything hidden that may not be shown.
fn under(key: Option<&str>, text: &str) -> String {
    match key {
        Some(key) if is_reference(key) => text.to_owned(),
        Some(key) if is_hidden(key) && !text.is_empty() => HIDDEN.to_owned(),
        Some(key) => plain::text(&shown(key, text)),
        None => plain::text(text),
    }
}

fn is_hidden(key: &str) -> bool {
    let key = key.trim();
    (is_secret(key) || key.ends_with(ARGUMENTS)) && !is_reference(key)
}

/// Returns whether the key refers to a Secret or an account by name, which is not secret and helps to find the problem.
fn is_reference(key: &str) -> bool {
    matches!(key, "secretName" | "automountServiceAccountToken" | "tokenExpirationSeconds")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::plain::text;
    use super::*;

    /// Also bytes in base64.
    #[test]
    fn bytes_are_left_out() {
        let bytes = "aHVudGVyMiBodW50ZXIyIGh1bnRlcjIgaHVudGVyMiBodW50ZXIyCg==";
        let wrapped = "aHVudGVyMiBodW50ZXIyIGh1bnRlcjIg\naHVudGVyMiBodW50ZXIyCg==\n";
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef";
        let shown = object(json!({
            "kind": "ConfigMap",
            "binaryData": {"keystore.jks": "aHVudGVyMg=="},
            "data": {"counter": "7", "jobGraph": bytes, "wrapped": wrapped, "id": id,
                "core-site.xml": "<name>fs.s3a.secret.key</name>\n<value>hunter2</value>\n"},
        }));
        assert_eq!(shown["data"]["counter"], "7\n");
        assert_eq!(shown["data"]["id"], format!("{id}\n"));
        for left_out in [
            &shown["binaryData"]["keystore.jks"],
            &shown["data"]["jobGraph"],
            &shown["data"]["wrapped"],
            &shown["data"]["core-site.xml"],
        ] {
            assert!(left_out.as_str().unwrap().starts_with("(left out:"), "{left_out}");
        }
        let secret =
            json!({"kind": "Secret", "data": {"a": "YQ=="}, "stringData": {"b": "hunter2"}});
        let shown = object(secret).to_string();
        assert!(!shown.contains("YQ==") && !shown.contains("hunter2"), "{shown}");
    }

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

    #[track_caller]
    fn check_files(files: Value, kept: &[&str]) -> Value {
        let object = object(json!({"metadata": {"name": "x"}, "data": files}));
        let text = object.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        for kept in kept {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        object
    }

    #[test]
    fn secrets_are_taken_out_of_json_in_texts() {
        // Text after the first `=` must be searched as well.
        let spec = json!({"spec": {
            "flinkConfiguration": {"s3.secret-key": "hunter2", "env.java.opts.all": "-Da=b"},
            "job": {"args": ["--token", "hunter2", "--topic", "orders"]},
            "podTemplate": {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]},
        }});
        let object = object(json!({"status": {"reconciliationStatus": {
            "lastReconciledSpec": spec.to_string(),
            "lastStableSpec": "{\"spec\": {\"job\": {}}}",
        }}}));
        let status = &object["status"]["reconciliationStatus"];
        let text = status["lastReconciledSpec"].as_str().unwrap();
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read["spec"]["job"]["args"], json!(["--token", HIDDEN, "--topic", "orders"]));
        assert_eq!(read["spec"]["flinkConfiguration"]["env.java.opts.all"], "-Da=b");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(status["lastStableSpec"], "{\"spec\": {\"job\": {}}}", "as it was");
    }

    #[test]
    fn secrets_are_taken_out_of_files() {
        let template = "spec:\n  containers:\n  - env:\n    - name: DB_PASSWORD\n      value: hunter2\n    \
            - name: TOPIC\n      value: orders\n  volumes:\n  - secret:\n      secretName: s3-credentials\n";
        check_files(
            json!({"pod-template.yaml": template}),
            &["orders", "s3-credentials", "DB_PASSWORD"],
        );
        // As the file is not valid YAML.
        let broken = format!("{template}  : [\n");
        check_files(json!({"pod-template.yaml": broken}), &["orders", "DB_PASSWORD"]);
        check_files(
            json!({
                "flink-conf.yaml": "$internal.application.program-args: --token;hunter2\nrest.port: 8081\n",
                "log4j.properties": "appender.password = hunter2 hunter2\nrootLogger.level = INFO\n",
            }),
            &["rest.port: 8081", "level = INFO"],
        );
        let nested = "fs:\n  azure:\n    account:\n      key:\n        me: hunter2\ns3:\n  access:\n    key: hunter2\n  \
            endpoint: http://minio\n$internal:\n  application:\n    program-args:\n    - --x\n    - hunter2\n";
        let object = check_files(json!({"config.yaml": nested}), &["http://minio"]);
        let text = object["data"]["config.yaml"].as_str().unwrap();
        assert!(serde_yaml::from_str::<Value>(text).unwrap()["s3"]["access"]["key"] == HIDDEN);
        let broken = format!("{nested}  : [\n");
        assert!(!lines(&broken).contains("- hunter2"));
        check_files(json!({"config.yaml": broken}), &["left out"]);
        let plain = "rest:\n  port: 1.20 # a port\n";
        assert_eq!(check_files(json!({"config.yaml": plain}), &[])["data"]["config.yaml"], plain);
    }

    #[test]
    fn a_document_that_is_too_long_is_left_out() {
        let long = format!("[\"hunter2{}\"]", " ".repeat(DOCUMENT_BYTES_MAX));
        check_files(json!({"a": long, "b": format!("a: {long}")}), &["left out"]);
        assert!(object(json!({"status": long}))["status"].as_str().unwrap().len() < 100);
    }

    #[test]
    fn arguments_of_jobs_are_taken_out() {
        let answer = json!([
            {"key": "$internal.application.program-args", "value": "--x;hunter2"},
            {"key": "rest.port", "value": "8081"},
        ]);
        let answer = object(answer).to_string();
        assert!(!answer.contains("hunter2") && answer.contains("8081"), "{answer}");
        let log = "2026-01-01 00:00:00,000 INFO  org.apache.flink.ClusterEntrypoint [] - ";
        for (given, shown) in [
            (
                "{}    --token\n{}    hunter2 x\n{}    --a\n",
                "{}    --token\n{}    ******\n{}    --a\n",
            ),
            ("{}    --token\r\n{}    hunter2\r\n", "{}    --token\r\n{}    ******\r\n"),
            ("{}    --token\nCaused by: x", "{}    --token\nCaused by: x"),
            ("{}run --token hunter2 --a b", "{}run --token ****** --a b"),
            ("{}run --token 'hun ter2' b", "{}run --token '******' b"),
            ("{}[--token, hunter2, b]", "{}[--token, ******, b]"),
            (r#"["--token","hunter2","b"]"#, r#"["--token","******","b"]"#),
            (r#"{"a":["--token"],"b":"c"}"#, r#"{"a":["--token"],"b":"c"}"#),
            ("- --token\n- hunter2\n- b\n", "- --token\n- ******\n- b\n"),
            (
                "{}Loading property: $internal.application.program-args, --x;hunter2",
                "{}Loading property: $internal.application.program-args: ******",
            ),
            (
                "{}-D$internal.application.program-args=--x;hunter2",
                "{}-D$internal.application.program-args: ******",
            ),
            (
                "{\n  \"key\": \"$internal.application.program-args\",\n  \"value\": \"******\"\n}",
                "{\n  \"key\": \"$internal.application.program-args\",\n  \"value\": \"******\"\n}",
            ),
            ("{}renewed the delegation-token of me", "{}renewed the delegation-token of me"),
        ] {
            assert_eq!(text(&given.replace("{}", log)), shown.replace("{}", log));
        }
    }
}
