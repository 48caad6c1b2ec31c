//! The operator's permissions: those of its installation, so that every test shows them to be sufficient.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::Cluster;
use crate::support::rights::{ACCOUNT, of_operator};

/// Longer than any test on any machine, in seconds.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;
const KUBECONFIG: &str = "operator-kubeconfig.json";

impl Cluster {
    /// Returns the kubeconfig of an operator with the permissions that `operator install` gives it in this namespace.
    /// It also reaches JobManagers through the API server, because it runs outside the cluster.
    pub(crate) fn operator_kubeconfig(&self) -> PathBuf {
        let file = self.data.join(KUBECONFIG);
        if !file.is_file() {
            self.give_rights(&[]);
        }
        file
    }

    /// Returns the objects of an installation for this namespace.
    pub(super) fn installation(&self, options: &[&str]) -> Vec<Value> {
        let namespace = self.namespace.as_str();
        let mut args = vec!["operator", "install", "--dry-run=client", "-o", "yaml"];
        args.extend(["--watch-namespaces", namespace]);
        args.extend(options);
        serde_yaml::from_multiple(&self.flink_quietly(&args)).unwrap()
    }

    /// Creates the permissions of an installation with these options, for an operator that is not yet started.
    pub(in crate::e2e) fn give_rights(&self, options: &[&str]) {
        for object in of_operator(self.installation(options)) {
            self.create(&object);
        }
        let rbac = "rbac.authorization.k8s.io";
        let metadata = json!({"name": "flink-access", "namespace": self.namespace});
        self.create(&json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services/proxy"],
                    "verbs": ["get", "create", "update", "patch", "delete"],
                },
                {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
            ],
        }));
        self.create(&json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "flink-access"},
            "subjects": [
                {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.namespace},
            ],
        }));
        let kubeconfig = self.kubeconfig_of_account().to_string();
        fs::write(self.data.join(KUBECONFIG), kubeconfig).unwrap();
    }

    /// Returns the tests' own kubeconfig with the operator's account as user.
    fn kubeconfig_of_account(&self) -> Value {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let answer = accounts.create_token_request(ACCOUNT, &params, &request);
        let token = self.runtime.block_on(answer).unwrap().status.unwrap().token;
        let text = fs::read_to_string(&self.kubeconfig).unwrap();
        let mut kubeconfig: Value = serde_yaml::from_str(&text).unwrap();
        for user in kubeconfig["users"].as_array_mut().unwrap() {
            user["user"] = json!({"token": token});
        }
        kubeconfig
    }
}
