//! The facts for a decision.

use api::blue_green::{BlueGreenStatus, Colour, FlinkBlueGreenDeployment};
use api::deployment::FlinkDeployment;
use jiff::Timestamp;
use lifecycle::world::{Answer, Fact, Turn};

use crate::child::Child;
use crate::settings::Settings;

/// State of a transition's savepoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Savepoint {
    Pending,
    Completed {
        path: String,
    },
    Failed {
        message: String,
    },
    /// The JobManager does not know the trigger: it was never asked, or has been replaced since.
    NotFound,
    /// It cannot be asked.
    Unknown {
        reason: String,
    },
}

/// State of the Ingress or route to the web UI of the serving child.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ingress {
    /// As desired, which may mean that there is none.
    InPlace,
    Differs,
    /// An object of this name belongs to someone else or cannot be read, or the API server would reject it.
    Refused {
        reason: String,
    },
}

/// A fact that a decision needs and does not have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Question {
    /// The savepoint of the child of this colour with this trigger id.
    Savepoint(Colour, String),
    /// The Ingress or route of the child of this colour.
    Ingress(Colour),
    /// Whether a transition may begin, according to the budget of concurrent upgrades.
    Turn,
}

/// Answers to questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub savepoint: Option<(String, Savepoint)>,
    pub ingress: Option<(Colour, Ingress)>,
    pub turn: Fact<Turn>,
    /// Why the last plan for this spec was not carried out to its end.
    pub stopped_at: Option<String>,
}

/// Everything that is known about a resource.
#[derive(Debug)]
pub struct World<'a> {
    pub now: Timestamp,
    pub resource: &'a FlinkBlueGreenDeployment,
    pub status: &'a BlueGreenStatus,
    pub settings: Settings,
    /// The operator selects resources by labels, so the children get those of the resource.
    pub inherits_labels: bool,
    /// Why the spec is invalid; the spec on record stays in force.
    pub violation: Option<String>,
    /// The objects with the names of the children.
    pub blue: Option<&'a FlinkDeployment>,
    pub green: Option<&'a FlinkDeployment>,
    /// For a savepoint requested in this pass.
    pub trigger_id: String,
    pub facts: Facts,
}

impl<'a> World<'a> {
    pub fn child(&self, colour: Colour) -> Option<Child<'a>> {
        match colour {
            Colour::Blue => self.blue,
            Colour::Green => self.green,
        }
        .map(Child)
    }

    pub(crate) fn generation(&self) -> i64 {
        self.resource.metadata.generation.unwrap_or_default()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.resource.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the savepoint with this trigger id.
    pub(crate) fn savepoint(&self, colour: Colour, id: &str) -> Result<&Savepoint, Question> {
        match &self.facts.savepoint {
            Some((known, savepoint)) if known == id => Ok(savepoint),
            Some(_) | None => Err(Question::Savepoint(colour, id.to_owned())),
        }
    }

    pub(crate) fn ingress(&self, colour: Colour) -> Result<&Ingress, Question> {
        match &self.facts.ingress {
            Some((known, ingress)) if *known == colour => Ok(ingress),
            Some(_) | None => Err(Question::Ingress(colour)),
        }
    }

    pub(crate) fn turn(&self) -> Result<Answer<'_, Turn>, Question> {
        self.facts.turn.read(Question::Turn)
    }
}
