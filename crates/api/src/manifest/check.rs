//! Checks a tree against the schema of a resource definition.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use super::node::{Content, Node};
use crate::crd::{self, fields};

/// Fields with 32-bit integers.
const SMALL_INTEGERS: [&str; 4] = ["replicas", "parallelism", "backoffLimit", "failures"];

/// Fields of metadata that hold a time.
const TIMESTAMPS: [&str; 3] = ["creationTimestamp", "deletionTimestamp", "time"];

/// The schemas of all kinds.
pub(super) struct Schemas<'a>(Vec<(&'a str, &'a JSONSchemaProps)>);

impl<'a> Schemas<'a> {
    pub(super) fn new(definitions: &'a [CustomResourceDefinition]) -> Self {
        let schema = |definition: &'a CustomResourceDefinition| {
            Some((definition.spec.names.kind.as_str(), crd::root(definition)?))
        };
        Self(definitions.iter().filter_map(schema).collect())
    }

    pub(super) fn of_kind(&self, kind: &str) -> Option<&'a JSONSchemaProps> {
        self.0.iter().find(|(name, _)| *name == kind).map(|(_, schema)| *schema)
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Returns the schema of `metadata`. Definitions leave it to the API server, but one of them describes it in a
    /// template.
    pub(super) fn metadata(&self) -> Option<&'a JSONSchemaProps> {
        let path = ["spec", "template", "metadata"];
        self.0.iter().find_map(|(_, root)| {
            path.iter().try_fold(*root, |schema, name| schema.properties.as_ref()?.get(*name))
        })
    }
}

/// A problem of a node.
pub(super) struct Finding<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
    pub(super) message: String,
}

/// Checks a whole object, whose `apiVersion` and `kind` are known to be right.
pub(super) fn object<'a>(
    schema: &JSONSchemaProps,
    metadata: Option<&JSONSchemaProps>,
    path: &str,
    node: &'a Node,
) -> Vec<Finding<'a>> {
    let mut findings = Vec::new();
    let of_server = ["apiVersion", "kind", "metadata"];
    for (key, value) in node.entries() {
        let name = key.text();
        let path = join(path, &name);
        match schema.properties.as_ref().and_then(|properties| properties.get(&name)) {
            Some(schema) => value_at(schema, &path, value, &mut findings),
            None if name == "metadata" => {
                if let Some(metadata) = metadata {
                    value_at(metadata, &path, value, &mut findings);
                }
            }
            None if of_server.contains(&name.as_str()) => {}
            None => {
                let known = schema.properties.iter().flatten().map(|(name, _)| name.as_str());
                let known = of_server.into_iter().chain(known).collect();
                findings.push(unknown(key, path, &name, known));
            }
        }
    }
    findings
}

/// Returns the path of a field below `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn value_at<'a>(
    schema: &JSONSchemaProps,
    path: &str,
    node: &'a Node,
    findings: &mut Vec<Finding<'a>>,
) {
    // The API server treats null as an absent field.
    if node.content == Content::Scalar(Value::Null) {
        return;
    }
    let kind = fields::kind(schema);
    if !is_of_kind(kind, &node.content) {
        let message = format!("expected {}, found {}", described(kind), found(&node.content, kind));
        findings.push(Finding { node, path: path.to_owned(), message });
        return;
    }
    if kind == "integer"
        && let Some(message) = out_of_range(path, &node.content)
    {
        findings.push(Finding { node, path: path.to_owned(), message });
    }
    if let Some(message) = no_timestamp(path, node) {
        findings.push(Finding { node, path: path.to_owned(), message });
    }
    let allowed = fields::values(schema);
    if let Some(text) = node.as_str()
        && !allowed.is_empty()
        && !allowed.iter().any(|value| value == text)
    {
        let message = format!("unknown value `{text}`{}", suggestion(text, &allowed, "allowed"));
        findings.push(Finding { node, path: path.to_owned(), message });
    }
    if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
        for (index, item) in node.items().iter().enumerate() {
            let path = format!("{path}[{index}]");
            if item.content == Content::Scalar(Value::Null) {
                let message =
                    format!("expected {}, found nothing", described(fields::kind(schema)));
                findings.push(Finding { node: item, path, message });
            } else {
                value_at(schema, &path, item, findings);
            }
        }
    }
    if kind == "object" {
        entries_at(schema, path, node, findings);
    }
}

fn entries_at<'a>(
    schema: &JSONSchemaProps,
    path: &str,
    node: &'a Node,
    findings: &mut Vec<Finding<'a>>,
) {
    let is_open = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    for (key, value) in node.entries() {
        let name = key.text();
        let path = join(path, &name);
        if let Some(schema) =
            schema.properties.as_ref().and_then(|properties| properties.get(&name))
        {
            value_at(schema, &path, value, findings);
        } else if let Some(JSONSchemaPropsOrBool::Schema(schema)) = &schema.additional_properties {
            value_at(schema, &path, value, findings);
        } else if !is_open && schema.properties.is_some() {
            let known = schema.properties.iter().flatten().map(|(name, _)| name.as_str());
            findings.push(unknown(key, path, &name, known.collect()));
        }
    }
}

fn is_of_kind(kind: &str, content: &Content) -> bool {
    match (kind, content) {
        ("any", _) | ("object", Content::Map(_)) | ("array", Content::List(_)) => true,
        ("string", Content::Scalar(value)) => value.is_string(),
        ("boolean", Content::Scalar(value)) => value.is_boolean(),
        ("number", Content::Scalar(value)) => value.is_number(),
        ("integer", Content::Scalar(value)) => value.is_i64() || value.is_u64(),
        ("int-or-string", Content::Scalar(value)) => {
            value.is_i64() || value.is_u64() || value.is_string()
        }
        _ => false,
    }
}

/// Checks the range of an integer, which is limited by the types but not by the schemas.
fn out_of_range(path: &str, content: &Content) -> Option<String> {
    let Content::Scalar(value) = content else { return None };
    let name = path.rsplit('.').next().unwrap_or_default();
    let max = if SMALL_INTEGERS.contains(&name) { i64::from(i32::MAX) } else { i64::MAX };
    let is_fitting = value.as_i64().is_some_and(|number| number <= max && number >= -max);
    (!is_fitting).then(|| format!("`{value}` is out of range: the largest number here is {max}"))
}

/// Checks that a text is a timestamp, as the types of metadata require but the schemas do not.
fn no_timestamp(path: &str, node: &Node) -> Option<String> {
    let name = path.rsplit('.').next().unwrap_or_default();
    let text = node.as_str().filter(|_| TIMESTAMPS.contains(&name))?;
    let is_kept_as_written = path.contains("podTemplate") || path.contains("flinkConfiguration");
    (!is_kept_as_written && text.parse::<Timestamp>().is_err())
        .then(|| format!("`{text}` is not a time: expected one such as `2026-01-01T00:00:00Z`"))
}

fn described(kind: &str) -> &'static str {
    match kind {
        "object" => "a map",
        "array" => "a list",
        "string" => "text",
        "boolean" => "`true` or `false`",
        "number" => "a number",
        "integer" => "a whole number",
        "int-or-string" => "text or a whole number",
        _ => "any value",
    }
}

/// Describes what was found, and how to turn it into a string if one is expected.
fn found(content: &Content, wanted: &str) -> String {
    match content {
        Content::Map(_) => "a map".to_owned(),
        Content::List(_) => "a list".to_owned(),
        Content::Scalar(Value::String(text)) => format!("the text `{text}`"),
        Content::Scalar(value) if wanted == "string" || wanted == "int-or-string" => {
            format!("`{value}`: put it in quotes")
        }
        Content::Scalar(value) => format!("`{value}`"),
    }
}

fn unknown<'a>(key: &'a Node, path: String, name: &str, known: Vec<&str>) -> Finding<'a> {
    let known: Vec<String> = known.into_iter().map(ToOwned::to_owned).collect();
    let message = format!("unknown field{}", suggestion(name, &known, "allowed here"));
    Finding { node: key, path, message }
}

/// Suggests the nearest known name, else lists all of them.
fn suggestion(name: &str, known: &[String], word: &str) -> String {
    let nearest = known
        .iter()
        .map(|known| (distance(&name.to_lowercase(), &known.to_lowercase()), known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance <= known.len().div_ceil(4));
    let all = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
    match nearest {
        Some((_, nearest)) => format!("; did you mean `{nearest}`? {word}: {all}"),
        None => format!("; {word}: {all}"),
    }
}

/// Returns the number of characters to insert, drop or replace to turn one text into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, known) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *known);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
