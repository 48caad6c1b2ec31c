//! Collectors as the receivers of reports.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Text;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use prost::Message;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::*;

const CLASS: &str = "otel.OpenTelemetryMetricReporterFactory";

/// Starts a gRPC server that answers every call with `status`. Returns its address and the calls that it gets.
async fn grpc_server(
    status: &'static str,
    tls: Option<TlsAcceptor>,
) -> (String, mpsc::Receiver<(http::request::Parts, Vec<u8>)>) {
    let (sender, heard) = mpsc::channel(100);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            match &tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        tokio::spawn(grpc_connection(stream, status, sender.clone()));
                    }
                }
                None => drop(tokio::spawn(grpc_connection(stream, status, sender.clone()))),
            }
        }
    });
    (address, heard)
}

async fn grpc_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    status: &'static str,
    sender: mpsc::Sender<(http::request::Parts, Vec<u8>)>,
) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let sender = sender.clone();
        // The connection only makes progress while it is polled.
        tokio::spawn(async move {
            let (parts, mut stream) = request.into_parts();
            let mut body = Vec::new();
            while let Some(chunk) = stream.data().await {
                let chunk = chunk.unwrap();
                stream.flow_control().release_capacity(chunk.len()).unwrap();
                body.extend_from_slice(&chunk);
            }
            let head = http::Response::builder().header("content-type", "application/grpc");
            let mut answer = respond.send_response(head.body(()).unwrap(), false).unwrap();
            // An empty message.
            answer.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
            let mut trailers = Headers::new();
            trailers.insert("grpc-status", status.parse().unwrap());
            trailers.insert("grpc-message", "no such method".parse().unwrap());
            answer.send_trailers(trailers).unwrap();
            drop(sender.try_send((parts, body)));
        });
    }
}

/// Returns the message after the prefix, which contains its length.
fn message(body: &[u8], is_compressed: bool) -> Vec<u8> {
    let (prefix, message) = body.split_at(5);
    assert_eq!(prefix[0], u8::from(is_compressed));
    let length = u32::try_from(message.len()).unwrap();
    assert_eq!(prefix[1..], length.to_be_bytes());
    message.to_vec()
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(body).read_to_end(&mut unpacked).unwrap();
    unpacked
}

/// Returns the service, and the values of a sum and of a gauge.
fn described(message: &[u8]) -> (String, f64, f64) {
    let request = ExportMetricsServiceRequest::decode(message).unwrap();
    let all = &request.resource_metrics[0];
    let service = &all.resource.as_ref().unwrap().attributes[0];
    let Some(Text::StringValue(service)) = service.value.clone().unwrap().value else {
        panic!("{service:?}")
    };
    let find = |name: &str| {
        let metrics = &all.scope_metrics[0].metrics;
        let metric = metrics.iter().find(|metric| metric.name == name).expect(name);
        let points = match metric.data.clone().unwrap() {
            Data::Sum(sum) => sum.data_points,
            Data::Gauge(gauge) => gauge.data_points,
            other => panic!("{other:?}"),
        };
        let Some(Number::AsDouble(value)) = points[0].value else { panic!("{points:?}") };
        value
    };
    let requests = find("flink.k8soperator.KubeClient.HttpRequest.Count");
    (service, requests, find("process_threads"))
}

#[tokio::test]
async fn a_collector_is_called_over_grpc_where_nothing_else_is_set() {
    let (address, mut calls) = grpc_server("0", None).await;
    let endpoint = format!("http://{address}");
    let reporter = start(CLASS, &[("exporter.endpoint", &endpoint), ("service.name", "flink")]);
    let (head, body) = next(&mut calls).await;
    assert_eq!(head.method, "POST");
    let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    assert_eq!(head.uri.path(), path);
    assert_eq!(head.headers["content-type"], "application/grpc+proto");
    assert_eq!(head.headers["te"], "trailers");
    let (service, requests, threads) = described(&message(&body, false));
    assert_eq!((service.as_str(), requests), ("flink", 0.0));
    assert!(threads > 0.0);
    // The reporter continues, over the same connection.
    drop(next(&mut calls).await);
    reporter.abort();
}

#[tokio::test]
async fn a_call_has_headers_and_is_compressed_where_that_is_asked_for() {
    let (address, mut calls) = grpc_server("0", None).await;
    let endpoint = format!("http://{address}");
    let reporter = start(
        CLASS,
        &[
            ("exporter.endpoint", &endpoint),
            ("exporter.compression", "gzip"),
            ("exporter.http-headers", "Authorization=Bearer%20secret"),
        ],
    );
    let (head, body) = next(&mut calls).await;
    reporter.abort();
    assert_eq!(head.headers["grpc-encoding"], "gzip");
    assert_eq!(head.headers["authorization"], "Bearer secret");
    assert_eq!(described(&unpacked(&message(&body, true))).0, "flink-kubernetes-operator");
}

#[tokio::test]
async fn a_status_behind_the_answer_is_a_failure() {
    let (address, _calls) = grpc_server("12", None).await;
    let error =
        once(CLASS, &[("exporter.endpoint", &format!("http://{address}"))]).await.unwrap_err();
    assert_eq!(error.to_string(), "it answered with gRPC status 12 no such method");
    // An answer without a gRPC status is not from such a server.
    let (address, _heard) = http_server().await;
    let error =
        once(CLASS, &[("exporter.endpoint", &format!("http://{address}"))]).await.unwrap_err();
    assert!(error.to_string().ends_with("is this a port for gRPC?"), "{error}");
}

/// Returns a certificate for `localhost` and its authority, as PEM, and a server that uses it.
fn certified() -> (String, TlsAcceptor) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (authority_pem, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn a_collector_behind_tls_is_called_where_its_authority_is_trusted() {
    let (authority, tls) = certified();
    let (address, mut calls) = grpc_server("0", Some(tls)).await;
    let endpoint = format!("https://{address}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, authority).unwrap();
    let trust = ("exporter.ssl.trusted-certificates", file.to_str().unwrap());
    let reporter = start(CLASS, &[("exporter.endpoint", &endpoint), trust]);
    let (_, body) = next(&mut calls).await;
    reporter.abort();
    assert_eq!(described(&message(&body, false)).0, "flink-kubernetes-operator");
    // No other authority vouches for it.
    let error = once(CLASS, &[("exporter.endpoint", &endpoint)]).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_named() {
    let trust = ("exporter.ssl.trusted-certificates", "/nowhere/ca.crt");
    let reporter = start(CLASS, &[("exporter.endpoint", "https://collector"), trust]);
    let error = reporter.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("`/nowhere/ca.crt`"), "{error}");
}

#[tokio::test]
async fn over_http_a_collector_is_sent_the_same_message() {
    let (address, mut heard) = http_server().await;
    let endpoint = format!("http://{address}/v1/metrics");
    let options = [("exporter.endpoint", endpoint.as_str()), ("exporter.protocol", "HTTP")];
    let reporter = start(CLASS, &options);
    let (request, headers, body) = next(&mut heard).await;
    reporter.abort();
    assert_eq!(request, "POST /v1/metrics");
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert!(!headers.contains_key("content-encoding"));
    assert_eq!(described(&body).0, "flink-kubernetes-operator");
    let reporter = start(CLASS, &[&options[..], &[("exporter.compression", "gzip")]].concat());
    let (_, headers, body) = next(&mut heard).await;
    reporter.abort();
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(described(&unpacked(&body)).0, "flink-kubernetes-operator");
}
