//! Wakes a resource when a pod of its JobManager is gone, because the next JobManager waits for that.
//!
//! Only names and labels are watched, and nothing is kept. Without the right to watch pods, the next JobManager starts
//! a moment later, by polling.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;

use super::context::Context;
use super::controller::api;
use super::watching;

/// Follows the JobManagers' pods of one scope; never ends.
pub(super) async fn follow_pods(scope: Option<String>, context: Arc<Context>) {
    let pods: Api<PartialObjectMeta<Pod>> = api(&context, scope.as_deref());
    let config = watching::labelled("component=jobmanager");
    let mut events = watching::watch(pods, config, context.etcd_restores.follow()).boxed();
    while let Some(event) = events.next().await {
        // The watch restarts by itself after an error.
        if let Ok(watcher::Event::Delete(pod)) = event
            && let Some((namespace, name)) = cluster_of(&pod)
        {
            context.deployments.wake(namespace, name);
        }
    }
}

/// Returns namespace and name of the cluster that a pod belongs to.
pub(super) fn cluster_of(pod: &PartialObjectMeta<Pod>) -> Option<(&str, &str)> {
    let name = pod.metadata.labels.as_ref()?.get("app")?;
    Some((pod.metadata.namespace.as_deref()?, name))
}
