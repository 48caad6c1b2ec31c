//! How a real API server handles our resources.
//!
//! `KUBECTL_FLINK_TEST_KUBECONFIG` is its kubeconfig; etcd and kube-apiserver are enough.

mod crds;
mod dashboard;
mod generated;
mod permissions;
mod webhook;

use std::net::UdpSocket;
use std::path::Path;

use api::crd;
use clients::cluster::crds as definitions;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::api_client;
use crate::support::patience::PATIENCE;

/// Set once our definitions are installed, which all tests share.
static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// A separate namespace in a cluster with our definitions.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    address: http::Uri,
}

impl Server {
    pub(crate) async fn with_namespace(namespace: &str) -> Self {
        let server = Self::without_definitions(namespace).await;
        INSTALLED.get_or_init(|| async { install(&server.client, &crd::all()).await }).await;
        server
    }

    /// Uses the API server as it is, for tests that run beside others.
    pub(crate) async fn without_definitions(namespace: &str) -> Self {
        // Fails if another test was first, which is fine.
        drop(rustls::crypto::ring::default_provider().install_default());
        let path = std::env::var("KUBECTL_FLINK_TEST_KUBECONFIG")
            .expect("KUBECTL_FLINK_TEST_KUBECONFIG names the kubeconfig of an API server");
        let config = api_client::config(Path::new(&path)).await;
        let address = config.cluster_url.clone();
        let client = api_client::client(config);
        let namespace = format!("{namespace}-{}", std::process::id());
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace }
        });
        let params = PatchParams::apply("kubectl-flink-test");
        let namespaces = Api::<Namespace>::all(client.clone());
        namespaces.patch(&namespace, &params, &Patch::Apply(object)).await.unwrap();
        Self { client, namespace, address }
    }

    /// Returns the address at which the API server can reach this machine; a sandbox has its own network.
    fn way_back(&self) -> String {
        let port = self.address.port_u16().unwrap_or(443);
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Sends nothing.
        socket.connect((self.address.host().unwrap(), port)).unwrap();
        socket.local_addr().unwrap().ip().to_string()
    }

    /// Restores the cluster, except for the definitions.
    pub(crate) async fn clean_up(self) {
        let namespaces = Api::<Namespace>::all(self.client);
        let _deletion = namespaces.delete(&self.namespace, &DeleteParams::default()).await.unwrap();
    }

    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta1", kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    fn api_of(&self, object: &Value) -> Api<DynamicObject> {
        let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
        self.api(group, object["kind"].as_str().unwrap())
    }

    async fn create(&self, object: &Value) -> Result<Value, kube::Error> {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = self.api_of(object).create(&PostParams::default(), &typed).await?;
        Ok(serde_json::to_value(created).unwrap())
    }

    /// Returns why the API server rejects `object`, or `None` if it accepts it. Nothing is stored.
    async fn refusal(&self, object: &Value) -> Option<String> {
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let params = PostParams { dry_run: true, ..PostParams::default() };
        self.api_of(object).create(&params, &typed).await.err().map(|error| error.to_string())
    }
}

async fn install(
    client: &Client,
    all: &[k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition],
) {
    definitions::apply(client, all, false).await.unwrap();
    definitions::wait_until_established(client, all, PATIENCE).await.unwrap();
}
