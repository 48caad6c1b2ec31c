//! The values of an installation, from files and flags.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Map, Value};

use crate::cli::failure::Failure;
use operator::install::merge::{self, Scalars, merge};
use operator::install::values::{FRAMEWORKS, Values};

/// Where values come from.
#[derive(Args)]
pub(super) struct ValueArgs {
    /// File with values like the chart's values.yaml; may be repeated, later ones override
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A value, such as replicas=2; may be repeated, and overrides files
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// A value that is always a string, such as image.tag=12
    #[arg(long, value_name = "PATH=VALUE")]
    set_string: Vec<String>,
}

impl ValueArgs {
    /// Merges all values into one map; later ones override earlier ones.
    pub(super) fn read(&self) -> anyhow::Result<Map<String, Value>> {
        let mut given = Map::new();
        for file in &self.files {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("while reading `{shown}`"))?;
            let values: Option<Map<String, Value>> =
                serde_yaml::from_str(&text).map_err(|error| {
                    Failure::new(format!("`{shown}` contains no values")).caused_by(error)
                })?;
            merge(&mut given, values.unwrap_or_default());
        }
        let typed = self.set.iter().map(|text| (text, Scalars::Typed));
        let texts = self.set_string.iter().map(|text| (text, Scalars::Text));
        for (text, scalars) in typed.chain(texts) {
            merge::set(&mut given, text, scalars)
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(given)
    }
}

/// Merges the given values with the defaults.
pub(super) fn typed(given: &Map<String, Value>) -> anyhow::Result<Values> {
    let mut all = merge::defaults();
    merge(&mut all, given.clone());
    let values = merge::typed(all).map_err(|error| {
        Failure::new(error.to_string())
            .hint("all values, with their defaults: helm/kubectl-flink-operator/values.yaml")
    })?;
    check(&values)?;
    Ok(values)
}

/// Checks rules that the types do not express.
fn check(values: &Values) -> anyhow::Result<()> {
    if !["text", "json"].contains(&values.logging.format.as_str()) {
        return Err(Failure::new(format!(
            "value `logging.format`: `{}` is neither `text` nor `json`",
            values.logging.format
        ))
        .into());
    }
    let framework = values.logging.framework.as_str();
    if !FRAMEWORKS.contains(&framework) {
        let [log4j, logback] = FRAMEWORKS;
        let message = format!(
            "value `logging.framework`: `{framework}` is neither `{log4j}` nor `{logback}`"
        );
        return Err(Failure::new(message).into());
    }
    if values.replicas < 0 {
        return Err(Failure::new("value `replicas` is negative").into());
    }
    let policy = values.webhook.failure_policy.as_str();
    if !["Ignore", "Fail"].contains(&policy) {
        let message =
            format!("value `webhook.failurePolicy`: `{policy}` is neither `Ignore` nor `Fail`");
        return Err(Failure::new(message).into());
    }
    if u16::try_from(values.webhook.port).is_err() || values.webhook.port == 0 {
        return Err(Failure::new("value `webhook.port` is not a port").into());
    }
    Ok(())
}
