//! How a plan ends: at rest, after a step, or waiting for something.
//!
//! A plan that only waits is made by [`Pass::wait_for`] or [`Pass::meanwhile`], with what it waits for. [`Awaited`] is
//! the whole list: each case has its limit, and what a person can do. After the limit, status and event say so. A limit
//! only tells: nothing is ended, and nothing is started, because it has passed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use strum::VariantArray;

use crate::blocker::Blocker;
use crate::job;
use crate::kind::{End, Kind};
use crate::pass::Pass;
use crate::plan::{Plan, PlanOf};
use crate::problem::{NOT_CARRIED_OUT, Problem};
use crate::resource::StatusOfJob;
use api::reconciled::Reconciled;
use config::option::ConfigOption;
use config::options;

/// Reason of the event for a wait past its limit.
pub const STILL_WAITING: &str = "StillWaiting";

/// Longest limit that no option sets.
const LIMIT_MAX: Duration = Duration::from_mins(10);

/// Something that a plan waits for; [`Awaited::text`] describes each.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, VariantArray)]
pub enum Awaited {
    JobManagerGone,
    JobManagerPodsGone,
    TaskManagersGone,
    TaskManagerPodsGone,
    StandbyGone,
    Lead,
    JobManagerAnswer,
    JobRunning,
    JobListed,
    Stable,
    JobEnded,
    Savepoint,
    Checkpoint,
    Statistics,
    Change,
    Trial,
    Turn,
    Retry,
    Validator,
    Unpaused,
    SessionCluster,
    SessionJobs,
    Submission,
    Fact,
    Deletion,
    Snapshot,
    SnapshotJob,
    TransitionSavepoint,
    ChildReady,
    ChildProof,
    ChildJob,
    ChildGone,
    WebUi,
}

/// When a wait is told.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After this time, [`LIMIT_MAX`] at most.
    After(Duration),
    /// After the time that this option sets.
    Of(&'static ConfigOption<Duration>),
    /// From the beginning, in this place.
    AtOnce(&'static str),
}

impl Limit {
    /// Returns the time after which the wait is told, with this value of its option; `None` if it is told from the
    /// beginning.
    pub fn time(
        self,
        of_option: impl FnOnce(&'static ConfigOption<Duration>) -> Option<Duration>,
    ) -> Option<Duration> {
        match self {
            Self::After(time) => Some(time),
            Self::Of(option) => of_option(option),
            Self::AtOnce(_) => None,
        }
    }
}

impl Awaited {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Describes what is waited for.
    pub const fn text(self) -> &'static str {
        match self {
            Self::JobManagerGone => "the old JobManager's Deployment is deleted",
            Self::JobManagerPodsGone => "the old JobManager's pods end",
            Self::TaskManagersGone => "the old TaskManagers' Deployment is deleted",
            Self::TaskManagerPodsGone => "the old TaskManagers' pods end",
            Self::StandbyGone => "pods that stood by for another spec end",
            Self::Lead => "the new JobManager of a hot upgrade leads",
            Self::JobManagerAnswer => "a JobManager starts, or answers again",
            Self::JobRunning => "a job starts, restarts, or is listed",
            Self::JobListed => "a job is listed again that was missing from the last list",
            Self::Stable => "a spec whose job runs proves stable",
            Self::JobEnded => "a job ends that was asked to",
            Self::Savepoint => "a savepoint completes",
            Self::Checkpoint => "a checkpoint completes",
            Self::Statistics => "the checkpoints of a job that a redeploy replaces can be read",
            Self::Change => {
                "a change is carried out, for which a JobManager was removed that never ran"
            }
            Self::Trial => "pods try a spec",
            Self::Turn => "other upgrades end",
            Self::Retry => "the pause after a failed attempt ends",
            Self::Validator => "an external validator answers",
            Self::Unpaused => "a paused resource is unpaused",
            Self::SessionCluster => "the session cluster is ready, or replaced",
            Self::SessionJobs => "session jobs leave a cluster that is replaced",
            Self::Submission => "it is known whether a job was submitted",
            Self::Fact => "something can be read that a decision depends on",
            Self::Deletion => "what a deletion waits for ends",
            Self::Snapshot => "the snapshot of a `FlinkStateSnapshot` is taken",
            Self::SnapshotJob => "a job runs, of which a `FlinkStateSnapshot` is wanted",
            Self::TransitionSavepoint => "the savepoint of a blue/green transition completes",
            Self::ChildReady => "a child of a blue/green deployment is ready",
            Self::ChildProof => "the target of a blue/green transition stays ready",
            Self::ChildJob => {
                "the job of the serving child runs, of which a transition takes a savepoint"
            }
            Self::ChildGone => "a child of a blue/green deployment is deleted",
            Self::WebUi => "the web UI points to the child that takes over",
        }
    }

    /// Returns how long the wait is normal.
    pub const fn limit(self) -> Limit {
        const HALF_MINUTE: Limit = Limit::After(Duration::from_secs(30));
        const MINUTE: Limit = Limit::After(Duration::from_mins(1));
        match self {
            Self::JobManagerPodsGone
            | Self::TaskManagerPodsGone
            | Self::StandbyGone
            | Self::JobListed => HALF_MINUTE,
            Self::JobManagerGone
            | Self::TaskManagersGone
            | Self::Lead
            | Self::Statistics
            | Self::Change
            | Self::Fact
            | Self::ChildGone
            | Self::WebUi => MINUTE,
            Self::JobEnded | Self::SessionJobs | Self::SnapshotJob => {
                Limit::After(Duration::from_mins(5))
            }
            Self::JobManagerAnswer | Self::JobRunning | Self::SessionCluster => {
                Limit::Of(&options::DEPLOYMENT_READINESS_TIMEOUT)
            }
            Self::Savepoint | Self::Checkpoint | Self::Snapshot => {
                Limit::Of(&options::CHECKPOINTING_TIMEOUT)
            }
            Self::Trial => Limit::Of(&options::JOB_UPGRADE_PREFLIGHT_TIMEOUT),
            Self::Submission => Limit::Of(&options::JOB_SUBMISSION_TIMEOUT),
            Self::Stable => Limit::AtOnce("lifecycleState DEPLOYED"),
            Self::Turn => {
                Limit::AtOnce("condition UpgradeAdmitted; a FlinkSessionJob has an event")
            }
            Self::Retry => Limit::AtOnce("status.error, with the failure"),
            Self::Validator => Limit::AtOnce("status.error, after a minute"),
            Self::Unpaused => Limit::AtOnce("event Paused; a FlinkDeployment has a condition"),
            Self::Deletion => Limit::Of(&options::RESOURCE_CLEANUP_TIMEOUT),
            Self::TransitionSavepoint | Self::ChildReady | Self::ChildJob => {
                Limit::Of(&options::blue_green::ABORT_GRACE_PERIOD)
            }
            Self::ChildProof => Limit::AtOnce("condition Progressing, with the time"),
        }
    }

    /// Returns what a person can do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::JobManagerGone | Self::TaskManagersGone => {
                "Nothing is started beside it. Look at its finalizers and its pods, and at the \
                 controller manager, which deletes it"
            }
            Self::Lead => "Look at the log of the pods that stand by",
            Self::JobManagerPodsGone | Self::TaskManagerPodsGone | Self::StandbyGone => {
                "Nothing is started beside them. Look at their finalizers and nodes"
            }
            Self::JobManagerAnswer => "Look at the JobManager's pod and its log",
            Self::JobRunning => "Look at the exceptions of the job and at its TaskManagers",
            Self::JobListed => "Look at the jobs in Flink's UI",
            Self::Stable => "Look at the checkpoints and the restarts of the job",
            Self::JobEnded => {
                "Cancel the job in Flink's UI, or look at the TaskManagers whose tasks do not end"
            }
            Self::Savepoint | Self::Checkpoint => {
                "Look at the job's backpressure and at its storage, or cancel the job"
            }
            Self::Statistics => "Look at the JobManager's log",
            Self::Change => "Correct what keeps the change from being carried out",
            Self::Trial => "Look at the pods that try the spec",
            Self::Turn => "Look at the other upgrades, with `kubectl flink list`",
            Self::Retry => "Correct the cause, or change the spec",
            Self::Validator => "Look at the validator",
            Self::Unpaused => "Unpause it with `kubectl flink unpause`",
            Self::SessionCluster => "Look at the session cluster's FlinkDeployment",
            Self::SessionJobs => "Look at the session jobs, or suspend them",
            Self::Submission => "Look at the jobs of the session cluster",
            Self::Fact => "Correct the cause",
            Self::Deletion => "`kubectl flink delete --explain` says what the deletion waits for",
            Self::SnapshotJob => "Look at the job, or delete the FlinkStateSnapshot",
            Self::Snapshot | Self::TransitionSavepoint => {
                "Look at the job's backpressure and at its storage"
            }
            Self::ChildReady | Self::ChildProof | Self::ChildJob => {
                "Look at the child's FlinkDeployment, with `kubectl flink why`"
            }
            Self::ChildGone => "Look at the child's FlinkDeployment and its finalizers",
            Self::WebUi => "Correct `spec.ingress`, or what refuses the object",
        }
    }

    /// Returns what is said of a wait that is longer than normal.
    pub fn overdue(self, because: &str, limit: Duration) -> String {
        let (limit, remedy) = (config::duration::render(limit), self.remedy());
        format!("{because}. This has lasted for more than {limit}. {remedy}")
    }
}

// A limit that no option sets is never longer.
const _: () = {
    let mut at = 0;
    while at < Awaited::ALL.len() {
        if let Limit::After(limit) = Awaited::ALL[at].limit() {
            assert!(limit.as_secs() <= LIMIT_MAX.as_secs());
        }
        at += 1;
    }
};

/// A plan's wait: its cause, its beginning, and when the status reports it. The operator's process remembers it from pass
/// to pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    pub on: Awaited,
    pub since: Timestamp,
    /// From then on, the status says so; `None` if it does from the beginning.
    pub told_at: Option<Timestamp>,
}

impl Waiting {
    /// Returns a wait with this beginning, which is normal for this time; `None` if it is told from the beginning.
    pub fn new(on: Awaited, since: Timestamp, limit: Option<Duration>) -> Self {
        let told_at = limit.and_then(|limit| {
            let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
            since.checked_add(limit).ok()
        });
        Self { on, since, told_at }
    }

    /// Returns true if the wait is longer than normal.
    pub fn is_late(&self, now: Timestamp) -> bool {
        self.told_at.is_some_and(|at| now >= at)
    }
}

impl<K: Kind> Pass<'_, K> {
    /// Ends the plan with nothing to wait for: the next pass only checks.
    pub(crate) fn rest(
        &mut self,
        because: impl Into<String>,
        look_again: Option<Duration>,
    ) -> PlanOf<K> {
        self.finish(because.into(), look_again, None)
    }

    /// Ends the plan after a step, or a decision on record, whose outcome the next pass finds.
    pub(crate) fn go_on(&mut self, because: impl Into<String>, look_again: Duration) -> PlanOf<K> {
        self.finish(because.into(), Some(look_again), None)
    }

    /// Ends the plan of a deletion with what it waits for, which is told, or no longer waited for, at this time.
    pub(crate) fn await_blocker(
        &mut self,
        blocker: Blocker,
        until: Timestamp,
        because: impl Into<String>,
        look_again: Duration,
    ) -> PlanOf<K> {
        self.blocker = Some(Box::new(blocker));
        let waits = Waiting { told_at: Some(until), ..self.waiting(Awaited::Deletion) };
        self.finish(because.into(), Some(look_again), Some(waits))
    }

    /// Ends the plan with a wait, which is told once it is longer than normal.
    pub(crate) fn wait_for(
        &mut self,
        on: Awaited,
        because: impl Into<String>,
        look_again: Duration,
    ) -> PlanOf<K> {
        let because = because.into();
        let waiting = self.waiting(on);
        self.report_lateness(waiting, &because);
        self.finish(because, Some(look_again), Some(waiting))
    }

    /// Maintains what runs while a change waits for something.
    pub(crate) fn meanwhile(
        &mut self,
        last: &Reconciled<K::Spec>,
        on: Awaited,
        because: impl Into<String>,
    ) -> End<K> {
        let because = because.into();
        let waiting = self.waiting(on);
        self.report_lateness(waiting, &because);
        let plan = K::maintain(self, last)?;
        Ok(Plan { because, waits: Some(waiting), ..plan })
    }

    /// Returns the wait, which began with the first of the passes in a row that wait for the same.
    fn waiting(&self, on: Awaited) -> Waiting {
        let now = self.world.now;
        let before = self.world.waits.filter(|before| before.on == on);
        let since = before.map_or(now, |before| before.since.min(now));
        Waiting::new(on, since, self.limit(on))
    }

    /// Returns how long this has been waited for.
    pub(crate) fn waited(&self, on: Awaited) -> Duration {
        let waited = self.world.now.duration_since(self.waiting(on).since);
        Duration::try_from(waited).unwrap_or_default()
    }

    fn limit(&self, on: Awaited) -> Option<Duration> {
        on.limit().time(|option| {
            let config = self.observe_config().ok();
            Some(config.and_then(|config| config.get(option).ok()).unwrap_or(LIMIT_MAX))
        })
    }

    /// Reports a wait that is longer than normal. What else is wrong stays the first thing to be said.
    fn report_lateness(&mut self, waiting: Waiting, because: &str) {
        if let Some(told_at) = waiting.told_at
            && let Ok(left) = Duration::try_from(told_at.duration_since(self.world.now))
            && !left.is_zero()
        {
            self.wake_within(left);
        }
        if !waiting.is_late(self.world.now) || self.problem.is_some() || !self.has_room() {
            return;
        }
        let Some(limit) = self.limit(waiting.on) else { return };
        let message = waiting.on.overdue(because, limit);
        self.problem = Some(Problem {
            reason: STILL_WAITING,
            // The error ends with the wait, which nothing else in the status shows.
            detail: Some(NOT_CARRIED_OUT.to_owned()),
            causes: self.world.stopped_at().map(str::to_owned).into_iter().collect(),
            ..Problem::of_resource(message)
        });
    }

    /// Returns the plan as it is, with its reason.
    fn finish(
        &mut self,
        because: String,
        look_again: Option<Duration>,
        waits: Option<Waiting>,
    ) -> PlanOf<K> {
        if self.paused.is_none() {
            K::tidy(self);
        }
        self.settle();
        self.report_first();
        let look_again = match (look_again, self.wake) {
            (Some(pause), Some(wake)) => Some(pause.min(wake)),
            (pause, wake) => pause.or(wake),
        };
        if let Some(problem) = &self.problem
            && self.status.error() != self.world.status.error()
        {
            let event = job::problem_event(problem);
            self.emit(event);
        }
        Plan {
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            because,
            look_again,
            blocker: self.blocker.take(),
            waits,
        }
    }

    /// Returns a plan that changes nothing, not even the status.
    pub(crate) fn untouched(&self, because: impl Into<String>) -> PlanOf<K> {
        Plan {
            steps: vec![],
            status: Box::new(self.world.status.clone()),
            because: because.into(),
            look_again: None,
            blocker: None,
            waits: None,
        }
    }
}
