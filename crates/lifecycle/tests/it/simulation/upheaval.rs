//! Changes around a resource: an API server that rejects writes, other defaults of the operator, and an operator clock
//! that is off by minutes.

use config::FlinkConfig;
use lifecycle::notes::UNFINISHED_DEPLOYMENT;
use lifecycle::wait::Waiting;

use super::*;

/// The API server's reason for rejecting an object.
const REFUSAL: &str = "Service `orders-rest` cannot be made: `bad key!` is no annotation";

/// High availability by default.
pub(crate) const HIGHLY_AVAILABLE: [(&str, &str); 2] =
    [("high-availability.type", "kubernetes"), ("high-availability.storageDir", "s3://lake/ha")];
/// What the operator may do by itself.
const BOLDNESS: [&str; 4] = [
    "kubernetes.operator.job.upgrade.last-state.job-cancel.enabled",
    "kubernetes.operator.job.upgrade.last-state-fallback.enabled",
    "kubernetes.operator.job.restart.failed",
    "kubernetes.operator.deployment.rollback.enabled",
];

/// What the API server rejects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    /// The JobManager's Deployment.
    JobManager,
    /// Objects beside it, including standalone TaskManagers.
    Beside,
    /// All writes of the resource's status.
    Status,
    /// Revisions and snapshots, which only show state.
    Records,
    /// What ends or removes something of the cluster.
    Removals,
    /// All writes.
    All,
}

impl Refused {
    /// Returns what rejects a step on the cluster, and with it the rest of the plan.
    fn of(step: &Step) -> Option<Self> {
        match step {
            Step::WriteStatus(_) => Some(Self::Status),
            Step::Own(ClusterStep::CreateCluster(_)) => Some(Self::JobManager),
            Step::Own(
                ClusterStep::StopJobManager { .. }
                | ClusterStep::DeleteJobManager { .. }
                | ClusterStep::StopTaskManagers { .. }
                | ClusterStep::DeleteTaskManagers { .. }
                | ClusterStep::DeleteHaMetadata { .. }
                | ClusterStep::ForgetJobGraphs { .. }
                | ClusterStep::RemovePreflight
                | ClusterStep::RemoveStandby { .. },
            ) => Some(Self::Removals),
            Step::AddFinalizer | Step::RemoveFinalizer | Step::Own(_) => Some(Self::All),
            Step::Event(_)
            | Step::RecordRevision(_)
            | Step::Snapshot(_)
            | Step::TriggerStop { .. }
            | Step::CancelJob { .. }
            | Step::ScaleJob { .. } => None,
        }
    }
}

/// What the API server does not tell: it answers reads of this kind, or dry runs, with an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Untold {
    Deployments,
    Pods,
    /// HA metadata, and what a cluster was created with.
    ConfigMaps,
    Snapshots,
    Revisions,
    SessionJobs,
    /// The dry run of the next cluster's objects.
    Refusal,
}

impl Untold {
    const ALL: [Self; 7] = [
        Self::Deployments,
        Self::Pods,
        Self::ConfigMaps,
        Self::Snapshots,
        Self::Revisions,
        Self::SessionJobs,
        Self::Refusal,
    ];

    fn is_asked(self, question: &Question) -> bool {
        match self {
            Self::Deployments => matches!(question, Question::JobManager | Question::TaskManagers),
            Self::Pods => matches!(
                question,
                Question::Pods
                    | Question::TaskManagerPods
                    | Question::Remains
                    | Question::Preflight(_)
                    | Question::StandbyPods
            ),
            Self::ConfigMaps => matches!(
                question,
                Question::HaMetadata | Question::DeployedConfig | Question::Leader
            ),
            Self::Snapshots => matches!(question, Question::Snapshots | Question::References),
            Self::Revisions => matches!(question, Question::Revisions),
            Self::SessionJobs => matches!(question, Question::SessionJobs),
            Self::Refusal => matches!(question, Question::Refusal(_)),
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Upheaval {
    /// What the last plan of this process waits for.
    pub(crate) waits: Option<Waiting>,
    untold: Option<Untold>,
    /// Remaining seconds of that.
    untold_for: u64,
    /// Remaining seconds in which pods that were asked to end stay, as on a lost node.
    stay_for: u64,
    /// Remaining seconds in which no pod starts.
    no_start_for: u64,
    /// Whether admission removes annotations of the operator from what is created.
    pub(crate) strips_annotations: bool,
    refused: Option<Refused>,
    /// Remaining seconds of the rejection.
    refused_for: u64,
    /// Whether a dry run is rejected too. A quota may not be exhausted yet at the time of the dry run.
    is_foretold: bool,
    /// Why the last plan stopped.
    pub(crate) stopped_at: Option<String>,
    /// The JobManager's Deployment beside which something was rejected in this pass.
    unfinished: Option<String>,
    /// How far the operator's clock is ahead of those of Flink and Kubernetes.
    pub(crate) skew: SignedDuration,
}

impl Upheaval {
    pub(crate) fn is_refused(&self, what: Refused) -> bool {
        self.refused.is_some_and(|refused| refused == what || refused == Refused::All)
    }

    /// Whether the plan stops at this step, because it is rejected.
    pub(crate) fn stops(&mut self, step: &Step) -> bool {
        Refused::of(step).is_some_and(|what| self.stops_at(what))
    }

    /// Whether the plan stops here because this is rejected.
    pub(crate) fn stops_at(&mut self, what: Refused) -> bool {
        let stops = self.is_refused(what);
        if stops {
            self.stopped_at = Some(REFUSAL.to_owned());
        }
        stops
    }

    /// Returns the rejection from a dry run.
    pub(super) fn foretold(&self) -> Option<String> {
        let is_object = matches!(self.refused, Some(Refused::JobManager | Refused::Beside));
        (is_object && self.is_foretold).then(|| REFUSAL.to_owned())
    }

    /// Whether the objects beside this JobManager are rejected.
    pub(super) fn leaves_unfinished(&mut self, job_manager: &JobManager) -> bool {
        let is_refused = self.is_refused(Refused::Beside);
        if is_refused {
            self.unfinished = Some(job_manager.uid.clone());
        }
        is_refused
    }

    /// Notes it like the operator in the status at the end of a pass.
    pub(super) fn note_unfinished(&mut self, end: &mut DeploymentStatus) {
        self.stopped_at = None;
        if let Some(uid) = self.unfinished.take() {
            UNFINISHED_DEPLOYMENT.set(&mut end.cluster_info, &uid);
            self.stopped_at = Some(REFUSAL.to_owned());
        }
    }

    /// Notes that the answer is unknown. Returns false for a question that the API server answers.
    pub(crate) fn leaves_unknown(&self, question: &Question, facts: &mut Facts) -> bool {
        let is_unknown = self.untold.is_some_and(|untold| untold.is_asked(question));
        if is_unknown {
            facts.note_unknown(question, "Internal error occurred (500)".to_owned());
        }
        is_unknown
    }

    /// Whether HA metadata cannot be read.
    pub(crate) fn hides_metadata(&self) -> bool {
        self.untold == Some(Untold::ConfigMaps)
    }

    /// Whether pods that were asked to end stay.
    pub(crate) fn keeps_pods(&self) -> bool {
        self.stay_for > 0
    }

    /// Whether pods are not started.
    pub(crate) fn starts_no_pods(&self) -> bool {
        self.no_start_for > 0
    }

    /// The operator's process dies, and the next one does not know of it.
    pub(crate) fn forget(&mut self) {
        (self.stopped_at, self.unfinished, self.waits) = (None, None, None);
    }

    /// Serializes it without seconds that make no difference.
    pub(crate) fn text(&self) -> String {
        let Self { refused, refused_for, is_foretold, stopped_at, unfinished, skew, .. } = self;
        let refused = refused.map(|what| (what, *refused_for > 1, is_foretold));
        let untold = self.untold.map(|what| (what, self.untold_for > 1));
        let stays = self.stay_for.min(2);
        let strips = self.strips_annotations;
        let skew = skew.as_secs();
        format!("{refused:?}{stopped_at:?}{unfinished:?}{untold:?}{stays}{strips}{skew}")
    }

    pub(crate) fn tick(&mut self) {
        self.refused_for = self.refused_for.saturating_sub(1);
        self.refused = self.refused.filter(|_| self.refused_for > 0);
        self.untold_for = self.untold_for.saturating_sub(1);
        self.untold = self.untold.filter(|_| self.untold_for > 0);
        self.stay_for = self.stay_for.saturating_sub(1);
        self.no_start_for = self.no_start_for.saturating_sub(1);
    }
}

/// A change around an explored world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// The API server rejects it for a moment, without a dry run showing that.
    Refused(Refused),
    /// It rejects it for good, and a dry run shows that.
    RefusedForGood(Refused),
    /// Whether high availability is on by default.
    HighAvailability(bool),
    /// Whether the operator's defaults allow what a cautious user does not.
    Boldness(bool),
    /// Seconds that the operator's clock is ahead.
    Clock(i64),
    /// The API server answers this with an error for good.
    Untold(Untold),
    /// Pods that are asked to end stay for good.
    PodsStay,
    /// Admission removes the operator's annotations.
    Admission,
}

/// A world around which much changes.
pub(crate) trait Upheaved {
    /// Writes that the API server may reject.
    const REFUSABLE: &'static [Refused];

    fn upheaval(&mut self) -> &mut Upheaval;

    /// Sets the operator's defaults from now on.
    fn set_defaults(&mut self, defaults: FlinkConfig);

    fn emit(&mut self, line: String);

    fn upheave(&mut self, choices: &mut Choices) {
        match choices.below(8) {
            0 => {
                let refusable = Self::REFUSABLE;
                let refused =
                    refusable[usize::try_from(choices.below(refusable.len() as u64)).unwrap()];
                let upheaval = self.upheaval();
                upheaval.refused = Some(refused);
                upheaval.refused_for = 1 + choices.below(40);
                upheaval.is_foretold = choices.below(3) > 0;
                self.emit(format!("  refused: {refused:?}"));
            }
            1 => {
                let seconds = i64::try_from(choices.below(240)).unwrap() - 120;
                self.upheaval().skew = SignedDuration::from_secs(seconds);
                self.emit(format!("  the operator's clock: {seconds} s"));
            }
            2 => {
                let untold = Untold::ALL[usize::try_from(choices.below(7)).unwrap()];
                let upheaval = self.upheaval();
                (upheaval.untold, upheaval.untold_for) = (Some(untold), 1 + choices.below(90));
                self.emit(format!("  not told: {untold:?}"));
            }
            3 => {
                self.upheaval().stay_for = 1 + choices.below(120);
                self.emit("  pods stay".to_owned());
            }
            4 => {
                self.upheaval().no_start_for = 1 + choices.below(40);
                self.emit("  no pod starts".to_owned());
            }
            5 => {
                self.upheaval().strips_annotations = choices.below(2) == 0;
                self.emit("  admission changes its mind about annotations".to_owned());
            }
            _ => {
                let mut defaults = FlinkConfig::new();
                if choices.below(2) == 0 {
                    defaults.overlay(&HIGHLY_AVAILABLE.into_iter().collect());
                }
                for option in BOLDNESS {
                    defaults.set(option, if choices.below(2) == 0 { "true" } else { "false" });
                }
                self.emit(format!("  defaults: {defaults:?}"));
                self.set_defaults(defaults);
            }
        }
    }

    fn change(&mut self, change: Change) {
        let mut refuse = |what, seconds, is_foretold| {
            let upheaval = self.upheaval();
            (upheaval.refused, upheaval.refused_for) = (Some(what), seconds);
            upheaval.is_foretold = is_foretold;
        };
        let with = |options: &[(&str, &str)]| options.iter().copied().collect();
        match change {
            Change::Refused(what) => refuse(what, 1, false),
            Change::RefusedForGood(what) => refuse(what, u64::MAX, true),
            Change::HighAvailability(true) => self.set_defaults(with(&HIGHLY_AVAILABLE)),
            Change::HighAvailability(false) => self.set_defaults(FlinkConfig::new()),
            Change::Boldness(is_bold) => {
                let value = is_bold.to_string();
                self.set_defaults(with(&BOLDNESS.map(|option| (option, &*value))));
            }
            Change::Untold(what) => {
                let upheaval = self.upheaval();
                (upheaval.untold, upheaval.untold_for) = (Some(what), u64::MAX);
            }
            Change::PodsStay => self.upheaval().stay_for = u64::MAX,
            Change::Admission => self.upheaval().strips_annotations = true,
            Change::Clock(seconds) => self.upheaval().skew = SignedDuration::from_secs(seconds),
        }
    }

    /// Restores the original conditions.
    fn end_upheaval(&mut self) {
        self.upheaval().refused = None;
        self.upheaval().untold = None;
        self.upheaval().stay_for = 0;
        self.upheaval().no_start_for = 0;
        self.upheaval().strips_annotations = false;
        self.upheaval().skew = SignedDuration::ZERO;
        self.set_defaults(FlinkConfig::new());
    }
}

impl Upheaved for Sim {
    const REFUSABLE: &'static [Refused] = &[
        Refused::JobManager,
        Refused::Beside,
        Refused::Status,
        Refused::Records,
        Refused::Removals,
        Refused::All,
    ];

    fn upheaval(&mut self) -> &mut Upheaval {
        &mut self.upheaval
    }

    /// Without high availability by default, state that only HA metadata refers to is out of sight.
    fn set_defaults(&mut self, defaults: FlinkConfig) {
        const KEY: &str = "high-availability.type";
        let is_retained =
            defaults.contains(KEY) || self.resource.spec.flink_configuration.0.contains_key(KEY);
        if self.is_high_availability_on && !is_retained {
            self.doubt.hide();
        }
        self.operator = OperatorConfig::new(defaults);
    }

    fn emit(&mut self, line: String) {
        self.log.push(line);
    }
}

impl Sim {
    /// Creates the objects beside the JobManager.
    pub(super) fn finish(&mut self, objects: &Objects) {
        let Some(job_manager) = &self.job_manager else { return };
        if !self.upheaval.leaves_unfinished(job_manager) {
            self.create_workers(objects);
        }
    }
}

#[test]
fn refusals_other_defaults_and_another_clock_lose_no_record() {
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim =
            if seed % 3 == 0 { Sim::new(mode) } else { Sim::without_high_availability(mode) };
        sim.is_slow = seed % 7 < 3;
        if seed % 5 < 2 {
            sim = sim.standalone();
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..150 {
                sim.second(&mut choices);
                sim.unsteady_pass(&mut choices);
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
    }
}
