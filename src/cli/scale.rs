//! `scale`: changes the parallelism of a job or of single vertices, or the TaskManagers of a standalone cluster.

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use super::args::{FlinkAccess, Global};
use super::connection::Connection;
use super::deployment::Deployment;
use super::edit::{self, EditFlags};
use super::failure::Failure;
use super::lookup;
use super::printer::Printer;
use super::set::{Setting, configuration_patch};
use super::{complete, job_manager};
use clients::flink::Deadlines;
use clients::flink::jobs::Vertex;
use config::options;
use config::options::autoscaler;
use config::structure::join_map;

/// Number of characters in a vertex id.
const VERTEX_ID_LENGTH: usize = 32;

/// Arguments of `scale`.
#[derive(Args)]
#[command(group = ArgGroup::new("to").required(true).multiple(true))]
#[command(after_help = "\
Give a vertex by its id, or by its name if that is unique; `kubectl flink status NAME` shows both.
With the adaptive scheduler a job is scaled while it runs; otherwise it is restarted.

Examples:
  kubectl flink scale orders --parallelism 8 --wait
  kubectl flink scale orders --vertex bc764cd8ddf7a0cff126f51c16239658=4 --vertex 'Sink: Writer=2'
  kubectl flink scale standalone-cluster --task-managers 3
  kubectl flink scale orders --parallelism 8 --dry-run=client    # shows the patch")]
pub struct ScaleArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Parallelism of each vertex that has none of its own
    #[arg(long, value_name = "NUMBER", group = "to", value_parser = clap::value_parser!(i32).range(1..))]
    parallelism: Option<i32>,
    /// Parallelism of this vertex; may be repeated
    #[arg(long, value_name = "ID=NUMBER", group = "to", value_parser = vertex)]
    vertex: Vec<(String, i32)>,
    /// Number of TaskManagers; an application's parallelism follows from it
    #[arg(long, value_name = "NUMBER", group = "to", conflicts_with = "parallelism", value_parser = clap::value_parser!(i32).range(1..))]
    task_managers: Option<i32>,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    flags: EditFlags,
}

fn vertex(text: &str) -> Result<(String, i32), String> {
    const EXPECTED: &str = "expected the id or name of a vertex, `=` and a number above 0";
    let (name, number) = text.rsplit_once('=').ok_or(EXPECTED)?;
    let number = number.trim().parse().ok().filter(|number| *number > 0).ok_or(EXPECTED)?;
    let name = name.trim();
    if name.is_empty() { Err(EXPECTED.to_owned()) } else { Ok((name.to_owned(), number)) }
}

/// Writes the numbers; the operator does the rest.
pub async fn run(args: ScaleArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ScaleArgs { name, parallelism, vertex, task_managers, access, flags } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch_to_change(&connection, &name).await?;
    let mut patch = json!({});
    if let Some(number) = parallelism {
        check_parallelism(&present)?;
        patch["spec"]["job"]["parallelism"] = json!(number);
    }
    if let Some(number) = task_managers {
        check_task_managers(&present)?;
        patch["spec"]["taskManager"]["replicas"] = json!(number);
    }
    if !vertex.is_empty() {
        let known = vertices(&connection, &present, access, printer).await?;
        let ids = vertex
            .iter()
            .map(|(name, number)| {
                Ok((resolve(&present, known.as_deref(), name, *number)?, *number))
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        patch["spec"]["flinkConfiguration"] = overrides_patch(&present, &ids)?;
    }
    if present.flink_config().find(&autoscaler::ENABLED)?.unwrap_or_default() {
        printer.warning(format_args!(
            "the autoscaler of `{}` is enabled and may override this",
            present.shown_name()
        ));
    }
    edit::carry_out(&connection, &present, &patch, "scaled", flags, printer).await
}

fn check_parallelism(present: &Deployment) -> Result<(), Failure> {
    let name = present.shown_name();
    if present.is_session() {
        return Err(Failure::new(format!(
            "`{name}` is a session cluster: it has no job of its own to scale"
        ))
        .hint("scale its jobs instead: kubectl flink scale sessionjob/NAME --parallelism NUMBER"));
    }
    if present.stated_task_managers().is_some() {
        return Err(Failure::new(format!(
            "the parallelism of `{name}` follows from spec.taskManager.replicas"
        ))
        .hint(format!("scale those: kubectl flink scale {name} --task-managers NUMBER")));
    }
    Ok(())
}

fn check_task_managers(present: &Deployment) -> Result<(), Failure> {
    let name = present.shown_name();
    if let Some(cluster) = present.session_cluster() {
        return Err(Failure::new(format!("`{name}` runs on the TaskManagers of its cluster"))
            .hint(format!("scale that: kubectl flink scale {cluster} --task-managers NUMBER")));
    }
    if present.is_session() && !present.is_standalone() {
        return Err(Failure::new(format!(
            "`{name}` is a native session cluster: its TaskManagers come and go with its jobs"
        ))
        .hint("scale its jobs instead: kubectl flink scale sessionjob/NAME --parallelism NUMBER"));
    }
    Ok(())
}

/// Returns the vertices of the running job; `None` if they cannot be read.
async fn vertices(
    connection: &Connection,
    present: &Deployment,
    access: FlinkAccess,
    printer: &Printer,
) -> anyhow::Result<Option<Vec<Vertex>>> {
    if present.is_session() {
        check_parallelism(present)?;
    }
    let asked = async {
        let Some(job_id) = present.job_id() else {
            return Err(Failure::new("its job has not started").into());
        };
        let cluster = lookup::cluster_of(connection, present).await?;
        let deadlines = Deadlines::default();
        let client = job_manager::client(connection, &cluster, access.flink_access, deadlines)?;
        anyhow::Ok(client.without_retries().job(job_id).await?.vertices)
    };
    match asked.await {
        Ok(vertices) => Ok(Some(vertices)),
        Err(error) => {
            printer.warning(format_args!(
                "could not check the vertices of `{}`: {error:#}",
                present.shown_name()
            ));
            Ok(None)
        }
    }
}

/// Returns the id of the given vertex if it may have this many subtasks.
fn resolve(
    present: &Deployment,
    known: Option<&[Vertex]>,
    meant: &str,
    number: i32,
) -> Result<String, Failure> {
    let name = present.shown_name();
    let is_id = meant.len() == VERTEX_ID_LENGTH && meant.chars().all(|c| c.is_ascii_hexdigit());
    let Some(known) = known else {
        if is_id {
            return Ok(meant.to_lowercase());
        }
        return Err(Failure::new(format!(
            "`{meant}` is not a vertex id, and the vertices of `{name}` are not known now"
        ))
        .hint("use the vertex's id, 32 hexadecimal digits"));
    };
    let found = known
        .iter()
        .filter(|vertex| vertex.id.eq_ignore_ascii_case(meant) || vertex.name == meant)
        .collect::<Vec<_>>();
    let [vertex] = found.as_slice() else {
        let which = if found.is_empty() { "no vertex" } else { "more than one vertex" };
        let failure = Failure::new(format!("`{name}` has {which} `{meant}`"));
        let list = |vertex: &Vertex| format!("{} is `{}`", vertex.id, vertex.name);
        return Err(known.iter().map(list).fold(failure, Failure::hint));
    };
    match vertex.max_parallelism {
        Some(most) if most > 0 && number > most => Err(Failure::new(format!(
            "`{meant}` of `{name}` can have at most {most} subtasks, its max parallelism"
        ))),
        _ => Ok(vertex.id.clone()),
    }
}

/// Adds the overrides to those in the spec.
fn overrides_patch(present: &Deployment, ids: &[(String, i32)]) -> anyhow::Result<Value> {
    let option = &options::PARALLELISM_OVERRIDES;
    let mut overrides = present.flink_config().find(option)?.unwrap_or_default();
    overrides.extend(ids.iter().map(|(id, number)| (id.clone(), number.to_string())));
    let setting = Setting { key: option.key().to_owned(), value: Some(join_map(&overrides)) };
    Ok(configuration_patch(present, &[setting])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vertex_of(id: char, name: &str, max_parallelism: i32) -> Vertex {
        let id: String = std::iter::repeat_n(id, VERTEX_ID_LENGTH).collect();
        serde_json::from_value(json!({"id": id, "name": name, "maxParallelism": max_parallelism}))
            .unwrap()
    }

    fn present(spec: Value) -> Deployment {
        Deployment(json!({"kind": "FlinkDeployment", "metadata": {"name": "orders"}, "spec": spec}))
    }

    #[test]
    fn a_vertex_is_meant_by_its_id_or_its_only_name() {
        let all =
            [vertex_of('a', "Source", 128), vertex_of('b', "Sink", 4), vertex_of('c', "Sink", 4)];
        let orders = present(json!({"job": {}}));
        let resolved = |meant: &str, number| {
            resolve(&orders, Some(&all), meant, number).map_err(|failure| failure.to_string())
        };
        assert_eq!(resolved("Source", 8).unwrap(), all[0].id);
        assert_eq!(resolved(&all[1].id.to_uppercase(), 4).unwrap(), all[1].id);
        assert_eq!(resolved("Sink", 1).unwrap_err(), "`orders` has more than one vertex `Sink`");
        assert_eq!(resolved("Map", 1).unwrap_err(), "`orders` has no vertex `Map`");
        assert!(resolved(&all[1].id, 5).unwrap_err().contains("at most 4 subtasks"));
        assert_eq!(resolve(&orders, None, &all[0].id, 500).unwrap(), all[0].id);
        assert!(resolve(&orders, None, "Source", 1).is_err(), "names need the JobManager");
    }

    #[test]
    fn overrides_are_added_to_those_that_are_there() {
        let with = |configuration| {
            overrides_patch(
                &present(json!({"job": {}, "flinkConfiguration": configuration})),
                &[("b".into(), 3)],
            )
            .unwrap()
        };
        let key = "pipeline.jobvertex-parallelism-overrides";
        assert_eq!(with(json!({})), json!({key: "b:3"}));
        assert_eq!(with(json!({key: "a:1,b:2"})), json!({key: "a:1,b:3"}));
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        let session = present(json!({}));
        assert!(check_parallelism(&session).is_err());
        assert!(check_task_managers(&session).is_err());
        assert!(check_task_managers(&present(json!({"mode": "standalone"}))).is_ok());
        let replicas = present(json!({"job": {}, "taskManager": {"replicas": 2}}));
        assert!(check_parallelism(&replicas).is_err());
        assert!(check_task_managers(&replicas).is_ok());
        assert_eq!(vertex("Sink: a=b=3").unwrap(), ("Sink: a=b".to_owned(), 3));
        for wrong in ["=3", "a=0", "a", "a=b"] {
            assert!(vertex(wrong).is_err(), "{wrong}");
        }
    }
}
