//! A ZooKeeper with one server in the test's namespace, run from the Flink image.

use std::thread;
use std::time::{Duration, Instant};

use clients::zookeeper::Ensemble;
use config::FlinkConfig;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::cluster::Cluster;
use crate::support::patience::PATIENCE;

/// Flink's distribution includes ZooKeeper; this starts ZooKeeper's own server.
const START: &str = "\
mkdir -p /tmp/zookeeper && cat > /tmp/zoo.cfg <<'END'
tickTime=2000
dataDir=/tmp/zookeeper
clientPort=2181
admin.enableServer=false
server.1=localhost:2888:3888
END
exec java -Xmx96m -cp '/opt/flink/lib/*' org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer --zkConfigFile /tmp/zoo.cfg --peerId 1";

pub(super) const NAME: &str = "zookeeper";
/// Maximum time without a sign of life from a client of this test: the most that the server grants.
const SESSION: Duration = Duration::from_secs(40);

async fn connect(quorum: &str) -> Client {
    Client::connector().with_session_timeout(SESSION).connect(quorum).await.unwrap()
}

/// Returns its pod.
pub(super) fn server(job: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": NAME,
                "image": job["spec"]["image"],
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", START],
                "resources": {"requests": {"cpu": "0.1", "memory": "192Mi"}},
            }],
        },
    })
}

impl Cluster {
    /// Starts ZooKeeper; returns its quorum, with an address that this machine and pods can reach.
    pub(super) fn start_zookeeper(&self, server: Value) -> String {
        let pod: Pod = serde_json::from_value(server).unwrap();
        let pods: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        self.wait_for(pods.create(&PostParams::default(), &pod)).unwrap();
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < PATIENCE, "ZooKeeper listens");
            thread::sleep(Duration::from_secs(1));
            let pod = self.wait_for(pods.get(NAME)).unwrap();
            let address = pod.status.and_then(|status| status.pod_ip);
            let Some(quorum) = address.map(|address| format!("{address}:2181")) else { continue };
            if std::net::TcpStream::connect(&quorum).is_ok() {
                return quorum;
            }
        }
    }
}

/// Returns the names of the node's children; empty if it does not exist.
pub(super) fn children(cluster: &Cluster, quorum: &str, path: &str) -> Vec<String> {
    cluster.wait_for(async {
        let client = connect(quorum).await;
        client.sync("/").await.unwrap();
        match client.list_children(path).await {
            Ok(children) => children,
            Err(Error::NoNode) => Vec::new(),
            Err(error) => panic!("{path}: {error}"),
        }
    })
}

/// Asserts that nothing can be read without a login, and the node only by its creator.
#[track_caller]
pub(super) fn assert_closed(cluster: &Cluster, quorum: &str, path: &str) {
    let anybody = Client::connector().with_session_timeout(SESSION);
    let somebody = anybody.clone().with_auth("digest", b"somebody:else");
    for (connector, refusal) in [(anybody, Error::AuthFailed), (somebody, Error::NoAuth)] {
        let listed =
            cluster.wait_for(async { connector.connect(quorum).await?.list_children(path).await });
        assert_eq!(listed, Err(refusal), "{path}");
    }
}

/// Creates a node and all its ancestors.
pub(super) fn add(cluster: &Cluster, quorum: &str, path: &str) {
    cluster.wait_for(async {
        let client = connect(quorum).await;
        client.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    });
}

/// Registers a node that disappears when the result is dropped, like that of a JobManager.
pub(super) fn register(cluster: &Cluster, quorum: &str, path: &str) -> Client {
    add(cluster, quorum, path.rsplit_once('/').unwrap().0);
    cluster.wait_for(async {
        let client = connect(quorum).await;
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        client.create(path, b"", &options).await.unwrap();
        client
    })
}

/// Removes what these jobs have below the root path and cluster, as the operator does.
pub(super) fn delete(cluster: &Cluster, quorum: &str, [root, id]: [&str; 2], jobs: &[String]) {
    let config: FlinkConfig = [
        ("high-availability.type", "zookeeper"),
        ("high-availability.zookeeper.quorum", quorum),
        ("high-availability.zookeeper.path.root", root),
        ("high-availability.cluster-id", id),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    let ensemble = Ensemble::from_config(&config, &FlinkConfig::default()).unwrap();
    cluster.wait_for(clients::zookeeper::delete(&ensemble, Some(jobs))).unwrap();
}
