//! The front of the console in a pod: each request is checked, then answered here or by the console of its sender.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, HeaderName, HeaderValue, LOCATION, SET_COOKIE, WWW_AUTHENTICATE,
};
use axum::http::{StatusCode, request};
use axum::response::{Html, IntoResponse, Response};
use tokio::time::timeout;
use tower::Service as _;

use super::person::Token;
use super::{Pod, Refused};
use crate::cli::dashboard::{answers, secret};
use console::gate::{Asked, BODY_MAX, Credential, SIGN_IN, SignIn, Verdict, own_address};
use console::page;
use console::page::sign_in::{self, Reason};
use console::visitors::Mark;

/// Maximum time to send a token.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// Answers a request, or passes it on to the console of its sender.
pub(super) async fn front(State(pod): State<Arc<Pod>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let asked = asked(&parts);
    let response = match asked.judge() {
        Verdict::Refuse(refusal) => {
            let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
            (status, Html(sign_in::refusal(refusal))).into_response()
        }
        Verdict::Asset => answers::asset(parts.uri).await,
        Verdict::Forward => Html(page::forward(own_address(address(&parts)))).into_response(),
        Verdict::SignIn => sign_in(&pod, &asked, body).await,
        Verdict::SignOut(session) => sign_out(&pod, &asked, session),
        Verdict::Ask(credential) => match pod.find(credential).await {
            Ok(_) if parts.uri.path() == SIGN_IN => see("/"),
            Ok(mut visitor) => {
                let request = Request::from_parts(parts, body);
                let answered = visitor.routes.call(request).await;
                return answered.unwrap_or_else(|never| match never {});
            }
            Err(refused) => pod.refusal(refused, own_address(address(&parts))),
        },
    };
    answers::dressed(response)
}

fn asked(parts: &request::Parts) -> Asked<'_> {
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    Asked {
        method: parts.method.as_str(),
        request: answers::asked(&parts.method, &parts.uri, &parts.headers),
        authorization: text(AUTHORIZATION),
        forwarded_proto: text(HeaderName::from_static("x-forwarded-proto")),
    }
}

/// Returns the path with the query.
fn address(parts: &request::Parts) -> &str {
    parts.uri.path_and_query().map_or("/", |it| it.as_str())
}

/// Redirects the browser to another page of the console.
fn see(address: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

async fn sign_in(pod: &Pod, asked: &Asked<'_>, body: Body) -> Response {
    let Ok(Ok(body)) = timeout(BODY_TIME_MAX, to_bytes(body, BODY_MAX)).await else {
        return pod.refusal(Refused::SignIn(Reason::Malformed), "/");
    };
    let SignIn { token, to } = SignIn::parse(&body);
    let Some(token) = token else {
        return pod.refusal(Refused::SignIn(Reason::Malformed), &to);
    };
    let session = secret();
    match pod.enter(Token(token), Some(&session)).await {
        Ok(_) => {
            // The fleet is listed while the browser requests the page.
            pod.watching.begin();
            with_cookie(see(&to), &asked.cookie(Some(&session)))
        }
        Err(refused) => pod.refusal(refused, &to),
    }
}

fn sign_out(pod: &Pod, asked: &Asked<'_>, session: Option<&str>) -> Response {
    let left = session.and_then(|id| pod.visitors().leave(Mark::of(Credential::Session(id))));
    if let Some(visitor) = left {
        visitor.end();
    }
    with_cookie(see("/"), &asked.cookie(None))
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

impl Pod {
    /// Returns the page for a person without access, which continues at `to`.
    fn refusal(&self, refused: Refused, to: &str) -> Response {
        let (status, page) = match refused {
            Refused::SignIn(reason) => {
                (StatusCode::UNAUTHORIZED, sign_in::page(&self.cluster, to, reason))
            }
            Refused::Unanswered(message) => {
                tracing::warn!(message, "could not identify the console's user");
                let title = "You cannot be identified";
                let text = format!(
                    "The API server could not be asked who you are and what you may see: {message}. Reload the \
                     page."
                );
                (StatusCode::SERVICE_UNAVAILABLE, page::message(title, &text))
            }
        };
        let mut response = (status, Html(page)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
