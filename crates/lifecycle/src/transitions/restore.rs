//! The restore point of the next start: one function that names it or refuses.
//!
//! A start is empty only if the user requested that, or if it is known that there never was any state. Anything that is
//! merely unknown is a refusal.

use api::job::UpgradeMode;
use api::status::LAST_STATE_PATH;

use crate::world::HaMetadata;
use state::restore_point::RestorePoint;

/// What a restore needs to know about high availability.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HighAvailability {
    Off,
    /// It could not be read; says nothing about what exists.
    Unknown(String),
    Known(HaMetadata),
}

/// Everything that the choice depends on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RestoreFacts {
    /// The current `spec.job.upgradeMode`.
    pub wanted: UpgradeMode,
    /// How the job was stopped: the mode that was stored when that was decided.
    pub stopped_as: UpgradeMode,
    /// `status.jobStatus.upgradeSavepointPath`, or else the deprecated last savepoint.
    pub path: Option<String>,
    pub high_availability: HighAvailability,
}

/// Why no restore point can be named.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// Possibly transient: try again.
    NotYet(String),
    /// A person has to choose the state.
    NeedsPerson(String),
}

impl Refusal {
    /// Returns the message for the user.
    pub fn message(&self) -> &str {
        match self {
            Self::NotYet(message) | Self::NeedsPerson(message) => message,
        }
    }
}

pub(super) const CHOOSE: &str = "set `spec.job.initialSavepointPath` to the state to start from and a new \
     `spec.job.savepointRedeployNonce`. Manual restore required.";

/// Returns the restore point of a job that was stopped.
///
/// # Errors
/// A [`Refusal`] if the state to restore is unknown, missing or not readable.
pub fn restore_point(facts: &RestoreFacts) -> Result<RestorePoint, Refusal> {
    let RestoreFacts { wanted, stopped_as, path, high_availability } = facts;
    match (wanted, stopped_as) {
        (UpgradeMode::Stateless, _) | (_, UpgradeMode::Stateless) => Ok(RestorePoint::Empty),
        (UpgradeMode::Savepoint | UpgradeMode::LastState, UpgradeMode::Savepoint) => {
            match path.as_deref() {
                Some(LAST_STATE_PATH) => Err(Refusal::NeedsPerson(format!(
                    "only HA metadata leads to the job's last checkpoint, and a start from a \
                     savepoint does not read it; {CHOOSE}"
                ))),
                Some(path) => Ok(RestorePoint::Path(path.to_owned())),
                None => Err(Refusal::NeedsPerson(format!(
                    "the job was stopped with its state kept, but the path of that state is not \
                     recorded; {CHOOSE}"
                ))),
            }
        }
        (UpgradeMode::Savepoint | UpgradeMode::LastState, UpgradeMode::LastState) => {
            last_state(path.as_deref(), high_availability)
        }
    }
}

fn last_state(
    path: Option<&str>,
    high_availability: &HighAvailability,
) -> Result<RestorePoint, Refusal> {
    match high_availability {
        HighAvailability::Off => Err(Refusal::NeedsPerson(format!(
            "the job was stopped to be restored from HA metadata, but `high-availability.type` is \
             off now; turn it on again, or {CHOOSE}"
        ))),
        HighAvailability::Unknown(reason) => {
            Err(Refusal::NotYet(format!("HA metadata cannot be read: {reason}")))
        }
        HighAvailability::Known(HaMetadata { has_job: false, checkpoint: _ }) => {
            Err(Refusal::NeedsPerson(format!(
                "HA metadata is not available to restore from last state. It is possible that the \
                 job has finished or terminally failed, or the configmaps have been deleted. Find \
                 its newest checkpoint or savepoint and {CHOOSE}"
            )))
        }
        HighAvailability::Known(HaMetadata { has_job: true, checkpoint: Some(_) }) => {
            Ok(RestorePoint::HaMetadata)
        }
        // The job never completed a checkpoint of its own, so its state is what it started from.
        HighAvailability::Known(HaMetadata { has_job: true, checkpoint: None }) => match path {
            Some(LAST_STATE_PATH) => Err(Refusal::NeedsPerson(format!(
                "HA metadata is not available to restore from last state: it names no \
                     checkpoint although the job had one; {CHOOSE}"
            ))),
            Some(path) => Ok(RestorePoint::Path(path.to_owned())),
            None => Ok(RestorePoint::Empty),
        },
    }
}

#[cfg(test)]
mod tests;
