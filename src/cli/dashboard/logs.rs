//! The log page: the pods of a resource, their last lines, and new lines as they are written.
//!
//! Each refresh finds the pods, and the readers follow what it has found. Lines wait in a bounded backlog until the
//! page takes them, so that a log that is too fast to follow slows nothing down and is shown with gaps.

use std::time::Duration;

use axum::response::sse::Event;
use clap::ValueEnum;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::answers::Console;
use super::live::Page;
use super::resource::{Reader, Subject, within};
use super::spans;
use crate::cli::logs::MAIN_CONTAINER;
use crate::cli::logs::level::{Filter, Level};
use crate::cli::logs::reading::{Message, Readers, Wanted, is_pending};
use crate::cli::printer::pieces;
use crate::cli::{lookup, status, table, wait};
use clients::cluster::pods::{self, Role};
use config::secret;
use console::logs::{Backlog, Choice, Line, Nothing, Pods, WAITING_MAX};
use console::page::resource::{Fragment, Tab, View, logs};
use console::resource::{Freshness, Part};
use console::row::{Key, Tone};

/// Maximum number of pods whose logs are read for one page.
const PODS_MAX: usize = 16;
/// Maximum number of pods listed.
const LISTED_MAX: usize = 100;
/// Maximum number of last lines of a pod that a page starts with, if there is room for them.
const LINES_MAX: usize = 500;
/// Number of last lines of a pod that are searched if the page has a filter.
const SEARCHED_MAX: i64 = 5_000;
/// Maximum number of lines on their way to the backlog.
const LINES_WAITING: usize = 64;
/// Pause between two batches of lines.
const PAUSE: Duration = Duration::from_millis(250);

/// State of the page between two refreshes.
pub(super) struct Logs {
    choice: Choice,
    pods: Option<Part<Pods>>,
    standing: Freshness,
    /// Sends the pods to the stream of lines. `None` for a page that contains its lines.
    following: Option<watch::Sender<Found>>,
}

/// Pods found by a refresh.
#[derive(Clone, Default)]
struct Found {
    pods: Pods,
    /// Pods whose logs are read.
    read: Vec<Pod>,
}

impl Default for Logs {
    fn default() -> Self {
        let choice = Choice::default();
        Self { choice, pods: None, standing: Freshness::Absent, following: None }
    }
}

impl Page for Logs {
    const TAB: Tab = Tab::Logs;

    fn of(query: &str) -> Self {
        Self { choice: Choice::parse(query), ..Self::default() }
    }

    async fn read(&mut self, console: &Console, key: &Key) -> Vec<Fragment> {
        let mut lines = Vec::new();
        let looked = match find(&console.reader, key, &self.choice).await {
            Ok(Some(Ok(found))) => {
                match &self.following {
                    Some(following) => drop(following.send_replace(found.clone())),
                    None => lines = read(&console.reader, key, &self.choice, &found.read).await,
                }
                self.pods = Some(Ok(found.pods));
                Ok(true)
            }
            Ok(Some(Err(why))) => {
                self.pods = Some(Err(why));
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(message) => Err(message),
        };
        let clock = table::clock(Timestamp::now());
        self.standing = self.standing.after(looked, self.pods.is_some(), clock);
        let view = View { key, resource: None, standing: &self.standing, actions: &[] };
        let mut parts = logs::parts(view, &self.choice, self.pods.as_ref());
        if self.following.is_none() {
            let none = Pods::default();
            let pods = self.pods.as_ref().and_then(|it| it.as_ref().ok()).unwrap_or(&none);
            parts.push(logs::log(key, &self.choice, pods, &lines));
        }
        parts
    }

    fn others(&mut self, console: &Console, key: &Key) -> BoxStream<'static, Event> {
        let (following, found) = watch::channel(Found::default());
        self.following = Some(following);
        if self.choice.is_previous {
            // The log is complete: no lines will follow.
            return stream::empty().boxed();
        }
        let lines = Following::new(&console.reader, key, &self.choice, found);
        let events = stream::unfold(lines, |mut lines| async move {
            let news = lines.next().await?;
            // Serializing a string cannot fail.
            let event = Event::default().event("lines").json_data(news).ok()?;
            Some((event, lines))
        });
        events.boxed()
    }

    fn is_there(&self) -> bool {
        !matches!(self.standing, Freshness::Absent | Freshness::Gone { .. })
    }
}

/// Finds the pods of a resource, or the reason why they are unknown; `None` if there is no such resource.
async fn find(reader: &Reader, key: &Key, choice: &Choice) -> Part<Option<Part<Found>>> {
    let read = reader.inspect(key, async |subject| {
        subject.within(Box::pin(found(reader, key, choice, subject))).await
    });
    Ok(read.await?.map(|(_, found)| found))
}

/// Finds the pods: of a session job, those of its cluster; of a blue/green deployment, those of the serving colour.
async fn found(
    reader: &Reader,
    key: &Key,
    choice: &Choice,
    Subject { object, connection, .. }: &Subject,
) -> anyhow::Result<Found> {
    let cluster = match lookup::serving(connection, object).await? {
        Some(serving) => lookup::cluster_of(connection, &serving).await?,
        None => object.clone(),
    };
    let present = if cluster.is_blue_green() {
        // It has no colour yet.
        Vec::new()
    } else {
        pods::list(&connection.client, &connection.namespace, cluster.name(), None).await?
    };
    let now = Timestamp::now();
    let all = present.iter().take(LISTED_MAX).map(|pod| console::logs::Pod {
        name: name(pod).to_owned(),
        label: spans(&secret::hide_in(&status::pod(pod, now))),
    });
    let all = all.collect::<Vec<_>>();
    let mut nothing = None;
    if present.iter().all(is_pending) {
        let told = reader.described(connection, key, object).await.ok();
        let (why, evidence) = told.map(|it| (it.what, it.evidence)).unwrap_or_default();
        let (why, evidence) = (secret::hide_in(&why), secret::hide_in(&evidence));
        nothing = Some(Nothing { phase: wait::phase(&cluster), why, evidence });
    }
    let chosen = present.iter().filter(|pod| !is_pending(pod) && is_chosen(pod, choice));
    let mut read: Vec<Pod> = chosen.cloned().collect();
    let unread = read.len().saturating_sub(PODS_MAX);
    read.truncate(PODS_MAX);
    let pods = Pods {
        cluster: cluster.name().to_owned(),
        more: present.len() - all.len(),
        all,
        read: read.iter().map(|pod| name(pod).to_owned()).collect(),
        unread,
        nothing,
    };
    Ok(Found { pods, read })
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn is_chosen(pod: &Pod, choice: &Choice) -> bool {
    let role = choice.role.map(|role| match role {
        console::logs::Role::Jm => Role::JobManager,
        console::logs::Role::Tm => Role::TaskManager,
    });
    role.is_none_or(|role| Role::of(pod) == Some(role))
        && choice.pod.as_deref().is_none_or(|chosen| chosen == name(pod))
}

/// Returns what to read of each pod if there are this many.
fn wanted(key: &Key, choice: &Choice, pods: usize) -> Wanted {
    let level = choice.level.and_then(|level| Level::from_str(level, true).ok());
    let filter = Filter::new(level).finding(&choice.text);
    // All of them together fit into the backlog.
    let kept = (WAITING_MAX / pods.clamp(1, PODS_MAX)).min(LINES_MAX);
    let tail = if filter.is_strict() { SEARCHED_MAX } else { i64::try_from(kept).unwrap_or(1) };
    Wanted {
        namespace: key.namespace.clone().into(),
        container: MAIN_CONTAINER.to_owned(),
        is_following: false,
        is_previous: choice.is_previous,
        tail: Some(tail),
        kept: Some(kept),
        since: None,
        filter,
        pods_max: PODS_MAX,
    }
}

/// Reads the last lines of these pods, as far as there is time.
async fn read(reader: &Reader, key: &Key, choice: &Choice, present: &[Pod]) -> Vec<Line> {
    let mut backlog = Backlog::default();
    let all = async {
        let _turn = reader.turn().await.map_err(anyhow::Error::msg)?;
        let (sender, mut messages) = mpsc::channel(LINES_WAITING);
        let wanted = wanted(key, choice, present.len());
        let mut readers = Readers::new(reader.connection(&key.namespace).client, wanted, sender);
        readers.start(present);
        readers.finish();
        while let Some(message) = messages.recv().await {
            if let Some(line) = line(message) {
                backlog.push(line);
            }
        }
        anyhow::Ok(())
    };
    if let Err(why) = within(all).await {
        let text = format!("some logs cannot be shown: {why}");
        backlog.push(Line::new("".into(), None, Tone::Bad, text));
    }
    backlog.all()
}

/// Returns a line as the page shows it, without secrets and terminal escapes.
fn line(message: Message) -> Option<Line> {
    match message {
        Message::Line(line) => {
            let text = secret::hide_in(&line.text).replace('\t', "    ");
            let text = pieces(&text).into_iter().map(|(_, text)| text).collect();
            let at = line.at.and_then(|at| i64::try_from(at.as_nanosecond()).ok());
            Some(Line::new(line.pod, at, tone(line.level), text))
        }
        Message::End { pod, error: Some(error) } => {
            let text = format!("the log cannot be read: {error}");
            Some(Line::new(pod, None, Tone::Bad, secret::hide_in(&text)))
        }
        Message::End { error: None, .. } => None,
    }
}

fn tone(level: Option<Level>) -> Tone {
    match level {
        Some(Level::Error) => Tone::Bad,
        Some(Level::Warn) => Tone::Moving,
        Some(Level::Debug | Level::Trace) => Tone::Quiet,
        Some(Level::Info) | None => Tone::Unknown,
    }
}

/// Streams lines to a live page.
struct Following {
    found: watch::Receiver<Found>,
    /// Pods found by the last refresh.
    present: Found,
    readers: Readers,
    messages: mpsc::Receiver<Message>,
    backlog: Backlog,
    pauses: Interval,
}

impl Following {
    fn new(reader: &Reader, key: &Key, choice: &Choice, found: watch::Receiver<Found>) -> Self {
        let (sender, messages) = mpsc::channel(LINES_WAITING);
        let wanted = Wanted { is_following: true, ..wanted(key, choice, PODS_MAX) };
        let readers = Readers::new(reader.connection(&key.namespace).client, wanted, sender);
        let mut pauses = interval(PAUSE);
        pauses.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (present, backlog) = (Found::default(), Backlog::default());
        Self { found, present, readers, messages, backlog, pauses }
    }

    /// Returns the next lines as soon as there are some; `None` when the page is closed.
    async fn next(&mut self) -> Option<String> {
        loop {
            tokio::select! {
                changed = self.found.changed() => {
                    changed.ok()?;
                    self.present = self.found.borrow_and_update().clone();
                    let read = &self.present.read;
                    self.backlog.retain(|known| read.iter().any(|pod| name(pod) == known));
                    self.readers.start(read);
                }
                message = self.messages.recv() => self.take(message?),
                _ = self.pauses.tick(), if !self.backlog.is_empty() => {
                    let (left_out, lines) = self.backlog.take();
                    return Some(logs::lines(&self.present.pods, left_out, &lines));
                }
            }
        }
    }

    fn take(&mut self, message: Message) {
        if let Message::End { pod, error } = &message {
            let is_ready = |it: &Pod| name(it) == &**pod && pods::is_ready(it);
            // The connection was lost, not the container. The next refresh reads the log again.
            if error.is_some() || self.present.read.iter().any(is_ready) {
                self.backlog.again(pod);
                self.readers.forget(pod);
            }
        }
        if let Some(line) = line(message) {
            self.backlog.push(line);
        }
    }
}
