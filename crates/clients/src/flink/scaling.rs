//! Reads what the autoscaler needs to know of a job, in as few calls as possible.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;

use super::client::Client;
use super::error::Error;
use super::jobs::{JobDetails, Vertex as VertexDetails};
use super::metrics::AggregatedMetric;
use api::status::JobStatusState;
use autoscaler::names::{Missing, Wanted, partitions, reading, wanted};
use autoscaler::sample::{Aggregate, ProcessReading, Reading, VertexReading};
use autoscaler::topology::{
    Counters, ShipStrategy, Topology, Unusable, Vertex, VertexId, check_size,
};

/// Maximum number of concurrent calls for the vertices of one job.
const CALLS_MAX: usize = 4;

const GC_TIME: &str = "Status.JVM.GarbageCollector.All.TimeMsPerSecond";
const HEAP_MAX: &str = "Status.JVM.Memory.Heap.Max";
const HEAP_USED: &str = "Status.JVM.Memory.Heap.Used";
const MANAGED_USED: &str = "Status.Flink.Memory.Managed.Used";
const METASPACE_USED: &str = "Status.JVM.Memory.Metaspace.Used";

/// The readings of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub running_since: Timestamp,
    pub topology: Topology,
    pub reading: Reading,
}

/// Why a job could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Unmeasured {
    #[error(transparent)]
    Flink(#[from] Error),
    #[error("job `{0}` is not running, or Flink does not say since when")]
    NotRunning(String),
    #[error(transparent)]
    Topology(#[from] Unusable),
    #[error("vertex `{vertex}`: {missing}")]
    Missing { vertex: VertexId, missing: Missing },
    #[error("vertex `{vertex}`: Flink does not have the records of all its subtasks yet")]
    Incomplete { vertex: VertexId },
    #[error("TaskManagers report no memory metrics")]
    NoProcessMetrics,
}

impl Unmeasured {
    /// Returns whether the error is normal while a job starts.
    pub fn is_of_a_start(&self) -> bool {
        match self {
            Self::Topology(unusable) => *unusable == Unusable::Empty,
            Self::Missing { .. } | Self::Incomplete { .. } => true,
            Self::Flink(_) | Self::NotRunning(_) | Self::NoProcessMetrics => false,
        }
    }
}

/// Names of a job's metrics, kept from one measurement to the next: listing them takes as many calls as reading them.
#[derive(Clone, Debug, Default)]
pub struct Names {
    vertices: BTreeMap<VertexId, Wanted>,
    has_gc_time: Option<bool>,
}

impl Client {
    /// Measures a running job.
    ///
    /// # Errors
    /// If anything that is needed could not be read; there are no partial measurements.
    pub async fn measure(&self, job_id: &str, names: &mut Names) -> Result<Measured, Unmeasured> {
        let (running_since, mut vertices) = {
            let job = self.job(job_id).await?;
            (running_since(&job)?, vertices(&job)?)
        };
        let mut all_wanted = std::mem::take(&mut names.vertices);
        // The names of a source's metrics contain its partitions and pending records, which come and go.
        let is_same = all_wanted.keys().eq(vertices.keys());
        let is_listed = |(id, vertex): &(&VertexId, &Vertex)| {
            let is_known = is_same && all_wanted.contains_key(*id);
            !vertex.is_finished && (vertex.is_source() || !is_known)
        };
        let to_list: Vec<(VertexId, bool)> = vertices
            .iter()
            .filter(is_listed)
            .map(|(id, vertex)| (id.clone(), vertex.is_source()))
            .collect();
        // Of each list only what is wanted is kept.
        let found: Vec<(VertexId, Wanted, Option<u32>)> = futures::stream::iter(to_list)
            .map(|(id, is_source)| async move {
                let names = self.subtask_metric_names(job_id, id.as_str()).await?;
                let partitions = if is_source { partitions(&names) } else { None };
                match wanted(&names, is_source) {
                    Ok(wanted) => Ok((id, wanted, partitions)),
                    Err(missing) => Err(Unmeasured::Missing { vertex: id, missing }),
                }
            })
            .buffered(CALLS_MAX)
            .try_collect()
            .await?;
        // A finished vertex is not read, but has an entry.
        let mut wanted_before = std::mem::take(&mut all_wanted);
        for id in vertices.keys() {
            all_wanted.insert(id.clone(), wanted_before.remove(id).unwrap_or_default());
        }
        for (id, wanted, partitions) in found {
            if let Some(vertex) = vertices.get_mut(&id) {
                vertex.partitions = partitions;
            }
            all_wanted.insert(id, wanted);
        }
        // Owned, so that the future is `Send`.
        let to_read: Vec<(VertexId, Wanted)> = all_wanted
            .iter()
            .filter(|(id, _)| vertices.get(*id).is_some_and(|vertex| !vertex.is_finished))
            .map(|(id, wanted)| (id.clone(), wanted.clone()))
            .collect();
        let readings: BTreeMap<VertexId, VertexReading> = futures::stream::iter(to_read)
            .map(|(id, wanted)| async move {
                let reading = self.vertex_reading(job_id, &id, &wanted).await?;
                Ok::<_, Error>((id, reading))
            })
            .buffered(CALLS_MAX)
            .try_collect()
            .await?;
        let processes = self.process_reading(names).await?;
        names.vertices = all_wanted;
        let topology = Topology::new(vertices)?;
        Ok(Measured { running_since, topology, reading: Reading { vertices: readings, processes } })
    }

    async fn vertex_reading(
        &self,
        job_id: &str,
        id: &VertexId,
        wanted: &Wanted,
    ) -> Result<VertexReading, Error> {
        let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
        let metrics = self.subtask_metrics(job_id, id.as_str(), &names).await?;
        Ok(reading(
            wanted,
            metrics.into_iter().map(|metric| (metric.id.clone(), aggregate(&metric))),
        ))
    }

    async fn process_reading(&self, names: &mut Names) -> Result<ProcessReading, Unmeasured> {
        let slots = self.job_manager_metrics(&["taskSlotsTotal", "taskSlotsAvailable"]).await?;
        let number =
            |name: &str| slots.get(name)?.parse().ok().filter(|number: &f64| number.is_finite());
        let common = [HEAP_MAX, HEAP_USED, MANAGED_USED, METASPACE_USED];
        let with_gc_time = [HEAP_MAX, HEAP_USED, MANAGED_USED, METASPACE_USED, GC_TIME];
        // Flink returns nothing at all if it does not know one of them.
        let mut metrics = Vec::new();
        if names.has_gc_time != Some(false) {
            metrics = self.task_manager_metrics(&with_gc_time).await?;
        }
        if metrics.is_empty() && names.has_gc_time != Some(true) {
            metrics = self.task_manager_metrics(&common).await?;
            names.has_gc_time = Some(false);
        } else {
            names.has_gc_time = Some(true);
        }
        if metrics.is_empty() {
            names.has_gc_time = None;
            return Err(Unmeasured::NoProcessMetrics);
        }
        let find = |name: &str| metrics.iter().find(|metric| metric.id == name).map(aggregate);
        Ok(ProcessReading {
            gc: find(GC_TIME),
            heap_used: find(HEAP_USED),
            heap_max: find(HEAP_MAX),
            managed_used: find(MANAGED_USED),
            metaspace_used: find(METASPACE_USED),
            slots_total: number("taskSlotsTotal"),
            slots_available: number("taskSlotsAvailable"),
        })
    }
}

/// Converts a metric to the form that samples use.
pub fn aggregate(metric: &AggregatedMetric) -> Aggregate {
    let AggregatedMetric { id: _, min, max, avg, sum } = metric;
    let (min, max, avg, sum) = (*min, *max, *avg, *sum);
    Aggregate { min, max, average: avg, sum }
}

/// Returns since when a job has been running, according to Flink.
///
/// # Errors
/// If the job is not running.
pub fn running_since(job: &JobDetails) -> Result<Timestamp, Unmeasured> {
    let is_running = job.state.known() == Some(JobStatusState::Running);
    let millis = job.timestamps.get("RUNNING").copied().filter(|millis| *millis > 0 && is_running);
    millis
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .ok_or_else(|| Unmeasured::NotRunning(job.id.clone()))
}

/// Combines the graph of the plan with the counters of its vertices, which Flink returns separately.
///
/// # Errors
/// If there is no plan yet, if the job is too large, or if the counters are too low because some subtasks have not reported theirs.
pub fn vertices(job: &JobDetails) -> Result<BTreeMap<VertexId, Vertex>, Unmeasured> {
    let nodes = &job.plan.nodes;
    let count = nodes.len().max(job.vertices.len());
    check_size(count, nodes.iter().map(|node| node.inputs.len()).sum())?;
    let details: BTreeMap<&str, &VertexDetails> =
        job.vertices.iter().map(|vertex| (vertex.id.as_str(), vertex)).collect();
    let mut vertices = BTreeMap::new();
    for node in nodes {
        // Without its details a vertex cannot be running.
        let Some(details) = details.get(node.id.as_str()) else {
            return Err(Unusable::Empty.into());
        };
        let is_finished = details.status == "FINISHED";
        if !is_finished && !is_complete(details) {
            return Err(Unmeasured::Incomplete { vertex: node.id.as_str().into() });
        }
        let inputs = node.inputs.iter();
        let vertex = Vertex {
            parallelism: node.parallelism.unwrap_or(details.parallelism),
            max_parallelism: details
                .max_parallelism
                .and_then(|max| u32::try_from(max).ok())
                .unwrap_or_default(),
            inputs: inputs
                .map(|input| (input.id.as_str().into(), ShipStrategy::parse(&input.ship_strategy)))
                .collect(),
            partitions: None,
            slot_sharing_group: details.slot_sharing_group_id.clone(),
            is_finished,
            counters: Counters {
                records_in: counter(details, "read-records"),
                records_out: counter(details, "write-records"),
                busy: counter(details, "accumulated-busy-time"),
            },
        };
        vertices.insert(node.id.as_str().into(), vertex);
    }
    if vertices.is_empty() {
        return Err(Unusable::Empty.into());
    }
    Ok(vertices)
}

/// Returns whether the records of all subtasks are counted, as far as Flink says.
fn is_complete(vertex: &VertexDetails) -> bool {
    let is_false = |name| vertex.metrics.get(name) == Some(&serde_json::Value::Bool(false));
    !["read-records-complete", "write-records-complete"].into_iter().any(is_false)
}

/// Returns a number, or NaN if Flink says so or reports nothing.
fn counter(vertex: &VertexDetails, name: &str) -> f64 {
    vertex.metrics.get(name).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN)
}
