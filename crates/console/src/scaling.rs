//! Contents of the autoscaler page of a job: what is in force, what was decided before, and what would be decided now.

use crate::resource::Part;
use crate::row::Key;

/// Maximum number of decisions shown, the newest ones.
pub const DECISIONS_MAX: usize = 100;
/// Maximum number of vertices shown.
pub const VERTICES_MAX: usize = 60;
/// Maximum number of vertices with a chart, those that were scaled last.
pub const CHARTS_MAX: usize = 12;

/// What the page shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shown {
    Scaled(Box<Autoscaler>),
    /// It is off and has stored nothing. `is_certain` if the operator's own options are known.
    Off {
        is_certain: bool,
    },
    /// The jobs of a session cluster, each of which is scaled separately.
    Session(Vec<Key>),
}

/// The autoscaler of one job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Autoscaler {
    /// Names and formatted values.
    pub facts: Vec<(&'static str, String)>,
    /// What cannot be read, or keeps the job from being scaled.
    pub remarks: Vec<String>,
    pub vertices: Vec<Vertex>,
    pub decisions: Decisions,
    /// What it would decide now, or why that is unknown; `None` if it was not asked.
    pub outcome: Option<Part<Outcome>>,
}

/// The result of a cycle that starts now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    pub words: String,
    /// Time of day at which it was measured.
    pub at: String,
    pub is_backlog: bool,
}

/// A vertex.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Vertex {
    /// Its name, or its id if the JobManager reports no name.
    pub name: String,
    /// The last decision, which is in force.
    pub decided: Option<u32>,
    /// Time since which a lower parallelism would do, in seconds since the epoch.
    pub waits_since: Option<i64>,
    /// What would be decided now.
    pub now: Option<Now>,
}

/// A vertex as just measured; figures are formatted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Now {
    pub parallelism: u32,
    pub recommended: u32,
    pub true_rate: String,
    pub target_rate: String,
    /// The rule that was decisive, and its number.
    pub rule: Option<String>,
}

/// Earlier scaling decisions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decisions {
    newest: Vec<Decision>,
    /// Whether there are older ones.
    is_cut: bool,
}

/// A vertex that was scaled. Rates are records per second.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decision {
    /// Seconds since the epoch.
    pub at: i64,
    pub vertex: String,
    pub from: u32,
    pub to: u32,
    /// What it can process.
    pub true_rate: Option<Rate>,
    /// What it has to process.
    pub target_rate: Option<Rate>,
    /// What it was expected to process afterwards.
    pub expected_rate: Option<Rate>,
    /// The rule that decided, and its number; `None` for scalings by the Java operator.
    pub rule: Option<String>,
    /// How long the job took to run again, formatted.
    pub restart: Option<String>,
}

/// Records per second.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rate {
    /// `None` if it is unlimited, as for a vertex that has nothing to do.
    pub amount: Option<i64>,
    pub words: String,
}

impl Decisions {
    /// Creates the list from decisions in any order.
    pub fn new(mut decisions: Vec<Decision>) -> Self {
        decisions.sort_by(|one, other| (other.at, &one.vertex).cmp(&(one.at, &other.vertex)));
        let is_cut = decisions.len() > DECISIONS_MAX;
        decisions.truncate(DECISIONS_MAX);
        Self { newest: decisions, is_cut }
    }

    /// Returns the decisions, newest first.
    pub fn newest(&self) -> &[Decision] {
        &self.newest
    }

    /// Returns whether there are older decisions than those shown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the decisions of each vertex, oldest first. Vertices that were scaled last come first.
    pub fn by_vertex(&self) -> Vec<Vec<&Decision>> {
        let mut all: Vec<Vec<&Decision>> = Vec::new();
        for decision in &self.newest {
            let is_its =
                |of: &&mut Vec<&Decision>| of.iter().any(|it| it.vertex == decision.vertex);
            match all.iter_mut().find(is_its) {
                Some(own) => own.insert(0, decision),
                None => all.push(vec![decision]),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_cut_and_reported_by_vertex() {
        let decision = |at: i64| Decision {
            at,
            vertex: if at % 2 == 0 { "map" } else { "sink" }.to_owned(),
            ..Decision::default()
        };
        let decisions = Decisions::new((0..150).map(decision).collect());
        assert!(decisions.is_cut() && decisions.newest().len() == DECISIONS_MAX);
        assert_eq!(decisions.newest()[0].at, 149);
        let by_vertex = decisions.by_vertex();
        assert_eq!(by_vertex.len(), 2);
        assert_eq!((by_vertex[0][0].at, by_vertex[0][49].at), (51, 149));
        assert!(!Decisions::new(vec![decision(1)]).is_cut());
    }
}
