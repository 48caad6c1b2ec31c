//! Calls to addresses that plugins of the operator's configuration name.

use std::time::Duration;

use http_body_util::BodyExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{ClientBuilder, Method, RequestBuilder};

use super::observe::show;
use config::plugin::Endpoint;

/// Maximum number of bytes to read of an answer.
const ANSWER_MAX: usize = 1024 * 1024;

/// Why a call failed. Contains no URLs or headers, which may hold secrets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it cannot be called: {0}")]
    Invalid(String),
    #[error("no answer: {0}")]
    Unreachable(String),
    #[error("it answered {0}")]
    Refused(u16),
    #[error("it took longer than {0:?}")]
    TimedOut(Duration),
    #[error("its answer is larger than {ANSWER_MAX} bytes")]
    TooLarge,
    /// A gRPC status, and what the server says about it.
    #[error("it answered with gRPC status {0}")]
    Rpc(String),
    #[error("it rejected {count} values: {why}")]
    Partial { count: i64, why: String },
}

impl Error {
    /// Returns `true` if a retry may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) => true,
            Self::Refused(status) => *status >= 500 || *status == 429 || *status == 408,
            Self::Invalid(_) | Self::TooLarge | Self::Rpc(_) | Self::Partial { .. } => false,
        }
    }
}

/// An address that can be called.
pub(super) struct Caller {
    endpoint: Endpoint,
    http: reqwest::Client,
}

/// A successful answer to a call.
pub(super) struct Answer {
    /// Includes the trailers.
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Caller {
    /// # Errors
    /// If the headers are invalid.
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, Error> {
        Self::with(endpoint, |builder| builder)
    }

    /// Creates a caller with additional settings of the connection.
    ///
    /// # Errors
    /// If the headers or the settings are invalid.
    pub(super) fn with(
        endpoint: Endpoint,
        settings: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self, Error> {
        // reqwest's builder panics if the process has no provider; a second one is refused.
        drop(rustls::crypto::ring::default_provider().install_default());
        let builder = reqwest::Client::builder()
            .default_headers(header_map(&endpoint.headers)?)
            .user_agent(concat!("kubectl-flink/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(endpoint.timeout);
        let http = settings(builder)
            .build()
            .map_err(|error| Error::Invalid(show(&error.without_url())))?;
        Ok(Self { endpoint, http })
    }

    /// Posts `body`; any 2xx is success. Returns the body of the answer, within limits.
    pub(super) async fn post(
        &self,
        content_type: &'static str,
        body: impl Into<reqwest::Body>,
    ) -> Result<Vec<u8>, Error> {
        let request = self.request(Method::POST).header(CONTENT_TYPE, content_type).body(body);
        self.answer(request).await.map(|answer| answer.body)
    }

    /// Returns a request for [`Self::answer`] to send.
    pub(super) fn request(&self, method: Method) -> RequestBuilder {
        self.http.request(method, self.endpoint.url.clone())
    }

    /// Sends the request; any 2xx is success. Returns the answer, within limits.
    pub(super) async fn answer(&self, request: RequestBuilder) -> Result<Answer, Error> {
        let answer = request.send().await.map_err(|error| self.error(error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Error::Refused(status.as_u16()));
        }
        let mut headers = answer.headers().clone();
        let mut stream = reqwest::Body::from(answer);
        let mut body = Vec::new();
        while let Some(frame) = stream.frame().await {
            match frame.map_err(|error| self.error(error))?.into_data() {
                Ok(chunk) if body.len() + chunk.len() > ANSWER_MAX => return Err(Error::TooLarge),
                Ok(chunk) => body.extend_from_slice(&chunk),
                Err(frame) => headers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
        Ok(Answer { headers, body })
    }

    fn error(&self, error: reqwest::Error) -> Error {
        if error.is_timeout() {
            Error::TimedOut(self.endpoint.timeout)
        } else {
            Error::Unreachable(show(&error.without_url()))
        }
    }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid = || Error::Invalid("`headers` contains an invalid header".to_owned());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}

#[cfg(test)]
pub(super) mod fake;
