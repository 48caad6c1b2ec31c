//! Configurations that a decision has put together already: it asks for the same one many times,
//! and again after each question.

use std::sync::{Arc, Mutex, PoisonError};

use crate::api::deployment::FlinkDeploymentSpec;
use crate::api::job::UpgradeMode;
use crate::config::FlinkConfig;

/// What runs, what is wanted, and what is rolled back to, in both views.
const ENTRIES_MAX: usize = 6;

/// All that a configuration is made of, beside what is the same for a whole pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Observe { deployed: FlinkDeploymentSpec, wanted: Box<FlinkDeploymentSpec> },
    Deploy { spec: FlinkDeploymentSpec, mode: Option<UpgradeMode>, generation: i64 },
}

/// The configurations of one pass.
#[derive(Debug)]
pub struct ConfigCache<S = Source>(Mutex<Vec<(S, Arc<FlinkConfig>)>>);

impl<S> Default for ConfigCache<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: PartialEq> ConfigCache<S> {
    /// The configuration made of `source`, by `make` where it is new.
    pub(super) fn get<E>(
        &self,
        source: S,
        make: impl FnOnce(&S) -> Result<FlinkConfig, E>,
    ) -> Result<Arc<FlinkConfig>, E> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = entries.iter().find(|(known, _)| *known == source) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(make(&source)?);
        if entries.len() == ENTRIES_MAX {
            entries.remove(0);
        }
        entries.push((source, Arc::clone(&config)));
        Ok(config)
    }
}

/// Another world has its own.
impl<S> Clone for ConfigCache<S> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_configuration_is_made_once_for_each_source_and_few_are_kept() {
        let cache: ConfigCache = ConfigCache::default();
        let mut made = 0;
        for generation in [1, 1, 2, 3, 4, 5, 6, 7, 7, 1] {
            let source =
                Source::Deploy { spec: FlinkDeploymentSpec::default(), mode: None, generation };
            let config = cache.get(source, |_| {
                made += 1;
                let key = ("key".to_owned(), generation.to_string());
                Ok::<_, Infallible>([key].into_iter().collect())
            });
            assert_eq!(config.unwrap().get_text("key"), Some(generation.to_string().as_str()));
        }
        assert_eq!(made, 8, "seven generations, and the first once more");
        assert_eq!(cache.0.lock().unwrap().len(), ENTRIES_MAX);
    }
}
