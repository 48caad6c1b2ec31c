//! HA metadata in a ZooKeeper that others use, too.

use clients::zookeeper::{Ensemble, Error, delete, forget_job_graphs};
use config::FlinkConfig;

use crate::support::zookeeper::ZooKeeper;

/// A job, whose id is also a valid name of a resource.
const JOB: &str = "a3f00000000000000000000000000000";
const OTHER: &str = "0123456789abcdef0123456789abcdef";
/// What Flink has in ZooKeeper of a cluster with a job. `*` exists while its process does.
const CLUSTER: [&str; 8] = [
    "jobs/JOB/checkpoints/0000000000000000007/locks",
    "jobs/JOB/checkpoint_id_counter=",
    "jobgraphs/JOB/locks",
    "execution-plans",
    "leader/resource_manager",
    "leader/dispatcher",
    "leader/rest_server",
    "leader/job-JOB",
];
const LIVE: [&str; 3] =
    ["leader/latch/_c_1-latch-0*", "leader/dispatcher/connection_info*", "jobgraphs/JOB/locks/1*"];

fn cluster<'a>(base: &str, nodes: impl IntoIterator<Item = &'a &'a str>) -> Vec<String> {
    nodes.into_iter().map(|node| format!("{base}/{}", node.replace("JOB", JOB))).collect()
}

fn ensemble(zookeeper: &ZooKeeper, [root, id]: [&str; 2], more: &[(&str, &str)]) -> Ensemble {
    let config = [
        ("high-availability.zookeeper.quorum", &*zookeeper.address),
        ("high-availability.zookeeper.path.root", root),
        ("high-availability.cluster-id", id),
    ];
    let config = config.into_iter().chain(more.iter().copied()).collect();
    Ensemble::from_config(&config, &FlinkConfig::default()).unwrap()
}

/// Asserts that neither a deletion nor a stateless start removes anything; returns why.
async fn check_refused(nodes: &[String], place: [&str; 2], more: &[(&str, &str)]) -> Error {
    let zookeeper = ZooKeeper::serve(nodes).await;
    let before = zookeeper.nodes();
    let ensemble = ensemble(&zookeeper, place, more);
    let error = delete(&ensemble, None).await;
    assert_eq!(zookeeper.nodes(), before, "{place:?} {more:?}: {error:?}");
    let of_jobs = delete(&ensemble, Some(&[JOB.to_owned()])).await;
    assert_eq!(zookeeper.nodes(), before, "{place:?} {more:?}: {of_jobs:?}");
    let of_graphs = forget_job_graphs(&ensemble, &[]).await;
    assert_eq!(zookeeper.nodes(), before, "{place:?} {more:?}: {of_graphs:?}");
    assert_eq!(error.is_err(), of_jobs.is_err(), "{of_jobs:?}");
    error.unwrap_err()
}

#[tokio::test]
async fn nothing_of_others_is_removed_from_zookeeper() {
    const GRAPHS: &str = "high-availability.zookeeper.path.jobgraphs";
    let brokers = cluster("/brokers", &["ids/0*", "topics/orders/partitions/0/state=", "seqid"]);
    // Another one's cluster, suspended, so that all its state is here.
    let mut orders = cluster("/flink/orders", &CLUSTER);
    orders.extend(cluster("/flink/leader", &CLUSTER));
    orders.push(format!("/flink/orders/jobgraphs/{JOB}="));
    let folder = format!("/flink/orders/jobs/{JOB}");
    let folders = [
        ["/flink", "orders"].map(str::to_owned),
        ["/flink/orders".to_owned(), "jobs".to_owned()],
        ["/flink/orders".to_owned(), "leader".to_owned()],
        ["/flink/orders".to_owned(), "jobgraphs".to_owned()],
        ["/flink/orders/jobs".to_owned(), JOB.to_owned()],
        [folder, "checkpoints".to_owned()],
        ["/".to_owned(), "flink".to_owned()],
    ];
    for options in [vec![], vec![(GRAPHS, "orders/jobgraphs")], vec![(GRAPHS, "topics")]] {
        let error = check_refused(&brokers, ["/", "brokers"], &options).await;
        assert!(matches!(&error, Error::Foreign { .. }), "{error:?}");
        for [root, id] in &folders[1..] {
            let error = check_refused(&orders, [root, id], &options).await;
            assert!(matches!(&error, Error::Foreign { .. }), "{root} {id}: {error:?}");
        }
    }
    let error = check_refused(&brokers, ["/", "brokers"], &[]).await;
    assert_eq!(error.reason(), "ZooKeeperForeignNodes");
    assert!(!error.is_transient());
    for part in ["`/brokers`", "ids, seqid, topics", "path.root", "deleteall"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    // A graph: the end of somebody's tree.
    let graph = [format!("/flink/orders/jobgraphs/{JOB}=")];
    let error = check_refused(&graph, ["/flink/orders/jobgraphs", JOB], &[]).await;
    assert!(matches!(&error, Error::Foreign { found, .. } if found == "data"), "{error:?}");
    // A namesake's checkpoints, as if they were graphs.
    let namesake = cluster("/flink/orders", &CLUSTER);
    let error = check_refused(&namesake, ["/flink", "orders"], &[(GRAPHS, "jobs")]).await;
    assert!(matches!(&error, Error::Foreign { .. }), "{error:?}");
}

#[tokio::test]
async fn nothing_is_removed_alongside_or_inside_a_running_cluster() {
    for live in LIVE {
        let nodes = cluster("/flink/orders", CLUSTER.iter().chain([&live]));
        let error = check_refused(&nodes, ["/flink", "orders"], &[]).await;
        assert!(error.is_transient() && error.reason() == "ZooKeeperInUse", "{error:?}");
    }
    for live in [LIVE[0], LIVE[1], "leader/dispatcher/latch/1*", "leaderlatch/dispatcher_lock/1*"] {
        // The counter alone looks like nothing of others.
        let mut nodes = cluster("/flink/orders", [&live]);
        nodes.extend(cluster("/flink/orders/jobs/inner", &["leader", "jobs", "jobgraphs"]));
        let error = check_refused(&nodes, ["/flink/orders/jobs", "inner"], &[]).await;
        assert!(matches!(&error, Error::InUse { path } if path == "/flink/orders"), "{error:?}");
        // Not even if the quorum ends with a path, which hides what is around.
        let zookeeper = ZooKeeper::serve(&nodes).await;
        let quorum = format!("{}/flink/orders", zookeeper.address);
        let inside = [("high-availability.zookeeper.quorum", &*quorum)];
        let error = delete(&ensemble(&zookeeper, ["/jobs", "inner"], &inside), None).await;
        assert!(matches!(&error, Err(Error::InUse { .. })), "{error:?}");
    }
    // Every other cluster of the root runs, and one is called `leader`.
    let mut nodes = cluster("/flink/orders", &CLUSTER);
    let others = cluster("/flink/leader", CLUSTER.iter().chain(&LIVE));
    nodes.extend(others.clone());
    let zookeeper = ZooKeeper::serve(&nodes).await;
    delete(&ensemble(&zookeeper, ["/flink", "orders"], &[]), None).await.unwrap();
    assert_eq!(zookeeper.nodes(), ZooKeeper::serve(&others).await.nodes());
}

#[tokio::test]
async fn what_flink_has_of_a_cluster_is_removed_from_zookeeper() {
    let of_old = ["checkpoints/JOB/0000000000000000001=", "leaderlatch/JOB/job_manager_lock"];
    let zookeeper =
        ZooKeeper::serve(&cluster("/flink/orders", CLUSTER.iter().chain(&of_old))).await;
    let ensemble = ensemble(&zookeeper, ["/flink", "orders"], &[]);
    delete(&ensemble, None).await.unwrap();
    assert_eq!(zookeeper.nodes(), ["/", "/flink"]);
    // Again, when there is nothing, and when the last attempt ended early.
    delete(&ensemble, None).await.unwrap();
    zookeeper.add("/flink/orders");
    delete(&ensemble, None).await.unwrap();
    assert_eq!(zookeeper.nodes(), ["/", "/flink"]);
    // A stopped namesake keeps its checkpoints, but no graph.
    for node in cluster("/flink/orders", &CLUSTER) {
        zookeeper.add(&node);
        zookeeper.add(&node.replace(JOB, OTHER));
    }
    delete(&ensemble, Some(&[JOB.to_owned()])).await.unwrap();
    let left = zookeeper.nodes();
    let is_removed =
        |node: &String| node.contains("jobgraphs/") || node.ends_with(&format!("jobs/{JOB}"));
    assert!(!left.iter().any(is_removed), "{left:?}");
    assert!(left.contains(&format!("/flink/orders/jobs/{OTHER}/checkpoints/0000000000000000007")));
}

#[tokio::test]
async fn graphs_of_recorded_jobs_alone_are_removed_alongside_a_job_manager() {
    let nodes = cluster("/flink/orders", CLUSTER.iter().chain(&LIVE));
    let zookeeper = ZooKeeper::serve(&nodes).await;
    let ensemble = ensemble(&zookeeper, ["/flink", "orders"], &[]);
    let error = forget_job_graphs(&ensemble, &[OTHER.to_owned()]).await.unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    forget_job_graphs(&ensemble, &[JOB.to_owned()]).await.unwrap();
    let left = zookeeper.nodes();
    assert!(left.iter().all(|node| !node.contains("jobgraphs/")), "{left:?}");
    assert!(left.contains(&format!("/flink/orders/jobs/{JOB}/checkpoints/0000000000000000007")));
}

#[tokio::test]
async fn a_zookeeper_that_is_not_allowed_is_not_connected_to() {
    let zookeeper = ZooKeeper::serve(&[]).await;
    let config = [
        ("high-availability.zookeeper.quorum", &*zookeeper.address),
        ("high-availability.cluster-id", "orders"),
        ("kubernetes.operator.zookeeper.allowed-servers", &*zookeeper.address),
    ];
    let config: FlinkConfig = config.into_iter().collect();
    let allowing = |servers: &str| {
        let option = ("kubernetes.operator.zookeeper.allowed-servers", servers);
        Ensemble::from_config(&config, &[option].into_iter().collect())
    };
    let error = allowing("zookeeper.shared:2181").unwrap_err();
    assert!(error.to_string().contains("allowed-servers"), "{error}");
    assert_eq!(zookeeper.connections(), 0);
    let servers = format!("zookeeper.shared;{}", zookeeper.address);
    delete(&allowing(&servers).unwrap(), None).await.unwrap();
    assert_eq!(zookeeper.connections(), 1);
}
