//! Evaluators, executors and alignment modes of the operator's configuration, called for the autoscaler: expressions on
//! blocking threads, and addresses over HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::endpoint::Caller;
use super::heavy;
use super::plugin::caller;
use autoscaler::capacity::Capacity;
use autoscaler::cycle::{self, Cycle, Outcome, OwnedFacts, State};
use autoscaler::plugin::rules::Rules;
use autoscaler::plugin::{Answers, Id, Question};
use autoscaler::settings::Settings;
use config::FlinkConfig;
use config::plugin::InvalidPlugin;

/// Maximum time for all rules of a job in one cycle.
const ASKING_MAX: Duration = Duration::from_mins(1);

/// The rules of an installation.
#[derive(Clone, Default)]
pub struct ScalingRules {
    rules: Arc<Rules>,
    callers: Arc<HashMap<Id, Caller>>,
}

impl ScalingRules {
    /// Returns the rules that `config` defines.
    ///
    /// # Errors
    /// Everything that is wrong with them, so that one edit can fix it.
    pub fn configured(config: &FlinkConfig) -> Result<Self, Vec<InvalidPlugin>> {
        let rules = Rules::read(config)?;
        let mut callers = HashMap::new();
        for (id, endpoint) in rules.endpoints() {
            let caller = caller(endpoint.clone(), id.kind.group(), &id.name);
            callers.insert(id.clone(), caller.map_err(|problem| vec![problem])?);
        }
        Ok(Self { rules: Arc::new(rules), callers: Arc::new(callers) })
    }

    /// Checks that every rule that a job names exists.
    ///
    /// # Errors
    /// Says which one does not exist, and what defines it.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        self.rules.check(settings)
    }

    /// Returns the deadline for the rules of a cycle that begins now.
    pub(super) fn deadline() -> Instant {
        Instant::now() + ASKING_MAX
    }

    /// Returns the answer to a question.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub(super) async fn answer(
        &self,
        question: &Question,
        deadline: Instant,
    ) -> Result<Value, String> {
        let answer = tokio::time::timeout_at(deadline, self.ask(question)).await;
        answer.unwrap_or_else(|_| Err(format!("the job's rules took longer than {ASKING_MAX:?}")))
    }

    async fn ask(&self, question: &Question) -> Result<Value, String> {
        let Some(caller) = self.callers.get(&question.of) else {
            let (rules, question) = (Arc::clone(&self.rules), question.clone());
            // An expression over many vertices takes time; other tasks continue meanwhile.
            let answer = tokio::task::spawn_blocking(move || rules.evaluate(&question)).await;
            return answer.map_err(|_| "the evaluation of its rule did not finish".to_owned())?;
        };
        let body = question.request().to_string();
        let answer = caller.post("application/json", body).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer).map_err(|error| format!("its answer is not JSON: {error}"))
    }

    /// Runs a cycle, with the answers of all rules that it calls.
    ///
    /// # Errors
    /// If the process ends meanwhile.
    pub async fn cycle(
        &self,
        before: &Arc<State>,
        facts: &Arc<OwnedFacts>,
    ) -> Result<Cycle, String> {
        let (mut answers, deadline) = (Answers::new(), Self::deadline());
        loop {
            let cycle = run(before, facts, None, &mut answers).await?;
            let Outcome::Asks(question) = &cycle.outcome else { return Ok(cycle) };
            let answer = self.answer(question, deadline).await;
            answers.insert(question.key(), answer);
        }
    }
}

/// Runs a cycle as far as its answers lead.
///
/// # Errors
/// If the process ends meanwhile.
pub(super) async fn run(
    before: &Arc<State>,
    facts: &Arc<OwnedFacts>,
    capacity: Option<Arc<Result<Capacity, String>>>,
    answers: &mut Answers,
) -> Result<Cycle, String> {
    let (before, facts) = (Arc::clone(before), Arc::clone(facts));
    heavy::lent(answers, move |answers| {
        cycle::run(State::clone(&before), &facts.with(capacity.as_deref(), answers))
    })
    .await
}

#[cfg(test)]
mod tests;
