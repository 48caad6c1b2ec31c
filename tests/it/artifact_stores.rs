//! Jars from stores that speak the real protocols. `tests/artifacts.sh` starts the stores.

mod azure;
mod folders;
mod gcs;

use clients::artifact::{Error, Fetched, Jars, Request};
use config::FlinkConfig;
use tempfile::TempDir;

use crate::support::patience::BEYOND_PATIENCE;

const PREFIX: &str = "kubernetes.operator.user.artifacts";

/// Returns the variable that the script sets.
fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by tests/artifacts.sh"))
}

/// Returns the fetched jar, and the folder that it is in.
async fn fetch_with(uri: &str, options: &[(&str, &str)]) -> Result<(Fetched, TempDir), Error> {
    fetch_as(uri, options, &[]).await
}

/// As [`fetch_with`], for a job with its own options.
async fn fetch_as(
    uri: &str,
    operator_options: &[(&str, &str)],
    job_options: &[(&str, &str)],
) -> Result<(Fetched, TempDir), Error> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let mut operator: FlinkConfig = [
        (format!("{PREFIX}.base.dir"), folder.path().to_str().unwrap()),
        (format!("{PREFIX}.allowed-schemes"), "s3;s3a;gs;abfs;abfss;hdfs"),
        (format!("{PREFIX}.timeout"), BEYOND_PATIENCE),
    ]
    .into_iter()
    .collect();
    operator.overlay(&operator_options.iter().copied().collect());
    let mut job = operator.clone();
    job.overlay(&job_options.iter().copied().collect());
    let fetched =
        Jars::default().fetch(&Request::from_config("shop", uri, &operator, &job).unwrap()).await?;
    Ok((fetched, folder))
}

/// Switches off the guard against private addresses, which every store here has.
const UNGUARDED: (&str, &str) =
    ("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "false");

fn check((fetched, _folder): &(Fetched, TempDir)) {
    assert_eq!(fetched.sha256, given("KUBECTL_FLINK_TEST_JAR_SUM"));
    let length = std::fs::metadata(fetched.path()).unwrap().len();
    assert_eq!(length, fetched.size_bytes);
}

/// A missing file and a jar that is too large are reported as such.
async fn check_refusals(jar: &str, missing: [&str; 2], options: &[(&str, &str)]) {
    for missing in missing {
        let error = fetch_with(missing, options).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactNotFound", "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
    let small = [options, &[("kubernetes.operator.user.artifacts.max-size", "1 kb")]].concat();
    let error = fetch_with(jar, &small).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactTooLarge", "{error}");
}

/// A jar that is fetched twice is stored once.
async fn check_cached(jar: &str, options: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let base = ("kubernetes.operator.user.artifacts.base.dir", folder.path().to_str().unwrap());
    let options = [options, &[base]].concat();
    check(&fetch_with(jar, &options).await.unwrap());
    let cached = || std::fs::read_dir(folder.path().join("cache")).unwrap().count();
    assert_eq!(cached(), 2, "a jar and its label");
    check(&fetch_with(jar, &options).await.unwrap());
    assert_eq!(cached(), 2);
}

/// A job may configure a store at a private address only if the guard is off.
async fn check_guarded(jar: &str, own: &[(&str, &str)]) {
    let error = fetch_as(jar, &[], own).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactPrivateAddress", "{error}");
    check(&fetch_as(jar, &[UNGUARDED], own).await.unwrap());
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn a_jar_comes_from_s3() {
    let endpoint = given("KUBECTL_FLINK_TEST_S3");
    let options = [
        ("s3.endpoint", endpoint.as_str()),
        ("s3.endpoint.region", "us-east-1"),
        ("s3.access-key", "an-access-key"),
        ("s3.secret-key", "a-secret-key"),
        ("s3.path.style.access", "true"),
    ];
    check(&fetch_with("s3://jars/jobs/job.jar", &options).await.unwrap());
    check(&fetch_with("s3a://jars/jobs/job.jar", &options).await.unwrap());
    let missing = ["s3://jars/jobs/none.jar", "s3://none/jobs/job.jar"];
    check_refusals("s3://jars/jobs/job.jar", missing, &options).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn an_unchanged_jar_in_s3_is_not_sent_again() {
    let endpoint = given("KUBECTL_FLINK_TEST_S3");
    let options = [
        ("s3.endpoint", endpoint.as_str()),
        ("s3.access-key", "an-access-key"),
        ("s3.secret-key", "a-secret-key"),
    ];
    check_cached("s3://jars/jobs/job.jar", &options).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn a_jar_comes_from_hdfs() {
    let address = given("KUBECTL_FLINK_TEST_HDFS");
    check(&fetch_with(&format!("{address}/jobs/job.jar"), &[]).await.unwrap());
    let reason = async |path: &str, options: &[(&str, &str)]| {
        fetch_with(&format!("{address}{path}"), options).await.unwrap_err().reason()
    };
    assert_eq!(reason("/jobs/none.jar", &[]).await, "ArtifactNotFound");
    assert_eq!(reason("/jobs", &[]).await, "ArtifactInvalid");
    let small = [("kubernetes.operator.user.artifacts.max-size", "1 kb")];
    assert_eq!(reason("/jobs/job.jar", &small).await, "ArtifactTooLarge");
    let hasty = [("kubernetes.operator.user.artifacts.http.total-timeout", "3 s")];
    let wrong = fetch_with("hdfs://127.0.0.1:1/jobs/job.jar", &hasty).await.unwrap_err();
    assert!(wrong.is_transient(), "{wrong}");
}
