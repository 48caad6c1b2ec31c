//! The certificate by which the API server knows the webhook, its key, and the authority to trust for it.
//!
//! Every certificate is checked as the API server will check it, before it is used: that it is valid now, for the name
//! that is called, signed by the given authority, and with this key. One that the operator creates has its own
//! authority, whose key is forgotten at once, so that it can never sign another certificate.

pub mod keep;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore, ServerConfig};

/// Number of days that a certificate is valid if the operator creates it.
const LIFE_DAYS: i32 = 365;
/// The end of one certificate in PEM.
const END: &str = "-----END CERTIFICATE-----\n";

/// A certificate with its key and the authority to trust for it, in PEM.
#[derive(Clone, Eq, PartialEq)]
pub struct Pair {
    /// The certificate, and those between it and the authority.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// Empty if it is not known.
    pub authority: Vec<u8>,
}

impl fmt::Debug for Pair {
    /// Leaves out the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate.len()).finish_non_exhaustive()
    }
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("there is no {what} in PEM in `{place}`")]
    Absent { place: &'static str, what: &'static str },
    #[error("it expired at {ends}")]
    Ended { ends: Timestamp },
    #[error("it is not valid before {begins}")]
    NotYet { begins: Timestamp },
    #[error("it is not for `{name}`, the name that the API server calls")]
    OtherName { name: String },
    #[error("its key, `tls.key`, belongs to another certificate")]
    OtherKey,
    #[error("it is not signed by the authority in `ca.crt`")]
    OtherAuthority,
    #[error("{0}")]
    Unusable(rustls::Error),
}

/// A certificate that can be used now.
#[derive(Clone, Debug)]
pub struct Sound {
    pub config: Arc<ServerConfig>,
    pub begins: Timestamp,
    pub ends: Timestamp,
}

impl Sound {
    /// Returns when this part of its validity is over.
    fn after(&self, part: f64) -> Timestamp {
        let life = Duration::try_from(self.ends.duration_since(self.begins)).unwrap_or_default();
        self.begins.checked_add(life.mul_f64(part)).unwrap_or(self.ends)
    }
}

/// Returns the certificate if it can be used for all `names` now.
///
/// # Errors
/// The fault that the API server would find.
pub fn check(pair: &Pair, names: &[String], now: Timestamp) -> Result<Sound, Fault> {
    let chain = certificates(&pair.certificate);
    let Some((own, between)) = chain.split_first() else {
        return Err(Fault::Absent { place: "tls.crt", what: "certificate" });
    };
    let key = PrivateKeyDer::from_pem_slice(&pair.key)
        .map_err(|_| Fault::Absent { place: "tls.key", what: "private key" })?;
    let parsed = ParsedCertificate::try_from(own).map_err(Fault::Unusable)?;
    let (begins, ends) = (beginning(&parsed), end(&parsed).map_err(Fault::Unusable)?);
    if now > ends {
        return Err(Fault::Ended { ends });
    }
    if now < begins {
        return Err(Fault::NotYet { begins });
    }
    for name in names {
        let is_named = ServerName::try_from(name.as_str())
            .is_ok_and(|server| verify_server_name(&parsed, &server).is_ok());
        if !is_named {
            return Err(Fault::OtherName { name: name.clone() });
        }
    }
    let mut roots = RootCertStore::empty();
    let authorities = certificates(&pair.authority);
    let _counts = roots.add_parsable_certificates(authorities);
    if !pair.authority.is_empty() {
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let verified = verify(&parsed, &roots, between, Duration::from_secs(seconds));
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => Fault::OtherAuthority,
            other => Fault::Unusable(other),
        })?;
    }
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(Fault::Unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Fault::OtherKey,
            other => Fault::Unusable(other),
        })?;
    Ok(Sound { config: Arc::new(config), begins, ends })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns all certificates of a text; what cannot be read is left out.
fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn verify(
    certificate: &ParsedCertificate<'_>,
    roots: &RootCertStore,
    between: &[CertificateDer<'_>],
    at: Duration,
) -> Result<(), rustls::Error> {
    let algorithms = provider().signature_verification_algorithms.all;
    let at = UnixTime::since_unix_epoch(at);
    verify_server_cert_signed_by_trust_anchor(certificate, roots, between, at, algorithms)
}

/// Returns the end of a certificate's validity: verification at the end of time reports it before anything else.
fn end(certificate: &ParsedCertificate<'_>) -> Result<Timestamp, rustls::Error> {
    let at = Duration::from_secs(u64::MAX);
    match verify(certificate, &RootCertStore::empty(), &[], at) {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => Ok(timestamp(not_after)),
        Err(error) => Err(error),
        Ok(()) => Ok(Timestamp::MAX),
    }
}

/// Returns the start of a certificate's validity, from verification at the Unix epoch. An earlier start counts as the
/// epoch.
fn beginning(certificate: &ParsedCertificate<'_>) -> Timestamp {
    match verify(certificate, &RootCertStore::empty(), &[], Duration::ZERO) {
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before,
            ..
        })) => timestamp(not_before),
        Err(_) | Ok(()) => Timestamp::UNIX_EPOCH,
    }
}

fn timestamp(time: UnixTime) -> Timestamp {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// Creates a certificate for `names`. Whoever trusts its authority trusts the one before it too, which other replicas
/// may still use.
///
/// # Errors
/// If no certificate can be created for these names.
pub fn make(names: &[String], now: Timestamp, former: &Pair) -> Result<Pair, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = params(vec![], "kubectl-flink webhook authority", now)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_text = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let key = KeyPair::generate()?;
    let mut own = params(names.to_vec(), "kubectl-flink webhook", now)?;
    own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.use_authority_key_identifier_extension = true;
    let certificate = own.signed_by(&key, &issuer)?.pem();

    let mut trusted = unix_lines(&authority_text);
    if let Some(before) = newest(&former.authority) {
        trusted.push_str(&before);
    }
    Ok(Pair {
        certificate: certificate.into_bytes(),
        key: key.serialize_pem().into_bytes(),
        authority: trusted.into_bytes(),
    })
}

fn params(
    names: Vec<String>,
    common_name: &str,
    now: Timestamp,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let today = now.to_zoned(TimeZone::UTC).date();
    // Clocks differ, and whole days are precise enough.
    let on = |date: Date| {
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        date_time_ymd(i32::from(date.year()), month, day)
    };
    params.not_before = on(today.yesterday().unwrap_or(today));
    params.not_after = on(today.checked_add(Span::new().days(LIFE_DAYS)).unwrap_or(today));
    Ok(params)
}

/// Returns the first authority of a text, which is the newest.
fn newest(authorities: &[u8]) -> Option<String> {
    let text = unix_lines(std::str::from_utf8(authorities).ok()?);
    let first = text.split_inclusive(END).next()?.to_owned();
    (!certificates(first.as_bytes()).is_empty()).then_some(first)
}

fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

#[cfg(test)]
mod tests;
