//! Downloads of job jars: from http(s), S3, GCS, Azure, HDFS or a file of the operator.
//!
//! [`Jars::fetch`] streams a jar into a temporary file that is removed with its last [`Fetched`]. Everything is
//! limited: size, time, redirects, disk, transfers at a time. The administrator decides what a user may make the
//! operator reach (schemes, private addresses), and the operator's own credentials are sent only where the operator's
//! own configuration points. An [`Error`] never contains a credential.
//!
//! ```text
//! Request::from_config(namespace, uri, operator: &FlinkConfig, job: &FlinkConfig) -> Result<Request, Error>
//!     operator: what administrators set for the namespace, `OperatorConfig::defaults(..)`
//!     job:      the effective configuration of the session job
//! Jars::default().fetch(&Request) -> Result<Fetched, Error>
//! Fetched::path() -> &Path, .file_name, .size_bytes, .sha256      the file is removed with the last one
//! Error::is_transient(), Error::reason()
//! ```

mod cache;
mod error;
mod folder;
mod guard;
mod hdfs;
mod http;
mod jars;
mod limits;
mod local;
mod object;
mod request;
mod sink;
mod source;
pub mod storage;
mod uri;

use bytes::Bytes;
use futures::stream::BoxStream;

pub use error::Error;
pub use jars::Jars;
pub use request::{Checksum, Limits, Request};
pub use sink::Fetched;

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

async fn open(scheme: Scheme, request: &Request, validator: Option<&str>) -> Result<Opened, Error> {
    match scheme {
        Scheme::Http => http::open(request, validator).await,
        Scheme::File => local::open(request).await,
        Scheme::S3 | Scheme::Gcs | Scheme::Azure => object::open(scheme, request, validator).await,
        Scheme::Hdfs => hdfs::open(request, validator).await,
    }
}
