//! `autoscaler backtest --record`: measures a job for some time and writes the measurements to a file.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use tokio::time::Instant;

use super::trial::Names;
use crate::cli::args::{Global, duration};
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::job_manager;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use autoscaler::record::{
    ENTRIES_MAX, Entry, FILE_BYTES_MAX, Header, LINE_BYTES_MAX, Measurement, entry_line,
    header_line,
};
use autoscaler::topology::VertexId;
use clients::flink::access::Access;
use clients::flink::scaling::{self, Measured};
use clients::flink::{Client, Deadlines};
use config::memory::MemorySize;
use config::options::{TASK_MANAGER_CPU, TASK_MANAGER_PROCESS_MEMORY};
use config::{FlinkConfig, quantity};

/// Minimum time between two measurements; Flink itself updates its metrics every ten seconds.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Flags of a recording.
#[derive(Args)]
pub(super) struct RecordFlags {
    /// How long to record
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, default_value = "1h", hide_default_value = true, requires = "record")]
    length: Duration,
    /// Time between two measurements; the operator takes one per minute
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s", hide_default_value = true, requires = "record")]
    interval: Duration,
    /// Stop when the file has this many MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, hide_default_value = true, requires = "record", value_parser = clap::value_parser!(u64).range(1..=FILE_BYTES_MAX >> 20))]
    max_size: u64,
}

/// A job, and how to measure it.
pub(super) struct Job {
    pub(super) client: Client,
    pub(super) id: String,
    pub(super) header: Header,
}

impl Job {
    /// Finds the job of a deployment or session job.
    pub(super) async fn find(name: &str, access: Access, global: &Global) -> anyhow::Result<Self> {
        let connection = global.connect().await?;
        let resource = lookup::fetch(&connection, name).await?;
        let Some(id) = resource.job_id().map(str::to_owned) else {
            return Err(Failure::new(format!("the job of `{name}` was never started"))
                .hint(format!("see: kubectl flink status {name}"))
                .into());
        };
        let cluster = lookup::cluster_of(&connection, &resource).await?;
        let client = job_manager::client(&connection, &cluster, access, Deadlines::default())?;
        // The configuration of the running cluster includes the operator's defaults, but not the autoscaler's options.
        let mut config: FlinkConfig = client.job_manager_config().await?.into_iter().collect();
        config.overlay(&cluster.flink_config());
        config.overlay(&resource.flink_config());
        let mut header = Header::new(resource.name(), &id, Timestamp::now(), &config);
        header.is_session_job = resource.is_session_job();
        header.task_manager_cpu = cpu(&cluster, &config);
        header.task_manager_memory_bytes =
            config.find(&TASK_MANAGER_PROCESS_MEMORY).ok().flatten().map(MemorySize::bytes);
        header.vertex_names = vertex_names(&client, &id).await?;
        Ok(Self { client, id, header })
    }
}

/// Returns the CPUs of a TaskManager, from the resource or else the configuration.
fn cpu(cluster: &Deployment, config: &FlinkConfig) -> Option<f64> {
    let configured = config.find(&TASK_MANAGER_CPU).ok().flatten();
    let field = cluster.0.pointer("/spec/taskManager/resource/cpu");
    let of_resource = field.and_then(|field| match field.as_str() {
        Some(text) => quantity::parse(text),
        None => field.as_f64(),
    });
    of_resource.or(configured).filter(|cpu| *cpu > 0.0)
}

async fn vertex_names(client: &Client, id: &str) -> anyhow::Result<Names> {
    let job = client.job(id).await?;
    Ok(job.vertices.into_iter().map(|of| (VertexId::from(of.id), of.name)).collect())
}

/// Converts a measurement into the form that is recorded.
pub(super) fn measurement(measured: Measured) -> Measurement {
    let Measured { running_since, topology, reading } = measured;
    Measurement { running_since, topology, reading }
}

/// Records until the time is over, the file is full or the user interrupts.
pub(super) async fn run(
    file: &Path,
    name: &str,
    flags: &RecordFlags,
    access: Access,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let RecordFlags { length, interval, max_size } = *flags;
    if interval < INTERVAL_MIN {
        return Err(Failure::usage("--interval must be at least 1s").into());
    }
    let shown = file.display();
    let job = Job::find(name, access, global).await?;
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    let output = opened.with_context(|| format!("while creating `{shown}`"))?;
    let mut writer = Writer { output, bytes: 0, bytes_max: max_size << 20 };
    writer.line(&header_line(&job.header))?;
    let progress = printer.progress();
    let mut names = scaling::Names::default();
    let end = Instant::now() + length;
    let (mut entries, mut failed) = (0_usize, 0_usize);
    let why = loop {
        let next = Instant::now() + interval;
        let measured = job.client.measure(&job.id, &mut names).await;
        let measured = measured.map(measurement).map_err(|error| error.to_string());
        failed += usize::from(measured.is_err());
        let entry = Entry { at: Timestamp::now(), measured };
        if !writer.fits(&entry)? {
            break "the file is full";
        }
        entries += 1;
        progress.set(format_args!("{entries} measurements, {failed} of them failed"));
        if next > end || entries >= ENTRIES_MAX {
            break "done";
        }
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("while waiting for an interrupt")?;
                break "interrupted";
            }
        }
    };
    drop(progress);
    if failed == entries {
        return Err(Failure::new(format!("`{name}` could not be measured: see `{shown}`"))
            .hint("the autoscaler only measures running jobs")
            .into());
    }
    printer.line(format_args!(
        "{why}: {entries} measurements in `{shown}`, {failed} of them failed"
    ))?;
    printer.hint(format_args!("replay them: kubectl flink autoscaler backtest {shown}"));
    Ok(())
}

/// A file with a size limit.
struct Writer {
    output: File,
    bytes: u64,
    bytes_max: u64,
}

impl Writer {
    /// Writes the entry if it fits, and returns whether it did.
    fn fits(&mut self, entry: &Entry) -> anyhow::Result<bool> {
        let mut line = entry_line(entry);
        if line.len() > LINE_BYTES_MAX {
            let unmeasured =
                Err(format!("the measurement has {} bytes, which is too many", line.len()));
            line = entry_line(&Entry { at: entry.at, measured: unmeasured });
        }
        if self.bytes + line.len() as u64 + 1 > self.bytes_max {
            return Ok(false);
        }
        self.line(&line)?;
        Ok(true)
    }

    /// Writes a line in one call, so that at most one line is cut off.
    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        let line = format!("{line}\n");
        self.output.write_all(line.as_bytes()).context("while writing the recording")?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}
