//! Checks that a resource can run, before anything is done about it.
//!
//! Pure functions, shared by commands and operator. All violations are returned, each with the field to blame, so that
//! one edit can fix them. The rules have the numbers of the Java operator's checks (D for deployments, J for session
//! jobs, S for snapshots, R for resources, A for the autoscaler); beyond them, only what is certain to fail later is
//! refused.

pub mod addresses;
mod autoscaler;
pub mod blue_green;
mod deployment;
pub mod excluded_period;
pub mod extension;
pub mod ingress;
mod jar_uri;
mod kerberos;
pub mod lint;
pub mod memory_model;
pub mod operator_files;
mod options_form;
mod resources;
pub mod rule;
pub mod schedule;
pub mod session_job;
pub mod state_snapshot;

use std::fmt;
use std::time::Duration;

use self::rule::Rule;
use api::deployment::FlinkDeploymentSpec;
use config::option::{ConfigOption, InvalidValue, OptionValue};
use config::{FlinkConfig, OperatorConfig, duration, options};

/// Something that is wrong with a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The field to blame, such as `spec.job.parallelism`.
    pub path: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl Violation {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A violation and the rule that it breaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    pub rule: Rule,
    pub violation: Violation,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.violation.fmt(f)
    }
}

/// Input for the validation of a `FlinkDeployment`.
#[derive(Clone, Copy, Debug)]
pub struct ValidationInput<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub spec: &'a FlinkDeploymentSpec,
    /// The spec in `status.reconciliationStatus.lastReconciledSpec`, once there is one.
    pub last_reconciled: Option<&'a FlinkDeploymentSpec>,
    pub operator: &'a OperatorConfig,
}

/// Returns all violations of a `FlinkDeployment`; if there are none, it can be deployed.
pub fn validate(input: &ValidationInput<'_>) -> Vec<Violation> {
    find(input).into_iter().map(|finding| finding.violation).collect()
}

/// Like [`validate`], each with its rule.
pub fn find(input: &ValidationInput<'_>) -> Vec<Finding> {
    deployment::check(input)
}

/// Returns all violations of the autoscaler's options as if it were on, with a sample every `interval`. The path of
/// each is its key.
pub fn autoscaler_options(config: &FlinkConfig, interval: Duration) -> Vec<Violation> {
    const PLACE: &str = "spec.flinkConfiguration.";
    let mut config = config.clone();
    config.force(&options::autoscaler::ENABLED, "true");
    config.force(&options::RECONCILE_INTERVAL, duration::render(interval));
    let places = Places { own: config.clone() };
    let found = autoscaler::check(&config, &places);
    let mut violations: Vec<Violation> = found.into_iter().map(|one| one.violation).collect();
    for violation in &mut violations {
        if let Some(key) = violation.path.strip_prefix(PLACE) {
            violation.path = key.to_owned();
        }
    }
    violations
}

/// Finds where an option was set, to blame the right place.
struct Places {
    /// Options that the resource itself sets.
    own: FlinkConfig,
}

impl Places {
    /// Returns the place where `option` is set, or would be.
    fn of<T: OptionValue>(&self, config: &FlinkConfig, option: &ConfigOption<T>) -> String {
        let set = option.keys().find(|key| config.contains(key));
        self.of_key(set.unwrap_or(option.key()), set.is_some())
    }

    fn of_key(&self, key: &str, is_set: bool) -> String {
        if is_set && !self.own.contains(key) {
            return format!("operator configuration `{key}`");
        }
        format!("spec.flinkConfiguration.{key}")
    }

    fn invalid(&self, invalid: &InvalidValue) -> Finding {
        let InvalidValue { key, value, expected } = invalid;
        // The path of a value derived from a field of the spec is that field.
        let path = if key.starts_with("spec.") { key.clone() } else { self.of_key(key, true) };
        Rule::OptionValue.found(path, format!("invalid value `{value}`: expected {expected}"))
    }
}

/// D1: `[a-z]([-a-z0-9]{0,43}[a-z0-9])?`, so that the names derived from it are valid, too.
fn is_valid_name(name: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 45
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(is_end)
        && name.chars().all(|c| is_end(c) || c == '-')
}

/// The rule of [`is_valid_name`] in words.
const NAME_RULE: &str = "it must start with a lower case letter, end with a letter or digit, and \
     have at most 45 lower case letters, digits and `-`";

/// Returns true if the text is absent or blank, which is the same for every path and directory.
fn is_blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

/// Formats violations for tests, one per line.
#[cfg(test)]
fn lines(violations: &[impl fmt::Display]) -> String {
    violations.iter().map(|violation| violation.to_string() + "\n").collect()
}
