//! How far the upgrade of a session job is. Its status has no conditions: that it waits for its turn is not on record,
//! and it asks again, unless upgrades are paused, which is an error until they continue.

use super::{Progress, Record};
use crate::conditions::{ReportedWait, UPGRADES_PAUSED};
use crate::error_document::refusals::asks_for_state;
use crate::error_document::{StoredError, reason_of};
use api::session_job::SessionJobStatus;

impl Record {
    /// Returns what the status of a session job of this generation says.
    pub fn of_session_job(generation: i64, status: &SessionJobStatus) -> Self {
        let error = status.error.as_deref().unwrap_or_default();
        let needs_a_person =
            StoredError::read(Some(error)).lost().is_some() || asks_for_state(error);
        let is_paused = reason_of(error).as_deref() == Some(UPGRADES_PAUSED);
        Self {
            standing: Progress::of_job(status, needs_a_person),
            told: is_paused.then_some(ReportedWait { generation, is_paused }),
        }
    }
}
