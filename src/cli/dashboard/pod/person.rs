//! A person who has signed in: whose token it is and what it may list. The API server is asked at intervals.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use strum::IntoEnumIterator;
use tokio::sync::{Mutex as Turn, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cli::dashboard::known::Known;
use clients::cluster;
use clients::cluster::access::Operation;
use clients::cluster::identity::{self, Identity};
use config::secret;
use console::review::{Question, Review};
use console::rights::Rights;
use console::row::Kind;

/// Default time for which an answer is used.
pub(in crate::cli) const REVIEW_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of reviews at the same time: of new tokens, and separately of known people. Others wait.
const REVIEWS_MAX: usize = 4;
/// Maximum time to wait for a turn, and for the answer.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// Time that a rejected token keeps its turn, which slows down anyone who tries many tokens.
const REFUSED_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of questions about one person at the same time.
const QUESTIONS_MAX: usize = 8;
/// Maximum number of times to ask about namespaces that have appeared while others were asked about.
const ROUNDS_MAX: usize = 3;

/// Why a person has no access.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::cli::dashboard) enum Out {
    /// The API server does not accept the token.
    Unknown,
    /// The API server did not answer, for this reason.
    Unanswered(String),
}

/// Asks the API server with the operator's own rights.
pub(super) struct Reviews {
    client: Client,
    /// The namespaces of its objects are asked about.
    known: Arc<Known>,
    turns: Semaphore,
    /// For known people, so that no one who tries tokens can keep them out.
    renewals: Semaphore,
    interval: Duration,
    began: Instant,
}

impl Reviews {
    pub(super) fn new(client: Client, known: Arc<Known>, interval: Duration) -> Self {
        let (turns, renewals) = (Semaphore::new(REVIEWS_MAX), Semaphore::new(REVIEWS_MAX));
        Self { client, known, turns, renewals, interval, began: Instant::now() }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns whose token it is.
    async fn identity(&self, token: &Token, turns: &Semaphore) -> Result<Identity, Out> {
        let Ok(Ok(_turn)) = timeout(ANSWER_MAX, turns.acquire()).await else {
            return Err(Out::Unanswered("too many tokens are being reviewed".to_owned()));
        };
        let identity = within(identity::of_token(&self.client, &token.0)).await?;
        if identity.is_none() {
            sleep(REFUSED_PAUSE).await;
        }
        identity.ok_or(Out::Unknown)
    }

    async fn rights(&self, identity: &Identity) -> Result<Rights, Out> {
        let mut rights = Rights::default();
        let may_list = |kind| async move {
            let may = identity::may(&self.client, identity, None, list(kind));
            Ok::<_, Out>((kind, within(may).await?))
        };
        let answers = stream::iter(Kind::iter().map(may_list)).buffer_unordered(QUESTIONS_MAX);
        for (kind, may_list) in answers.try_collect::<Vec<_>>().await? {
            rights.answer_everywhere(kind, may_list);
        }
        self.complete(identity, &mut rights).await?;
        Ok(rights)
    }

    /// Asks about those namespaces that have not been asked about for this person.
    async fn complete(&self, identity: &Identity, rights: &mut Rights) -> Result<(), Out> {
        for _ in 0..ROUNDS_MAX {
            let questions = {
                let fleet = self.known.fleet();
                rights.questions(&fleet)
            };
            if questions.is_empty() {
                break;
            }
            let may_list = |(kind, namespace): (Kind, Box<str>)| async move {
                let may = identity::may(&self.client, identity, Some(&namespace), list(kind));
                let may_list = within(may).await?;
                Ok::<_, Out>((kind, namespace, may_list))
            };
            let answers = stream::iter(questions.into_iter().map(may_list));
            let answers = answers.buffer_unordered(QUESTIONS_MAX);
            for (kind, namespace, may_list) in answers.try_collect::<Vec<_>>().await? {
                rights.answer(kind, namespace, may_list);
            }
        }
        Ok(())
    }
}

fn list(kind: Kind) -> Operation {
    Operation { verb: "list", group: api::GROUP, resource: kind.plural(), subresource: None }
}

async fn within<T>(answer: impl Future<Output = cluster::Result<T>>) -> Result<T, Out> {
    let unanswered = |text: &str| Out::Unanswered(secret::hide_in(text));
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => answer.map_err(|error| unanswered(&error.to_string())),
        Err(_) => Err(unanswered("the API server did not answer in time")),
    }
}

/// The token that a person signed in with. It has no `Debug`, so that it is never printed.
pub(super) struct Token(pub(super) String);

/// A person who has signed in.
pub(in crate::cli::dashboard) struct Person {
    name: String,
    uid: String,
    token: Token,
    /// Whether they have a session of the console, which they can end.
    pub(in crate::cli::dashboard) is_signed_in: bool,
    reviews: Arc<Reviews>,
    rights: Mutex<Arc<Rights>>,
    /// The identity that the API server reported last. One task asks at a time, and the others use its answer.
    review: Turn<(Identity, Review)>,
    ended: CancellationToken,
}

impl Person {
    /// Finds out whose token it is and what they may see.
    pub(super) async fn enter(
        token: Token,
        is_signed_in: bool,
        reviews: &Arc<Reviews>,
    ) -> Result<Self, Out> {
        let review = Review::new(reviews.interval, reviews.now());
        let identity = reviews.identity(&token, &reviews.turns).await?;
        let rights = reviews.rights(&identity).await?;
        Ok(Self {
            name: identity.name().to_owned(),
            uid: identity.uid().to_owned(),
            token,
            is_signed_in,
            reviews: Arc::clone(reviews),
            rights: Mutex::new(Arc::new(rights)),
            review: Turn::new((identity, review)),
            ended: CancellationToken::new(),
        })
    }

    pub(in crate::cli::dashboard) fn name(&self) -> &str {
        &self.name
    }

    /// Returns a key of the person, whichever token they use.
    pub(super) fn identity(&self) -> String {
        format!("{} {}", self.name, self.uid)
    }

    pub(super) fn token(&self) -> &str {
        &self.token.0
    }

    pub(in crate::cli::dashboard) fn rights(&self) -> Arc<Rights> {
        Arc::clone(&self.rights.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_rights(&self, rights: Rights) {
        *self.rights.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rights);
    }

    /// Ends the person's access.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Waits until the person's access has ended.
    pub(in crate::cli::dashboard) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Asks again if the last answer is too old, and asks about new namespaces.
    pub(in crate::cli::dashboard) async fn renew(&self) -> Result<(), Out> {
        let mut turn = self.review.lock().await;
        if self.ended.is_cancelled() {
            return Err(Out::Unknown);
        }
        let (identity, review) = &mut *turn;
        let now = self.reviews.now();
        let question = review.question(now);
        let answer = match question {
            Question::Everything => self.ask().await.map(|is_now| *identity = is_now),
            Question::News => self.ask_further(identity).await,
            Question::Nothing => Ok(()),
        };
        match answer {
            Ok(()) if question == Question::Nothing => {}
            Ok(()) => review.answer(question, now),
            Err(Out::Unknown) => {
                self.end();
                return Err(Out::Unknown);
            }
            Err(Out::Unanswered(message)) => review.fail(message, self.reviews.now()),
        }
        match review.silence(self.reviews.now()) {
            Some(message) => Err(Out::Unanswered(message.to_owned())),
            None => Ok(()),
        }
    }

    /// Asks everything again.
    async fn ask(&self) -> Result<Identity, Out> {
        let identity = self.reviews.identity(&self.token, &self.reviews.renewals).await?;
        if identity.name() != self.name || identity.uid() != self.uid {
            return Err(Out::Unknown);
        }
        self.set_rights(self.reviews.rights(&identity).await?);
        Ok(identity)
    }

    /// Asks about new namespaces.
    async fn ask_further(&self, identity: &Identity) -> Result<(), Out> {
        let mut rights = Rights::clone(&self.rights());
        self.reviews.complete(identity, &mut rights).await?;
        if rights != *self.rights() {
            self.set_rights(rights);
        }
        Ok(())
    }
}
