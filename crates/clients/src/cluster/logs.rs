//! Logs of one container, line by line.

use futures::{AsyncBufReadExt, Stream, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, LogParams};

use super::{Error, Result};

/// Which lines of which container.
#[derive(Clone, Debug, Default)]
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub container: Option<String>,
    /// Stay and wait for more.
    pub is_following: bool,
    /// Of the container's run before the present one.
    pub is_previous: bool,
    /// At most so many of the last lines.
    pub tail_lines: Option<i64>,
    /// Not older than so many seconds.
    pub since_seconds: Option<i64>,
}

/// The container's lines; the stream ends with the log, or never while following.
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
        ..LogParams::default()
    };
    let stream = pods.log_stream(&request.pod, &params).await?;
    Ok(stream.lines().map_err(|error| Error::from(kube::Error::ReadEvents(error))))
}

/// The container's log as one text, at most `bytes_max` of it.
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
