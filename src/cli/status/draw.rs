//! A tree of lines. Pure: the same nodes give the same text.

use dialoguer::console::measure_text_width;

/// Minimum number of columns for the text of a line, however deep it is.
const ROOM_MIN: usize = 12;

/// A line and its children.
pub(in crate::cli) struct Node {
    pub(in crate::cli) label: String,
    pub(in crate::cli) children: Vec<Self>,
}

impl Node {
    pub(super) fn leaf(label: impl Into<String>) -> Self {
        Self { label: label.into(), children: Vec::new() }
    }

    pub(super) fn with(label: impl Into<String>, children: Vec<Self>) -> Self {
        Self { label: label.into(), children }
    }

    /// Draws the tree, with each line ended. Lines longer than `width` are wrapped between words; a word longer than a
    /// line is not broken, so that paths can be copied.
    pub(super) fn drawn(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        self.draw("", "", width, &mut text);
        text
    }

    fn draw(&self, first: &str, rest: &str, width: Option<usize>, text: &mut String) {
        let below = if self.children.is_empty() { "" } else { "│  " };
        let room = |indent: usize| width.map(|width| width.saturating_sub(indent).max(ROOM_MIN));
        let indent = measure_text_width(rest);
        let rooms = room(indent).zip(room(indent + measure_text_width(below)));
        for (index, line) in broken(&self.label, rooms).iter().enumerate() {
            if index == 0 {
                text.push_str(first);
            } else {
                text.push_str(rest);
                text.push_str(below);
            }
            text.push_str(line);
            text.push('\n');
        }
        for (index, child) in self.children.iter().enumerate() {
            let is_last = index + 1 == self.children.len();
            let (branch, on) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            child.draw(&format!("{rest}{branch}"), &format!("{rest}{on}"), width, text);
        }
    }
}

/// Splits a text into lines, given the room in the first line and in the others; colour codes take no room.
fn broken(text: &str, rooms: Option<(usize, usize)>) -> Vec<String> {
    let Some((first, others)) = rooms.filter(|(first, _)| measure_text_width(text) > *first) else {
        return vec![text.to_owned()];
    };
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let room = if lines.is_empty() { first } else { others };
        let is_full = measure_text_width(&line) + 1 + measure_text_width(word) > room;
        if !line.is_empty() {
            if is_full {
                lines.push(std::mem::take(&mut line));
            } else {
                line.push(' ');
            }
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::cli::printer::{GREEN, styled};

    #[test]
    fn long_lines_go_on_below_and_long_words_stay_whole() {
        let state = styled(GREEN, "RUNNING");
        let tree = Node::with(
            format!("orders {state} (namespace team, v1_20)"),
            vec![
                Node::with(
                    "Job with a long name",
                    vec![Node::leaf("s3://bucket/a/path/that/is/longer/than/any/line")],
                ),
                Node::leaf("short"),
            ],
        );
        let plain = |width| anstream::adapter::strip_str(&tree.drawn(width)).to_string();
        expect![[r#"
            orders RUNNING
            │  (namespace
            │  team, v1_20)
            ├─ Job with a long
            │  │  name
            │  └─ s3://bucket/a/path/that/is/longer/than/any/line
            └─ short
        "#]]
        .assert_eq(&plain(Some(18)));
        assert_eq!(plain(None).lines().count(), 4);
    }
}
