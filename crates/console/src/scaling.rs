//! What the page of a job's autoscaler shows: what is in force, what it decided before, and what it would decide now.

use crate::resource::Part;
use crate::row::Key;

/// Decisions that are shown, the newest.
pub const DECISIONS_MAX: usize = 100;
/// Vertices that are shown.
pub const VERTICES_MAX: usize = 60;
/// Vertices of which there is a chart, those that were scaled last.
pub const CHARTS_MAX: usize = 12;

/// What there is to show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Shown {
    Scaled(Box<Autoscaler>),
    /// It is off and has stored nothing; `is_certain` where the operator's own options are known.
    Off {
        is_certain: bool,
    },
    /// The jobs of a session cluster are scaled each by itself.
    Session(Vec<Key>),
}

/// The autoscaler of one job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Autoscaler {
    /// Names and values in words.
    pub facts: Vec<(&'static str, String)>,
    /// What cannot be read, or keeps the job from being scaled.
    pub remarks: Vec<String>,
    pub vertices: Vec<Vertex>,
    pub decisions: Decisions,
    /// What it would decide now, or why that is not known; absent where nobody asks.
    pub outcome: Option<Part<Outcome>>,
}

/// What a cycle that begins now would end with.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    pub words: String,
    /// When it was measured, a time of the day.
    pub at: String,
    pub is_backlog: bool,
}

/// One vertex.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Vertex {
    /// Its name, or its id where the JobManager does not tell one.
    pub name: String,
    /// As decided before, and in force since.
    pub decided: Option<u32>,
    /// Since when a lower parallelism would do, in seconds since the epoch.
    pub waits_since: Option<i64>,
    /// What would be decided now.
    pub now: Option<Now>,
}

/// A vertex as it was just measured; figures in words.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Now {
    pub parallelism: u32,
    pub recommended: u32,
    pub true_rate: String,
    pub target_rate: String,
    /// The rule that decided, and its number.
    pub rule: Option<String>,
}

/// What was scaled before.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Decisions {
    newest: Vec<Decision>,
    /// There are older ones.
    is_cut: bool,
}

/// One vertex that was scaled; rates are records per second.
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
    /// How long the job took to run again, in words.
    pub restart: Option<String>,
}

/// Records per second.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rate {
    /// Absent where it is without bound, as that of a vertex that has nothing to do.
    pub amount: Option<i64>,
    pub words: String,
}

impl Decisions {
    /// Of decisions in any order.
    pub fn new(mut decisions: Vec<Decision>) -> Self {
        decisions.sort_by(|one, other| (other.at, &one.vertex).cmp(&(one.at, &other.vertex)));
        let is_cut = decisions.len() > DECISIONS_MAX;
        decisions.truncate(DECISIONS_MAX);
        Self { newest: decisions, is_cut }
    }

    /// The newest first.
    pub fn newest(&self) -> &[Decision] {
        &self.newest
    }

    /// Whether there are older ones than those that are shown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Of each vertex its own, the oldest first; vertices that were scaled last come first.
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
    fn decisions_are_cut_and_told_by_vertex() {
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
