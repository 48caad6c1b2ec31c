//! Who leads: turns what a candidate has seen of a lease into its next action.
//!
//! Times are those of the candidate's own clock, which never jumps. They are never compared with the times in a lease,
//! so clocks may differ arbitrarily. A candidate counts from when it *saw* a holder renew, the holder from when it
//! *requested* the renewal, which is earlier. So the holder has stopped by itself before another candidate takes its
//! lease. Rule: `client-go/tools/leaderelection`.

use std::time::Duration;

use super::shard::Tenure;
use config::option::InvalidValue;
use config::{FlinkConfig, options};

/// Minimum duration of a lease: the API server stores whole seconds.
const DURATION_MIN: Duration = Duration::from_secs(1);

/// The timing of a lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// How long a lease lasts that is not renewed.
    pub duration: Duration,
    /// How long after requesting a renewal its holder may act on it; shorter than the lease, so that what it sends last
    /// has arrived before another one takes over.
    pub renew_deadline: Duration,
    /// Pause between two renewals, and between two attempts.
    pub retry_period: Duration,
}

impl Rules {
    /// Returns the rules that the operator's configuration sets.
    pub fn of(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        let rules = Self {
            duration: config.get(&options::LEADER_ELECTION_LEASE_DURATION)?,
            renew_deadline: config.get(&options::LEADER_ELECTION_RENEW_DEADLINE)?,
            retry_period: config.get(&options::LEADER_ELECTION_RETRY_PERIOD)?,
        };
        let invalid = |key: &str, value: Duration, expected: String| {
            Err(InvalidValue::new(key, format!("{value:?}"), expected))
        };
        let Self { duration, renew_deadline, retry_period } = rules;
        if duration < DURATION_MIN || duration > Duration::from_hours(1) {
            let key = options::LEADER_ELECTION_LEASE_DURATION.key();
            return invalid(key, duration, "one second to one hour".to_owned());
        }
        if renew_deadline >= duration {
            let key = options::LEADER_ELECTION_RENEW_DEADLINE.key();
            return invalid(key, renew_deadline, format!("less than the lease's {duration:?}"));
        }
        if retry_period.is_zero() || retry_period * 2 > renew_deadline {
            let key = options::LEADER_ELECTION_RETRY_PERIOD.key();
            let expected = format!("at most half of the renew deadline, {renew_deadline:?}");
            return invalid(key, retry_period, expected);
        }
        Ok(rules)
    }
}

/// The facts of a Lease that matter here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    /// `None` once it was given back.
    pub holder: Option<String>,
    /// Its resource version, which grows with each write.
    pub version: u64,
    /// Differs after each renewal; other changes of the object are not renewals.
    pub renewal: String,
    /// The duration that its holder requested; `None` if it set none.
    pub duration: Option<Duration>,
}

/// Why a process no longer leads.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Lost {
    #[error("it could not be renewed for {0:?}")]
    NotRenewed(Duration),
    #[error("`{0}` holds it now")]
    Taken(String),
}

/// Next action of a candidate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Read the lease.
    Read,
    /// Create the lease as its own.
    Create,
    /// Take the lease of this version over, or renew it.
    Replace { version: u64 },
    /// Do nothing until this time, or until the lease is seen to change.
    Wait { until: Duration },
    /// Stop writing, and leading.
    StepDown(Lost),
}

/// The lease as last seen.
#[derive(Clone, Debug)]
struct Seen {
    lease: Option<Lease>,
    /// Until when its holder, or the one that had it when it was deleted, may believe that it holds it.
    promised_until: Duration,
}

/// One process that wants to lead, or does.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Unique to this process; a former one on the same machine had another.
    identity: String,
    rules: Rules,
    seen: Option<Seen>,
    /// The lease may not be as it was last seen.
    must_look: bool,
    /// When the last successful renewal was requested.
    held_since: Option<Duration>,
    /// A lease that did not exist may have been deleted under its holder: whoever creates it waits until that one has
    /// stopped.
    leads_from: Duration,
    /// Time before which there is no attempt: after a failure, and between renewals.
    next_try: Duration,
}

impl Candidate {
    pub fn new(identity: impl Into<String>, rules: Rules) -> Self {
        Self {
            identity: identity.into(),
            rules,
            seen: None,
            must_look: true,
            held_since: None,
            leads_from: Duration::ZERO,
            next_try: Duration::ZERO,
        }
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns until when this candidate may act as the leader; `None` if it does not lead.
    pub fn leads_until(&self, now: Duration) -> Option<Duration> {
        self.holds_until().filter(|_| now >= self.leads_from)
    }

    fn holds_until(&self) -> Option<Duration> {
        self.held_since.map(|since| since + self.rules.renew_deadline)
    }

    /// Returns from when on it leads, if it created the lease and waits for a possible earlier holder.
    pub fn settles_until(&self, now: Duration) -> Option<Duration> {
        self.held_since.map(|_| self.leads_from).filter(|from| now < *from)
    }

    /// Returns the holder of the lease, as far as it was seen, unless it is this candidate.
    pub fn other_holder(&self) -> Option<&str> {
        let lease = self.seen.as_ref()?.lease.as_ref()?;
        lease.holder.as_deref().filter(|holder| *holder != self.identity)
    }

    /// Returns the state of the lease, as far as it was seen; `since` is when it was found free before.
    pub fn tenure(&self, now: Duration, since: Option<Duration>) -> Tenure {
        if self.held_since.is_some() {
            return Tenure::Mine;
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.must_look) else {
            return Tenure::Unknown;
        };
        match &seen.lease {
            Some(Lease { holder: Some(holder), .. })
                if *holder != self.identity && now < seen.promised_until =>
            {
                Tenure::Theirs(holder.clone())
            }
            Some(_) | None => Tenure::Free { since: since.unwrap_or(now) },
        }
    }

    /// Notes that the lease was read, or reported by its watch; `None` if it does not exist.
    pub fn see(&mut self, lease: Option<Lease>, now: Duration) {
        let before = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        let is_late = match (&lease, before) {
            (Some(new), Some(old)) => new.version < old.version,
            (None, _) | (_, None) => false,
        };
        if is_late {
            return;
        }
        let promised_until = match (&lease, &self.seen) {
            (Some(new), Some(Seen { lease: Some(old), promised_until }))
                if new.renewal == old.renewal =>
            {
                *promised_until
            }
            (Some(lease), _) => now + self.promise_of(lease),
            // It was deleted under its holder, which may not know that yet.
            (None, Some(Seen { lease: Some(old), .. })) => now + self.promise_of(old),
            (None, Some(Seen { lease: None, promised_until })) => *promised_until,
            (None, None) => now,
        };
        self.seen = Some(Seen { lease, promised_until });
        self.must_look = false;
    }

    /// Returns for how long no one else may take a lease that was just renewed.
    fn promise_of(&self, lease: &Lease) -> Duration {
        match &lease.holder {
            Some(holder) if *holder != self.identity => {
                lease.duration.unwrap_or(self.rules.duration)
            }
            Some(_) | None => Duration::ZERO,
        }
    }

    /// Notes that a write of [`Action::Create`] or [`Action::Replace`] succeeded, which was requested at `sent` and
    /// confirmed `now`.
    pub fn written(&mut self, lease: Lease, sent: Duration, now: Duration) {
        let before = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        // Its own is from a write whose answer was lost, which may have created it.
        let is_made =
            before.is_none_or(|before| before.holder.as_deref() == Some(self.identity.as_str()));
        if is_made && self.held_since.is_none() {
            self.leads_from = now + self.rules.renew_deadline;
        }
        self.seen = Some(Seen { lease: Some(lease), promised_until: sent });
        self.must_look = false;
        self.held_since = Some(sent);
        self.next_try = sent + self.rules.retry_period;
    }

    /// Notes that a read or write failed, or that a write may have: the lease is read, after a pause.
    pub fn failed(&mut self, now: Duration) {
        self.must_look = true;
        self.next_try = now + self.rules.retry_period;
    }

    /// Notes that someone else's write was first: the lease is read at once.
    pub fn was_beaten(&mut self) {
        self.must_look = true;
    }

    /// Decides what to do now.
    pub fn next(&self, now: Duration) -> Action {
        if let Some(until) = self.holds_until() {
            if now >= until {
                return Action::StepDown(Lost::NotRenewed(self.rules.renew_deadline));
            }
            if let Some(other) = self.other_holder() {
                return Action::StepDown(Lost::Taken(other.to_owned()));
            }
            if now < self.next_try {
                let settled = self.settles_until(now).unwrap_or(until);
                return Action::Wait { until: self.next_try.min(until).min(settled) };
            }
            return self.take();
        }
        if now < self.next_try {
            return Action::Wait { until: self.next_try };
        }
        match &self.seen {
            Some(seen) if !self.must_look && now < seen.promised_until => {
                Action::Wait { until: seen.promised_until }
            }
            Some(_) | None => self.take(),
        }
    }

    /// Returns the action that takes or renews a lease that is free for it.
    fn take(&self) -> Action {
        match &self.seen {
            None => Action::Read,
            Some(_) if self.must_look => Action::Read,
            Some(Seen { lease: None, .. }) => Action::Create,
            Some(Seen { lease: Some(lease), .. }) => Action::Replace { version: lease.version },
        }
    }
}

#[cfg(test)]
mod tests;
