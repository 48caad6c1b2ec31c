//! Read-only access to Flink's own web UI, on a separate port for each cluster.
//!
//! The UI runs scripts that the JobManager serves, and a JobManager runs code of anyone who writes jobs. So the UI
//! never shares the console's origin: each cluster has its own port, with its own guard, token and cookie. Of what a
//! browser sends, only the path reaches the JobManager, and only its response comes back. Requests that change
//! something are refused, because changes that the operator does not know of can cost state.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::FutureExt;
use operator::http::{self, Listener};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::answers::{self, Console, Parts, Refused, asked, dressed, entered, meant};
use super::resource::within;
use super::secret;
use crate::cli::{deployment, job_manager, rest, wait};
use clients::flink::{Client, Deadlines};
use config::secret::hide_in;
use console::assets;
use console::guard::{Guard, Refusal, Verdict};
use console::row::Key;

/// Maximum number of clusters whose UI is open at the same time.
const OPEN_MAX: usize = 8;
/// Time without a request after which a UI is closed. Its pages send a request every few seconds.
const IDLE_MAX: Duration = Duration::from_mins(30);
/// Maximum number of connections to one UI. A browser opens six.
const CONNECTIONS_MAX: usize = 32;
/// Maximum number of JobManager responses read at the same time. Each may have 16 MiB.
const ANSWERS_MAX: usize = 8;
/// Maximum time that a request waits for its turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time for a response of the JobManager. Some are made of thread samples.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Flink's scripts can reach nothing but their JobManager. None of them can stay as a service worker, which would
/// outlive the command and meet whatever uses the port next.
const POLICY: &str = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; worker-src blob:; form-action 'none'; \
                      frame-src 'none'; base-uri 'self'; frame-ancestors 'none'";

/// The UIs that are open.
pub(super) struct Proxies {
    open: tokio::sync::Mutex<Open>,
    answers: Arc<Semaphore>,
}

#[derive(Default)]
struct Open {
    /// By namespace and name of the cluster.
    doors: BTreeMap<(String, String), (Arc<Door>, AbortHandle)>,
    /// Dropping the set closes all UIs.
    tasks: JoinSet<()>,
}

impl Default for Proxies {
    fn default() -> Self {
        Self { open: tokio::sync::Mutex::default(), answers: Arc::new(Semaphore::new(ANSWERS_MAX)) }
    }
}

/// The port of one cluster.
struct Door {
    guard: Guard,
    /// Replaced when the UI is opened again, because the cluster may have changed.
    client: Mutex<Client>,
    /// The command that opens the full UI.
    command: String,
    used_at: Mutex<Instant>,
    answers: Arc<Semaphore>,
}

/// Opens the UI of a resource and redirects to it.
pub(super) async fn open(
    State(console): State<Arc<Console>>,
    parts: Parts,
) -> Result<Response, Refused> {
    let key = meant(&console, &parts)?;
    let proxies = console.proxies.as_ref().ok_or_else(|| {
        let text = "Use `kubectl flink ui` or `kubectl flink dashboard` to open it.";
        Refused::new(StatusCode::NOT_FOUND, "Flink's own UI is not available here", text)
    })?;
    let address = address(&console, proxies, &key).await.map_err(|why| {
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, "Flink's own UI cannot be opened", &why)
    })?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response())
}

/// Returns the address of the UI, with a token and the job.
async fn address(console: &Console, proxies: &Proxies, key: &Key) -> Result<String, String> {
    let reader = &console.reader;
    let _turn = reader.turn().await?;
    let Some(object) = reader.object(key).await? else {
        return Err(format!(
            "There is no {} `{}` in namespace `{}`.",
            key.kind, key.name, key.namespace
        ));
    };
    let opened = async {
        let connection = reader.connection(&key.namespace);
        let serving = deployment::serving(&connection, &object).await?;
        let serving = serving.context("no colour has been created yet")?;
        let cluster = deployment::cluster_of(&connection, &serving).await?;
        if cluster.job_manager_status() != Some("READY") {
            let (name, phase) = (cluster.name(), wait::phase(&cluster));
            bail!("the JobManager of `{name}` is not ready: it is {phase}. The overview says why");
        }
        let deadlines = Deadlines { request: ANSWER_TIME_MAX, ..Deadlines::default() };
        let client = job_manager::client(&connection, &cluster, reader.access, deadlines)?;
        let place = (cluster.namespace().to_owned(), cluster.name().to_owned());
        let job = serving.job_id().filter(|_| !serving.is_session());
        proxies.address(place, client.without_retries(), command(key), job).await
    };
    within(Box::pin(opened)).await
}

/// Returns the command that opens the full UI from a terminal.
fn command(key: &Key) -> String {
    format!("kubectl flink ui {} -n {}", key.argument(), key.namespace)
}

impl Proxies {
    /// Returns the address of the UI of a cluster, and opens it if necessary.
    async fn address(
        &self,
        place: (String, String),
        client: Client,
        command: String,
        job: Option<&str>,
    ) -> anyhow::Result<String> {
        let mut open = self.open.lock().await;
        let Open { doors, tasks } = &mut *open;
        doors.retain(|_, (_, task)| !task.is_finished());
        while tasks.try_join_next().is_some() {}
        let door = match doors.get(&place) {
            Some((door, _)) => {
                *door.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
                door.touch();
                Arc::clone(door)
            }
            None if doors.len() >= OPEN_MAX => {
                let minutes = IDLE_MAX.as_secs() / 60;
                bail!(
                    "the UIs of {OPEN_MAX} clusters are open, which is the maximum. Close some of their tabs: each UI closes \
                     {minutes} minutes after its last request"
                );
            }
            None => {
                let listener = Listener::at((Ipv4Addr::LOCALHOST, 0).into()).await?;
                let door = Arc::new(Door {
                    guard: Guard::new(listener.port()?, secret(), secret()).closed(),
                    client: Mutex::new(client),
                    command,
                    used_at: Mutex::new(Instant::now()),
                    answers: Arc::clone(&self.answers),
                });
                let task = tasks.spawn(Arc::clone(&door).serve(listener));
                doors.insert(place, (Arc::clone(&door), task));
                door
            }
        };
        let job = job.map(|job| format!("&{JOB}{job}")).unwrap_or_default();
        Ok(format!("{}{job}", door.guard.address()))
    }
}

/// Precedes the id of the job in an address, after the token. Browsers do not send what follows a `#`.
const JOB: &str = "job=";

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
    fn touch(&self) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn client(&self) -> Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves requests until there have been none for [`IDLE_MAX`].
    async fn serve(self: Arc<Self>, listener: Listener) {
        let routes = Router::new()
            .fallback(get(pass).fallback(refuse_change))
            .layer(middleware::from_fn_with_state(Arc::clone(&self), guarded))
            .with_state(Arc::clone(&self));
        let serving = listener.each(CONNECTIONS_MAX, move |stream| {
            let answered = http::converse(stream, routes.clone(), answers::HEAD_TIME_MAX, true);
            timeout(answers::CONNECTION_TIME_MAX, answered).map(drop)
        });
        tokio::select! {
            () = serving => {}
            () = self.is_idle(IDLE_MAX) => {}
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
    let response = match door.guard.judge(&asked(
        request.method(),
        request.uri(),
        request.headers(),
    )) {
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
                let text = "Use the link “Flink UI” on the page of the resource in the console, again if this UI was closed \
                            in the meantime. Other pages cannot link here.";
                said(status, "Open Flink's UI from the console", text)
            }
        },
    };
    dressed(response)
}

fn said(status: StatusCode, title: &str, text: &str) -> Response {
    Refused::new(status, title, text).into_response()
}

/// Refuses requests that change something or could do more than they seem to.
async fn refuse_change(State(door): State<Arc<Door>>) -> Response {
    let text = format!(
        "The console only forwards read requests. A job that is stopped behind the operator's back can lose its \
         state: stop, scale or restart it through its resource. If you know what you are doing, run: {}",
        door.command
    );
    said(StatusCode::METHOD_NOT_ALLOWED, "Flink's UI is read-only here", &text)
}

/// Forwards a request to the JobManager.
async fn pass(State(door): State<Arc<Door>>, uri: Uri) -> Response {
    if let Some(asset) = assets::find(uri.path()) {
        return answers::file(asset);
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // The request may pass through an API server, where the path must not lead to anything but this UI.
    if !rest::is_path(path) || rest::changes(&Method::GET, path) {
        return refuse_change(State(door)).await;
    }
    let Ok(Ok(_turn)) = timeout(TURN_TIME_MAX, door.answers.acquire()).await else {
        let text = "The JobManagers are still answering earlier requests. Try again.";
        return said(StatusCode::SERVICE_UNAVAILABLE, "Too many requests", text);
    };
    match door.client().page(path.to_owned()).await {
        Ok(page) => {
            let status = StatusCode::from_u16(page.status).unwrap_or(StatusCode::BAD_GATEWAY);
            let kind = page.content_type.and_then(|kind| HeaderValue::from_str(&kind).ok());
            let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let policy = HeaderValue::from_static(POLICY);
            let headers = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)];
            (status, headers, Bytes::from(page.body)).into_response()
        }
        Err(error) => {
            let text = hide_in(&format!("{error}"));
            said(StatusCode::BAD_GATEWAY, "The JobManager does not answer", &text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::row::Kind;

    #[test]
    fn an_address_leads_to_its_job() {
        assert_eq!(at_job("/?job=00ff"), "/#/job/running/00ff/overview");
        for other in ["/", "/?job=", "/?job=a/../b", "/?other=1", "/?job=0f&x=y"] {
            assert_eq!(at_job(other), "/");
        }
    }

    #[test]
    fn what_opens_all_of_it_names_the_resource() {
        let key = |kind| Key { namespace: "shop".into(), name: "orders".into(), kind };
        assert_eq!(command(&key(Kind::Deployment)), "kubectl flink ui orders -n shop");
        assert_eq!(command(&key(Kind::SessionJob)), "kubectl flink ui sessionjob/orders -n shop");
    }

    #[tokio::test]
    async fn a_door_that_nobody_uses_is_closed() {
        let client = Client::at("http://127.0.0.1:1", Deadlines::default()).unwrap();
        let door = Door {
            guard: Guard::new(1, secret(), secret()).closed(),
            client: Mutex::new(client),
            command: String::new(),
            used_at: Mutex::new(Instant::now()),
            answers: Arc::new(Semaphore::new(1)),
        };
        let (opened_at, most) = (Instant::now(), Duration::from_millis(40));
        let used = async {
            tokio::time::sleep(most / 2).await;
            door.touch();
        };
        tokio::join!(door.is_idle(most), used);
        assert!(opened_at.elapsed() >= most + most / 2);
    }
}
