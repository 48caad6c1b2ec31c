//! Texts generated from the command line itself: help, `docs/commands.md`, and man pages for packages.
//!
//! Flags that every command accepts are described once, at the root. The commands below have a line that refers to it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, CommandFactory};

use super::args::Cli;
use super::groups::grouped;
use super::printer::Printer;

/// Width of the help texts in the reference, in columns.
const WIDTH: usize = 100;
/// Heading of the reference.
const HEAD: &str = "\
# Commands

Made from the program by `UPDATE_EXPECT=1 cargo test --test it reference`; `kubectl flink COMMAND --help` prints the same.
";

/// Line in the help of every command that replaces the common flags.
const ELSEWHERE: &str =
    "Connection and appearance (-n, --context, -q, …): see `kubectl flink --help`";

/// Arguments of the hidden `__man`.
#[derive(Args)]
pub struct ManArgs {
    /// Folder to write the pages to
    folder: PathBuf,
}

/// Writes one man page for each command.
pub fn man(args: ManArgs, printer: &Printer) -> anyhow::Result<()> {
    let pages = man_pages()?;
    for (name, page) in &pages {
        write(&args.folder.join(name), page)?;
    }
    printer.note(format_args!("{} pages in {}", pages.len(), args.folder.display()));
    Ok(())
}

fn write(file: &Path, text: &[u8]) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("while writing `{}`", file.display()))
}

/// Returns the command tree as help shows it. It parses the same, and describes shared flags only at its root.
pub fn described() -> Command {
    let root = Cli::command();
    let shared: Vec<Arg> = root
        .get_arguments()
        .filter(|it| it.is_global_set())
        .map(|it| it.clone().hide(true))
        .collect();
    root.mut_subcommands(|command| referring(command, &shared))
}

/// Hides `shared` in the command and everything below, and adds a line that says where the flags are described.
fn referring(command: Command, shared: &[Arg]) -> Command {
    let (after, after_long) = (command.get_after_help(), command.get_after_long_help());
    let with_line = |text: &clap::builder::StyledStr| {
        format!("{ELSEWHERE}\n\n{}", flowing(&text.ansi().to_string()))
    };
    let after = after.map_or_else(|| ELSEWHERE.to_owned(), with_line);
    let after_long = after_long.map(with_line);
    let is_own = |it: &Arg| command.get_arguments().any(|own| own.get_id() == it.get_id());
    let shared_here = shared.iter().filter(|it| !is_own(it)).cloned().collect::<Vec<_>>();
    let command = match after_long {
        Some(after_long) => command.after_long_help(after_long),
        None => command,
    };
    let command = command.args(shared_here).after_help(after);
    command.mut_subcommands(|below| referring(below, shared))
}

/// Joins the lines of each paragraph, so that they wrap where they are shown and not as in the source. Indented lines
/// and text after a colon keep their breaks.
fn flowing(text: &str) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        match shown.last_mut() {
            Some(last) if is_prose && goes_on => {
                last.push(' ');
                last.push_str(line);
            }
            _ => shown.push(line.to_owned()),
        }
        goes_on = is_prose && !line.ends_with(':');
    }
    shown.join("\n")
}

/// Returns the example of the intended command that is most similar to the typed words.
pub(super) fn example(words: &[String]) -> Option<String> {
    let root = Cli::command();
    let mut meant = &root;
    for word in words {
        meant = meant.find_subcommand(word).unwrap_or(meant);
    }
    let likeness = |example: &String| {
        let is_typed = |word: &&str| words.iter().any(|typed| typed == word);
        example.split_whitespace().filter(is_typed).count()
    };
    // Prefer the first of equally similar examples, which is the simplest.
    examples(meant).into_iter().rev().max_by_key(likeness)
}

/// Returns the command lines in the examples of a command.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_long_help().or(command.get_after_help());
    // Join command lines that continue on the next line.
    let help = help.map(ToString::to_string).unwrap_or_default().replace("\\\n", " ");
    let lines = help.lines().filter(|line| line.starts_with(' ')).map(str::trim);
    let lines = lines.filter(|line| !line.starts_with('#') && line.contains("kubectl flink "));
    let plain = |line: &str| line.split("  #").next().unwrap_or(line).to_owned();
    lines.map(|it| plain(it).split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Shortens help to leave shared flags to the root's; returns any other error unchanged.
///
/// This builds the whole tree, which commands that run need not wait for.
pub(super) fn shortened(error: clap::Error) -> clap::Error {
    if !matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return error;
    }
    match grouped(described()).try_get_matches_from(std::env::args_os()) {
        Err(shorter) => shorter,
        Ok(_) => error,
    }
}

/// Returns file names and texts of the man pages.
pub fn man_pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut root = described().term_width(WIDTH).bin_name("kubectl-flink");
    root.build();
    let mut pages = Vec::new();
    for (path, command) in shown(&root) {
        let name = path.replace(' ', "-");
        let page = clap_mangen::Man::new(command.clone()).title(name.clone());
        let mut text = Vec::new();
        page.render(&mut text).with_context(|| format!("while making the page of `{path}`"))?;
        pages.push((format!("{name}.1"), text));
    }
    Ok(pages)
}

/// Returns the reference of all commands, in Markdown.
pub fn markdown() -> String {
    let mut root = described().term_width(WIDTH);
    root.build();
    let mut text = HEAD.to_owned();
    for (path, command) in shown(&root) {
        let depth = path.split(' ').count();
        let title = path.replacen("kubectl-flink", "kubectl flink", 1);
        let is_root = path == "kubectl-flink";
        let mut shown = if is_root { grouped(command.clone()) } else { command.clone() };
        let help = shown.render_long_help().to_string();
        let marks = "#".repeat((depth + 1).min(4));
        let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        // Writing to a `String` cannot fail.
        let _written = write!(text, "\n{marks} {title}\n\n```text\n{}\n```\n", help.trim_end());
    }
    text
}

/// Returns the commands that `--help` shows, each with its full name, parents first.
fn shown(root: &Command) -> Vec<(String, &Command)> {
    fn add<'a>(path: &str, command: &'a Command, found: &mut Vec<(String, &'a Command)>) {
        found.push((path.to_owned(), command));
        for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            add(&format!("{path} {}", below.get_name()), below, found);
        }
    }
    let mut found = Vec::new();
    add("kubectl-flink", root, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help_of(line: &str) -> String {
        let words = line.split(' ');
        described().try_get_matches_from(words).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn shared_flags_are_described_once_and_pointed_at_below() {
        const DESCRIPTION: &str = "Kubeconfig context to use";
        assert!(help_of("kubectl-flink --help").contains(DESCRIPTION));
        for line in ["kubectl-flink status --help", "kubectl-flink set image --help"] {
            let help = help_of(line);
            assert!(!help.contains(DESCRIPTION) && !help.contains("--request-timeout"), "{help}");
            assert_eq!(help.matches(ELSEWHERE).count(), 1, "{help}");
        }
        assert_eq!(markdown().matches(DESCRIPTION).count(), 1);
        let mut root = described();
        root.build();
        let commands = shown(&root).len();
        assert_eq!(markdown().matches(ELSEWHERE).count(), commands - 1);
    }

    #[test]
    fn paragraphs_flow_and_tables_stay() {
        let text = "One and\ntwo.\n\nCodes:\n  0  good\n  1  bad\nBy hand:\n  x\nThen\nmore.";
        let expected = "One and two.\n\nCodes:\n  0  good\n  1  bad\nBy hand:\n  x\nThen more.";
        assert_eq!(flowing(text), expected);
    }

    #[test]
    fn every_command_has_an_example_that_is_understood() {
        let mut root = described();
        root.build();
        for (path, command) in shown(&root).into_iter().skip(1) {
            let found = examples(command);
            let of_it = path.replacen("kubectl-flink", "kubectl flink", 1);
            assert!(found.iter().any(|it| it.contains(&of_it)), "`{path}` has no example");
        }
    }

    #[test]
    fn the_example_is_the_one_most_like_what_was_typed() {
        let of = |line: &str| {
            example(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default()
        };
        assert_eq!(of("sandbox down --al"), "kubectl flink sandbox down");
        assert_eq!(of("sandbox down --all x"), "kubectl flink sandbox down --all");
        assert_eq!(
            of("-n shop rollback --to-revision"),
            "kubectl flink rollback orders --to-revision 3 --dry-run=client"
        );
        assert_eq!(of("deplyo"), "", "no command was meant");
    }

    #[test]
    fn man_pages_of_commands_leave_shared_flags_to_the_first() {
        for (name, page) in man_pages().unwrap() {
            let page = String::from_utf8(page).unwrap();
            assert_eq!(page.contains("Kubeconfig context"), name == "kubectl-flink.1", "{name}");
        }
    }

    #[test]
    fn what_help_hides_is_parsed_all_the_same() {
        let words = ["kubectl-flink", "set", "image", "orders", "x", "--context", "lab"];
        let matches = described().try_get_matches_from(words).unwrap();
        assert_eq!(matches.get_one::<String>("context").map(String::as_str), Some("lab"));
    }
}
