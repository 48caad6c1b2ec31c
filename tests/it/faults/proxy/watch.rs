//! Watches that go wrong.

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::watch::Receiver;

use super::{Body, BoxError, Fault};

/// What goes wrong with one watch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WatchFault {
    /// Nothing comes any more, and the connection stays.
    Frozen,
    /// The version to start from is too old.
    Gone,
    /// Every event comes twice.
    Doubled,
    /// Every event comes after the first one once more.
    Replayed,
    /// It ends after the first event.
    Short,
}

struct Lines {
    body: Body,
    rest: BytesMut,
    first: Option<Bytes>,
    ready: std::collections::VecDeque<Bytes>,
    fault: Option<WatchFault>,
    is_over: bool,
}

/// The answer to a watch, line by line.
pub(super) fn with_fault(
    answer: Response<Body>,
    fault: Option<Fault>,
    mut calm: Receiver<usize>,
) -> Response<Body> {
    let fault = match fault {
        Some(Fault::Watch(fault)) => Some(fault),
        _ => None,
    };
    if !answer.status().is_success() {
        return answer;
    }
    answer.map(|body| {
        if fault == Some(WatchFault::Frozen) {
            let until_calm = stream::once(async move {
                drop(calm.changed().await);
                Err::<Frame<Bytes>, BoxError>("the frozen connection ended".into())
            });
            return BodyExt::boxed_unsync(StreamBody::new(until_calm));
        }
        let mut ready = std::collections::VecDeque::new();
        if fault == Some(WatchFault::Gone) {
            let gone = json!({"type": "ERROR", "object": {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "too old resource version", "reason": "Expired", "code": 410,
            }});
            ready.push_back(Bytes::from(format!("{gone}\n")));
        }
        let is_over = fault == Some(WatchFault::Gone);
        let lines = Lines { body, rest: BytesMut::new(), first: None, ready, fault, is_over };
        let frames = stream::unfold(lines, |mut lines| async move {
            let line = lines.next().await?;
            Some((line.map(Frame::data), lines))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames.boxed()))
    })
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            if self.is_over {
                return None;
            }
            match self.body.frame().await? {
                Ok(frame) => self.rest.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(error) => return Some(Err(error)),
            }
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1).freeze();
                self.take(line);
            }
        }
    }

    fn take(&mut self, line: Bytes) {
        if self.fault == Some(WatchFault::Replayed) {
            self.ready.extend(self.first.clone());
        }
        self.ready.push_back(line.clone());
        match self.fault {
            Some(WatchFault::Doubled) => self.ready.push_back(line.clone()),
            Some(WatchFault::Short) => self.is_over = true,
            _ => {}
        }
        if self.first.is_none() {
            self.first = Some(line);
        }
    }
}
