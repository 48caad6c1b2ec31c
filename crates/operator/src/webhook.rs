//! The admission webhook: what the operator would refuse is refused when it is handed in, and
//! mutators change what users hand in, whichever program they use.
//!
//! [`admit`] is pure: a review and what was looked up become an answer, by the rules that the
//! operator and `kubectl flink deploy` go by. Here is looked up and asked what it needs, [`serve`]
//! has the port, and [`certificate`] what the API server knows it by. It only ever judges what users
//! write and this installation operates: a resource that goes, a finalizer, a label and a status are
//! nobody's to refuse, and what cannot be looked up now is left to the operator, which checks
//! everything again.

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

/// The longest that looking something up may take.
const LOOK_UP_MAX: Duration = Duration::from_secs(2);
/// The longest that validators, who are asked at the same time, may take.
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
    /// The fault is here.
    #[error("the review did not finish: {message}")]
    Broken { message: String },
}

/// The leave to work on one review. Whatever works on it has a copy, so that it counts among those
/// that are worked on at the same time until the work is done, even where who asked has hung up.
#[derive(Clone, Debug)]
pub struct Turn {
    /// When the answer is to be there.
    pub until: Instant,
    /// Given back with the last copy.
    pub permits: Arc<[OwnedSemaphorePermit]>,
}

impl Turn {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Who judges, and what.
pub struct ReviewRules {
    jurisdiction: Jurisdiction,
    validators: Panel,
    mutators: Vec<Arc<dyn Mutator>>,
}

impl ReviewRules {
    /// The extensions of the installation, which the operator's loop and commands ask too, for what
    /// it operates.
    pub fn new(
        jurisdiction: Jurisdiction,
        validators: Vec<Arc<dyn Validator>>,
        mutators: Vec<Arc<dyn Mutator>>,
    ) -> Self {
        Self { jurisdiction, validators: Panel::new(validators), mutators }
    }

    /// Returns the rules with its extensions for another jurisdiction.
    fn moved_to(&self, jurisdiction: Jurisdiction) -> Self {
        let Self { jurisdiction: _, validators, mutators } = self;
        Self { jurisdiction, validators: validators.clone(), mutators: mutators.clone() }
    }

    /// The job of the review, where a look at its labels has to tell whose snapshot that is.
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
    /// With the configuration that is in force.
    pub fn new(client: Client, operator: Arc<Live>, rules: ReviewRules) -> Self {
        Self { client, operator, rules: RwLock::new(Arc::new(rules)) }
    }

    fn rules(&self) -> Arc<ReviewRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every review that begins from now on is answered by `rules`.
    pub fn set_rules(&self, rules: ReviewRules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Lets its extensions answer for another jurisdiction from now on.
    pub fn move_to(&self, jurisdiction: Jurisdiction) {
        self.set_rules(self.rules().moved_to(jurisdiction));
    }

    /// The `AdmissionReview` that answers the one in `body`.
    ///
    /// # Errors
    /// When it is none, or was not judged.
    pub async fn answer(
        self: Arc<Self>,
        task: Task,
        body: Vec<u8>,
        turn: Turn,
    ) -> Result<Value, Error> {
        // A large object takes its time; others go on meanwhile.
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

/// True if the job is known to be none that is operated here.
fn is_foreign(job: &Fact<Option<Value>>, rules: &ReviewRules) -> bool {
    matches!(job, Fact::Known(Some(job)) if !rules.jurisdiction.has_labels(job))
}

/// Why there is no answer, where there is none in time.
async fn within<T>(asked: impl Future<Output = cluster::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(LOOK_UP_MAX, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the API server took longer than {LOOK_UP_MAX:?}")),
    }
}

/// Runs what may take a while beside the tasks of the operator.
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
