//! Jars in object stores: S3, Google Cloud Storage, Azure.

mod azure;
mod connector;
mod gcs;
mod s3;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, GetOptions, ObjectStore, RetryConfig};
use url::Url;

use super::error::{Error, innermost};
use super::request::Request;
use super::source::Source;
use super::uri::Scheme;
use super::{Body, Opened};

/// Number of retries of a request; the operator itself retries later.
const RETRIES_MAX: usize = 2;
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn open(
    scheme: Scheme,
    request: &Request,
    validator: Option<&str>,
) -> Result<Opened, Error> {
    let (store, path) = connect(scheme, request)?;
    let options = GetOptions { if_none_match: validator.map(str::to_owned), ..Default::default() };
    let found = match store.get_opts(&path, options).await {
        Ok(found) => found,
        Err(object_store::Error::NotModified { .. }) => return Ok(Opened::NotModified),
        Err(error) => return Err(failure(request, &error)),
    };
    let (size_bytes, validator) = (Some(found.meta.size), found.meta.e_tag.clone());
    let request = request.clone();
    let stream =
        found.into_stream().map_err(move |error| Error::interrupted(&request, &innermost(&error)));
    Ok(Opened::Body(Body { stream: stream.boxed(), size_bytes, validator }))
}

/// Returns which store would answer the request, and with whose credentials.
pub(super) fn source(scheme: Scheme, request: &Request) -> Result<Source, Error> {
    match scheme {
        Scheme::Gcs => gcs::source(request),
        Scheme::Azure => azure::source(&request.url()?, request),
        Scheme::S3 | Scheme::Http | Scheme::File | Scheme::Hdfs => s3::source(request),
    }
}

/// A store that can list page by page.
pub(super) trait Objects: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Objects for T {}

/// Returns the store of the request's URI, and the path in it.
pub(super) fn connect(
    scheme: Scheme,
    request: &Request,
) -> Result<(Arc<dyn Objects>, Path), Error> {
    let url = request.url()?;
    let path = Path::from_url_path(url.path())
        .map_err(|error| Error::invalid(request, innermost(&error)))?;
    let store: Arc<dyn Objects> = match scheme {
        Scheme::Gcs => gcs::store(&url, request)?,
        Scheme::Azure => azure::store(&url, request)?,
        Scheme::S3 | Scheme::Http | Scheme::File | Scheme::Hdfs => s3::store(&url, request)?,
    };
    Ok((store, path))
}

/// Converts an object store's error. Its text may contain what was signed, so little of it is shown.
pub(super) fn failure(request: &Request, error: &object_store::Error) -> Error {
    if let Some(own) = own_error(error) {
        return own;
    }
    match error {
        object_store::Error::NotFound { .. } => Error::not_found(request),
        object_store::Error::PermissionDenied { .. } => {
            Error::access_denied(request, "the credentials do not allow it")
        }
        object_store::Error::Unauthenticated { .. } => {
            Error::access_denied(request, "the store rejects the credentials")
        }
        object_store::Error::InvalidPath { .. }
        | object_store::Error::NotSupported { .. }
        | object_store::Error::UnknownConfigurationKey { .. } => {
            Error::invalid(request, request.redact(&innermost(error)))
        }
        other => Error::unreachable(request, &innermost(other)),
    }
}

/// Returns the error of this program, such as that of an address, that a store's client passes on.
fn own_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.into_iter().find_map(|error| error.downcast_ref::<Error>()).cloned()
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_TIMEOUT }
}

/// Returns the limits of connections; the request limits the time of the whole transfer.
fn client_options(request: &Request, is_http_allowed: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(is_http_allowed)
        .with_connect_timeout(request.limits.silence_max)
        .with_read_timeout(request.limits.silence_max)
        .with_timeout_disabled()
}

/// Parses an endpoint as a URL; without a scheme, `is_tls` decides between `https` and `http`.
fn endpoint_url(request: &Request, text: &str, is_tls: bool) -> Result<Url, Error> {
    let text = text.trim();
    let url = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("{}://{text}", if is_tls { "https" } else { "http" }))
    };
    url.ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| Error::invalid(request, format!("`{text}` is not the address of a store")))
}

#[cfg(test)]
mod tests;
