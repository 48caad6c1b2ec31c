//! Metrics in the text format of `OpenMetrics`, with the names of Flink's Prometheus reporter.
//!
//! As in that reporter, Flink's counters are published as gauges, and histograms as quantiles and a count, so that
//! queries written for the Java operator continue to work.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::Identity;
use super::family::{Family, Point, Scope, Value};
use super::histogram::QUANTILES;
use super::process::HELP;

/// The content type of the text that [`encode`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the text of all families; `size` is a guess of its length.
pub fn encode(
    families: Vec<Family>,
    identity: &Identity,
    filters_label_values: bool,
    size: usize,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let page = Page { families, identity: identity.clone(), filters_label_values };
    registry.register_collector(Box::new(page));
    let mut body = String::with_capacity(size);
    text::encode(&mut body, &registry)?;
    Ok(body)
}

/// The content type of the text that [`encode_plain`] returns.
pub const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the text in the form that preceded `OpenMetrics`, which `PushGateway` reads: a counter is named as its
/// values are, and the text has no end marker.
pub fn encode_plain(
    families: Vec<Family>,
    identity: &Identity,
    filters_label_values: bool,
) -> Result<String, fmt::Error> {
    let is_counter = |family: &&Family| {
        let first = family.points.first();
        family.scope == Scope::Process
            && first.is_some_and(|it| matches!(it.value, Value::Count(_)))
    };
    let counters: Vec<String> = families.iter().filter(is_counter).map(name_of).collect();
    let mut text = encode(families, identity, filters_label_values, 0)?.replace("# EOF\n", "");
    for name in counters {
        for comment in ["HELP", "TYPE"] {
            let (from, to) = (format!("# {comment} {name} "), format!("# {comment} {name}_total "));
            text = text.replace(&from, &to);
        }
    }
    Ok(text)
}

/// Contents of one text.
#[derive(Debug)]
struct Page {
    families: Vec<Family>,
    identity: Identity,
    filters_label_values: bool,
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.families.iter().filter(|family| !family.points.is_empty()) {
            let name = name_of(family);
            let help = help_of(family);
            let is_process = family.scope == Scope::Process;
            let is_counter =
                matches!(family.points.first(), Some(Point { value: Value::Count(_), .. }));
            let kind =
                if is_process && is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut values = encoder.encode_descriptor(&name, &help, None, kind)?;
            for point in &family.points {
                let labels = Labels { page: self, point, quantile: None };
                match &point.value {
                    Value::Count(number) if is_process => {
                        values.encode_counter(number, None::<&Exemplar<NoLabelSet, f64>>)?;
                    }
                    Value::Gauge(number) if is_process => values.encode_gauge(number)?,
                    Value::Gauge(number) | Value::Count(number) => {
                        values.encode_family(&labels)?.encode_gauge(number)?;
                    }
                    Value::Summary(summary) => {
                        for ((quantile, _), number) in QUANTILES.iter().zip(&summary.quantiles()) {
                            let labels = Labels { page: self, point, quantile: Some(*quantile) };
                            values.encode_family(&labels)?.encode_gauge(number)?;
                        }
                    }
                }
            }
            let counts = family.points.iter().filter_map(|point| match &point.value {
                Value::Summary(summary) => Some((point, summary.count)),
                Value::Gauge(_) | Value::Count(_) => None,
            });
            let mut counts = counts.peekable();
            if counts.peek().is_some() {
                let name = format!("{name}_count");
                let mut values =
                    encoder.encode_descriptor(&name, &help, None, MetricType::Gauge)?;
                for (point, count) in counts {
                    let labels = Labels { page: self, point, quantile: None };
                    values.encode_family(&labels)?.encode_gauge(&super::number(count))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the name that Flink's reporter uses: `.` becomes `_`, and the key of a key-value group precedes the last
/// part.
fn name_of(family: &Family) -> String {
    let scope = match family.scope {
        Scope::Process => return family.name.clone(),
        Scope::System => "flink_k8soperator_",
        Scope::Namespace => "flink_k8soperator_namespace_",
        Scope::Resource => "flink_k8soperator_namespace_resource_",
    };
    format!("{scope}{}", filtered(&family.name))
}

fn help_of(family: &Family) -> String {
    let scope = match family.scope {
        Scope::Process => {
            let help = HELP.iter().find(|(name, _)| *name == family.name);
            return help.map_or(String::new(), |(_, help)| (*help).to_owned());
        }
        Scope::System => "k8soperator",
        Scope::Namespace => "k8soperator_namespace",
        Scope::Resource => "k8soperator_namespace_resource",
    };
    format!("{} (scope: {scope})", family.name)
}

/// Replaces characters that a name may not contain. Label values are treated in the same way,
/// unless the reporter is configured otherwise.
pub(super) fn filtered(text: &str) -> Cow<'_, str> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, ':' | '_');
    if text.chars().all(is_good) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|letter| if is_good(letter) { letter } else { '_' }).collect())
}

/// The labels of one value.
struct Labels<'p> {
    page: &'p Page,
    point: &'p Point,
    quantile: Option<&'static str>,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let Identity { host, namespace, name } = &self.page.identity;
        let mut emit = |key: &str, value: &str| {
            // The encoder handles quotes and backslashes.
            let is_filtered = self.page.filters_label_values;
            let value = if is_filtered { filtered(value) } else { Cow::Borrowed(value) };
            EncodeLabel::encode(&(key, &*value), encoder.encode_label())
        };
        emit("host", host)?;
        emit("namespace", namespace)?;
        emit("name", name)?;
        for (key, value) in self.point.labels() {
            emit(key, value)?;
        }
        // Not filtered, because that would replace its decimal point.
        if let Some(quantile) = self.quantile {
            EncodeLabel::encode(&("quantile", quantile), encoder.encode_label())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
