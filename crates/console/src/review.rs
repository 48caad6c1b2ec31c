//! How long an answer about a person is valid. Times count from the start of the console.

use std::time::Duration;

/// Additional time that the last answer is valid if the API server does not answer.
const SILENCE_MAX: Duration = Duration::from_mins(5);
/// Pause before asking again if there was no answer.
const RETRY: Duration = Duration::from_secs(5);

/// When the API server last answered who a person is and what they may see.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Review {
    interval: Duration,
    answered: Duration,
    /// The last attempt since then that got no answer: its time, and the reason.
    failed: Option<(Duration, String)>,
}

/// What to ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// Everything, again.
    Everything,
    /// Only about what is new.
    News,
    /// Nothing, because there was no answer just now.
    Nothing,
}

impl Review {
    /// Creates a review that was answered now, which is valid for `interval`.
    pub fn new(interval: Duration, now: Duration) -> Self {
        Self { interval, answered: now, failed: None }
    }

    /// Returns what to ask now.
    pub fn question(&self, now: Duration) -> Question {
        let since = |at: Duration| now.saturating_sub(at);
        match &self.failed {
            Some((at, _)) if since(*at) < RETRY => Question::Nothing,
            _ if since(self.answered) >= self.interval => Question::Everything,
            _ => Question::News,
        }
    }

    /// Records an answer.
    pub fn answer(&mut self, question: Question, now: Duration) {
        self.failed = None;
        if question == Question::Everything {
            self.answered = now;
        }
    }

    /// Records that there was no answer.
    pub fn fail(&mut self, message: String, now: Duration) {
        self.failed = Some((now, message));
    }

    /// Returns why it is no longer known who the person is.
    pub fn silence(&self, now: Duration) -> Option<&str> {
        let (_, message) = self.failed.as_ref()?;
        let is_long = now.saturating_sub(self.answered) >= self.interval + SILENCE_MAX;
        is_long.then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_counts_for_its_time() {
        let mut review = Review::new(seconds(60), seconds(100));
        assert_eq!(review.question(seconds(159)), Question::News);
        assert_eq!(review.question(seconds(160)), Question::Everything);
        review.answer(Question::News, seconds(159));
        assert_eq!(review.question(seconds(160)), Question::Everything, "news are not all");
        review.answer(Question::Everything, seconds(161));
        assert_eq!(review.question(seconds(220)), Question::News);
        assert_eq!(review.question(seconds(221)), Question::Everything);
    }

    #[test]
    fn silence_is_asked_about_at_intervals_and_borne_for_a_while() {
        let mut review = Review::new(seconds(60), seconds(0));
        review.fail("refused".to_owned(), seconds(60));
        assert_eq!(review.question(seconds(64)), Question::Nothing);
        assert_eq!(review.question(seconds(65)), Question::Everything);
        assert_eq!(review.silence(seconds(359)), None);
        assert_eq!(review.silence(seconds(360)), Some("refused"));
        review.answer(Question::Everything, seconds(361));
        assert_eq!(review.silence(seconds(361)), None);
        // This failure concerns news only: the last full answer stays valid, and is asked for again when it is due.
        review.fail("refused".to_owned(), seconds(370));
        assert_eq!(review.question(seconds(375)), Question::News);
        assert_eq!(review.question(seconds(421)), Question::Everything);
        assert_eq!(review.silence(seconds(421)), None);
    }

    #[test]
    fn without_a_time_everything_is_asked_each_time() {
        let review = Review::new(seconds(0), seconds(100));
        assert_eq!(review.question(seconds(100)), Question::Everything);
    }
}
