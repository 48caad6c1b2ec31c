//! A Flink image from packages: Debian's for the system and Java, Python's for Flink.
//!
//! Two layers: the system, which is the same for every version of Flink, and Flink. Both are downloaded with the
//! machine's own package clients, from its configured sources.

use std::fs;
use std::path::PathBuf;

use super::distribution::{DISTRIBUTION, ENTRYPOINT, distribution, flink_layer};
use super::system::{PACKAGES, system};
use super::{Archive, Options, make_empty, short_digest, write_whole};
use crate::archive::Start;
use crate::error::Error;
use crate::image::write_archive;
use crate::progress::Progress;
use crate::requirements::{Purpose, check};
use crate::state::cache;

/// Options of every JVM in the image. A sandbox runs jobs to try them, on few cores: with the fast compiler alone they
/// need a third less CPU time to start. A job's own options win.
const JAVA_OPTIONS: &str = "-XX:TieredStopAtLevel=1";

/// Builds the image, or the missing parts of it.
pub(super) async fn archive(
    options: &Options,
    tag: &str,
    progress: &Progress<'_>,
) -> Result<Archive, Error> {
    if let Some(archive) = cached(options, tag)? {
        return Ok(archive);
    }
    check(Purpose::FlinkImage, false, options.install, progress).await?;
    let version = distribution(&options.version, progress).await?;
    let (system_layer, system) = system(progress).await?;

    let task = progress.task(format!("writing the image `{tag}` with Flink {version}"));
    let folder = folder(&version)?;
    let work = folder.join("work");
    make_empty(&work)?;
    let flink_layer = flink_layer(&folder.join(DISTRIBUTION), &work).await?;
    let environment = [
        "PATH=/opt/flink/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            .to_owned(),
        "FLINK_HOME=/opt/flink".to_owned(),
        format!("JAVA_HOME={}", system.java_home),
        format!("JAVA_TOOL_OPTIONS={JAVA_OPTIONS}"),
        "LANG=C.UTF-8".to_owned(),
    ];
    let start = Start {
        entrypoint: &["/docker-entrypoint.sh"],
        arguments: &["help"],
        environment: &environment,
        folder: "/opt/flink",
        ..Start::default()
    };
    let archive = located(&version, tag)?;
    let layers = [system_layer, flink_layer];
    write_archive(tag, &start, &layers, &work, &archive.file).await?;
    fs::remove_dir_all(&work).map_err(Error::file("remove", &work))?;
    write_whole(&resolution(&options.version)?, &version)?;
    task.done();
    Ok(archive)
}

/// Returns the image if it was built before.
pub(super) fn cached(options: &Options, tag: &str) -> Result<Option<Archive>, Error> {
    let Ok(version) = fs::read_to_string(resolution(&options.version)?) else { return Ok(None) };
    Ok(Some(located(version.trim(), tag)?).filter(|archive| archive.file.exists()))
}

/// Returns where the archive is stored, whether or not it exists.
fn located(version: &str, tag: &str) -> Result<Archive, Error> {
    let folder = folder(version)?;
    let key = short_digest(&[
        "packages, examples, sql, open",
        version,
        tag,
        ENTRYPOINT,
        JAVA_OPTIONS,
        &PACKAGES.join(" "),
    ]);
    Ok(Archive {
        version: version.to_owned(),
        file: folder.join(format!("image-{key}.tar")),
        key,
        distribution: Some(folder.join(DISTRIBUTION)),
    })
}

pub(super) fn folder(version: &str) -> Result<PathBuf, Error> {
    Ok(cache()?.join("flink").join(version))
}

/// Returns the file that says which version `asked` was resolved to.
pub(super) fn resolution(asked: &str) -> Result<PathBuf, Error> {
    Ok(cache()?.join("flink").join(format!("{asked}.version")))
}
