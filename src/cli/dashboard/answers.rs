//! Responses over HTTP: pages, their live parts, and embedded files. Each request is checked first.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;

use super::act::{self, Acts};
use super::figures::Measured;
use super::flink_ui::{self, Proxies};
use super::known::Known;
use super::live::{self, LIVE_MAX, Page, Room};
use super::logs::Logs;
use super::pod::pace::Pace;
use super::pod::person::Person;
use super::resource::{PageData, Reader};
use super::{autoscaler, config, job};
use crate::cli::table;
use console::action::Action;
use console::assets::{self, Asset};
use console::fleet::{Fleet, View};
use console::guard::{Asked, Guard, Verdict};
use console::page::resource::FLINK_UI;
use console::page::{self, EVENTS, Place, Visitor};
use console::query::Query;
use console::rights::Rights;
use console::row::{Key, Kind, Row};

/// Maximum number of connections: those of live pages, and as many for everything else.
pub(super) const CONNECTIONS_MAX: usize = 2 * LIVE_MAX;
/// Maximum time for the head of a request, and until the next request on the same connection.
pub(super) const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum age of a connection, so that one that no one reads does not stay.
pub(super) const CONNECTION_TIME_MAX: Duration = Duration::from_hours(1);

/// Allows only what the console itself serves, and no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Headers of every response.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Without a referrer, browsers would not send the origin of a form.
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// For files whose address changes with their content.
const FOR_EVER: &str = "private, max-age=31536000, immutable";

/// The address of a resource.
const RESOURCE: &str = "/in/{namespace}/{kind}/{name}";

/// The console of one person.
pub(super) struct Console {
    pub(super) door: Door,
    pub(super) cluster: Cluster,
    pub(super) reader: Reader,
    /// `None` if the console is read-only.
    pub(super) acts: Option<Acts>,
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) known: Arc<Known>,
    pub(super) room: Room,
    /// Figures of the jobs on pages of the fleet. `None` if people who may not ask for them would see them.
    pub(super) measured: Option<Measured>,
    /// Read-only access to Flink's own UI. `None` if no ports can be opened for it.
    pub(super) proxies: Option<Proxies>,
}

/// Who has access.
pub(super) enum Door {
    /// The person who runs the console, who may do everything that the API server lets them do.
    Own(Guard),
    /// A person who has signed in to the console of a pod, which is read-only.
    Pod(Arc<Person>, Arc<Pace>),
}

/// How the cluster is shown to a person.
pub(super) struct Cluster {
    /// Context of the kubeconfig, or the name set for the console of a pod.
    pub(super) name: String,
    /// Host of its API server.
    pub(super) host: String,
}

impl Console {
    pub(super) fn new(
        guard: Guard,
        cluster: Cluster,
        reader: Reader,
        acts: Option<Acts>,
        namespace: Option<String>,
    ) -> Self {
        Self {
            door: Door::Own(guard),
            cluster,
            reader,
            acts,
            namespace,
            known: Arc::default(),
            room: Room::default(),
            measured: Some(Measured::default()),
            proxies: Some(Proxies::default()),
        }
    }

    /// Returns the actions that the person may run on a resource.
    pub(super) async fn actions(&self, key: &Key, row: Option<&Row>) -> Vec<Action> {
        match &self.acts {
            Some(acts) => acts.of(key, row).await,
            None => Vec::new(),
        }
    }

    pub(super) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.known.fleet()
    }

    /// Returns the secret in the forms of this console; empty if the console is read-only.
    pub(super) fn form(&self) -> &str {
        match &self.door {
            Door::Own(guard) => guard.form(),
            Door::Pod(..) => "",
        }
    }

    /// Returns whether a form belongs to this console, by the secret in it.
    pub(super) fn is_own_form(&self, given: &str) -> bool {
        match &self.door {
            Door::Own(guard) => guard.is_own_form(given),
            Door::Pod(..) => false,
        }
    }

    /// Returns the row of a resource if the person may see it.
    pub(super) fn row(&self, key: &Key) -> Option<Row> {
        self.fleet().seen_by(&self.rights()).row(key).cloned()
    }

    /// Returns the rights that decide which rows are shown.
    pub(super) fn rights(&self) -> Arc<Rights> {
        match &self.door {
            Door::Own(_) => Arc::new(Rights::ALL),
            Door::Pod(person, _) => person.rights(),
        }
    }

    /// Renders the rows that may be shown. In a pod, this waits for its turn.
    pub(super) async fn show<T>(&self, show: impl FnOnce(Place<'_>, View<'_>) -> T) -> T {
        let show = || {
            let rights = self.rights();
            show(self.place(), self.fleet().seen_by(&rights))
        };
        match &self.door {
            Door::Own(_) => show(),
            Door::Pod(_, pace) => pace.make(show).await,
        }
    }

    /// Checks again whether the person still has access, if the last check is too old.
    pub(super) async fn is_let_in(&self) -> bool {
        match &self.door {
            Door::Own(_) => true,
            Door::Pod(person, _) => person.renew().await.is_ok(),
        }
    }

    /// Completes when the person loses access.
    pub(super) async fn end(&self) {
        match &self.door {
            Door::Own(_) => std::future::pending().await,
            Door::Pod(person, _) => person.ended().await,
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place {
            cluster: &self.cluster.name,
            host: &self.cluster.host,
            namespace: self.namespace.as_deref(),
            can_deploy: self.acts.as_ref().is_some_and(|acts| acts.may_deploy),
            now: Timestamp::now().as_second(),
            age: table::age,
            visitor: match &self.door {
                Door::Own(_) => None,
                Door::Pod(person, _) => Some(Visitor {
                    name: person.name(),
                    may_sign_out: person.is_signed_in,
                    is_everywhere: person.rights().is_everywhere(Kind::Deployment),
                }),
            },
        }
    }
}

/// All routes, behind the guard.
pub(super) fn routes(console: &Arc<Console>) -> Router {
    Router::new()
        .route("/", get(fleet))
        .route(EVENTS, get(live::events))
        .merge(pages_of::<PageData>())
        .merge(pages_of::<job::PageData>())
        .merge(pages_of::<config::PageData>())
        .merge(pages_of::<autoscaler::PageData>())
        .merge(pages_of::<Logs>())
        .route(&format!("{RESOURCE}{FLINK_UI}"), get(flink_ui::open))
        .merge(act::routes())
        .fallback(get(asset))
        .method_not_allowed_fallback(|| async { StatusCode::METHOD_NOT_ALLOWED })
        .layer(middleware::from_fn_with_state(Arc::clone(console), guarded))
        .with_state(Arc::clone(console))
}

/// Routes of a page of a resource and of its events.
fn pages_of<P: Page>() -> Router<Arc<Console>> {
    let address = format!("{RESOURCE}{}", P::TAB.path());
    Router::new()
        .route(&format!("{address}{}", page::resource::EVENTS), get(live::resource_events::<P>))
        .route(&address, get(resource::<P>))
}

/// Answers requests that the guard allows, and explains to others what to do.
async fn guarded(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let verdict = match &console.door {
        Door::Own(guard) => guard.judge(&asked(request.method(), request.uri(), request.headers())),
        // The gate of the pod has already checked the request.
        Door::Pod(..) => Verdict::Answer,
    };
    let response = match verdict {
        Verdict::Answer => next.run(request).await,
        Verdict::Enter { cookie, address, is_from_elsewhere } => {
            entered(&cookie, &address, is_from_elsewhere)
        }
        Verdict::Refuse(refusal) => {
            let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
            (status, Html(page::refusal(refusal))).into_response()
        }
    };
    dressed(response)
}

/// Sets the cookie for a browser that has shown the token, and redirects it.
pub(super) fn entered(cookie: &str, address: &str, is_from_elsewhere: bool) -> Response {
    let mut response = if is_from_elsewhere {
        Html(page::forward(address)).into_response()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
    };
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Adds the headers of every response, unless it has its own.
pub(super) fn dressed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    // No cache may keep the fleet.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

pub(super) fn asked<'a>(method: &Method, uri: &'a Uri, headers: &'a HeaderMap) -> Asked<'a> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    Asked {
        path: uri.path(),
        query: uri.query(),
        host: text(HOST),
        origin: text(ORIGIN),
        fetch_site: text(HeaderName::from_static("sec-fetch-site")),
        fetch_mode: text(HeaderName::from_static("sec-fetch-mode")),
        cookie: text(COOKIE),
        authorization: text(AUTHORIZATION),
        is_write: !method.is_safe(),
        is_get: *method == Method::GET,
    }
}

async fn fleet(State(console): State<Arc<Console>>, RawQuery(query): RawQuery) -> Html<String> {
    let query = Query::parse(&query.unwrap_or_default());
    Html(console.show(|place, fleet| page::fleet(place, fleet, &query)).await)
}

pub(super) async fn asset(uri: Uri) -> Response {
    assets::find(uri.path()).map_or_else(|| Refused::no_such_page().into_response(), file)
}

/// Responds with an embedded file.
pub(super) fn file(asset: Asset) -> Response {
    let headers = [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, FOR_EVER)];
    (headers, asset.text).into_response()
}

/// A response that explains why a request was refused.
pub(super) struct Refused(Box<Response>);

impl Refused {
    /// Creates a page with a single message.
    pub(super) fn new(status: StatusCode, title: &str, text: &str) -> Self {
        Self(Box::new((status, Html(page::message(title, text))).into_response()))
    }

    /// The response for an address that does not exist.
    pub(super) fn no_such_page() -> Self {
        let text = "The fleet is at /.";
        Self::new(StatusCode::NOT_FOUND, "Page not found", text)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// Path parameters of a resource.
pub(super) type Parts = Path<(String, String, String)>;

/// Returns the resource that an address names, or a response that explains why it is not shown.
pub(super) fn meant(
    console: &Console,
    Path((namespace, kind, name)): &Parts,
) -> Result<Key, Refused> {
    let key = Key::parse(namespace, kind, name).ok_or_else(Refused::no_such_page)?;
    match &console.namespace {
        Some(shown) if **shown != *key.namespace => Err(Refused::new(
            StatusCode::NOT_FOUND,
            &format!("Only namespace {shown} is shown"),
            "To see others too, stop the command and run: kubectl flink dashboard -A",
        )),
        _ => Ok(key),
    }
}

/// Renders a page of one resource.
async fn resource<P: Page>(
    State(console): State<Arc<Console>>,
    parts: Parts,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let key = meant(&console, &parts)?;
    let mut page = P::of(&query.unwrap_or_default());
    let fragments = live::read(&mut page, &console, &key).await;
    let status = if page.is_there() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let page = page::resource::page(console.place(), &key, P::TAB, &fragments);
    Ok((status, Html(page)).into_response())
}
