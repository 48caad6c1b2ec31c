//! What is made from the command line itself: `docs/commands.md`, and man pages for packages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, CommandFactory};

use super::args::Cli;
use super::printer::Printer;

/// Columns of the help texts in the reference.
const WIDTH: usize = 100;
/// What stands at the head of the reference.
const HEAD: &str = "\
# Commands

Made from the program by `UPDATE_EXPECT=1 cargo test --test it reference`; `kubectl flink COMMAND --help` prints the same.
";

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

/// File names and texts of the man pages.
pub fn man_pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut root = Cli::command().term_width(WIDTH).bin_name("kubectl-flink");
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

/// The reference of all commands, in Markdown.
pub fn markdown() -> String {
    let mut root = Cli::command().term_width(WIDTH);
    root.build();
    let mut text = HEAD.to_owned();
    for (path, command) in shown(&root) {
        let depth = path.split(' ').count();
        let title = path.replacen("kubectl-flink", "kubectl flink", 1);
        let help = command.clone().render_long_help().to_string();
        let marks = "#".repeat((depth + 1).min(4));
        let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        // Nothing but memory can fail.
        let _written = write!(text, "\n{marks} {title}\n\n```text\n{}\n```\n", help.trim_end());
    }
    text
}

/// The commands that `--help` shows, each with its words, a command before those below it.
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
