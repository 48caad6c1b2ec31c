//! The pod of a SQL gateway beside a session cluster.
//!
//! It is made of the JobManager's own pod template, so that it has the image, connectors, credentials and
//! configuration of the cluster whose jobs it plans. Its labels are none that Flink, a Service or the
//! operator selects by. It listens to itself alone: a gateway asks nobody who they are, so that only who may
//! forward a port of the pod reaches it.

use serde_json::{Map, Value, json};

use super::RenderError;
use super::names::{self, MAIN_CONTAINER};
use super::pod::{array, object};

/// What tells the pods of gateways from others, with the name of the cluster.
const NAME_LABEL: &str = "app.kubernetes.io/name";
const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
const NAME: &str = "flink-sql-gateway";
/// User of Flink's images, for templates that name none: theirs starts as root to become that.
const FLINK_USER: u32 = 9999;
/// What one session needs; statements run in the cluster, and only plans are made here.
const CPU_REQUEST: &str = "100m";
const CPU_LIMIT: &str = "2";
const MEMORY: &str = "1Gi";
/// How much of it is heap: classes and buffers take the rest.
const JVM_ARGS: &str = "-XX:MaxRAMPercentage=60";
/// The pod is stopped from outside, with nothing to save.
const GRACE_SECONDS: u32 = 5;
/// The gateway ends a session that nobody asks anything in, with its queries.
const SESSION_IDLE: &str = "3min";
/// Parts of the JobManager's pod that are not about it alone.
const SHARED_FIELDS: [&str; 13] = [
    "volumes",
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "serviceAccountName",
    "securityContext",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "hostAliases",
    "dnsConfig",
    "initContainers",
    "os",
];
/// Of its main container.
const SHARED_CONTAINER_FIELDS: [&str; 7] =
    ["image", "imagePullPolicy", "command", "env", "envFrom", "volumeMounts", "securityContext"];

/// What the pod is made from.
#[derive(Clone, Copy, Debug)]
pub struct GatewayInput<'a> {
    /// Name and uid of the `FlinkDeployment`.
    pub cluster: &'a str,
    pub uid: &'a str,
    /// The JobManager's Deployment as it is stored.
    pub job_manager: &'a Value,
    /// In place of the cluster's.
    pub image: Option<&'a str>,
    /// Port of the JobManager's REST API.
    pub rest_port: u16,
    /// Port that the gateway listens on.
    pub port: u16,
}

/// Selects the gateways of a cluster.
pub fn gateway_selector(cluster: &str) -> String {
    format!("{NAME_LABEL}={NAME},{INSTANCE_LABEL}={cluster}")
}

/// The container that the gateway runs in.
pub const GATEWAY_CONTAINER: &str = "sql-gateway";

/// The pod, without a name and a limit to its life, which are the caller's.
pub fn gateway_pod(input: &GatewayInput) -> Result<Value, RenderError> {
    let GatewayInput { cluster, uid, job_manager, .. } = *input;
    let template = job_manager.pointer("/spec/template/spec").and_then(Value::as_object);
    let mut template = template.cloned().unwrap_or_default();
    let mut container = container(input, &mut template)?;
    let mut spec = shared(&template, &SHARED_FIELDS);
    without_sidecars(&mut spec)?;
    if let Some(affinity) = template.get("affinity").and_then(|it| it.get("nodeAffinity")) {
        let _not_shared = spec.insert("affinity".to_owned(), json!({ "nodeAffinity": affinity }));
    }
    restrict(&spec, &mut container)?;
    spec.extend([
        ("restartPolicy".to_owned(), json!("Never")),
        ("automountServiceAccountToken".to_owned(), json!(false)),
        ("enableServiceLinks".to_owned(), json!(false)),
        ("terminationGracePeriodSeconds".to_owned(), json!(GRACE_SECONDS)),
        ("containers".to_owned(), json!([container])),
    ]);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": job_manager.pointer("/metadata/namespace"),
            "labels": {
                NAME_LABEL: NAME,
                INSTANCE_LABEL: cluster,
                "app.kubernetes.io/managed-by": "kubectl-flink",
            },
            "ownerReferences": [{
                "apiVersion": api::API_VERSION,
                "kind": "FlinkDeployment",
                "name": cluster,
                "uid": uid,
                "controller": false,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": spec,
    }))
}

/// The JobManager's main container, with the gateway instead.
fn container(
    input: &GatewayInput,
    template: &mut Map<String, Value>,
) -> Result<Map<String, Value>, RenderError> {
    let containers = array(template, "containers", "spec.template.spec.containers")?;
    let main = containers.iter().find(|container| container["name"] == MAIN_CONTAINER);
    let main = main.and_then(Value::as_object).cloned().unwrap_or_default();
    let mut container = shared(&main, &SHARED_CONTAINER_FIELDS);
    if let Some(image) = input.image {
        let _of_the_cluster = container.insert("image".to_owned(), image.into());
    }
    let env = array(&mut container, "env", "spec.containers[].env")?;
    if !env.iter().any(|variable| variable["name"] == "JVM_ARGS") {
        env.push(json!({ "name": "JVM_ARGS", "value": JVM_ARGS }));
    }
    let probe = format!("exec 3<>/dev/tcp/127.0.0.1/{}", input.port);
    container.extend([
        ("name".to_owned(), json!(GATEWAY_CONTAINER)),
        ("args".to_owned(), args(input)),
        (
            "resources".to_owned(),
            json!({
                "requests": { "cpu": CPU_REQUEST, "memory": MEMORY },
                "limits": { "cpu": CPU_LIMIT, "memory": MEMORY },
            }),
        ),
        (
            "readinessProbe".to_owned(),
            json!({
                "exec": { "command": ["bash", "-c", probe] },
                "periodSeconds": 1,
                "timeoutSeconds": 5,
            }),
        ),
    ]);
    Ok(container)
}

/// Arguments of the image's entry point, which hands on what it does not know.
fn args(input: &GatewayInput) -> Value {
    let namespace = input.job_manager.pointer("/metadata/namespace").and_then(Value::as_str);
    let host = format!("{}.{}", names::rest_service(input.cluster), namespace.unwrap_or_default());
    let options = [
        ("execution.target", "remote".to_owned()),
        ("rest.address", host),
        ("rest.port", input.rest_port.to_string()),
        // The Service leads to the leader; without this, a client asks Kubernetes who that is.
        ("high-availability.type", "NONE".to_owned()),
        ("sql-gateway.endpoint.rest.address", "127.0.0.1".to_owned()),
        ("sql-gateway.endpoint.rest.bind-address", "127.0.0.1".to_owned()),
        ("sql-gateway.endpoint.rest.port", input.port.to_string()),
        ("sql-gateway.session.idle-timeout", SESSION_IDLE.to_owned()),
        ("sql-gateway.session.check-interval", "30s".to_owned()),
    ];
    let script =
        "exec \"${FLINK_HOME:-/opt/flink}/bin/sql-gateway.sh\" start-foreground \"$@\"".to_owned();
    let first = ["bash", "-c", &script, GATEWAY_CONTAINER].map(str::to_owned);
    let options = options.into_iter().map(|(key, value)| format!("-D{key}={value}"));
    first.into_iter().chain(options).collect()
}

fn shared(of: &Map<String, Value>, fields: &[&str]) -> Map<String, Value> {
    let kept = of.iter().filter(|(field, _)| fields.contains(&field.as_str()));
    kept.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// What prepares volumes stays; what would run beside the JobManager does not.
fn without_sidecars(spec: &mut Map<String, Value>) -> Result<(), RenderError> {
    let containers = array(spec, "initContainers", "spec.template.spec.initContainers")?;
    containers.retain(|container| container["restartPolicy"] != "Always");
    if containers.is_empty() {
        let _empty = spec.remove("initContainers");
    }
    Ok(())
}

/// Fills in what Pod Security level `restricted` asks for, where the template says nothing else. On the
/// container, as what prepares volumes may have to be another user.
fn restrict(
    spec: &Map<String, Value>,
    container: &mut Map<String, Value>,
) -> Result<(), RenderError> {
    let of_pod = spec.get("securityContext").and_then(Value::as_object);
    let stated = |field: &str| of_pod.and_then(|of_pod| of_pod.get(field));
    let context =
        object(container, "securityContext", "spec.template.spec.containers[].securityContext")?;
    if context.get("runAsUser").or_else(|| stated("runAsUser")) == Some(&json!(0)) {
        return Ok(());
    }
    for (field, value) in [
        ("runAsNonRoot", json!(true)),
        ("runAsUser", json!(FLINK_USER)),
        ("runAsGroup", json!(FLINK_USER)),
        ("seccompProfile", json!({ "type": "RuntimeDefault" })),
        ("allowPrivilegeEscalation", json!(false)),
        ("capabilities", json!({ "drop": ["ALL"] })),
    ] {
        if stated(field).is_none() {
            let _said = context.entry(field).or_insert(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
