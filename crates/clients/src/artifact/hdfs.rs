//! Jars in HDFS, with name nodes, name services and routers as described by the Hadoop client's files in
//! `HADOOP_CONF_DIR` and the options `flink.hadoop.*`.

use futures::stream;
use hdfs_native::{Client, ClientBuilder, HdfsError};

use super::error::Error;
use super::request::Request;
use super::source::Source;
use super::{Body, Opened};

/// Prefix of options that Flink passes to Hadoop.
const HADOOP_PREFIX: &str = "flink.hadoop.";
/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Exceptions that a name node returns while another one is active, or none is yet.
const PASSING: [&str; 3] = ["StandbyException", "RetriableException", "SafeModeException"];
/// Parts of the names of exceptions that mean a server rejects the user.
const REFUSALS: [&str; 4] = ["AccessControl", "Authorization", "Sasl", "InvalidToken"];
/// Defaults that the options of a job may replace. A name node with Kerberos silently closes a connection that does not
/// negotiate authentication; one without Kerberos replies that none is needed. Few failover attempts suffice because
/// the caller retries later: Hadoop's 15 take three minutes.
const DEFAULTS: [(&str, &str); 2] =
    [("hadoop.security.authentication", "kerberos"), ("dfs.client.failover.max.attempts", "4")];

pub(super) async fn open(request: &Request, validator: Option<&str>) -> Result<Opened, Error> {
    let client = client(request)?;
    let url = request.url()?;
    let path = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy().into_owned();
    let failed = |error: HdfsError| failure(request, &error);
    let status = client.get_file_info(&path).await.map_err(failed)?;
    if status.isdir {
        return Err(Error::invalid(request, "it is a directory"));
    }
    // HDFS has no entity tags; a rewritten file has another time or length.
    let current = format!("{}-{}", status.modification_time, status.length);
    if validator == Some(current.as_str()) {
        return Ok(Opened::NotModified);
    }
    let file = client.read(&path).await.map_err(failed)?;
    let request = request.clone();
    let chunks = stream::try_unfold((file, request), |(mut file, request)| async move {
        if file.remaining() == 0 {
            return Ok(None);
        }
        match file.read_bytes(CHUNK_BYTES).await {
            Ok(chunk) if chunk.is_empty() => Ok(None),
            Ok(chunk) => Ok(Some((chunk, (file, request)))),
            Err(error) => Err(Error::interrupted(&request, &error.to_string())),
        }
    });
    Ok(Opened::Body(Body {
        stream: Box::pin(chunks),
        size_bytes: u64::try_from(status.length).ok(),
        validator: Some(current),
    }))
}

/// Returns which name node would answer the request, and for which user.
pub(super) fn source(request: &Request) -> Source {
    // The user is always the operator's, unless an option of the job names another.
    let mut source = Source::of(true);
    for (key, value) in request.job.below(HADOOP_PREFIX) {
        source.add(key.to_owned(), value, false);
    }
    source
}

pub(super) fn client(request: &Request) -> Result<Client, Error> {
    let url = request.url()?;
    let hadoop = DEFAULTS.into_iter().chain(request.job.below(HADOOP_PREFIX));
    let hadoop = hadoop.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut builder = ClientBuilder::new().with_config(hadoop.collect::<Vec<_>>());
    // `hdfs:///path` means the default file system of `core-site.xml`.
    if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        builder = builder.with_url(format!("{}://{host}{port}", url.scheme()));
    }
    builder.build().map_err(|error| failure(request, &error))
}

pub(super) fn failure(request: &Request, error: &HdfsError) -> Error {
    let text = error.to_string();
    match error {
        HdfsError::FileNotFound(_) => Error::not_found(request),
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            let name = class.rsplit('.').next().unwrap_or(class);
            let problem = format!("{name}: {}", message.lines().next().unwrap_or_default());
            if PASSING.contains(&name) {
                Error::unreachable(request, &problem)
            } else if REFUSALS.iter().any(|refusal| name.contains(refusal)) {
                Error::access_denied(request, &problem)
            } else {
                Error::invalid(request, request.redact(&problem))
            }
        }
        HdfsError::GSSAPIError(_, _, message) => Error::access_denied(
            request,
            &format!(
                "its NameNode requires Kerberos, which issued no ticket: {}; run `kinit`, or set \
                 `KRB5_CLIENT_KTNAME` to a keytab or `HADOOP_TOKEN_FILE_LOCATION` to a file with a \
                 delegation token",
                message.trim_end().trim_end_matches(['(', ' ']),
            ),
        ),
        HdfsError::OperationFailed(_) if text.contains("libgssapi") => Error::access_denied(
            request,
            "its NameNode requires Kerberos, and `libgssapi_krb5.so.2` is not installed here (nor \
             in the operator's image): set `HADOOP_TOKEN_FILE_LOCATION` to a file with a \
             delegation token",
        ),
        HdfsError::NoSASLMechanism | HdfsError::SASLError(_) => {
            Error::access_denied(request, &text)
        }
        HdfsError::DataTransferError(_) => Error::unreachable(
            request,
            "its DataNodes do not return the content; if they require logins, set \
             `flink.hadoop.dfs.data.transfer.protection` as they have it",
        ),
        HdfsError::InvalidPath(_)
        | HdfsError::InvalidArgument(_)
        | HdfsError::UrlParseError(_)
        | HdfsError::IsADirectoryError(_)
        | HdfsError::UnsupportedErasureCodingPolicy(_)
        | HdfsError::UnsupportedFeature(_)
        | HdfsError::XmlParseError(_) => Error::invalid(request, request.redact(&text)),
        _ => Error::unreachable(request, &text),
    }
}

#[cfg(test)]
mod tests;
