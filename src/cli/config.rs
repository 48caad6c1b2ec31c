//! `config`: the configuration in force for one job, and the layer that each value comes from.

use clap::Args;

use super::args::{Global, Output};
use super::complete;
use super::operator::config::{self, Shown};
use super::printer::Printer;

/// Arguments of `config`.
#[derive(Args)]
#[command(after_help = "\
FROM is the layer an option comes from: its default, a file of the operator, the operator's defaults for the
namespace or the Flink version, the session cluster, the job. Later layers override. Secrets are hidden.

Examples:
  kubectl flink config orders --set-only
  kubectl flink config orders -o wide      # full values, and when a change of each takes effect
  kubectl flink config orders -o json | jq '.options[] | select(.option == \"state.savepoints.dir\")'")]
pub struct ConfigArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    output: Output,
}

/// Prints the options in force.
pub async fn run(args: ConfigArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ConfigArgs { name, shown, output } = args;
    config::of_resource(&name, shown, output, global, printer).await
}
