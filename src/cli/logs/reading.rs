//! Reads the logs of many pods concurrently, for the command and the console.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::level::{Filter, Level};
use clients::cluster;
use clients::cluster::logs::{self, LogRequest};

/// What to read of each pod.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Wanted {
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) container: String,
    /// Whether to wait for new lines.
    pub(in crate::cli) is_following: bool,
    /// Whether to read the previous run of the containers.
    pub(in crate::cli) is_previous: bool,
    /// Maximum number of last lines to read.
    pub(in crate::cli) tail: Option<i64>,
    /// Maximum number of existing lines to pass on after filtering, before new ones are awaited. If set, all lines
    /// carry their time.
    pub(in crate::cli) kept: Option<usize>,
    pub(in crate::cli) since: Option<Duration>,
    pub(in crate::cli) filter: Filter,
    /// Maximum number of pods read concurrently.
    pub(in crate::cli) pods_max: usize,
}

/// A line of a log.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Line {
    /// Number of the reader, so that each can have its own colour.
    pub(in crate::cli) reader: usize,
    pub(in crate::cli) pod: Arc<str>,
    /// When the line was written, if requested.
    pub(in crate::cli) at: Option<Timestamp>,
    /// The line's level, or that of the line it belongs to.
    pub(in crate::cli) level: Option<Level>,
    pub(in crate::cli) text: String,
}

/// A message from a reader.
pub(in crate::cli) enum Message {
    Line(Line),
    /// The log has ended.
    End {
        pod: Arc<str>,
        error: Option<cluster::Error>,
    },
}

/// Readers of logs, one task per pod.
pub(in crate::cli) struct Readers {
    client: Client,
    wanted: Wanted,
    /// `None` once no more readers are to be started.
    sender: Option<mpsc::Sender<Message>>,
    /// Incarnations of the current pods that are being read or were read, with the pods' names: see [`incarnation`].
    seen: HashMap<String, Arc<str>>,
    started: usize,
    tasks: JoinSet<()>,
}

impl Readers {
    pub(in crate::cli) fn new(
        client: Client,
        wanted: Wanted,
        sender: mpsc::Sender<Message>,
    ) -> Self {
        let (seen, tasks) = (HashMap::new(), JoinSet::new());
        Self { client, wanted, sender: Some(sender), seen, started: 0, tasks }
    }

    /// Starts readers for pods that are not read yet and have something to read.
    pub(in crate::cli) fn start(&mut self, present: &[Pod]) {
        let container = &self.wanted.container;
        let present: Vec<(&Pod, String)> =
            present.iter().filter_map(|pod| Some((pod, incarnation(pod, container)?))).collect();
        // Pods that are gone make room for others.
        self.seen.retain(|seen, _| present.iter().any(|(_, incarnation)| incarnation == seen));
        while self.tasks.try_join_next().is_some() {}
        let most = self.wanted.pods_max;
        for (pod, incarnation) in present {
            // The last lines of deleted pods are still being read; allow at most as many of those readers as of others.
            let has_room = self.seen.len() < most && self.tasks.len() < 2 * most;
            let is_waiting = self.wanted.is_following && is_pending(pod);
            if !is_waiting && has_room && !self.seen.contains_key(&incarnation) {
                let name: Arc<str> = pod.metadata.name.as_deref().unwrap_or_default().into();
                self.seen.insert(incarnation, Arc::clone(&name));
                self.read(name);
            }
        }
    }

    /// Starts no more readers, so that the channel closes after the last reader ends.
    pub(in crate::cli) fn finish(&mut self) {
        self.sender = None;
    }

    /// Makes the next [`Self::start`] read this pod again.
    pub(in crate::cli) fn forget(&mut self, pod: &str) {
        self.seen.retain(|_, name| **name != *pod);
    }

    fn read(&mut self, pod: Arc<str>) {
        let Some(sender) = self.sender.clone() else { return };
        let (client, wanted) = (self.client.clone(), self.wanted.clone());
        let reader = self.started;
        self.started += 1;
        self.tasks.spawn(async move {
            let mut reading = Reading { reader, pod, filter: wanted.filter.clone(), sender };
            let error = reading.all(&client, &wanted).await.err();
            // The receiver is dropped only when everything is over.
            drop(reading.sender.send(Message::End { pod: reading.pod, error }).await);
        });
    }
}

pub(in crate::cli) fn is_pending(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending")
}

/// Identifies one run of the container; each run has a log of its own, in the same pod or in its successor.
fn incarnation(pod: &Pod, container: &str) -> Option<String> {
    let uid = pod.metadata.uid.as_deref()?;
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let id = statuses
        .and_then(|statuses| statuses.iter().find(|status| status.name == container))
        .and_then(|status| status.container_id.as_deref());
    Some(format!("{uid} {}", id.unwrap_or_default()))
}

/// Rounds down to whole seconds, at least one, as the API server requires.
fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX).max(1)
}

/// The log of one pod while it is read.
struct Reading {
    reader: usize,
    pod: Arc<str>,
    filter: Filter,
    sender: mpsc::Sender<Message>,
}

impl Reading {
    async fn all(&mut self, client: &Client, wanted: &Wanted) -> cluster::Result<()> {
        let request = LogRequest {
            namespace: wanted.namespace.clone(),
            pod: (*self.pod).to_owned(),
            container: Some(wanted.container.clone()),
            is_following: wanted.is_following,
            is_previous: wanted.is_previous,
            tail_lines: wanted.tail,
            since_seconds: wanted.since.map(whole_seconds),
            since: None,
            is_timed: wanted.kept.is_some(),
        };
        let Some(kept) = wanted.kept else { return self.pour(client, &request, None).await };
        // A single stream would not show where the existing lines end.
        let before = LogRequest { is_following: false, ..request.clone() };
        let last = self.tail(client, &before, kept).await?;
        if !wanted.is_following {
            return Ok(());
        }
        let more = LogRequest { tail_lines: None, since: last, ..request };
        self.pour(client, &more, last).await
    }

    /// Sends the last lines, and returns the time of the newest one.
    async fn tail(
        &mut self,
        client: &Client,
        request: &LogRequest,
        kept: usize,
    ) -> cluster::Result<Option<Timestamp>> {
        let mut newest = VecDeque::new();
        let mut last = None;
        let mut lines = Box::pin(logs::lines(client, request).await?);
        while let Some(line) = lines.next().await {
            let (at, text) = timed(line?);
            last = last.max(at);
            if self.filter.lets(&text) {
                newest.push_back(self.line(at, text));
                if newest.len() > kept {
                    newest.pop_front();
                }
            }
        }
        for line in newest {
            if self.sender.send(Message::Line(line)).await.is_err() {
                break;
            }
        }
        Ok(last)
    }

    /// Sends new lines as they arrive, except those written before.
    async fn pour(
        &mut self,
        client: &Client,
        request: &LogRequest,
        before: Option<Timestamp>,
    ) -> cluster::Result<()> {
        let mut lines = Box::pin(logs::lines(client, request).await?);
        while let Some(line) = lines.next().await {
            let line = line?;
            let (at, text) = if request.is_timed { timed(line) } else { (None, line) };
            let is_old = at.is_some() && at <= before;
            if !is_old && self.filter.lets(&text) {
                let line = self.line(at, text);
                if self.sender.send(Message::Line(line)).await.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn line(&self, at: Option<Timestamp>, text: String) -> Line {
        let level = self.filter.level();
        Line { reader: self.reader, pod: Arc::clone(&self.pod), at, level, text }
    }
}

/// Splits a line into its time and the rest. The kubelet's own messages have no time.
fn timed(line: String) -> (Option<Timestamp>, String) {
    let (time, rest) = line.split_once(' ').unwrap_or((&line, ""));
    match time.parse() {
        Ok(at) => (Some(at), rest.to_owned()),
        Err(_) => (None, line),
    }
}
