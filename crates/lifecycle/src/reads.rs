//! The facts that a pass looks at whatever comes of it, by the phase: they are read at once, so that the decision is
//! not made anew for each. All others are asked for by the rule that needs them, see [`crate::world`].

use super::phase::Phase;
use super::session_job::leaving::is_ready;
use super::session_job::world as session_job;
use super::world::{Fact, Facts, JobManager, Question, World};
use api::status::JobManagerDeploymentStatus;

/// A fact that is read before there is a decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Read {
    JobManager,
    Jobs,
    Stop,
    Snapshots,
}

impl Read {
    /// What is read, and on which condition.
    pub const fn text(self) -> &'static str {
        match self {
            Self::JobManager => "the JobManager's Deployment",
            Self::Jobs => "the jobs that Flink lists, if the JobManager answers",
            Self::Stop => "how the savepoint of the stop stands, if the JobManager answers",
            Self::Snapshots => "the job's `FlinkStateSnapshot`s, as the watch has them",
        }
    }
}

impl Phase {
    /// What each pass in this phase looks at.
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

/// The next fact to read of a `FlinkDeployment` in this phase.
pub fn of_deployment(phase: Phase, world: &World<'_>) -> Option<Question> {
    let Facts { job_manager, jobs, stop, snapshots, .. } = &world.facts;
    let has_job = world.resource.spec.job.is_some();
    let answers = has_job
        && world.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
        && matches!(job_manager, Fact::Known(Some(job_manager)) if is_up(job_manager));
    phase.reads().iter().find_map(|read| match read {
        Read::JobManager => unread(true, job_manager, Question::JobManager),
        Read::Jobs => unread(answers, jobs, Question::Jobs),
        Read::Stop => unread(answers, stop, Question::Stop),
        Read::Snapshots => {
            unread(answers && world.has_snapshot_resources, snapshots, Question::Snapshots)
        }
    })
}

/// The next fact to read of a `FlinkSessionJob` in this phase. Its JobManager is its cluster's.
pub fn of_session_job(
    phase: Phase,
    world: &session_job::World<'_>,
) -> Option<session_job::Question> {
    let session_job::Facts { jobs, stop, snapshots, .. } = &world.facts;
    let answers = world.cluster.is_some_and(is_ready);
    phase.reads().iter().find_map(|read| match read {
        Read::JobManager => None,
        Read::Jobs => unread(answers, jobs, session_job::Question::Jobs),
        Read::Stop => unread(answers, stop, session_job::Question::Stop),
        Read::Snapshots => unread(
            answers && world.has_snapshot_resources,
            snapshots,
            session_job::Question::Snapshots,
        ),
    })
}

fn is_up(job_manager: &JobManager) -> bool {
    job_manager.available_replicas > 0 && !job_manager.is_deleting && !job_manager.is_stopped
}

fn unread<T, Q>(is_wanted: bool, fact: &Fact<T>, question: Q) -> Option<Q> {
    (is_wanted && matches!(fact, Fact::NotAsked)).then_some(question)
}
