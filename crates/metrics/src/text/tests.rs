use std::sync::Arc;

use expect_test::expect;

use super::*;
use crate::Kind;
use crate::family::{Id, Of};
use crate::histogram::Summary;

fn page(filters_label_values: bool) -> String {
    encode(families(), &identity(), filters_label_values, 0).unwrap()
}

fn identity() -> Identity {
    let [host, namespace, name] = ["pod-1", "ops", "op"].map(str::to_owned);
    Identity { host, namespace, name }
}

fn families() -> Vec<Family> {
    let namespace: Arc<str> = "my-shop".into();
    let of = Of::Namespace(Kind::FlinkDeployment, Arc::clone(&namespace));
    let id = Id { kind: Kind::FlinkSessionJob, namespace, name: "orders".into() };
    let point = |of: Of, value| vec![Point { of, label: None, value }];
    let version = Point {
        of: of.clone(),
        label: Some(("FlinkVersion", "1.20\"1\\".into())),
        value: Value::Gauge(2.0),
    };
    vec![
        Family::new(Scope::Namespace, "FlinkVersion.Count", vec![version]),
        Family::new(Scope::Namespace, "JmDeploymentStatus.READY.Count", vec![]),
        Family::new(
            Scope::Resource,
            "JOSDK.Reconciliation.Count",
            point(Of::Resource(Arc::new(id)), Value::Count(3.0)),
        ),
        Family::of_operator(
            "KubeClient.HttpResponse.TimeNanos",
            Value::Summary(Summary::new(7, vec![4.0, 2.0, 3.0, 1.0, 5.5])),
        ),
        Family::new(Scope::Process, "process_cpu_seconds", point(Of::Operator, Value::Count(1.25))),
        Family::new(Scope::Process, "process_threads", point(Of::Operator, Value::Gauge(4.0))),
    ]
}

#[test]
fn the_text_has_the_names_of_flinks_reporter() {
    expect![[r##"
        # HELP flink_k8soperator_namespace_FlinkVersion_Count FlinkVersion.Count (scope: k8soperator_namespace)
        # TYPE flink_k8soperator_namespace_FlinkVersion_Count gauge
        flink_k8soperator_namespace_FlinkVersion_Count{host="pod_1",namespace="ops",name="op",resourcens="my_shop",resourcetype="FlinkDeployment",FlinkVersion="1_20_1_"} 2.0
        # HELP flink_k8soperator_namespace_resource_JOSDK_Reconciliation_Count JOSDK.Reconciliation.Count (scope: k8soperator_namespace_resource)
        # TYPE flink_k8soperator_namespace_resource_JOSDK_Reconciliation_Count gauge
        flink_k8soperator_namespace_resource_JOSDK_Reconciliation_Count{host="pod_1",namespace="ops",name="op",resourcens="my_shop",resourcetype="FlinkSessionJob",resourcename="orders"} 3.0
        # HELP flink_k8soperator_KubeClient_HttpResponse_TimeNanos KubeClient.HttpResponse.TimeNanos (scope: k8soperator)
        # TYPE flink_k8soperator_KubeClient_HttpResponse_TimeNanos gauge
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos{host="pod_1",namespace="ops",name="op",quantile="0.5"} 3.0
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos{host="pod_1",namespace="ops",name="op",quantile="0.75"} 4.75
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos{host="pod_1",namespace="ops",name="op",quantile="0.95"} 5.5
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos{host="pod_1",namespace="ops",name="op",quantile="0.98"} 5.5
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos{host="pod_1",namespace="ops",name="op",quantile="0.99"} 5.5
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos{host="pod_1",namespace="ops",name="op",quantile="0.999"} 5.5
        # HELP flink_k8soperator_KubeClient_HttpResponse_TimeNanos_count KubeClient.HttpResponse.TimeNanos (scope: k8soperator)
        # TYPE flink_k8soperator_KubeClient_HttpResponse_TimeNanos_count gauge
        flink_k8soperator_KubeClient_HttpResponse_TimeNanos_count{host="pod_1",namespace="ops",name="op"} 7.0
        # HELP process_cpu_seconds Total user and system CPU time spent in seconds.
        # TYPE process_cpu_seconds counter
        process_cpu_seconds_total 1.25
        # HELP process_threads Number of OS threads in the process.
        # TYPE process_threads gauge
        process_threads 4.0
        # EOF
    "##]].assert_eq(&page(true));
}

#[test]
fn label_values_are_written_as_they_are_where_that_is_asked_for() {
    let page = page(false);
    assert!(page.contains(r#"host="pod-1""#), "{page}");
    assert!(page.contains(r#"resourcens="my-shop""#), "{page}");
    assert!(page.contains(r#"FlinkVersion="1.20\"1\\""#), "{page}");
}

/// The `OpenMetrics` form differs in the comments on a counter and in its end.
#[test]
fn a_push_gateway_reads_the_former_form() {
    let plain = encode_plain(families(), &identity(), false).unwrap();
    let (page, end) = (page(false), "# EOF\n");
    let differing = |one: &str, other: &str| -> Vec<String> {
        let differs = |line: &&str| !other.lines().any(|known| known == *line);
        one.lines().filter(differs).map(str::to_owned).collect()
    };
    assert_eq!(
        differing(&plain, &page),
        [
            "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.",
            "# TYPE process_cpu_seconds_total counter"
        ]
    );
    assert_eq!(differing(&page, &plain).len(), 3);
    assert!(page.ends_with(end) && !plain.contains(end));
}
