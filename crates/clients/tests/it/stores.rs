//! Stores that jobs name: where they lead, and how much they answer.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use clients::artifact::{Error, Jars};
use futures::StreamExt;
use tokio::time::timeout;

use crate::support::{PREFIX, Store, request, serve};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_mins(1);
const OWN: [(&str, &str); 6] = [
    ("s3.access-key", "x"),
    ("s3.secret-key", "x"),
    ("fs.gs.auth.service.account.email", "x"),
    ("fs.gs.auth.service.account.private.key", "x"),
    ("fs.azure.sas.fixed.token", "a=b"),
    ("fs.gs.auth.type", "UNAUTHENTICATED"),
];
const URIS: [&str; 2] =
    ["s3://bucket/app.jar", "abfss://files@account.dfs.core.windows.net/app.jar"];

/// Fetches a jar from the store that a job names with these options.
async fn fetch(uri: &str, job: &[(&str, &str)], is_guarded: bool) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let guard = (
        &*format!("{PREFIX}.disallow-restricted-hosts"),
        if is_guarded { "true" } else { "false" },
    );
    let job = [&OWN, job].concat();
    let request = request(("shop", uri), folder.path(), &[guard], &job);
    timeout(LONG, Jars::default().fetch(&request)).await.expect("it ends").map(drop)
}

/// The options that name this store.
fn at(address: &str) -> [(&str, &str); 2] {
    [("s3.endpoint", address), ("fs.azure.abfs.endpoint", address)]
}

#[tokio::test]
async fn an_endless_error_of_a_store_is_not_read_to_its_end() {
    const CHUNK: &[u8] = &[b'.'; 64 << 10];
    let sent = Arc::new(AtomicUsize::new(0));
    let answer = {
        let sent = Arc::clone(&sent);
        move || async move {
            let chunks = futures::stream::repeat_with(move || {
                sent.fetch_add(CHUNK.len(), Ordering::SeqCst);
                Ok::<_, std::io::Error>(Bytes::from_static(CHUNK))
            });
            // It ends some day, for a reader that goes on.
            (StatusCode::FORBIDDEN, Body::from_stream(chunks.take(4000)))
        }
    };
    let address = serve(Router::new().fallback(answer)).await;
    for uri in URIS {
        let error = fetch(uri, &at(&address), false).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactAccessDenied", "{error}");
    }
    // What sockets hold, besides what is read.
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 32 << 20, "{sent} bytes");
}

#[tokio::test]
async fn a_region_is_no_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for key in ["s3.endpoint.region", "fs.s3a.endpoint.region", "s3.region"] {
        let region = format!("x@127.0.0.1:{port}/any?");
        let error = fetch(URIS[0], &[(key, &region)], false).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactInvalid", "{error}");
        assert!(error.to_string().contains("is not a region"), "{error}");
    }
    assert!(listener.accept().is_err(), "nobody connects");
}

#[tokio::test]
async fn a_redirect_of_a_store_is_not_followed() {
    let elsewhere = Store::serve(b"PK\x03\x04 of another", "\"v1\"", false).await;
    let to = elsewhere.address.clone();
    let answer = move || async move { Redirect::temporary(&to).into_response() };
    let address = serve(Router::new().fallback(answer)).await;
    for uri in URIS {
        fetch(uri, &at(&address), false).await.unwrap_err();
    }
    assert_eq!(elsewhere.asked(), (0, 0));
}

#[tokio::test]
async fn the_store_of_a_job_is_at_no_private_address() {
    let store = Store::serve(b"PK\x03\x04 inside", "\"v1\"", false).await;
    for uri in URIS {
        fetch(uri, &at(&store.address), false).await.unwrap();
        let error = fetch(uri, &at(&store.address), true).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactPrivateAddress", "{error}");
    }
    assert_eq!(store.asked().0, URIS.len());
}
