//! Metrics in the line protocol of `InfluxDB`, with the names of Flink's reporter.

use std::fmt::Display;

use super::Identity;
use super::family::{Family, Point, Scope, Value};
use super::flat::packed;
use super::histogram::Statistics;
use super::text::filtered;

/// Maximum number of bytes in a body: some thousand points.
const BODY_BYTES: usize = 512 * 1024;
/// Suffixes of the names of gauges that are whole numbers in Java: a field keeps its type.
const WHOLE: [&str; 3] = ["Count", "ResourceUsage.Memory", "ResourceUsage.StateSize"];

/// Returns the bodies, each of a bounded size, as of `now` in milliseconds since the epoch.
pub fn bodies<'f>(
    families: &'f [Family],
    identity: &'f Identity,
    now: i64,
) -> impl Iterator<Item = String> + 'f {
    let points =
        families.iter().flat_map(|family| family.points.iter().map(move |point| (family, point)));
    packed(points.filter_map(move |(family, point)| line(family, point, identity, now)), BODY_BYTES)
}

/// Returns the line of a point; `None` if it has no value.
fn line(family: &Family, point: &Point, identity: &Identity, now: i64) -> Option<String> {
    let fields = fields(family, &point.value);
    if fields.is_empty() {
        return None;
    }
    let scope = match family.scope {
        Scope::Process => "",
        Scope::System => "k8soperator_",
        Scope::Namespace => "k8soperator_namespace_",
        Scope::Resource => "k8soperator_namespace_resource_",
    };
    let Identity { host, namespace, name } = identity;
    let of_operator = [("host", host.as_str()), ("namespace", namespace), ("name", name)];
    let tags = of_operator.into_iter().chain(point.labels()).filter(|(_, value)| !value.is_empty());
    let mut line = format!("{scope}{}", filtered(&family.name));
    for (key, value) in tags {
        line.extend([",", key, "=", &escaped(value)]);
    }
    line.extend([" ", &fields.join(","), " ", &now.to_string()]);
    Some(line)
}

/// Returns the fields of a value, without anything that is not a number.
fn fields(family: &Family, value: &Value) -> Vec<String> {
    let whole = |name: &str, value: &dyn Display| format!("{name}={value}i");
    let is_whole = WHOLE.iter().any(|end| family.name.ends_with(end));
    match value {
        Value::Gauge(value) | Value::Count(value) if !value.is_finite() => vec![],
        // Seconds.
        Value::Count(value) if family.scope == Scope::Process => vec![format!("value={value}")],
        Value::Count(value) => vec![whole("count", value)],
        Value::Gauge(value) if is_whole => vec![whole("value", &value.round())],
        Value::Gauge(value) if family.is_rate() => vec![format!("rate={value}")],
        Value::Gauge(value) => vec![format!("value={value}")],
        Value::Summary(summary) => {
            let Statistics { size, min, max, mean, deviation } = summary.statistics();
            let [p50, p75, p95, p98, p99, p999] = summary.quantiles();
            let mut fields = vec![whole("run-count", &summary.count), whole("count", &size)];
            if size > 0 {
                fields.extend([whole("min", &min.round()), whole("max", &max.round())]);
                let others = [
                    ("mean", mean),
                    ("std-dev", deviation),
                    ("50-percentile", p50),
                    ("75-percentile", p75),
                    ("95-percentile", p95),
                    ("98-percentile", p98),
                    ("99-percentile", p99),
                    ("999-percentile", p999),
                ];
                fields.extend(others.map(|(name, value)| format!("{name}={value}")));
            }
            fields
        }
    }
}

/// Escapes the value of a tag.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ',' | '=' | ' ' => escaped.extend(['\\', letter]),
            // A control character may end the line, and a backslash at the end would take what follows.
            letter if letter.is_control() || letter == '\\' => escaped.push('_'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;

    use super::super::Kind;
    use super::super::family::{Id, Of};
    use super::super::histogram::Summary;
    use super::*;

    #[test]
    fn points_are_those_of_flinks_reporter() {
        let [host, namespace, name] = ["pod-1", "ops", ""].map(str::to_owned);
        let identity = Identity { host, namespace, name };
        let (kind, namespace) = (Kind::FlinkDeployment, Arc::<str>::from("shop"));
        let of = Of::Namespace(kind, Arc::clone(&namespace));
        let id = Id { kind, namespace, name: "orders".into() };
        let label = Some(("FlinkVersion", Arc::from("1,20=1 x\\\n")));
        let of_version = Point { of: of.clone(), label, value: Value::Gauge(2.0) };
        let of_memory = Point { of: of.clone(), label: None, value: Value::Gauge(1e10) };
        let of_cpu = Point { of, label: None, value: Value::Gauge(1.5) };
        let of_resource = Of::Resource(Arc::new(id));
        let passes = Point { of: of_resource, label: None, value: Value::Count(3.0) };
        let of_process = Point { of: Of::Operator, label: None, value: Value::Count(1.25) };
        let times = Value::Summary(Summary::new(9, vec![1.0, 3.0]));
        let families = [
            Family::of_operator("HttpRequest.NumPerSecond", Value::Gauge(0.25)),
            Family::of_operator("Nothing", Value::Gauge(f64::NAN)),
            Family::of_operator("TimeNanos", times),
            Family::of_operator("None", Value::Summary(Summary::new(0, vec![]))),
            Family::new(Scope::Namespace, "FlinkVersion.Count", vec![of_version]),
            Family::new(Scope::Namespace, "ResourceUsage.Memory", vec![of_memory]),
            Family::new(Scope::Namespace, "ResourceUsage.Cpu", vec![of_cpu]),
            Family::new(Scope::Process, "process_cpu_seconds", vec![of_process]),
            Family::new(Scope::Resource, "JOSDK.Reconciliation.Count", vec![passes]),
        ];
        let bodies: Vec<String> = bodies(&families, &identity, 1_700_000_000_123).collect();
        assert_eq!(bodies.len(), 1);
        expect![[r#"
            k8soperator_HttpRequest_NumPerSecond,host=pod-1,namespace=ops rate=0.25 1700000000123
            k8soperator_TimeNanos,host=pod-1,namespace=ops run-count=9i,count=2i,min=1i,max=3i,mean=2,std-dev=1.4142135623730951,50-percentile=2,75-percentile=3,95-percentile=3,98-percentile=3,99-percentile=3,999-percentile=3 1700000000123
            k8soperator_None,host=pod-1,namespace=ops run-count=0i,count=0i 1700000000123
            k8soperator_namespace_FlinkVersion_Count,host=pod-1,namespace=ops,resourcens=shop,resourcetype=FlinkDeployment,FlinkVersion=1\,20\=1\ x__ value=2i 1700000000123
            k8soperator_namespace_ResourceUsage_Memory,host=pod-1,namespace=ops,resourcens=shop,resourcetype=FlinkDeployment value=10000000000i 1700000000123
            k8soperator_namespace_ResourceUsage_Cpu,host=pod-1,namespace=ops,resourcens=shop,resourcetype=FlinkDeployment value=1.5 1700000000123
            process_cpu_seconds,host=pod-1,namespace=ops value=1.25 1700000000123
            k8soperator_namespace_resource_JOSDK_Reconciliation_Count,host=pod-1,namespace=ops,resourcens=shop,resourcetype=FlinkDeployment,resourcename=orders count=3i 1700000000123
        "#]].assert_eq(&bodies[0]);
    }
}
