//! A Service that its namespace's users have changed, so that it leads to a JobManager of somebody else.

use axum::http::Method;
use clients::flink::access::{Access, Connector, Options, Target};
use clients::flink::{Client, Effect, Error};
use serde_json::{Value, json};

use crate::set_back::session_job;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::{FakeFlink, Job};
use crate::support::operating::error_of;
use crate::support::patience::DEADLINES;

const JOB: &str = "8f2d1e0000000000000000000000000a";

fn service(spec: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "orders-rest", "namespace": "shop"}, "spec": spec,
    })
}

fn own(cluster_ip: &str) -> Value {
    let selector = json!({"app": "orders", "component": "jobmanager"});
    json!({"type": "ClusterIP", "clusterIP": cluster_ip, "selector": selector})
}

/// Reaches JobManagers by their Services, all of which are at the port of `flink`.
fn client(cluster: &FakeCluster, flink: &FakeFlink) -> Client {
    let options = Options { access: Access::Service, ..Options::default() };
    let connector = Connector::new(&options, None).unwrap().checking_services(cluster.client());
    let port = flink.address().rsplit_once(':').unwrap().1.parse().unwrap();
    let (namespace, cluster_id) = ("shop".to_owned(), "orders".to_owned());
    let target = Target { namespace, cluster_id, port, is_tls: false };
    connector.client(&target, DEADLINES).without_retries()
}

async fn world(spec: &Value) -> (FakeCluster, FakeFlink) {
    let (cluster, flink) = (FakeCluster::new(), FakeFlink::start().await);
    flink.with("shop/orders", |cluster| cluster.jobs.insert(JOB.into(), Job::running(JOB, 0)));
    cluster.insert(service(spec));
    (cluster, flink)
}

#[tokio::test]
async fn nothing_is_changed_through_a_service_that_leads_elsewhere() {
    let elsewhere = json!({"type": "ExternalName", "externalName": "127.0.0.1"});
    let mut both = own("127.0.0.1");
    both["externalName"] = json!("127.0.0.1");
    let mut without = own("127.0.0.1");
    without["selector"] = json!(null);
    let mut of_others = own("127.0.0.1");
    of_others["selector"]["app"] = json!("payments");
    for spec in [elsewhere, both, without, of_others] {
        let (cluster, flink) = world(&spec).await;
        let client = client(&cluster, &flink);
        let jar = bytes::Bytes::from_static(b"jar");
        for refused in [
            client.cancel(JOB).await.map(drop),
            client.raw(Method::PATCH, format!("/jobs/{JOB}"), None).await.map(drop),
            client
                .raw(Method::PUT, format!("/jobs/{JOB}/resource-requirements"), None)
                .await
                .map(drop),
            client.raw(Method::DELETE, "/jars/x.jar".to_owned(), None).await.map(drop),
            client.upload_jar("x.jar", jar).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, Error::ForeignService { .. }), "{spec}: {error:?}");
            assert!(!error.is_transient() && error.effect() == Effect::Nothing);
            for part in ["`shop/orders-rest`", "`app: orders`", "ClusterIP"] {
                assert!(error.to_string().contains(part), "{error}");
            }
        }
        assert_eq!(flink.requests(""), [""; 0], "{spec}");
    }
}

/// The name may still stand for what it led to before, in the cache of a name server.
#[tokio::test]
async fn changes_are_sent_to_the_address_behind_the_service() {
    let inspected = |cluster: &FakeCluster| {
        let requests = cluster.requests().into_iter();
        requests.filter(|one| one.uri.contains("/services/orders-rest")).count()
    };
    let (cluster, flink) = world(&own("127.0.0.1")).await;
    let pass = client(&cluster, &flink);
    // There is no such name here: only the address leads to the JobManager.
    assert!(matches!(pass.jobs_overview().await, Err(Error::Unreachable { .. })));
    assert_eq!(inspected(&cluster), 0, "reading costs nothing");
    pass.cancel(JOB).await.unwrap();
    pass.cancel(JOB).await.unwrap();
    assert_eq!(inspected(&cluster), 1, "once for all calls of a pass");
    assert!(flink.heard().contains("host: orders-rest.shop:"), "{}", flink.heard());
    let (cluster, flink) = world(&own("None")).await;
    let error = client(&cluster, &flink).cancel(JOB).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("is ready"), "{error}");
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "orders-1", "namespace": "shop",
            "labels": {"app": "orders", "component": "jobmanager"},
        },
        "status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    }));
    client(&cluster, &flink).cancel(JOB).await.unwrap();
}

#[tokio::test]
async fn a_service_that_cannot_be_read_holds_up_changes_only() {
    let (cluster, flink) = world(&own("127.0.0.1")).await;
    cluster.refuse(Method::GET, "/services/orders-rest", 500, "etcd is away");
    let pass = client(&cluster, &flink);
    let error = pass.cancel(JOB).await.unwrap_err();
    assert!(error.is_transient() && error.effect() == Effect::Nothing, "{error:?}");
    assert!(error.to_string().contains("could not check Service `shop/orders-rest`"), "{error}");
    pass.cancel(JOB).await.unwrap();
}

#[tokio::test]
async fn a_session_job_is_not_submitted_to_somebody_elses_cluster() {
    let operating = session_job(|service| {
        service["spec"] =
            json!({"type": "ExternalName", "externalName": "victim-rest.b.svc.cluster.local"});
    })
    .await;
    let described = |cluster: &FakeCluster| {
        error_of(cluster, "flinksessionjobs", "clicks")
            .filter(|error| error.contains("victim-rest"))
    };
    let error = operating.until("it is told", described).await;
    assert!(error.contains("Service `shop/orders-rest`"), "{error}");
    assert_eq!(operating.flink.requests("POST"), [""; 0]);
    operating.stop().await;
}
