//! The only place that writes to stdout and stderr.
//!
//! Data goes to stdout; notes, warnings, questions and progress go to stderr. Colour and progress appear on terminals
//! only, and `NO_COLOR` is honoured.

use std::borrow::Cow;
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

/// For words that need attention.
pub const BOLD: Style = Style::new().bold();
/// For background detail.
pub const DIM: Style = Style::new().dimmed();
/// For a healthy state.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// For a transitional state.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
/// For a broken state.
pub const RED: Style = AnsiColor::Red.on_default();

/// Distinguish things of equal rank, such as pods.
pub const MARKS: [Style; 6] = [
    AnsiColor::Cyan.on_default(),
    AnsiColor::Magenta.on_default(),
    AnsiColor::Blue.on_default(),
    AnsiColor::Green.on_default(),
    AnsiColor::BrightYellow.on_default(),
    AnsiColor::BrightCyan.on_default(),
];

/// Formats `text` in `style`. The codes are stripped if the stream is not a terminal.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Removes what would control the terminal or reorder the text, except for the codes of [`styled`]. Names, messages and
/// log lines of a cluster may contain anything.
fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let styles = [BOLD, DIM, GREEN, YELLOW, RED].into_iter().chain(MARKS);
    let mut codes: Vec<String> = styles.map(|style| style.render().to_string()).collect();
    codes.push(BOLD.render_reset().to_string());
    let mut shown = String::with_capacity(text.len());
    let mut foreign = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        foreign.push_str(before);
        let from = rest.get(before.len()..).unwrap_or_default();
        let style = codes.iter().find_map(|code| Some((code, from.strip_prefix(code.as_str())?)));
        rest = if let Some((code, after)) = style {
            push_foreign(&mut shown, &std::mem::take(&mut foreign));
            shown.push_str(code);
            after
        } else {
            foreign.push('\u{1b}');
            after
        };
    }
    foreign.push_str(rest);
    push_foreign(&mut shown, &foreign);
    shown.into()
}

fn push_foreign(shown: &mut String, text: &str) {
    let text = anstream::adapter::strip_str(text).to_string();
    shown.extend(text.chars().filter(|letter| !controls(*letter)));
}

/// Escapes in a JSON document what would control the terminal, which can only be within its strings.
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(controls) {
        return Cow::Borrowed(json);
    }
    let escape = |letter: char| {
        if controls(letter) { format!("\\u{:04x}", u32::from(letter)) } else { letter.into() }
    };
    json.chars().map(escape).collect()
}

/// Returns whether a character controls the terminal, or the direction in which others are written.
fn controls(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        _ => letter.is_control(),
    }
}

/// Splits a text made by [`styled`] into pieces with one style each. All other control sequences are removed.
pub fn pieces(text: &str) -> Vec<(Style, String)> {
    let styles = [BOLD, DIM, GREEN, YELLOW, RED];
    let mut pieces = Vec::new();
    let mut add = |style: Style, text: &str| {
        let mut shown = String::new();
        push_foreign(&mut shown, text);
        let text = shown;
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
        // If a text is both bold and coloured, the colour wins.
        let rest = &part[at + length..];
        let second = styles.into_iter().find(|it| rest.starts_with(&it.render().to_string()));
        add(second.unwrap_or(style), rest);
    }
    pieces
}

/// Which of the three streams are terminals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Terminals {
    pub input: bool,
    pub output: bool,
    pub error: bool,
}

/// Asks a person who is not at this process's terminal.
pub type Ask = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Writes the output of commands.
pub struct Printer {
    output: Mutex<Box<dyn Write + Send>>,
    error: Mutex<Box<dyn Write + Send>>,
    /// Both streams again, for bytes that are passed on unchanged.
    bare_output: Mutex<Box<dyn Write + Send>>,
    bare_error: Mutex<Box<dyn Write + Send>>,
    terminals: Terminals,
    /// Leaves out notes, hints and progress.
    is_quiet: bool,
    /// `None` if the person is at the terminal.
    ask: Option<Ask>,
}

impl Printer {
    /// Creates a printer for the streams of this process.
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

    /// Creates a printer for a person elsewhere: everything goes to one writer, with its styles. Without `ask` no
    /// question can be asked.
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

    /// Creates a printer that keeps its output, without colours.
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

    /// Returns which streams are terminals.
    pub fn terminals(&self) -> Terminals {
        self.terminals
    }

    /// Returns the width of stdout's terminal in columns; `None` if it is not a terminal.
    pub fn width(&self) -> Option<usize> {
        let columns = || usize::from(dialoguer::console::Term::stdout().size().1);
        self.terminals.output.then(columns).filter(|columns| *columns > 0)
    }

    /// Prints one line of data.
    pub fn line(&self, text: impl Display) -> io::Result<()> {
        self.text(format_args!("{text}\n"))
    }

    /// Prints text without adding a line end.
    pub fn text(&self, text: impl Display) -> io::Result<()> {
        self.raw(harmless(&text.to_string()))
    }

    /// Prints data as it is, without adding a line end. Its format must have no control characters of its own, as JSON
    /// and YAML.
    pub fn raw(&self, text: impl Display) -> io::Result<()> {
        let mut output = lock(&self.output);
        write!(output, "{text}")?;
        output.flush()
    }

    /// Passes on a remote program's stdout unchanged, with its own colours.
    pub fn pass_on(&self, bytes: &[u8]) -> io::Result<()> {
        let mut output = lock(&self.bare_output);
        output.write_all(bytes)?;
        output.flush()
    }

    /// Like [`Printer::pass_on`], for stderr.
    pub fn pass_on_error(&self, bytes: &[u8]) -> io::Result<()> {
        let mut error = lock(&self.bare_error);
        error.write_all(bytes)?;
        error.flush()
    }

    /// Prints a value as JSON or YAML. The caller handles other formats.
    pub fn value<T: Serialize>(&self, value: &T, format: ValueFormat) -> anyhow::Result<()> {
        match format {
            ValueFormat::Json => self.raw(escaped(&serde_json::to_string_pretty(value)?) + "\n")?,
            ValueFormat::Yaml => self.raw(serde_yaml::to_string(value)?)?,
        }
        Ok(())
    }

    /// Prints a line for the person who watches; it is not data.
    pub fn note(&self, text: impl Display) {
        if !self.is_quiet {
            self.to_error(&format!("{text}"));
        }
    }

    /// Warns about something that did not stop the command.
    pub fn warning(&self, text: impl Display) {
        self.to_error(&format!("{} {text}", styled(YELLOW, "warning:")));
    }

    /// Suggests what to do next.
    pub fn hint(&self, text: impl Display) {
        if !self.is_quiet {
            self.to_error(&format!("{} {text}", styled(DIM, "hint:")));
        }
    }

    /// Prints why the command failed.
    pub(super) fn error(&self, text: impl Display) {
        self.to_error(&format!("{} {text}", styled(RED.bold(), "error:")));
    }

    /// Writes a line to stderr. If that fails, there is no better place to report it.
    fn to_error(&self, text: &str) {
        drop(writeln!(lock(&self.error), "{}", harmless(text)));
    }

    /// Returns a line on stderr that shows progress: redrawn on a terminal, else one line per change.
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
            // Move up to the first drawn line and clear from there. Not through `output`, which strips these codes
            // together with colours.
            output.flush()?;
            write!(io::stdout(), "\x1b[{}F\x1b[J", drawn.lines)?;
        }
        drawn.lines = text.lines().count();
        write!(output, "{}", harmless(text))?;
        if !text.ends_with('\n') {
            writeln!(output)?;
        }
        output.flush()
    }

    /// Fills the screen line by line from the top. The lines must fit, because one that wraps would shift the others.
    pub(super) fn screen(&self, lines: &[String]) -> io::Result<()> {
        let mut output = lock(&self.output);
        output.flush()?;
        write!(io::stdout(), "\x1b[H")?;
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                write!(io::stdout(), "\r\n")?;
            }
            write!(output, "{}", harmless(line))?;
            output.flush()?;
            write!(io::stdout(), "\x1b[K")?;
        }
        write!(io::stdout(), "\x1b[J")?;
        io::stdout().flush()
    }

    /// Asks a yes/no question; any other answer is no.
    ///
    /// The caller makes sure that stdin is a terminal, and offers a flag for other uses.
    pub fn confirm(&self, question: impl Display) -> io::Result<bool> {
        if let Some(ask) = &self.ask {
            let question = question.to_string();
            let answer = ask(&question);
            self.to_error(&format!("{question} {}", if answer { "yes" } else { "no" }));
            return Ok(answer);
        }
        {
            let mut error = lock(&self.error);
            write!(error, "{} [y/N] ", harmless(&question.to_string()))?;
            error.flush()?;
        }
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

/// Size of the last drawing on the terminal.
#[derive(Debug, Default)]
pub struct Drawn {
    lines: usize,
}

/// Interval between redraws of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Shows the progress of work. The line disappears when this is dropped.
pub struct Progress<'a> {
    printer: &'a Printer,
    bar: Option<ProgressBar>,
    last: Mutex<String>,
}

impl Progress<'_> {
    /// Sets the current step.
    pub fn set(&self, text: impl Display) {
        let text = text.to_string();
        let mut last = lock(&self.last);
        if *last == text {
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_message(harmless(&text).into_owned()),
            None => self.printer.note(&text),
        }
        *last = text;
    }

    /// Prints a permanent line above the progress.
    pub fn note(&self, text: impl Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.printer.note(text)),
            None => self.printer.note(text),
        }
    }

    /// Prints a permanent hint above the progress.
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

/// Everything that an in-memory printer received.
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

    /// Returns the same text with its styles; see [`pieces`].
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

/// Locks a stream, even if a thread panicked while writing to it.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a cluster says reaches the terminal as text, and our own styles remain.
    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        let foreign =
            "a\u{1b}]52;c;aGk=\u{7}b\u{1b}[2J\u{1b}[8m\u{9b}1mc\rd\u{8}\u{202e}e\tä\u{7f}\u{1b}";
        let text = format!("{} {}", styled(RED.bold(), foreign), styled(MARKS[1], "x"));
        let wanted = format!("{} {}", styled(RED.bold(), "ab1mcde\tä"), styled(MARKS[1], "x"));
        assert_eq!(harmless(&text), wanted);
        let (printer, transcript) = Printer::in_memory();
        printer.line(foreign).unwrap();
        printer.text(foreign).unwrap();
        printer.warning(foreign);
        printer.value(&foreign, ValueFormat::Json).unwrap();
        let bytes = transcript.styled_output() + &transcript.error();
        assert!(!bytes.contains(controls), "{bytes:?}");
        let json = transcript.output();
        let json = json.split_once('"').unwrap().1.rsplit_once('"').unwrap().0;
        let read: String = serde_json::from_str(&format!("\"{json}\"")).unwrap();
        assert_eq!(read, foreign);
        for plain in ["", "two\nlines\t€", "日本"] {
            assert!(matches!(harmless(plain), Cow::Borrowed(it) if it == plain));
        }
    }

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
