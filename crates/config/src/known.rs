//! The known option names of the operator, to report unknown ones: an option with a misspelled name silently has no
//! effect.

use super::FlinkConfig;
use super::catalogue::{self, Known};
use super::flink_config::{AUTOSCALER_PREFIX, OPERATOR_PREFIX};
use super::options::autoscaler::is_parameter;

/// Prefixes below which others choose the names.
const OPEN: [&str; 4] = [
    "kubernetes.operator.default-configuration.",
    "kubernetes.operator.metrics.",
    "kubernetes.operator.plugins.",
    "kubernetes.operator.user.artifacts.http.header.",
];

/// Minimum similarity for suggesting a known name.
const LIKENESS_MIN: f64 = 0.75;
/// Maximum number of suggestions: with more wrong names than that, it is another kind of file.
const GUESSES_MAX: usize = 20;

/// Returns every option that is read, including deprecated names and those of the Java operator that have no effect
/// here.
fn names() -> impl Iterator<Item = &'static str> {
    catalogue::all().flat_map(Known::keys)
}

/// An option that does not exist, or that is not read from where it is set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unknown {
    pub key: String,
    /// The known option with the most similar name.
    pub nearest: Option<String>,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "`{}` has no effect: there is no such option", self.key)?;
        match &self.nearest {
            Some(nearest) => write!(formatter, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Returns the unknown options of the operator and its autoscaler, including defaults of a namespace or version.
pub fn unknown_options(config: &FlinkConfig) -> Vec<Unknown> {
    let mut all = Vec::new();
    for (key, _) in config.iter() {
        let name = catalogue::plain(key);
        let is_ours = [OPERATOR_PREFIX, AUTOSCALER_PREFIX].iter().any(|it| name.starts_with(it));
        let is_open = OPEN.iter().any(|open| name.starts_with(open)) || is_parameter(name);
        if !is_ours || is_open || names().any(|known| known == name) {
            continue;
        }
        let nearest = if all.len() < GUESSES_MAX { nearest(name) } else { None };
        let before = &key[..key.len() - name.len()];
        let nearest = nearest.map(|nearest| format!("{before}{nearest}"));
        all.push(Unknown { key: key.to_owned(), nearest });
    }
    all
}

fn nearest(name: &str) -> Option<&'static str> {
    let name = stem(name);
    // Names of very different lengths are not similar: a long name, which anyone may send to the webhook, is compared
    // with few or none.
    let may_be_alike = |known: &&str| {
        let (one, other) = (name.len(), stem(known).len());
        one.min(other) * 2 >= one.max(other)
    };
    let likeness = |known| (strsim::normalized_damerau_levenshtein(name, stem(known)), known);
    let all = names().filter(may_be_alike).map(likeness);
    // Of equal ones the first: older names come later.
    let (likeness, best) = all.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (likeness >= LIKENESS_MIN).then_some(best)
}

/// Returns the part of a key that distinguishes options of the same prefix.
fn stem(key: &str) -> &str {
    let key = key.strip_prefix(OPERATOR_PREFIX).unwrap_or(key);
    key.strip_prefix(AUTOSCALER_PREFIX).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: &str) -> Vec<String> {
        let config: FlinkConfig = [(key, "1")].into_iter().collect();
        unknown_options(&config).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_slip_is_reported_with_what_is_meant() {
        assert_eq!(
            found("kubernetes.operator.reconcile.intervall"),
            ["`kubernetes.operator.reconcile.intervall` has no effect: there is no such option; \
              did you mean `kubernetes.operator.reconcile.interval`?"]
        );
        assert_eq!(
            found(
                "kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.job.restart.faild"
            ),
            [
                "`kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.job.restart.faild` \
                 has no effect: there is no such option; did you mean \
                 `kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.job.restart.failed`?"
            ]
        );
    }

    #[test]
    fn a_slip_in_an_option_of_the_autoscaler_is_reported_under_each_of_its_names() {
        for prefix in ["", "kubernetes.operator."] {
            assert_eq!(
                found(&format!("{prefix}job.autoscaler.metrics.windows")),
                [format!(
                    "`{prefix}job.autoscaler.metrics.windows` has no effect: there is no such option; did you mean \
                     `job.autoscaler.metrics.window`?"
                )]
            );
        }
    }

    #[test]
    fn an_option_of_blue_green_deployments_is_a_default_of_theirs() {
        assert_eq!(found("kubernetes.operator.bluegreen.abort.grace-period"), [""; 0]);
        let slip = found("kubernetes.operator.bluegreen.abort.grace-periods");
        assert!(
            slip[0].contains("did you mean `kubernetes.operator.bluegreen.abort.grace-period`")
        );
    }

    #[test]
    fn what_is_like_nothing_is_not_guessed() {
        assert_eq!(
            found("kubernetes.operator.cloud"),
            ["`kubernetes.operator.cloud` has no effect: there is no such option"]
        );
    }

    #[test]
    fn few_names_are_guessed_and_none_for_what_is_very_long() {
        let name = |number| format!("kubernetes.operator.reconcile.intervall{number}");
        let config: FlinkConfig = (0..50).map(|number| (name(number), "1")).collect();
        let unknown = unknown_options(&config);
        assert_eq!(unknown.len(), 50);
        assert_eq!(unknown.iter().filter(|one| one.nearest.is_some()).count(), GUESSES_MAX);
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&format!("reconcile.interval{long}")), None);
    }

    #[test]
    fn what_others_name_and_what_is_flinks_is_let_pass() {
        for key in [
            "kubernetes.operator.plugins.listeners.audit.url",
            "job.autoscaler.metrics.custom-evaluator.mine.target-rate",
            "kubernetes.operator.job.autoscaler.scaling.parallelism-alignment.mode.mine.class",
            "kubernetes.operator.metrics.reporter.slf4j.interval",
            "kubernetes.operator.default-configuration.flink-version.v1_20.state.backend",
            "kubernetes.operator.reconciler.reschedule.interval",
            "taskmanager.numberOfTaskSlots",
            "kubernetes.operators",
        ] {
            assert_eq!(found(key), [""; 0], "{key}");
        }
    }
}
