//! Finds the cause in a stack trace of the SQL gateway, for a person. Pure.

use crate::flink::Error;

/// The text before a cause.
const CAUSED_BY: &str = "Caused by: ";
/// Maximum number of lines shown of a message.
const LINES_MAX: usize = 3;
/// Maximum number of characters shown of a line.
const CHARS_MAX: usize = 400;
/// Packages whose class names add nothing to their messages.
const WORDY_PACKAGES: [&str; 2] = ["org.apache.flink.", "org.apache.calcite."];
/// Lines that frame a stack trace.
const FRAMES: [&str; 3] =
    ["Internal server error.", "<Exception on server side:", "End of exception on server side>"];

/// Why a statement failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cause {
    /// The innermost cause, in a few lines.
    pub message: String,
    /// Line and column in the statement, from 1, if the parser or the validator names them.
    pub position: Option<(usize, usize)>,
    /// The gateway's whole message.
    pub whole: String,
}

/// Returns the cause in a response of the gateway; `None` if it was not the gateway that refused.
pub fn of(error: &Error) -> Option<Cause> {
    let Error::Refused { errors, .. } = error else { return None };
    Some(of_text(&errors.join("\n")))
}

/// Returns the cause in a text with a Java stack trace.
pub fn of_text(text: &str) -> Cause {
    let lines = text.lines().map(str::trim_end).collect::<Vec<_>>();
    let innermost = lines.iter().rposition(|line| line.trim_start().starts_with(CAUSED_BY));
    let start = innermost.or_else(|| lines.iter().position(|line| is_message(line))).unwrap_or(0);
    let rest = lines.get(start..).unwrap_or_default();
    let rest = rest.iter().take_while(|line| !is_end(line)).copied().collect::<Vec<_>>();
    let message = shortened(&rest);
    let message = if message.is_empty() { "without a reason".to_owned() } else { message };
    Cause { message, position: position_in(text), whole: text.trim().to_owned() }
}

fn is_message(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !FRAMES.contains(&line) && !is_end(line)
}

/// Returns whether the message ends before this line.
fn is_end(line: &str) -> bool {
    let trimmed = line.trim_start();
    let is_frame = trimmed.starts_with("at ") && trimmed.ends_with(')');
    let is_more = trimmed.starts_with("... ") && trimmed.ends_with(" more");
    is_frame || is_more || trimmed.starts_with("Suppressed: ") || FRAMES.contains(&trimmed)
}

/// Returns the first lines of a message. A line that ends with a colon is joined with what follows it.
fn shortened(lines: &[&str]) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut lines = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        if shown.len() == LINES_MAX {
            break;
        }
        let line = if shown.is_empty() { without_class(line) } else { line };
        if line.ends_with(':') {
            let list = lines.by_ref().map(|item| item.trim_end_matches("...").trim_end());
            shown.push(cut(&format!("{line} {}", list.collect::<Vec<_>>().join(", "))));
        } else {
            shown.push(cut(line));
        }
    }
    shown.join("\n")
}

/// Returns the message without the name of the exception, unless the name is informative: `ClassNotFoundException: x`.
fn without_class(line: &str) -> &str {
    let line = line.strip_prefix(CAUSED_BY).unwrap_or(line);
    let end = line.find([':', ' ']).unwrap_or(line.len());
    let (class, rest) = line.split_at(end);
    let is_class = class.contains('.')
        && class.chars().all(|letter| letter.is_ascii_alphanumeric() || ".$_".contains(letter));
    if !is_class {
        return line;
    }
    let message = rest.strip_prefix(':').unwrap_or_default().trim_start();
    let is_wordy = WORDY_PACKAGES.iter().any(|package| class.starts_with(package));
    if is_wordy && !message.is_empty() {
        // Flink's own wrappers repeat the text of what they wrap, with its class.
        return if message.len() < line.len() { without_class(message) } else { message };
    }
    let simple = class.rfind(['.', '$']).map_or(0, |at| at + 1);
    line.get(simple..).unwrap_or(line)
}

fn cut(line: &str) -> String {
    if line.chars().count() <= CHARS_MAX {
        return line.to_owned();
    }
    line.chars().take(CHARS_MAX - 1).chain(['…']).collect()
}

/// Returns the last `line 3, column 7` of the text, which is the innermost one.
fn position_in(text: &str) -> Option<(usize, usize)> {
    let at = |found: usize| {
        let (line, rest) = number(text.get(found + "line ".len()..)?)?;
        let (column, _) = number(rest.strip_prefix(", column ")?)?;
        Some((line, column))
    };
    // `From line 1, column 15 to line 1, column 17`: use its beginning.
    let places = text.match_indices("line ").filter_map(|(found, _)| {
        let is_end = text.get(..found).is_some_and(|before| before.ends_with(" to "));
        at(found).filter(|_| !is_end)
    });
    places.last()
}

/// Parses the number, from 1, that the text begins with; also returns what follows it.
fn number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok().filter(|number| *number > 0)?, rest))
}
