//! The newest state of a job, according to its JobManager's statistics.

use jiff::{SignedDuration, Timestamp};

use super::target::Found;
use crate::observe::show;
use api::state_snapshot::FlinkStateSnapshot;
use api::status::JobStatusState;
use clients::flink::checkpoints::{Checkpoints, LastState};
use lifecycle::world::Fact;

/// For this long after a savepoint was completed, the statistics may be from before it: `flink` accepts none from
/// JobManagers that serve older ones.
const FRESH: SignedDuration = SignedDuration::from_mins(1);

/// Returns the path of the newest state of the snapshot's job.
pub(super) async fn state(
    snapshot: &FlinkStateSnapshot,
    found: Option<&Found>,
) -> Fact<Option<String>> {
    let Some(Found { client, job_id: Some(job_id), state }) = found else {
        return Fact::Known(None);
    };
    let client = client.without_retries();
    let answer = if is_fresh(snapshot) {
        client.final_checkpoints(job_id).await
    } else {
        client.current_checkpoints(job_id).await
    };
    let statistics = match answer {
        Ok(Checkpoints::Statistics(statistics)) => statistics,
        Ok(Checkpoints::Disabled) => return Fact::Known(None),
        Err(error) if error.is_job_not_found() => return of_forgotten_job(*state),
        Err(error) => return Fact::Unknown(show(&error)),
    };
    Fact::Known(match statistics.last_state() {
        LastState::At(point) => Some(point.path),
        LastState::None | LastState::NotAddressable { .. } | LastState::Discarded { .. } => None,
    })
}

/// Returns the newest state of a job that its JobManager no longer knows. One that has stopped is started from what its
/// status names, which counts as a reference. One that was lost, or has failed, may have nothing newer than this
/// savepoint.
fn of_forgotten_job(state: Option<JobStatusState>) -> Fact<Option<String>> {
    match state {
        Some(JobStatusState::Finished | JobStatusState::Canceled) => Fact::Known(None),
        _ => Fact::Unknown("its JobManager does not know the job".to_owned()),
    }
}

/// Returns `true` if the savepoint was completed just now, or at an unknown time.
fn is_fresh(snapshot: &FlinkStateSnapshot) -> bool {
    let completed = snapshot.status.as_ref().and_then(|status| status.result_timestamp.as_deref());
    let completed = completed.and_then(|text| text.parse::<Timestamp>().ok());
    completed.is_none_or(|at| Timestamp::now().duration_since(at) < FRESH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_savepoint_of_a_job_that_is_lost_is_not_disposed_of() {
        for state in [JobStatusState::Finished, JobStatusState::Canceled] {
            assert!(matches!(of_forgotten_job(Some(state)), Fact::Known(None)), "{state:?}");
        }
        for state in [None, Some(JobStatusState::Failed), Some(JobStatusState::Running)] {
            assert!(matches!(of_forgotten_job(state), Fact::Unknown(_)), "{state:?}");
        }
    }
}
