//! How soon to look again, and how long something may take.

use std::time::Duration;

use jiff::SignedDuration;

/// How soon to look again while a JobManager starts or a job is scheduled.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// Pause while a job or its JobManager comes to its end.
pub(super) const GOING: Duration = Duration::from_millis(500);

/// Kubernetes kills a pod when its time to end is over; one that is there so much later does not go.
pub(super) const OVERDUE_AFTER: SignedDuration = SignedDuration::from_secs(30);
