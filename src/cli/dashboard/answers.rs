//! The answers over HTTP: pages, their live parts, and files of the program. Each request is judged first.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use futures::Stream;
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::resource::{Looked, Reader};
use crate::cli::table;
use console::assets;
use console::fleet::Fleet;
use console::guard::{Asked, Guard, Verdict};
use console::page::resource::View;
use console::page::{self, EVENTS, Place};
use console::query::Query;
use console::resource::Standing;
use console::row::Key;

/// Pages that are live at the same time, in all tabs.
const LIVE_MAX: usize = 32;
/// Pages of one resource among them, each of which asks for a dozen things every few seconds.
const FOLLOWED_MAX: usize = 8;
/// Connections at the same time: those of live pages, and as many for all else.
pub(super) const CONNECTIONS_MAX: usize = 2 * LIVE_MAX;
/// The longest that a browser may take for the head of a request, or until it asks again.
pub(super) const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Every connection is ended after this, so that one that nobody reads does not stay.
pub(super) const CONNECTION_TIME_MAX: Duration = Duration::from_hours(1);
/// Pause between two changes of a live page: a person sees no more.
const PAUSE: Duration = Duration::from_millis(250);
/// Ages grow although nothing changes.
const AGING: Duration = Duration::from_secs(5);
/// Pause between two looks at one resource that changes.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// It is looked at again although nothing changes: Flink tells nothing by itself.
const LOOK: Duration = Duration::from_secs(5);
/// A browser that lost its connection waits so long before it makes another one.
const RETRY: Duration = Duration::from_secs(1);

/// Nothing but what the console itself has; and nobody shows it within a page of his own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// Of a file whose address changes with what is in it.
const FOR_EVER: &str = "private, max-age=31536000, immutable";

/// What watches tell and pages show.
pub(super) struct Console {
    pub(super) guard: Guard,
    cluster: Cluster,
    reader: Reader,
    /// Absent where it is all of them.
    namespace: Option<String>,
    fleet: Mutex<Fleet>,
    changed: watch::Sender<()>,
    live: Arc<Semaphore>,
    followed: Arc<Semaphore>,
}

/// The cluster, for a person.
pub(super) struct Cluster {
    /// The context of the kubeconfig.
    pub(super) name: String,
    /// Where its API server is.
    pub(super) host: String,
}

impl Console {
    pub(super) fn new(
        guard: Guard,
        cluster: Cluster,
        reader: Reader,
        namespace: Option<String>,
    ) -> Self {
        let (fleet, changed) = (Mutex::default(), watch::Sender::new(()));
        let live = Arc::new(Semaphore::new(LIVE_MAX));
        let followed = Arc::new(Semaphore::new(FOLLOWED_MAX));
        Self { guard, cluster, reader, namespace, fleet, changed, live, followed }
    }

    /// Changes what is known, and has live pages shown anew.
    pub(super) fn change(&self, change: impl FnOnce(&mut Fleet)) {
        change(&mut self.fleet());
        self.changed.send_replace(());
    }

    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> Place<'_> {
        Place {
            cluster: &self.cluster.name,
            host: &self.cluster.host,
            namespace: self.namespace.as_deref(),
            now: Timestamp::now().as_second(),
            age: table::age,
        }
    }
}

/// All that is answered, behind the guard.
pub(super) fn routes(console: &Arc<Console>) -> Router {
    Router::new()
        .route("/", get(fleet))
        .route(EVENTS, get(events))
        .route("/in/{namespace}/{kind}/{name}", get(resource))
        .route("/in/{namespace}/{kind}/{name}/events", get(resource_events))
        .fallback(get(asset))
        .method_not_allowed_fallback(|| async { StatusCode::METHOD_NOT_ALLOWED })
        .layer(middleware::from_fn_with_state(Arc::clone(console), guarded))
        .with_state(Arc::clone(console))
}

/// Answers whom the guard lets in, and says to others what to do.
async fn guarded(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let verdict = console.guard.judge(&asked(request.uri(), request.headers()));
    let mut response = match verdict {
        Verdict::Answer => next.run(request).await,
        Verdict::Enter { cookie, address, is_from_elsewhere } => {
            let mut response = if is_from_elsewhere {
                Html(page::forward(&address)).into_response()
            } else {
                (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
            };
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
        Verdict::Refuse(refusal) => {
            let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
            (status, Html(page::refusal(refusal))).into_response()
        }
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    // The fleet is nobody's to keep.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn asked<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Asked<'a> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    Asked {
        path: uri.path(),
        query: uri.query(),
        host: text(HOST),
        origin: text(ORIGIN),
        fetch_site: text(HeaderName::from_static("sec-fetch-site")),
        fetch_mode: text(HeaderName::from_static("sec-fetch-mode")),
        cookie: text(COOKIE),
    }
}

async fn fleet(State(console): State<Arc<Console>>, RawQuery(query): RawQuery) -> Html<String> {
    let query = Query::parse(&query.unwrap_or_default());
    Html(page::fleet(console.place(), &console.fleet(), &query))
}

async fn asset(uri: Uri) -> Response {
    let Some(asset) = assets::find(uri.path()) else { return no_such_page() };
    let headers = [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, FOR_EVER)];
    (headers, asset.text).into_response()
}

fn no_such_page() -> Response {
    let page =
        page::message("There is no such page", "The fleet is at the address / of the console.");
    (StatusCode::NOT_FOUND, Html(page)).into_response()
}

/// The parts of the address of a resource.
type Parts = Path<(String, String, String)>;

/// The resource that an address means, or why it is not shown.
fn meant(console: &Console, Path((namespace, kind, name)): &Parts) -> Result<Key, Box<Response>> {
    let key = Key::parse(namespace, kind, name).ok_or_else(|| Box::new(no_such_page()))?;
    match &console.namespace {
        Some(shown) if **shown != *key.namespace => {
            let page = page::message(
                &format!("Only namespace {shown} is shown"),
                "To see others as well, end the command and run it again: kubectl flink dashboard -A",
            );
            Err(Box::new((StatusCode::NOT_FOUND, Html(page)).into_response()))
        }
        _ => Ok(key),
    }
}

/// The page of one resource.
async fn resource(State(console): State<Arc<Console>>, parts: Parts) -> Response {
    let key = match meant(&console, &parts) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    let mut looked = Looked::new();
    looked.again(&console.reader, &key).await;
    let Looked { resource, standing } = &looked;
    let status = match standing {
        Standing::Absent | Standing::Gone { .. } => StatusCode::NOT_FOUND,
        Standing::Current | Standing::Lost { .. } => StatusCode::OK,
    };
    let view = View { key: &key, resource: resource.as_ref(), standing };
    (status, Html(page::resource::page(console.place(), view))).into_response()
}

/// The live parts of the fleet's page, as events.
async fn events(State(console): State<Arc<Console>>, RawQuery(query): RawQuery) -> Response {
    let Ok(permit) = Arc::clone(&console.live).try_acquire_owned() else {
        return too_many("live pages", LIVE_MAX);
    };
    let query = Query::parse(&query.unwrap_or_default());
    told(Following::new(console, query, permit))
}

/// The live parts of the page of one resource, as events.
async fn resource_events(State(console): State<Arc<Console>>, parts: Parts) -> Response {
    let key = match meant(&console, &parts) {
        Ok(key) => key,
        Err(refusal) => return *refusal,
    };
    let permits = [&console.live, &console.followed].map(|it| Arc::clone(it).try_acquire_owned());
    let [Ok(live), Ok(followed)] = permits else {
        return too_many("live pages of resources", FOLLOWED_MAX);
    };
    told(FollowingOne {
        changed: console.changed.subscribe(),
        console,
        key,
        looked: Looked::new(),
        version: None,
        looked_at: None,
        sent: Sent::default(),
        _permits: [live, followed],
    })
}

fn too_many(what: &str, most: usize) -> Response {
    let text = format!("At most {most} are live at the same time. Close some of them.");
    let page = page::message(&format!("Too many {what}"), &text);
    (StatusCode::SERVICE_UNAVAILABLE, Html(page)).into_response()
}

/// The fragments that a page has.
#[derive(Default)]
struct Sent(BTreeMap<&'static str, u64>);

type Fragments = BTreeMap<&'static str, String>;

impl Sent {
    /// Those that it does not have.
    fn news(&mut self, fragments: impl IntoIterator<Item = (&'static str, String)>) -> Fragments {
        let is_new = |(id, text): &(&'static str, String)| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let hash = hasher.finish();
            self.0.insert(id, hash) != Some(hash)
        };
        fragments.into_iter().filter(is_new).collect()
    }
}

/// A live page.
trait Live: Send + 'static {
    /// What there is to tell, as soon as there may be something.
    fn next(&mut self) -> impl Future<Output = Fragments> + Send;
}

/// One live page.
struct Following {
    console: Arc<Console>,
    query: Query,
    changed: watch::Receiver<()>,
    sent: Sent,
    sent_at: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Following {
    fn new(console: Arc<Console>, query: Query, permit: OwnedSemaphorePermit) -> Self {
        let changed = console.changed.subscribe();
        Self { console, query, changed, sent: Sent::default(), sent_at: None, _permit: permit }
    }

    /// Until there may be news, and the last ones are old enough.
    async fn pause(&mut self) {
        let Some(sent_at) = self.sent_at else { return };
        tokio::select! {
            // Its sender is in the console, which lives as long as this.
            _ = self.changed.changed() => {}
            () = sleep(AGING) => {}
        }
        sleep_until(sent_at + PAUSE).await;
    }
}

impl Live for Following {
    async fn next(&mut self) -> Fragments {
        self.pause().await;
        self.changed.mark_unchanged();
        let fragments = page::fragments(self.console.place(), &self.console.fleet(), &self.query);
        self.sent_at = Some(Instant::now());
        self.sent.news(fragments)
    }
}

/// The live page of one resource.
struct FollowingOne {
    console: Arc<Console>,
    key: Key,
    looked: Looked,
    /// What the fleet knew of it at the last look.
    version: Option<u64>,
    changed: watch::Receiver<()>,
    looked_at: Option<Instant>,
    sent: Sent,
    _permits: [OwnedSemaphorePermit; 2],
}

impl FollowingOne {
    fn version(&self) -> Option<u64> {
        self.console.fleet().version(&self.key)
    }

    /// Until it has changed, or was not looked at for a while.
    async fn pause(&mut self) {
        let Some(looked_at) = self.looked_at else { return };
        let changed = async {
            // Its sender is in the console, which lives as long as this.
            while self.console.fleet().version(&self.key) == self.version {
                drop(self.changed.changed().await);
            }
        };
        tokio::select! {
            () = changed => {}
            () = sleep_until(looked_at + LOOK) => {}
        }
        sleep_until(looked_at + LOOK_PAUSE).await;
    }
}

impl Live for FollowingOne {
    async fn next(&mut self) -> Fragments {
        self.pause().await;
        self.version = self.version();
        self.looked.again(&self.console.reader, &self.key).await;
        self.looked_at = Some(Instant::now());
        let Looked { resource, standing } = &self.looked;
        let view = View { key: &self.key, resource: resource.as_ref(), standing };
        let fragments = page::resource::fragments(self.console.place(), view);
        self.sent.news(fragments)
    }
}

/// What a live page is told, as events.
fn told(live: impl Live) -> Response {
    Sse::new(events_of(live)).keep_alive(KeepAlive::default()).into_response()
}

fn events_of(live: impl Live) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold(live, |mut live| async move {
        loop {
            let news = live.next().await;
            if !news.is_empty() {
                // Texts by their names can always be written.
                let event = Event::default().event("view").retry(RETRY).json_data(news).ok()?;
                return Some((Ok(event), live));
            }
        }
    })
}
