//! The nodes of the cluster, cordoned as if to drain them.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::Cluster;

/// A node that accepts no pods until this is dropped.
pub(in crate::e2e) struct Cordoned<'a> {
    cluster: &'a Cluster,
    node: String,
}

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        // A second panic would hide the first.
        if let Err(error) = self.cluster.set_unschedulable(&self.node, &Value::Null) {
            println!("node {} stays cordoned: {error}", self.node);
        }
    }
}

impl Cluster {
    /// Cordons the node, as `kubectl cordon` does.
    pub(in crate::e2e) fn cordon(&self, node: &str) -> Cordoned<'_> {
        self.set_unschedulable(node, &json!(true)).unwrap();
        Cordoned { cluster: self, node: node.to_owned() }
    }

    fn set_unschedulable(&self, node: &str, value: &Value) -> kube::Result<Node> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": value}}));
        self.runtime.block_on(nodes.patch(node, &PatchParams::default(), &patch))
    }

    /// Allows the operator to read nodes, as `operator install --set rbac.nodesRule.create=true` does.
    pub(crate) fn let_operator_see_nodes(&self) {
        let mut objects = self.installation(&["--set", "rbac.nodesRule.create=true"]);
        objects.retain(|object| object["kind"].as_str().unwrap().starts_with("ClusterRole"));
        let name = self.name_of_right_to_see_nodes();
        assert_eq!(objects.len(), 2, "a role and its binding: {objects:#?}");
        for object in &objects {
            assert_eq!(object["metadata"]["name"], name);
            self.create(object);
        }
    }

    fn name_of_right_to_see_nodes(&self) -> String {
        format!("{}-kubectl-flink-operator-nodes", self.namespace)
    }

    /// Deletes these cluster-scoped objects, which no namespace's deletion includes.
    pub(super) async fn forbid_to_see_nodes(&self) {
        let (name, params) = (self.name_of_right_to_see_nodes(), DeleteParams::default());
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        drop(bindings.delete(&name, &params).await);
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        drop(roles.delete(&name, &params).await);
    }
}
