//! Metrics as OTLP/HTTP in JSON: the body of `POST /v1/metrics`.
//!
//! Names are those of Flink's OpenTelemetry reporter. Unlike that of Prometheus, this form knows
//! counters and quantiles, so they are told as what they are.

use serde_json::{Map, Value as Json, json};

use super::Identity;
use super::family::{Family, Of, Point, Scope, Value};
use super::histogram::QUANTILES;

/// Values in one body: some hundred kilobytes.
const POINTS_MAX: usize = 1000;
/// Sums are since `started`, not since the last body.
const CUMULATIVE: u8 = 2;

/// The properties that all values share.
#[derive(Clone, Debug)]
pub struct Source {
    pub identity: Identity,
    /// `service.name` and `service.version`.
    pub service: String,
    pub version: String,
    /// When the process began to count, in nanoseconds since the epoch.
    pub started: i128,
}

/// The bodies, each of a bounded size, as of `now` in nanoseconds since the epoch.
pub fn bodies<'f>(
    families: &'f [Family],
    source: &'f Source,
    now: i128,
) -> impl Iterator<Item = String> + 'f {
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
        (!metrics.is_empty()).then(|| body(metrics, source))
    })
}

fn body(metrics: Vec<Json>, source: &Source) -> String {
    let Source { identity: Identity { host, namespace, name }, service, version, started: _ } =
        source;
    let attributes = attributes([
        ("service.name", service.as_str()),
        ("service.version", version),
        ("host", host),
        ("namespace", namespace),
        ("name", name),
    ]);
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes},
        "scopeMetrics": [{"scope": {"name": "kubectl-flink"}, "metrics": metrics}],
    }]})
    .to_string()
}

/// One metric with some of its values.
fn metric(family: &Family, points: &[Point], source: &Source, now: i128) -> Json {
    let name = match family.scope {
        Scope::Process => family.name.clone(),
        Scope::System => format!("flink.k8soperator.{}", family.name),
        Scope::Namespace => format!("flink.k8soperator.namespace.{}", family.name),
        Scope::Resource => format!("flink.k8soperator.namespace.resource.{}", family.name),
    };
    let values: Vec<Json> =
        points.iter().filter_map(|point| data_point(point, source, now)).collect();
    let mut metric = Map::new();
    metric.insert("name".to_owned(), json!(name));
    let (kind, data) = match points.first().map(|point| &point.value) {
        Some(Value::Count(_)) => {
            let sum = json!({
                "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": values,
            });
            ("sum", sum)
        }
        Some(Value::Summary(_)) => ("summary", json!({"dataPoints": values})),
        Some(Value::Gauge(_)) | None => ("gauge", json!({"dataPoints": values})),
    };
    metric.insert(kind.to_owned(), data);
    Json::Object(metric)
}

/// A number that JSON does not know is left out.
fn data_point(point: &Point, source: &Source, now: i128) -> Option<Json> {
    let mut data = json!({"attributes": labels(point), "timeUnixNano": now.to_string()});
    match &point.value {
        Value::Gauge(number) => data["asDouble"] = json!(number.is_finite().then_some(number)?),
        Value::Count(number) => {
            data["startTimeUnixNano"] = json!(source.started.to_string());
            data["asDouble"] = json!(number);
        }
        Value::Summary(summary) => {
            let (count, quantiles) = (summary.count, summary.quantiles());
            data["startTimeUnixNano"] = json!(source.started.to_string());
            data["count"] = json!(count.to_string());
            let known = QUANTILES.iter().zip(quantiles).filter(|(_, value)| value.is_finite());
            let values = known.map(|((_, part), value)| json!({"quantile": part, "value": value}));
            data["quantileValues"] = values.collect();
        }
    }
    Some(data)
}

fn labels(point: &Point) -> Json {
    let mut labels = Vec::new();
    match &point.of {
        Of::Operator => {}
        Of::Namespace(kind, namespace) => {
            labels.extend([("resourcens", &**namespace), ("resourcetype", kind.into_str())]);
        }
        Of::Resource(id) => labels.extend([
            ("resourcens", &*id.namespace),
            ("resourcetype", id.kind.into_str()),
            ("resourcename", &*id.name),
        ]),
    }
    labels.extend(point.label.as_ref().map(|(key, value)| (*key, &**value)));
    attributes(labels)
}

fn attributes<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Json {
    let one = |(key, value)| json!({"key": key, "value": {"stringValue": value}});
    pairs.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
