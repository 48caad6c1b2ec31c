//! Obstacles of a pass: a question, something that cannot be read, or something that is wrong.

use super::error_document::{Document, ErrorNote, ErrorType, Part};
use super::event::Component;
use super::world::Question;
use config::option::InvalidValue;

/// Reason of an error that ends with the next valid spec.
pub(super) const VALIDATION_ERROR: &str = "ValidationError";

/// Reason of an error that a plan stopped at; it ends with a plan that is carried out.
pub(super) const NOT_CARRIED_OUT: &str = "NotCarriedOut";

/// Something that is wrong and is told to the user: status, event and log say the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) kind: ErrorType,
    /// Reason of the event.
    pub(super) reason: &'static str,
    pub(super) component: Component,
    pub(super) message: String,
    /// Machine-readable detail, such as Kubernetes' reason.
    pub(super) detail: Option<String>,
    pub(super) causes: Vec<String>,
    pub(super) stack_trace: Option<String>,
    /// By which the next passes know it again.
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
            causes: vec![],
            stack_trace: None,
            note: None,
        }
    }

    pub(super) fn upgrade(reason: &'static str, message: impl Into<String>) -> Self {
        let kind = ErrorType::UpgradeFailure;
        Self::new(kind, reason, Component::JobManagerDeployment, message)
    }

    /// A step was refused; whoever was to take it has told the event.
    pub(super) fn not_carried_out(message: &str) -> Self {
        let detail = Some(NOT_CARRIED_OUT.to_owned());
        Self { detail, ..Self::of_resource(message) }
    }

    /// Something is wrong with the resource, or with what is said of it.
    pub(super) fn of_resource(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Reconciliation, "Error", Component::Operator, message)
    }

    /// Something is wrong with the job itself.
    pub(super) fn of_job(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Reconciliation, "Error", Component::Job, message)
    }

    /// The problem as it is stored, with what is wrong beside it.
    pub(super) fn document(&self, beside: impl Iterator<Item = Part>) -> Document {
        let Self { kind, message, detail, causes, stack_trace, note, .. } = self.clone();
        Document {
            stack_trace,
            reason: detail,
            causes: beside.chain(causes.iter().map(Part::from)).collect(),
            ..Document::of(kind, Part { message, note })
        }
    }
}

/// A configuration that cannot be put together.
pub(super) fn invalid_configuration(message: &str) -> Problem {
    Problem { reason: VALIDATION_ERROR, ..Problem::of_resource(message) }
}

/// Why a pass ends early.
#[derive(Debug)]
pub(super) enum Halt {
    Ask(Question),
    /// Something cannot be read now; nothing is changed.
    Cannot(String),
    /// Something is wrong; nothing but the status is changed.
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

/// A Deployment of the name exists and is not this resource's.
pub(super) fn foreign_deployment(name: &str) -> Problem {
    let message = format!(
        "a Deployment `{name}` already exists and does not belong to this FlinkDeployment. \
         Rename one of the two, or save the job's state and delete the Deployment"
    );
    Problem { component: Component::JobManagerDeployment, ..Problem::of_resource(message) }
}
