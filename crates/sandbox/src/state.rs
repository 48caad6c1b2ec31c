//! The stored state of an instance: one folder, removed when the instance is taken down.
//!
//! `instance.json` contains the request and is written before anything is started; each part writes its identity to a
//! file of its own. So after a kill at any moment, the next command finds everything that is running.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::archive::hex;
use super::error::Error;
use super::network::Network;
use super::process::{ProcessId, remove, wait_for};

/// Maximum length of an instance's name, which is part of file, cgroup and node names.
const NAME_LENGTH_MAX: usize = 40;
/// Environment variable for another folder for the state of all instances.
const STATE_VARIABLE: &str = "KUBECTL_FLINK_SANDBOX_STATE";
/// Default for root.
const SYSTEM: &str = "/var/lib/kubectl-flink";
/// How long a command waits for another one on the same instance.
const LOCK_WAIT: Duration = Duration::from_mins(2);

/// Content of `instance.json`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instance {
    /// Version of this format.
    pub(super) format: u32,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The boot in which its processes were started: process ids are meaningless in another.
    pub(super) boot: String,
    /// Key of the programs in the cache that it runs.
    pub(super) build: String,
    /// The kubeconfig file with its context, and the context that was current there before.
    pub(super) kubeconfig: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context_before: Option<String>,
    /// Images that were imported from the cache, as tag and key of the archive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) images: Vec<(String, String)>,
}

/// How complete the Kubernetes is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub(super) enum Kind {
    /// Control plane and node, in its own network.
    Full { network: Network },
    /// etcd, API server and two controllers on loopback ports.
    ControlPlane { ports: Ports },
}

/// Loopback ports of a control plane without a network of its own.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Ports {
    pub(super) api: u16,
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
}

/// The version of `instance.json` that this program writes.
pub(super) const FORMAT: u32 = 1;

impl Kind {
    /// Returns host and port of the API server.
    pub(super) fn api(&self) -> (String, u16) {
        match self {
            Self::Full { network } => (network.node(), 6443),
            Self::ControlPlane { ports } => ("127.0.0.1".to_owned(), ports.api),
        }
    }

    /// Returns the address of the API server, as in a kubeconfig.
    pub(super) fn server(&self) -> String {
        let (host, port) = self.api();
        format!("https://{host}:{port}")
    }
}

/// The folder of one instance.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    root: PathBuf,
    name: String,
}

impl Folder {
    /// Returns the folder of the instance `name`, which may not exist.
    pub(super) fn of(name: &str) -> Result<Self, Error> {
        check_name(name).map_err(|why| Error::Refused(format!("invalid name `{name}`: {why}")))?;
        Ok(Self { root: root()?, name: name.to_owned() })
    }

    /// Returns the folder of an instance below another root.
    #[cfg(test)]
    pub(super) fn within(root: &Path, name: &str) -> Self {
        Self { root: root.to_owned(), name: name.to_owned() }
    }

    /// Returns the name of the instance.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Returns the name of the instance's root control group; the kubelet's `cgroupRoot`, without the slash.
    ///
    /// Groups are shared by the machine, and an instance of another state folder may have the same name: taking that
    /// one down must not end this one.
    pub(super) fn group(&self) -> String {
        let name = format!("kubectl-flink-{}", self.name);
        if self.root == Path::new(SYSTEM) {
            return name;
        }
        let sum = hex(&Sha256::digest(self.root.as_os_str().as_encoded_bytes()));
        // Names of instances cannot contain `_`.
        format!("{name}_{}", &sum[..8])
    }

    /// Returns the path of a file or folder in it.
    pub(super) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Returns the path of a part's log.
    pub(super) fn log(&self, part: &str) -> PathBuf {
        self.file("log").join(format!("{part}.log"))
    }

    /// Returns the path to which a part writes its identity.
    pub(super) fn identity(&self, part: &str) -> PathBuf {
        self.file("parts").join(part)
    }

    /// Creates the folder with access only for its owner: it contains the tokens.
    pub(super) fn create(&self) -> Result<(), Error> {
        for folder in [self.path(), self.file("log"), self.file("parts"), self.file("tmp")] {
            make_private_folder(&folder)?;
        }
        Ok(())
    }

    /// Reads `instance.json`; `None` if it does not exist.
    pub(super) fn read(&self) -> Result<Option<Instance>, Error> {
        let path = self.file("instance.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::file("read", &path)(source)),
        };
        parse(&text).map(Some).map_err(|message| {
            Error::Refused(format!("`{}` is damaged: {message}", path.display()))
        })
    }

    /// Writes `instance.json` atomically.
    pub(super) fn write(&self, instance: &Instance) -> Result<(), Error> {
        let path = self.file("instance.json");
        let text = serde_json::to_string_pretty(instance)
            .map_err(|source| Error::file("write", &path)(source.into()))?;
        replace(&path, &text)
    }

    /// Returns all parts that were started, with whether they are still running in this boot.
    pub(super) fn parts(&self, instance: Option<&Instance>) -> Vec<(String, ProcessId, bool)> {
        let same_boot = instance.is_none_or(|instance| instance.boot == boot());
        let Ok(entries) = fs::read_dir(self.file("parts")) else { return Vec::new() };
        let mut parts: Vec<_> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let identity = ProcessId::recorded(&entry.path())?;
                let name = entry.file_name().to_string_lossy().into_owned();
                Some((name, identity, same_boot && identity.is_alive()))
            })
            .collect();
        parts.sort_by_key(|(_, identity, _)| identity.started);
        parts
    }

    /// Returns the running process of a part.
    pub(super) fn running(&self, instance: &Instance, part: &str) -> Option<ProcessId> {
        let identity = ProcessId::recorded(&self.identity(part))?;
        (instance.boot == boot() && identity.is_alive()).then_some(identity)
    }

    /// Removes the folder with its contents, unless something is mounted there.
    pub(super) fn delete(&self) -> Result<(), Error> {
        let path = self.path();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(mount) = mount_below(&mounts, &path) {
            return Err(Error::Refused(format!(
                "`{mount}` is a mount inside the sandbox's folder, so the folder stays; unmount it: umount {mount}"
            )));
        }
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("remove", &path)(source))
            }
            _ => Ok(()),
        }
    }

    /// Keeps other commands away from this instance until the lock is dropped.
    pub(super) async fn lock(&self) -> Result<Lock, Error> {
        let what = format!("sandbox `{}`", self.name);
        lock(&self.root, &format!("{}.lock", self.name), &what, LOCK_WAIT).await
    }

    /// Keeps other instances, of any state folder, from choosing a network until the lock is dropped.
    pub(super) async fn lock_networks() -> Result<Lock, Error> {
        lock(Path::new(SYSTEM), "networks.lock", "the choice of a network", LOCK_WAIT).await
    }
}

/// Returns the names of all instances.
pub fn names() -> Result<Vec<String>, Error> {
    let Ok(entries) = fs::read_dir(root()?) else { return Ok(Vec::new()) };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_name(name))
        .collect();
    names.sort();
    Ok(names)
}

/// A lock that ends when it is dropped, or with the process.
pub(super) struct Lock {
    _file: File,
}

/// Takes the lock `name` in `folder`, waiting for it up to `limit`.
pub(super) async fn lock(
    folder: &Path,
    name: &str,
    what: &str,
    limit: Duration,
) -> Result<Lock, Error> {
    make_private_folder(folder)?;
    let path = folder.join(format!(".{name}"));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(Error::file("write", &path))?;
    let taken = wait_for(limit, async || {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()
    });
    if taken.await.is_none() {
        return Err(Error::TimedOut {
            what: format!("another command is still using {what}"),
            after: limit,
            log: None,
        });
    }
    Ok(Lock { _file: file })
}

/// Returns the folder of all instances: that of the environment, otherwise the system's for root and the user's own for
/// others.
fn root() -> Result<PathBuf, Error> {
    if let Some(named) = std::env::var_os(STATE_VARIABLE).filter(|path| !path.is_empty()) {
        let named = PathBuf::from(named);
        return std::path::absolute(&named).map_err(Error::file("find", &named));
    }
    if is_root() {
        return Ok(PathBuf::from(SYSTEM));
    }
    user_folder("XDG_STATE_HOME", ".local/state")
}

/// Returns the folder for what is built or downloaded once.
pub(super) fn cache() -> Result<PathBuf, Error> {
    let cache = user_folder("XDG_CACHE_HOME", ".cache")?;
    fs::create_dir_all(&cache).map_err(Error::file("make", &cache))?;
    Ok(cache)
}

fn user_folder(variable: &str, default: &str) -> Result<PathBuf, Error> {
    let base = std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(default)));
    base.map(|base| base.join("kubectl-flink")).ok_or_else(|| {
        Error::Refused(format!("there is no home folder: set HOME or {variable} to a folder"))
    })
}

/// Returns whether this program runs as root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns an id that is unique to this boot of the machine.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Atomically writes a file that only its owner may read.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::file("write", path)(source);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    remove(&beside)?;
    let written = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written.map_err(failed)
}

fn make_private_folder(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::file("make", path))
}

fn parse(text: &str) -> Result<Instance, String> {
    let instance: Instance = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if instance.format != FORMAT {
        return Err(format!(
            "it has format {}, and this version of kubectl-flink supports format {FORMAT}",
            instance.format
        ));
    }
    Ok(instance)
}

/// Checks a name; the error says what it must look like.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_name(name) {
        return Ok(());
    }
    Err(format!(
        "expected at most {NAME_LENGTH_MAX} lower-case letters, digits and `-`, starting and ending with a \
         letter or digit"
    ))
}

fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= NAME_LENGTH_MAX
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Returns a mount point at or below `folder`, from the text of `mountinfo`.
fn mount_below(mountinfo: &str, folder: &Path) -> Option<String> {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .find(|point| Path::new(&point.replace("\\040", " ")).starts_with(folder))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests;
