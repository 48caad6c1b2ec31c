//! Metrics as reporters read them: families of values with one name.

use std::sync::Arc;

use super::Kind;
use super::histogram::Summary;

/// The subject of a metric, which is a part of its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// The operator.
    System,
    /// Resources of a kind in a namespace.
    Namespace,
    /// One resource.
    Resource,
    /// The process, under the names that all Prometheus clients use.
    Process,
}

/// All values of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub scope: Scope,
    /// Within the scope, such as `Lifecycle.State.STABLE.Count`.
    pub name: String,
    pub points: Vec<Point>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub of: Of,
    /// Flink's "key-value group": its key is part of the name as well.
    pub label: Option<(&'static str, Arc<str>)>,
    pub value: Value,
}

/// The subject of a value, according to its scope.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    Operator,
    Namespace(Kind, Arc<str>),
    Resource(Arc<Id>),
}

/// A resource.
#[derive(Debug, Eq, PartialEq)]
pub struct Id {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Box<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Gauge(f64),
    /// Only grows, until the process ends.
    Count(f64),
    Summary(Summary),
}

impl Point {
    /// Returns the labels that distinguish it from others of its name.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let (namespace, kind, resource) = match &self.of {
            Of::Operator => (None, None, None),
            Of::Namespace(kind, namespace) => (Some(&**namespace), Some(*kind), None),
            Of::Resource(id) => (Some(&*id.namespace), Some(id.kind), Some(&*id.name)),
        };
        [
            namespace.map(|namespace| ("resourcens", namespace)),
            kind.map(|kind| ("resourcetype", kind.into_str())),
            resource.map(|resource| ("resourcename", resource)),
            self.label.as_ref().map(|(key, value)| (*key, &**value)),
        ]
        .into_iter()
        .flatten()
    }
}

impl Family {
    /// Returns `true` for a meter of Flink: most of its reporters mark the name of a rate.
    pub fn is_rate(&self) -> bool {
        self.name.ends_with("PerSecond")
    }

    pub fn new(scope: Scope, name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { scope, name: name.into(), points }
    }

    /// Creates a family with one value of the operator itself.
    pub fn of_operator(name: impl Into<String>, value: Value) -> Self {
        Self::new(Scope::System, name, vec![Point { of: Of::Operator, label: None, value }])
    }
}
