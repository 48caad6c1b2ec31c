//! State folders in stores that speak the real protocols, and `gc` on them.

use axum::http::Method;
use bytes::Bytes;
use clients::artifact::storage::{Error, File, Storage};
use config::FlinkConfig;
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use serde_json::{Value, json};

use super::given;
use crate::cli::commands::run;
use crate::support::fake_cluster::FakeCluster;

const GONE: &str = "00000000000000000000000000000001";
const STORED: &str = "00000000000000000000000000000002";
const FORMER: &str = "00000000000000000000000000000003";
const OLD_RUN: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const THIS_RUN: &str = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";
/// The first bytes of Flink's metadata.
const MAGIC: &[u8] = &[0x49, 0x60, 0x67, 0x2d, 0, 0, 0, 4];

fn metadata(names: &str) -> Vec<u8> {
    [MAGIC, names.as_bytes()].concat()
}

fn bucket() -> AmazonS3 {
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = AmazonS3Builder::new()
        .with_endpoint(given("KUBECTL_FLINK_TEST_S3"))
        .with_bucket_name("jars")
        .with_region("us-east-1")
        .with_allow_http(true)
        .with_access_key_id("an-access-key")
        .with_secret_access_key("a-secret-key");
    builder.build().unwrap()
}

async fn put(bucket: &AmazonS3, path: &str, bytes: impl Into<Bytes>) {
    bucket.put(&Path::from(path), bytes.into().into()).await.unwrap();
}

async fn is_there(bucket: &AmazonS3, path: &str) -> bool {
    bucket.head(&Path::from(path)).await.is_ok()
}

fn s3_options() -> Vec<(&'static str, String)> {
    vec![
        ("s3.endpoint", given("KUBECTL_FLINK_TEST_S3")),
        ("s3.endpoint.region", "us-east-1".to_owned()),
        ("s3.access-key", "an-access-key".to_owned()),
        ("s3.secret-key", "a-secret-key".to_owned()),
        ("s3.path.style.access", "true".to_owned()),
    ]
}

fn open(uri: &str) -> Result<Storage, Error> {
    let config: FlinkConfig = s3_options().into_iter().collect();
    Storage::open(uri, &FlinkConfig::new(), &config)
}

fn paths(files: &[File]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn folders_in_s3_are_listed_page_by_page_and_removed() {
    let bucket = bucket();
    // More than fit on one page.
    for at in 0..1100 {
        put(&bucket, &format!("pages/sp/savepoint-{at:04}/_metadata"), metadata("")).await;
    }
    put(&bucket, "pages/sp/savepoint-0000/a/b", "1").await;
    put(&bucket, "pages/sp/savepoint-00001/_metadata", "a neighbour").await;
    let storage = open("s3://jars/pages/sp/").unwrap();
    assert_eq!(storage.folders("").await.unwrap().len(), 1101);
    let files = storage.files("savepoint-0000").await.unwrap();
    assert_eq!(paths(&files), ["savepoint-0000/_metadata", "savepoint-0000/a/b"]);
    let direct = storage.files_directly_in("savepoint-0000").await.unwrap();
    assert_eq!(paths(&direct), ["savepoint-0000/_metadata"]);
    assert!(storage.read(&files[0]).await.unwrap().starts_with(MAGIC));
    assert_eq!(storage.files("none").await.unwrap(), []);

    assert!(!storage.remove("", &files).await.unwrap(), "the place itself");
    put(&bucket, "pages/sp/savepoint-0000/new", "1").await;
    assert!(!storage.remove("savepoint-0000", &files).await.unwrap(), "it has changed");
    let files = storage.files("savepoint-0000").await.unwrap();
    assert!(storage.remove("savepoint-0000", &files).await.unwrap());
    assert_eq!(storage.files("savepoint-0000").await.unwrap(), []);
    assert!(is_there(&bucket, "pages/sp/savepoint-00001/_metadata").await);
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn what_cannot_be_seen_is_distinguished_from_what_fails() {
    drop(rustls::crypto::ring::default_provider().install_default());
    for hidden in ["file:/data/sp", "/data/sp", "oss://bucket/sp", "abfss://no-account/sp"] {
        let opened = open(hidden).map(drop);
        assert!(matches!(opened, Err(Error::Hidden { .. })), "{hidden}: {opened:?}");
    }
    let none = open("s3://no-such-bucket/sp").unwrap();
    let listed = none.folders("").await;
    assert!(matches!(listed, Err(Error::Failed { .. })), "{listed:?}");
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn folders_in_hdfs_are_listed_and_removed() {
    let address = given("KUBECTL_FLINK_TEST_HDFS");
    let client = hdfs_native::ClientBuilder::new().with_url(&address).build().unwrap();
    for (path, text) in [("savepoint-a/_metadata", "1"), ("savepoint-a/b/c", "22"), ("other/d", "")]
    {
        let path = format!("/state/sp/{path}");
        let mut file = client.create(&path, hdfs_native::WriteOptions::default()).await.unwrap();
        Box::pin(file.write_bytes(Bytes::from(text))).await.unwrap();
        Box::pin(file.close()).await.unwrap();
    }
    let storage = open(&format!("{address}/state/sp")).unwrap();
    let mut folders = storage.folders("").await.unwrap();
    folders.sort();
    assert_eq!(folders, ["other", "savepoint-a"]);
    let files = storage.files("savepoint-a").await.unwrap();
    assert_eq!(paths(&files), ["savepoint-a/_metadata", "savepoint-a/b/c"]);
    assert_eq!(files[1].size_bytes, 2);
    let direct = storage.files_directly_in("savepoint-a").await.unwrap();
    assert_eq!(paths(&direct), ["savepoint-a/_metadata"]);
    assert_eq!(storage.read(&files[1]).await.unwrap(), "22");
    assert_eq!(storage.files("none").await.unwrap(), []);
    assert_eq!(open(&format!("{address}/none")).unwrap().folders("").await.unwrap().len(), 0);
    assert!(storage.remove("savepoint-a", &files).await.unwrap());
    assert_eq!(storage.folders("").await.unwrap(), ["other"]);
}

/// Creates state folders in a store, `count` more than it needs, lists and reads them, and removes one.
pub(super) async fn keep_folders(uri: &str, options: &[(&str, &str)], count: usize) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let config: FlinkConfig = options.iter().copied().collect();
    let storage = Storage::open(uri, &FlinkConfig::new(), &config).unwrap();
    let put = async |path: &str, bytes: Vec<u8>| storage.put(path, bytes.into()).await.unwrap();
    for at in 0..count {
        put(&format!("others/savepoint-{at:04}/_metadata"), metadata("")).await;
    }
    assert_eq!(storage.folders("others").await.unwrap().len(), count);
    put("savepoint-a/_metadata", metadata("")).await;
    put("savepoint-a/b/c", b"22".to_vec()).await;
    put("savepoint-ab/_metadata", metadata("")).await;
    let folders = async || {
        let mut folders = storage.folders("").await.unwrap();
        folders.sort();
        folders
    };
    assert_eq!(folders().await, ["others", "savepoint-a", "savepoint-ab"]);
    let files = storage.files("savepoint-a").await.unwrap();
    assert_eq!(paths(&files), ["savepoint-a/_metadata", "savepoint-a/b/c"]);
    assert_eq!(files[1].size_bytes, 2);
    let direct = storage.files_directly_in("savepoint-a").await.unwrap();
    assert_eq!(paths(&direct), ["savepoint-a/_metadata"]);
    assert_eq!(storage.read(&files[0]).await.unwrap(), metadata(""));
    assert_eq!(storage.files("none").await.unwrap(), []);

    put("savepoint-a/new", b"1".to_vec()).await;
    assert!(!storage.remove("savepoint-a", &files).await.unwrap(), "it has changed");
    let files = storage.files("savepoint-a").await.unwrap();
    assert!(storage.remove("savepoint-a", &files).await.unwrap());
    assert_eq!(folders().await, ["others", "savepoint-ab"]);
    assert_eq!(storage.files("savepoint-a").await.unwrap(), []);
}

/// `orders` runs job [`STORED`], whose checkpoint uses files of job [`FORMER`].
fn orders(root: &str) -> Value {
    let mut configuration: serde_json::Map<String, Value> =
        s3_options().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    for (key, folder) in [
        ("state.savepoints.dir", "sp"),
        ("execution.checkpointing.dir", "cp"),
        ("high-availability.storageDir", "ha"),
    ] {
        configuration.insert(key.to_owned(), json!(format!("s3://jars/{root}/{folder}")));
    }
    configuration.insert("high-availability.type".to_owned(), json!("kubernetes"));
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "default", "generation": 1},
        "spec": {"flinkVersion": "v1_20", "flinkConfiguration": configuration, "job": {"jarURI": "local:///job.jar"}},
        "status": {
            "jobStatus": {
                "state": "RUNNING", "jobId": STORED,
                "upgradeSavepointPath": format!("s3://jars/{root}/sp/savepoint-000002-b"),
            },
            "reconciliationStatus": {"state": "DEPLOYED", "lastReconciledSpec": "{\"spec\":{}}"},
        },
    })
}

/// Creates the current and earlier state of `orders`, and that of a deleted cluster.
async fn fill(bucket: &AmazonS3, root: &str) {
    let needs = format!("\u{0}\u{5}s3://jars/{root}/cp/{FORMER}/shared/1\u{0}");
    for (path, bytes) in [
        ("sp/savepoint-000001-a/_metadata".to_owned(), metadata("")),
        ("sp/savepoint-000001-a/state".to_owned(), b"12345".to_vec()),
        ("sp/savepoint-000002-b/_metadata".to_owned(), metadata("")),
        // Not written by Flink.
        ("sp/savepoint-000003-c/_metadata".to_owned(), b"{}".to_vec()),
        ("sp/savepoint-000004-d/state".to_owned(), b"1".to_vec()),
        (format!("cp/{GONE}/chk-3/_metadata"), metadata("")),
        (format!("cp/{GONE}/shared/1"), b"1".to_vec()),
        (format!("cp/{STORED}/chk-7/_metadata"), metadata(&needs)),
        (format!("cp/{FORMER}/shared/1"), b"1".to_vec()),
        ("ha/orders/completedCheckpoint1".to_owned(), b"savepoint-000005-e".to_vec()),
        ("sp/savepoint-000005-e/_metadata".to_owned(), metadata("")),
        ("ha/gone/completedCheckpoint1".to_owned(), b"\xac\xed".to_vec()),
        ("ha/gone/blob/job_1/blob_p-1".to_owned(), b"jar".to_vec()),
        ("ha/others/notes.txt".to_owned(), b"mine".to_vec()),
        (format!("ha/job-result-store/orders/{OLD_RUN}/{GONE}.json"), b"{}".to_vec()),
        (format!("ha/job-result-store/orders/{THIS_RUN}/{STORED}.json"), b"{}".to_vec()),
    ] {
        put(bucket, &format!("{root}/{path}"), bytes).await;
    }
}

/// Returns a cluster with `orders`, whose effective configuration names its job result store.
fn cluster(root: &str) -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.insert(orders(root));
    let store = format!("s3://jars/{root}/ha/job-result-store/orders/{THIS_RUN}");
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "flink-config-orders", "namespace": "default",
            "labels": {"app": "orders", "type": "flink-native-kubernetes"},
        },
        "data": {"flink-conf.yaml": format!("job-result-store.storage-path: {store}\n")},
    }));
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "orders", "namespace": "default", "labels": {"app": "orders"}},
    }));
    cluster
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn gc_shows_and_removes_what_nothing_names() {
    let (bucket, root) = (bucket(), "gc");
    fill(&bucket, root).await;
    let cluster = cluster(root);
    let found = async |cluster: &FakeCluster, flags: &str| {
        let ran = run(cluster, None, &format!("gc --older-than 0s -o json {flags}")).await;
        let shown: Value = serde_json::from_str(&ran.succeeded().output).unwrap();
        shown["storage"].clone()
    };
    let removable = |storage: &Value| -> Vec<String> {
        let findings = storage["findings"].as_array().unwrap().iter();
        let removable = findings.filter(|finding| finding["keptBecause"].is_null());
        removable.map(|finding| finding["path"].as_str().unwrap().to_owned()).collect()
    };
    let store = format!("s3://jars/gc/ha/job-result-store/orders/{OLD_RUN}");
    assert_eq!(removable(&found(&cluster, "--dry-run").await), std::slice::from_ref(&store));
    let all = "--include-state --sole-user-of s3://jars/gc";
    let expected = [
        "s3://jars/gc/ha/gone".to_owned(),
        store,
        format!("s3://jars/gc/cp/{GONE}"),
        "s3://jars/gc/sp/savepoint-000001-a".to_owned(),
    ];
    let shown = found(&cluster, &format!("{all} --dry-run")).await;
    assert_eq!(removable(&shown), expected, "{shown:#}");
    assert_eq!(shown["notLookedInto"], json!([]));
    let savepoint = &shown["findings"][4];
    assert_eq!(savepoint["sizeBytes"], json!(13), "{shown:#}");

    // A resource whose store cannot be reached shares these places, so everything is kept.
    let mut elsewhere = orders(root);
    elsewhere["metadata"]["name"] = json!("elsewhere");
    elsewhere["spec"]["flinkConfiguration"]["high-availability.storageDir"] = json!("file:/ha");
    let partial = self::cluster(root);
    partial.insert(elsewhere);
    let shown = found(&partial, &format!("{all} --dry-run")).await;
    assert!(!removable(&shown).iter().any(|path| path.contains("/sp/")), "{shown:#}");
    assert!(!removable(&shown).iter().any(|path| path.contains("/cp/")), "{shown:#}");
    assert!(shown["notLookedInto"].to_string().contains("file:/ha"), "{shown:#}");

    // What a checkpoint of a newer Flink refers to is not known, so everything that it may refer to is kept.
    let newer = format!("gc/cp/{STORED}/chk-8/_metadata");
    put(&bucket, &newer, [&MAGIC[..7], &[99]].concat()).await;
    let shown = found(&cluster, &format!("{all} --dry-run")).await;
    assert!(!removable(&shown).iter().any(|path| path.contains("/sp/")), "{shown:#}");
    assert!(!removable(&shown).iter().any(|path| path.contains("/cp/")), "{shown:#}");
    assert!(shown["notLookedInto"].to_string().contains("version 99"), "{shown:#}");
    put(&bucket, &newer, std::fs::read("tests/corpus/metadata/v7--proposed").unwrap()).await;
    assert_eq!(removable(&found(&cluster, &format!("{all} --dry-run")).await), expected);

    assert_eq!(removable(&found(&cluster, &format!("{all} --yes")).await), expected);
    for gone in ["sp/savepoint-000001-a/state", "ha/gone/completedCheckpoint1"] {
        assert!(!is_there(&bucket, &format!("gc/{gone}")).await, "{gone}");
    }
    for kept in [
        "sp/savepoint-000002-b/_metadata",
        "sp/savepoint-000003-c/_metadata",
        "sp/savepoint-000004-d/state",
        "sp/savepoint-000005-e/_metadata",
        "ha/orders/completedCheckpoint1",
        "ha/others/notes.txt",
        &format!("cp/{FORMER}/shared/1"),
        &format!("cp/{STORED}/chk-7/_metadata"),
        &format!("ha/job-result-store/orders/{THIS_RUN}/{STORED}.json"),
    ] {
        assert!(is_there(&bucket, &format!("gc/{kept}")).await, "{kept}");
    }
    assert_eq!(removable(&found(&cluster, &format!("{all} --dry-run")).await), [] as [String; 0]);
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn gc_leaves_all_alone_where_not_everything_is_known() {
    let (bucket, root) = (bucket(), "gc-partial");
    fill(&bucket, root).await;
    let flags = "gc --older-than 0s --include-state --sole-user-of s3://jars/gc-partial --yes";
    let mut unreadable = orders(root);
    unreadable["metadata"]["name"] = json!("unreadable");
    unreadable["status"]["reconciliationStatus"]["lastStableSpec"] = json!("{");
    let with_unreadable = cluster(root);
    with_unreadable.insert(unreadable);
    let ran = run(&with_unreadable, None, flags).await.succeeded();
    assert!(ran.output.contains("not everything could be read"), "{}", ran.output);
    // Only the namespace may be read.
    let narrow = cluster(root);
    narrow.refuse(Method::GET, "v1/controllerrevisions", 403, "no");
    let ran = run(&narrow, None, flags).await.succeeded();
    assert!(ran.error.contains("because not all namespaces could be read"), "{}", ran.error);
    assert!(is_there(&bucket, "gc-partial/sp/savepoint-000001-a/state").await);
}
