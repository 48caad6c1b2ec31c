//! The objects of the console that the operator's pods serve.

use serde_json::{Value, json};

use super::objects::Release;
use super::rules;
use super::values::Dashboard;

/// Name of the port.
const DASHBOARD: &str = "dashboard";
/// Sessions are in the memory of one pod: a browser stays with that pod for as long as it may be signed in.
const AFFINITY_SECONDS: i32 = 8 * 60 * 60;

impl Release<'_> {
    fn dashboard(&self) -> Option<&Dashboard> {
        Some(&self.values.dashboard).filter(|dashboard| dashboard.enabled)
    }

    /// Returns the name of the console's Service.
    fn dashboard_name(&self) -> String {
        format!("{}-dashboard", self.name())
    }

    pub(super) fn dashboard_service(&self) -> Option<Value> {
        let dashboard = self.dashboard()?;
        let mut metadata = self.metadata(&self.dashboard_name(), Some(self.namespace));
        for (name, value) in &dashboard.service_labels {
            metadata["labels"][name] = value.clone();
        }
        Some(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "selector": {"app.kubernetes.io/name": self.name()},
                "ports": [{"name": "http", "port": 80, "targetPort": DASHBOARD}],
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}},
            },
        }))
    }

    /// Returns the permissions of the operator to ask whose token it is, and what that person may list.
    pub(super) fn dashboard_rights(&self) -> Vec<Value> {
        if self.dashboard().is_none() {
            return vec![];
        }
        let rbac = &self.values.rbac;
        let account = (self.values.operator_service_account.name.as_str(), self.namespace);
        let name = format!("{}-{}", self.namespace, self.dashboard_name());
        let role = rbac.operator_role.create.then(|| self.role(&name, None, &rules::dashboard()));
        let is_bound = rbac.operator_role_binding.create;
        let binding = is_bound.then(|| self.binding(&name, None, &name, account));
        role.into_iter().chain(binding).collect()
    }

    pub(super) fn dashboard_arguments(&self) -> Vec<String> {
        let Some(Dashboard { port, cluster_name, .. }) = self.dashboard() else { return vec![] };
        let mut arguments = vec!["--dashboard-port".to_owned(), port.to_string()];
        if !cluster_name.is_empty() {
            arguments.extend(["--dashboard-cluster".to_owned(), cluster_name.clone()]);
        }
        arguments
    }

    pub(super) fn dashboard_port(&self) -> Option<Value> {
        self.dashboard().map(|it| json!({"name": DASHBOARD, "containerPort": it.port}))
    }
}
