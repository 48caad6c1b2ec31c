//! Who answers a request for a jar, and with whose credentials.
//!
//! A jar's URI does not say that: a job may choose the store's endpoint. Whatever is kept of an answer is found only by
//! requests of the same namespace and source, so that no one is given what another one may read, and no one decides
//! what another one runs.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::Error;
use super::request::Request;
use super::sink::hex;
use super::uri::Scheme;
use super::{hdfs, http, object};
use config::secret::is_secret;

/// What decides, besides its URI, about the answer to a request.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    /// Whether the credentials are the operator's.
    is_operators: bool,
    options: Vec<(String, Option<String>)>,
}

impl Source {
    pub(super) fn of(is_operators: bool) -> Self {
        Self { is_operators, options: Vec::new() }
    }

    /// Adds an option. A secret is not part of it, because secrets rotate, except one that is the name of an account.
    pub(super) fn add(&mut self, key: String, value: &str, is_account: bool) {
        let value = (is_account || !is_secret(&key)).then(|| value.to_owned());
        self.options.push((key, value));
    }
}

/// Returns the name of what is kept of the answer to a request: a digest of its namespace, its URI and its source.
pub(super) fn key(scheme: Scheme, request: &Request) -> Result<String, Error> {
    let source = match scheme {
        Scheme::Http => http::source(request),
        Scheme::File => Source::of(true),
        Scheme::S3 | Scheme::Gcs | Scheme::Azure => object::source(scheme, request)?,
        Scheme::Hdfs => hdfs::source(request),
    };
    let parts = serde_json::to_vec(&(&request.namespace, &request.uri, source));
    let parts = parts.map_err(|error| Error::invalid(request, error.to_string()))?;
    Ok(hex(&Sha256::digest(parts)))
}
