//! The graph of a job: vertices, edges, and the order in which rates flow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;

/// Maximum number of vertices of a graph, and of edges between them. The largest jobs have a few hundred; each vertex
/// takes two calls to Flink in every cycle, and room in the stored samples.
pub const VERTICES_MAX: usize = 2_000;
pub const EDGES_MAX: usize = 20_000;
/// Maximum length of an id, which is also the label of metrics and a key of the stored state.
const ID_LENGTH_MAX: usize = 64;
/// Flink's own limit of a parallelism and of a max parallelism.
pub const PARALLELISM_MAX: u32 = 1 << 15;

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
    #[error("the id of a vertex has {length} characters, and Flink's have 32")]
    Id { length: usize },
    #[error("vertex `{vertex}` runs with parallelism {parallelism} of at most {max_parallelism}")]
    Parallelism { vertex: VertexId, parallelism: u32, max_parallelism: u32 },
    #[error(
        "vertex `{vertex}` has max parallelism {max_parallelism}, and Flink allows at most \
         {PARALLELISM_MAX}"
    )]
    MaxParallelism { vertex: VertexId, max_parallelism: u32 },
    #[error(
        "the job has {vertices} vertices and {edges} edges: to keep each cycle short, only jobs \
         with at most {VERTICES_MAX} and {EDGES_MAX} are scaled"
    )]
    TooLarge { vertices: usize, edges: usize },
}

/// Checks the size of a graph before anything is done for each of its vertices.
///
/// # Errors
/// If there are too many vertices or edges.
pub fn check_size(vertices: usize, edges: usize) -> Result<(), Unusable> {
    if vertices > VERTICES_MAX || edges > EDGES_MAX {
        return Err(Unusable::TooLarge { vertices, edges });
    }
    Ok(())
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
        check_size(vertices.len(), vertices.values().map(|vertex| vertex.inputs.len()).sum())?;
        let mut outputs: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (id, vertex) in &vertices {
            let Vertex { parallelism, max_parallelism, .. } = *vertex;
            let length = id.as_str().len();
            if length > ID_LENGTH_MAX {
                return Err(Unusable::Id { length });
            }
            if parallelism == 0 || max_parallelism < parallelism {
                let vertex = id.clone();
                return Err(Unusable::Parallelism { vertex, parallelism, max_parallelism });
            }
            if max_parallelism > PARALLELISM_MAX {
                return Err(Unusable::MaxParallelism { vertex: id.clone(), max_parallelism });
            }
            for (input, ship) in &vertex.inputs {
                if !vertices.contains_key(input) {
                    let (vertex, input) = (id.clone(), input.clone());
                    return Err(Unusable::UnknownInput { vertex, input });
                }
                outputs.entry(input.clone()).or_default().insert(id.clone(), *ship);
            }
        }
        let order = topological_order(&vertices, &outputs)?;
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

    /// Returns to how many vertices the records of a vertex go.
    pub fn output_count(&self, id: &VertexId) -> usize {
        self.outputs.get(id).map_or(0, BTreeMap::len)
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

/// Returns the vertices in rounds, each of which needs only those before it, and is sorted by id (Kahn's algorithm).
fn topological_order(
    vertices: &BTreeMap<VertexId, Vertex>,
    outputs: &BTreeMap<VertexId, BTreeMap<VertexId, ShipStrategy>>,
) -> Result<Vec<VertexId>, Unusable> {
    let mut order = Vec::with_capacity(vertices.len());
    // With the number of inputs that are not in order yet.
    let mut waiting: BTreeMap<&VertexId, usize> =
        vertices.iter().map(|(id, vertex)| (id, vertex.inputs.len())).collect();
    let mut round: BTreeSet<&VertexId> =
        vertices.iter().filter(|(_, vertex)| vertex.is_source()).map(|(id, _)| id).collect();
    while !round.is_empty() {
        let mut next = BTreeSet::new();
        for id in round {
            waiting.remove(id);
            order.push(id.clone());
            for to in outputs.get(id).into_iter().flat_map(BTreeMap::keys) {
                let Some(inputs) = waiting.get_mut(to) else { continue };
                *inputs -= 1;
                if *inputs == 0 {
                    next.insert(to);
                }
            }
        }
        round = next;
    }
    match waiting.first_key_value() {
        Some((id, _)) => Err(Unusable::Circular((*id).clone())),
        None => Ok(order),
    }
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
        let most = PARALLELISM_MAX;
        for (max_parallelism, is_usable) in [(most, true), (most + 1, false), (u32::MAX, false)] {
            let wide = Vertex { max_parallelism, ..vertex(&[]) };
            let wide = Topology::new(BTreeMap::from([("a".into(), wide)]));
            assert_eq!(wide.is_ok(), is_usable, "{wide:?}");
        }
    }

    #[test]
    fn strategies_are_read_in_any_case() {
        assert_eq!(ShipStrategy::parse("hash"), ShipStrategy::Hash);
        assert_eq!(ShipStrategy::parse("Rescale"), ShipStrategy::Rescale);
        assert_eq!(ShipStrategy::parse("CHANNEL"), ShipStrategy::Unknown);
    }
}
