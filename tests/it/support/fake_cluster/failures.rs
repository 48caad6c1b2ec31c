//! Failures in the API server's words.

use serde_json::{Value, json};

use super::store::{Answer, Request};

impl Request {
    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Names the kind and its group, such as `deployments.apps`.
    fn qualified(&self, kind: &str) -> String {
        match self.group() {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        }
    }

    pub(super) fn details(&self, kind: &str, name: &str) -> Value {
        let all = [("name", name), ("group", self.group()), ("kind", kind)];
        all.into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect()
    }

    pub(super) fn not_found(&self, name: &str) -> Answer {
        Answer::Failure {
            code: 404,
            reason: "NotFound",
            message: format!("{} \"{name}\" not found", self.qualified(&self.plural)),
            details: self.details(&self.plural, name),
        }
    }

    pub(super) fn already_exists(&self, name: &str) -> Answer {
        Answer::Failure {
            code: 409,
            reason: "AlreadyExists",
            message: format!("{} \"{name}\" already exists", self.qualified(&self.plural)),
            details: self.details(&self.plural, name),
        }
    }

    pub(super) fn conflict(&self, name: &str) -> Answer {
        self.unfulfilled(
            &self.plural,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Refuses to delete an object that is not the expected one. Here the API server names the kind in the singular.
    pub(super) fn unexpected(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        now: [&Value; 2],
    ) -> Answer {
        let [expected, found] = now.map(|value| value.as_str().unwrap_or_default());
        let rest = if what == "UID" { "deleted and then recreated" } else { "modified" };
        let message = format!(
            "the {what} in the precondition ({expected}) does not match the {what} in record ({found}). The object might have been {rest}"
        );
        self.unfulfilled(kind, name, &message)
    }

    fn unfulfilled(&self, kind: &str, name: &str, why: &str) -> Answer {
        let what = self.qualified(kind);
        Answer::Failure {
            code: 409,
            reason: "Conflict",
            message: format!("Operation cannot be fulfilled on {what} \"{name}\": {why}"),
            details: self.details(kind, name),
        }
    }

    /// Refuses a field. Some checks name the kind in the plural.
    pub(super) fn invalid(
        &self,
        kind: &str,
        name: &str,
        field: &str,
        cause: (&str, &str),
    ) -> Answer {
        let (reason, message) = cause;
        let mut details = self.details(kind, name);
        details["causes"] = json!([{"reason": reason, "message": message, "field": field}]);
        let what = self.qualified(kind);
        Answer::Failure {
            code: 422,
            reason: "Invalid",
            message: format!("{what} \"{name}\" is invalid: {field}: {message}"),
            details,
        }
    }
}

pub(super) fn no_such_method() -> Answer {
    Answer::Failure {
        code: 405,
        reason: "MethodNotAllowed",
        message: "the server does not allow this method on the requested resource".to_owned(),
        details: json!({}),
    }
}
