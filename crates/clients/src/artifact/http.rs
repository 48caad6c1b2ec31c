//! Jars over http and https.
//!
//! Redirects are followed by hand, because a user may have chosen each new address: the scheme must be allowed, the
//! host's addresses are checked, and what the user sends is sent only to the first host.

use futures::TryStreamExt;
use http::header::{ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use reqwest::{Client, Response, StatusCode, redirect};
use url::{Origin, Url};

use super::error::{Error, innermost};
use super::guard::Guard;
use super::request::Request;
use super::source::Source;
use super::{Body, Opened};
use config::options;

/// Maximum number of redirects; browsers and curl allow at least as many.
const REDIRECTS_MAX: usize = 10;

pub(super) async fn open(request: &Request, validator: Option<&str>) -> Result<Opened, Error> {
    open_with(request, validator, &Guard::of(request)).await
}

async fn open_with(
    request: &Request,
    validator: Option<&str>,
    guard: &Guard,
) -> Result<Opened, Error> {
    let mut url = request.url()?;
    let origin = url.origin();
    for _ in 0..=REDIRECTS_MAX {
        let response = get(&url, &origin, request, validator, guard).await?;
        match next_hop(&url, &response, request)? {
            Some(next) => url = next,
            None => return answer(response, request),
        }
    }
    Err(Error::invalid(request, format!("it redirects more than {REDIRECTS_MAX} times")))
}

async fn get(
    url: &Url,
    origin: &Origin,
    request: &Request,
    validator: Option<&str>,
    guard: &Guard,
) -> Result<Response, Error> {
    let client = client(url, request, guard).await?;
    let mut get = client.get(url.clone());
    if url.origin() == *origin {
        get = get.headers(user_headers(request)?);
    }
    if let Some(validator) = validator.and_then(|text| HeaderValue::from_str(text).ok()) {
        get = get.header(IF_NONE_MATCH, validator);
    }
    get.send().await.map_err(|error| {
        let problem = innermost(&error);
        if error.is_builder() {
            Error::invalid(request, request.redact(&problem))
        } else {
            Error::unreachable(request, &problem)
        }
    })
}

/// Returns a client that connects only to the checked addresses. A proxy would look names up itself, so it is used only
/// if addresses are not guarded.
pub(super) async fn client(url: &Url, request: &Request, guard: &Guard) -> Result<Client, Error> {
    let addresses = guard.resolve(url, request).await?;
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .connect_timeout(request.limits.silence_max)
        .read_timeout(request.limits.silence_max)
        .no_gzip()
        .user_agent(concat!("kubectl-flink/", env!("CARGO_PKG_VERSION")));
    if let Some(addresses) = addresses {
        let host = url.host_str().unwrap_or_default();
        builder = builder.resolve_to_addrs(host, &addresses).no_proxy();
    }
    builder.build().map_err(|error| Error::invalid(request, innermost(&error)))
}

fn user_headers(request: &Request) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let header = HeaderName::from_bytes(name.trim().as_bytes());
        let header = header
            .map_err(|_| Error::invalid(request, format!("`{name}` is not a header name")))?;
        check_own(&header, request)?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            Error::invalid(
                request,
                format!(
                    "the value of header `{name}` contains characters that are not allowed in \
                     headers"
                ),
            )
        })?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Returns what decides about the answer besides the URI: the headers. [`check_own`] keeps those out that name another
/// host.
pub(super) fn source(request: &Request) -> Source {
    let mut source = Source::of(false);
    for (name, value) in &request.headers {
        let key = format!("{}.{name}", options::USER_ARTIFACTS_HTTP_HEADER.key());
        source.add(key, value, false);
    }
    source
}

/// Refuses headers of a job that belong to the connection or to this program: they would change which host answers,
/// which version or part of the jar it sends, or where the request ends.
fn check_own(header: &HeaderName, request: &Request) -> Result<(), Error> {
    const REFUSED: [&str; 11] = [
        "host",
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = header.as_str();
    if REFUSED.contains(&name) || name.starts_with("if-") {
        return Err(Error::invalid(
            request,
            format!(
                "header `{name}` cannot be set; remove it from `{}`",
                options::USER_ARTIFACTS_HTTP_HEADER.key()
            ),
        ));
    }
    Ok(())
}

/// Returns where the response redirects to, if it does; an error if that is not allowed.
fn next_hop(url: &Url, response: &Response, request: &Request) -> Result<Option<Url>, Error> {
    let status = response.status();
    if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|location| url.join(location).ok());
    let Some(next) = next else {
        return Err(Error::Refused { uri: request.shown_uri(), status: status.as_u16() });
    };
    let (from, to) = (url.scheme(), next.scheme());
    match (from, to) {
        ("https" | "http", "https") | ("http", "http") => request.check_allowed(to)?,
        _ => {
            let problem = format!("it redirects from `{from}` to `{to}`, which is not followed");
            return Err(Error::invalid(request, problem));
        }
    }
    Ok(Some(next))
}

fn answer(response: Response, request: &Request) -> Result<Opened, Error> {
    let status = response.status();
    let uri = request.shown_uri();
    match status {
        StatusCode::NOT_MODIFIED => return Ok(Opened::NotModified),
        StatusCode::NOT_FOUND | StatusCode::GONE => return Err(Error::NotFound { uri }),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let problem = format!("the server answered {}", status.as_u16());
            return Err(Error::AccessDenied { uri, problem });
        }
        StatusCode::OK => {}
        other => return Err(Error::Refused { uri, status: other.as_u16() }),
    }
    let validator = response.headers().get(ETAG).and_then(|value| value.to_str().ok());
    let validator = validator.map(str::to_owned);
    let size_bytes = response.content_length();
    let request = request.clone();
    let stream = response
        .bytes_stream()
        .map_err(move |error| Error::interrupted(&request, &innermost(&error)));
    Ok(Opened::Body(Body { stream: Box::pin(stream), size_bytes, validator }))
}

#[cfg(test)]
mod tests;
