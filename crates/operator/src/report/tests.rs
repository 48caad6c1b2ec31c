use axum::Router;
use axum::http::HeaderMap as Headers;
use bytes::Bytes;
use config::FlinkConfig;
use config::reporter::{self, Reporters};
use metrics::Settings;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;

mod otlp;
mod push;

/// How long a report may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

fn metrics() -> Metrics {
    let settings = Settings::of(&FlinkConfig::new()).unwrap();
    let [host, namespace, name] = ["pod.1", "ops", "op"].map(str::to_owned);
    Metrics::new(settings, Identity { host, namespace, name })
}

/// Returns the settings of a reporter of a class, which reports once a second.
fn reporter(class: &str, options: &[(&str, &str)]) -> Push {
    let mut config = FlinkConfig::new();
    let mut set = |option: &str, value: &str| {
        config.set(format!("kubernetes.operator.metrics.reporter.it.{option}"), value);
    };
    set("factory.class", &format!("org.apache.flink.metrics.{class}"));
    set("interval", "1 s");
    for (option, value) in options {
        set(option, value);
    }
    let Reporters { all, without_effect } = Reporters::of(&config);
    assert_eq!(without_effect, []);
    let Some(reporter::Reporter::Push(push)) = all.into_iter().next() else {
        panic!("no such reporter")
    };
    push
}

/// Starts such a reporter.
fn start(class: &str, options: &[(&str, &str)]) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(run(metrics(), reporter(class, options), CancellationToken::new()))
}

/// Sends one report with such a reporter, and returns the result.
async fn once(class: &str, options: &[(&str, &str)]) -> Result<(), Error> {
    let (metrics, settings) = (metrics(), reporter(class, options));
    let reporter = Reporter::new(settings, metrics.identity().cloned().unwrap())?;
    reporter.send(&all(&metrics), Timestamp::now()).await
}

/// Starts an HTTP/1 server. Returns its address and the requests that it gets: method and path, headers, body.
async fn http_server() -> (String, mpsc::Receiver<(String, Headers, Bytes)>) {
    let (sender, heard) = mpsc::channel(100);
    let hear = move |method: Method, uri: http::Uri, headers: Headers, body: Bytes| {
        let sender = sender.clone();
        async move { drop(sender.try_send((format!("{method} {uri}"), headers, body))) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = Router::new().fallback(hear);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, heard)
}

async fn next<T>(heard: &mut mpsc::Receiver<T>) -> T {
    timeout(PATIENCE, heard.recv()).await.expect("nothing is told").unwrap()
}
