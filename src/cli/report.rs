//! `report`: everything that helps to find a problem, in one archive that can be shared.
//!
//! Secrets are removed before anything is written. The archive lists what it leaves out because it may not be read,
//! takes too long or is too big: a report with few rights is better than none.

mod archive;
mod collect;
mod redact;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use self::archive::Archive;
use super::args::{FlinkAccess, Global, Output, duration};
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use super::{complete, lookup, table};

/// Examples shown below the flags.
const EXAMPLES: &str = "\
Examples:
  kubectl flink report orders
  kubectl flink report sessionjob/orders --file /tmp/orders.zip --log-lines 500";

/// Arguments of `report`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Archive to write, which must not exist; default: flink-report-NAME-TIME.zip here
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Last lines of each container's log
    #[arg(long, value_name = "COUNT", default_value_t = 2000, value_parser = clap::value_parser!(i64).range(0..=100_000))]
    log_lines: i64,
    /// How long to collect; what is missing by then is left out
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1m")]
    timeout: Duration,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// A written report, as `-o json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    file: String,
    bytes: u64,
    entries: Vec<String>,
    /// Parts that are not in it, and why.
    left_out: Vec<String>,
}

/// Collects, redacts and writes the report.
pub async fn run(args: ReportArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ReportArgs { name, file, log_lines, timeout, access, output: Output { output } } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch(&connection, &name).await?;
    let now = Timestamp::now();
    let file = file.unwrap_or_else(|| {
        let time = now.strftime("%Y%m%d-%H%M%S");
        PathBuf::from(format!("flink-report-{}-{time}.zip", present.name()))
    });
    // Create the file first: collecting takes minutes, and must not end with a file that cannot be written.
    let mut archive = Archive::create(&file).map_err(|error| {
        Failure::new(format!("cannot create `{}`: {error}", file.display()))
            .hint("choose another file with --file")
    })?;
    let progress = printer.progress();
    let collecting = collect::Collecting {
        connection: &connection,
        present: &present,
        access: access.flink_access,
        log_lines,
        until: tokio::time::Instant::now() + timeout,
    };
    let outcome = Box::pin(collecting.into_archive(&mut archive, |what| progress.set(what))).await;
    drop(progress);
    let outcome = outcome.and_then(|()| archive.finish(now));
    let (entries, left_out, bytes) = match outcome {
        Ok(written) => written,
        Err(error) => {
            // An incomplete archive is useless.
            drop(std::fs::remove_file(&file));
            return Err(error).with_context(|| format!("while writing `{}`", file.display()));
        }
    };
    let file = file.display().to_string();
    let written = Written { file, bytes, entries, left_out };
    if let Some(format) = output {
        return printer.value(&written, format);
    }
    let Written { file, bytes, entries, left_out } = written;
    let size = table::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
    printer.line(format_args!("{file}: {} files, {size}", entries.len()))?;
    for left_out in &left_out {
        printer.warning(format_args!("left out: {left_out}"));
    }
    printer.hint("known secrets are redacted; review the archive before you share it");
    Ok(())
}
