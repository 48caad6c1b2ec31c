//! Commands that the console runs for a person: one with all its output, and a list of the latest.

use maud::{Markup, html};
use strum::Display;

use super::act::{command, secret};
use super::resource::{Fragment, inked, path};
use super::{Place, document, time};
use crate::resource::Span;
use crate::row::{Key, Tone};

/// Path of the list. Each command is at its number below it.
pub const RUNS: &str = "/runs";
/// Suffixes of a command's address: for its events, and for answers to it.
pub const EVENTS: &str = "/events";
pub const ANSWER: &str = "/answer";

/// The progress of a command.
#[derive(Clone, Copy, Debug, Display, Eq, PartialEq)]
pub enum State {
    #[strum(to_string = "Running")]
    Running,
    #[strum(to_string = "Waiting for your answer")]
    Asking,
    #[strum(to_string = "Done")]
    Done,
    #[strum(to_string = "Failed")]
    Failed,
}

impl State {
    fn tone(self) -> Tone {
        match self {
            Self::Running | Self::Asking => Tone::Moving,
            Self::Done => Tone::Good,
            Self::Failed => Tone::Bad,
        }
    }
}

/// A command.
#[derive(Clone, Debug)]
pub struct Run {
    pub number: u64,
    /// Heading that says what it does.
    pub title: String,
    /// The resource that it acts on.
    pub key: Option<Key>,
    /// The command as a person would type it.
    pub command: String,
    /// Seconds since the epoch.
    pub started_at: i64,
    pub state: State,
    /// All output so far.
    pub said: Vec<Span>,
    /// The question that it asks.
    pub question: Option<String>,
}

/// Returns the address of a command.
pub fn address(number: u64) -> String {
    format!("{RUNS}/{number}")
}

/// Renders the page of one command.
pub fn page(place: Place<'_>, run: &Run, form: &str) -> String {
    let body = html! {
        section #head {
            @match &run.key {
                Some(key) => (path(place, key)),
                None => nav aria-label="Breadcrumb" { a href="/" { "Fleet" } },
            }
            h1 { (run.title) }
            (command(&run.command))
        }
        (said(run, form))
    };
    let events = format!("{}{EVENTS}", address(run.number));
    document(&run.title, place, "resource act", Some(&events), body).into_string()
}

/// Renders the part of it that changes.
pub fn fragments(run: &Run, form: &str) -> Vec<Fragment> {
    vec![("run", said(run, form).into_string())]
}

fn said(run: &Run, form: &str) -> Markup {
    html! {
        section #run {
            p.what role="status" { span class={ "s " (run.state.tone()) } { i {} (run.state) } }
            pre.plan tabindex="0" aria-label="Output" { @for span in &run.said { (inked(span)) } }
            @if let Some(question) = &run.question {
                form.question method="post" action={ (address(run.number)) (ANSWER) } {
                    (secret(form))
                    p { (question) }
                    button.go name="answer" value="yes" { "Yes" }
                    button name="answer" value="no" { "No" }
                }
            }
            @if matches!(run.state, State::Done | State::Failed) && let Some(key) = &run.key {
                p { a.to href=(key.address()) { "Back to " (key.name) } }
            }
        }
    }
}

/// Renders the list of the latest commands, newest first.
pub fn list(place: Place<'_>, runs: &[Run]) -> String {
    let body = html! {
        section #head {
            nav aria-label="Breadcrumb" { a href="/" { "Fleet" } }
            h1 { "Commands" }
            p.told { "Run from this console since it started" }
        }
        section #runs {
            @if runs.is_empty() { p.unread { "No commands yet" } }
            @else {
                ol {
                    @for run in runs {
                        li {
                            span class={ "s " (run.state.tone()) } { i {} (run.state) }
                            a href=(address(run.number)) { (run.title) }
                            code { (run.command) }
                            (time(place, Some(run.started_at)))
                        }
                    }
                }
            }
        }
    };
    document("Commands", place, "resource act", None, body).into_string()
}
