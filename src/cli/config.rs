//! `config`: what applies to one job, and which layer each value comes from.

use clap::Args;

use super::args::{Global, Output};
use super::complete;
use super::operator::config::{self, Shown};
use super::printer::Printer;

/// Arguments of `config`.
#[derive(Args)]
#[command(after_help = "\
FROM is the layer that an option comes from: its default, a file of the operator, its defaults for the
namespace or the Flink version, the session cluster, the job. A later layer wins. Secrets are not shown.

Examples:
  kubectl flink config orders --set-only
  kubectl flink config orders -o wide      # values whole, and when a change of each option counts
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
