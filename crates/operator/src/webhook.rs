//! The admission webhook: it rejects on submission what the operator would reject, and lets mutators change what users
//! submit, whichever program they use.
//!
//! [`admit`] is pure: it turns a review and facts into an answer, by the rules of the operator and of
//! `kubectl flink deploy`. This module looks up the facts and calls the plugins, [`serve`] has the port, and
//! [`certificate`] the certificate by which the API server knows it. The webhook only examines what users write and
//! this installation operates. Deletions, finalizers, labels and statuses are never rejected, and what cannot be looked
//! up now is left to the operator, which checks everything again.

pub mod admit;
pub mod certificate;
pub mod serve;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use self::admit::{Answer, Facts, Jurisdiction, Malformed, Review};
use crate::live::Live;
use crate::mutator::{self, Mutator};
use crate::validator::Validator;
use crate::validator::panel::Panel;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::JobKind;
use clients::cluster::apply::ObjectId;
use clients::cluster::{self, read};
use lifecycle::world::Fact;
use validation::extension::subject::Kind;

/// Maximum time for one lookup.
const LOOKUP_MAX: Duration = Duration::from_secs(2);
/// Maximum time for the validators, which are called at the same time.
const VALIDATE_MAX: Duration = Duration::from_secs(6);

/// The task of a review.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Task {
    Validate,
    Mutate,
}

/// Why a review has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The fault is in this process.
    #[error("the review did not finish: {message}")]
    Broken { message: String },
}

/// The permission to work on one review. Whatever works on it has a copy, so that it is among the reviews in progress
/// until the work is done, even if the caller has hung up.
#[derive(Clone, Debug)]
pub struct Turn {
    /// When the answer is due.
    pub until: Instant,
    /// Released with the last copy.
    pub permits: Arc<[OwnedSemaphorePermit]>,
}

impl Turn {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Which resources are reviewed, and by which plugins.
pub struct ReviewRules {
    jurisdiction: Jurisdiction,
    validators: Panel,
    mutators: Vec<Arc<dyn Mutator>>,
}

impl ReviewRules {
    /// Creates the rules from the plugins of the installation, which the operator's loop and commands call too, for
    /// what it operates.
    pub fn new(
        jurisdiction: Jurisdiction,
        validators: Vec<Arc<dyn Validator>>,
        mutators: Vec<Arc<dyn Mutator>>,
    ) -> Self {
        Self { jurisdiction, validators: Panel::new(validators), mutators }
    }

    /// Returns the rules with the same plugins for another jurisdiction.
    fn moved_to(&self, jurisdiction: Jurisdiction) -> Self {
        let Self { jurisdiction: _, validators, mutators } = self;
        Self { jurisdiction, validators: validators.clone(), mutators: mutators.clone() }
    }

    /// Returns the job of the review if its labels must be looked up to know whose snapshot it is.
    fn job_to_know<'r>(&self, review: &'r Review) -> Option<(JobKind, &'r str)> {
        review.job().filter(|_| self.jurisdiction.selector.is_some())
    }
}

/// Answers reviews.
pub struct Webhook {
    client: Client,
    operator: Arc<Live>,
    rules: RwLock<Arc<ReviewRules>>,
}

impl Webhook {
    /// Creates a webhook that uses the current configuration.
    pub fn new(client: Client, operator: Arc<Live>, rules: ReviewRules) -> Self {
        Self { client, operator, rules: RwLock::new(Arc::new(rules)) }
    }

    fn rules(&self) -> Arc<ReviewRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rules for every review that begins from now on.
    pub fn set_rules(&self, rules: ReviewRules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Uses the same plugins for another jurisdiction from now on.
    pub fn move_to(&self, jurisdiction: Jurisdiction) {
        self.set_rules(self.rules().moved_to(jurisdiction));
    }

    /// Returns the `AdmissionReview` that answers the one in `body`.
    ///
    /// # Errors
    /// If `body` is not one, or the review did not finish.
    pub async fn answer(
        self: Arc<Self>,
        task: Task,
        body: Vec<u8>,
        turn: Turn,
    ) -> Result<Value, Error> {
        // A large object takes time; other tasks continue meanwhile.
        let review = off_the_loop(&turn, move || Review::parse(&body)).await??;
        let (uid, rules) = (review.uid().to_owned(), self.rules());
        let answer = match task {
            _ if !rules.jurisdiction.has(&review) => Answer::allowed(),
            Task::Validate => self.validate(review, &rules, &turn).await?,
            Task::Mutate => self.mutate(review, &rules, &turn).await?,
        };
        off_the_loop(&turn, move || answer.to_review(&uid)).await
    }

    async fn validate(
        self: &Arc<Self>,
        review: Review,
        rules: &ReviewRules,
        turn: &Turn,
    ) -> Result<Answer, Error> {
        let job = review.job().map(|(kind, name)| (kind, name.to_owned()));
        let change = match off_the_loop(turn, move || review.change()).await? {
            Ok(Some(change)) => change,
            Ok(None) => return Ok(Answer::allowed()),
            Err(refusal) => return Ok(refusal),
        };
        let namespace = change.namespace();
        let session = async {
            match change.session() {
                Some(name) => self.session(namespace, name).await,
                None => Fact::NotAsked,
            }
        };
        let job = async {
            match &job {
                Some((kind, name)) => self.job(namespace, *kind, name).await,
                None => Fact::NotAsked,
            }
        };
        let (session, job) = tokio::join!(session, job);
        let mut facts = Facts {
            session,
            has_job: match &job {
                Fact::Known(job) => Fact::Known(job.is_some()),
                Fact::NotAsked => Fact::NotAsked,
                Fact::Unknown(why) => Fact::Unknown(why.clone()),
            },
            is_foreign: is_foreign(&job, rules),
            opinions: vec![],
        };
        if !facts.is_foreign {
            let found = match &facts.session {
                Fact::Known(found) => found.as_ref(),
                Fact::NotAsked | Fact::Unknown(_) => None,
            };
            let subject = change.subject(found);
            if let Some(subject) = subject.filter(|it| rules.validators.is_about(it.kind)) {
                let within = VALIDATE_MAX.min(turn.left());
                facts.opinions = rules.validators.opinions(&subject, within).await;
            }
        }
        let operator = self.operator.get();
        off_the_loop(turn, move || admit::judge(&change, &facts, &operator)).await
    }

    async fn session(&self, namespace: &str, name: &str) -> Fact<Option<FlinkDeployment>> {
        let id = ObjectId::of::<FlinkDeployment>(namespace, name);
        let found = within(read::get_value(&self.client, &id)).await.and_then(|found| {
            found.map(serde_json::from_value).transpose().map_err(|error| error.to_string())
        });
        found.map_or_else(Fact::Unknown, Fact::Known)
    }

    async fn job(&self, namespace: &str, kind: JobKind, name: &str) -> Fact<Option<Value>> {
        let id = match kind {
            JobKind::FlinkDeployment => ObjectId::of::<FlinkDeployment>(namespace, name),
            JobKind::FlinkSessionJob => ObjectId::of::<FlinkSessionJob>(namespace, name),
        };
        within(read::get_value(&self.client, &id)).await.map_or_else(Fact::Unknown, Fact::Known)
    }

    async fn mutate(
        &self,
        review: Review,
        rules: &ReviewRules,
        turn: &Turn,
    ) -> Result<Answer, Error> {
        let is_about = |kind: Kind| rules.mutators.iter().any(|mutator| mutator.is_about(kind));
        let mutated = match review.mutable() {
            Some((kind, object)) if is_about(kind) => {
                if let Some((kind, name)) = rules.job_to_know(&review) {
                    let job = self.job(review.namespace(), kind, name).await;
                    if is_foreign(&job, rules) {
                        return Ok(Answer::allowed());
                    }
                }
                Some(mutator::mutate(&rules.mutators, kind, object, Some(turn.left())).await)
            }
            Some(_) | None => None,
        };
        off_the_loop(turn, move || admit::mutated(&review, mutated)).await
    }
}

/// Returns `true` if the job is known not to be operated here.
fn is_foreign(job: &Fact<Option<Value>>, rules: &ReviewRules) -> bool {
    matches!(job, Fact::Known(Some(job)) if !rules.jurisdiction.has_labels(job))
}

/// Returns the answer, or why there is none in time.
async fn within<T>(asked: impl Future<Output = cluster::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(LOOKUP_MAX, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the API server took longer than {LOOKUP_MAX:?}")),
    }
}

/// Runs work that may take a while outside of the operator's tasks.
async fn off_the_loop<T: Send + 'static>(
    turn: &Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let turn = turn.clone();
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    done.await.map_err(|error| Error::Broken { message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_turn_is_taken_until_the_work_is_done_whoever_hangs_up() {
        let turns = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&turns).acquire_owned().await.unwrap();
        let turn = Turn { until: Instant::now(), permits: Arc::new([permit]) };
        let (resume, told) = std::sync::mpsc::channel::<()>();
        let work = off_the_loop(&turn, move || told.recv().is_ok());
        assert!(tokio::time::timeout(Duration::from_millis(20), work).await.is_err());
        drop(turn);
        assert_eq!(turns.available_permits(), 0, "the work goes on");
        resume.send(()).unwrap();
        let again = tokio::time::timeout(Duration::from_secs(20), turns.acquire());
        assert!(again.await.unwrap().is_ok());
    }
}
