//! Something was left behind: files, objects, memory, connections.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::status::{DeploymentStatus, Savepoint, SavepointInfo, SnapshotTriggerType};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::Uri;
use clients::artifact::{Jars, Request};
use clients::flink::access::{Connector, Options, Target};
use config::FlinkConfig;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use metrics::family::Scope;
use metrics::{Facts, Identity, Metrics, Now, Settings, Sighting};
use serde_json::Value;
use testing::scene::Scene;

use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::{FakeFlink, Fault};
use crate::support::operating::Operating;
use crate::support::patience::{DEADLINES, PATIENCE};

#[test]
fn flink_27914_metrics_of_a_resource_are_retained_once_and_go_with_it() {
    let identity = Identity { host: String::new(), namespace: String::new(), name: String::new() };
    let metrics = Metrics::new(Settings::of(&FlinkConfig::new()).unwrap(), identity);
    let now = Now { clock: Duration::ZERO, time: Timestamp::UNIX_EPOCH };
    let series = || {
        let families = metrics.families(now);
        let points = families.iter().filter(|family| family.scope == Scope::Resource);
        points.map(|family| family.points.len()).sum::<usize>()
    };
    let sighting = |version| Sighting {
        uid: "u1",
        namespace: "shop",
        name: "orders",
        version,
        created: None,
        facts: Facts::of_deployment(&DeploymentStatus::default()),
    };
    for version in 1..1000 {
        metrics.see(|| sighting(version), now);
    }
    // All events: that it was created and that it was changed.
    assert_eq!(series(), 3);
    metrics.gone("u1", now);
    // The deletion, among the last thousand.
    assert_eq!(series(), 1);
    metrics.see(|| sighting(1000), now);
    metrics.scope_closes(Some("other"), now);
    assert_eq!(series(), 3);
    metrics.scope_closes(Some("shop"), now);
    assert_eq!(series(), 0);
}

#[tokio::test]
async fn flink_35192_no_temporary_file_outlives_its_use() {
    let folder = tempfile::tempdir().unwrap();
    let jar = folder.path().join("job.jar");
    std::fs::write(&jar, b"PK\x03\x04 and what a jar has").unwrap();
    let store = folder.path().join("store");
    let prefix = "kubernetes.operator.user.artifacts";
    let config: FlinkConfig = [
        (format!("{prefix}.base.dir"), store.to_str().unwrap()),
        (format!("{prefix}.allowed-schemes"), "file;http"),
        (format!("{prefix}.disallow-restricted-hosts"), "false"),
        (format!("{prefix}.cache.max-size"), "0 b"),
    ]
    .into_iter()
    .collect();
    let uri = format!("file://{}", jar.display());
    let request = Request::from_config("shop", &uri, &config, &config).unwrap();
    let jars = Jars::default();
    let files = || {
        let entries = std::fs::read_dir(&store).unwrap().flatten();
        entries.filter(|entry| entry.path().is_file()).count()
    };
    for _ in 0..3 {
        let fetched = jars.fetch(&request).await.unwrap();
        assert_eq!(files(), 1);
        drop(fetched);
        assert_eq!(files(), 0);
    }
    // Several at the same time, of which some share a file.
    let all = futures::future::join_all((0..5).map(|_| jars.fetch(&request))).await;
    let paths: BTreeSet<_> =
        all.iter().map(|one| one.as_ref().unwrap().path().to_owned()).collect();
    assert_eq!(paths.len(), files());
    drop(all);
    assert_eq!(files(), 0);

    // Downloads that fail after they have begun to write: truncated, too large, different from what was promised, not a
    // jar, or without an end.
    let address = serving().await;
    let of = |name: &str, more: &[(&str, &str)]| {
        let mut config = config.clone();
        for (key, value) in more {
            config.set(format!("{prefix}.{key}"), *value);
        }
        let uri = format!("http://{address}/{name}");
        Request::from_config("shop", &uri, &config, &config).unwrap()
    };
    let sum = format!("sha256:{}", "0".repeat(64));
    let failing = [
        of("cut.jar", &[]),
        of("good.jar", &[("max-size", "100 b")]),
        of("good.jar", &[("checksum", &sum)]),
        of("page.jar", &[]),
        of("none.jar", &[]),
        of("endless.jar", &[("timeout", "200 ms")]),
    ];
    for failed in futures::future::join_all(failing.iter().map(|request| jars.fetch(request))).await
    {
        failed.expect_err("it is no jar");
    }
    assert_eq!(files(), 0);
    let good = jars.fetch(&of("good.jar", &[])).await.unwrap();
    assert_eq!((good.size_bytes, files()), (4096, 1));
    drop(good);

    let endless = of("endless.jar", &[]);
    let given_up = tokio::spawn(async move { jars.fetch(&endless).await.map(drop) });
    let begun = async {
        while files() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("it begins");
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_eq!(files(), 0);
}

/// Serves jars, and files that are no jars.
async fn serving() -> SocketAddr {
    let jar = || {
        let mut jar = b"PK\x03\x04".to_vec();
        jar.resize(4096, b'.');
        Bytes::from(jar)
    };
    let router = Router::new().fallback(move |uri: Uri| async move {
        let then = |end: BoxStream<'static, io::Result<Bytes>>| {
            Body::from_stream(futures::stream::iter([Ok(jar())]).chain(end))
        };
        match uri.path() {
            "/good.jar" => Body::from(jar()),
            "/page.jar" => Body::from("<html>not logged in</html>"),
            "/cut.jar" => then(futures::stream::iter([Err(io::Error::other("cut"))]).boxed()),
            "/endless.jar" => then(futures::stream::pending().boxed()),
            _ => Body::from(""),
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Serves a REST API that notes the address of each connection.
async fn counting() -> (SocketAddr, Arc<Mutex<BTreeSet<SocketAddr>>>) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let shared = Arc::clone(&seen);
    let router = Router::new().fallback(move |ConnectInfo(from): ConnectInfo<SocketAddr>| {
        shared.lock().unwrap().insert(from);
        async { "{\"jobs\": []}" }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    (address, seen)
}

/// Returns the number of threads of this process with this name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
    names.filter(|found| found.as_ref().is_ok_and(|found| found.trim() == name)).count()
}

#[test]
fn flink_36876_clients_share_their_connections_and_threads() {
    const NAME: &str = "flink-36876";
    const AT_ONCE: usize = 8;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.thread_name(NAME).enable_all().build().unwrap();
    runtime.block_on(async {
        let (address, connections) = counting().await;
        let options = Options { rest_address: Some(address.to_string()), ..Options::default() };
        let connector = Connector::new(&options, None).unwrap();
        let ask = async |cluster: usize| {
            let target = Target {
                namespace: "shop".to_owned(),
                cluster_id: format!("orders-{cluster}"),
                port: 8081,
                is_tls: false,
            };
            connector.client(&target, DEADLINES).jobs_overview().await.unwrap();
        };
        for cluster in 0..60 {
            ask(cluster % 20).await;
        }
        assert_eq!(connections.lock().unwrap().len(), 1, "each client has its own");
        let all = futures::stream::iter(0..400).map(|of| ask(of % 20)).buffer_unordered(AT_ONCE);
        all.collect::<()>().await;
        // One more may be opened while another one is being returned.
        let made = connections.lock().unwrap().len();
        assert!(made <= 2 * AT_ONCE, "{made} connections for {AT_ONCE} requests at the same time");
        // Only Linux exposes the threads of a process this way.
        if cfg!(target_os = "linux") {
            assert_eq!(threads(NAME), 0, "a client works in the thread of whoever has it");
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_39439_a_refused_disposal_leaves_the_history_as_it_is() {
    let path = |age: i64| format!("s3://lake/sp/aged-{age}");
    let history_of = |status: &Value| -> Option<Vec<String>> {
        let history = status["jobStatus"]["savepointInfo"]["savepointHistory"].as_array()?;
        Some(history.iter().map(|one| one["location"].as_str().unwrap().to_owned()).collect())
    };
    for is_refused in [true, false] {
        let flink = FakeFlink::start().await;
        flink.use_real_time();
        let operating = Operating::start(flink);
        // A savepoint is not disposed of unless it is known that nothing needs it.
        operating.until_listed().await;
        if is_refused {
            operating.flink.inject("POST /savepoint-disposal", Fault::InternalError, usize::MAX);
        }
        let mut scene = Scene::running("savepoint")
            .operator_option("reconcile.interval", "100 ms")
            .operator_option("savepoint.history.max.count", "1")
            .operator_option("savepoint.dispose-on-delete", "true");
        let now = Timestamp::now().as_millisecond();
        let entry = |age: i64| Savepoint {
            time_stamp: now - age * 1000,
            location: Some(path(age)),
            trigger_type: Some(SnapshotTriggerType::Periodic),
            ..Savepoint::default()
        };
        let savepoint_history = [300, 200, 100].map(entry).to_vec();
        let info = SavepointInfo { savepoint_history, ..SavepointInfo::default() };
        scene.status.job_status.savepoint_info = Some(info);
        operating.run(&scene);
        operating.flink.with("shop/orders", |cluster| {
            cluster.stored.extend([300, 200, 100].map(|age| (path(age), 1)));
        });
        let of_cluster = |cluster: &FakeCluster| {
            history_of(&cluster.object("flinkdeployments", "shop", "orders")?["status"])
        };
        let tries = || operating.flink.requests("POST /savepoint-disposal").len();
        let is_disposed = |age: i64| {
            operating.flink.with("shop/orders", |cluster| cluster.is_disposed(&path(age)))
        };
        if is_refused {
            operating.until("it is tried again", |_| (tries() > 2).then_some(())).await;
            let all = [300, 200, 100].map(path);
            assert_eq!(of_cluster(&operating.cluster).unwrap(), all);
            for write in operating.cluster.writes() {
                let written = history_of(&write.body["status"]);
                assert!(written.is_none_or(|written| written == all), "{}", write.body);
            }
            assert!([300, 200, 100].iter().all(|age| !is_disposed(*age)));
        } else {
            let is_short = |cluster: &FakeCluster| {
                of_cluster(cluster).filter(|left| *left == [path(100)]).map(drop)
            };
            operating.until("the old ones are gone", is_short).await;
            assert_eq!([300, 200, 100].map(is_disposed), [true, true, false]);
        }
        operating.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_34212_a_job_that_has_stopped_is_forgotten() {
    crate::standalone::a_job_that_has_stopped_is_forgotten().await;
}
