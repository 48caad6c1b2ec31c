//! Comparison of Kubernetes objects by meaning.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Annotation that counts edits of the recorded run, so that only its form is compared.
const GENERATION: &str = "flinkdeployment.flink.apache.org/generation";
const ANNOTATIONS: &str = "kubernetes.jobmanager.annotations";
const LOGGING: [&str; 2] = ["log4j-console.properties", "logback-console.xml"];

/// Returns the differences, one per line: path, expected and found value.
pub(crate) fn differences(expected: &[Value], found: &[Value]) -> Vec<String> {
    let expected = objects(expected);
    let mut found = objects(found);
    for (name, object) in &mut found {
        if let Some(Value::Object(golden)) = expected.get(name) {
            drop_extra_logging(golden, object);
        }
    }
    let mut lines = Vec::new();
    diff(&Value::Object(expected), &Value::Object(found), "", &mut lines);
    lines
}

/// Returns the tidied objects by kind and name.
fn objects(documents: &[Value]) -> Map<String, Value> {
    documents
        .iter()
        .map(|document| {
            let mut object = document.clone();
            let kind = text(&object["kind"]);
            let name = format!("{kind}/{}", text(&object["metadata"]["name"]));
            strip(&mut object);
            if kind == "ConfigMap" {
                read_files(&mut object);
            }
            (name, tidy(&object, &[]).unwrap_or(Value::Null))
        })
        .collect()
}

/// Drops what belongs to one run or to the API server.
fn strip(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"]
        {
            metadata.remove(field);
        }
        for owner in
            metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten()
        {
            owner.as_object_mut().unwrap().remove("uid");
        }
    }
    object.as_object_mut().unwrap().remove("status");
}

fn read_files(object: &mut Value) {
    for (name, content) in object["data"].as_object_mut().into_iter().flatten() {
        let file = content.as_str().unwrap().to_owned();
        *content = match name.as_str() {
            "flink-conf.yaml" => configuration(lines(&file)),
            "config.yaml" => configuration(nested(&file)),
            "taskmanager-pod-template.yaml" => {
                let template: Value = serde_yaml::from_str(&file).unwrap();
                tidy(&template, &["spec"]).unwrap_or(Value::Null)
            }
            _ => file.trim().into(),
        };
    }
}

/// Parses `flink-conf.yaml`, which is not YAML: quotes are significant.
fn lines(file: &str) -> BTreeMap<String, String> {
    file.lines()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|line| {
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            (key.trim().trim_end_matches(':').to_owned(), value.to_owned())
        })
        .collect()
}

fn nested(file: &str) -> BTreeMap<String, String> {
    fn flatten(flat: &mut BTreeMap<String, String>, prefix: &str, value: &Value) {
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    let path =
                        if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    flatten(flat, &path, value);
                }
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(text).collect();
                flat.insert(prefix.to_owned(), items.join(";"));
            }
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                flat.insert(prefix.to_owned(), text(scalar));
            }
        }
    }
    let mut flat = BTreeMap::new();
    flatten(&mut flat, "", &serde_yaml::from_str(file).unwrap());
    flat
}

fn configuration(entries: BTreeMap<String, String>) -> Value {
    let ignored = |key: &str| {
        key.starts_with("kubernetes.pod-template-file")
            || [
                "$internal.pipeline.job-id",
                "$internal.deployment.config-dir",
                "kubernetes.config.file",
                "kubernetes.jobmanager.owner.reference",
            ]
            .contains(&key)
    };
    entries
        .into_iter()
        .filter(|(key, _)| !ignored(key))
        .map(|(key, value)| {
            let mut value = without_ids(value.trim());
            if key == ANNOTATIONS {
                value = annotations(&value);
            }
            if key.contains("memory") {
                value = bytes(&value).map_or(value, |bytes| bytes.to_string());
            }
            (key, value)
        })
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect::<Map<_, _>>()
        .into()
}

/// Sorts the entries of a map, whose order does not matter.
fn annotations(text: &str) -> String {
    let mut entries: Vec<String> = text
        .split(',')
        .map(|entry| match entry.strip_prefix(&format!("{GENERATION}:")) {
            Some(number) if is_generation(number) => format!("{GENERATION}:<generation>"),
            _ => entry.to_owned(),
        })
        .collect();
    entries.sort();
    entries.join(",")
}

fn is_generation(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number > 0)
}

/// Replaces uuids and job ids of a run with placeholders.
fn without_ids(text: &str) -> String {
    let is_hex =
        |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let is_uuid = |part: &str| {
        let groups: Vec<&str> = part.split('-').collect();
        groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && groups.into_iter().all(is_hex)
    };
    text.split('/')
        .map(|part| {
            if is_uuid(part) {
                "<uuid>"
            } else if part.len() == 32 && is_hex(part) {
                "<job-id>"
            } else {
                part
            }
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// Returns the bytes of a plain size such as `2 gb`.
fn bytes(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match text[at..].trim_start() {
        "b" | "bytes" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    text[..at].parse::<u64>().ok().map(|count| count * unit)
}

/// Returns the value of a quantity; other text is unchanged.
fn quantity(value: &Value) -> Value {
    let text = text(value);
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let factor = match &text[at..] {
        "" => 1.0,
        "m" => 1e-3,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return value.clone(),
    };
    match text[..at].parse::<f64>() {
        Ok(number) => format!("{:.6}", number * factor).into(),
        Err(_) => value.clone(),
    }
}

/// Returns the value without defaults; `None` if it is empty.
fn tidy(value: &Value, path: &[&str]) -> Option<Value> {
    if path.len() >= 2 && ["requests", "limits"].contains(&path[path.len() - 2]) {
        return Some(quantity(value));
    }
    match value {
        Value::Object(object) => Some(Value::Object(tidy_object(object, path))),
        Value::Array(items) => {
            let items: Vec<Value> = items.iter().filter_map(|item| tidy(item, path)).collect();
            Some(by_key(items, path.last().copied().unwrap_or_default()))
        }
        Value::Null => None,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

fn tidy_object(object: &Map<String, Value>, path: &[&str]) -> Map<String, Value> {
    let mut object = object.clone();
    if path.last().is_some_and(|last| ["containers", "initContainers"].contains(last)) {
        tidy_container(&mut object);
    }
    let mut tidied = Map::new();
    for (key, value) in &object {
        let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
        let value = if key == GENERATION && is_generation(&text(value)) {
            Some("<generation>".into())
        } else {
            tidy(value, &path)
        };
        let Some(value) = value else { continue };
        let is_kept_empty = key == "emptyDir";
        if !is_kept_empty && (value == json!({}) || value == json!([]) || is_default(&path, &value))
        {
            continue;
        }
        tidied.insert(key.clone(), value);
    }
    if tidied.contains_key("serviceAccountName") {
        tidied.remove("serviceAccount");
    }
    if tidied.get("targetPort").is_some_and(|target| Some(target) == tidied.get("port")) {
        tidied.remove("targetPort");
    }
    tidied
}

fn tidy_container(container: &mut Map<String, Value>) {
    if let Some(image) = container.get("image").and_then(Value::as_str) {
        let tag = image.rsplit('/').next().unwrap().split_once(':').map_or("", |(_, tag)| tag);
        let is_moving = !image.contains('@') && ["", "latest"].contains(&tag);
        let default = if is_moving { "Always" } else { "IfNotPresent" };
        if container.get("imagePullPolicy").is_some_and(|policy| policy == default) {
            container.remove("imagePullPolicy");
        }
    }
    if let Some(Value::Array(args)) = container.get_mut("args") {
        older_address_form(args);
    }
}

/// Converts the address argument of a standalone JobManager to the form of 1.14.0, which later operators changed.
fn older_address_form(args: &mut Vec<Value>) {
    let pair = [json!("-D"), json!("jobmanager.rpc.address=$(_POD_IP_ADDRESS)")];
    let is_application = args.first().is_some_and(|arg| arg == "standalone-job");
    let is_session = args.first().is_some_and(|arg| arg == "jobmanager");
    let Some(at) = args.windows(2).position(|window| window == pair) else { return };
    if is_application {
        args.splice(at..at + 2, [json!("--host"), json!("$(_POD_IP_ADDRESS)")]);
    } else if is_session {
        args.splice(at..at + 2, [json!("$(_POD_IP_ADDRESS)")]);
    }
}

/// Converts a list whose elements have a key to one that does not depend on their order.
fn by_key(items: Vec<Value>, field: &str) -> Value {
    let key = match field {
        "env" | "ports" | "volumes" | "containers" | "initContainers" => "name",
        "volumeMounts" => "mountPath",
        "items" => "key",
        _ => return items.into(),
    };
    if items.iter().all(|item| item.get(key).is_some()) {
        items.into_iter().map(|item| (text(&item[key]), item)).collect::<Map<_, _>>().into()
    } else {
        items.into()
    }
}

/// Whether the API server would set this by default.
fn is_default(path: &[&str], value: &Value) -> bool {
    let defaults = [
        ("progressDeadlineSeconds", json!(600)),
        ("revisionHistoryLimit", json!(10)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("hostNetwork", json!(false)),
        ("ports.protocol", json!("TCP")),
        ("fieldRef.apiVersion", json!("v1")),
        ("configMap.defaultMode", json!(420)),
        ("secret.defaultMode", json!(420)),
        ("httpGet.scheme", json!("HTTP")),
        ("successThreshold", json!(1)),
        ("timeoutSeconds", json!(1)),
        ("failureThreshold", json!(3)),
        ("periodSeconds", json!(10)),
        ("internalTrafficPolicy", json!("Cluster")),
        ("externalTrafficPolicy", json!("Cluster")),
        ("ipFamilies", json!(["IPv4"])),
        ("ipFamilyPolicy", json!("SingleStack")),
        ("sessionAffinity", json!("None")),
        ("spec.type", json!("ClusterIP")),
        ("clusterIPs", json!(["None"])),
        ("allocateLoadBalancerNodePorts", json!(true)),
        ("pathType", json!("ImplementationSpecific")),
        ("hostPath.type", json!("")),
        (
            "strategy",
            json!({"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"}),
        ),
    ];
    let dotted = path.join(".");
    defaults.iter().any(|(suffix, default)| {
        value == default
            && dotted
                .strip_suffix(suffix)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Allows additional default logging files that the recorded case does not have.
fn drop_extra_logging(golden: &Map<String, Value>, found: &mut Value) {
    const ITEMS: &str = "/spec/template/spec/volumes/flink-config-volume/configMap/items";
    let golden = Value::Object(golden.clone());
    for pointer in ["/data", ITEMS] {
        for name in LOGGING {
            let is_golden = golden.pointer(pointer).is_some_and(|files| files.get(name).is_some());
            if !is_golden && let Some(Value::Object(files)) = found.pointer_mut(pointer) {
                files.remove(name);
            }
        }
    }
}

fn diff(expected: &Value, found: &Value, path: &str, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                match found.get(key) {
                    Some(other) => diff(value, other, &format!("{path}.{key}"), lines),
                    None => lines.push(format!("{path}.{key}: missing {value}")),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(*key)) {
                lines.push(format!("{path}.{key}: extra {value}"));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                diff(expected, found, &format!("{path}[{index}]"), lines);
            }
        }
        (expected, found) if expected == found => {}
        _ => lines.push(format!("{path}: expected {expected}, found {found}")),
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
