//! Flink behind mutual TLS: `security.ssl.rest.authentication-enabled`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use clients::flink::Error;
use clients::flink::access::{Connector, Options, Target};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::patience::DEADLINES;

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns a certificate and its key.
    pub(crate) fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        self.sign_key(&KeyPair::generate().unwrap(), name, usage)
    }

    pub(crate) fn sign_key(
        &self,
        key: &KeyPair,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        (params.signed_by(key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Returns a folder like the mounted Secret of a client that `self` signed and that trusts `trusted`.
    fn folder(&self, trusted: &Self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = self.sign("operator", ExtendedKeyUsagePurpose::ClientAuth);
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("ca.crt", &trusted.pem);
        put("tls.crt", &certificate);
        put("tls.key", &key);
        folder
    }
}

/// Starts a JobManager without jobs that answers only clients with a certificate of `authority`.
async fn job_manager(authority: &Authority) -> SocketAddr {
    job_manager_named(authority, "127.0.0.1").await
}

/// As [`job_manager`], with a certificate for `name`.
async fn job_manager_named(authority: &Authority, name: &str) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let (certificate, key) = authority.sign(name, ExtendedKeyUsagePurpose::ServerAuth);
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = [0; 4096];
                let Ok(1..) = stream.read(&mut request).await else { return };
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                              content-length: 11\r\nconnection: close\r\n\r\n{\"jobs\":[]}";
                drop(stream.write_all(answer.as_bytes()).await);
                drop(stream.shutdown().await);
            });
        }
    });
    address
}

async fn asked(address: SocketAddr, tls_folder: Option<&Path>) -> Result<usize, Error> {
    asked_by(address, Options { tls_folder: tls_folder.map(Path::to_owned), ..Options::default() })
        .await
}

async fn asked_by(address: SocketAddr, options: Options) -> Result<usize, Error> {
    let options = Options { rest_address: Some(address.to_string()), ..options };
    let (namespace, cluster_id) = ("shop".to_owned(), "orders".to_owned());
    let target = Target { namespace, cluster_id, port: 8081, is_tls: true };
    let connector = Connector::new(&options, None)?;
    let client = connector.client(&target, DEADLINES).without_retries();
    client.jobs_overview().await.map(|overview| overview.jobs.len())
}

#[tokio::test]
async fn a_job_manager_that_asks_who_calls_is_answered() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let address = job_manager(&ours).await;
    assert!(asked(address, None).await.is_err(), "it is not trusted");
    assert!(asked(address, Some(others.folder(&ours).path())).await.is_err(), "nobody's friend");
    assert!(asked(address, Some(ours.folder(&others).path())).await.is_err(), "it is not trusted");
    assert_eq!(asked(address, Some(ours.folder(&ours).path())).await.unwrap(), 0);
    let trusting = ours.folder(&ours);
    for name in ["tls.crt", "tls.key"] {
        fs::remove_file(trusting.path().join(name)).unwrap();
    }
    assert!(asked(address, Some(trusting.path())).await.is_err(), "it does not say who it is");
}

/// As in the Java operator's TLS example, whose client checks no names.
#[tokio::test]
async fn a_certificate_without_the_name_of_the_service_is_taken_where_that_is_asked_for() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let address = job_manager_named(&ours, "basic-secure-rest").await;
    let folder = ours.folder(&ours);
    let told = asked(address, Some(folder.path())).await.unwrap_err().to_string();
    assert!(told.contains("FLINK_REST_CHECK_HOST_NAME=false"), "{told}");
    let by = |folder: &tempfile::TempDir| Options {
        tls_folder: Some(folder.path().to_owned()),
        ignores_host_name: true,
        ..Options::default()
    };
    assert_eq!(asked_by(address, by(&folder)).await.unwrap(), 0);
    assert!(asked_by(address, by(&ours.folder(&others))).await.is_err(), "it is not trusted");
}

/// As in Flink up to 1.20.1, whose default cipher current libraries do not support.
#[tokio::test]
async fn a_job_manager_without_a_common_cipher_is_reported_with_the_option_to_set() {
    const HANDSHAKE_FAILURE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut hello = [0; 4096];
            drop(stream.read(&mut hello).await);
            drop(stream.write_all(&HANDSHAKE_FAILURE).await);
        }
    });
    let told = asked(address, None).await.unwrap_err().to_string();
    assert!(told.contains("security.ssl.algorithms: TLS_ECDHE_RSA_WITH_AES_128"), "{told}");
}
