//! The destination of a jar: a temporary file that is counted, hashed and checked while it is written.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempPath};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::error::Error;
use super::jars::Download;
use super::limits::Permit;
use super::request::Request;

/// The first bytes of every jar, even an empty one: it is a ZIP archive.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// Number of bytes of another kind of file that a message shows.
const BEGINNING_MAX: usize = 32;

/// A jar on the operator's disk; the file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Jar {
    pub(super) path: TempPath,
    pub(super) size_bytes: u64,
    pub(super) sha256: String,
    _room: Option<Permit>,
}

impl Jar {
    pub(super) fn new(path: TempPath, size_bytes: u64, sha256: String) -> Self {
        Self { path, size_bytes, sha256, _room: None }
    }

    /// Returns the jar with the room on the disk that it takes.
    pub(super) fn holding(self, room: Permit) -> Self {
        Self { _room: Some(room), ..self }
    }
}

/// A fetched jar, and its turn. It counts as being transferred until this is dropped; the file is removed with the last
/// one of those that share it.
pub struct Fetched {
    jar: Arc<Jar>,
    /// The name passed to Flink; ends in `.jar`.
    pub file_name: String,
    pub size_bytes: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
    _turn: (Permit, Arc<Download>),
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").field("jar", &self.jar).finish_non_exhaustive()
    }
}

impl Fetched {
    pub(super) fn new(jar: Arc<Jar>, file_name: String, turn: (Permit, Arc<Download>)) -> Self {
        let (size_bytes, sha256) = (jar.size_bytes, jar.sha256.clone());
        Self { jar, file_name, size_bytes, sha256, _turn: turn }
    }

    pub fn path(&self) -> &Path {
        &self.jar.path
    }
}

/// A jar being written.
pub(super) struct Sink<'a> {
    request: &'a Request,
    /// If the source reports it.
    expected_bytes: Option<u64>,
    file: File,
    path: TempPath,
    size_bytes: u64,
    sum: Sha256,
    beginning: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub(super) async fn create(
        request: &'a Request,
        expected_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let folder = request.directory.clone();
        let made = tokio::task::spawn_blocking(move || temporary_file(&folder)).await;
        let made = made.map_err(|error| disk(request, &error))?;
        let (file, path) = made.map_err(|error| disk(request, &error))?.into_parts();
        Ok(Self {
            request,
            expected_bytes,
            file: File::from_std(file),
            path,
            size_bytes: 0,
            sum: Sha256::new(),
            beginning: Vec::new(),
        })
    }

    /// Writes the next bytes, unless the file becomes too large or is not a jar.
    pub(super) async fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let limit = self.request.limits.size_max;
        self.size_bytes = self.size_bytes.saturating_add(chunk.len() as u64);
        if self.size_bytes > limit.bytes() {
            return Err(Error::TooLarge { uri: self.request.shown_uri(), limit });
        }
        if self.expected_bytes.is_some_and(|expected| self.size_bytes > expected) {
            return Err(Error::interrupted(self.request, "more bytes arrived than announced"));
        }
        let missing = BEGINNING_MAX.saturating_sub(self.beginning.len());
        self.beginning.extend(chunk.iter().take(missing));
        if self.beginning.len() >= 4 {
            self.check_is_jar()?;
        }
        self.sum.update(chunk);
        self.file.write_all(chunk).await.map_err(|error| disk(self.request, &error))
    }

    /// Completes the file and checks it as a whole.
    pub(super) async fn finish(mut self) -> Result<Jar, Error> {
        self.file.flush().await.map_err(|error| disk(self.request, &error))?;
        if let Some(expected) = self.expected_bytes
            && expected != self.size_bytes
        {
            let problem = format!("{} of {expected} bytes arrived", self.size_bytes);
            return Err(Error::interrupted(self.request, &problem));
        }
        self.check_is_jar()?;
        let sha256 = hex(&self.sum.finalize());
        if let Some(expected) = &self.request.checksum
            && expected.sha256 != sha256
        {
            return Err(Error::ChecksumMismatch {
                uri: self.request.shown_uri(),
                expected: expected.sha256.clone(),
                actual: sha256,
            });
        }
        Ok(Jar::new(self.path, self.size_bytes, sha256))
    }

    fn check_is_jar(&self) -> Result<(), Error> {
        if MAGIC.iter().any(|magic| self.beginning.starts_with(magic)) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.beginning);
        Err(Error::NotAJar {
            uri: self.request.shown_uri(),
            beginning: text.escape_debug().to_string(),
        })
    }
}

/// Creates a file that only the operator can read.
pub(super) fn temporary_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    std::fs::create_dir_all(folder)?;
    tempfile::Builder::new().prefix("fetch-").suffix(".jar").tempfile_in(folder)
}

pub(super) fn disk(request: &Request, error: &dyn std::error::Error) -> Error {
    Error::Disk { path: request.directory.display().to_string(), problem: error.to_string() }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}
