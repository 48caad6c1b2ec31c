//! The interactive prompt: lines can be edited, a semicolon ends a statement, and the history is kept for later
//! sessions unless it has a secret in it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::session::{Ending, Place, Runner};
use super::statements::{Statement, split};
use crate::cli::failure;
use crate::cli::printer::Printer;
use crate::cli::terminal;
use config::secret;

/// Pause between heartbeats; the gateway closes a session that is idle.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Maximum number of statements in the history.
const HISTORY_MAX: usize = 1000;
/// Maximum size of a statement in the history, in bytes.
const STORED_BYTES_MAX: usize = 16 * 1024;
const PROMPT: &str = "sql> ";
/// Prompt of the further lines of a statement.
const PROMPT_MORE: &str = "  -> ";
const HELP: &str = "\
A statement ends with a semicolon and may span several lines. Ctrl-C stops the running one, or clears what is typed.
  SHOW TABLES;  DESCRIBE t;  EXPLAIN SELECT …;  SHOW JOBS;  STOP JOB 'id';
  SET 'execution.runtime-mode' = 'batch';      complete results instead of changes
  help, \\h      this text
  quit, \\q      leave, like Ctrl-D";

type Lines = Editor<(), FileHistory>;

/// Meaning of a line that is not SQL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Word {
    Quit,
    Help,
}

impl Word {
    /// Returns the word if it is the whole line, with or without a semicolon.
    fn of(line: &str) -> Option<Self> {
        let word = line.trim().trim_end_matches(';').trim_end();
        match word.to_ascii_lowercase().as_str() {
            "quit" | "exit" | "\\q" => Some(Self::Quit),
            "help" | "\\h" | "\\?" | "?" => Some(Self::Help),
            _ => None,
        }
    }
}

/// Reads and executes statements until the user leaves.
pub(super) async fn run(runner: Runner<'_>) -> anyhow::Result<()> {
    terminal::keep();
    let result = converse(runner).await;
    // If the program is told to stop, a thread may still be reading a line.
    terminal::restore();
    result
}

async fn converse(runner: Runner<'_>) -> anyhow::Result<()> {
    let printer = runner.printer;
    printer.note(format_args!("SQL in session cluster `{}`; type help or quit", runner.cluster));
    let file = history_file();
    let mut lines = editor(file.as_deref(), printer)?;
    let mut typed = String::new();
    let mut number = 0;
    loop {
        let prompt = if typed.is_empty() { PROMPT } else { PROMPT_MORE };
        let Some((again, line)) = Box::pin(line(lines, prompt, runner)).await? else { break };
        lines = again;
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("while reading a line"),
        };
        if typed.is_empty() {
            match Word::of(&line) {
                Some(Word::Quit) => break,
                Some(Word::Help) => {
                    printer.note(HELP);
                    continue;
                }
                None if line.trim().is_empty() => continue,
                None => {}
            }
        }
        typed.push_str(&line);
        typed.push('\n');
        let found = split(&typed);
        if found.open.is_some() || found.rest.is_some() {
            continue;
        }
        remember(&mut lines, typed.trim_end(), file.as_deref());
        typed.clear();
        for statement in &found.statements {
            number += 1;
            if !carry_out(&runner, statement, number).await? {
                break;
            }
        }
    }
    Ok(())
}

/// Executes a statement, and returns whether to continue with the statements after it.
async fn carry_out(
    runner: &Runner<'_>,
    statement: &Statement,
    number: usize,
) -> anyhow::Result<bool> {
    let place = Place { script: None, number, of: number };
    match Box::pin(runner.statement(statement, place)).await {
        Ok(Ending::Done) => Ok(true),
        Ok(Ending::Interrupted) => {
            // If the program is told to stop, the prompt for the next line notices it.
            runner.printer.note("stopped");
            Ok(false)
        }
        Err(error) if failure::is_closed_pipe(&error) => Err(error),
        Err(error) => {
            let _code = failure::report(&error, failure::FAILED, runner.printer);
            Ok(false)
        }
    }
}

/// Reads a line while keeping the session alive; `None` if the program is told to stop.
async fn line(
    mut lines: Lines,
    prompt: &'static str,
    runner: Runner<'_>,
) -> anyhow::Result<Option<(Lines, Result<String, ReadlineError>)>> {
    let mut reading = tokio::task::spawn_blocking(move || {
        let line = lines.readline(prompt);
        (lines, line)
    });
    let before = runner.signals.interrupts();
    let mut beats = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            read = &mut reading => return read.map(Some).context("while reading a line"),
            () = runner.signals.after(before) => return Ok(None),
            _ = beats.tick() => {
                // If the gateway is gone, the next statement reports it.
                if let Err(error) = runner.session.heartbeat().await {
                    tracing::debug!(%error, "no heartbeat");
                }
            }
        }
    }
}

fn editor(file: Option<&Path>, printer: &Printer) -> anyhow::Result<Lines> {
    let unusable = "while preparing the terminal";
    let config = Config::builder().max_history_size(HISTORY_MAX).context(unusable)?;
    let config = config.history_ignore_space(true).auto_add_history(false).build();
    let mut lines = Lines::with_config(config).context(unusable)?;
    if let Some(file) = file.filter(|file| file.exists())
        && let Err(error) = lines.load_history(file)
    {
        printer.warning(format_args!("history `{}` cannot be read: {error}", file.display()));
    }
    Ok(lines)
}

/// Adds the input to the history of this session and to the file, unless it has a secret or is too long.
fn remember(lines: &mut Lines, typed: &str, file: Option<&Path>) {
    if typed.len() > STORED_BYTES_MAX || has_secret(typed) {
        return;
    }
    if !matches!(lines.add_history_entry(typed), Ok(true)) {
        return;
    }
    let Some(file) = file else { return };
    if let Err(error) = append(lines, file) {
        tracing::debug!(%error, file = %file.display(), "could not save the history");
    }
}

/// Appends to the history file, which only its owner may read.
fn append(lines: &mut Lines, file: &Path) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    lines.append_history(file)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

/// Returns whether a statement sets an option, or a user's attribute, that is a secret.
fn has_secret(statement: &str) -> bool {
    let lower = statement.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric() && !".-_".contains(letter));
    secret::hide_in(statement) != statement
        || words.into_iter().any(secret::is_secret)
        || lower.contains("identified by")
}

/// Returns `$XDG_STATE_HOME/kubectl-flink/sql-history`, or its default; `None` without a home directory.
fn history_file() -> Option<PathBuf> {
    let stated = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let base = stated
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    Some(base.join("kubectl-flink/sql-history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_alone() {
        for line in ["quit", " EXIT; ", "\\q"] {
            assert_eq!(Word::of(line), Some(Word::Quit), "{line}");
        }
        assert_eq!(Word::of("Help;"), Some(Word::Help));
        for line in ["SELECT 1", "quit now;", "", ";"] {
            assert_eq!(Word::of(line), None, "{line}");
        }
    }

    #[test]
    fn secrets_are_not_stored() {
        for statement in [
            "CREATE TABLE t (x INT) WITH ('connector' = 'jdbc', 'password' = 'hunter2');",
            "SET 's3.secret-key' = 'hunter2';",
            "SET 'fs.azure.account.key.me' = 'hunter2';",
            "CREATE TABLE t WITH ('url' = 'jdbc:mysql://me:hunter2@db/x');",
            "SET\n  'my.API_TOKEN'\n  = 'hunter2';",
        ] {
            assert!(has_secret(statement), "{statement}");
        }
        for statement in ["SELECT * FROM orders;", "SET 'execution.runtime-mode' = 'batch';"] {
            assert!(!has_secret(statement), "{statement}");
        }
    }

    #[test]
    fn what_is_stored_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/kubectl-flink/sql-history");
        let (printer, _) = Printer::in_memory();
        let mut lines = editor(None, &printer).unwrap();
        remember(&mut lines, "SELECT 1,\n  2;", Some(&file));
        remember(&mut lines, "SET 'a.password' = 'hunter2';", Some(&file));
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("SELECT 1") && !text.contains("hunter2"), "{text}");
        let again = editor(Some(&file), &printer).unwrap();
        let kept = again.history().iter().cloned().collect::<Vec<_>>();
        assert_eq!(kept, ["SELECT 1,\n  2;"]);
    }
}
