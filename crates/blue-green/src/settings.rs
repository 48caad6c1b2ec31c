//! Options of a `FlinkBlueGreenDeployment`.

use std::time::Duration;

use api::blue_green::FlinkBlueGreenDeploymentSpec;
use config::FlinkConfig;
use config::option::InvalidValue;
use config::options::blue_green;

/// Parameters of a transition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// How long a savepoint, and then a target, may take before it is given up.
    pub grace: Duration,
    /// Interval between two checks of what is in progress.
    pub interval: Duration,
    /// How long a target has to be ready without interruption before it serves.
    pub deletion_delay: Duration,
}

/// The defaults of all options.
impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(10),
            interval: Duration::from_secs(15),
            deletion_delay: Duration::ZERO,
        }
    }
}

impl Settings {
    /// Reads the options of the resource, which override the operator's.
    ///
    /// # Errors
    ///
    /// If a value is not a duration.
    pub fn of(
        spec: &FlinkBlueGreenDeploymentSpec,
        operator: &FlinkConfig,
    ) -> Result<Self, InvalidValue> {
        let mut config = operator.clone();
        config.overlay(&spec.configuration.iter().flatten().collect());
        Ok(Self {
            grace: config.get(&blue_green::ABORT_GRACE_PERIOD)?,
            interval: config.get(&blue_green::RECONCILIATION_RESCHEDULE_INTERVAL)?,
            deletion_delay: config.get(&blue_green::DEPLOYMENT_DELETION_DELAY)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_options() {
        let none = FlinkBlueGreenDeploymentSpec::default();
        assert_eq!(Settings::of(&none, &FlinkConfig::new()), Ok(Settings::default()));
    }
}
