//! `ui`: Flink's web interface on a local port.

use anyhow::Context;
use clap::Args;
use tokio::sync::mpsc;

use super::args::Global;
use super::deployment::{self, Deployment};
use super::failure::Failure;
use super::printer::Printer;
use super::{complete, wait};
use clients::cluster::pods::{Role, label_selector};
use clients::cluster::tunnel::{Destination, Tunnel};
use config::options;

/// Port that is tried first: Flink's own.
const PORT: u16 = 8081;
/// Maximum number of errors waiting to be reported; further ones at the same time say the same.
const TROUBLES_WAITING: usize = 16;

/// Arguments of `ui`.
#[derive(Args)]
#[command(after_help = "\
The port is only open locally, until Ctrl-C. The connection goes through the API server (permission: pods/portforward).

Examples:
  kubectl flink ui orders
  kubectl flink ui sessionjob/clicks --open     # at its job, in the browser")]
pub struct UiArgs {
    /// The FlinkDeployment; for sessionjob/NAME, the cluster it runs in
    #[arg(add = complete::deployments())]
    name: String,
    /// Local port; default: 8081, or a free one if that is taken
    #[arg(long, value_name = "NUMBER")]
    port: Option<u16>,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

/// Opens the port and prints its address.
pub async fn run(args: UiArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let UiArgs { name, port, open } = args;
    let connection = global.connect().await?;
    let present = deployment::fetch(&connection, &name).await?;
    let cluster = deployment::cluster_of(&connection, &present).await?;
    if cluster.job_manager_status() != Some("READY") {
        return Err(Failure::new(format!("the JobManager of `{}` is not ready", cluster.name()))
            .hint(format!("it is {}", wait::phase(&cluster)))
            .hint(format!("see why: kubectl flink status {}", cluster.name()))
            .into());
    }
    let config = cluster.reconciled_config();
    let to = Destination {
        namespace: cluster.namespace().to_owned(),
        labels: label_selector(cluster.name(), Some(Role::JobManager)),
        port: config.get(&options::REST_PORT)?,
    };
    let tunnel = open_port(port).await?;
    let scheme = if config.get(&options::SSL_REST_ENABLED)? { "https" } else { "http" };
    let url = format!("{scheme}://{}/{}", tunnel.address(), page(&present));
    printer.line(&url)?;
    printer.note("open until Ctrl-C");
    if open && let Err(error) = show_in_browser(&url) {
        printer.warning(format_args!("could not start a browser: {error:#}"));
    }
    let (sender, mut troubles) = mpsc::channel(TROUBLES_WAITING);
    let serving = tunnel.serve(connection.client, to, sender);
    tokio::pin!(serving);
    let mut last = String::new();
    loop {
        tokio::select! {
            () = &mut serving => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
            Some(trouble) = troubles.recv() => {
                // Report repeated errors once; a browser keeps retrying.
                let trouble = trouble.to_string();
                if trouble != last {
                    printer.warning(&trouble);
                    last = trouble;
                }
            }
        }
    }
}

async fn open_port(port: Option<u16>) -> anyhow::Result<Tunnel> {
    match port {
        Some(port) => Tunnel::open(port).await.map_err(|error| {
            Failure::new(format!("cannot listen on port {port}: {error}"))
                .hint("leave out --port to use a free one")
                .into()
        }),
        None => match Tunnel::open(PORT).await {
            Ok(tunnel) => Ok(tunnel),
            Err(_) => Tunnel::open(0).await.context("while opening a local port"),
        },
    }
}

/// Returns the interface's page of the job.
fn page(present: &Deployment) -> String {
    match present.job_id().filter(|_| !present.is_session()) {
        Some(job_id) => format!("#/job/running/{job_id}/overview"),
        None => String::new(),
    }
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_has_a_page_of_its_own() {
        let with =
            |spec| Deployment(json!({"spec": spec, "status": {"jobStatus": {"jobId": "abc"}}}));
        assert_eq!(page(&with(json!({"job": {}}))), "#/job/running/abc/overview");
        assert_eq!(page(&with(json!({}))), "", "a session cluster has many");
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_or_gone_round() {
        let taken = Tunnel::open(0).await.unwrap();
        let port = taken.address().port();
        let error = open_port(Some(port)).await.err().unwrap();
        assert!(error.to_string().starts_with(&format!("cannot listen on port {port}")), "{error}");
        assert!(open_port(None).await.unwrap().address().ip().is_loopback());
    }
}
