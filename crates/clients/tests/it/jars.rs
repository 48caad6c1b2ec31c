//! Jars of session jobs: who gets what was fetched for whom.

use clients::artifact::Jars;
use tempfile::TempDir;

use crate::support::{PREFIX, Store, request};

const JAR: &[u8] = b"PK\x03\x04 of the shop";
const EVIL: &[u8] = b"PK\x03\x04 of somebody else";
const URI: &str = "s3://bucket/jobs/app.jar";

/// Fetches the jar for a job that names this store with an account of its own.
async fn fetch_from(
    store: &Store,
    namespace: &str,
    account: &str,
    folder: &TempDir,
) -> Result<Vec<u8>, &'static str> {
    let job = [
        ("s3.endpoint", store.address.as_str()),
        ("s3.access-key", account),
        ("s3.secret-key", "very-secret"),
    ];
    let fetched = Jars::default().fetch(&request((namespace, URI), folder.path(), &[], &job)).await;
    let fetched = fetched.map_err(|error| error.reason())?;
    Ok(std::fs::read(fetched.path()).unwrap())
}

#[tokio::test]
async fn a_cached_jar_is_not_given_to_a_job_that_names_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let real = Store::serve(JAR, "\"v1\"", false).await;
    // It confirms any version that it is asked about, and has nothing itself.
    let liar = Store::serve(EVIL, "\"v1\"", true).await;
    assert_eq!(fetch_from(&real, "shop", "shop", &folder).await.unwrap(), JAR);
    for namespace in ["attic", "shop"] {
        assert_eq!(fetch_from(&liar, namespace, "any", &folder).await.unwrap(), EVIL);
    }
    assert_eq!(liar.asked(), (2, 0), "it learns no version");
}

#[tokio::test]
async fn a_jar_of_another_store_does_not_take_the_place_of_a_cached_one() {
    let folder = tempfile::tempdir().unwrap();
    let real = Store::serve(JAR, "\"v1\"", false).await;
    let liar = Store::serve(EVIL, "\"v1\"", false).await;
    for namespace in ["attic", "shop"] {
        assert_eq!(fetch_from(&liar, namespace, "any", &folder).await.unwrap(), EVIL);
        assert_eq!(fetch_from(&real, "shop", "shop", &folder).await.unwrap(), JAR);
    }
}

#[tokio::test]
async fn a_cached_jar_serves_its_own_namespace_and_account_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::serve(JAR, "\"v1\"", false).await;
    for (namespace, account, expected) in [
        ("shop", "shop", (1, 0)),
        ("shop", "shop", (2, 1)),
        ("shop", "till", (3, 1)),
        ("attic", "shop", (4, 1)),
        ("shop", "shop", (5, 2)),
    ] {
        assert_eq!(fetch_from(&store, namespace, account, &folder).await.unwrap(), JAR);
        assert_eq!(store.asked(), expected, "{namespace} {account}");
    }
}

#[tokio::test]
async fn an_account_keeps_its_cached_jar_when_its_secret_rotates() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::serve(JAR, "\"v1\"", false).await;
    for secret in ["first", "second"] {
        let job = [
            ("s3.endpoint", store.address.as_str()),
            ("s3.access-key", "shop"),
            ("s3.secret-key", secret),
        ];
        Jars::default().fetch(&request(("shop", URI), folder.path(), &[], &job)).await.unwrap();
    }
    assert_eq!(store.asked(), (2, 1));
}

#[tokio::test]
async fn a_job_sets_no_header_that_names_another_host_or_version() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::serve(JAR, "\"v1\"", true).await;
    let uri = format!("{}/app.jar", store.address);
    for name in [
        "Host",
        "If-None-Match",
        "if-modified-since",
        "If-Range",
        "Range",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "Expect",
        "TE",
        " Host ",
    ] {
        let header = format!("{name}:x");
        let job = [(&*format!("{PREFIX}.http.header"), &*header)];
        let error = Jars::default()
            .fetch(&request(("shop", &uri), folder.path(), &[], &job))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "ArtifactInvalid", "{name}: {error}");
        assert!(error.to_string().contains("cannot be set"), "{name}: {error}");
    }
    assert_eq!(store.asked(), (0, 0));
    let job = [(&*format!("{PREFIX}.http.header"), "Authorization:Bearer x,X-Shop:1")];
    Jars::default().fetch(&request(("shop", &uri), folder.path(), &[], &job)).await.unwrap();
}

#[tokio::test]
async fn a_jar_comes_from_no_address_that_is_not_public() {
    let folder = tempfile::tempdir().unwrap();
    let guard = [
        (&*format!("{PREFIX}.disallow-restricted-hosts"), "true"),
        (&*format!("{PREFIX}.restricted-ranges"), "8.8.8.0/24"),
        (&*format!("{PREFIX}.timeout"), "5 s"),
    ];
    for host in
        ["168.63.129.16", "192.0.0.192", "[64:ff9b::a9fe:a9fe]", "[2002:a00:1::]", "8.8.8.8"]
    {
        let uri = format!("http://{host}/app.jar");
        let request = request(("shop", &uri), folder.path(), &guard, &[]);
        let error = Jars::default().fetch(&request).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactPrivateAddress", "{host}: {error}");
    }
}
