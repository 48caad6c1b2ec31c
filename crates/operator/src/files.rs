//! Files in the operator's environment that become part of a cluster's objects: a keytab, a `krb5.conf`, Hadoop's
//! configuration. Their contents go to the API server and nowhere else.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::act::Error;
use lifecycle::world::OperatorFile;
use render::files::{FileObject, HADOOP_CONF_FILES, HadoopConf};

/// Maximum number of bytes in one object: Kubernetes accepts no more in a Secret or ConfigMap.
const BYTES_MAX: u64 = 1024 * 1024;

/// Whether this process has the files that resources name.
#[derive(Clone, Debug, Default)]
pub enum Files {
    /// This process is a command; the operator has the files in its own pod.
    #[default]
    Elsewhere,
    /// This process is the operator.
    Here {
        /// Where Hadoop's configuration may be; the first directory that exists is used.
        hadoop_conf: Vec<String>,
    },
}

impl Files {
    /// Returns the files of the operator, by the environment variables `HADOOP_CONF_DIR` and `HADOOP_HOME`.
    pub fn here(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|text| !text.trim().is_empty());
        let hadoop_conf = match set("HADOOP_CONF_DIR") {
            Some(directory) => vec![directory],
            None => set("HADOOP_HOME")
                .map(|home| ["etc/hadoop", "conf"].map(|below| format!("{home}/{below}")))
                .map_or_else(Vec::new, Vec::from),
        };
        Self::Here { hadoop_conf }
    }

    pub(super) fn hadoop_conf(&self) -> Option<HadoopConf> {
        let Self::Here { hadoop_conf } = self else { return None };
        let directory = hadoop_conf.iter().find(|directory| Path::new(directory).is_dir())?;
        let is_there = |name: &&str| Path::new(directory).join(name).is_file();
        let files = HADOOP_CONF_FILES.iter().copied().filter(is_there).map(str::to_owned);
        let files: Vec<String> = files.collect();
        (!files.is_empty()).then(|| HadoopConf { directory: directory.clone(), files })
    }

    pub(super) async fn inspect(&self, path: &str) -> OperatorFile {
        match self {
            Self::Elsewhere => OperatorFile::Elsewhere,
            Self::Here { .. } => match read(path, BYTES_MAX).await {
                Ok(_) => OperatorFile::Readable,
                Err(reason) => OperatorFile::Unusable(reason),
            },
        }
    }

    /// Returns the object that is sent to the API server: without data if the files are elsewhere.
    pub(super) async fn fill(&self, object: &FileObject) -> Result<Value, Error> {
        let mut contents = BTreeMap::new();
        let mut left = BYTES_MAX;
        if let Self::Here { .. } = self {
            for (key, path) in &object.files {
                let content = read(path, left).await;
                let content =
                    content.map_err(|reason| Error::File { path: path.clone(), reason })?;
                left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
                contents.insert(key.clone(), content);
            }
        }
        Ok(object.filled(contents))
    }
}

/// Returns the bytes of a file, or why it cannot be read.
async fn read(path: &str, bytes_max: u64) -> Result<Vec<u8>, String> {
    let emit = |error: std::io::Error| error.to_string();
    // Something that is not a file, such as a pipe, may never end.
    if !tokio::fs::metadata(path).await.map_err(emit)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = tokio::fs::File::open(path).await.map_err(emit)?;
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content).await.map_err(emit)?;
    match content.len() {
        0 => Err("it is empty".to_owned()),
        bytes if u64::try_from(bytes).is_ok_and(|bytes| bytes <= bytes_max) => Ok(content),
        _ => Err("it is too large: a Secret or ConfigMap has room for 1 MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests;
