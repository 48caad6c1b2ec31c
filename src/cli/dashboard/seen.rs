//! What a page has seen of a resource.

use jiff::Timestamp;

use crate::cli::table;
use console::resource::{Freshness, Part};
use console::row::Row;

/// The last successful read, and whether it is current.
pub(super) struct Seen<T> {
    pub(super) last: Option<(Row, T)>,
    pub(super) standing: Freshness,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { last: None, standing: Freshness::Absent }
    }
}

impl<T> Seen<T> {
    /// Takes the result of a read. A resource that is gone or cannot be read is shown in its last known state, with the
    /// time.
    pub(super) fn again(&mut self, read: Part<Option<(Row, T)>>) {
        let looked = read.map(|found| match found {
            Some(found) => {
                self.last = Some(found);
                true
            }
            None => false,
        });
        let clock = table::clock(Timestamp::now());
        self.standing = self.standing.after(looked, self.last.is_some(), clock);
    }

    pub(super) fn shown(&self) -> Option<&T> {
        self.last.as_ref().map(|(_, shown)| shown)
    }

    pub(super) fn row(&self) -> Option<&Row> {
        self.last.as_ref().map(|(row, _)| row)
    }

    pub(super) fn is_there(&self) -> bool {
        !matches!(self.standing, Freshness::Absent | Freshness::Gone { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_stays_when_it_is_gone_or_cannot_be_read() {
        let mut seen = Seen::default();
        assert!(!seen.is_there());
        seen.again(Err("refused".to_owned()));
        let Freshness::Lost { since, .. } = seen.standing.clone() else { panic!("it is lost") };
        seen.again(Err("forbidden".to_owned()));
        assert_eq!(seen.standing, Freshness::Lost { since, message: "forbidden".to_owned() });
        seen.again(Ok(Some((Row::default(), 1))));
        assert_eq!((&seen.standing, seen.shown()), (&Freshness::Current, Some(&1)));
        seen.again(Ok(None));
        assert!(matches!(seen.standing, Freshness::Gone { .. }) && !seen.is_there());
        assert_eq!(seen.shown(), Some(&1), "it is shown as it was");
    }
}
