//! Jars from Azure Blob Storage.

use std::fs;

use super::folders::keep_folders;
use super::{check, check_cached, check_guarded, check_refusals, fetch_with, given};

const JAR: &str = "abfss://jars@lake.dfs.core.windows.net/jobs/job.jar";
const KEY: &str = "fs.azure.account.key.lake.dfs.core.windows.net";
const ENDPOINT: &str = "fs.azure.abfs.endpoint";
const TOKEN: &str = "fs.azure.sas.fixed.token.lake.dfs.core.windows.net";
/// A key in base64 that belongs to no account.
const WRONG_KEY: &str = "dmVyeS1zZWNyZXQ=";

/// Returns a shared access signature that may read the container, and an expired one.
fn tokens() -> (String, String) {
    let text = fs::read_to_string(given("KUBECTL_FLINK_TEST_AZURE_TOKENS")).unwrap();
    let (good, expired) = text.trim().split_once('\n').unwrap();
    (good.to_owned(), expired.to_owned())
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn a_jar_comes_from_azure() {
    let (endpoint, key) =
        (given("KUBECTL_FLINK_TEST_AZURE"), given("KUBECTL_FLINK_TEST_AZURE_KEY"));
    let options = [(ENDPOINT, endpoint.as_str()), (KEY, key.as_str())];
    check(&fetch_with(JAR, &options).await.unwrap());
    check(&fetch_with(&JAR.replace("abfss://", "abfs://"), &options).await.unwrap());
    let (token, _) = tokens();
    for token in [token.clone(), format!("?{token}")] {
        let by_token = [(ENDPOINT, endpoint.as_str()), (TOKEN, token.as_str())];
        check(&fetch_with(JAR, &by_token).await.unwrap());
    }
    let missing = [
        "abfss://jars@lake.dfs.core.windows.net/jobs/none.jar",
        "abfss://none@lake.dfs.core.windows.net/jobs/job.jar",
    ];
    check_refusals(JAR, missing, &options).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn an_unchanged_jar_in_azure_is_not_sent_again() {
    let (endpoint, key) =
        (given("KUBECTL_FLINK_TEST_AZURE"), given("KUBECTL_FLINK_TEST_AZURE_KEY"));
    check_cached(JAR, &[(ENDPOINT, endpoint.as_str()), (KEY, key.as_str())]).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn azure_refuses_credentials_that_no_message_shows() {
    let endpoint = given("KUBECTL_FLINK_TEST_AZURE");
    let (_, expired) = tokens();
    let signature = expired.rsplit_once("sig=").unwrap().1;
    for (name, credential, secret) in
        [(KEY, WRONG_KEY, WRONG_KEY), (TOKEN, expired.as_str(), signature)]
    {
        let options = [(ENDPOINT, endpoint.as_str()), (name, credential)];
        let error = fetch_with(JAR, &options).await.unwrap_err();
        assert_eq!(error.reason(), "ArtifactAccessDenied", "{error}");
        let told = error.to_string();
        assert!(told.contains("the credentials do not allow it; check the credentials"), "{told}");
        assert!(!told.contains(secret) && !told.contains("very-secret"), "{told}");
    }
    let broken = [(ENDPOINT, endpoint.as_str()), (KEY, "very-secret, and not base64")];
    let error = fetch_with(JAR, &broken).await.unwrap_err();
    assert_eq!(error.reason(), "ArtifactInvalid", "{error}");
    assert!(!error.to_string().contains("very-secret"), "{error}");
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn a_job_reaches_its_own_azure_within_the_guard() {
    let (endpoint, key) =
        (given("KUBECTL_FLINK_TEST_AZURE"), given("KUBECTL_FLINK_TEST_AZURE_KEY"));
    check_guarded(JAR, &[(ENDPOINT, endpoint.as_str()), (KEY, key.as_str())]).await;
}

#[tokio::test]
#[ignore = "needs the stores of tests/artifacts.sh"]
async fn folders_in_azure_are_listed_page_by_page_and_removed() {
    let (endpoint, key) =
        (given("KUBECTL_FLINK_TEST_AZURE"), given("KUBECTL_FLINK_TEST_AZURE_KEY"));
    let options = [(ENDPOINT, endpoint.as_str()), (KEY, key.as_str())];
    // More than fit on one page.
    keep_folders("abfss://jars@lake.dfs.core.windows.net/state", &options, 1100).await;
}
