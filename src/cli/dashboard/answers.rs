//! The answers over HTTP: pages, their live parts, and files of the program. Each request is judged first.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, Request, State};
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

use crate::cli::table;
use console::assets;
use console::fleet::Fleet;
use console::guard::{Asked, Guard, Verdict};
use console::page::{self, EVENTS, Place};
use console::query::Query;

/// Pages that are live at the same time, in all tabs.
const LIVE_MAX: usize = 32;
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
    cluster: String,
    /// Absent where it is all of them.
    namespace: Option<String>,
    fleet: Mutex<Fleet>,
    changed: watch::Sender<()>,
    live: Arc<Semaphore>,
}

impl Console {
    pub(super) fn new(guard: Guard, cluster: String, namespace: Option<String>) -> Self {
        let (fleet, changed) = (Mutex::default(), watch::Sender::new(()));
        let live = Arc::new(Semaphore::new(LIVE_MAX));
        Self { guard, cluster, namespace, fleet, changed, live }
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
            cluster: &self.cluster,
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
    let Some(asset) = assets::find(uri.path()) else {
        let page =
            page::message("There is no such page", "The fleet is at the address / of the console.");
        return (StatusCode::NOT_FOUND, Html(page)).into_response();
    };
    let headers = [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, FOR_EVER)];
    (headers, asset.text).into_response()
}

/// The live parts of the fleet's page, as events.
async fn events(State(console): State<Arc<Console>>, RawQuery(query): RawQuery) -> Response {
    let Ok(permit) = Arc::clone(&console.live).try_acquire_owned() else {
        let page = page::message(
            "Too many live pages",
            &format!("At most {LIVE_MAX} are live at the same time. Close some of them."),
        );
        return (StatusCode::SERVICE_UNAVAILABLE, Html(page)).into_response();
    };
    let query = Query::parse(&query.unwrap_or_default());
    Sse::new(news(Following::new(console, query, permit)))
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// One live page.
struct Following {
    console: Arc<Console>,
    query: Query,
    changed: watch::Receiver<()>,
    /// What the page has of each fragment.
    sent: BTreeMap<&'static str, u64>,
    sent_at: Option<Instant>,
    _permit: OwnedSemaphorePermit,
}

impl Following {
    fn new(console: Arc<Console>, query: Query, permit: OwnedSemaphorePermit) -> Self {
        let changed = console.changed.subscribe();
        Self { console, query, changed, sent: BTreeMap::new(), sent_at: None, _permit: permit }
    }

    /// The fragments that the page does not have.
    fn news(&mut self) -> BTreeMap<&'static str, String> {
        self.changed.mark_unchanged();
        let fragments = page::fragments(self.console.place(), &self.console.fleet(), &self.query);
        let is_new = |(id, text): &(&'static str, String)| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let hash = hasher.finish();
            self.sent.insert(id, hash) != Some(hash)
        };
        fragments.into_iter().filter(is_new).collect()
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

fn news(following: Following) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold(following, |mut following| async move {
        loop {
            following.pause().await;
            let news = following.news();
            following.sent_at = Some(Instant::now());
            if !news.is_empty() {
                // Texts by their names can always be written.
                let event = Event::default().event("view").retry(RETRY).json_data(news).ok()?;
                return Some((Ok(event), following));
            }
        }
    })
}
