//! How long a resource was in its states, and how long it took from one to another: the rules of the
//! Java operator's `ResourceLifecycleMetricTracker`.

use jiff::Timestamp;
use strum::VariantArray;

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

/// Ways from one state to another that are timed.
#[derive(
    Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, strum::IntoStaticStr, VariantArray,
)]
#[strum(const_into_str)]
pub enum Transition {
    Resume,
    Upgrade,
    Suspend,
    Stabilization,
    Rollback,
    Submission,
}

impl Transition {
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// From when a transition is timed.
#[derive(Clone, Copy)]
enum Since {
    /// When the state was entered.
    Entry,
    /// When the resource was last seen in it.
    LastSeen,
}

/// Where each transition begins and ends.
const TIMED: [(LifecycleState, LifecycleState, Since, Transition); 12] = {
    use LifecycleState::{Deployed, RolledBack, RollingBack, Stable, Suspended, Upgrading};
    [
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

/// True if a resource may stay in this state, because the transition to it is over.
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

/// A measured time in seconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Timed {
    State(LifecycleState, i64),
    Transition(Transition, i64),
}

#[derive(Clone, Copy, Debug)]
struct Span {
    state: LifecycleState,
    entered: Timestamp,
    last_seen: Timestamp,
}

/// The states that one resource went through since it last was where it may stay.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    now: LifecycleState,
    spans: Vec<Span>,
}

impl Tracker {
    pub(super) fn new(state: LifecycleState, since: Timestamp) -> Self {
        Self { now: state, spans: vec![Span { state, entered: since, last_seen: since }] }
    }

    pub(super) fn state(&self) -> LifecycleState {
        self.now
    }

    /// The resource was seen in `state`; answers what that brings to an end.
    pub(super) fn see(&mut self, state: LifecycleState, at: Timestamp) -> Vec<Timed> {
        if state == self.now {
            for span in self.spans.iter_mut().filter(|span| span.state == state) {
                span.last_seen = at;
            }
            return Vec::new();
        }
        let mut ended = Vec::new();
        for (from, _, since, transition) in TIMED.iter().filter(|(_, to, ..)| *to == state) {
            let Some(span) = self.spans.iter().find(|span| span.state == *from) else { continue };
            let since = match since {
                Since::Entry => span.entered,
                Since::LastSeen => span.last_seen,
            };
            ended.push(Timed::Transition(*transition, seconds(since, at)));
        }
        let before = std::mem::replace(&mut self.now, state);
        self.spans.retain(|span| span.state != state);
        self.spans.push(Span { state, entered: at, last_seen: at });
        let stays = |of: LifecycleState| {
            let is_kept = state != LifecycleState::Upgrading || of == before;
            of == state || (!is_terminal(state) && is_kept)
        };
        self.spans.retain(|span| {
            if !stays(span.state) {
                ended.push(Timed::State(span.state, seconds(span.entered, span.last_seen)));
            }
            stays(span.state)
        });
        ended
    }
}

/// Clocks that are set back make no negative times.
fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

#[cfg(test)]
mod tests;
