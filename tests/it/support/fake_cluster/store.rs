//! The fake API server's objects, and how requests change them.

use std::collections::{BTreeMap, BTreeSet};

use api::crd;
use axum::http::{Method, Uri};
use serde_json::{Map, Value, json};

/// Key of an object: plural, namespace (empty for cluster-scoped), name.
type Key = (String, String, String);

#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<Key, Value>,
    /// Every change since the start, so that a watch can begin at any resource version.
    log: Vec<(u64, &'static str, Key, Value)>,
    version: u64,
    pub(super) unknown_kinds: BTreeSet<String>,
}

/// A parsed request.
pub(super) struct Request {
    method: Method,
    api_version: String,
    namespace: String,
    plural: String,
    name: Option<String>,
    subresource: Option<String>,
    query: BTreeMap<String, String>,
    content_type: String,
    /// Whether only metadata is requested.
    is_metadata: bool,
    body: Value,
    path: String,
}

pub(super) enum Answer {
    Object(u16, Value),
    Failure { code: u16, reason: &'static str, message: String, details: Value },
    NoSuchPath,
    Watch { from: u64 },
}

impl Request {
    pub(super) fn parse(
        method: Method,
        uri: &Uri,
        content_type: &str,
        accept: &str,
        body: Value,
    ) -> Self {
        let path = uri.path().to_owned();
        let mut parts =
            path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let api_version = match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 2 => parts.drain(..2).nth(1).unwrap(),
            Some("apis") if parts.len() >= 3 => {
                parts.drain(..3).skip(1).collect::<Vec<_>>().join("/")
            }
            _ => String::new(),
        };
        let mut namespace = String::new();
        if parts.first().is_some_and(|part| part == "namespaces") && parts.len() >= 3 {
            namespace = parts.drain(..2).nth(1).unwrap();
        }
        let mut parts = parts.into_iter();
        let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self {
            method,
            api_version,
            namespace,
            plural: parts.next().unwrap_or_default(),
            name: parts.next(),
            subresource: parts.next(),
            query: query.into_owned().collect(),
            content_type: content_type.to_owned(),
            is_metadata: accept.contains("PartialObjectMetadata"),
            body,
            path,
        }
    }

    fn query(&self, key: &str) -> &str {
        self.query.get(key).map(String::as_str).unwrap_or_default()
    }

    fn key(&self, name: &str) -> Key {
        (self.plural.clone(), self.namespace.clone(), name.to_owned())
    }

    /// Whether a list or watch of this request covers the object.
    fn covers(&self, key: &Key, object: &Value) -> bool {
        key.0 == self.plural
            && (self.namespace.is_empty() || key.1 == self.namespace)
            && matches_labels(object, self.query("labelSelector"))
            && matches_fields(object, self.query("fieldSelector"))
    }

    fn shown(&self, object: &Value) -> Value {
        if !self.is_metadata {
            return object.clone();
        }
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
    }
}

/// Returns the status of a pod whose containers have completed.
fn passed(containers: &Value) -> Value {
    let statuses = containers.as_array().into_iter().flatten().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "sha256:0",
            "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
        })
    });
    json!({"phase": "Succeeded", "containerStatuses": statuses.collect::<Vec<_>>()})
}

/// Evaluates a field selector such as `a.b=c,d.e!=f`; a missing field is empty.
fn matches_fields(object: &Value, selector: &str) -> bool {
    let field = |path: &str| {
        let pointer = format!("/{}", path.replace('.', "/"));
        object.pointer(&pointer).and_then(Value::as_str).unwrap_or_default()
    };
    selector.split(',').filter(|term| !term.is_empty()).all(|term| {
        if let Some((path, value)) = term.split_once("!=") {
            field(path) != value
        } else {
            term.split_once('=').is_none_or(|(path, value)| field(path) == value)
        }
    })
}

/// Evaluates a label selector such as `a=b,c!=d,e in (f,g),h`.
fn matches_labels(object: &Value, selector: &str) -> bool {
    let label = |name: &str| object["metadata"]["labels"][name.trim()].as_str();
    let mut terms = Vec::new();
    let mut depth = 0;
    let mut term = String::new();
    for c in selector.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            terms.push(std::mem::take(&mut term));
        } else {
            term.push(c);
        }
    }
    terms.push(term);
    terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()).all(|term| {
        if let Some((name, values)) = term.split_once(" in ") {
            let values = values.trim().trim_matches(['(', ')']);
            values.split(',').any(|value| label(name) == Some(value.trim()))
        } else if let Some((name, value)) = term.split_once("!=") {
            label(name) != Some(value.trim())
        } else if let Some((name, value)) = term.split_once('=') {
            label(name) == Some(value.trim_start_matches('=').trim())
        } else {
            label(term).is_some()
        }
    })
}

impl Store {
    pub(super) fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(plural.to_owned(), namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn all(&self, plural: &str) -> Vec<Value> {
        self.objects
            .iter()
            .filter(|((kind, _, _), _)| kind == plural)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Returns the plural under which a kind's objects are stored.
    fn plural_of(kind: &str) -> String {
        let lower = kind.to_lowercase();
        match lower.as_str() {
            "ingress" => "ingresses".to_owned(),
            _ => lower + "s",
        }
    }

    pub(super) fn insert(&mut self, mut object: Value) -> Value {
        let text = |path: &str| {
            object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let key =
            (Self::plural_of(&text("/kind")), text("/metadata/namespace"), text("/metadata/name"));
        self.begin(&mut object);
        self.put("ADDED", key, object)
    }

    pub(super) fn set_status(&mut self, plural: &str, namespace: &str, name: &str, patch: &Value) {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self.objects.get(&key).expect("the object is there").clone();
        merge(&mut object, &json!({"status": patch}));
        self.put("MODIFIED", key, object);
    }

    /// Sets the metadata that the API server gives a new object.
    fn begin(&mut self, object: &mut Value) {
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.version + 1));
        }
        if metadata["generation"].is_null() {
            metadata["generation"] = json!(1);
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] =
                json!(jiff::Timestamp::now().round(jiff::Unit::Second).unwrap());
        }
    }

    fn put(&mut self, event: &'static str, key: Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push((self.version, event, key.clone(), object.clone()));
        if event == "DELETED" {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, object.clone());
        }
        object
    }

    /// Answers discovery of a group's kinds, as far as clients use it.
    fn kinds(&self, api_version: &str) -> Value {
        let known = crd::all().into_iter().map(|definition| definition.spec.names);
        let known = known.filter(|names| !self.unknown_kinds.contains(&names.plural));
        let resources: Vec<Value> = known
            .map(|names| {
                json!({"name": names.plural, "kind": names.kind, "singularName": "",
                       "namespaced": true, "verbs": []})
            })
            .collect();
        json!({"groupVersion": api_version, "resources": resources})
    }

    pub(super) fn handle(&mut self, request: &Request) -> Answer {
        if request.path == "/version" {
            return Answer::Object(
                200,
                json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            );
        }
        if request.plural.is_empty() && !request.api_version.is_empty() {
            return Answer::Object(200, self.kinds(&request.api_version));
        }
        if request.api_version.is_empty() || self.unknown_kinds.contains(&request.plural) {
            return Answer::NoSuchPath;
        }
        match (request.method.as_str(), &request.name) {
            ("GET", None) => self.list(request),
            ("GET", Some(name)) => match self.objects.get(&request.key(name)) {
                Some(object) => Answer::Object(200, request.shown(object)),
                None => not_found(request, name),
            },
            ("POST", None) => self.create(request),
            ("PUT" | "PATCH", Some(name)) => self.write(request, name),
            ("DELETE", Some(name)) => self.delete(request, name),
            _ => Answer::Failure {
                code: 405,
                reason: "MethodNotAllowed",
                message: format!("{} {}", request.method, request.path),
                details: Value::Null,
            },
        }
    }

    fn list(&self, request: &Request) -> Answer {
        if matches!(request.query("watch"), "1" | "true") {
            return Answer::Watch { from: request.query("resourceVersion").parse().unwrap_or(0) };
        }
        let items = self.objects.iter().filter(|(key, object)| request.covers(key, object));
        let items = items.map(|(_, object)| request.shown(object)).collect::<Vec<_>>();
        let kind = if request.is_metadata { "PartialObjectMetadataList" } else { "List" };
        Answer::Object(
            200,
            json!({"apiVersion": request.api_version, "kind": kind,
                "metadata": {"resourceVersion": self.version.to_string()}, "items": items}),
        )
    }

    /// Returns the watch events after `from`, and the version they lead up to.
    pub(super) fn events(&self, request: &Request, from: u64) -> (Vec<String>, u64) {
        let lines = self
            .log
            .iter()
            .filter(|(version, _, key, object)| *version > from && request.covers(key, object))
            .map(|(_, event, _, object)| {
                json!({"type": event, "object": request.shown(object)}).to_string() + "\n"
            });
        (lines.collect(), self.version)
    }

    fn create(&mut self, request: &Request) -> Answer {
        let mut object = request.body.clone();
        let Some(name) =
            object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
        else {
            return invalid("metadata.name is required");
        };
        let key = request.key(&name);
        if self.objects.contains_key(&key) {
            return Answer::Failure {
                code: 409,
                reason: "AlreadyExists",
                message: format!("{} \"{name}\" already exists", request.plural),
                details: details(request, &name),
            };
        }
        if !request.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(request.namespace);
        }
        if let Some(fields) = object.as_object_mut().filter(|fields| fields.contains_key("spec")) {
            // The status subresource is written separately.
            fields.remove("status");
        }
        self.begin(&mut object);
        if !request.query("dryRun").is_empty() {
            return Answer::Object(201, object);
        }
        if object["metadata"]["labels"]["app.kubernetes.io/name"] == "flink-preflight" {
            object["status"] = passed(&object["spec"]["containers"]);
        }
        Answer::Object(201, self.put("ADDED", key, object))
    }

    fn write(&mut self, request: &Request, name: &str) -> Answer {
        let is_apply = request.content_type.contains("apply-patch");
        let key = request.key(name);
        let Some(before) = self.objects.get(&key).cloned() else {
            if !is_apply || request.subresource.is_some() {
                return not_found(request, name);
            }
            return match self.create(request) {
                Answer::Object(_, mut object) if request.query("dryRun").is_empty() => {
                    own(&mut object, request);
                    self.objects.insert(key, object.clone());
                    Answer::Object(201, object)
                }
                other => other,
            };
        };
        let expected =
            request.body.pointer("/metadata/resourceVersion").filter(|version| !version.is_null());
        if expected.is_some_and(|expected| *expected != before["metadata"]["resourceVersion"]) {
            return conflict(request, name);
        }
        if is_apply
            && request.query("force") != "true"
            && let Some(field) = foreign_field(&before, request)
        {
            return field;
        }
        let mut after = before.clone();
        if request.method == Method::PUT {
            let metadata = before["metadata"].clone();
            after = request.body.clone();
            let mut kept = metadata;
            merge(&mut kept, &request.body["metadata"]);
            after["metadata"] = kept;
        } else {
            merge(&mut after, &request.body);
        }
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        if request.subresource.as_deref() == Some("status") {
            let status = after["status"].take();
            after = before.clone();
            after["status"] = status;
        } else {
            restore(&mut after, &before, "status");
            if is_apply {
                own(&mut after, request);
            }
        }
        if after == before {
            return Answer::Object(200, before);
        }
        if after.get("spec") != before.get("spec") {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            after["metadata"]["generation"] = json!(generation + 1);
        }
        if !request.query("dryRun").is_empty() {
            return Answer::Object(200, after);
        }
        let is_released =
            !after["metadata"]["deletionTimestamp"].is_null() && !has_finalizers(&after);
        let event = if is_released { "DELETED" } else { "MODIFIED" };
        let uid = after["metadata"]["uid"].clone();
        let stored = self.put(event, key, after);
        if is_released {
            self.collect(&uid);
            self.end_foreground();
        }
        Answer::Object(200, stored)
    }

    fn delete(&mut self, request: &Request, name: &str) -> Answer {
        let key = request.key(name);
        let Some(mut object) = self.objects.get(&key).cloned() else {
            return not_found(request, name);
        };
        let uid = object["metadata"]["uid"].clone();
        let expected = &request.body["preconditions"];
        let is_as_expected =
            |field: &str| expected[field].is_null() || expected[field] == object["metadata"][field];
        if !["uid", "resourceVersion"].into_iter().all(is_as_expected) {
            return conflict(request, name);
        }
        if request.body["dryRun"].as_array().is_some_and(|stages| !stages.is_empty()) {
            return Answer::Object(200, object);
        }
        if has_finalizers(&object) {
            if object["metadata"]["deletionTimestamp"].is_null() {
                object["metadata"]["deletionTimestamp"] = json!(jiff::Timestamp::now());
                object = self.put("MODIFIED", key, object);
            }
            return Answer::Object(200, object);
        }
        if request.body["propagationPolicy"] == "Foreground" {
            return self.delete_in_foreground(key, object, &uid);
        }
        self.put("DELETED", key, object);
        if request.body["propagationPolicy"] != "Orphan" {
            self.collect(&uid);
        }
        Answer::Object(
            200,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
        )
    }

    /// Deletes what the object owns, and then the object. Dependents that block it and do not go keep it.
    fn delete_in_foreground(&mut self, key: Key, mut object: Value, uid: &Value) -> Answer {
        self.collect(uid);
        if !self.is_kept_by_dependents(uid) {
            self.put("DELETED", key, object);
            return Answer::Object(200, json!({"kind": "Status", "status": "Success"}));
        }
        object["metadata"]["deletionTimestamp"] = json!(jiff::Timestamp::now());
        object["metadata"]["finalizers"] = json!([FOREGROUND]);
        Answer::Object(200, self.put("MODIFIED", key, object))
    }

    fn is_kept_by_dependents(&self, owner: &Value) -> bool {
        self.objects.values().any(|object| {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            owners.into_iter().flatten().any(|reference| {
                reference["uid"] == *owner && reference["blockOwnerDeletion"] == true
            })
        })
    }

    /// Ends what was deleted in the foreground and that nothing keeps any more.
    fn end_foreground(&mut self) {
        let ended = self.objects.iter().find(|(_, object)| {
            let metadata = &object["metadata"];
            metadata["finalizers"] == json!([FOREGROUND])
                && !self.is_kept_by_dependents(&metadata["uid"])
        });
        let Some((key, object)) = ended.map(|(key, object)| (key.clone(), object.clone())) else {
            return;
        };
        self.put("DELETED", key, object);
        // What it kept in turn.
        self.end_foreground();
    }

    /// Garbage collection: deletes what the deleted object owned and nothing else that exists owns. An object with
    /// finalizers only learns that it has to go.
    fn collect(&mut self, owner: &Value) {
        let uid_of = |object: &Value| object["metadata"]["uid"].clone();
        let uids: Vec<Value> = self.objects.values().map(uid_of).collect();
        let is_orphan = |object: &Value| {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let owners: Vec<&Value> =
                owners.into_iter().flatten().map(|owner| &owner["uid"]).collect();
            owners.contains(&owner) && !owners.iter().any(|it| *it != owner && uids.contains(it))
        };
        let orphans: Vec<(Key, Value)> = self
            .objects
            .iter()
            .filter(|(_, object)| is_orphan(object))
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, mut object) in orphans {
            if has_finalizers(&object) {
                if object["metadata"]["deletionTimestamp"].is_null() {
                    object["metadata"]["deletionTimestamp"] = json!(jiff::Timestamp::now());
                    self.put("MODIFIED", key, object);
                }
                continue;
            }
            let uid = uid_of(&object);
            self.put("DELETED", key, object);
            self.collect(&uid);
        }
    }
}

/// The finalizer of an object that is deleted after its dependents.
const FOREGROUND: &str = "foregroundDeletion";

fn has_finalizers(object: &Value) -> bool {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
}

/// Resets `field` to its previous value.
fn restore(after: &mut Value, before: &Value, field: &str) {
    let Some(after) = after.as_object_mut() else { return };
    match before.get(field) {
        Some(value) => drop(after.insert(field.to_owned(), value.clone())),
        None => drop(after.remove(field)),
    }
}

/// Records the spec fields that the manager applied.
fn own(object: &mut Value, request: &Request) {
    let manager = request.query("fieldManager").to_owned();
    let mut fields = Vec::new();
    leaves(&request.body["spec"], "spec", &mut fields);
    let owners = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let mut owners: Map<String, Value> = owners;
    for field in fields {
        owners.insert(format!("fake/owner.{field}"), json!(manager));
    }
    if !owners.is_empty() {
        object["metadata"]["annotations"] = Value::Object(owners);
    }
}

/// Returns the conflict with a field that another manager applied with another value.
fn foreign_field(before: &Value, request: &Request) -> Option<Answer> {
    let manager = request.query("fieldManager");
    let mut fields = Vec::new();
    leaves(&request.body["spec"], "spec", &mut fields);
    let foreign = fields.into_iter().find_map(|field| {
        let owner = before["metadata"]["annotations"][format!("fake/owner.{field}")].as_str()?;
        let pointer = format!("/{}", field.replace('.', "/"));
        let is_other = before.pointer(&pointer) != request.body.pointer(&pointer);
        (owner != manager && is_other).then(|| (field, owner.to_owned()))
    });
    foreign.map(|(field, owner)| Answer::Failure {
        code: 409,
        reason: "Conflict",
        message: format!("Apply failed with 1 conflict: conflict with \"{owner}\": .{field}"),
        details: json!({"causes": [{"reason": "FieldManagerConflict", "field": format!(".{field}"),
            "message": format!("conflict with \"{owner}\"")}]}),
    })
}

fn leaves(value: &Value, path: &str, fields: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                leaves(value, &format!("{path}.{key}"), fields);
            }
        }
        Value::Null => {}
        _ => fields.push(path.to_owned()),
    }
}

pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

fn details(request: &Request, name: &str) -> Value {
    let group = request.api_version.split_once('/').map_or("", |(group, _)| group);
    json!({"name": name, "group": group, "kind": request.plural})
}

fn not_found(request: &Request, name: &str) -> Answer {
    Answer::Failure {
        code: 404,
        reason: "NotFound",
        message: format!("{} \"{name}\" not found", request.plural),
        details: details(request, name),
    }
}

fn conflict(request: &Request, name: &str) -> Answer {
    Answer::Failure {
        code: 409,
        reason: "Conflict",
        message: format!(
            "Operation cannot be fulfilled on {} \"{name}\": the object has been modified",
            request.plural
        ),
        details: details(request, name),
    }
}

fn invalid(message: &str) -> Answer {
    Answer::Failure {
        code: 422,
        reason: "Invalid",
        message: message.to_owned(),
        details: Value::Null,
    }
}
