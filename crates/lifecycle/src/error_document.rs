//! `status.error`: a JSON document in the Java operator's format.
//!
//! Some facts stay in the document for as long as they hold, whatever else goes wrong: that a spec was rolled back,
//! that a stop failed, that a record went back, that a job is lost. Such a fact is the error itself or one of its
//! causes, and has an [`ErrorNote`] that identifies it. Its text is for people and is not parsed, except in documents
//! of older versions, which had nothing else.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::attempts::Attempts;

pub mod form;
mod older;
pub mod refusals;

pub(super) use older::wording;

/// Version in `additionalMetadata` of a document whose facts have notes.
const FORMAT: u32 = 2;

/// `status.error` of a session job that its cluster does not know, as the Java operator writes and compares it.
pub const JOB_NOT_FOUND: &str = "Job Not Found";

/// Message for a stateless session job that ended unobserved. Nothing else records that it ended, and running it again
/// would repeat what it may have finished.
const ENDED_UNSEEN: &str = "the session cluster no longer has the job, which ended while nobody looked, so that its end is \
     not known. It is not run again by itself: set `spec.restartNonce` to a new number to run it \
     again";

/// Kind of an error, as the class name that users' alerts already match.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorType {
    /// The spec cannot work, or reconciling failed.
    Reconciliation,
    /// The JobManager's pods cannot start.
    DeploymentFailed,
    /// An upgrade or restore was refused.
    UpgradeFailure,
}

impl ErrorType {
    fn class(self) -> &'static str {
        match self {
            Self::Reconciliation => {
                "org.apache.flink.kubernetes.operator.exception.ReconciliationException"
            }
            Self::DeploymentFailed => {
                "org.apache.flink.kubernetes.operator.exception.DeploymentFailedException"
            }
            Self::UpgradeFailure => {
                "org.apache.flink.kubernetes.operator.exception.UpgradeFailureException"
            }
        }
    }
}

/// A fact that stays in the document for as long as it holds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorNote {
    /// The spec did not become stable, and was rolled back.
    RolledBack,
    /// The spec did not become stable, and is not rolled back for this reason.
    RollbackRefused { cause: String },
    /// The job could not be stopped with a savepoint.
    NotStopped,
    /// The record of the job went back with the API server's store.
    WentBack(WentBack),
    /// The session cluster does not know the job.
    Lost(LostJob),
}

/// A session job that its cluster does not know, and that is not started again.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LostJob {
    /// Its newest state is not on record.
    OfState,
    /// It keeps no state, and ended unobserved.
    EndedUnseen,
}

impl LostJob {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::OfState => JOB_NOT_FOUND,
            Self::EndedUnseen => ENDED_UNSEEN,
        }
    }

    /// Returns the document in which the loss is the only error.
    pub(super) fn document(self) -> String {
        match self {
            Self::OfState => JOB_NOT_FOUND.to_owned(),
            Self::EndedUnseen => Document::of(ErrorType::Reconciliation, self.into()).to_text(),
        }
    }
}

impl From<LostJob> for Part {
    fn from(lost: LostJob) -> Self {
        Self { message: lost.message().to_owned(), note: Some(ErrorNote::Lost(lost)) }
    }
}

/// An error, or one of its causes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) message: String,
    pub(super) note: Option<ErrorNote>,
}

impl From<WentBack> for Part {
    fn from(went_back: WentBack) -> Self {
        Self { message: went_back.message.clone(), note: Some(ErrorNote::WentBack(went_back)) }
    }
}

impl From<&String> for Part {
    fn from(message: &String) -> Self {
        Self { message: message.clone(), note: None }
    }
}

impl Part {
    fn read(part: &Value, is_old: bool) -> Option<Self> {
        let message = part.get("message")?.as_str()?.to_owned();
        let note = if is_old {
            older::note_of(&message)
        } else {
            let note = part.pointer("/additionalMetadata/note");
            note.and_then(|note| serde_json::from_value(note.clone()).ok())
        };
        Some(Self { message, note })
    }

    fn metadata(&self) -> Map<String, Value> {
        self.note.iter().map(|note| ("note".to_owned(), json!(note))).collect()
    }
}

/// A document to store.
pub(super) struct Document {
    pub(super) kind: ErrorType,
    pub(super) error: Part,
    /// Machine-readable.
    pub(super) reason: Option<String>,
    /// The status with which Flink answered.
    pub(super) http_response_code: Option<u16>,
    pub(super) causes: Vec<Part>,
    /// As reported by Flink.
    pub(super) stack_trace: Option<String>,
    /// Failed attempts to stop with a savepoint.
    pub(super) stop_attempts: Option<Attempts>,
}

impl Document {
    pub(super) fn of(kind: ErrorType, error: Part) -> Self {
        Self {
            kind,
            error,
            reason: None,
            http_response_code: None,
            causes: vec![],
            stack_trace: None,
            stop_attempts: None,
        }
    }

    pub(super) fn to_text(&self) -> String {
        let Self { kind, error, reason, http_response_code, causes, stack_trace, stop_attempts } =
            self;
        let mut metadata = error.metadata();
        metadata.insert("format".to_owned(), json!(FORMAT));
        metadata.extend(reason.iter().map(|reason| ("reason".to_owned(), json!(reason))));
        let code = http_response_code.iter();
        metadata.extend(code.map(|code| ("httpResponseCode".to_owned(), json!(code))));
        metadata.extend(stop_attempts.iter().map(|it| ("stopAttempts".to_owned(), json!(it))));
        let cause = |cause: &Part| match cause.metadata() {
            metadata if metadata.is_empty() => json!({"message": cause.message}),
            metadata => json!({"message": cause.message, "additionalMetadata": metadata}),
        };
        let causes: Vec<Value> = causes.iter().map(cause).collect();
        let mut document = Map::new();
        document.insert("type".to_owned(), json!(kind.class()));
        document.insert("message".to_owned(), json!(error.message));
        document.extend(stack_trace.iter().map(|it| ("stackTrace".to_owned(), json!(it))));
        document.insert("additionalMetadata".to_owned(), Value::Object(metadata));
        document.insert("throwableList".to_owned(), Value::Array(causes));
        Value::Object(document).to_string()
    }
}

/// Returns the document for `message`, with an optional machine-readable `reason` and its causes.
pub fn error_document(
    kind: ErrorType,
    message: &str,
    reason: Option<&str>,
    causes: &[String],
) -> String {
    let error = Part { message: message.to_owned(), note: None };
    let causes = causes.iter().map(Part::from).collect();
    let reason = reason.map(str::to_owned);
    Document { reason, causes, ..Document::of(kind, error) }.to_text()
}

/// A document as stored.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredError {
    /// The error, followed by its causes.
    parts: Vec<Part>,
    pub(super) stop_attempts: Option<Attempts>,
}

impl StoredError {
    pub(super) fn read(error: Option<&str>) -> Self {
        let Some(error) = error else { return Self::default() };
        if error == JOB_NOT_FOUND {
            return Self { parts: vec![LostJob::OfState.into()], stop_attempts: None };
        }
        let Ok(document) = serde_json::from_str::<Value>(error) else { return Self::default() };
        let is_old = document.pointer("/additionalMetadata/format").is_none();
        let causes = document.get("throwableList").and_then(Value::as_array);
        let parts = std::iter::once(&document).chain(causes.into_iter().flatten());
        let stop_attempts = document
            .pointer("/additionalMetadata/stopAttempts")
            .and_then(|attempts| serde_json::from_value(attempts.clone()).ok());
        Self { parts: parts.filter_map(|part| Part::read(part, is_old)).collect(), stop_attempts }
    }

    /// Returns the note of the error itself.
    pub(super) fn note(&self) -> Option<&ErrorNote> {
        self.parts.first()?.note.as_ref()
    }

    /// Returns the error or cause with this note.
    pub(super) fn part(&self, note: &ErrorNote) -> Option<Part> {
        self.parts.iter().find(|part| part.note.as_ref() == Some(note)).cloned()
    }

    /// Returns what is known about a record that went back.
    pub(super) fn went_back(&self) -> Option<WentBack> {
        self.parts.iter().find_map(|part| match &part.note {
            Some(ErrorNote::WentBack(went_back)) => Some(went_back.clone()),
            Some(_) | None => None,
        })
    }

    /// Returns how the session job was lost, if it was.
    pub(super) fn lost(&self) -> Option<LostJob> {
        [LostJob::OfState, LostJob::EndedUnseen]
            .into_iter()
            .find(|lost| self.part(&ErrorNote::Lost(*lost)).is_some())
    }
}

/// Returns the message of a stored error, or the text itself if it is not a document.
pub fn message_of(error: &str) -> String {
    serde_json::from_str::<Value>(error)
        .ok()
        .and_then(|document| document.get("message")?.as_str().map(str::to_owned))
        .unwrap_or_else(|| error.to_owned())
}

/// Returns the machine-readable reason of a stored error.
pub fn reason_of(error: &str) -> Option<String> {
    let document: Value = serde_json::from_str(error).ok()?;
    Some(document.pointer("/additionalMetadata/reason")?.as_str()?.to_owned())
}

/// What is known about a job whose record went back.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WentBack {
    /// What happened, and what to do.
    pub message: String,
    /// The job that last ran, as far as known.
    pub job_id: Option<String>,
    /// `spec.job.savepointRedeployNonce` at that time. A different one is the user's decision.
    pub nonce: Option<i64>,
}

#[cfg(test)]
mod tests;
