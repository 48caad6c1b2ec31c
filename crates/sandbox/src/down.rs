//! Takes an instance down: everything it has or left behind, even after a kill at any point.

use std::time::Duration;

use super::cgroup::Hierarchies;
use super::error::Error;
use super::kubeconfig;
use super::process::{ProcessId, end};
use super::progress::Progress;
use super::state::{Folder, Kind};

/// How long a killed process may take to exit.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Takes the instance down; returns whether anything existed.
pub async fn down(name: &str, progress: &Progress<'_>) -> Result<bool, Error> {
    let folder = Folder::of(name)?;
    if !folder.path().exists() && !has_groups(&folder) {
        return Ok(false);
    }
    let _lock = folder.lock().await?;
    clear(&folder, progress).await
}

fn has_groups(folder: &Folder) -> bool {
    Hierarchies::of_this_machine().is_some_and(|groups| groups.exist(&folder.group()))
}

/// Removes everything of an instance; returns whether anything existed.
///
/// Mounts, firewall rules and addresses are in the instance's namespaces, and end with its last process. The order
/// keeps everything needed for another attempt until the end.
pub(super) async fn clear(folder: &Folder, progress: &Progress<'_>) -> Result<bool, Error> {
    let name = folder.name();
    if !folder.path().exists() && !has_groups(folder) {
        return Ok(false);
    }
    let task = progress.task(format!("removing all of sandbox `{name}`"));
    // An unreadable instance names no kubeconfig and no network; everything else can be found without it.
    let instance = folder.read().unwrap_or_default();

    let running: Vec<ProcessId> = folder
        .parts(instance.as_ref())
        .into_iter()
        .filter(|(_, _, runs)| *runs)
        .map(|(_, process, _)| process)
        .collect();
    let left = end(&running, GONE_WITHIN).await;
    if let Some(process) = left.first() {
        return Err(Error::TimedOut {
            what: format!("process {} of sandbox `{name}` was still running", process.pid),
            after: GONE_WITHIN,
            log: None,
        });
    }
    let group = folder.group();
    if let Some(groups) = Hierarchies::of_this_machine().filter(|groups| groups.exist(&group)) {
        groups.end_all(&group).await?;
        groups.delete(&group).await?;
    }
    if let Some(instance) = &instance {
        if let Kind::Full { network } = instance.kind {
            network.disconnect().await?;
        }
        let before = instance.context_before.as_deref();
        let server = instance.kind.server();
        kubeconfig::take_out(&instance.kubeconfig, name, &server, before).await?;
    }
    folder.delete()?;
    task.done();
    Ok(true)
}
