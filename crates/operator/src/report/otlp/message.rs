//! Metrics as OTLP: the message that a collector accepts over gRPC, and over HTTP at `/v1/metrics`.
//!
//! Names are those of Flink's OpenTelemetry reporter. Unlike Prometheus' form, this one has counters and quantiles, so
//! they are sent as such.

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use metrics::Identity;
use metrics::family::{Family, Point, Scope, Value};
use metrics::histogram::QUANTILES;

/// Maximum number of values in one body: a few hundred kilobytes.
const POINTS_MAX: usize = 1000;

/// The properties that all values share.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) identity: Identity,
    /// `service.name` and `service.version`.
    pub(super) service: String,
    pub(super) version: String,
    /// When the process started to count, in nanoseconds since the epoch.
    pub(super) started: u64,
}

/// Returns the bodies, each of a bounded size, as of `now` in nanoseconds since the epoch.
pub(super) fn bodies<'f>(
    families: &'f [Family],
    source: &'f Source,
    now: u64,
) -> impl Iterator<Item = Vec<u8>> + 'f {
    let parts = families
        .iter()
        .flat_map(|family| family.points.chunks(POINTS_MAX).map(move |points| (family, points)));
    let mut parts = parts.peekable();
    std::iter::from_fn(move || {
        let (mut metrics, mut count) = (Vec::new(), 0);
        while let Some((family, points)) =
            parts.next_if(|(_, points)| count == 0 || count + points.len() <= POINTS_MAX)
        {
            count += points.len();
            metrics.push(metric(family, points, source, now));
        }
        (!metrics.is_empty()).then(|| request(metrics, source).encode_to_vec())
    })
}

/// Returns how many values of an accepted body were rejected all the same, and why.
pub(super) fn refused(answer: &[u8]) -> Option<(i64, String)> {
    let partial = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
    let count = partial.rejected_data_points;
    (count > 0).then_some((count, partial.error_message))
}

fn request(metrics: Vec<Metric>, source: &Source) -> ExportMetricsServiceRequest {
    let Source { identity: Identity { host, namespace, name }, service, version, started: _ } =
        source;
    let attributes = attributes([
        ("service.name", service.as_str()),
        ("service.version", version),
        ("host", host),
        ("namespace", namespace),
        ("name", name),
    ]);
    let scope = InstrumentationScope { name: "kubectl-flink".to_owned(), ..Default::default() };
    let scope_metrics = ScopeMetrics { scope: Some(scope), metrics, ..Default::default() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes, ..Default::default() }),
            scope_metrics: vec![scope_metrics],
            ..Default::default()
        }],
    }
}

/// Returns one metric with some of its values.
fn metric(family: &Family, points: &[Point], source: &Source, now: u64) -> Metric {
    let rate = if family.is_rate() { ".rate" } else { "" };
    let name = match family.scope {
        Scope::Process => family.name.clone(),
        Scope::System => format!("flink.k8soperator.{}{rate}", family.name),
        Scope::Namespace => format!("flink.k8soperator.namespace.{}{rate}", family.name),
        Scope::Resource => format!("flink.k8soperator.namespace.resource.{}{rate}", family.name),
    };
    let numbers = || points.iter().filter_map(|point| number(point, source, now)).collect();
    let data = match points.first().map(|point| &point.value) {
        Some(Value::Count(_)) => Data::Sum(Sum {
            data_points: numbers(),
            // Since `started`, not since the last body.
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        Some(Value::Summary(_)) => Data::Summary(Summary {
            data_points: points.iter().filter_map(|point| summary(point, source, now)).collect(),
        }),
        Some(Value::Gauge(_)) | None => Data::Gauge(Gauge { data_points: numbers() }),
    };
    Metric { name, data: Some(data), ..Default::default() }
}

/// Returns a data point; `None` for a number without a value.
fn number(point: &Point, source: &Source, now: u64) -> Option<NumberDataPoint> {
    let (number, start) = match point.value {
        Value::Gauge(number) => (number, 0),
        Value::Count(number) => (number, source.started),
        Value::Summary(_) => return None,
    };
    number.is_finite().then(|| NumberDataPoint {
        attributes: attributes(point.labels()),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(Number::AsDouble(number)),
        ..Default::default()
    })
}

fn summary(point: &Point, source: &Source, now: u64) -> Option<SummaryDataPoint> {
    let Value::Summary(summary) = &point.value else { return None };
    let known = QUANTILES.iter().zip(summary.quantiles()).filter(|(_, value)| value.is_finite());
    Some(SummaryDataPoint {
        attributes: attributes(point.labels()),
        start_time_unix_nano: source.started,
        time_unix_nano: now,
        count: summary.count,
        quantile_values: known
            .map(|((_, quantile), value)| ValueAtQuantile { quantile: *quantile, value })
            .collect(),
        ..Default::default()
    })
}

fn attributes<'k, 'v>(pairs: impl IntoIterator<Item = (&'k str, &'v str)>) -> Vec<KeyValue> {
    let text = |text: &str| AnyValue { value: Some(any_value::Value::StringValue(text.into())) };
    let one = |(key, value): (&str, &str)| KeyValue {
        key: key.into(),
        value: Some(text(value)),
        ..Default::default()
    };
    pairs.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
