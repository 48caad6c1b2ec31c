//! Folders in which Flink keeps state: listed page by page within limits, read and removed.
//!
//! A listing is complete or an [`Error`]. Only listed files are removed. The file that marks a folder as a savepoint or
//! a checkpoint is removed last, so that the next attempt finds the rest.

mod hdfs;
mod object;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::io::AsyncReadExt;

use super::request::{Limits, Request};
use super::uri::Scheme;
use super::{Error as ArtifactError, uri};
use config::FlinkConfig;
use config::memory::MemorySize;

/// Maximum number of folders listed of one level, and of files of one folder.
const ENTRIES_MAX: usize = 20_000;
/// Number of objects per request of a list.
const PAGE_SIZE: usize = 1000;
/// Maximum size in bytes of metadata that is read: it lists files, and contains only some kilobytes of state itself.
const READ_BYTES_MAX: u64 = 64 << 20;
/// Maximum time of one listing, one file or one removal.
const TIME_MAX: Duration = Duration::from_mins(5);
/// To connect, and between two parts of an answer.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Schemes that Flink writes to and that are accessible from outside of its pods.
const SCHEMES: [&str; 11] =
    ["s3", "s3a", "s3n", "s3p", "gs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "viewfs"];
/// The file that marks a folder as a savepoint or a checkpoint.
const METADATA: &str = "_metadata";

/// Why a storage was not read or not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This program cannot reach it or has no access to it.
    #[error("{problem}")]
    Hidden { problem: String },
    #[error("{problem}")]
    Failed { problem: String },
    #[error("`{folder}` has more than {ENTRIES_MAX} entries, too many to list here")]
    TooMany { folder: String },
    #[error("`{path}` is larger than {READ_BYTES_MAX} bytes, too large to read here")]
    TooLarge { path: String },
    #[error("it took longer than {TIME_MAX:?}")]
    TimedOut,
}

impl Error {
    fn of(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Invalid { problem, .. }
            | ArtifactError::AccessDenied { problem, .. } => Self::Hidden { problem },
            ArtifactError::NotFound { .. } => {
                Self::Failed { problem: "it is not there".to_owned() }
            }
            ArtifactError::Unreachable { problem, .. }
            | ArtifactError::Interrupted { problem, .. } => Self::Failed { problem },
            other => Self::Failed { problem: other.to_string() },
        }
    }
}

/// A file below the storage.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct File {
    /// Relative to the storage, without a leading slash.
    pub path: String,
    pub size_bytes: u64,
    pub changed: Timestamp,
}

/// A location that Flink writes to.
pub struct Storage {
    files: Files,
    request: Request,
    /// The path of the location in its file system, without slashes around it.
    root: String,
}

enum Files {
    Objects(std::sync::Arc<dyn super::object::Objects>),
    Hdfs(hdfs_native::Client),
}

impl Storage {
    /// Opens the location with this URI. The options are those of jars: `operator` may use the credentials of this
    /// process, `job` has its own.
    ///
    /// # Errors
    /// [`Error::Hidden`] for a location that only pods can see, such as `file:`, and for one that the options give no
    /// access to.
    pub fn open(uri: &str, operator: &FlinkConfig, job: &FlinkConfig) -> Result<Self, Error> {
        let request = request(uri, operator, job);
        let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let scheme = scheme.filter(|scheme| SCHEMES.contains(&scheme.as_str()));
        let Some(scheme) = scheme else {
            let problem = "only the pods of its cluster can see it".to_owned();
            return Err(Error::Hidden { problem });
        };
        let scheme = Scheme::named(&scheme).map_err(|problem| Error::Hidden { problem })?;
        let hidden = |error| match Error::of(error) {
            Error::Failed { problem } => Error::Hidden { problem },
            other => other,
        };
        if scheme == Scheme::Hdfs {
            let client = super::hdfs::client(&request).map_err(hidden)?;
            let url = request.url().map_err(hidden)?;
            let path = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy();
            let root = path.trim_matches('/').to_owned();
            return Ok(Self { files: Files::Hdfs(client), request, root });
        }
        let (store, path) = super::object::connect(scheme, &request).map_err(hidden)?;
        Ok(Self { files: Files::Objects(store), request, root: path.to_string() })
    }

    /// Returns the names of the folders directly in `below`, a path below the storage or an empty text.
    pub async fn folders(&self, below: &str) -> Result<Vec<String>, Error> {
        in_time(async {
            let folder = self.full(below);
            match &self.files {
                Files::Objects(store) => object::folders(&**store, &folder, &self.request).await,
                Files::Hdfs(client) => hdfs::folders(client, &folder, &self.request).await,
            }
        })
        .await
    }

    /// Returns all files in the folder, at any depth; none if it does not exist.
    pub async fn files(&self, folder: &str) -> Result<Vec<File>, Error> {
        self.list(folder, true).await
    }

    /// Returns the files directly in the folder.
    pub async fn files_directly_in(&self, folder: &str) -> Result<Vec<File>, Error> {
        self.list(folder, false).await
    }

    async fn list(&self, folder: &str, is_deep: bool) -> Result<Vec<File>, Error> {
        in_time(async {
            let (full, request) = (self.full(folder), &self.request);
            let mut files = match &self.files {
                Files::Objects(store) => object::files(&**store, &full, is_deep, request).await?,
                Files::Hdfs(client) => hdfs::files(client, &full, is_deep, request).await?,
            };
            for file in &mut files {
                file.path = join(folder, &file.path);
            }
            files.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(files)
        })
        .await
    }

    /// Reads a whole file of metadata.
    pub async fn read(&self, file: &File) -> Result<Bytes, Error> {
        if file.size_bytes > READ_BYTES_MAX {
            return Err(Error::TooLarge { path: file.path.clone() });
        }
        self.read_at(&file.path).await
    }

    /// Reads a whole file of metadata that was not listed, by its path below the storage.
    pub async fn read_at(&self, path: &str) -> Result<Bytes, Error> {
        in_time(async {
            let full = self.full(path);
            match &self.files {
                Files::Objects(store) => object::read(&**store, &full, &self.request).await,
                Files::Hdfs(client) => hdfs::read(client, &full, &self.request).await,
            }
        })
        .await
    }

    /// Writes a file, replacing one of the same name.
    ///
    /// # Errors
    /// [`Error::Hidden`] for HDFS, to which this program writes nothing.
    pub async fn put(&self, path: &str, content: Bytes) -> Result<(), Error> {
        in_time(async {
            let full = self.full(path);
            match &self.files {
                Files::Objects(store) => object::put(&**store, &full, content, &self.request).await,
                Files::Hdfs(_) => {
                    let problem = "writing files to HDFS is not supported".to_owned();
                    Err(Error::Hidden { problem })
                }
            }
        })
        .await
    }

    /// Removes a folder if it contains exactly these files; returns whether it did.
    pub async fn remove(&self, folder: &str, listed: &[File]) -> Result<bool, Error> {
        // The root, or a folder that was never listed.
        if folder.trim_matches('/').is_empty() || listed.is_empty() {
            return Ok(false);
        }
        if self.files(folder).await? != listed {
            return Ok(false);
        }
        in_time(async {
            match &self.files {
                Files::Objects(store) => {
                    let (last, first): (Vec<&File>, Vec<&File>) =
                        listed.iter().partition(|file| file.path.ends_with(METADATA));
                    for files in [first, last] {
                        let paths = files.iter().map(|file| self.full(&file.path)).collect();
                        object::remove(&**store, paths, &self.request).await?;
                    }
                    Ok(())
                }
                Files::Hdfs(client) => {
                    hdfs::remove(client, &self.full(folder), &self.request).await
                }
            }
        })
        .await?;
        Ok(true)
    }

    fn full(&self, below: &str) -> String {
        join(&self.root, below)
    }
}

fn join(folder: &str, below: &str) -> String {
    let parts = [folder, below].map(|part| part.trim_matches('/'));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(TIME_MAX, work).await.unwrap_or(Err(Error::TimedOut))
}

/// Returns a jar's request reduced to how a store is reached. The limits of jars are not used.
fn request(uri: &str, operator: &FlinkConfig, job: &FlinkConfig) -> Request {
    Request {
        namespace: String::new(),
        uri: uri.to_owned(),
        allowed_schemes: SCHEMES.iter().map(|&scheme| scheme.to_owned()).collect(),
        // The person who runs the command can reach these addresses anyway.
        restricted: None,
        headers: std::collections::BTreeMap::new(),
        checksum: None,
        limits: Limits {
            size_max: MemorySize::from_mebibytes(READ_BYTES_MAX >> 20),
            time_max: TIME_MAX,
            silence_max: SILENCE_MAX,
            cache_max: MemorySize::from_mebibytes(0),
        },
        directory: PathBuf::new(),
        operator: operator.clone(),
        job: job.clone(),
    }
}

/// Reads a whole file of metadata from this machine.
pub async fn read_local(path: &std::path::Path) -> Result<Bytes, Error> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Failed { problem: "it is not there".to_owned() },
        _ => Error::Failed { problem: error.to_string() },
    };
    in_time(async {
        let file = tokio::fs::File::open(path).await.map_err(failed)?;
        let mut bytes = Vec::new();
        // The length of a special file is unknown before it is read.
        let read = file.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes).await.map_err(failed)?;
        if read as u64 > READ_BYTES_MAX {
            return Err(Error::TooLarge { path: path.display().to_string() });
        }
        Ok(bytes.into())
    })
    .await
}

/// Returns the URI without its secrets.
pub fn shown(uri: &str) -> String {
    uri::shown(uri)
}
