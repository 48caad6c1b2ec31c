//! The operator's metrics, as scraped from a running operator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::deployment::FlinkDeployment;
use config::FlinkConfig;
use config::reporter::Prometheus;
use kube::api::{Api, DeleteParams};
use metrics::{Identity, Metrics, Settings};
use operator::exposition;
use operator::http::Listener;
use operator::run::Watch;
use testing::scene::Scene;

use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;
use crate::support::patience::PATIENCE;

/// The Java operator's Prometheus metrics: name, and the labels besides `host`, `namespace` and `name`. `*` stands for
/// one or more of many; see its documentation, "Metrics".
const JAVA: &[(&str, &str)] = &[
    ("FlinkDeployment_Lifecycle_State_*_TimeSeconds", "quantile"),
    ("FlinkDeployment_Lifecycle_State_*_TimeSeconds_count", ""),
    ("FlinkDeployment_Lifecycle_Transition_*_TimeSeconds", "quantile"),
    ("FlinkDeployment_Lifecycle_Transition_*_TimeSeconds_count", ""),
    ("KubeClient_HttpRequest_Count", ""),
    ("KubeClient_HttpRequest_NumPerSecond", ""),
    ("KubeClient_HttpRequest_Failed_Count", ""),
    ("KubeClient_HttpRequest_Failed_NumPerSecond", ""),
    ("KubeClient_HttpRequest_Slow_Count", ""),
    ("KubeClient_HttpResponse_Count", ""),
    ("KubeClient_HttpResponse_NumPerSecond", ""),
    ("KubeClient_HttpResponse_TimeNanos", "quantile"),
    ("KubeClient_HttpResponse_TimeNanos_count", ""),
    ("namespace_Count", "resourcens resourcetype"),
    ("namespace_Waiting_Late_Count", "resourcens resourcetype"),
    ("namespace_Paused_Count", "resourcens resourcetype"),
    ("namespace_JmDeploymentStatus_*_Count", "resourcens resourcetype"),
    ("namespace_FlinkVersion_Count", "resourcens resourcetype FlinkVersion"),
    ("namespace_FlinkMinorVersion_Count", "resourcens resourcetype FlinkMinorVersion"),
    ("namespace_ResourceUsage_Cpu", "resourcens resourcetype"),
    ("namespace_ResourceUsage_Memory", "resourcens resourcetype"),
    ("namespace_ResourceUsage_StateSize", "resourcens resourcetype"),
    ("namespace_Lifecycle_State_*_Count", "resourcens resourcetype"),
    ("namespace_JOSDK_reconcile_*_TimeSeconds", "resourcens resourcetype quantile"),
    ("namespace_JOSDK_reconcile_*_TimeSeconds_count", "resourcens resourcetype"),
    ("namespace_resource_Checkpoint_AgeSeconds", "resourcens resourcetype resourcename"),
    ("namespace_resource_JOSDK_Resource_Event_Count", "resourcens resourcetype resourcename"),
    ("namespace_resource_JOSDK_Resource_Event_ADDED_Count", "resourcens resourcetype resourcename"),
    ("namespace_resource_JOSDK_Reconciliation_Count", "resourcens resourcetype resourcename"),
    (
        "namespace_resource_JOSDK_Reconciliation_finished_Count",
        "resourcens resourcetype resourcename",
    ),
];

/// Labels and values of series by name.
type Series = BTreeMap<String, Vec<(BTreeMap<String, String>, f64)>>;

/// Parses the text like a strict scraper.
fn parse(text: &str) -> Series {
    let mut series = Series::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some("# EOF"));
    for line in lines {
        if let Some(comment) = line.strip_prefix("# ") {
            let (what, rest) = comment.split_once(' ').expect(line);
            let (name, told) = rest.split_once(' ').expect(line);
            assert!(!told.is_empty(), "{line}");
            match what {
                "HELP" => {
                    name.clone_into(&mut family);
                    assert!(families.insert(family.clone()), "told twice: {line}");
                }
                "TYPE" => assert_eq!(name, family, "{line}"),
                other => panic!("{other}: {line}"),
            }
            continue;
        }
        let (head, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = match head.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect(line)),
            None => (head, ""),
        };
        assert!(name == family || name == format!("{family}_total"), "{line} in {family}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| {
            let (key, value) = label.split_once('=').expect(line);
            let value = value.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            (key.to_owned(), value.expect(line).to_owned())
        });
        let labels: BTreeMap<String, String> = labels.collect();
        let of_name = series.entry(name.to_owned()).or_default();
        assert!(of_name.iter().all(|(other, _)| *other != labels), "twice: {line}");
        of_name.push((labels, value.parse().expect(line)));
    }
    series
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((before, after)) => {
            name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).is_some_and(
                |middle| middle.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_'),
            )
        }
        None => pattern == name,
    }
}

struct Scraped {
    operating: Operating,
    port: u16,
    server: tokio::task::JoinHandle<()>,
}

impl Scraped {
    async fn start() -> Self {
        let [host, namespace, name] = ["h", "ops", "op"].map(str::to_owned);
        let settings = Settings::of(&FlinkConfig::new()).unwrap();
        let metrics = Metrics::new(settings, Identity { host, namespace, name });
        let listener = Listener::open(0).await.unwrap();
        let port = listener.port().unwrap();
        let routes = exposition::routes(&metrics, &Prometheus::default());
        let server = tokio::spawn(listener.serve(routes));
        let flink = FakeFlink::start().await;
        let watch = Watch::AllNamespaces;
        let operating = Operating::start_counted(&watch, FakeCluster::new(), flink, metrics);
        Self { operating, port, server }
    }

    async fn scrape(&self) -> Series {
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        let answer = reqwest::get(url).await.unwrap();
        let form = answer.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(form.starts_with("application/openmetrics-text; version=1.0.0"), "{form}");
        parse(&answer.text().await.unwrap())
    }

    /// Scrapes until `look` finds what it needs.
    async fn until(&self, what: &str, inspect: impl Fn(&Series) -> bool) -> Series {
        let start = Instant::now();
        loop {
            let series = self.scrape().await;
            if inspect(&series) {
                return series;
            }
            assert!(start.elapsed() < PATIENCE, "not in time: {what}\n{series:#?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn stop(self) {
        self.operating.stop().await;
        self.server.abort();
    }
}

fn value(series: &Series, name: &str) -> f64 {
    let of_name = series.get(&format!("flink_k8soperator_{name}"));
    of_name.map_or(0.0, |all| all.iter().map(|(_, value)| value).sum())
}

#[tokio::test]
async fn a_scrape_has_the_names_and_labels_of_the_java_operator() {
    let scraped = Scraped::start().await;
    scraped.operating.run(&Scene::running("savepoint"));
    scraped.operating.until_seen_running().await;
    let finished = "namespace_resource_JOSDK_Reconciliation_finished_Count";
    let age = "namespace_resource_Checkpoint_AgeSeconds";
    let is_reported = |series: &Series| value(series, finished) > 0.0 && value(series, age) > 0.0;
    let series = scraped.until("a pass ends, and one asks for checkpoints", is_reported).await;
    scraped.stop().await;
    for (name, all) in &series {
        let Some(name) = name.strip_prefix("flink_k8soperator_") else {
            assert!(name.starts_with("process_"), "{name}");
            continue;
        };
        // Metrics of the configuration and of the Flink REST client are specific to this operator.
        if name.starts_with("Configuration_") {
            continue;
        }
        let name = name.replace("FlinkClient_", "KubeClient_");
        let name = match name.split_once("KubeClient_HttpRequest_") {
            Some((_, rest)) if ["GET_Count", "PATCH_Count", "POST_Count"].contains(&rest) => {
                continue;
            }
            _ => name,
        };
        let of_code = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
        if name.strip_prefix("KubeClient_HttpResponse_").is_some_and(of_code) {
            continue;
        }
        let known: Vec<&(&str, &str)> =
            JAVA.iter().filter(|(pattern, _)| matches(pattern, &name)).collect();
        if known.is_empty() {
            // Some depend on how often a watch and a pass coincide.
            let may_be = name.starts_with("namespace_resource_JOSDK_")
                || name.starts_with("namespace_Lifecycle_");
            assert!(may_be, "{name} is none of the Java operator's");
            continue;
        }
        for (labels, _) in all {
            let mut labels: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
            for common in ["host", "namespace", "name"] {
                assert!(labels.remove(common), "{name} without {common}");
            }
            let expected: BTreeSet<&str> = known[0].1.split_whitespace().collect();
            assert_eq!(labels, expected, "{name}");
        }
    }
    for (pattern, _) in JAVA {
        let is_reported = |name: &String| {
            name.strip_prefix("flink_k8soperator_").is_some_and(|name| matches(pattern, name))
        };
        assert!(series.keys().any(is_reported), "{pattern} is missing");
    }
    assert!((value(&series, "namespace_Count") - 1.0).abs() < f64::EPSILON);
    assert!(value(&series, "FlinkClient_HttpResponse_200_Count") > 0.0);
    assert!(
        (value(&series, "namespace_JmDeploymentStatus_READY_Count") - 1.0).abs() < f64::EPSILON
    );
}

#[tokio::test]
async fn a_deleted_resource_leaves_the_count_of_that_alone() {
    let scraped = Scraped::start().await;
    scraped.operating.run(&Scene::running("stateless"));
    scraped.operating.until_seen_running().await;
    let deleted = "namespace_resource_JOSDK_Resource_Event_DELETED_Count";
    let has_series = |series: &Series| {
        let others = series.iter().filter(|(name, _)| !name.ends_with(deleted));
        others.flat_map(|(_, all)| all).any(|(labels, _)| labels.contains_key("resourcename"))
    };
    let series = scraped.until("it is counted", has_series).await;
    assert!(value(&series, deleted) < f64::EPSILON);
    let resources: Api<FlinkDeployment> =
        Api::namespaced(scraped.operating.cluster.client(), "shop");
    resources.delete("orders", &DeleteParams::default()).await.unwrap();
    let series = scraped.until("it is gone", |series| !has_series(series)).await;
    assert!(value(&series, "namespace_Count") < f64::EPSILON);
    assert!((value(&series, deleted) - 1.0).abs() < f64::EPSILON);
    assert!(value(&series, "namespace_JOSDK_cleanup_delete_TimeSeconds_count") > 0.0);
    scraped.stop().await;
}
