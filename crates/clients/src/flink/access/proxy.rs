//! Requests through the API server's service proxy, `/api/v1/namespaces/<namespace>/services/<service>:<port>/proxy/…`.
//!
//! It passes on every verb and body; the permission is `services/proxy` with the verb `get`, `create` (POST), `update`
//! (PUT), `patch` or `delete`. The API server's own responses are a `Status` object or text that begins
//! `error trying to reach service`; Flink's never are.
//!
//! No Service is checked first: the API server asks for the permissions of whoever calls, and connects to endpoints of
//! the Service, never to its `externalName`.

use std::{fmt, time::Duration};

use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::sync::Semaphore;

use super::{SMALL_BYTES_MAX, Target, direct::innermost};
use crate::flink::{
    body::streamed,
    client::{Answer, Call, Page},
    error::{Error, excerpt},
    wire,
};

/// Turns of larger bodies.
static LARGE: Semaphore = Semaphore::const_new(2);

/// The REST endpoint behind one Service.
pub(in crate::flink) struct Proxy {
    kubernetes: kube::Client,
    base_path: String,
    headers: HeaderMap,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("base_path", &self.base_path).finish_non_exhaustive()
    }
}

impl Proxy {
    pub(super) fn new(kubernetes: kube::Client, target: &Target, headers: &HeaderMap) -> Self {
        let scheme = if target.is_tls { "https:" } else { "" };
        let base_path = format!(
            "/api/v1/namespaces/{}/services/{scheme}{}:{}/proxy",
            target.namespace,
            target.service(),
            target.port
        );
        let mut headers = headers.clone();
        // The API server would use Flink's credentials as its own.
        headers.remove(header::AUTHORIZATION);
        Self { kubernetes, base_path, headers }
    }

    pub(super) async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        call.in_time(within, || true, async { answered(call, self.send(call).await?).await }).await
    }

    /// Passes a request on. Only errors are read here, because the API server makes some of them.
    pub(super) async fn pass(&self, call: &Call, within: Duration) -> Result<Page, Error> {
        call.in_time(within, || true, async {
            let page = self.send(call).await?;
            if (200..300).contains(&page.status) {
                return Ok(page);
            }
            Ok(answered(call, page).await?.into())
        })
        .await
    }

    async fn send(&self, call: &Call) -> Result<Page, Error> {
        let (content_type, body) = call.body()?;
        // kube only sends bodies that are in memory, so few of them are sent at a time.
        let _turn = match body.size_hint().exact() {
            Some(0..=SMALL_BYTES_MAX) => None,
            _ => LARGE.acquire().await.ok(),
        };
        let body = body.collect().await.map_err(|error| Error::Invalid {
            problem: format!("body of `{}` cannot be read: {error}", call.name()),
        })?;
        let body = body.to_bytes();
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.base_path, call.path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(kube::client::Body::from(body))
            .map_err(|error| Error::Invalid { problem: format!("`{}`: {error}", call.name()) })?;
        let response = self.kubernetes.send(request).await.map_err(|error| lost(call, error))?;
        Ok(Page::new(response.map(streamed)))
    }
}

/// Reads a response. Those of the API server itself are errors.
async fn answered(call: &Call, page: Page) -> Result<Answer, Error> {
    let answer = page.read(call).await?;
    match own_words(&answer) {
        Some((code, message)) => Err(sort(call, code, message)),
        None => Ok(answer),
    }
}

/// Returns the API server's code and message if the response is its own and not Flink's.
fn own_words(answer: &Answer) -> Option<(u16, String)> {
    if (200..300).contains(&answer.status) || answer.is_flinks() {
        return None;
    }
    if let Some((code, message)) = wire::kubernetes_status(&answer.body) {
        return Some((if code == 0 { answer.status } else { code }, message));
    }
    let text = String::from_utf8_lossy(&answer.body);
    let is_proxy_text = text.trim_start().to_ascii_lowercase().starts_with("error trying to reach");
    is_proxy_text.then(|| (answer.status, text.into_owned()))
}

/// Classifies an error of the request by the API server's message.
fn sort(call: &Call, code: u16, message: String) -> Error {
    // Messages sent before anything reached the pod.
    const NOT_REACHED: [&str; 6] = [
        "no endpoints available",
        "dial tcp",
        "connection refused",
        "no such host",
        "no route to host",
        "tls handshake",
    ];
    let request = call.name();
    let lower = message.to_ascii_lowercase();
    let problem = excerpt(&message);
    match code {
        401 | 403 => Error::Forbidden { request, status: code, message: problem },
        // The Service does not exist, or the API server is overloaded.
        404 | 429 => Error::Unreachable { request, problem, source: None },
        500.. if NOT_REACHED.iter().any(|words| lower.contains(words)) => {
            Error::Unreachable { request, problem, source: None }
        }
        500.. => Error::Disconnected { request, problem, source: None },
        _ => Error::NotFlink { request, status: code, body: message },
    }
}

/// The API server itself did not respond.
fn lost(call: &Call, error: kube::Error) -> Error {
    let request = call.name();
    let problem = format!("API server: {}", innermost(&error));
    if let kube::Error::Auth(_) = error {
        return Error::Forbidden { request, status: 401, message: problem };
    }
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut is_connect = false;
    while let Some(error) = source {
        is_connect |= error
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        source = error.source();
    }
    if is_connect {
        Error::Unreachable { request, problem, source: Some(Box::new(error)) }
    } else {
        Error::Disconnected { request, problem, source: Some(Box::new(error)) }
    }
}

#[cfg(test)]
mod tests;
