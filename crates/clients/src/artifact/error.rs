//! Why a jar was not downloaded, and what to do about it.

use std::net::IpAddr;
use std::time::Duration;

use super::request::Request;
use config::memory::MemorySize;
use config::option::InvalidValue;
use config::options;

/// A failed download of a jar. URIs are shown without user, password and query.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The options that control the download cannot be parsed.
    #[error(transparent)]
    Option(#[from] InvalidValue),
    /// The request is invalid as written.
    #[error("jar `{uri}` cannot be fetched: {problem}")]
    Invalid { uri: String, problem: String },
    /// The administrator does not allow the scheme.
    #[error(
        "jar `{uri}` cannot be fetched: scheme `{scheme}` is not allowed; the operator allows it \
         with `{}`",
        options::USER_ARTIFACTS_ALLOWED_SCHEMES.key()
    )]
    SchemeNotAllowed { uri: String, scheme: String },
    /// Only the operator can reach the host.
    #[error(
        "jar `{uri}` cannot be fetched: host `{host}` is `{address}`, which is not a public \
         address; put the jar on a public host, or configure the operator with `{}: false`",
        options::USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS.key()
    )]
    PrivateAddress { uri: String, host: String, address: IpAddr },
    #[error("jar `{uri}` cannot be fetched: host `{host}` cannot be resolved: {problem}")]
    Unresolved { uri: String, host: String, problem: String },
    /// Nothing responded.
    #[error("jar `{uri}` cannot be fetched: {problem}")]
    Unreachable { uri: String, problem: String },
    /// The transfer began but did not complete.
    #[error("the transfer of jar `{uri}` broke: {problem}")]
    Interrupted { uri: String, problem: String },
    #[error(
        "jar `{uri}` was not fetched within {within:?}; `{}` sets the limit",
        options::USER_ARTIFACTS_HTTP_TOTAL_TIMEOUT.key()
    )]
    TimedOut { uri: String, within: Duration },
    /// Other transfers had to end first.
    #[error(
        "jar `{uri}` was not fetched: for {within:?} as many jars as allowed at a time were being \
         fetched and uploaded; it is tried again"
    )]
    Busy { uri: String, within: Duration },
    #[error("jar `{uri}` does not exist; upload it, or correct `spec.job.jarURI`")]
    NotFound { uri: String },
    #[error("jar `{uri}` cannot be read: {problem}; {}", ACCESS_HINT)]
    AccessDenied { uri: String, problem: String },
    /// Any other error response of a server.
    #[error("jar `{uri}` cannot be fetched: the server answered {status}")]
    Refused { uri: String, status: u16 },
    #[error(
        "jar `{uri}` is larger than {limit}; `{}` sets the limit",
        options::USER_ARTIFACTS_MAX_SIZE.key()
    )]
    TooLarge { uri: String, limit: MemorySize },
    #[error(
        "jar `{uri}` has the SHA-256 sum {actual}, but `{}` says {expected}; correct whichever is \
         wrong",
        options::USER_ARTIFACTS_CHECKSUM.key()
    )]
    ChecksumMismatch { uri: String, expected: String, actual: String },
    /// For example a login page.
    #[error("`{uri}` is not a jar: it begins with `{beginning}`; correct `spec.job.jarURI`")]
    NotAJar { uri: String, beginning: String },
    /// The operator's own disk is unusable.
    #[error("the operator cannot use its folder `{path}` for jars: {problem}; `{}` sets another", options::USER_ARTIFACTS_BASE_DIR.key())]
    Disk { path: String, problem: String },
}

const ACCESS_HINT: &str =
    "check the credentials in the configuration of the job or of the operator";

impl Error {
    /// Returns whether the same request, unchanged, may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unresolved { .. }
            | Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::TimedOut { .. }
            | Self::Busy { .. }
            | Self::Disk { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 425 | 429 | 500..),
            Self::Option(_)
            | Self::Invalid { .. }
            | Self::SchemeNotAllowed { .. }
            | Self::PrivateAddress { .. }
            | Self::NotFound { .. }
            | Self::AccessDenied { .. }
            | Self::TooLarge { .. }
            | Self::ChecksumMismatch { .. }
            | Self::NotAJar { .. } => false,
        }
    }

    /// Stable name, used as the metric label and the reason of Kubernetes events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Option(_) | Self::Invalid { .. } => "ArtifactInvalid",
            Self::SchemeNotAllowed { .. } => "ArtifactSchemeNotAllowed",
            Self::PrivateAddress { .. } => "ArtifactPrivateAddress",
            Self::Unresolved { .. } => "ArtifactHostUnresolved",
            Self::Unreachable { .. } => "ArtifactUnreachable",
            Self::Interrupted { .. } => "ArtifactInterrupted",
            Self::TimedOut { .. } => "ArtifactTimedOut",
            Self::Busy { .. } => "ArtifactBusy",
            Self::NotFound { .. } => "ArtifactNotFound",
            Self::AccessDenied { .. } => "ArtifactAccessDenied",
            Self::Refused { .. } => "ArtifactRefused",
            Self::TooLarge { .. } => "ArtifactTooLarge",
            Self::ChecksumMismatch { .. } => "ArtifactChecksumMismatch",
            Self::NotAJar { .. } => "ArtifactNotAJar",
            Self::Disk { .. } => "ArtifactDisk",
        }
    }

    pub(super) fn invalid(request: &Request, problem: impl Into<String>) -> Self {
        Self::Invalid { uri: request.shown_uri(), problem: problem.into() }
    }

    pub(super) fn unreachable(request: &Request, problem: &str) -> Self {
        Self::Unreachable { uri: request.shown_uri(), problem: request.redact(problem) }
    }

    pub(super) fn interrupted(request: &Request, problem: &str) -> Self {
        Self::Interrupted { uri: request.shown_uri(), problem: request.redact(problem) }
    }

    pub(super) fn access_denied(request: &Request, problem: &str) -> Self {
        Self::AccessDenied { uri: request.shown_uri(), problem: request.redact(problem) }
    }

    pub(super) fn not_found(request: &Request) -> Self {
        Self::NotFound { uri: request.shown_uri() }
    }
}

/// Returns the innermost cause, which is the meaningful one ("Connection refused").
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
