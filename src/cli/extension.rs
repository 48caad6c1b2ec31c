//! Validators and mutators from the operator's configuration, for commands that accept objects.

use std::sync::Arc;

use serde_json::Value;

use super::failure::Failure;
use super::printer::Printer;
use config::OperatorConfig;
use config::plugin::InvalidPlugin;
use operator::mutator::{self, Mutated, Mutator};
use validation::Violation;
use validation::extension::FailurePolicy;
use validation::extension::judge::judge_by_rule;
use validation::extension::settings::{self, Source, Validator};
use validation::extension::subject::{Kind, Subject};

/// An installation's additions to the built-in rules. Only the operator calls validators over HTTP.
pub(super) struct Extensions {
    validators: Vec<Validator>,
    mutators: Vec<Arc<dyn Mutator>>,
}

impl Extensions {
    /// Returns everything that a command with a cluster can call.
    pub(super) fn online(operator: &OperatorConfig) -> anyhow::Result<Self> {
        let mutators = mutator::configured(&operator.base).map_err(invalid)?;
        Ok(Self { validators: validators(operator)?, mutators })
    }

    /// Returns what works offline, and reports what is left out.
    pub(super) fn offline(operator: &OperatorConfig, printer: &Printer) -> anyhow::Result<Self> {
        let (mutators, left_out) = mutator::offline(&operator.base).map_err(invalid)?;
        for name in left_out {
            printer
                .note(format_args!("mutator `{name}` is not called: this command works offline"));
        }
        Ok(Self { validators: validators(operator)?, mutators })
    }

    /// Returns the object after all mutators, and reports which of them changed it.
    pub(super) async fn mutate(&self, object: &Value, printer: &Printer) -> anyhow::Result<Value> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let Some(kind) = object["kind"].as_str().and_then(Kind::parse) else {
            return Ok(object.clone());
        };
        let outcome = mutator::mutate(&self.mutators, kind, object, None).await;
        let Mutated { object, by, without } =
            outcome.map_err(|why| Failure::new(format!("`{name}` was not accepted: {why}")))?;
        for why in without {
            printer.warning(format_args!("{name}: {why}"));
        }
        if !by.is_empty() {
            printer.note(format_args!("{name}: changed by {}", by.join(", ")));
        }
        Ok(object)
    }

    /// Returns the violations that the rules find, in the order of the rules' names.
    pub(super) fn violations(&self, subject: &Subject) -> Vec<Violation> {
        let mut violations = Vec::new();
        for Validator { name, kinds, on_failure, source } in &self.validators {
            let Source::Rule(rule) = source else { continue };
            if !kinds.contains(&subject.kind) {
                continue;
            }
            match judge_by_rule(rule, subject) {
                Ok(found) => violations.extend(found),
                Err(_) if *on_failure == FailurePolicy::Ignore => {}
                Err(why) => violations.push(Violation {
                    path: rule.field.clone(),
                    message: format!("validator `{name}` did not answer: {why}"),
                }),
            }
        }
        violations
    }
}

fn validators(operator: &OperatorConfig) -> anyhow::Result<Vec<Validator>> {
    settings::validators(&operator.base).map_err(invalid)
}

/// Combines all problems of plugins into one error.
pub(super) fn invalid(problems: Vec<InvalidPlugin>) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::new(lines.join("\n")).into()
}
