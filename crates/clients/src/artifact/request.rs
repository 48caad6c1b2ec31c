//! The artifact to download, and the limits for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::error::Error;
use super::folder;
use super::uri::{self, Scheme};
use config::memory::MemorySize;
use config::option::InvalidValue;
use config::secret::is_secret;
use config::{FlinkConfig, options};
use validation::addresses::Restricted;

/// Maximum length of foreign text in a message, in characters.
const EXCERPT_CHARS: usize = 300;
/// Shorter texts are not redacted from messages, because they would match everywhere.
const SECRET_CHARS_MIN: usize = 4;

/// A jar to download.
#[derive(Clone, Debug)]
pub struct Request {
    /// The namespace of the session job. Nothing that is fetched for one namespace is used for another.
    pub namespace: String,
    /// `spec.job.jarURI`.
    pub uri: String,
    /// In lower case.
    pub allowed_schemes: Vec<String>,
    /// Addresses that hosts must not have; `None` if they may have any.
    pub restricted: Option<Restricted>,
    /// Sent only to the host of the URI, not after a redirect.
    pub headers: BTreeMap<String, String>,
    pub checksum: Option<Checksum>,
    pub limits: Limits,
    /// Folder of temporary files and the cache; created if missing.
    pub directory: PathBuf,
    /// File system options that administrators set; they may use the operator's own credentials.
    pub operator: FlinkConfig,
    /// The effective configuration of the job, which users write.
    pub job: FlinkConfig,
}

/// Limits of one download.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    pub size_max: MemorySize,
    /// From the beginning to the last byte.
    pub time_max: Duration,
    /// To connect over http, and between two parts of an answer.
    pub silence_max: Duration,
    /// Size of all cached jars; 0 disables the cache.
    pub cache_max: MemorySize,
}

/// The SHA-256 sum that a jar must have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checksum {
    /// 64 hexadecimal digits in lower case.
    pub sha256: String,
}

impl Checksum {
    /// Parses `sha256:<hex>`.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let digits = text.trim().strip_prefix("sha256:").map(str::to_lowercase);
        match digits {
            Some(sha256) if sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Ok(Self { sha256 })
            }
            _ => Err(InvalidValue::new(
                options::USER_ARTIFACTS_CHECKSUM.key(),
                text,
                "`sha256:` and 64 hexadecimal digits",
            )),
        }
    }
}

impl Request {
    /// Builds the request that options describe. `operator` is what administrators set for the namespace
    /// ([`config::OperatorConfig::defaults`]): it alone defines which schemes and addresses are allowed and how large a
    /// jar may be. `job` is the effective configuration of the session job, with its headers, checksum and storage
    /// options.
    ///
    /// # Errors
    /// If an option cannot be parsed.
    pub fn from_config(
        namespace: &str,
        uri: &str,
        operator: &FlinkConfig,
        job: &FlinkConfig,
    ) -> Result<Self, Error> {
        let schemes = operator.get(&options::USER_ARTIFACTS_ALLOWED_SCHEMES)?;
        let checksum = job.find(&options::USER_ARTIFACTS_CHECKSUM)?;
        Ok(Self {
            namespace: namespace.to_owned(),
            uri: uri.to_owned(),
            allowed_schemes: schemes.iter().map(|scheme| scheme.to_lowercase()).collect(),
            restricted: Restricted::of(operator)?,
            headers: job
                .find(&options::USER_ARTIFACTS_HTTP_HEADER)
                .map_err(InvalidValue::hidden)?
                .unwrap_or_default(),
            checksum: checksum.as_deref().map(Checksum::parse).transpose()?,
            limits: Limits {
                size_max: operator.get(&options::USER_ARTIFACTS_MAX_SIZE)?,
                time_max: operator.get(&options::USER_ARTIFACTS_HTTP_TOTAL_TIMEOUT)?,
                silence_max: operator.get(&options::USER_ARTIFACTS_HTTP_SOCKET_TIMEOUT)?,
                cache_max: operator.get(&options::USER_ARTIFACTS_CACHE_SIZE)?,
            },
            directory: folder::of(operator)?,
            operator: operator.clone(),
            job: job.clone(),
        })
    }

    /// Returns the scheme if the administrator allows it.
    pub(super) fn scheme(&self) -> Result<Scheme, Error> {
        let name = self.url()?.scheme().to_owned();
        let scheme = Scheme::named(&name).map_err(|problem| Error::invalid(self, problem))?;
        self.check_allowed(&name)?;
        Ok(scheme)
    }

    pub(super) fn check_allowed(&self, scheme: &str) -> Result<(), Error> {
        if self.allowed_schemes.iter().any(|allowed| allowed == scheme) {
            return Ok(());
        }
        Err(Error::SchemeNotAllowed { uri: self.shown_uri(), scheme: scheme.to_owned() })
    }

    pub(super) fn url(&self) -> Result<Url, Error> {
        Url::parse(&self.uri).map_err(|error| Error::invalid(self, format!("not a URI: {error}")))
    }

    /// Returns the URI without its secrets.
    pub(super) fn shown_uri(&self) -> String {
        uri::shown(&self.uri)
    }

    /// Shortens a foreign text for a message and removes what is secret here.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.replace(&self.uri, &self.shown_uri());
        for secret in self.secrets() {
            text = text.replace(secret, "***");
        }
        // Queries of other addresses may be signatures.
        let words = text.split_whitespace().map(|word| match word.find("://") {
            Some(_) => uri::shown(word),
            None => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ").chars().take(EXCERPT_CHARS).collect()
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        let of_config = self
            .operator
            .iter()
            .chain(self.job.iter())
            .filter(|(key, _)| is_secret(key))
            .map(|(_, value)| value);
        let of_headers = self.headers.values().map(String::as_str);
        of_config.chain(of_headers).filter(|text| text.len() >= SECRET_CHARS_MIN)
    }
}

#[cfg(test)]
mod tests;
