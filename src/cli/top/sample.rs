//! Asks JobManagers what their jobs do at the moment.
//!
//! At most [`JOBS_AT_ONCE`] × ([`VERTICES_AT_ONCE`] + 1) requests are under way, each with a deadline and without
//! repetition: the next sample comes soon. What could not be read of a job is a fact of that job alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use super::Wanted;
use crate::cli::connection::Connection;
use crate::cli::deployment::{self, Deployment};
use crate::cli::{job_manager, list};
use clients::cluster::read::Scope;
use clients::flink::access::Access;
use clients::flink::checkpoints::Checkpoints;
use clients::flink::jobs::{JobDetails, Vertex};
use clients::flink::metrics::AggregatedMetric;
use clients::flink::{self, Client, Deadlines};

/// Jobs that are asked about at the same time.
const JOBS_AT_ONCE: usize = 4;
/// Vertices of one job that are asked about at the same time.
const VERTICES_AT_ONCE: usize = 2;
/// Running jobs that are measured; of others the state is shown.
pub(super) const MEASURED_MAX: usize = 60;
/// Vertices of a job that are measured; the figures of a larger one would be old when the last comes.
const VERTICES_MAX: usize = 60;
/// Metrics that are asked for in one request; they have to fit into its line.
const METRICS_MAX: usize = 60;
/// Durations of checkpoints that are kept, as many as Flink tells by default.
const CHECKPOINTS_MAX: usize = 10;
/// Answers of a JobManager that take longer are left out of the sample.
const PATIENCE: Duration = Duration::from_secs(3);

/// All jobs at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) jobs: Vec<Job>,
    /// Jobs that run and were too many.
    pub(super) unmeasured: usize,
}

/// One job, as `-o json` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    pub(super) namespace: String,
    /// `orders`, or `sessionjob/orders`.
    pub(super) name: String,
    pub(super) lifecycle_state: Option<String>,
    /// Of the job.
    #[serde(rename = "jobState")]
    pub(super) state: Option<String>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Why there are no figures of a job that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Measurements of a job; absent where Flink has no number.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    /// Records per second that the sources read.
    pub(super) records_in_per_second: Option<f64>,
    /// Records per second that the sinks take.
    pub(super) records_out_per_second: Option<f64>,
    /// Records that wait in the sources.
    pub(super) lag: Option<f64>,
    /// Part of its time that the busiest subtask works, from 0 to 1.
    pub(super) busy: Option<f64>,
    /// Part of its time that the worst subtask waits for others, from 0 to 1.
    pub(super) backpressure: Option<f64>,
    /// Of the last completed checkpoints, in milliseconds, the newest last.
    pub(super) checkpoint_milliseconds: Vec<i64>,
    /// Since the job was started on this JobManager.
    pub(super) failed_checkpoints: Option<u64>,
}

/// Takes samples, and keeps from one to the next what does not change.
pub(super) struct Sampler {
    connection: Connection,
    wanted: Wanted,
    access: Access,
    known: BTreeMap<(String, String), Known>,
}

/// A job that was measured before.
#[derive(Clone)]
struct Known {
    client: Client,
    job_id: String,
    /// Metrics to ask for, by vertex.
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
    /// A vertex that begins with a source has the records it reads as a metric of that operator: as a
    /// task it reads none.
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

impl Sampler {
    pub(super) fn new(connection: Connection, wanted: Wanted, access: Access) -> Self {
        Self { connection, wanted, access, known: BTreeMap::new() }
    }

    /// True if jobs of more than one namespace may come.
    pub(super) fn is_everywhere(&self) -> bool {
        self.wanted.is_everywhere
    }

    /// Lists the jobs and measures those that run.
    ///
    /// # Errors
    /// When they cannot be listed, or one that was named is not there.
    pub(super) async fn take(&mut self) -> anyhow::Result<Sample> {
        let present = self.present().await?;
        let mut jobs: Vec<Job> = present.iter().map(job_of).collect();
        let running = |of: &Deployment| of.job_state() == Some("RUNNING") && of.job_id().is_some();
        let to_measure = present.iter().enumerate().filter(|(_, it)| running(it));
        let (to_measure, left) = {
            let mut all = to_measure.collect::<Vec<_>>();
            let left = all.len().saturating_sub(MEASURED_MAX);
            all.truncate(MEASURED_MAX);
            (all, left)
        };
        let (connection, access, known) = (&self.connection, self.access, &self.known);
        // Owned, so that whoever awaits this may be moved to another thread.
        let asked: Vec<(usize, Deployment, Option<Known>)> = to_measure
            .into_iter()
            .map(|(index, it)| (index, it.clone(), known.get(&key(it)).cloned()))
            .collect();
        let measured: Vec<_> = stream::iter(asked)
            .map(|(index, job, known)| async move {
                let of = key(&job);
                (index, of, measure(connection, access, &job, known).await)
            })
            .buffer_unordered(JOBS_AT_ONCE)
            .collect()
            .await;
        // Only what was measured now is kept, so that it is never more than are measured.
        self.known.clear();
        for (index, of, result) in measured {
            let Some(job) = jobs.get_mut(index) else { continue };
            match result {
                Ok((figures, known)) => {
                    job.figures = figures;
                    self.known.insert(of, known);
                }
                Err(error) => job.error = Some(error),
            }
        }
        Ok(Sample { jobs, unmeasured: left })
    }

    /// Lists wanted jobs that exist, by namespace and name; session clusters have none of their own.
    async fn present(&self) -> anyhow::Result<Vec<Deployment>> {
        let Wanted { names, is_everywhere, selector } = &self.wanted;
        let mut present = Vec::new();
        if names.is_empty() {
            let namespace = self.connection.namespace.as_str();
            let scope =
                if *is_everywhere { Scope::AllNamespaces } else { Scope::Namespace(namespace) };
            let rows = list::rows(&self.connection, scope, selector.as_deref()).await?;
            // The job of a blue/green deployment is that of a colour.
            let has_job = |it: &Deployment| !it.is_session() && !it.is_blue_green();
            present.extend(rows.into_iter().map(|row| row.0).filter(has_job));
        } else {
            let mut seen = BTreeSet::new();
            for name in names {
                let found = deployment::fetch(&self.connection, name).await?;
                if found.is_session() {
                    return Err(crate::cli::failure::Failure::new(format!(
                        "`{name}` is a session cluster: it has no job of its own"
                    ))
                    .hint("leave out names to see its jobs, or name them as sessionjob/NAME")
                    .into());
                }
                if seen.insert(found.shown_name()) {
                    present.push(found);
                }
            }
        }
        present.sort_by_cached_key(key);
        Ok(present)
    }
}

fn key(of: &Deployment) -> (String, String) {
    (of.namespace().to_owned(), of.shown_name())
}

fn job_of(of: &Deployment) -> Job {
    let text = |text: Option<&str>| text.map(str::to_owned);
    Job {
        namespace: of.namespace().to_owned(),
        name: of.shown_name(),
        lifecycle_state: text(of.lifecycle()),
        state: text(of.job_state()),
        ..Job::default()
    }
}

/// The figures of one job, and what to keep of it; an error is one line for a person.
async fn measure(
    connection: &Connection,
    access: Access,
    job: &Deployment,
    known: Option<Known>,
) -> Result<(Figures, Known), String> {
    let job_id = job.job_id().unwrap_or_default();
    let known = match known.filter(|known| known.job_id == job_id) {
        Some(known) => known,
        None => {
            meet(connection, access, job, job_id).await.map_err(|error| format!("{error:#}"))?
        }
    };
    ask(known).await.map_err(|error| error.to_string())
}

/// Makes a client for the JobManager that runs the job.
async fn meet(
    connection: &Connection,
    access: Access,
    job: &Deployment,
    job_id: &str,
) -> anyhow::Result<Known> {
    // A row of a list has not got the options that say where the JobManager listens.
    let mut home = connection.clone();
    home.namespace = job.namespace().to_owned();
    let whole = deployment::fetch(&home, &qualified(job)).await?;
    let cluster = deployment::cluster_of(&home, &whole).await?;
    let deadlines = Deadlines { request: PATIENCE, ..Deadlines::default() };
    let client = job_manager::client(&home, &cluster, access, deadlines)?.without_retries();
    Ok(Known { client, job_id: job_id.to_owned(), metrics: BTreeMap::new() })
}

/// A name that means one kind only.
fn qualified(job: &Deployment) -> String {
    if job.is_session_job() { job.shown_name() } else { format!("flinkdeployment/{}", job.name()) }
}

async fn ask(mut known: Known) -> Result<(Figures, Known), flink::Error> {
    let job = known.client.job(&known.job_id).await?;
    let vertices = job.vertices.iter().filter(|it| it.status == "RUNNING").take(VERTICES_MAX);
    // Metrics of a source come and go with its partitions; names are asked for once all the same.
    let wanted: Vec<(String, Option<Vec<Metric>>)> = vertices
        .map(|vertex| (vertex.id.clone(), known.metrics.get(&vertex.id).cloned()))
        .collect();
    let (client, job_id) = (&known.client, known.job_id.as_str());
    let read = stream::iter(wanted)
        .map(|(id, metrics)| async move {
            let metrics = match metrics.filter(|metrics| !metrics.is_empty()) {
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
        .buffer_unordered(VERTICES_AT_ONCE)
        .try_collect::<Vec<_>>();
    let (read, checkpoints) = tokio::join!(read, client.checkpoints(job_id));
    let read = read?;
    let mut by_vertex = BTreeMap::new();
    known.metrics.clear();
    for (id, metrics, values) in read {
        by_vertex.insert(id.clone(), reading(&metrics, &values));
        known.metrics.insert(id, metrics);
    }
    let mut figures = figures(&job, &by_vertex);
    if let Ok(Checkpoints::Statistics(statistics)) = checkpoints {
        figures.failed_checkpoints = Some(statistics.counts.failed);
        let completed = statistics.history.iter().filter(|it| it.status == "COMPLETED");
        let durations =
            completed.filter(|it| !it.is_savepoint).filter_map(|it| it.end_to_end_duration);
        figures.checkpoint_milliseconds = durations.take(CHECKPOINTS_MAX).collect();
        figures.checkpoint_milliseconds.reverse();
    }
    Ok((figures, known))
}

/// The metrics to ask for, of all that a vertex has.
fn chosen(names: Vec<String>) -> Vec<Metric> {
    let all = names.into_iter().filter_map(|name| Figure::of(&name).map(|figure| (name, figure)));
    all.take(METRICS_MAX).collect()
}

/// Measurements of one vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    task_in: Option<f64>,
    task_out: Option<f64>,
    source_in: Option<f64>,
    pending: Option<f64>,
    /// Milliseconds per second, of the worst subtask.
    busy: Option<f64>,
    backpressure: Option<f64>,
}

fn reading(metrics: &[Metric], values: &[AggregatedMetric]) -> Reading {
    let of = |figure: Figure| {
        values.iter().filter(move |value| {
            metrics.iter().any(|(name, its)| *its == figure && *name == value.id)
        })
    };
    let sum = |figure| total(of(figure).map(|value| value.sum));
    let max = |figure| of(figure).filter_map(|value| value.max).reduce(f64::max);
    Reading {
        task_in: sum(Figure::TaskIn),
        task_out: sum(Figure::TaskOut),
        source_in: sum(Figure::SourceIn),
        pending: sum(Figure::Pending),
        busy: max(Figure::Busy),
        backpressure: max(Figure::Backpressure),
    }
}

/// The sum of the numbers that there are, if there are any.
fn total(numbers: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    numbers.flatten().reduce(|one, other| one + other)
}

/// From vertices to the job: sources say what comes in, sinks what goes out, and the worst is told.
fn figures(job: &JobDetails, by_vertex: &BTreeMap<String, Reading>) -> Figures {
    let nodes = &job.plan.nodes;
    let read: BTreeSet<&str> =
        nodes.iter().flat_map(|node| &node.inputs).map(|input| input.id.as_str()).collect();
    let has_input = |id: &str| nodes.iter().any(|node| node.id == id && !node.inputs.is_empty());
    let of = |vertex: &Vertex| by_vertex.get(&vertex.id).copied().unwrap_or_default();
    let sources = || job.vertices.iter().filter(|vertex| !has_input(&vertex.id)).map(of);
    let sinks = || job.vertices.iter().filter(|vertex| !read.contains(vertex.id.as_str()));
    let comes_in = |source: Reading| source.source_in.or(source.task_out);
    let worst = |of_vertex: fn(&Reading) -> Option<f64>| {
        let part = |milliseconds: f64| (milliseconds / 1000.0).clamp(0.0, 1.0);
        by_vertex.values().filter_map(of_vertex).reduce(f64::max).map(part)
    };
    Figures {
        records_in_per_second: total(sources().map(comes_in)),
        // A source that is chained to its sink is one vertex: what it reads goes out.
        records_out_per_second: total(sinks().map(|vertex| {
            let reading = of(vertex);
            if has_input(&vertex.id) { reading.task_in } else { comes_in(reading) }
        })),
        lag: total(sources().map(|source| source.pending)),
        busy: worst(|reading| reading.busy),
        backpressure: worst(|reading| reading.backpressure),
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(nodes: serde_json::Value) -> JobDetails {
        let ids = nodes.as_array().unwrap().iter().map(|node| node["id"].clone());
        let vertices: Vec<_> = ids.map(|id| json!({"id": id, "status": "RUNNING"})).collect();
        serde_json::from_value(
            json!({"jid": "j", "state": "RUNNING", "vertices": vertices, "plan": {"nodes": nodes}}),
        )
        .unwrap()
    }

    fn metric(id: &str, value: f64) -> AggregatedMetric {
        AggregatedMetric {
            id: id.to_owned(),
            min: Some(value),
            max: Some(value),
            avg: Some(value),
            sum: Some(value * 2.0),
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

    #[test]
    fn sources_say_what_comes_in_and_sinks_what_goes_out() {
        let job = job(json!([{"id": "a"}, {"id": "b", "inputs": [{"id": "a"}]}]));
        let names = ["Source__K.numRecordsInPerSecond", "x.pendingRecords", "busyTimeMsPerSecond"];
        let of_source = chosen(names.map(str::to_owned).to_vec());
        let values = [metric(names[0], 50.0), metric(names[1], 7.0), metric(names[2], 400.0)];
        let source = reading(&of_source, &values);
        let names =
            ["numRecordsInPerSecond", "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond"];
        let of_sink = chosen(names.map(str::to_owned).to_vec());
        let values = [metric(names[0], 40.0), metric(names[1], 900.0), metric(names[2], 100.0)];
        let sink = reading(&of_sink, &values);
        let by_vertex = BTreeMap::from([("a".to_owned(), source), ("b".to_owned(), sink)]);
        assert_eq!(
            figures(&job, &by_vertex),
            Figures {
                records_in_per_second: Some(100.0),
                records_out_per_second: Some(80.0),
                lag: Some(14.0),
                busy: Some(0.9),
                backpressure: Some(0.1),
                ..Figures::default()
            }
        );
    }

    #[test]
    fn a_job_of_one_vertex_lets_out_what_it_reads() {
        let job = job(json!([{"id": "a"}]));
        let source = Reading { source_in: Some(5.0), ..Reading::default() };
        let figures = figures(&job, &BTreeMap::from([("a".to_owned(), source)]));
        assert_eq!(figures.records_in_per_second, figures.records_out_per_second);
    }

    #[test]
    fn what_was_not_measured_is_absent_and_not_zero() {
        let figures = figures(&job(json!([{"id": "a"}])), &BTreeMap::new());
        assert_eq!(figures, Figures::default());
    }
}
