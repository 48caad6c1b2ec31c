//! A Flink image on this machine: pulled from a registry if one is reachable, otherwise built from packages; cached for
//! the user, and imported into the instances that need it.

mod distribution;
mod mirror;
mod packages;
mod registry;
mod system;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::archive::hex;
use super::command::program;
use super::error::Error;
use super::image;
use super::process::remove;
use super::progress::Progress;
use super::state::{Folder, Lock, cache, lock};

/// The default registry of image names without a host.
pub const DEFAULT_REGISTRY: &str = "https://registry-1.docker.io";
/// User and group of Flink's containers, the ids of the official image.
const FLINK_ID: u32 = 9999;
/// How long a command waits for another one that builds an image.
const LOCK_WAIT: Duration = Duration::from_mins(30);

/// Where an image comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// The registry if it responds, otherwise packages.
    Auto,
    /// The official image.
    Registry,
    /// Debian's and Python's packages.
    Packages,
}

/// The requested image.
#[derive(Clone, Debug)]
pub struct Options {
    /// Flink version: `1.20` for its newest patch release, or `1.20.1`.
    pub version: String,
    /// Name of the image; `flink:1.20` by default.
    pub tag: Option<String>,
    pub source: Source,
    /// Address of the registry.
    pub registry: String,
    /// Whether to install missing programs.
    pub install: bool,
    /// The instance to import it into, if any.
    pub instance: Option<String>,
}

/// An available image.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlinkImage {
    /// Name of the image.
    pub image: String,
    /// Version of Flink in it.
    pub version: String,
    /// The archive that was imported.
    pub archive: PathBuf,
    /// Flink itself, with `lib`, `bin` and `conf`, if it was built from packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<PathBuf>,
    /// Whether this call imported it.
    pub imported: bool,
}

/// An archive in the cache.
struct Archive {
    version: String,
    file: PathBuf,
    /// Identifies its content.
    key: String,
    distribution: Option<PathBuf>,
}

/// Makes sure that the image is in the cache, and in the instance.
pub async fn flink_image(options: &Options, progress: &Progress<'_>) -> Result<FlinkImage, Error> {
    let version = &options.version;
    check_version(version)
        .map_err(|why| Error::Refused(format!("invalid Flink version `{version}`: {why}")))?;
    let tag = options.tag.clone().unwrap_or_else(|| format!("flink:{}", minor(version)));
    check_tag(&tag).map_err(|why| Error::Refused(format!("invalid image name `{tag}`: {why}")))?;
    let folder = match &options.instance {
        Some(name) => {
            let folder = Folder::of(name)?;
            // Fail before spending minutes on an image that cannot be imported.
            image::running_node(&folder)?;
            Some(folder)
        }
        None => None,
    };
    let archive = archive(options, &tag, progress).await?;
    let mut imported = false;
    if let Some(folder) = folder {
        let task = progress.task(format!("importing `{tag}` into sandbox `{}`", folder.name()));
        imported = image::load_cached(&folder, &tag, &archive.key, &archive.file).await?;
        task.done();
    }
    Ok(FlinkImage {
        image: tag,
        version: archive.version,
        archive: archive.file,
        distribution: archive.distribution,
        imported,
    })
}

async fn archive(options: &Options, tag: &str, progress: &Progress<'_>) -> Result<Archive, Error> {
    let _lock = lock_cache().await?;
    match options.source {
        Source::Packages => packages::archive(options, tag, progress).await,
        Source::Registry => pulled(options, tag, progress).await,
        // An archive in the cache is used without contacting the registry.
        Source::Auto => match (packages::cached(options, tag)?, pulled_before(options, tag)?) {
            (Some(archive), _) | (None, Some(archive)) => Ok(archive),
            (None, None) => match pulled(options, tag, progress).await {
                Err(Error::Registry { message, .. }) => {
                    tracing::debug!(message, "no registry");
                    progress.task("no registry can be reached: building from packages").done();
                    packages::archive(options, tag, progress).await
                }
                other => other,
            },
        },
    }
}

/// Keeps other commands from building the same image.
async fn lock_cache() -> Result<Lock, Error> {
    lock(&cache()?, "images.lock", "an image of Flink", LOCK_WAIT).await
}

/// Pulls the official image, unless it is in the cache.
async fn pulled(options: &Options, tag: &str, progress: &Progress<'_>) -> Result<Archive, Error> {
    if let Some(archive) = pulled_before(options, tag)? {
        return Ok(archive);
    }
    let archive = pulled_archive(options, tag)?;
    let reference = registry::Reference {
        registry: options.registry.clone(),
        repository: "library/flink".to_owned(),
        tag: options.version.clone(),
    };
    if let Some(folder) = archive.file.parent() {
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
    }
    registry::pull(&reference, tag, &archive.file, progress).await?;
    Ok(archive)
}

fn pulled_before(options: &Options, tag: &str) -> Result<Option<Archive>, Error> {
    Ok(Some(pulled_archive(options, tag)?).filter(|archive| archive.file.exists()))
}

fn pulled_archive(options: &Options, tag: &str) -> Result<Archive, Error> {
    let key = short_digest(&["pulled", &options.registry, &options.version, tag]);
    Ok(Archive {
        version: options.version.clone(),
        file: cache()?.join("flink").join(format!("pulled-{key}.tar")),
        key,
        distribution: None,
    })
}

/// Returns the first 16 digits of a digest over all parts.
fn short_digest(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
        digest.update([0]);
    }
    hex(&digest.finalize())[..16].to_owned()
}

/// Returns `1.20` for `1.20.5`.
fn minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Checks a version; the error says what it must look like.
pub fn check_version(version: &str) -> Result<(), &'static str> {
    let numbers: Vec<&str> = version.split('.').collect();
    let is_number =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if (2..=3).contains(&numbers.len()) && numbers.iter().all(is_number) {
        return Ok(());
    }
    Err("expected numbers such as 1.20 or 1.20.1")
}

/// Checks the name of an image; the error says what it must look like.
pub fn check_tag(tag: &str) -> Result<(), &'static str> {
    let allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/' | b':');
    let is_good = tag.bytes().all(allowed)
        && tag.rsplit_once(':').is_some_and(|(name, version)| {
            !name.is_empty() && !version.is_empty() && !version.contains('/')
        });
    if is_good { Ok(()) } else { Err("expected NAME:TAG, such as flink:1.20") }
}

/// Creates `folder` again, empty.
fn make_empty(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::file("remove", folder))?;
    }
    fs::create_dir_all(folder).map_err(Error::file("make", folder))
}

/// Writes a file atomically.
fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    let unfinished = path.with_extension("new");
    remove(&unfinished)?;
    fs::write(&unfinished, text).map_err(Error::file("write", &unfinished))?;
    fs::rename(&unfinished, path).map_err(Error::file("write", path))
}

/// Lists the paths in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file("read", folder))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
}

/// Returns a `tar` command whose archives depend on nothing but the files.
fn tar_command() -> tokio::process::Command {
    let mut command = program("tar");
    command.args(["--numeric-owner", "--sort=name"]);
    command
}

#[cfg(test)]
mod tests;
