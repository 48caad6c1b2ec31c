//! Values of the Java operator's chart that are accepted and have no effect.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::values::is_of_java;

/// The chart's notes are created from the same table.
const TABLE: &str =
    include_str!("../../../../helm/kubectl-flink-operator/conf/without-effect.yaml");

/// Such a value that the user set.
#[derive(Debug, Deserialize, Eq, PartialEq)]
pub struct WithoutEffect {
    #[serde(rename = "value")]
    pub path: Vec<String>,
    /// What to use instead.
    pub instead: String,
}

impl fmt::Display for WithoutEffect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "value `{}` has no effect: {}", self.path.join("."), self.instead)
    }
}

/// Returns such values among the given ones. A value that is empty, false or only comments was not set.
pub fn without_effect(given: &Map<String, Value>) -> Vec<WithoutEffect> {
    let is_given = |entry: &WithoutEffect| {
        let (first, rest) = entry.path.split_first()?;
        rest.iter()
            .try_fold(given.get(first)?, |value, name| value.get(name))
            .filter(|value| is_set(value))
    };
    let image = given.get("image").and_then(|image| image.get("repository")?.as_str());
    let image = image.filter(|image| is_of_java(image)).map(|image| WithoutEffect {
        path: vec!["image".to_owned()],
        instead: format!(
            "`{image}` is the Java operator's image; set image.repository to the one of \
             kubectl-flink"
        ),
    });
    let text = |file: &str| given.get("defaultConfiguration")?.get(file)?.as_str();
    let is_set = |file: &str| text(file).is_some_and(has_content);
    let old = (is_set("config.yaml") && is_set("flink-conf.yaml")).then(|| WithoutEffect {
        path: vec!["defaultConfiguration".to_owned(), "flink-conf.yaml".to_owned()],
        instead: "`defaultConfiguration.config.yaml` is set and takes precedence, as in the Java \
                  operator's chart since 1.16"
            .to_owned(),
    });
    let given = table().into_iter().filter(|entry| is_given(entry).is_some());
    image.into_iter().chain(old).chain(given).collect()
}

fn table() -> Vec<WithoutEffect> {
    serde_yaml::from_str(TABLE).expect("the chart's table is one of paths and texts")
}

/// Returns `true` for a value of the table, and for one above it or below it.
pub(super) fn has_no_effect(path: &[String]) -> bool {
    let is_on_the_way = |entry: &WithoutEffect| {
        path.len() > 1 && entry.path.starts_with(path)
            || path.starts_with(&entry.path)
            || entry.path[..1] == *path && super::merge::defaults().get(&path[0]).is_none()
    };
    table().iter().any(is_on_the_way)
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_on) => *is_on,
        Value::Number(_) => true,
        Value::String(text) => has_content(text),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// Returns `true` if a text is more than comments.
pub(super) fn has_content(text: &str) -> bool {
    text.lines().any(|line| !matches!(line.trim_start().chars().next(), None | Some('#')))
}
