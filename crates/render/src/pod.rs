//! A pod under construction: a template, and what Flink needs laid over it.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Map, Value, json};

use config::FlinkConfig;
use config::memory::MemorySize;
use config::option::{ConfigOption, InvalidValue, OptionValue, PullPolicy};
use config::options;

use super::names::MAIN_CONTAINER;
use super::{Cluster, RenderError, TextMap, config_map};

/// Where Hadoop's configuration is mounted.
const HADOOP_CONF_DIRECTORY: &str = "/opt/hadoop/conf";

/// Metadata, spec and main container of a pod; the main container is kept apart.
pub(super) struct Pod {
    metadata: Map<String, Value>,
    spec: Map<String, Value>,
    main: Map<String, Value>,
}

impl Pod {
    /// Starts from a template. Its `apiVersion`, `kind` and `status` never reach a pod.
    pub(super) fn from_template(mut template: Map<String, Value>) -> Result<Self, RenderError> {
        let metadata = std::mem::take(object(&mut template, "metadata", "metadata")?);
        let mut spec = std::mem::take(object(&mut template, "spec", "spec")?);
        let containers = array(&mut spec, "containers", "spec.containers")?;
        let is_main = |container: &Value| container["name"] == MAIN_CONTAINER;
        let main = match containers.iter().position(is_main).map(|at| containers.remove(at)) {
            Some(Value::Object(main)) => main,
            _ => Map::new(),
        };
        Ok(Self { metadata, spec, main })
    }

    /// The Deployment of such pods, which belongs to the custom resource: sidecars first, the main
    /// container last.
    pub(super) fn into_deployment(
        mut self,
        cluster: &Cluster,
        metadata: ObjectMeta,
        replicas: i32,
        selector: TextMap,
    ) -> Result<Value, RenderError> {
        let _template_name = self.main.insert("name".to_owned(), MAIN_CONTAINER.into());
        array(&mut self.spec, "containers", "spec.containers")?.push(Value::Object(self.main));
        let owner_references = Some(vec![cluster.owner(false)]);
        let spec = DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(selector), ..LabelSelector::default() },
            ..DeploymentSpec::default()
        };
        let mut deployment = json!(Deployment {
            metadata: ObjectMeta { owner_references, ..metadata },
            spec,
            status: None,
        });
        // As JSON, with whatever our types do not know of the user's template.
        deployment["spec"]["template"] = json!({ "metadata": self.metadata, "spec": self.spec });
        Ok(deployment)
    }

    /// Sets a field of the pod's spec.
    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        let _template_value = self.spec.insert(field.to_owned(), value.into());
    }

    /// Sets a field of the pod's spec that the template leaves open.
    pub(super) fn set_default(&mut self, field: &str, value: impl Into<Value>) {
        if is_absent(&self.spec, field) {
            self.set(field, value);
        }
    }

    /// Sets a field of the main container.
    pub(super) fn set_main(&mut self, field: &str, value: impl Into<Value>) {
        let _template_value = self.main.insert(field.to_owned(), value.into());
    }

    /// Sets a field of the main container that the template leaves open.
    pub(super) fn set_main_default(&mut self, field: &str, value: impl Into<Value>) {
        if is_absent(&self.main, field) {
            self.set_main(field, value);
        }
    }

    pub(super) fn lay_labels(&mut self, labels: &TextMap) -> Result<(), RenderError> {
        object(&mut self.metadata, "labels", "metadata.labels")?.extend(to_json(labels));
        Ok(())
    }

    pub(super) fn lay_annotations(&mut self, annotations: &TextMap) -> Result<(), RenderError> {
        if !annotations.is_empty() {
            object(&mut self.metadata, "annotations", "metadata.annotations")?
                .extend(to_json(annotations));
        }
        Ok(())
    }

    /// Adds a variable, in place of one of the same name.
    pub(super) fn add_env(&mut self, variable: Value) -> Result<(), RenderError> {
        let variables = array(&mut self.main, "env", "spec.containers[].env")?;
        variables.retain(|known| known["name"] != variable["name"]);
        variables.push(variable);
        Ok(())
    }

    pub(super) fn add_port(&mut self, name: &str, number: u16) -> Result<(), RenderError> {
        let ports = array(&mut self.main, "ports", "spec.containers[].ports")?;
        ports.retain(|known| known["name"] != name);
        ports.push(json!({ "name": name, "containerPort": number }));
        Ok(())
    }

    /// Adds a volume and mounts it in the main container.
    pub(super) fn mount(&mut self, volume: Value, path: &str) -> Result<(), RenderError> {
        let mount = json!({ "name": volume["name"], "mountPath": path });
        array(&mut self.spec, "volumes", "spec.volumes")?.push(volume);
        array(&mut self.main, "volumeMounts", "spec.containers[].volumeMounts")?.push(mount);
        Ok(())
    }

    /// Whether the template mounts something at or below `path` in the main container.
    pub(super) fn has_mount_below(&self, path: &str) -> bool {
        let mounts = self.main.get("volumeMounts").and_then(Value::as_array);
        mounts.into_iter().flatten().filter_map(|mount| mount["mountPath"].as_str()).any(
            |mounted| {
                let mounted = mounted.trim_end_matches('/');
                mounted
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            },
        )
    }

    pub(super) fn is_set(&self, field: &str) -> bool {
        !is_absent(&self.spec, field)
    }

    /// Pull secrets, node selector and tolerations of a role.
    pub(super) fn place(
        &mut self,
        config: &FlinkConfig,
        node_selector: &ConfigOption<TextMap>,
        tolerations: &ConfigOption<Vec<TextMap>>,
    ) -> Result<(), RenderError> {
        let secrets = config.find(&options::CONTAINER_IMAGE_PULL_SECRETS)?.unwrap_or_default();
        if !secrets.is_empty() {
            array(&mut self.spec, "imagePullSecrets", "spec.imagePullSecrets")?
                .extend(secrets.iter().map(|name| json!({ "name": name })));
        }
        let selector = config.find(node_selector)?.unwrap_or_default();
        if !selector.is_empty() {
            object(&mut self.spec, "nodeSelector", "spec.nodeSelector")?.extend(to_json(&selector));
        }
        let tolerations_set = config.find(tolerations)?.unwrap_or_default();
        for toleration in &tolerations_set {
            let toleration = toleration_of(toleration, tolerations)?;
            array(&mut self.spec, "tolerations", "spec.tolerations")?.push(toleration);
        }
        Ok(())
    }

    /// CPU and memory, over whatever the template says about these two.
    pub(super) fn set_resources(&mut self, resources: &Resources) -> Result<(), RenderError> {
        let Resources { cpu, cpu_limit, memory_mebibytes, memory_limit_mebibytes } = *resources;
        let container = object(&mut self.main, "resources", "spec.containers[].resources")?;
        for (group, cpu, memory) in
            [("requests", cpu, memory_mebibytes), ("limits", cpu_limit, memory_limit_mebibytes)]
        {
            let path = format!("spec.containers[].resources.{group}");
            let entries = object(container, group, &path)?;
            let _template_cpu = entries.insert("cpu".to_owned(), cores(cpu).into());
            let _template_memory =
                entries.insert("memory".to_owned(), format!("{memory}Mi").into());
        }
        Ok(())
    }

    /// `containerized.<role>.env.*`, in the order of the names.
    pub(super) fn add_role_env(
        &mut self,
        config: &FlinkConfig,
        prefix: &str,
    ) -> Result<(), RenderError> {
        for (name, value) in config.below(prefix) {
            self.add_env(json!({ "name": name, "value": value }))?;
        }
        Ok(())
    }

    /// Log directory and secrets as variables.
    pub(super) fn add_common_env(&mut self, config: &FlinkConfig) -> Result<(), RenderError> {
        if let Some(directory) = config.find(&options::FLINK_LOG_DIRECTORY)? {
            self.add_env(json!({ "name": "FLINK_LOG_DIR", "value": directory }))?;
        }
        for reference in config.find(&options::ENV_SECRET_KEY_REFS)?.unwrap_or_default() {
            let (Some(name), Some(secret), Some(key)) =
                (reference.get("env"), reference.get("secret"), reference.get("key"))
            else {
                let key = options::ENV_SECRET_KEY_REFS.key();
                let text = config.text_of(&options::ENV_SECRET_KEY_REFS).unwrap_or_default();
                let expected = "`env:NAME,secret:SECRET,key:KEY`, several separated by `;`";
                return Err(InvalidValue::new(key, text, expected).into());
            };
            let source = json!({ "secretKeyRef": { "name": secret, "key": key } });
            self.add_env(json!({ "name": name, "valueFrom": source }))?;
        }
        if config.is_set(&options::HADOOP_CONF_CONFIG_MAP) {
            self.add_env(json!({ "name": "HADOOP_CONF_DIR", "value": HADOOP_CONF_DIRECTORY }))?;
        }
        Ok(())
    }

    /// Secrets, Hadoop's configuration and Flink's, in this order.
    pub(super) fn mount_common(
        &mut self,
        cluster: &Cluster,
        config: &FlinkConfig,
    ) -> Result<(), RenderError> {
        for (secret, path) in config.find(&options::SECRETS)?.unwrap_or_default() {
            let name = format!("{secret}-volume");
            self.mount(json!({ "name": name, "secret": { "secretName": secret } }), &path)?;
        }
        if let Some(name) = config.find(&options::HADOOP_CONF_CONFIG_MAP)? {
            let volume = json!({ "name": "hadoop-config-volume", "configMap": { "name": name } });
            self.mount(volume, HADOOP_CONF_DIRECTORY)?;
        }
        let directory = config.get(&options::FLINK_CONF_DIRECTORY)?;
        self.mount(json!(config_map::flink_volume(cluster, config)), &directory)
    }
}

/// CPU in cores and memory in MiB of a container.
pub(super) struct Resources {
    cpu: f64,
    cpu_limit: f64,
    memory_mebibytes: u64,
    memory_limit_mebibytes: u64,
}

impl Resources {
    pub(super) fn new(
        config: &FlinkConfig,
        cpu: f64,
        memory: MemorySize,
        cpu_limit_factor: &ConfigOption<f64>,
        memory_limit_factor: &ConfigOption<f64>,
    ) -> Result<Self, InvalidValue> {
        Ok(Self {
            cpu,
            cpu_limit: cpu * limit_factor(config, cpu_limit_factor)?,
            memory_mebibytes: memory.mebibytes(),
            memory_limit_mebibytes: scaled(
                memory.mebibytes(),
                limit_factor(config, memory_limit_factor)?,
            ),
        })
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Flink cuts the product of doubles too; a float cast saturates"
)]
fn scaled(mebibytes: u64, factor: f64) -> u64 {
    // A factor is a quotient: 1.536 times 1000 must not end as 1535.
    (mebibytes as f64 * factor + 1e-6) as u64
}

/// Cores as a quantity, which knows no more than nine digits.
fn cores(number: f64) -> String {
    format!("{:?}", (number * 1e9).round() / 1e9)
}

/// A limit below the request is refused by Kubernetes, so it is refused here.
fn limit_factor(config: &FlinkConfig, option: &ConfigOption<f64>) -> Result<f64, InvalidValue> {
    let factor = config.get(option)?;
    if factor < 1.0 {
        let text = config.text_of(option).unwrap_or_default();
        return Err(InvalidValue::new(option.key(), text, "a number of at least 1.0"));
    }
    Ok(factor)
}

/// The image that the configuration names, if any, else Flink's default for the stated version.
pub(super) fn image(cluster: &Cluster, config: &FlinkConfig) -> Result<ImageChoice, InvalidValue> {
    if let Some(image) =
        config.find(&options::CONTAINER_IMAGE)?.filter(|image| !image.trim().is_empty())
    {
        return Ok(ImageChoice::Configured(image));
    }
    let version = cluster.spec.flink_version.map_or("latest".to_owned(), |version| {
        format!("{}-scala_2.12", version.as_str().trim_start_matches('v').replace('_', "."))
    });
    Ok(ImageChoice::Default(format!("apache/flink:{version}")))
}

/// Where an image comes from decides whether a template's wins.
pub(super) enum ImageChoice {
    Configured(String),
    Default(String),
}

/// The pull policy that the configuration sets.
pub(super) fn configured_pull_policy(
    config: &FlinkConfig,
) -> Result<Option<PullPolicy>, InvalidValue> {
    if config.is_set(&options::CONTAINER_IMAGE_PULL_POLICY) {
        return config.find(&options::CONTAINER_IMAGE_PULL_POLICY);
    }
    Ok(None)
}

fn toleration_of(
    toleration: &TextMap,
    option: &ConfigOption<Vec<TextMap>>,
) -> Result<Value, InvalidValue> {
    let mut object = Map::new();
    for (field, text) in toleration {
        let value = match field.as_str() {
            "key" | "operator" | "value" | "effect" => Value::String(text.clone()),
            "tolerationSeconds" => i64::parse(text)
                .map(Value::from)
                .ok_or_else(|| InvalidValue::new(option.key(), text, "whole tolerationSeconds"))?,
            // Flink ignores what it does not know.
            _ => continue,
        };
        let _never_twice = object.insert(field.clone(), value);
    }
    Ok(Value::Object(object))
}

fn to_json(entries: &TextMap) -> Map<String, Value> {
    entries.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

fn is_absent(object: &Map<String, Value>, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

/// The object under `key`, made when absent.
pub(super) fn object<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    path: &str,
) -> Result<&'a mut Map<String, Value>, RenderError> {
    let entry = parent.entry(key).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    entry
        .as_object_mut()
        .ok_or_else(|| RenderError::PodTemplate { path: path.to_owned(), expected: "an object" })
}

/// The list under `key`, made when absent.
pub(super) fn array<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    path: &str,
) -> Result<&'a mut Vec<Value>, RenderError> {
    let entry = parent.entry(key).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Array(Vec::new());
    }
    entry
        .as_array_mut()
        .ok_or_else(|| RenderError::PodTemplate { path: path.to_owned(), expected: "a list" })
}
