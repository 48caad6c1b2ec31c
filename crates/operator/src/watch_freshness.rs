//! How far a watch can be trusted: what it shows may be old, and it may have died in silence.

use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::context::resource_version;

/// How long a JobManager that comes up is followed by its watch alone, before it is read again.
const FOLLOWED_MAX: Duration = Duration::from_secs(10);

/// A Deployment as it was created or read.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    /// Its uid.
    pub(super) deployment: String,
    pub(super) resource_version: u64,
    pub(super) at: Instant,
}

/// How far a watch can be trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Trust {
    /// It was not compared with anything.
    Unknown,
    /// It shows less than is known.
    Behind,
    /// It shows what is known, and that is recent.
    Recent,
    /// It shows what is known, and may have ended since.
    Old,
}

impl Sighting {
    /// Returns the trust in the watch that shows the Deployment with this metadata.
    pub(super) fn trust(&self, cached: &ObjectMeta) -> Trust {
        let is_it = cached.uid.as_ref() == Some(&self.deployment);
        if !is_it || resource_version(cached) < self.resource_version {
            Trust::Behind
        } else if self.at.elapsed() < FOLLOWED_MAX {
            Trust::Recent
        } else {
            Trust::Old
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(uid: &str, resource_version: &str) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(resource_version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn seen(ago: Duration) -> Sighting {
        let at = Instant::now().checked_sub(ago).unwrap();
        Sighting { deployment: "a".to_owned(), resource_version: 9, at }
    }

    #[test]
    fn a_watch_is_believed_as_far_as_it_keeps_up() {
        let now = seen(Duration::ZERO);
        assert_eq!(now.trust(&cached("a", "9")), Trust::Recent);
        assert_eq!(now.trust(&cached("a", "10")), Trust::Recent);
        assert_eq!(now.trust(&cached("a", "8")), Trust::Behind);
        assert_eq!(now.trust(&cached("b", "11")), Trust::Behind);
    }

    #[test]
    fn a_watch_that_shows_nothing_new_is_not_believed_for_ever() {
        assert_eq!(seen(FOLLOWED_MAX).trust(&cached("a", "9")), Trust::Old);
    }
}
