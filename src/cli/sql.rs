//! `sql`: runs statements in a session cluster, through a SQL gateway next to it.
//!
//! The gateway is a pod that is created for the session and removed with it. Queries end with the session. Jobs that
//! write tables continue, and the command says how to see and stop them.

mod gateway;
mod interactive;
mod output;
mod session;
pub mod statements;

use std::io::Read;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::args::{DryRun, DryRunMode, Global, Yes, duration};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::lookup;
use super::printer::{Printer, ValueFormat};
use super::signals::Signals;
use super::{change, complete, wait};
use api::version::FlinkVersion;
use clients::cluster::apply;
use clients::flink::sql_gateway::Gateway;
use gateway::GatewayRequest;
use output::ResultFormat;
use session::Runner;
use statements::{Open, Statement};

/// Maximum size of a script in bytes; it is held in memory.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Name of the session in the gateway's log.
const SESSION_NAME: &str = "kubectl-flink";
/// First Flink version whose gateway reports enough about results.
const VERSION_MIN: FlinkVersion = FlinkVersion::V1_17;
/// Name of stdin in messages.
const INPUT: &str = "<stdin>";
const NO_DRY_RUN: DryRunMode = DryRunMode::None;

/// Arguments of `sql`.
#[derive(Args)]
#[command(after_help = "\
Without -f and -e you type statements, or they are read from stdin if it is not a terminal. The gateway is a pod with the
image, configuration and mounts of the JobManager. It is reached by a port-forward (permission: pods/portforward) and
deleted at the end. Queries end with the session; INSERT jobs keep running in the cluster.

With -o json each row is an object on its own line: {\"statement\":1,\"op\":\"+I\",\"row\":{\"id\":7}}; op is +I, -U, +U
or -D. A statement that starts a job gives {\"statement\":2,\"jobId\":\"…\"} instead. A script ends at the first statement that fails.

Examples:
  kubectl flink sql session
  kubectl flink sql session -f orders.sql
  kubectl flink sql session -e \"SET 'execution.runtime-mode' = 'batch'\" -e 'SELECT COUNT(*) FROM orders' -o json
  kubectl flink sql session --keep-gateway      # serves later sessions for --gateway-lifetime")]
pub struct SqlArgs {
    /// The session cluster (FlinkDeployment) to run the statements in
    #[arg(value_name = "SESSION_CLUSTER", add = complete::session_clusters())]
    session_cluster: String,
    /// Run the statements of this file; - reads stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "execute")]
    file: Option<String>,
    /// Run this statement, or several; may be repeated
    #[arg(short, long, value_name = "STATEMENT")]
    execute: Vec<String>,
    /// Output format of results
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: ResultFormat,
    /// Timeout of a statement, such as 10m, after which it exits with code 124; default: none
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Image of the gateway, with the same Flink version; default: the cluster's
    #[arg(long, value_name = "IMAGE")]
    gateway_image: Option<String>,
    /// Keep the gateway for later sessions
    #[arg(long)]
    keep_gateway: bool,
    /// Kubernetes stops the gateway after this time, even if the session is still open
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "8h")]
    gateway_lifetime: Duration,
    /// How long to wait for the gateway to start before exiting with code 124
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    start_timeout: Duration,
    /// Show Flink's complete error messages
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    _yes: Yes,
}

/// Where statements come from.
enum Source {
    Typed,
    Script { name: String, statements: Vec<Statement> },
}

/// Runs the session to its end.
pub async fn run(args: SqlArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let dry_run = args.dry_run.dry_run;
    // Read the script before connecting, because a missing file needs no cluster to be noticed.
    let source = if dry_run == NO_DRY_RUN { source(&args, printer).await? } else { Source::Typed };
    let connection = global.connect().await?;
    let cluster = session_cluster(&connection, &args.session_cluster).await?;
    let wish = GatewayRequest {
        image: args.gateway_image.as_deref(),
        is_retained: args.keep_gateway,
        lifetime: args.gateway_lifetime,
    };
    let manifests = gateway::manifests(&connection, &cluster, wish).await?;
    if dry_run != NO_DRY_RUN {
        let manifest = manifests.wished(wish);
        if dry_run == DryRunMode::Server {
            apply::create(&connection.client, manifest, change::writer(dry_run)).await?;
        }
        let is_json = args.output == ResultFormat::Json;
        let form = if is_json { ValueFormat::Json } else { ValueFormat::Yaml };
        printer.value(manifest, form)?;
        printer
            .note(format_args!("no gateway was created and nothing was run{}", dry_run.suffix()));
        return Ok(());
    }
    // From here on there is something to clean up.
    let signals = Signals::listen().context("while preparing to be stopped")?;
    let limits = (args.start_timeout, &signals);
    let gateway = gateway::start(&connection, &cluster, &manifests, wish, limits, printer).await?;
    let result = session(&args, &gateway, &cluster, source, &signals, printer).await;
    if args.keep_gateway || !gateway.is_own {
        let name = &gateway.pod.name;
        printer.note(format_args!(
            "the gateway is kept for later sessions; to remove it: kubectl delete pod {name} -n {}",
            cluster.namespace()
        ));
    }
    gateway::remove(&connection, &gateway, printer).await;
    result
}

/// Opens a session, runs the statements, and closes it.
async fn session(
    args: &SqlArgs,
    gateway: &gateway::Gateway,
    cluster: &Deployment,
    source: Source,
    signals: &Signals,
    printer: &Printer,
) -> anyhow::Result<()> {
    let opening =
        async { Gateway::connect(gateway.client.clone()).await?.open(SESSION_NAME).await };
    let opened = tokio::select! {
        opened = opening => opened.context("while opening a session of the SQL gateway")?,
        () = signals.after(0) => {
            return Err(Failure::interrupted("stopped before any statement was run").into());
        }
    };
    let runner = Runner {
        session: &opened,
        cluster: cluster.name(),
        format: args.output,
        timeout: args.timeout,
        is_verbose: args.verbose,
        signals,
        printer,
    };
    let result = match source {
        Source::Script { name, statements } => runner.script(&name, &statements).await,
        Source::Typed => interactive::run(runner).await,
    };
    runner.leave("end the session", opened.close()).await;
    result
}

/// Returns the cluster if it is one that accepts jobs.
async fn session_cluster(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let cluster = lookup::fetch(connection, name).await?;
    let shown = cluster.shown_name();
    if let Some(of) = cluster.session_cluster() {
        return Err(Failure::new(format!("`{shown}` is a job, not a session cluster"))
            .hint(format!("it runs in `{of}`: kubectl flink sql {of}"))
            .into());
    }
    if !cluster.is_session() {
        return Err(Failure::new(format!(
            "`{shown}` is an application cluster: it only runs its own job"
        ))
        .hint("list the session clusters: kubectl flink list")
        .hint("create one: a FlinkDeployment without `spec.job`, such as examples/session.yaml")
        .into());
    }
    let version = cluster.flink_version().and_then(FlinkVersion::parse);
    if let Some(version) = version.filter(|version| *version < VERSION_MIN) {
        let (version, least) = (version.into_str(), VERSION_MIN.into_str());
        return Err(Failure::new(format!(
            "`{shown}` has Flink {version}, but SQL needs {least} or later"
        ))
        .hint("run the statements in the cluster: kubectl flink exec NAME -it -- bin/sql-client.sh")
        .into());
    }
    if cluster.job_manager_status() != Some("READY") {
        return Err(Failure::new(format!("the JobManager of `{shown}` is not ready"))
            .hint(format!("it is {}", wait::phase(&cluster)))
            .hint(format!("see why: kubectl flink why {shown}"))
            .into());
    }
    Ok(cluster)
}

async fn source(args: &SqlArgs, printer: &Printer) -> anyhow::Result<Source> {
    let name = match args.file.as_deref() {
        Some("-") => INPUT,
        Some(path) => path,
        None if !args.execute.is_empty() => return typed_as_flags(&args.execute),
        None if printer.terminals().input => return Ok(Source::Typed),
        None => INPUT,
    };
    let read = {
        let name = name.to_owned();
        tokio::task::spawn_blocking(move || read(&name))
    };
    // Interrupting the input ends the command.
    let text = read.await.context("while reading the script")??;
    let statements = all_of(name, &text)?;
    if statements.is_empty() {
        return Err(Failure::usage(format!("`{name}` contains no statements")).into());
    }
    Ok(Source::Script { name: name.to_owned(), statements })
}

/// Returns the statements of all `-e` flags; the end of a flag ends its last statement.
fn typed_as_flags(flags: &[String]) -> anyhow::Result<Source> {
    let mut statements = Vec::new();
    for flag in flags {
        statements.extend(all_of("-e", flag)?);
    }
    if statements.is_empty() {
        return Err(Failure::usage("-e contains no statement").into());
    }
    Ok(Source::Script { name: "-e".to_owned(), statements })
}

/// Returns the statements of a script, the last with or without its semicolon.
fn all_of(name: &str, text: &str) -> Result<Vec<Statement>, Failure> {
    let split = statements::split(text);
    if let Some(Open { what, line }) = split.open {
        return Err(Failure::usage(format!("{name}:{line}: unterminated {what}")));
    }
    Ok(split.statements.into_iter().chain(split.rest).collect())
}

fn read(name: &str) -> anyhow::Result<String> {
    let unread = || format!("while reading `{name}`");
    let from: Box<dyn Read> = if name == INPUT {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(name).with_context(unread)?)
    };
    let mut bytes = Vec::new();
    from.take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(unread)?;
    if bytes.len() as u64 > SCRIPT_BYTES_MAX {
        let larger = format!("`{name}` is larger than {SCRIPT_BYTES_MAX} bytes");
        return Err(Failure::usage(larger).into());
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("`{name}` is not valid UTF-8")).into())
}
