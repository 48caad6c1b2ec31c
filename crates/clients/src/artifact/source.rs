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
    /// Of a secret only its key.
    options: Vec<(String, Option<String>)>,
    #[serde(skip)]
    secrets: Vec<String>,
}

impl Source {
    pub(super) fn of(is_operators: bool) -> Self {
        Self { is_operators, options: Vec::new(), secrets: Vec::new() }
    }

    /// Adds an option. An account may have a key that is otherwise treated as a secret.
    pub(super) fn add(&mut self, key: String, value: &str, is_account: bool) {
        if is_account || !is_secret(&key) {
            self.options.push((key, Some(value.to_owned())));
        } else {
            self.options.push((key, None));
            self.secrets.push(value.to_owned());
        }
    }
}

/// The names of what is kept for a request.
pub(super) struct Keys {
    /// Of the copy on disk, which is used after its source has confirmed it. Secrets rotate, so they are not part of it.
    pub(super) cached: String,
    /// Of a download that requests share without asking again: they have the same secrets, and expect the same jar.
    pub(super) shared: String,
}

impl Keys {
    pub(super) fn of(scheme: Scheme, request: &Request) -> Result<Self, Error> {
        let source = match scheme {
            Scheme::Http => http::source(request),
            Scheme::File => Source::of(true),
            Scheme::S3 | Scheme::Gcs | Scheme::Azure => object::source(scheme, request)?,
            Scheme::Hdfs => hdfs::source(request),
        };
        let cached = digest(&(&request.namespace, &request.uri, &source), request)?;
        let expected = request.checksum.as_ref().map(|sum| &sum.sha256);
        let size_max = request.limits.size_max.bytes();
        let shared = digest(&(&cached, &source.secrets, expected, size_max), request)?;
        Ok(Self { cached, shared })
    }
}

fn digest(parts: &impl Serialize, request: &Request) -> Result<String, Error> {
    let parts = serde_json::to_vec(parts);
    let parts = parts.map_err(|error| Error::invalid(request, error.to_string()))?;
    Ok(hex(&Sha256::digest(parts)))
}
