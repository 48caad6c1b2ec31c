use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap as Headers, StatusCode as Status};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use tempfile::TempDir;

use super::*;
use crate::artifact::{Fetched, Jars};
use config::FlinkConfig;

const JAR: &[u8] = b"PK\x03\x04 and what a jar has";
const SUM_OF_NOTHING: &str =
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const PREFIX: &str = "kubernetes.operator.user.artifacts";

/// Serves until the test ends; returns its port.
async fn serve(router: Router) -> u16 {
    drop(rustls::crypto::ring::default_provider().install_default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

/// A request that may use http and local addresses, with further options of this module.
fn request(uri: &str, options: &[(&str, &str)]) -> (Request, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut operator: FlinkConfig = [
        (format!("{PREFIX}.base.dir"), folder.path().to_str().unwrap()),
        (format!("{PREFIX}.allowed-schemes"), "http;https;file;local"),
        (format!("{PREFIX}.disallow-restricted-hosts"), "false"),
    ]
    .into_iter()
    .collect();
    for (key, value) in options {
        operator.set(format!("{PREFIX}.{key}"), *value);
    }
    (Request::from_config("shop", uri, &operator, &operator).unwrap(), folder)
}

/// Fetches the URI, and returns the result with the folder that contains it.
async fn fetch_with(uri: &str, options: &[(&str, &str)]) -> Result<(Fetched, TempDir), Error> {
    let (request, folder) = request(uri, options);
    let fetched = Jars::default().fetch(&request).await;
    if fetched.is_err() {
        let left = std::fs::read_dir(folder.path()).unwrap().flatten();
        let left: Vec<_> = left.filter(|entry| entry.path().is_file()).collect();
        assert!(left.is_empty(), "nothing is left behind: {left:?}");
    }
    Ok((fetched?, folder))
}

async fn reason_of(uri: &str, options: &[(&str, &str)]) -> &'static str {
    fetch_with(uri, options).await.unwrap_err().reason()
}

#[tokio::test]
async fn a_jar_is_fetched_and_goes_when_it_is_dropped() {
    let port = serve(Router::new().route("/download/{name}", get(|| async { JAR }))).await;
    let uri = format!("http://127.0.0.1:{port}/download/file.jar?some=params");
    let (fetched, _folder) = fetch_with(&uri, &[]).await.unwrap();
    assert_eq!(fetched.file_name, "file.jar");
    assert_eq!(fetched.size_bytes, JAR.len() as u64);
    assert_eq!(std::fs::read(fetched.path()).unwrap(), JAR);
    let path = fetched.path().to_owned();
    let sum = format!("sha256:{}", fetched.sha256);
    drop(fetched);
    assert!(!path.exists());
    fetch_with(&uri, &[("checksum", &sum)]).await.unwrap();
    let error = fetch_with(&uri, &[("checksum", SUM_OF_NOTHING)]).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactChecksumMismatch");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn what_a_server_refuses_is_distinguished() {
    let status = |code: u16| get(move || async move { Status::from_u16(code).unwrap() });
    let router = Router::new()
        .route("/401", status(401))
        .route("/404", status(404))
        .route("/418", status(418))
        .route("/503", status(503))
        .route("/page", get(|| async { "<!doctype html>Please log in" }));
    let port = serve(router).await;
    let reason = async |path: &str| reason_of(&format!("http://127.0.0.1:{port}{path}"), &[]).await;
    assert_eq!(reason("/401").await, "ArtifactAccessDenied");
    assert_eq!(reason("/404").await, "ArtifactNotFound");
    assert_eq!(reason("/page").await, "ArtifactNotAJar");
    let error = fetch_with(&format!("http://127.0.0.1:{port}/418"), &[]).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    let error = fetch_with(&format!("http://127.0.0.1:{port}/503"), &[]).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let error = fetch_with("http://127.0.0.1:1/a.jar", &[]).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactUnreachable");
    assert!(error.is_transient());
}

#[tokio::test]
async fn flink_40402_size_and_time_are_bounded() {
    let endless = || async {
        let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'P'; 1024]));
        let first = futures::stream::iter([Ok(JAR.to_vec())]);
        axum::body::Body::from_stream(futures::StreamExt::chain(first, chunks))
    };
    let silent = || async {
        let first = futures::stream::iter([Ok::<_, std::io::Error>(JAR.to_vec())]);
        axum::body::Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let large = || async { vec![b'x'; 4096] };
    let router = Router::new()
        .route("/endless", get(endless))
        .route("/silent", get(silent))
        .route("/large", get(large));
    let port = serve(router).await;
    let uri = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    assert_eq!(reason_of(&uri("endless"), &[("max-size", "64 kb")]).await, "ArtifactTooLarge");
    assert_eq!(reason_of(&uri("large"), &[("max-size", "1 kb")]).await, "ArtifactTooLarge");
    for key in ["http.total-timeout", "timeout"] {
        let error = fetch_with(&uri("silent"), &[(key, "300 ms")]).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactTimedOut");
        assert!(error.to_string().contains("artifacts.http.total-timeout"), "{error}");
    }
    let impatient = [("http.socket-timeout", "300 ms")];
    assert_eq!(reason_of(&uri("silent"), &impatient).await, "ArtifactInterrupted");
}

#[tokio::test]
async fn a_transfer_that_breaks_is_not_a_jar() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(rustls::crypto::ring::default_provider().install_default());
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut asked = [0; 1024];
        let _read = connection.read(&mut asked).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nPK\x03\x04";
        connection.write_all(head).await.unwrap();
    });
    let error = fetch_with(&format!("http://127.0.0.1:{port}/a.jar"), &[]).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactInterrupted");
    assert!(error.is_transient());
}

/// Returns a jar to clients that send the header, otherwise 401.
async fn guarded(headers: Headers) -> axum::response::Response {
    match headers.get("x-token").map(HeaderValue::as_bytes) {
        Some(b"open-sesame") => JAR.into_response(),
        _ => Status::UNAUTHORIZED.into_response(),
    }
}

#[tokio::test]
async fn headers_stay_at_the_first_host() {
    let there = serve(Router::new().route("/a.jar", get(guarded))).await;
    let away =
        move || async move { Redirect::temporary(&format!("http://127.0.0.1:{there}/a.jar")) };
    let router = Router::new()
        .route("/a.jar", get(guarded))
        .route("/near", get(|| async { Redirect::temporary("/a.jar") }))
        .route("/away", get(away));
    let here = serve(router).await;
    let headers = [("http.header", "X-Token:open-sesame")];
    let uri = |path: &str| format!("http://127.0.0.1:{here}/{path}");
    fetch_with(&uri("a.jar"), &headers).await.unwrap();
    fetch_with(&uri("near"), &headers).await.unwrap();
    let error = fetch_with(&uri("away"), &headers).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactAccessDenied");
    assert!(!error.to_string().contains("sesame"));
}

#[tokio::test]
async fn flink_40400_redirects_are_bounded_and_keep_to_allowed_schemes() {
    let router = Router::new()
        .route("/loop", get(|| async { Redirect::temporary("/loop") }))
        .route("/file", get(|| async { Redirect::temporary("file:///etc/passwd") }))
        .route("/https", get(|| async { Redirect::temporary("https://127.0.0.1:1/a.jar") }));
    let port = serve(router).await;
    let uri = |path: &str| format!("http://127.0.0.1:{port}/{path}");
    let error = fetch_with(&uri("loop"), &[]).await.unwrap_err().to_string();
    assert!(error.contains("redirects more than 10 times"), "{error}");
    let error = fetch_with(&uri("file"), &[]).await.unwrap_err().to_string();
    assert!(error.contains("redirects from `http` to `file`"), "{error}");
    let only_http = [("allowed-schemes", "http")];
    assert_eq!(reason_of(&uri("https"), &only_http).await, "ArtifactSchemeNotAllowed");
    assert_eq!(reason_of(&uri("https"), &[]).await, "ArtifactUnreachable");
}

#[tokio::test]
async fn private_addresses_are_refused() {
    let guard = [("disallow-restricted-hosts", "true")];
    for host in [
        "127.0.0.1",
        "localhost",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "0x7f.1",
        "[::ffff:10.0.0.1]",
    ] {
        let uri = format!("http://{host}/a.jar");
        assert_eq!(reason_of(&uri, &guard).await, "ArtifactPrivateAddress", "{host}");
    }
}

fn refuses_second(address: IpAddr) -> bool {
    address == IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))
}

#[tokio::test]
async fn flink_40400_every_address_of_every_hop_is_checked() {
    let guard = Guard {
        lookup: |host, port| {
            let last: &[u8] = match host.as_str() {
                "good.test" => &[1],
                "mixed.test" => &[1, 2],
                _ => &[2],
            };
            let addresses = last.iter().map(|last| SocketAddr::from(([127, 0, 0, *last], port)));
            let addresses = addresses.collect();
            Box::pin(async move { Ok(addresses) })
        },
        is_refused: Some(Arc::new(refuses_second)),
    };
    let router = Router::new()
        .route("/a.jar", get(|| async { JAR }))
        .route("/bad", get(|| async { Redirect::temporary("http://bad.test/a.jar") }));
    let port = serve(router).await;
    let reason = async |host: &str, path: &str| {
        let (request, _folder) = request(&format!("http://{host}:{port}/{path}"), &[]);
        open_with(&request, None, &guard).await.err().map(|error| error.reason())
    };
    assert_eq!(reason("good.test", "a.jar").await, None);
    assert_eq!(reason("mixed.test", "a.jar").await, Some("ArtifactPrivateAddress"));
    assert_eq!(reason("good.test", "bad").await, Some("ArtifactPrivateAddress"));
}

#[tokio::test]
async fn flink_40448_the_address_that_was_checked_is_connected_to() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    // The name resolves to another address from the second lookup on, as with a rebinding name server.
    let guard = Guard {
        lookup: |_, port| {
            let last = if LOOKUPS.fetch_add(1, Ordering::SeqCst) == 0 { 1 } else { 2 };
            Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, last], port))]) })
        },
        is_refused: Some(Arc::new(refuses_second)),
    };
    let port = serve(Router::new().route("/a.jar", get(|| async { JAR }))).await;
    let (request, _folder) = request(&format!("http://rebinding.test:{port}/a.jar"), &[]);
    assert!(open_with(&request, None, &guard).await.is_ok());
    assert_eq!(LOOKUPS.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_unchanged_jar_is_not_sent_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let sent = Arc::new(AtomicUsize::new(0));
    let answer = {
        let sent = Arc::clone(&sent);
        move |headers: Headers| async move {
            if headers.get("if-none-match").is_some_and(|tag| tag == "\"v1\"") {
                return Status::NOT_MODIFIED.into_response();
            }
            sent.fetch_add(1, Ordering::SeqCst);
            ([("etag", "\"v1\"")], JAR).into_response()
        }
    };
    let port = serve(Router::new().route("/a.jar", get(answer))).await;
    let (request, _folder) = request(&format!("http://127.0.0.1:{port}/a.jar"), &[]);
    let first = Jars::default().fetch(&request).await.unwrap();
    let second = Jars::default().fetch(&request).await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    assert_eq!(first.sha256, second.sha256);
    assert_ne!(first.path(), second.path());
    drop(first);
    assert_eq!(std::fs::read(second.path()).unwrap(), JAR);
}

#[tokio::test]
async fn a_file_of_the_operator_is_copied_and_local_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let jar = folder.path().join("my job.jar");
    std::fs::write(&jar, JAR).unwrap();
    let uri = Url::from_file_path(&jar).unwrap().to_string();
    let (fetched, _folder) = fetch_with(&uri, &[]).await.unwrap();
    assert_eq!(fetched.file_name, "my job.jar");
    drop(fetched);
    assert!(jar.exists());
    assert_eq!(reason_of("file:///no/such.jar", &[]).await, "ArtifactNotFound");
    assert_eq!(reason_of("file:///dev/zero", &[]).await, "ArtifactInvalid");
    let error = fetch_with("local:///opt/flink/a.jar", &[]).await.unwrap_err().to_string();
    assert!(error.contains("inside the Flink image"), "{error}");
}
