//! The validators of the operator's configuration: a rule in CEL, or an HTTP endpoint.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;

use super::{FailurePolicy, Kind, Subject, Validator, Violation};
use crate::plugin::{Configured, Way, ask};
use validation::extension::judge::{RuleJudge, judge_by_rule};

/// Maximum number of violations in an endpoint's answer, and of characters in each.
const VIOLATIONS_MAX: usize = 100;
const TEXT_MAX: usize = 1000;

impl Validator for Configured<RuleJudge> {
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

    fn validate<'a>(
        &'a self,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Result<Vec<Violation>, String>> {
        async move {
            match &self.way {
                Way::Rule(rule) => {
                    let (rule, subject) = (Arc::clone(rule), subject.clone());
                    // A rule over a large object takes time; other tasks continue meanwhile.
                    let answer =
                        tokio::task::spawn_blocking(move || judge_by_rule(&rule, &subject));
                    answer
                        .await
                        .map_err(|_| "the evaluation of its rule did not finish".to_owned())?
                }
                Way::Http(caller) => understood(&ask(caller, subject).await?),
            }
        }
        .boxed()
    }
}

/// The answer of an endpoint.
#[derive(Deserialize)]
struct Answer {
    allowed: Option<bool>,
    #[serde(default)]
    violations: Vec<Blame>,
    /// For an answer that names no field.
    message: Option<String>,
}

#[derive(Deserialize)]
struct Blame {
    #[serde(default)]
    field: String,
    message: String,
}

/// Returns the violations of an answer. An answer that contradicts itself, or says nothing, is not valid.
fn understood(bytes: &[u8]) -> Result<Vec<Violation>, String> {
    let answer: Answer = serde_json::from_slice(bytes)
        .map_err(|error| format!("its answer is not as expected: {error}"))?;
    let Answer { allowed, violations, message } = answer;
    match (allowed, violations.is_empty()) {
        (Some(true), true) => Ok(vec![]),
        (Some(false), true) => {
            let message = message.unwrap_or_else(|| "is not allowed".to_owned());
            Ok(vec![violation(Blame { field: String::new(), message })])
        }
        (Some(false) | None, false) => {
            Ok(violations.into_iter().take(VIOLATIONS_MAX).map(violation).collect())
        }
        (Some(true), false) => {
            Err("its answer allows the change but contains violations".to_owned())
        }
        (None, true) => Err("its answer has neither `allowed` nor `violations`".to_owned()),
    }
}

fn violation(blame: Blame) -> Violation {
    let Blame { field, message } = blame;
    let cut = |text: String| text.chars().take(TEXT_MAX).collect::<String>();
    let path = if field.trim().is_empty() { "spec".to_owned() } else { cut(field) };
    Violation { path, message: cut(message) }
}
