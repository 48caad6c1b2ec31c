//! Jars from Google Cloud Storage; the emulator checks tokens as Google does.

use std::fs;

use serde_json::Value;

use super::folders::keep_folders;
use super::{check, check_guarded, check_refusals, fetch_with, given};

const JAR: &str = "gs://jars/jobs/job.jar";

/// Returns a service account's key file.
fn account(name: &str) -> (String, Value) {
    let path = format!("{}/{name}.json", given("KUBECTL_FLINK_TEST_GCS_ACCOUNTS"));
    let account = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    (path, account)
}

/// Returns options that sign in as the account, with its key as in a properties file.
fn options(name: &str) -> Vec<(&'static str, String)> {
    let (_, account) = account(name);
    let text = |field: &str| account[field].as_str().unwrap().replace('\n', "\\n");
    vec![
        ("fs.gs.storage.root.url", given("KUBECTL_FLINK_TEST_GCS")),
        ("fs.gs.auth.service.account.email", text("client_email")),
        ("fs.gs.auth.service.account.private.key.id", text("private_key_id")),
        ("fs.gs.auth.service.account.private.key", text("private_key")),
    ]
}

fn borrowed<'a>(options: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    options.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn a_jar_comes_from_google_cloud_storage() {
    let options = options("account");
    let options = borrowed(&options);
    check(&fetch_with(JAR, &options).await.unwrap());
    let (file, _) = account("account");
    let by_file = [options[0], ("fs.gs.auth.service.account.json.keyfile", file.as_str())];
    check(&fetch_with(JAR, &by_file).await.unwrap());
    let missing = ["gs://jars/jobs/none.jar", "gs://none/jobs/job.jar"];
    check_refusals(JAR, missing, &options).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn google_cloud_storage_refuses_a_key_that_no_message_shows() {
    let wrong = options("other");
    let error = fetch_with(JAR, &borrowed(&wrong)).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactAccessDenied", "{error}");
    let told = error.to_string();
    assert!(told.contains("rejects the credentials; check the credentials"), "{told}");
    // The guard's answer contains the token, which is base64 text.
    assert!(!told.contains("eyJ") && !told.contains("PRIVATE KEY"), "{told}");

    let mut broken = options("account");
    broken.last_mut().unwrap().1 =
        "-----BEGIN PRIVATE KEY-----\\nvery-secret\\n-----END PRIVATE KEY-----".to_owned();
    let error = fetch_with(JAR, &borrowed(&broken)).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactInvalid", "{error}");
    assert!(!error.to_string().contains("very-secret"), "{error}");

    let (key, address) = ("fs.gs.storage.root.url", given("KUBECTL_FLINK_TEST_GCS"));
    let public = [(key, address.as_str()), ("fs.gs.auth.type", "UNAUTHENTICATED")];
    let error = fetch_with(JAR, &public).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactAccessDenied", "{error}");
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn a_job_reaches_its_own_google_cloud_storage_within_the_guard() {
    check_guarded(JAR, &borrowed(&options("account"))).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn folders_in_google_cloud_storage_are_listed_and_removed() {
    // The emulator returns everything on one page.
    keep_folders("gs://jars/state", &borrowed(&options("account")), 3).await;
}
