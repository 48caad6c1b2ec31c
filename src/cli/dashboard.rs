//! `dashboard`: a web console for the whole fleet, which runs as long as the command.
//!
//! The console has the rights of the person who runs it. For the fleet it sends the same requests as `list --watch`. It
//! reads a single resource only while one of its pages is open, in the words of `status`, `why`, `checkpoints`,
//! `history`, `events`, `top`, `config` and `autoscaler`. Actions run the commands themselves. The crate `console`
//! decides what is shown and who has access; this module has the server and the watches.

mod act;
mod answers;
mod autoscaler;
mod config;
mod figures;
pub(super) mod flink_ui;
mod job;
mod known;
mod life;
mod live;
mod logs;
pub(super) mod pod;
mod resource;
mod rights;
mod runs;
mod seen;
mod shared_reads;
mod watch;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use futures::FutureExt;
use kube::Client;
use operator::http::{self, Listener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::args::{FlinkAccess, Global};
use super::connection::Connection;
use super::failure::Failure;
use super::operator::NAMESPACE;
use super::printer::{BOLD, DIM, GREEN, Printer, RED, YELLOW, pieces};
use super::{signals, ui};
use act::Acts;
use anstyle::Style;
use answers::{Cluster, Console};
use console::fleet::Fleet;
use console::guard::Guard;
use console::resource::{Ink, Span};
use resource::{READS_MAX, Reader};

/// Default port.
const PORT: u16 = 8880;

/// Arguments of `dashboard`.
#[derive(Args)]
#[command(after_help = "\
The port is open on this machine only, and the address contains a token: anyone who has it can see and do
what you can. Ctrl-C stops the console and leaves nothing behind.

Examples:
  kubectl flink dashboard -A
  kubectl flink dashboard -n payments --port 0
  kubectl flink dashboard -A --no-browser     # on another machine: ssh -L 8880:127.0.0.1:8880 HOST, and open the address")]
pub struct DashboardArgs {
    /// Show all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Port on this machine; 0 selects a free one
    #[arg(long, value_name = "NUMBER", default_value_t = PORT)]
    port: u16,
    /// Only print the address; do not open a browser
    #[arg(long)]
    no_browser: bool,
    /// Namespace of the operator's installation, whose configuration applies to all resources
    #[arg(long, value_name = "NAMESPACE", env = "OPERATOR_NAMESPACE", default_value = NAMESPACE)]
    operator_namespace: String,
    #[command(flatten)]
    access: FlinkAccess,
}

/// Serves the console until the command is told to stop.
pub async fn run(args: DashboardArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let DashboardArgs { all_namespaces, port, no_browser, operator_namespace, access } = args;
    let connection = global.connect().await?;
    let namespace = (!all_namespaces).then(|| connection.namespace.clone());
    let what = watch::What { namespace: namespace.clone(), selector: None };
    // If nothing can be shown at all, report it here and not in a browser.
    let kinds = watch::kinds(&connection.client, what.scope()).await?;
    let listener = open_port(port).await?;
    let guard = Guard::new(listener.port()?, secret(), secret());
    let client = without_retries(&connection)?;
    let reader = Reader::new(
        Connection { client: client.clone(), ..connection.clone() },
        access.flink_access,
        operator_namespace,
        Arc::new(Semaphore::new(READS_MAX)),
    );
    let acts = Acts::new(connection.clone(), access, global).await;
    let (address, once) = (guard.address(), guard.address_once());
    let cluster = cluster(global, &connection);
    let console = Arc::new(Console::new(guard, cluster, reader, Some(acts), namespace));
    printer.line(address)?;
    printer.note("open until Ctrl-C");
    if !no_browser
        && has_screen(printer)
        && let Some(address) = once
    {
        ui::show_in_browser(&address).unwrap_or_else(|error| {
            printer.warning(format_args!("could not start a browser: {error:#}"));
        });
    }
    // Dropping the set ends the watches.
    let mut watches = JoinSet::new();
    console.known.change(|fleet| *fleet = Fleet::from_feeds(what.feeds()));
    what.start(kinds, &client, &console.known, &mut watches);
    let routes = answers::routes(&console);
    let serving = listener.each(answers::CONNECTIONS_MAX, |stream| {
        let answered = http::converse(stream, routes.clone(), answers::HEAD_TIME_MAX, true);
        // Browsers reconnect by themselves. The timeout ends connections that no one reads any more.
        tokio::time::timeout(answers::CONNECTION_TIME_MAX, answered).map(drop)
    });
    tokio::select! {
        () = serving => {}
        () = signals::asked_to_stop() => {}
    }
    Ok(())
}

/// Returns a client for watches and pages, which retry by themselves. A client that retries for minutes would hide from
/// a page that the API server refuses all requests.
fn without_retries(connection: &Connection) -> anyhow::Result<Client> {
    let Some(mut config) = connection.config.clone() else { return Ok(connection.client.clone()) };
    config.default_retry = false;
    Client::try_from(config).context("while preparing the connection")
}

async fn open_port(port: u16) -> anyhow::Result<Listener> {
    Listener::at((Ipv4Addr::LOCALHOST, port).into()).await.map_err(|error| {
        Failure::new(format!("{error} on this machine"))
            .hint("another console may be open; select a port with --port NUMBER, or any free one with --port 0")
            .into()
    })
}

/// Returns whether a person can look at a browser on this machine.
fn has_screen(printer: &Printer) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_desktop = !cfg!(target_os = "linux") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    printer.terminals().output && has_desktop && !is_set("CI")
}

/// Names the cluster by its context or, if there is none, by the host of its API server.
fn cluster(global: &Global, connection: &Connection) -> Cluster {
    let config = connection.config.as_ref();
    let host = config.and_then(|config| config.cluster_url.host().map(str::to_owned));
    let host = host.unwrap_or_else(|| "cluster".to_owned());
    Cluster { name: global.context_name().unwrap_or_else(|| host.clone()), host }
}

/// Converts the output of a command for a page.
fn spans(text: &str) -> Vec<Span> {
    let inks = [
        (BOLD, Ink::Strong),
        (DIM, Ink::Dim),
        (GREEN, Ink::Good),
        (YELLOW, Ink::Moving),
        (RED, Ink::Bad),
    ];
    let ink = |style: Style| {
        inks.into_iter().find(|(it, _)| *it == style).map_or(Ink::Plain, |(_, ink)| ink)
    };
    pieces(text).into_iter().map(|(style, text)| Span { ink: ink(style), text }).collect()
}

/// Returns 128 bits that cannot be guessed.
fn secret() -> String {
    clients::flink::new_trigger_id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_is_reported() {
        let taken = open_port(0).await.unwrap();
        assert!(taken.address().unwrap().ip().is_loopback());
        let port = taken.port().unwrap();
        let error = open_port(port).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("port {port} cannot be opened: ")), "{error}");
    }

    #[test]
    fn secrets_differ() {
        let (one, other) = (secret(), secret());
        assert!(one != other && one.len() == 32, "{one} {other}");
    }
}
