//! Options of Flink's OpenTelemetry reporter.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::{InvalidValue, Options, Reporter, TIMEOUT, To};

pub(super) const OPTIONS: [&str; 11] = [
    "exporter.endpoint",
    "exporter.protocol",
    "exporter.timeout",
    "exporter.compression",
    "exporter.http-headers",
    "exporter.ssl.trusted-certificates",
    "exporter.ssl.client-certificate",
    "exporter.ssl.client-key",
    "interval",
    "service.name",
    "service.version",
];

/// Metrics for an OpenTelemetry collector, sent by push.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Otlp {
    /// `http://collector:4317` for gRPC; for HTTP with its path, such as `http://collector:4318/v1/metrics`.
    pub endpoint: url::Url,
    pub protocol: Protocol,
    pub is_compressed: bool,
    /// May be secret.
    pub headers: Vec<(String, String)>,
    /// If it is set, only these are trusted.
    pub trusted_certificates: Option<PathBuf>,
    /// A certificate and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    pub service: String,
    pub version: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    Grpc,
    Http,
}

impl Options<'_> {
    pub(super) fn otlp(&self) -> Result<Reporter, InvalidValue> {
        let is_http =
            self.text("exporter.protocol").is_some_and(|text| text.eq_ignore_ascii_case("http"));
        let (protocol, example) = if is_http {
            (Protocol::Http, "http://collector:4318/v1/metrics")
        } else {
            (Protocol::Grpc, "http://collector:4317")
        };
        let compression = self.text("exporter.compression").unwrap_or("none");
        let is_compressed = compression.eq_ignore_ascii_case("gzip");
        if !is_compressed && !compression.eq_ignore_ascii_case("none") {
            return Err(self.invalid("exporter.compression", compression, "`gzip` or `none`"));
        }
        let file = |option| self.text(option).map(PathBuf::from);
        let client_certificate =
            file("exporter.ssl.client-certificate").zip(file("exporter.ssl.client-key"));
        for (one, other) in [("certificate", "key"), ("key", "certificate")] {
            let (one, other) = (format!("exporter.ssl.client-{one}"), format!("client-{other}"));
            if let (Some(text), None) = (self.text(&one), &client_certificate) {
                let expected = format!("`exporter.ssl.{other}` to be set too");
                return Err(self.invalid(&one, text, &expected));
            }
        }
        let settings = Otlp {
            endpoint: self.url("exporter.endpoint", example)?,
            protocol,
            is_compressed,
            headers: self.headers()?,
            trusted_certificates: file("exporter.ssl.trusted-certificates"),
            client_certificate,
            service: self.text("service.name").unwrap_or("flink-kubernetes-operator").to_owned(),
            version: self.text("service.version").map(str::to_owned),
        };
        let timeout = self.duration("exporter.timeout", TIMEOUT)?;
        self.push(timeout, To::Otlp(Box::new(settings)))
    }

    /// Returns an unknown protocol, for which Flink uses gRPC.
    pub(super) fn unknown_protocol(&self) -> Option<String> {
        let text = self.text("exporter.protocol")?;
        let is_known = ["gRPC", "HTTP"].iter().any(|known| text.eq_ignore_ascii_case(known));
        (!is_known).then(|| format!("`{text}` is neither `gRPC` nor `HTTP`; gRPC is used"))
    }

    /// Parses `NAME=VALUE` pairs, separated by commas, with percent-encoded values. Pairs without a value are ignored.
    fn headers(&self) -> Result<Vec<(String, String)>, InvalidValue> {
        let option = "exporter.http-headers";
        let text = self.text(option).unwrap_or_default();
        let read = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some((name.trim().to_owned(), value.into_owned()))
        };
        let pairs = text.split(',').filter(|pair| !pair.trim().is_empty()).map(read);
        let read: Option<Vec<_>> = pairs.collect();
        let mut headers = read.ok_or_else(|| {
            let expected = "pairs such as `Authorization=Basic%20dXNlcjpwYXNz,X-Tenant=a`";
            self.invalid(option, text, expected).hidden()
        })?;
        headers.retain(|(_, value)| !value.is_empty());
        Ok(headers)
    }
}
