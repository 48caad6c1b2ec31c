//! Contact with the API server: its loss and its return are each reported once.
//!
//! Watches make lost connections again by themselves and report each attempt. A person wants to know that
//! it is lost, and that it is back: a watch says nothing then until the next change. The API server is asked
//! instead, once the watch has had time for an attempt that did not fail: where watches alone are refused, the
//! API server answers, and nothing is back.

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep_until};

use super::printer::Printer;
use clients::cluster;
use clients::cluster::read::WATCH_RETRY_MAX;

/// A watch that has not failed for this long is there, provided that the API server answers: the time to its
/// next attempt, and for that attempt.
const QUIET: Duration = WATCH_RETRY_MAX.saturating_add(Duration::from_secs(1));
/// Pause between attempts, at first; each next one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// No pause is longer: whoever repairs a network watches.
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(5);

/// The state of a connection, as far as it was seen.
#[derive(Debug, Default)]
pub(super) struct Contact {
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    pause: Duration,
    next_question: Instant,
    message: String,
}

impl Contact {
    /// Notes that a request failed for reasons that pass; whether that is news.
    pub(super) fn lose(&mut self, error: &cluster::Error) -> bool {
        let next_question = Instant::now() + QUIET;
        if let Some(lost) = &mut self.lost {
            lost.next_question = next_question;
            return false;
        }
        self.lost = Some(Lost { pause: PAUSE_MIN, next_question, message: error.to_string() });
        true
    }

    /// Like [`Self::lose`], told on stderr.
    pub(super) fn lose_aloud(&mut self, error: &cluster::Error, printer: &Printer) {
        if self.lose(error) {
            printer.warning(format_args!("connection lost, retrying: {error}"));
        }
    }

    /// Notes that something came; whether that is news.
    pub(super) fn regain(&mut self) -> bool {
        self.lost.take().is_some()
    }

    /// Like [`Self::regain`], told on stderr.
    pub(super) fn regain_aloud(&mut self, printer: &Printer) {
        if self.regain() {
            printer.note("reconnected");
        }
    }

    /// Message to show while the connection is lost.
    pub(super) fn notice(&self) -> Option<String> {
        self.lost.as_ref().map(|lost| format!("connection lost, retrying: {}", lost.message))
    }

    /// How long to wait before the next attempt of one's own, longer each time; `otherwise` while
    /// nothing is lost.
    pub(super) fn pause(&mut self, otherwise: Duration) -> Duration {
        let Some(lost) = &mut self.lost else { return otherwise };
        let pause = lost.pause;
        lost.pause = (pause * 2).min(PAUSE_MAX);
        pause.max(otherwise)
    }

    /// Ends when a lost connection is there again; never while none is lost. May be dropped and called
    /// again, which neither shortens a pause nor begins it anew.
    pub(super) async fn regained(&mut self, client: &Client) {
        loop {
            let Some(lost) = &mut self.lost else { return std::future::pending().await };
            sleep_until(lost.next_question).await;
            let asked = tokio::time::timeout(PATIENCE, client.apiserver_version()).await;
            if matches!(asked, Ok(Ok(_))) {
                return;
            }
            lost.pause = (lost.pause * 2).min(PAUSE_MAX);
            lost.next_question = Instant::now() + lost.pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> cluster::Error {
        cluster::Error::Unreachable { message: "connection refused".to_owned() }
    }

    #[test]
    fn a_loss_is_news_once_and_so_is_its_end() {
        let mut contact = Contact::default();
        assert!(!contact.regain());
        assert!(contact.lose(&error()));
        assert!(!contact.lose(&error()));
        assert!(contact.notice().unwrap().contains("connection refused"));
        assert!(contact.regain());
        assert!(!contact.regain());
        assert_eq!(contact.notice(), None);
        assert!(contact.lose(&error()), "the next loss is news again");
    }

    #[test]
    fn a_watch_that_fails_again_is_given_time_again() {
        let mut contact = Contact::default();
        for _ in 0..2 {
            let before = Instant::now();
            contact.lose(&error());
            let next_question = contact.lost.as_ref().unwrap().next_question;
            assert!(
                next_question > before + WATCH_RETRY_MAX,
                "an answer would say nothing of the watch"
            );
        }
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let usual = Duration::from_secs(2);
        let mut contact = Contact::default();
        assert_eq!(contact.pause(usual), usual);
        contact.lose(&error());
        let pauses = (0..8).map(|_| contact.pause(usual).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses, [2, 2, 4, 8, 16, 16, 16, 16]);
        contact.regain();
        assert_eq!(contact.pause(usual), usual);
    }
}
