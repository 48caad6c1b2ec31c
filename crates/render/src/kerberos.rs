//! The keytab and the `krb5.conf` of a cluster's pods.
//!
//! Both are mounted like Flink's client does it, with its names and paths: a native JobManager starts TaskManagers that
//! refer to the same objects, whoever created them. Objects of the user have names that the JobManager does not know.
//! What it would mount is then switched off, and the TaskManagers' template has the mounts.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, KeyToPath, SecretVolumeSource, Volume, VolumeMount,
};
use serde_json::Value;

use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::pod_template::PodTemplate;
use config::option::{ConfigOption, InvalidValue};
use config::{FlinkConfig, options};

use super::files::FileObject;
use super::names::MAIN_CONTAINER;
use super::pod::Pod;
use super::{Cluster, Mode, RenderError, TextMap};

const KEYTAB_DIRECTORY: &str = "/opt/kerberos/kerberos-keytab";
/// Where Java looks for it.
const KRB5_CONF_PATH: &str = "/etc/krb5.conf";
const KRB5_CONF_KEY: &str = "krb5.conf";

/// The Kerberos files of a cluster's pods.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Kerberos {
    pub keytab: Option<Source>,
    pub krb5_conf: Option<Source>,
}

/// Where a file comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Source {
    /// A path in the operator's file system.
    File(String),
    /// A key of an object in the cluster's namespace.
    Object { name: String, key: String },
}

impl Kerberos {
    /// Reads the options. A file is also `None` if the user mounts it without the operator.
    pub fn of(spec: &FlinkDeploymentSpec, config: &FlinkConfig) -> Result<Self, InvalidValue> {
        let is_native = spec.mode.unwrap_or_default() == DeploymentMode::Native;
        let is_left_to_user = is_native && !config.get(&options::KERBEROS_MOUNT_ENABLED)?;
        let file = |option| text(config, option).filter(|_| !is_left_to_user);
        let secret = text(config, &options::KERBEROS_KEYTAB_SECRET);
        let config_map = text(config, &options::KERBEROS_KRB5_CONF_CONFIG_MAP);
        Ok(Self {
            keytab: match secret {
                Some(name) => {
                    let key = config.get(&options::KERBEROS_KEYTAB_SECRET_KEY)?;
                    Some(Source::Object { name, key })
                }
                None => file(&options::KERBEROS_KEYTAB)
                    .filter(|path| is_native || !is_mounted(spec, path))
                    .map(Source::File),
            },
            krb5_conf: match config_map {
                Some(name) => Some(Source::Object { name, key: KRB5_CONF_KEY.to_owned() }),
                None => file(&options::KERBEROS_KRB5_CONF).map(Source::File),
            },
        })
    }

    /// Sets the options by which Flink finds the files in its pods.
    pub(super) fn write_to(&self, mode: Mode, config: &mut FlinkConfig) {
        if let Some(keytab) = &self.keytab {
            let path = format!("{KEYTAB_DIRECTORY}/{}", keytab.key());
            config.force(&options::KERBEROS_KEYTAB, path);
        }
        match &self.krb5_conf {
            // For this path, the JobManager uses the key in the ConfigMap.
            Some(Source::File(_)) => config.force(&options::KERBEROS_KRB5_CONF, KRB5_CONF_PATH),
            Some(Source::Object { .. }) => config.unset(&options::KERBEROS_KRB5_CONF),
            None => {}
        }
        if mode == Mode::Native && self.has_secret_of_user() {
            config.force(&options::KERBEROS_MOUNT_ENABLED, "false");
        }
    }

    /// Returns the mounts that a native JobManager does not give to its TaskManagers.
    pub(super) fn next_to_flink(&self) -> Self {
        if self.has_secret_of_user() {
            return self.clone();
        }
        let is_of_user = |source: &Source| matches!(source, Source::Object { .. });
        Self { keytab: None, krb5_conf: self.krb5_conf.clone().filter(is_of_user) }
    }

    pub fn has_secret_of_user(&self) -> bool {
        matches!(self.keytab, Some(Source::Object { .. }))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keytab.is_none() && self.krb5_conf.is_none()
    }

    pub(super) fn objects(&self, cluster: &Cluster) -> Vec<FileObject> {
        let mut objects = Vec::new();
        if let Some(Source::File(path)) = &self.keytab {
            let files = TextMap::from([(file_name(path).to_owned(), path.clone())]);
            objects.push(FileObject::secret(cluster, keytab_secret(cluster), files));
        }
        if let Some(Source::File(path)) = &self.krb5_conf {
            let files = TextMap::from([(KRB5_CONF_KEY.to_owned(), path.clone())]);
            objects.push(FileObject::config_map(cluster, krb5_conf_config_map(cluster), files));
        }
        objects
    }

    pub(super) fn mount(&self, cluster: &Cluster, pod: &mut Pod) -> Result<(), RenderError> {
        let item = |key: &String, path: &str| {
            vec![KeyToPath { key: key.clone(), path: path.to_owned(), ..KeyToPath::default() }]
        };
        if let Some(keytab) = &self.keytab {
            let (name, items) = match keytab {
                Source::File(_) => (keytab_secret(cluster), None),
                Source::Object { name, key } => (name.clone(), Some(item(key, key))),
            };
            let secret_name = Some(name);
            let source = SecretVolumeSource { secret_name, items, ..Default::default() };
            let name = "kerberos-keytab-volume".to_owned();
            let volume = Volume { name, secret: Some(source), ..Volume::default() };
            pod.mount(volume, KEYTAB_DIRECTORY)?;
        }
        if let Some(krb5_conf) = &self.krb5_conf {
            let name = match krb5_conf {
                Source::File(_) => krb5_conf_config_map(cluster),
                Source::Object { name, .. } => name.clone(),
            };
            let items = Some(item(&KRB5_CONF_KEY.to_owned(), KRB5_CONF_KEY));
            let source = ConfigMapVolumeSource { name, items, ..Default::default() };
            let name = "kerberos-krb5conf-volume".to_owned();
            let mount = VolumeMount {
                name: name.clone(),
                mount_path: KRB5_CONF_PATH.to_owned(),
                sub_path: Some(KRB5_CONF_KEY.to_owned()),
                ..VolumeMount::default()
            };
            pod.mount_as(Volume { name, config_map: Some(source), ..Volume::default() }, mount)?;
        }
        Ok(())
    }
}

impl Source {
    /// Returns the name of the file in the pods.
    fn key(&self) -> &str {
        match self {
            Self::File(path) => file_name(path),
            Self::Object { key, .. } => key,
        }
    }
}

fn keytab_secret(cluster: &Cluster) -> String {
    format!("kerberos-keytab-{}", cluster.id.name)
}

fn krb5_conf_config_map(cluster: &Cluster) -> String {
    format!("kerberos-krb5conf-{}", cluster.id.name)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the trimmed value; `None` if it is blank or absent.
fn text(config: &FlinkConfig, option: &ConfigOption<String>) -> Option<String> {
    let text = config.text_of(option).map(str::trim);
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns true if the pods of both roles get the file from their templates.
fn is_mounted(spec: &FlinkDeploymentSpec, path: &str) -> bool {
    let mounts = |template: Option<&PodTemplate>| template.is_some_and(|it| has_mount(it, path));
    let job_manager = spec.job_manager.as_ref().and_then(|role| role.pod_template.as_ref());
    let task_manager = spec.task_manager.as_ref().and_then(|role| role.pod_template.as_ref());
    mounts(spec.pod_template.as_ref()) || (mounts(job_manager) && mounts(task_manager))
}

fn has_mount(PodTemplate(template): &PodTemplate, path: &str) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let containers = template.get("spec").map(|spec| list(&spec["containers"])).unwrap_or_default();
    let main = containers.iter().filter(|container| container["name"] == MAIN_CONTAINER);
    let mut mounts = main.flat_map(|main| list(&main["volumeMounts"]));
    mounts.any(|mount| mount["mountPath"].as_str().is_some_and(|at| is_below(path, at)))
}

/// Returns true if a path is this folder, or below it.
pub fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns true if the path leads into one of the directories, and not out of it again.
pub fn is_in(path: &str, directories: &[String]) -> bool {
    let leads_out = path.split('/').any(|part| part == "..");
    let mut directories = directories.iter().filter(|it| !it.is_empty() && *it != path);
    !leads_out && directories.any(|directory| is_below(path, directory))
}

#[cfg(test)]
mod tests;
