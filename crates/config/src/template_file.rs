//! Files with pod templates in the operator's pod, which its configuration names as `kubernetes.pod-template-file.*`.
//!
//! Their texts become entries of the configuration, by path: what is decided with a configuration is then decided with
//! the files that were read along with it, and a file that changes is a change of the configuration.

use std::collections::BTreeMap;

use super::catalogue::plain;
use super::option::ConfigOption;
use super::{FlinkConfig, options};

/// Prefix of the entries with the texts. Nothing with this prefix goes to Flink.
const TEXT: &str = "kubernetes.operator.pod-template-file.";

/// What is known about the file that an option names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TemplateFile<'c> {
    /// The option is not set.
    None,
    /// The file is in the operator's pod, and this process is elsewhere.
    Elsewhere,
    Text(&'c str),
    /// The operator has not read the file at this path, which `key` names.
    Unread {
        key: &'c str,
        path: &'c str,
    },
}

impl<'c> TemplateFile<'c> {
    pub fn of(config: &'c FlinkConfig, option: &ConfigOption<String>) -> Self {
        let mut set = option.keys().filter_map(|key| Some((key, config.get_text(key)?.trim())));
        let Some((key, path)) = set.next().filter(|(_, path)| !path.is_empty()) else {
            return Self::None;
        };
        match config.get_text(&entry(path)) {
            None => Self::Unread { key, path },
            Some("") => Self::Elsewhere,
            Some(text) => Self::Text(text),
        }
    }
}

/// Returns the files that a configuration of the operator names, also as a default of a namespace or version, each with
/// one of its keys.
pub fn named(config: &FlinkConfig) -> BTreeMap<String, String> {
    let roles = [&options::JOB_MANAGER_POD_TEMPLATE, &options::TASK_MANAGER_POD_TEMPLATE];
    let is_one = |key: &str| roles.iter().any(|option| option.keys().any(|name| name == key));
    let set = config.iter().filter(|(key, path)| is_one(plain(key)) && !path.trim().is_empty());
    set.map(|(key, path)| (path.trim().to_owned(), key.to_owned())).collect()
}

/// Returns the name of the entry with the text of this file. An empty text stands for a file that is elsewhere.
pub fn entry(path: &str) -> String {
    format!("{TEXT}{path}")
}

pub(super) fn is_entry(key: &str) -> bool {
    key.starts_with(TEXT)
}

/// Takes files that are only known to be elsewhere for unread ones, as in the operator's own process.
pub fn nothing_is_elsewhere(config: &mut FlinkConfig) {
    let texts: Vec<String> = config.below(TEXT).map(|(path, _)| path.to_owned()).collect();
    for path in texts {
        if config.get_text(&entry(&path)) == Some("") {
            drop(config.remove(&entry(&path)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_path_that_the_most_specific_key_names() {
        let mut config: FlinkConfig = [
            ("kubernetes.pod-template-file", "/oldest.yaml"),
            ("kubernetes.pod-template-file.default", "/both.yaml"),
        ]
        .into_iter()
        .collect();
        let of = |config: &FlinkConfig| {
            let file = TemplateFile::of(config, &options::TASK_MANAGER_POD_TEMPLATE);
            format!("{file:?}")
        };
        let unread =
            r#"Unread { key: "kubernetes.pod-template-file.default", path: "/both.yaml" }"#;
        assert_eq!(of(&config), unread);
        config.set(entry("/both.yaml"), "");
        assert_eq!(of(&config), "Elsewhere");
        config.set(entry("/both.yaml"), "spec: {}");
        assert_eq!(of(&config), r#"Text("spec: {}")"#);
        config.set("kubernetes.pod-template-file.taskmanager", "/workers.yaml");
        assert!(of(&config).starts_with("Unread"), "{}", of(&config));
        config.set("kubernetes.pod-template-file.taskmanager", " ");
        assert_eq!(of(&config), "None");
    }

    #[test]
    fn files_of_every_layer_are_found() {
        let mut config: FlinkConfig = [
            ("kubernetes.pod-template-file.taskmanager", "/a.yaml"),
            (
                "kubernetes.operator.default-configuration.namespace.shop.\
                 kubernetes.pod-template-file.default",
                "/b.yaml",
            ),
            ("kubernetes.pod-template-file.jobmanager", " "),
            ("kubernetes.config.file", "/c"),
        ]
        .into_iter()
        .collect();
        let paths: Vec<String> = named(&config).into_keys().collect();
        assert_eq!(paths, ["/a.yaml", "/b.yaml"]);
        config.set(entry("/a.yaml"), "");
        config.set(entry("/b.yaml"), "spec: {}");
        nothing_is_elsewhere(&mut config);
        assert_eq!(config.get_text(&entry("/a.yaml")), None);
        assert_eq!(config.get_text(&entry("/b.yaml")), Some("spec: {}"));
    }
}
