//! `operator`: runs the operator as pods in the cluster.

pub(super) mod config;
mod go_on;
mod image;
mod install;
mod pod_files;
mod shadow;
mod uninstall;

use clap::{Args, Subcommand};

use super::args::Global;
use super::printer::Printer;

/// Namespace of an installation, unless `-n` names another.
pub(super) const NAMESPACE: &str = "flink-operator";
/// Label that identifies the objects of an installation, and its value.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "kubectl-flink";
/// Annotation with the values of an installation that differ from the defaults; an upgrade keeps them.
const VALUES: &str = "kubectl-flink/values";

/// Arguments of `operator`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink operator install --wait
  kubectl flink operator upgrade --check
  kubectl flink operator config --set-only
  kubectl flink operator continue
  kubectl flink operator uninstall")]
pub struct OperatorArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the operator with its CRDs and permissions
    Install(install::InstallArgs),
    /// Upgrade an installation to this version, keeping its values
    Upgrade(install::UpgradeArgs),
    /// Remove the operator; jobs and what they need stay
    Uninstall(uninstall::UninstallArgs),
    /// Show the options in force and the layer each comes from
    Config(config::ConfigArgs),
    /// Continue upgrades that are paused because others failed
    Continue(go_on::ContinueArgs),
    /// Write the operator's image, with just this program, without a container engine
    Image(image::ImageArgs),
}

/// Runs the subcommand.
pub async fn run(args: OperatorArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    match args.command {
        Command::Install(args) => install::install(args, global, printer).await,
        Command::Upgrade(args) => install::upgrade(args, global, printer).await,
        Command::Uninstall(args) => uninstall::run(args, global, printer).await,
        Command::Config(args) => config::run(args, global, printer).await,
        Command::Continue(args) => go_on::run(args, global, printer).await,
        Command::Image(args) => image::run(args, printer),
    }
}

/// Returns the namespace of the installation.
fn namespace(global: &Global) -> String {
    global.namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned())
}
