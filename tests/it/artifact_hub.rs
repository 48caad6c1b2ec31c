//! What Artifact Hub shows of the chart: its annotations are of the forms that it reads, and name what is published.

use std::collections::BTreeSet;
use std::fs;

use api::crd;
use operator::install::values::published;
use serde_json::Value;
use testing::sources::path;

use crate::support::program::program;

#[test]
fn artifact_hub_is_given_what_is_true() {
    let text = fs::read_to_string(path("helm/kubectl-flink-operator/Chart.yaml")).unwrap();
    let chart: Value = serde_yaml::from_str(&text).unwrap();
    let text = |name: &str| {
        let value = &chart["annotations"][format!("artifacthub.io/{name}")];
        value.as_str().unwrap_or_else(|| panic!("{name} is no text: {value}")).to_owned()
    };
    let list = |name: &str| -> Vec<Value> { serde_yaml::from_str(&text(name)).unwrap() };
    assert_eq!(text("license"), env!("CARGO_PKG_LICENSE"));
    // Each of these is one of a list of Artifact Hub's.
    assert_eq!(text("category"), "streaming-messaging");
    assert_eq!(text("operatorCapabilities"), "Auto Pilot");
    for change in list("changes") {
        let kind = change["kind"].as_str().unwrap();
        assert!(["added", "changed", "deprecated", "removed", "fixed", "security"].contains(&kind));
        assert!(!change["description"].as_str().unwrap().is_empty());
    }
    let images = list("images");
    let images: Vec<&Value> = images.iter().map(|image| &image["image"]).collect();
    assert_eq!(images, [&format!("{}:{}", published(), env!("CARGO_PKG_VERSION"))]);

    let told: BTreeSet<[String; 3]> = list("crds")
        .iter()
        .map(|it| ["name", "kind", "version"].map(|field| it[field].as_str().unwrap().to_owned()))
        .collect();
    let made = crd::all().into_iter().map(|it| {
        [it.metadata.name.unwrap(), it.spec.names.kind, it.spec.versions[0].name.clone()]
    });
    assert_eq!(told, made.collect());

    let examples = list("crdsExamples");
    let kinds: BTreeSet<&str> = examples.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    let known: BTreeSet<&str> = told.iter().map(|[_, kind, _]| kind.as_str()).collect();
    assert_eq!(kinds, known);
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    let all = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": examples});
    fs::write(file.path(), all.to_string()).unwrap();
    let linted = program().args(["lint", "-f"]).arg(file.path()).output().unwrap();
    let said = String::from_utf8_lossy(&linted.stdout).into_owned();
    assert!(linted.status.success(), "{said}{}", String::from_utf8_lossy(&linted.stderr));
}
