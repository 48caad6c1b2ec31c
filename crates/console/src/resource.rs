//! What the page of one resource shows: facts in words, as the shell has read them.

use crate::action::Action;
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
    /// Absent where it has no job that could take some.
    pub checkpoints: Option<Part<Checkpoints>>,
    pub life: Life,
}

/// Checkpoints that the JobManager remembers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkpoints {
    /// How many there were.
    pub summary: String,
    /// The newest first.
    pub newest: Vec<Checkpoint>,
}

/// One of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Checkpoint {
    pub id: Option<i64>,
    /// `checkpoint` or `savepoint`.
    pub kind: &'static str,
    /// `IN_PROGRESS`, `COMPLETED` or `FAILED`.
    pub status: String,
    /// Seconds since the epoch.
    pub at: Option<i64>,
    pub duration: Option<Measure>,
    pub size: Option<Measure>,
    /// Where it is, or why it failed.
    pub text: String,
}

/// An amount, and the same in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Measure {
    pub amount: i64,
    pub words: String,
}

/// Moments that are shown.
pub const MOMENTS_MAX: usize = 200;
/// Letters of one that are shown.
const MOMENT_LETTERS_MAX: usize = 600;

/// What has happened to it, the newest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Life {
    moments: Vec<Moment>,
    /// There are older ones.
    is_cut: bool,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// One thing that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moment {
    /// Seconds since the epoch.
    pub at: i64,
    pub tone: Tone,
    /// What tells it: an event, a condition, …
    pub source: &'static str,
    pub title: String,
    pub text: String,
    /// What can be done with it.
    pub next: Option<Next>,
    /// Of the routine of pods and their controllers: shown on demand.
    pub is_routine: bool,
}

/// An action that a moment is good for, and the value of its field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Next {
    pub action: Action,
    pub value: String,
}

impl Life {
    /// Of moments in any order.
    pub fn new(mut moments: Vec<Moment>, unread: Vec<String>) -> Self {
        moments.sort_by_key(|moment| std::cmp::Reverse(moment.at));
        tell_downtimes(&mut moments);
        let is_cut = moments.len() > MOMENTS_MAX;
        moments.truncate(MOMENTS_MAX);
        for Moment { text, .. } in &mut moments {
            if let Some((end, _)) = text.char_indices().nth(MOMENT_LETTERS_MAX) {
                text.truncate(end);
                text.push('…');
            }
        }
        Self { moments, is_cut, unread }
    }

    /// The newest first.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Those that follow each other and are routine, or are not, the newest first.
    pub fn stretches(&self) -> impl Iterator<Item = &[Moment]> {
        self.moments.chunk_by(|one, other| one.is_routine == other.is_routine)
    }

    /// Whether there are older ones than those that are shown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Adds to each moment in which the job runs again how long it did not. They are sorted, the newest first.
fn tell_downtimes(moments: &mut [Moment]) {
    let mut stopped_at = None;
    for moment in moments.iter_mut().rev() {
        let is_event = moment.source == "event";
        let runs =
            is_event && moment.title == "JobStatusChanged" && moment.text.contains("to RUNNING");
        // What is older was of a namesake.
        if moment.source == "resource" {
            stopped_at = None;
        } else if is_event && moment.title == "Suspended" {
            stopped_at = Some(moment.at);
        } else if runs && let Some(stopped_at) = stopped_at.take() {
            let seconds = moment.at - stopped_at;
            moment.text = format!("{}, down for {seconds} s", moment.text);
        }
    }
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

impl Standing {
    /// After another look, which says whether the resource is there, or why that is not known.
    #[must_use]
    pub fn after(&self, looked: Result<bool, String>, was_seen: bool, clock: String) -> Self {
        match (looked, self) {
            (Ok(true), _) => Self::Current,
            (Ok(false), Self::Gone { since }) => Self::Gone { since: since.clone() },
            (Ok(false), _) if was_seen => Self::Gone { since: clock },
            (Ok(false), _) => Self::Absent,
            (Err(message), Self::Lost { since, .. }) => {
                Self::Lost { since: since.clone(), message }
            }
            (Err(message), _) => Self::Lost { since: clock, message },
        }
    }
}
