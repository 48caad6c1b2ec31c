//! Executes the statements of a script or of a user in one session of the gateway.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::output::{ResultFormat, Writer};
use super::statements::Statement;
use crate::cli::failure::Failure;
use crate::cli::printer::{Printer, Progress};
use crate::cli::signals::Signals;
use clients::flink::Error;
use clients::flink::sql_gateway::cause::{self, Cause};
use clients::flink::sql_gateway::{Fetched, Operation, Page, Session, is_session_lost};
use config::secret;

/// First pause before a result is fetched again; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Maximum pause, so that rows of a stream are shown soon after they arrive.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Deadline for cancelling a statement or closing a session.
const ENDING: Duration = Duration::from_secs(10);
/// Maximum number of characters of a statement in a message.
const SHOWN_CHARS: usize = 60;

/// How to execute and show statements.
#[derive(Clone, Copy)]
pub(super) struct Runner<'a> {
    pub(super) session: &'a Session,
    /// Name of the session cluster.
    pub(super) cluster: &'a str,
    pub(super) format: ResultFormat,
    /// Timeout of one statement; `None` for unlimited, as for a streaming query.
    pub(super) timeout: Option<Duration>,
    /// Whether to show errors in full.
    pub(super) is_verbose: bool,
    pub(super) signals: &'a Signals,
    pub(super) printer: &'a Printer,
}

/// How a statement ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    Done,
    /// The user interrupted it, and it was cancelled.
    Interrupted,
}

/// Position of a statement, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Name of the script; `None` for interactive input.
    pub(super) script: Option<&'a str>,
    /// Number of the statement, from 1, and of all.
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Runner<'_> {
    /// Executes the statements of a script, up to the first that fails.
    pub(super) async fn script(&self, name: &str, statements: &[Statement]) -> anyhow::Result<()> {
        let of = statements.len();
        for (index, statement) in statements.iter().enumerate() {
            let place = Place { script: Some(name), number: index + 1, of };
            let left = of - place.number;
            match self.statement(statement, place).await {
                Ok(Ending::Done) => {}
                Ok(Ending::Interrupted) => {
                    let at = format!("{name}:{}", statement.line);
                    return Err(Failure::interrupted(format!(
                        "{at}: stopped while it was running"
                    ))
                    .hint(format!(
                        "{}; the cancelled statement may have had effects",
                        counted(index, left)
                    ))
                    .into());
                }
                Err(error) if of > 1 => match error.downcast::<Failure>() {
                    Ok(failure) => return Err(failure.hint(counted(index, left)).into()),
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Executes one statement and shows its result as it arrives.
    pub(super) async fn statement(
        &self,
        statement: &Statement,
        place: Place<'_>,
    ) -> anyhow::Result<Ending> {
        // An interrupt at any time ends a script; at the prompt it only ends the running statement.
        let before = if place.script.is_some() { 0 } else { self.signals.interrupts() };
        let progress = self.printer.progress();
        progress.set(label(statement, place, "running"));
        let operation = tokio::select! {
            operation = self.session.execute(&statement.text) => operation,
            () = self.signals.after(before) => return Ok(Ending::Interrupted),
        };
        let operation = operation.map_err(|error| self.failed(&error, statement, place))?;
        let limit = async {
            match self.timeout {
                Some(timeout) => sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let ending = tokio::select! {
            shown = self.show(&operation, statement, place, progress) => shown.map(|()| Ending::Done),
            () = self.signals.after(before) => Ok(Ending::Interrupted),
            () = limit => Err(self.timed_out(statement, place).into()),
        };
        if !matches!(ending, Ok(Ending::Done)) {
            self.leave("cancel", self.session.cancel(&operation)).await;
        }
        self.leave("close", self.session.close_operation(&operation)).await;
        ending
    }

    /// Fetches pages one by one, no faster than they are printed.
    async fn show(
        &self,
        operation: &Operation,
        statement: &Statement,
        place: Place<'_>,
        progress: Progress<'_>,
    ) -> anyhow::Result<()> {
        let mut progress = Some(progress);
        let mut writer = Writer::new(self.format, place.number);
        let mut is_stream = None;
        let (mut token, mut pause) = (0, PAUSE_MIN);
        let started = Instant::now();
        loop {
            let fetched = self.session.fetch(operation, token, self.format.of_rows()).await;
            let fetched = fetched.map_err(|error| self.failed(&error, statement, place))?;
            let page = match fetched {
                Fetched::Page(page) => page,
                Fetched::NotReady => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    continue;
                }
            };
            // Rows would collide with the progress line, which is redrawn.
            drop(progress.take());
            if page.is_plain_success {
                self.printer.note(label(statement, place, "done"));
                return Ok(());
            }
            let is_stream = match is_stream {
                Some(known) => known,
                None => *is_stream.insert(self.begin(&page).await),
            };
            writer.page(&page, is_stream, self.printer)?;
            let Some(next) = page.next else { break };
            token = next;
            if page.rows.is_empty() {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            } else {
                pause = PAUSE_MIN;
            }
        }
        if self.format == ResultFormat::Table {
            let seconds = started.elapsed().as_secs_f64();
            let rows = if writer.count() == 1 { "row" } else { "rows" };
            self.printer.note(format_args!("{} {rows} ({seconds:.1}s)", writer.count()));
        }
        Ok(())
    }

    /// Evaluates the first page: returns whether rows change earlier ones, and reports a job that continues to run.
    async fn begin(&self, page: &Page) -> bool {
        if !page.is_query && page.job_id.is_none() {
            return false;
        }
        // Without an answer, report too much rather than too little.
        let options = self.session.options().await.unwrap_or_default();
        let is = |key: &str, value: &str| {
            options.get(key).is_some_and(|stated| stated.eq_ignore_ascii_case(value))
        };
        if let Some(job_id) = page.job_id.as_deref().filter(|_| !page.is_query)
            && !is("table.dml-sync", "true")
        {
            self.report_job(job_id);
        }
        !is("execution.runtime-mode", "batch")
    }

    /// Reports a job that writes, because it continues after the session ends and the user should know.
    fn report_job(&self, job_id: &str) {
        let Self { cluster, printer, .. } = self;
        printer.note(format_args!(
            "job {job_id} runs in `{cluster}` and continues after this session"
        ));
        printer.hint(format_args!("see it: kubectl flink rest {cluster} GET /jobs/{job_id}"));
        printer.hint(format_args!(
            "stop it: kubectl flink rest {cluster} PATCH '/jobs/{job_id}?mode=cancel'"
        ));
    }

    /// Ends an operation. A failure does no harm, as the gateway ends unused operations itself.
    pub(super) async fn leave(
        &self,
        what: &str,
        operation: impl Future<Output = Result<(), Error>>,
    ) {
        match timeout(ENDING, operation).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "could not {what}"),
            Err(_) => tracing::debug!("could not {what} in time"),
        }
    }

    fn failed(&self, error: &Error, statement: &Statement, place: Place<'_>) -> anyhow::Error {
        if is_session_lost(error) {
            return Failure::new("the session is lost: the gateway ended it, or was replaced")
                .hint("temporary tables and options are lost; start again with the same command")
                .into();
        }
        let Some(cause) = cause::of(error) else {
            let at = label(statement, place, "failed");
            let lost = "if only the response was lost, the statement may have been executed";
            return Failure::new(at)
                .caused_by(anyhow::Error::msg(error.to_string()))
                .hint(lost)
                .into();
        };
        let Cause { message, position, whole } = cause;
        tracing::debug!(whole, "the gateway refused");
        let at = position_in(statement, place, position);
        let failure = Failure::new(format!("{at}: {}", secret::hide_in(&message)));
        let failure = if self.is_verbose {
            failure.caused_by(anyhow::Error::msg(secret::hide_in(&whole)))
        } else if place.script.is_some() {
            failure.hint("--verbose shows Flink's complete message")
        } else {
            failure
        };
        match hint(&message) {
            Some(hint) => failure.hint(hint).into(),
            None => failure.into(),
        }
    }

    fn timed_out(&self, statement: &Statement, place: Place<'_>) -> Failure {
        let seconds = self.timeout.unwrap_or_default().as_secs();
        let at = position_in(statement, place, None);
        Failure::timed_out(format!("{at}: cancelled after {seconds}s"))
            .hint("a streaming query does not end: use a longer --timeout, or none")
    }
}

/// Returns a hint for the most common causes.
fn hint(message: &str) -> Option<&'static str> {
    let is_missing = message.contains("Could not find any factory for identifier")
        || message.contains("ClassNotFoundException");
    if is_missing {
        return Some(
            "the jar must be in the image of the session cluster: its TaskManagers need it too",
        );
    }
    let is_out_of_slots = message.contains("Could not acquire the minimum required resources")
        || message.contains("NoResourceAvailableException");
    is_out_of_slots
        .then_some("the session cluster has too few free slots; see: kubectl flink status")
}

/// Returns the position of a statement, such as `orders.sql:14`, or the text typed at the prompt.
fn position_in(
    statement: &Statement,
    place: Place<'_>,
    position: Option<(usize, usize)>,
) -> String {
    match (place.script, position) {
        (Some(script), Some((line, _))) => format!("{script}:{}", statement.line + line - 1),
        (Some(script), None) => format!("{script}:{}", statement.line),
        (None, Some((line, column))) => format!("line {line}, column {column}"),
        (None, None) => format!("`{}`", shown(statement)),
    }
}

/// Returns a label such as `orders.sql:14: statement 2 of 5 done`.
fn label(statement: &Statement, place: Place<'_>, state: &str) -> String {
    match place.script {
        Some(script) => {
            let Place { number, of, .. } = place;
            format!("{script}:{}: statement {number} of {of}: {state}", statement.line)
        }
        None => state.to_owned(),
    }
}

/// Returns the beginning of a statement, without secrets.
fn shown(statement: &Statement) -> String {
    let text = secret::hide_in(&statement.text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN_CHARS {
        return line;
    }
    line.chars().take(SHOWN_CHARS - 1).chain(['…']).collect()
}

fn counted(done: usize, left: usize) -> String {
    let statements = |count: usize| {
        let noun = if count == 1 { "statement" } else { "statements" };
        format!("{count} {noun}")
    };
    format!("{} completed before it, {} after it not started", statements(done), statements(left))
}
