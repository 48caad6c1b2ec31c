//! `check` and `report` against the fakes.

use std::io::Read;

use axum::http::Method;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{cluster, flink, run};
use crate::support::fake_cluster::Fault;

#[tokio::test]
async fn a_check_as_json_is_a_contract() {
    let cluster = cluster();
    let ran = run(&cluster, None, "check -o json").await;
    let (kind, _) = ran.failure.expect("no operator is installed");
    assert_eq!(kind, Kind::Failed);
    let report: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(report["passed"], false);
    let of = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap().clone()
    };
    assert_eq!(of("operator")["result"], "failed");
    assert!(of("operator")["hint"].as_str().unwrap().contains("operator install"));
    assert_eq!(of("definitions")["result"], "failed");
    assert_eq!(of("service-account")["result"], "passed");
}

#[tokio::test]
async fn a_report_has_what_may_be_read_and_says_what_may_not() {
    let cluster = cluster();
    let mut object = super::commands::wordcount();
    object["spec"]["flinkConfiguration"]["s3.secret-key"] = json!("hunter2");
    cluster.insert(object);
    cluster.fail(Method::GET, "/configmaps", Fault::Refused(403, r#"configmaps is forbidden: User "me" cannot list resource "configmaps" in API group "" in the namespace "default""#.to_owned()), 9);
    let (_flink, address) = flink().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.zip");
    let line = format!("report wordcount --file {} -o json", file.display());
    let ran = run(&cluster, Some(address), &line).await.succeeded();
    let written: Value = serde_json::from_str(&ran.output).unwrap();
    assert!(written["leftOut"].to_string().contains("configmaps: forbidden"), "{written}");
    let mut archive = zip::ZipArchive::new(std::fs::File::open(&file).unwrap()).unwrap();
    let mut names = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let name = entry.name().unwrap().into_owned();
        assert!(!text.contains("hunter2"), "{name}");
        names.push(name);
    }
    for name in [
        "objects/flinkdeployment-wordcount.yaml",
        "events.txt",
        "flink/jobs-overview.json",
        "README.txt",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    assert_eq!(cluster.writes(), []);
    let again = run(&cluster, None, &format!("report wordcount --file {}", file.display())).await;
    let (_, causes) = again.failure.expect("nobody's report is written over");
    assert!(causes[0].contains("cannot create"), "{causes:?}");
}
