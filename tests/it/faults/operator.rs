//! The operator's process: started, killed and started again.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, OnceLock};

use rustix::process::{Pid, Signal, kill_process};

use super::clock;
use crate::support::program::{PROGRAM, other};

/// Number of log lines that a failing test prints.
const TAIL: usize = 120;

#[derive(Default)]
struct State {
    child: Option<Child>,
    starts: usize,
    is_wanted: bool,
    /// How often it ended although it should run.
    ends: usize,
}

/// Returns the program to run: this build's, or another version before or after the first kill, from the paths in
/// `KUBECTL_FLINK_FAULT_FIRST_PROGRAM` and `KUBECTL_FLINK_FAULT_NEXT_PROGRAM`.
fn program_of_life(lives: usize) -> String {
    let name = if lives == 0 {
        "KUBECTL_FLINK_FAULT_FIRST_PROGRAM"
    } else {
        "KUBECTL_FLINK_FAULT_NEXT_PROGRAM"
    };
    std::env::var(name).unwrap_or_else(|_| PROGRAM.to_owned())
}

/// One `kubectl flink operate`, across all its restarts.
pub(crate) struct Operator {
    state: Mutex<State>,
    arguments: OnceLock<Vec<String>>,
    log: PathBuf,
    /// The only certificate authorities that it trusts by default; `None` for the system's.
    authorities: Option<PathBuf>,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Operator {
    pub(crate) fn new(log: &Path) -> Self {
        Self {
            state: Mutex::default(),
            arguments: OnceLock::new(),
            log: log.to_owned(),
            authorities: None,
        }
    }

    /// Trusts only the authorities in this PEM file. Reading all of the system's takes more time than anything else
    /// that such a short-lived process does.
    pub(super) fn trusting(mut self, authorities: PathBuf) -> Self {
        self.authorities = Some(authorities);
        self
    }

    /// Returns the file with its clock's distance from the true time. Without it, the clock cannot be set.
    fn clock(&self) -> PathBuf {
        self.log.with_extension("clock")
    }

    /// Sets its clock to this many seconds before or after the true time.
    pub(super) fn set_clock(&self, seconds: i64) {
        clock::set(&self.clock(), seconds);
    }

    /// Starts it, and keeps the arguments for later starts.
    pub(crate) fn start(&self, arguments: Vec<String>) {
        self.arguments.set(arguments).unwrap();
        self.state.lock().unwrap().is_wanted = true;
        self.tend();
    }

    /// Starts it again if it has ended, as Kubernetes does.
    pub(crate) fn tend(&self) {
        let mut state = self.state.lock().unwrap();
        let has_ended = match &mut state.child {
            Some(child) => child.try_wait().unwrap().is_some(),
            None => true,
        };
        if !state.is_wanted || !has_ended {
            return;
        }
        let log = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let mut command = other(program_of_life(state.starts));
        command.args(self.arguments.get().unwrap()).stdin(Stdio::null());
        command.env("KUBECTL_FLINK_LOG", "info,kubectl_flink=debug,kube_client=off");
        command.stdout(log.try_clone().unwrap()).stderr(log);
        // As in a pod, whose name does not change when its container restarts.
        command.env("POD_NAME", self.log.file_stem().unwrap());
        // One namespace needs few threads, and there are many operators.
        command.env("TOKIO_WORKER_THREADS", "1");
        if let Some(authorities) = &self.authorities {
            command.env("SSL_CERT_FILE", authorities);
        }
        if self.clock().exists() {
            command.env("LD_PRELOAD", clock::library(&self.log));
            command.env(clock::VARIABLE, self.clock());
        }
        state.child = Some(command.spawn().unwrap());
        state.starts += 1;
    }

    /// Starts it again if it ended by itself, but not if it was killed.
    pub(super) fn revive(&self) {
        let mut state = self.state.lock().unwrap();
        let has_ended = |child: &mut Child| child.try_wait().unwrap().is_some();
        if !state.is_wanted || !state.child.as_mut().is_some_and(has_ended) {
            return;
        }
        state.ends += 1;
        drop(state);
        self.tend();
    }

    /// Returns how often it ended by itself and was restarted.
    pub(super) fn ends(&self) -> usize {
        self.state.lock().unwrap().ends
    }

    /// Kills it as the kernel does, without a clean shutdown.
    pub(crate) fn kill(&self) {
        if let Some(mut child) = self.state.lock().unwrap().child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Kills it for good.
    pub(super) fn stop(&self) {
        self.state.lock().unwrap().is_wanted = false;
        self.kill();
    }

    /// Sends SIGTERM, as a kubelet does; it is not started again.
    pub(super) fn ask_to_leave(&self) {
        self.state.lock().unwrap().is_wanted = false;
        self.signal(Signal::TERM);
    }

    /// Sends a signal to the process, if there is one.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.state.lock().unwrap().child {
            let _may_have_ended = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Returns its exit code once it has ended.
    pub(super) fn exit_code(&self) -> Option<i32> {
        let mut state = self.state.lock().unwrap();
        state.child.as_mut()?.try_wait().unwrap()?.code()
    }

    /// Starts it with the same arguments as before.
    pub(super) fn start_again(&self) {
        self.state.lock().unwrap().is_wanted = true;
        self.tend();
    }

    /// Returns the number of starts so far.
    pub(crate) fn starts(&self) -> usize {
        self.state.lock().unwrap().starts
    }

    /// Returns the end of its log.
    pub(super) fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}
