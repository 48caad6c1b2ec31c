//! The only place that writes to stdout and stderr.
//!
//! Data goes to stdout; notes, warnings, questions and progress go to stderr. Colour and progress
//! appear on terminals only, and `NO_COLOR` is honoured.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::Serialize;

use super::args::Colour;

/// A word that wants attention.
pub const BOLD: Style = Style::new().bold();
/// Background detail.
pub const DIM: Style = Style::new().dimmed();
/// All is well.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// On the way.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// Broken.
pub const RED: Style = AnsiColor::Red.on_default();

/// Tell things apart that are equally good, such as pods.
pub const MARKS: [Style; 6] = [
    AnsiColor::Cyan.on_default(),
    AnsiColor::Magenta.on_default(),
    AnsiColor::Blue.on_default(),
    AnsiColor::Green.on_default(),
    AnsiColor::BrightYellow.on_default(),
    AnsiColor::BrightCyan.on_default(),
];

/// `text` in `style`; the codes are stripped where the stream is not a terminal.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The pieces of a text that [`styled`] has put together, each with its style; nothing else that only a terminal would
/// understand is left in it.
pub fn pieces(text: &str) -> Vec<(Style, String)> {
    let styles = [BOLD, DIM, GREEN, YELLOW, RED];
    let mut pieces = Vec::new();
    let mut add = |style: Style, text: &str| {
        let text = anstream::adapter::strip_str(text).to_string();
        let text: String = text.chars().filter(|it| !it.is_control() || *it == '\n').collect();
        if !text.is_empty() {
            pieces.push((style, text));
        }
    };
    for part in text.split("\u{1b}[0m") {
        let begun = styles.iter().filter_map(|style| {
            let code = style.render().to_string();
            Some((part.find(&code)?, code.len(), *style))
        });
        let Some((at, length, style)) = begun.min_by_key(|(at, ..)| *at) else {
            add(Style::new(), part);
            continue;
        };
        add(Style::new(), &part[..at]);
        // Of a text that is bold and has a colour, the colour counts.
        let rest = &part[at + length..];
        let second = styles.into_iter().find(|it| rest.starts_with(&it.render().to_string()));
        add(second.unwrap_or(style), rest);
    }
    pieces
}

/// Which of the three streams a person is at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Terminals {
    pub input: bool,
    pub output: bool,
    pub error: bool,
}

/// Asks a person who is not at the terminal of this process.
pub type Ask = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Writes what commands have to say.
pub struct Printer {
    output: Mutex<Box<dyn Write + Send>>,
    error: Mutex<Box<dyn Write + Send>>,
    /// Both streams again, for bytes that are passed on untouched.
    bare_output: Mutex<Box<dyn Write + Send>>,
    bare_error: Mutex<Box<dyn Write + Send>>,
    terminals: Terminals,
    /// Notes, hints and progress are left out.
    is_quiet: bool,
    /// Absent where the person is at the terminal.
    ask: Option<Ask>,
}

impl Printer {
    /// The streams of this process.
    pub fn from_environment(colour: Colour, is_quiet: bool) -> Self {
        let (output, error) = match colour {
            Colour::Auto => (AutoStream::choice(&io::stdout()), AutoStream::choice(&io::stderr())),
            Colour::Always => (ColorChoice::Always, ColorChoice::Always),
            Colour::Never => (ColorChoice::Never, ColorChoice::Never),
        };
        Self {
            output: Mutex::new(Box::new(AutoStream::new(io::stdout(), output))),
            error: Mutex::new(Box::new(AutoStream::new(io::stderr(), error))),
            bare_output: Mutex::new(Box::new(io::stdout())),
            bare_error: Mutex::new(Box::new(io::stderr())),
            is_quiet,
            ask: None,
            terminals: Terminals {
                input: io::stdin().is_terminal(),
                output: io::stdout().is_terminal(),
                error: io::stderr().is_terminal(),
            },
        }
    }

    /// A printer for a person elsewhere: all that is said goes to one place, with its styles. Without `ask` nobody can be asked.
    pub fn elsewhere(all: impl Write + Send + Clone + 'static, ask: Option<Ask>) -> Self {
        let stream = || Mutex::new(Box::new(all.clone()) as Box<dyn Write + Send>);
        let terminals = Terminals { input: ask.is_some(), ..Terminals::default() };
        Self {
            output: stream(),
            error: stream(),
            bare_output: stream(),
            bare_error: stream(),
            terminals,
            is_quiet: false,
            ask,
        }
    }

    /// A printer that keeps what it is given, without colours.
    pub fn in_memory() -> (Self, Transcript) {
        let transcript = Transcript::default();
        let printer = Self {
            output: Mutex::new(Box::new(transcript.output.clone())),
            error: Mutex::new(Box::new(transcript.error.clone())),
            bare_output: Mutex::new(Box::new(transcript.output.clone())),
            bare_error: Mutex::new(Box::new(transcript.error.clone())),
            terminals: Terminals::default(),
            is_quiet: false,
            ask: None,
        };
        (printer, transcript)
    }

    /// Which streams are terminals.
    pub fn terminals(&self) -> Terminals {
        self.terminals
    }

    /// Columns of the terminal that data goes to; absent where it goes elsewhere.
    pub fn width(&self) -> Option<usize> {
        let columns = || usize::from(dialoguer::console::Term::stdout().size().1);
        self.terminals.output.then(columns).filter(|columns| *columns > 0)
    }

    /// One line of data.
    pub fn line(&self, text: impl Display) -> io::Result<()> {
        let mut output = lock(&self.output);
        writeln!(output, "{text}")?;
        output.flush()
    }

    /// Data as it is, without a line end of its own.
    pub fn raw(&self, text: impl Display) -> io::Result<()> {
        let mut output = lock(&self.output);
        write!(output, "{text}")?;
        output.flush()
    }

    /// Bytes that a program elsewhere wrote to its stdout, as they are: colours and all are its own.
    pub fn pass_on(&self, bytes: &[u8]) -> io::Result<()> {
        let mut output = lock(&self.bare_output);
        output.write_all(bytes)?;
        output.flush()
    }

    /// Like [`Printer::pass_on`], for its stderr.
    pub fn pass_on_error(&self, bytes: &[u8]) -> io::Result<()> {
        let mut error = lock(&self.bare_error);
        error.write_all(bytes)?;
        error.flush()
    }

    /// A value as JSON or YAML; other formats are the caller's.
    pub fn value<T: Serialize>(&self, value: &T, format: ValueFormat) -> anyhow::Result<()> {
        match format {
            ValueFormat::Json => self.line(serde_json::to_string_pretty(value)?)?,
            ValueFormat::Yaml => self.raw(serde_yaml::to_string(value)?)?,
        }
        Ok(())
    }

    /// A line for the person who watches; no data.
    pub fn note(&self, text: impl Display) {
        if !self.is_quiet {
            self.to_error(&format!("{text}"));
        }
    }

    /// Something that did not stop the command and should be known.
    pub fn warning(&self, text: impl Display) {
        self.to_error(&format!("{} {text}", styled(YELLOW, "warning:")));
    }

    /// Tells what a person can do next.
    pub fn hint(&self, text: impl Display) {
        if !self.is_quiet {
            self.to_error(&format!("{} {text}", styled(DIM, "hint:")));
        }
    }

    /// Why the command failed.
    pub(super) fn error(&self, text: impl Display) {
        self.to_error(&format!("{} {text}", styled(RED.bold(), "error:")));
    }

    /// A line to stderr. There is no better place to tell that this failed.
    fn to_error(&self, text: &str) {
        drop(writeln!(lock(&self.error), "{text}"));
    }

    /// A line on stderr that follows work under way: redrawn on a terminal, else a line per change.
    pub fn progress(&self) -> Progress<'_> {
        let bar = (self.terminals.error && !self.is_quiet).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { printer: self, bar, last: Mutex::default() }
    }

    /// Replaces what the last call drew on the terminal.
    pub fn redraw(&self, drawn: &mut Drawn, text: &str) -> io::Result<()> {
        let mut output = lock(&self.output);
        if drawn.lines > 0 {
            // Up to the first line drawn, and clear from there on. Not through `output`, which drops
            // such codes with those of colours.
            output.flush()?;
            write!(io::stdout(), "\x1b[{}F\x1b[J", drawn.lines)?;
        }
        drawn.lines = text.lines().count();
        write!(output, "{text}")?;
        if !text.ends_with('\n') {
            writeln!(output)?;
        }
        output.flush()
    }

    /// Fills the screen, line by line from the top. Lines must fit: one that wraps moves the others.
    pub(super) fn screen(&self, lines: &[String]) -> io::Result<()> {
        let mut output = lock(&self.output);
        output.flush()?;
        write!(io::stdout(), "\x1b[H")?;
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                write!(io::stdout(), "\r\n")?;
            }
            write!(output, "{line}")?;
            output.flush()?;
            write!(io::stdout(), "\x1b[K")?;
        }
        write!(io::stdout(), "\x1b[J")?;
        io::stdout().flush()
    }

    /// Asks a question that is answered by yes or no; anything but yes is no.
    ///
    /// The caller makes sure that stdin is a terminal, and offers a flag to everybody else.
    pub fn confirm(&self, question: impl Display) -> io::Result<bool> {
        if let Some(ask) = &self.ask {
            let question = question.to_string();
            let answer = ask(&question);
            self.to_error(&format!("{question} {}", if answer { "yes" } else { "no" }));
            return Ok(answer);
        }
        {
            let mut error = lock(&self.error);
            write!(error, "{question} [y/N] ")?;
            error.flush()?;
        }
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

/// How much of the terminal the last drawing takes.
#[derive(Debug, Default)]
pub struct Drawn {
    lines: usize,
}

/// Redraws of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Shows how far work has come; the line goes away with it.
pub struct Progress<'a> {
    printer: &'a Printer,
    bar: Option<ProgressBar>,
    last: Mutex<String>,
}

impl Progress<'_> {
    /// Where the work is now.
    pub fn set(&self, text: impl Display) {
        let text = text.to_string();
        let mut last = lock(&self.last);
        if *last == text {
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_message(text.clone()),
            None => self.printer.note(&text),
        }
        *last = text;
    }

    /// A line that stays, above the progress.
    pub fn note(&self, text: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.printer.note(text)),
            None => self.printer.note(text),
        }
    }

    /// A hint that stays, above the progress.
    pub fn hint(&self, text: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.printer.hint(text)),
            None => self.printer.hint(text),
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Formats that show a whole value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ValueFormat {
    /// JSON, a stable contract for programs
    Json,
    /// YAML
    Yaml,
}

/// Everything that a printer in memory was given.
#[derive(Clone, Default)]
pub struct Transcript {
    output: Buffer,
    error: Buffer,
}

impl Transcript {
    /// Returns the text that went to stdout.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Returns that text with its styles, see [`pieces`].
    pub fn styled_output(&self) -> String {
        String::from_utf8_lossy(&lock(&self.output.0)).into_owned()
    }

    /// Returns the text that went to stderr.
    pub fn error(&self) -> String {
        self.error.text()
    }
}

/// Bytes written so far, shared with the reader.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn text(&self) -> String {
        anstream::adapter::strip_str(&String::from_utf8_lossy(&lock(&self.0))).to_string()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream stays usable when a thread panicked while it wrote.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_apart_as_it_was_put_together() {
        let foreign = "\u{1b}[99m\u{7}!";
        let (good, dim) = (styled(GREEN, "good"), styled(DIM, "dim"));
        let text = format!("a {good} {dim}{foreign}{}", styled(RED.bold(), "bad"));
        let pieces = pieces(&text);
        let pieces = pieces.iter().map(|(style, text)| (*style, text.as_str())).collect::<Vec<_>>();
        let plain = Style::new();
        let wanted = [
            (plain, "a "),
            (GREEN, "good"),
            (plain, " "),
            (DIM, "dim"),
            (plain, "!"),
            (RED, "bad"),
        ];
        assert_eq!(pieces, wanted);
    }
}
