//! Changes around a blue/green deployment: an API server that rejects writes or does not answer reads, children that do
//! not start or do not end, admission, and an operator whose clock is off by minutes.

use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use blue_green::plan::Step;
use jiff::{SignedDuration, Timestamp};
use testing::choices::Choices;

use crate::world::Sim;

/// What admission puts into a child whose spec it changes.
const MIRROR: &str = "mirror/";

/// Which writes the API server rejects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    Creations,
    Changes,
    Deletions,
    Status,
    /// Revisions and snapshots, which only show state.
    Records,
    WebUi,
    Autoscaler,
    All,
}

impl Refused {
    const ALL: [Self; 8] = [
        Self::Creations,
        Self::Changes,
        Self::Deletions,
        Self::Status,
        Self::Records,
        Self::WebUi,
        Self::Autoscaler,
        Self::All,
    ];

    fn of(step: &Step) -> Option<Self> {
        match step {
            Step::WriteStatus(_) => Some(Self::Status),
            Step::RecordRevision(_) | Step::KeepSavepoint { .. } => Some(Self::Records),
            Step::CopyAutoscalerState { .. } => Some(Self::Autoscaler),
            Step::CreateChild(_) => Some(Self::Creations),
            Step::ChangeChild(_) => Some(Self::Changes),
            Step::DeleteChild { .. } => Some(Self::Deletions),
            Step::PointIngress(_) => Some(Self::WebUi),
            Step::Event(_) | Step::TriggerSavepoint { .. } => None,
        }
    }
}

/// What the API server or the JobManager does not tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Untold {
    Children,
    WebUi,
    Savepoints,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Upheaval {
    refused: Option<Refused>,
    refused_for: u64,
    /// Whether it fails instead, as with a webhook that is away.
    is_error: bool,
    untold: Option<Untold>,
    untold_for: u64,
    /// Seconds in which children that are deleted stay, as with a finalizer or a foreground deletion.
    stay_for: u64,
    /// Seconds in which no pod starts.
    no_start_for: u64,
    pub(crate) strips_annotations: bool,
    /// Whether admission changes the specs of children.
    rewrites: bool,
    /// How far the operator's clock is ahead of those of Flink and Kubernetes.
    pub(crate) skew: SignedDuration,
    /// Why the last plan stopped, and the generation it was for.
    stopped_at: Option<(Option<i64>, String)>,
    /// Since when this process could not read the children.
    pub(crate) unread_since: Option<Timestamp>,
}

impl Upheaval {
    pub(crate) fn stopped_at(&self, resource: &FlinkBlueGreenDeployment) -> Option<String> {
        let stopped_at = self.stopped_at.as_ref();
        let (_, why) = stopped_at.filter(|(of, _)| *of == resource.metadata.generation)?;
        Some(why.clone())
    }

    pub(crate) fn stop_at(&mut self, why: &str, resource: &FlinkBlueGreenDeployment) {
        self.stopped_at = Some((resource.metadata.generation, why.to_owned()));
    }

    /// A plan was carried out.
    pub(crate) fn go_on(&mut self) {
        self.stopped_at = None;
    }

    /// The operator's process dies, and the next one does not know of it.
    pub(crate) fn forget(&mut self) {
        (self.stopped_at, self.unread_since) = (None, None);
    }

    fn is_refused(&self, step: &Step) -> bool {
        let of = Refused::of(step);
        of.is_some() && (self.refused == of || self.refused == Some(Refused::All))
    }

    /// Whether the plan stops at this step. A revision or a snapshot that is rejected holds up nothing.
    pub(crate) fn stops(&mut self, step: &Step, resource: &FlinkBlueGreenDeployment) -> bool {
        let is_record = Refused::of(step) == Some(Refused::Records);
        let stops = self.is_refused(step) && (self.is_error || !is_record);
        if stops {
            self.stop_at(if self.is_error { "webhook: 503" } else { "quota" }, resource);
        }
        stops
    }

    /// Whether nothing comes of this step, and the plan goes on.
    pub(crate) fn drops(&self, step: &Step) -> bool {
        self.is_refused(step)
    }

    pub(crate) fn hides(&self, what: Untold) -> bool {
        self.untold == Some(what)
    }

    pub(crate) fn show(&mut self, what: Untold) {
        self.untold.take_if(|untold| *untold == what);
    }

    pub(crate) fn keeps_children(&self) -> bool {
        self.stay_for > 0
    }

    pub(crate) fn starts_no_pods(&self) -> bool {
        self.no_start_for > 0
    }

    /// Admission of a child that is created or changed.
    pub(crate) fn admit(&self, child: &mut FlinkDeployment) {
        if self.strips_annotations {
            child.metadata.annotations = None;
        }
        if self.rewrites
            && let Some(image) = child.spec.image.as_mut().filter(|it| !it.starts_with(MIRROR))
        {
            image.insert_str(0, MIRROR);
        }
    }

    pub(crate) fn tick(&mut self) {
        self.refused_for = self.refused_for.saturating_sub(1);
        self.refused = self.refused.filter(|_| self.refused_for > 0);
        self.untold_for = self.untold_for.saturating_sub(1);
        self.untold = self.untold.filter(|_| self.untold_for > 0);
        self.stay_for = self.stay_for.saturating_sub(1);
        self.no_start_for = self.no_start_for.saturating_sub(1);
    }

    /// Serializes it without seconds that make no difference.
    pub(crate) fn text(&self) -> String {
        let Self { strips_annotations: strips, rewrites, skew, stopped_at, .. } = self;
        let refused = self.refused.map(|what| (what, self.refused_for > 1, self.is_error));
        let untold = self.untold.map(|what| (what, self.untold_for > 1));
        let (stay, no_start) = (self.stay_for.min(2), self.no_start_for.min(2));
        let skew = skew.as_secs();
        let is_unread = self.unread_since.is_some();
        format!(
            "{refused:?}{untold:?}{stay}{no_start}{strips}{rewrites}{skew}{stopped_at:?}{is_unread}"
        )
    }
}

/// A change around an explored world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// The API server rejects it for a moment.
    Refused(Refused),
    RefusedForGood(Refused),
    /// It answers such writes with an error for good.
    FailsForGood(Refused),
    /// It answers this with an error for good.
    Untold(Untold),
    /// Children that are deleted stay for good.
    ChildrenStay,
    /// No pod starts for longer than a target may take.
    NoPods,
    /// Admission removes annotations.
    Admission,
    /// Admission changes the spec of a child.
    Rewrite,
    /// Seconds that the operator's clock is ahead.
    Clock(i64),
}

impl Sim {
    pub(crate) fn upheave(&mut self, choices: &mut Choices) {
        let upheaval = &mut self.upheaval;
        match choices.below(8) {
            0 | 1 => {
                let what = Refused::ALL[usize::try_from(choices.below(8)).unwrap()];
                upheaval.refused = Some(what);
                upheaval.refused_for = 1 + choices.below(60);
                upheaval.is_error = choices.below(2) == 0;
            }
            2 => {
                let seconds = i64::try_from(choices.below(240)).unwrap() - 120;
                upheaval.skew = SignedDuration::from_secs(seconds);
            }
            3 => {
                let all = [Untold::Children, Untold::WebUi, Untold::Savepoints];
                upheaval.untold = Some(all[usize::try_from(choices.below(3)).unwrap()]);
                upheaval.untold_for = 1 + choices.below(90);
            }
            4 => upheaval.stay_for = 1 + choices.below(120),
            5 => upheaval.no_start_for = 1 + choices.below(60),
            6 => upheaval.strips_annotations = choices.below(2) == 0,
            _ => upheaval.rewrites = choices.below(3) == 0,
        }
        if upheaval.strips_annotations {
            self.resource.metadata.annotations = None;
        }
        let line = format!("{}  upheaval: {}", self.now, self.upheaval.text());
        self.log.push(line);
    }

    pub(crate) fn change_around(&mut self, change: Change) {
        let upheaval = &mut self.upheaval;
        let mut refuse = |what, seconds, is_error| {
            (upheaval.refused, upheaval.refused_for) = (Some(what), seconds);
            upheaval.is_error = is_error;
        };
        match change {
            Change::Refused(what) => refuse(what, 2, true),
            Change::RefusedForGood(what) => refuse(what, u64::MAX, false),
            Change::FailsForGood(what) => refuse(what, u64::MAX, true),
            Change::Untold(what) => {
                (upheaval.untold, upheaval.untold_for) = (Some(what), u64::MAX);
            }
            Change::ChildrenStay => upheaval.stay_for = u64::MAX,
            Change::NoPods => upheaval.no_start_for = 40,
            Change::Admission => {
                upheaval.strips_annotations = true;
                self.resource.metadata.annotations = None;
            }
            Change::Rewrite => upheaval.rewrites = true,
            Change::Clock(seconds) => upheaval.skew = SignedDuration::from_secs(seconds),
        }
    }

    /// Whether nothing goes on until the API server takes a write, or answers, and that is told where it can be.
    pub(crate) fn is_held_up(&self) -> bool {
        let is_untold = matches!(self.upheaval.refused, Some(Refused::Status | Refused::All));
        let is_stopped = self.upheaval.stopped_at(&self.resource).is_some();
        is_stopped && (is_untold || self.status.error.is_some())
            || (self.upheaval.hides(Untold::Children) || self.upheaval.rewrites)
                && self.status.error.is_some()
    }

    /// Restores the original conditions. What admission has changed stays.
    pub(crate) fn end_upheaval(&mut self) {
        self.upheaval = Upheaval::default();
    }
}
