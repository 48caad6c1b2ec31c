//! Images without a registry: archives built from files and imported into an instance.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::archive::{Start, configuration, hex, layer_file, manifest};
use super::command::{SHORT, program, run, run_reading};
use super::control_plane::Setup;
use super::error::Error;
use super::node::{HOLDER, PAUSE, SOCKET, inside};
use super::process::ProcessId;
use super::state::{Folder, Instance, Kind};

/// Time limit for writing or reading an archive of an image.
const ARCHIVE: Duration = Duration::from_mins(15);

/// One layer: a tar archive, and its digest.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) file: PathBuf,
    pub(super) digest: String,
}

impl Layer {
    /// Returns the layer in the file at `path`, which is read once for its digest.
    pub(super) async fn of_file(path: &Path) -> Result<Self, Error> {
        let file = path.to_owned();
        let digest = tokio::task::spawn_blocking(move || digest(&file)).await;
        let digest = digest.map_err(|error| Error::Refused(error.to_string()))?;
        let digest = digest.map_err(Error::file("read", path))?;
        Ok(Self { file: path.to_owned(), digest })
    }
}

fn digest(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            length => digest.update(&buffer[..length]),
        }
    }
}

/// Writes an archive of an image to `target`, using the folder `work`.
pub(super) async fn write_archive(
    tag: &str,
    start: &Start<'_>,
    layers: &[Layer],
    work: &Path,
    target: &Path,
) -> Result<(), Error> {
    std::fs::create_dir_all(work).map_err(Error::file("make", work))?;
    let mut names = vec!["manifest.json".to_owned(), "config.json".to_owned()];
    let digests: Vec<&str> = layers.iter().map(|layer| layer.digest.as_str()).collect();
    for (name, value) in [
        ("manifest.json", manifest(tag, &digests)),
        ("config.json", configuration(start, &digests)),
    ] {
        let path = work.join(name);
        std::fs::write(&path, value.to_string()).map_err(Error::file("write", &path))?;
    }
    for layer in layers {
        let name = layer_file(&layer.digest);
        let link = work.join(&name);
        super::process::remove(&link)?;
        std::os::unix::fs::symlink(&layer.file, &link).map_err(Error::file("make", &link))?;
        names.push(name);
    }
    let unfinished = target.with_extension("new");
    let mut command = program("tar");
    command.arg("--dereference").arg("-C").arg(work).arg("-cf").arg(&unfinished).args(&names);
    run(&mut command, ARCHIVE).await?;
    std::fs::rename(&unfinished, target).map_err(Error::file("write", target))
}

/// Builds the image that every pod needs, and imports it unless it is there.
pub(super) async fn ensure_pause(setup: &Setup<'_>, holder: ProcessId) -> Result<(), Error> {
    if run(runtime(holder).args(["image", "ls", "-q"]), SHORT).await?.lines().any(|it| it == PAUSE)
    {
        return Ok(());
    }
    let work = setup.folder.file("tmp/pause");
    std::fs::create_dir_all(&work).map_err(Error::file("make", &work))?;
    let program_path = setup.programs.path("pause");
    let folder = program_path.parent().unwrap_or(Path::new("/"));
    let layer = work.join("layer.tar");
    let mut command = program("tar");
    command.args(["--owner=0", "--group=0", "--mtime=@0", "-C"]).arg(folder);
    run(command.arg("-cf").arg(&layer).arg("pause"), SHORT).await?;
    let layer = Layer::of_file(&layer).await?;
    let archive = work.join("image.tar");
    let start = Start { entrypoint: &["/pause"], folder: "/", ..Start::default() };
    write_archive(PAUSE, &start, &[layer], &work, &archive).await?;
    import(holder, open(&archive)?).await?;
    std::fs::remove_dir_all(&work).map_err(Error::file("remove", &work))
}

/// Returns whether the container runtime responds.
pub(super) async fn answers(holder: ProcessId) -> bool {
    run(runtime(holder).arg("version"), Duration::from_secs(5)).await.is_ok()
}

/// Imports an archive of images and returns their names.
async fn import(holder: ProcessId, archive: File) -> Result<Vec<String>, Error> {
    let mut command = runtime(holder);
    // Through stdin, because the file's path may not exist inside the instance.
    command.args(["image", "import", "-"]);
    let said = run_reading(&mut command, Stdio::from(archive), ARCHIVE).await?;
    Ok(imported(&said))
}

fn open(archive: &Path) -> Result<File, Error> {
    let file = File::open(archive).map_err(Error::file("read", archive))?;
    if file.metadata().map_err(Error::file("read", archive))?.is_dir() {
        return Err(no_archive(archive, "it is a folder"));
    }
    Ok(file)
}

/// Returns the names in lines such as `unpacking docker.io/library/flink:1.20 (sha256:..)...done`.
fn imported(said: &str) -> Vec<String> {
    said.lines()
        .filter_map(|line| line.strip_prefix("unpacking "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Returns the images of an instance, except the one that belongs to pods themselves.
pub(super) async fn list(holder: ProcessId) -> Result<Vec<String>, Error> {
    let said = run(runtime(holder).args(["image", "ls", "-q"]), SHORT).await?;
    Ok(said
        .lines()
        .filter(|name| !name.starts_with("sha256:") && *name != PAUSE)
        .map(|name| name.trim_start_matches("docker.io/library/").to_owned())
        .collect())
}

fn runtime(holder: ProcessId) -> Command {
    let mut command = inside(holder, "ctr");
    command.args(["--address", SOCKET, "--namespace", "k8s.io"]);
    command
}

/// Imports the images of an archive into the instance `name`, and returns their names.
pub async fn load(name: &str, archive: &Path) -> Result<Vec<String>, Error> {
    let folder = Folder::of(name)?;
    // Report a mistyped path before a sandbox that is not running.
    let file = open(archive)?;
    let _lock = folder.lock().await?;
    let (mut instance, holder) = running_node(&folder)?;
    let names = import(holder, file).await.map_err(|error| match error {
        Error::Command { log: Some(log), .. } => no_archive(archive, log.lines.join("; ").trim()),
        other => other,
    })?;
    if names.is_empty() {
        return Err(no_archive(archive, "it contains no named image"));
    }
    let short: Vec<String> =
        names.iter().map(|name| name.trim_start_matches("docker.io/library/").to_owned()).collect();
    // Images from the cache with one of these names have been replaced.
    instance.images.retain(|(tag, _)| !short.contains(tag));
    folder.write(&instance)?;
    Ok(short)
}

fn no_archive(archive: &Path, because: &str) -> Error {
    Error::Refused(format!(
        "`{}` cannot be imported: {because}: expected an archive as `docker save NAME:TAG` writes it",
        archive.display()
    ))
}

/// Imports an archive of the cache into an instance, unless that was done before.
pub(super) async fn load_cached(
    folder: &Folder,
    tag: &str,
    key: &str,
    archive: &Path,
) -> Result<bool, Error> {
    let _lock = folder.lock().await?;
    let (mut instance, holder) = running_node(folder)?;
    let known = (tag.to_owned(), key.to_owned());
    if instance.images.contains(&known) && list(holder).await?.iter().any(|name| name == tag) {
        return Ok(false);
    }
    import(holder, open(archive)?).await?;
    instance.images.retain(|(other, _)| other != tag);
    instance.images.push(known);
    folder.write(&instance)?;
    Ok(true)
}

/// Returns the instance and its holder, if its node is running.
pub(super) fn running_node(folder: &Folder) -> Result<(Instance, ProcessId), Error> {
    let down = || {
        Error::Refused(format!(
            "there is no running sandbox `{name}`: start it with `kubectl flink sandbox up --name {name}`",
            name = folder.name()
        ))
    };
    let instance = folder.read()?.ok_or_else(down)?;
    if matches!(instance.kind, Kind::ControlPlane { .. }) {
        return Err(Error::Refused(format!(
            "sandbox `{}` is a control plane without a node, so it cannot run images",
            instance.name
        )));
    }
    let holder = folder.running(&instance, HOLDER).ok_or_else(down)?;
    if folder.running(&instance, "containerd").is_none() {
        return Err(down());
    }
    Ok((instance, holder))
}

#[cfg(test)]
mod tests;
