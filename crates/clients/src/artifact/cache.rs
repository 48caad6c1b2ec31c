//! Previously downloaded jars on the operator's disk.
//!
//! A copy is used only in the namespace it was fetched for, and only if the source it came from ([`super::source`]),
//! asked as for a download, confirms that it is current: the cache shortens transfers and gives no one additional
//! access. An unreadable copy is treated as missing, and a folder that cannot be written to as no cache.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempPath;

use super::request::Request;
use super::sink::{Jar, hex, temporary_file};
use super::uri::Scheme;

/// Maximum number of copies, whatever their size.
const COPIES_MAX: usize = 1000;
/// Bytes read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// The cache as one request sees it.
#[derive(Clone)]
pub(super) struct Cache {
    folder: PathBuf,
    /// The copy's name without extension.
    key: String,
    size_max: u64,
}

/// A cached jar, and the validator its source gave this version.
pub(super) struct Copy {
    pub(super) jar: Jar,
    pub(super) validator: String,
}

/// Version, checksum and size of a copy, stored beside it as JSON.
#[derive(Serialize, Deserialize)]
struct Label {
    validator: String,
    sha256: String,
    size_bytes: u64,
}

impl Cache {
    /// Returns the cache unless it is disabled. A local file is not worth a copy.
    pub(super) fn of(scheme: Scheme, request: &Request, key: &str) -> Option<Self> {
        let size_max = request.limits.cache_max.bytes();
        if size_max == 0 || scheme == Scheme::File {
            return None;
        }
        Some(Self { folder: request.directory.join("cache"), key: key.to_owned(), size_max })
    }

    /// Returns the copy under a name of its own, so that the cache may drop it while it is used.
    pub(super) async fn find(&self, request: &Request) -> Option<Copy> {
        let (cache, directory) = (self.clone(), request.directory.clone());
        let found = tokio::task::spawn_blocking(move || cache.read(&directory)).await.ok()?;
        let (path, label) = found?;
        let is_wanted = request.checksum.as_ref().is_none_or(|sum| sum.sha256 == label.sha256);
        let is_small = label.size_bytes <= request.limits.size_max.bytes();
        (is_wanted && is_small).then(|| {
            let Label { validator, sha256, size_bytes } = label;
            Copy { jar: Jar::new(path, size_bytes, sha256), validator }
        })
    }

    /// Stores a copy, and drops the least recently used ones if there is no room.
    pub(super) async fn keep(&self, jar: &Jar, validator: &str) {
        if jar.size_bytes > self.size_max {
            return;
        }
        let label = Label {
            validator: validator.to_owned(),
            sha256: jar.sha256.clone(),
            size_bytes: jar.size_bytes,
        };
        let (cache, path) = (self.clone(), jar.path.to_path_buf());
        let kept = tokio::task::spawn_blocking(move || cache.write(&path, &label)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, folder = %self.folder.display(), "jar not cached");
        }
    }

    fn jar(&self) -> PathBuf {
        self.folder.join(format!("{}.jar", self.key))
    }

    fn label(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.key))
    }

    fn read(&self, directory: &Path) -> Option<(TempPath, Label)> {
        let label: Label = serde_json::from_slice(&fs::read(self.label()).ok()?).ok()?;
        let path = linked(&self.jar(), directory)?;
        let file = fs::File::open(&path).ok()?;
        if sum_of(&file).ok()? != label.sha256 {
            return None;
        }
        // The modification time decides which copy is dropped first.
        drop(file.set_modified(SystemTime::now()));
        Some((path, label))
    }

    fn write(&self, jar: &Path, label: &Label) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.make_room(label.size_bytes)?;
        let copy = temporary_file(&self.folder)?.into_temp_path();
        fs::remove_file(&copy)?;
        if fs::hard_link(jar, &copy).is_err() {
            fs::copy(jar, &copy)?;
        }
        copy.persist(self.jar())?;
        let text = temporary_file(&self.folder)?.into_temp_path();
        fs::write(&text, serde_json::to_vec(label)?)?;
        text.persist(self.label())?;
        Ok(())
    }

    fn make_room(&self, for_bytes: u64) -> std::io::Result<()> {
        let mut copies: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(&self.folder)?
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "jar"))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        copies.sort();
        let mut size: u64 = copies.iter().map(|(_, size, _)| size).sum();
        let mut count = copies.len();
        for (_, bytes, path) in copies {
            if size.saturating_add(for_bytes) <= self.size_max && count < COPIES_MAX {
                break;
            }
            drop(fs::remove_file(path.with_extension("json")));
            fs::remove_file(&path)?;
            size -= bytes;
            count -= 1;
        }
        Ok(())
    }
}

fn sum_of(mut file: &fs::File) -> std::io::Result<String> {
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(hex(&sum.finalize()));
        }
        sum.update(chunk.get(..read).unwrap_or_default());
    }
}

/// Links the file under a new temporary name in `directory`.
fn linked(file: &Path, directory: &Path) -> Option<TempPath> {
    let path = temporary_file(directory).ok()?.into_temp_path();
    fs::remove_file(&path).ok()?;
    fs::hard_link(file, &path).ok()?;
    Some(path)
}

#[cfg(test)]
mod tests;
