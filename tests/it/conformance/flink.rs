//! The fake Flink of the tests, and the real one in two versions, as processes of this machine.

pub(crate) mod application;
pub(crate) mod metadata;
mod real;
pub(crate) mod script;
mod show;

use expect_test::expect_file;

use clients::flink::Client;
use regex::Regex;

use crate::api_server::Server;
use crate::support::fake_flink::FakeFlink;
use metadata::Maps;
use real::Real;
use script::{World, differences, run};

const SCRIPTS: &str = include_str!("flink.script");
/// Scripts for a cluster that keeps HA metadata in ConfigMaps.
pub(crate) const METADATA: &str = include_str!("metadata.script");
pub(crate) const METADATA_OF_1_20: &str = include_str!("metadata-1.20.txt");
/// Scripts for applications, which keep HA metadata, too.
pub(crate) const APPLICATIONS: &str = include_str!("application.script");
pub(crate) const APPLICATIONS_OF_1_20: &str = include_str!("application-1.20.txt");
/// Scripts for a cluster with the adaptive scheduler.
const ADAPTIVE: &str = include_str!("adaptive.script");
const ADAPTIVE_OF_1_20: &str = include_str!("adaptive-1.20.txt");
/// All answers of Flink 1.20. Of 2.3 only those are on record that differ.
const OF_1_20: &str = include_str!("flink-1.20.txt");

impl World for FakeFlink {
    fn client(&self) -> Client {
        Self::client(self)
    }

    fn set(&self, gate: &str, is_set: bool) {
        self.with("", |cluster| cluster.gates.set(gate, is_set));
    }
}

/// Returns the answers of the fake, which has two slots as the real ones have.
async fn answers_of_fake(is_2_3: bool) -> (FakeFlink, String) {
    let fake = FakeFlink::start().await;
    fake.with("", |cluster| (cluster.slots, cluster.is_2_3) = (Some(2), is_2_3));
    let answers = run(&fake, SCRIPTS).await;
    (fake, answers)
}

#[tokio::test]
async fn the_fake_flink_answers_as_1_20_does() {
    let (fake, answers) = answers_of_fake(false).await;
    expect_file!["flink-1.20.txt"].assert_eq(&answers);
    each_endpoint_is_in_a_script(&fake);
}

#[tokio::test]
async fn the_fake_flink_answers_as_2_3_does() {
    let (_, answers) = answers_of_fake(true).await;
    expect_file!["flink-2.3.txt"].assert_eq(&differences(OF_1_20, &answers));
}

async fn answers_of_adaptive_fake(is_2_3: bool) -> String {
    let fake = FakeFlink::start().await;
    fake.with("", |cluster| {
        (cluster.slots, cluster.is_2_3, cluster.is_adaptive) = (Some(2), is_2_3, true);
    });
    run(&fake, ADAPTIVE).await
}

#[tokio::test]
async fn the_fake_flink_rescales_as_1_20_does() {
    expect_file!["adaptive-1.20.txt"].assert_eq(&answers_of_adaptive_fake(false).await);
}

#[tokio::test]
async fn the_fake_flink_rescales_as_2_3_does() {
    let answers = answers_of_adaptive_fake(true).await;
    expect_file!["adaptive-2.3.txt"].assert_eq(&differences(ADAPTIVE_OF_1_20, &answers));
}

/// Nobody knows whether Flink has an endpoint of the fake that is in no script.
fn each_endpoint_is_in_a_script(fake: &FakeFlink) {
    let source = include_str!("../support/fake_flink/rest.rs");
    let asked = fake.requests("");
    let endpoint = Regex::new(r#"\("([A-Z]+)", \[(.*?)\]\)"#).unwrap();
    let mut count = 0;
    for found in endpoint.captures_iter(source) {
        let parts = found[2].split(", ").map(|part| match part.trim_matches('"') {
            literal if part.starts_with('"') => format!("/({})", literal.replace("\" | \"", "|")),
            "" => String::new(),
            _ => "/[^/]+".to_owned(),
        });
        let path = format!(r"^{} (/.*)?{}(\?.*)?$", &found[1], parts.collect::<String>());
        let path = Regex::new(&path).unwrap();
        assert!(asked.iter().any(|request| path.is_match(request)), "{}", &found[0]);
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[tokio::test]
#[ignore = "needs Flink"]
async fn flink_1_20_answers_as_the_scripts_say() {
    let answers = run(&Real::start("1.20", None), SCRIPTS).await;
    expect_file!["flink-1.20.txt"].assert_eq(&answers);
}

#[tokio::test]
#[ignore = "needs Flink"]
async fn flink_2_3_answers_as_the_scripts_say() {
    let answers = run(&Real::start("2.3", None), SCRIPTS).await;
    expect_file!["flink-2.3.txt"].assert_eq(&differences(OF_1_20, &answers));
}

#[tokio::test]
#[ignore = "needs Flink"]
async fn flink_1_20_rescales_as_the_scripts_say() {
    let answers = run(&Real::start_adaptive("1.20"), ADAPTIVE).await;
    expect_file!["adaptive-1.20.txt"].assert_eq(&answers);
}

#[tokio::test]
#[ignore = "needs Flink"]
async fn flink_2_3_rescales_as_the_scripts_say() {
    let answers = run(&Real::start_adaptive("2.3"), ADAPTIVE).await;
    expect_file!["adaptive-2.3.txt"].assert_eq(&differences(ADAPTIVE_OF_1_20, &answers));
}

/// Runs scripts in a namespace of its own, in the cluster that `start` starts.
async fn answers_with_metadata(
    kind: &str,
    version: &str,
    scripts: &str,
    start: impl FnOnce(Maps) -> Real,
) -> String {
    let namespace = format!("{kind}-{}", version.replace('.', "-"));
    let server = Server::without_definitions(&namespace).await;
    let maps = Maps {
        client: server.client.clone(),
        namespace: server.namespace.clone(),
        cluster: "available".to_owned(),
    };
    let answers = run(&start(maps), scripts).await;
    server.clean_up().await;
    answers
}

async fn answers_of_session(version: &str) -> String {
    let start = |maps| Real::start(version, Some(maps));
    answers_with_metadata("metadata", version, METADATA, start).await
}

async fn answers_of_applications(version: &str) -> String {
    let start = |maps| Real::start_for_applications(version, maps);
    answers_with_metadata("applications", version, APPLICATIONS, start).await
}

#[tokio::test]
#[ignore = "needs Flink and an API server"]
async fn flink_1_20_keeps_metadata_as_the_scripts_say() {
    expect_file!["metadata-1.20.txt"].assert_eq(&answers_of_session("1.20").await);
}

#[tokio::test]
#[ignore = "needs Flink and an API server"]
async fn flink_2_3_keeps_metadata_as_the_scripts_say() {
    let answers = answers_of_session("2.3").await;
    expect_file!["metadata-2.3.txt"].assert_eq(&differences(METADATA_OF_1_20, &answers));
}

#[tokio::test]
#[ignore = "needs Flink and an API server"]
async fn flink_1_20_keeps_metadata_of_applications_as_the_scripts_say() {
    expect_file!["application-1.20.txt"].assert_eq(&answers_of_applications("1.20").await);
}

#[tokio::test]
#[ignore = "needs Flink and an API server"]
async fn flink_2_3_keeps_metadata_of_applications_as_the_scripts_say() {
    let answers = answers_of_applications("2.3").await;
    expect_file!["application-2.3.txt"].assert_eq(&differences(APPLICATIONS_OF_1_20, &answers));
}
