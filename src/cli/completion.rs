//! `completion`: completion scripts for shells, and the one for kubectl.
//!
//! kubectl is written with Cobra and expects a plugin's completions in Cobra's format: one `value<TAB>help` per line,
//! then a directive.

mod install;

use std::ffi::OsString;

use clap::{Args, CommandFactory, Subcommand, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::args::Cli;
use super::failure::Failure;
use super::printer::Printer;

/// Name of the program when it is run without kubectl.
const PROGRAM: &str = "kubectl-flink";

/// Script that kubectl runs from the PATH to complete `kubectl flink …`.
const KUBECTL_SCRIPT: &str = include_str!("../../completions/kubectl_complete-flink");

/// Arguments of `completion`.
#[derive(Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "\
`kubectl flink completion install` puts the script where your shell looks for it. For `kubectl flink <TAB>` it also puts
`kubectl_complete-flink` into ~/.local/bin, which kubectl runs if it is on the PATH. By hand:
  kubectl flink completion kubectl > ~/.local/bin/kubectl_complete-flink
  chmod +x ~/.local/bin/kubectl_complete-flink"
)]
pub struct CompletionArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Shell, or `kubectl` for completion through kubectl
    #[arg(required = true)]
    shell: Option<Target>,
}

#[derive(Subcommand)]
enum Action {
    /// Install the scripts where the shell and kubectl look for them
    Install(install::InstallArgs),
}

/// Arguments of the hidden `__complete`.
#[derive(Args)]
pub struct CompleteArgs {
    /// The words after `kubectl flink`; the last one is being typed and may be empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Cobra's directive to not complete file names, `ShellCompDirectiveNoFileComp`.
const NO_FILES: &str = ":4";

/// Prints the candidates for the last word.
pub async fn complete(args: CompleteArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut words = vec![OsString::from(PROGRAM)];
    words.extend(args.words);
    if words.len() == 1 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    // Completing live names starts a runtime, which cannot be started inside another one.
    let ask = move || clap_complete::engine::complete(&mut Cli::command(), words, last, None);
    let candidates = tokio::task::spawn_blocking(ask).await??;
    for candidate in candidates.iter().filter(|candidate| !candidate.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        match candidate.get_help().map(ToString::to_string) {
            Some(help) => {
                printer
                    .line(format_args!("{value}\t{}", help.lines().next().unwrap_or_default()))?;
            }
            None => printer.line(value)?,
        }
    }
    printer.line(NO_FILES)?;
    Ok(())
}

/// What asks for completions.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Target {
    Bash,
    Elvish,
    Fish,
    Kubectl,
    Powershell,
    Zsh,
}

/// Prints the script.
pub fn run(args: CompletionArgs, printer: &Printer) -> anyhow::Result<()> {
    let CompletionArgs { action, shell } = args;
    match (action, shell) {
        (Some(Action::Install(args)), _) => install::run(args, printer),
        (None, Some(shell)) => Ok(printer.raw(script(shell)?)?),
        (None, None) => Err(Failure::usage("which shell?").into()),
    }
}

/// Variable that the shells' scripts set to the shell's name when they request completions.
pub(super) const VARIABLE: &str = "KUBECTL_FLINK_COMPLETE";

/// Returns the script for a target. It runs the program each time, so it never goes stale and knows the names in the
/// cluster.
pub fn script(target: Target) -> anyhow::Result<String> {
    let shell: &dyn EnvCompleter = match target {
        Target::Kubectl => return Ok(KUBECTL_SCRIPT.to_owned()),
        Target::Bash => &Bash,
        Target::Elvish => &Elvish,
        Target::Fish => &Fish,
        Target::Powershell => &Powershell,
        Target::Zsh => &Zsh,
    };
    let mut text = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut text)?;
    Ok(String::from_utf8(text)?)
}
