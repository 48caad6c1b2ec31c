//! The control groups of an instance: one root for all of it, in cgroup v1 and v2. Its name is
//! [`Folder::group`](super::state::Folder::group).
//!
//! The kubelet keeps its pods below that root, and the parts of the instance run in a leaf of it. So everything that
//! belongs to an instance can be found there, even if all records are lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Error;
use super::process::{ProcessId, end, wait_for};

/// Controllers that the kubelet uses in a v2 hierarchy.
const WANTED: [&str; 5] = ["cpu", "cpuset", "memory", "pids", "hugetlb"];
/// Controllers that the kubelet needs to start.
const REQUIRED: [&str; 3] = ["cpu", "memory", "pids"];
/// How long killed processes may take to exit.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// The mounted hierarchies of this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Hierarchies {
    /// One hierarchy with all controllers.
    V2(PathBuf),
    /// A hierarchy per controller or small group of controllers, and one without any for v2.
    V1(Vec<Hierarchy>),
}

/// A v1 hierarchy: its controllers, or `name=...`, and its mount point.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Hierarchy {
    controllers: Vec<String>,
    path: PathBuf,
}

impl Hierarchies {
    /// Reads the mounted hierarchies.
    pub(super) fn of_this_machine() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").ok()?)
    }

    /// Parses the text of `/proc/self/mountinfo`; v1 wins if both are mounted, because a v2 hierarchy beside v1 has no
    /// controllers.
    fn parse(mountinfo: &str) -> Option<Self> {
        let mut v1 = Vec::new();
        let mut v2 = None;
        for line in mountinfo.lines() {
            let Some((mount, file_system)) = line.split_once(" - ") else { continue };
            let Some(point) = mount.split(' ').nth(4) else { continue };
            let mut fields = file_system.split(' ');
            match fields.next() {
                Some("cgroup2") => v2 = v2.or_else(|| Some(PathBuf::from(point))),
                Some("cgroup") => {
                    let options = fields.nth(1).unwrap_or_default().split(',');
                    let controllers = options
                        .filter(|option| !matches!(*option, "rw" | "ro" | "xattr"))
                        .filter(|option| !option.starts_with("release_agent"))
                        .map(str::to_owned)
                        .collect();
                    v1.push(Hierarchy { controllers, path: PathBuf::from(point) });
                }
                _ => {}
            }
        }
        if v1.is_empty() {
            return v2.map(Self::V2);
        }
        // The container runtime creates a group for each container there, too.
        v1.extend(v2.map(|path| Hierarchy { controllers: Vec::new(), path }));
        Some(Self::V1(v1))
    }

    /// Returns the instance's root in every hierarchy.
    fn roots(&self, group: &str) -> Vec<PathBuf> {
        match self {
            Self::V2(path) => vec![path.join(group)],
            Self::V1(hierarchies) => {
                hierarchies.iter().map(|hierarchy| hierarchy.path.join(group)).collect()
            }
        }
    }

    /// Returns the instance's root in the one hierarchy that keeps its own parts together. In v1 that is one without
    /// limits, so that the parts stay accounted to the person who started them in all others.
    fn tracking_root(&self, group: &str) -> Option<PathBuf> {
        match self {
            Self::V2(path) => Some(path.join(group)),
            Self::V1(hierarchies) => ["pids", "name=systemd", "freezer", "cpu"]
                .iter()
                .find_map(|wanted| {
                    hierarchies.iter().find(|found| found.controllers.iter().any(|c| c == wanted))
                })
                .map(|found| found.path.join(group)),
        }
    }

    /// Returns the file of processes that a part of the instance enters.
    pub(super) fn processes_file(&self, group: &str) -> Option<PathBuf> {
        Some(self.tracking_root(group)?.join("parts/cgroup.procs"))
    }

    /// Creates the instance's groups, ready for a kubelet.
    pub(super) fn create(&self, group: &str) -> Result<(), Error> {
        if let Self::V2(path) = self {
            enable_controllers(path)?;
        }
        for root in self.roots(group) {
            fs::create_dir_all(&root).map_err(Error::file("make", &root))?;
            fill_cpuset(&root)?;
        }
        if let Self::V2(path) = self {
            enable_controllers(&path.join(group))?;
        }
        if let Some(root) = self.tracking_root(group) {
            let parts = root.join("parts");
            fs::create_dir_all(&parts).map_err(Error::file("make", &parts))?;
        }
        Ok(())
    }

    /// Returns whether any group of the instance exists.
    pub(super) fn exist(&self, group: &str) -> bool {
        self.roots(group).iter().any(|root| root.exists())
    }

    /// Ends every process in the instance's groups: its parts, shims and containers.
    pub(super) async fn end_all(&self, group: &str) -> Result<(), Error> {
        let roots = self.roots(group);
        let empty = wait_for(GONE_WITHIN, async || {
            let processes: Vec<ProcessId> = roots.iter().flat_map(|root| members(root)).collect();
            if processes.is_empty() {
                return Some(());
            }
            end(&processes, Duration::from_secs(1)).await;
            None
        });
        empty.await.ok_or_else(|| Error::TimedOut {
            what: format!("processes of control group `{group}` were still running"),
            after: GONE_WITHIN,
            log: None,
        })
    }

    /// Removes the instance's groups, which must be empty.
    pub(super) async fn delete(&self, group: &str) -> Result<(), Error> {
        for root in self.roots(group) {
            // A group stays busy for a moment after its last process has exited.
            let removed = wait_for(GONE_WITHIN, async || {
                remove_groups(&root);
                (!root.exists()).then_some(())
            });
            if removed.await.is_none() {
                return Err(Error::Refused(format!(
                    "control group `{}` cannot be removed: a process is still in it",
                    root.display()
                )));
            }
        }
        Ok(())
    }
}

/// Returns the processes in `group` and below it.
fn members(group: &Path) -> Vec<ProcessId> {
    let mut found: Vec<ProcessId> = fs::read_to_string(group.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter_map(ProcessId::of)
        // Since the list was read, the process may have ended and another one may have its id.
        .filter(|process| is_in(process.pid, group))
        .collect();
    for child in children(group) {
        found.extend(members(&child));
    }
    found
}

/// Returns whether a process is in `group`, according to `/proc/PID/cgroup`.
fn is_in(pid: i32, group: &Path) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .any(|path| path.len() > 1 && group.to_string_lossy().ends_with(path))
}

fn remove_groups(group: &Path) {
    for child in children(group) {
        remove_groups(&child);
    }
    // The caller checks whether the folder is gone.
    drop(fs::remove_dir(group));
}

fn children(group: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(group) else { return Vec::new() };
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Sets the processors and memory nodes of a v1 cpuset group, without which it accepts no process.
fn fill_cpuset(group: &Path) -> Result<(), Error> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = group.join(file);
        // In v2 both are optional, and empty means the parent's.
        if !own.exists() || group.join("cgroup.controllers").exists() {
            continue;
        }
        let parent = group.parent().unwrap_or(group).join(file);
        let inherited = fs::read_to_string(&parent).map_err(Error::file("read", &parent))?;
        fs::write(&own, inherited).map_err(Error::file("write", &own))?;
    }
    Ok(())
}

/// Enables the controllers of a v2 group for the groups below it.
fn enable_controllers(group: &Path) -> Result<(), Error> {
    let read = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    let available = read("cgroup.controllers");
    let control = group.join("cgroup.subtree_control");
    for controller in WANTED.iter().filter(|wanted| has_word(&available, wanted)) {
        // Success is checked below.
        drop(fs::write(&control, format!("+{controller}")));
    }
    let enabled = read("cgroup.subtree_control");
    match REQUIRED.iter().find(|required| !has_word(&enabled, required)) {
        Some(lacking) => Err(Error::Refused(format!(
            "cgroup controller `{lacking}` cannot be enabled in `{}`: the node needs it",
            group.display()
        ))),
        None => Ok(()),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|found| found == word)
}

#[cfg(test)]
mod tests;
