use std::sync::Arc;

use expect_test::expect;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;

use super::*;
use metrics::Kind;
use metrics::family::{Id, Of};
use metrics::histogram::Summary;

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

/// Returns a line for each value: its metric, its kind, its labels and its number.
fn described(body: &[u8]) -> String {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let pairs = |pairs: &[KeyValue]| {
        let text = |pair: &KeyValue| match pair.value.clone().unwrap().value {
            Some(any_value::Value::StringValue(text)) => format!(" {}={text}", pair.key),
            other => panic!("{other:?}"),
        };
        pairs.iter().map(text).collect::<String>()
    };
    let all = &request.resource_metrics[0];
    let mut told = vec![format!("of{}", pairs(&all.resource.as_ref().unwrap().attributes))];
    let number = |point: &NumberDataPoint| {
        let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
        let (start, now) = (point.start_time_unix_nano, point.time_unix_nano);
        format!("{} {start}..{now}: {value}", pairs(&point.attributes))
    };
    let summary = |point: &SummaryDataPoint| {
        let quantiles = point.quantile_values.iter().map(|it| (it.quantile, it.value));
        let (start, now) = (point.start_time_unix_nano, point.time_unix_nano);
        format!(" {start}..{now}: {} {:?}", point.count, quantiles.collect::<Vec<_>>())
    };
    for metric in &all.scope_metrics[0].metrics {
        let (kind, points): (_, Vec<String>) = match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => ("gauge", gauge.data_points.iter().map(number).collect()),
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{sum:?}");
                ("sum", sum.data_points.iter().map(number).collect())
            }
            Data::Summary(all) => ("summary", all.data_points.iter().map(summary).collect()),
            other @ (Data::Histogram(_) | Data::ExponentialHistogram(_)) => panic!("{other:?}"),
        };
        told.push(format!("{} ({kind}){}", metric.name, points.concat()));
    }
    told.join("\n") + "\n"
}

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
        Family::of_operator("KubeClient.HttpRequest.NumPerSecond", Value::Gauge(0.5)),
        Family::of_operator("ResourceUsage.Cpu", Value::Gauge(f64::NAN)),
    ];
    let bodies: Vec<Vec<u8>> = bodies(&families, &source(), 2_000_000_000).collect();
    assert_eq!(bodies.len(), 1);
    expect![[r#"
        of service.name=flink-operator service.version=1.2.3 host=pod-1 namespace=ops name=op
        flink.k8soperator.namespace.FlinkVersion.Count (gauge) resourcens=shop resourcetype=FlinkDeployment FlinkVersion=1.20.1 0..2000000000: 2
        flink.k8soperator.namespace.resource.JOSDK.Reconciliation.Count (sum) resourcens=shop resourcetype=FlinkDeployment resourcename=orders-1 1000000000..2000000000: 7
        flink.k8soperator.KubeClient.HttpResponse.TimeNanos (summary) 1000000000..2000000000: 2 [(0.5, 2.0), (0.75, 3.0), (0.95, 3.0), (0.98, 3.0), (0.99, 3.0), (0.999, 3.0)]
        flink.k8soperator.KubeClient.HttpRequest.NumPerSecond.rate (gauge) 0..2000000000: 0.5
        flink.k8soperator.ResourceUsage.Cpu (gauge)
    "#]].assert_eq(&described(&bodies[0]));
}

#[test]
fn a_collector_that_refuses_values_is_heard() {
    let answer = |rejected_data_points| {
        let error_message = "too old".to_owned();
        let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message };
        ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
    };
    assert_eq!(refused(&answer(3)), Some((3, "too old".to_owned())));
    // A remark about what was accepted.
    assert_eq!(refused(&answer(0)), None);
    assert_eq!(refused(&[]), None);
    assert_eq!(refused(b"<html>"), None);
}

#[test]
fn many_values_are_sent_in_bodies_of_a_bounded_size() {
    let points: Vec<Point> = (0..2500).map(|name| point(name, Value::Count(1.0))).collect();
    let families = [
        Family::new(Scope::Resource, "JOSDK.Reconciliation.Count", points.clone()),
        Family::new(Scope::Resource, "JOSDK.Resource.Event.Count", points),
    ];
    let bodies: Vec<Vec<u8>> = bodies(&families, &source(), 0).collect();
    let counts: Vec<usize> =
        bodies.iter().map(|body| described(body).matches("orders-").count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 5000);
    assert!(counts.iter().all(|count| *count <= POINTS_MAX), "{counts:?}");
    assert!(bodies.iter().all(|body| body.len() < 1024 * 1024));
}
