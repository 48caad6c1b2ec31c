//! The console in a pod of the operator: read-only, for people who sign in with a token of the cluster.
//!
//! As soon as someone opens a page, the operator watches the fleet with its own rights, and asks the API server which
//! rows each person may list. Everything about a single resource is read with the person's own token, including what
//! JobManagers report through the API server. So no one sees more than `kubectl` would show them. The console has its
//! own thread: the operator's work never waits for it.

mod front;
pub(in crate::cli::dashboard) mod pace;
pub(in crate::cli) mod person;
pub(in crate::cli) mod watching;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use futures::FutureExt;
use kube::config::AuthInfo;
use kube::{Client, Config};
use operator::http::{self, Listener};
use strum::IntoEnumIterator;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::pace::Pace;
use self::person::{Out, Person, Reviews, Token};
use self::watching::{Operated, Watching};
use super::answers::{self, Cluster, Console, Door};
use super::known::Known;
use super::live::Room;
use super::resource::Reader;
use crate::cli::connection::Connection;
use clients::flink::access::Access;
use console::gate::Credential;
use console::page::sign_in::Reason;
use console::row::{Key, Kind};
use console::visitors::{Mark, Visitors};
use metrics::{Metrics, Saved};

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 256;
/// Maximum number of live pages, and of those of single resources among them.
const LIVE_MAX: usize = 96;
const FOLLOWED_MAX: usize = 24;
/// The same limits for one visitor.
const LIVE_OF_ONE_MAX: usize = 8;
const FOLLOWED_OF_ONE_MAX: usize = 4;
/// Maximum number of resources read at the same time; others wait.
const READS_MAX: usize = 8;
/// Maximum time that a page waits for the first list of the fleet after the watches have started.
const LISTED_MAX: Duration = Duration::from_secs(2);
/// Pause between two sweeps for what has expired.
const SWEEP: Duration = Duration::from_secs(15);
/// Time that the fleet is still watched after the last visit.
const IDLE_MAX: Duration = Duration::from_mins(15);
/// Maximum number of threads for DNS lookups, in addition to the one that does everything else.
const BLOCKING_MAX: usize = 2;

/// Settings from `operate`.
pub(in crate::cli) struct Settings {
    pub(in crate::cli) port: u16,
    /// Display name of the cluster.
    pub(in crate::cli) cluster: String,
    /// Time after which the identity and the rights of a person are checked again.
    pub(in crate::cli) review_interval: Duration,
    /// How the operator connects to the API server.
    pub(in crate::cli) config: Config,
    /// What the operator itself knows of running jobs.
    pub(in crate::cli) metrics: Metrics,
    /// Returns what is operated now; `None` if its configuration cannot be read.
    pub(in crate::cli) operated: Box<dyn Fn() -> Option<Operated> + Send + Sync>,
}

/// A running console, which ends when this is dropped.
pub(in crate::cli) struct Serving {
    pub(in crate::cli) port: u16,
    _end: oneshot::Sender<()>,
}

/// Starts the console on its own thread.
///
/// # Errors
/// Returns an error if the port cannot be opened or a client cannot be created.
pub(in crate::cli) async fn serve(settings: Settings) -> anyhow::Result<Serving> {
    let (end, ended) = oneshot::channel();
    let (began, beginning) = oneshot::channel();
    let thread = std::thread::Builder::new().name("console".to_owned());
    thread.spawn(move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(began.send(Err(error.into()))),
        };
        runtime.block_on(async {
            let (listener, pod) = match open(settings).await {
                Ok(open) => open,
                Err(error) => return drop(began.send(Err(error))),
            };
            drop(began.send(listener.port().context("while opening the console")));
            tokio::select! {
                () = answer(listener, &pod) => {}
                never = sweep(&pod) => match never {},
                _ = ended => {}
            }
        });
        runtime.shutdown_background();
    })?;
    let port = beginning.await.context("the console's thread stopped")??;
    Ok(Serving { port, _end: end })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(BLOCKING_MAX).build()
}

async fn open(settings: Settings) -> anyhow::Result<(Listener, Arc<Pod>)> {
    let listener = Listener::open(settings.port).await.context("while opening the console")?;
    Ok((listener, Arc::new(Pod::new(settings)?)))
}

async fn answer(listener: Listener, pod: &Arc<Pod>) {
    let routes = Router::new().fallback(front::front).with_state(Arc::clone(pod));
    let serving = listener.each(CONNECTIONS_MAX, |stream| {
        let answered = http::converse(stream, routes.clone(), answers::HEAD_TIME_MAX, true);
        timeout(answers::CONNECTION_TIME_MAX, answered).map(drop)
    });
    serving.await;
}

/// Removes what has expired. Does not return.
async fn sweep(pod: &Pod) -> std::convert::Infallible {
    let mut ticks = interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        pod.sweep();
    }
}

/// A person who has access, with their own console.
#[derive(Clone)]
struct Visitor {
    person: Arc<Person>,
    routes: Router,
}

impl Visitor {
    /// Ends the live pages of a session. A page that is open through a proxy checks its access again by itself.
    fn end(&self) {
        if self.person.is_signed_in {
            self.person.end();
        }
    }
}

/// The console of all visitors.
struct Pod {
    cluster: String,
    config: Config,
    known: Arc<Known>,
    reviews: Arc<Reviews>,
    watching: Watching,
    metrics: Metrics,
    room: Arc<Room>,
    pace: Arc<Pace>,
    turns: Arc<Semaphore>,
    visitors: Mutex<Visitors<Visitor>>,
    began: Instant,
}

/// Response to a person without access.
enum Refused {
    SignIn(Reason),
    /// The person cannot be identified, for this reason.
    Unanswered(String),
}

impl From<Out> for Refused {
    fn from(out: Out) -> Self {
        match out {
            Out::Unknown => Self::SignIn(Reason::Wrong),
            Out::Unanswered(message) => Self::Unanswered(message),
        }
    }
}

impl Pod {
    fn new(settings: Settings) -> anyhow::Result<Self> {
        let Settings { cluster, mut config, review_interval, metrics, operated, .. } = settings;
        config.default_retry = false;
        let client = Client::try_from(config.clone()).context("while preparing the connection")?;
        let known = Arc::<Known>::default();
        let reviews = Reviews::new(client.clone(), Arc::clone(&known), review_interval);
        Ok(Self {
            cluster,
            config,
            reviews: Arc::new(reviews),
            watching: Watching::new(client, Arc::clone(&known), operated),
            known,
            metrics,
            room: Arc::new(Room::new(LIVE_MAX, FOLLOWED_MAX, None)),
            pace: Arc::default(),
            turns: Arc::new(Semaphore::new(READS_MAX)),
            visitors: Mutex::default(),
            began: Instant::now(),
        })
    }

    fn visitors(&self) -> MutexGuard<'_, Visitors<Visitor>> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep(&self) {
        let now = self.began.elapsed();
        let mut visitors = self.visitors();
        visitors.sweep(now).iter().for_each(Visitor::end);
        let is_idle = visitors.last_seen().is_none_or(|seen| now.saturating_sub(seen) >= IDLE_MAX);
        drop(visitors);
        if is_idle && !self.known.is_followed() {
            self.watching.stop();
        } else {
            self.watching.keep_up();
            self.show_what_is_saved();
        }
    }

    /// Adds to the rows of running jobs when their newest checkpoints were taken.
    fn show_what_is_saved(&self) {
        let saved = self.metrics.all_saved();
        self.known.change(|fleet| {
            for (id, Saved { newest, .. }) in saved {
                let kind = Kind::iter().find(|kind| kind.to_string() == id.kind.into_str());
                if let (Some(kind), Some(newest)) = (kind, newest) {
                    let (namespace, name) = ((*id.namespace).into(), id.name.clone());
                    fleet.save(&Key { namespace, name, kind }, newest.as_second());
                }
            }
        });
    }

    /// Returns the visitor with this credential if they have access.
    async fn find(&self, credential: Option<Credential<'_>>) -> Result<Visitor, Refused> {
        let Some(credential) = credential else { return Err(Refused::SignIn(Reason::New)) };
        let mark = Mark::of(credential);
        let found = self.visitors().find(mark, self.began.elapsed()).cloned();
        let visitor = match (found, credential) {
            (Some(visitor), _) => visitor,
            (None, Credential::Session(_)) => return Err(Refused::SignIn(Reason::Ended)),
            (None, Credential::Token(token)) => self.enter(Token(token.to_owned()), None).await?,
        };
        self.watching.begin();
        self.known.listed(LISTED_MAX).await;
        if let Err(out) = visitor.person.renew().await {
            if out == Out::Unknown {
                self.visitors().leave(mark);
            }
            return Err(match (out, credential) {
                (Out::Unknown, Credential::Session(_)) => Refused::SignIn(Reason::Ended),
                (out, _) => out.into(),
            });
        }
        Ok(visitor)
    }

    /// Admits the owner of the token: for the session with this id or, without one, as long as the token is sent.
    async fn enter(&self, token: Token, session: Option<&str>) -> Result<Visitor, Refused> {
        let person = Person::enter(token, session.is_some(), &self.reviews).await?;
        let visitor = self.visitor(Arc::new(person)).map_err(|error| {
            tracing::error!(error = format!("{error:#}"), "no one can sign in to the console");
            Refused::Unanswered("the operator cannot create a client".to_owned())
        })?;
        let Visitor { person, .. } = &visitor;
        let credential =
            session.map_or_else(|| Credential::Token(person.token()), Credential::Session);
        let now = self.began.elapsed();
        let left = self.visitors().enter(credential, &person.identity(), visitor.clone(), now);
        left.iter().for_each(Visitor::end);
        tracing::info!(user = person.name(), "signed in to the console");
        Ok(visitor)
    }

    /// Creates the console of a person, which reads with their token.
    fn visitor(&self, person: Arc<Person>) -> anyhow::Result<Visitor> {
        let config = lent(&self.config, person.token());
        let host = config.cluster_url.host().unwrap_or_default().to_owned();
        // The pod is one of the operator's own.
        let operator_namespace = config.default_namespace.clone();
        let connection = Connection {
            client: Client::try_from(config.clone())?,
            namespace: operator_namespace.clone(),
            config: Some(config),
            rest_address: None,
            is_lent: true,
        };
        let reader =
            Reader::new(connection, Access::Proxy, operator_namespace, Arc::clone(&self.turns));
        let cluster = Cluster { name: self.cluster.clone(), host };
        let room = Room::new(LIVE_OF_ONE_MAX, FOLLOWED_OF_ONE_MAX, Some(Arc::clone(&self.room)));
        let door = Door::Pod(Arc::clone(&person), Arc::clone(&self.pace));
        let known = Arc::clone(&self.known);
        let console = Console {
            door,
            cluster,
            reader,
            acts: None,
            namespace: None,
            known,
            room,
            measured: None,
            proxies: None,
        };
        Ok(Visitor { person, routes: answers::routes(&Arc::new(console)) })
    }
}

/// Returns the configuration for the same API server with another token. None of the operator's own credentials are
/// copied.
fn lent(config: &Config, token: &str) -> Config {
    let mut lent = Config::new(config.cluster_url.clone());
    lent.default_namespace.clone_from(&config.default_namespace);
    lent.root_cert.clone_from(&config.root_cert);
    lent.root_cert_file.clone_from(&config.root_cert_file);
    lent.connect_timeout = config.connect_timeout;
    lent.read_timeout = config.read_timeout;
    lent.write_timeout = config.write_timeout;
    lent.reset_reader_on_write = config.reset_reader_on_write;
    lent.accept_invalid_certs = config.accept_invalid_certs;
    lent.disable_compression = config.disable_compression;
    lent.proxy_url.clone_from(&config.proxy_url);
    lent.tls_server_name.clone_from(&config.tls_server_name);
    lent.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    lent.default_retry = false;
    lent
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::AUTHORIZATION;

    use super::*;

    #[test]
    fn nothing_of_the_operators_own_credentials_is_lent() {
        let mut config = Config::new("https://10.0.0.1".parse().unwrap());
        config.root_cert = Some(vec![vec![1]]);
        config.tls_server_name = Some("kubernetes".to_owned());
        config.headers = vec![(AUTHORIZATION, HeaderValue::from_static("Bearer own"))];
        config.auth_info = AuthInfo {
            token_file: Some("/var/run/secrets/token".to_owned()),
            client_key: Some("/key".to_owned()),
            impersonate: Some("admin".to_owned()),
            username: Some("own".to_owned()),
            ..AuthInfo::default()
        };
        let lent = lent(&config, "theirs");
        let own = AuthInfo { token: Some("theirs".to_owned().into()), ..AuthInfo::default() };
        let text = |info: &AuthInfo| serde_json::to_string(info).unwrap();
        assert_eq!(text(&lent.auth_info), text(&own));
        assert!(lent.headers.is_empty() && !lent.default_retry);
        assert_eq!((lent.cluster_url, lent.root_cert), (config.cluster_url, config.root_cert));
        assert_eq!(lent.tls_server_name, config.tls_server_name);
    }
}
