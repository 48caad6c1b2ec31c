//! Contents of the overview of one resource: texts, as the shell has read them.

use crate::action::Action;
use crate::row::{Row, Tone};

/// A part of the page, or why it is unknown.
pub type Part<T> = Result<T, String>;

/// A resource, and what belongs to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    pub row: Row,
    /// Names and values for which a row has no room.
    pub more: Vec<(&'static str, String)>,
    pub verdict: Part<Verdict>,
    /// As `kubectl flink status` draws it.
    pub tree: Part<Vec<Branch>>,
    /// `None` if there is no job that could take any.
    pub checkpoints: Option<Part<Checkpoints>>,
    pub life: Life,
}

/// Checkpoints that the JobManager remembers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkpoints {
    /// How many there were.
    pub summary: String,
    /// Newest first.
    pub newest: Vec<Checkpoint>,
}

/// A checkpoint.
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
    /// Its path, or why it failed.
    pub text: String,
}

/// An amount, as a number and formatted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Measure {
    pub amount: i64,
    pub words: String,
}

/// Maximum number of moments shown.
pub const MOMENTS_MAX: usize = 200;
/// Maximum length of a moment's text, in characters.
const MOMENT_LETTERS_MAX: usize = 600;

/// What has happened to the resource, newest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Life {
    moments: Vec<Moment>,
    /// Whether there are older moments.
    is_cut: bool,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moment {
    /// Seconds since the epoch.
    pub at: i64,
    pub tone: Tone,
    /// What reports it, such as an event or a condition.
    pub source: &'static str,
    pub title: String,
    pub text: String,
    /// What can be done with it.
    pub next: Option<Next>,
    /// Whether it is routine of pods and their controllers, which is shown on demand.
    pub is_routine: bool,
}

/// An action that a moment offers, and the value of its field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Next {
    pub action: Action,
    pub value: String,
}

impl Life {
    /// Creates the timeline from moments in any order.
    pub fn new(mut moments: Vec<Moment>, unread: Vec<String>) -> Self {
        moments.sort_by_key(|moment| std::cmp::Reverse(moment.at));
        report_downtimes(&mut moments);
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

    /// Returns the moments, newest first.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Returns groups of successive moments that are routine, or are not, newest first.
    pub fn stretches(&self) -> impl Iterator<Item = &[Moment]> {
        self.moments.chunk_by(|one, other| one.is_routine == other.is_routine)
    }

    /// Returns whether there are older moments than those shown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Adds the downtime to each moment at which the job runs again. The moments are sorted, newest first.
fn report_downtimes(moments: &mut [Moment]) {
    let mut stopped_at = None;
    for moment in moments.iter_mut().rev() {
        let is_event = moment.source == "event";
        let runs =
            is_event && moment.title == "JobStatusChanged" && moment.text.contains("to RUNNING");
        // Older moments belong to an earlier resource of the same name.
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

/// The report of `kubectl flink why`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// [`Tone::Good`] if all is well.
    pub tone: Tone,
    pub what: String,
    /// A quotation or a fact that supports it.
    pub evidence: String,
    pub remedy: String,
    /// The next command to run.
    pub next: String,
    /// What could not be checked, and why.
    pub unread: Vec<String>,
}

/// A line, and the lines below it.
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

/// The style of a piece of text.
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

/// How current the data shown of a resource is. Times are times of day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Freshness {
    Current,
    /// There is no such resource.
    Absent,
    /// It existed and has been deleted since.
    Gone {
        since: String,
    },
    /// It cannot be read now; older data is shown.
    Lost {
        since: String,
        message: String,
    },
}

impl Freshness {
    /// Returns the standing after another read, which found whether the resource exists, or failed.
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
