//! What validators and mutators of the operator's configuration have in common.

use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Caller;
use config::plugin::{Endpoint, InvalidPlugin, TIMEOUT};
use validation::extension::FailurePolicy;
use validation::extension::settings::{Plugin, Source};
use validation::extension::subject::{Kind, Subject};

/// A validator or mutator from the configuration; `R` is the type of its rule.
pub(super) struct Configured<R> {
    pub(super) name: String,
    pub(super) kinds: Vec<Kind>,
    pub(super) on_failure: FailurePolicy,
    pub(super) timeout: Duration,
    pub(super) way: Way<R>,
}

/// How it is called.
pub(super) enum Way<R> {
    Rule(Arc<R>),
    Http(Caller),
}

impl<R> Configured<R> {
    /// Creates the plugin; `group` is the part of the option's name: `validators` or `mutators`.
    ///
    /// # Errors
    /// If its settings do not make a valid request.
    pub(super) fn new(settings: Plugin<R>, group: &str) -> Result<Self, InvalidPlugin> {
        let Plugin { name, kinds, on_failure, source } = settings;
        let (way, timeout) = match source {
            Source::Rule(rule) => (Way::Rule(Arc::new(rule)), TIMEOUT),
            Source::Http(endpoint) => {
                let timeout = endpoint.timeout;
                (Way::Http(caller(endpoint, group, &name)?), timeout)
            }
        };
        Ok(Self { name, kinds, on_failure, timeout, way })
    }
}

/// Returns the caller of the plugin of this group and name.
///
/// # Errors
/// If its settings do not make a valid request.
pub(super) fn caller(endpoint: Endpoint, group: &str, name: &str) -> Result<Caller, InvalidPlugin> {
    Caller::new(endpoint).map_err(|error| {
        let key = format!("kubernetes.operator.plugins.{group}.{name}.headers");
        InvalidPlugin { key, problem: error.to_string() }
    })
}

/// Asks an endpoint about `subject` and returns its answer.
///
/// # Errors
/// Why there is no answer, for users.
pub(super) async fn ask(caller: &Caller, subject: &Subject) -> Result<Vec<u8>, String> {
    let body = subject.request().to_string();
    let answer = caller.post("application/json", body).await;
    answer.map_err(|error| error.to_string())
}
