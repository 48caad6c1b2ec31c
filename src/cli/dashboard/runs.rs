//! Commands of the command line that the console runs for a person, in this process.
//!
//! They continue when the page is closed, as long as the console runs. What they have written takes effect even without
//! the console, because the operator carries it out.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinError;

use super::spans;
use crate::cli::args::{Cli, Global};
use crate::cli::failure::{self, Failure, Kind};
use crate::cli::printer::Printer;
use crate::cli::run_command;
use config::secret;
use console::page::run::{Run, State};
use console::row::Key;

/// Maximum number of commands remembered. The oldest of those that have ended makes room.
const RUNS_MAX: usize = 32;
/// Maximum number of commands at the same time.
const AT_ONCE_MAX: usize = 8;
/// Maximum time that a question waits for its answer. After that, the answer is no.
const ANSWER_TIME_MAX: Duration = Duration::from_mins(10);
/// Maximum size in bytes of the output that is kept, which is the end of it.
const SAID_BYTES_MAX: usize = 128 * 1024;

/// A command to run.
pub(super) struct Wanted {
    /// Heading that says what it does.
    pub(super) title: String,
    /// The resource that it acts on.
    pub(super) key: Option<Key>,
    /// Arguments without the program.
    pub(super) arguments: Vec<String>,
    /// The command as a person would type it.
    pub(super) command: String,
}

/// Running commands, and the latest ones that have ended.
#[derive(Default)]
pub(super) struct Runs(Mutex<Known>);

#[derive(Default)]
struct Known {
    last: u64,
    /// The newest is last.
    all: VecDeque<Arc<Running>>,
}

/// One command.
pub(super) struct Running {
    number: u64,
    title: String,
    key: Option<Key>,
    command: String,
    started_at: Timestamp,
    progress: Mutex<Progress>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Progress {
    said: String,
    /// Whether the command succeeded; `None` while it runs.
    ended: Option<bool>,
    question: Option<(String, SyncSender<bool>)>,
}

impl Runs {
    /// Starts a command and returns its number.
    ///
    /// # Errors
    /// Returns an error if there is no such command or too many are running.
    pub(super) fn start(&self, wanted: Wanted, global: Global) -> anyhow::Result<u64> {
        let cli = parsed(&wanted.arguments)?;
        let running = self.add(wanted)?;
        let number = running.number;
        // Not awaited: the command reports its own end.
        drop(tokio::spawn(apart(move || async move {
            let ask = {
                let running = Arc::clone(&running);
                Box::new(move |question: &str| running.ask(question))
            };
            let printer = Printer::elsewhere(Said(Arc::clone(&running)), Some(ask));
            let failed = cli.command.failure_code();
            let result = Box::pin(run_command(cli.command, &global, &printer)).await;
            if let Err(error) = &result {
                failure::report(error, failed, &printer);
            }
            running.change(|it| it.ended = Some(result.is_ok()));
        })));
        Ok(number)
    }

    fn add(&self, wanted: Wanted) -> Result<Arc<Running>, Failure> {
        let mut known = lock(&self.0);
        let at_once = known.all.iter().filter(|it| it.is_running()).count();
        if at_once >= AT_ONCE_MAX {
            return Err(Failure::new(format!("{AT_ONCE_MAX} commands are already running"))
                .hint("wait until one of them is done"));
        }
        known.last += 1;
        let Wanted { title, key, command, arguments: _ } = wanted;
        let running = Arc::new(Running {
            number: known.last,
            title,
            key,
            command,
            started_at: Timestamp::now(),
            progress: Mutex::default(),
            changed: watch::Sender::new(()),
        });
        known.all.push_back(Arc::clone(&running));
        if known.all.len() > RUNS_MAX
            && let Some(oldest) = known.all.iter().position(|it| !it.is_running())
        {
            known.all.remove(oldest);
        }
        Ok(running)
    }

    /// Returns the command with this number.
    pub(super) fn find(&self, number: u64) -> Option<Arc<Running>> {
        lock(&self.0).all.iter().find(|it| it.number == number).cloned()
    }

    /// Returns all commands, newest first.
    pub(super) fn all(&self) -> Vec<Run> {
        lock(&self.0).all.iter().rev().map(|it| it.shown()).collect()
    }
}

impl Running {
    /// Returns the command as a page shows it.
    pub(super) fn shown(&self) -> Run {
        let progress = lock(&self.progress);
        let question = progress.question.as_ref().map(|(question, _)| question.clone());
        let state = match (progress.ended, &question) {
            (Some(true), _) => State::Done,
            (Some(false), _) => State::Failed,
            (None, Some(_)) => State::Asking,
            (None, None) => State::Running,
        };
        Run {
            number: self.number,
            title: self.title.clone(),
            key: self.key.clone(),
            command: self.command.clone(),
            started_at: self.started_at.as_second(),
            state,
            said: spans(&secret::hide_in(&progress.said)),
            question,
        }
    }

    /// Answers the question of the command; `false` if it has none.
    pub(super) fn answer(&self, is_yes: bool) -> bool {
        let mut was_asked = false;
        self.change(|it| {
            was_asked = it.question.take().is_some_and(|(_, to)| to.try_send(is_yes).is_ok());
        });
        was_asked
    }

    /// Subscribes to changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn is_running(&self) -> bool {
        lock(&self.progress).ended.is_none()
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
        self.changed.send_replace(());
    }

    /// Asks a question. No answer in time means no.
    fn ask(&self, question: &str) -> bool {
        let (to, answer) = mpsc::sync_channel(1);
        self.change(|it| it.question = Some((question.to_owned(), to)));
        // May block: the thread is the command's own.
        let answer = answer.recv_timeout(ANSWER_TIME_MAX);
        self.change(|it| it.question = None);
        answer.unwrap_or_default()
    }
}

/// Receives the output of a command.
#[derive(Clone)]
struct Said(Arc<Running>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.change(|it| {
            it.said.push_str(&String::from_utf8_lossy(bytes));
            if let Some(over) = it.said.len().checked_sub(SAID_BYTES_MAX).filter(|over| *over > 0) {
                // Cut at the end of a line.
                let end = it.said.bytes().skip(over).position(|byte| byte == b'\n');
                it.said.drain(..end.map_or(it.said.len(), |end| over + end + 1));
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs work on its own thread. Unlike the handlers of a server, a command cannot move between threads.
///
/// # Errors
/// Returns an error if the work ended early, which only a panic or the end of the program can cause.
pub(super) async fn apart<T: Send + 'static, F: Future<Output = T>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, JoinError> {
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(work())).await
}

/// Runs a command that writes nothing, and returns its output with styles.
///
/// # Errors
/// Returns all output if the command fails.
pub(super) async fn output(arguments: &[String], global: &Global) -> Result<String, String> {
    let (printer, transcript) = Printer::in_memory();
    let ran = async {
        let cli = parsed(arguments)?;
        Box::pin(run_command(cli.command, global, &printer)).await
    };
    match ran.await {
        Err(error) if failure::kind_of(&error) != Kind::Differs => {
            failure::report(&error, failure::FAILED, &printer);
            Err(secret::hide_in(transcript.error().trim()))
        }
        _ => Ok(transcript.styled_output()),
    }
}

fn parsed(arguments: &[String]) -> anyhow::Result<Cli> {
    let program = "kubectl flink".to_owned();
    let cli = Cli::try_parse_from(std::iter::once(&program).chain(arguments));
    cli.map_err(|error| Failure::usage(error.to_string().trim()).into())
}

/// Locks a mutex even if a thread has panicked while it held it: the output stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
