//! `completion`: scripts for shells, and the one that kubectl itself calls.
//!
//! kubectl is written with Cobra and expects a plugin's completions in Cobra's form: one
//! `value<TAB>help` a line, and last a directive.

use std::ffi::OsString;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::args::Cli;
use super::printer::Printer;

/// kubectl runs a program of this name on the PATH to complete `kubectl flink …`.
const KUBECTL_SCRIPT: &str = include_str!("../../completions/kubectl_complete-flink");

/// Arguments of `completion`.
#[derive(Args)]
#[command(after_help = "\
For `kubectl flink <TAB>`, kubectl asks a program `kubectl_complete-flink` on the PATH:
  kubectl flink completion kubectl > ~/.local/bin/kubectl_complete-flink
  chmod +x ~/.local/bin/kubectl_complete-flink")]
pub struct CompletionArgs {
    /// For this shell, or `kubectl` for completion through kubectl
    shell: Target,
}

/// Arguments of the hidden `__complete`.
#[derive(Args)]
pub struct CompleteArgs {
    /// The words after `kubectl flink`; the last one is being typed and may be empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Cobra's directive for "and no file names", `ShellCompDirectiveNoFileComp`.
const NO_FILES: &str = ":4";

/// Prints what could stand in place of the last word.
pub fn complete(args: CompleteArgs, printer: &Printer) -> anyhow::Result<()> {
    let mut words = vec![OsString::from("kubectl-flink")];
    words.extend(args.words);
    if words.len() == 1 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let candidates = clap_complete::engine::complete(&mut Cli::command(), words, last, None)?;
    for candidate in candidates.iter().filter(|candidate| !candidate.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        match candidate.get_help().map(ToString::to_string) {
            Some(help) => printer
                .line(format_args!("{value}\t{}", help.lines().next().unwrap_or_default()))?,
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
    printer.raw(script(args.shell))?;
    Ok(())
}

/// The script for one target.
pub fn script(target: Target) -> String {
    let shell = match target {
        Target::Kubectl => return KUBECTL_SCRIPT.to_owned(),
        Target::Bash => Shell::Bash,
        Target::Elvish => Shell::Elvish,
        Target::Fish => Shell::Fish,
        Target::Powershell => Shell::PowerShell,
        Target::Zsh => Shell::Zsh,
    };
    let mut text = Vec::new();
    let mut command = Cli::command().bin_name("kubectl-flink");
    clap_complete::generate(shell, &mut command, "kubectl-flink", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
