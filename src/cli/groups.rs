//! The commands grouped by purpose, as `--help` and the README list them.

use std::fmt::Write as _;

use clap::Command;

/// Titles and their commands, in the order in which a user meets them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Try it", &["sandbox", "init", "check"]),
    (
        "Deploy and change",
        &[
            "deploy", "run", "sql", "plan", "scale", "set", "restart", "suspend", "resume",
            "pause", "unpause", "rollback", "promote", "abort", "delete",
        ],
    ),
    (
        "Look",
        &[
            "list",
            "status",
            "top",
            "dashboard",
            "why",
            "events",
            "logs",
            "history",
            "config",
            "ui",
            "rest",
            "exec",
            "report",
        ],
    ),
    ("State", &["savepoint", "snapshots", "checkpoints", "restore", "gc"]),
    ("Operator", &["operate", "operator", "autoscaler", "crds"]),
    ("Tools", &["lint", "explain", "render", "completion", "version"]),
];

/// Returns the command tree with the root's commands listed in groups. It parses the same.
pub(super) fn grouped(root: Command) -> Command {
    let (header, literal) = (*root.get_styles().get_header(), *root.get_styles().get_literal());
    let names = root.get_subcommands().map(|it| it.get_name().len());
    let width = names.max().unwrap_or_default();
    let mut listed = String::new();
    for (title, names) in GROUPS {
        // Writing to a `String` cannot fail.
        let _written = writeln!(listed, "{header}{title}:{header:#}");
        for command in names.iter().filter_map(|name| root.find_subcommand(name)) {
            let (name, about) = (command.get_name(), command.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _written = writeln!(listed, "  {literal}{name:width$}{literal:#}  {about}");
        }
        listed.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{{all-args}}{{after-help}}"
    );
    let usage = format!("{} [OPTIONS] <COMMAND>", root.get_bin_name().unwrap_or("kubectl flink"));
    // Otherwise clap would list them a second time.
    root.mut_subcommands(|command| command.hide(true)).override_usage(usage).help_template(template)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let root = Cli::command();
        let shown = root.get_subcommands().filter(|it| !it.is_hide_set());
        let mut shown: Vec<_> = shown.map(Command::get_name).collect();
        let mut listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, shown);
    }

    #[test]
    fn each_has_a_line_of_its_own() {
        let help = grouped(Cli::command()).render_help().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
