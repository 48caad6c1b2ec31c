//! Reads the operator's configuration files. What they mean is `config`'s.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::failure::Failure;
use super::printer::Printer;
use crate::config::file::{parse_config_yaml, parse_flink_conf, skipped_lines};
use crate::config::known::unknown_options;
use crate::config::{FlinkConfig, OperatorConfig};

/// The old format, one `key: value` per line.
const OLD_NAME: &str = "flink-conf.yaml";
const STANDARD_NAME: &str = "config.yaml";

/// The configuration that `--operator-config` names, else the one of the environment: the directory
/// `$FLINK_CONF_DIR`, overlaid with the one of `$CONF_OVERRIDE_DIR`.
pub fn load(path: Option<&Path>, printer: &Printer) -> anyhow::Result<OperatorConfig> {
    let config = match path {
        Some(path) => read(path, printer)?,
        None => read_environment(printer)?,
    };
    let config = OperatorConfig::new(config);
    for key in config.unknown_version_keys() {
        printer.warning(format_args!("`{key}` has no effect: no such Flink version"));
    }
    for unknown in unknown_options(&config.base) {
        printer.warning(unknown);
    }
    Ok(config)
}

fn read_environment(printer: &Printer) -> anyhow::Result<FlinkConfig> {
    let mut config = FlinkConfig::new();
    for variable in ["FLINK_CONF_DIR", "CONF_OVERRIDE_DIR"] {
        if let Some(directory) = directory_in(variable) {
            let overlay = read(&directory, printer)
                .with_context(|| format!("while reading what ${variable} names"))?;
            config.overlay(&overlay);
        }
    }
    Ok(config)
}

fn directory_in(variable: &str) -> Option<PathBuf> {
    let text = std::env::var_os(variable)?;
    (!text.to_string_lossy().trim().is_empty()).then(|| PathBuf::from(text))
}

/// A file, or a directory with one of the two files; the old one alone counts where both are.
///
/// A file named `flink-conf.yaml` is read in the old format, any other as standard YAML.
pub fn read(path: &Path, printer: &Printer) -> anyhow::Result<FlinkConfig> {
    let file = if path.is_dir() { file_in(path)? } else { path.to_owned() };
    let shown = file.display();
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("while reading `{shown}`"))?;
    if file.file_name().is_some_and(|name| name == OLD_NAME) {
        for line in skipped_lines(&text) {
            printer.warning(format_args!("{shown}:{line}: skipped: expected `key: value`"));
        }
        return Ok(parse_flink_conf(&text));
    }
    parse_config_yaml(&text).map_err(|error| {
        Failure::new(format!("`{shown}` is not a Flink configuration in standard YAML"))
            .caused_by(error)
            .hint(format!("name a file in the old format, `key: value` lines, {OLD_NAME}"))
            .into()
    })
}

fn file_in(directory: &Path) -> anyhow::Result<PathBuf> {
    [OLD_NAME, STANDARD_NAME]
        .map(|name| directory.join(name))
        .into_iter()
        .find(|f| f.exists())
        .ok_or_else(|| {
            Failure::new(format!(
                "`{}` holds neither {OLD_NAME} nor {STANDARD_NAME}",
                directory.display()
            ))
            .into()
        })
}

#[cfg(test)]
mod tests;
