//! The HTTP answers: `/healthz`, `/jobs` and `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use serde_json::json;

use super::view::{ClusterView, FigureView, JobView, View};
use crate::http;

/// Content type of Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the routes, answered from what was seen last.
pub fn routes(view: &Arc<View>) -> Router {
    let (health, jobs, metrics) = (Arc::clone(view), Arc::clone(view), Arc::clone(view));
    let jobs = get(move || async move {
        let body = json!({ "clusters": jobs.all() }).to_string();
        ([(CONTENT_TYPE, "application/json")], body + "\n")
    });
    let metrics =
        get(move || async move { ([(CONTENT_TYPE, METRICS_TYPE)], exposition(&metrics.all())) });
    let health = get(move || async move { healthz(&health) });
    http::routes("GET and HEAD", [("/healthz", health), ("/jobs", jobs), ("/metrics", metrics)])
}

fn healthz(view: &View) -> (StatusCode, String) {
    let silent = view.silent();
    if silent.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let body = format!("no turn finished in time: {}\n", silent.join(" "));
    (StatusCode::SERVICE_UNAVAILABLE, body)
}

type Count = fn(&JobView) -> u64;

/// Returns the text of all series, family by family.
fn exposition(clusters: &[ClusterView]) -> String {
    let mut text = String::new();
    family(&mut text, "cluster_reachable", "gauge", "whether the last listing of jobs succeeded");
    for cluster in clusters {
        let labels = labels(&[("cluster", &cluster.url)]);
        series(&mut text, "cluster_reachable", &labels, f64::from(u8::from(cluster.is_reachable)));
    }
    let counts: [(&str, &str, Count); 3] = [
        ("scalings_total", "decisions that were applied", |job| job.scalings),
        ("balanced_total", "decisions without a change", |job| job.balanced),
        ("errors_total", "turns without a decision because of an error", |job| job.errors),
    ];
    for (name, help, count) in counts {
        family(&mut text, name, "counter", help);
        for (of, job) in jobs(clusters) {
            #[allow(clippy::cast_precision_loss, reason = "counts of turns")]
            series(&mut text, name, &labels(&of), count(job) as f64);
        }
    }
    family(&mut text, "vertex", "gauge", "figures of a vertex, named as in the Java operator");
    for (of, job) in jobs(clusters) {
        for (id, vertex) in &job.vertices {
            for (metric, FigureView { current, average }) in &vertex.metrics {
                for (kind, value) in [("current", current), ("average", average)] {
                    let Some(value) = value else { continue };
                    let of_vertex = [("vertex", id.as_str()), ("metric", metric), ("kind", kind)];
                    series(&mut text, "vertex", &labels(&[&of[..], &of_vertex].concat()), *value);
                }
            }
        }
    }
    text
}

/// Returns the jobs with their labels.
fn jobs(clusters: &[ClusterView]) -> impl Iterator<Item = ([(&'static str, &str); 3], &JobView)> {
    clusters.iter().flat_map(|cluster| {
        cluster.jobs.iter().map(|(id, job)| {
            ([("cluster", cluster.url.as_str()), ("job_id", id), ("job_name", &job.name)], job)
        })
    })
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let name = format!("kubectl_flink_autoscaler_{name}");
    let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn series(text: &mut String, name: &str, labels: &str, value: f64) {
    let _written = writeln!(text, "kubectl_flink_autoscaler_{name}{{{labels}}} {value}");
}

fn labels(all: &[(&str, &str)]) -> String {
    let one = |(key, value): &(&str, &str)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        format!("{key}=\"{value}\"")
    };
    all.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use expect_test::expect;

    use super::super::view::VertexView;
    use super::*;
    use autoscaler::metric::{Evaluated, Figures, Metric};

    fn job() -> JobView {
        let mut figures = Figures::default();
        figures.set(Metric::Load, Evaluated::new(0.5, 0.25));
        figures.set(Metric::Lag, Evaluated::of(f64::INFINITY));
        JobView {
            name: "a \"job\"\n".to_owned(),
            state: "RUNNING".to_owned(),
            effect: "in place".to_owned(),
            outcome: None,
            error: None,
            measured_at: None,
            scalings: 1,
            balanced: 2,
            errors: 0,
            vertices: BTreeMap::from([("v".into(), VertexView::new(2, Some(3), Some(&figures)))]),
        }
    }

    fn seen() -> View {
        let view = View::new(Duration::from_mins(1));
        view.expect("http://a:8081");
        view.inspected("http://a:8081", BTreeMap::from([("j1".to_owned(), job())]));
        view.expect("http://b:8081");
        view.unreachable("http://b:8081", "refused".to_owned());
        view
    }

    #[test]
    fn jobs_are_shown() {
        let json = serde_json::to_string_pretty(&seen().all()).unwrap();
        expect![[r#"
            [
              {
                "url": "http://a:8081",
                "isReachable": true,
                "jobs": {
                  "j1": {
                    "name": "a \"job\"\n",
                    "state": "RUNNING",
                    "effect": "in place",
                    "scalings": 1,
                    "balanced": 2,
                    "errors": 0,
                    "vertices": {
                      "v": {
                        "parallelism": 2,
                        "decided": 3,
                        "metrics": {
                          "LOAD": {
                            "current": 0.5,
                            "average": 0.25
                          }
                        }
                      }
                    }
                  }
                }
              },
              {
                "url": "http://b:8081",
                "isReachable": false,
                "error": "refused",
                "jobs": {}
              }
            ]"#]]
        .assert_eq(&json);
    }

    #[test]
    fn figures_are_exposed_to_prometheus() {
        expect![[r#"
            # HELP kubectl_flink_autoscaler_cluster_reachable whether the last listing of jobs succeeded
            # TYPE kubectl_flink_autoscaler_cluster_reachable gauge
            kubectl_flink_autoscaler_cluster_reachable{cluster="http://a:8081"} 1
            kubectl_flink_autoscaler_cluster_reachable{cluster="http://b:8081"} 0
            # HELP kubectl_flink_autoscaler_scalings_total decisions that were applied
            # TYPE kubectl_flink_autoscaler_scalings_total counter
            kubectl_flink_autoscaler_scalings_total{cluster="http://a:8081",job_id="j1",job_name="a \"job\"\n"} 1
            # HELP kubectl_flink_autoscaler_balanced_total decisions without a change
            # TYPE kubectl_flink_autoscaler_balanced_total counter
            kubectl_flink_autoscaler_balanced_total{cluster="http://a:8081",job_id="j1",job_name="a \"job\"\n"} 2
            # HELP kubectl_flink_autoscaler_errors_total turns without a decision because of an error
            # TYPE kubectl_flink_autoscaler_errors_total counter
            kubectl_flink_autoscaler_errors_total{cluster="http://a:8081",job_id="j1",job_name="a \"job\"\n"} 0
            # HELP kubectl_flink_autoscaler_vertex figures of a vertex, named as in the Java operator
            # TYPE kubectl_flink_autoscaler_vertex gauge
            kubectl_flink_autoscaler_vertex{cluster="http://a:8081",job_id="j1",job_name="a \"job\"\n",vertex="v",metric="LOAD",kind="current"} 0.5
            kubectl_flink_autoscaler_vertex{cluster="http://a:8081",job_id="j1",job_name="a \"job\"\n",vertex="v",metric="LOAD",kind="average"} 0.25
        "#]]
        .assert_eq(&exposition(&seen().all()));
    }

    #[test]
    fn a_loop_that_hangs_is_not_healthy() {
        assert_eq!(healthz(&seen()).0, StatusCode::OK);
        let view = View::new(Duration::ZERO);
        view.expect("http://b:8081");
        std::thread::sleep(Duration::from_millis(2));
        let (status, body) = healthz(&view);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "no turn finished in time: http://b:8081\n");
    }
}
