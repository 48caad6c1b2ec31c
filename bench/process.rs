//! The operator's process, and what it uses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Ticks per second in `/proc/PID/stat`: the same on every Linux that Rust supports.
const TICKS: f64 = 100.0;

pub(crate) struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    pub(crate) fn start(command: &[String], log: &Path) -> Result<Self> {
        let (program, args) = command.split_first().context("no operator command")?;
        let file = fs::File::create(log)?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("while starting `{program}`"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let stat = fs::read_to_string(process.join("stat"))?;
        // Fields are counted from after the command, which may contain blanks.
        let (_, fields) = stat.rsplit_once(')').context("no command in /proc/PID/stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).context("no times in /proc/PID/stat")?;
        let status = fs::read_to_string(process.join("status"))?;
        let field = |name: &str| -> Result<f64> {
            let line =
                status.lines().find(|line| line.starts_with(name)).context(name.to_owned())?;
            Ok(line.split_whitespace().nth(1).context("no value")?.parse()?)
        };
        Ok(Usage {
            cpu_seconds: (user + system) / TICKS,
            rss_mb: field("VmRSS:")? / 1024.0,
            peak_mb: field("VmHWM:")? / 1024.0,
            threads: field("Threads:")?,
            descriptors: fs::read_dir(process.join("fd"))?.count(),
        })
    }

    /// Returns the number of tasks of the asynchronous runtime, as last logged by the operator.
    pub(crate) fn tasks(&self) -> Result<Option<u64>> {
        let log = fs::read_to_string(&self.log)?;
        let line = log.lines().rev().find_map(|line| line.split_once("alive_tasks="));
        Ok(line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok()))
    }

    /// Interrupts the operator like Ctrl-C, and waits until it has exited.
    pub(crate) fn stop(self) -> Result<()> {
        self.interrupt()?;
        self.wait()
    }

    /// Interrupts the operator like Ctrl-C.
    pub(crate) fn interrupt(&self) -> Result<()> {
        let id = i32::try_from(self.child.id())?;
        let id = rustix::process::Pid::from_raw(id).context("process id 0")?;
        Ok(rustix::process::kill_process(id, rustix::process::Signal::INT)?)
    }

    /// Waits until it has exited.
    pub(crate) fn wait(mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }

    /// Kills the operator, as if its node were lost.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.wait()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // After `stop` there is nothing to kill, and after an early error the reason does not matter.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_mb: f64,
    pub(crate) peak_mb: f64,
    pub(crate) threads: f64,
    pub(crate) descriptors: usize,
}

impl Usage {
    pub(crate) fn to_json(&self) -> Value {
        let Self { cpu_seconds, rss_mb, peak_mb, threads, descriptors } = self;
        json!({
            "cpu_s": round(*cpu_seconds),
            "rss_mb": round(*rss_mb),
            "peak_mb": round(*peak_mb),
            "threads": threads,
            "descriptors": descriptors,
        })
    }
}

/// Returns the CPU seconds of the processes that share the machine with the operator: the sandbox `instance`, the
/// stand-in for Flink and this program, by name.
pub(crate) fn others(instance: &str) -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.map(|entry| entry.path()) {
        let read = |file: &str| fs::read(process.join(file)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
        let name = String::from_utf8_lossy(&read("comm")).trim().to_owned();
        let is_ours = command.contains(&format!("{instance}/")) || name == "flinkworld";
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let Some((_, fields)) = stat.rsplit_once(')') else { continue };
        let ticks = |index: usize| fields.split_whitespace().nth(index)?.parse::<f64>().ok();
        if (is_ours || name == "bench")
            && let Some((user, system)) = ticks(11).zip(ticks(12))
        {
            *seconds.entry(name).or_default() += (user + system) / TICKS;
        }
    }
    seconds
}

pub(crate) fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
