//! The admission webhook: what the operator would refuse is refused when it is handed in, and
//! mutators change what users hand in, whichever program they use.
//!
//! [`admit`] is pure: a review and what was looked up become an answer, by the rules that the
//! operator and `kubectl flink deploy` go by. Here is looked up and asked what it needs, [`serve`]
//! has the port, and [`certificate`] what the API server knows it by. It only ever judges what users
//! write: a resource that goes, a finalizer, a label and a status are nobody's to refuse, and what
//! cannot be looked up now is left to the operator, which checks everything again.

pub mod admit;
pub mod certificate;
pub mod serve;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::Value;

use self::admit::{Answer, Change, Facts, Malformed, Review};
use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::api::state_snapshot::JobKind;
use crate::cluster::apply::ObjectId;
use crate::cluster::{self, read};
use crate::decide::world::Fact;
use crate::operator::live::Live;
use crate::operator::mutator::{self, Mutator};
use crate::operator::validator::Validator;
use crate::operator::validator::panel::Panel;

// The API server waits ten seconds for the whole answer.
/// The longest that looking something up may take.
const LOOK_UP_MAX: Duration = Duration::from_secs(2);
/// The longest that validators, who are asked at the same time, may take.
const VALIDATE_MAX: Duration = Duration::from_secs(6);
/// The longest that mutators, who are asked one after the other, may take together.
const MUTATE_MAX: Duration = Duration::from_secs(8);

/// What the API server asks.
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
    #[error("the review was not judged to its end: {message}")]
    Broken { message: String },
}

/// What answers reviews.
pub struct Webhook {
    client: Client,
    operator: Arc<Live>,
    validators: Panel,
    mutators: Vec<Arc<dyn Mutator>>,
}

impl Webhook {
    /// With the configuration that is in force, and the extensions of the installation, which the
    /// operator's loop and commands ask too.
    pub fn new(
        client: Client,
        operator: Arc<Live>,
        validators: Vec<Arc<dyn Validator>>,
        mutators: Vec<Arc<dyn Mutator>>,
    ) -> Self {
        Self { client, operator, validators: Panel::new(validators), mutators }
    }

    /// The `AdmissionReview` that answers the one in `body`.
    ///
    /// # Errors
    /// When it is none, or was not judged.
    pub async fn answer(self: Arc<Self>, task: Task, body: Vec<u8>) -> Result<Value, Error> {
        // A large object takes its time; others go on meanwhile.
        let review = off_the_loop(move || Review::parse(&body)).await??;
        let answer = match task {
            Task::Validate => self.validate(&review).await?,
            Task::Mutate => self.mutate(&review).await,
        };
        Ok(answer.to_review(review.uid()))
    }

    async fn validate(self: &Arc<Self>, review: &Review) -> Result<Answer, Error> {
        let change = match review.change() {
            Ok(Some(change)) => change,
            Ok(None) => return Ok(Answer::allowed()),
            Err(refusal) => return Ok(refusal),
        };
        let facts = self.facts(&change).await;
        let webhook = Arc::clone(self);
        off_the_loop(move || admit::judge(&change, &facts, &webhook.operator.get())).await
    }

    async fn facts(&self, change: &Change) -> Facts {
        let session = async {
            match change.session() {
                Some(name) => self.session(change.namespace(), name).await,
                None => Fact::NotAsked,
            }
        };
        let has_job = async {
            match change.job() {
                Some((kind, name)) => self.has_job(change.namespace(), kind, name).await,
                None => Fact::NotAsked,
            }
        };
        let (session, has_job) = tokio::join!(session, has_job);
        let found = match &session {
            Fact::Known(found) => found.as_ref(),
            Fact::NotAsked | Fact::Unknown(_) => None,
        };
        let opinions = match change.subject(found) {
            Some(subject) if self.validators.is_about(subject.kind) => {
                self.validators.opinions(&subject, VALIDATE_MAX).await
            }
            Some(_) | None => vec![],
        };
        Facts { session, has_job, opinions }
    }

    async fn session(&self, namespace: &str, name: &str) -> Fact<Option<FlinkDeployment>> {
        let id = ObjectId::of::<FlinkDeployment>(namespace, name);
        let found = within(read::get_value(&self.client, &id)).await.and_then(|found| {
            found.map(serde_json::from_value).transpose().map_err(|error| error.to_string())
        });
        found.map_or_else(Fact::Unknown, Fact::Known)
    }

    async fn has_job(&self, namespace: &str, kind: JobKind, name: &str) -> Fact<bool> {
        let id = match kind {
            JobKind::FlinkDeployment => ObjectId::of::<FlinkDeployment>(namespace, name),
            JobKind::FlinkSessionJob => ObjectId::of::<FlinkSessionJob>(namespace, name),
        };
        let found = within(read::get_value(&self.client, &id)).await;
        found.map_or_else(Fact::Unknown, |found| Fact::Known(found.is_some()))
    }

    async fn mutate(&self, review: &Review) -> Answer {
        let mutated = match review.mutable() {
            Some((kind, object)) if !self.mutators.is_empty() => {
                let mutated = mutator::mutate(&self.mutators, kind, &object);
                let mutated = tokio::time::timeout(MUTATE_MAX, mutated).await;
                Some(mutated.unwrap_or_else(|_| {
                    Err(format!("mutators take longer than {MUTATE_MAX:?} together"))
                }))
            }
            Some(_) | None => None,
        };
        admit::mutated(review, mutated)
    }
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
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Broken { message: error.to_string() })
}
