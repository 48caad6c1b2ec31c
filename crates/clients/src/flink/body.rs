//! Bodies of requests: in memory, with a file that is read while it is sent, or passed on from elsewhere.

use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of a file that are read at a time.
const CHUNK_BYTES: usize = 128 << 10;

/// A file of which every byte is known in advance.
#[derive(Clone, Debug)]
pub struct KnownFile {
    pub path: PathBuf,
    pub size_bytes: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

/// A part of a body.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Bytes(Bytes),
    File(KnownFile),
}

/// A body that somebody else sends.
pub type Stream = UnsyncBoxBody<Bytes, io::Error>;

/// Returns a body that is passed on.
pub fn streamed<B>(body: B) -> Stream
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    body.map_err(io::Error::other).boxed_unsync()
}

/// A stream, which can be sent once.
#[derive(Clone)]
pub(super) struct Once(Arc<Mutex<Option<Stream>>>);

impl Once {
    pub(super) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(Some(stream))))
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Once")
    }
}

/// The body of one request.
#[derive(Default)]
pub(super) struct Body {
    parts: VecDeque<Reading>,
    left: u64,
    /// Instead of parts. In a mutex because a request must be `Sync`.
    stream: Option<Mutex<Stream>>,
}

enum Reading {
    Bytes(Bytes),
    File(Box<ReadFile>),
}

struct ReadFile {
    file: File,
    left: u64,
    sum: Sha256,
    expected: String,
    chunk: Vec<u8>,
}

impl Body {
    /// Takes the stream. `None` if it was taken before.
    pub(super) fn stream(of: &Once) -> Option<Self> {
        let stream = of.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Self { stream: Some(Mutex::new(stream)), ..Self::default() })
    }

    fn of_stream<T>(&self, get: impl FnOnce(&Stream) -> T) -> Option<T> {
        let stream = self.stream.as_ref()?;
        Some(get(&stream.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Opens the files of the parts.
    pub(super) fn open(parts: &[Part]) -> io::Result<Self> {
        let mut body = Self::default();
        for part in parts {
            match part {
                Part::Bytes(bytes) => {
                    body.left += bytes.len() as u64;
                    body.parts.push_back(Reading::Bytes(bytes.clone()));
                }
                Part::File(KnownFile { path, size_bytes, sha256 }) => {
                    body.left += size_bytes;
                    body.parts.push_back(Reading::File(Box::new(ReadFile {
                        file: File::from_std(std::fs::File::open(path)?),
                        left: *size_bytes,
                        sum: Sha256::new(),
                        expected: sha256.clone(),
                        chunk: vec![0; CHUNK_BYTES],
                    })));
                }
            }
        }
        Ok(body)
    }
}

impl ReadFile {
    /// Reads on; `None` at the end of a file that is as it should be.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let changed = |what: &str| Poll::Ready(Some(Err(io::Error::other(what))));
        if self.left == 0 {
            // The last bytes of the body are not sent, so that the receiver does not take what it has for complete.
            let sum = Bytes::copy_from_slice(&std::mem::take(&mut self.sum).finalize());
            if format!("{sum:x}") == self.expected {
                return Poll::Ready(None);
            }
            return changed("the file has changed on the disk since it was checked");
        }
        let length = self.chunk.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut buffer = ReadBuf::new(self.chunk.get_mut(..length).unwrap_or_default());
        if let Err(error) = ready!(Pin::new(&mut self.file).poll_read(context, &mut buffer)) {
            return Poll::Ready(Some(Err(error)));
        }
        if buffer.filled().is_empty() {
            return changed("the file has become shorter since it was checked");
        }
        self.sum.update(buffer.filled());
        self.left -= buffer.filled().len() as u64;
        Poll::Ready(Some(Ok(Bytes::copy_from_slice(buffer.filled()))))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        if let Some(stream) = &mut body.stream {
            let stream = stream.get_mut().unwrap_or_else(PoisonError::into_inner);
            return Pin::new(stream).poll_frame(context);
        }
        while let Some(part) = body.parts.front_mut() {
            let read = match part {
                Reading::Bytes(bytes) if bytes.is_empty() => None,
                Reading::Bytes(bytes) => Some(Ok(std::mem::take(bytes))),
                Reading::File(file) => ready!(file.poll(context)),
            };
            match read {
                Some(Ok(bytes)) => {
                    body.left = body.left.saturating_sub(bytes.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Err(error)) => {
                    body.parts.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                None => drop(body.parts.pop_front()),
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.of_stream(hyper::body::Body::is_end_stream).unwrap_or(self.left == 0)
    }

    fn size_hint(&self) -> SizeHint {
        self.of_stream(hyper::body::Body::size_hint)
            .unwrap_or_else(|| SizeHint::with_exact(self.left))
    }
}
