//! The newest state of a job, by its JobManager's statistics.

use jiff::{SignedDuration, Timestamp};

use super::target::Found;
use crate::api::state_snapshot::FlinkStateSnapshot;
use crate::decide::world::Fact;
use crate::flink::checkpoints::{Checkpoints, LastState};
use crate::operator::observe::tell;

/// So long after a savepoint was completed the statistics may be from before it: `flink` takes none
/// from JobManagers that hand out older ones.
const FRESH: SignedDuration = SignedDuration::from_mins(1);

/// Path of the newest state of the snapshot's job; none where Flink knows of no such job: one that
/// has gone is started from what its status names.
pub(super) async fn state(
    snapshot: &FlinkStateSnapshot,
    found: Option<&Found>,
) -> Fact<Option<String>> {
    let Some(Found { client, job_id: Some(job_id) }) = found else { return Fact::Known(None) };
    let client = client.without_retries();
    let answer = if is_fresh(snapshot) {
        client.final_checkpoints(job_id).await
    } else {
        client.checkpoints(job_id).await
    };
    let statistics = match answer {
        Ok(Checkpoints::Statistics(statistics)) => statistics,
        Ok(Checkpoints::Disabled) => return Fact::Known(None),
        Err(error) if error.is_job_not_found() => return Fact::Known(None),
        Err(error) => return Fact::Unknown(tell(&error)),
    };
    Fact::Known(match statistics.last_state() {
        LastState::At(point) => Some(point.path),
        LastState::None | LastState::NotAddressable { .. } | LastState::Discarded { .. } => None,
    })
}

/// Whether the savepoint was completed just now, or nobody knows when.
fn is_fresh(snapshot: &FlinkStateSnapshot) -> bool {
    let completed = snapshot.status.as_ref().and_then(|status| status.result_timestamp.as_deref());
    let completed = completed.and_then(|text| text.parse::<Timestamp>().ok());
    completed.is_none_or(|at| Timestamp::now().duration_since(at) < FRESH)
}
