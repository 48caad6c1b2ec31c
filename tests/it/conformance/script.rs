//! A script of requests to an API server, and its answers as text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use axum::http::Request;
use futures::StreamExt;
use http_body_util::BodyExt;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::support::patience::PATIENCE;

/// Pause before something that a controller does is looked for again.
const AGAIN: Duration = Duration::from_millis(50);

/// Some requests, in a namespace of their own.
#[derive(Debug, Deserialize)]
pub(super) struct Script {
    pub(super) name: String,
    /// Each has one entry: the request, such as `GET configmaps/a`, with its body.
    steps: Vec<Map<String, Value>>,
}

pub(super) fn parse(text: &str) -> Vec<Script> {
    serde_yaml::from_str(text).unwrap()
}

/// What is known of the objects that a script has seen, by name.
#[derive(Default)]
struct Seen {
    uids: BTreeMap<String, String>,
    /// Their resource versions, oldest first.
    versions: BTreeMap<String, Vec<String>>,
}

/// Runs a script, and returns a line for each answer.
pub(super) async fn run(client: &Client, namespace: &str, script: &Script) -> String {
    let mut text = format!("# {}\n", script.name);
    let mut seen = Seen::default();
    for (line, body) in script.steps.iter().flatten() {
        let asked = Asked::parse(line, seen.fill_in(body), &mut seen);
        let answer = asked.answer(client, namespace, &mut seen).await;
        let answer = answer.replace(namespace, "NAMESPACE");
        writeln!(text, "{line}\n    {answer}").unwrap();
    }
    text
}

/// One request of a script.
struct Asked {
    verb: String,
    plural: String,
    path: String,
    query: String,
    body: Value,
}

impl Asked {
    /// Parses `VERB plural[/name[/subresource]][?query]`.
    fn parse(line: &str, body: Value, seen: &mut Seen) -> Self {
        let (verb, target) = line.split_once(' ').expect("a verb and a path");
        let target = seen.fill_in(&json!(target)).as_str().unwrap().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let plural = path.split('/').next().unwrap();
        Self {
            verb: verb.to_owned(),
            plural: plural.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            body,
        }
    }

    /// Asks until the object is as the script says, or once.
    async fn answer(&self, client: &Client, namespace: &str, seen: &mut Seen) -> String {
        if self.verb == "WATCH" {
            return self.watch(client, namespace, seen).await;
        }
        let begun = Instant::now();
        loop {
            let (code, answer) = self.ask(client, namespace).await;
            let is_there = self.verb != "UNTIL"
                || match self.body.as_str() {
                    Some("gone") => code == 404,
                    _ => contains(&answer, &self.body),
                };
            if is_there {
                return format!("{code} {}", seen.show(answer));
            }
            assert!(begun.elapsed() < PATIENCE, "{} is not {}: {answer}", self.path, self.body);
            sleep(AGAIN).await;
        }
    }

    async fn ask(&self, client: &Client, namespace: &str) -> (u16, Value) {
        let response = client.send(self.request(namespace)).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::String(text)))
    }

    fn request(&self, namespace: &str) -> Request<kube::client::Body> {
        let (group, kind) = match self.plural.as_str() {
            "configmaps" => ("api/v1", "ConfigMap"),
            "leases" => ("apis/coordination.k8s.io/v1", "Lease"),
            "flinkdeployments" => ("apis/flink.apache.org/v1beta1", "FlinkDeployment"),
            "flinksessionjobs" => ("apis/flink.apache.org/v1beta1", "FlinkSessionJob"),
            "oddities" => ("apis/flink.apache.org/v1beta1", "Oddity"),
            other => panic!("{other}: a kind of the scripts"),
        };
        let (method, content_type) = match self.verb.as_str() {
            "GET" | "UNTIL" | "WATCH" | "METADATA" => ("GET", ""),
            "POST" => ("POST", "application/json"),
            "PUT" => ("PUT", "application/json"),
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "DELETE" => ("DELETE", "application/json"),
            other => panic!("{other}: a verb of the scripts"),
        };
        let mut body = self.body.clone();
        if matches!(self.verb.as_str(), "POST" | "PUT" | "APPLY") {
            let api_version = group.split_once('/').unwrap().1;
            body["apiVersion"] = json!(api_version);
            body["kind"] = json!(kind);
        }
        let uri = format!("/{group}/namespaces/{namespace}/{}?{}", self.path, self.query);
        let mut request = Request::builder().method(method).uri(uri.trim_end_matches('?'));
        if self.verb == "METADATA" {
            let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
            let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
            request = request.header("accept", if self.path.contains('/') { accept } else { list });
        }
        let body = match method {
            "GET" => vec![],
            "DELETE" if body.is_null() => vec![],
            _ => body.to_string().into_bytes(),
        };
        request.header("content-type", content_type).body(body.into()).unwrap()
    }

    /// Returns as many events as the script waits for.
    async fn watch(&self, client: &Client, namespace: &str, seen: &mut Seen) -> String {
        let count = self.body.as_u64().expect("the number of events");
        let response = client.send(self.request(namespace)).await.unwrap();
        let mut text = response.status().as_u16().to_string();
        let mut chunks = response.into_body().into_data_stream();
        let mut unread = String::new();
        for _ in 0..count {
            while !unread.contains('\n') {
                let chunk = tokio::time::timeout(PATIENCE, chunks.next()).await.expect("an event");
                unread += &String::from_utf8_lossy(&chunk.expect("the watch goes on").unwrap());
            }
            let (line, rest) = unread.split_once('\n').unwrap();
            let event: Value = serde_json::from_str(line).unwrap();
            let kind = event["type"].as_str().unwrap().to_owned();
            write!(text, "\n    {kind} {}", seen.show(event["object"].clone())).unwrap();
            unread = rest.to_owned();
        }
        text
    }
}

impl Seen {
    /// Replaces `$uid.NAME`, `$first.NAME` and `$newest.NAME` by the uid and the resource versions of an object.
    fn fill_in(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let mut text = text.clone();
                for (name, uid) in &self.uids {
                    text = text.replace(&format!("$uid.{name}"), uid);
                }
                for (name, versions) in &self.versions {
                    text = text.replace(&format!("$first.{name}"), &versions[0]);
                    text = text.replace(&format!("$newest.{name}"), versions.last().unwrap());
                }
                Value::String(text)
            }
            Value::Array(all) => all.iter().map(|it| self.fill_in(it)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, it)| (key.clone(), self.fill_in(it))).collect()
            }
            other => other.clone(),
        }
    }

    /// Returns an answer without what differs between two runs.
    fn show(&mut self, mut answer: Value) -> String {
        let Some(fields) = answer.as_object_mut() else { return answer.to_string() };
        if fields["kind"] == "Status" {
            for field in ["apiVersion", "metadata"] {
                fields.remove(field);
            }
            // The API server checks some fields twice.
            if let Some(causes) = fields.get_mut("details").and_then(|it| it.get_mut("causes")) {
                causes.as_array_mut().unwrap().dedup();
            }
            if let Some(message) = fields.get_mut("message") {
                // A resource version.
                let number = regex::Regex::new(r"\((\d+)\)").unwrap();
                let text = message.as_str().unwrap();
                *message = json!(number.replace_all(text, "(VERSION)"));
            }
        } else if let Some(items) = fields.get_mut("items").and_then(Value::as_array_mut) {
            for item in items {
                *item = self.shown(item.take());
            }
            answer["metadata"] = json!(answer["metadata"]["resourceVersion"].is_string());
        } else if answer["metadata"]["name"].is_string() {
            answer = self.shown(answer);
        }
        answer.sort_all_objects();
        let mut text = answer.to_string();
        for (name, uid) in &self.uids {
            text = text.replace(uid, &format!("UID OF {name}"));
        }
        text
    }

    fn shown(&mut self, mut object: Value) -> Value {
        let metadata = object["metadata"].as_object_mut().unwrap();
        let name = metadata["name"].as_str().unwrap().to_owned();
        let uid = metadata.remove("uid").unwrap_or_default();
        self.uids.insert(name.clone(), uid.as_str().unwrap_or_default().to_owned());
        let version = metadata.remove("resourceVersion").unwrap_or_default();
        if let Some(version) = version.as_str() {
            let versions = self.versions.entry(name).or_default();
            let at = versions.iter().position(|one| one == version).unwrap_or_else(|| {
                versions.push(version.to_owned());
                versions.len() - 1
            });
            metadata.insert("version".to_owned(), json!(at + 1));
        }
        for field in ["creationTimestamp", "deletionTimestamp"] {
            if let Some(at) = metadata.get_mut(field) {
                *at = json!(at.as_str().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok()));
            }
        }
        metadata.remove("managedFields");
        metadata.remove("namespace");
        object
    }
}

/// Returns whether a value has all that is in another one.
fn contains(value: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) => fields.iter().all(|(key, part)| contains(&value[key], part)),
        other => value == other,
    }
}
