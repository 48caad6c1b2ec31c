//! The autoscaler page of a job, over plain HTTP.

use std::collections::BTreeMap;

use ::autoscaler::cycle::State;
use ::autoscaler::metric::{Evaluated, Figures, Metric, Values};
use ::autoscaler::sample::Sample;
use ::autoscaler::scaling_history::{Reason, Scaling};
use ::autoscaler::state::{self, Stored};
use jiff::{SignedDuration, Timestamp};

use super::resource::page;
use super::*;

const AUTOSCALER: &str = "/in/shop/deployment/job-01/autoscaler";

/// Turns on the autoscaler of a job that it has scaled several times.
pub(super) fn remember(cluster: &FakeCluster, name: &str) {
    let mut job = cluster.object("flinkdeployments", "shop", name).unwrap();
    let uid = job["metadata"]["uid"].clone();
    job["spec"]["flinkConfiguration"] =
        json!({"job.autoscaler.enabled": "true", "job.autoscaler.metrics.window": "10 min"});
    cluster.insert(job);
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("autoscaler-{name}"), "namespace": "shop", "ownerReferences": [{
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": name, "uid": uid}]},
        "data": stored(),
    }));
}

fn stored() -> BTreeMap<String, String> {
    let ago = |minutes| Timestamp::now() - SignedDuration::from_mins(minutes);
    let mut state = State::default();
    let scalings = [
        (SOURCE, 300, 1, 2, 3_600.0, 5_600.0),
        (SOURCE, 180, 2, 4, 7_200.0, 12_400.0),
        (SOURCE, 50, 4, 3, 14_800.0, 8_400.0),
        (WINDOW, 180, 1, 6, 2_400.0, 11_600.0),
    ];
    for (vertex, minutes, current, new, capacity, load) in scalings {
        let mut figures = Figures::default();
        figures.set(Metric::TrueProcessingRate, Evaluated::average(capacity));
        figures.set(Metric::TargetDataRate, Evaluated::average(load));
        figures.set(Metric::ExpectedProcessingRate, Evaluated::of(load * 1.2));
        let history = state.scaling_history.entry(vertex.into()).or_default();
        let at = ago(minutes);
        history.insert(at, Scaling { current, new, figures });
        let rule = "computed parallelism".to_owned();
        let reasons = state.reasons.entry(vertex.into()).or_default();
        reasons.insert(at, Reason { rule, number: f64::from(new) });
    }
    let times = state.scaling_history.values().flat_map(|history| history.keys().copied());
    let took = Some(SignedDuration::from_secs(41));
    state.restarts = times.map(|at| (at, took)).collect();
    state.overrides = [(SOURCE.into(), 3), (WINDOW.into(), 6)].into();
    // Since then, 12,500 records were read per second.
    let counted = |records: f64| {
        let mut values = Values::default();
        for (metric, value) in
            [(Metric::Load, 0.9), (Metric::NumRecordsIn, records), (Metric::NumRecordsOut, 0.0)]
        {
            values.set(metric, value);
        }
        values.set(Metric::Lag, 1_000.0);
        values
    };
    let vertices = [SOURCE, WINDOW].map(|id| (id.into(), counted(15_750_000.0))).into();
    state.samples.insert(ago(15), Sample { vertices, ..Sample::default() });
    state::write(&Stored { state, ..Stored::default() }).unwrap().data
}

#[tokio::test]
async fn decisions_are_shown_and_what_would_be_decided_now() {
    let flink = job_manager().await;
    let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
    let shown = Shown::behind(fleet(), behind).await;
    let cookie = shown.cookie().await;
    let (status, text) = page(&shown, &cookie, AUTOSCALER).await;
    assert_eq!(status, 200);
    for wanted in [
        "<dt>Autoscaler</dt><dd>on</dd>",
        "Now: ",
        "<td class=\"path\">computed parallelism: 2.00</td>",
        "<th class=\"path\" scope=\"row\">Source: Car data</th><td class=\"number\" data-name=\"last decision\">3</td>",
        "kubectl flink autoscaler explain job-01 -n shop -o wide",
        "Decisions for GlobalWindows -&gt; Sink",
        "data-name=\"parallelism\">4 → 3</td>",
        "data-name=\"target rate\">11600.00</td>",
        "data-name=\"restart\">41s</td>",
        "data-name=\"rule\">computed parallelism: 3.00</td>",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let events = shown.get(&format!("{AUTOSCALER}/events")).header(COOKIE, &cookie).send();
    described(events.await.unwrap(), &["Source: Car data", "41s"]).await;
    assert!(shown.cluster.writes().is_empty());
    drop(flink);
    let shown = Shown::new(fleet()).await;
    let (status, text) = page(&shown, &shown.cookie().await, AUTOSCALER).await;
    assert!(status == 200 && text.contains("Current decision not available: "), "{text}");
    assert!(text.contains("4 → 3") && text.contains(SOURCE), "vertices have their ids: {text}");
}

#[tokio::test]
async fn where_it_is_off_the_page_says_how_to_switch_it_on() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let (_, text) = page(&shown, &cookie, "/in/default/sessionjob/clicks/autoscaler").await;
    let next = "kubectl flink set config sessionjob/clicks job.autoscaler.enabled=true -n default";
    assert!(text.contains(next) && text.contains("unless the operator"), "{text}");
    let (_, text) = page(&shown, &cookie, "/in/default/deployment/session/autoscaler").await;
    assert!(text.contains("href=\"/in/default/sessionjob/clicks/autoscaler\""), "{text}");
    let (status, _) = page(&shown, &cookie, "/in/default/deployment/nothing/autoscaler").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_stored_state_that_cannot_be_read_is_reported() {
    let cluster = fleet();
    let mut stored = cluster.object("configmaps", "shop", "autoscaler-job-01").unwrap();
    stored["data"] = json!({"parallelismOverrides": "%"});
    cluster.insert(stored);
    let shown = Shown::new(cluster).await;
    let (status, text) = page(&shown, &shown.cookie().await, AUTOSCALER).await;
    assert!(
        status == 200 && text.contains("Not available: ConfigMap `autoscaler-job-01`"),
        "{text}"
    );
}
