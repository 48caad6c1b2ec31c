use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path as Segment, State};
use axum::http::{HeaderMap, StatusCode as Code, Uri};
use axum::response::{IntoResponse, Response as Answer};
use axum::routing::get;

use super::*;
use crate::command::SHORT;

/// A registry with one image that requires a token.
struct FakeRegistry {
    address: String,
    /// Bodies by tag or digest.
    manifests: BTreeMap<String, Vec<u8>>,
    blobs: BTreeMap<String, Vec<u8>>,
}

async fn serve(change: impl FnOnce(&mut FakeRegistry)) -> Reference {
    drop(rustls::crypto::ring::default_provider().install_default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (config, layer) = (b"{\"os\":\"linux\"}".to_vec(), b"a layer".to_vec());
    let described = |bytes: &[u8]| json!({ "digest": digest_of(bytes), "size": bytes.len() });
    let manifest = json!({ "config": described(&config), "layers": [described(&layer)] });
    let manifest = manifest.to_string().into_bytes();
    let list = json!({ "manifests": [
        { "digest": format!("sha256:{}", "0".repeat(64)), "platform": { "os": "linux", "architecture": "s390x" } },
        { "digest": digest_of(&manifest), "platform": { "os": "linux", "architecture": architecture() } },
    ]});
    let mut fake = FakeRegistry {
        address: address.clone(),
        manifests: BTreeMap::from([
            ("1.20".to_owned(), list.to_string().into_bytes()),
            (digest_of(&manifest), manifest),
        ]),
        blobs: BTreeMap::from([(digest_of(&config), config), (digest_of(&layer), layer)]),
    };
    change(&mut fake);
    let router = Router::new()
        .route("/token", get(token))
        .route("/v2/library/flink/manifests/{name}", get(manifests))
        .route("/v2/library/flink/blobs/{name}", get(blobs))
        .with_state(Arc::new(fake));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Reference { registry: address, repository: "library/flink".into(), tag: "1.20".into() }
}

async fn token(uri: Uri) -> String {
    assert_eq!(uri.query(), Some("service=fake&scope=repository%3Alibrary%2Fflink%3Apull"));
    json!({ "token": "secret" }).to_string()
}

async fn manifests(
    State(fake): State<Arc<FakeRegistry>>,
    Segment(name): Segment<String>,
    headers: HeaderMap,
) -> Answer {
    if headers.get(AUTHORIZATION).is_none_or(|value| value != "Bearer secret") {
        let challenge = format!(
            "Bearer realm=\"{}/token\",service=\"fake\",scope=\"repository:library/flink:pull\"",
            fake.address
        );
        return (Code::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let form = "application/vnd.oci.image.manifest.v1+json";
    match fake.manifests.get(&name) {
        Some(body) => ([(reqwest::header::CONTENT_TYPE, form)], body.clone()).into_response(),
        None => Code::NOT_FOUND.into_response(),
    }
}

async fn blobs(State(fake): State<Arc<FakeRegistry>>, Segment(name): Segment<String>) -> Answer {
    match fake.blobs.get(&name) {
        Some(body) => body.clone().into_response(),
        None => Code::NOT_FOUND.into_response(),
    }
}

async fn pull_into(reference: &Reference, folder: &Path) -> Result<PathBuf, Error> {
    let target = folder.join("image.tar");
    let silent = Progress::Lines(&|_| {});
    pull(reference, "flink:1.20", &target, &silent).await.map(|()| target)
}

#[tokio::test]
async fn image_is_pulled_with_a_token_for_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let reference = serve(|_| {}).await;
    let archive = pull_into(&reference, folder.path()).await.unwrap();
    let mut show = program("tar");
    let index = run(show.arg("-xOf").arg(&archive).arg("index.json"), SHORT).await.unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let described = &index["manifests"][0];
    assert_eq!(
        described["annotations"]["io.containerd.image.name"],
        "docker.io/library/flink:1.20"
    );
    let listed = run(program("tar").arg("-tf").arg(&archive), SHORT).await.unwrap();
    assert_eq!(listed.lines().filter(|line| line.starts_with("blobs/sha256/")).count(), 4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "pieces were left");
}

#[tokio::test]
async fn layer_that_is_not_what_was_asked_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let reference = serve(|fake| {
        for body in fake.blobs.values_mut() {
            body.push(b'!');
        }
    })
    .await;
    let error = pull_into(&reference, folder.path()).await.unwrap_err();
    assert!(error.to_string().contains("it returned sha256:"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "pieces were left");
}

#[tokio::test]
async fn unknown_tag_and_unreachable_registry_are_distinguished_from_other_failures() {
    let folder = tempfile::tempdir().unwrap();
    let reference = serve(|_| {}).await;
    let unknown = Reference { tag: "9.9".into(), ..reference };
    let error = pull_into(&unknown, folder.path()).await.unwrap_err();
    assert!(matches!(&error, Error::Registry { message, .. } if message.contains("404")));

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let nobody = Reference { registry: address, ..unknown };
    let error = pull_into(&nobody, folder.path()).await.unwrap_err();
    assert!(matches!(error, Error::Registry { .. }));
}

#[test]
fn only_plain_digests_become_names_of_files() {
    assert!(is_digest(&format!("sha256:{}", "a".repeat(64))));
    for bad in ["sha256:..", "sha512:aa", &format!("sha256:{}/", "a".repeat(63))] {
        assert!(!is_digest(bad), "{bad}");
    }
}

#[test]
fn names_are_completed_as_the_runtime_does_it() {
    assert_eq!(full_name("flink:1"), "docker.io/library/flink:1");
    assert_eq!(full_name("me/flink:1"), "docker.io/me/flink:1");
    assert_eq!(full_name("localhost/flink:1"), "localhost/flink:1");
    assert_eq!(full_name("host:5000/flink:1"), "host:5000/flink:1");
}
