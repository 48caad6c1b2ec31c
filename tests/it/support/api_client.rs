//! A client of an API server for what a test itself does there.

use std::path::Path;
use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::Layer;
use tower::timeout::TimeoutLayer;

/// A kube-apiserver closes a connection after 32 seconds without a first request, and after 90
/// without a further one (`ReadHeaderTimeout` and `IdleTimeout` of its server). hyper keeps idle ones
/// for 90, too: a request may meet the closing, and fail without an answer.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Until an answer begins; a test that gets none has failed.
const ANSWER_MAX: Duration = Duration::from_mins(2);

/// The connection that a kubeconfig names first.
pub(crate) async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

/// A client that tells errors as they come, nothing is tried again behind the scenes, and that uses
/// no connection which the API server may be about to close. Its user has a token, as a sandbox's.
pub(crate) fn client(config: Config) -> Client {
    let connector = config.rustls_https_connector().unwrap();
    let connections = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_MAX)
        .build(connector);
    let connections = TimeoutLayer::new(ANSWER_MAX).layer(connections);
    let credentials = config.auth_layer().unwrap().expect("a kubeconfig with a token");
    let service = credentials.layer(config.extra_headers_layer().unwrap().layer(connections));
    let service = config.base_uri_layer().layer(service);
    ClientBuilder::new(service, config.default_namespace).build()
}
