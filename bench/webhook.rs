//! How long the admission webhook takes to respond on loopback, over TLS, at a steady rate. There is no API server, and
//! nothing is looked up.
//!
//! A request is timed from when it was due, so a pause of the webhook shows in all requests that it delayed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use config::{FlinkConfig, OperatorConfig};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use operator::http::Listener;
use operator::live::Live;
use operator::webhook::admit::Jurisdiction;
use operator::webhook::certificate::{Pair, check, make};
use operator::webhook::serve::serve;
use operator::webhook::{ReviewRules, Webhook};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsConnector;

const HOST: &str = "127.0.0.1";
/// As many as an API server keeps when several reviews are in progress.
const CONNECTIONS: usize = 16;
/// Not measured: connections are opened, and memory is allocated.
const WARM_UP: Duration = Duration::from_secs(1);
const RATE_MAX: u32 = 100_000;
const SECONDS_MAX: u64 = 3600;

type Connection = SendRequest<Full<Bytes>>;

/// Sends `rate` requests per second.
pub(crate) async fn run(rate: u32, seconds: u64) -> Result<Value> {
    ensure!((1..=RATE_MAX).contains(&rate), "a rate is 1 to {RATE_MAX} a second");
    ensure!((1..=SECONDS_MAX).contains(&seconds), "it takes 1 to {SECONDS_MAX} seconds");
    let none = Pair { certificate: vec![], key: vec![], authority: vec![] };
    let names = [HOST.to_owned()];
    let pair = make(&names, Timestamp::now(), &none)?;
    let sound = check(&pair, &names, Timestamp::now()).context("the certificate that was made")?;
    let (_tls, receiver) = watch::channel(Some(sound.config));
    // Nothing listens there: reviews of deployments need no request to the cluster.
    let nowhere = kube::Config::new("http://127.0.0.1:9".parse()?);
    let client = kube::Client::try_from(nowhere)?;
    let live = Arc::new(Live::new(OperatorConfig::new(FlinkConfig::new())));
    let rules = ReviewRules::new(Jurisdiction::default(), vec![], vec![]);
    let webhook = Arc::new(Webhook::new(client, live, rules));
    let listener = Listener::open(0).await?;
    let port = listener.port()?;
    tokio::spawn(serve(listener, receiver, webhook));
    let (free, mut idle) = mpsc::channel(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        free.send(connect(port, &pair).await?).await?;
    }
    let body = Bytes::from(review().to_string());
    let (told, mut answers) = mpsc::unbounded_channel();
    let start = Instant::now();
    let pause = Duration::from_secs(1) / rate;
    let reviews = u64::from(rate) * (seconds + WARM_UP.as_secs());
    for number in 0..u32::try_from(reviews)? {
        let due = start + pause * number;
        sleep_until(due).await;
        let mut connection: Connection = idle.recv().await.context("all connections broke")?;
        let (free, told, body) = (free.clone(), told.clone(), body.clone());
        tokio::spawn(async move {
            let is_allowed = ask(&mut connection, body).await;
            let is_retained = is_allowed.is_ok();
            let is_counted = due >= start + WARM_UP;
            let _told = told.send((due.elapsed(), is_allowed.unwrap_or(false), is_counted));
            if is_retained {
                let _kept = free.send(connection).await;
            }
        });
    }
    drop(told);
    let (mut times, mut failed) = (Vec::new(), 0_u64);
    while let Some((time, is_allowed, is_counted)) = answers.recv().await {
        failed += u64::from(!is_allowed);
        if is_counted {
            times.push(time);
        }
    }
    times.sort_unstable();
    let at = |share: f64| {
        let last = times.len().saturating_sub(1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it")]
        let index = (last as f64 * share).ceil() as usize;
        times.get(index).map(|time| time.as_secs_f64() * 1000.0)
    };
    Ok(json!({
        "rate": rate,
        "requests": times.len(),
        "failed": failed,
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "p999_ms": at(0.999),
        "max_ms": at(1.0),
    }))
}

/// Opens a connection that trusts only the authority of `pair`.
async fn connect(port: u16, pair: &Pair) -> Result<Connection> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pair.authority) {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect((HOST, port)).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(HOST)?, stream);
    let (sender, connection) = handshake(TokioIo::new(stream.await?)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Sends a review. Returns whether it was answered and the resource was admitted.
async fn ask(connection: &mut Connection, body: Bytes) -> Result<bool> {
    connection.ready().await?;
    let request = http::Request::post("/validate?timeout=10s").header("host", HOST);
    let response = connection.send_request(request.body(Full::new(body))?).await?;
    let is_answered = response.status().is_success();
    let body = response.into_body().collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&body)?;
    Ok(is_answered && answer["response"]["allowed"] == json!(true))
}

fn review() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "kind": {"group": "flink.apache.org", "version": "v1beta1", "kind": "FlinkDeployment"},
            "namespace": "shop",
            "operation": "CREATE",
            "oldObject": null,
            "object": {
                "apiVersion": "flink.apache.org/v1beta1",
                "kind": "FlinkDeployment",
                "metadata": {"name": "orders", "namespace": "shop"},
                "spec": {
                    "image": "flink:1.20",
                    "flinkVersion": "v1_20",
                    "serviceAccount": "flink",
                    "flinkConfiguration": {
                        "taskmanager.numberOfTaskSlots": "2",
                        "execution.checkpointing.interval": "1 min",
                        "execution.checkpointing.dir": "s3://lake/checkpoints",
                        "execution.checkpointing.savepoint-dir": "s3://lake/savepoints",
                    },
                    "jobManager": {"resource": {"memory": "2g", "cpu": 1}},
                    "taskManager": {"resource": {"memory": "4g", "cpu": 2}},
                    "job": {
                        "jarURI": "local:///opt/flink/job.jar",
                        "parallelism": 4,
                        "upgradeMode": "savepoint",
                    },
                },
            },
        },
    })
}
