//! People known to the console of a pod, and for how long.
//!
//! A person who has signed in is identified by the id of a session, until a fixed time. A person whose token a proxy or
//! a program sends is identified by the token, as long as requests come. Both are stored as hashes, so that the time of
//! a lookup reveals nothing. The number of visitors is limited, in total and for each person. At the limit, whoever has
//! most visitors makes room, so that nobody can keep others out: one person, or all service accounts of a namespace,
//! which its users create as they like. Times count from the start of the console.

use std::collections::HashMap;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::gate::Credential;

/// Maximum number of visitors known at the same time.
pub const VISITORS_MAX: usize = 256;
/// Maximum number of visits of one person among them, each in its own browser.
pub const OF_ONE_MAX: usize = 8;
/// Maximum time that a person stays signed in.
pub const SESSION_MAX: Duration = Duration::from_hours(8);
/// Time without a request after which a person identified by a token is forgotten.
const IDLE_MAX: Duration = Duration::from_mins(10);

/// What a visitor is found by.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mark([u8; 32]);

impl Mark {
    /// Returns the mark of a credential.
    pub fn of(credential: Credential<'_>) -> Self {
        let (kind, secret) = match credential {
            Credential::Token(token) => ("token", token),
            Credential::Session(id) => ("session", id),
        };
        let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(secret);
        Self(digest.finalize().into())
    }
}

struct Known<V> {
    /// Identity of the person for the API server.
    person: String,
    is_session: bool,
    since: Duration,
    seen: Duration,
    visitor: V,
}

impl<V> Known<V> {
    fn is_over(&self, now: Duration) -> bool {
        if self.is_session {
            now.saturating_sub(self.since) >= SESSION_MAX
        } else {
            now.saturating_sub(self.seen) >= IDLE_MAX
        }
    }
}

/// All known visitors, with what is kept of each.
pub struct Visitors<V> {
    known: HashMap<Mark, Known<V>>,
}

impl<V> Default for Visitors<V> {
    fn default() -> Self {
        Self { known: HashMap::new() }
    }
}

/// Returns whom the person shares their visits with: the service accounts of the same namespace.
fn group_of(person: &str) -> &str {
    let account = person.strip_prefix("system:serviceaccount:");
    account.and_then(|account| account.split(':').next()).unwrap_or(person)
}

impl<V> Visitors<V> {
    /// Returns the visitor with this credential, if known.
    pub fn find(&mut self, mark: Mark, now: Duration) -> Option<&V> {
        let known = self.known.get_mut(&mark).filter(|known| !known.is_over(now))?;
        known.seen = now;
        Some(&known.visitor)
    }

    /// Adds a visitor, and returns the one that had to make room.
    pub fn enter(
        &mut self,
        credential: Credential<'_>,
        person: &str,
        visitor: V,
        now: Duration,
    ) -> Option<V> {
        let of_one = self.known.values().filter(|it| it.person == person).count();
        let left = if of_one >= OF_ONE_MAX {
            self.end_longest_idle(|it| it.person == person)
        } else if self.known.len() >= VISITORS_MAX {
            let largest = self.largest_group();
            self.end_longest_idle(|it| Some(group_of(&it.person)) == largest.as_deref())
        } else {
            None
        };
        let is_session = matches!(credential, Credential::Session(_));
        let person = person.to_owned();
        let known = Known { person, is_session, since: now, seen: now, visitor };
        let before = self.known.insert(Mark::of(credential), known);
        left.or(before.map(|known| known.visitor))
    }

    fn end_longest_idle(&mut self, is_meant: impl Fn(&Known<V>) -> bool) -> Option<V> {
        let meant = self.known.iter().filter(|(_, it)| is_meant(it));
        let mark = meant.min_by_key(|(_, it)| it.seen).map(|(mark, _)| *mark)?;
        self.leave(mark)
    }

    /// Returns the group with most visitors.
    fn largest_group(&self) -> Option<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for known in self.known.values() {
            *counts.entry(group_of(&known.person)).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(group, _)| group.to_owned())
    }

    /// Forgets a visitor.
    pub fn leave(&mut self, mark: Mark) -> Option<V> {
        self.known.remove(&mark).map(|known| known.visitor)
    }

    /// Forgets visitors whose time is over, and returns them.
    pub fn sweep(&mut self, now: Duration) -> Vec<V> {
        let over = self.known.extract_if(|_, known| known.is_over(now));
        over.map(|(_, known)| known.visitor).collect()
    }

    /// Returns the time of the last request.
    pub fn last_seen(&self) -> Option<Duration> {
        self.known.values().map(|known| known.seen).max()
    }

    /// Returns the number of known visitors.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether no visitor is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn session(id: &str) -> Credential<'_> {
        Credential::Session(id)
    }

    #[test]
    fn a_session_ends_at_its_time_however_much_it_is_used() {
        let mut visitors = Visitors::default();
        let mark = Mark::of(session("one"));
        assert_eq!(visitors.enter(session("one"), "jane", 1, MINUTE), None);
        for minutes in 1..=480 {
            assert_eq!(visitors.find(mark, minutes * MINUTE), Some(&1), "{minutes}");
        }
        assert_eq!(visitors.last_seen(), Some(480 * MINUTE));
        assert_eq!(visitors.find(mark, 481 * MINUTE), None);
        assert_eq!(visitors.sweep(480 * MINUTE), [] as [i32; 0]);
        assert_eq!(visitors.sweep(481 * MINUTE), [1]);
        assert!(visitors.is_empty());
    }

    #[test]
    fn whom_a_token_brings_is_known_as_long_as_it_asks() {
        let mut visitors = Visitors::default();
        let token = Credential::Token("one");
        visitors.enter(token, "jane", 1, MINUTE);
        assert_eq!(visitors.find(Mark::of(session("one")), MINUTE), None, "it is no session");
        for minutes in (1..2_000).step_by(9) {
            assert_eq!(visitors.find(Mark::of(token), minutes * MINUTE), Some(&1));
        }
        assert_eq!(visitors.find(Mark::of(token), 2_009 * MINUTE), None);
    }

    #[test]
    fn who_leaves_is_known_no_more() {
        let mut visitors = Visitors::default();
        visitors.enter(session("one"), "jane", 1, MINUTE);
        assert_eq!(visitors.leave(Mark::of(session("two"))), None);
        assert_eq!(visitors.leave(Mark::of(session("one"))), Some(1));
        assert_eq!(visitors.find(Mark::of(session("one")), MINUTE), None);
    }

    #[test]
    fn nobody_keeps_others_out() {
        let mut visitors = Visitors::default();
        let now = |number: usize| Duration::from_secs(number.try_into().unwrap());
        for number in 0..20 {
            let left = visitors.enter(session(&format!("j{number}")), "jane", number, now(number));
            assert_eq!(left, number.checked_sub(OF_ONE_MAX), "the one not seen for longest goes");
        }
        assert_eq!(visitors.len(), OF_ONE_MAX);
        for number in OF_ONE_MAX..2 * VISITORS_MAX {
            let person = format!("system:serviceaccount:team:{number}");
            let left = visitors.enter(session(&person), &person, number, now(30 + number));
            let made_room = number.checked_sub(VISITORS_MAX - OF_ONE_MAX);
            assert_eq!(left, made_room.filter(|it| *it >= OF_ONE_MAX), "{number}");
            assert_eq!(visitors.find(Mark::of(session("j19")), now(31)), Some(&19), "{number}");
        }
        assert_eq!(visitors.len(), VISITORS_MAX);
    }
}
