//! Mutators: they change objects that users submit, before these are validated.
//!
//! The control loop calls none: what is in the cluster stays as its user wrote it, so that a new or changed mutator
//! never restarts a fleet. `kubectl flink deploy` and `render` call them, and so may programs that embed the operator.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

pub use validation::extension::FailurePolicy;
pub use validation::extension::subject::{Kind, Subject};

use super::plugin::{Configured, Way, ask};
use config::FlinkConfig;
use config::plugin::{self, InvalidPlugin};
use validation::extension::cel::Rule;
use validation::extension::mutation::mutated;
use validation::extension::settings::{self, Source};

/// A plugin that changes objects before they are validated.
pub trait Mutator: Send + Sync + 'static {
    /// Returns the unique name for messages. Mutators run in the order of their names.
    fn name(&self) -> &str;

    /// Returns `true` if it handles resources of `kind`.
    fn is_about(&self, kind: Kind) -> bool {
        kind != Kind::FlinkStateSnapshot
    }

    /// Decides about a resource if the mutator gives no answer, or one that cannot be applied.
    fn on_failure(&self) -> FailurePolicy {
        FailurePolicy::default()
    }

    /// Returns how long one answer may take.
    fn timeout(&self) -> Duration {
        plugin::TIMEOUT
    }

    /// Returns the change: a JSON Patch as a list, an object to merge, or `null` for nothing. Spec, labels and
    /// annotations can be changed. An error, which users read, is the reason that there is no answer.
    fn mutate<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Result<Value, String>>;
}

/// An object after all mutators.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutated {
    pub object: Value,
    /// The mutators that changed it, in order.
    pub by: Vec<String>,
    /// The mutators that gave no answer and were skipped, with the reason.
    pub without: Vec<String>,
}

/// Passes `object` from one mutator to the next, in the order of their names. If there is a time limit for all
/// together, each has its share of what those before it left, so that one that hangs takes no time from another.
///
/// # Errors
/// Why a mutator that must not be skipped gives no answer.
pub async fn mutate(
    mutators: &[Arc<dyn Mutator>],
    kind: Kind,
    object: &Value,
    within: Option<Duration>,
) -> Result<Mutated, String> {
    let mut all: Vec<&dyn Mutator> = mutators.iter().map(AsRef::as_ref).collect();
    all.retain(|mutator| mutator.is_about(kind));
    all.sort_by(|one, other| one.name().cmp(other.name()));
    let mut outcome = Mutated { object: object.clone(), by: vec![], without: vec![] };
    let end = within.map(|within| Instant::now() + within);
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    for (mutator, to_come) in all.into_iter().zip((1..=count).rev()) {
        let name = mutator.name();
        let share = end.map(|end| end.saturating_duration_since(Instant::now()) / to_come);
        let limit = share.unwrap_or(Duration::MAX).min(mutator.timeout());
        match one(mutator, kind, &outcome.object, limit).await {
            Ok(changed) => {
                if changed != outcome.object {
                    outcome.by.push(name.to_owned());
                }
                outcome.object = changed;
            }
            Err(why) if mutator.on_failure() == FailurePolicy::Ignore => {
                outcome.without.push(format!("mutator `{name}` is skipped: {why}"));
            }
            Err(why) => return Err(format!("mutator `{name}` gives no answer: {why}")),
        }
    }
    Ok(outcome)
}

async fn one(
    mutator: &dyn Mutator,
    kind: Kind,
    object: &Value,
    limit: Duration,
) -> Result<Value, String> {
    let subject = Subject::new(kind, object);
    let answer = tokio::time::timeout(limit, mutator.mutate(&subject)).await;
    let answer = answer.unwrap_or_else(|_| Err(format!("it took longer than {limit:?}")))?;
    let object = object.clone();
    // A large patch of a large object takes a while.
    let changed = tokio::task::spawn_blocking(move || mutated(kind, &object, &answer)).await;
    changed.map_err(|_| "its answer was not applied to the end".to_owned())?
}

/// Returns the mutators that `config` names, in the order of their names.
///
/// # Errors
/// Everything that is wrong with their settings, so that one edit can fix it.
pub fn configured(config: &FlinkConfig) -> Result<Vec<Arc<dyn Mutator>>, Vec<InvalidPlugin>> {
    let mut mutators: Vec<Arc<dyn Mutator>> = Vec::new();
    for settings in settings::mutators(config)? {
        mutators.push(Arc::new(
            Configured::new(settings, "mutators").map_err(|problem| vec![problem])?,
        ));
    }
    Ok(mutators)
}

/// Mutators that call nothing external, and the names of the others.
pub type Offline = (Vec<Arc<dyn Mutator>>, Vec<String>);

/// Returns the mutators that call nothing external, and the names of the others.
///
/// # Errors
/// As [`configured`].
pub fn offline(config: &FlinkConfig) -> Result<Offline, Vec<InvalidPlugin>> {
    let (mut mutators, mut others): (Vec<Arc<dyn Mutator>>, _) = (Vec::new(), Vec::new());
    for settings in settings::mutators(config)? {
        match settings.source {
            Source::Http(_) => others.push(settings.name),
            Source::Rule(_) => {
                let mutator =
                    Configured::new(settings, "mutators").map_err(|problem| vec![problem])?;
                mutators.push(Arc::new(mutator));
            }
        }
    }
    Ok((mutators, others))
}

impl Mutator for Configured<Rule> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_about(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    fn on_failure(&self) -> FailurePolicy {
        self.on_failure
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn mutate<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Result<Value, String>> {
        async move {
            match &self.way {
                Way::Rule(rule) => rule
                    .evaluate(subject)
                    .map_err(|why| format!("its rule cannot be evaluated: {why}")),
                Way::Http(caller) => {
                    let answer = ask(caller, subject).await?;
                    if answer.is_empty() {
                        return Ok(Value::Null);
                    }
                    serde_json::from_slice(&answer)
                        .map_err(|error| format!("its answer is not JSON: {error}"))
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
