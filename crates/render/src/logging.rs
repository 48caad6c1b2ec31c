//! Logging files in the Flink configuration's ConfigMap.
//!
//! The ConfigMap is mounted over the image's own files and hides them, so there must always be one.

use std::collections::BTreeMap;

use api::deployment::FlinkDeploymentSpec;
use config::option::ConfigOption;
use config::{FlinkConfig, options};

/// Flink's names for the files of a pod, and the options with the files for all jobs.
pub const FILES: [(&str, &ConfigOption<String>); 2] = [
    ("log4j-console.properties", &options::LOG4J_CONSOLE),
    ("logback-console.xml", &options::LOGBACK_CONSOLE),
];

/// Logs to the console for `kubectl logs`, and to a bounded file for the web UI. The names of appenders and loggers are
/// those of the Java operator's chart, so that additions written for it work here.
pub const DEFAULT_LOG4J: &str =
    include_str!("../../../helm/kubectl-flink-operator/conf/log4j-console.properties");

/// The same for images whose Flink logs with Logback.
pub const DEFAULT_LOGBACK: &str =
    include_str!("../../../helm/kubectl-flink-operator/conf/logback-console.xml");

/// Returns the spec's files, or else those for all jobs, or else the default one.
pub(super) fn files(spec: &FlinkDeploymentSpec, config: &FlinkConfig) -> BTreeMap<String, String> {
    let of_spec = |name: &str| spec.log_configuration.as_ref()?.get(name).cloned();
    let of_spec: BTreeMap<_, _> =
        FILES.iter().filter_map(|(name, _)| Some(((*name).to_owned(), of_spec(name)?))).collect();
    let given = |option| config.text_of(option).filter(|text| !text.trim().is_empty());
    let of_all = FILES
        .iter()
        .filter_map(|(name, option)| Some(((*name).to_owned(), given(*option)?.to_owned())));
    let default = || BTreeMap::from([(FILES[0].0.to_owned(), DEFAULT_LOG4J.to_owned())]);
    let of_all: BTreeMap<_, _> = of_all.collect();
    [of_spec, of_all].into_iter().find(|files| !files.is_empty()).unwrap_or_else(default)
}
