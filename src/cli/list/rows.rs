//! Rows of a list: only the fields of an object that a table shows.
//!
//! Each field is read whatever its type is, so that objects that the API types would reject are shown too.

use kube::Resource;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use crate::cli::deployment::Deployment;

/// An object reduced to these fields.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Row(pub(in crate::cli) Deployment);

impl Row {
    pub(super) fn of<K: Resource<DynamicType = ()>>(slim: Slim) -> Self {
        let mut object = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&())});
        // Values read from JSON always serialize to JSON.
        if let (Some(object), Ok(Value::Object(fields))) =
            (object.as_object_mut(), serde_json::to_value(slim))
        {
            object.extend(fields);
        }
        Self(Deployment(object))
    }
}

/// The fields of an object to keep; all others are skipped while it is parsed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(in crate::cli) struct Slim {
    metadata: Metadata,
    spec: Spec,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

type Leaf = Option<Value>;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Leaf,
    namespace: Leaf,
    creation_timestamp: Leaf,
    deletion_timestamp: Leaf,
    generation: Leaf,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "flink.apache.org/paused", skip_serializing_if = "Option::is_none")]
    paused: Leaf,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    image: Leaf,
    flink_version: Leaf,
    deployment_name: Leaf,
    /// `None` for a session cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobSpec>,
    /// The template of a blue/green deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Template>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Template {
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Box<Spec>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct JobSpec {
    state: Leaf,
    upgrade_mode: Leaf,
    parallelism: Leaf,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names are those of the resource")]
struct Status {
    lifecycle_state: Leaf,
    blue_green_state: Leaf,
    job_manager_deployment_status: Leaf,
    observed_generation: Leaf,
    error: Leaf,
    job_status: Option<JobStatus>,
    task_manager: Option<TaskManagers>,
    cluster_info: Option<ClusterInfo>,
    reconciliation_status: Option<Reconciliation>,
    conditions: Option<Vec<Condition>>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ClusterInfo {
    #[serde(rename = "Preflight")]
    preflight: Leaf,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Reconciliation {
    #[serde(deserialize_with = "is_there")]
    last_stable_spec: Option<bool>,
}

/// Reads only whether the text is present: it may be long.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.map(|_| true))
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: Leaf,
    status: Leaf,
    reason: Leaf,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct JobStatus {
    state: Leaf,
    job_id: Leaf,
    savepoint_info: Option<SavepointInfo>,
    checkpoint_info: Option<CheckpointInfo>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct SavepointInfo {
    trigger_type: Leaf,
    last_savepoint: Option<Taken>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct CheckpointInfo {
    last_checkpoint: Option<Taken>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Taken {
    time_stamp: Leaf,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct TaskManagers {
    replicas: Leaf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::blue_green::FlinkBlueGreenDeployment;
    use api::deployment::FlinkDeployment;

    #[test]
    fn a_blue_green_deployment_has_its_job_in_a_template() {
        let slim = json!({
            "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"image": "i", "flinkVersion": "v1_20", "job": {"upgradeMode": "savepoint"}}}},
            "status": {"blueGreenState": "ACTIVE_GREEN", "jobStatus": {"state": "RUNNING"}},
        });
        let row = Row::of::<FlinkBlueGreenDeployment>(serde_json::from_value(slim).unwrap()).0;
        assert_eq!(
            (row.shown_name().as_str(), row.lifecycle()),
            ("bluegreen/a", Some("ACTIVE_GREEN"))
        );
        assert_eq!((row.image(), row.flink_version()), (Some("i"), Some("v1_20")));
        assert_eq!((row.upgrade_mode(), row.is_session()), ("savepoint", false));
    }

    #[test]
    fn a_row_keeps_what_the_table_shows_and_nothing_else() {
        let row =
            |object: Value| Row::of::<FlinkDeployment>(serde_json::from_value(object).unwrap()).0;
        let whole = row(json!({
            "metadata": {"name": "a", "managedFields": [{"manager": "x"}], "annotations": {"unseen": "c", "flink.apache.org/paused": "true"}},
            "spec": {"image": "i", "podTemplate": {"spec": {}}, "job": {"upgradeMode": "savepoint", "args": ["x"]}},
            "status": {"jobStatus": {"state": "RUNNING"}, "reconciliationStatus": {"lastReconciledSpec": "long"}},
        }));
        assert_eq!((whole.name(), whole.upgrade_mode()), ("a", "savepoint"));
        assert!(whole.is_paused_by_itself());
        assert_eq!((whole.job_state(), whole.image()), (Some("RUNNING"), Some("i")));
        let text = whole.0.to_string();
        for left_out in ["managedFields", "unseen", "podTemplate", "args", "lastReconciledSpec"] {
            assert!(!text.contains(left_out), "{left_out}");
        }
        assert!(row(json!({"metadata": {"name": "s"}, "spec": {}})).is_session());
        assert!(
            !row(json!({"metadata": {"name": "s"}, "spec": {"job": {"state": 7}}})).is_session()
        );
    }
}
