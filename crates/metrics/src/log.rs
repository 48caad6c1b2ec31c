//! Metrics as lines of a log, with the names of Flink's reporters without labels: what a label would say is part of the
//! name, if the scope's format has it.

use super::Identity;
use super::family::{Family, Value};
use super::flat::name;
use super::histogram::QUANTILES;
use config::reporter::Scopes;

/// Maximum number of lines in one report. What is beyond them is for reporters that are scraped.
pub const LINES_MAX: usize = 20_000;

/// Returns a line for each value, and how many values there was no room for.
pub fn lines<'f>(
    families: &'f [Family],
    identity: &'f Identity,
    scopes: &'f Scopes,
) -> (impl Iterator<Item = String> + 'f, usize) {
    let count: usize = families.iter().map(|family| family.points.len()).sum();
    let points =
        families.iter().flat_map(|family| family.points.iter().map(move |point| (family, point)));
    let lines = points.take(LINES_MAX).map(move |(family, point)| {
        let name = name(family, point, identity, scopes, Some);
        format!("{name}: {}", value(&point.value))
    });
    (lines, count.saturating_sub(LINES_MAX))
}

fn value(value: &Value) -> String {
    match value {
        Value::Gauge(number) | Value::Count(number) => number.to_string(),
        Value::Summary(summary) => {
            let quantiles = QUANTILES.iter().zip(summary.quantiles());
            let quantiles =
                quantiles.map(|((quantile, _), value)| format!(", p{quantile}={value}"));
            format!("count={}{}", summary.count, quantiles.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;

    use super::super::Kind;
    use super::super::family::{Id, Of, Point, Scope};
    use super::super::histogram::Summary;
    use super::*;
    use config::FlinkConfig;

    fn identity() -> Identity {
        let [host, namespace, name] = ["pod-1", "ops", "op"].map(str::to_owned);
        Identity { host, namespace, name }
    }

    fn families() -> Vec<Family> {
        let (kind, namespace) = (Kind::FlinkDeployment, Arc::<str>::from("shop"));
        let id = Id { kind, namespace: Arc::clone(&namespace), name: "orders".into() };
        let version = Point {
            of: Of::Namespace(kind, namespace),
            label: Some(("FlinkVersion", "1.20.1".into())),
            value: Value::Gauge(2.0),
        };
        let passes =
            Point { of: Of::Resource(Arc::new(id)), label: None, value: Value::Count(3.0) };
        vec![
            Family::of_operator("KubeClient.HttpRequest.Count", Value::Count(7.0)),
            Family::of_operator(
                "KubeClient.HttpResponse.TimeNanos",
                Value::Summary(Summary::new(9, vec![1.0, 2.0, 3.0])),
            ),
            Family::new(Scope::Namespace, "FlinkVersion.Count", vec![version]),
            Family::new(Scope::Resource, "JOSDK.Reconciliation.Count", vec![passes]),
        ]
    }

    fn described(scopes: &Scopes) -> String {
        let (families, identity) = (families(), identity());
        let (lines, left_out) = lines(&families, &identity, scopes);
        assert_eq!(left_out, 0);
        lines.map(|line| line + "\n").collect()
    }

    #[test]
    fn names_are_those_of_the_java_operators_log() {
        let scopes = Scopes::of(&FlinkConfig::new()).unwrap();
        expect![[r#"
            pod-1.k8soperator.ops.op.system.KubeClient.HttpRequest.Count: 7
            pod-1.k8soperator.ops.op.system.KubeClient.HttpResponse.TimeNanos: count=9, p0.5=2, p0.75=3, p0.95=3, p0.98=3, p0.99=3, p0.999=3
            pod-1.k8soperator.ops.op.namespace.shop.FlinkDeployment.FlinkVersion.1.20.1.Count: 2
            pod-1.k8soperator.ops.op.resource.shop.orders.FlinkDeployment.JOSDK.Reconciliation.Count: 3
        "#]]
        .assert_eq(&described(&scopes));
    }

    #[test]
    fn formats_say_what_names_begin_with() {
        let scope = "kubernetes.operator.metrics.scope.k8soperator";
        let options = [
            // Its former name.
            (scope.to_owned(), "op"),
            (format!("{scope}.resourcens"), "<resourcens>"),
            (format!("{scope}.resource"), "<resourcename>@<resourcens>.<nobody>"),
        ];
        let scopes = Scopes::of(&options.into_iter().collect()).unwrap();
        let told = described(&scopes);
        let first: Vec<&str> = told.lines().map(|line| line.split_once(": ").unwrap().0).collect();
        assert_eq!(first[0], "op.KubeClient.HttpRequest.Count");
        assert_eq!(first[2], "shop.FlinkVersion.1.20.1.Count");
        assert_eq!(first[3], "orders@shop.<nobody>.JOSDK.Reconciliation.Count");
    }

    #[test]
    fn a_report_has_a_bounded_length() {
        let point = Point { of: Of::Operator, label: None, value: Value::Count(1.0) };
        let families = [Family::new(Scope::System, "a", vec![point; LINES_MAX + 5])];
        let scopes = Scopes::of(&FlinkConfig::new()).unwrap();
        let identity = identity();
        let (lines, left_out) = lines(&families, &identity, &scopes);
        assert_eq!((lines.count(), left_out), (LINES_MAX, 5));
    }
}
