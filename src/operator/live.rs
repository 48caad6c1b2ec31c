//! The configuration that is in force. It is replaced as a whole, and each pass takes it once: no
//! pass is made of two.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::OperatorConfig;

/// What became of the configuration since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reloads {
    /// How often another one came into force.
    pub applied: u64,
    /// How often one was refused.
    pub refused: u64,
    /// What the files say now is refused: an earlier configuration is in force.
    pub is_refused: bool,
}

/// Shared by all tasks of the operator.
#[derive(Debug, Default)]
pub struct Live {
    in_force: RwLock<Arc<OperatorConfig>>,
    applied: AtomicU64,
    refused: AtomicU64,
    is_refused: AtomicBool,
}

impl Live {
    pub fn new(config: OperatorConfig) -> Self {
        Self { in_force: RwLock::new(Arc::new(config)), ..Self::default() }
    }

    /// What is in force now.
    pub fn get(&self) -> Arc<OperatorConfig> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every pass that begins from now on is made with `config`.
    pub fn replace(&self, config: OperatorConfig) {
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        self.applied.fetch_add(1, Ordering::Relaxed);
        self.is_refused.store(false, Ordering::Relaxed);
    }

    /// The files say something that cannot come into force.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// The files say again what is in force.
    pub fn confirm(&self) {
        self.is_refused.store(false, Ordering::Relaxed);
    }

    /// What became of the files that were read.
    pub fn reloads(&self) -> Reloads {
        Reloads {
            applied: self.applied.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            is_refused: self.is_refused.load(Ordering::Relaxed),
        }
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

    #[test]
    fn a_refused_one_is_told_until_the_files_are_right_again() {
        let live = Live::new(config("1"));
        live.refuse();
        assert_eq!(live.reloads(), Reloads { applied: 0, refused: 1, is_refused: true });
        live.confirm();
        assert_eq!(live.reloads(), Reloads { applied: 0, refused: 1, is_refused: false });
        live.refuse();
        live.replace(config("2"));
        assert_eq!(live.reloads(), Reloads { applied: 1, refused: 2, is_refused: false });
    }
}
