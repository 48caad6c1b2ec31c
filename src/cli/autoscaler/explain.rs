//! `autoscaler explain`: what the autoscaler would decide for a running job now, and by which rule.
//!
//! It measures the job once, adds the measurement to the stored samples, and decides as the operator does. It writes
//! nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::number::{self, Number};
use super::stored::{self, Job};
use crate::cli::args::{DetailFormat, FlinkAccess, Global, Output};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::extension::invalid;
use crate::cli::failure::Failure;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use crate::cli::{complete, job_manager, operator_config};
use api::deployment::FlinkDeployment;
use api::reconciled::running_spec;
use api::session_job::FlinkSessionJob;
use autoscaler::advice;
use autoscaler::cost::{Cost, Pods, slots};
use autoscaler::cycle::{Cycle, OwnedFacts};
use autoscaler::metric::{Figures, Metric};
use autoscaler::plugin;
use autoscaler::quota::TaskManager;
use autoscaler::settings::Settings;
use autoscaler::state::Stored;
use autoscaler::vertex_scaler::{Step, VertexDecision};
use clients::flink::Deadlines;
use clients::flink::access::Access;
use clients::flink::scaling::{Measured, Names};
use config::cluster::{ResourceId, deploy_config};
use config::memory::MemorySize;
use config::options::{TASK_MANAGER_CPU, TASK_MANAGER_PROCESS_MEMORY};
use config::session_job::{JobSpecs, job_config};
use config::{FlinkConfig, OperatorConfig};
use operator::scaling_rules::ScalingRules;

/// Arguments of `autoscaler explain`.
#[derive(Args)]
#[command(after_help = "\
The job is measured once, and evaluated with the samples the operator has stored. Nothing is written.

Examples:
  # Each vertex: its rates, the rule that decided, and all intermediate numbers
  kubectl flink autoscaler explain orders -o wide")]
pub(super) struct ExplainArgs {
    /// The FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// The operator's configuration, for its autoscaler defaults and rules: a file or a directory
    #[arg(long, value_name = "PATH")]
    operator_config: Option<PathBuf>,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<DetailFormat>,
}

/// The decisions the autoscaler would make; rates are records per second.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Report {
    name: String,
    pub(in crate::cli) outcome: String,
    pub(in crate::cli) is_backlog: bool,
    samples: usize,
    running_since: Timestamp,
    /// Requests of the pods, now and with the recommended parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    pub(in crate::cli) vertices: Vec<Vertex>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Vertex {
    pub(in crate::cli) id: String,
    pub(in crate::cli) parallelism: u32,
    max_parallelism: u32,
    /// The parallelism recommended for this vertex, whether or not the job is scaled now.
    pub(in crate::cli) recommended: u32,
    is_outside_of_bounds: bool,
    /// The rule that decided; `None` if no decision was due.
    pub(in crate::cli) rule: Option<String>,
    pub(in crate::cli) number: Option<Number>,
    pub(in crate::cli) rates: BTreeMap<&'static str, Number>,
    steps: Vec<Rule>,
    waits_until: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Rule {
    rule: String,
    number: Number,
}

/// Measures the job, decides and prints the result.
pub(super) async fn run(
    args: ExplainArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let ExplainArgs { name, operator_config, access, output: Output { output } } = args;
    let operator = match &operator_config {
        Some(path) => operator_config::load(Some(path), printer)?,
        None => OperatorConfig::default(),
    };
    let connection = global.connect().await?;
    let job = stored::fetch(&connection, &name).await?;
    let (access, deadlines) = (access.flink_access, Deadlines::default());
    let report = explained(&connection, &job, &operator, access, deadlines).await?;
    match output {
        Some(DetailFormat::Value(format)) => printer.value(&report, format)?,
        None | Some(DetailFormat::Wide | DetailFormat::Name) => {
            printer.line(render(&report, output == Some(DetailFormat::Wide)))?;
        }
    }
    Ok(())
}

/// Measures the job once and decides as the operator does.
pub(in crate::cli) async fn explained(
    connection: &Connection,
    job: &Job,
    operator: &OperatorConfig,
    access: Access,
    deadlines: Deadlines,
) -> anyhow::Result<Report> {
    let stored = job.readable()?.cloned().unwrap_or_default();
    let cluster = lookup::cluster_of(connection, &job.resource).await?;
    let config = effective(&job.resource, &cluster, operator)?;
    let measured = measure(connection, job, &cluster, access, deadlines).await?;
    let rules = ScalingRules::configured(&operator.base).map_err(invalid)?;
    report(job, stored, &config, measured, &rules).await
}

async fn measure(
    connection: &Connection,
    job: &Job,
    cluster: &Deployment,
    access: Access,
    deadlines: Deadlines,
) -> anyhow::Result<Measured> {
    let name = job.resource.shown_name();
    let (Some(id), Some("RUNNING")) = (job.resource.job_id(), job.resource.job_state()) else {
        let state = job.resource.job_state().unwrap_or("not known");
        return Err(Failure::new(format!("the job of `{name}` is not RUNNING but {state}"))
            .hint(format!("see its stored data: kubectl flink autoscaler status {name}"))
            .into());
    };
    let client = job_manager::client(connection, cluster, access, deadlines)?;
    let measured = client.without_retries().measure(id, &mut Names::default()).await;
    measured.with_context(|| format!("while measuring the job of `{name}`"))
}

/// Returns the options in force for the resource.
pub(in crate::cli) fn effective(
    job: &Deployment,
    cluster: &Deployment,
    operator: &OperatorConfig,
) -> anyhow::Result<FlinkConfig> {
    let deployment: FlinkDeployment = typed(cluster)?;
    let id = ResourceId {
        namespace: cluster.namespace().to_owned(),
        name: cluster.name().to_owned(),
        uid: cluster.uid().unwrap_or_default().to_owned(),
    };
    if !job.is_session_job() {
        let mode = deployment.spec.job.as_ref().map(|job| job.upgrade_mode);
        return Ok(deploy_config(operator, &id, &deployment.spec, mode, job.generation())?);
    }
    let session_job: FlinkSessionJob = typed(job)?;
    Ok(job_config(&JobSpecs {
        operator,
        cluster: &id,
        deployed_cluster: &running_spec(&deployment)?,
        current_cluster: &deployment.spec,
        name: job.name(),
        deployed: &session_job.spec,
        current: &session_job.spec,
    })?)
}

fn typed<K: DeserializeOwned>(resource: &Deployment) -> anyhow::Result<K> {
    serde_json::from_value(resource.0.clone())
        .with_context(|| format!("while reading `{}`", resource.shown_name()))
}

async fn report(
    job: &Job,
    stored: Stored,
    config: &FlinkConfig,
    measured: Measured,
    rules: &ScalingRules,
) -> anyhow::Result<Report> {
    let Measured { running_since, topology, reading } = measured;
    let now = Timestamp::now();
    let mut settings = Settings::read(config)?;
    rules.check(&settings).map_err(|undefined| {
        Failure::new(undefined).hint("pass the operator's configuration with --operator-config")
    })?;
    settings.advised_until = advice::until(&stored.kept, now);
    let task_manager = TaskManager {
        cpu: config.find(&TASK_MANAGER_CPU)?.filter(|cpu| *cpu > 0.0),
        memory: config.find(&TASK_MANAGER_PROCESS_MEMORY)?,
    };
    let subject = plugin::Job {
        namespace: Some(job.resource.namespace().to_owned()),
        name: job.resource.name().to_owned(),
        id: job.resource.job_id().map(str::to_owned),
    };
    let facts = Arc::new(OwnedFacts {
        now,
        zone: TimeZone::system(),
        settings,
        config: config.clone(),
        topology,
        running_since,
        reading,
        task_manager,
        pods: Pods::of(config, job.resource.is_session_job()),
        job: Some(subject),
    });
    let before = Arc::new(stored.state);
    let cycle = rules.cycle(&before, &facts).await.map_err(anyhow::Error::msg)?;
    let Cycle { state, outcome, evaluation, decisions, cost, .. } = cycle;
    let topology = &facts.topology;
    let as_it_is = || {
        let memory = state.config.overrides.get(TASK_MANAGER_PROCESS_MEMORY.key());
        let pods = facts.pods?.with_memory(memory.and_then(|text| MemorySize::parse(text)));
        let requested = pods.request(slots(topology, |_, now| now), facts.settings.prices);
        Some(Cost { before: requested, after: requested })
    };
    let cost = cost.or_else(as_it_is);
    let evaluation = evaluation.unwrap_or_default();
    let none = Figures::default();
    let vertices = topology.in_order().map(|(id, vertex)| {
        let figures = evaluation.vertices.get(id).unwrap_or(&none);
        let decision = decisions.get(id);
        let decider = decision.and_then(VertexDecision::decider);
        Vertex {
            id: id.to_string(),
            parallelism: vertex.parallelism,
            max_parallelism: vertex.max_parallelism,
            recommended: decision.map_or(vertex.parallelism, |of| of.new),
            is_outside_of_bounds: decision.is_some_and(|of| of.is_outside),
            rule: decider.as_ref().map(|step| step.rule.to_string()),
            number: decider.map(|step| Number(step.number)),
            rates: rates(figures),
            steps: decision.iter().flat_map(|of| of.steps.iter().map(described)).collect(),
            waits_until: decision.and_then(|of| of.waits_until),
        }
    });
    Ok(Report {
        name: job.resource.shown_name(),
        outcome: outcome.to_string(),
        is_backlog: evaluation.is_backlog,
        samples: state.samples.len(),
        running_since,
        cost,
        vertices: vertices.collect(),
    })
}

fn described(step: &Step) -> Rule {
    Rule { rule: step.rule.to_string(), number: Number(step.number) }
}

/// Returns the rates by the names under which they are exported.
fn rates(figures: &Figures) -> BTreeMap<&'static str, Number> {
    let average = [Metric::Load, Metric::TrueProcessingRate, Metric::TargetDataRate];
    let current = [
        Metric::CatchUpDataRate,
        Metric::Lag,
        Metric::ScaleUpRateThreshold,
        Metric::ScaleDownRateThreshold,
        Metric::ExpectedProcessingRate,
    ];
    let average = average.map(|of| (of.into_str(), Number(figures.average(of))));
    average
        .into_iter()
        .chain(current.map(|of| (of.into_str(), Number(figures.current(of)))))
        .collect()
}

fn render(report: &Report, is_wide: bool) -> String {
    let rate = |vertex: &Vertex, metric: Metric| {
        number::shown(vertex.rates.get(metric.into_str()).map_or(f64::NAN, |of| of.0))
    };
    let rows = report
        .vertices
        .iter()
        .map(|vertex| {
            let change = if vertex.recommended == vertex.parallelism {
                vertex.parallelism.to_string()
            } else {
                format!("{} -> {}", vertex.parallelism, vertex.recommended)
            };
            let rule = match (&vertex.rule, vertex.number) {
                (Some(rule), Some(number)) => format!("{rule}: {}", number::shown(number.0)),
                _ => NONE.to_owned(),
            };
            vec![
                vertex.id.clone(),
                change,
                rate(vertex, Metric::Load),
                rate(vertex, Metric::TrueProcessingRate),
                rate(vertex, Metric::TargetDataRate),
                rate(vertex, Metric::CatchUpDataRate),
                rate(vertex, Metric::ScaleUpRateThreshold),
                rate(vertex, Metric::ScaleDownRateThreshold),
                rule,
            ]
        })
        .collect();
    let headers = [
        "VERTEX",
        "PARALLELISM",
        "LOAD",
        "TRUE RATE",
        "TARGET RATE",
        "CATCH-UP",
        "UP BELOW",
        "DOWN ABOVE",
        "DECIDED BY",
    ];
    let backlog =
        if report.is_backlog { "\nBecause of the backlog nothing is scaled down." } else { "" };
    let cost = report.cost.map_or_else(String::new, |cost| format!("\nRequested: {cost}"));
    let mut text = format!(
        "{}\n\n{}: {} samples since {}{backlog}{cost}",
        table::render(&headers, rows),
        report.outcome,
        report.samples,
        report.running_since
    );
    if is_wide {
        for vertex in report.vertices.iter().filter(|vertex| !vertex.steps.is_empty()) {
            text.push_str("\n\n");
            text.push_str(&vertex.id);
            for step in &vertex.steps {
                let number = number::shown(step.number.0);
                // Writing to a string cannot fail.
                let _written = write!(text, "\n  {:<60} {number}", step.rule);
            }
        }
    }
    text
}
