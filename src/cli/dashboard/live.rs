//! Live pages, which are updated by server-sent events while they are open.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::answers::{Console, Parts, Refused, meant};
use super::figures;
use console::fleet::View;
use console::page;
use console::page::Place;
use console::page::resource::{Fragment, Tab};
use console::query::Query;
use console::row::{Key, Row};

/// Maximum number of live pages in all tabs.
pub(super) const LIVE_MAX: usize = 32;
/// Maximum number of live pages of single resources. Each sends a dozen requests every few seconds.
const FOLLOWED_MAX: usize = 8;
/// Pause between two updates of a live page. People cannot follow faster ones.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Time between updates if nothing changes, because ages grow.
const AGING: Duration = Duration::from_secs(5);
/// Pause between two reads of one resource that changes.
const POLL_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a resource is read again even if it has not changed, because Flink sends no notifications.
const POLL: Duration = Duration::from_secs(5);
/// Time that a browser waits before it reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// Limits the number of live pages.
pub(super) struct Room {
    live: Places,
    followed: Places,
    /// The limits for all people, if `self` is for one person.
    shared: Option<Arc<Self>>,
}

/// Limits the pages of one kind.
struct Places {
    most: usize,
    free: Arc<Semaphore>,
}

/// What a live page holds while it is open.
pub(super) type Permits = Vec<OwnedSemaphorePermit>;

impl Default for Room {
    fn default() -> Self {
        Self::new(LIVE_MAX, FOLLOWED_MAX, None)
    }
}

impl Room {
    /// Allows `live` pages, of which `followed` may be pages of one resource.
    pub(super) fn new(live: usize, followed: usize, shared: Option<Arc<Self>>) -> Self {
        let places = |most| Places { most, free: Arc::new(Semaphore::new(most)) };
        Self { live: places(live), followed: places(followed), shared }
    }

    /// Admits a page of the fleet or of the output of a command.
    pub(super) fn live(&self) -> Result<Permits, Refused> {
        self.take(|room| &room.live, "live pages")
    }

    /// Admits a page of one resource.
    pub(super) fn followed(&self) -> Result<Permits, Refused> {
        let mut permits = self.take(|room| &room.followed, "live pages of resources")?;
        permits.extend(self.live()?);
        Ok(permits)
    }

    fn take(&self, of: fn(&Self) -> &Places, what: &str) -> Result<Permits, Refused> {
        let places = std::iter::once(self).chain(self.shared.as_deref()).map(of);
        let take = |Places { most, free }: &Places| {
            Arc::clone(free).try_acquire_owned().map_err(|_| too_many(what, *most))
        };
        places.map(take).collect()
    }
}

fn too_many(what: &str, most: usize) -> Refused {
    let text = format!("At most {most} can be live at a time. Close some of them.");
    Refused::new(StatusCode::SERVICE_UNAVAILABLE, &format!("Too many {what}"), &text)
}

/// A page of one resource, which is refreshed while it is open.
pub(super) trait Page: Default + Send + 'static {
    const TAB: Tab;

    /// Creates the page that the query of its address selects.
    fn of(_query: &str) -> Self {
        Self::default()
    }

    /// Reads the resource and returns the parts below the head.
    fn read(&mut self, console: &Console, key: &Key) -> impl Future<Output = Vec<Fragment>> + Send;

    /// Returns events that are sent along with the parts while the page is open.
    fn others(&mut self, _console: &Console, _key: &Key) -> BoxStream<'static, Event> {
        stream::empty().boxed()
    }

    /// Returns the row from the last read; `None` if the row in the fleet is as good.
    fn row(&self) -> Option<&Row> {
        None
    }

    /// Returns whether the resource existed at the last read.
    fn is_there(&self) -> bool {
        true
    }
}

/// Returns all current parts of the page.
pub(super) async fn read<P: Page>(page: &mut P, console: &Console, key: &Key) -> Vec<Fragment> {
    let parts = page.read(console, key).await;
    let row = page.row().cloned().or_else(|| console.row(key));
    let actions =
        if page.is_there() { console.actions(key, row.as_ref()).await } else { Vec::new() };
    let head = page::resource::head(console.place(), key, P::TAB, row.as_ref(), &actions);
    std::iter::once(head).chain(parts).collect()
}

/// Streams the live parts of the fleet's page.
pub(super) async fn events(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let permits = console.room.live()?;
    let query = Query::parse(&query.unwrap_or_default());
    Ok(respond(Following::new(console, query, permits)))
}

/// Streams the live parts of a page of one resource.
pub(super) async fn resource_events<P: Page>(
    State(console): State<Arc<Console>>,
    parts: Parts,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let key = meant(&console, &parts)?;
    let permits = console.room.followed()?;
    let mut page = P::of(&query.unwrap_or_default());
    let others = page.others(&console, &key);
    let following = FollowingOne {
        changed: console.known.changes(),
        console,
        key,
        page,
        version: None,
        looked_at: None,
        sent: Sent::default(),
        _permits: permits,
    };
    Ok(streamed_with(following, others))
}

/// Hashes of the fragments that a page has, by id.
#[derive(Default)]
pub(super) struct Sent(BTreeMap<&'static str, u64>);

pub(super) type Fragments = BTreeMap<&'static str, String>;

impl Sent {
    /// Returns those fragments that the page does not have.
    pub(super) fn news(&mut self, fragments: impl IntoIterator<Item = Fragment>) -> Fragments {
        let is_new = |(id, text): &Fragment| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let hash = hasher.finish();
            self.0.insert(id, hash) != Some(hash)
        };
        fragments.into_iter().filter(is_new).collect()
    }
}

/// A live page.
pub(super) trait Live: Send + 'static {
    fn console(&self) -> &Arc<Console>;

    /// Returns the next update as soon as there may be one.
    fn next(&mut self) -> impl Future<Output = Fragments> + Send;
}

/// The live page of the fleet.
struct Following {
    console: Arc<Console>,
    query: Query,
    changed: watch::Receiver<()>,
    sent: Sent,
    sent_at: Option<Instant>,
    _permits: Permits,
}

impl Following {
    fn new(console: Arc<Console>, query: Query, permits: Permits) -> Self {
        let changed = console.known.changes();
        Self { console, query, changed, sent: Sent::default(), sent_at: None, _permits: permits }
    }

    /// Waits until there may be news and the last update is old enough.
    async fn pause(&mut self) {
        let Some(sent_at) = self.sent_at else { return };
        tokio::select! {
            // Cannot fail: the sender is in the console, which lives as long as `self`.
            _ = self.changed.changed() => {}
            () = sleep(AGING) => {}
        }
        sleep_until(sent_at + PAUSE).await;
    }
}

impl Live for Following {
    fn console(&self) -> &Arc<Console> {
        &self.console
    }

    async fn next(&mut self) -> Fragments {
        self.pause().await;
        if !self.console.is_let_in().await {
            return Fragments::default();
        }
        self.changed.mark_unchanged();
        figures::refresh(&self.console, &self.query);
        let query = &self.query;
        let show = |place: Place<'_>, fleet: View<'_>| page::fragments(place, fleet, query);
        let fragments = self.console.show(show).await;
        self.sent_at = Some(Instant::now());
        self.sent.news(fragments)
    }
}

/// The live page of one resource.
struct FollowingOne<P> {
    console: Arc<Console>,
    key: Key,
    page: P,
    /// Version of the resource in the fleet at the last read.
    version: Option<u64>,
    changed: watch::Receiver<()>,
    looked_at: Option<Instant>,
    sent: Sent,
    _permits: Permits,
}

impl<P> FollowingOne<P> {
    fn version(&self) -> Option<u64> {
        let rights = self.console.rights();
        self.console.fleet().seen_by(&rights).version(&self.key)
    }

    /// Waits until the resource has changed or has not been read for a while.
    async fn pause(&mut self) {
        let Some(looked_at) = self.looked_at else { return };
        let changed = async {
            loop {
                let rights = self.console.rights();
                if self.console.fleet().seen_by(&rights).version(&self.key) != self.version {
                    return;
                }
                // Cannot fail: the sender is in the console, which lives as long as `self`.
                drop(self.changed.changed().await);
            }
        };
        tokio::select! {
            () = changed => {}
            () = sleep_until(looked_at + POLL) => {}
        }
        sleep_until(looked_at + POLL_PAUSE).await;
    }
}

impl<P: Page> Live for FollowingOne<P> {
    fn console(&self) -> &Arc<Console> {
        &self.console
    }

    async fn next(&mut self) -> Fragments {
        self.pause().await;
        if !self.console.is_let_in().await {
            return Fragments::default();
        }
        self.version = self.version();
        let fragments = read(&mut self.page, &self.console, &self.key).await;
        self.looked_at = Some(Instant::now());
        self.sent.news(fragments)
    }
}

/// Streams the updates of a live page.
pub(super) fn respond(live: impl Live) -> Response {
    streamed_with(live, stream::empty())
}

/// Streams the updates of a live page along with other events.
fn streamed_with(live: impl Live, others: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = stream::select(events_of(live), others.map(Ok));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn events_of(live: impl Live) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(live, |mut live| async move {
        let console = Arc::clone(live.console());
        loop {
            let news = tokio::select! {
                biased;
                () = console.end() => return None,
                news = live.next() => news,
            };
            if !news.is_empty() {
                // Serializing a map of strings cannot fail.
                let event = Event::default().event("view").retry(RETRY).json_data(news).ok()?;
                return Some((Ok(event), live));
            }
        }
    })
}
