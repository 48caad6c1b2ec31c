//! Decides about a change before it is stored: a review and facts in, an answer out.
//!
//! Pure, and by the rules of `validation`: what is rejected here is what the operator would reject, only sooner and all
//! at once. A change that leaves the spec as it is is never rejected, so that a resource that became invalid can lose
//! its finalizer, get a label, and be deleted.

mod jurisdiction;
mod review;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::mutator::Mutated;
use api::blue_green::{BlueGreenStatus, FlinkBlueGreenDeployment};
use api::deployment::{FlinkConfiguration, FlinkDeployment};
use api::is_paused;
use api::reconciled::{ReconciledJob, ReconciledSpec, session_cluster_over};
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::DeploymentStatus;
use config::known::unknown_options;
use config::{FlinkConfig, OperatorConfig};
pub use jurisdiction::Jurisdiction;
use lifecycle::application::version::allow_running_version;
use lifecycle::paused;
use lifecycle::session_job::SESSION_LABEL;
use lifecycle::verdict::Opinion;
use lifecycle::world::Fact;
pub use review::Review;
use validation::blue_green::{self, BlueGreenInput};
use validation::extension::FailurePolicy;
use validation::extension::subject::{Kind, Subject};
use validation::session_job::{self, SessionCluster, SessionJobInput};
use validation::state_snapshot::{self, StateSnapshotInput};
use validation::{ValidationInput, Violation, validate};

/// Maximum number of violations in one answer.
const VIOLATIONS_MAX: usize = 50;
/// Maximum number of warnings in one answer.
const WARNINGS_MAX: usize = 10;
/// Maximum length of a warning, in characters: the API server cuts longer ones.
const WARNING_CHARS: usize = 256;
/// Maximum length of a violation's message, in characters: it may quote what a user wrote, of any length.
const VIOLATION_CHARS: usize = 1000;
/// Maximum length of the name of a field, in characters.
const PATH_CHARS: usize = 300;

/// A body that is not a review.
#[derive(Debug, thiserror::Error)]
#[error("no AdmissionReview of admission.k8s.io/v1 with a request: {problem}")]
pub struct Malformed {
    problem: String,
}

impl Malformed {
    fn new(problem: impl fmt::Display) -> Self {
        Self { problem: problem.to_string() }
    }
}

/// The answer to the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Everything that is wrong; if empty, the change may be stored.
    pub violations: Vec<Violation>,
    /// Warnings that users see and may ignore.
    pub warnings: Vec<String>,
    /// The changes to the object.
    pub patch: json_patch::Patch,
}

impl Answer {
    /// Returns an answer without remarks.
    pub fn allowed() -> Self {
        Self::default()
    }

    fn refused(path: &str, message: impl Into<String>) -> Self {
        let violation = Violation { path: path.to_owned(), message: message.into() };
        Self { violations: vec![violation], ..Self::default() }
    }

    pub fn is_allowed(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns the review that answers the one with this `uid`.
    pub fn to_review(&self, uid: &str) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.is_allowed()});
        if !self.is_allowed() {
            response["status"] = self.status();
        }
        if !self.patch.is_empty() {
            let text = serde_json::to_vec(&self.patch).unwrap_or_default();
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(k8s_openapi::ByteString(text));
        }
        if !self.warnings.is_empty() {
            let shown = self.warnings.iter().take(WARNINGS_MAX);
            let shown = shown.map(|text| cut(text, WARNING_CHARS));
            response["warnings"] = json!(shown.collect::<Vec<_>>());
        }
        json!({"apiVersion": review::API_VERSION, "kind": review::KIND, "response": response})
    }

    fn status(&self) -> Value {
        let told = self.violations.iter().take(VIOLATIONS_MAX);
        let told = told.map(|Violation { path, message }| Violation {
            path: cut(path, PATH_CHARS),
            message: cut(message, VIOLATION_CHARS),
        });
        let told: Vec<Violation> = told.collect();
        let mut message = "nothing was stored, and nothing was changed:".to_owned();
        for violation in &told {
            message.push_str("\n  ");
            message.push_str(&violation.to_string());
        }
        let more = self.violations.len().saturating_sub(VIOLATIONS_MAX);
        if more > 0 {
            // Writing to a string does not fail.
            let _written = write!(message, "\n  and {more} more");
        }
        let cause = |Violation { path, message }: &Violation| json!({"reason": "FieldValueInvalid", "field": path, "message": message});
        let causes: Vec<Value> = told.iter().map(cause).collect();
        json!({
            "status": "Failure",
            "code": 403,
            "reason": "Forbidden",
            "message": message,
            "details": {"causes": causes},
        })
    }
}

/// Returns at most this many characters, with an ellipsis if some are left out.
fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// A resource as it would be stored, with what the operator noted about it.
#[derive(Clone, Debug)]
pub struct Change {
    namespace: String,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Wanted {
    Deployment(Box<FlinkDeployment>, Box<DeploymentStatus>),
    SessionJob(Box<FlinkSessionJob>, Box<SessionJobStatus>),
    StateSnapshot(Box<FlinkStateSnapshot>),
    BlueGreen(Box<FlinkBlueGreenDeployment>, Box<BlueGreenStatus>),
}

/// The facts that were looked up for a change.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The resource that [`Change::session`] names.
    pub session: Fact<Option<FlinkDeployment>>,
    /// Whether the resource exists that [`Review::job`] names.
    pub has_job: Fact<bool>,
    /// Whether that job, and with it the snapshot, is another installation's.
    pub is_foreign: bool,
    /// The opinions of validators on [`Change::subject`].
    pub opinions: Vec<Opinion>,
}

impl Change {
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn metadata(&self) -> &ObjectMeta {
        match &self.wanted {
            Wanted::Deployment(deployment, _) => &deployment.metadata,
            Wanted::SessionJob(job, _) => &job.metadata,
            Wanted::StateSnapshot(snapshot) => &snapshot.metadata,
            Wanted::BlueGreen(resource, _) => &resource.metadata,
        }
    }

    /// Returns the session cluster to look up.
    pub fn session(&self) -> Option<&str> {
        let Wanted::SessionJob(job, _) = &self.wanted else { return None };
        job.spec.deployment_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Returns the subject that validators are asked about: for a blue/green deployment, a child.
    pub fn subject(&self, session: Option<&FlinkDeployment>) -> Option<Subject> {
        Some(match &self.wanted {
            Wanted::Deployment(deployment, status) => Subject::of_deployment(deployment, status),
            Wanted::SessionJob(job, status) => Subject::of_session_job(job, status, session),
            Wanted::StateSnapshot(snapshot) => Subject::of_snapshot(snapshot),
            Wanted::BlueGreen(resource, _) => return blue_green::subject(resource),
        })
    }
}

/// Returns everything that is wrong with a change, and what is odd about it.
pub fn judge(change: &Change, facts: &Facts, operator: &OperatorConfig) -> Answer {
    let Change { namespace, wanted } = change;
    let Facts { session, has_job, is_foreign, opinions } = facts;
    let mut answer = Answer::allowed();
    if *is_foreign {
        return answer;
    }
    match wanted {
        Wanted::Deployment(deployment, status) => {
            let last = status.reconciliation_status.last_reconciled_spec.as_deref();
            let last = last.and_then(|text| ReconciledSpec::parse(text).ok());
            let (spec, last) = (&deployment.spec, last.as_ref().map(|last| &last.spec));
            answer.violations = validate(&ValidationInput {
                name: deployment.metadata.name.as_deref().unwrap_or_default(),
                namespace,
                spec,
                last_reconciled: last,
                operator,
            });
            allow_running_version(spec, last, &mut answer.violations);
            answer.warn_of_options(&deployment.spec.flink_configuration);
        }
        Wanted::SessionJob(job, status) => {
            let last = status.reconciliation_status.last_reconciled_spec.as_deref();
            let last = last.and_then(|text| ReconciledJob::parse(text).ok());
            answer.warn_if_unknown("the session cluster", session);
            let found = if let Fact::Known(found) = session { found.as_ref() } else { None };
            let name = job.spec.deployment_name.as_deref().unwrap_or_default();
            answer.violations = session_job::validate(&SessionJobInput {
                namespace,
                spec: &job.spec,
                last_reconciled: last.as_ref().map(|last| &last.spec),
                cluster: found.map(|cluster| SessionCluster { name, spec: &cluster.spec }),
                operator,
                // Only the operator looks up host names: anyone may call a webhook.
                host: None,
            });
            answer.warn_of_options(&job.spec.flink_configuration);
        }
        Wanted::StateSnapshot(snapshot) => {
            let may_be_there = answer.warn_if_unknown("the job", has_job);
            let has_target = may_be_there || *has_job == Fact::Known(true);
            answer.violations = state_snapshot::validate(&StateSnapshotInput {
                spec: &snapshot.spec,
                state: snapshot.status.as_ref().map(|status| status.state),
                has_target,
            });
        }
        Wanted::BlueGreen(resource, status) => {
            let name = resource.metadata.name.as_deref().unwrap_or_default();
            let found = blue_green::find(&BlueGreenInput {
                name,
                namespace,
                spec: &resource.spec,
                last: &status.recorded(),
                operator,
            });
            answer.violations = found.into_iter().map(|finding| finding.violation).collect();
            let template = resource.spec.template.as_ref().and_then(|it| it.spec.as_ref());
            if let Some(spec) = template {
                answer.warn_of_options(&spec.flink_configuration);
            }
        }
    }
    answer.take_in(opinions);
    if is_paused(change.metadata()) {
        answer.warnings.push(format!("it does not take effect yet: {}", paused::message()));
    }
    answer
}

impl Answer {
    fn warn_of_options(&mut self, options: &FlinkConfiguration) {
        let unknown = unknown_options(&FlinkConfig::flatten(options));
        self.warnings.extend(unknown.iter().map(ToString::to_string));
    }

    /// Warns of what could not be read; returns whether that is so.
    fn warn_if_unknown<T>(&mut self, what: &str, fact: &Fact<T>) -> bool {
        let Fact::Unknown(reason) = fact else { return false };
        self.warnings.push(format!(
            "{what} could not be looked up, so the operator will check what depends on it: {reason}"
        ));
        true
    }

    fn take_in(&mut self, opinions: &[Opinion]) {
        for Opinion { validator, on_failure, answer } in opinions {
            match (answer, on_failure) {
                (Ok(violations), _) => self.violations.extend(violations.iter().cloned()),
                (Err(why), FailurePolicy::Fail) => self.violations.push(Violation {
                    path: "spec".to_owned(),
                    message: format!("validator `{validator}` gives no answer: {why}"),
                }),
                (Err(why), FailurePolicy::Ignore) => {
                    self.warnings.push(format!("validator `{validator}` is skipped: {why}"));
                }
            }
        }
    }
}

/// Returns the answer with the changes to the object: those of the mutators if they were called, and the label that
/// says in which cluster a session job is.
pub fn mutated(review: &Review, outcome: Option<Result<Mutated, String>>) -> Answer {
    let Some(before) = review.patchable() else { return Answer::allowed() };
    let mut answer = Answer::allowed();
    let mut after = match outcome {
        None => before.clone(),
        Some(Ok(Mutated { object, by: _, without })) => {
            answer.warnings = without;
            object
        }
        Some(Err(why)) => return Answer::refused("spec", why),
    };
    if review.kind() == Some(review::Kind::SessionJob) {
        label_session(&mut after, review.stored());
    }
    answer.patch = json_patch::diff(before, &after);
    answer
}

/// Sets the label that shows users in which session cluster a job is, if that is known.
fn label_session(object: &mut Value, stored: &Value) {
    let session = session_cluster_over(object, stored).filter(|name| is_label_value(name));
    let Some(session) = session.map(Cow::into_owned) else { return };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let labels = metadata.entry("labels").or_insert(Value::Null);
    if labels.is_null() {
        *labels = json!({});
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(SESSION_LABEL.to_owned(), json!(session));
    }
}

/// Returns `true` if the API server accepts the text as a label. Validation reports a name that it rejects.
fn is_label_value(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || "-_.".contains(c))
}

impl review::Kind {
    /// Returns the kind as plugins know it.
    fn of_extensions(self) -> Option<Kind> {
        Kind::parse(self.as_str())
    }
}

#[cfg(test)]
mod tests;
