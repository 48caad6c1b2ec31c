//! `FlinkBlueGreenDeployment`: two `FlinkDeployment`s of which one serves.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use strum::IntoStaticStr;

use super::deployment::{FlinkDeploymentSpec, IngressSpec};
use super::null_as_default;
use super::status::{Condition, JobStatus};

/// Template of the children, and how to switch between them.
#[skip_serializing_none]
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    crates(kube_core = "kube_core"),
    group = "flink.apache.org",
    version = "v1beta1",
    kind = "FlinkBlueGreenDeployment",
    plural = "flinkbluegreendeployments",
    singular = "flinkbluegreendeployment",
    shortname = "flinkbgdep",
    namespaced,
    doc = "Two `FlinkDeployment`s, one of which is active, switched without a gap.",
    status = "BlueGreenStatus",
    derive = "PartialEq",
    printcolumn(name = "Job Status", type_ = "string", json_path = ".status.jobStatus.state"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct FlinkBlueGreenDeploymentSpec {
    /// Options `kubernetes.operator.bluegreen.*`.
    pub configuration: Option<BTreeMap<String, String>>,
    /// One Ingress that follows the active child.
    pub ingress: Option<IngressSpec>,
    pub template: Option<FlinkDeploymentTemplate>,
    /// Only `BASIC`, which is the default.
    pub transition_mode: Option<TransitionMode>,
}

/// How the output of the job is switched over (FLIP-504).
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TransitionMode {
    /// Both colours write until the former one ends.
    Basic,
    /// Gates in the job decide which colour writes; no operator has it yet.
    Advanced,
}

/// Template of a child.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FlinkDeploymentTemplate {
    pub metadata: Option<ObjectMeta>,
    pub spec: Option<FlinkDeploymentSpec>,
}

/// Label of a child with its colour, which the Java operator knows it by.
pub const COLOUR_LABEL: &str = "flink/blue-green-deployment-type";
/// Annotation with the uid of a target to promote: it then serves without the deletion delay.
pub const PROMOTE_ANNOTATION: &str = "flink.apache.org/blue-green-promote";
/// Annotation with the uid of a target to abort, or the trigger id of a savepoint to abort.
pub const ABORT_ANNOTATION: &str = "flink.apache.org/blue-green-abort";
/// Annotation with the time of the condition that reports what was given up, to try it again.
pub const RETRY_ANNOTATION: &str = "flink.apache.org/blue-green-retry";

/// Condition that reports which child serves.
pub const SERVING: &str = "Serving";
/// Condition that reports what is in progress, or why it was given up; absent if everything matches the spec.
pub const PROGRESSING: &str = "Progressing";
/// Reason of [`PROGRESSING`]: the target was not ready in time, it failed, or a user aborted it.
pub const ABORTED: &str = "Aborted";
/// Reason of [`PROGRESSING`]: the child was rolled back to its last stable spec.
pub const ROLLED_BACK: &str = "RolledBack";
/// Reason of [`PROGRESSING`]: no savepoint could be taken of the serving child. It is tried again.
pub const SAVEPOINT_FAILED: &str = "SavepointFailed";
/// Reasons of [`PROGRESSING`] for a spec that is not retried automatically.
pub const GIVEN_UP: [&str; 2] = [ABORTED, ROLLED_BACK];

/// One of the two children.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Colour {
    Blue,
    Green,
}

impl Colour {
    pub const ALL: [Self; 2] = [Self::Blue, Self::Green];

    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Blue => Self::Green,
            Self::Green => Self::Blue,
        }
    }

    /// Returns the last part of a child's name, which is also the first part of the host of its own Ingress.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Green => "green",
        }
    }

    /// Returns the value of [`COLOUR_LABEL`].
    pub fn label(self) -> &'static str {
        match self {
            Self::Blue => "BLUE",
            Self::Green => "GREEN",
        }
    }

    /// Returns the colour of a child with these labels.
    pub fn of_label(labels: &BTreeMap<String, String>) -> Option<Self> {
        let label = labels.get(COLOUR_LABEL)?;
        Self::ALL.into_iter().find(|colour| colour.label() == label)
    }

    /// Returns the name of a resource's child of this colour.
    pub fn child_of(self, resource: &str) -> String {
        format!("{resource}-{}", self.name())
    }

    /// Returns the spec of the child of this colour, with its own host for its Ingress.
    #[must_use]
    pub fn spec_of_child(self, template: &FlinkDeploymentSpec) -> FlinkDeploymentSpec {
        let mut spec = template.clone();
        let host = spec.ingress.as_mut().and_then(|ingress| ingress.template.as_mut());
        if let Some(host) = host {
            host.insert_str(0, &self.host_prefix());
        }
        spec
    }

    /// Returns how the host of a child's Ingress starts.
    pub fn host_prefix(self) -> String {
        format!("{}-", self.name())
    }

    /// Returns the state in which the child of this colour serves.
    pub fn active(self) -> BlueGreenState {
        match self {
            Self::Blue => BlueGreenState::ActiveBlue,
            Self::Green => BlueGreenState::ActiveGreen,
        }
    }

    /// Returns the state in which a savepoint of the child of this colour is taken.
    pub fn savepointing(self) -> BlueGreenState {
        match self {
            Self::Blue => BlueGreenState::SavepointingBlue,
            Self::Green => BlueGreenState::SavepointingGreen,
        }
    }

    /// Returns the state of a transition to the child of this colour.
    pub fn transitioning_to(self) -> BlueGreenState {
        match self {
            Self::Blue => BlueGreenState::TransitioningToBlue,
            Self::Green => BlueGreenState::TransitioningToGreen,
        }
    }
}

/// Returns the owner reference to the blue/green deployment that this is a child of.
pub fn parent_of(child: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = child.owner_references.iter().flatten();
    owners.find(|owner| owner.kind == "FlinkBlueGreenDeployment")
}

/// Returns the uids that may own a job's other objects: its own, and that of its blue/green deployment.
pub fn uids_of(job: &ObjectMeta) -> Vec<&str> {
    let parent = parent_of(job).map(|parent| parent.uid.as_str());
    job.uid.as_deref().into_iter().chain(parent).collect()
}

/// Which child serves, and what is under way.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", const_into_str)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BlueGreenState {
    InitializingBlue,
    ActiveBlue,
    ActiveGreen,
    TransitioningToBlue,
    TransitioningToGreen,
    SavepointingBlue,
    SavepointingGreen,
}

impl BlueGreenState {
    /// Returns the colour that serves as long as it runs: in a transition, the one before it.
    pub fn serving(self) -> Colour {
        match self {
            Self::InitializingBlue
            | Self::ActiveBlue
            | Self::SavepointingBlue
            | Self::TransitioningToGreen => Colour::Blue,
            Self::ActiveGreen | Self::SavepointingGreen | Self::TransitioningToBlue => {
                Colour::Green
            }
        }
    }
}

/// Status of a `FlinkBlueGreenDeployment`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlueGreenStatus {
    #[serde(default, deserialize_with = "null_as_default")]
    pub job_status: JobStatus,
    pub blue_green_state: Option<BlueGreenState>,
    /// `{"spec":<FlinkBlueGreenDeploymentSpec>}`.
    pub last_reconciled_spec: Option<String>,
    /// ISO-8601.
    pub last_reconciled_timestamp: Option<String>,
    /// ISO-8601; the epoch means unset.
    pub abort_timestamp: Option<String>,
    /// ISO-8601; the epoch means unset.
    pub deployment_ready_timestamp: Option<String>,
    pub savepoint_trigger_id: Option<String>,
    /// Plain text.
    pub error: Option<String>,
    /// `Serving` and `Progressing`; the Java operator has none.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Parses a time in a status; the epoch stands for none.
fn time(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(|text| text.parse().ok()).filter(|at| *at != Timestamp::UNIX_EPOCH)
}

/// The parts of the last reconciled spec that a later one is compared with, as far as they can be read.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// `spec.template.spec`.
    pub template: Option<FlinkDeploymentSpec>,
    pub ingress: Option<IngressSpec>,
}

impl BlueGreenStatus {
    /// Returns when the current transition is given up.
    pub fn aborts_at(&self) -> Option<Timestamp> {
        time(self.abort_timestamp.as_deref())
    }

    /// Returns since when the target has been ready.
    pub fn ready_since(&self) -> Option<Timestamp> {
        time(self.deployment_ready_timestamp.as_deref())
    }

    /// Returns the recorded spec.
    pub fn recorded(&self) -> Recorded {
        let stored = self.last_reconciled_spec.as_deref().unwrap_or_default();
        let mut stored: Value = serde_json::from_str(stored).unwrap_or_default();
        let mut part = |pointer| stored.pointer_mut(pointer).map(Value::take);
        let template = part("/spec/template/spec").and_then(|it| serde_json::from_value(it).ok());
        let ingress = part("/spec/ingress").and_then(|it| serde_json::from_value(it).ok());
        Recorded { template, ingress }
    }

    /// Returns whether the target will serve in any case: it was ready, and its abort deadline has been removed.
    pub fn is_decided(&self) -> bool {
        self.ready_since().is_some() && self.aborts_at().is_none()
    }
}
