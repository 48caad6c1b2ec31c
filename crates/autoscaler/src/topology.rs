//! The graph of a job: vertices, edges, and the order in which rates flow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

/// Id of a vertex, 32 hexadecimal digits as Flink writes them.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(from = "String", into = "String")]
pub struct VertexId(Arc<str>);

impl VertexId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for VertexId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for VertexId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<VertexId> for String {
    fn from(id: VertexId) -> Self {
        id.as_str().to_owned()
    }
}

impl fmt::Display for VertexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How records are distributed over the subtasks of the next vertex.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ShipStrategy {
    Hash,
    Rebalance,
    Rescale,
    Forward,
    Custom,
    Broadcast,
    Global,
    Shuffle,
    Unknown,
}

impl ShipStrategy {
    pub fn parse(text: &str) -> Self {
        match text.to_uppercase().as_str() {
            "HASH" => Self::Hash,
            "REBALANCE" => Self::Rebalance,
            "RESCALE" => Self::Rescale,
            "FORWARD" => Self::Forward,
            "CUSTOM" => Self::Custom,
            "BROADCAST" => Self::Broadcast,
            "GLOBAL" => Self::Global,
            "SHUFFLE" => Self::Shuffle,
            _ => Self::Unknown,
        }
    }
}

/// Counters of a vertex since its start.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    #[serde(deserialize_with = "null_as_nan")]
    pub records_in: f64,
    #[serde(deserialize_with = "null_as_nan")]
    pub records_out: f64,
    /// Milliseconds, of all subtasks together; NaN if Flink has no number.
    #[serde(deserialize_with = "null_as_nan")]
    pub busy: f64,
}

/// JSON has no NaN, so null stands for it.
fn null_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// One vertex of the running job.
#[skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vertex {
    pub parallelism: u32,
    pub max_parallelism: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<VertexId, ShipStrategy>,
    /// Number of partitions that a source reads, if they can be counted.
    pub partitions: Option<u32>,
    pub slot_sharing_group: Option<String>,
    #[serde(default)]
    pub is_finished: bool,
    pub counters: Counters,
}

impl Vertex {
    pub fn is_source(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns whether records are distributed by key, or read from partitions.
    pub fn is_partitioned(&self) -> bool {
        self.partitions.is_some() || self.inputs.values().any(|ship| *ship == ShipStrategy::Hash)
    }
}

/// Why a graph is unusable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unusable {
    #[error("the job's plan has no vertices yet")]
    Empty,
    #[error("vertex `{vertex}` has an input `{input}` that is not in the plan")]
    UnknownInput { vertex: VertexId, input: VertexId },
    #[error("the plan has a cycle at vertex `{0}`")]
    Circular(VertexId),
    #[error("vertex `{vertex}` runs with parallelism {parallelism} of at most {max_parallelism}")]
    Parallelism { vertex: VertexId, parallelism: u32, max_parallelism: u32 },
}

/// The graph of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    vertices: BTreeMap<VertexId, Vertex>,
    outputs: BTreeMap<VertexId, BTreeMap<VertexId, ShipStrategy>>,
    order: Vec<VertexId>,
}

impl Topology {
    /// Builds the graph.
    ///
    /// # Errors
    /// If this is not the graph of a running job.
    pub fn new(vertices: BTreeMap<VertexId, Vertex>) -> Result<Self, Unusable> {
        if vertices.is_empty() {
            return Err(Unusable::Empty);
        }
        let mut outputs: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (id, vertex) in &vertices {
            let Vertex { parallelism, max_parallelism, .. } = *vertex;
            if parallelism == 0 || max_parallelism < parallelism {
                let vertex = id.clone();
                return Err(Unusable::Parallelism { vertex, parallelism, max_parallelism });
            }
            for (input, ship) in &vertex.inputs {
                if !vertices.contains_key(input) {
                    let (vertex, input) = (id.clone(), input.clone());
                    return Err(Unusable::UnknownInput { vertex, input });
                }
                outputs.entry(input.clone()).or_default().insert(id.clone(), *ship);
            }
        }
        let order = topological_order(&vertices)?;
        Ok(Self { vertices, outputs, order })
    }

    pub fn vertices(&self) -> &BTreeMap<VertexId, Vertex> {
        &self.vertices
    }

    /// Returns each vertex after all of its inputs.
    pub fn in_order(&self) -> impl Iterator<Item = (&VertexId, &Vertex)> {
        self.order.iter().filter_map(|id| self.vertices.get_key_value(id))
    }

    pub fn get(&self, id: &VertexId) -> Option<&Vertex> {
        self.vertices.get(id)
    }

    /// Returns where the records of a vertex go.
    pub fn outputs(&self, id: &VertexId) -> impl Iterator<Item = (&VertexId, ShipStrategy)> {
        self.outputs.get(id).into_iter().flatten().map(|(to, ship)| (to, *ship))
    }

    /// Returns vertices by slot sharing group, if their group is known.
    pub fn slot_sharing_groups(&self) -> BTreeMap<&str, BTreeSet<&VertexId>> {
        let mut groups: BTreeMap<&str, BTreeSet<&VertexId>> = BTreeMap::new();
        for (id, vertex) in &self.vertices {
            if let Some(group) = &vertex.slot_sharing_group {
                groups.entry(group).or_default().insert(id);
            }
        }
        groups
    }
}

fn topological_order(vertices: &BTreeMap<VertexId, Vertex>) -> Result<Vec<VertexId>, Unusable> {
    let mut order: Vec<VertexId> = Vec::with_capacity(vertices.len());
    let mut done: BTreeSet<&VertexId> = BTreeSet::new();
    let mut left: Vec<(&VertexId, &Vertex)> = vertices.iter().collect();
    while let Some((first, _)) = left.first() {
        let circular = Unusable::Circular((*first).clone());
        let (ready, waiting): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|(_, vertex)| vertex.inputs.keys().all(|input| done.contains(input)));
        if ready.is_empty() {
            return Err(circular);
        }
        for (id, _) in ready {
            done.insert(id);
            order.push(id.clone());
        }
        left = waiting;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vertex(inputs: &[&str]) -> Vertex {
        Vertex {
            parallelism: 1,
            max_parallelism: 128,
            inputs: inputs.iter().map(|id| ((*id).into(), ShipStrategy::Rebalance)).collect(),
            partitions: None,
            slot_sharing_group: None,
            is_finished: false,
            counters: Counters::default(),
        }
    }

    fn topology(vertices: &[(&str, &[&str])]) -> Result<Topology, Unusable> {
        Topology::new(vertices.iter().map(|(id, inputs)| ((*id).into(), vertex(inputs))).collect())
    }

    #[test]
    fn inputs_come_before_what_reads_them() {
        let graph = topology(&[("a", &["c"]), ("b", &[]), ("c", &["b", "d"]), ("d", &["b"])]);
        let graph = graph.unwrap();
        let order: Vec<_> = graph.in_order().map(|(id, _)| id.as_str()).collect();
        assert_eq!(order, ["b", "d", "c", "a"]);
        let outputs: Vec<_> = graph.outputs(&"b".into()).map(|(to, _)| to.as_str()).collect();
        assert_eq!(outputs, ["c", "d"]);
        assert_eq!(graph.outputs(&"a".into()).count(), 0);
    }

    #[test]
    fn a_graph_that_is_none_is_refused() {
        assert_eq!(topology(&[]), Err(Unusable::Empty));
        let unknown = Unusable::UnknownInput { vertex: "a".into(), input: "b".into() };
        assert_eq!(topology(&[("a", &["b"])]), Err(unknown));
        let circle = topology(&[("a", &[]), ("b", &["c"]), ("c", &["b"])]);
        assert_eq!(circle, Err(Unusable::Circular("b".into())));
        let mut stopped = vertex(&[]);
        stopped.parallelism = 0;
        let stopped = Topology::new(BTreeMap::from([("a".into(), stopped)]));
        assert!(matches!(stopped, Err(Unusable::Parallelism { parallelism: 0, .. })));
    }

    #[test]
    fn strategies_are_read_in_any_case() {
        assert_eq!(ShipStrategy::parse("hash"), ShipStrategy::Hash);
        assert_eq!(ShipStrategy::parse("Rescale"), ShipStrategy::Rescale);
        assert_eq!(ShipStrategy::parse("CHANNEL"), ShipStrategy::Unknown);
    }
}
