//! Writes the values as Jackson does: YAML in block style, strings in quotes, lists not indented.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::cycle::ConfigChanges;
use crate::delayed::Delayed;
use crate::metric::Metric;
use crate::sample::Sample;
use crate::scaling_history::{Reason, Reasons, Restarts, ScalingHistory};
use crate::topology::VertexId;
use config::structure::join_map;

use super::text::{compress, decimal, double, instant};

/// A document built line by line.
struct Yaml(String);

impl Yaml {
    fn new() -> Self {
        Self("---\n".to_owned())
    }

    fn line(&mut self, indent: usize, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _written = writeln!(self.0, "{:indent$}{text}", "");
    }

    /// Writes a key whose entries follow, if it has any.
    fn open(&mut self, indent: usize, key: &str, is_empty: bool) {
        let rest = if is_empty { " {}" } else { "" };
        self.line(indent, format_args!("{key}:{rest}"));
    }
}

pub(super) fn history(history: &ScalingHistory) -> Option<String> {
    if history.is_empty() {
        return None;
    }
    let mut yaml = Yaml::new();
    for (id, scalings) in history {
        yaml.open(0, id.as_str(), scalings.is_empty());
        for (time, scaling) in scalings {
            yaml.open(2, &instant(*time), false);
            yaml.line(4, format_args!("currentParallelism: {}", scaling.current));
            yaml.line(4, format_args!("newParallelism: {}", scaling.new));
            yaml.open(4, "metrics", scaling.figures.0.is_empty());
            for (metric, evaluated) in &scaling.figures.0 {
                yaml.open(6, metric.into_str(), false);
                yaml.line(8, format_args!("current: {}", double(evaluated.current)));
                yaml.line(8, format_args!("average: {}", double(evaluated.average)));
            }
        }
    }
    Some(compress(&yaml.0))
}

pub(super) fn reasons(reasons: &Reasons) -> Option<String> {
    if reasons.is_empty() {
        return None;
    }
    let mut yaml = Yaml::new();
    for (id, of_vertex) in reasons {
        yaml.open(0, id.as_str(), of_vertex.is_empty());
        for (time, Reason { rule, number }) in of_vertex {
            yaml.open(2, &instant(*time), false);
            yaml.line(4, format_args!("rule: {}", quoted(rule)));
            yaml.line(4, format_args!("number: {}", double(*number)));
        }
    }
    Some(compress(&yaml.0))
}

pub(super) fn tracking(restarts: &Restarts) -> Option<String> {
    if restarts.is_empty() {
        return None;
    }
    let mut yaml = Yaml::new();
    yaml.open(0, "scalingRecords", false);
    for (time, took) in restarts {
        yaml.open(2, &instant(*time), took.is_none());
        if let Some(took) = took {
            yaml.line(4, format_args!("restartDuration: {}", decimal(took.as_nanos())));
        }
    }
    Some(compress(&yaml.0))
}

pub(super) fn samples<'a>(
    samples: impl Iterator<Item = (&'a Timestamp, &'a Sample)>,
) -> Option<String> {
    let mut samples = samples.peekable();
    samples.peek()?;
    let mut yaml = Yaml::new();
    for (time, sample) in samples {
        yaml.open(0, &instant(*time), false);
        yaml.open(2, "vertexMetrics", sample.vertices.is_empty());
        for (id, values) in &sample.vertices {
            figures(&mut yaml, 4, id.as_str(), values.iter());
        }
        figures(&mut yaml, 2, "globalMetrics", sample.job.iter());
    }
    Some(compress(&yaml.0))
}

fn figures(yaml: &mut Yaml, indent: usize, key: &str, values: impl Iterator<Item = (Metric, f64)>) {
    let mut values = values.peekable();
    yaml.open(indent, key, values.peek().is_none());
    for (metric, value) in values {
        yaml.line(indent + 2, format_args!("{metric}: {}", double(value)));
    }
}

pub(super) fn parallelism<'a>(
    overrides: impl IntoIterator<Item = (&'a VertexId, &'a u32)>,
) -> Option<String> {
    let entries =
        overrides.into_iter().map(|(id, parallelism)| (id.as_str(), parallelism.to_string()));
    Some(join_map(entries)).filter(|text| !text.is_empty())
}

pub(super) fn config(changes: &ConfigChanges) -> Option<String> {
    let ConfigChanges { overrides, removals } = changes;
    if overrides.is_empty() && removals.is_empty() {
        return None;
    }
    let mut yaml = Yaml::new();
    yaml.open(0, "overrides", overrides.is_empty());
    for (key, value) in overrides {
        yaml.line(2, format_args!("{}: {}", quoted(key), quoted(value)));
    }
    yaml.line(0, format_args!("removals:{}", if removals.is_empty() { " []" } else { "" }));
    for key in removals {
        yaml.line(0, format_args!("- {}", quoted(key)));
    }
    Some(yaml.0)
}

pub(super) fn delayed(delayed: &Delayed) -> Option<String> {
    if delayed.0.is_empty() {
        return None;
    }
    let mut yaml = Yaml::new();
    yaml.open(0, "delayedVertices", false);
    for (id, waiting) in &delayed.0 {
        yaml.open(2, id.as_str(), false);
        let since = decimal(waiting.since.as_nanosecond());
        yaml.line(4, format_args!("firstTriggerTime: {since}"));
        let is_empty = waiting.recommended.is_empty();
        let rest = if is_empty { " []" } else { "" };
        yaml.line(4, format_args!("recommendedParallelisms:{rest}"));
        for one in &waiting.recommended {
            let at = decimal(one.at.as_nanosecond());
            yaml.line(4, format_args!("- triggerTime: {at}"));
            yaml.line(6, format_args!("parallelism: {}", one.parallelism));
            yaml.line(6, format_args!("outsideUtilizationBound: {}", one.is_outside));
        }
    }
    Some(yaml.0)
}

/// Quotes a text: a JSON string is also a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
