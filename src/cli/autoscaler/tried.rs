//! Options to try out, and the flags of every trial: `--set`, `--svg` and `-o`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use crate::cli::args::{DetailFormat, Output};
use crate::cli::extension::invalid;
use crate::cli::failure::Failure;
use crate::cli::operator_config;
use crate::cli::printer::Printer;
use autoscaler::plugin::rules::Rules;
use autoscaler::settings::{Settings, set_over};
use config::FlinkConfig;
use config::options::autoscaler::{self as options};
use config::options::{
    JOB_MANAGER_CPU, JOB_MANAGER_PROCESS_MEMORY, JOB_MANAGER_REPLICAS, TASK_MANAGER_CPU,
    TASK_MANAGER_PROCESS_MEMORY, TASK_SLOTS,
};
use validation::autoscaler_options;

/// Prefix of the autoscaler's options, optional on the command line.
const PREFIX: &str = "job.autoscaler.";
/// Options that determine the requests of pods.
const REQUESTS: [&str; 6] = [
    TASK_SLOTS.key(),
    TASK_MANAGER_CPU.key(),
    TASK_MANAGER_PROCESS_MEMORY.key(),
    JOB_MANAGER_CPU.key(),
    JOB_MANAGER_PROCESS_MEMORY.key(),
    JOB_MANAGER_REPLICAS.key(),
];
/// Minimum similarity of a known option to be suggested for an unknown one.
const LIKENESS_MIN: f64 = 0.7;

/// Flags of every trial.
#[derive(Args)]
pub(super) struct TrialFlags {
    /// Try an option of the autoscaler, such as utilization.target=0.6; may be repeated
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = option)]
    pub(super) set: Vec<(String, String)>,
    /// Write a chart of lag, rates and parallelism to this file
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// The operator's configuration, for the rules that the job names: a file or a directory
    #[arg(long, value_name = "PATH")]
    pub(super) operator_config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: Output<DetailFormat>,
}

/// Parses `option=value` and completes the option's name.
pub(super) fn option(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected OPTION=VALUE")?;
    let key = key.trim();
    let whole = format!("{PREFIX}{key}");
    if options::is_known(key) || REQUESTS.contains(&key) {
        return Ok((key.to_owned(), value.trim().to_owned()));
    }
    if options::is_known(&whole) {
        return Ok((whole, value.trim().to_owned()));
    }
    let likeness = |known: &&str| strsim::normalized_damerau_levenshtein(&whole, known);
    let keys = options::TABLE.iter().map(|known| known.key);
    let nearest = keys.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Err(match nearest.filter(|nearest| likeness(nearest) >= LIKENESS_MIN) {
        Some(nearest) => format!("there is no option `{key}`; did you mean `{nearest}`?"),
        None => format!("there is no option `{key}` of the autoscaler"),
    })
}

impl TrialFlags {
    /// Returns the options in effect: the existing ones, overridden by those to try.
    pub(super) fn config(&self, mut config: FlinkConfig) -> FlinkConfig {
        set_over(&mut config, self.set.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        config
    }

    /// Returns the rules that a job may name. A trial sends no requests to others, so rules behind an address cannot be
    /// tried.
    pub(super) fn rules(&self, settings: &Settings, printer: &Printer) -> anyhow::Result<Rules> {
        let rules = match &self.operator_config {
            Some(path) => {
                let operator = operator_config::load(Some(path), printer)?;
                Rules::read(&operator.base).map_err(invalid)?
            }
            None => Rules::default(),
        };
        rules.check(settings).map_err(|undefined| {
            Failure::new(undefined).hint("pass the operator's configuration with --operator-config")
        })?;
        rules.check_offline(settings).map_err(Failure::new)?;
        Ok(rules)
    }
}

/// Checks and reads the options of an autoscaler that takes a sample every `interval`.
pub(super) fn settings(config: &FlinkConfig, interval: Duration) -> anyhow::Result<Settings> {
    let violations = autoscaler_options(config, interval);
    if !violations.is_empty() {
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        return Err(Failure::new(lines.join("\n"))
            .hint("override it with --set OPTION=VALUE")
            .into());
    }
    Ok(Settings::read(config)?)
}

/// Reads a file of at most `bytes_max` bytes.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> anyhow::Result<String> {
    let shown = path.display();
    let length = std::fs::metadata(path).with_context(|| format!("while reading `{shown}`"))?.len();
    if length > bytes_max {
        let problem = format!("`{shown}` has {length} bytes, but the limit is {bytes_max}");
        return Err(Failure::new(problem).into());
    }
    let bytes = std::fs::read(path).with_context(|| format!("while reading `{shown}`"))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("`{shown}` is not valid UTF-8")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_may_be_named_in_short() {
        let long = ("job.autoscaler.utilization.target".to_owned(), "0.6".to_owned());
        assert_eq!(option("utilization.target=0.6"), Ok(long.clone()));
        assert_eq!(option("job.autoscaler.utilization.target = 0.6"), Ok(long));
        assert!(option("scale-up.grace-period=1 h").is_ok(), "an older name");
        let slip = option("utilisation.target=0.6").unwrap_err();
        assert!(slip.contains("did you mean `job.autoscaler.utilization.target`?"), "{slip}");
        assert!(option("state.backend=x").is_err());
        assert!(option("utilization.target").is_err());
    }

    #[test]
    fn what_is_tried_wins_over_what_is_set() {
        let set = vec![option("vertex.max-parallelism=7").unwrap()];
        let flags = TrialFlags { set, svg: None, operator_config: None, output: Output::default() };
        let config = FlinkConfig::from_iter([(
            "kubernetes.operator.job.autoscaler.vertex.max-parallelism",
            "5",
        )]);
        let read = settings(&flags.config(config), Duration::from_mins(1)).unwrap();
        assert_eq!(read.max_parallelism, 7);
    }

    #[test]
    fn options_out_of_range_are_all_reported() {
        let config = FlinkConfig::from_iter([
            ("job.autoscaler.utilization.target", "7"),
            ("job.autoscaler.metrics.window", "10 s"),
        ]);
        let error = settings(&config, Duration::from_mins(1)).unwrap_err().to_string();
        assert!(error.starts_with("job.autoscaler.utilization.target: `7` is out of range"));
        assert!(error.contains("job.autoscaler.metrics.window"), "{error}");
    }
}
