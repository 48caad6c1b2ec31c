//! Contact with the API server: reports its loss and its return once each.
//!
//! Watches reconnect by themselves and report each attempt. A person wants to know that the connection is lost and when
//! it is back, but after reconnecting a watch is silent until the next change. So the API server is queried instead,
//! once the watch has had time for an attempt that did not fail. If only watches are refused, the API server answers
//! although nothing is back.

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep_until};

use super::printer::Printer;
use clients::cluster;
use clients::cluster::read::WATCH_RETRY_MAX;

/// A watch that has not failed for this long is considered connected if the API server answers. It covers the time to
/// the watch's next attempt and the attempt itself.
const QUIET: Duration = WATCH_RETRY_MAX.saturating_add(Duration::from_secs(1));
/// First pause between attempts; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between attempts. It is short because someone who repairs a network is watching.
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// Deadline for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// State of the connection as last seen.
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
    /// Records that a request failed with a transient error. Returns true unless the connection was already lost.
    pub(super) fn lose(&mut self, error: &cluster::Error) -> bool {
        let next_question = Instant::now() + QUIET;
        if let Some(lost) = &mut self.lost {
            lost.next_question = next_question;
            return false;
        }
        self.lost = Some(Lost { pause: PAUSE_MIN, next_question, message: error.to_string() });
        true
    }

    /// Like [`Self::lose`], but also reports the loss on stderr.
    pub(super) fn lose_aloud(&mut self, error: &cluster::Error, printer: &Printer) {
        if self.lose(error) {
            printer.warning(format_args!("connection lost, retrying: {error}"));
        }
    }

    /// Records that data arrived. Returns true if the connection was lost.
    pub(super) fn regain(&mut self) -> bool {
        self.lost.take().is_some()
    }

    /// Like [`Self::regain`], but also reports the return on stderr.
    pub(super) fn regain_aloud(&mut self, printer: &Printer) {
        if self.regain() {
            printer.note("reconnected");
        }
    }

    /// Returns the message to show while the connection is lost.
    pub(super) fn notice(&self) -> Option<String> {
        self.lost.as_ref().map(|lost| format!("connection lost, retrying: {}", lost.message))
    }

    /// Returns how long the caller should wait before its next attempt, longer each time; `otherwise` unless the
    /// connection is lost.
    pub(super) fn pause(&mut self, otherwise: Duration) -> Duration {
        let Some(lost) = &mut self.lost else { return otherwise };
        let pause = lost.pause;
        lost.pause = (pause * 2).min(PAUSE_MAX);
        pause.max(otherwise)
    }

    /// Waits until a lost connection is back; forever if none is lost. Cancel safe: a new call neither shortens nor
    /// restarts the current pause.
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
