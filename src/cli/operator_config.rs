//! Reads the operator's configuration files. `config` interprets them.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::failure::Failure;
use super::printer::Printer;
use config::catalogue::{without_effect, wrong_values};
use config::file::{parse_config_yaml, parse_flink_conf, skipped_lines};
use config::known::unknown_options;
use config::option::ConfigOption;
use config::plugin::java_listeners;
use config::reporter::Reporters;
use config::{FlinkConfig, OperatorConfig, options, template_file};
use render::{logging, pod_template};

/// File name of the old format, with one `key: value` per line.
const OLD_NAME: &str = "flink-conf.yaml";
const STANDARD_NAME: &str = "config.yaml";
/// Maximum size of a file in bytes. A whole ConfigMap is limited to one mebibyte.
const FILE_MAX: u64 = 1 << 20;
/// What a pod template that the options name needs.
const TO_MOUNT: &str = "mount it in the operator's pod with `operatorVolumes` and \
                        `operatorVolumeMounts` of the chart, as the operator starts no pods \
                        without it";
/// Variable that names the directory with the configuration.
const DIRECTORY: &str = "FLINK_CONF_DIR";
/// Variable that names a directory whose files override it, key by key.
const OVERRIDES: &str = "CONF_OVERRIDE_DIR";

/// Content of the files; later ones override earlier ones.
#[derive(Debug, Default)]
pub struct Files {
    pub files: Vec<File>,
    /// Warnings about settings that have no effect.
    pub remarks: Vec<String>,
    /// Pod templates that the options name and that cannot be used here: the path of each, and the remark about it.
    pub unread: Vec<(String, String)>,
}

/// One configuration file.
#[derive(Debug)]
pub struct File {
    /// Its path, as shown to people.
    pub shown: String,
    pub config: FlinkConfig,
}

impl Files {
    /// Merges all files.
    pub fn merged(&self) -> FlinkConfig {
        let mut merged = FlinkConfig::new();
        for file in &self.files {
            merged.overlay(&file.config);
        }
        for (path, _) in &self.unread {
            merged.set(template_file::entry(path), "");
        }
        merged
    }

    fn remark(&mut self) {
        let config = OperatorConfig::new(self.merged());
        let of_versions = config.unknown_version_keys().into_iter();
        let of_versions =
            of_versions.map(|key| format!("`{key}` has no effect: no such Flink version"));
        let unknown = unknown_options(&config.base);
        self.remarks.extend(of_versions.chain(unknown.iter().map(ToString::to_string)));
        let without = without_effect(&config.base).into_iter();
        self.remarks
            .extend(without.map(|(key, what)| format!("`{key}` has no effect here: {what}")));
        self.remarks.extend(java_listeners(&config.base));
        let reporters = Reporters::of(&config.base).without_effect;
        self.remarks.extend(reporters.iter().map(ToString::to_string));
        let probe = &options::JM_DEPLOYMENT_STARTUP_PROBE_ENABLED;
        let key = options::JOB_MANAGER_POD_TEMPLATE.key();
        if config.base.contains(key) && config.base.get(probe) == Ok(true) {
            self.remarks.push(format!(
                "`{key}` has no effect unless `{}` is false, as in the Java operator",
                probe.key()
            ));
        }
    }

    /// Adds the pod templates that the options name. What cannot be used is left out, with a remark.
    fn add_pod_templates(&mut self, read: impl Fn(&str) -> Result<String, String>) {
        for (path, key) in template_file::named(&self.merged()) {
            match read(&path) {
                Ok(text) => {
                    let config = [(template_file::entry(&path), text)].into_iter().collect();
                    self.files.push(File { shown: path, config });
                }
                Err(reason) => {
                    let remark = format!("the pod template `{path}` of `{key}` {reason}");
                    self.remarks.push(remark.clone());
                    self.unread.push((path, remark));
                }
            }
        }
    }
}

/// Loads the configuration from the path in `--operator-config`, else from the directory `$FLINK_CONF_DIR`, overridden
/// by the one in `$CONF_OVERRIDE_DIR`.
pub fn load(path: Option<&Path>, printer: &Printer) -> anyhow::Result<OperatorConfig> {
    let files = read(path)?;
    for remark in &files.remarks {
        printer.warning(remark);
    }
    let config = files.merged();
    for wrong in wrong_values(&config) {
        printer.warning(wrong);
    }
    Ok(OperatorConfig::new(config))
}

/// Reads the same files as [`load`].
pub fn read(path: Option<&Path>) -> anyhow::Result<Files> {
    let mut files = Files::default();
    match path {
        Some(path) => files.add(path)?,
        None => files.add_directory_in(DIRECTORY)?,
    }
    files.add_directory_in(OVERRIDES)?;
    files.remark();
    files.add_pod_templates(pod_template_at);
    Ok(files)
}

impl Files {
    /// Parses the text of one file, from any source.
    pub fn of_text(name: &str, shown: String, text: &str) -> anyhow::Result<Self> {
        let mut files = Self::default();
        files.add_text(name == OLD_NAME, shown, text)?;
        files.remark();
        files.add_pod_templates(|_| {
            Err(format!("is a file in the operator's pod, and is not considered here: {TO_MOUNT}"))
        });
        Ok(files)
    }

    fn add_directory_in(&mut self, variable: &str) -> anyhow::Result<()> {
        match directory_in(variable) {
            Some(directory) => self
                .add(&directory)
                .with_context(|| format!("while reading the directory in ${variable}")),
            None => Ok(()),
        }
    }

    /// Adds a file, or a directory with one of the two files and optionally log configurations. If it has both files,
    /// only the old one is used.
    ///
    /// A file named `flink-conf.yaml` is read in the old format, any other as standard YAML.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let (file, logs) = if path.is_dir() {
            let logs = logging::FILES.map(|(name, option)| (path.join(name), option));
            let logs: Vec<_> = logs.into_iter().filter(|(file, _)| file.exists()).collect();
            (file_in(path, logs.is_empty())?, logs)
        } else {
            (Some(path.to_owned()), vec![])
        };
        if let Some(file) = file {
            let is_old = file.file_name().is_some_and(|name| name == OLD_NAME);
            self.add_text(is_old, file.display().to_string(), &text_of(&file)?)?;
        }
        for (file, option) in logs {
            self.add_log_file(file.display().to_string(), option, &text_of(&file)?);
        }
        Ok(())
    }

    /// Adds the text of a log configuration for all jobs.
    pub fn add_log_file(&mut self, shown: String, option: &ConfigOption<String>, text: &str) {
        let config = [(option.key(), text)].into_iter().collect();
        self.files.push(File { shown, config });
    }

    fn add_text(&mut self, is_old: bool, shown: String, text: &str) -> anyhow::Result<()> {
        let config = if is_old {
            for line in skipped_lines(text) {
                self.remarks.push(format!("{shown}:{line}: skipped: expected `key: value`"));
            }
            let config = parse_flink_conf(text);
            for (key, _) in config.iter().filter(|(_, value)| is_quoted(value)) {
                let told = "keeps its quotes in this format: remove them, or use config.yaml";
                self.remarks.push(format!("{shown}: the value of `{key}` {told}"));
            }
            config
        } else {
            parse_config_yaml(text).map_err(|error| {
                Failure::new(format!("`{shown}` is not a Flink configuration in standard YAML"))
                    .caused_by(error)
                    .hint(format!(
                        "if it is in the old format, with `key: value` lines, name it {OLD_NAME}"
                    ))
            })?
        };
        self.files.push(File { shown, config });
        Ok(())
    }
}

/// Returns true for `"text"`, which YAML and the Java operator since 1.16 read as `text`.
fn is_quoted(value: &str) -> bool {
    ['"', '\'']
        .iter()
        .any(|sign| value.len() > 1 && value.starts_with(*sign) && value.ends_with(*sign))
}

fn directory_in(variable: &str) -> Option<PathBuf> {
    let text = std::env::var_os(variable)?;
    (!text.to_string_lossy().trim().is_empty()).then(|| PathBuf::from(text))
}

/// Returns the text of a pod template, or why it cannot be used.
fn pod_template_at(path: &str) -> Result<String, String> {
    let cannot = |reason: String| format!("cannot be used here: {reason}: {TO_MOUNT}");
    let text = text_of(Path::new(path)).map_err(|error| cannot(error.root_cause().to_string()))?;
    drop(pod_template::read(&text).map_err(cannot)?);
    Ok(text)
}

fn text_of(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let reading = || format!("while reading `{shown}`");
    let size = std::fs::metadata(file).with_context(reading)?.len();
    if size > FILE_MAX {
        return Err(Failure::new(format!("`{shown}` has {size} bytes"))
            .hint(format!(
                "a configuration file can have at most {FILE_MAX} bytes, like a ConfigMap"
            ))
            .into());
    }
    std::fs::read_to_string(file).with_context(reading)
}

fn file_in(directory: &Path, is_needed: bool) -> anyhow::Result<Option<PathBuf>> {
    let mut files = [OLD_NAME, STANDARD_NAME].map(|name| directory.join(name)).into_iter();
    match files.find(|file| file.exists()) {
        None if is_needed => Err(Failure::new(format!(
            "`{}` contains neither {OLD_NAME} nor {STANDARD_NAME}",
            directory.display()
        ))
        .into()),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests;
