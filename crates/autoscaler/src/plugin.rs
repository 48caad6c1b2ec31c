//! Rules of an installation that influence decisions, instead of the Java operator's classes: an evaluator sets figures
//! (FLIP-514), an executor changes or refuses a decision (FLIP-575), and an alignment mode aligns a parallelism
//! (FLIP-586).
//!
//! A job names them, and the operator's configuration defines them ([`rules`]). A cycle stops with a [`Question`] and
//! is run again with the answer as part of its input. Without a valid answer, there is no decision.

mod answer;
pub mod rules;
mod teller;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

use config::FlinkConfig;
use config::option::InvalidValue;
use config::options::autoscaler as options;
use config::secret::hide_in_value;

use super::topology::VertexId;

pub use answer::Verdict;
pub use teller::{Teller, described_with_figures};

/// What a rule influences.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    Evaluator,
    Alignment,
    Executor,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Evaluator, Self::Alignment, Self::Executor];

    /// Returns the part of the names of the options that define it.
    pub fn group(self) -> &'static str {
        match self {
            Self::Evaluator => "evaluators",
            Self::Alignment => "alignments",
            Self::Executor => "executors",
        }
    }

    /// Returns the variables that its expression may use.
    fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Evaluator => &["job", "parameters", "vertex", "metrics", "inputs"],
            Self::Alignment => &["job", "parameters", "vertex", "metrics", "alignment"],
            Self::Executor => &["job", "parameters", "vertices", "scalings"],
        }
    }

    /// Returns the option with which a job names one.
    fn option(self) -> &'static str {
        match self {
            Self::Evaluator => options::CUSTOM_EVALUATORS.key(),
            Self::Alignment => options::ALIGNMENT_MODE.key(),
            Self::Executor => options::CUSTOM_EXECUTORS.key(),
        }
    }

    /// Returns the prefix of a parameter that a job sets for a rule.
    fn parameters(self) -> &'static str {
        match self {
            Self::Evaluator => options::EVALUATOR_PARAMETERS,
            Self::Alignment => options::ALIGNMENT_PARAMETERS,
            Self::Executor => options::EXECUTOR_PARAMETERS,
        }
    }
}

/// Identifies a rule.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Id {
    pub kind: Kind,
    pub name: Arc<str>,
}

impl Id {
    pub fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Evaluator => "evaluator",
            Kind::Alignment => "alignment mode",
            Kind::Executor => "executor",
        };
        write!(f, "{kind} `{}`", self.name)
    }
}

/// A rule that a job names.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub id: Id,
    /// Options that the job sets for it, which may be secret.
    parameters: BTreeMap<String, String>,
}

impl Named {
    fn new(config: &FlinkConfig, kind: Kind, name: &str) -> Self {
        let parameters = options::parameters(config, kind.parameters(), name);
        Self { id: Id::new(kind, name), parameters }
    }
}

/// The rules that a job names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins {
    pub evaluator: Option<Named>,
    pub alignment: Option<Named>,
    /// In the order in which they are asked.
    pub executors: Vec<Named>,
}

impl Plugins {
    /// Reads the rules from a job's options.
    ///
    /// # Errors
    /// If there is more than one evaluator: the Java operator asks only one of them.
    pub fn read(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        let evaluators = names(&config.get(&options::CUSTOM_EVALUATORS)?);
        if evaluators.len() > 1 {
            let all = evaluators.join(";");
            let expected = "one name: a job has one evaluator";
            return Err(InvalidValue::new(options::CUSTOM_EVALUATORS.key(), all, expected));
        }
        let executors = names(&config.get(&options::CUSTOM_EXECUTORS)?);
        let named = |kind| move |name: &String| Named::new(config, kind, name);
        Ok(Self {
            evaluator: evaluators.first().map(named(Kind::Evaluator)),
            alignment: None,
            executors: executors.iter().map(named(Kind::Executor)).collect(),
        })
    }

    /// Returns the rules with an alignment mode that is not built in.
    #[must_use]
    pub fn aligned_by(self, config: &FlinkConfig, name: &str) -> Self {
        Self { alignment: Some(Named::new(config, Kind::Alignment, name)), ..self }
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = &Named> {
        self.evaluator.iter().chain(&self.alignment).chain(&self.executors)
    }
}

/// Returns each name once, at its first position.
fn names(stated: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = stated.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
}

/// A job, as rules see it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
pub struct Job {
    pub namespace: Option<String>,
    pub name: String,
    /// Flink's id.
    pub id: Option<String>,
}

/// A question to a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub of: Id,
    /// The vertex it is about; `None` if it is about all.
    pub vertex: Option<VertexId>,
    /// Values of the variables of its kind, in their order.
    pub facts: Vec<Value>,
}

/// Identifies a question within a cycle.
pub type Key = (Id, Option<VertexId>);
/// The answers of a cycle; an error says why there is none.
pub type Answers = BTreeMap<Key, Result<Value, String>>;

impl Question {
    pub fn key(&self) -> Key {
        (self.of.clone(), self.vertex.clone())
    }

    /// Returns the request to send to an address, without values that may be secret.
    pub fn request(&self) -> Value {
        let kind = match self.of.kind {
            Kind::Evaluator => "evaluator",
            Kind::Alignment => "alignment",
            Kind::Executor => "executor",
        };
        let mut body = Map::from_iter([
            ("kind".to_owned(), json!(kind)),
            ("name".to_owned(), json!(&*self.of.name)),
        ]);
        for (name, value) in self.of.kind.variables().iter().zip(&self.facts) {
            let mut value = value.clone();
            if *name == "parameters" {
                hide_in_value(&mut value, Some(""));
            }
            body.insert((*name).to_owned(), value);
        }
        Value::Object(body)
    }
}

/// The rules' part of the input of a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asking<'a> {
    pub job: Option<&'a Job>,
    /// The answers so far.
    pub answers: Option<&'a Answers>,
}

/// A rule that gave no usable answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unanswered {
    pub of: Id,
    pub vertex: Option<VertexId>,
    pub why: String,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} gives no answer", self.of)?;
        if let Some(vertex) = &self.vertex {
            write!(f, " for vertex `{vertex}`")?;
        }
        write!(f, ": {}; the job is not scaled without it", self.why)
    }
}

/// Why a cycle cannot continue for now.
#[derive(Clone, Debug, PartialEq)]
pub enum Halt {
    Asks(Box<Question>),
    Unanswered(Unanswered),
}
