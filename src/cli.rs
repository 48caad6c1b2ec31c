//! The command line: one file per command, all printing through [`printer::Printer`].
//!
//! [`run()`] parses the arguments, starts the runtime, runs one command and turns its result into an exit code.
//! Nothing before the command itself touches the network or the kubeconfig, so that `--help` and
//! usage errors are immediate.

pub mod args;
pub mod autoscaler;
pub mod change;
pub mod check;
pub mod checkpoints;
pub mod complete;
pub mod completion;
pub mod config;
pub mod connection;
mod contact;
pub mod crds;
pub mod dashboard;
pub mod delete;
pub mod deploy;
pub mod deployment;
pub mod desired_state;
pub mod edit;
mod equivalent;
pub mod events;
pub mod exec;
mod extension;
pub mod failure;
pub mod gc;
mod groups;
pub mod history;
pub mod init;
pub mod job_manager;
pub mod layout;
pub mod lint;
pub mod list;
pub mod logging;
pub mod logs;
pub mod lookup;
mod manifest;
pub mod operate;
pub mod operator;
pub mod operator_config;
mod operators;
pub mod packages;
pub mod pause;
pub mod permissions;
pub mod plan;
pub mod printer;
pub mod promote;
pub mod reference;
pub mod render;
pub mod report;
pub mod rest;
pub mod restart;
pub mod restore;
pub mod rollback;
pub mod run;
pub mod sandbox;
pub mod savepoint;
pub mod scale;
pub mod set;
mod signals;
pub mod snapshots;
pub mod sql;
pub mod status;
pub mod table;
mod terminal;
pub mod top;
pub mod ui;
pub mod version;
pub mod wait;
pub mod why;

use std::process::ExitCode;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use args::{Cli, Command};
use failure::Failure;
use printer::Printer;

use clients::cluster;
use validation::extension::cel::guard;

/// Runs the program with the arguments and terminal of this process.
pub fn run() -> ExitCode {
    abort_on_panic();
    // A shell that requests completions sets a variable and reads the answer from stdout.
    let words = std::env::args_os();
    match CompleteEnv::with_factory(Cli::command)
        .var(completion::VARIABLE)
        .try_complete(words, None)
    {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(_) => return ExitCode::FAILURE,
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = reference::shortened(error);
            // This fails only on a closed pipe, when no one would read the reason.
            drop(error.print());
            let has_examples = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            if error.use_stderr() && !has_examples {
                let words = std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned());
                if let Some(example) = reference::example(&words.collect::<Vec<_>>()) {
                    let printer = Printer::from_environment(args::Colour::Auto, false);
                    printer.hint(format_args!("for example: {example}"));
                }
            }
            return if error.use_stderr() {
                ExitCode::from(failure::USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let printer = Printer::from_environment(cli.global.color, cli.global.quiet);
    let failed = cli.command.failure_code();
    match start(cli, &printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error, failed, &printer),
    }
}

/// Starts the runtime and runs the command on it.
fn start(cli: Cli, printer: &Printer) -> anyhow::Result<()> {
    if !cli.command.sets_up_logging() {
        logging::for_commands();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("while starting the runtime")?;
    let result = runtime.block_on(dispatch(cli, printer));
    // An abandoned blocking read, such as a prompt, must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Runs the requested command.
async fn dispatch(cli: Cli, printer: &Printer) -> anyhow::Result<()> {
    let Cli { command, global } = cli;
    let result = Box::pin(run_command(command, &global, printer)).await;
    match result {
        Err(error) if is_unreachable(&error) => Err(name_server(error, &global).await),
        other => other,
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(cluster::Error::Unreachable { .. }))
}

/// Adds the address of the API server that did not answer, so that users can check whether it is the right one.
async fn name_server(error: anyhow::Error, global: &args::Global) -> anyhow::Error {
    match (global.config().await, error.downcast_ref()) {
        (Ok(config), Some(cluster::Error::Unreachable { message })) => {
            let server = config.cluster_url.to_string();
            Failure::new(format!(
                "cannot reach the cluster at `{}`: {message}",
                server.trim_end_matches('/')
            ))
            .hint("check that it is running, and that --context names the right one")
            .into()
        }
        _ => error,
    }
}

/// Runs one command with the given connection and printer.
pub async fn run_command(
    command: Command,
    global: &args::Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    match command {
        Command::Completion(args) => completion::run(args, printer),
        Command::Man(args) => reference::man(args, printer),
        Command::Layout(args) => packages::layout(args, printer),
        Command::Complete(args) => completion::complete(args, printer).await,
        Command::Crds(args) => crds::run(args, global, printer).await,
        Command::Promote(args) => promote::promote(args, global, printer).await,
        Command::Abort(args) => promote::abort(args, global, printer).await,
        Command::Pause(args) => pause::pause(args, global, printer).await,
        Command::Unpause(args) => pause::unpause(args, global, printer).await,
        Command::Suspend(args) => desired_state::suspend(args, global, printer).await,
        Command::Resume(args) => desired_state::resume(args, global, printer).await,
        Command::Deploy(args) => Box::pin(deploy::run(*args, global, printer)).await,
        Command::Run(args) => Box::pin(run::run(*args, global, printer)).await,
        Command::List(args) => Box::pin(list::run(args, global, printer)).await,
        Command::Events(args) => events::run(args, global, printer).await,
        Command::Config(args) => config::run(args, global, printer).await,
        Command::Checkpoints(args) => checkpoints::run(args, global, printer).await,
        Command::Dashboard(args) => Box::pin(dashboard::run(args, global, printer)).await,
        Command::Ui(args) => Box::pin(ui::run(args, global, printer)).await,
        Command::Rest(args) => rest::run(args, global, printer).await,
        Command::Restart(args) => Box::pin(restart::run(args, global, printer)).await,
        Command::Scale(args) => Box::pin(scale::run(args, global, printer)).await,
        Command::Set(args) => Box::pin(set::run(*args, global, printer)).await,
        Command::Restore(args) => Box::pin(restore::run(args, global, printer)).await,
        Command::Status(args) => Box::pin(status::run(args, global, printer)).await,
        Command::Top(args) => Box::pin(top::run(args, global, printer)).await,
        Command::Init(args) => init::run(args, global, printer).await,
        Command::Plan(args) => Box::pin(plan::run(*args, global, printer)).await,
        Command::Why(args) => Box::pin(why::run(args, global, printer)).await,
        Command::Report(args) => Box::pin(report::run(args, global, printer)).await,
        Command::Check(args) => Box::pin(check::run(args, global, printer)).await,
        Command::Sql(args) => Box::pin(sql::run(*args, global, printer)).await,
        Command::Lint(args) => lint::run(args, global, printer),
        Command::Explain(args) => lint::explain(args, printer),
        Command::History(args) => history::run(args, global, printer).await,
        Command::Rollback(args) => rollback::run(args, global, printer).await,
        Command::Savepoint(args) => Box::pin(savepoint::dispatch(*args, global, printer)).await,
        Command::Snapshots(args) => Box::pin(snapshots::run(args, global, printer)).await,
        Command::Autoscaler(args) => Box::pin(autoscaler::run(*args, global, printer)).await,
        Command::Delete(args) => Box::pin(delete::run(args, global, printer)).await,
        Command::Gc(args) => gc::run(args, global, printer).await,
        Command::Exec(args) => Box::pin(exec::run(args, global, printer)).await,
        Command::Logs(args) => logs::run(args, global, printer).await,
        Command::Render(args) => render::run(args, global, printer).await,
        Command::Operate(args) => Box::pin(operate::run(*args, global, printer)).await,
        Command::Operator(args) => Box::pin(operator::run(*args, global, printer)).await,
        Command::Sandbox(args) => Box::pin(sandbox::run(args, global, printer)).await,
        Command::Version(args) => version::run(args, global, printer).await,
    }
}

/// Ends the process on a panic, which would otherwise end only a task and leave half an operator.
/// User-defined rules are isolated: see [`guard`].
pub fn abort_on_panic() {
    let described = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if guard::is_guarded() {
            // The message is omitted, because it may contain values of an object.
            let at = panic.location().map(ToString::to_string);
            tracing::warn!(at, "a rule broke the language");
            return;
        }
        terminal::restore();
        described(panic);
        std::process::abort();
    }));
}
