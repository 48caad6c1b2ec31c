//! The fake API server's objects, and how requests change them.

use std::collections::{BTreeMap, BTreeSet};

use api::crd;
use axum::http::{Method, Uri};
use serde_json::{Value, json};

use super::failures::no_such_method;
use super::fields::{Manager, Owners, remove};
use super::rules::{
    FOREGROUND, ORPHAN, add_finalizer, count_generation, end, has_finalizers, has_generation,
    kind_of, refusal, restore, written,
};
use super::selectors::{matches_fields, matches_labels};

/// Key of an object: plural, namespace (empty for cluster-scoped), name.
type Key = (String, String, String);

#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<Key, Value>,
    /// Every change since the start, so that a watch can begin at any resource version.
    log: Vec<Change>,
    owners: BTreeMap<Key, Owners>,
    version: u64,
    pub(super) unknown_kinds: BTreeSet<String>,
    /// Kinds whose CRDs have no conditions.
    pub(super) kinds_without_conditions: BTreeSet<String>,
}

/// An object before and after a change.
struct Change {
    version: u64,
    key: Key,
    before: Option<Value>,
    after: Option<Value>,
}

/// A parsed request.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) api_version: String,
    namespace: String,
    pub(super) plural: String,
    name: Option<String>,
    subresource: Option<String>,
    query: BTreeMap<String, String>,
    content_type: String,
    /// Whether only metadata is requested.
    is_metadata: bool,
    pub(super) body: Value,
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

    /// Returns who writes. Without a name the API server derives one from the user agent.
    fn manager(&self) -> Manager {
        let name = match self.query("fieldManager") {
            "" => "unknown",
            name => name,
        };
        Manager { name: name.to_owned(), applies: self.content_type.contains("apply-patch") }
    }

    pub(super) fn is_of_ours(&self) -> bool {
        self.api_version.starts_with("flink.apache.org/")
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
        self.put(key, object)
    }

    pub(super) fn set_status(&mut self, plural: &str, namespace: &str, name: &str, patch: &Value) {
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self.objects.get(&key).expect("the object is there").clone();
        merge(&mut object, &json!({"status": patch}));
        self.put(key, object);
    }

    /// Sets the metadata that the API server gives a new object.
    fn begin(&mut self, object: &mut Value) {
        let has_generation = has_generation(object);
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.version + 1));
        }
        if metadata["generation"].is_null() && has_generation {
            metadata["generation"] = json!(1);
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] =
                json!(jiff::Timestamp::now().round(jiff::Unit::Second).unwrap());
        }
    }

    /// Returns the newest resource version, which is never zero: that means any.
    fn version(&self) -> u64 {
        self.version.max(1)
    }

    fn put(&mut self, key: Key, mut object: Value) -> Value {
        self.version = self.version() + 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let before = self.objects.insert(key.clone(), object.clone());
        let change = Change { version: self.version, key, before, after: Some(object.clone()) };
        self.log.push(change);
        object
    }

    fn remove(&mut self, key: &Key) {
        self.version = self.version() + 1;
        self.owners.remove(key);
        let before = self.objects.remove(key);
        let change = Change { version: self.version, key: key.clone(), before, after: None };
        self.log.push(change);
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
        let is_unknown = request.is_of_ours() && kind_of(&request.plural).is_empty()
            || self.unknown_kinds.contains(&request.plural);
        if request.api_version.is_empty() || is_unknown {
            return Answer::NoSuchPath;
        }
        match (request.method.as_str(), &request.name) {
            ("GET", None) => self.list(request),
            ("GET", Some(name)) => match self.objects.get(&request.key(name)) {
                Some(object) => Answer::Object(200, request.shown(object)),
                None => request.not_found(name),
            },
            ("POST", None) => self.create(request),
            ("PUT" | "PATCH", Some(name)) => self.write(request, name),
            ("DELETE", Some(name)) => self.delete(request, name),
            _ => no_such_method(),
        }
    }

    fn list(&self, request: &Request) -> Answer {
        if matches!(request.query("watch"), "1" | "true") {
            return Answer::Watch { from: request.query("resourceVersion").parse().unwrap_or(0) };
        }
        let items = self.objects.iter().filter(|(key, object)| request.covers(key, object));
        let items = items.map(|(_, object)| {
            let mut shown = request.shown(object);
            // In lists of its own kinds, the API server leaves out what is in the list.
            if !request.is_metadata && !request.is_of_ours() {
                let fields = shown.as_object_mut().unwrap();
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            shown
        });
        let items = items.collect::<Vec<_>>();
        let (api_version, kind) = if request.is_metadata {
            ("meta.k8s.io/v1", "PartialObjectMetadata")
        } else {
            (&*request.api_version, kind_of(&request.plural))
        };
        Answer::Object(
            200,
            json!({"apiVersion": api_version, "kind": format!("{kind}List"),
                "metadata": {"resourceVersion": self.version().to_string()}, "items": items}),
        )
    }

    /// Returns the watch events after `from`, and the version they lead up to. What is there comes first if `from` is
    /// zero.
    pub(super) fn events(&self, request: &Request, from: u64) -> (Vec<String>, u64) {
        let line = |kind: &str, object: &Value| {
            json!({"type": kind, "object": request.shown(object)}).to_string() + "\n"
        };
        let lines = if from == 0 {
            let covered = self.objects.iter().filter(|(key, object)| request.covers(key, object));
            covered.map(|(_, object)| line("ADDED", object)).collect()
        } else {
            let changes = self.log.iter().filter(|change| change.version > from);
            let told = changes.filter_map(|Change { version, key, before, after }| {
                let before = before.as_ref().filter(|object| request.covers(key, object));
                let after = after.as_ref().filter(|object| request.covers(key, object));
                Some(match (before, after) {
                    (None, Some(after)) => line("ADDED", after),
                    (Some(_), Some(after)) => line("MODIFIED", after),
                    // As it was last seen, with the version of its end.
                    (Some(before), None) => {
                        let mut last = before.clone();
                        last["metadata"]["resourceVersion"] = json!(version.to_string());
                        line("DELETED", &last)
                    }
                    (None, None) => return None,
                })
            });
            told.collect()
        };
        (lines, self.version())
    }

    fn create(&mut self, request: &Request) -> Answer {
        let mut object = request.body.clone();
        let Some(name) =
            object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
        else {
            let cause = ("FieldValueRequired", "Required value: name or generateName is required");
            return request.invalid(kind_of(&request.plural), "", "metadata.name", cause);
        };
        let key = request.key(&name);
        if self.objects.contains_key(&key) {
            return request.already_exists(&name);
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
        self.owners.entry(key.clone()).or_default().write(
            &request.manager(),
            &Value::Null,
            &object,
        );
        if object["metadata"]["labels"]["app.kubernetes.io/name"] == "flink-preflight" {
            object["status"] = passed(&object["spec"]["containers"]);
        }
        Answer::Object(201, self.put(key, object))
    }

    fn write(&mut self, request: &Request, name: &str) -> Answer {
        let manager = request.manager();
        let key = request.key(name);
        let Some(before) = self.objects.get(&key).cloned() else {
            if !manager.applies || request.subresource.is_some() {
                return request.not_found(name);
            }
            return self.create(request);
        };
        if let Some(refused) = refusal(request, name, &before) {
            return refused;
        }
        let mut owners = self.owners.get(&key).cloned().unwrap_or_default();
        let former = owners.clone();
        if manager.applies
            && request.query("force") != "true"
            && let Some(conflict) = owners.conflict(&manager, &before, &request.body)
        {
            return conflict;
        }
        let is_of_status = request.subresource.as_deref() == Some("status");
        let mut after = written(request, &before);
        if is_of_status {
            let status = after["status"].take();
            after = before.clone();
            after["status"] = status;
            if self.kinds_without_conditions.contains(&request.plural) {
                after["status"].as_object_mut().map(|status| status.remove("conditions"));
            }
        } else {
            restore(&mut after, &before, "status");
        }
        if manager.applies && !is_of_status {
            for dropped in owners.apply(&manager, &before, &request.body) {
                remove(&mut after, &dropped);
            }
        } else {
            owners.write(&manager, &before, &after);
        }
        if after == before && owners == former {
            return Answer::Object(200, before);
        }
        if has_generation(&before) && after.get("spec") != before.get("spec") {
            count_generation(&mut after);
        }
        if !request.query("dryRun").is_empty() {
            return Answer::Object(200, after);
        }
        if after["metadata"]["deletionTimestamp"].is_null() || has_finalizers(&after) {
            self.owners.insert(key.clone(), owners);
            return Answer::Object(200, self.put(key, after));
        }
        self.remove(&key);
        self.collect(&after["metadata"]["uid"]);
        self.end_foreground();
        Answer::Object(200, after)
    }

    fn delete(&mut self, request: &Request, name: &str) -> Answer {
        let key = request.key(name);
        let Some(mut object) = self.objects.get(&key).cloned() else {
            return request.not_found(name);
        };
        let uid = object["metadata"]["uid"].clone();
        for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (expected, found) =
                (&request.body["preconditions"][field], &object["metadata"][field]);
            if !expected.is_null() && expected != found {
                let kind = object["kind"].as_str().unwrap_or_default();
                return request.unexpected(kind, name, what, [expected, found]);
            }
        }
        let mut details = request.details(&request.plural, name);
        details["uid"] = uid.clone();
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details});
        let is_dry = request.body["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
        let propagation = request.body["propagationPolicy"].as_str();
        let finalizer = match propagation {
            Some("Foreground") => Some(FOREGROUND),
            Some("Orphan") => Some(ORPHAN),
            _ => None,
        };
        if finalizer.is_none() && !has_finalizers(&object) {
            if !is_dry {
                self.remove(&key);
                self.collect(&uid);
                self.end_foreground();
            }
            return Answer::Object(200, success);
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            end(&mut object);
            if let Some(finalizer) = finalizer {
                add_finalizer(&mut object, finalizer);
            }
            if !is_dry {
                object = self.put(key.clone(), object);
            }
        }
        if !is_dry {
            match propagation {
                Some("Foreground") => self.collect(&uid),
                Some("Orphan") => self.orphan(&key, &uid),
                _ => {}
            }
            self.end_foreground();
        }
        Answer::Object(200, object)
    }

    /// Releases what the object owns, and then the object.
    fn orphan(&mut self, key: &Key, uid: &Value) {
        for (owned, mut object) in self.objects.clone() {
            let owners =
                object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut);
            let Some(owners) = owners else { continue };
            let count = owners.len();
            owners.retain(|owner| owner["uid"] != *uid);
            let is_empty = owners.is_empty();
            if owners.len() < count {
                if is_empty {
                    object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
                }
                self.put(owned, object);
            }
        }
        self.release(key, ORPHAN);
    }

    /// Removes a finalizer, and the object with the last one.
    fn release(&mut self, key: &Key, finalizer: &str) {
        let mut object = self.objects[key].clone();
        let finalizers = object["metadata"]["finalizers"].as_array_mut().unwrap();
        finalizers.retain(|one| one != finalizer);
        if finalizers.is_empty() {
            self.remove(key);
            self.collect(&object["metadata"]["uid"]);
        } else {
            self.put(key.clone(), object);
        }
    }

    fn is_held_by_dependents(&self, owner: &Value) -> bool {
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
            let finalizers = metadata["finalizers"].as_array();
            finalizers.is_some_and(|all| all.contains(&json!(FOREGROUND)))
                && !self.is_held_by_dependents(&metadata["uid"])
        });
        let Some(key) = ended.map(|(key, _)| key.clone()) else { return };
        self.release(&key, FOREGROUND);
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
                    end(&mut object);
                    self.put(key, object);
                }
                continue;
            }
            let uid = uid_of(&object);
            self.remove(&key);
            self.collect(&uid);
        }
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
