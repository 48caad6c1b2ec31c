//! Splits an SQL script into statements. Pure.
//!
//! A semicolon ends a statement unless it is in a string, a quoted name, a comment or within
//! `STATEMENT SET BEGIN … END`, which is one statement. Flink interprets the statements.

/// One statement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Statement {
    /// Text from its first word to its last, including comments, without the semicolon.
    pub text: String,
    /// Line of its first word, from 1.
    pub line: usize,
}

/// The statements of a script, and what follows the last one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Split {
    pub statements: Vec<Statement>,
    /// Text after the last semicolon, if it is more than whitespace and comments.
    pub rest: Option<Statement>,
    /// String, name or comment that is not closed at the end of the script.
    pub open: Option<Open>,
}

/// An unclosed string, name or comment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Open {
    pub what: &'static str,
    /// Line in which it starts.
    pub line: usize,
}

/// A part of a script.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Semicolon,
    /// A string, a quoted name or a punctuation character.
    Other,
    /// Whitespace or a comment.
    Blank,
}

/// The words that open a statement set, which is one statement up to its `END`.
const OPENING: [&str; 3] = ["STATEMENT", "SET", "BEGIN"];

/// State of the parser within a statement, as far as semicolons are concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Course {
    /// Outside of a set, with the number of words of [`OPENING`] that were read last.
    Plain(usize),
    /// Within `BEGIN … END`.
    Set {
        /// Number of `CASE`s without their `END`.
        cases: usize,
        /// Whether the last word closed the set.
        has_ended: bool,
    },
}

impl Course {
    fn take(&mut self, word: &str) {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        *self = match *self {
            Self::Plain(read) if OPENING.get(read).is_some_and(|next| is(next)) => {
                if read + 1 < OPENING.len() {
                    Self::Plain(read + 1)
                } else {
                    Self::Set { cases: 0, has_ended: false }
                }
            }
            Self::Plain(_) => Self::Plain(usize::from(is(OPENING[0]))),
            Self::Set { cases, .. } if is("CASE") => {
                Self::Set { cases: cases + 1, has_ended: false }
            }
            Self::Set { cases, .. } if is("END") => {
                Self::Set { cases: cases.saturating_sub(1), has_ended: cases == 0 }
            }
            Self::Set { cases, .. } => Self::Set { cases, has_ended: false },
        };
    }

    /// Records that something other than a word was read.
    fn interrupt(&mut self) {
        *self = match *self {
            Self::Plain(_) => Self::Plain(0),
            Self::Set { cases, .. } => Self::Set { cases, has_ended: false },
        };
    }

    fn ends_here(self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Set { has_ended, .. } => has_ended,
        }
    }
}

/// Splits the script.
pub fn split(script: &str) -> Split {
    let mut split = Split::default();
    let mut course = Course::Plain(0);
    // Start and end of the current statement, as far as it was read.
    let mut span: Option<(usize, usize)> = None;
    let mut lines = Lines { script, at: 0, line: 1 };
    let mut at = 0;
    while at < script.len() {
        let (token, length, open) = token(&script[at..]);
        if let Some(what) = open {
            split.open = Some(Open { what, line: lines.of(at) });
        }
        let end = at + length;
        let longer = Some((span.map_or(at, |(start, _)| start), end));
        match token {
            Token::Blank => {}
            Token::Semicolon if course.ends_here() => {
                if let Some((start, end)) = span.take() {
                    split.statements.push(statement(script, start, end, &mut lines));
                }
                course = Course::Plain(0);
            }
            Token::Word(word) => {
                course.take(word);
                span = longer;
            }
            Token::Semicolon | Token::Other => {
                course.interrupt();
                span = longer;
            }
        }
        at = end;
    }
    split.rest = span.map(|(start, end)| statement(script, start, end, &mut lines));
    split
}

fn statement(script: &str, start: usize, end: usize, lines: &mut Lines) -> Statement {
    let text = script.get(start..end).unwrap_or_default().to_owned();
    Statement { text, line: lines.of(start) }
}

/// Counts lines, for positions queried in roughly ascending order.
struct Lines<'a> {
    script: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, at: usize) -> usize {
        if at < self.at {
            (self.at, self.line) = (0, 1);
        }
        let between = self.script.get(self.at..at).unwrap_or_default();
        self.line += between.matches('\n').count();
        self.at = at;
        self.line
    }
}

/// Returns the first token of `text`, which must not be empty, its length, and what it leaves open.
fn token(text: &str) -> (Token<'_>, usize, Option<&'static str>) {
    let first = text.chars().next().unwrap_or(' ');
    let quoted = |quote: char, what: &'static str| {
        // Two quotes escape one: the string continues after them, and is read as another string.
        let inside = text.get(1..).unwrap_or_default();
        match inside.find(quote) {
            Some(end) => (Token::Other, end + 2, None),
            None => (Token::Other, text.len(), Some(what)),
        }
    };
    match first {
        ';' => (Token::Semicolon, 1, None),
        '\'' => quoted('\'', "string '…'"),
        '"' => quoted('"', "identifier \"…\""),
        '`' => quoted('`', "identifier `…`"),
        '-' if text.starts_with("--") => {
            (Token::Blank, text.find('\n').unwrap_or(text.len()), None)
        }
        '/' if text.starts_with("/*") => match text.get(2..).unwrap_or_default().find("*/") {
            // A hint is part of its statement.
            Some(end) if text.starts_with("/*+") => (Token::Other, end + 4, None),
            Some(end) => (Token::Blank, end + 4, None),
            None => (Token::Blank, text.len(), Some("comment /* … */")),
        },
        _ if first.is_whitespace() => (Token::Blank, first.len_utf8(), None),
        _ if is_of_word(first) => {
            let length = text.find(|letter| !is_of_word(letter)).unwrap_or(text.len());
            (Token::Word(text.get(..length).unwrap_or_default()), length, None)
        }
        _ => (Token::Other, first.len_utf8(), None),
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

#[cfg(test)]
mod tests;
