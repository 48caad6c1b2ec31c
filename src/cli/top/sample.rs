//! Asks JobManagers for the current figures of their jobs.
//!
//! At most [`JOBS_AT_ONCE`] jobs are asked about concurrently, each with a few requests. What could not be read of a
//! job is a fact like any other.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use serde::Serialize;

use super::Wanted;
use super::vertices::{Known, Reading, total};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::list;
use crate::cli::lookup;
use clients::cluster::read::Scope;
use clients::flink;
use clients::flink::access::Access;
use clients::flink::checkpoints::Checkpoints;
use clients::flink::jobs::{JobDetails, Vertex};

/// Number of jobs that are asked about concurrently.
const JOBS_AT_ONCE: usize = 4;
/// Maximum number of running jobs measured; of others only the state is shown.
pub(super) const MEASURED_MAX: usize = 60;
/// Number of checkpoint durations kept, as many as Flink reports by default.
const CHECKPOINTS_MAX: usize = 10;

/// All jobs at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) jobs: Vec<Job>,
    /// Number of running jobs beyond the maximum.
    pub(super) unmeasured: usize,
}

/// One job, as `-o json` shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    pub(super) namespace: String,
    /// Name of the job, such as `orders` or `sessionjob/orders`.
    pub(super) name: String,
    pub(super) lifecycle_state: Option<String>,
    /// State of the job, as opposed to the resource.
    #[serde(rename = "jobState")]
    pub(super) state: Option<String>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Why there are no figures of a running job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Measurements of a job; `None` if Flink has no number.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Figures {
    /// Records per second that the sources read.
    pub(in crate::cli) records_in_per_second: Option<f64>,
    /// Records per second that the sinks take.
    pub(super) records_out_per_second: Option<f64>,
    /// Records waiting in the sources.
    pub(in crate::cli) lag: Option<f64>,
    /// Share of time that the busiest subtask works, from 0 to 1.
    pub(in crate::cli) busy: Option<f64>,
    /// Share of time that the most backpressured subtask waits, from 0 to 1.
    pub(in crate::cli) backpressure: Option<f64>,
    /// Durations of the last completed checkpoints in milliseconds, newest last.
    pub(in crate::cli) checkpoint_milliseconds: Vec<i64>,
    /// When the newest checkpoint was triggered, in milliseconds since the epoch.
    #[serde(skip)]
    pub(in crate::cli) saved_at: Option<i64>,
    /// Number of failed checkpoints since the job was started on this JobManager.
    pub(super) failed_checkpoints: Option<u64>,
}

/// Takes samples, and keeps what does not change between them.
pub(super) struct Sampler {
    connection: Connection,
    wanted: Wanted,
    access: Access,
    known: BTreeMap<(String, String), Known>,
}

impl Sampler {
    pub(super) fn new(connection: Connection, wanted: Wanted, access: Access) -> Self {
        Self { connection, wanted, access, known: BTreeMap::new() }
    }

    /// Returns whether jobs of more than one namespace may be listed.
    pub(super) fn is_everywhere(&self) -> bool {
        self.wanted.is_everywhere
    }

    /// Lists the jobs and measures those that run.
    ///
    /// # Errors
    /// If they cannot be listed, or one that was named does not exist.
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
        // Owned, so that the future is `Send`.
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
        // Keep only what was measured now, which limits its size.
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

    /// Lists the requested jobs that exist, by namespace and name. Session clusters have no job of their own.
    async fn present(&self) -> anyhow::Result<Vec<Deployment>> {
        let Wanted { names, is_everywhere, selector } = &self.wanted;
        let mut present = Vec::new();
        if names.is_empty() {
            let namespace = self.connection.namespace.as_str();
            let scope =
                if *is_everywhere { Scope::AllNamespaces } else { Scope::Namespace(namespace) };
            let rows = list::rows(&self.connection, scope, selector.as_deref()).await?;
            // The job of a blue/green deployment is that of one of its colours.
            let has_job = |it: &Deployment| !it.is_session() && !it.is_blue_green();
            present.extend(rows.into_iter().map(|row| row.0).filter(has_job));
        } else {
            let mut seen = BTreeSet::new();
            for name in names {
                let found = lookup::fetch(&self.connection, name).await?;
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

/// Returns the figures of one job, and what to keep for the next sample; an error is one line for people.
async fn measure(
    connection: &Connection,
    access: Access,
    job: &Deployment,
    known: Option<Known>,
) -> Result<(Figures, Known), String> {
    let job_id = job.job_id().unwrap_or_default();
    let known = match known.filter(|known| known.job_id() == job_id) {
        Some(known) => known,
        None => {
            meet(connection, access, job, job_id).await.map_err(|error| format!("{error:#}"))?
        }
    };
    ask(known).await.map_err(|error| error.to_string())
}

/// Creates a client for the JobManager that runs the job.
async fn meet(
    connection: &Connection,
    access: Access,
    job: &Deployment,
    job_id: &str,
) -> anyhow::Result<Known> {
    let cluster = lookup::cluster_of_row(connection, job).await?;
    Known::new(connection, &cluster, job_id, access)
}

/// Returns the figures of a job, and what to keep for the next sample.
pub(in crate::cli) async fn ask(mut known: Known) -> Result<(Figures, Known), flink::Error> {
    let job = known.job().await?;
    let asked = known.clone();
    let (read, checkpoints) = tokio::join!(known.measure(&job), asked.checkpoints());
    let mut figures = figures(&job, &read?);
    if let Ok(Checkpoints::Statistics(statistics)) = checkpoints {
        figures.failed_checkpoints = Some(statistics.counts.failed);
        figures.saved_at = statistics.latest.saved_at();
        let completed = statistics.history.iter().filter(|it| it.status == "COMPLETED");
        let durations =
            completed.filter(|it| !it.is_savepoint).filter_map(|it| it.end_to_end_duration);
        figures.checkpoint_milliseconds = durations.take(CHECKPOINTS_MAX).collect();
        figures.checkpoint_milliseconds.reverse();
    }
    Ok((figures, known))
}

/// Aggregates vertices to the job: input of the sources, output of the sinks, and the worst of all others.
fn figures(job: &JobDetails, by_vertex: &BTreeMap<String, Reading>) -> Figures {
    let nodes = &job.plan.nodes;
    let read: BTreeSet<&str> =
        nodes.iter().flat_map(|node| &node.inputs).map(|input| input.id.as_str()).collect();
    let reading = nodes.iter().filter(|node| !node.inputs.is_empty());
    let reading: BTreeSet<&str> = reading.map(|node| node.id.as_str()).collect();
    let has_input = |id: &str| reading.contains(id);
    let of = |vertex: &Vertex| by_vertex.get(&vertex.id).copied().unwrap_or_default();
    let sources = || job.vertices.iter().filter(|vertex| !has_input(&vertex.id)).map(of);
    let sinks = || job.vertices.iter().filter(|vertex| !read.contains(vertex.id.as_str()));
    let comes_in = |source: Reading| source.source_in.or(source.task_out);
    let worst = |of_vertex: fn(&Reading) -> Option<f64>| {
        by_vertex.values().filter_map(of_vertex).reduce(f64::max)
    };
    Figures {
        records_in_per_second: total(sources().map(comes_in)),
        // A source chained to its sink is one vertex, whose input is also its output.
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

    #[test]
    fn sources_say_what_comes_in_and_sinks_what_goes_out() {
        let job = job(json!([{"id": "a"}, {"id": "b", "inputs": [{"id": "a"}]}]));
        let source = Reading::sample(&[
            ("Source__K.numRecordsInPerSecond", 50.0),
            ("x.pendingRecords", 7.0),
            ("busyTimeMsPerSecond", 400.0),
        ]);
        let sink = Reading::sample(&[
            ("numRecordsInPerSecond", 40.0),
            ("busyTimeMsPerSecond", 900.0),
            ("backPressuredTimeMsPerSecond", 100.0),
        ]);
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
