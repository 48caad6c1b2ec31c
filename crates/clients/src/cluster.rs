//! The Kubernetes API: apply, read, events, revisions, pods and logs as functions over a client.
//!
//! This module contains no policy. Responses of the API server become an [`Error`] that callers can branch on, or a
//! line that a person can act on.

pub mod access;
pub mod apply;
pub mod autoscaler;
pub mod crds;
pub mod deadline;
pub mod events;
pub mod exec;
mod guarded;
pub mod identity;
pub mod lease;
pub mod leftovers;
pub mod logs;
pub mod namespaces;
pub mod pods;
pub mod pulse;
pub mod read;
pub mod revisions;
pub mod users;
pub mod webhooks;
pub mod workload;

use kube::core::Status;

use crate::fence::Closed;

/// A field that another manager owns, or that the API server rejects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldCause {
    /// Path such as `spec.job.parallelism`; empty for the whole object.
    pub field: String,
    /// The API server's own message.
    pub message: String,
}

/// A call to the Kubernetes API that returned nothing to decide on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// RBAC does not allow it.
    #[error("forbidden: {}", lacking(user, verb, resource, namespace.as_deref()))]
    Forbidden {
        user: String,
        verb: String,
        /// With its API group, such as `flinkdeployments.flink.apache.org`.
        resource: String,
        /// `None` at the cluster scope.
        namespace: Option<String>,
    },
    /// The credentials are unknown or have expired.
    #[error("the API server does not accept the credentials: {message}")]
    Unauthorized { message: String },
    /// Credentials could not be obtained, for example from an exec plugin.
    #[error("cannot log in to the cluster: {message}")]
    Credentials { message: String },
    #[error("{resource} `{name}` not found")]
    NotFound { resource: String, name: String },
    /// The API server does not serve this kind: its CRD is missing.
    #[error("the API server does not know this kind of resource: {message}")]
    KindMissing { message: String },
    #[error("{resource} `{name}` already exists")]
    AlreadyExists { resource: String, name: String },
    /// Another client wrote in between.
    #[error("the object was changed in the meantime: {message}")]
    Conflict { message: String },
    /// Server-side apply would take fields from their owners.
    #[error("other field managers own {}", fields(causes))]
    FieldConflict { causes: Vec<FieldCause> },
    /// The schema or a validation rule rejects the object.
    #[error("the API server rejected the object: {message}")]
    Invalid { message: String, causes: Vec<FieldCause> },
    /// An admission webhook, quota or policy rejects the request.
    #[error("rejected by admission: {message}")]
    Rejected { message: String },
    /// The resource version is too old to continue from.
    #[error("the resource version is gone: {message}")]
    Expired { message: String },
    /// The API server is reachable but cannot serve requests now.
    #[error("the API server answered {status}: {message}")]
    Unavailable { status: u16, message: String },
    /// No response at all.
    #[error("the API server did not answer: {message}")]
    Unreachable { message: String },
    /// The response does not have the requested form.
    #[error("the API server's answer cannot be read")]
    Unreadable { source: kube::Error },
    /// This process is no longer the leader.
    #[error(transparent)]
    Deposed(#[from] Closed),
    /// Any other error response.
    #[error("the API server answered {status}: {message}")]
    Refused { status: u16, message: String },
}

/// Result of a call to the Kubernetes API.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns whether the same call, unchanged, may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Unreachable { .. }
                | Self::Conflict { .. }
                | Self::Expired { .. }
                | Self::Deposed(_)
        )
    }

    /// Returns whether a write may have been stored although it returned this error.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Unavailable { status, .. } => !matches!(status, 403 | 429 | 503),
            Self::Unreachable { .. } | Self::Unreadable { .. } | Self::Deposed(_) => true,
            _ => false,
        }
    }

    /// Returns whether the object does not exist. A missing kind is not a missing object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Stable name, used as the metric label and the reason of Kubernetes events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "Forbidden",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Credentials { .. } => "Credentials",
            Self::NotFound { .. } => "NotFound",
            Self::KindMissing { .. } => "KindMissing",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Conflict { .. } => "Conflict",
            Self::FieldConflict { .. } => "FieldConflict",
            Self::Invalid { .. } => "Invalid",
            Self::Rejected { .. } => "Rejected",
            Self::Expired { .. } => "Expired",
            Self::Unavailable { .. } => "ApiServerUnavailable",
            Self::Unreachable { .. } => "ApiServerUnreachable",
            Self::Unreadable { .. } => "Unreadable",
            Self::Deposed(_) => "Deposed",
            Self::Refused { .. } => "Refused",
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => from_status(*status),
            kube::Error::Auth(error) => Self::Credentials { message: with_causes(&error) },
            kube::Error::Service(error) => {
                if let Some(closed) = error.downcast_ref::<Closed>() {
                    return Self::Deposed(*closed);
                }
                // An authentication layer failed inside the service stack.
                match error.downcast::<kube::Error>() {
                    Ok(inner) => Self::from(*inner),
                    Err(error) => Self::Unreachable { message: root_cause(&*error) },
                }
            }
            kube::Error::HyperError(error) => Self::Unreachable { message: root_cause(&error) },
            kube::Error::ReadEvents(error) => Self::Unreachable { message: root_cause(&error) },
            other => Self::Unreadable { source: other },
        }
    }
}

/// Admission's message while the API server does not know its namespaces and accounts yet.
const NOT_READY: &str = "not yet ready to handle request";

/// Classifies a response of the API server by what a caller can do about it.
fn from_status(status: Status) -> Error {
    let Status { code, message, reason, details, .. } = status;
    let (resource, name, causes) = details.map_or_else(Default::default, |details| {
        let causes = details
            .causes
            .iter()
            .map(|cause| FieldCause { field: cause.field.clone(), message: cause.message.clone() });
        (qualified(&details.kind, &details.group), details.name, causes.collect::<Vec<_>>())
    });
    if message.contains("admission webhook") && message.contains("denied the request") {
        return Error::Rejected { message };
    }
    match (code, reason.as_str()) {
        (401, _) => Error::Unauthorized { message },
        // An API server that is starting returns this for a moment.
        (403, _) if message.contains(NOT_READY) => Error::Unavailable { status: code, message },
        (403, _) => forbidden(&message).unwrap_or(Error::Rejected { message }),
        (404, _) if name.is_empty() => Error::KindMissing { message },
        (404, _) => Error::NotFound { resource, name },
        (409, "AlreadyExists") => Error::AlreadyExists { resource, name },
        // Server-side apply names the owners in the causes; a stale write has none.
        (409, _) if causes.iter().any(|cause| cause.message.starts_with("conflict with ")) => {
            Error::FieldConflict { causes }
        }
        (409, _) => Error::Conflict { message },
        (410, _) => Error::Expired { message },
        // The patch names the uid of an earlier incarnation.
        (422, _) if causes.iter().any(|cause| cause.field == "metadata.uid") => {
            Error::Conflict { message }
        }
        (400 | 422, _) => Error::Invalid { message, causes },
        (408 | 429 | 500 | 502 | 503 | 504, _) => Error::Unavailable { status: code, message },
        (status, _) => Error::Refused { status, message },
    }
}

/// Parses `User "u" cannot patch resource "r" in API group "g" in the namespace "n"`.
fn forbidden(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("User ")?;
    let (user, rest) = quoted(rest)?;
    let (_, rest) = rest.split_once("cannot ")?;
    let (verb, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once("resource ")?;
    let (resource, rest) = quoted(rest)?;
    let (group, rest) = match rest.split_once("in API group ") {
        Some((_, rest)) => quoted(rest)?,
        None => ("", rest),
    };
    let namespace = rest
        .split_once("in the namespace ")
        .and_then(|(_, rest)| quoted(rest))
        .map(|(name, _)| name.to_owned());
    Some(Error::Forbidden {
        user: user.to_owned(),
        verb: verb.to_owned(),
        resource: qualified(resource, group),
        namespace,
    })
}

/// Returns the text in the double quotes that open `text`, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('"')?.split_once('"')
}

/// Returns `resource.group`, or only the resource in the core group.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn lacking(user: &str, verb: &str, resource: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("`{user}` cannot {verb} {resource} in namespace `{namespace}`"),
        None => format!("`{user}` cannot {verb} {resource} in the whole cluster"),
    }
}

fn fields(causes: &[FieldCause]) -> String {
    let each = causes.iter().map(|FieldCause { field, message }| {
        let owner = message.trim_start_matches("conflict with ").replace('"', "`");
        let owner = owner.split(" using ").next().unwrap_or_default();
        format!("{} ({owner})", field.trim_start_matches('.'))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the innermost cause, which names what happened: `connection refused`.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Returns the error and its causes on one line.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
