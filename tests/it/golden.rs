//! Rendered objects against those that the Java operator 1.14.0 left on a real API server.
//!
//! They are compared by meaning: both sides lose the API server's defaults, quantities are compared by value, Flink
//! configuration by key, lists of env, ports, volumes and mounts by name.

mod compare;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use crate::support::program::program;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_yaml::from_multiple(text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn render(manifest: &Path) -> String {
    let output = Command::from_std(program())
        .args(["render", "--operator-config"])
        .arg(golden().join("operator-config.yaml"))
        .arg("-f")
        .arg(manifest)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    String::from_utf8(output).unwrap()
}

fn cases() -> Vec<String> {
    let mut cases: Vec<String> = std::fs::read_dir(golden().join("cr"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    cases.sort();
    cases
}

#[test]
fn rendered_objects_mean_the_same_as_the_java_operators() {
    let cases = cases();
    assert_eq!(cases.len(), 19);
    let mut differences = Vec::new();
    for case in cases {
        let expected =
            std::fs::read_to_string(golden().join(format!("objects/{case}.yaml"))).unwrap();
        let rendered = render(&golden().join(format!("cr/{case}.yaml")));
        for difference in compare::differences(&documents(&expected), &documents(&rendered)) {
            differences.push(format!("{case}{difference}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The comparison itself must detect a difference, or the test above proves nothing.
#[test]
fn the_comparison_sees_what_differs() {
    let text = std::fs::read_to_string(golden().join("objects/native-limits.yaml")).unwrap();
    let expected = documents(&text);
    let seen = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        !compare::differences(&expected, &documents(&text.replace(from, to))).is_empty()
    };
    assert!(seen("cpu: 500m", "cpu: 501m"));
    assert!(seen("memory: 2304Mi", "memory: 2303Mi"));
    assert!(seen("taskmanager.memory.process.size: 3 gb", "taskmanager.memory.process.size: 2 gb"));
    assert!(seen("web.cancel.enable: false\\n", ""));
    assert!(seen("periodSeconds: 1\n", "periodSeconds: 2\n"));
    assert!(seen("kind: Service", "kind: Secret"));
    assert!(!seen("cpu: 500m", "cpu: '0.5'"));
    assert!(!seen("memory: 1536Mi", "memory: 1.5Gi"));
    assert!(!seen(
        "taskmanager.memory.process.size: 3 gb",
        "taskmanager.memory.process.size: 3072m"
    ));
    assert!(!seen("generation:1", "generation:7"));
    assert!(!seen("progressDeadlineSeconds: 600\n", "paused: null\n"));
}

/// The examples' requirements are the same for each Flink version that we support.
#[test]
fn every_example_renders_for_every_flink_version() {
    const VERSIONS: [&str; 11] = [
        "v1_15", "v1_16", "v1_17", "v1_18", "v1_19", "v1_20", "v2_0", "v2_1", "v2_2", "v2_3",
        "v2_4",
    ];
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let directory = tempfile::tempdir().unwrap();
    let mut rendered = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let Some(at) = text.find("flinkVersion: ") else { continue };
        // The objects of a blue/green deployment are its children, which the operator creates.
        if !text.contains("\nkind: FlinkDeployment\n") {
            continue;
        }
        let stated = text[at..].lines().next().unwrap();
        let texts = VERSIONS.map(|v| text.replace(stated, &format!("flinkVersion: {v}")));
        let manifest = directory.path().join("manifest.yaml");
        std::fs::write(&manifest, texts.join("\n---\n")).unwrap();
        let objects = documents(&render(&manifest));
        let with = |file: &str| objects.iter().filter(|o| o["data"].get(file).is_some()).count();
        let old = VERSIONS.iter().filter(|version| **version < "v2").count();
        assert_eq!(with("flink-conf.yaml"), old, "{path:?}");
        assert_eq!(with("config.yaml"), VERSIONS.len() - old, "{path:?}");
        let deployments = objects.iter().filter(|object| object["kind"] == "Deployment").count();
        assert!(deployments >= VERSIONS.len(), "{path:?}");
        rendered += 1;
    }
    assert!(rendered >= 5, "there are examples");
}
