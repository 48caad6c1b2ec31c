//! Strict parsing of manifests: YAML or JSON text to resources.
//!
//! Fields that the API server would silently drop (misspelt ones) or reject without a line number (those of a wrong
//! type) are reported here with file, line and field. The schema is that of the resource definitions, so the checks
//! cannot differ from those of the API server; inside pod templates and Flink configurations unknown fields are
//! preserved, as there.

mod check;
mod node;

use std::fmt;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::node::Node;
use super::blue_green::FlinkBlueGreenDeployment;
use super::deployment::FlinkDeployment;
use super::session_job::FlinkSessionJob;
use super::state_snapshot::FlinkStateSnapshot;
use super::{API_VERSION, CANARY_LABEL, GROUP, crd};

/// The definitions, generated once: generating them takes longer than reading a manifest.
static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crd::all);

/// Something that is wrong in a manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    pub file: String,
    /// Line, from 1; 0 if the problem concerns the whole text.
    pub line: u64,
    /// Column, from 1; 0 if the problem concerns the whole text.
    pub column: u64,
    /// Path of the field, such as `spec.job.parallelism`; empty if the text is not YAML.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, path, message } = self;
        write!(f, "{file}:")?;
        if *line > 0 {
            write!(f, "{line}:{column}:")?;
        }
        if !path.is_empty() {
            write!(f, " {path}:")?;
        }
        write!(f, " {message}")
    }
}

/// A resource described by a manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    Deployment(Box<FlinkDeployment>),
    SessionJob(Box<FlinkSessionJob>),
    StateSnapshot(Box<FlinkStateSnapshot>),
    BlueGreenDeployment(Box<FlinkBlueGreenDeployment>),
    /// A resource of another API group; only its YAML syntax was checked.
    Foreign {
        api_version: String,
        kind: String,
        name: String,
    },
}

impl Resource {
    /// Returns its kind, as in the manifest.
    pub fn kind(&self) -> &str {
        match self {
            Self::Deployment(_) => "FlinkDeployment",
            Self::SessionJob(_) => "FlinkSessionJob",
            Self::StateSnapshot(_) => "FlinkStateSnapshot",
            Self::BlueGreenDeployment(_) => "FlinkBlueGreenDeployment",
            Self::Foreign { kind, .. } => kind,
        }
    }

    /// Returns its name; a Flink resource without one is not read.
    pub fn name(&self) -> String {
        match self {
            Self::Deployment(resource) => resource.name_any(),
            Self::SessionJob(resource) => resource.name_any(),
            Self::StateSnapshot(resource) => resource.name_any(),
            Self::BlueGreenDeployment(resource) => resource.name_any(),
            Self::Foreign { name, .. } => name.clone(),
        }
    }
}

/// A resource, and the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub resource: Resource,
    /// The resource as written, including fields that the types do not know.
    pub value: Value,
    /// Position of each field.
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    path: String,
    line: u64,
    column: u64,
}

impl Document {
    /// Returns whether the resource is a canary: it starts no job, and the operator changes it only to prove that it is
    /// alive.
    pub fn is_canary(&self) -> bool {
        let label = self.value["metadata"]["labels"][CANARY_LABEL].as_str();
        super::is_canary(self.resource.kind(), label)
    }

    /// Returns line and column of the field at `path`, or of the nearest enclosing field that is present.
    pub fn locate(&self, path: &str) -> (u64, u64) {
        let around = |place: &&Place| {
            path.strip_prefix(place.path.as_str()).is_some_and(|rest| {
                place.path.is_empty() || rest.is_empty() || rest.starts_with(['.', '['])
            })
        };
        let nearest = self.places.iter().filter(around).max_by_key(|place| place.path.len());
        nearest.map_or((0, 0), |place| (place.line, place.column))
    }
}

/// Reads all documents of `text`, including those of other API groups, or returns everything that is wrong with them.
/// `file` is where the text came from.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, Vec<Problem>> {
    let (documents, problems) = read(file, text);
    if problems.is_empty() { Ok(documents) } else { Err(problems) }
}

/// Reads what can be read of `text`, and returns everything that is wrong with it. `file` is where the text came from.
/// A document with an unknown field is read without that field.
pub fn read(file: &str, text: &str) -> (Vec<Document>, Vec<Problem>) {
    let roots = match node::read(text) {
        Ok(roots) => roots,
        Err(problem) => return (Vec::new(), vec![problem.into_problem(file)]),
    };
    let mut reader =
        Reader { file, schemas: check::Schemas::new(&DEFINITIONS), problems: Vec::new() };
    let mut documents = Vec::new();
    for root in &roots {
        reader.read("", root, &mut documents);
    }
    (documents, reader.problems)
}

struct Reader<'a> {
    file: &'a str,
    schemas: check::Schemas<'a>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn blame(&mut self, node: &Node, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: node.line,
            column: node.column,
            path: path.into(),
            message: message.into(),
        });
    }

    /// Reads the object at `path`, or the items of a list.
    fn read(&mut self, path: &str, node: &Node, documents: &mut Vec<Document>) {
        let text_of = |name| node.get(name).and_then(Node::as_str).unwrap_or_default();
        let (api_version, kind) = (text_of("apiVersion"), text_of("kind"));
        if api_version == "v1" && kind == "List" {
            for (index, item) in
                node.get("items").map(Node::items).unwrap_or_default().iter().enumerate()
            {
                self.read(&format!("items[{index}]"), item, documents);
            }
            return;
        }
        let group = api_version.split('/').next().unwrap_or_default();
        if !api_version.is_empty() && !kind.is_empty() && group != GROUP {
            let name = node.get("metadata").and_then(|metadata| metadata.get("name"));
            let resource = Resource::Foreign {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: name.and_then(Node::as_str).unwrap_or_default().to_owned(),
            };
            documents.push(Document {
                resource,
                value: node.to_value(),
                places: node.all_places(),
            });
            return;
        }
        let Some(schema) = self.schemas.of_kind(kind).filter(|_| api_version == API_VERSION) else {
            let kinds = self.schemas.kinds().map(|kind| format!("`{kind}`")).collect::<Vec<_>>();
            let found = match (api_version, kind) {
                ("", _) => "has no `apiVersion`".to_owned(),
                (_, "") => "has no `kind`".to_owned(),
                (api_version, kind) => format!("there is no `{kind}` in `{api_version}`"),
            };
            let message = format!("{found}: expected {} of `{API_VERSION}`", kinds.join(", "));
            self.blame(node, path, message);
            return;
        };
        let found = check::object(schema, self.schemas.metadata(), path, node);
        let is_sound = found.is_empty();
        for check::Finding { node, path, message } in found {
            self.blame(node, path, message);
        }
        let has_name = node
            .get("metadata")
            .and_then(|metadata| metadata.get("name"))
            .and_then(Node::as_str)
            .is_some_and(|name| !name.is_empty());
        if !has_name {
            self.blame(
                node.get("metadata").unwrap_or(node),
                check::join(path, "metadata.name"),
                "must be set",
            );
        }
        if has_name {
            match convert(kind, node) {
                Ok(document) => documents.push(document),
                // Problems of an unsound document have already been reported.
                Err(error) if is_sound => self.blame(node, path, error.to_string()),
                Err(_) => {}
            }
        }
    }
}

/// Converts what the schema accepts to the types, which are slightly stricter: numbers have a size.
fn convert(kind: &str, node: &Node) -> Result<Document, serde_json::Error> {
    let value = node.to_value();
    let resource = match kind {
        "FlinkDeployment" => typed(&value).map(Resource::Deployment),
        "FlinkSessionJob" => typed(&value).map(Resource::SessionJob),
        "FlinkStateSnapshot" => typed(&value).map(Resource::StateSnapshot),
        _ => typed(&value).map(Resource::BlueGreenDeployment),
    }?;
    Ok(Document { resource, value, places: node.all_places() })
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<Box<T>, serde_json::Error> {
    T::deserialize(value).map(Box::new)
}

#[cfg(test)]
mod tests;
