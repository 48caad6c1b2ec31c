//! Permissions: exactly what the operator and the jobs need.

use serde_json::{Value, json};

pub(super) const GROUP: &str = api::GROUP;
pub(super) const KINDS: [&str; 4] =
    ["flinkdeployments", "flinksessionjobs", "flinkstatesnapshots", "flinkbluegreendeployments"];

/// The permissions of the operator in a namespace that it operates.
///
/// Deployments, Services and `ConfigMaps` belong to the clusters, and pods try a changed spec. Secrets are left to
/// [`keytabs`]: any others that jobs need, their pods mount.
pub fn operator() -> Vec<Value> {
    let sub = |name: &str| KINDS.map(|kind| format!("{kind}/{name}"));
    vec![
        json!({
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }),
        json!({"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list"]}),
        json!({
            "apiGroups": [""],
            "resources": ["services", "configmaps"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }),
        json!({
            "apiGroups": [""],
            "resources": ["events"],
            "verbs": ["get", "list", "create", "update", "patch"],
        }),
        json!({
            "apiGroups": ["apps"],
            "resources": ["deployments", "controllerrevisions"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }),
        // Needed for `blockOwnerDeletion` in a reference to a Deployment as the owner.
        json!({"apiGroups": ["apps"], "resources": ["deployments/finalizers"], "verbs": ["update"]}),
        json!({
            "apiGroups": ["networking.k8s.io"],
            "resources": ["ingresses"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }),
        json!({
            "apiGroups": ["gateway.networking.k8s.io"],
            "resources": ["httproutes"],
            "verbs": ["get", "create", "patch", "delete"],
        }),
        json!({
            "apiGroups": [GROUP],
            "resources": KINDS,
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }),
        json!({"apiGroups": [GROUP], "resources": sub("status"), "verbs": ["get", "update", "patch"]}),
        json!({"apiGroups": [GROUP], "resources": sub("finalizers"), "verbs": ["update"]}),
    ]
}

/// The cluster-wide permissions of one of several operators that share all namespaces: to list and watch them.
pub fn namespaces() -> Vec<Value> {
    vec![json!({
        "apiGroups": [""],
        "resources": ["namespaces"],
        "verbs": ["get", "list", "watch"],
    })]
}

/// The cluster-wide permissions of an operator that takes snapshots of jobs before their nodes go.
pub fn nodes() -> Vec<Value> {
    vec![json!({
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["get", "list", "watch"],
    })]
}

/// The cluster-wide permissions of an operator that checks scale-ups against the room on nodes: to list these and all
/// pods, and to read what the Kubernetes cluster autoscaler may add.
pub fn resource_view() -> Vec<Value> {
    vec![
        json!({"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}),
        json!({
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["cluster-autoscaler-status"],
            "verbs": ["get"],
        }),
    ]
}

/// The further permissions in such a namespace of an operator that creates Secrets from keytabs in its own pod: to see
/// who owns the Secret of that name, and to create it.
pub fn keytabs() -> Vec<Value> {
    vec![json!({
        "apiGroups": [""],
        "resources": ["secrets"],
        "verbs": ["get", "create", "patch"],
    })]
}

/// The permissions of the operator in its own namespace: the Lease of the leader, and those of shards. Without names,
/// all Leases of the namespace.
pub fn leader(names: &[String]) -> Vec<Value> {
    let groups = ["coordination.k8s.io"];
    let mut held = json!({
        "apiGroups": groups,
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "update", "patch"],
    });
    if !names.is_empty() {
        held["resourceNames"] = json!(names);
    }
    // A name cannot limit what is created.
    vec![json!({"apiGroups": groups, "resources": ["leases"], "verbs": ["create"]}), held]
}

/// The permissions in the operator's namespace of a webhook that creates its own certificate: to keep it.
pub fn webhook_secret(name: &str) -> Vec<Value> {
    vec![json!({
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [name],
        "verbs": ["get", "update"],
    })]
}

/// The cluster-wide permissions of such a webhook: to set the authority to trust for the certificate.
pub fn webhook_configurations(name: &str) -> Vec<Value> {
    vec![json!({
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
        "resourceNames": [name],
        "verbs": ["get", "patch"],
    })]
}

/// The cluster-wide permissions of an operator that serves the console: to ask whose token it is, and what that person
/// may list.
pub fn dashboard() -> Vec<Value> {
    vec![
        json!({
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["tokenreviews"],
            "verbs": ["create"],
        }),
        json!({
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        }),
    ]
}

/// The permissions of a JobManager: TaskManager pods and high availability data.
pub fn jobs() -> Vec<Value> {
    let verbs = json!(["get", "list", "watch", "create", "update", "patch", "delete"]);
    vec![
        json!({"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": verbs}),
        json!({
            "apiGroups": ["apps"],
            "resources": ["deployments", "deployments/finalizers"],
            "verbs": verbs,
        }),
    ]
}
