//! Validators: rules beside the built-in ones, from the operator's configuration or from whoever
//! embeds the operator.
//!
//! They are asked in the background, all at the same time, each for a bounded time: a pass waits for
//! them a moment, and is made again when they have answered. So one that hangs delays nothing but
//! the change that it is asked about; observing and deleting go on.

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

/// Somebody who has a say in what may be deployed.
pub trait Validator: Send + Sync + 'static {
    /// For messages; no two validators share one.
    fn name(&self) -> &str;

    /// True if it is asked about resources of `kind`.
    fn is_about(&self, kind: Kind) -> bool {
        kind != Kind::FlinkStateSnapshot
    }

    /// Decides about a resource when it gives no answer.
    fn on_failure(&self) -> FailurePolicy {
        FailurePolicy::default()
    }

    /// How long one answer may take.
    fn timeout(&self) -> Duration {
        plugin::TIMEOUT
    }

    /// Returns the violations of the resource. Without any, it may be deployed. An error, which
    /// users read, is the reason that there is no answer.
    ///
    /// It is asked once for each change, and again when it failed. What runs is not asked about.
    fn validate<'a>(
        &'a self,
        subject: &'a Subject,
    ) -> BoxFuture<'a, Result<Vec<Violation>, String>>;
}

/// The validators that `config` names, in the order of their names.
///
/// # Errors
/// Everything that is wrong with their settings, so that one edit can mend it.
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
