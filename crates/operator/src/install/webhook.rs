//! The objects of the admission webhook.
//!
//! The API server does not call the webhook for changes that it would admit anyway: of statuses, of resources that are
//! being deleted, and those that leave the spec as it is. So an operator that does not answer, or a certificate that is
//! not trusted, never keeps a finalizer or a label from being written.

use serde_json::{Value, json};

use super::objects::Release;
use super::rules;
use super::values::Webhook;

/// Where a certificate from elsewhere is mounted.
const CERTIFICATE: &str = "/opt/flink/webhook";
/// Name of the volume, and of the port.
const WEBHOOK: &str = "webhook";
/// Seconds that the API server waits for an answer.
const TIMEOUT: i32 = 10;

/// The conditions under which the API server calls the webhook. All of them must hold.
const CONDITIONS: [(&str, &str); 2] = [
    (
        "stays",
        "!has(object.metadata.deletionTimestamp) && (request.operation == 'CREATE' || !has(oldObject.metadata.deletionTimestamp))",
    ),
    (
        "changes",
        "request.operation == 'CREATE' || has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)",
    ),
];

impl Release<'_> {
    fn webhook(&self) -> Option<&Webhook> {
        Some(&self.values.webhook).filter(|webhook| webhook.create)
    }

    /// Returns the webhook if the operator creates its certificate.
    fn own_webhook(&self) -> Option<&Webhook> {
        self.webhook().filter(|webhook| webhook.certificate_secret.is_empty())
    }

    /// Returns the name of its Service, and of the Secret of its own certificate.
    fn webhook_name(&self) -> String {
        format!("{}-webhook", self.name())
    }

    /// Returns the name of objects that are not in a namespace.
    fn webhook_cluster_name(&self) -> String {
        format!("{}-{}", self.namespace, self.webhook_name())
    }

    /// Returns the Service, and the Secret of its own certificate. The operator fills that Secret, so it needs no
    /// permission to create one.
    pub(super) fn webhook_access(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        if let Some(webhook) = self.webhook() {
            let mut metadata = self.metadata(&self.webhook_name(), Some(self.namespace));
            for (name, value) in &webhook.service_labels {
                metadata["labels"][name] = value.clone();
            }
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {
                    "selector": {"app.kubernetes.io/name": self.name()},
                    "ports": [{"name": WEBHOOK, "port": 443, "targetPort": WEBHOOK}],
                },
            }));
        }
        if self.own_webhook().is_some() {
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": self.metadata(&self.webhook_name(), Some(self.namespace)),
                "type": "Opaque",
            }));
        }
        objects
    }

    /// Returns the permissions of the operator to its own certificate, and to have it trusted.
    pub(super) fn webhook_rights(&self) -> Vec<Value> {
        if self.own_webhook().is_none() {
            return vec![];
        }
        let rbac = &self.values.rbac;
        let account = (self.values.operator_service_account.name.as_str(), self.namespace);
        let (role, binding) = (&rbac.operator_role, &rbac.operator_role_binding);
        let cluster_name = self.webhook_cluster_name();
        let mut objects = Vec::new();
        let mut add =
            |namespace: Option<&str>, role_name: &str, binding_name: &str, rules: &[Value]| {
                if role.create {
                    objects.push(self.role(role_name, namespace, rules));
                }
                if binding.create {
                    objects.push(self.binding(binding_name, namespace, role_name, account));
                }
            };
        let name = format!("{}-webhook", role.name);
        let binding_name = format!("{}-webhook", binding.name);
        let rules = rules::webhook_secret(&self.webhook_name());
        add(Some(self.namespace), &name, &binding_name, &rules);
        add(None, &cluster_name, &cluster_name, &rules::webhook_configurations(&cluster_name));
        objects
    }

    pub(super) fn webhook_arguments(&self) -> Vec<String> {
        let Some(webhook) = self.webhook() else { return vec![] };
        let mut arguments = vec![
            "--webhook-port".to_owned(),
            webhook.port.to_string(),
            "--webhook-service".to_owned(),
            self.webhook_name(),
        ];
        if webhook.certificate_secret.is_empty() {
            arguments.extend(["--webhook-secret".to_owned(), self.webhook_name()]);
            arguments.extend(["--webhook-configuration".to_owned(), self.webhook_cluster_name()]);
        } else {
            arguments.extend(["--webhook-certificate".to_owned(), CERTIFICATE.to_owned()]);
        }
        arguments
    }

    pub(super) fn webhook_port(&self) -> Option<Value> {
        self.webhook().map(|webhook| json!({"name": WEBHOOK, "containerPort": webhook.port}))
    }

    /// Returns the volume of a certificate from elsewhere.
    pub(super) fn webhook_volume(&self) -> Option<Value> {
        let secret = &self.webhook()?.certificate_secret;
        (!secret.is_empty()).then(|| json!({"name": WEBHOOK, "secret": {"secretName": secret}}))
    }

    pub(super) fn webhook_mount(&self) -> Option<Value> {
        self.webhook_volume()
            .map(|_| json!({"name": WEBHOOK, "mountPath": CERTIFICATE, "readOnly": true}))
    }

    /// Returns the configurations that say for which changes the API server calls the webhook.
    pub(super) fn webhook_configurations(&self) -> Vec<Value> {
        let Some(webhook) = self.webhook() else { return vec![] };
        let mutator = webhook.mutator.create.then(|| {
            let name = ("mutationwebhook.flink.apache.org", "/mutate");
            self.webhook_configuration(webhook, "MutatingWebhookConfiguration", name)
        });
        let validator = webhook.validator.create.then(|| {
            let name = ("validationwebhook.flink.apache.org", "/validate");
            self.webhook_configuration(webhook, "ValidatingWebhookConfiguration", name)
        });
        mutator.into_iter().chain(validator).collect()
    }

    fn webhook_configuration(
        &self,
        webhook: &Webhook,
        kind: &str,
        (name, path): (&str, &str),
    ) -> Value {
        let Webhook { failure_policy, ca_bundle, annotations, .. } = webhook;
        let mut client = json!({
            "service": {"name": self.webhook_name(), "namespace": self.namespace, "path": path, "port": 443},
        });
        if !ca_bundle.is_empty() && self.own_webhook().is_none() {
            client["caBundle"] = json!(ca_bundle);
        }
        let conditions =
            CONDITIONS.map(|(name, expression)| json!({"name": name, "expression": expression}));
        let mut hook = json!({
            "name": name,
            "clientConfig": client,
            "rules": [{
                "apiGroups": [rules::GROUP],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": rules::KINDS,
                "scope": "Namespaced",
            }],
            "matchConditions": conditions,
            "failurePolicy": failure_policy,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": TIMEOUT,
        });
        let watched = &self.values.watch_namespaces;
        if !watched.is_empty() {
            hook["namespaceSelector"] = json!({
                "matchExpressions": [{
                    "key": "kubernetes.io/metadata.name",
                    "operator": "In",
                    "values": watched,
                }],
            });
        }
        let mut metadata = self.metadata(&self.webhook_cluster_name(), None);
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(annotations));
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "webhooks": [hook],
        })
    }
}
