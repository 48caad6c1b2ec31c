//! The configuration page of a resource, over plain HTTP.

use super::resource::page;
use super::*;

const CONFIG: &str = "/in/default/deployment/bills/config";

/// A cluster with an installed operator that has a secret in its configuration.
fn installed() -> FakeCluster {
    let cluster = stage();
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "flink-operator-config", "namespace": "flink-operator"},
        "data": {"config.yaml": "kubernetes.operator.reconcile.interval: 15 s\ns3.secret-key: hunter2\n"},
    }));
    cluster
}

#[tokio::test]
async fn options_are_shown_with_where_they_come_from_and_filtered_by_the_address() {
    let shown = Shown::new(installed()).await;
    let cookie = shown.cookie().await;
    let (status, text) = page(&shown, &cookie, CONFIG).await;
    assert_eq!(status, 200);
    for wanted in [
        "<code>kubernetes.operator.reconcile.interval</code></th><td class=\"path value\"><code>15 s</code>",
        "configmap/flink-operator-config, config.yaml",
        "follows from the spec",
        "data-name=\"takes effect\">live</td>",
        "<code>s3.secret-key</code></th><td class=\"path value\"><code>******</code>",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("hunter2") && !text.contains("<span class=\"dim\">default"), "{text}");
    let (_, text) =
        page(&shown, &cookie, &format!("{CONFIG}?q=RECONCILE.interval&set=false")).await;
    assert!(
        text.contains("kubernetes.operator.reconcile.interval") && !text.contains("s3.secret-key")
    );
    let events = shown.get(&format!("{CONFIG}/events?q=s3.secret&set=false"));
    let events = events.header(COOKIE, &cookie).send().await.unwrap();
    let text = described(events, &["s3.secret-key"]).await;
    assert!(!text.contains("reconcile.interval"), "a live page has the filter of its address");
    for kind in ["sessionjob/clicks", "deployment/session"] {
        let (status, text) = page(&shown, &cookie, &format!("/in/default/{kind}/config")).await;
        assert!(status == 200 && text.contains(">Set <b>"), "{kind}: {text}");
    }
    assert!(shown.cluster.writes().is_empty());
}

#[tokio::test]
async fn an_operators_configuration_that_may_not_be_read_is_reported() {
    let cluster = installed();
    let message = "configmaps \"flink-operator-config\" is forbidden: User \"jane\" cannot get resource \"configmaps\"";
    cluster.fail(Method::GET, "/configmaps", Fault::Refused(403, message.to_owned()), usize::MAX);
    let shown = Shown::new(cluster).await;
    let cookie = shown.cookie().await;
    let (status, text) = page(&shown, &cookie, CONFIG).await;
    assert_eq!(status, 200);
    let told = "the operator's own configuration is not included: ";
    assert!(text.contains(told), "{text}");
    assert!(text.contains("forbidden") && text.contains("follows from the spec"), "{text}");
    let (status, text) = page(&shown, &cookie, "/in/default/deployment/nothing/config").await;
    assert!(status == 404 && text.contains("There is no FlinkDeployment `nothing`"), "{text}");
}
