//! Ids of session jobs: the first half tells whose job it is, the second one is random.
//!
//! Where no record tells of a job, as after a restore of the API server's store that no operator saw,
//! its session cluster still lists it, and by its id it is known as one of its resource's. Jobs that
//! the Java operator submits have random ids and belong to nobody in this sense.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Hex digits of a job id that its owner decides.
const OWNED: usize = 16;

/// The id of a job of the resource with this uid, by 32 random hex digits. Without a uid, as of a
/// resource that is not stored yet, all of them count.
pub fn job_id(uid: &str, random: &str) -> String {
    let own = random.get(OWNED..).unwrap_or_default();
    owner(uid).map_or_else(|| random.to_owned(), |owner| owner + own)
}

/// Whether the job with this id was submitted for the resource with this uid.
pub fn is_of(uid: &str, id: &str) -> bool {
    owner(uid).is_some_and(|owner| id.starts_with(&owner))
}

/// What the ids of a resource's jobs begin with.
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

    #[test]
    fn the_first_half_of_an_id_is_its_owners() {
        let id = job_id("u1", RANDOM);
        assert_eq!(id, "bb82030dbc2bcaba8899aabbccddeeff");
        assert!(is_of("u1", &id));
        assert!(!is_of("u2", &id), "another resource of the same name has another uid");
        assert!(!is_of("u1", RANDOM), "the Java operator's are random");
    }

    #[test]
    fn a_resource_without_a_uid_owns_nothing() {
        assert_eq!(job_id("", RANDOM), RANDOM);
        assert!(!is_of("", RANDOM));
    }
}
