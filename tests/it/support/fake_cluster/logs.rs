//! Pod logs as a kubelet serves them: the last lines, those since a time, and new ones as they are written.
//!
//! One line is written each second.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, Uri};
use jiff::{SignedDuration, Timestamp};

use super::{FakeCluster, failure};

/// Time of the first line of each log, in seconds since the epoch.
const BEGIN: i64 = 1_767_225_600;
/// Pause between two checks for new lines.
const POLL: Duration = Duration::from_millis(20);

impl FakeCluster {
    /// Sets the log of a pod's containers.
    pub(crate) fn set_log(&self, pod: &str, text: &str) {
        self.state().logs.insert(pod.to_owned(), text.to_owned());
    }

    /// Appends to the log of a pod's containers.
    pub(crate) fn write_log(&self, pod: &str, text: &str) {
        self.state().logs.entry(pod.to_owned()).or_default().push_str(text);
    }

    /// Answers a request for the log of a pod that has one.
    pub(super) fn log(&self, uri: &Uri) -> Option<Response<Body>> {
        let (_, pod) = uri.path().strip_suffix("/log")?.rsplit_once("/pods/")?;
        let query = uri.query().unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(other, _)| *other == name).map(|(_, value)| value.replace("%3A", ":"))
        };
        let is_timed = value("timestamps").is_some();
        let is_previous = value("previous").is_some();
        let pod = if is_previous { format!("{pod} before") } else { pod.to_owned() };
        let since: Option<Timestamp> = value("sinceTime").map(|time| time.parse().unwrap());
        let lines = self.lines(&pod, 0, is_timed);
        if is_previous && lines.is_none() {
            let message = "previous terminated container \"flink-main-container\" not found";
            return Some(failure(400, message, "BadRequest"));
        }
        let mut lines: VecDeque<String> = lines?.into();
        let read = lines.len();
        if let Some(since) = since {
            let old = since.as_second() - BEGIN;
            lines.drain(..usize::try_from(old).unwrap_or(0).min(read));
        }
        if let Some(tail) = value("tailLines") {
            let tail = tail.parse::<usize>().unwrap();
            lines.drain(..lines.len().saturating_sub(tail));
        }
        if value("follow").is_none() {
            return Some(Response::new(Body::from(lines.into_iter().collect::<String>())));
        }
        let start = (self.clone(), pod, lines, read);
        let more =
            futures::stream::unfold(start, move |(server, pod, mut lines, mut read)| async move {
                loop {
                    if let Some(line) = lines.pop_front() {
                        return Some((Ok::<_, Infallible>(line), (server, pod, lines, read)));
                    }
                    tokio::time::sleep(POLL).await;
                    // A removed log has ended.
                    let new = server.lines(&pod, read, is_timed)?;
                    read += new.len();
                    lines.extend(new);
                }
            });
        Some(Response::new(Body::from_stream(more)))
    }

    /// Ends the container and with it its log.
    pub(crate) fn end_log(&self, pod: &str) {
        self.state().logs.remove(pod);
    }

    fn lines(&self, pod: &str, from: usize, is_timed: bool) -> Option<Vec<String>> {
        let state = self.state();
        let lines = state.logs.get(pod)?.split_inclusive('\n').enumerate().skip(from);
        let begin = Timestamp::from_second(BEGIN).unwrap();
        let timed = |(number, line): (usize, &str)| {
            let at = begin + SignedDuration::from_secs(i64::try_from(number).unwrap());
            if is_timed { format!("{at} {line}") } else { line.to_owned() }
        };
        Some(lines.map(timed).collect())
    }
}
