//! Who leads: from what a candidate has seen of a lease to what it does next.
//!
//! Times are those of the candidate's own clock, which never jumps; the times in a lease are never
//! compared with it, so clocks may differ as they like. A candidate counts from when it *saw* a
//! holder renew, the holder from when it *asked* to renew, which is earlier: so the holder has
//! stopped by itself before anybody takes its lease. Rule: `client-go/tools/leaderelection`.

use std::time::Duration;

use super::shard::Tenure;
use config::option::InvalidValue;
use config::{FlinkConfig, options};

/// Shortest lease: the API server keeps whole seconds.
const DURATION_MIN: Duration = Duration::from_secs(1);

/// How long things may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// How long a lease lasts that nobody renews.
    pub duration: Duration,
    /// How long after a renewal was asked for its holder may act on it; shorter than the lease, so
    /// that what it sends last has arrived before another one takes over.
    pub renew_deadline: Duration,
    /// Pause between two renewals, and between two tries.
    pub retry_period: Duration,
}

impl Rules {
    /// As the operator's configuration says.
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
    /// Nobody's, once it was given back.
    pub holder: Option<String>,
    /// Its resource version, which grows with each write.
    pub version: u64,
    /// Differs after each renewal: other changes of the object are none.
    pub renewal: String,
    /// For how long its holder asked; absent where it did not say.
    pub duration: Option<Duration>,
}

/// Why a leader is none any more.
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
    /// Reads the lease.
    Look,
    /// Makes the lease, its own.
    Create,
    /// Makes the lease of this version its own, or renews it.
    Replace { version: u64 },
    /// Nothing, until this time or until the lease is seen to change.
    Wait { until: Duration },
    /// Stops to write, and to lead.
    StepDown(Lost),
}

/// The lease as it was seen last.
#[derive(Clone, Debug)]
struct Seen {
    lease: Option<Lease>,
    /// Until when its holder, or the one that had it when it was deleted, may believe to hold it.
    promised_until: Duration,
}

/// One process that wants to lead, or does.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Of this process alone, a former one on the same machine included.
    identity: String,
    rules: Rules,
    seen: Option<Seen>,
    /// The lease may not be as it was seen.
    must_look: bool,
    /// When the last renewal that succeeded was asked for.
    held_since: Option<Duration>,
    /// A lease that was not there may have been deleted under its holder: the new one waits until
    /// that one has stopped.
    leads_from: Duration,
    /// Not before this time: after a failure, and between renewals.
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

    /// Until when this one may act as the leader; nothing while it is none.
    pub fn leads_until(&self, now: Duration) -> Option<Duration> {
        self.holds_until().filter(|_| now >= self.leads_from)
    }

    fn holds_until(&self) -> Option<Duration> {
        self.held_since.map(|since| since + self.rules.renew_deadline)
    }

    /// From when on it leads, for one that made the lease and waits for who may have had it before.
    pub fn settles_until(&self, now: Duration) -> Option<Duration> {
        self.held_since.map(|_| self.leads_from).filter(|from| now < *from)
    }

    /// The one that holds the lease, as far as it was seen, unless it is this one.
    pub fn other_holder(&self) -> Option<&str> {
        let lease = self.seen.as_ref()?.lease.as_ref()?;
        lease.holder.as_deref().filter(|holder| *holder != self.identity)
    }

    /// How the lease stands, as far as was seen; `since` is when it was found free before.
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

    /// The lease was read, or its watch told of it; nothing where there is none.
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
            // It was deleted under its holder, who may not know that yet.
            (None, Some(Seen { lease: Some(old), .. })) => now + self.promise_of(old),
            (None, Some(Seen { lease: None, promised_until })) => *promised_until,
            (None, None) => now,
        };
        self.seen = Some(Seen { lease, promised_until });
        self.must_look = false;
    }

    /// For how long nobody else may take a lease that was just renewed.
    fn promise_of(&self, lease: &Lease) -> Duration {
        match &lease.holder {
            Some(holder) if *holder != self.identity => {
                lease.duration.unwrap_or(self.rules.duration)
            }
            Some(_) | None => Duration::ZERO,
        }
    }

    /// A write of [`Action::Create`] or [`Action::Replace`] succeeded that was asked for at `sent`,
    /// as is known `now`.
    pub fn written(&mut self, lease: Lease, sent: Duration, now: Duration) {
        let before = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        // Its own is from a write that was not heard of, which may have made it.
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

    /// A read or write failed, or a write may have: the lease is read, after a pause.
    pub fn failed(&mut self, now: Duration) {
        self.must_look = true;
        self.next_try = now + self.rules.retry_period;
    }

    /// A write came too late, somebody else's was first: the lease is read at once.
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

    /// The lease is free to be taken, or to be renewed.
    fn take(&self) -> Action {
        match &self.seen {
            None => Action::Look,
            Some(_) if self.must_look => Action::Look,
            Some(Seen { lease: None, .. }) => Action::Create,
            Some(Seen { lease: Some(lease), .. }) => Action::Replace { version: lease.version },
        }
    }
}

#[cfg(test)]
mod tests;
