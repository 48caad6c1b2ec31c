//! Filters log lines by level and text.
//!
//! Flink's own layouts name the level among the first words of a line, and JSON layouts in a field. A line without a
//! level, as in a stack trace, belongs to the line before it.

use clap::ValueEnum;

/// Number of bytes of a line in which its level is searched, after date, time and markers.
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
    /// Returns the level that the line states.
    fn of(line: &str) -> Option<Self> {
        if line.trim_start().starts_with('{') {
            let after = FIELDS.iter().find_map(|field| line.split_once(field))?.1;
            return Self::named(after.split('"').next()?.trim());
        }
        // Continuation lines start with whitespace; words in them are not levels.
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

/// Passes the lines of one pod that have at least a given level and contain a given text.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Filter {
    least: Option<Level>,
    /// In lower case; empty to pass any text.
    text: String,
    /// The level of the last line that had one.
    present: Option<Level>,
    /// Whether the last line contained the text, or continued one that did.
    is_found: bool,
}

impl Filter {
    pub(in crate::cli) fn new(least: Option<Level>) -> Self {
        Self { least, ..Self::default() }
    }

    /// Also requires lines to contain the text, ignoring case; the stack traces that follow them pass too.
    #[must_use]
    pub(in crate::cli) fn finding(self, text: &str) -> Self {
        Self { text: text.to_lowercase(), ..self }
    }

    /// Returns whether the filter drops any lines.
    pub(in crate::cli) fn is_strict(&self) -> bool {
        self.least.is_some() || !self.text.is_empty()
    }

    /// Returns whether to show the line.
    pub(in crate::cli) fn lets(&mut self, line: &str) -> bool {
        self.present = Level::of(line).or(self.present);
        if !self.text.is_empty() {
            let goes_on = line.starts_with([' ', '\t']) || line.starts_with("Caused by: ");
            self.is_found = self.is_found && goes_on || line.to_lowercase().contains(&self.text);
        }
        // Show lines before the first level, such as those of a shell before Flink starts.
        let is_grave = self.present.is_none_or(|level| self.least.is_none_or(|it| level >= it));
        is_grave && (self.text.is_empty() || self.is_found)
    }

    /// Returns the level of the last line seen, or of the line it belongs to.
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
