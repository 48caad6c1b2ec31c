//! Objects whose data are files in the operator's file system.
//!
//! A manifest names the files and does not contain them: the content of a keytab is read when the object is created,
//! and is in no plan, log or diff.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Secret, Volume};
use serde_json::{Value, json};

use super::config_map::items;
use super::{Cluster, TextMap};

/// Files that Flink reads from a directory with Hadoop's configuration.
pub const HADOOP_CONF_FILES: [&str; 2] = ["core-site.xml", "hdfs-site.xml"];

/// A Secret or ConfigMap whose data are files of the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct FileObject {
    /// Complete except for the data.
    pub manifest: Value,
    /// Paths, by the keys of the data.
    pub files: TextMap,
}

impl FileObject {
    pub(super) fn secret(cluster: &Cluster, name: String, files: TextMap) -> Self {
        let metadata = cluster.metadata(name, cluster.labels(), TextMap::new());
        Self { manifest: json!(Secret { metadata, ..Secret::default() }), files }
    }

    pub(super) fn config_map(cluster: &Cluster, name: String, files: TextMap) -> Self {
        let metadata = cluster.metadata(name, cluster.labels(), TextMap::new());
        Self { manifest: json!(ConfigMap { metadata, ..ConfigMap::default() }), files }
    }

    /// Returns the manifest with the content of the files, by key. Text is stored in a ConfigMap as it is, and anything
    /// else in base64.
    pub fn filled(&self, contents: BTreeMap<String, Vec<u8>>) -> Value {
        let mut object = self.manifest.clone();
        for (key, content) in contents {
            match String::from_utf8(content) {
                Ok(text) if object["kind"] == "ConfigMap" => object["data"][key] = text.into(),
                Ok(text) => object["data"][key] = json!(ByteString(text.into_bytes())),
                Err(other) => {
                    let field = if object["kind"] == "ConfigMap" { "binaryData" } else { "data" };
                    object[field][key] = json!(ByteString(other.into_bytes()));
                }
            }
        }
        object
    }
}

/// A directory of the operator with Hadoop's configuration, as named by its environment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HadoopConf {
    pub directory: String,
    /// The existing ones of [`HADOOP_CONF_FILES`]; at least one.
    pub files: Vec<String>,
}

impl HadoopConf {
    pub(super) fn object(&self, cluster: &Cluster) -> FileObject {
        let directory = self.directory.trim_end_matches('/');
        let path = |name: &String| (name.clone(), format!("{directory}/{name}"));
        let files = self.files.iter().map(path).collect();
        FileObject::config_map(cluster, config_map_name(cluster), files)
    }
}

/// Where the pods of a cluster get Hadoop's configuration from.
pub(super) enum Hadoop<'a> {
    /// A ConfigMap of the user.
    ConfigMap(String),
    Files(&'a HadoopConf),
}

impl Hadoop<'_> {
    pub(super) fn volume(&self, cluster: &Cluster) -> Volume {
        let (name, items) = match self {
            Self::ConfigMap(name) => (name.clone(), None),
            Self::Files(conf) => (config_map_name(cluster), Some(items(conf.files.clone()))),
        };
        let source = ConfigMapVolumeSource { name, items, ..ConfigMapVolumeSource::default() };
        let name = "hadoop-config-volume".to_owned();
        Volume { name, config_map: Some(source), ..Volume::default() }
    }
}

/// Returns the name that a native JobManager mounts in its TaskManagers.
fn config_map_name(cluster: &Cluster) -> String {
    format!("hadoop-config-{}", cluster.id.name)
}
