//! Faults of watches, from their start or after they have been open for a while.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::{Body, BoxError, Fault, Hush, Shared};

/// What goes wrong with one watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WatchFault {
    /// No more events arrive, and the connection stays open.
    Frozen,
    /// No events arrive for this long, then all that were held back.
    Held(Duration),
    /// The version to start from is too old.
    Gone,
    /// Every event arrives twice.
    Doubled,
    /// Before each later event the first one is repeated.
    Replayed,
    /// The watch ends after the first event.
    Short,
}

/// Number of watch events that a fault has affected: withheld, duplicated or final ones.
pub(crate) type Touched = Arc<AtomicUsize>;

/// A fault of open watches.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    pub(super) fault: WatchFault,
    /// Applies to watches with this in their path.
    pub(super) part: &'static str,
    pub(super) touched: Touched,
}

/// What can affect a watch.
pub(super) struct Dangers {
    pub(super) shared: Arc<Shared>,
    pub(super) path: String,
    pub(super) strikes: Receiver<Option<Strike>>,
    pub(super) calm: Receiver<usize>,
    /// Counter of the request that opened it.
    pub(super) touched: Touched,
}

struct Lines {
    body: Body,
    dangers: Dangers,
    rest: BytesMut,
    first: Option<Bytes>,
    ready: VecDeque<Bytes>,
    /// Events that are held back, and until when.
    held: VecDeque<Bytes>,
    until: Option<Instant>,
    fault: Option<WatchFault>,
    /// Whether the fault began after it was opened.
    is_struck: bool,
    /// Present while it withholds events from the operator that opened it.
    hush: Option<Hush>,
    /// Whether the server has no more events.
    is_drained: bool,
    is_over: bool,
}

/// Relays the answer to a watch line by line, with its fault.
pub(super) fn with_fault(
    answer: Response<Body>,
    fault: Option<Fault>,
    dangers: Dangers,
) -> Response<Body> {
    if !answer.status().is_success() {
        return answer;
    }
    answer.map(|body| {
        let mut lines = Lines {
            body,
            dangers,
            rest: BytesMut::new(),
            first: None,
            ready: VecDeque::new(),
            held: VecDeque::new(),
            until: None,
            fault: None,
            is_struck: false,
            hush: None,
            is_drained: false,
            is_over: false,
        };
        if let Some(Fault::Watch(fault)) = fault {
            lines.begin(fault);
        }
        let frames = stream::unfold(lines, |mut lines| async move {
            let line = lines.next().await?;
            Some((line.map(Frame::data), lines))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames.boxed()))
    })
}

/// Whether the line is a bookmark, which carries no change.
fn is_bookmark(line: &[u8]) -> bool {
    line.windows(BOOKMARK.len()).any(|part| part == BOOKMARK)
}

const BOOKMARK: &[u8] = br#""type":"BOOKMARK""#;

impl Lines {
    /// Begins the fault.
    fn begin(&mut self, fault: WatchFault) {
        // An earlier end of faults does not end this one.
        self.dangers.calm.mark_unchanged();
        self.fault = Some(fault);
        match fault {
            WatchFault::Gone => {
                let gone = json!({"type": "ERROR", "object": {
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "too old resource version", "reason": "Expired", "code": 410,
                }});
                self.touch();
                self.ready.push_back(Bytes::from(format!("{gone}\n")));
                self.is_over = true;
            }
            WatchFault::Held(pause) => self.until = Some(Instant::now() + pause),
            _ => {}
        }
    }

    fn touch(&self) {
        let _before = self.dangers.touched.fetch_add(1, Ordering::Relaxed);
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            let is_frozen = self.fault == Some(WatchFault::Frozen);
            let is_held = self.until.is_some();
            if self.is_over || (self.is_drained && !is_frozen && !is_held) {
                return None;
            }
            let until = self.until.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                _ = self.dangers.calm.changed(), if is_frozen => {
                    self.is_over = true;
                    return Some(Err("the frozen connection ended".into()));
                }
                changed = self.dangers.strikes.changed() => {
                    self.is_over |= changed.is_err();
                    let strike = self.dangers.strikes.borrow_and_update().clone();
                    let Some(Strike { fault, part, touched }) = strike else { continue };
                    if self.dangers.path.contains(part) {
                        self.dangers.touched = touched;
                        self.is_struck = true;
                        self.begin(fault);
                    }
                }
                () = sleep_until(until), if is_held => {
                    (self.until, self.fault, self.hush) = (None, None, None);
                    self.ready.append(&mut self.held);
                }
                frame = self.body.frame(), if !self.is_drained => match frame {
                    Some(Ok(frame)) => {
                        self.rest.extend_from_slice(&frame.into_data().unwrap_or_default());
                        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                            let line = self.rest.split_to(end + 1).freeze();
                            self.take(line);
                        }
                    }
                    Some(Err(_)) if is_frozen => self.is_drained = true,
                    Some(Err(error)) => {
                        self.is_over = true;
                        return Some(Err(error));
                    }
                    None => self.is_drained = true,
                },
            }
        }
    }

    fn take(&mut self, line: Bytes) {
        let is_news = !is_bookmark(&line);
        if is_news && self.fault.is_some() && !self.is_over {
            let is_first = self.first.is_none();
            if !(is_first && self.fault == Some(WatchFault::Replayed)) {
                self.touch();
            }
        }
        let is_withheld = matches!(self.fault, Some(WatchFault::Frozen | WatchFault::Held(_)));
        if is_withheld && is_news && self.is_struck && self.hush.is_none() {
            self.hush = Some(self.dangers.shared.hush());
        }
        match self.fault {
            Some(WatchFault::Frozen) => return,
            Some(WatchFault::Held(_)) => {
                self.held.push_back(line);
                return;
            }
            Some(WatchFault::Replayed) => self.ready.extend(self.first.clone()),
            // Events that arrived together with the last one are dropped.
            Some(WatchFault::Short) if self.is_over => return,
            _ => {}
        }
        self.ready.push_back(line.clone());
        match self.fault {
            Some(WatchFault::Doubled) => self.ready.push_back(line.clone()),
            Some(WatchFault::Short) => self.is_over = true,
            _ => {}
        }
        if self.first.is_none() && is_news {
            self.first = Some(line);
        }
    }
}
