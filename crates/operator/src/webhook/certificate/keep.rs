//! Keeps a valid certificate in use: reads it again when it changes, and renews the operator's own.
//!
//! Replicas share theirs in a Secret. Each writes it only in the version that it read, and uses what is stored then, so
//! that if several renew it at the same time, one wins and all use its certificate. A new authority is trusted for a
//! while before anything that it signed is used, and a replica that has read an older one does not have it trusted
//! again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Fault, Pair, Sound, check, make};
use clients::cluster::webhooks::{self, CertificateSecret, SecretName};
use clients::cluster::{self, lease};

/// How often the certificate is checked.
const POLL: Duration = Duration::from_secs(30);
/// How soon it is checked again while there is none to use.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum duration of one check.
const CHECK_MAX: Duration = Duration::from_secs(30);
/// Maximum number of attempts to write the Secret, which others may write first.
const TRIES_MAX: usize = 5;
/// How long a new authority is trusted before what it signed replaces a certificate that is in use: each API server
/// must see it first.
const TRUST_SETTLES: SignedDuration = SignedDuration::from_mins(1);
/// A problem that stays is logged again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_hours(1);
/// The operator's own certificate is renewed after this part of its validity.
const RENEWED_AFTER: f64 = 2.0 / 3.0;
/// A certificate from elsewhere should have been renewed after this part of its validity.
const LATE_AFTER: f64 = 5.0 / 6.0;

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The operator creates it and keeps it in this Secret.
    Own {
        secret: SecretName,
        /// Name of the two configurations that must trust it; `None` if people take care of that.
        configuration: Option<String>,
    },
    /// Someone else puts `tls.crt`, `tls.key` and maybe `ca.crt` here, as in a mounted Secret.
    Folder(PathBuf),
}

/// Why there is no certificate to use, or no new one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{path}` cannot be read: {source}")]
    File { path: String, source: std::io::Error },
    #[error("the certificate in `{place}` cannot be used: {fault}")]
    Unsound { place: String, fault: Fault },
    #[error("no certificate can be created for {names}: {source}")]
    NotMade { names: String, source: rcgen::Error },
    #[error(
        "the Secret `{secret}` cannot be updated (`kubectl flink operator install` and the chart \
         grant the permission with `webhook.create`): {source}"
    )]
    Secret { secret: String, source: cluster::Error },
    #[error("others keep changing the Secret `{secret}`")]
    Beaten { secret: String },
    #[error(
        "the certificate authority cannot be written to the webhook configurations \
         `{configuration}`, so the API server does not trust the webhook: {source}"
    )]
    Trust { configuration: String, source: cluster::Error },
    #[error("it took longer than {CHECK_MAX:?}")]
    Late,
}

/// Keeps the certificate; ends with its task.
pub struct Keeper {
    client: Client,
    source: Source,
    names: Vec<String>,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
    in_use: Option<(Pair, Sound)>,
    /// The authority that the API server is known to trust, and since when.
    trusted: Option<(Vec<u8>, Timestamp)>,
    reported: Option<(String, Instant)>,
}

impl Keeper {
    /// Creates the keeper of a webhook that is called by all of `names`, and the configuration of new connections.
    pub fn new(
        client: Client,
        source: Source,
        names: Vec<String>,
    ) -> (Self, watch::Receiver<Option<Arc<ServerConfig>>>) {
        let (tls, receiver) = watch::channel(None);
        (Self { client, source, names, tls, in_use: None, trusted: None, reported: None }, receiver)
    }

    /// Maintains it for ever.
    pub async fn keep(mut self) {
        loop {
            let looked = tokio::time::timeout(CHECK_MAX, self.inspect(Timestamp::now())).await;
            match looked.unwrap_or(Err(Error::Late)) {
                Ok(()) => self.report_if_late(Timestamp::now()),
                Err(error) => self.report(&error.to_string()),
            }
            tokio::time::sleep(if self.in_use.is_some() { POLL } else { RETRY }).await;
        }
    }

    /// Checks it once.
    ///
    /// # Errors
    /// Describes the problem. The certificate that was in use stays in use.
    pub async fn inspect(&mut self, now: Timestamp) -> Result<(), Error> {
        match self.source.clone() {
            Source::Folder(folder) => {
                let pair = read(&folder).await?;
                self.put_in_use(pair, &folder.display().to_string(), now)
            }
            Source::Own { secret, configuration } => {
                let pair = self.own(&secret, now).await?;
                let Some(configuration) = configuration else {
                    return self.put_in_use(pair, &secret.to_string(), now);
                };
                let authority = &pair.authority;
                let trusted = webhooks::trust(&self.client, &configuration, &secret, authority);
                let is_trusted = trusted.await;
                if matches!(is_trusted, Ok(true)) {
                    let known = self.trusted.take().filter(|(known, _)| known == authority);
                    self.trusted = Some(known.unwrap_or_else(|| (authority.clone(), now)));
                }
                if self.may_use(&pair, now) {
                    self.put_in_use(pair, &secret.to_string(), now)?;
                }
                is_trusted.map(drop).map_err(|source| Error::Trust { configuration, source })
            }
        }
    }

    /// Returns `true` if callers trust this certificate, or if they can no longer accept the former one. Until then the
    /// former one stays in use.
    fn may_use(&self, pair: &Pair, now: Timestamp) -> bool {
        let Some((_, former)) = &self.in_use else { return true };
        let is_settled = self.trusted.as_ref().is_some_and(|(authority, since)| {
            *authority == pair.authority && now.duration_since(*since) >= TRUST_SETTLES
        });
        is_settled || now >= former.ends
    }

    /// Returns the stored certificate, which is created or renewed if necessary.
    async fn own(&self, secret: &SecretName, now: Timestamp) -> Result<Pair, Error> {
        let failed = |source| Error::Secret { secret: secret.to_string(), source };
        for _ in 0..TRIES_MAX {
            let stored = webhooks::read(&self.client, secret).await.map_err(failed)?;
            let pair = pair_of(stored.as_ref());
            let Some(why) = renewal(&pair, &self.names, now) else { return Ok(pair) };
            tracing::info!(secret = %secret, why, "creating a certificate for the webhook");
            let made = make(&self.names, now, &pair)
                .map_err(|source| Error::NotMade { names: self.names.join(", "), source })?;
            let data = [
                (CertificateSecret::CERTIFICATE, made.certificate),
                (CertificateSecret::KEY, made.key),
                (CertificateSecret::AUTHORITY, made.authority),
            ];
            match webhooks::write(&self.client, secret, stored, data).await {
                // The stored certificate is read again, because another replica may have written
                // it.
                Ok(()) => {}
                Err(error) if lease::is_beaten(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Error::Beaten { secret: secret.to_string() })
    }

    fn put_in_use(&mut self, pair: Pair, place: &str, now: Timestamp) -> Result<(), Error> {
        if self.in_use.as_ref().is_some_and(|(used, sound)| *used == pair && now < sound.ends) {
            return Ok(());
        }
        let sound = check(&pair, &self.names, now)
            .map_err(|fault| Error::Unsound { place: place.to_owned(), fault })?;
        tracing::info!(place, until = %sound.ends, "the webhook uses this certificate");
        self.tls.send_replace(Some(Arc::clone(&sound.config)));
        self.in_use = Some((pair, sound));
        Ok(())
    }

    /// Reports a certificate from elsewhere that is late: only its issuer renews it.
    fn report_if_late(&mut self, now: Timestamp) {
        match (&self.source, &self.in_use) {
            (Source::Folder(folder), Some((_, sound))) if now > sound.after(LATE_AFTER) => {
                let (place, ends) = (folder.display(), sound.ends);
                self.report(&format!(
                    "the certificate in `{place}` expires at {ends}, and has not been renewed yet"
                ));
            }
            (Source::Folder(_) | Source::Own { .. }, _) => self.reported = None,
        }
    }

    fn report(&mut self, problem: &str) {
        let is_known = self
            .reported
            .as_ref()
            .is_some_and(|(reported, at)| reported == problem && at.elapsed() < REPEAT_INTERVAL);
        if !is_known {
            tracing::error!(problem, "the webhook's certificate needs attention");
            self.reported = Some((problem.to_owned(), Instant::now()));
        }
    }
}

/// Returns why the operator's own certificate must be replaced.
fn renewal(pair: &Pair, names: &[String], now: Timestamp) -> Option<String> {
    if pair.certificate.is_empty() {
        return Some("there is none yet".to_owned());
    }
    if pair.authority.is_empty() {
        return Some("the existing one has no authority that clients could trust".to_owned());
    }
    match check(pair, names, now) {
        Err(fault) => Some(format!("the existing one cannot be used: {fault}")),
        Ok(sound) if now >= sound.after(RENEWED_AFTER) => {
            Some(format!("the existing one expires at {}", sound.ends))
        }
        Ok(_) => None,
    }
}

fn pair_of(stored: Option<&CertificateSecret>) -> Pair {
    let get = |name| stored.map(|kept| kept.get(name)).unwrap_or_default();
    Pair {
        certificate: get(CertificateSecret::CERTIFICATE),
        key: get(CertificateSecret::KEY),
        authority: get(CertificateSecret::AUTHORITY),
    }
}

async fn read(folder: &Path) -> Result<Pair, Error> {
    let get = async |name: &str| {
        let path = folder.join(name);
        let read = tokio::fs::read(&path).await;
        read.map_err(|source| (path, source))
    };
    let file = |(path, source): (PathBuf, std::io::Error)| Error::File {
        path: path.display().to_string(),
        source,
    };
    let authority = match get(CertificateSecret::AUTHORITY).await {
        Ok(authority) => authority,
        // Not every issuer provides the authority.
        Err((_, source)) if source.kind() == std::io::ErrorKind::NotFound => vec![],
        Err(failed) => return Err(file(failed)),
    };
    Ok(Pair {
        certificate: get(CertificateSecret::CERTIFICATE).await.map_err(file)?,
        key: get(CertificateSecret::KEY).await.map_err(file)?,
        authority,
    })
}

#[cfg(test)]
mod tests;
