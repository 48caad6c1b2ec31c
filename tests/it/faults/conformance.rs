//! Holds the HA metadata of [`super::world`] to the scripts that a real Flink has answered, see `tests/it/conformance`.

use std::sync::Arc;

use clients::flink::Client;
use expect_test::expect_file;
use futures::future::LocalBoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ground::Ground;
use super::stage::lay_out;
use crate::conformance::flink::metadata::Maps;
use crate::conformance::flink::script::{AGAIN, World, differences, run};
use crate::conformance::flink::{METADATA, METADATA_OF_1_20};
use crate::support::fake_flink::Cluster;

const CLUSTER: &str = "available";

/// A session cluster of the model.
struct Model {
    ground: Arc<Ground>,
    client: Client,
    maps: Maps,
    /// Asks the cluster all the time: what happens in the fake happens when it is asked.
    clock: JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

impl Model {
    async fn start(ground: &Arc<Ground>, is_flink_2: bool) -> Self {
        let namespace = format!("metadata-{}", if is_flink_2 { "2-3" } else { "1-20" });
        lay_out(ground, &namespace).await;
        let client = ground.world.flink().client_of(&namespace, CLUSTER).await;
        let maps = Maps {
            client: ground.client.clone(),
            namespace: namespace.clone(),
            cluster: CLUSTER.to_owned(),
        };
        let asks = client.without_retries();
        let clock = tokio::spawn(async move {
            loop {
                drop(asks.overview().await);
                sleep(AGAIN).await;
            }
        });
        let model = Self { ground: Arc::clone(ground), client, maps, clock };
        model.with(|cluster| {
            (cluster.slots, cluster.is_2_3) = (Some(2), is_flink_2);
            (cluster.is_down, cluster.only_told_checkpoints) = (true, true);
        });
        ground.world.contend(&namespace, CLUSTER);
        let file = if is_flink_2 { "config.yaml" } else { "flink-conf.yaml" };
        let labels = json!({"app": CLUSTER, "component": "jobmanager"});
        let options: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": format!("flink-config-{CLUSTER}")},
            "data": {file: "high-availability.type: kubernetes"},
        }))
        .unwrap();
        let job_manager: Deployment = serde_json::from_value(json!({
            "metadata": {"name": CLUSTER, "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "flink-main-container", "image": "flink", "args": ["kubernetes-session"],
                }]},
            }},
        }))
        .unwrap();
        let (new, client) = (PostParams::default(), &ground.client);
        Api::namespaced(client.clone(), &namespace).create(&new, &options).await.unwrap();
        Api::namespaced(client.clone(), &namespace).create(&new, &job_manager).await.unwrap();
        model
    }

    fn with<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        self.ground.world.flink().with(&format!("{}/{CLUSTER}", self.maps.namespace), change)
    }
}

impl World for Model {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn set(&self, gate: &str, is_set: bool) {
        self.with(|cluster| cluster.gates.set(gate, is_set));
    }

    fn maps(&self) -> Option<&Maps> {
        Some(&self.maps)
    }

    fn crash(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async {
            // The folder of uploads of the real one is still there, too.
            let jars = self.with(|cluster| cluster.jars.clone());
            self.ground.world.crash_job_manager(&self.maps.namespace, CLUSTER).await;
            self.with(|cluster| cluster.jars = jars);
        })
    }

    fn settle(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.ground.world.keep_metadata(&self.maps.namespace, CLUSTER))
    }
}

pub(super) async fn metadata_is_kept_as_by_flink() {
    let ground = Ground::shared().await;
    let answers = async |is_flink_2| run(&Model::start(&ground, is_flink_2).await, METADATA).await;
    let (of_1_20, of_2_3) = tokio::join!(answers(false), answers(true));
    expect_file!["../conformance/metadata-1.20.txt"].assert_eq(&of_1_20);
    expect_file!["../conformance/metadata-2.3.txt"]
        .assert_eq(&differences(METADATA_OF_1_20, &of_2_3));
}
