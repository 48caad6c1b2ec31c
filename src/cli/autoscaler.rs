//! `autoscaler`: what the autoscaler of a job knows, has decided, and would decide.

mod backtest;
mod chart;
pub(super) mod explain;
pub(super) mod history;
pub(super) mod number;
mod recording;
mod rescales;
mod reset;
mod run;
mod simulate;
pub(super) mod status;
pub(super) mod stored;
mod trial;
mod tried;

use clap::{Args, Subcommand};

use super::args::Global;
use super::printer::Printer;

/// Arguments of `autoscaler`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink autoscaler status orders
  kubectl flink autoscaler explain orders
  kubectl flink autoscaler backtest --record orders.jsonl --for 1h orders
  kubectl flink autoscaler simulate -f job.yaml")]
pub struct AutoscalerArgs {
    #[command(subcommand)]
    command: Command,
}

impl AutoscalerArgs {
    /// Returns true if the subcommand runs for long and sets up its own log.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.command, Command::Run(_))
    }
}

#[derive(Subcommand)]
enum Command {
    /// Show what is in force for a job, since when, and how much was measured
    Status(status::StatusArgs),
    /// Measure a running job, and show the decision for each vertex and the rule behind it
    Explain(explain::ExplainArgs),
    /// Show past scalings with the rates behind them
    History(history::HistoryArgs),
    /// Make the operator forget its data about a job and start over
    Reset(reset::ResetArgs),
    /// Record a job's metrics, and try options on the recording
    Backtest(backtest::BacktestArgs),
    /// Simulate the decisions for a described or a running job, in virtual time
    Simulate(simulate::SimulateArgs),
    /// Scale the jobs of Flink clusters anywhere, without Kubernetes, until Ctrl-C
    Run(run::RunArgs),
}

/// Runs the subcommand.
pub async fn run(args: AutoscalerArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    match args.command {
        Command::Status(args) => status::run(args, global, printer).await,
        Command::Explain(args) => explain::run(args, global, printer).await,
        Command::History(args) => history::run(args, global, printer).await,
        Command::Reset(args) => reset::run(args, global, printer).await,
        Command::Backtest(args) => backtest::run(args, global, printer).await,
        Command::Simulate(args) => simulate::run(args, global, printer).await,
        Command::Run(args) => run::run(args, printer).await,
    }
}
