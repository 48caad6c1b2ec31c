//! Parses the stored values. Anything that is not known exactly is an error: a newer operator may mean something else
//! by it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cycle::ConfigChanges;
use crate::delayed::{Delayed, Recommended, Waiting};
use crate::memory::check;
use crate::metric::{Evaluated, Figures, Metric, Values};
use crate::sample::Sample;
use crate::scaling_history::{Reason, Reasons, Restarts, Scaling, ScalingHistory};
use crate::topology::VertexId;
use crate::window::Samples;
use config::structure::split_map;

use super::TEXT_MAX;
use super::text::{decompress, read_double, read_duration, read_instant};

/// Scalars are read as text, so that no digit is lost.
type Text = String;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScalingText {
    current_parallelism: u32,
    new_parallelism: u32,
    metrics: BTreeMap<Text, EvaluatedText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluatedText {
    current: Text,
    average: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonText {
    rule: Text,
    number: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TrackingText {
    scaling_records: BTreeMap<Text, RecordText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecordText {
    restart_duration: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SampleText {
    vertex_metrics: BTreeMap<Text, BTreeMap<Text, Text>>,
    global_metrics: Option<BTreeMap<Text, Text>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigText {
    overrides: BTreeMap<Text, Text>,
    removals: BTreeSet<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DelayedText {
    delayed_vertices: BTreeMap<Text, WaitingText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WaitingText {
    first_trigger_time: Text,
    recommended_parallelisms: Vec<RecommendedText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecommendedText {
    trigger_time: Text,
    parallelism: u32,
    outside_utilization_bound: bool,
}

/// Parses YAML; `None` for an empty text.
fn yaml<T: DeserializeOwned>(text: &str) -> Result<Option<T>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.len() as u64 > TEXT_MAX {
        return Err(format!("it is longer than {TEXT_MAX} characters"));
    }
    // Enough for the figures of a thousand vertices over an hour; no writer uses anchors. In a database it is JSON,
    // which nests in flow style.
    let budget = serde_yaml::budget! {
        max_events: 6_000_000,
        max_nodes: 3_000_000,
        max_anchors: 0,
        max_aliases: 0,
        max_depth: 8,
        flow_nesting_limit: 8,
    };
    serde_yaml::from_str_with_options(text, serde_yaml::options! { budget: budget })
        .map(Some)
        .map_err(|error| error.to_string())
}

fn compressed<T: DeserializeOwned>(value: &str) -> Result<Option<T>, String> {
    yaml(&decompress(value)?)
}

pub(super) fn history(value: &str) -> Result<ScalingHistory, String> {
    let vertices: Option<BTreeMap<Text, BTreeMap<Text, ScalingText>>> = compressed(value)?;
    let scaling = |(time, of): (Text, ScalingText)| {
        let ScalingText { current_parallelism: current, new_parallelism: new, metrics } = of;
        if current == 0 || new == 0 || current == new {
            return Err(format!("`{current}` to `{new}` is not a scaling"));
        }
        let figures = metrics.into_iter().map(|(metric, of)| {
            let EvaluatedText { current, average } = of;
            let [current, average] = [read_double(&current)?, read_double(&average)?];
            Ok((known(&metric)?, Evaluated { current, average }))
        });
        let figures = Figures(figures.collect::<Result<_, String>>()?);
        Ok((read_instant(&time)?, Scaling { current, new, figures }))
    };
    vertices
        .unwrap_or_default()
        .into_iter()
        .map(|(id, scalings)| {
            let scalings = scalings.into_iter().map(scaling).collect::<Result<_, String>>()?;
            Ok((vertex(&id)?, scalings))
        })
        .collect()
}

pub(super) fn reasons(value: &str) -> Result<Reasons, String> {
    let vertices: Option<BTreeMap<Text, BTreeMap<Text, ReasonText>>> = compressed(value)?;
    let reason = |(time, ReasonText { rule, number }): (Text, ReasonText)| {
        Ok((read_instant(&time)?, Reason { rule, number: read_double(&number)? }))
    };
    vertices
        .unwrap_or_default()
        .into_iter()
        .map(|(id, of)| {
            Ok((vertex(&id)?, of.into_iter().map(reason).collect::<Result<_, String>>()?))
        })
        .collect()
}

pub(super) fn tracking(value: &str) -> Result<Restarts, String> {
    let Some(TrackingText { scaling_records }) = compressed(value)? else {
        return Ok(Restarts::new());
    };
    let record = |(time, RecordText { restart_duration }): (Text, RecordText)| {
        let took = restart_duration.map(|text| read_duration(&text)).transpose()?;
        Ok((read_instant(&time)?, took))
    };
    scaling_records.into_iter().map(record).collect()
}

pub(super) fn samples(value: &str) -> Result<Samples, String> {
    let samples: Option<BTreeMap<Text, SampleText>> = compressed(value)?;
    let sample = |(time, of): (Text, SampleText)| {
        let vertices = of.vertex_metrics.into_iter();
        let vertices = vertices.map(|(id, of)| Ok((vertex(&id)?, values(of)?)));
        let vertices = vertices.collect::<Result<_, String>>()?;
        let job = values(of.global_metrics.unwrap_or_default())?;
        Ok((read_instant(&time)?, Sample { vertices, job }))
    };
    samples.unwrap_or_default().into_iter().map(sample).collect()
}

/// Parses an id as Flink writes it; only ids may be written to YAML without quotes.
fn vertex(id: &str) -> Result<VertexId, String> {
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(id.into()) } else { Err(format!("`{id}` is not a vertex id")) }
}

fn values(texts: BTreeMap<Text, Text>) -> Result<Values, String> {
    let mut values = Values::default();
    for (metric, value) in texts {
        values.set(known(&metric)?, read_double(&value)?);
    }
    Ok(values)
}

fn known(metric: &str) -> Result<Metric, String> {
    Metric::parse(metric).ok_or_else(|| format!("`{metric}` is not a known metric"))
}

pub(super) fn parallelism(value: &str) -> Result<BTreeMap<VertexId, u32>, String> {
    let entries = split_map(value).ok_or_else(|| format!("`{value}` is not a map"))?;
    let entry = |(id, text): (Text, Text)| match text.trim().parse() {
        Ok(parallelism) if parallelism > 0 => Ok((vertex(&id)?, parallelism)),
        Ok(_) | Err(_) => Err(format!("`{text}` of vertex `{id}` is not a parallelism")),
    };
    entries.into_iter().map(entry).collect()
}

pub(super) fn config(value: &str) -> Result<ConfigChanges, String> {
    let Some(ConfigText { overrides, removals }) = yaml(value)? else {
        return Ok(ConfigChanges::default());
    };
    let changes = ConfigChanges { overrides, removals };
    check(&changes)?;
    Ok(changes)
}

pub(super) fn delayed(value: &str) -> Result<Delayed, String> {
    let Some(DelayedText { delayed_vertices }) = yaml(value)? else {
        return Ok(Delayed::default());
    };
    let recommended = |of: RecommendedText| {
        if of.parallelism == 0 {
            return Err("0 is not a parallelism".to_owned());
        }
        Ok(Recommended {
            at: read_instant(&of.trigger_time)?,
            parallelism: of.parallelism,
            is_outside: of.outside_utilization_bound,
        })
    };
    let waiting = |(id, of): (Text, WaitingText)| {
        let queue = of.recommended_parallelisms.into_iter().map(recommended);
        let queue: VecDeque<Recommended> = queue.collect::<Result<_, String>>()?;
        if queue
            .iter()
            .zip(queue.iter().skip(1))
            .any(|(one, next)| one.at > next.at || one.parallelism <= next.parallelism)
        {
            return Err(format!("recommendations of vertex `{id}` are not in order"));
        }
        let since = read_instant(&of.first_trigger_time)?;
        Ok((vertex(&id)?, Waiting { since, recommended: queue }))
    };
    delayed_vertices.into_iter().map(waiting).collect::<Result<_, String>>().map(Delayed)
}
