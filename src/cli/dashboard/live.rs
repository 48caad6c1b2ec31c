//! Pages that change while somebody looks at them, told as server-sent events.

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

/// Pages that are live at the same time, in all tabs.
pub(super) const LIVE_MAX: usize = 32;
/// Pages of one resource among them, each of which asks for a dozen things every few seconds.
const FOLLOWED_MAX: usize = 8;
/// Pause between two changes of a live page: a person sees no more.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Ages grow although nothing changes.
const AGING: Duration = Duration::from_secs(5);
/// Pause between two looks at one resource that changes.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// It is looked at again although nothing changes: Flink tells nothing by itself.
const LOOK: Duration = Duration::from_secs(5);
/// A browser that lost its connection waits so long before it makes another one.
const RETRY: Duration = Duration::from_secs(1);

/// Room for live pages.
pub(super) struct Room {
    live: Places,
    followed: Places,
    /// That of everybody, where this is one person's.
    shared: Option<Arc<Self>>,
}

/// So many at the same time.
struct Places {
    most: usize,
    free: Arc<Semaphore>,
}

/// Places that a live page takes.
pub(super) type Permits = Vec<OwnedSemaphorePermit>;

impl Default for Room {
    fn default() -> Self {
        Self::new(LIVE_MAX, FOLLOWED_MAX, None)
    }
}

impl Room {
    /// For so many pages, and so many of one resource among them.
    pub(super) fn new(live: usize, followed: usize, shared: Option<Arc<Self>>) -> Self {
        let places = |most| Places { most, free: Arc::new(Semaphore::new(most)) };
        Self { live: places(live), followed: places(followed), shared }
    }

    /// For the fleet, and for what a command says.
    pub(super) fn live(&self) -> Result<Permits, Refused> {
        self.take(|room| &room.live, "live pages")
    }

    /// For a page of one resource.
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

/// A page of one resource, which is looked at anew while somebody has it open.
pub(super) trait Page: Default + Send + 'static {
    const TAB: Tab;

    /// As the query of its address wants it.
    fn of(_query: &str) -> Self {
        Self::default()
    }

    /// Its parts as they are now, below the head.
    fn look(&mut self, console: &Console, key: &Key) -> impl Future<Output = Vec<Fragment>> + Send;

    /// What is told beside its parts while somebody has it open.
    fn beside(&mut self, _console: &Console, _key: &Key) -> BoxStream<'static, Event> {
        stream::empty().boxed()
    }

    /// What the look has shown of the resource; absent where the fleet knows as much.
    fn row(&self) -> Option<&Row> {
        None
    }

    /// Whether there is such a resource, as far as the look has shown.
    fn is_there(&self) -> bool {
        true
    }
}

/// All parts of the page as they are now.
pub(super) async fn look<P: Page>(page: &mut P, console: &Console, key: &Key) -> Vec<Fragment> {
    let parts = page.look(console, key).await;
    let row = page.row().cloned().or_else(|| console.row(key));
    let actions =
        if page.is_there() { console.actions(key, row.as_ref()).await } else { Vec::new() };
    let head = page::resource::head(console.place(), key, P::TAB, row.as_ref(), &actions);
    std::iter::once(head).chain(parts).collect()
}

/// The live parts of the fleet's page, as events.
pub(super) async fn events(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let permits = console.room.live()?;
    let query = Query::parse(&query.unwrap_or_default());
    Ok(told(Following::new(console, query, permits)))
}

/// The live parts of a page of one resource, as events.
pub(super) async fn resource_events<P: Page>(
    State(console): State<Arc<Console>>,
    parts: Parts,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let key = meant(&console, &parts)?;
    let permits = console.room.followed()?;
    let mut page = P::of(&query.unwrap_or_default());
    let beside = page.beside(&console, &key);
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
    Ok(told_with(following, beside))
}

/// The fragments that a page has.
#[derive(Default)]
pub(super) struct Sent(BTreeMap<&'static str, u64>);

pub(super) type Fragments = BTreeMap<&'static str, String>;

impl Sent {
    /// Those that it does not have.
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
    _permits: Permits,
}

impl Following {
    fn new(console: Arc<Console>, query: Query, permits: Permits) -> Self {
        let changed = console.known.changes();
        Self { console, query, changed, sent: Sent::default(), sent_at: None, _permits: permits }
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
    /// What the fleet knew of it at the last look.
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

    /// Until it has changed, or was not looked at for a while.
    async fn pause(&mut self) {
        let Some(looked_at) = self.looked_at else { return };
        let changed = async {
            loop {
                let rights = self.console.rights();
                if self.console.fleet().seen_by(&rights).version(&self.key) != self.version {
                    return;
                }
                // Its sender is in the console, which lives as long as this.
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
        let fragments = look(&mut self.page, &self.console, &self.key).await;
        self.looked_at = Some(Instant::now());
        self.sent.news(fragments)
    }
}

/// What a live page is told, as events.
pub(super) fn told(live: impl Live) -> Response {
    told_with(live, stream::empty())
}

/// The same, with others beside them.
fn told_with(live: impl Live, beside: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = stream::select(events_of(live), beside.map(Ok));
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
                // Texts by their names can always be written.
                let event = Event::default().event("view").retry(RETRY).json_data(news).ok()?;
                return Some((Ok(event), live));
            }
        }
    })
}
