//! Connections over TLS: the authorities to trust, and the identity of this process.
//!
//! A mounted Secret is replaced as a whole when its certificate is renewed, so its folder is checked regularly.
//! Unusable files never replace usable ones.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use reqwest::{Certificate, Identity};
use tokio::time::Instant;

use super::Options;
use super::direct::{innermost, install_tls_provider, pool};
use crate::flink::error::Error;

/// How often the folder is checked while connections are made.
const POLL: Duration = Duration::from_secs(30);
/// Maximum size of a file in bytes: an authority's bundle has some hundred kilobytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Creates the client on first use: reading the system's certificates takes a while.
pub(super) struct Secure {
    headers: HeaderMap,
    authorities: Vec<Certificate>,
    folder: Option<PathBuf>,
    ignores_host_name: bool,
    kept: Mutex<Option<Cached>>,
}

struct Cached {
    looked: Instant,
    /// The most recently read files. A message about them is logged once.
    files: Option<Files>,
    client: Result<reqwest::Client, String>,
}

/// The files of the folder, in PEM. A file that does not exist is empty.
#[derive(Clone, Default, Eq, PartialEq)]
struct Files {
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Secure {
    /// Returns whether a certificate has to name the host.
    pub(super) fn checks_host_name(&self) -> bool {
        !self.ignores_host_name
    }

    /// Creates connections that send `headers` and trust the authorities of `options` besides the system's.
    ///
    /// # Errors
    /// If these are unusable now, or if there are none although host names are not checked.
    pub(super) fn of(options: &Options, headers: HeaderMap) -> Result<Self, Error> {
        install_tls_provider();
        let Options { certificate_authorities, tls_folder, ignores_host_name, .. } = options;
        let invalid = |problem| Error::Invalid { problem };
        let authorities = match certificate_authorities {
            None => Vec::new(),
            Some(file) => {
                let of = |error: String| {
                    invalid(format!("certificates in `{}`: {error}", file.display()))
                };
                let text = std::fs::read(file).map_err(|error| of(error.to_string()))?;
                Certificate::from_pem_bundle(&text).map_err(|error| of(innermost(&error)))?
            }
        };
        let in_folder = match tls_folder {
            None => Vec::new(),
            Some(folder) => Files::read(folder).and_then(|files| files.parse()).map_err(invalid)?.0,
        };
        if *ignores_host_name && authorities.is_empty() && in_folder.is_empty() {
            let problem = "FLINK_REST_CHECK_HOST_NAME is false, but no authority is set, so any \
                           certificate of the system's authorities would be accepted. Set Flink's \
                           authority with FLINK_REST_CA_FILE, or with `ca.crt` in \
                           FLINK_REST_TLS_DIR";
            return Err(invalid(problem.to_owned()));
        }
        let (folder, ignores_host_name) = (tls_folder.clone(), *ignores_host_name);
        Ok(Self { headers, authorities, folder, ignores_host_name, kept: Mutex::default() })
    }

    /// Returns a client with the contents of the folder when it was last checked.
    pub(super) fn client(&self) -> Result<reqwest::Client, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let former = kept.take();
        let next = match former {
            Some(former) if self.folder.is_none() || former.looked.elapsed() < POLL => former,
            former => self.inspect(former),
        };
        let client = next.client.clone();
        *kept = Some(next);
        client
    }

    fn inspect(&self, former: Option<Cached>) -> Cached {
        let looked = Instant::now();
        let files = self.folder.as_deref().map(Files::read).transpose();
        let former = match (former, &files) {
            (Some(former), Ok(files)) if former.files == *files => {
                return Cached { looked, ..former };
            }
            (former, _) => former,
        };
        let made = files.clone().and_then(|files| self.make(&files.unwrap_or_default()));
        match (made, former) {
            (Err(problem), Some(former)) if former.client.is_ok() => {
                tracing::error!(
                    problem,
                    "cannot use the changed TLS files: TLS to Flink keeps the previous ones"
                );
                Cached { looked, files: files.ok().flatten(), ..former }
            }
            (made, former) => {
                if former.is_some() && made.is_ok() {
                    tracing::info!("TLS to Flink uses the new certificates");
                }
                Cached { looked, files: files.ok().flatten(), client: made }
            }
        }
    }

    fn make(&self, files: &Files) -> Result<reqwest::Client, String> {
        let (more, identity) = files.parse()?;
        let authorities = self.authorities.iter().cloned().chain(more);
        pool(&self.headers, |builder| {
            let builder = if self.ignores_host_name {
                builder.tls_certs_only(authorities).tls_danger_accept_invalid_hostnames(true)
            } else {
                builder.tls_certs_merge(authorities)
            };
            match identity {
                Some(identity) => builder.identity(identity),
                None => builder,
            }
        })
    }
}

impl Files {
    fn read(folder: &Path) -> Result<Self, String> {
        let get = |name: &str| {
            let path = folder.join(name);
            let described =
                |error: io::Error| format!("`{}` cannot be read: {error}", path.display());
            match std::fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                Err(error) => Err(described(error)),
                Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                    Err(format!("`{}` has more than {FILE_BYTES_MAX} bytes", path.display()))
                }
                Ok(_) => std::fs::read(&path).map_err(described),
            }
        };
        let files =
            Self { authority: get("ca.crt")?, certificate: get("tls.crt")?, key: get("tls.key")? };
        if files == Self::default() {
            let folder = folder.display();
            return Err(format!("`{folder}` contains none of `ca.crt`, `tls.crt` and `tls.key`"));
        }
        Ok(files)
    }

    /// Returns the authorities to trust and the identity of this process.
    fn parse(&self) -> Result<(Vec<Certificate>, Option<Identity>), String> {
        let Self { authority, certificate, key } = self;
        let authorities = Certificate::from_pem_bundle(authority)
            .map_err(|error| format!("`ca.crt`: {}", innermost(&error)))?;
        let identity =
            match (certificate.is_empty(), key.is_empty()) {
                (true, true) => None,
                (false, false) => {
                    let pem = [key.as_slice(), b"\n", certificate.as_slice()].concat();
                    let identity = Identity::from_pem(&pem);
                    Some(identity.map_err(|error| {
                        format!("`tls.crt` with `tls.key`: {}", innermost(&error))
                    })?)
                }
                (true, false) => return Err("there is `tls.key` without `tls.crt`".to_owned()),
                (false, true) => return Err("there is `tls.crt` without `tls.key`".to_owned()),
            };
        Ok((authorities, identity))
    }
}

#[cfg(test)]
mod tests;
