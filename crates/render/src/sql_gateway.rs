//! The pod of a SQL gateway next to a session cluster.
//!
//! It is created from the JobManager's own pod template, so that it has the image, connectors, credentials and
//! configuration of the cluster whose jobs it plans. It has no label that Flink, a Service or the operator selects by.
//! It listens only on localhost: a gateway does not authenticate anyone, so it is only reachable for those who may
//! forward a port of the pod.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ExecAction, Pod, PodSpec, Probe, ResourceRequirements, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::names::{self, MAIN_CONTAINER};
use super::pod::{array, fields, object, quantities, variable};
use super::{RenderError, extra_labels, extra_owner, extra_selector};

/// Distinguishes the pods of gateways from others, together with the name of the cluster.
const NAME: &str = "flink-sql-gateway";
/// User of Flink's images, for templates that name none: their entry point starts as root to switch to it.
const FLINK_USER: i64 = 9999;
/// Resources for one session. Statements run in the cluster, and only plans are made here.
const CPU_REQUEST: &str = "100m";
const CPU_LIMIT: &str = "2";
const MEMORY: &str = "1Gi";
/// Share of the memory for the heap; classes and buffers use the rest.
const JVM_ARGS: &str = "-XX:MaxRAMPercentage=60";
/// The pod is stopped from outside, with nothing to save.
const GRACE_SECONDS: i64 = 5;
/// How long a session may be idle before the gateway ends it, along with its queries.
const SESSION_IDLE: &str = "3min";
/// Parts of the JobManager's pod that are not specific to it.
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
/// The same for its main container.
const SHARED_CONTAINER_FIELDS: [&str; 7] =
    ["image", "imagePullPolicy", "command", "env", "envFrom", "volumeMounts", "securityContext"];

/// The input for the pod.
#[derive(Clone, Copy, Debug)]
pub struct GatewayInput<'a> {
    /// Name and uid of the `FlinkDeployment`.
    pub cluster: &'a str,
    pub uid: &'a str,
    /// The JobManager's Deployment as it is stored.
    pub job_manager: &'a Value,
    /// Replaces the cluster's image.
    pub image: Option<&'a str>,
    /// Port of the JobManager's REST API.
    pub rest_port: u16,
    /// Port that the gateway listens on.
    pub port: u16,
}

/// Returns the selector for the gateways of a cluster.
pub fn gateway_selector(cluster: &str) -> String {
    extra_selector(NAME, cluster)
}

/// The container that the gateway runs in.
pub const GATEWAY_CONTAINER: &str = "sql-gateway";

/// Returns the pod without a name and a maximum lifetime, which the caller sets.
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
    spec.extend(fields(json!(PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        ..PodSpec::default()
    })));
    let _none = spec.insert("containers".to_owned(), json!([container]));
    let metadata = ObjectMeta {
        namespace: namespace(job_manager).map(str::to_owned),
        labels: Some(extra_labels(NAME, cluster)),
        owner_references: Some(vec![extra_owner(cluster, uid)]),
        ..ObjectMeta::default()
    };
    let mut pod = json!(Pod { metadata, ..Pod::default() });
    pod["spec"] = spec.into();
    Ok(pod)
}

fn namespace(job_manager: &Value) -> Option<&str> {
    job_manager.pointer("/metadata/namespace").and_then(Value::as_str)
}

/// Returns the JobManager's main container, running the gateway instead.
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
        env.push(json!(variable("JVM_ARGS", JVM_ARGS)));
    }
    let probe = format!("exec 3<>/dev/tcp/127.0.0.1/{}", input.port);
    let probe = ["bash", "-c", &probe].map(str::to_owned).into();
    container.extend(fields(json!(Container {
        name: GATEWAY_CONTAINER.to_owned(),
        args: Some(args(input)),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(CPU_REQUEST, MEMORY)),
            limits: Some(quantities(CPU_LIMIT, MEMORY)),
            claims: None,
        }),
        readiness_probe: Some(Probe {
            exec: Some(ExecAction { command: Some(probe) }),
            period_seconds: Some(1),
            timeout_seconds: Some(5),
            ..Probe::default()
        }),
        ..Container::default()
    })));
    Ok(container)
}

/// Returns the arguments of the image's entry point, which passes on commands that it does not know.
fn args(input: &GatewayInput) -> Vec<String> {
    let namespace = namespace(input.job_manager).unwrap_or_default();
    let host = format!("{}.{namespace}", names::rest_service(input.cluster));
    let options = [
        ("execution.target", "remote".to_owned()),
        ("rest.address", host),
        ("rest.port", input.rest_port.to_string()),
        // The Service leads to the leader; without this, a client asks Kubernetes for the leader.
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

/// Removes the containers that would run next to the JobManager. Those that prepare volumes stay.
fn without_sidecars(spec: &mut Map<String, Value>) -> Result<(), RenderError> {
    let containers = array(spec, "initContainers", "spec.template.spec.initContainers")?;
    containers.retain(|container| container["restartPolicy"] != "Always");
    if containers.is_empty() {
        let _empty = spec.remove("initContainers");
    }
    Ok(())
}

/// Sets what Pod Security level `restricted` requires, unless the template says otherwise. This is set on the
/// container, because containers that prepare volumes may need another user.
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
    let seccomp = SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None };
    let restricted = SecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(FLINK_USER),
        run_as_group: Some(FLINK_USER),
        seccomp_profile: Some(seccomp),
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    };
    for (field, value) in fields(json!(restricted)) {
        if stated(&field).is_none() {
            let _said = context.entry(field).or_insert(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
