//! `kubectl flink sandbox`: a real single-node Kubernetes on this machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::args::{Global, Output, Yes, duration};
use super::failure::Failure;
use super::printer::{GREEN, Printer, RED, ValueFormat, YELLOW, styled};
use super::table;
use sandbox::error::Error;
use sandbox::flink_image::{self, DEFAULT_REGISTRY, Source};
use sandbox::progress::Progress;
use sandbox::status::{State, Status};
use sandbox::{down, image, state, status, up};

/// Start, look at and remove a one-node Kubernetes for trying Flink out.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink sandbox up --install
  kubectl flink sandbox flink-image --install
  kubectl flink sandbox down

Environment:
  KUBECTL_FLINK_SANDBOX_STATE  folder that holds all sandboxes, instead of
                               /var/lib/kubectl-flink for root and
                               ~/.local/state/kubectl-flink for others; each command
                               only sees the sandboxes of one folder")]
pub struct SandboxArgs {
    #[command(subcommand)]
    command: SandboxCommand,
}

#[derive(Subcommand)]
enum SandboxCommand {
    /// Start the sandbox, or the missing parts of it, and add its context to the kubeconfig
    Up(UpArgs),
    /// Remove the sandbox: processes, network, files and kubeconfig entry
    Down(DownArgs),
    /// Show the sandbox's parts, addresses, node and images
    Status(StatusArgs),
    /// Load the images of an archive (from `docker save`, or an OCI layout) into the sandbox
    LoadImage(LoadImageArgs),
    /// Pull a Flink image, or build it from packages, and load it into the sandbox
    FlinkImage(FlinkImageArgs),
}

/// Which sandbox.
#[derive(Args)]
struct Name {
    /// Name of the sandbox, of its node and of its context
    #[arg(long, value_name = "NAME", default_value = "flink-sandbox", value_parser = name)]
    name: String,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink sandbox up --install
  kubectl flink sandbox up --name ci --control-plane-only
  kubectl flink sandbox up --install --no-start")]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
struct UpArgs {
    #[command(flatten)]
    name: Name,
    /// Start only etcd, API server and the controllers for owners and namespaces, on free loopback
    /// ports: takes seconds, needs no root, runs no pods
    #[arg(long)]
    control_plane_only: bool,
    /// Install missing tools: Debian packages with apt-get, Go with pip
    #[arg(long)]
    install: bool,
    /// Start nothing: only install missing tools and build the components, as for an image of a CI
    /// machine
    #[arg(long, conflicts_with_all = ["switch_context", "output"])]
    no_start: bool,
    /// Make the sandbox the current context, even if another one is
    #[arg(long)]
    switch_context: bool,
    /// Timeout, not counting installation and builds
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    _yes: Yes,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink sandbox down
  kubectl flink sandbox down --all")]
struct DownArgs {
    #[command(flatten)]
    name: Name,
    /// Remove all sandboxes
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    _yes: Yes,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink sandbox status
  kubectl flink sandbox status -o json")]
struct StatusArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  docker save registry/orders:2 -o orders.tar
  kubectl flink sandbox load-image orders.tar")]
struct LoadImageArgs {
    /// Archive with one or more images
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    _yes: Yes,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink sandbox flink-image --install
  kubectl flink sandbox flink-image --version 2.1")]
struct FlinkImageArgs {
    #[command(flatten)]
    name: Name,
    /// Flink version: `1.20` for the newest patch release, or `1.20.1`
    #[arg(long, value_name = "VERSION", default_value = "1.20", value_parser = version)]
    version: String,
    /// Name of the image in the sandbox; default: `flink:` with the version
    #[arg(long, value_name = "NAME:TAG", value_parser = tag)]
    tag: Option<String>,
    /// Where the image comes from
    #[arg(
        long,
        value_name = "SOURCE",
        value_enum,
        default_value_t,
        env = "KUBECTL_FLINK_IMAGE_FROM"
    )]
    from: From,
    /// Registry to pull from
    #[arg(long, value_name = "URL", default_value = DEFAULT_REGISTRY, hide_short_help = true)]
    registry: String,
    /// Only build the archive in the cache; needs no running sandbox
    #[arg(long)]
    no_import: bool,
    /// Install missing Debian packages with apt-get
    #[arg(long)]
    install: bool,
    #[command(flatten)]
    _yes: Yes,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum From {
    /// The cache, else the registry if it answers, else packages
    #[default]
    Auto,
    /// The official image
    Registry,
    /// Debian and Python packages, with apt's and pip's configuration
    Packages,
}

fn name(text: &str) -> Result<String, String> {
    state::check_name(text).map(|()| text.to_owned())
}

fn version(text: &str) -> Result<String, &'static str> {
    flink_image::check_version(text).map(|()| text.to_owned())
}

fn tag(text: &str) -> Result<String, &'static str> {
    flink_image::check_tag(text).map(|()| text.to_owned())
}

/// Runs the command.
pub async fn run(args: SandboxArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    match args.command {
        SandboxCommand::Up(args) => up(args, global, printer).await,
        SandboxCommand::Down(args) => down(args, printer).await,
        SandboxCommand::Status(args) => status(args, printer).await,
        SandboxCommand::LoadImage(args) => load_image(args, printer).await,
        SandboxCommand::FlinkImage(args) => flink_image(args, printer).await,
    }
}

async fn up(args: UpArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let options = up::Options {
        name: args.name.name,
        control_plane_only: args.control_plane_only,
        install: args.install,
        kubeconfig: global.kubeconfig.clone(),
        switch_context: args.switch_context,
        timeout: args.timeout,
    };
    let lines = |line: &str| printer.note(line);
    if args.no_start {
        up::prepare(&options, &progress(printer, &lines)).await.map_err(failure)?;
        printer.note("everything that a sandbox needs is here");
        return Ok(());
    }
    let running = up::up(&options, &progress(printer, &lines)).await.map_err(failure)?;
    if print_value(args.output, &running, printer)? {
        return Ok(());
    }
    printer.note(format_args!(
        "sandbox `{}` {}, API server at {}",
        running.name,
        if running.was_running { "is already running" } else { "is up" },
        running.server
    ));
    if !running.is_current {
        printer.hint(format_args!(
            "use it with --context {0}, or: kubectl config use-context {0}",
            running.context
        ));
    }
    // For scripts: `export KUBECONFIG=$(kubectl flink sandbox up ...)`.
    printer.line(running.kubeconfig.display())?;
    Ok(())
}

async fn down(args: DownArgs, printer: &Printer) -> anyhow::Result<()> {
    let names = if args.all { state::names().map_err(failure)? } else { vec![args.name.name] };
    let lines = |line: &str| printer.note(line);
    for name in names {
        let was_there = down::down(&name, &progress(printer, &lines)).await.map_err(failure)?;
        if was_there {
            printer.note(format_args!("removed sandbox `{name}`"));
        } else {
            printer.note(format_args!("there is no sandbox `{name}`"));
        }
    }
    Ok(())
}

async fn status(args: StatusArgs, printer: &Printer) -> anyhow::Result<()> {
    let name = args.name.name;
    let Some(status) = status::status(&name).await.map_err(failure)? else {
        return Err(Failure::new(format!("there is no sandbox `{name}`"))
            .hint(format!("start it: kubectl flink sandbox up --name {name}"))
            .into());
    };
    if print_value(args.output, &status, printer)? {
        return Ok(());
    }
    print_status(&status, printer)
}

fn print_status(status: &Status, printer: &Printer) -> anyhow::Result<()> {
    let state = match status.state {
        State::Running => styled(GREEN, "running"),
        State::Degraded => styled(YELLOW, "degraded: `up` starts what is missing"),
        State::Stopped => styled(RED, "stopped: `up` starts it again from scratch"),
    };
    let kind = if status.has_node { "" } else { ", control plane only" };
    printer.line(format_args!("Sandbox:     {} ({state}{kind})", status.name))?;
    printer.line(format_args!("API server:  {}", status.server))?;
    printer.line(format_args!("Kubeconfig:  {}", status.kubeconfig.display()))?;
    printer.line(format_args!("Context:     {}", status.context))?;
    printer.line(format_args!("Files:       {}", status.folder.display()))?;
    if let Some(network) = &status.network {
        printer.line(format_args!(
            "Network:     pods {}, services {}, node {}, names {} (all reachable from this machine)",
            network.pods, network.services, network.node, network.name_server
        ))?;
    }
    for node in &status.nodes {
        let ready = if node.ready { styled(GREEN, "ready") } else { styled(RED, "not ready") };
        printer.line(format_args!("Node:        {} {ready}, {}", node.name, node.version))?;
    }
    if !status.images.is_empty() {
        printer.line(format_args!("Images:      {}", status.images.join(", ")))?;
    }
    printer.line("")?;
    let megabytes = |bytes: u64| format!("{}Mi", bytes / (1 << 20));
    let rows = status.parts.iter().map(|part| {
        vec![
            part.name.clone(),
            if part.running { "running" } else { "ended" }.to_owned(),
            part.pid.to_string(),
            part.resident_bytes.map(megabytes).unwrap_or_default(),
            part.log.display().to_string(),
        ]
    });
    let parts = table::render(&["PART", "STATE", "PID", "MEMORY", "LOG"], rows.collect());
    printer.line(parts)?;
    Ok(())
}

async fn load_image(args: LoadImageArgs, printer: &Printer) -> anyhow::Result<()> {
    let names = image::load(&args.name.name, &args.archive).await.map_err(failure)?;
    for name in names {
        printer.line(name)?;
    }
    Ok(())
}

async fn flink_image(args: FlinkImageArgs, printer: &Printer) -> anyhow::Result<()> {
    let options = flink_image::Options {
        version: args.version,
        tag: args.tag,
        source: match args.from {
            From::Auto => Source::Auto,
            From::Registry => Source::Registry,
            From::Packages => Source::Packages,
        },
        registry: args.registry,
        install: args.install,
        instance: (!args.no_import).then_some(args.name.name),
    };
    let lines = |line: &str| printer.note(line);
    let image =
        flink_image::flink_image(&options, &progress(printer, &lines)).await.map_err(failure)?;
    if print_value(args.output, &image, printer)? {
        return Ok(());
    }
    printer.line(image.image)?;
    Ok(())
}

/// Returns a bar or spinner on a terminal, else one line per step.
fn progress<'a>(printer: &Printer, lines: &'a (dyn Fn(&str) + Sync)) -> Progress<'a> {
    if printer.terminals().error { Progress::Terminal } else { Progress::Lines(lines) }
}

/// Prints `value` if an output format is set. Returns true if it did.
fn print_value(
    output: Output<ValueFormat>,
    value: &impl serde::Serialize,
    printer: &Printer,
) -> anyhow::Result<bool> {
    let Some(format) = output.output else { return Ok(false) };
    printer.value(value, format)?;
    Ok(true)
}

fn failure(error: Error) -> anyhow::Error {
    let failure = if error.is_timeout() {
        Failure::timed_out(error.to_string())
    } else {
        Failure::new(error.to_string())
    };
    let failure = error.hints().into_iter().fold(failure, Failure::hint);
    match error {
        // The message already contains the text of these errors.
        Error::Missing(_) | Error::Refused(_) => failure.into(),
        other => failure.caused_by(other).into(),
    }
}
