//! Passes on one request, with its fault.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use rustix::process::Signal;
use serde_json::json;

use super::{Age, Asked, Body, BoxError, Fault, Moment, Noted, Shared, Side, version_of, watch};

/// Serves one request; an error closes the connection.
pub(super) async fn serve(
    side: Side,
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (mut parts, body) = request.into_parts();
    let mut body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let is_watch = side == Side::Kubernetes && path.contains("watch=true");
    let writes_status = side == Side::Kubernetes
        && parts.method != Method::GET
        && parts.uri.path().ends_with("/status");
    let asked = Asked {
        side,
        method: parts.method.clone(),
        path: path.clone(),
        body: if body.len() < 100_000 {
            String::from_utf8_lossy(&body).into_owned()
        } else {
            String::new()
        },
        write: None,
        is_watch,
    };
    let Noted { place, fault, touched } = shared.note(asked);
    // Strikes apply to watches that were already open.
    let dangers = is_watch.then(|| watch::Dangers {
        shared: Arc::clone(&shared),
        path: path.clone(),
        strikes: shared.strikes.subscribe(),
        calm: shared.calm.subscribe(),
        touched,
    });
    match fault {
        Some(Fault::Kill(Moment::Before)) => return Err(kill(&shared)),
        Some(Fault::Cut(Moment::Before)) => return Err(cut()),
        Some(Fault::Silence(Moment::Before)) => return silence(&shared).await,
        Some(Fault::Status(status, retry_after)) => return Ok(refusal(side, status, retry_after)),
        Some(Fault::NoJobs) => {
            return Ok(whole(StatusCode::OK, json!({"jobs": []}).to_string().into()));
        }
        Some(fault @ (Fault::OldJobs | Fault::ForeignJobs)) => {
            let Some(list) = shared.old_jobs() else { return Ok(refusal(side, 500, None)) };
            shared.note_status(place, 200);
            let list = if fault == Fault::ForeignJobs { foreign(&list) } else { list };
            return Ok(whole(StatusCode::OK, list));
        }
        Some(Fault::OldList(writes_ago)) => {
            let Some(version) = shared.version(writes_ago) else {
                return Ok(refusal(side, 500, None));
            };
            parts.uri = at_version(&path, Some(version)).parse().map_err(io::Error::other)?;
        }
        Some(Fault::Slow(pause)) => tokio::time::sleep(pause).await,
        Some(Fault::Changed(by)) => body = by.change(&body),
        _ => {}
    }
    let is_old = matches!(fault, Some(Fault::OldList(_)));
    let again = is_old.then(|| parts.clone());
    let mut answer = pass_on(side, &shared, parts, body).await?;
    shared.note_status(place, answer.status().as_u16());
    if let Some(dangers) = dangers {
        return Ok(watch::with_fault(answer, fault, dangers));
    }
    let headers = std::mem::take(answer.headers_mut());
    let status = answer.status();
    let body = answer.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    if writes_status && status.is_success() {
        shared.note_phase(&body);
    }
    match fault {
        Some(Fault::Kill(Moment::After)) => return Err(kill(&shared)),
        Some(Fault::Cut(Moment::After)) => return Err(cut()),
        Some(Fault::Silence(Moment::After)) => return silence(&shared).await,
        Some(Fault::Pause(pause)) => {
            shared.operator.signal(Signal::STOP);
            let operator = Arc::clone(&shared.operator);
            let _task = tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                operator.signal(Signal::CONT);
            });
        }
        Some(Fault::Clock(seconds)) => shared.operator.set_clock(seconds),
        Some(Fault::Truncated) => return Ok(truncated(status, &headers, &body)),
        _ => {}
    }
    if let Some(again) = again {
        shared.note_age(place, age(&shared, again, &path, &body).await);
    } else if side == Side::Kubernetes && status.is_success() {
        shared.note_version(&body);
    } else if status.is_success() && path.contains("/jobs/overview") {
        shared.note_jobs(&body);
    }
    let mut response = whole(status, body);
    *response.headers_mut() = headers;
    Ok(response)
}

/// Returns the same jobs as if they belonged to another cluster.
fn foreign(list: &[u8]) -> Bytes {
    let mut list: serde_json::Value = serde_json::from_slice(list).unwrap();
    for job in list["jobs"].as_array_mut().unwrap() {
        job["jid"] = json!("f0e1d2c3b4a5968778695a4b3c2d1e0f");
    }
    list.to_string().into()
}

/// Returns how far the list that was sent is behind the current one.
async fn age(
    shared: &Shared,
    mut parts: http::request::Parts,
    path: &str,
    given: &[u8],
) -> Option<Age> {
    parts.uri = at_version(path, None).parse().ok()?;
    let answer = pass_on(Side::Kubernetes, shared, parts, Bytes::new()).await.ok()?;
    let now = answer.into_body().collect().await.ok()?.to_bytes();
    let items = |list: &[u8]| {
        let list: serde_json::Value = serde_json::from_slice(list).ok()?;
        list.get("items").cloned()
    };
    let behind = version_of(&now)?.saturating_sub(version_of(given)?);
    Some(Age { behind, is_other: items(&now)? != items(given)? })
}

/// Returns the path of the same list at this version, or of the current one.
fn at_version(path: &str, version: Option<u64>) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let kept = query.split('&').filter(|pair| {
        let is_version = pair.starts_with("resourceVersion");
        !pair.is_empty() && !is_version && !pair.starts_with("continue=")
    });
    let exact =
        version.map(|version| format!("resourceVersion={version}&resourceVersionMatch=Exact"));
    format!("{path}?{}", kept.chain(exact.as_deref()).collect::<Vec<_>>().join("&"))
}

fn kill(shared: &Shared) -> io::Error {
    shared.operator.kill();
    cut()
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "cut")
}

/// Waits until the client disconnects or the faults end.
async fn silence(shared: &Arc<Shared>) -> Result<Response<Body>, io::Error> {
    let _hush = shared.hush();
    let mut calm = shared.calm.subscribe();
    drop(calm.changed().await);
    Err(cut())
}

fn whole(status: StatusCode, body: Bytes) -> Response<Body> {
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

fn truncated(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Response<Body> {
    let half = Ok::<_, BoxError>(Frame::data(body.slice(..body.len() / 2)));
    let rest = Err::<Frame<Bytes>, BoxError>(Box::new(cut()));
    let mut response =
        Response::new(BodyExt::boxed_unsync(StreamBody::new(futures::stream::iter([half, rest]))));
    *response.status_mut() = status;
    *response.headers_mut() = headers.clone();
    response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    response
}

/// Returns a refusal in the format of the API server or of Flink.
fn refusal(side: Side, status: u16, retry_after: Option<u32>) -> Response<Body> {
    let reason = match status {
        403 => "Forbidden",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let message = match status {
        403 => {
            "it is forbidden: User \"system:serviceaccount:flink:operator\" cannot do this to \
             resource \"things\" in API group \"\" in the namespace \"flink\""
        }
        _ => "injected",
    };
    let body = match side {
        Side::Kubernetes => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": status, "message": message, "reason": reason, "details": {},
        }),
        Side::Flink => json!({"errors": ["injected"]}),
    };
    let mut response = whole(StatusCode::from_u16(status).unwrap(), body.to_string().into());
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

async fn pass_on(
    side: Side,
    shared: &Shared,
    parts: http::request::Parts,
    body: Bytes,
) -> Result<Response<Body>, io::Error> {
    let mut answer = match side {
        Side::Kubernetes => ask_kubernetes(&shared.api, parts, body).await?,
        Side::Flink => ask_flink(shared, parts, body).await?,
    };
    // The body is passed on decompressed and in different chunks.
    for header in [CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING] {
        answer.headers_mut().remove(header);
    }
    Ok(answer)
}

async fn ask_kubernetes(
    api: &kube::Client,
    parts: http::request::Parts,
    body: Bytes,
) -> Result<Response<Body>, io::Error> {
    let mut request = Request::new(kube::client::Body::from(body));
    *request.method_mut() = parts.method;
    *request.uri_mut() = parts.uri.path_and_query().unwrap().as_str().parse().unwrap();
    *request.headers_mut() = parts.headers;
    for header in [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        request.headers_mut().remove(header);
    }
    let answer = api.send(request).await.map_err(io::Error::other)?;
    Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
}

async fn ask_flink(
    shared: &Shared,
    parts: http::request::Parts,
    body: Bytes,
) -> Result<Response<Body>, io::Error> {
    let path = parts.uri.path_and_query().unwrap();
    let mut headers = parts.headers;
    headers.remove(CONTENT_LENGTH);
    let mut request = shared
        .http
        .request(parts.method.clone(), format!("http://{}{path}", shared.flink))
        .headers(headers);
    if parts.method != Method::GET {
        request = request.body(body);
    }
    let answer = request.send().await.map_err(io::Error::other)?;
    let mut response = Response::new(());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    let frames =
        answer.bytes_stream().map_ok(Frame::data).map_err(|error| -> BoxError { error.into() });
    Ok(response.map(|()| BodyExt::boxed_unsync(StreamBody::new(frames))))
}
