//! Ids of session jobs: the first half identifies the job's resource, then comes the time at which the id was created,
//! and the rest is random.
//!
//! If there is no record of a job, as after a restore of the API server's store that no operator saw, its session
//! cluster still lists it, and its id shows the resource that it belongs to. Jobs that the Java operator submits have
//! random ids and belong to no resource in this sense.
//!
//! The time shows whether a JobManager already existed when the job was submitted, whatever became of the record since:
//! with high availability a job outlives its JobManager, but the statistics of its checkpoints do not.

use std::fmt::Write;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Number of hex digits of a job id that identify its owner.
const OWNED: usize = 16;
/// Number of hex digits that are the time in milliseconds, until the year 2527.
const TIMED: usize = 11;

/// Creates the id of a job of the resource with this uid `now` from 32 random hex digits. Without a uid, as for a
/// resource that is not stored yet, all of them are used.
pub fn job_id(uid: &str, random: &str, now: Timestamp) -> String {
    let own = random.get(OWNED + TIMED..).unwrap_or_default();
    owner(uid).map_or_else(
        || random.to_owned(),
        |owner| format!("{owner}{:0TIMED$x}{own}", now.as_millisecond()),
    )
}

/// Returns when this id of a job of the resource was created; its job was submitted then or later. `None` for an id
/// that was not created here, and for a time after `latest`, when it is known to have been used.
pub fn made_at(uid: &str, id: &str, latest: Timestamp) -> Option<Timestamp> {
    let digits = id.get(OWNED..OWNED + TIMED).filter(|_| is_of(uid, id))?;
    let at = Timestamp::from_millisecond(i64::from_str_radix(digits, 16).ok()?).ok()?;
    (at <= latest).then_some(at)
}

/// Returns true if the job with this id was submitted for the resource with this uid.
pub fn is_of(uid: &str, id: &str) -> bool {
    owner(uid).is_some_and(|owner| id.starts_with(&owner))
}

/// Returns the prefix of the ids of a resource's jobs.
fn owner(uid: &str) -> Option<String> {
    if uid.is_empty() {
        return None;
    }
    let digest = Sha256::digest(uid);
    let mut text = String::with_capacity(OWNED * 2);
    for byte in digest.iter().take(OWNED / 2) {
        let _infallible = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "00112233445566778899aabbccddeeff";

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_first_half_of_an_id_is_its_owners() {
        let id = job_id("u1", RANDOM, now());
        assert_eq!(id, "bb82030dbc2bcaba19b76daa800deeff");
        assert!(is_of("u1", &id));
        assert!(!is_of("u2", &id), "another resource of the same name has another uid");
        assert!(!is_of("u1", RANDOM), "the Java operator's are random");
    }

    #[test]
    fn a_resource_without_a_uid_owns_nothing() {
        assert_eq!(job_id("", RANDOM, now()), RANDOM);
        assert!(!is_of("", RANDOM));
    }

    #[test]
    fn an_id_shows_when_it_was_made() {
        let id = job_id("u1", RANDOM, now());
        assert_eq!(made_at("u1", &id, now()), Some(now()));
        let before = now() - jiff::SignedDuration::from_secs(1);
        assert_eq!(made_at("u1", &id, before), None, "it was used before");
        assert_eq!(made_at("u2", &id, now()), None);
        assert_eq!(made_at("u1", RANDOM, now()), None);
        assert_eq!(made_at("u1", "bb82030dbc2bcaba", now()), None, "cut off");
    }
}
