//! Flink itself, from Python packages: jars from one, scripts and configuration from the other. Example jobs and the
//! SQL gateway, which neither contains, come from the Maven repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::packages::{folder, resolution};
use super::{FLINK_ID, files, make_empty, minor, tar_command};
use crate::command::{SHORT, program, run, run_logged};
use crate::error::Error;
use crate::image::Layer;
use crate::process::remove;
use crate::progress::Progress;
use crate::requirements::pip;
use crate::state::cache;

pub(super) const ENTRYPOINT: &str =
    include_str!("../../../../sandbox/flink-image/docker-entrypoint.sh");
/// Python versions for which wheels of Flink exist.
const PYTHON_VERSIONS: [&str; 7] = ["3.11", "3.10", "3.9", "3.12", "3.8", "3.7", "3.6"];
/// Example jobs that are also in the official image and that this project's examples run.
const EXAMPLES: [&str; 2] = ["TopSpeedWindowing", "WordCount"];
/// Folder with Flink, below that of its version; change the name if its contents change.
pub(super) const DISTRIBUTION: &str = "distribution-with-examples";
/// First version of the Maven plugin that can copy an artifact whose parent is not published, such as that of Flink
/// 2.3's examples.
const MAVEN_PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy";
/// Prefix of the name of the SQL gateway's jar.
const GATEWAY: &str = "flink-sql-gateway";
/// Names of Flink's configuration file; each version has one of them.
const CONFIGURATIONS: [&str; 2] = ["config.yaml", "flink-conf.yaml"];
/// Time limit of each download.
const LONG: Duration = Duration::from_mins(20);

/// Makes sure that Flink itself is in the cache, and returns its exact version.
pub(super) async fn distribution(asked: &str, progress: &Progress<'_>) -> Result<String, Error> {
    let is_exact = asked.split('.').count() == 3;
    let known = if is_exact {
        Some(asked.to_owned())
    } else {
        fs::read_to_string(resolution(asked)?).ok().map(|version| version.trim().to_owned())
    };
    if let Some(version) = known {
        let made = folder(&version)?.join(DISTRIBUTION);
        if made.exists() {
            // A distribution from before SQL statements were supported has no gateway.
            add_gateway(&made, &version, progress).await?;
            return Ok(version);
        }
    }
    let work = cache()?.join("flink/download");
    make_empty(&work)?;
    let task = progress.task(format!("downloading Flink {asked} (once, 230 MB)"));
    let wanted = if is_exact { asked.to_owned() } else { format!("{asked}.*") };
    let libraries = ["--no-binary=:all:".to_owned(), format!("apache-flink-libraries=={wanted}")];
    pip_download(&work, &libraries, |line| task.detail(line)).await?;
    let source = downloaded(&work, ".tar.gz")?;
    let version = version_of(&source).ok_or_else(|| {
        Error::Refused(format!("`{source}` is not a source package of apache-flink-libraries"))
    })?;
    wheel(&work, &version).await?;
    task.done();

    let task = progress.task(format!("unpacking Flink {version}"));
    let mut command = program("tar");
    command.arg("-xzf").arg(work.join(&source)).arg("-C").arg(&work);
    run(&mut command, LONG).await?;
    let unpacked = work.join("wheel");
    let mut command = program("python3");
    command.args(["-m", "zipfile", "-e"]).arg(work.join(downloaded(&work, ".whl")?)).arg(&unpacked);
    run(&mut command, LONG).await?;

    let made = work.join(source.trim_end_matches(".tar.gz")).join("deps");
    for part in ["bin", "conf"] {
        let mut command = program("cp");
        command.arg("-r").arg(unpacked.join("pyflink").join(part)).arg(&made);
        run(&mut command, SHORT).await?;
    }
    for path in files(&made.join("bin"))? {
        // Permissions of a wheel's files are lost when it is unpacked.
        let permissions =
            if path.extension().is_some_and(|end| end == "jar") { 0o644 } else { 0o755 };
        fs::set_permissions(&path, fs::Permissions::from_mode(permissions))
            .map_err(Error::file("change", &path))?;
    }
    for empty in ["log", "usrlib"] {
        let path = made.join(empty);
        fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
    }
    if !add_examples(&made, &version).await? {
        let missing = format!(
            "there are no example jobs for Flink {version}: the image is built without them"
        );
        progress.task(missing).done();
    }
    add_gateway(&made, &version, progress).await?;
    let target = folder(&version)?;
    make_empty(&target)?;
    let target = target.join(DISTRIBUTION);
    fs::rename(&made, &target).map_err(Error::file("make", &target))?;
    fs::remove_dir_all(&work).map_err(Error::file("remove", &work))?;
    task.done();
    Ok(version)
}

/// Downloads Flink's scripts and default configuration; no wheel is for every Python and every system.
async fn wheel(work: &Path, version: &str) -> Result<(), Error> {
    let machine = std::env::consts::ARCH;
    let mut refused = None;
    for python in PYTHON_VERSIONS {
        let arguments = [
            "--only-binary=:all:".to_owned(),
            format!("--python-version={python}"),
            format!("--platform=manylinux1_{machine}"),
            format!("--platform=manylinux2014_{machine}"),
            format!("apache-flink=={version}"),
        ];
        match pip_download(work, &arguments, |_| {}).await {
            Ok(()) => return Ok(()),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| Error::Refused("no Python version is known".to_owned())))
}

async fn pip_download(
    work: &Path,
    arguments: &[String],
    each_line: impl FnMut(&str),
) -> Result<(), Error> {
    let Some(pip) = pip().await else {
        return Err(Error::Refused("pip is no longer installed".to_owned()));
    };
    let mut command = program(&pip[0]);
    command.args(&pip[1..]).args(["download", "--no-deps", "--disable-pip-version-check"]);
    command.arg("--progress-bar=off").arg("--dest").arg(work).args(arguments);
    run_logged(&mut command, LONG, &cache()?.join("flink/download.log"), each_line).await
}

/// Returns the name of the file in `work` with this ending.
fn downloaded(work: &Path, end: &str) -> Result<String, Error> {
    let names = files(work)?
        .into_iter()
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    names
        .into_iter()
        .find(|name| name.ends_with(end))
        .ok_or_else(|| Error::Refused(format!("pip left no file `*{end}` in `{}`", work.display())))
}

/// Returns the version in `apache_flink_libraries-1.20.5.tar.gz`.
fn version_of(source: &str) -> Option<String> {
    let (name, version) = source.strip_suffix(".tar.gz")?.rsplit_once('-')?;
    (name.replace('_', "-") == "apache-flink-libraries").then(|| version.to_owned())
}

/// Copies the example jobs to the folder they have in the official image; returns whether there are any.
async fn add_examples(distribution: &Path, version: &str) -> Result<bool, Error> {
    let target = distribution.join("examples/streaming");
    fs::create_dir_all(&target).map_err(Error::file("make", &target))?;
    let first = format!("{}.0", minor(version));
    // Some later versions were released without them.
    for version in [version, &first] {
        let mut is_there = false;
        for example in EXAMPLES {
            is_there |= add_example(&target, version, example).await?;
        }
        if is_there {
            return Ok(true);
        }
    }
    let folder = distribution.join("examples");
    fs::remove_dir_all(&folder).map_err(Error::file("remove", &folder))?;
    Ok(false)
}

/// Copies an example from the Maven repository; returns whether it exists.
async fn add_example(target: &Path, version: &str, example: &str) -> Result<bool, Error> {
    let artifact = format!("org.apache.flink:flink-examples-streaming:{version}:jar:{example}");
    if !copy_artifact(target, &artifact).await? {
        return Ok(false);
    }
    let copied = target.join(format!("flink-examples-streaming-{version}-{example}.jar"));
    let plain = target.join(format!("{example}.jar"));
    fs::rename(&copied, &plain).map_err(Error::file("rename", &copied))?;
    Ok(true)
}

/// Copies the SQL gateway to the folder it has in the official image, unless it is there.
async fn add_gateway(
    distribution: &Path,
    version: &str,
    progress: &Progress<'_>,
) -> Result<(), Error> {
    let target = distribution.join("opt");
    let is_gateway = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(GATEWAY))
    };
    if files(&target)?.iter().any(is_gateway) {
        return Ok(());
    }
    let work = cache()?.join("flink/gateway");
    make_empty(&work)?;
    for version in patches(version) {
        if copy_artifact(&work, &format!("org.apache.flink:{GATEWAY}:{version}:jar")).await? {
            let jar = format!("{GATEWAY}-{version}.jar");
            let copied = work.join(&jar);
            return fs::rename(&copied, target.join(&jar)).map_err(Error::file("rename", &copied));
        }
    }
    let missing =
        format!("there is no SQL gateway for Flink {version}: the image is built without it");
    progress.task(missing).done();
    Ok(())
}

/// Returns the version and its earlier patch releases, latest first: some were released without all of their parts, and
/// those of one minor version are compatible.
fn patches(version: &str) -> Vec<String> {
    let patch = version.rsplit('.').next().and_then(|patch| patch.parse::<u32>().ok());
    (0..=patch.unwrap_or(0)).rev().map(|patch| format!("{}.{patch}", minor(version))).collect()
}

/// Copies an artifact from the Maven repository into a folder; returns whether it exists.
async fn copy_artifact(target: &Path, artifact: &str) -> Result<bool, Error> {
    let mut command = program("mvn");
    command.args(["--quiet", "--batch-mode", MAVEN_PLUGIN]).current_dir(target);
    command.arg(format!("-Dartifact={artifact}"));
    command.arg(format!("-DoutputDirectory={}", target.display()));
    let log = cache()?.join("flink/example.log");
    remove(&log)?;
    match run_logged(&mut command, LONG, &log, |_| {}).await {
        Ok(()) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether Maven says that the artifact does not exist, rather than that it could not check.
fn is_absence(error: &Error) -> bool {
    let Error::Command { log: Some(log), .. } = error else { return false };
    // The second is Maven's message for a cached result.
    let told = ["Could not find artifact", "was not found in"];
    log.lines.iter().any(|line| told.iter().any(|told| line.contains(told)))
}

/// Builds the layer with Flink, with paths from the image's root.
pub(super) async fn flink_layer(distribution: &Path, work: &Path) -> Result<Layer, Error> {
    let script = work.join("docker-entrypoint.sh");
    fs::write(&script, ENTRYPOINT).map_err(Error::file("write", &script))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .map_err(Error::file("change", &script))?;
    let layer = work.join("flink.tar");
    let mut command = tar_command();
    command.args(["--owner=0", "--group=0"]).arg("-C").arg(work);
    run(command.arg("-cf").arg(&layer).arg("docker-entrypoint.sh"), LONG).await?;
    let mut command = tar_command();
    command.arg(format!("--owner={FLINK_ID}")).arg(format!("--group={FLINK_ID}"));
    // `./conf/config.yaml` becomes `opt/flink/conf/config.yaml`.
    command.arg("--transform=s,^[.],opt/flink,S").arg("-rf").arg(&layer);
    for name in CONFIGURATIONS {
        command.arg(format!("--exclude=./conf/{name}"));
    }
    run(command.arg("-C").arg(distribution).arg("."), LONG).await?;
    for name in CONFIGURATIONS {
        let Ok(text) = fs::read_to_string(distribution.join("conf").join(name)) else { continue };
        let open = work.join("conf");
        fs::create_dir_all(&open).map_err(Error::file("make", &open))?;
        let path = open.join(name);
        fs::write(&path, open_to_others(&text)).map_err(Error::file("write", &path))?;
        let mut command = tar_command();
        command.arg(format!("--owner={FLINK_ID}")).arg(format!("--group={FLINK_ID}"));
        command.arg("--transform=s,^[.],opt/flink,S").arg("-C").arg(work).arg("-rf").arg(&layer);
        run(command.arg(format!("./conf/{name}")), SHORT).await?;
    }
    Layer::of_file(&layer).await
}

/// Adapts the default configuration to containers: as shipped, each part listens only on localhost.
fn open_to_others(configuration: &str) -> String {
    let mut section = "";
    let mut open = String::new();
    for line in configuration.lines() {
        if let Some((key, _)) = line.split_once(':')
            && !line.starts_with([' ', '#'])
        {
            section = key;
        }
        let trimmed = line.trim_start();
        // Handles both forms of the file: `rest:` with `address:` below it, and `rest.address:`.
        let key = match (line.len() - trimmed.len(), trimmed.split_once(": ")) {
            (0, Some((key, _))) => key.to_owned(),
            (2, Some((key, _))) => format!("{section}.{key}"),
            _ => String::new(),
        };
        if trimmed.ends_with(": localhost") && !trimmed.starts_with('#') {
            match key.as_str() {
                // Each TaskManager detects its own.
                "taskmanager.host" => continue,
                "jobmanager.bind-host"
                | "taskmanager.bind-host"
                | "rest.address"
                | "rest.bind-address" => {
                    open.push_str(&line.replace("localhost", "0.0.0.0"));
                    open.push('\n');
                    continue;
                }
                _ => {}
            }
        }
        open.push_str(line);
        open.push('\n');
    }
    open
}

#[cfg(test)]
mod tests;
