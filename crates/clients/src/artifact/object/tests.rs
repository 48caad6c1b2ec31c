use axum::Router;
use axum::extract::Path as Place;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tempfile::TempDir;

use super::*;
use crate::artifact::{Fetched, Jars};
use config::FlinkConfig;

const JAR: &[u8] = b"PK\x03\x04 and what a jar has";
const PREFIX: &str = "kubernetes.operator.user.artifacts";

/// Responds as the three stores do, by path: each has its own way to sign a request.
async fn answer(Place((_bucket, key)): Place<(String, String)>, headers: HeaderMap) -> Response {
    let signature = headers.get("authorization").map(|value| value.to_str().unwrap());
    let is_signed = |start: &str| signature.is_some_and(|text| text.starts_with(start));
    let jar = [("etag", "\"v1\""), ("last-modified", "Sat, 01 Nov 2025 00:00:00 GMT")];
    let is_known = headers.get("if-none-match").is_some_and(|tag| tag == "\"v1\"");
    match key.as_str() {
        "jobs/a.jar" if is_known => StatusCode::NOT_MODIFIED.into_response(),
        "jobs/public.jar" => (jar, JAR).into_response(),
        "jobs/a.jar" if is_signed("AWS4-HMAC-SHA256 Credential=key-id/") => {
            (jar, JAR).into_response()
        }
        "jobs/azure.jar" if is_signed("SharedKey account:") => (jar, JAR).into_response(),
        "jobs/none.jar" => StatusCode::NOT_FOUND.into_response(),
        "jobs/busy.jar" => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => (StatusCode::FORBIDDEN, "<Error>very-secret</Error>").into_response(),
    }
}

async fn serve() -> String {
    drop(rustls::crypto::ring::default_provider().install_default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/{bucket}/{*key}", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

struct Options<'a> {
    operator: &'a [(&'a str, &'a str)],
    job: &'a [(&'a str, &'a str)],
    is_guarded: bool,
}

/// Fetches the URI, and returns the result with the folder that contains it.
async fn fetch_with(uri: &str, options: &Options<'_>) -> Result<(Fetched, TempDir), Error> {
    let folder = tempfile::tempdir().unwrap();
    let mut operator: FlinkConfig = [
        (format!("{PREFIX}.base.dir"), folder.path().to_str().unwrap()),
        (format!("{PREFIX}.allowed-schemes"), "s3;gs;abfss;hdfs"),
        (
            format!("{PREFIX}.disallow-restricted-hosts"),
            if options.is_guarded { "true" } else { "false" },
        ),
    ]
    .into_iter()
    .collect();
    operator.overlay(&options.operator.iter().copied().collect());
    let mut job = operator.clone();
    job.overlay(&options.job.iter().copied().collect());
    let fetched =
        Jars::default().fetch(&Request::from_config("shop", uri, &operator, &job).unwrap()).await?;
    Ok((fetched, folder))
}

#[tokio::test]
async fn s3_is_read_with_the_operators_options() {
    let endpoint = serve().await;
    let operator = [
        ("s3.endpoint", endpoint.as_str()),
        ("s3.access-key", "key-id"),
        ("fs.s3a.secret.key", "very-secret"),
    ];
    let options = Options { operator: &operator, job: &[], is_guarded: true };
    let (fetched, _folder) = fetch_with("s3://bucket/jobs/a.jar", &options).await.unwrap();
    assert_eq!(std::fs::read(fetched.path()).unwrap(), JAR);
    assert_eq!(fetched.file_name, "a.jar");
    let reason = async |uri: &str| fetch_with(uri, &options).await.unwrap_err().reason();
    assert_eq!(reason("s3://bucket/jobs/none.jar").await, "ArtifactNotFound");
    assert_eq!(reason("s3:///jobs/none.jar").await, "ArtifactInvalid");
    let error = fetch_with("s3://bucket/jobs/busy.jar", &options).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let error = fetch_with("s3://bucket/jobs/other.jar", &options).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactAccessDenied");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn the_operators_credentials_stay_with_its_endpoint() {
    let endpoint = serve().await;
    let operator = [("s3.access-key", "key-id"), ("s3.secret-key", "very-secret")];
    let job = [("s3.endpoint", endpoint.as_str())];
    let options = Options { operator: &operator, job: &job, is_guarded: false };
    let error = fetch_with("s3://bucket/jobs/a.jar", &options).await.unwrap_err().to_string();
    assert!(error.contains("its own endpoint (`s3.endpoint`) without credentials"), "{error}");
}

#[tokio::test]
async fn a_job_brings_credentials_and_endpoint_within_the_guard() {
    let endpoint = serve().await;
    let job = [
        ("s3.endpoint", endpoint.as_str()),
        ("s3.access-key", "key-id"),
        ("s3.secret-key", "very-secret"),
    ];
    let options = |is_guarded| Options { operator: &[], job: &job, is_guarded };
    fetch_with("s3://bucket/jobs/a.jar", &options(false)).await.unwrap();
    let error = fetch_with("s3://bucket/jobs/a.jar", &options(true)).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactPrivateAddress");
}

#[tokio::test]
async fn half_of_the_credentials_is_none() {
    let endpoint = serve().await;
    let check = async |uri: &str, job: &[(&str, &str)], problem: &str| {
        let options = Options { operator: &[], job, is_guarded: false };
        let error = fetch_with(uri, &options).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactInvalid", "{error}");
        assert!(error.to_string().contains(problem), "{error}");
        assert!(!error.to_string().contains("very-secret"), "{error}");
    };
    // Each would have its request signed with credentials of the environment.
    let half = "credentials are incomplete";
    for (own, missing) in [
        ("s3.session-token", "`s3.access.key` too"),
        ("s3.secret-key", "`s3.access.key` too"),
        ("s3.access-key", "`s3.secret.key` too"),
    ] {
        let job = [("s3.endpoint", endpoint.as_str()), (own, "very-secret")];
        check("s3://bucket/jobs/a.jar", &job, half).await;
        check("s3://bucket/jobs/a.jar", &job, missing).await;
    }
    for (own, missing) in [
        ("fs.gs.auth.service.account.email", "`fs.gs.auth.service.account.private.key` too"),
        ("fs.gs.auth.service.account.private.key", "`fs.gs.auth.service.account.email` too"),
    ] {
        let job = [("fs.gs.storage.root.url", endpoint.as_str()), (own, "very-secret")];
        check("gs://bucket/jobs/public.jar", &job, half).await;
        check("gs://bucket/jobs/public.jar", &job, missing).await;
    }
    let azure = "abfss://files@account.dfs.core.windows.net/jobs/azure.jar";
    let to_endpoint = ("fs.azure.abfs.endpoint", endpoint.as_str());
    let secret = ("fs.azure.account.oauth2.client.secret", "very-secret");
    check(azure, &[to_endpoint, secret], half).await;
    let id = ("fs.azure.account.oauth2.client.id", "an-id");
    check(azure, &[to_endpoint, id], "its own endpoint").await;
}

#[tokio::test]
async fn a_job_with_a_token_for_azure_sends_nothing_else_there() {
    let endpoint = serve().await;
    let operator = [("fs.azure.account.key", "dmVyeS1zZWNyZXQ=")];
    let job = [("fs.azure.abfs.endpoint", endpoint.as_str()), ("fs.azure.sas.fixed.token", "a=b")];
    let options = Options { operator: &operator, job: &job, is_guarded: false };
    // The store accepts requests that are signed with a key, and this one is not.
    let uri = "abfss://files@account.dfs.core.windows.net/jobs/azure.jar";
    let error = fetch_with(uri, &options).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactAccessDenied", "{error}");
}

#[tokio::test]
async fn an_unchanged_object_is_not_sent_again() {
    let endpoint = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().to_str().unwrap();
    let operator = [
        ("kubernetes.operator.user.artifacts.base.dir", base),
        ("s3.endpoint", endpoint.as_str()),
        ("s3.access-key", "key-id"),
        ("s3.secret-key", "very-secret"),
    ];
    let options = Options { operator: &operator, job: &[], is_guarded: true };
    let (first, _folder) = fetch_with("s3://bucket/jobs/a.jar", &options).await.unwrap();
    // The second response has no body: the cached copy is returned.
    let (second, _folder) = fetch_with("s3://bucket/jobs/a.jar", &options).await.unwrap();
    assert_eq!(first.sha256, second.sha256);
    assert!(folder.path().join("cache").exists());
}

#[tokio::test]
async fn google_cloud_storage_is_read() {
    let endpoint = serve().await;
    let operator =
        [("fs.gs.storage.root.url", endpoint.as_str()), ("fs.gs.auth.type", "UNAUTHENTICATED")];
    let options = Options { operator: &operator, job: &[], is_guarded: true };
    fetch_with("gs://bucket/jobs/public.jar", &options).await.unwrap();
    let error = fetch_with("gs://bucket/jobs/none.jar", &options).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactNotFound");
}

#[tokio::test]
async fn azure_is_read_with_an_account_key() {
    let endpoint = serve().await;
    let operator = [
        ("fs.azure.abfs.endpoint", endpoint.as_str()),
        // Base64 of any bytes.
        ("fs.azure.account.key.account.dfs.core.windows.net", "dmVyeS1zZWNyZXQ="),
    ];
    let options = Options { operator: &operator, job: &[], is_guarded: true };
    let uri = "abfss://files@account.dfs.core.windows.net/jobs/azure.jar";
    fetch_with(uri, &options).await.unwrap();
    for elsewhere in
        ["abfss://files@account.example.com/j.jar", "abfss://account.dfs.core.windows.net/j.jar"]
    {
        let error = fetch_with(elsewhere, &options).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactInvalid", "{error}");
    }
}
