//! Options of `FlinkBlueGreenDeployment`s: their `spec.configuration` may set them, and the operator's configuration
//! contains their defaults.

use std::time::Duration;

use crate::option::ConfigOption;

options! {
    TABLE =>
    /// How long a savepoint, and then the other colour, may take before the transition is aborted.
    Live ABORT_GRACE_PERIOD: Duration =
        "kubernetes.operator.bluegreen.abort.grace-period" or "10 min";
    /// Interval between passes during a transition.
    Live RECONCILIATION_RESCHEDULE_INTERVAL: Duration =
        "kubernetes.operator.bluegreen.reconciliation.reschedule-interval" or "15 s";
    /// How long the other colour has to be ready without interruption before it serves and the
    /// former one is deleted.
    Live DEPLOYMENT_DELETION_DELAY: Duration =
        "kubernetes.operator.bluegreen.deployment-deletion.delay" or "0 ms";
}
