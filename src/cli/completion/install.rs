//! `completion install`: puts the scripts where shells and kubectl look for them.
//!
//! An existing file of others is left alone: each script of this program contains the program's name.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use super::{Target, script};
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;

/// Text that every script of this program contains, and hardly any other.
const MARK: &str = "kubectl-flink";

/// Arguments of `completion install`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink completion install
  kubectl flink completion install zsh kubectl --dry-run")]
pub(super) struct InstallArgs {
    /// Shells to install for; default: $SHELL and kubectl
    #[arg(value_enum)]
    targets: Vec<Target>,
    /// Only print what would be written, and where
    #[arg(long)]
    dry_run: bool,
    /// Replace files written by others
    #[arg(long)]
    force: bool,
}

/// Writes the scripts and prints the remaining steps.
pub(super) fn run(args: InstallArgs, printer: &Printer) -> anyhow::Result<()> {
    let InstallArgs { targets, dry_run, force } = args;
    let home =
        std::env::home_dir().ok_or_else(|| Failure::new("no home directory: $HOME is not set"))?;
    let targets = if targets.is_empty() {
        let shell = std::env::var("SHELL").unwrap_or_default();
        default_targets(&shell)?
    } else {
        targets
    };
    for target in targets {
        let Place { file, hint } = place(target, &home);
        let text = script(target)?;
        let present = std::fs::read_to_string(&file).ok();
        if present.as_deref() == Some(&text) {
            printer.line(format_args!("{} is up to date", file.display()))?;
            continue;
        }
        let is_foreign =
            present.is_some_and(|present| !present.contains(MARK)) || is_unreadable(&file);
        if is_foreign && !force {
            return Err(Failure::new(format!(
                "`{}` is not from kubectl-flink and was left alone",
                file.display()
            ))
            .hint("check it, and replace it with --force")
            .into());
        }
        if !dry_run {
            write(&file, &text, target == Target::Kubectl)?;
        }
        let suffix = if dry_run { " (dry run)" } else { "" };
        printer.line(format_args!("{} written{suffix}", file.display()))?;
        if let Some(hint) = hint {
            printer.hint(hint);
        }
        if target == Target::Kubectl && !is_on_path(&file) {
            let folder = file.parent().unwrap_or(Path::new("")).display();
            printer.hint(format_args!("{folder} is not on the PATH, where kubectl looks for it"));
        }
    }
    Ok(())
}

/// Returns the shell by the name of its program, and kubectl.
fn default_targets(shell: &str) -> Result<Vec<Target>, Failure> {
    let target = match shell.rsplit('/').next().unwrap_or_default() {
        "bash" => Target::Bash,
        "zsh" => Target::Zsh,
        "fish" => Target::Fish,
        "elvish" => Target::Elvish,
        "pwsh" => Target::Powershell,
        other => {
            return Err(Failure::usage(format!("unknown shell `{other}`"))
                .hint("name one: kubectl flink completion install bash kubectl"));
        }
    };
    Ok(vec![target, Target::Kubectl])
}

/// Where a script goes, and what the user has to do in addition.
struct Place {
    file: PathBuf,
    hint: Option<&'static str>,
}

fn place(target: Target, home: &Path) -> Place {
    let (file, hint) = match target {
        Target::Bash => (".local/share/bash-completion/completions/kubectl-flink", None),
        Target::Zsh => (
            ".zfunc/_kubectl-flink",
            Some("add to ~/.zshrc, before compinit: fpath=(~/.zfunc $fpath)"),
        ),
        Target::Fish => (".config/fish/completions/kubectl-flink.fish", None),
        Target::Elvish => (
            ".config/elvish/lib/kubectl-flink.elv",
            Some("add to ~/.config/elvish/rc.elv: use kubectl-flink"),
        ),
        Target::Powershell => (
            ".config/powershell/kubectl-flink.ps1",
            Some("add to $PROFILE: . ~/.config/powershell/kubectl-flink.ps1"),
        ),
        Target::Kubectl => (".local/bin/kubectl_complete-flink", None),
    };
    Place { file: home.join(file), hint }
}

fn is_unreadable(file: &Path) -> bool {
    file.exists() && std::fs::read_to_string(file).is_err()
}

fn is_on_path(file: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Some(folder.as_path()) == file.parent())
}

fn write(file: &Path, text: &str, is_program: bool) -> anyhow::Result<()> {
    let failed = || format!("while writing `{}`", file.display());
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(failed)?;
    }
    std::fs::write(file, text).with_context(failed)?;
    #[cfg(unix)]
    if is_program {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(file, mode).with_context(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_known_by_its_program() {
        let of = |shell| default_targets(shell).ok();
        assert_eq!(of("/usr/bin/zsh"), Some(vec![Target::Zsh, Target::Kubectl]));
        assert_eq!(of("/bin/csh"), None);
    }

    #[test]
    fn every_script_is_known_as_ours() {
        for target in [Target::Bash, Target::Elvish, Target::Fish, Target::Powershell, Target::Zsh]
        {
            assert!(script(target).unwrap().contains(MARK), "{target:?}");
        }
        assert!(script(Target::Kubectl).unwrap().contains(MARK));
    }
}
