//! The facts that every pass needs, by phase. They are read up front, so that the decision is not repeated for each of
//! them. All other facts are requested by the rule that needs them, see [`crate::world`].

use super::phase::Phase;
use super::resource::JobResource;
use super::world::{Fact, Facts, Question, World};

/// A fact that is read before the first decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    JobManager,
    Jobs,
    Stop,
    Snapshots,
}

impl Read {
    /// Describes what is read, and on which condition.
    pub const fn text(self) -> &'static str {
        match self {
            Self::JobManager => "the JobManager's Deployment",
            Self::Jobs => "the jobs that Flink lists, if the JobManager answers",
            Self::Stop => "the progress of the stop's savepoint, if the JobManager answers",
            Self::Snapshots => "the job's `FlinkStateSnapshot`s, from the watch",
        }
    }
}

impl Phase {
    /// Returns the facts that every pass in this phase needs.
    pub const fn reads(self) -> &'static [Read] {
        use Read::{JobManager, Jobs, Snapshots, Stop};
        match self {
            Self::New | Self::Unreadable | Self::Deleting => &[],
            Self::Starting | Self::Suspended | Self::RollingBack => &[JobManager],
            Self::Cancelling => &[JobManager, Jobs],
            Self::Stopping => &[JobManager, Jobs, Stop],
            Self::Running | Self::RolledBack => &[JobManager, Jobs, Snapshots],
        }
    }
}

/// Returns the question for the next fact to read in this phase.
pub fn next<K: JobResource>(phase: Phase, world: &World<'_, K>) -> Option<Question> {
    let Facts { jobs, stop, snapshots, .. } = &world.facts;
    if phase.reads().is_empty() {
        return None;
    }
    let answers = match K::may_ask(world) {
        Ok(answers) => answers,
        Err(question) => return Some(question),
    };
    phase.reads().iter().find_map(|read| match read {
        // Read above. A session job has none of its own.
        Read::JobManager => None,
        Read::Jobs => unread(answers, jobs, Question::Jobs),
        Read::Stop => unread(answers, stop, Question::Stop),
        Read::Snapshots => {
            unread(answers && world.has_snapshot_resources, snapshots, Question::Snapshots)
        }
    })
}

fn unread<T>(is_wanted: bool, fact: &Fact<T>, question: Question) -> Option<Question> {
    (is_wanted && matches!(fact, Fact::NotAsked)).then_some(question)
}
