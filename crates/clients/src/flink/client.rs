//! The common part of all calls: deadlines, retries, and telling Flink's responses from others.

use std::{sync::Arc, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::{
    access::{ANSWER_BYTES_MAX, Route, direct, direct::innermost},
    body::{Body, Once, Part, Stream, streamed},
    error::Error,
    patience,
    triggers::Triggers,
    wire,
};
use crate::fence::{self, Fence};
use metrics::traffic::Traffic;

/// Delay before the first retry of a call; doubled up to [`RETRY_DELAY_MAX`].
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// Delay between two polls of an asynchronous operation, as in the Java operator.
const POLL_DELAY_MIN: Duration = Duration::from_millis(10);
const POLL_DELAY_MAX: Duration = Duration::from_secs(2);

/// Timeout of the readiness probe, as in the Java operator.
const PROBE_DEADLINE: Duration = Duration::from_secs(1);
/// Longer than anyone waits for one call.
const DEADLINE_MAX: Duration = Duration::from_hours(24 * 365);

/// Maximum total time of calls, retries included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deadlines {
    /// GETs, triggers, disposal: `kubernetes.operator.flink.client.timeout`.
    pub request: Duration,
    /// `kubernetes.operator.flink.client.cancel.timeout`.
    pub cancel: Duration,
    /// Jar run, in which `main()` runs: `kubernetes.operator.job.submission.timeout`.
    pub submission: Duration,
    /// Stop-with-savepoint until its end: `execution.checkpointing.timeout` of the cluster.
    pub savepoint: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            cancel: Duration::from_mins(1),
            submission: Duration::from_mins(10),
            savepoint: Duration::from_mins(10),
        }
    }
}

impl Deadlines {
    /// Users may set deadlines that overflow when added to the current time.
    fn bounded(self) -> Self {
        let Self { request, cancel, submission, savepoint } = self;
        Self {
            request: request.min(DEADLINE_MAX),
            cancel: cancel.min(DEADLINE_MAX),
            submission: submission.min(DEADLINE_MAX),
            savepoint: savepoint.min(DEADLINE_MAX),
        }
    }
}

/// Client of one cluster's JobManager.
#[derive(Clone, Debug)]
pub struct Client {
    route: Arc<Route>,
    deadlines: Deadlines,
    is_retrying: bool,
    pub(super) triggers: Triggers,
    /// Only GETs are sent while it is closed.
    fence: Fence,
    traffic: Traffic,
}

/// One call, independent of its route.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Encoded path and query, starting with `/`.
    pub(super) path: String,
    pub(super) payload: Payload,
}

#[derive(Clone, Debug)]
pub(super) enum Payload {
    Empty,
    Json(Bytes),
    Multipart { content_type: String, parts: Vec<Part> },
    Stream { content_type: Option<String>, stream: Once },
}

/// A request that is passed on to a JobManager.
#[derive(Debug)]
pub struct Passed {
    pub method: Method,
    /// Encoded path and query, starting with `/`.
    pub path: String,
    pub content_type: Option<String>,
    pub body: Stream,
}

/// What a JobManager returns, with any status. The body is read while it is passed on.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub content_type: Option<String>,
    pub body: Stream,
}

impl Page {
    pub(super) fn new(response: http::Response<Stream>) -> Self {
        let (parts, body) = response.into_parts();
        let content_type = Answer::content_type(&parts.headers);
        Self { status: parts.status.as_u16(), content_type, body }
    }

    /// Reads the body within the limit.
    pub(super) async fn read(self, call: &Call) -> Result<Answer, Error> {
        let Self { status, content_type, body } = self;
        match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => Ok(Answer { status, content_type, body: body.to_bytes().into() }),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(Error::TooLarge { request: call.name(), limit: ANSWER_BYTES_MAX })
            }
            Err(error) => Err(Error::Disconnected {
                request: call.name(),
                problem: innermost(error.as_ref()),
                source: Some(error),
            }),
        }
    }
}

impl From<Answer> for Page {
    fn from(answer: Answer) -> Self {
        let Answer { status, content_type, body } = answer;
        let body = streamed(Full::new(Bytes::from(body)));
        Self { status, content_type, body }
    }
}

/// A response with any status, and a body within the limit.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Returns the value of the header `Content-Type`.
    pub(super) fn content_type(headers: &HeaderMap) -> Option<String> {
        Some(headers.get(CONTENT_TYPE)?.to_str().ok()?.to_owned())
    }

    /// Returns whether the body is Flink's error body.
    pub(super) fn is_flinks(&self) -> bool {
        wire::errors(&self.body).is_some()
    }

    /// Returns the error for a response that is not Flink's.
    pub(super) fn not_flink(self, call: &Call) -> Error {
        let body = String::from_utf8_lossy(&self.body).into_owned();
        Error::NotFlink { request: call.name(), status: self.status, body }
    }
}

impl Call {
    pub(super) fn new(method: Method, path: String) -> Self {
        Self { method, path, payload: Payload::Empty }
    }

    pub(super) fn json(method: Method, path: String, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Invalid {
            problem: format!("body of `{method} {path}` cannot be written: {error}"),
        })?;
        Ok(Self { method, path, payload: Payload::Json(body.into()) })
    }

    /// Returns the content type and the body, if it has one.
    pub(super) fn body(&self) -> Result<(Option<&str>, Body), Error> {
        let opened = |parts: &[Part]| {
            Body::open(parts).map_err(|error| Error::Invalid {
                problem: format!("body of `{}` cannot be read: {error}", self.name()),
            })
        };
        Ok(match &self.payload {
            Payload::Empty => (None, Body::default()),
            Payload::Json(body) => {
                (Some("application/json"), opened(&[Part::Bytes(body.clone())])?)
            }
            Payload::Multipart { content_type, parts } => (Some(content_type), opened(parts)?),
            Payload::Stream { content_type, stream } => {
                let body = Body::stream(stream).ok_or_else(|| Error::Invalid {
                    problem: format!("body of `{}` can be sent only once", self.name()),
                })?;
                (content_type.as_deref(), body)
            }
        })
    }

    /// Gives up after this time. Whether the request may have been sent by then is asked when it is over.
    pub(super) async fn in_time<T>(
        &self,
        within: Duration,
        may_be_sent: impl FnOnce() -> bool,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let started = Instant::now();
        tokio::time::timeout(within, work).await.unwrap_or_else(|_| {
            let (request, after) = (self.name(), started.elapsed());
            Err(Error::Timeout { request, after, sent_maybe: may_be_sent() })
        })
    }

    /// Returns whether the call changes nothing.
    pub(super) fn is_read(&self) -> bool {
        self.method == Method::GET
    }

    /// Returns `METHOD /path`, as errors name it.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl Client {
    pub(super) fn new(
        route: Route,
        deadlines: Deadlines,
        triggers: Triggers,
        fence: Fence,
        traffic: Traffic,
    ) -> Self {
        let deadlines = deadlines.bounded();
        Self { route: Arc::new(route), deadlines, is_retrying: true, triggers, fence, traffic }
    }

    /// Returns a client of the REST endpoint at `base_url`, with a connection pool of its own.
    pub fn at(base_url: &str, deadlines: Deadlines) -> Result<Self, Error> {
        let route = Route::Direct(direct::Direct::at(base_url)?);
        Ok(Self::new(route, deadlines, Triggers::default(), Fence::default(), Traffic::default()))
    }

    /// Returns a client that tries each call once.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        Self { is_retrying: false, ..self.clone() }
    }

    /// Returns a client whose requests have this deadline.
    #[must_use]
    pub fn with_request_deadline(mut self, request: Duration) -> Self {
        self.deadlines = Deadlines { request, ..self.deadlines }.bounded();
        self
    }

    /// Returns the deadlines of calls.
    pub fn deadlines(&self) -> Deadlines {
        self.deadlines
    }

    /// Returns whether the REST endpoint responds at all within a second. This says nothing about the job.
    pub async fn is_up(&self) -> bool {
        self.route.is_up(PROBE_DEADLINE).await
    }

    pub(super) async fn get<T>(&self, path: String) -> Result<T, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        self.call(Call::new(Method::GET, path), self.deadlines.request).await
    }

    /// Makes any call and returns its successful response unparsed, for people who know Flink's REST API. Like every
    /// other call, it needs an open fence unless it is a GET.
    pub async fn raw(
        &self,
        method: Method,
        path: String,
        body: Option<&serde_json::Value>,
    ) -> Result<Vec<u8>, Error> {
        let call = match body {
            Some(body) => Call::json(method, path, body)?,
            None => Call::new(method, path),
        };
        self.send(call, self.deadlines.request).await
    }

    /// Passes a request on and returns the response, for a proxy in front of Flink's own web interface. Both bodies are
    /// streamed. The head of the response must come within `within`. Responses of an API server in between are errors.
    pub async fn pass(&self, request: Passed, within: Duration) -> Result<Page, Error> {
        let Passed { method, path, content_type, body } = request;
        let payload = match body.size_hint().exact() {
            Some(0) => Payload::Empty,
            _ => Payload::Stream { content_type, stream: Once::new(body) },
        };
        let call = Call { method, path, payload };
        let passing = self.counted(&call, Box::pin(self.route.pass(&call, within)), |it| it.status);
        if call.method == Method::GET {
            return passing.await;
        }
        let deposed = |closed| Error::Deposed { request: call.name(), closed };
        self.fence.guard(passing).await.map_err(deposed)?
    }

    /// Makes the call and parses its successful response as `T`.
    pub(super) async fn call<T>(&self, call: Call, within: Duration) -> Result<T, Error>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let name = call.name();
        let body = self.send(call, within).await?;
        let read = patience::wait(wire::read_any(body)).await;
        read.map_err(|problem| Error::Malformed { request: name, problem })
    }

    /// Sends one request and counts it.
    async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        let exchange = Box::pin(self.route.exchange(call, within));
        self.counted(call, exchange, |answer| answer.status).await
    }

    async fn counted<T>(
        &self,
        call: &Call,
        answer: impl Future<Output = Result<T, Error>>,
        status: impl Fn(&T) -> u16,
    ) -> Result<T, Error> {
        let asked = fence::now();
        self.traffic.asked(call.method.as_str(), asked);
        let answer = answer.await;
        let (code, now) = (answer.as_ref().ok().map(status), fence::now());
        self.traffic.answered(code, now.saturating_sub(asked), now);
        answer
    }

    /// Makes the call, and retries it within `within` if that is harmless and may help.
    pub(super) async fn send(&self, call: Call, within: Duration) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + within;
        let backoff = ExponentialBuilder::new()
            .with_min_delay(RETRY_DELAY_MIN)
            .with_max_delay(RETRY_DELAY_MAX)
            .with_jitter()
            .without_max_times();
        let is_get = call.is_read();
        (|| async {
            let left = deadline.saturating_duration_since(Instant::now());
            // Boxed because it would otherwise be stored twice, with and without the fence.
            let exchange = Box::pin(self.exchange(&call, left));
            let exchange = patience::wait(exchange);
            let answer = if is_get {
                exchange.await?
            } else {
                let deposed = |closed| Error::Deposed { request: call.name(), closed };
                self.fence.guard(exchange).await.map_err(deposed)??
            };
            judge(&call, answer)
        })
        .retry(backoff)
        .sleep(tokio::time::sleep)
        .when(|error: &Error| {
            self.is_retrying
                && if is_get { error.is_worth_asking_again() } else { error.is_safe_to_repeat() }
        })
        .adjust(|_, delay| delay.filter(|delay| Instant::now() + *delay < deadline))
        .notify(|error, delay| tracing::debug!(%error, ?delay, "asking Flink again"))
        .await
    }
}

/// Classifies a response: success, Flink's error, or another server's response.
///
/// A body that parses as Flink's errors is an error whatever the status.
fn judge(call: &Call, answer: Answer) -> Result<Vec<u8>, Error> {
    if let Some(errors) = wire::errors(&answer.body) {
        return Err(Error::Refused { request: call.name(), status: answer.status, errors });
    }
    if (200..300).contains(&answer.status) {
        return Ok(answer.body);
    }
    Err(answer.not_flink(call))
}

/// Polls until the response is no longer pending, or `within` has passed; then returns the last one.
pub(super) async fn poll<T, F, A>(
    within: Duration,
    mut ask: F,
    is_pending: impl Fn(&T) -> bool,
) -> Result<T, Error>
where
    F: FnMut() -> A,
    A: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + within;
    let mut delay = POLL_DELAY_MIN;
    loop {
        let answer = ask().await;
        let is_open = match &answer {
            Ok(answer) => is_pending(answer),
            Err(error) => error.is_transient(),
        };
        if !is_open || Instant::now() + delay >= deadline {
            return answer;
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(POLL_DELAY_MAX);
    }
}

/// Returns a fresh id for a trigger: 32 lower case hex digits that cannot be guessed.
///
/// Store it before the call that uses it: repeating a trigger with the same id is harmless.
pub fn new_trigger_id() -> String {
    let mut bytes = [0_u8; 16];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .expect("the operating system gives random bytes");
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Returns `/a/b/c` with each segment encoded; rejects segments that would change the path.
pub(super) fn path(segments: &[&str]) -> Result<String, Error> {
    let mut path = String::new();
    for segment in segments {
        if matches!(*segment, "" | "." | "..") {
            return Err(Error::Invalid { problem: format!("`{segment}` is not a Flink id") });
        }
        path.push('/');
        path.push_str(&encode(segment));
    }
    Ok(path)
}

/// Percent-encodes everything except RFC 3986's unreserved characters.
pub(super) fn encode(text: &str) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let digit = |value: u8| DIGITS[usize::from(value & 0xF)];
                encoded.extend(['%', digit(byte >> 4), digit(byte)]);
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_beyond_all_time_can_be_added_to_the_time() {
        let within = Duration::from_secs(i64::MAX as u64);
        let deadlines =
            Deadlines { request: within, cancel: within, submission: within, savepoint: within };
        let mut client = Client::at("http://localhost:1", deadlines).unwrap();
        for _ in 0..2 {
            let Deadlines { request, cancel, submission, savepoint } = client.deadlines();
            for deadline in [request, cancel, submission, savepoint] {
                assert!(Instant::now().checked_add(deadline * 2).is_some());
            }
            client = client.with_request_deadline(within);
        }
    }
}
