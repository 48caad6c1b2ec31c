//! Something was left behind: files, objects, memory, connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use kubectl_flink::api::job::UpgradeMode;
use kubectl_flink::api::status::{DeploymentStatus, Savepoint, SavepointInfo, SnapshotTriggerType};
use kubectl_flink::artifact::{self, Request};
use kubectl_flink::config::FlinkConfig;
use kubectl_flink::decide::plan::Step;
use kubectl_flink::decide::snapshots::keep_undisposed;
use kubectl_flink::decide::world::{Fact, JobManager};
use kubectl_flink::flink::access::{Connector, Options, Target};
use kubectl_flink::metrics::family::Scope;
use kubectl_flink::metrics::{Facts, Identity, Metrics, Now, Settings, Sighting};

use crate::decisions::{SAVEPOINT, Scene, ago, created, deeds, job_manager, pod, told};
use crate::simulation::Sim;
use crate::simulation::session::Session;
use crate::support::fake_flink::deadlines;

const STORE_PATH: &str = "job-result-store.storage-path";

#[test]
fn flink_27569_the_result_of_a_job_outlives_its_end() {
    for mode in [UpgradeMode::Stateless, UpgradeMode::Savepoint, UpgradeMode::LastState] {
        let plan = Scene::running("savepoint").path(SAVEPOINT).upgrading(mode).plan();
        // A JobManager that comes back after the end would else run the job again.
        let is_removed = created(&plan, "job-result-store.delete-on-commit");
        assert_eq!(is_removed.as_deref(), Some("false"), "{}", told(&plan));
        // And one that ends with its job would be started anew by its Deployment.
        let ends = created(&plan, "execution.shutdown-on-application-finish");
        assert_eq!(ends.as_deref(), Some("false"));
    }
}

#[test]
fn flink_27573_each_start_has_a_job_result_store_of_its_own() {
    let mut sim = Sim::new("last-state");
    let mut paths = BTreeSet::new();
    for nonce in 1..4 {
        sim.edit(|resource| resource.spec.restart_nonce = Some(nonce));
        let path = (0..60).find_map(|_| {
            sim.tick();
            created(&sim.pass(None), STORE_PATH)
        });
        let path = path.expect("it starts");
        assert!(path.starts_with("s3://lake/ha/job-result-store/orders/"), "{path}");
        assert!(paths.insert(path.clone()), "{path} has what the job before left");
        sim.settle();
    }
}

#[test]
fn flink_27914_metrics_of_a_resource_are_kept_once_and_go_with_it() {
    let identity = Identity { host: String::new(), namespace: String::new(), name: String::new() };
    let metrics = Metrics::new(Settings::of(&FlinkConfig::new()).unwrap(), identity);
    let now = Now { clock: Duration::ZERO, time: jiff::Timestamp::UNIX_EPOCH };
    let series = || {
        let families = metrics.families(Duration::ZERO);
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
    // Events in all, that it came and that it changed.
    assert_eq!(series(), 3);
    metrics.gone("u1", now);
    assert_eq!(series(), 0);
    metrics.see(|| sighting(1000), now);
    metrics.scope_closes(Some("other"), now);
    assert_eq!(series(), 2);
    metrics.scope_closes(Some("shop"), now);
    assert_eq!(series(), 0);
}

#[test]
fn flink_34438_nothing_is_started_before_the_old_deployments_are_gone() {
    let stopped = || Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    assert!(deeds(&stopped().plan()).contains(&"create-cluster"));
    let mut deleting = stopped();
    deleting.facts.job_manager =
        Fact::Known(Some(JobManager { is_deleting: true, available_replicas: 0, ..job_manager() }));
    let mut lingering = stopped();
    lingering.facts.pods = Fact::Known(vec![pod()]);
    for scene in [deleting, lingering] {
        let plan = scene.plan();
        assert!(deeds(&plan).is_empty(), "{}", told(&plan));
        assert!(plan.look_again.is_some());
    }
    // The simulation fails on a start beside TaskManagers that go, or that are of another spec.
    let mut sim = Sim::new("savepoint").standalone();
    sim.settle();
    sim.edit(|resource| resource.spec.restart_nonce = Some(1));
    sim.settle();
    assert_eq!(sim.starts, 2);
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
        (format!("{prefix}.allowed-schemes"), "file"),
    ]
    .into_iter()
    .collect();
    let uri = format!("file://{}", jar.display());
    let request = Request::from_config(&uri, &config, &config).unwrap();
    let files = || {
        let entries = std::fs::read_dir(&store).unwrap().flatten();
        entries.filter(|entry| entry.path().is_file()).count()
    };
    for _ in 0..3 {
        let fetched = artifact::fetch(&request).await.unwrap();
        assert_eq!(files(), 1);
        drop(fetched);
        assert_eq!(files(), 0);
    }
}

/// A REST API that notes the address of each connection.
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

#[tokio::test]
async fn flink_36876_clients_share_their_connections_and_threads() {
    let (address, connections) = counting().await;
    let options = Options { rest_address: Some(address.to_string()), ..Options::default() };
    let connector = Connector::new(&options, None).unwrap();
    for _ in 0..50 {
        let target = Target {
            namespace: "shop".to_owned(),
            cluster_id: "orders".to_owned(),
            port: 8081,
            is_tls: false,
        };
        connector.client(&target, deadlines()).jobs_overview().await.unwrap();
    }
    assert_eq!(connections.lock().unwrap().len(), 1, "each client has its own");
}

#[test]
fn flink_39439_a_savepoint_that_could_not_be_disposed_of_stays_in_the_history() {
    let mut scene = Scene::running("savepoint")
        .operator_option("savepoint.history.max.count", "1")
        .operator_option("savepoint.dispose-on-delete", "true");
    let entry = |age: i64| Savepoint {
        time_stamp: ago(age).as_millisecond(),
        location: Some(format!("s3://lake/sp/aged-{age}")),
        trigger_type: Some(SnapshotTriggerType::Periodic),
        ..Savepoint::default()
    };
    let history = vec![entry(30), entry(20), entry(10)];
    scene.status.job_status.savepoint_info =
        Some(SavepointInfo { savepoint_history: history.clone(), ..SavepointInfo::default() });
    scene.facts.revisions = Fact::Known(vec![]);
    let nobody = |age: i64| (format!("s3://lake/sp/aged-{age}"), vec![]);
    scene.facts.references = Fact::Known([30, 20, 10].map(nobody).into());
    let plan = scene.plan();
    let disposed: Vec<&str> =
        deeds(&plan).into_iter().filter(|d| *d == "dispose-savepoint").collect();
    assert_eq!(disposed.len(), 2, "{}", told(&plan));
    // A run may use the files of what it was restored from.
    let claiming = scene.clone().option("execution.state-recovery.claim-mode", "CLAIM");
    let kept = claiming.plan();
    assert!(!deeds(&kept).contains(&"dispose-savepoint"), "{}", told(&kept));
    assert_eq!(kept.status.job_status.savepoint_info.unwrap().savepoint_history.len(), 1);
    // The JobManager refuses the first, and the second is not tried before it.
    let undisposed = ["s3://lake/sp/aged-30".to_owned(), "s3://lake/sp/aged-20".to_owned()];
    let mut end = plan.status.job_status.clone();
    keep_undisposed(&mut end, &scene.status.job_status, &undisposed);
    assert_eq!(end.savepoint_info.unwrap().savepoint_history, history);
}

#[test]
fn flink_39559_a_session_cluster_that_was_recovered_still_has_its_owner() {
    for mode in ["native", "standalone"] {
        let mut cluster = Session::new(mode);
        cluster.settle();
        cluster.lose_job_manager();
        let objects = (0..30).find_map(|_| {
            cluster.tick();
            cluster.pass(None).steps.into_iter().find_map(|step| match step {
                Step::CreateCluster(objects) => Some(objects),
                _ => None,
            })
        });
        let objects = objects.expect("it is recovered");
        for object in [Some(&objects.deployment), objects.task_managers.as_ref()] {
            let Some(object) = object else { continue };
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!((&owner["kind"], &owner["uid"]), (&"FlinkDeployment".into(), &"u1".into()));
        }
        cluster.settle();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_34212_a_job_that_has_stopped_is_forgotten() {
    crate::standalone::a_job_that_has_stopped_is_forgotten().await;
}
