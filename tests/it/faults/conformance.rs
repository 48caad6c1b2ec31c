//! Holds the HA metadata of [`super::world`] to the scripts that a real Flink has answered, see `tests/it/conformance`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clients::flink::Client;
use expect_test::expect_file;
use futures::future::LocalBoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ground::Ground;
use super::stage::lay_out;
use crate::conformance::flink::application::Application;
use crate::conformance::flink::metadata::Maps;
use crate::conformance::flink::script::{AGAIN, World, differences, run};
use crate::conformance::flink::{APPLICATIONS, APPLICATIONS_OF_1_20, METADATA, METADATA_OF_1_20};
use crate::support::fake_flink::Cluster;
use crate::support::patience::PATIENCE;

const CLUSTER: &str = "available";
/// Begins the namespaces of applications.
const APPLICATION: &str = "applications";

/// A cluster of the model.
struct Model {
    ground: Arc<Ground>,
    client: Client,
    maps: Maps,
    is_flink_2: bool,
    is_for_applications: bool,
    /// How many applications were deployed.
    runs: AtomicUsize,
    /// Asks the cluster all the time: what happens in the fake happens when it is asked.
    clock: JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

impl Model {
    /// Lays out a cluster without a JobManager.
    async fn lay_out(ground: &Arc<Ground>, kind: &str, is_flink_2: bool) -> Self {
        let namespace = format!("{kind}-{}", if is_flink_2 { "2-3" } else { "1-20" });
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
        let (ground, runs) = (Arc::clone(ground), AtomicUsize::new(0));
        let is_for_applications = kind == APPLICATION;
        let model = Self { ground, client, maps, is_flink_2, is_for_applications, runs, clock };
        model.with(|cluster| {
            (cluster.slots, cluster.is_2_3) = (Some(2), is_flink_2);
            (cluster.is_down, cluster.only_told_checkpoints) = (true, true);
        });
        model.ground.world.contend(&namespace, CLUSTER);
        model
    }

    async fn session(ground: &Arc<Ground>, is_flink_2: bool) -> Self {
        let model = Self::lay_out(ground, "metadata", is_flink_2).await;
        model.create("kubernetes-session", &[]).await;
        model
    }

    /// Creates a JobManager with the arguments of its container, and its options.
    async fn create(&self, args: &str, options: &[(&str, String)]) {
        let available = [("high-availability.type", "kubernetes".to_owned())];
        let file = if self.is_flink_2 { "config.yaml" } else { "flink-conf.yaml" };
        let quote = if self.is_flink_2 { "\"" } else { "" };
        let lines = available.iter().chain(options);
        let lines = lines.map(|(key, value)| format!("{key}: {quote}{value}{quote}\n"));
        let labels = json!({"app": CLUSTER, "component": "jobmanager"});
        let options: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": format!("flink-config-{CLUSTER}")},
            "data": {file: lines.collect::<String>()},
        }))
        .unwrap();
        let job_manager: Deployment = serde_json::from_value(json!({
            "metadata": {"name": CLUSTER, "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "flink-main-container", "image": "flink", "args": [args],
                }]},
            }},
        }))
        .unwrap();
        let new = PostParams::default();
        self.api().create(&new, &options).await.unwrap();
        self.api().create(&new, &job_manager).await.unwrap();
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.ground.client.clone(), &self.maps.namespace)
    }

    /// Deletes the JobManager, and waits until its process has ended.
    async fn delete(&self) {
        let (begun, now) = (Instant::now(), DeleteParams::background());
        drop(self.api::<ConfigMap>().delete(&format!("flink-config-{CLUSTER}"), &now).await);
        drop(self.api::<Deployment>().delete(CLUSTER, &now).await);
        while self.ground.world.job_managers(&self.maps.namespace) > 0 {
            assert!(begun.elapsed() < PATIENCE, "its JobManager does not end");
            sleep(AGAIN).await;
        }
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

    fn is_for_applications(&self) -> bool {
        self.is_for_applications
    }

    fn deploy(&self, application: Application) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            self.delete().await;
            let run = self.runs.fetch_add(1, Ordering::Relaxed);
            self.create("standalone-job", &application.options(run, "file:/ha")).await;
        })
    }

    fn undeploy(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.delete())
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

    fn tend(&self) -> LocalBoxFuture<'_, Infallible> {
        Box::pin(async {
            // One of an application ends with its job.
            while self.is_for_applications
                || self.ground.world.job_managers(&self.maps.namespace) > 0
            {
                sleep(AGAIN).await;
            }
            let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
            panic!("the JobManager has ended: {:?}", pods.items)
        })
    }

    fn settle(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.ground.world.keep_metadata(&self.maps.namespace, CLUSTER))
    }
}

pub(super) async fn metadata_is_stored_as_by_flink() {
    let ground = Ground::shared().await;
    let answers =
        async |is_flink_2| run(&Model::session(&ground, is_flink_2).await, METADATA).await;
    let (of_1_20, of_2_3) = tokio::join!(answers(false), answers(true));
    expect_file!["../conformance/metadata-1.20.txt"].assert_eq(&of_1_20);
    expect_file!["../conformance/metadata-2.3.txt"]
        .assert_eq(&differences(METADATA_OF_1_20, &of_2_3));
}

pub(super) async fn metadata_of_applications_is_stored_as_by_flink() {
    let ground = Ground::shared().await;
    let answers = async |is_flink_2| {
        run(&Model::lay_out(&ground, APPLICATION, is_flink_2).await, APPLICATIONS).await
    };
    let (of_1_20, of_2_3) = tokio::join!(answers(false), answers(true));
    expect_file!["../conformance/application-1.20.txt"].assert_eq(&of_1_20);
    expect_file!["../conformance/application-2.3.txt"]
        .assert_eq(&differences(APPLICATIONS_OF_1_20, &of_2_3));
}
