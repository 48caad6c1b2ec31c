//! Which lines of a log are at least as grave as asked for.
//!
//! Flink's own layouts name the level among the first words of a line, and JSON layouts in a field.
//! A line without one, as of a stack trace, goes on with the line before it.

use clap::ValueEnum;

/// Bytes of a line in which its level is looked for, behind date, time and marks.
const HEAD_BYTES: usize = 96;
/// Fields of JSON layouts that name the level.
const FIELDS: [&str; 4] = ["\"level\":\"", "\"log.level\":\"", "\"severity\":\"", "\"level\": \""];

/// How grave a line is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(in crate::cli) enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    /// Reads the level that the line states.
    fn of(line: &str) -> Option<Self> {
        if line.trim_start().starts_with('{') {
            let after = FIELDS.iter().find_map(|field| line.split_once(field))?.1;
            return Self::named(after.split('"').next()?.trim());
        }
        // Continued lines begin with a blank: the words in them are no levels.
        if line.starts_with([' ', '\t']) {
            return None;
        }
        let end = (0..=HEAD_BYTES.min(line.len())).rev().find(|end| line.is_char_boundary(*end))?;
        let is_word = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '|' | ':');
        line.get(..end)?.split(is_word).find_map(Self::named)
    }

    fn named(word: &str) -> Option<Self> {
        match word {
            "TRACE" | "trace" => Some(Self::Trace),
            "DEBUG" | "debug" => Some(Self::Debug),
            "INFO" | "info" => Some(Self::Info),
            "WARN" | "WARNING" | "warn" | "warning" => Some(Self::Warn),
            "ERROR" | "FATAL" | "error" | "fatal" => Some(Self::Error),
            _ => None,
        }
    }
}

/// Lets the lines of one pod through that are grave enough and have a text.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Filter {
    least: Option<Level>,
    /// In lower case; empty where any line will do.
    text: String,
    /// The level that lines without one go on with.
    present: Option<Level>,
    /// Whether the line before had the text.
    is_found: bool,
}

impl Filter {
    pub(in crate::cli) fn new(least: Option<Level>) -> Self {
        Self { least, ..Self::default() }
    }

    /// With only those lines that have the text, in any case, and the stack traces that follow them.
    #[must_use]
    pub(in crate::cli) fn finding(self, text: &str) -> Self {
        Self { text: text.to_lowercase(), ..self }
    }

    /// Whether there are lines that it does not let through.
    pub(in crate::cli) fn is_strict(&self) -> bool {
        self.least.is_some() || !self.text.is_empty()
    }

    /// True if the line is to be shown.
    pub(in crate::cli) fn lets(&mut self, line: &str) -> bool {
        self.present = Level::of(line).or(self.present);
        if !self.text.is_empty() {
            let goes_on = line.starts_with([' ', '\t']) || line.starts_with("Caused by: ");
            self.is_found = self.is_found && goes_on || line.to_lowercase().contains(&self.text);
        }
        // Without any level yet, as of a shell before Flink starts, lines are shown.
        let is_grave = self.present.is_none_or(|level| self.least.is_none_or(|it| level >= it));
        is_grave && (self.text.is_empty() || self.is_found)
    }

    /// Level of the line that was judged last, or of the one that it goes on with.
    pub(in crate::cli) fn level(&self) -> Option<Level> {
        self.present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_trace_goes_with_its_line() {
        let mut filter = Filter::new(Some(Level::Warn));
        let shown = [
            "sed: cannot rename /opt/flink/conf: Device or resource busy",
            "2026-01-01 00:00:00,000 INFO  org.apache.flink.A [] - an ERROR in the text",
            "\tat org.apache.flink.A.b(A.java:1)",
            "2026-01-01 00:00:01,000 WARN  org.apache.flink.A [] - careful",
            "java.lang.RuntimeException: because",
            "\tat org.apache.flink.A.b(A.java:1)",
            "2026-01-01 00:00:02,000 DEBUG org.apache.flink.A [] - detail",
            r#"{"timestamp":"x","level":"ERROR","message":"INFO"}"#,
            r#"{"level": "info"}"#,
        ]
        .map(|line| filter.lets(line));
        assert_eq!(shown, [true, false, false, true, true, true, false, true, false]);
    }

    #[test]
    fn without_a_level_everything_is_shown() {
        let mut filter = Filter::new(None);
        assert!(filter.lets("2026-01-01 00:00:00,000 TRACE x"));
        assert_eq!(Level::of(&"ä".repeat(200)), None);
        assert_eq!(Level::of(""), None);
    }
    #[test]
    fn a_text_is_found_in_any_case_with_the_stack_trace_that_follows() {
        let mut filter = Filter::new(Some(Level::Info)).finding("Because");
        let shown = [
            "2026-01-01 00:00:00,000 DEBUG a.A [] - because",
            "2026-01-01 00:00:01,000 WARN  a.A [] - careful",
            "java.lang.RuntimeException: BECAUSE",
            "\tat a.A.b(A.java:1)",
            "Caused by: java.io.IOException",
            "\t... 3 more",
            "2026-01-01 00:00:02,000 INFO  a.A [] - on it goes",
            "\tbut not here",
        ]
        .map(|line| filter.lets(line));
        assert_eq!(shown, [false, false, true, true, true, true, false, false]);
        assert_eq!(filter.level(), Some(Level::Info));
        assert!(filter.is_strict() && !Filter::new(None).is_strict());
    }
}
