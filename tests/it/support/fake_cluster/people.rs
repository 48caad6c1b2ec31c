//! People with tokens, and the namespaces each may read. Without any people, everything is allowed.

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, Response};
use serde_json::{Value, json};

use super::{FakeCluster, Fault, Recorded, failure, json_response, take_fault};

/// A person with a token.
#[derive(Clone, Debug)]
pub(super) struct Person {
    name: String,
    /// Namespaces whose objects they may read; `*` is all of them.
    namespaces: Vec<String>,
}

impl Person {
    /// Whether they may read the namespace; an empty name means all namespaces.
    fn may(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|it| it == "*" || !namespace.is_empty() && it == namespace)
    }
}

/// Returns the bearer token of a request.
pub(super) fn token(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    text.strip_prefix("Bearer ").map(str::to_owned)
}

impl FakeCluster {
    /// Adds a person with a token, who may read everything in these namespaces.
    pub(crate) fn know(&self, token: &str, name: &str, namespaces: &[&str]) {
        let namespaces = namespaces.iter().map(|&it| it.to_owned()).collect();
        self.state().people.insert(token.to_owned(), Person { name: name.to_owned(), namespaces });
    }

    /// Revokes a token.
    pub(crate) fn forget(&self, token: &str) {
        self.state().people.remove(token);
    }

    /// Answers a token or access review.
    pub(super) fn review(&self, path: &str, body: &[u8]) -> Option<Response<Body>> {
        let is_token = path.ends_with("/tokenreviews");
        if !is_token && !path.ends_with("/subjectaccessreviews") {
            return None;
        }
        let mut review: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut state = self.state();
        if let Some(Fault::Status(code)) = take_fault(&mut state.faults, &Method::POST, path) {
            return Some(failure(code, "injected", "InjectedFault"));
        }
        let spec = &review["spec"];
        let status = if is_token {
            match state.people.get(spec["token"].as_str().unwrap_or_default()) {
                Some(Person { name, .. }) => {
                    json!({"authenticated": true, "user": {"username": name, "groups": ["people"]}})
                }
                None => json!({"authenticated": false, "error": "no such token"}),
            }
        } else {
            let attributes = &spec["resourceAttributes"];
            let namespace = attributes["namespace"].as_str().unwrap_or_default();
            let is_known = spec["groups"] == json!(["people"]) && attributes["verb"] == "list";
            let person = state.people.values().find(|it| spec["user"] == json!(it.name));
            json!({"allowed": is_known && person.is_some_and(|it| it.may(namespace))})
        };
        let recorded = Recorded {
            method: Method::POST,
            uri: path.to_owned(),
            body: review["spec"].clone(),
            token: None,
        };
        state.reviews.push(recorded);
        review["status"] = status;
        Some(json_response(201, &review))
    }

    /// Returns the reviews requested so far.
    pub(crate) fn reviews(&self) -> Vec<Recorded> {
        self.state().reviews.clone()
    }

    /// Returns the 401 or 403 answer to a person who may not make this request.
    pub(super) fn refusal(&self, token: Option<&str>, path: &str) -> Option<Response<Body>> {
        let state = self.state();
        let token = token.filter(|_| !state.people.is_empty())?;
        let Some(person) = state.people.get(token) else {
            return Some(failure(401, "Unauthorized", "Unauthorized"));
        };
        let rest = path.split_once("/namespaces/").map(|(_, rest)| rest);
        let namespace = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let is_allowed = person.may(namespace);
        let text = format!("User \"{}\" cannot read in namespace \"{namespace}\"", person.name);
        (!is_allowed).then(|| failure(403, &text, "Forbidden"))
    }
}
