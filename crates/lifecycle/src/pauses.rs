//! How soon to look again, and how long something may take.

use std::time::Duration;

use jiff::SignedDuration;

/// Pause while a JobManager starts or a job is scheduled.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// Pause while there is no leader and others stand by to take over.
pub(super) const HANDOVER: Duration = Duration::from_millis(100);

/// Pause while a job or its JobManager is ending.
pub(super) const GOING: Duration = Duration::from_millis(500);

/// Kubernetes kills a pod at the end of its grace period. A pod that still exists this much later is stuck.
pub(super) const OVERDUE_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// First and longest pause after an external failure; each is half again as long as the one before.
const RETRY_MIN: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_mins(5);

/// Returns the pause after this many failures in a row.
pub(super) fn pause_after(attempts: u32) -> Duration {
    let factor = 1.5_f64.powi(i32::try_from(attempts.clamp(1, 20)).unwrap_or(20) - 1);
    RETRY_MIN.mul_f64(factor).min(RETRY_MAX)
}
