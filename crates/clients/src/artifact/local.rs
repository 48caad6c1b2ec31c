//! Jars that are files of the operator itself, if an administrator allows `file`.
//!
//! They are copied, so that the jar that was checked is the one that is submitted.

use bytes::Bytes;
use futures::stream;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::error::Error;
use super::request::Request;
use super::{Body, Opened};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 256 << 10;

pub(super) async fn open(request: &Request) -> Result<Opened, Error> {
    let path = request.url()?.to_file_path().map_err(|()| {
        Error::invalid(request, "a file is written as `file:///path`, without a host")
    })?;
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(request),
        std::io::ErrorKind::PermissionDenied => {
            Error::access_denied(request, "permission denied for the operator's user")
        }
        _ => Error::unreachable(request, &error.to_string()),
    };
    // Check before opening: opening a pipe would wait for a writer.
    let metadata = tokio::fs::metadata(&path).await.map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::invalid(request, "it is not a regular file"));
    }
    let file = File::open(&path).await.map_err(failed)?;
    let uri = request.shown_uri();
    let chunks = stream::try_unfold((file, uri), |(mut file, uri)| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        match file.read(&mut chunk).await {
            Ok(0) => Ok(None),
            Ok(read) => {
                chunk.truncate(read);
                Ok(Some((Bytes::from(chunk), (file, uri))))
            }
            Err(error) => Err(Error::Interrupted { uri, problem: error.to_string() }),
        }
    });
    Ok(Opened::Body(Body {
        stream: Box::pin(chunks),
        size_bytes: Some(metadata.len()),
        validator: None,
    }))
}
