//! From a cluster's spec and configuration to the Kubernetes objects that run it.
//!
//! The same input gives the same objects, byte for byte: ids that belong to one submission come in through
//! [`Submission`]. What this crate adds is built from Kubernetes' types, so that a misspelt field does not compile.
//! Objects are JSON values, so that no field of a pod template is lost because those types do not know it.

mod config_map;
pub mod files;
pub mod ingress;
mod job_manager;
pub mod kerberos;
pub mod logging;
pub mod names;
mod pod;
pub mod pod_template;
pub mod preflight;
mod service;
pub mod sql_gateway;
mod submission;
mod task_manager;

pub use submission::Submission;

use std::collections::BTreeMap;

use k8s_openapi::Resource as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use self::files::{FileObject, Hadoop, HadoopConf};
use self::kerberos::Kerberos;
use self::pod::Pod;
use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use config::cluster::{ResourceId, is_high_availability_on};
use config::file::KeyConflict;
use config::option::InvalidValue;
use config::{FlinkConfig, options};

type TextMap = BTreeMap<String, String>;

/// The input for the objects.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    pub id: &'a ResourceId,
    pub spec: &'a FlinkDeploymentSpec,
    /// The deploy configuration, see [`config::cluster::deploy_config`].
    pub config: &'a FlinkConfig,
    pub submission: &'a Submission,
    /// The operator's own Hadoop configuration, for clusters that name none.
    pub hadoop_conf: Option<&'a HadoopConf>,
}

/// Why the objects could not be rendered. Nothing of the cluster has been touched.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    InvalidValue(#[from] InvalidValue),
    #[error(transparent)]
    KeyConflict(#[from] KeyConflict),
    /// A pod template is not shaped like a pod.
    #[error("invalid pod template: `{path}` must be {expected}")]
    PodTemplate {
        /// Path within the template, such as `spec.containers`.
        path: String,
        expected: &'static str,
    },
    #[error(
        "`{key}` names `{path}`, and the operator has read no pod template there. It reads only \
         files that its own configuration names, in its own pod: mount it there, or set \
         `spec.podTemplate` instead"
    )]
    UnreadTemplate { key: String, path: String },
    #[error("`{path}` is not a pod template: {reason}")]
    TemplateFile { path: String, reason: String },
}

/// The objects of one cluster, each complete with `apiVersion` and `kind`.
///
/// ConfigMaps are created before the Deployments, so that no pod waits for one, and get their owner once the
/// Deployment's uid is known: see [`Objects::owned_by`].
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    /// The Flink configuration, then the TaskManager template if there is one.
    pub config_maps: Vec<Value>,
    /// The keytab, the `krb5.conf` and Hadoop's configuration, if they are files of the operator.
    pub file_objects: Vec<FileObject>,
    /// The JobManager, owned by the custom resource.
    pub deployment: Value,
    /// The TaskManagers of a standalone cluster, owned by the custom resource.
    pub task_managers: Option<Value>,
    /// The internal Service, if there is one, and the REST Service.
    pub services: Vec<Value>,
    /// Owned by the custom resource.
    pub ingress: Option<Value>,
}

impl Objects {
    /// Iterates over all objects in the order of their creation, without the content of files.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        let Self { config_maps, file_objects, deployment, task_managers, services, ingress } = self;
        let of_files = file_objects.iter().map(|object| &object.manifest);
        let first = config_maps.iter().chain(of_files).chain([deployment]);
        first.chain(task_managers).chain(services).chain(ingress)
    }

    /// Returns the objects with ConfigMaps, Secrets and Services owned by the JobManager Deployment with
    /// this uid.
    #[must_use]
    pub fn owned_by(mut self, deployment_uid: &str) -> Self {
        let owner = OwnerReference {
            api_version: Deployment::API_VERSION.to_owned(),
            kind: Deployment::KIND.to_owned(),
            name: self.deployment["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            uid: deployment_uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let of_files = self.file_objects.iter_mut().map(|object| &mut object.manifest);
        for object in self.config_maps.iter_mut().chain(of_files).chain(&mut self.services) {
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        self
    }
}

/// Renders all objects of a cluster.
pub fn render_cluster(input: &RenderInput) -> Result<Objects, RenderError> {
    Draft::new(input)?.objects()
}

/// A cluster with its configuration as it will be submitted.
struct Draft<'a> {
    cluster: Cluster<'a>,
    config: FlinkConfig,
    /// The template of JobManager pods.
    job_manager: Option<Map<String, Value>>,
    /// The template of TaskManager pods.
    template: Option<Map<String, Value>>,
    /// The same for a native JobManager, with what Flink does not mount by itself.
    native_template: Option<Map<String, Value>>,
}

impl<'a> Draft<'a> {
    fn new(input: &RenderInput<'a>) -> Result<Self, RenderError> {
        let RenderInput { id, spec, config, submission, hadoop_conf } = *input;
        let mut config = config.clone();
        if spec.job.is_some() {
            submission.write_to(id, spec.flink_version, &mut config)?;
        }
        let mode = Mode::of(spec);
        let kerberos = Kerberos::of(spec, &config)?;
        let hadoop = hadoop(mode, &config, hadoop_conf)?;
        let cluster = Cluster { id, spec, mode, kerberos, hadoop };
        let job_manager = pod_template::job_manager(spec, &config)?;
        let template = pod_template::task_manager(spec, &config)?;
        let mut native_template = template.clone().filter(|_| mode == Mode::Native);
        let next_to_flink = cluster.kerberos.next_to_flink();
        if mode == Mode::Native && !next_to_flink.is_empty() {
            let mut pod = Pod::from_template(native_template.unwrap_or_default())?;
            next_to_flink.mount(&cluster, &mut pod)?;
            native_template = Some(pod.into_template()?);
        }
        cluster.kerberos.write_to(mode, &mut config);
        submission::write_addresses(&cluster, &mut config)?;
        submission::write_mode(&cluster, &mut config);
        submission::write_template_path(&cluster, native_template.is_some(), &mut config);
        Ok(Self { cluster, config, job_manager, template, native_template })
    }

    fn config_maps(&self) -> Result<Vec<Value>, RenderError> {
        let template = self.native_template.as_ref();
        let flink = config_map::flink(&self.cluster, &self.config)?;
        let template = template.map(|template| config_map::template(&self.cluster, template));
        Ok([flink].into_iter().chain(template).collect())
    }

    fn job_manager(&self) -> Result<Value, RenderError> {
        let has_template_map = self.native_template.is_some();
        let template = self.job_manager.as_ref();
        job_manager::deployment(&self.cluster, &self.config, template, has_template_map)
    }

    /// Returns the TaskManagers' Deployment; for a native cluster, one with the pods that its JobManager creates.
    fn task_managers(&self) -> Result<Value, RenderError> {
        task_manager::deployment(&self.cluster, &self.config, self.template.as_ref())
    }

    fn objects(&self) -> Result<Objects, RenderError> {
        let is_standalone = self.cluster.mode == Mode::Standalone;
        Ok(Objects {
            deployment: self.job_manager()?,
            config_maps: self.config_maps()?,
            file_objects: self.cluster.file_objects(),
            task_managers: is_standalone.then(|| self.task_managers()).transpose()?,
            services: service::all(&self.cluster, &self.config)?,
            ingress: ingress::render(&self.cluster, &self.config)?,
        })
    }
}

/// Returns the source of Hadoop's configuration. A native JobManager whose decorator is off mounts none in its
/// TaskManagers.
fn hadoop<'a>(
    mode: Mode,
    config: &FlinkConfig,
    of_operator: Option<&'a HadoopConf>,
) -> Result<Option<Hadoop<'a>>, InvalidValue> {
    if mode == Mode::Native && !config.get(&options::HADOOP_CONF_MOUNT_ENABLED)? {
        return Ok(None);
    }
    let named = config.find(&options::HADOOP_CONF_CONFIG_MAP)?;
    let named = named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    Ok(named.map(Hadoop::ConfigMap).or(of_operator.map(Hadoop::Files)))
}

/// Who starts TaskManagers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Native,
    Standalone,
}

impl Mode {
    fn of(spec: &FlinkDeploymentSpec) -> Self {
        match spec.mode.unwrap_or_default() {
            DeploymentMode::Native => Self::Native,
            DeploymentMode::Standalone => Self::Standalone,
        }
    }
}

/// What every object is rendered from.
struct Cluster<'a> {
    id: &'a ResourceId,
    spec: &'a FlinkDeploymentSpec,
    mode: Mode,
    kerberos: Kerberos,
    hadoop: Option<Hadoop<'a>>,
}

impl Cluster<'_> {
    fn file_objects(&self) -> Vec<FileObject> {
        let mut objects = self.kerberos.objects(self);
        if let Some(Hadoop::Files(conf)) = &self.hadoop {
            objects.push(conf.object(self));
        }
        objects
    }

    fn is_application(&self) -> bool {
        self.spec.job.is_some()
    }

    /// Returns true if there is an internal Service. Native JobManagers with high availability find each other without
    /// it.
    fn has_internal_service(&self, config: &FlinkConfig) -> bool {
        self.mode == Mode::Standalone || !is_high_availability_on(config)
    }

    /// Returns the labels of Services and ConfigMaps.
    fn labels(&self) -> TextMap {
        text_map([("app", &self.id.name), ("type", self.type_label())])
    }

    /// Returns the labels that select the pods of one role.
    fn selector(&self, component: &str) -> TextMap {
        let mut labels = self.labels();
        let _absent = labels.insert(names::COMPONENT_LABEL.to_owned(), component.to_owned());
        labels
    }

    fn type_label(&self) -> &'static str {
        match self.mode {
            Mode::Native => "flink-native-kubernetes",
            Mode::Standalone => "flink-standalone-kubernetes",
        }
    }

    fn metadata(&self, name: String, labels: TextMap, annotations: TextMap) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.id.namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        }
    }
}

/// Returns an owner reference to the custom resource.
fn owner(name: &str, uid: &str, is_controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: api::API_VERSION.to_owned(),
        kind: "FlinkDeployment".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(is_controller),
        block_owner_deletion: Some(true),
    }
}

/// Returns an owner reference for a pod next to the cluster, which does not block the deletion of the custom resource.
fn extra_owner(name: &str, uid: &str) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(false), ..owner(name, uid, false) }
}

/// Returns the labels of an object next to a cluster, by its purpose. Flink, Services and the operator select by none
/// of them.
fn extra_labels(name: &str, cluster: &str) -> TextMap {
    text_map([
        (names::NAME_LABEL, name),
        (names::INSTANCE_LABEL, cluster),
        ("app.kubernetes.io/managed-by", "kubectl-flink"),
    ])
}

/// Returns the selector for [`extra_labels`].
fn extra_selector(name: &str, cluster: &str) -> String {
    format!("{}={name},{}={cluster}", names::NAME_LABEL, names::INSTANCE_LABEL)
}

fn text_map<const N: usize>(entries: [(&str, &str); N]) -> TextMap {
    entries.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[cfg(test)]
mod tests;
