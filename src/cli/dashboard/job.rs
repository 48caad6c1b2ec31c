//! The job page of a resource: its vertices, measured as `kubectl flink top` does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;

use super::answers::Console;
use super::live::Page;
use super::resource::{Reader, Subject, job_manager_of, session_jobs};
use super::seen::Seen;
use crate::cli::top::short;
use crate::cli::top::vertices::{Known, Reading};
use clients::flink::jobs::JobDetails;
use config::secret;
use console::job::{Job, Shown, VERTICES_MAX, Vertex};
use console::page;
use console::page::resource::{Fragment, Tab};
use console::resource::Part;
use console::row::{Key, Row};

/// State of the page between two refreshes.
#[derive(Default)]
pub(super) struct PageData {
    seen: Seen<Part<Shown>>,
    known: Option<Known>,
}

impl Page for PageData {
    const TAB: Tab = Tab::Job;

    async fn read(&mut self, console: &Console, key: &Key) -> Vec<Fragment> {
        let known = &mut self.known;
        let read =
            console.reader.inspect(key, async |subject| of(&console.reader, subject, known).await);
        self.seen.again(read.await);
        page::resource::job::parts(console.place(), key, &self.seen.standing, self.seen.shown())
    }

    fn row(&self) -> Option<&Row> {
        self.seen.row()
    }

    fn is_there(&self) -> bool {
        self.seen.is_there()
    }
}

async fn of(reader: &Reader, subject: &Subject, known: &mut Option<Known>) -> Part<Shown> {
    if subject.object.is_session() {
        return subject.within(session_jobs(subject)).await.map(Shown::Session);
    }
    let details = subject.within(Box::pin(async {
        let met = meet(reader, subject, known.take()).await?;
        let details = met.job().await?;
        anyhow::Ok((details, known.insert(met)))
    }));
    let (details, known) = details.await?;
    // Show the job even if its vertices do not answer.
    let measured = subject.within(known.measure(&details)).await;
    Ok(Shown::Job(Box::new(job(&details, measured))))
}

/// Returns the known job if it is still the same, and otherwise looks it up.
async fn meet(
    reader: &Reader,
    Subject { object, connection, .. }: &Subject,
    known: Option<Known>,
) -> anyhow::Result<Known> {
    let (present, cluster) = job_manager_of(connection, object).await?;
    let id = present.job_id().context("the job has not been started yet")?;
    match known.filter(|known| known.job_id() == id) {
        Some(known) => Ok(known),
        // This outlives the connection of the page.
        None => Known::new(&reader.connection(object.namespace()), &cluster, id, reader.access),
    }
}

fn job(details: &JobDetails, measured: Part<BTreeMap<String, Reading>>) -> Job {
    let (readings, unmeasured) = match measured {
        Ok(readings) => (readings, None),
        Err(why) => (BTreeMap::new(), Some(why)),
    };
    let vertices = || details.vertices.iter().take(VERTICES_MAX);
    let places: BTreeMap<&str, usize> =
        vertices().enumerate().map(|(place, it)| (it.id.as_str(), place)).collect();
    let nodes = &details.plan.nodes;
    let pairs = nodes.iter().flat_map(|node| node.inputs.iter().map(|it| (&*it.id, &*node.id)));
    // Two vertices may have more than one connection.
    let edges: BTreeSet<(usize, usize)> =
        pairs.filter_map(|(from, to)| Some((*places.get(from)?, *places.get(to)?))).collect();
    let is_source = |id: &str| nodes.iter().any(|node| node.id == id && node.inputs.is_empty());
    let shown = vertices().map(|vertex| {
        let reading = readings.get(&vertex.id).copied().unwrap_or_default();
        // The task of a source has no input of its own.
        let records_in = if is_source(&vertex.id) { reading.source_in } else { reading.task_in };
        Vertex {
            name: secret::hide_in(&vertex.name),
            status: vertex.status.clone(),
            parallelism: vertex.parallelism,
            running: vertex.tasks.get("RUNNING").copied().unwrap_or_default(),
            busy: reading.busy.map(percent),
            backpressure: reading.backpressure.map(percent),
            records_in: records_in.map(short),
            records_out: reading.task_out.map(short),
            lag: reading.pending.map(short),
        }
    });
    Job {
        id: details.id.clone(),
        name: secret::hide_in(&details.name),
        state: details.state.to_string(),
        started_at: details.start_time.map(|milliseconds| milliseconds / 1_000),
        vertices: shown.collect(),
        count: details.vertices.len(),
        edges: edges.into_iter().collect(),
        unmeasured,
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a hundred")]
fn percent(part: f64) -> u8 {
    (part * 100.0).round() as u8
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vertices_are_those_of_the_job_with_the_edges_of_its_plan() {
        let details: JobDetails = serde_json::from_value(json!({
            "jid": "j", "name": "orders, password: hush", "state": "RUNNING", "start-time": 5_000,
            "vertices": [
                {"id": "a", "name": "Source", "status": "RUNNING", "parallelism": 2, "tasks": {"RUNNING": 2}},
                {"id": "b", "name": "Sink", "status": "FINISHED", "parallelism": 1, "tasks": {"FINISHED": 1}},
            ],
            "plan": {"nodes": [
                {"id": "b", "inputs": [{"id": "a"}, {"id": "a"}, {"id": "gone"}]},
                {"id": "a"},
            ]},
        }))
        .unwrap();
        let reading = Reading {
            task_in: Some(0.0),
            source_in: Some(1_500.0),
            pending: Some(7.0),
            ..Reading::default()
        };
        let job = job(&details, Ok(BTreeMap::from([("a".to_owned(), reading)])));
        assert!(!job.name.contains("hush"), "{}", job.name);
        assert_eq!((job.edges, job.count, job.started_at), (vec![(0, 1)], 2, Some(5)));
        let [source, sink] = &job.vertices[..] else { panic!("there are two") };
        assert_eq!((source.running, source.records_in.as_deref()), (2, Some("1.5k")));
        assert_eq!((source.lag.as_deref(), source.busy), (Some("7.0"), None));
        assert_eq!((sink.running, &*sink.status, &sink.records_in), (0, "FINISHED", &None));
    }

    #[test]
    fn a_job_of_many_vertices_is_cut() {
        let vertices: Vec<_> = (0..70).map(|it| json!({"id": format!("v{it}")})).collect();
        let details: JobDetails =
            serde_json::from_value(json!({"jid": "j", "state": "RUNNING", "vertices": vertices}))
                .unwrap();
        let job = job(&details, Err("no answer".to_owned()));
        assert_eq!((job.vertices.len(), job.count), (VERTICES_MAX, 70));
        assert_eq!(job.unmeasured.as_deref(), Some("no answer"));
    }
}
