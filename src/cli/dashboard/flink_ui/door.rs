//! The port on which one cluster's Flink UI is served: who has access, and what is passed on.
//!
//! Of what a browser sends, only method, path and body reach the JobManager, and only its response comes back.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use operator::http::{self, Listener, PortTaken};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::answers::{self, Refused, asked, dressed, entered};
use super::super::secret;
use crate::cli::rest;
use clients::flink::{Client, Passed, streamed};
use config::secret::hide_in;
use console::assets;
use console::guard::{Guard, Refusal, Verdict};

/// Time without a request after which a UI that the console opened is closed. Its pages send a request every few seconds.
pub(super) const IDLE_MAX: Duration = Duration::from_mins(30);
/// Maximum number of connections to one UI. A browser opens six. One more ends the oldest.
const CONNECTIONS_MAX: usize = 32;
/// Maximum time for a response of the JobManager to begin. Some are made of thread samples.
pub(super) const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum time for a change, from its beginning until the response begins: a jar is uploaded, or a `main()` runs.
const CHANGE_TIME_MAX: Duration = Duration::from_hours(1);

/// Flink's scripts can reach nothing but their JobManager. None of them can stay as a service worker, which would
/// outlive the command and meet whatever uses the port next.
const POLICY: &str = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; worker-src blob:; form-action 'none'; \
                      frame-src 'none'; base-uri 'self'; frame-ancestors 'none'";

/// What may be done through a door.
pub(in crate::cli) enum Mode {
    /// Requests that change something are refused, and this command, which opens the full UI, is named.
    ReadOnly { command: String },
    /// Everything that Flink's API can do. Reports why the JobManager does not answer.
    Full { troubles: mpsc::Sender<String> },
}

/// The port of one cluster.
pub(in crate::cli) struct Door {
    guard: Guard,
    /// Replaced when the UI is opened again, because the cluster may have changed.
    client: Mutex<Client>,
    mode: Mode,
    used_at: Mutex<Instant>,
}

/// Precedes the id of the job in an address, after the token. Browsers do not send what follows a `#`.
const JOB: &str = "job=";

fn with_job(address: String, job: Option<&str>) -> String {
    match job {
        Some(job) => format!("{address}&{JOB}{job}"),
        None => address,
    }
}

/// Returns the path at which the UI shows the job that an address names.
fn at_job(address: &str) -> String {
    let job = address.strip_prefix("/?").and_then(|query| query.strip_prefix(JOB));
    let is_id = |job: &&str| !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_hexdigit());
    match job.filter(is_id) {
        Some(job) => format!("/#/job/running/{job}/overview"),
        None => "/".to_owned(),
    }
}

impl Door {
    /// Opens a port on this machine; 0 selects a free one.
    pub(in crate::cli) async fn open(
        port: u16,
        client: Client,
        mode: Mode,
    ) -> Result<(Arc<Self>, Listener), PortTaken> {
        let listener = Listener::at((Ipv4Addr::LOCALHOST, port).into()).await?;
        let guard = Guard::new(listener.port().unwrap_or(port), secret(), secret()).closed();
        let guard = match mode {
            Mode::ReadOnly { .. } => guard,
            Mode::Full { .. } => guard.for_programs(),
        };
        let (client, used_at) = (Mutex::new(client), Mutex::new(Instant::now()));
        Ok((Arc::new(Self { guard, client, mode, used_at }), listener))
    }

    /// Returns the address that gives access to anyone who opens it, and shows this job.
    pub(in crate::cli) fn address(&self, job: Option<&str>) -> String {
        with_job(self.guard.address(), job)
    }

    /// Returns the address that gives access to the first one who opens it.
    pub(in crate::cli) fn address_once(&self, job: Option<&str>) -> Option<String> {
        Some(with_job(self.guard.address_once()?, job))
    }

    /// Reaches the cluster as it is now.
    pub(super) fn renew(&self, client: Client) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        self.touch();
    }

    fn touch(&self) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves requests. One that the console opened ends when there have been none for [`IDLE_MAX`].
    pub(in crate::cli) async fn serve(self: Arc<Self>, listener: Listener) {
        let routes = Router::new()
            .fallback(pass)
            .layer(middleware::from_fn_with_state(Arc::clone(&self), guarded))
            .with_state(Arc::clone(&self));
        let is_full = matches!(self.mode, Mode::Full { .. });
        let serving = listener.each(CONNECTIONS_MAX, move |stream| {
            let answered = http::converse(stream, routes.clone(), answers::HEAD_TIME_MAX, true);
            async move {
                // An upload must not end with the age of its connection.
                if is_full {
                    answered.await;
                } else {
                    drop(timeout(answers::CONNECTION_TIME_MAX, answered).await);
                }
            }
        });
        let unused = async {
            if is_full {
                std::future::pending::<()>().await;
            } else {
                self.is_idle(IDLE_MAX).await;
            }
        };
        tokio::select! {
            () = serving => {}
            () = unused => {}
        }
    }

    async fn is_idle(&self, most: Duration) {
        let used_at = || *self.used_at.lock().unwrap_or_else(PoisonError::into_inner);
        while used_at().elapsed() < most {
            sleep_until(used_at() + most).await;
        }
    }
}

/// Answers requests that the guard allows, and explains to others what to do.
async fn guarded(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let asset = assets::find(request.uri().path());
    let is_worker = request.headers().contains_key("service-worker");
    let (method, uri) = (request.method(), request.uri());
    let mut checked = asked(method, uri, request.headers());
    // Flink's own UI cancels jobs by GET. A door that is read-only refuses that itself.
    checked.is_write |=
        matches!(door.mode, Mode::Full { .. }) && rest::changes(&Method::GET, uri.path());
    let response = match door.guard.judge(&checked) {
        Verdict::Answer if is_worker => {
            let text = "A service worker would outlive its page.";
            said(StatusCode::FORBIDDEN, "Service workers are not allowed", text)
        }
        Verdict::Answer => {
            door.touch();
            next.run(request).await
        }
        Verdict::Enter { cookie, address, is_from_elsewhere } => {
            entered(&cookie, &at_job(&address), is_from_elsewhere)
        }
        Verdict::Refuse(refusal) => match asset {
            // The page that reports this refusal needs its stylesheet.
            Some(asset) if refusal == Refusal::Token => answers::file(asset),
            _ => {
                let status =
                    StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
                let (title, text) = match door.mode {
                    Mode::ReadOnly { .. } => (
                        "Open Flink's UI from the console",
                        "Use the link “Flink UI” on the page of the resource in the console, again if this UI was closed \
                         in the meantime. Other pages cannot link here.",
                    ),
                    Mode::Full { .. } => (
                        "Open the address that the command printed",
                        "It contains the token, also for programs: Authorization: Bearer TOKEN. Other pages cannot link \
                         here, and only Flink's own pages can change something.",
                    ),
                };
                said(status, title, text)
            }
        },
    };
    dressed(response)
}

fn said(status: StatusCode, title: &str, text: &str) -> Response {
    Refused::new(status, title, text).into_response()
}

/// Passes a request on to the JobManager.
async fn pass(State(door): State<Arc<Door>>, request: Request) -> Response {
    if let Some(asset) = assets::find(request.uri().path()) {
        return answers::file(asset);
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    // The request may pass through an API server, where the path must not lead to anything but this UI.
    let is_passed = rest::is_path(&path)
        && match door.mode {
            Mode::ReadOnly { .. } => is_read && !rest::changes(&Method::GET, &path),
            Mode::Full { .. } => {
                let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
                is_read || changes.contains(&parts.method)
            }
        };
    if !is_passed {
        return refuse(&door.mode);
    }
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let passed = Passed {
        method: if is_read { Method::GET } else { parts.method },
        path,
        content_type: content_type.map(str::to_owned),
        body: streamed(if is_read { Body::empty() } else { body }),
    };
    let within = if is_read { ANSWER_TIME_MAX } else { CHANGE_TIME_MAX };
    match door.client().pass(passed, within).await {
        Ok(page) => {
            let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let kind = page.content_type.and_then(|kind| HeaderValue::from_str(&kind).ok());
            let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let policy = HeaderValue::from_static(POLICY);
            let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)];
            (status, headers, Body::new(page.body)).into_response()
        }
        Err(error) => {
            let text = hide_in(&format!("{error}"));
            if let Mode::Full { troubles } = &door.mode {
                // If many wait, this one says nothing new.
                drop(troubles.try_send(text.clone()));
            }
            said(StatusCode::BAD_GATEWAY, "The JobManager does not answer", &text)
        }
    }
}

/// Refuses requests that change something, or could do more than they seem to.
fn refuse(mode: &Mode) -> Response {
    match mode {
        Mode::ReadOnly { command } => {
            let text = format!(
                "The console only forwards read requests. A job that is stopped behind the operator's back can lose its \
                 state: stop, scale or restart it through its resource. If you know what you are doing, run: {command}"
            );
            said(StatusCode::METHOD_NOT_ALLOWED, "Flink's UI is read-only here", &text)
        }
        Mode::Full { .. } => {
            let text = "Only paths and methods of Flink's REST API are passed on.";
            said(StatusCode::METHOD_NOT_ALLOWED, "This is not a request to Flink", text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clients::flink::Deadlines;

    #[test]
    fn an_address_leads_to_its_job() {
        assert_eq!(at_job("/?job=00ff"), "/#/job/running/00ff/overview");
        for other in ["/", "/?job=", "/?job=a/../b", "/?other=1", "/?job=0f&x=y"] {
            assert_eq!(at_job(other), "/");
        }
    }

    #[tokio::test]
    async fn a_door_that_nobody_uses_is_closed() {
        let client = Client::at("http://127.0.0.1:1", Deadlines::default()).unwrap();
        let mode = Mode::ReadOnly { command: String::new() };
        let (door, _listener) = Door::open(0, client, mode).await.unwrap();
        let (opened_at, most) = (Instant::now(), Duration::from_millis(40));
        let used = async {
            tokio::time::sleep(most / 2).await;
            door.touch();
        };
        tokio::join!(door.is_idle(most), used);
        assert!(opened_at.elapsed() >= most + most / 2);
    }
}
