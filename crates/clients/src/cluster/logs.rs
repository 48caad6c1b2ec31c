//! Logs of one container, line by line.

use std::io;

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::{Stream, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, LogParams};

use super::{Error, Result};

/// Maximum length of a line in bytes: a program may write forever without ending one.
const LINE_BYTES_MAX: usize = 256 << 10;

/// Which lines to read, of which container.
#[derive(Clone, Debug, Default)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub container: Option<String>,
    /// Keep waiting for more.
    pub is_following: bool,
    /// Read the container's previous run.
    pub is_previous: bool,
    /// At most this many of the last lines.
    pub tail_lines: Option<i64>,
    /// Not older than this many seconds.
    pub since_seconds: Option<i64>,
    /// Not older than this, in whole seconds: earlier lines of the same second are included.
    pub since: Option<Timestamp>,
    /// Each line begins with the time at which it was written and a space.
    pub is_timed: bool,
}

/// Streams the container's lines until the log ends; while following, it does not end. Long lines are cut, and what is
/// not UTF-8 is replaced.
pub async fn lines(
    client: &Client,
    request: &LogRequest,
) -> Result<impl Stream<Item = Result<String>> + use<>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &request.namespace);
    let params = LogParams {
        container: request.container.clone(),
        follow: request.is_following,
        previous: request.is_previous,
        tail_lines: request.tail_lines,
        since_seconds: request.since_seconds,
        // kube rounds to the nearest second, which may be the next one.
        since_time: request.since.map(|since| since - SignedDuration::from_secs(1)),
        timestamps: request.is_timed,
        ..LogParams::default()
    };
    let log = Box::pin(pods.log_stream(&request.pod, &params).await?);
    Ok(stream::try_unfold(log, |mut log| async move {
        let line = next_line(&mut log).await;
        let line = line.map_err(|error| Error::from(kube::Error::ReadEvents(error)))?;
        Ok(line.map(|line| (line, log)))
    }))
}

/// Returns the next line without its line ending; `None` at the end of the log.
async fn next_line(log: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut is_begun = false;
    let mut is_cut = false;
    loop {
        let read = log.fill_buf().await?;
        if read.is_empty() {
            return Ok(is_begun.then(|| text_of(&line, is_cut)));
        }
        is_begun = true;
        let end = read.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(read.len());
        let kept = length.min(LINE_BYTES_MAX - line.len());
        is_cut |= kept < length;
        line.extend_from_slice(read.get(..kept).unwrap_or_default());
        log.consume_unpin(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(text_of(&line, is_cut)));
        }
    }
}

fn text_of(line: &[u8], is_cut: bool) -> String {
    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
    if is_cut { format!("{line}…") } else { line.into_owned() }
}

/// Returns the container's log as one text of at most `bytes_max` bytes.
pub async fn text(client: &Client, request: &LogRequest, bytes_max: u32) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &request.namespace);
    let params = LogParams {
        container: request.container.clone(),
        previous: request.is_previous,
        tail_lines: request.tail_lines,
        since_seconds: request.since_seconds,
        limit_bytes: Some(bytes_max.into()),
        ..LogParams::default()
    };
    Ok(pods.logs(&request.pod, &params).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_where_they_are_too_long_and_none_is_lost() {
        let endless = "x".repeat(3 * LINE_BYTES_MAX);
        let written = format!("one\r\n\n{endless}\n\u{e4}");
        // The last character is incomplete.
        let mut log = written.as_bytes().strip_suffix(b"\xa4").unwrap();
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut log).await.unwrap() {
            lines.push(line);
        }
        let cut = format!("{}…", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(lines, ["one", "", &cut, "\u{fffd}"]);
    }
}
