//! The objects of an installation. The Helm chart in `helm/` creates the same; a test compares the two.

use std::iter;

use serde_json::{Map, Value, json};

use super::rules;
use super::values::{Named, OperatorPod, ServiceAccount, Values};
use ::election::shard::lease_name;

/// Name of the chart, of the operator's Deployment and of its container.
pub const NAME: &str = "kubectl-flink-operator";
/// Where the operator's configuration is mounted.
const CONFIGURATION: &str = "/opt/flink/conf";
/// Where jars of session jobs are kept by default.
const ARTIFACTS: &str = "/opt/flink/artifacts";
/// Maximum size of what is kept there, and below /tmp: the node's disk is everyone's.
const ARTIFACTS_MAX: &str = "8Gi";
const TMP_MAX: &str = "1Gi";
/// Holds the operator's configuration.
pub const CONFIG_MAP: &str = "flink-operator-config";
/// Options that set the log levels and the watched namespaces.
const LOG_LEVELS: &str = "kubernetes.operator.log.levels";
const WATCHED_NAMESPACES: &str = "kubernetes.operator.watched.namespaces";
const DYNAMIC_NAMESPACES: &str = "kubernetes.operator.dynamic.namespaces.enabled";
const PROBE_PORT: &str = "kubernetes.operator.health.probe.port";
const PROBE_PORT_DEFAULT: i32 = 8085;
pub(super) const LEADER_ELECTION: &str = "kubernetes.operator.leader-election.enabled";
pub(super) const LEASE_NAME: &str = "kubernetes.operator.leader-election.lease-name";
/// Names of the ports for probes and metrics.
const HEALTH: &str = "health";
const METRICS: &str = "metrics";
/// Volume of the certificates for calling JobManagers, and where it is mounted.
const FLINK_REST: &str = "flink-rest";
const FLINK_REST_TLS: &str = "/opt/flink/rest-tls";
const RBAC: &str = "rbac.authorization.k8s.io";

/// An installation: its namespace, version and values.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    pub namespace: &'a str,
    /// Version of this program, and of its image.
    pub version: &'a str,
    /// What manages the objects, such as `Helm`.
    pub managed_by: &'a str,
    pub values: &'a Values,
}

impl Release<'_> {
    /// Returns all objects except the definitions of the resources, in an order in which they can be created.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = self.service_accounts();
        if self.values.rbac.create {
            objects.extend(self.operator_rights());
            objects.extend(self.node_rights());
            objects.extend(self.webhook_rights());
            objects.extend(self.dashboard_rights());
            objects.extend(self.job_rights());
        }
        if self.values.default_configuration.create {
            objects.push(self.configuration());
        }
        objects.extend(self.webhook_access());
        objects.extend(self.dashboard_service());
        objects.extend(self.network_policy());
        objects.push(self.deployment());
        // Last, so that they are deleted first: a webhook that does not answer may hold up everyone.
        objects.extend(self.webhook_configurations());
        objects
    }

    /// Returns the name of the operator's Deployment.
    pub fn name(&self) -> &str {
        match self.values.name_override.as_str() {
            "" => NAME,
            name => name,
        }
    }

    /// Returns the labels of every object.
    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.name(),
            "app.kubernetes.io/version": self.version,
            "app.kubernetes.io/managed-by": self.managed_by,
        })
    }

    /// Returns the namespaces for which the jobs' account is created. That of the operator is not one by itself: a job
    /// there could use the operator's account.
    fn job_namespaces(&self) -> Vec<&str> {
        let Values { watch_namespaces, job_namespaces, .. } = self.values;
        let further = job_namespaces.iter().filter(|name| !watch_namespaces.contains(name));
        watch_namespaces.iter().chain(further).map(String::as_str).collect()
    }

    /// Returns the names of the Leases that the pods hold; none if the configuration names another one.
    fn leases(&self) -> Vec<String> {
        if self.configuration_elects() {
            return vec![];
        }
        let shards = u16::try_from(self.values.sharding.shards).unwrap_or_default();
        let of_shards = (0..shards).map(|shard| lease_name(self.name(), shard, shards));
        iter::once(self.name().to_owned()).chain(of_shards).collect()
    }

    pub(super) fn metadata(&self, name: &str, namespace: Option<&str>) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(name));
        if let Some(namespace) = namespace {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        metadata.insert("labels".to_owned(), self.labels());
        metadata
    }

    fn service_accounts(&self) -> Vec<Value> {
        let Values { operator_service_account, job_service_account, .. } = self.values;
        let account = |account: &ServiceAccount, namespace: &str| {
            let mut metadata = self.metadata(&account.name, Some(namespace));
            if !account.annotations.is_empty() {
                metadata.insert("annotations".to_owned(), json!(account.annotations));
            }
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        };
        let mut accounts = Vec::new();
        if operator_service_account.create {
            accounts.push(account(operator_service_account, self.namespace));
        }
        if job_service_account.create {
            accounts
                .extend(self.job_namespaces().iter().map(|it| account(job_service_account, it)));
        }
        accounts
    }

    /// Returns the roles and bindings of the operator: for the whole cluster or for each watched namespace, and for the
    /// Lease in its own.
    fn operator_rights(&self) -> Vec<Value> {
        let rbac = &self.values.rbac;
        let account = (self.values.operator_service_account.name.as_str(), self.namespace);
        let mut objects = Vec::new();
        let mut add = |namespace: Option<&str>, role: &Named, binding: &Named, rules: &[Value]| {
            if role.create {
                objects.push(self.role(&role.name, namespace, rules));
            }
            if binding.create {
                objects.push(self.binding(&binding.name, namespace, &role.name, account));
            }
        };
        let (role, binding) = (&rbac.operator_role, &rbac.operator_role_binding);
        let mut rules = rules::operator();
        if rbac.keytabs_rule.create {
            rules.extend(rules::keytabs());
        }
        if self.values.watch_namespaces.is_empty() {
            if self.values.sharding.shards > 0 {
                rules.extend(rules::namespaces());
            }
            add(None, role, binding, &rules);
        }
        for namespace in &self.values.watch_namespaces {
            add(Some(namespace), role, binding, &rules);
        }
        let of_leader =
            |named: &Named| Named { name: format!("{}-leader", named.name), ..named.clone() };
        let rules = rules::leader(&self.leases());
        add(Some(self.namespace), &of_leader(role), &of_leader(binding), &rules);
        objects
    }

    /// Returns the roles and bindings for reading nodes, which are in no namespace, and the room on them.
    fn node_rights(&self) -> Vec<Value> {
        let rbac = &self.values.rbac;
        let account = (self.values.operator_service_account.name.as_str(), self.namespace);
        let rights = [
            (rbac.nodes_rule, "nodes", rules::nodes()),
            (rbac.resource_view_rule, "resource-view", rules::resource_view()),
        ];
        let mut objects = Vec::new();
        for (_, what, rules) in rights.iter().filter(|(rule, ..)| rule.create) {
            let name = format!("{}-{}-{what}", self.namespace, self.name());
            objects.extend(rbac.operator_role.create.then(|| self.role(&name, None, rules)));
            let is_bound = rbac.operator_role_binding.create;
            objects.extend(is_bound.then(|| self.binding(&name, None, &name, account)));
        }
        objects
    }

    /// Returns the roles and bindings of the jobs, which outlive the installation as the jobs do.
    fn job_rights(&self) -> Vec<Value> {
        let rbac = &self.values.rbac;
        let keep = |mut object: Value| {
            object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
            object
        };
        let mut objects = Vec::new();
        for namespace in self.job_namespaces() {
            let account = (self.values.job_service_account.name.as_str(), namespace);
            let role = &rbac.job_role.name;
            if rbac.job_role.create {
                objects.push(keep(self.role(role, Some(namespace), &rules::jobs())));
            }
            if rbac.job_role_binding.create {
                let name = &rbac.job_role_binding.name;
                objects.push(keep(self.binding(name, Some(namespace), role, account)));
            }
        }
        objects
    }

    pub(super) fn role(&self, name: &str, namespace: Option<&str>, rules: &[Value]) -> Value {
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": role_kind(namespace),
            "metadata": self.metadata(name, namespace),
            "rules": rules,
        })
    }

    pub(super) fn binding(
        &self,
        name: &str,
        namespace: Option<&str>,
        role: &str,
        (account, account_namespace): (&str, &str),
    ) -> Value {
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": format!("{}Binding", role_kind(namespace)),
            "metadata": self.metadata(name, namespace),
            "roleRef": {"apiGroup": RBAC, "kind": role_kind(namespace), "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
        })
    }

    fn configuration(&self) -> Value {
        let (file, text) = self.values.default_configuration.file();
        let mut text = text.to_owned();
        let Values { logging, operator_health, watch_namespaces, .. } = self.values;
        // Unlike a variable, an option may be changed while the operator runs.
        let namespaces =
            if self.follows_namespaces() { watch_namespaces.join(",") } else { String::new() };
        let port = Some(operator_health.port).filter(|port| *port != PROBE_PORT_DEFAULT);
        let port = port.map(|port| port.to_string()).unwrap_or_default();
        for (option, value) in
            [(LOG_LEVELS, &logging.levels), (PROBE_PORT, &port), (WATCHED_NAMESPACES, &namespaces)]
        {
            if !value.is_empty() && !names(&text, option) {
                let line = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                text.extend([line, option, ": ", value.as_str(), "\n"]);
            }
        }
        let mut data = Map::from_iter([(file.to_owned(), json!(text))]);
        let framework = &self.values.logging.framework;
        let log = self.values.default_configuration.log_file(framework);
        data.extend(log.map(|(file, text)| (file.to_owned(), json!(text))));
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.metadata(CONFIG_MAP, Some(self.namespace)),
            "data": data,
        })
    }

    /// Returns the policy that admits nobody but those who need a port. Probes come from the node itself.
    fn network_policy(&self) -> Option<Value> {
        let Values { network_policy, metrics, webhook, dashboard, .. } = self.values;
        let open = [
            (METRICS, metrics.port.is_some(), &network_policy.metrics_from),
            ("webhook", webhook.create, &network_policy.webhook_from),
            ("dashboard", dashboard.enabled, &network_policy.dashboard_from),
        ];
        let rule = |(port, _, from): &(&str, bool, &Vec<Map<String, Value>>)| {
            let mut rule = json!({"ports": [{"port": port}]});
            if !from.is_empty() {
                rule["from"] = json!(from);
            }
            rule
        };
        let rules: Vec<Value> = open.iter().filter(|(_, is_open, _)| *is_open).map(rule).collect();
        network_policy.create.then(|| {
            json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": self.metadata(self.name(), Some(self.namespace)),
                "spec": {
                    "podSelector": {"matchLabels": {"app.kubernetes.io/name": self.name()}},
                    "policyTypes": ["Ingress"],
                    "ingress": rules,
                },
            })
        })
    }

    fn deployment(&self) -> Value {
        let Values { operator_pod, replicas, strategy, .. } = self.values;
        let mut metadata = self.metadata(self.name(), Some(self.namespace));
        let selector = json!({"app.kubernetes.io/name": self.name()});
        let mut labels = self.labels();
        for (name, value) in &operator_pod.labels {
            labels[name] = value.clone();
        }
        metadata.insert("labels".to_owned(), labels.clone());
        let mut pod_metadata = json!({"labels": labels});
        if !operator_pod.annotations.is_empty() {
            pod_metadata["annotations"] = json!(operator_pod.annotations);
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": replicas,
                "strategy": strategy,
                "selector": {"matchLabels": selector},
                "template": {"metadata": pod_metadata, "spec": self.pod()},
            },
        })
    }

    fn pod(&self) -> Value {
        let Values { image_pull_secrets, operator_pod, pod_security_context, .. } = self.values;
        let OperatorPod {
            priority_class_name,
            dns_policy,
            dns_config,
            node_selector,
            affinity,
            tolerations,
            topology_spread_constraints,
            init_containers,
            sidecar_containers,
            ..
        } = operator_pod;
        let mut volumes = vec![
            json!({"name": "artifacts", "emptyDir": {"sizeLimit": ARTIFACTS_MAX}}),
            json!({"name": "tmp", "emptyDir": {"sizeLimit": TMP_MAX}}),
        ];
        if self.values.default_configuration.create {
            volumes.push(json!({"name": "configuration", "configMap": {"name": CONFIG_MAP}}));
        }
        volumes.extend(self.webhook_volume());
        let secret = &self.values.flink_rest.tls_secret;
        if !secret.is_empty() {
            volumes.push(json!({"name": FLINK_REST, "secret": {"secretName": secret}}));
        }
        volumes.extend(self.values.operator_volumes.entries().iter().map(|it| json!(it)));
        let mut pod = Map::new();
        let mut set = |name: &str, value: Value| {
            if !is_empty(&value) {
                pod.insert(name.to_owned(), value);
            }
        };
        set("serviceAccountName", json!(self.values.operator_service_account.name));
        set("imagePullSecrets", json!(image_pull_secrets));
        set("priorityClassName", json!(priority_class_name));
        set("securityContext", json!(pod_security_context));
        set("dnsPolicy", json!(dns_policy));
        set("dnsConfig", json!(dns_config));
        set("nodeSelector", json!(node_selector));
        set("affinity", json!(affinity));
        set("tolerations", json!(tolerations));
        set("topologySpreadConstraints", json!(topology_spread_constraints));
        set("initContainers", json!(init_containers));
        let mut containers = vec![self.container()];
        containers.extend(sidecar_containers.iter().map(|it| json!(it)));
        set("containers", json!(containers));
        set("volumes", json!(volumes));
        Value::Object(pod)
    }

    fn container(&self) -> Value {
        let Values {
            image,
            operator_pod,
            operator_health,
            metrics,
            operator_security_context,
            logging,
            ..
        } = self.values;
        let metrics_port = metrics.port.map(|port| port.to_string());
        let shards = self.values.sharding.shards.to_string();
        // Even with one replica: the pod of a node that is lost may still run.
        let mut arguments = vec!["operate", "--log-format", logging.format.as_str()];
        if !self.configuration_elects() {
            arguments.extend(["--lease-name", self.name()]);
        }
        if self.values.watch_namespaces.is_empty() && !self.configuration_names(WATCHED_NAMESPACES)
        {
            arguments.push("--all-namespaces");
        }
        if self.values.sharding.shards > 0 {
            arguments.extend(["--shards", &shards]);
        }
        let mut ports = vec![json!({"name": HEALTH, "containerPort": operator_health.port})];
        if let Some(port) = metrics_port.as_deref() {
            arguments.extend(["--metrics-port", port]);
            ports.push(json!({"name": METRICS, "containerPort": metrics.port}));
        }
        let of_webhook = self.webhook_arguments();
        arguments.extend(of_webhook.iter().map(String::as_str));
        let of_dashboard = self.dashboard_arguments();
        arguments.extend(of_dashboard.iter().map(String::as_str));
        ports.extend(self.webhook_port());
        ports.extend(self.dashboard_port());
        let mut container = json!({
            "name": self.name(),
            "image": image.reference(self.version),
            "imagePullPolicy": image.pull_policy,
            "args": arguments,
            "env": self.environment(),
            "ports": ports,
            "livenessProbe": probe(&operator_health.liveness_probe, "/livez"),
            "readinessProbe": probe(&operator_health.readiness_probe, "/readyz"),
            "startupProbe": probe(&operator_health.startup_probe, "/startupz"),
            "volumeMounts": self.volume_mounts(),
        });
        for (name, value) in [
            ("envFrom", json!(operator_pod.env_from)),
            ("resources", json!(operator_pod.resources)),
            ("securityContext", json!(operator_security_context)),
        ] {
            if !is_empty(&value) {
                container[name] = value;
            }
        }
        container
    }

    fn volume_mounts(&self) -> Vec<Value> {
        let mut mounts = vec![
            json!({"name": "artifacts", "mountPath": ARTIFACTS}),
            json!({"name": "tmp", "mountPath": "/tmp"}),
        ];
        if self.values.default_configuration.create {
            mounts.push(json!({"name": "configuration", "mountPath": CONFIGURATION}));
        }
        mounts.extend(self.webhook_mount());
        if !self.values.flink_rest.tls_secret.is_empty() {
            mounts.push(json!({"name": FLINK_REST, "mountPath": FLINK_REST_TLS, "readOnly": true}));
        }
        let further = self.values.operator_volume_mounts.entries();
        let is_taken =
            |path: &Value| further.iter().any(|mount| mount.get("mountPath") == Some(path));
        mounts.retain(|mount| !is_taken(&mount["mountPath"]));
        mounts.extend(further.iter().map(|it| json!(it)));
        mounts
    }

    /// Returns `true` if the configuration has this option, which takes precedence over the Deployment.
    fn configuration_names(&self, option: &str) -> bool {
        let configuration = &self.values.default_configuration;
        configuration.create && names(configuration.file().1, option)
    }

    /// Returns `true` if the configuration should name the watched namespaces, because it says that changes of them are
    /// followed.
    fn follows_namespaces(&self) -> bool {
        !self.values.watch_namespaces.is_empty() && self.configuration_turns_on(DYNAMIC_NAMESPACES)
    }

    /// Returns `true` if the configuration itself names the Lease by which the pods elect a leader.
    fn configuration_elects(&self) -> bool {
        self.configuration_names(LEASE_NAME) && self.configuration_turns_on(LEADER_ELECTION)
    }

    fn configuration_turns_on(&self, option: &str) -> bool {
        let configuration = &self.values.default_configuration;
        let mut values = values_of(configuration.file().1, option);
        configuration.create && values.any(|value| value.trim() == "true")
    }

    fn environment(&self) -> Vec<Value> {
        let from = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mut variables = vec![
            from("OPERATOR_NAMESPACE", "metadata.namespace"),
            from("POD_NAME", "metadata.name"),
            // For values of `operatorPod.env`, such as `http://$(HOST_IP):4317`, as in Java's chart.
            from("HOST_IP", "status.hostIP"),
            from("POD_IP", "status.podIP"),
            json!({"name": "OPERATOR_NAME", "value": self.name()}),
        ];
        if self.values.default_configuration.create {
            variables.push(json!({"name": "FLINK_CONF_DIR", "value": CONFIGURATION}));
        }
        if !self.values.watch_namespaces.is_empty() && !self.follows_namespaces() {
            let names = self.values.watch_namespaces.join(",");
            variables.push(json!({"name": "WATCH_NAMESPACES", "value": names}));
        }
        // There is no configuration to write them to.
        if !self.values.logging.levels.is_empty() && !self.values.default_configuration.create {
            let levels = &self.values.logging.levels;
            variables.push(json!({"name": "KUBECTL_FLINK_LOG", "value": levels}));
        }
        if !self.values.flink_rest.tls_secret.is_empty() {
            variables.push(json!({"name": "FLINK_REST_TLS_DIR", "value": FLINK_REST_TLS}));
        }
        if !self.values.flink_rest.check_host_name {
            variables.push(json!({"name": "FLINK_REST_CHECK_HOST_NAME", "value": "false"}));
        }
        variables.extend(self.values.operator_pod.env.iter().map(|it| json!(it)));
        variables
    }
}

/// Returns `true` if a configuration has this option, as one key.
fn names(text: &str, option: &str) -> bool {
    values_of(text, option).next().is_some()
}

/// Returns what follows this option, as one key, in the lines that have it.
pub(super) fn values_of<'t>(text: &'t str, option: &'t str) -> impl Iterator<Item = &'t str> {
    let value = move |line: &'t str| {
        let after = line.trim_start().strip_prefix(option)?;
        after.trim_start().strip_prefix(':')
    };
    text.lines().filter_map(value)
}

/// Returns the probe with its request, unless the values set another one.
fn probe(given: &Map<String, Value>, path: &str) -> Value {
    let mut probe = Map::new();
    probe.insert("httpGet".to_owned(), json!({"path": path, "port": HEALTH}));
    probe.extend(given.clone());
    Value::Object(probe)
}

fn role_kind(namespace: Option<&str>) -> &'static str {
    if namespace.is_some() { "Role" } else { "ClusterRole" }
}

/// Returns `true` if a value need not be written, because the API server uses its default.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
