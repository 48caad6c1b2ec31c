use std::sync::Arc;

use expect_test::expect_file;

use super::*;
use crate::Kind;
use crate::family::Id;
use crate::histogram::Summary;

fn source() -> Source {
    let [host, namespace, name] = ["pod-1", "ops", "op"].map(str::to_owned);
    Source {
        identity: Identity { host, namespace, name },
        service: "flink-operator".to_owned(),
        version: "1.2.3".to_owned(),
        started: 1_000_000_000,
    }
}

fn point(name: usize, value: Value) -> Point {
    let (kind, namespace) = (Kind::FlinkDeployment, Arc::from("shop"));
    let id = Id { kind, namespace, name: format!("orders-{name}").into() };
    Point { of: Of::Resource(Arc::new(id)), label: None, value }
}

/// The form is that of `ExportMetricsServiceRequest` in the OTLP specification: 64-bit numbers as
/// text, names in camel case.
#[test]
fn the_body_is_one_that_a_collector_reads() {
    let summary = Summary::new(2, vec![1.0, 3.0]);
    let version = Some(("FlinkVersion", Arc::from("1.20.1")));
    let of = Of::Namespace(Kind::FlinkDeployment, "shop".into());
    let families = [
        Family::new(
            Scope::Namespace,
            "FlinkVersion.Count",
            vec![Point { of, label: version, value: Value::Gauge(2.0) }],
        ),
        Family::new(
            Scope::Resource,
            "JOSDK.Reconciliation.Count",
            vec![point(1, Value::Count(7.0))],
        ),
        Family::of_operator("KubeClient.HttpResponse.TimeNanos", Value::Summary(summary)),
        Family::of_operator("KubeClient.HttpRequest.NumPerSecond", Value::Gauge(f64::NAN)),
    ];
    let bodies: Vec<String> = bodies(&families, &source(), 2_000_000_000).collect();
    let read: Vec<Json> = bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    expect_file!["../../../../tests/golden/otlp.json"]
        .assert_eq(&serde_json::to_string_pretty(&read).unwrap());
}

#[test]
fn many_values_are_told_in_bodies_of_a_bounded_size() {
    let points: Vec<Point> = (0..2500).map(|name| point(name, Value::Count(1.0))).collect();
    let families = [
        Family::new(Scope::Resource, "JOSDK.Reconciliation.Count", points.clone()),
        Family::new(Scope::Resource, "JOSDK.Resource.Event.Count", points),
    ];
    let bodies: Vec<String> = bodies(&families, &source(), 0).collect();
    let counts: Vec<usize> = bodies.iter().map(|body| body.matches("asDouble").count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 5000);
    assert!(counts.iter().all(|count| *count <= POINTS_MAX), "{counts:?}");
    assert!(bodies.iter().all(|body| body.len() < 1024 * 1024));
}
