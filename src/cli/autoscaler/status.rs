//! `autoscaler status`: the parallelism in effect and the stored state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::stored::{self, Job};
use crate::cli::args::{Global, ObjectFormat, Output};
use crate::cli::complete;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use autoscaler::cost::Cost;
use autoscaler::settings::Settings;
use autoscaler::state::Stored;
use autoscaler::topology::VertexId;
use config::options::autoscaler::ENABLED;

/// Arguments of `autoscaler status`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # What is in force for a job, and how much was measured
  kubectl flink autoscaler status orders

  # The same for a job in a session cluster, as JSON
  kubectl flink autoscaler status sessionjob/clicks -o json")]
pub(super) struct StatusArgs {
    /// The FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// The stored state of an autoscaler; times are those of the operator's clock.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Report {
    name: String,
    job_state: Option<String>,
    lifecycle_state: Option<String>,
    /// `None` if the resource does not set it, so that the operator's defaults apply.
    is_enabled: Option<bool>,
    config_map: String,
    is_stored: bool,
    samples: Samples,
    last_scaling: Option<Timestamp>,
    /// Requests of the pods before and after the last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    pub(in crate::cli) vertices: BTreeMap<String, Vertex>,
    /// Options set by memory tuning.
    configuration: BTreeMap<String, String>,
    pub(in crate::cli) set_aside: Vec<SetAside>,
}

#[derive(Debug, Default, Serialize)]
struct Samples {
    count: usize,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Vertex {
    /// The parallelism that was decided.
    pub(in crate::cli) parallelism: Option<u32>,
    last_change: Option<Change>,
    /// Since when a lower parallelism would suffice.
    pub(in crate::cli) waits_since: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Change {
    at: Timestamp,
    from: u32,
    to: u32,
}

/// A stored value that could not be read, and where it is kept.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct SetAside {
    key: &'static str,
    kept_as: String,
    reason: String,
}

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, kept_as, reason } = self;
        write!(f, "`{key}` cannot be read and was set aside as `{kept_as}`: {reason}")
    }
}

/// Reads the state and prints it.
pub(super) async fn run(
    args: StatusArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let StatusArgs { name, output: Output { output } } = args;
    let connection = global.connect().await?;
    let job = stored::fetch(&connection, &name).await?;
    let report = report(&job, job.readable()?);
    match output {
        Some(ObjectFormat::Value(format)) => printer.value(&report, format)?,
        Some(ObjectFormat::Name) => {
            printer.line(format_args!("configmap/{}", report.config_map))?;
        }
        None | Some(ObjectFormat::Wide) => printer.line(render(&report, Timestamp::now()))?,
    }
    for aside in &report.set_aside {
        printer.warning(aside);
    }
    if report.is_enabled == Some(false) {
        return Ok(());
    }
    match Settings::read(&job.resource.flink_config()) {
        // The operator reports it in an event only, which expires after an hour.
        Err(error) => printer.warning(format_args!("the job is not scaled: {error}")),
        Ok(settings) => {
            for named in settings.plugins.iter() {
                printer.note(format_args!(
                    "{} takes part in the decisions: if the operator's configuration does not define it, \
                     the job is not scaled and has an AutoscalerError event",
                    named.id
                ));
            }
        }
    }
    Ok(())
}

pub(in crate::cli) fn report(job: &Job, stored: Option<&Stored>) -> Report {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let resource = &job.resource;
    let config = resource.flink_config();
    let nothing = Stored::default();
    let Stored { state, set_aside, kept } = stored.unwrap_or(&nothing);
    let times = || state.samples.keys().copied();
    let ids: BTreeSet<&VertexId> = state
        .overrides
        .keys()
        .chain(state.scaling_history.keys())
        .chain(state.delayed.0.keys())
        .collect();
    let vertex = |id: &VertexId| Vertex {
        parallelism: state.overrides.get(id).copied(),
        last_change: state
            .scaling_history
            .get(id)
            .and_then(|history| history.last_key_value())
            .map(|(at, scaling)| Change { at: *at, from: scaling.current, to: scaling.new }),
        waits_since: state.delayed.0.get(id).map(|waiting| waiting.since),
    };
    Report {
        name: resource.shown_name(),
        job_state: text(resource.job_state()),
        lifecycle_state: text(resource.lifecycle()),
        is_enabled: config.is_set(&ENABLED).then(|| config.get(&ENABLED).unwrap_or_default()),
        config_map: job.config_map.clone(),
        is_stored: job.stored.is_some(),
        samples: Samples {
            count: state.samples.len(),
            first: times().next(),
            last: times().last(),
        },
        last_scaling: state
            .scaling_history
            .values()
            .filter_map(|history| history.keys().last())
            .max()
            .copied(),
        cost: Cost::stored(kept),
        vertices: ids.into_iter().map(|id| (id.to_string(), vertex(id))).collect(),
        configuration: state.config.overrides.clone(),
        set_aside: set_aside
            .iter()
            .map(|aside| SetAside {
                key: aside.key,
                kept_as: aside.kept_as.clone(),
                reason: aside.reason.clone(),
            })
            .collect(),
    }
}

/// Returns names and values for people.
pub(in crate::cli) fn facts(report: &Report, now: Timestamp) -> Vec<(&'static str, String)> {
    let ago = |at: Timestamp| format!("{} ago", table::age(now.as_second() - at.as_second()));
    let text = |text: &Option<String>| text.as_deref().unwrap_or(NONE).to_owned();
    let enabled = match report.is_enabled {
        Some(true) => "enabled",
        Some(false) => "disabled",
        None => "set by the operator's defaults",
    };
    let samples = match &report.samples {
        Samples { count, first: Some(first), last: Some(last) } => format!(
            "{count} over {}, the last {}",
            table::age(last.as_second() - first.as_second()),
            ago(*last)
        ),
        Samples { .. } => NONE.to_owned(),
    };
    let mut facts = vec![
        ("Job", format!("{}, {}", text(&report.job_state), text(&report.lifecycle_state))),
        ("Autoscaler", enabled.to_owned()),
        ("Samples", samples),
        ("Last scaling", report.last_scaling.map_or_else(|| NONE.to_owned(), ago)),
    ];
    facts.extend(report.cost.as_ref().map(|cost| ("Requested", cost.to_string())));
    let tuned = report.configuration.iter();
    facts.extend(tuned.map(|(key, value)| ("Tuned", format!("{key}: {value}"))));
    facts
}

fn render(report: &Report, now: Timestamp) -> String {
    let ago = |at: Timestamp| format!("{} ago", table::age(now.as_second() - at.as_second()));
    let rows = facts(report, now).into_iter().map(|(name, value)| vec![name.to_owned(), value]);
    let mut text = table::render(&["NAME", report.name.as_str()], rows.collect());
    let rows: Vec<Vec<String>> = report
        .vertices
        .iter()
        .map(|(id, vertex)| {
            let change = vertex.last_change.as_ref();
            vec![
                id.clone(),
                vertex.parallelism.map_or_else(|| NONE.to_owned(), |of| of.to_string()),
                change.map_or_else(
                    || NONE.to_owned(),
                    |Change { at, from, to }| format!("{from} -> {to}, {}", ago(*at)),
                ),
                vertex.waits_since.map_or_else(|| NONE.to_owned(), ago),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let headers = ["VERTEX", "PARALLELISM", "LAST CHANGE", "CAN SCALE DOWN SINCE"];
        text = format!("{text}\n\n{}", table::render(&headers, rows));
    }
    text
}
