//! The options of an installation: the values of the Helm chart, with the names of the Java operator's chart if they
//! mean the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::without_effect::has_content;
use render::logging::{DEFAULT_LOG4J, DEFAULT_LOGBACK};

/// A value of the Java operator's chart that is accepted, because a file may be shared, and has no effect:
/// `conf/without-effect.yaml` of the chart says what to use instead.
type WithoutEffect = Option<Value>;

/// Values of an installation; every one has a default.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Values {
    /// Namespaces to watch; empty means the whole cluster.
    pub watch_namespaces: Vec<String>,
    /// More namespaces for which the jobs' service account and permissions are created.
    pub job_namespaces: Vec<String>,
    /// Name of the operator's Deployment, instead of the chart's.
    pub name_override: String,
    /// Name of service accounts, roles and bindings whose own name is empty; empty means the operator's.
    pub fullname_override: String,
    pub image: Image,
    /// References to Secrets for pulling images.
    pub image_pull_secrets: Vec<Map<String, Value>>,
    /// Number of operator pods. One of them leads, unless `sharding.shards` divides the namespaces among
    /// them.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    pub sharding: Sharding,
    /// How the Deployment replaces its pods.
    pub strategy: Map<String, Value>,
    pub rbac: Rbac,
    pub operator_pod: OperatorPod,
    pub operator_service_account: ServiceAccount,
    pub job_service_account: ServiceAccount,
    /// Additional mounts of the operator's container, besides its configuration and scratch space.
    pub operator_volume_mounts: Extra,
    /// Volumes for these mounts.
    pub operator_volumes: Extra,
    /// Security context of the operator's pod.
    pub pod_security_context: Map<String, Value>,
    /// Security context of the operator's container.
    pub operator_security_context: Map<String, Value>,
    pub operator_health: OperatorHealth,
    pub metrics: Metrics,
    pub flink_rest: FlinkRest,
    pub webhook: Webhook,
    pub dashboard: Dashboard,
    pub network_policy: NetworkPolicy,
    pub default_configuration: DefaultConfiguration,
    pub logging: Logging,
    #[serde(skip_serializing_if = "Option::is_none")]
    jvm_args: WithoutEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_start: WithoutEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: WithoutEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_security_context: WithoutEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_configuration: WithoutEffect,
    /// Set by Helm in a chart that another one depends on.
    #[serde(skip_serializing_if = "Option::is_none")]
    global: WithoutEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: WithoutEffect,
}

/// How several operator pods share the namespaces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sharding {
    /// Number of shards that the namespaces are divided into; 0 means that one pod leads.
    #[schemars(range(min = 0, max = 64))]
    pub shards: i32,
}

/// Where the operator's image comes from.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Image {
    pub repository: String,
    pub pull_policy: String,
    /// Empty means the version of the chart.
    pub tag: String,
    /// Such as `sha256:…`; takes precedence over the tag.
    pub digest: String,
}

/// Returns the name, without a tag, under which a release publishes the operator's image: that of the repository, in
/// the registry of its forge.
pub fn published() -> String {
    env!("CARGO_PKG_REPOSITORY").replacen("https://github.com/", "ghcr.io/", 1)
}

/// Returns `true` if an image is the Java operator's, which values for its chart name. This program is not in it.
pub(super) fn is_of_java(repository: &str) -> bool {
    repository.rsplit('/').next() == Some("flink-kubernetes-operator")
}

impl Image {
    /// Returns the reference for a pod; `version` replaces an empty tag.
    pub fn reference(&self, version: &str) -> String {
        if is_of_java(&self.repository) {
            return Self::default().reference(version);
        }
        let Self { repository, tag, digest, .. } = self;
        match (digest.as_str(), tag.as_str()) {
            ("", "") => format!("{repository}:{version}"),
            ("", tag) => format!("{repository}:{tag}"),
            (digest, _) => format!("{repository}@{digest}"),
        }
    }
}

/// Permissions of the operator and of the jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rbac {
    /// Create roles and bindings.
    pub create: bool,
    pub operator_role: Named,
    pub operator_role_binding: Named,
    pub job_role: Named,
    pub job_role_binding: Named,
    /// Allow the operator to read the nodes of the cluster, which
    /// `kubernetes.operator.node-notice.snapshot` needs: a `ClusterRole`, even if namespaces are set.
    pub nodes_rule: Creation,
    /// Allow the operator to read the free capacity of the cluster's nodes, which
    /// `kubernetes.operator.cluster.resource-view.refresh-interval` needs: a `ClusterRole` to list nodes and
    /// the pods of all namespaces, even if namespaces are set.
    pub resource_view_rule: Creation,
    /// Allow the operator to create Secrets from keytabs in its own pod, which
    /// `security.kerberos.login.keytab` needs: a permission on all Secrets of the namespaces that it
    /// watches.
    pub keytabs_rule: Creation,
}

/// Whether to create it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Creation {
    pub create: bool,
}

/// An object with this name, created or existing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Named {
    #[serde(default = "yes")]
    pub create: bool,
    pub name: String,
}

/// A service account with this name, created or existing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceAccount {
    #[serde(default = "yes")]
    pub create: bool,
    #[serde(default)]
    pub annotations: Map<String, Value>,
    pub name: String,
}

fn yes() -> bool {
    true
}

/// Fields that are copied into the operator's pod.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OperatorPod {
    /// Empty means the cluster's default.
    pub priority_class_name: String,
    pub annotations: Map<String, Value>,
    /// Labels of the Deployment and its pods.
    pub labels: Map<String, Value>,
    pub env: Vec<Map<String, Value>>,
    pub env_from: Vec<Map<String, Value>>,
    /// Empty means `ClusterFirst`.
    pub dns_policy: String,
    pub dns_config: Map<String, Value>,
    pub node_selector: Map<String, Value>,
    pub affinity: Map<String, Value>,
    pub tolerations: Vec<Map<String, Value>>,
    pub topology_spread_constraints: Vec<Map<String, Value>>,
    pub resources: Map<String, Value>,
    /// Containers that run before the operator's starts.
    pub init_containers: Vec<Map<String, Value>>,
    /// Containers that run next to the operator's.
    pub sidecar_containers: Vec<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: WithoutEffect,
    #[serde(skip_serializing_if = "Option::is_none")]
    jvm_args: WithoutEffect,
    #[serde(rename = "config.yaml", skip_serializing_if = "Option::is_none")]
    config: WithoutEffect,
    #[serde(rename = "flink-conf.yaml", skip_serializing_if = "Option::is_none")]
    flink_conf: WithoutEffect,
    #[serde(rename = "log4j-console.properties", skip_serializing_if = "Option::is_none")]
    log4j_console: WithoutEffect,
    #[serde(rename = "log4j-operator.properties", skip_serializing_if = "Option::is_none")]
    log4j_operator: WithoutEffect,
}

/// Who may connect to the operator's pods. The kubelet's probes need no rule.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicy {
    pub create: bool,
    /// Peers that may read the metrics; empty means any.
    pub metrics_from: Vec<Map<String, Value>>,
    /// Peers that may call the webhook, such as the addresses of the API server; empty means any.
    pub webhook_from: Vec<Map<String, Value>>,
    /// Peers that may open the console; empty means any.
    pub dashboard_from: Vec<Map<String, Value>>,
}

/// Entries that are only used if `create` is true.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Extra {
    pub create: bool,
    pub data: Vec<Map<String, Value>>,
}

impl Extra {
    /// Returns the entries to use.
    pub fn entries(&self) -> &[Map<String, Value>] {
        if self.create { &self.data } else { &[] }
    }
}

/// Probes of the operator's container, without the request, which is added.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OperatorHealth {
    /// Sets `kubernetes.operator.health.probe.port`, unless the configuration sets it.
    pub port: i32,
    pub liveness_probe: Map<String, Value>,
    pub readiness_probe: Map<String, Value>,
    pub startup_probe: Map<String, Value>,
}

/// Metrics of the operator, for Prometheus.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// The port to scrape, such as 9249; closed if not set.
    pub port: Option<i32>,
}

/// How the operator calls JobManagers.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FlinkRest {
    /// Secret for clusters whose REST endpoint uses TLS: `ca.crt` is trusted, and `tls.crt` and `tls.key`
    /// are the operator's client certificate. Empty means the authorities that the system trusts.
    pub tls_secret: String,
    /// False: a certificate of an authority in `ca.crt`, and of no other, is accepted whatever host it
    /// names, as in the Java operator.
    pub check_host_name: bool,
}

/// The admission webhook of the operator's pods.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Webhook {
    /// Validate and mutate resources when they are submitted.
    pub create: bool,
    /// What happens if the webhook does not answer: `Ignore` or `Fail`.
    pub failure_policy: String,
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Secret with `tls.crt`, `tls.key` and optionally `ca.crt`, such as cert-manager's; empty means that
    /// the operator creates its certificate.
    pub certificate_secret: String,
    /// Authority of the certificate in `certificateSecret`, PEM in base64; empty if something else
    /// injects it into the webhook configurations.
    pub ca_bundle: String,
    /// Annotations of the two webhook configurations.
    pub annotations: Map<String, Value>,
    /// The validating webhook configuration.
    pub validator: Creation,
    /// The mutating webhook configuration.
    pub mutator: Creation,
    /// Additional labels of the Service.
    pub service_labels: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keystore: WithoutEffect,
}

/// The console that the operator's pods serve.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Dashboard {
    /// Serve the console in the operator's pods. Users sign in with a token of the cluster, see what they
    /// are allowed to list, and cannot change anything.
    pub enabled: bool,
    /// Port for plain HTTP; TLS ends at the ingress in front of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Name of the cluster on the pages; empty means Kubernetes.
    pub cluster_name: String,
    /// Additional labels of the Service.
    pub service_labels: Map<String, Value>,
}

/// The operator's configuration and the defaults of all jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DefaultConfiguration {
    pub create: bool,
    /// Standard YAML.
    #[serde(rename = "config.yaml")]
    pub config: String,
    /// The old format, `key: value` lines; used if `config.yaml` is empty.
    #[serde(rename = "flink-conf.yaml")]
    pub flink_conf: String,
    /// Append `log4j-console.properties` to the chart's own, instead of replacing it.
    pub append: bool,
    /// Log configuration of all jobs without their own.
    #[serde(rename = "log4j-console.properties")]
    pub log4j_console: String,
    /// The same for `logging.framework: logback`; always replaces the chart's own.
    #[serde(rename = "logback-console.xml")]
    pub logback_console: String,
    #[serde(rename = "log4j-operator.properties", skip_serializing_if = "Option::is_none")]
    log4j_operator: WithoutEffect,
    #[serde(rename = "logback-operator.xml", skip_serializing_if = "Option::is_none")]
    logback_operator: WithoutEffect,
}

impl DefaultConfiguration {
    /// Returns name and text of the file that is used, as in the Java operator's chart since 1.16.
    pub fn file(&self) -> (&'static str, &str) {
        let Self { config, flink_conf, .. } = self;
        if has_content(config) || !has_content(flink_conf) {
            ("config.yaml", config)
        } else {
            ("flink-conf.yaml", flink_conf)
        }
    }

    /// Returns name and text of the log configuration of all jobs, if there is one.
    pub fn log_file(&self, framework: &str) -> Option<(&'static str, String)> {
        if framework == LOGBACK {
            let text = match self.logback_console.trim() {
                "" => DEFAULT_LOGBACK,
                _ => &self.logback_console,
            };
            return Some(("logback-console.xml", text.to_owned()));
        }
        let text = &self.log4j_console;
        if !has_content(text) {
            return None;
        }
        let before = if self.append { format!("{DEFAULT_LOG4J}\n") } else { String::new() };
        Some(("log4j-console.properties", format!("{before}{text}")))
    }
}

/// Logging frameworks of jobs.
pub const FRAMEWORKS: [&str; 2] = ["log4j2", LOGBACK];
const LOGBACK: &str = "logback";

/// The operator's own log, and the framework of jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// `text` or `json`.
    pub format: String,
    /// Levels such as `info` or `warn,kubectl_flink=debug`; empty means the program's default.
    pub levels: String,
    /// The logging framework of Flink's images: `log4j2` or `logback`. Jobs only get the log
    /// configuration of this one.
    pub framework: String,
}

impl Values {
    /// Replaces empty names by their defaults, as in the Java operator's chart.
    #[must_use]
    pub(super) fn named(mut self) -> Self {
        let fullname = match (self.fullname_override.as_str(), self.name_override.as_str()) {
            ("", "") => super::objects::NAME.to_owned(),
            ("", name) | (name, _) => name.to_owned(),
        };
        let rbac = &mut self.rbac;
        let roles = [
            &mut rbac.operator_role,
            &mut rbac.operator_role_binding,
            &mut rbac.job_role,
            &mut rbac.job_role_binding,
        ];
        let accounts = [&mut self.operator_service_account, &mut self.job_service_account];
        let roles = roles.into_iter().map(|it| (it.create, &mut it.name));
        let accounts = accounts.into_iter().map(|it| (it.create, &mut it.name));
        for (is_made, name) in roles.chain(accounts).filter(|(_, name)| name.is_empty()) {
            *name = if is_made { fullname.clone() } else { "default".to_owned() };
        }
        self
    }
}

impl Default for Values {
    fn default() -> Self {
        Self {
            watch_namespaces: Vec::new(),
            job_namespaces: Vec::new(),
            name_override: String::new(),
            fullname_override: String::new(),
            image: Image::default(),
            image_pull_secrets: Vec::new(),
            replicas: 1,
            sharding: Sharding::default(),
            strategy: map(json!({"type": "Recreate"})),
            rbac: Rbac::default(),
            operator_pod: OperatorPod {
                resources: map(json!({
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "2Gi"},
                })),
                ..OperatorPod::default()
            },
            operator_service_account: ServiceAccount {
                create: true,
                annotations: Map::new(),
                name: "flink-operator".to_owned(),
            },
            job_service_account: ServiceAccount {
                create: true,
                annotations: map(json!({"helm.sh/resource-policy": "keep"})),
                name: "flink".to_owned(),
            },
            operator_volume_mounts: Extra::default(),
            operator_volumes: Extra::default(),
            pod_security_context: map(json!({
                "runAsNonRoot": true,
                "runAsUser": 9999,
                "runAsGroup": 9999,
                "fsGroup": 9999,
                "seccompProfile": {"type": "RuntimeDefault"},
            })),
            operator_security_context: map(json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            })),
            operator_health: OperatorHealth::default(),
            metrics: Metrics::default(),
            flink_rest: FlinkRest::default(),
            webhook: Webhook::default(),
            dashboard: Dashboard::default(),
            network_policy: NetworkPolicy::default(),
            default_configuration: DefaultConfiguration::default(),
            logging: Logging::default(),
            jvm_args: None,
            post_start: None,
            tls: None,
            webhook_security_context: None,
            operator_configuration: None,
            global: None,
            enabled: None,
        }
    }
}

impl Default for Image {
    fn default() -> Self {
        Self {
            repository: published(),
            pull_policy: "IfNotPresent".to_owned(),
            tag: String::new(),
            digest: String::new(),
        }
    }
}

impl Default for Rbac {
    fn default() -> Self {
        let named = |name: &str| Named { create: true, name: name.to_owned() };
        Self {
            create: true,
            operator_role: named("flink-operator"),
            operator_role_binding: named("flink-operator-role-binding"),
            job_role: named("flink"),
            job_role_binding: named("flink-role-binding"),
            nodes_rule: Creation { create: false },
            resource_view_rule: Creation { create: false },
            keytabs_rule: Creation { create: false },
        }
    }
}

impl Default for DefaultConfiguration {
    fn default() -> Self {
        Self {
            create: true,
            config: String::new(),
            flink_conf: String::new(),
            append: true,
            log4j_console: String::new(),
            logback_console: String::new(),
            log4j_operator: None,
            logback_operator: None,
        }
    }
}

impl Default for FlinkRest {
    fn default() -> Self {
        Self { tls_secret: String::new(), check_host_name: true }
    }
}

impl Default for OperatorHealth {
    fn default() -> Self {
        Self {
            port: 8085,
            liveness_probe: map(json!({"periodSeconds": 10})),
            readiness_probe: map(json!({"periodSeconds": 5})),
            startup_probe: map(json!({"periodSeconds": 2, "failureThreshold": 60})),
        }
    }
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            create: false,
            failure_policy: "Ignore".to_owned(),
            port: 9443,
            certificate_secret: String::new(),
            ca_bundle: String::new(),
            annotations: Map::new(),
            validator: Creation { create: true },
            mutator: Creation { create: true },
            service_labels: Map::new(),
            keystore: None,
        }
    }
}

impl Default for Dashboard {
    fn default() -> Self {
        Self { enabled: false, port: 8880, cluster_name: String::new(), service_labels: Map::new() }
    }
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            format: "json".to_owned(),
            levels: String::new(),
            framework: FRAMEWORKS[0].to_owned(),
        }
    }
}

/// Returns the entries of a literal map.
fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}
