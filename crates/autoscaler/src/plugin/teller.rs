//! Builds the questions to rules from the state of a cycle.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::answer::{REASON_CHARS, cut, read_figures, read_parallelism, read_verdict};
use super::{Asking, Halt, Named, Question, Unanswered, Verdict};
use crate::align::{Target, divisors};
use crate::metric::{Evaluated, Figures, Metric};
use crate::topology::{Vertex, VertexId};

/// The input that all rules of a cycle receive.
#[derive(Clone, Copy, Debug)]
pub struct Teller<'a> {
    pub asking: Asking<'a>,
    pub now: Timestamp,
    pub is_backlog: bool,
}

impl Teller<'_> {
    /// Returns the answer of a rule if it was already asked.
    fn answer<T>(
        &self,
        named: &Named,
        vertex: Option<&VertexId>,
        facts: impl FnOnce() -> Vec<Value>,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, Halt> {
        let (of, vertex) = (named.id.clone(), vertex.cloned());
        let key = (of.clone(), vertex.clone());
        let Some(answer) = self.asking.answers.and_then(|answers| answers.get(&key)) else {
            let facts = [self.job(), json!(named.parameters)].into_iter().chain(facts()).collect();
            return Err(Halt::Asks(Box::new(Question { of, vertex, facts })));
        };
        let read = answer.as_ref().map_err(Clone::clone).and_then(read);
        read.map_err(|why| {
            Halt::Unanswered(Unanswered { of, vertex, why: cut(&why, REASON_CHARS) })
        })
    }

    fn job(&self) -> Value {
        let mut job = json!(self.asking.job.cloned().unwrap_or_default());
        job["now"] = json!(self.now.to_string());
        job["isBacklog"] = json!(self.is_backlog);
        job
    }

    /// Returns the figures that an evaluator sets for a vertex; those of its `inputs` are evaluated.
    ///
    /// # Errors
    /// If it must be asked first, or if its answer is unusable.
    pub fn figures(
        &self,
        named: &Named,
        (id, vertex): (&VertexId, &Vertex),
        figures: &Figures,
        evaluated: &BTreeMap<VertexId, Figures>,
    ) -> Result<Vec<(Metric, Evaluated)>, Halt> {
        let facts = || {
            let inputs = vertex.inputs.keys().filter_map(|id| Some((id, evaluated.get(id)?)));
            let inputs = inputs.map(|(id, of)| (id.to_string(), described_figures(of)));
            vec![described_vertex(id, vertex), described_figures(figures), inputs.collect()]
        };
        self.answer(named, Some(id), facts, read_figures)
    }

    /// Returns the parallelism of an alignment mode; `None` if it keeps the computed one.
    ///
    /// # Errors
    /// If it must be asked first, or if its answer is unusable.
    pub fn alignment(
        &self,
        named: &Named,
        (id, vertex): (&VertexId, &Vertex),
        figures: &Figures,
        target: &Target,
    ) -> Result<Option<u32>, Halt> {
        let max = target.upper.min(target.max_parallelism);
        let facts = || {
            let alignment = json!({
                "current": target.current,
                "target": target.target,
                "parts": target.parts,
                "divisors": divisors(target.parts),
                "min": target.lower,
                "max": max,
            });
            vec![described_vertex(id, vertex), described_figures(figures), alignment]
        };
        self.answer(named, Some(id), facts, |answer| {
            let aligned = (!answer.is_null()).then(|| read_parallelism(answer, target.lower, max));
            aligned.transpose()
        })
    }

    /// Returns the verdict of an executor on changes of parallelism. `limits` are the vertices that it may change, each
    /// with its minimum and maximum parallelism.
    ///
    /// # Errors
    /// If it must be asked first, or if its answer is unusable.
    pub fn verdict(
        &self,
        named: &Named,
        vertices: impl Iterator<Item = (VertexId, Value)>,
        scalings: &BTreeMap<VertexId, (u32, u32)>,
        limits: &BTreeMap<VertexId, (u32, u32)>,
    ) -> Result<Verdict, Halt> {
        let facts = || {
            let scalings = scalings.iter().map(|(id, (current, new))| {
                (id.to_string(), json!({ "current": current, "new": new }))
            });
            let vertices = vertices.map(|(id, told)| (id.to_string(), told));
            vec![vertices.collect(), scalings.collect()]
        };
        self.answer(named, None, facts, |answer| read_verdict(answer, limits))
    }
}

fn described_vertex(id: &VertexId, vertex: &Vertex) -> Value {
    json!({
        "id": id,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "partitions": vertex.partitions,
        "inputs": vertex.inputs,
        "isSource": vertex.is_source(),
        "isPartitioned": vertex.is_partitioned(),
    })
}

/// Describes a vertex and its figures, for rules that use all of them.
pub fn described_with_figures(id: &VertexId, vertex: &Vertex, figures: &Figures) -> Value {
    let mut told = described_vertex(id, vertex);
    told["metrics"] = described_figures(figures);
    told
}

/// Omits what was not measured, and rates without a limit.
fn described_figures(figures: &Figures) -> Value {
    let told = figures.0.iter().filter_map(|(metric, evaluated)| {
        let Evaluated { current, average } = *evaluated;
        let of = [("current", current), ("average", average)];
        let known: Map<String, Value> = of
            .into_iter()
            .filter(|(_, number)| number.is_finite())
            .map(|(name, number)| (name.to_owned(), json!(number)))
            .collect();
        (!known.is_empty()).then(|| (metric.to_string(), Value::Object(known)))
    });
    told.collect()
}
