//! Why a call to Flink returned nothing to decide on.

use std::{error::Error as StdError, time::Duration};

use crate::fence::Closed;

/// Maximum length of foreign text in a message, in characters.
const EXCERPT_CHARS: usize = 300;

/// Wraps most messages without adding information.
const REST_EXCEPTION: &str = "org.apache.flink.runtime.rest.handler.RestHandlerException: ";

/// A call to Flink's REST API that failed; `request` is `METHOD /path`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing that could be Flink was reached, so the request had no effect.
    #[error("JobManager did not answer `{request}`: {problem}")]
    Unreachable { request: String, problem: String, source: Option<BoxError> },
    /// The connection broke after the request was (or may have been) sent.
    #[error("connection broke before the answer to `{request}` was complete: {problem}")]
    Disconnected { request: String, problem: String, source: Option<BoxError> },
    /// No response within the deadline.
    #[error("no answer to `{request}` within {after:?}")]
    Timeout { request: String, after: Duration, sent_maybe: bool },
    /// Flink responded with its error body.
    #[error("Flink refused `{request}` with {status}: {}", first_line(errors))]
    Refused { request: String, status: u16, errors: Vec<String> },
    /// The response does not come from Flink, but for example from a gateway or a proxy.
    #[error("`{request}` was answered with {status}, not by Flink: {}", excerpt(body))]
    NotFlink { request: String, status: u16, body: String },
    /// The response is a success, but its body is not what the call returns.
    #[error("answer to `{request}` cannot be read: {}", excerpt(problem))]
    Malformed { request: String, problem: String },
    /// The response exceeds the size limit.
    #[error("answer to `{request}` is larger than {limit} bytes")]
    TooLarge { request: String, limit: usize },
    /// The Kubernetes API server does not give access to the JobManager.
    #[error("Kubernetes refused `{request}` with {status}: {message}")]
    Forbidden { request: String, status: u16, message: String },
    /// The Service may lead to a JobManager of somebody else, so nothing was sent.
    #[error(
        "`{request}` was not sent: Service `{service}` {problem}, so it may lead to somebody \
         else's JobManager. Change it back to type `ClusterIP`, without `externalName`, and with \
         the selector `app: {cluster}` and `component: jobmanager`"
    )]
    ForeignService { request: String, service: String, cluster: String, problem: String },
    /// This process is no longer the leader; the request may have been sent.
    #[error("`{request}` was given up: {closed}")]
    Deposed { request: String, closed: Closed },
    /// The call is invalid.
    #[error("{problem}")]
    Invalid { problem: String },
}

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// The effect of a failed call on the cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// None: it was not sent, or it was refused.
    Nothing,
    /// It may have been carried out; check the cluster before repeating it.
    Unknown,
}

impl Error {
    /// Returns whether the same call, unchanged, may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Disconnected { .. }
            | Self::Timeout { .. }
            | Self::Deposed { .. } => true,
            Self::Refused { status, .. } | Self::NotFlink { status, .. } => {
                matches!(status, 408 | 429 | 500..)
            }
            Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::Forbidden { .. }
            | Self::ForeignService { .. }
            | Self::Invalid { .. } => false,
        }
    }

    /// Returns whether the request may have been carried out despite the error. Not meant for GET.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unreachable { .. }
            | Self::Forbidden { .. }
            | Self::ForeignService { .. }
            | Self::Invalid { .. } => Effect::Nothing,
            Self::Timeout { sent_maybe, .. } => {
                if *sent_maybe {
                    Effect::Unknown
                } else {
                    Effect::Nothing
                }
            }
            // 503: no leader, or the endpoint is starting or shutting down.
            Self::Refused { status, .. } => match status {
                408 => Effect::Unknown,
                400..=499 | 503 => Effect::Nothing,
                _ => Effect::Unknown,
            },
            Self::Disconnected { .. }
            | Self::Deposed { .. }
            | Self::NotFlink { .. }
            | Self::Malformed { .. }
            | Self::TooLarge { .. } => Effect::Unknown,
        }
    }

    /// Returns the status with which Flink itself answered.
    pub fn http_response_code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Stable name, used as the metric label and the reason of Kubernetes events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "JobManagerUnreachable",
            Self::Disconnected { .. } => "FlinkDisconnected",
            Self::Timeout { .. } => "FlinkTimeout",
            Self::Refused { .. } => "FlinkRefused",
            Self::NotFlink { .. } => "NotFlink",
            Self::Malformed { .. } => "FlinkAnswerMalformed",
            Self::TooLarge { .. } => "FlinkAnswerTooLarge",
            Self::Forbidden { .. } => "FlinkAccessForbidden",
            Self::ForeignService { .. } => "ForeignService",
            Self::Deposed { .. } => "Deposed",
            Self::Invalid { .. } => "InvalidFlinkCall",
        }
    }

    /// Returns whether Flink said that it does not know the job.
    ///
    /// A 404 of an endpoint that this version lacks (`Unable to load requested file …`, `Not found: /…`) does not
    /// match.
    pub fn is_job_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
            && self.says(|line| {
                line.contains("FlinkJobNotFoundException")
                    || line.contains("Could not find Flink job")
                    || line.contains("Job could not be found")
                    || names_a_missing_job(line)
            })
    }

    /// Returns whether this version of Flink lacks the requested endpoint.
    pub fn is_no_endpoint(&self) -> bool {
        matches!(self, Self::Refused { status: 404 | 405, .. })
            && self.says(|line| {
                line.contains("Unable to load requested file") || line.contains("Not found: /")
            })
    }

    /// Returns whether the job's scheduler, whatever the configuration says, cannot rescale a running job.
    pub fn is_of_a_fixed_scheduler(&self) -> bool {
        self.says(|line| line.contains("does not support changing the parallelism"))
    }

    /// Returns whether Flink refused with a text of which one line (stack frames aside) `matches`.
    pub fn says(&self, matches: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Refused { errors, .. } => errors
                .iter()
                .flat_map(|text| text.lines())
                .filter(|line| !line.trim_start().starts_with("at "))
                .any(matches),
            _ => false,
        }
    }

    /// Returns whether the request certainly did not reach Flink, or Flink had no leader to act on it.
    pub(super) fn is_safe_to_repeat(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { sent_maybe: false, .. } => true,
            Self::Refused { status, .. } => *status == 503,
            _ => false,
        }
    }

    /// Returns whether a GET is worth another attempt.
    pub(super) fn is_worth_asking_again(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Disconnected { .. } | Self::Timeout { .. } => true,
            Self::Refused { status, .. } | Self::NotFlink { status, .. } => {
                matches!(status, 408 | 429 | 502..=504)
            }
            _ => false,
        }
    }
}

/// Matches `… Job <32 hex digits> not found`.
fn names_a_missing_job(line: &str) -> bool {
    line.split_once("Job ").is_some_and(|(_, after)| {
        let id = after.bytes().take_while(u8::is_ascii_hexdigit).count();
        id == 32 && after.get(id..).is_some_and(|rest| rest.starts_with(" not found"))
    })
}

/// Returns Flink's message in one line, without the wrappers that name no cause.
fn first_line(errors: &[String]) -> String {
    let line = errors.iter().flat_map(|text| text.lines()).map(str::trim).find(|line| {
        !matches!(*line, "" | "Internal server error." | "<Exception on server side:")
    });
    let line = line.unwrap_or("without a reason");
    excerpt(line.strip_prefix(REST_EXCEPTION).unwrap_or(line))
}

/// Returns at most [`EXCERPT_CHARS`] characters of `text`, on one line and without control characters, which could
/// affect a terminal.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.trim().replace(char::is_control, " ");
    if line.chars().count() <= EXCERPT_CHARS {
        return line;
    }
    let mut cut: String = line.chars().take(EXCERPT_CHARS).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests;
