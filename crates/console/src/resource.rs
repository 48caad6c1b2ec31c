//! What the page of one resource shows: facts in words, as the shell has read them.

use crate::row::{Row, Tone};

/// A part of the page, or why it is not known.
pub type Part<T> = Result<T, String>;

/// One resource, and what belongs to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    pub row: Row,
    /// Names and values for which a row has no room.
    pub more: Vec<(&'static str, String)>,
    pub verdict: Part<Verdict>,
    /// As `kubectl flink status` draws it.
    pub tree: Part<Vec<Branch>>,
}

/// What `kubectl flink why` says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// Good where all is well.
    pub tone: Tone,
    pub what: String,
    /// A quotation or a fact that shows it.
    pub evidence: String,
    pub remedy: String,
    /// The next command to type.
    pub next: String,
    /// What could not be looked at, and why.
    pub unread: Vec<String>,
}

/// One line, and what hangs below it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Branch {
    pub label: Vec<Span>,
    pub children: Vec<Self>,
}

/// A piece of a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Span {
    pub ink: Ink,
    pub text: String,
}

/// How a piece of text is to be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Ink {
    Plain,
    Strong,
    Dim,
    Good,
    Moving,
    Bad,
}

/// How what is shown of a resource came to be known. Times are times of the day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    Current,
    /// There is none.
    Absent,
    /// It was there, and was deleted since.
    Gone {
        since: String,
    },
    /// It cannot be read now; what is shown is older.
    Lost {
        since: String,
        message: String,
    },
}
