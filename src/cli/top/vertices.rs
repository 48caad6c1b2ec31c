//! Current figures of a job's vertices, as its JobManager measures them.
//!
//! At most [`AT_ONCE`] requests run concurrently, each with a deadline and without retries: the caller asks again soon.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::job_manager;
use clients::flink::access::Access;
use clients::flink::checkpoints::Checkpoints;
use clients::flink::jobs::JobDetails;
use clients::flink::metrics::AggregatedMetric;
use clients::flink::{self, Client};

/// Number of vertices of one job that are asked about concurrently.
const AT_ONCE: usize = 2;
/// Maximum number of vertices measured; the figures of a larger job would be outdated by the time the last one arrives.
pub(in crate::cli) const VERTICES_MAX: usize = 60;
/// Maximum number of metrics in one request, whose URL has a limited length.
const METRICS_MAX: usize = 60;

/// A job that is measured repeatedly, with what does not change in between.
#[derive(Clone)]
pub(in crate::cli) struct Known {
    client: Client,
    job_id: String,
    /// Metrics to request, by vertex.
    metrics: BTreeMap<String, Vec<Metric>>,
}

/// Quantity that a metric measures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Figure {
    TaskIn,
    TaskOut,
    SourceIn,
    Pending,
    Busy,
    Backpressure,
}

type Metric = (String, Figure);

impl Figure {
    /// Returns the quantity of a metric. A vertex that starts with a source has the records it reads as a metric of the
    /// source operator: the task itself reads none.
    fn of(name: &str) -> Option<Self> {
        match name {
            "numRecordsInPerSecond" => Some(Self::TaskIn),
            "numRecordsOutPerSecond" => Some(Self::TaskOut),
            "busyTimeMsPerSecond" => Some(Self::Busy),
            "backPressuredTimeMsPerSecond" => Some(Self::Backpressure),
            name if name.starts_with("Source__") && name.ends_with(".numRecordsInPerSecond") => {
                Some(Self::SourceIn)
            }
            name if name.ends_with(".pendingRecords") => Some(Self::Pending),
            _ => None,
        }
    }
}

impl Known {
    /// Creates a client for a job of the cluster's JobManager, without sending a request.
    pub(in crate::cli) fn new(
        connection: &Connection,
        cluster: &Deployment,
        job_id: &str,
        access: Access,
    ) -> anyhow::Result<Self> {
        let client = job_manager::client(connection, cluster, access, job_manager::soon())?;
        let (client, job_id) = (client.without_retries(), job_id.to_owned());
        Ok(Self { client, job_id, metrics: BTreeMap::new() })
    }

    pub(in crate::cli) fn job_id(&self) -> &str {
        &self.job_id
    }

    /// Returns the job, with the states of its vertices and how they are connected.
    pub(in crate::cli) async fn job(&self) -> Result<JobDetails, flink::Error> {
        self.client.job(&self.job_id).await
    }

    pub(super) async fn checkpoints(&self) -> Result<Checkpoints, flink::Error> {
        self.client.checkpoints(&self.job_id).await
    }

    /// Returns when the newest checkpoint was triggered, in milliseconds since the epoch.
    pub(in crate::cli) async fn saved_at(&self) -> Result<Option<i64>, flink::Error> {
        let latest = self.client.latest_checkpoints(&self.job_id).await?;
        Ok(latest.and_then(|latest| latest.saved_at()))
    }

    /// Measures the running vertices. Metric names that were read are kept, even if this measurement fails.
    pub(in crate::cli) async fn measure(
        &mut self,
        job: &JobDetails,
    ) -> Result<BTreeMap<String, Reading>, flink::Error> {
        let Self { client, job_id, metrics } = self;
        let (client, job_id) = (&*client, job_id.as_str());
        let vertices = job.vertices.iter().filter(|it| it.status == "RUNNING").take(VERTICES_MAX);
        let ids: Vec<String> = vertices.map(|vertex| vertex.id.clone()).collect();
        metrics.retain(|id, metrics| ids.contains(id) && !metrics.is_empty());
        // Metrics of a source change with its partitions; their names are read only once anyway.
        let wanted: Vec<_> = ids.into_iter().map(|id| (metrics.get(&id).cloned(), id)).collect();
        let mut measured = stream::iter(wanted)
            .map(|(metrics, id)| async move {
                let metrics = match metrics {
                    Some(metrics) => metrics,
                    None => chosen(client.subtask_metric_names(job_id, &id).await?),
                };
                let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
                let values = if names.is_empty() {
                    Vec::new()
                } else {
                    client.subtask_metrics(job_id, &id, &names).await?
                };
                Ok::<_, flink::Error>((id, metrics, values))
            })
            .buffer_unordered(AT_ONCE);
        let mut by_vertex = BTreeMap::new();
        while let Some(read) = measured.next().await {
            let (id, read, values) = read?;
            by_vertex.insert(id.clone(), Reading::of(&read, &values));
            metrics.insert(id, read);
        }
        Ok(by_vertex)
    }
}

/// Returns which of a vertex's metrics to request.
fn chosen(names: Vec<String>) -> Vec<Metric> {
    let all = names.into_iter().filter_map(|name| Figure::of(&name).map(|figure| (name, figure)));
    all.take(METRICS_MAX).collect()
}

/// Measurements of one vertex; `None` if Flink has no number. Rates are the sum over all subtasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::cli) struct Reading {
    pub(in crate::cli) task_in: Option<f64>,
    pub(in crate::cli) task_out: Option<f64>,
    /// Records that a source reads, which its task does not count as input.
    pub(in crate::cli) source_in: Option<f64>,
    /// Records waiting in a source.
    pub(in crate::cli) pending: Option<f64>,
    /// Share of time that the busiest subtask works, from 0 to 1.
    pub(in crate::cli) busy: Option<f64>,
    /// Share of time that the most backpressured subtask waits, from 0 to 1.
    pub(in crate::cli) backpressure: Option<f64>,
}

impl Reading {
    fn of(metrics: &[Metric], values: &[AggregatedMetric]) -> Self {
        let of = |figure: Figure| {
            values.iter().filter(move |value| {
                metrics.iter().any(|(name, its)| *its == figure && *name == value.id)
            })
        };
        let sum = |figure| total(of(figure).map(|value| value.sum));
        let worst = |figure| of(figure).filter_map(|value| value.max).reduce(f64::max).map(part);
        Self {
            task_in: sum(Figure::TaskIn),
            task_out: sum(Figure::TaskOut),
            source_in: sum(Figure::SourceIn),
            pending: sum(Figure::Pending),
            busy: worst(Figure::Busy),
            backpressure: worst(Figure::Backpressure),
        }
    }
}

fn part(milliseconds: f64) -> f64 {
    (milliseconds / 1000.0).clamp(0.0, 1.0)
}

/// Returns the sum of the known numbers, if there are any.
pub(super) fn total(numbers: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    numbers.flatten().reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reading {
        /// Returns the reading of metrics with these values, where sums are twice as high.
        pub(in crate::cli::top) fn sample(values: &[(&str, f64)]) -> Self {
            let metric = |(id, value): &(&str, f64)| AggregatedMetric {
                id: (*id).to_owned(),
                min: Some(*value),
                max: Some(*value),
                avg: Some(*value),
                sum: Some(value * 2.0),
            };
            let names = values.iter().map(|(name, _)| (*name).to_owned()).collect();
            Self::of(&chosen(names), &values.iter().map(metric).collect::<Vec<_>>())
        }
    }

    #[test]
    fn only_metrics_that_are_shown_are_asked_for() {
        let names = [
            "numRecordsInPerSecond",
            "Source__Kafka.numRecordsInPerSecond",
            "Source__Kafka.KafkaSourceReader.pendingRecords",
            "Map.numRecordsInPerSecond",
            "buffers.inputQueueLength",
            "busyTimeMsPerSecond",
        ];
        let chosen = chosen(names.map(str::to_owned).to_vec());
        let figures: Vec<Figure> = chosen.iter().map(|(_, figure)| *figure).collect();
        assert_eq!(figures, [Figure::TaskIn, Figure::SourceIn, Figure::Pending, Figure::Busy]);
        let many = (0..500).map(|it| format!("a{it}.pendingRecords")).collect();
        assert_eq!(super::chosen(many).len(), METRICS_MAX);
    }
}
