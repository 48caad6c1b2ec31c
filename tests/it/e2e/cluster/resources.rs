//! Objects of the API server: reading them, waiting for them, and editing them without the program.

use std::thread;
use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::{Value, json};

use super::{Cluster, POLL_EVERY};
use crate::support::patience::PATIENCE;

const DEPLOYMENT: &str = "FlinkDeployment";

impl Cluster {
    pub(in crate::e2e) fn deployments(&self) -> Api<DynamicObject> {
        self.resources(DEPLOYMENT)
    }

    /// Returns the API of a kind of Flink resources.
    pub(crate) fn resources(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("flink.apache.org", "v1beta1", kind);
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Returns the current `FlinkDeployment`; `null` when it is gone.
    pub(in crate::e2e) fn observed(&self) -> Value {
        self.inspect(DEPLOYMENT, &self.name)
    }

    /// Returns the current resource; `null` when it is gone.
    pub(in crate::e2e) fn inspect(&self, kind: &str, name: &str) -> Value {
        let found = self.runtime.block_on(self.resources(kind).get_opt(name)).unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    /// Returns all resources of a kind, by name.
    pub(in crate::e2e) fn all(&self, kind: &str) -> Vec<Value> {
        let listed = self.runtime.block_on(self.resources(kind).list(&ListParams::default()));
        let listed = listed.unwrap().items.into_iter();
        listed.map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// Edits the deployment without the program, as any client can.
    pub(in crate::e2e) fn edit(&self, patch: Value) {
        self.edit_resource(DEPLOYMENT, &self.name, patch);
    }

    pub(in crate::e2e) fn edit_resource(&self, kind: &str, name: &str, patch: Value) {
        let (resources, params) = (self.resources(kind), PatchParams::default());
        self.runtime.block_on(resources.patch(name, &params, &Patch::Merge(patch))).unwrap();
    }

    pub(in crate::e2e) fn edit_status(&self, patch: Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(json!({ "status": patch }));
        self.runtime
            .block_on(self.deployments().patch_status(&self.name, &params, &patch))
            .unwrap();
    }

    /// Deletes a resource, like `kubectl delete --wait=false`.
    pub(in crate::e2e) fn delete(&self, kind: &str, name: &str) {
        let params = DeleteParams::default();
        self.runtime.block_on(self.resources(kind).delete(name, &params)).unwrap();
    }

    /// Waits until the deployment satisfies `fact`, and returns it.
    #[track_caller]
    pub(in crate::e2e) fn wait_until(&self, what: &str, fact: impl Fn(&Value) -> bool) -> Value {
        self.wait_until_one(DEPLOYMENT, &self.name, what, fact)
    }

    /// Waits until a resource satisfies `fact`, and returns it.
    #[track_caller]
    pub(in crate::e2e) fn wait_until_one(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        fact: impl Fn(&Value) -> bool,
    ) -> Value {
        let start = Instant::now();
        loop {
            let seen = self.inspect(kind, name);
            if fact(&seen) {
                println!("-- {name} {what}: after {:.1} s", start.elapsed().as_secs_f64());
                return seen;
            }
            assert!(start.elapsed() < PATIENCE, "{name} not {what} in {PATIENCE:?}: {seen:#}");
            thread::sleep(POLL_EVERY);
        }
    }

    /// Waits until the newest spec runs and is known to be good.
    #[track_caller]
    pub(in crate::e2e) fn wait_until_stable(&self) -> Value {
        self.wait_until_runs(DEPLOYMENT, &self.name)
    }

    /// As [`Self::wait_until_stable`], for a resource of any kind that has a job.
    #[track_caller]
    pub(in crate::e2e) fn wait_until_runs(&self, kind: &str, name: &str) -> Value {
        self.wait_until_one(kind, name, "STABLE", |seen| {
            seen["status"]["lifecycleState"] == "STABLE"
                && seen["status"]["jobStatus"]["state"] == "RUNNING"
                && seen["status"]["observedGeneration"] == seen["metadata"]["generation"]
        })
    }

    /// Waits until the session cluster of the newest spec answers.
    #[track_caller]
    pub(in crate::e2e) fn wait_until_ready(&self) -> Value {
        self.wait_until("READY", |deployment| {
            deployment["status"]["lifecycleState"] == "STABLE"
                && deployment["status"]["jobManagerDeploymentStatus"] == "READY"
                && deployment["status"]["observedGeneration"]
                    == deployment["metadata"]["generation"]
        })
    }

    /// Scales the deployment, like `kubectl scale`.
    pub(in crate::e2e) fn scale(&self, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let (deployments, params) = (self.deployments(), PatchParams::default());
        self.runtime.block_on(deployments.patch_scale(&self.name, &params, &patch)).unwrap();
    }

    /// Returns replicas and selector of the status of the `scale` subresource.
    pub(in crate::e2e) fn scale_status(&self) -> (i32, String) {
        let scale = self.runtime.block_on(self.deployments().get_scale(&self.name)).unwrap();
        let status = scale.status.unwrap_or_default();
        (status.replicas, status.selector.unwrap_or_default())
    }

    /// Deletes a Deployment without the operator.
    pub(in crate::e2e) fn delete_deployment(&self, name: &str) {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        self.runtime.block_on(api.delete(name, &DeleteParams::default())).unwrap();
    }
}
