//! OpenTelemetry collectors, over HTTP or gRPC.

mod message;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, TE};
use reqwest::{Certificate, ClientBuilder, Identity as ClientIdentity, Method};

use self::message::{Source, bodies, refused};
use super::super::endpoint::{Answer, Caller, Error};
use config::plugin::Endpoint;
use config::reporter::{Otlp, Protocol};
use metrics::Identity;
use metrics::family::Family;

/// The method of the collector's service that accepts metrics.
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Length of what precedes a gRPC message, in bytes: a flag and its length.
const PREFIX: usize = 5;
/// Maximum length of a collector's remark that is reported.
const REMARK_MAX: usize = 500;

pub(super) struct Collector {
    caller: Caller,
    source: Source,
    protocol: Protocol,
    is_compressed: bool,
}

impl Collector {
    pub(super) fn new(
        settings: Otlp,
        identity: Identity,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let Otlp {
            endpoint: mut url,
            protocol,
            is_compressed,
            headers,
            trusted_certificates,
            client_certificate,
            service,
            version,
        } = settings;
        if protocol == Protocol::Grpc {
            url.set_path(EXPORT);
        }
        let trusted = trusted_certificates.as_deref().map(trusted).transpose()?;
        let client = client_certificate
            .map(|(certificate, key)| client_identity(&certificate, &key))
            .transpose()?;
        let settings = |mut builder: ClientBuilder| {
            if protocol == Protocol::Grpc {
                builder = builder.http2_prior_knowledge();
            }
            if let Some(trusted) = trusted {
                builder = builder.tls_certs_only(trusted);
            }
            if let Some(client) = client {
                builder = builder.identity(client);
            }
            builder
        };
        let caller = Caller::with(Endpoint { url, headers, timeout }, settings)?;
        let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
        let source = Source { identity, service, version, started: nanoseconds(Timestamp::now()) };
        Ok(Self { caller, source, protocol, is_compressed })
    }

    /// Sends one body after the other, so that only one at a time is in memory.
    pub(super) async fn emit(&self, families: &[Family], now: Timestamp) -> Result<(), Error> {
        for body in bodies(families, &self.source, nanoseconds(now)) {
            let body = if self.is_compressed { compressed(&body) } else { body };
            let answer = match self.protocol {
                Protocol::Http => self.post(body).await?,
                Protocol::Grpc => self.call(&body).await?,
            };
            if let Some((count, why)) = refused(&answer) {
                return Err(Error::Partial { count, why: in_short(&why) });
            }
        }
        Ok(())
    }

    async fn post(&self, body: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut request =
            self.caller.request(Method::POST).header(CONTENT_TYPE, "application/x-protobuf");
        if self.is_compressed {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        self.caller.answer(request.body(body)).await.map(|answer| answer.body)
    }

    /// Makes a unary gRPC call: an HTTP/2 request whose status comes behind the answer.
    async fn call(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(PREFIX + message.len());
        body.push(u8::from(self.is_compressed));
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(message);
        let mut request = self
            .caller
            .request(Method::POST)
            .header(CONTENT_TYPE, "application/grpc+proto")
            .header(TE, "trailers");
        if self.is_compressed {
            request = request.header("grpc-encoding", "gzip");
        }
        let Answer { headers, body } = self.caller.answer(request.body(body)).await?;
        let text = |name: &str| header(&headers, name);
        match text("grpc-status") {
            Some("0") => Ok(body.get(PREFIX..).unwrap_or_default().to_vec()),
            Some(status) => {
                let message = text("grpc-message").unwrap_or_default();
                Err(Error::Rpc(in_short(&format!("{status} {message}"))))
            }
            None => Err(Error::Rpc("of no kind: is this a port for gRPC?".to_owned())),
        }
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn in_short(text: &str) -> String {
    let text = text.trim();
    text[..text.floor_char_boundary(REMARK_MAX)].to_owned()
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("writing to memory succeeds")
}

fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn trusted(path: &Path) -> Result<Vec<Certificate>, Error> {
    Certificate::from_pem_bundle(&read(path)?).map_err(|error| unusable(path, &error))
}

fn client_identity(certificate: &Path, key: &Path) -> Result<ClientIdentity, Error> {
    let mut pem = read(certificate)?;
    pem.push(b'\n');
    pem.extend(read(key)?);
    ClientIdentity::from_pem(&pem).map_err(|error| unusable(certificate, &error))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &dyn std::error::Error) -> Error {
    Error::Invalid(format!("`{}`: {error}", path.display()))
}
