//! The way into Flink's own web interface: a port of its own for each cluster, through which it can be read.
//!
//! Its pages run scripts that the JobManager gives out, and a JobManager runs code of whoever writes jobs. So they are
//! never of the console's own origin: each cluster has another port, with a guard, a token and a cookie of its own. Nothing
//! that a browser sends but the path reaches the JobManager, and nothing but its answer comes back. Nothing is changed
//! either: what the operator does not know of costs state.

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

/// Clusters whose interface is open at the same time.
const OPEN_MAX: usize = 8;
/// It is closed when nobody has asked for anything for so long. Its pages ask every few seconds.
const IDLE_MAX: Duration = Duration::from_mins(30);
/// Connections of one: a browser opens six.
const CONNECTIONS_MAX: usize = 32;
/// Answers of JobManagers that are read at the same time, each of which may have 16 MiB.
const ANSWERS_MAX: usize = 8;
/// The longest that a request waits for its turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest that a JobManager may take: some answers are made of samples of threads.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Flink's scripts reach nobody but their JobManager. None of them stays as a service worker, which would outlive the
/// command and meet whatever has the port next.
const POLICY: &str = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; worker-src blob:; form-action 'none'; \
                      frame-src 'none'; base-uri 'self'; frame-ancestors 'none'";

/// Those that are open.
pub(super) struct Proxies {
    open: tokio::sync::Mutex<Open>,
    answers: Arc<Semaphore>,
}

#[derive(Default)]
struct Open {
    /// By namespace and name of their clusters.
    doors: BTreeMap<(String, String), (Arc<Door>, AbortHandle)>,
    /// They end with this.
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
    /// It may change with the cluster.
    client: Mutex<Client>,
    /// What opens the whole interface.
    command: String,
    used_at: Mutex<Instant>,
    answers: Arc<Semaphore>,
}

/// Opens the interface of a resource, and leads to it.
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

/// Where the interface is, with a token and at the job.
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

/// What opens the whole interface in a terminal.
fn command(key: &Key) -> String {
    format!("kubectl flink ui {} -n {}", key.argument(), key.namespace)
}

impl Proxies {
    /// The address of the door to a cluster, which is opened if it is not open.
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

/// What follows the token in an address, before the id of a job: what stands behind a `#` is not sent.
const JOB: &str = "job=";

/// Where the interface shows the job that an address names.
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

    /// Answers until nobody has asked for long.
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

/// Answers whom the guard lets in, and says to others what to do.
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
            // The style of the page that says so.
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

/// What changes something, or could be more than it seems.
async fn refuse_change(State(door): State<Arc<Door>>) -> Response {
    let text = format!(
        "The console only forwards requests that read. A job that is stopped behind the operator's back can lose its \
         state: stop, scale or restart it through its resource. If you know what you are doing, run: {}",
        door.command
    );
    said(StatusCode::METHOD_NOT_ALLOWED, "Flink's UI is read-only here", &text)
}

/// Has the JobManager answer.
async fn pass(State(door): State<Arc<Door>>, uri: Uri) -> Response {
    if let Some(asset) = assets::find(uri.path()) {
        return answers::file(asset);
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // Also of an API server that the path goes through nothing but this interface is asked.
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
