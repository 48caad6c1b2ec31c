//! Exceptions of a job as events, each reported once.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::event::{Component, Event};
use super::world::{Job, JobException, ReportedExceptions};
use api::status::JobStatusState;
use config::secret::hide_in;

/// Maximum age of exceptions reported after the operator starts. Older ones are history.
const AGE_AT_START_MAX: SignedDuration = SignedDuration::from_mins(30);
/// Maximum length of an annotation value, in characters.
const ANNOTATION_LENGTH_MAX: usize = 256;

/// How long after a change Flink may still return the exceptions from before it. Its web server caches responses for
/// `web.refresh-interval`, three seconds by default.
const ANSWERS_SETTLE_IN: SignedDuration = SignedDuration::from_secs(30);

impl ReportedExceptions {
    /// Returns the record after these exceptions of the job were reported.
    pub fn after(
        before: Option<&Self>,
        job_id: &str,
        exceptions: &[JobException],
        modified: Option<i64>,
        now: Timestamp,
    ) -> Self {
        let newest = exceptions.iter().map(|exception| exception.at).max();
        let before = before.filter(|told| told.job_id == job_id).map(|told| told.until);
        let settled = (now - ANSWERS_SETTLE_IN).as_millisecond();
        Self {
            job_id: job_id.to_owned(),
            until: newest.or(before).unwrap_or_else(|| now.as_millisecond()),
            complete_at: modified.filter(|&modified| modified > 0 && modified <= settled),
        }
    }

    /// Returns true if the job cannot have another exception, since each changes the state of a task. Rule:
    /// `JobDetails.createDetailsForJob` of Flink.
    pub(super) fn is_complete_for(&self, job: &Job) -> bool {
        self.job_id == job.id
            && job.state == JobStatusState::Running
            && self.complete_at.is_some()
            && self.complete_at == job.modified
    }
}

/// Which exceptions to report, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// Milliseconds since the epoch; only later exceptions are reported.
    pub(super) since: i64,
    /// Maximum number of events per pass.
    pub(super) limit: usize,
    /// Maximum number of stack trace lines in an event.
    pub(super) lines: usize,
}

/// Returns the time up to which the job's exceptions were reported, in milliseconds since the epoch.
pub(super) fn since(told: Option<&ReportedExceptions>, job_id: &str, now: Timestamp) -> i64 {
    match told {
        Some(told) if told.job_id == job_id => told.until,
        Some(_) => i64::MIN,
        None => (now - AGE_AT_START_MAX).as_millisecond(),
    }
}

/// Returns the events, newest exception first.
pub(super) fn events(exceptions: &[JobException], scope: &Scope) -> Vec<Event> {
    let mut fresh: Vec<&JobException> =
        exceptions.iter().filter(|exception| exception.at > scope.since).collect();
    fresh.sort_by_key(|exception| std::cmp::Reverse(exception.at));
    fresh.into_iter().take(scope.limit).map(|exception| event(exception, scope.lines)).collect()
}

fn event(exception: &JobException, lines: usize) -> Event {
    let JobException { at, stack_trace, task_name, endpoint, task_manager_id, labels } = exception;
    let mut annotations = BTreeMap::new();
    let mut annotate = |key: String, value: String| {
        // A part of a secret would not be recognised.
        annotations.insert(key, hide_in(&value).chars().take(ANNOTATION_LENGTH_MAX).collect());
    };
    annotate("exception-timestamp".to_owned(), at.to_string());
    let named = [("task-name", task_name), ("endpoint", endpoint), ("tm-id", task_manager_id)];
    for (key, value) in named {
        if let Some(value) = value {
            annotate(key.to_owned(), value.clone());
        }
    }
    for (label, value) in labels {
        annotate(format!("failure-label-{}", sanitised(label)), value.clone());
    }
    let message = head(stack_trace, lines);
    let key = format!("jobmanager-exception-{at}-{:x}", fingerprint(stack_trace));
    let mut event = Event::warning("JobException", Component::Job, message);
    event.key = Some(key);
    event.annotations = annotations;
    event
}

/// Returns the first lines, and how many more there are.
fn head(stack_trace: &str, lines: usize) -> String {
    let total = stack_trace.lines().count();
    let text = stack_trace.lines().take(lines).collect::<Vec<_>>().join("\n");
    if total > lines { format!("{text}\n... ({} more lines)", total - lines) } else { text }
}

/// Replaces characters that an annotation's name must not contain.
fn sanitised(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect()
}

/// Returns a hash of the text (FNV-1a).
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(at: i64) -> JobException {
        JobException {
            at,
            stack_trace: "java.lang.Boom: no\n\tat a\n\tat b".to_owned(),
            task_name: Some("map (1/2)".to_owned()),
            labels: BTreeMap::from([("kind of".to_owned(), "user".to_owned())]),
            ..JobException::default()
        }
    }

    #[test]
    fn only_newer_ones_are_reported_and_the_newest_first() {
        let all = [exception(1), exception(3), exception(2)];
        let told = events(&all, &Scope { since: 1, limit: 10, lines: 2 });
        let at = |event: &Event| event.annotations["exception-timestamp"].clone();
        assert_eq!(told.iter().map(at).collect::<Vec<_>>(), ["3", "2"]);
        assert_eq!(told[0].message, "java.lang.Boom: no\n\tat a\n... (1 more lines)");
        assert_eq!(told[0].annotations["failure-label-kind-of"], "user");
        assert_ne!(told[0].key, told[1].key);
    }

    #[test]
    fn a_job_whose_tasks_have_not_moved_is_not_asked_again() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let job = |modified| Job {
            id: "j".to_owned(),
            name: "orders".to_owned(),
            state: JobStatusState::Running,
            start_time: 1,
            modified,
        };
        let told = ReportedExceptions::after(None, "j", &[], Some(1_000), at(100));
        assert!(told.is_complete_for(&job(Some(1_000))));
        assert!(!told.is_complete_for(&job(Some(2_000))), "a task failed meanwhile");
        assert!(!told.is_complete_for(&job(None)), "a Flink that does not say");
        let restarting = Job { state: JobStatusState::Restarting, ..job(Some(1_000)) };
        assert!(!told.is_complete_for(&restarting));
        let other = Job { id: "k".to_owned(), ..job(Some(1_000)) };
        assert!(!told.is_complete_for(&other));
        let early = ReportedExceptions::after(None, "j", &[], Some(90_000), at(100));
        assert!(!early.is_complete_for(&job(Some(90_000))), "Flink's answer may be older");
        let silent = ReportedExceptions::after(None, "j", &[], None, at(100));
        assert!(!silent.is_complete_for(&job(None)));
    }

    #[test]
    fn one_pass_reports_no_more_than_the_limit() {
        let all = [exception(1), exception(3), exception(2)];
        assert_eq!(events(&all, &Scope { since: 0, limit: 2, lines: 5 }).len(), 2);
    }
}
