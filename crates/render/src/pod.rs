//! A pod under construction: a template, overlaid with what Flink needs.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, LocalObjectReference, PodSpec,
    ResourceRequirements, SecretKeySelector, SecretVolumeSource, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::{Map, Value, json};

use config::FlinkConfig;
use config::memory::MemorySize;
use config::option::{ConfigOption, InvalidValue, OptionValue, PullPolicy};
use config::options;

use super::names::MAIN_CONTAINER;
use super::{Cluster, RenderError, TextMap, config_map, owner};

/// Where Hadoop's configuration is mounted.
const HADOOP_CONF_DIRECTORY: &str = "/opt/hadoop/conf";

/// Metadata, spec and main container of a pod; the main container is kept separately.
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

    /// Returns a Deployment of these pods, owned by the custom resource. Sidecars come first, the main container last.
    pub(super) fn into_deployment(
        mut self,
        cluster: &Cluster,
        metadata: ObjectMeta,
        replicas: i32,
        selector: TextMap,
    ) -> Result<Value, RenderError> {
        let (labels, annotations) = (metadata.labels.clone(), metadata.annotations.clone());
        let of_pods = ObjectMeta { labels, annotations, ..ObjectMeta::default() };
        lay(&mut self.metadata, json!(of_pods), "metadata")?;
        array(&mut self.spec, "containers", "spec.containers")?.push(Value::Object(self.main));
        let owner_references = Some(vec![owner(&cluster.id.name, &cluster.id.uid, false)]);
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
        // As JSON, to keep fields of the user's template that the types do not know.
        deployment["spec"]["template"] = json!({ "metadata": self.metadata, "spec": self.spec });
        Ok(deployment)
    }

    /// Returns the template of these pods, with the main container last.
    pub(super) fn into_template(mut self) -> Result<Map<String, Value>, RenderError> {
        array(&mut self.spec, "containers", "spec.containers")?.push(Value::Object(self.main));
        let (metadata, spec) = (self.metadata, self.spec);
        Ok(fields(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})))
    }

    /// Overlays fields of the pod's spec.
    pub(super) fn lay_spec(&mut self, own: PodSpec) -> Result<(), RenderError> {
        lay(&mut self.spec, json!(own), "spec")
    }

    /// Overlays fields of the main container.
    pub(super) fn lay_main(&mut self, own: Container) -> Result<(), RenderError> {
        let own = Container { name: MAIN_CONTAINER.to_owned(), ..own };
        lay(&mut self.main, json!(own), "spec.containers[]")
    }

    /// Sets fields of the main container that the template leaves open.
    pub(super) fn set_main_defaults(&mut self, defaults: Container) {
        for (field, value) in fields(json!(defaults)) {
            if is_absent(&self.main, &field) {
                let _null = self.main.insert(field, value);
            }
        }
    }

    /// Sets the service account from the role's option, or the one for all pods, or else `fallback`.
    pub(super) fn set_service_account(
        &mut self,
        config: &FlinkConfig,
        role: &ConfigOption<String>,
        fallback: Option<&str>,
    ) -> Result<(), RenderError> {
        let account = match config.find(role)? {
            Some(account) => Some(account),
            None => config.find(&options::SERVICE_ACCOUNT)?,
        };
        let service_account = account.or_else(|| fallback.map(str::to_owned));
        let service_account_name = service_account.clone();
        self.lay_spec(PodSpec { service_account, service_account_name, ..PodSpec::default() })
    }

    /// Adds a volume and mounts it in the main container.
    pub(super) fn mount(&mut self, volume: Volume, path: &str) -> Result<(), RenderError> {
        let (name, mount_path) = (volume.name.clone(), path.to_owned());
        self.mount_as(volume, VolumeMount { name, mount_path, ..VolumeMount::default() })
    }

    /// Like [`Self::mount`], with other settings of the mount.
    pub(super) fn mount_as(
        &mut self,
        volume: Volume,
        mount: VolumeMount,
    ) -> Result<(), RenderError> {
        self.lay_spec(PodSpec { volumes: Some(vec![volume]), ..PodSpec::default() })?;
        self.lay_main(Container { volume_mounts: Some(vec![mount]), ..Container::default() })
    }

    /// Returns true if the template mounts something at or below `path` in the main container.
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

    /// Sets pull secrets, node selector and tolerations of a role.
    pub(super) fn place(
        &mut self,
        config: &FlinkConfig,
        node_selector: &ConfigOption<TextMap>,
        tolerations: &ConfigOption<Vec<TextMap>>,
    ) -> Result<(), RenderError> {
        let secrets = config.find(&options::CONTAINER_IMAGE_PULL_SECRETS)?.unwrap_or_default();
        let set = config.find(tolerations)?.unwrap_or_default();
        let set = set.iter().map(|toleration| toleration_of(toleration, tolerations));
        let secrets = secrets.into_iter().map(|name| LocalObjectReference { name });
        self.lay_spec(PodSpec {
            image_pull_secrets: Some(secrets.collect()),
            node_selector: config.find(node_selector)?,
            tolerations: Some(set.collect::<Result<_, _>>()?),
            ..PodSpec::default()
        })
    }

    /// Mounts Secrets, Hadoop's configuration, Kerberos and Flink's configuration, in this order.
    pub(super) fn mount_common(
        &mut self,
        cluster: &Cluster,
        config: &FlinkConfig,
    ) -> Result<(), RenderError> {
        for (secret, path) in config.find(&options::SECRETS)?.unwrap_or_default() {
            let name = format!("{secret}-volume");
            let source = SecretVolumeSource { secret_name: Some(secret), ..Default::default() };
            self.mount(Volume { name, secret: Some(source), ..Volume::default() }, &path)?;
        }
        if let Some(hadoop) = &cluster.hadoop {
            self.mount(hadoop.volume(cluster), HADOOP_CONF_DIRECTORY)?;
            let env = Some(vec![variable("HADOOP_CONF_DIR", HADOOP_CONF_DIRECTORY)]);
            self.lay_main(Container { env, ..Container::default() })?;
        }
        cluster.kerberos.mount(cluster, self)?;
        let directory = config.get(&options::FLINK_CONF_DIRECTORY)?;
        self.mount(config_map::flink_volume(cluster, config), &directory)
    }
}

/// Overlays a template with our own fields: objects are merged field by field; lists of objects get ours at the end,
/// except that variables and ports replace those of the same name; any other value is replaced. Empty values change
/// nothing.
fn lay(template: &mut Map<String, Value>, own: Value, path: &str) -> Result<(), RenderError> {
    for (field, value) in fields(own) {
        let path = format!("{path}.{field}");
        if value == json!({}) || value == json!([]) {
            continue;
        }
        if value.is_object() {
            lay(object(template, &field, &path)?, value, &path)?;
        } else if value[0].is_object() {
            let list = array(template, &field, &path)?;
            for value in value.as_array().into_iter().flatten() {
                if ["env", "ports"].contains(&field.as_str()) {
                    list.retain(|known| known["name"] != value["name"]);
                }
                list.push(value.clone());
            }
        } else {
            let _template_value = template.insert(field, value);
        }
    }
    Ok(())
}

/// Returns the fields that are set in one of Kubernetes' types.
pub(super) fn fields(object: Value) -> Map<String, Value> {
    let Value::Object(fields) = object else { return Map::new() };
    fields
}

pub(super) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

/// Returns `containerized.<role>.env.*` sorted by name, the role's `own` variables, the log directory and secrets.
pub(super) fn env(
    config: &FlinkConfig,
    prefix: &str,
    own: Option<EnvVar>,
) -> Result<Vec<EnvVar>, InvalidValue> {
    let variables = config.below(prefix).map(|(name, value)| variable(name, value));
    let mut env: Vec<_> = variables.chain(own).collect();
    let directory = config.find(&options::FLINK_LOG_DIRECTORY)?;
    env.extend(directory.map(|directory| variable("FLINK_LOG_DIR", &directory)));
    for mut reference in config.find(&options::ENV_SECRET_KEY_REFS)?.unwrap_or_default() {
        let mut part = |name| reference.remove(name);
        let (Some(name), Some(secret), Some(key)) = (part("env"), part("secret"), part("key"))
        else {
            let key = options::ENV_SECRET_KEY_REFS.key();
            let text = config.text_of(&options::ENV_SECRET_KEY_REFS).unwrap_or_default();
            let expected = "`env:NAME,secret:SECRET,key:KEY`, several separated by `;`";
            return Err(InvalidValue::new(key, text, expected));
        };
        let key = SecretKeySelector { key, name: secret, optional: None };
        let source = EnvVarSource { secret_key_ref: Some(key), ..EnvVarSource::default() };
        env.push(EnvVar { name, value: None, value_from: Some(source) });
    }
    Ok(env)
}

pub(super) fn container_port(name: &str, number: u16) -> ContainerPort {
    let container_port = number.into();
    ContainerPort { name: Some(name.to_owned()), container_port, ..ContainerPort::default() }
}

/// Returns CPU in cores and memory, each with its limit.
pub(super) fn resources(
    config: &FlinkConfig,
    cpu: f64,
    memory: MemorySize,
    cpu_limit_factor: &ConfigOption<f64>,
    memory_limit_factor: &ConfigOption<f64>,
) -> Result<ResourceRequirements, InvalidValue> {
    let cpu_limit = cpu * limit_factor(config, cpu_limit_factor)?;
    let memory = memory.mebibytes();
    let memory_limit = scaled(memory, limit_factor(config, memory_limit_factor)?);
    Ok(ResourceRequirements {
        requests: Some(quantities(&cores(cpu), &format!("{memory}Mi"))),
        limits: Some(quantities(&cores(cpu_limit), &format!("{memory_limit}Mi"))),
        claims: None,
    })
}

pub(super) fn quantities(cpu: &str, memory: &str) -> BTreeMap<String, Quantity> {
    let quantities = [("cpu", cpu), ("memory", memory)];
    quantities.map(|(name, text)| (name.to_owned(), Quantity(text.to_owned()))).into()
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Flink cuts the product of doubles too; a float cast saturates"
)]
fn scaled(mebibytes: u64, factor: f64) -> u64 {
    // The factor is a quotient: 1.536 times 1000 must not become 1535.
    (mebibytes as f64 * factor + 1e-6) as u64
}

/// Formats cores as a quantity, which has at most nine decimal places.
fn cores(number: f64) -> String {
    format!("{:?}", (number * 1e9).round() / 1e9)
}

/// Returns the factor of a limit. Kubernetes refuses a limit below the request, so it is refused here.
fn limit_factor(config: &FlinkConfig, option: &ConfigOption<f64>) -> Result<f64, InvalidValue> {
    let factor = config.get(option)?;
    if factor < 1.0 {
        let text = config.text_of(option).unwrap_or_default();
        return Err(InvalidValue::new(option.key(), text, "a number of at least 1.0"));
    }
    Ok(factor)
}

/// Returns the image from the configuration, or else Flink's default for the version.
pub(super) fn image(cluster: &Cluster, config: &FlinkConfig) -> Result<ImageChoice, InvalidValue> {
    if let Some(image) =
        config.find(&options::CONTAINER_IMAGE)?.filter(|image| !image.trim().is_empty())
    {
        return Ok(ImageChoice::Configured(image));
    }
    let version = cluster.spec.flink_version.map_or("latest".to_owned(), |version| {
        format!("{}-scala_2.12", version.into_str().trim_start_matches('v').replace('_', "."))
    });
    Ok(ImageChoice::Default(format!("apache/flink:{version}")))
}

/// The source of an image, which decides whether the image of a template takes precedence.
pub(super) enum ImageChoice {
    Configured(String),
    Default(String),
}

/// Returns the pull policy from the configuration.
pub(super) fn configured_pull_policy(
    config: &FlinkConfig,
) -> Result<Option<PullPolicy>, InvalidValue> {
    if config.is_set(&options::CONTAINER_IMAGE_PULL_POLICY) {
        return config.find(&options::CONTAINER_IMAGE_PULL_POLICY);
    }
    Ok(None)
}

/// Parses a toleration. Flink ignores unknown fields.
fn toleration_of(
    toleration: &TextMap,
    option: &ConfigOption<Vec<TextMap>>,
) -> Result<Toleration, InvalidValue> {
    let text = |field| toleration.get(field).cloned();
    let seconds = toleration.get("tolerationSeconds").map(|text| {
        i64::parse(text).ok_or_else(|| {
            InvalidValue::new(option.key(), text, "an integer for tolerationSeconds")
        })
    });
    Ok(Toleration {
        key: text("key"),
        operator: text("operator"),
        value: text("value"),
        effect: text("effect"),
        toleration_seconds: seconds.transpose()?,
    })
}

fn is_absent(object: &Map<String, Value>, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

/// Returns the object under `key`, creating it if absent.
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

/// Returns the list under `key`, creating it if absent.
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
