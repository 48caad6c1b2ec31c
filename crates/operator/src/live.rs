//! The current configuration. It is replaced as a whole, and each pass reads it once, so that no pass mixes two.

use std::sync::{Arc, PoisonError, RwLock};

use config::OperatorConfig;

/// The current configuration, shared by all tasks of the process.
#[derive(Debug, Default)]
pub struct Live(RwLock<Arc<OperatorConfig>>);

impl Live {
    pub fn new(config: OperatorConfig) -> Self {
        Self(RwLock::new(Arc::new(config)))
    }

    /// Returns the current configuration.
    pub fn get(&self) -> Arc<OperatorConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the configuration. Every pass that begins from now on uses `config`.
    pub fn replace(&self, config: OperatorConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(value: &str) -> OperatorConfig {
        OperatorConfig::new([("a", value)].into_iter().collect())
    }

    #[test]
    fn a_pass_keeps_the_configuration_that_it_began_with() {
        let live = Live::new(config("1"));
        let pass = live.get();
        live.replace(config("2"));
        assert_eq!((&*pass, &*live.get()), (&config("1"), &config("2")));
    }
}
