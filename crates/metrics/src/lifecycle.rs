//! How long a resource was in its states, and how long it took from one to another: the rules of the Java operator's
//! `ResourceLifecycleMetricTracker`, and of its `BlueGreenResourceLifecycleMetricTracker`.

use jiff::Timestamp;

use super::Facts;
use api::blue_green::BlueGreenState;
use api::status::LifecycleState;

/// All states, in the order of the Java operator.
pub const STATES: [LifecycleState; 10] = [
    LifecycleState::Created,
    LifecycleState::Suspended,
    LifecycleState::Upgrading,
    LifecycleState::Deployed,
    LifecycleState::Stable,
    LifecycleState::RollingBack,
    LifecycleState::RolledBack,
    LifecycleState::Failed,
    LifecycleState::Deleting,
    LifecycleState::Deleted,
];

/// All states of a blue/green deployment, in the order of the Java operator.
pub const BLUE_GREEN_STATES: [BlueGreenState; 7] = [
    BlueGreenState::InitializingBlue,
    BlueGreenState::ActiveBlue,
    BlueGreenState::ActiveGreen,
    BlueGreenState::SavepointingBlue,
    BlueGreenState::SavepointingGreen,
    BlueGreenState::TransitioningToBlue,
    BlueGreenState::TransitioningToGreen,
];

/// Transitions from one state to another that are timed.
#[derive(Clone, Copy, Debug, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub(super) enum Transition {
    Resume,
    Upgrade,
    Suspend,
    Stabilization,
    Rollback,
    Submission,
    InitialDeployment,
    BlueToGreen,
    GreenToBlue,
}

/// A time that is measured: `State` or `Transition`, and its name.
pub(super) type Timed = (&'static str, &'static str);

fn state<S: State>(state: S) -> Timed {
    ("State", state.name())
}

fn transition(transition: Transition) -> Timed {
    ("Transition", transition.into_str())
}

fn all_of<S: State>() -> Vec<Timed> {
    let states = S::ALL.iter().map(|of| state(*of));
    states.chain(S::TRANSITIONS.iter().map(|(.., by)| transition(*by))).collect()
}

/// The states of a kind of resource, and which times are measured.
pub(super) trait State: Copy + PartialEq + 'static {
    const ALL: &'static [Self];
    /// The state of a new resource.
    const FIRST: Self;
    /// Whether a state counts as seen until the next one is.
    const IS_SEEN_TO_ITS_END: bool;
    /// Where each transition begins and ends.
    const TRANSITIONS: &'static [(Self, Self, Since, Transition)];

    fn name(self) -> &'static str;

    /// Returns `true` if the time in state `of` is over when a resource comes to this state from `before`.
    fn ends(self, of: Self, before: Self) -> bool;
}

/// The start of a transition's time.
#[derive(Clone, Copy)]
pub(super) enum Since {
    /// When the state was entered.
    Entry,
    /// When the resource was last seen in it.
    LastSeen,
}

impl State for LifecycleState {
    const ALL: &'static [Self] = &STATES;
    const FIRST: Self = Self::Created;
    const IS_SEEN_TO_ITS_END: bool = false;
    const TRANSITIONS: &'static [(Self, Self, Since, Transition)] = {
        use LifecycleState::{Deployed, RolledBack, RollingBack, Stable, Suspended, Upgrading};
        &[
            (Suspended, Stable, Since::LastSeen, Transition::Resume),
            (Stable, Stable, Since::LastSeen, Transition::Upgrade),
            (Deployed, Upgrading, Since::LastSeen, Transition::Suspend),
            (Stable, Upgrading, Since::LastSeen, Transition::Suspend),
            (RolledBack, Upgrading, Since::LastSeen, Transition::Suspend),
            (Deployed, Suspended, Since::LastSeen, Transition::Suspend),
            (Stable, Suspended, Since::LastSeen, Transition::Suspend),
            (RolledBack, Suspended, Since::LastSeen, Transition::Suspend),
            (Deployed, Stable, Since::Entry, Transition::Stabilization),
            (Deployed, RolledBack, Since::Entry, Transition::Rollback),
            (Upgrading, Deployed, Since::LastSeen, Transition::Submission),
            (RollingBack, RolledBack, Since::LastSeen, Transition::Submission),
        ]
    };

    fn name(self) -> &'static str {
        self.into_str()
    }

    fn ends(self, of: Self, before: Self) -> bool {
        let is_retained = self != Self::Upgrading || of == before;
        of != self && (is_terminal(self) || !is_retained)
    }
}

impl State for BlueGreenState {
    const ALL: &'static [Self] = &BLUE_GREEN_STATES;
    const FIRST: Self = Self::InitializingBlue;
    const IS_SEEN_TO_ITS_END: bool = true;
    const TRANSITIONS: &'static [(Self, Self, Since, Transition)] = &[
        (Self::InitializingBlue, Self::ActiveBlue, Since::LastSeen, Transition::InitialDeployment),
        (Self::ActiveBlue, Self::ActiveGreen, Since::LastSeen, Transition::BlueToGreen),
        (Self::ActiveGreen, Self::ActiveBlue, Since::LastSeen, Transition::GreenToBlue),
    ];

    fn name(self) -> &'static str {
        self.into_str()
    }

    fn ends(self, _of: Self, _before: Self) -> bool {
        matches!(self, Self::ActiveBlue | Self::ActiveGreen)
    }
}

/// Returns `true` if a resource may stay in this state, because the transition to it is over.
fn is_terminal(state: LifecycleState) -> bool {
    match state {
        LifecycleState::Suspended
        | LifecycleState::Stable
        | LifecycleState::RolledBack
        | LifecycleState::Failed
        | LifecycleState::Deleted => true,
        LifecycleState::Created
        | LifecycleState::Upgrading
        | LifecycleState::Deployed
        | LifecycleState::RollingBack
        | LifecycleState::Deleting => false,
    }
}

#[derive(Clone, Copy, Debug)]
struct Span<S> {
    state: S,
    entered: Timestamp,
    last_seen: Timestamp,
}

/// The states that one resource went through since it was last in one where it may stay.
#[derive(Clone, Debug)]
pub(super) struct Track<S> {
    now: S,
    spans: Vec<Span<S>>,
}

impl<S: State> Track<S> {
    /// Creates the track; the first state begins with the creation.
    fn new(state: S, created: Option<Timestamp>, at: Timestamp) -> Self {
        let since = created.filter(|_| state == S::FIRST).unwrap_or(at);
        Self { now: state, spans: vec![Span { state, entered: since, last_seen: since }] }
    }

    fn see(&mut self, next: S, at: Timestamp) -> Vec<(Timed, u64)> {
        if next == self.now || S::IS_SEEN_TO_ITS_END {
            for span in self.spans.iter_mut().filter(|span| span.state == self.now) {
                span.last_seen = at;
            }
        }
        if next == self.now {
            return Vec::new();
        }
        let mut ended = Vec::new();
        for (from, _, since, by) in S::TRANSITIONS.iter().filter(|(_, to, ..)| *to == next) {
            let Some(span) = self.spans.iter().find(|span| span.state == *from) else { continue };
            let since = match since {
                Since::Entry => span.entered,
                Since::LastSeen => span.last_seen,
            };
            ended.push((transition(*by), seconds(since, at)));
        }
        let before = std::mem::replace(&mut self.now, next);
        self.spans.retain(|span| {
            let ends = next.ends(span.state, before);
            if ends {
                ended.push((state(span.state), seconds(span.entered, span.last_seen)));
            }
            !ends && span.state != next
        });
        self.spans.push(Span { state: next, entered: at, last_seen: at });
        ended
    }
}

/// Measures the times of one resource.
#[derive(Clone, Debug)]
pub(super) enum Tracker {
    Lifecycle(Track<LifecycleState>),
    BlueGreen(Track<BlueGreenState>),
}

impl Tracker {
    /// Returns `None` for a kind without timed states.
    pub(super) fn new(facts: &Facts, created: Option<Timestamp>, at: Timestamp) -> Option<Self> {
        match facts {
            Facts::Deployment { lifecycle, .. } | Facts::SessionJob { lifecycle } => {
                Some(Self::Lifecycle(Track::new(*lifecycle, created, at)))
            }
            Facts::BlueGreen { state, job: _ } => {
                Some(Self::BlueGreen(Track::new(*state, created, at)))
            }
            Facts::Snapshot { .. } => None,
        }
    }

    /// Returns all times that are measured for this kind of resource.
    pub(super) fn all(&self) -> Vec<Timed> {
        match self {
            Self::Lifecycle(_) => all_of::<LifecycleState>(),
            Self::BlueGreen(_) => all_of::<BlueGreenState>(),
        }
    }

    /// Notes that the resource was seen in this state; returns the times that this ends, in seconds.
    pub(super) fn see(&mut self, facts: &Facts, at: Timestamp) -> Vec<(Timed, u64)> {
        match (self, facts) {
            (Self::BlueGreen(track), Facts::BlueGreen { state, job: _ }) => track.see(*state, at),
            (Self::Lifecycle(track), facts) => {
                facts.lifecycle().map(|state| track.see(state, at)).unwrap_or_default()
            }
            (Self::BlueGreen(_), _) => Vec::new(),
        }
    }
}

/// Returns the time between the two; never negative, even if a clock is set back.
fn seconds(from: Timestamp, to: Timestamp) -> u64 {
    to.duration_since(from).as_secs().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests;
