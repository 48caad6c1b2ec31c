//! The children: how they are created from the template, and what their status says.

use api::blue_green::{COLOUR_LABEL, Colour};
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::status::{JobStatusState, LifecycleState};
use config::nested::set_option;
use config::{FlinkConfig, options};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use lifecycle::error_document::message_of;
use serde_json::Value;

use crate::change::{is_redeploy, is_suspended};
use crate::world::World;

/// Returns the child of this colour that starts with `spec` from the state at `path`; `None` to start from what the
/// spec says.
pub fn child(
    world: &World<'_>,
    colour: Colour,
    spec: &FlinkDeploymentSpec,
    path: Option<&str>,
) -> FlinkDeployment {
    let resource = world.resource;
    let metadata = &resource.metadata;
    let template = resource.spec.template.as_ref().and_then(|template| template.metadata.as_ref());
    let inherited = metadata.labels.clone().filter(|_| world.inherits_labels);
    let mut labels = inherited.unwrap_or_default();
    labels.extend(template.and_then(|it| it.labels.clone()).unwrap_or_default());
    labels.insert(COLOUR_LABEL.to_owned(), colour.label().to_owned());
    let name = metadata.name.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "flink.apache.org/v1beta1".to_owned(),
        kind: "FlinkBlueGreenDeployment".to_owned(),
        name: name.clone(),
        uid: metadata.uid.clone().unwrap_or_default(),
        controller: Some(false),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        name: Some(colour.child_of(&name)),
        namespace: metadata.namespace.clone(),
        labels: Some(labels),
        annotations: template.and_then(|it| it.annotations.clone()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let mut spec = colour.spec_of_child(spec);
    if let (Some(job), Some(path)) = (&mut spec.job, path) {
        job.initial_savepoint_path = Some(path.to_owned());
    }
    FlinkDeployment { metadata, spec, status: None }
}

/// Returns the child with another spec, changed in place. It keeps the state that it was started from, which only a
/// redeploy replaces.
pub fn changed(
    child: &FlinkDeployment,
    world: &World<'_>,
    colour: Colour,
    spec: &FlinkDeploymentSpec,
) -> FlinkDeployment {
    let made = self::child(world, colour, spec, None);
    let mut changed = child.clone();
    changed.spec = made.spec;
    let former = child.spec.job.as_ref().and_then(|job| job.initial_savepoint_path.clone());
    if let (Some(job), false) = (&mut changed.spec.job, is_redeploy(&child.spec, spec)) {
        job.initial_savepoint_path = former;
    }
    for (of_child, wanted) in [
        (&mut changed.metadata.labels, made.metadata.labels),
        (&mut changed.metadata.annotations, made.metadata.annotations),
    ] {
        if let Some(wanted) = wanted {
            of_child.get_or_insert_default().extend(wanted);
        }
    }
    changed
}

/// Returns the child with a spec that lets it be deleted without a savepoint; `None` if it has one.
pub(crate) fn without_savepoint(child: &FlinkDeployment) -> Option<FlinkDeployment> {
    let mut changed = child.clone();
    let own = &mut changed.spec.flink_configuration.0;
    set_option(own, options::JOB_SAVEPOINT_ON_DELETION.key(), "false");
    (!is_without_savepoint(&child.spec)).then_some(changed)
}

/// Returns true if the spec itself says that a deletion takes no savepoint.
pub(crate) fn is_without_savepoint(spec: &FlinkDeploymentSpec) -> bool {
    let own = FlinkConfig::flatten(&spec.flink_configuration);
    let option = options::JOB_SAVEPOINT_ON_DELETION;
    own.contains(option.key()) && own.get(&option) == Ok(false)
}

/// Turns the spec of a child of this colour back into that of the template, without the state that it was started from.
pub fn to_template(spec: &mut Value, colour: Colour) {
    if let Some(Value::String(template)) = spec.pointer_mut("/ingress/template") {
        uncolour(template, colour);
    }
    if let Some(job) = spec.get_mut("job").and_then(Value::as_object_mut) {
        job.remove("initialSavepointPath");
    }
}

/// Removes the colour from the host of a child's Ingress.
fn uncolour(template: &mut String, colour: Colour) {
    if let Some(plain) = template.strip_prefix(&colour.host_prefix()) {
        *template = plain.to_owned();
    }
}

/// Returns the template that a child of this colour was created from. Its initial state is taken from `wanted`, so that
/// it is not a change.
pub fn template_of(
    child: &FlinkDeployment,
    colour: Colour,
    wanted: &FlinkDeploymentSpec,
) -> FlinkDeploymentSpec {
    let mut spec = child.spec.clone();
    let template = spec.ingress.as_mut().and_then(|ingress| ingress.template.as_mut());
    if let Some(template) = template {
        uncolour(template, colour);
    }
    if let Some(job) = &mut spec.job {
        let path = wanted.job.as_ref().and_then(|job| job.initial_savepoint_path.as_ref());
        job.initial_savepoint_path = path.cloned();
    }
    spec
}

/// A child according to its object and its status.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a>(pub &'a FlinkDeployment);

impl<'a> Child<'a> {
    pub fn name(self) -> &'a str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn uid(self) -> &'a str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns true if it belongs to the resource with this uid.
    pub fn is_of(self, uid: &str) -> bool {
        let owners = self.0.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == uid)
    }

    pub fn is_deleting(self) -> bool {
        self.0.metadata.deletion_timestamp.is_some()
    }

    pub fn deleting_since(self) -> Option<Timestamp> {
        self.0.metadata.deletion_timestamp.as_ref().map(|at| at.0)
    }

    /// Returns true if its status is about its current spec.
    fn is_current(self) -> bool {
        let observed = self.0.status.as_ref().and_then(|status| status.observed_generation);
        observed == self.0.metadata.generation
    }

    pub fn job_state(self) -> Option<JobStatusState> {
        self.0.status.as_ref().and_then(|status| status.job_status.state)
    }

    pub fn lifecycle(self) -> Option<LifecycleState> {
        self.0
            .status
            .as_ref()
            .and_then(|status| status.lifecycle_state)
            .filter(|_| self.is_current())
    }

    pub fn job_id(self) -> Option<&'a str> {
        self.0.status.as_ref().and_then(|status| status.job_status.job_id.as_deref())
    }

    /// Returns when its spec was reconciled.
    pub fn reconciled_at(self) -> Timestamp {
        let status = self.0.status.as_ref();
        let at = status.map(|status| status.reconciliation_status.reconciliation_timestamp);
        at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the message of the error in its status.
    pub fn error(self) -> Option<String> {
        self.0.status.as_ref().and_then(|status| status.error.as_deref()).map(message_of)
    }

    /// Returns true if its job runs, by whatever spec.
    pub fn runs(self) -> bool {
        !self.is_deleting() && self.job_state() == Some(JobStatusState::Running)
    }

    /// Returns true if its job runs by its current spec and is stable, or has ended by itself. A job that was stopped
    /// with a savepoint is `FINISHED`, too, in a child that is `UPGRADING` or `SUSPENDED`.
    pub fn is_ready(self) -> bool {
        let is_ready = match self.lifecycle() {
            Some(LifecycleState::Stable) => {
                matches!(self.job_state(), Some(JobStatusState::Running | JobStatusState::Finished))
            }
            Some(LifecycleState::Deployed) => self.job_state() == Some(JobStatusState::Finished),
            _ => false,
        };
        is_ready && !self.is_deleting()
    }

    /// Returns true if its job has failed permanently, by its current spec.
    pub fn has_failed(self) -> bool {
        self.lifecycle().is_some() && self.job_state() == Some(JobStatusState::Failed)
    }

    /// Returns true if its job will not run again by itself, or its status says why it does not.
    pub fn is_down(self) -> bool {
        let state = self.job_state();
        !self.runs()
            && (state.is_some_and(JobStatusState::is_globally_terminal) || self.error().is_some())
    }

    /// Returns true if it should be stopped.
    pub fn is_to_stop(self) -> bool {
        is_suspended(&self.0.spec)
    }

    /// Returns true if it is stopped, as its spec requests.
    pub fn is_stopped(self) -> bool {
        self.lifecycle() == Some(LifecycleState::Suspended)
    }

    /// Returns true if it does what its spec requests.
    pub fn is_done(self) -> bool {
        self.is_ready() || self.is_to_stop() && self.is_stopped()
    }

    /// Returns true if it was rolled back to its previous spec.
    pub fn is_rolled_back(self) -> bool {
        self.lifecycle() == Some(LifecycleState::RolledBack)
    }
}
