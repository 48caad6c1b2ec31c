//! `ui`: Flink's web interface on a local port, with everything that it can do.
//!
//! A page of another site and other programs of this machine could use an open port, too. So it is served by the same
//! door as in the console, which only lets in who has the token.

use anyhow::Context;
use clap::Args;
use operator::http::Listener;
use tokio::sync::mpsc;

use super::args::{FlinkAccess, Global};
use super::dashboard::flink_ui::door::{Door, Mode};
use super::failure::Failure;
use super::printer::Printer;
use super::{complete, job_manager, lookup, signals, wait};
use clients::flink::{Client, Deadlines};

/// Maximum number of errors waiting to be reported; further ones at the same time say the same.
const PROBLEMS_WAITING: usize = 16;

/// Arguments of `ui`.
#[derive(Args)]
#[command(after_help = "\
The port is open on this machine only, until Ctrl-C, and the address contains a token: anyone who has it can do with the job
what you can. A program sends it as a header: curl -H 'Authorization: Bearer TOKEN' http://127.0.0.1:PORT/jobs/overview

Examples:
  kubectl flink ui orders
  kubectl flink ui sessionjob/clicks --open     # at its job, in the browser
  kubectl flink ui orders --port 8081           # on another machine: ssh -L 8081:127.0.0.1:8081 HOST, and open the address")]
pub struct UiArgs {
    /// The FlinkDeployment; for sessionjob/NAME, the cluster it runs in
    #[arg(add = complete::deployments())]
    name: String,
    /// Port on this machine; 0 selects a free one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    port: u16,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    access: FlinkAccess,
}

/// Opens the port and prints its address.
pub async fn run(args: UiArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let UiArgs { name, port, open, access } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch(&connection, &name).await?;
    let cluster = lookup::cluster_of(&connection, &present).await?;
    if cluster.job_manager_status() != Some("READY") {
        return Err(Failure::new(format!("the JobManager of `{}` is not ready", cluster.name()))
            .hint(format!("it is {}", wait::phase(&cluster)))
            .hint(format!("see why: kubectl flink status {}", cluster.name()))
            .into());
    }
    let deadlines = Deadlines::default();
    let client = job_manager::client(&connection, &cluster, access.flink_access, deadlines)?;
    let (troubles, mut reported) = mpsc::channel(PROBLEMS_WAITING);
    let (door, listener) = open_port(port, client, Mode::Full { troubles }).await?;
    let job = present.job_id().filter(|_| !present.is_session());
    printer.line(door.address(job))?;
    printer.note("open until Ctrl-C");
    if open && let Some(address) = door.address_once(job) {
        show_in_browser(&address).unwrap_or_else(|error| {
            printer.warning(format_args!("could not start a browser: {error:#}"));
        });
    }
    let serving = door.serve(listener);
    let stopped = signals::asked_to_stop();
    tokio::pin!(serving, stopped);
    let mut last = String::new();
    loop {
        tokio::select! {
            () = &mut serving => return Ok(()),
            () = &mut stopped => return Ok(()),
            Some(trouble) = reported.recv() => {
                // Report repeated errors once; a browser keeps retrying.
                if trouble != last {
                    printer.warning(&trouble);
                    last = trouble;
                }
            }
        }
    }
}

async fn open_port(
    port: u16,
    client: Client,
    mode: Mode,
) -> anyhow::Result<(std::sync::Arc<Door>, Listener)> {
    Door::open(port, client, mode).await.map_err(|error| {
        Failure::new(format!("{error} on this machine"))
            .hint("leave out --port to use a free one")
            .into()
    })
}

/// Asks the desktop to open the URL.
pub(super) fn show_in_browser(url: &str) -> anyhow::Result<()> {
    let (program, before): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    let nothing = std::process::Stdio::null;
    let mut command = std::process::Command::new(program);
    command.args(before).arg(url).stdin(nothing()).stdout(nothing()).stderr(nothing());
    command.spawn().with_context(|| format!("while starting `{program}`"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_is_reported() {
        let open = async |port| {
            let client = Client::at("http://127.0.0.1:1", Deadlines::default()).unwrap();
            let mode = Mode::ReadOnly { command: String::new() };
            open_port(port, client, mode).await
        };
        let (_door, taken) = open(0).await.unwrap();
        assert!(taken.address().unwrap().ip().is_loopback());
        let port = taken.port().unwrap();
        let error = open(port).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("port {port} cannot be opened: ")), "{error}");
    }
}
