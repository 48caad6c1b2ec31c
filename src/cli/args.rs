//! The command tree and the arguments that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{EnumValueParser, PossibleValue};
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::change::Expected;
use super::connection::Connection;
use super::printer::ValueFormat;
use super::{
    autoscaler, check, checkpoints, complete, completion, config, crds, dashboard, delete, deploy,
    desired_state, events, exec, failure, gc, history, init, lint, list, logs, operate, operator,
    packages, pause, plan, promote, reference, render, report, rest, restart, restore, rollback,
    run, sandbox, savepoint, scale, set, snapshots, sql, status, top, ui, version, why,
};
use clients::flink::access::Access;

/// Exit codes shown below the commands in `--help`. They are part of the interface; see `failure`.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: the cause is on stderr, after `error:`
  2    invalid command line
  124  --timeout expired
  130  Ctrl-C while waiting: the change continues in the cluster";

/// Run Apache Flink on Kubernetes: deploy, watch, upgrade and repair jobs.
#[derive(Parser)]
#[command(
    name = "kubectl-flink",
    bin_name = "kubectl flink",
    version,
    disable_help_subcommand = true,
    after_help = EXIT_CODES,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Prepare a namespace for jobs: CRDs, service account and permissions
    Init(init::InitArgs),
    /// Deploy a job from a manifest, from flags or interactively
    #[command(alias = "apply")]
    Deploy(Box<deploy::DeployArgs>),
    /// Run a local or remote jar as a job in a session cluster
    Run(Box<run::RunArgs>),
    /// Run SQL in a session cluster, interactively, from a file or from flags
    Sql(Box<sql::SqlArgs>),
    /// List deployments and session jobs
    List(list::ListArgs),
    /// Show deployments, or everything about one
    Status(status::StatusArgs),
    /// Show live metrics of jobs: records, lag, backpressure and checkpoints
    Top(top::TopArgs),
    /// Show the events of a deployment and of its pods
    Events(events::EventsArgs),
    /// Show the options that apply to a deployment, and where each comes from
    Config(config::ConfigArgs),
    /// Stop a job and keep its state according to spec.job.upgradeMode
    Suspend(desired_state::SuspendArgs),
    /// Start a suspended job from the state it left
    Resume(desired_state::ResumeArgs),
    /// Have the operator only observe a resource: nothing is started, stopped or deleted
    Pause(pause::PauseArgs),
    /// Have the operator carry out what a paused resource asks for
    Unpause(pause::UnpauseArgs),
    /// Restart a job or a session cluster with its state
    Restart(restart::RestartArgs),
    /// Change the parallelism of a job or its vertices, or the number of TaskManagers
    Scale(scale::ScaleArgs),
    /// Change the image, options or arguments of a job
    Set(Box<set::SetArgs>),
    /// Switch a blue/green deployment to its other colour without the delay, or retry
    Promote(promote::PromoteArgs),
    /// Abort the switch of a blue/green deployment
    Abort(promote::AbortArgs),
    /// Explain what is wrong with a deployment and what to run next
    Why(why::WhyArgs),
    /// Show what a change would do, step by step, without making it
    Plan(Box<plan::PlanArgs>),
    /// Show earlier specs of a deployment, with the state each left
    History(history::HistoryArgs),
    /// Return to an earlier spec, with the current state
    Rollback(rollback::RollbackArgs),
    /// Restart a job from a savepoint, a snapshot or the state of a revision
    Restore(restore::RestoreArgs),
    /// Take a savepoint of a running job and print its path, or inspect one
    Savepoint(Box<savepoint::SavepointCommand>),
    /// List savepoints and checkpoints, and what still refers to each
    Snapshots(snapshots::SnapshotsArgs),
    /// List the checkpoints of a running job
    Checkpoints(checkpoints::CheckpointsArgs),
    /// Serve a live web console for the fleet while the command runs
    Dashboard(dashboard::DashboardArgs),
    /// Forward Flink's web UI to a local port
    Ui(ui::UiArgs),
    /// Send a request to a JobManager's REST API
    Rest(rest::RestArgs),
    /// Print the logs of JobManager and TaskManagers
    Logs(logs::LogsArgs),
    /// Run a command, or a shell, in a pod of a cluster
    Exec(exec::ExecArgs),
    /// Inspect the autoscaler of a job, and try out its options
    Autoscaler(Box<autoscaler::AutoscalerArgs>),
    /// Delete a deployment, by default after saving its job's state
    Delete(delete::DeleteArgs),
    /// Collect objects, events, logs and diagnostics into an archive, with secrets redacted
    Report(report::ReportArgs),
    /// Remove leftovers of former clusters and jobs that nothing refers to
    Gc(gc::GcArgs),
    /// Check whether the cluster is ready for Flink, and which permissions you have
    Check(check::CheckArgs),
    /// Run the operator in the foreground
    Operate(Box<operate::OperateArgs>),
    /// Install, upgrade and remove the operator in the cluster
    Operator(Box<operator::OperatorArgs>),
    /// Print the custom resource definitions, or apply them
    Crds(crds::CrdsArgs),
    /// Check manifests offline; each finding has a code
    Lint(lint::LintArgs),
    /// Explain a code of `lint`
    Explain(lint::ExplainArgs),
    /// Print, offline, the objects the operator would create for a manifest
    Render(render::RenderArgs),
    /// Start, inspect and remove a one-node Kubernetes to try Flink on
    Sandbox(sandbox::SandboxArgs),
    /// Print a completion script for a shell
    Completion(completion::CompletionArgs),
    /// Print the versions of this program and of the installation in the cluster
    Version(version::VersionArgs),
    /// Writes man pages, for packages
    #[command(name = "__man", hide = true)]
    Man(reference::ManArgs),
    /// Writes image layouts, for releases
    #[command(name = "__layout", hide = true)]
    Layout(packages::LayoutArgs),
    /// Answers kubectl's completion requests
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArgs),
}

impl Command {
    /// Returns true for long-running commands, which choose the format and levels of their log themselves.
    pub(super) fn sets_up_logging(&self) -> bool {
        match self {
            Self::Operate(_) => true,
            Self::Autoscaler(args) => args.is_running(),
            Self::Init(_)
            | Self::Deploy(_)
            | Self::Run(_)
            | Self::Sql(_)
            | Self::List(_)
            | Self::Status(_)
            | Self::Top(_)
            | Self::Events(_)
            | Self::Config(_)
            | Self::Checkpoints(_)
            | Self::Dashboard(_)
            | Self::Ui(_)
            | Self::Rest(_)
            | Self::Restart(_)
            | Self::Scale(_)
            | Self::Set(_)
            | Self::Restore(_)
            | Self::Suspend(_)
            | Self::Promote(_)
            | Self::Abort(_)
            | Self::Resume(_)
            | Self::Pause(_)
            | Self::Unpause(_)
            | Self::Plan(_)
            | Self::Report(_)
            | Self::Check(_)
            | Self::Lint(_)
            | Self::Explain(_)
            | Self::Why(_)
            | Self::History(_)
            | Self::Rollback(_)
            | Self::Savepoint(_)
            | Self::Snapshots(_)
            | Self::Logs(_)
            | Self::Exec(_)
            | Self::Delete(_)
            | Self::Gc(_)
            | Self::Crds(_)
            | Self::Operator(_)
            | Self::Sandbox(_)
            | Self::Completion(_)
            | Self::Render(_)
            | Self::Version(_)
            | Self::Man(_)
            | Self::Layout(_)
            | Self::Complete(_) => false,
        }
    }
}

impl Command {
    /// Returns the exit code of a plain failure. `plan` reports a difference with 1, so its failures have another code.
    pub(super) fn failure_code(&self) -> u8 {
        if matches!(self, Self::Plan(_)) { failure::NOT_COMPARED } else { failure::FAILED }
    }
}

/// kubectl's flags that say which cluster, as whom and in which namespace.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Connection, as in kubectl")]
pub struct Global {
    /// Namespace to work in
    #[arg(short, long, global = true, value_name = "NAMESPACE", add = complete::namespaces())]
    pub namespace: Option<String>,
    /// Kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", add = complete::contexts())]
    pub context: Option<String>,
    /// Path of the kubeconfig file
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub cluster: Option<String>,
    /// Kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String>,
    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL", hide_short_help = true)]
    pub server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    pub token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER", hide_short_help = true)]
    pub impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", hide_short_help = true)]
    pub impersonate_groups: Vec<String>,
    /// Do not verify the API server's certificate: others can read and change the traffic
    #[arg(long, global = true, hide_short_help = true)]
    pub insecure_skip_tls_verify: bool,
    /// File with the certificate authority of the API server
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub certificate_authority: Option<PathBuf>,
    /// Timeout of a single request, such as `30s` or `2m`; 0 waits forever
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration, hide_short_help = true)]
    pub request_timeout: Option<Duration>,
    /// When to use colours: auto means on terminals, unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_short_help = true,
        help_heading = "Appearance"
    )]
    pub color: Colour,
    /// Print only results, warnings and errors: no hints, notes or progress
    #[arg(short, long, global = true, hide_short_help = true, help_heading = "Appearance")]
    pub quiet: bool,
    /// Used instead of the flags above where the caller is connected already, as tests are.
    #[arg(skip)]
    pub connection: Option<Connection>,
    /// Taken for stdin, by commands that read a manifest.
    #[arg(skip)]
    pub input: Option<String>,
    /// What a change was decided on, where that was shown before the command was started.
    #[arg(skip)]
    pub expected: Option<Expected>,
}

/// When texts are coloured.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

/// `-o`, with the forms that the command has.
#[derive(Args, Clone, Copy)]
pub struct Output<F: ValueEnum + Send + Sync + 'static = OutputFormat> {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_parser = EnumValueParser::<F>::new())]
    pub output: Option<F>,
}

impl<F: ValueEnum + Send + Sync + 'static> Default for Output<F> {
    fn default() -> Self {
        Self { output: None }
    }
}

/// Output formats that kubectl users know. `WIDE` and `NAME` say whether the command supports `wide` and `name`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format<const WIDE: bool, const NAME: bool> {
    /// A table with more columns, or more detail.
    Wide,
    /// The complete data as JSON or YAML.
    Value(ValueFormat),
    /// `kind/name`, one per line.
    Name,
}

/// Formats of commands that print a table.
pub type OutputFormat = Format<true, true>;
/// Formats of commands that print objects but no table.
pub type ObjectFormat = Format<false, true>;
/// Formats of commands that print something other than objects, in brief or with more detail.
pub type DetailFormat = Format<true, false>;

impl<const WIDE: bool, const NAME: bool> ValueEnum for Format<WIDE, NAME> {
    fn value_variants<'a>() -> &'a [Self] {
        use ValueFormat::{Json, Yaml};
        let all = &[Self::Wide, Self::Value(Json), Self::Value(Yaml), Self::Name];
        &all[usize::from(!WIDE)..3 + usize::from(NAME)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Wide if NAME => {
                Some(PossibleValue::new("wide").help("A table with more columns"))
            }
            Self::Wide => Some(PossibleValue::new("wide").help("With more detail")),
            Self::Value(format) => format.to_possible_value(),
            Self::Name => Some(PossibleValue::new("name").help("`kind/name`, one a line")),
        }
    }
}

/// `--dry-run`, where a command changes something.
#[derive(Args, Clone, Copy, Default)]
pub struct DryRun {
    /// Change nothing: `client` shows what would be sent, `server` has the API server validate it
    #[arg(long, value_name = "WHERE", default_value = "none", hide_default_value = true)]
    pub dry_run: DryRunMode,
}

/// `--yes`, where a command changes something: scripts may give it to each of them, whether it asks or not.
#[derive(Args, Clone, Copy, Default)]
pub struct Yes {
    /// Do not ask; a loss of state still needs the flag that accepts it
    #[arg(short, long)]
    pub yes: bool,
}

/// How far a change goes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum DryRunMode {
    /// Make the change
    #[default]
    None,
    /// Show what would be sent
    Client,
    /// Have it validated, but not stored
    Server,
}

impl DryRunMode {
    /// Returns the text that kubectl appends to the line that reports the change.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// `--wait` and `--timeout`, where the operator carries a change out.
#[derive(Args, Clone, Copy)]
pub struct Wait {
    /// Wait until the change is carried out, not only accepted
    #[arg(short, long)]
    pub wait: bool,
    /// How long to wait before exiting with code 124
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub timeout: Duration,
}

/// What commands take that write a spec for the operator to carry out.
#[derive(Args, Clone, Copy)]
pub struct ChangeFlags {
    #[command(flatten)]
    pub wait: Wait,
    #[command(flatten)]
    pub dry_run: DryRun,
    #[command(flatten)]
    pub yes: Yes,
    #[command(flatten)]
    pub output: Output<ObjectFormat>,
    /// The operator carries out what is written without trying it first, see [`Untried`].
    #[arg(skip)]
    pub untried: bool,
}

impl ChangeFlags {
    #[must_use]
    pub fn or_untried(self, Untried { no_preflight }: Untried) -> Self {
        Self { untried: no_preflight, ..self }
    }
}

/// What commands take that may have the operator stop a running job for another spec.
#[derive(Args, Clone, Copy)]
pub struct Untried {
    /// Stop the running job without first trying whether the new spec would start
    #[arg(long)]
    no_preflight: bool,
}

/// How a JobManager is reached.
#[derive(Args, Clone, Copy, Default)]
pub struct FlinkAccess {
    /// How to reach the JobManager's REST API
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub flink_access: Access,
}

/// Parses a duration as kubectl does: `30s`, `5m`, `1h30m`, or bare seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "expected a number with a unit, such as 30s, 5m or 1h30m".to_owned())
}

#[cfg(test)]
mod tests;
