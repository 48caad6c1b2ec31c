//! Cache of a decision's results: it needs the same ones many times, and again after each question.

use std::sync::{Arc, Mutex, PoisonError};

use api::deployment::FlinkDeploymentSpec;
use api::job::UpgradeMode;
use api::reconciled::{CorruptSpec, Reconciled, StoredSpec};
use config::FlinkConfig;
use validation::Violation;

/// Maximum number of configurations: of what runs, what is desired, and what is rolled back to, in both views.
const CONFIGS_MAX: usize = 6;
/// Maximum number of stored specs: the last one and the last stable one, before the pass and as it leaves them.
const STORED_MAX: usize = 4;

/// A stored spec, or why it cannot be parsed.
pub(super) type Stored<S> = Result<Arc<Reconciled<S>>, CorruptSpec>;

/// Everything that a configuration is built from, apart from what is the same for a whole pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Observe { deployed: FlinkDeploymentSpec, wanted: Box<FlinkDeploymentSpec> },
    Deploy { spec: FlinkDeploymentSpec, mode: Option<UpgradeMode>, generation: i64 },
}

/// Violations of the desired spec, by the spec that was reconciled before.
type Judged<S> = Option<(Option<S>, Vec<Violation>)>;

/// The configurations, stored specs and violations of one pass, each by what it is computed from.
#[derive(Debug)]
pub struct Memo<C = Source, S = FlinkDeploymentSpec> {
    configs: Mutex<Vec<(C, Arc<FlinkConfig>)>>,
    judged: Mutex<Judged<S>>,
    /// With the texts that they were parsed from.
    stored: Mutex<Vec<(String, Arc<Reconciled<S>>)>>,
    /// Pairs of texts, and whether they mean the same spec.
    compared: Mutex<Vec<([String; 2], bool)>>,
}

impl<C, S> Default for Memo<C, S> {
    fn default() -> Self {
        Self {
            configs: Mutex::default(),
            judged: Mutex::default(),
            stored: Mutex::default(),
            compared: Mutex::default(),
        }
    }
}

impl<C, S> Memo<C, S> {
    /// Returns the configuration whose source `is_it` recognises, or creates one with `make`.
    pub(super) fn config<E>(
        &self,
        is_it: impl Fn(&C) -> bool,
        make: impl FnOnce() -> Result<(C, FlinkConfig), E>,
    ) -> Result<Arc<FlinkConfig>, E> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = configs.iter().find(|(source, _)| is_it(source)) {
            return Ok(Arc::clone(config));
        }
        let (source, config) = make()?;
        let config = Arc::new(config);
        keep(&mut configs, (source, Arc::clone(&config)), CONFIGS_MAX);
        Ok(config)
    }
}

/// Adds an item and drops the oldest if there are too many.
fn keep<T>(known: &mut Vec<T>, one: T, max: usize) {
    if known.len() == max {
        known.remove(0);
    }
    known.push(one);
}

impl<C, S: StoredSpec + PartialEq> Memo<C, S> {
    /// Returns the violations of the desired spec against this previous one, computed by `judge`. Each question repeats
    /// the decision, and this is its most expensive part.
    pub(super) fn violations(
        &self,
        last: Option<&S>,
        judge: impl FnOnce() -> Vec<Violation>,
    ) -> Vec<Violation> {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, violations)) = judged.as_ref().filter(|(known, _)| known.as_ref() == last) {
            return violations.clone();
        }
        let violations = judge();
        *judged = Some((last.cloned(), violations.clone()));
        violations
    }
}

impl<C, S: StoredSpec> Memo<C, S> {
    /// Parses the spec that is stored as this text.
    ///
    /// # Errors
    /// If the text is not a stored spec.
    pub fn parse(&self, text: &str) -> Stored<S> {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, spec)) = stored.iter().find(|(known, _)| known == text) {
            return Ok(Arc::clone(spec));
        }
        let spec = Arc::new(Reconciled::parse(text)?);
        keep(&mut stored, (text.to_owned(), Arc::clone(&spec)), STORED_MAX);
        Ok(spec)
    }

    /// Returns true if two stored texts mean the same spec. Upstream compares the texts; comparing their meaning keeps
    /// a job stable if only field order or nulls differ.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        if one == other {
            return true;
        }
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, is_same)) = compared.iter().find(|([a, b], _)| a == one && b == other) {
            return *is_same;
        }
        let is_same = match (self.parse(one), self.parse(other)) {
            (Ok(one), Ok(other)) => one.says_the_same(&other),
            (Ok(_) | Err(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        keep(&mut compared, ([one.to_owned(), other.to_owned()], is_same), STORED_MAX);
        is_same
    }
}

/// A copy of a world starts with an empty cache.
impl<C, S> Clone for Memo<C, S> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_configuration_is_made_once_for_each_source_and_few_are_cached() {
        let memo: Memo<i64> = Memo::default();
        let mut made = 0;
        for generation in [1, 1, 2, 3, 4, 5, 6, 7, 7, 1] {
            let config = memo.config(
                |known| *known == generation,
                || {
                    made += 1;
                    let key = ("key".to_owned(), generation.to_string());
                    Ok::<_, Infallible>((generation, [key].into_iter().collect()))
                },
            );
            assert_eq!(config.unwrap().get_text("key"), Some(generation.to_string().as_str()));
        }
        assert_eq!(made, 8, "seven generations, and the first once more");
        assert_eq!(memo.configs.lock().unwrap().len(), CONFIGS_MAX);
    }

    #[test]
    fn the_wanted_spec_is_judged_once_alongside_each_stored_one() {
        let memo: Memo = Memo::default();
        let mut judged = 0;
        let specs = [None, Some(FlinkDeploymentSpec::default())];
        for last in [0, 0, 1, 1, 0] {
            let violations = memo.violations(specs[last].as_ref(), || {
                judged += 1;
                vec![Violation { path: format!("spec.{last}"), message: String::new() }]
            });
            assert_eq!(violations[0].path, format!("spec.{last}"));
        }
        assert_eq!(judged, 3);
    }

    #[test]
    fn what_two_stored_texts_mean_is_compared_once() {
        let memo: Memo = Memo::default();
        let (plain, spaced) = (r#"{"spec":{"image":"a"}}"#, r#"{ "spec": {"image": "a"} }"#);
        let other = r#"{"spec":{"image":"b"}}"#;
        for _ in 0..2 {
            assert!(memo.is_same(plain, plain));
            assert!(memo.is_same(plain, spaced));
            assert!(!memo.is_same(plain, other));
            assert!(!memo.is_same(plain, "{") && !memo.is_same("{", plain));
        }
        assert_eq!(memo.compared.lock().unwrap().len(), 4, "each pair of texts that differ");
    }

    #[test]
    fn a_stored_spec_is_read_once_and_another_text_is_another_spec() {
        let memo: Memo = Memo::default();
        let text = |image: &str| format!(r#"{{"spec":{{"image":"{image}"}}}}"#);
        let first = memo.parse(&text("a")).unwrap();
        assert!(Arc::ptr_eq(&first, &memo.parse(&text("a")).unwrap()));
        assert_eq!(memo.parse(&text("b")).unwrap().spec.image.as_deref(), Some("b"));
        assert!(memo.parse("{").is_err());
        for number in 0..10 {
            memo.parse(&text(&number.to_string())).unwrap();
        }
        assert_eq!(memo.stored.lock().unwrap().len(), STORED_MAX);
    }
}
