//! What stops a pass: a question, something that cannot be read, or a problem.

use super::error_document::{Document, ErrorNote, ErrorType, Part};
use super::event::Component;
use super::wait::Awaited;
use super::world::Question;
use config::option::InvalidValue;

/// Reason of an error that ends with the next valid spec.
pub(super) const VALIDATION_ERROR: &str = "ValidationError";

/// Reason of an error at which a plan stopped; it ends with the next plan that is carried out.
pub(super) const NOT_CARRIED_OUT: &str = "NotCarriedOut";

/// Reason of an error about a stop whose savepoint Flink should have ended long ago.
pub(super) const SAVEPOINT_OVERDUE: &str = "SavepointOverdue";

/// A problem that is reported to the user, in the same words in status, event and log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) kind: ErrorType,
    /// Reason of the event.
    pub(super) reason: &'static str,
    pub(super) component: Component,
    pub(super) message: String,
    /// Machine-readable detail, such as Kubernetes' reason.
    pub(super) detail: Option<String>,
    /// The status with which Flink answered.
    pub(super) http_response_code: Option<u16>,
    pub(super) causes: Vec<String>,
    pub(super) stack_trace: Option<String>,
    /// Identifies the problem to later passes.
    pub(super) note: Option<ErrorNote>,
}

impl Problem {
    pub(super) fn new(
        kind: ErrorType,
        reason: &'static str,
        component: Component,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self {
            kind,
            reason,
            component,
            message,
            detail: None,
            http_response_code: None,
            causes: vec![],
            stack_trace: None,
            note: None,
        }
    }

    pub(super) fn upgrade(reason: &'static str, message: impl Into<String>) -> Self {
        let kind = ErrorType::UpgradeFailure;
        Self::new(kind, reason, Component::JobManagerDeployment, message)
    }

    /// Creates the problem of a step that was refused. The event was already recorded when the step was tried.
    pub(super) fn not_carried_out(message: &str) -> Self {
        let detail = Some(NOT_CARRIED_OUT.to_owned());
        Self { detail, ..Self::of_resource(message) }
    }

    /// Creates a problem of the resource, or of what is known about it.
    pub(super) fn of_resource(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Reconciliation, "Error", Component::Operator, message)
    }

    /// Creates a problem of the job itself.
    pub(super) fn of_job(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Reconciliation, "Error", Component::Job, message)
    }

    /// Returns the document of the problem as it is stored, with `alongside` as additional causes.
    pub(super) fn document(&self, alongside: impl Iterator<Item = Part>) -> Document {
        let Self { kind, message, detail, http_response_code, causes, stack_trace, note, .. } =
            self.clone();
        Document {
            stack_trace,
            reason: detail,
            http_response_code,
            causes: alongside.chain(causes.iter().map(Part::from)).collect(),
            ..Document::of(kind, Part { message, note })
        }
    }
}

/// Creates the problem of a configuration that cannot be built.
pub(super) fn invalid_configuration(message: &str) -> Problem {
    Problem { reason: VALIDATION_ERROR, ..Problem::of_resource(message) }
}

/// Why a pass ends early.
#[derive(Debug)]
pub(super) enum Halt {
    Ask(Question),
    /// Something cannot be read at present; nothing is changed.
    Cannot(String),
    /// What was read may be out of date, and is read again; nothing is changed.
    Wait(Awaited, String),
    /// Something is wrong; only the status is changed.
    Problem(Box<Problem>),
}

impl Halt {
    pub(super) fn cannot(because: impl Into<String>) -> Self {
        Self::Cannot(because.into())
    }

    pub(super) fn problem(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Question> for Halt {
    fn from(question: Question) -> Self {
        Self::Ask(question)
    }
}

impl From<InvalidValue> for Halt {
    fn from(error: InvalidValue) -> Self {
        Self::Cannot(error.to_string())
    }
}

/// Creates the problem of a Deployment of this name that does not belong to the resource.
pub(super) fn foreign_deployment(name: &str) -> Problem {
    let message = format!(
        "a Deployment `{name}` already exists and does not belong to this FlinkDeployment. \
         Rename one of the two, or save the job's state and delete the Deployment"
    );
    Problem { component: Component::JobManagerDeployment, ..Problem::of_resource(message) }
}
