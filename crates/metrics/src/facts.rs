//! The facts that metrics take from a status.

use std::collections::BTreeMap;

use api::blue_green::{BlueGreenState, BlueGreenStatus};
use api::session_job::SessionJobStatus;
use api::state_snapshot::{FlinkStateSnapshotSpec, SnapshotState, StateSnapshotStatus};
use api::status::{DeploymentStatus, JobManagerDeploymentStatus, JobStatusState, LifecycleState};

use super::Kind;

/// The facts about a resource that metrics count.
#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    Deployment {
        lifecycle: LifecycleState,
        job_manager: JobManagerDeploymentStatus,
        /// As its JobManager reported it; `UNKNOWN` before that.
        version: Box<str>,
        cpu: f64,
        memory: f64,
        state_size: f64,
    },
    SessionJob {
        lifecycle: LifecycleState,
    },
    Snapshot {
        is_savepoint: bool,
        state: SnapshotState,
    },
    BlueGreen {
        state: BlueGreenState,
        job: JobStatusState,
    },
}

impl Facts {
    pub fn of_deployment(status: &DeploymentStatus) -> Self {
        let info = &status.cluster_info;
        let version = info.get("flink-version").map(|text| text.trim());
        Self::Deployment {
            lifecycle: status.lifecycle_state.unwrap_or(LifecycleState::Created),
            job_manager: status.job_manager_deployment_status,
            version: version.filter(|text| !text.is_empty()).unwrap_or("UNKNOWN").into(),
            cpu: number_of(info, "total-cpu"),
            memory: number_of(info, "total-memory"),
            state_size: number_of(info, "state-size"),
        }
    }

    pub fn of_session_job(status: &SessionJobStatus) -> Self {
        Self::SessionJob { lifecycle: status.lifecycle_state.unwrap_or(LifecycleState::Created) }
    }

    pub fn of_snapshot(spec: &FlinkStateSnapshotSpec, status: &StateSnapshotStatus) -> Self {
        Self::Snapshot { is_savepoint: spec.savepoint.is_some(), state: status.state }
    }

    pub fn of_blue_green(status: &BlueGreenStatus) -> Self {
        Self::BlueGreen {
            state: status.blue_green_state.unwrap_or(BlueGreenState::InitializingBlue),
            job: status.job_status.state.unwrap_or(JobStatusState::Reconciling),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Deployment { .. } => Kind::FlinkDeployment,
            Self::SessionJob { .. } => Kind::FlinkSessionJob,
            Self::Snapshot { .. } => Kind::FlinkStateSnapshot,
            Self::BlueGreen { .. } => Kind::FlinkBlueGreenDeployment,
        }
    }

    pub(super) fn lifecycle(&self) -> Option<LifecycleState> {
        match self {
            Self::Deployment { lifecycle, .. } | Self::SessionJob { lifecycle } => Some(*lifecycle),
            Self::Snapshot { .. } | Self::BlueGreen { .. } => None,
        }
    }

    /// Returns `true` if the job of a blue/green deployment is failing, according to its status.
    pub(super) fn is_failing(&self) -> bool {
        matches!(self, Self::BlueGreen { state: _, job: JobStatusState::Failing })
    }
}

/// Parses a number. Anything that is not a finite number counts as zero.
fn number_of(info: &BTreeMap<String, String>, key: &str) -> f64 {
    let text = info.get(key).map_or("", |text| text.trim());
    text.parse().ok().filter(|number: &f64| number.is_finite()).unwrap_or_default()
}

/// Shortens `1.20.1` to `1.20`; returns `MALFORMED` for anything without two parts.
pub(super) fn minor_version(version: &str) -> &str {
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    match (dots.next(), dots.next()) {
        (Some(_), second) => version.get(..second.unwrap_or(version.len())).unwrap_or(MALFORMED),
        (None, _) => MALFORMED,
    }
}

const MALFORMED: &str = "MALFORMED";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_version_has_two_parts() {
        for (version, minor) in [
            ("1.20.1", "1.20"),
            ("2.1", "2.1"),
            ("1.20-SNAPSHOT", "1.20-SNAPSHOT"),
            ("UNKNOWN", MALFORMED),
            ("", MALFORMED),
        ] {
            assert_eq!(minor_version(version), minor);
        }
    }

    #[test]
    fn a_status_that_says_little_counts_as_little() {
        let mut status = DeploymentStatus::default();
        for (key, text) in [
            ("flink-version", " "),
            ("total-cpu", "NaN"),
            ("total-memory", "much"),
            ("state-size", "12"),
        ] {
            status.cluster_info.insert(key.to_owned(), text.to_owned());
        }
        let expected = Facts::Deployment {
            lifecycle: LifecycleState::Created,
            job_manager: JobManagerDeploymentStatus::Missing,
            version: "UNKNOWN".into(),
            cpu: 0.0,
            memory: 0.0,
            state_size: 12.0,
        };
        assert_eq!(Facts::of_deployment(&status), expected);
    }
}
