//! Logs of the pods of a resource: which lines are selected, and those that wait to be shown.
//!
//! If lines come faster than a page can take them, the newest are kept, and the page says how many were skipped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use strum::{Display, EnumIter, EnumString};

use crate::resource::Span;
use crate::row::Tone;

/// Maximum number of lines that a page keeps. Its script drops the oldest.
pub const LINES_MAX: usize = 2_000;
/// Maximum number of lines that wait for a live page.
pub const WAITING_MAX: usize = 1_000;
/// Maximum number of lines sent to a live page at once, four times per second.
pub const BATCH_MAX: usize = 250;
/// Maximum length of a line, in characters.
pub const LETTERS_MAX: usize = 2_000;
/// Maximum size of a value in an address, in bytes. Pod names have at most 253.
const VALUE_BYTES_MAX: usize = 512;

/// Levels that can be selected, as for `kubectl flink logs --level`.
pub const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// The part of a cluster that a pod runs.
#[derive(Clone, Copy, Debug, Display, EnumIter, EnumString, Eq, PartialEq)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    Jm,
    Tm,
}

impl Role {
    /// Returns the name that people know.
    pub fn words(self) -> &'static str {
        match self {
            Self::Jm => "JobManager",
            Self::Tm => "TaskManagers",
        }
    }
}

/// The selected lines, as the query of an address.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Choice {
    /// `None` for all pods.
    pub pod: Option<String>,
    /// `None` for both roles.
    pub role: Option<Role>,
    /// One of [`LEVELS`]; `None` for any level.
    pub level: Option<&'static str>,
    /// Whether to show the previous run of the containers.
    pub is_previous: bool,
    /// Part of a line, in any case.
    pub text: String,
}

impl Choice {
    /// Parses the query of an address. What is invalid is ignored.
    pub fn parse(query: &str) -> Self {
        let mut choice = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            if value.is_empty() || value.len() > VALUE_BYTES_MAX {
                continue;
            }
            match &*name {
                "pod" => choice.pod = Some(value.to_owned()),
                "role" => choice.role = value.parse().ok(),
                "level" => choice.level = LEVELS.into_iter().find(|level| *level == value),
                "previous" => choice.is_previous = value == "1",
                "q" => value.clone_into(&mut choice.text),
                _ => {}
            }
        }
        choice
    }

    /// Returns the query with its `?`, or an empty string.
    pub fn query(&self) -> String {
        let Self { pod, role, level, is_previous, text } = self;
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(pod) = pod {
            query.append_pair("pod", pod);
        }
        if let Some(role) = role {
            query.append_pair("role", &role.to_string());
        }
        if let Some(level) = level {
            query.append_pair("level", level);
        }
        if *is_previous {
            query.append_pair("previous", "1");
        }
        if !text.is_empty() {
            query.append_pair("q", text);
        }
        let query = query.finish();
        if query.is_empty() { query } else { format!("?{query}") }
    }

    /// Returns the same selection for this pod, or for all.
    #[must_use]
    pub fn of(&self, pod: Option<&str>) -> Self {
        Self { pod: pod.map(str::to_owned), ..self.clone() }
    }
}

/// A pod whose log can be shown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    pub name: String,
    /// Name, state and age, as in `kubectl flink status`.
    pub label: Vec<Span>,
}

/// The pods of a resource, as far as they are selected.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pods {
    /// Name of their cluster, with which their own names begin.
    pub cluster: String,
    pub all: Vec<Pod>,
    /// Number of pods that are not in the list.
    pub more: usize,
    /// Names of the pods whose logs are read.
    pub read: Vec<String>,
    /// Number of selected pods that are not read, because there are too many.
    pub unread: usize,
    /// What the page waits for, if no pod has a log yet.
    pub nothing: Option<Nothing>,
}

/// Why there are no pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Nothing {
    /// For example `UPGRADING · JobManager DEPLOYING`.
    pub phase: String,
    /// The verdict of `kubectl flink why`, and its evidence; empty if unknown.
    pub why: String,
    pub evidence: String,
}

/// A line of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    pub pod: Arc<str>,
    /// Nanoseconds since the epoch. `None` for what the console or the kubelet says about a log.
    pub at: Option<i64>,
    /// Tone of the level.
    pub tone: Tone,
    pub text: String,
}

impl Line {
    /// Creates a line, cut if it is too long.
    pub fn new(pod: Arc<str>, at: Option<i64>, tone: Tone, mut text: String) -> Self {
        if let Some((end, _)) = text.char_indices().nth(LETTERS_MAX) {
            text.truncate(end);
            text.push('…');
        }
        Self { pod, at, tone, text }
    }
}

/// Lines that wait to be shown.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    lines: VecDeque<Line>,
    left_out: usize,
    pods: BTreeMap<Arc<str>, Heard>,
}

/// What is known of the lines of a pod.
#[derive(Clone, Debug, Default)]
struct Heard {
    newest: Option<i64>,
    /// If its log is read again: lines up to this time are already known.
    known: Option<i64>,
    /// The last line without a time, which is not repeated.
    said: String,
}

impl Backlog {
    /// Adds a line.
    pub fn push(&mut self, line: Line) {
        let heard = self.pods.entry(Arc::clone(&line.pod)).or_default();
        if line.at.is_some() {
            if line.at <= heard.known {
                return;
            }
            heard.newest = heard.newest.max(line.at);
        } else if heard.said == line.text {
            return;
        } else {
            heard.said.clone_from(&line.text);
        }
        if self.lines.len() >= WAITING_MAX {
            self.lines.pop_front();
            self.left_out += 1;
        }
        self.lines.push_back(line);
    }

    /// Notes that the log of a pod is read again from now on.
    pub fn again(&mut self, pod: &str) {
        if let Some(heard) = self.pods.get_mut(pod) {
            heard.known = heard.newest;
        }
    }

    /// Forgets all pods but these.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.pods.retain(|pod, _| is_there(pod));
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the next lines to show, by time, and how many were skipped before them.
    pub fn take(&mut self) -> (usize, Vec<Line>) {
        // A line without a time stays behind the one before it.
        let mut time = 0;
        let mut timed: Vec<_> = self
            .lines
            .drain(..)
            .map(|line| {
                time = line.at.unwrap_or(time);
                (time, line)
            })
            .collect();
        timed.sort_by_key(|(time, _)| *time);
        self.lines = timed.into_iter().map(|(_, line)| line).collect();
        let count = self.lines.len().min(BATCH_MAX);
        (std::mem::take(&mut self.left_out), self.lines.drain(..count).collect())
    }

    /// Returns all lines by time, if they were read at once.
    pub fn all(mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        while !self.is_empty() {
            lines.append(&mut self.take().1);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pod: &str, at: i64) -> Line {
        Line::new(pod.into(), Some(at), Tone::Quiet, format!("{pod} {at}"))
    }

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| &*line.text).collect()
    }

    #[test]
    fn an_address_keeps_the_choice() {
        for query in
            ["", "?pod=orders-1&role=tm&level=warn&previous=1&q=a+b%26c", "?role=jm", "?q=x"]
        {
            assert_eq!(Choice::parse(query.trim_start_matches('?')).query(), query);
        }
        let long = format!("q={}", "x".repeat(VALUE_BYTES_MAX + 1));
        for nonsense in ["role=all&level=loud&previous=yes&pod=+&other=1", &long] {
            assert_eq!(Choice::parse(nonsense), Choice::default(), "{nonsense}");
        }
        let choice = Choice::parse("pod=a&level=error");
        assert_eq!(choice.of(Some("b")).query(), "?pod=b&level=error");
        assert_eq!(choice.of(None).query(), "?level=error");
    }

    #[test]
    fn lines_of_several_pods_stand_by_their_times() {
        let mut backlog = Backlog::default();
        for it in [line("a", 1), line("a", 5), line("b", 2)] {
            backlog.push(it);
        }
        let said = Line::new("b".into(), None, Tone::Bad, "it ended".to_owned());
        backlog.push(said.clone());
        backlog.push(line("b", 6));
        backlog.push(said);
        let (left_out, lines) = backlog.take();
        assert_eq!(left_out, 0);
        assert_eq!(texts(&lines), ["a 1", "b 2", "it ended", "a 5", "b 6"]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn of_a_flood_the_newest_are_retained_and_the_others_counted() {
        let mut backlog = Backlog::default();
        for at in 1..=1_200 {
            backlog.push(line("a", at));
        }
        let (left_out, lines) = backlog.take();
        assert_eq!((left_out, lines.len(), lines[0].at), (200, BATCH_MAX, Some(201)));
        let (left_out, lines) = backlog.take();
        assert_eq!((left_out, lines[0].at), (0, Some(451)), "they are counted once");
        assert_eq!(backlog.all().len(), 500);
        let long = Line::new("a".into(), None, Tone::Quiet, "ä".repeat(LETTERS_MAX + 1));
        assert_eq!(long.text.chars().count(), LETTERS_MAX + 1);
        assert!(long.text.ends_with("ä…"));
    }

    #[test]
    fn what_is_read_once_more_is_not_shown_again() {
        let mut backlog = Backlog::default();
        let push = |backlog: &mut Backlog, times: &[i64]| {
            for at in times {
                backlog.push(line("a", *at));
            }
        };
        push(&mut backlog, &[1, 3]);
        // Two streams of a container need not be in order.
        push(&mut backlog, &[2]);
        backlog.again("a");
        push(&mut backlog, &[1, 2, 3, 4]);
        backlog.push(line("b", 1));
        assert_eq!(texts(&backlog.take().1), ["a 1", "b 1", "a 2", "a 3", "a 4"]);
        backlog.retain(|pod| pod == "b");
        push(&mut backlog, &[1]);
        assert_eq!(texts(&backlog.all()), ["a 1"], "another pod of this name");
    }
}
