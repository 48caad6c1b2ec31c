//! The pods of a Flink cluster, found by the labels that Flink sets.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;

use super::Result;
use super::read::{self, Scope};

/// Which part of a Flink cluster a pod runs.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Role {
    JobManager,
    TaskManager,
}

impl Role {
    /// Value of the label `component`.
    pub fn component(self) -> &'static str {
        match self {
            Self::JobManager => "jobmanager",
            Self::TaskManager => "taskmanager",
        }
    }

    /// Returns the role that a pod's labels name.
    pub fn of(pod: &Pod) -> Option<Self> {
        match pod.metadata.labels.as_ref()?.get("component")?.as_str() {
            "jobmanager" => Some(Self::JobManager),
            "taskmanager" => Some(Self::TaskManager),
            _ => None,
        }
    }
}

/// Returns the label selector of a cluster's pods, all or of one role.
pub fn label_selector(cluster_id: &str, role: Option<Role>) -> String {
    match role {
        Some(role) => format!("app={cluster_id},component={}", role.component()),
        None => format!("app={cluster_id},component in (jobmanager,taskmanager)"),
    }
}

/// Lists the cluster's pods: JobManagers first, then TaskManagers, each by name.
pub async fn list(
    client: &Client,
    namespace: &str,
    cluster_id: &str,
    role: Option<Role>,
) -> Result<Vec<Pod>> {
    let selector = label_selector(cluster_id, role);
    let mut pods = read::list::<Pod>(client, Scope::Namespace(namespace), Some(&selector)).await?;
    pods.sort_by_key(|pod| (Role::of(pod), pod.metadata.name.clone()));
    Ok(pods)
}

/// Returns whether the pod is ready and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
