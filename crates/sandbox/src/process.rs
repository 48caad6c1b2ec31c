//! The processes of a sandbox, identified by id *and* start time.
//!
//! A process writes its own identity to a file before it becomes the part it is started for, so at no moment does it
//! run without a record. Nothing is ever looked up, or ended, by name.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use tokio::process::Command;
use tokio::time::sleep;

use super::command::{find, system_path};
use super::error::Error;

/// Interval between the checks of a wait.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// Writes its identity to `$1`, enters the control group whose process list is `$2` (`-` for none), and executes the
/// remaining arguments.
const START: &str = r#"read -r identity < "/proc/$$/stat" && printf '%s\n' "$identity" > "$1" && { [ "$2" = - ] || echo $$ > "$2"; } && shift 2 && exec "$@""#;

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ProcessId {
    pub(super) pid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub(super) started: u64,
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stat {
    id: ProcessId,
    state: char,
}

impl Stat {
    /// Parses the line; the name in parentheses may contain anything, even `) 1 (`.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.rsplit_once(") ")?;
        let pid = before.split_once(" (")?.0.trim().parse().ok()?;
        let mut fields = after.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // The state is field 3, the start time field 22.
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { id: ProcessId { pid, started }, state })
    }

    fn of(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

impl ProcessId {
    /// Returns the identity that a process wrote to `file`.
    pub(super) fn recorded(file: &Path) -> Option<Self> {
        Stat::parse(&std::fs::read_to_string(file).ok()?).map(|stat| stat.id)
    }

    /// Returns the process that has this id now.
    pub(super) fn of(pid: i32) -> Option<Self> {
        Stat::of(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X')).map(|stat| stat.id)
    }

    /// Returns whether this same process is still running; one that waits to be reaped is not.
    pub(super) fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|now| now.id == self && !matches!(now.state, 'Z' | 'X'))
    }

    /// Sends `signal` to this same process, if it still exists.
    pub(super) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // The descriptor pins the process; the check after it makes sure that it is the right one.
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_alive()
        {
            // Code that waits for the end of the process notices a failure.
            let _ = pidfd_send_signal(&descriptor, signal);
        }
        #[cfg(not(target_os = "linux"))]
        if self.is_alive() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Returns the resident memory in bytes.
    pub(super) fn resident_bytes(self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes * 1024)
    }
}

/// A program that keeps running when this one ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Daemon {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
}

/// Where a daemon's identity and log are written, and what it runs in.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) identity: PathBuf,
    pub(super) log: PathBuf,
    /// Process list of the control group to enter.
    pub(super) group: Option<PathBuf>,
    /// The process whose network and mount namespaces to enter.
    pub(super) namespaces_of: Option<ProcessId>,
}

impl Daemon {
    /// Starts it in its own process group, out of reach of the terminal's signals.
    pub(super) async fn start(&self, place: &Place) -> Result<ProcessId, Error> {
        remove(&place.identity)?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&place.log);
        let log = log.map_err(Error::file("write", &place.log))?;
        let log_too = log.try_clone().map_err(Error::file("write", &place.log))?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(START).arg("sh").arg(&place.identity);
        command.arg(place.group.as_deref().unwrap_or(Path::new("-")));
        if let Some(holder) = place.namespaces_of {
            command.arg(find("nsenter").unwrap_or_else(|| "nsenter".into()));
            command.args(entering(holder));
        }
        command
            .arg(&self.program)
            .args(&self.arguments)
            // Nothing of the user's environment: requests to the API server would go to its proxy.
            .env_clear()
            .env("PATH", system_path())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .process_group(0);
        let mut child = command.spawn().map_err(Error::file("run", Path::new("/bin/sh")))?;
        let started = Duration::from_secs(10);
        let identity = wait_for(started, async || {
            ProcessId::recorded(&place.identity)
                .filter(|identity| u32::try_from(identity.pid).ok() == child.id())
        });
        let Some(identity) = identity.await else {
            drop(child.kill().await);
            return Err(Error::TimedOut {
                what: format!("{} was not started", self.name),
                after: started,
                log: Some(super::error::LogTail::of_file(&place.log)),
            });
        };
        // Reap the process if it ends while this program runs, so that it does not seem to be running.
        tokio::spawn(async move { child.wait().await });
        Ok(identity)
    }
}

/// Returns the arguments of `nsenter` that enter the namespaces of `holder`.
pub(super) fn entering(holder: ProcessId) -> [String; 4] {
    [format!("--target={}", holder.pid), "--net".into(), "--mount".into(), "--".into()]
}

/// Asks repeatedly until there is an answer; `None` when `limit` has passed.
pub(super) async fn wait_for<T>(
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        // A single question must not outlast the wait either.
        match tokio::time::timeout_at(deadline, ask()).await {
            Ok(Some(answer)) => return Some(answer),
            Ok(None) => sleep(POLL).await,
            Err(_) => return None,
        }
        if tokio::time::Instant::now() >= deadline {
            return None;
        }
    }
}

/// Ends these processes, and returns those still running after `limit`.
pub(super) async fn end(processes: &[ProcessId], limit: Duration) -> Vec<ProcessId> {
    for process in processes {
        process.signal(Signal::KILL);
    }
    let gone =
        wait_for(limit, async || processes.iter().all(|process| !process.is_alive()).then_some(()));
    if gone.await.is_some() {
        return Vec::new();
    }
    processes.iter().copied().filter(|process| process.is_alive()).collect()
}

/// Removes a file that may not exist.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(source))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
