//! Downloads of job jars: from http(s), S3, GCS, Azure, HDFS or a file of the operator.
//!
//! [`fetch`] streams a jar into a temporary file that is removed with its [`Fetched`]. Everything is limited: size,
//! time, redirects, disk. The administrator decides what a user may make the operator reach (schemes, private
//! addresses), and the operator's own credentials are sent only where the operator's own configuration points. An
//! [`Error`] never contains a credential.
//!
//! ```text
//! Request::from_config(namespace, uri, operator: &FlinkConfig, job: &FlinkConfig) -> Result<Request, Error>
//!     operator: what administrators set for the namespace, `OperatorConfig::defaults(..)`
//!     job:      the effective configuration of the session job
//! fetch(&Request) -> Result<Fetched, Error>
//! Fetched::path() -> &Path, .file_name, .size_bytes, .sha256      the file is removed on drop
//! Error::is_transient(), Error::reason()
//! ```

mod cache;
mod error;
mod guard;
mod hdfs;
mod http;
mod local;
mod object;
mod request;
mod sink;
mod source;
pub mod storage;
mod uri;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;

pub use error::Error;
pub use request::{Checksum, Limits, Request};
pub use sink::Fetched;

use self::cache::Cache;
use self::sink::Sink;
use self::uri::Scheme;

/// The response of a source to a request for a jar.
enum Opened {
    /// The cached copy with the given validator is still current.
    NotModified,
    Body(Body),
}

/// A jar being downloaded.
struct Body {
    stream: BoxStream<'static, Result<Bytes, Error>>,
    /// If the source reports it.
    size_bytes: Option<u64>,
    /// Identifies this version of the jar, such as an `ETag`; a later request sends it.
    validator: Option<String>,
}

/// Downloads the jar into a temporary file.
///
/// # Errors
/// See [`Error`]; anything already written is removed.
pub async fn fetch(request: &Request) -> Result<Fetched, Error> {
    let scheme = request.scheme()?;
    let within = request.limits.time_max;
    match tokio::time::timeout(within, fetch_from(scheme, request)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(Error::TimedOut { uri: request.shown_uri(), within }),
    }
}

async fn fetch_from(scheme: Scheme, request: &Request) -> Result<Fetched, Error> {
    let cache = Cache::of(scheme, request)?;
    let cached = match &cache {
        Some(cache) => cache.find(request).await,
        None => None,
    };
    let validator = cached.as_ref().map(|copy| copy.validator.as_str());
    let body = match open(scheme, request, validator).await? {
        Opened::NotModified => match cached {
            Some(copy) => return Ok(copy.fetched),
            None => return Err(Error::interrupted(request, "there was nothing to compare with")),
        },
        Opened::Body(body) => body,
    };
    drop(cached);
    let validator = body.validator.clone();
    let fetched = save(body, request).await?;
    if let (Some(cache), Some(validator)) = (&cache, validator) {
        cache.keep(&fetched, &validator).await;
    }
    Ok(fetched)
}

async fn open(scheme: Scheme, request: &Request, validator: Option<&str>) -> Result<Opened, Error> {
    match scheme {
        Scheme::Http => http::open(request, validator).await,
        Scheme::File => local::open(request).await,
        Scheme::S3 | Scheme::Gcs | Scheme::Azure => object::open(scheme, request, validator).await,
        Scheme::Hdfs => hdfs::open(request, validator).await,
    }
}

async fn save(mut body: Body, request: &Request) -> Result<Fetched, Error> {
    let limit = request.limits.size_max;
    if body.size_bytes.is_some_and(|size| size > limit.bytes()) {
        return Err(Error::TooLarge { uri: request.shown_uri(), limit });
    }
    let mut sink = Sink::create(request).await?;
    while let Some(chunk) = body.stream.next().await {
        sink.write(&chunk?).await?;
    }
    sink.finish(body.size_bytes).await
}
