//! The rules that the operator's configuration defines:
//! `kubernetes.operator.plugins.<evaluators|alignments|executors>.<name>.<option>`.
//!
//! Expressions are evaluated here; the shell calls addresses. A job's own configuration defines no rules: otherwise
//! anyone who edits a job could make the operator call any address.

use std::collections::BTreeMap;

use serde_json::Value;

use config::FlinkConfig;
use config::options::autoscaler::AlignmentChoice;
use config::plugin::{Endpoint, InvalidPlugin, Options};
use validation::extension::cel::Rule;
use validation::extension::settings::{Source, source};

use super::{Answers, Asking, Id, Kind, Named, Question};
use crate::cycle::{self, Cycle, Facts, Outcome, State};
use crate::settings::Settings;

/// Every rule that jobs can name.
#[derive(Debug, Default)]
pub struct Rules(BTreeMap<Id, Source<Rule>>);

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// Everything that is wrong with them, so that one edit can fix it.
    pub fn read(config: &FlinkConfig) -> Result<Self, Vec<InvalidPlugin>> {
        let (mut rules, mut problems) = (BTreeMap::new(), Vec::new());
        for kind in Kind::ALL {
            match Options::read_all(config, kind.group(), |options| read(options, kind)) {
                Ok(read) => rules.extend(read),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(Self(rules)) } else { Err(problems) }
    }

    /// Returns the rules that are called at an address.
    pub fn endpoints(&self) -> impl Iterator<Item = (&Id, &Endpoint)> {
        self.0.iter().filter_map(|(id, source)| match source {
            Source::Http(endpoint) => Some((id, endpoint)),
            Source::Rule(_) => None,
        })
    }

    /// Checks that every rule that a job names exists.
    ///
    /// # Errors
    /// Says which one does not exist, and what defines it.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let missing = settings.plugins.iter().find(|named| !self.0.contains_key(&named.id));
        missing.map_or(Ok(()), |named| Err(undefined(&named.id)))
    }

    /// Checks that no rule that a job names is called at an address.
    ///
    /// # Errors
    /// Says which one is.
    pub fn check_offline(&self, settings: &Settings) -> Result<(), String> {
        let is_away = |named: &&Named| matches!(self.0.get(&named.id), Some(Source::Http(_)));
        let away = settings.plugins.iter().find(is_away);
        away.map_or(Ok(()), |named| {
            let id = &named.id;
            Err(format!("{id} has a URL, and only an expression can be tried"))
        })
    }

    /// Returns the answer of an expression.
    ///
    /// # Errors
    /// Why there is none.
    pub fn evaluate(&self, question: &Question) -> Result<Value, String> {
        match self.0.get(&question.of) {
            Some(Source::Rule(rule)) => rule
                .evaluate_with(&question.facts.iter().collect::<Vec<_>>())
                .map_err(|why| format!("its rule cannot be evaluated: {why}")),
            Some(Source::Http(_)) => Err("it has a URL, which is not called here".to_owned()),
            None => Err(undefined(&question.of)),
        }
    }

    /// Runs a cycle whose questions are answered by expressions alone.
    pub fn cycle(&self, state: State, facts: &Facts<'_>) -> Cycle {
        if facts.settings.plugins.iter().next().is_none() {
            return cycle::run(state, facts);
        }
        let mut answers = Answers::new();
        loop {
            let asking = Asking { answers: Some(&answers), ..facts.asking };
            let cycle = cycle::run(state.clone(), &Facts { asking, ..*facts });
            let Outcome::Asks(question) = &cycle.outcome else { return cycle };
            answers.insert(question.key(), self.evaluate(question));
        }
    }
}

fn read(options: Options<'_>, kind: Kind) -> Result<(Id, Source<Rule>), InvalidPlugin> {
    options.expect_only(&["expression", "url", "headers", "timeout"])?;
    let is_built_in = matches!(options.name.parse(), Ok(AlignmentChoice::Mode(_)));
    if kind == Kind::Alignment && is_built_in {
        let option = if options.text("url").is_some() { "url" } else { "expression" };
        return Err(options.invalid(option, "a built-in mode has this name: choose another one"));
    }
    let source = source(options, |text| Rule::compile_with(text, kind.variables()))?;
    Ok((Id::new(kind, options.name), source))
}

fn undefined(id: &Id) -> String {
    let (option, group, name) = (id.kind.option(), id.kind.group(), &id.name);
    format!(
        "`{option}` names `{name}`, which is not defined: set \
         `kubernetes.operator.plugins.{group}.{name}.expression` or `….url` in the configuration \
         that the operator starts with; Java classes cannot be loaded here"
    )
}

#[cfg(test)]
mod tests;
