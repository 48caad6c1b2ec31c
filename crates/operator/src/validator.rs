//! Validators: rules beside the built-in ones, from the operator's configuration or from programs that embed the
//! operator.
//!
//! They are called in the background, all at the same time, each for a bounded time: a pass waits for them a moment,
//! and is repeated when they have answered. So one that hangs delays nothing but the change that it is asked about;
//! observing and deleting continue.

mod configured;
pub mod panel;
mod verdicts;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

pub use validation::Violation;
pub use validation::extension::FailurePolicy;
pub use validation::extension::subject::{Kind, Subject};

use super::plugin::Configured;
use config::FlinkConfig;
use config::plugin::{self, InvalidPlugin};
use validation::extension::settings;
pub(super) use verdicts::{Judged, Judging, Verdicts};

/// A plugin that decides what may be deployed.
pub trait Validator: Send + Sync + 'static {
    /// Returns the unique name for messages.
    fn name(&self) -> &str;

    /// Returns `true` if it handles resources of `kind`.
    fn is_about(&self, kind: Kind) -> bool {
        kind != Kind::FlinkStateSnapshot
    }

    /// Decides about a resource if the validator gives no answer.
    fn on_failure(&self) -> FailurePolicy {
        FailurePolicy::default()
    }

    /// Returns how long one answer may take.
    fn timeout(&self) -> Duration {
        plugin::TIMEOUT
    }

    /// Returns the violations of the resource. Without any, it may be deployed. An error, which users read, is the
    /// reason that there is no answer.
    ///
    /// It is called once for each change, and again if it failed. It is not called for what already runs.
    fn validate<'a>(
        &'a self,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Result<Vec<Violation>, String>>;
}

/// Returns the validators that `config` names, in the order of their names.
///
/// # Errors
/// Everything that is wrong with their settings, so that one edit can fix it.
pub fn configured(config: &FlinkConfig) -> Result<Vec<Arc<dyn Validator>>, Vec<InvalidPlugin>> {
    let mut validators: Vec<Arc<dyn Validator>> = Vec::new();
    for settings in settings::validators(config)? {
        let validator = Configured::new(settings, "validators");
        let validator = validator.map_err(|problem| vec![problem])?;
        validators.push(Arc::new(validator));
    }
    Ok(validators)
}

#[cfg(test)]
mod tests;
