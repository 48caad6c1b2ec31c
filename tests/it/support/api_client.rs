//! An API server client for a test's own requests.

use std::path::Path;
use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::Layer;
use tower::timeout::TimeoutLayer;

use super::patience::PATIENCE;

/// Idle time after which a connection is dropped. A kube-apiserver closes a connection after 32 seconds without a first
/// request, and after 90 without a further one (`ReadHeaderTimeout` and `IdleTimeout` of its server). hyper also keeps
/// idle ones for 90, so a request could meet the close and fail without an answer.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Returns the configuration for the kubeconfig's current context.
pub(crate) async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

/// Returns a client that reports errors as they come, without retries, and uses no connection that the API server may
/// be about to close. Its user has a token, like a sandbox's.
pub(crate) fn client(config: Config) -> Client {
    let connector = config.rustls_https_connector().unwrap();
    let connections = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .build(connector);
    // The start of an answer: a test that gets none fails.
    let connections = TimeoutLayer::new(PATIENCE).layer(connections);
    let credentials = config.auth_layer().unwrap().expect("a kubeconfig with a token");
    let service = credentials.layer(config.extra_headers_layer().unwrap().layer(connections));
    let service = config.base_uri_layer().layer(service);
    ClientBuilder::new(service, config.default_namespace).build()
}
