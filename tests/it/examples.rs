//! Every manifest under `examples/` can be applied: it has no unknown fields, the operator accepts it, and it renders.
//! The rendered objects are stored under `tests/golden/examples/`.

use std::fs;
use std::path::{Path, PathBuf};

use api::{CANARY_LABEL, GROUP, crd};
use assert_cmd::Command;
use expect_test::expect_file;
use serde_json::Value;

use crate::support::program::program;

#[test]
fn examples_have_no_field_that_the_resource_has_not() {
    let mut unknown = Vec::new();
    for file in manifests() {
        for manifest in documents(&file).into_iter().filter(is_own) {
            let mut fields = Vec::new();
            find_unknown(&manifest, &schema_of(&manifest), String::new(), &mut fields);
            unknown.extend(fields.into_iter().map(|field| format!("{}: {field}", file.display())));
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn an_unknown_field_is_found() {
    let mut manifest = documents(&project().join("examples/basic.yaml")).remove(0);
    let schema = schema_of(&manifest);
    manifest["spec"]["podTemplate"]["spec"]["containers"][0]["imge"] = "flink:1.20".into();
    let mut fields = Vec::new();
    find_unknown(&manifest, &schema, String::new(), &mut fields);
    assert_eq!(fields, [".spec.podTemplate.spec.containers[0].imge"]);
}

#[test]
fn the_operator_accepts_examples() {
    let folders = FOLDERS.map(|folder| project().join(folder));
    Command::from_std(program()).args(["lint", "-f"]).args(folders).assert().success();
}

#[test]
fn each_example_runs_on_real_flink_or_the_page_says_why_not() {
    let tests = ["cluster", "examples", "install", "blue_green"]
        .map(|test| fs::read_to_string(project().join(format!("tests/it/e2e/{test}.rs"))).unwrap());
    let page = fs::read_to_string(project().join("examples/README.md")).unwrap();
    let (_, not_run) = page.split_once("These are not run").unwrap();
    for file in manifests().into_iter().filter(|file| documents(file).iter().any(is_own)) {
        let name = file.strip_prefix(project().join("examples")).unwrap().to_str().unwrap();
        let is_run = tests.iter().any(|text| text.contains(&format!("{name}\"")));
        let is_reported = not_run.contains(&format!("`{name}`"));
        assert!(
            is_run != is_reported,
            "{name} runs: {is_run}, README.md says why not: {is_reported}"
        );
    }
}

#[test]
fn examples_render() {
    let is_rendered = |manifest: &Value| {
        manifest["kind"] == "FlinkDeployment"
            && manifest["metadata"]["labels"][CANARY_LABEL].is_null()
    };
    let renders = |file: &PathBuf| documents(file).iter().any(is_rendered);
    for file in manifests().into_iter().filter(renders) {
        let rendered = Command::from_std(program())
            .args(["render", "-f"])
            .arg(&file)
            .assert()
            .success()
            .get_output()
            .stdout
            .clone();
        let golden = project().join("tests/golden/examples").join(file.file_name().unwrap());
        expect_file![golden].assert_eq(&String::from_utf8(rendered).unwrap());
    }
}

/// The folders with manifests.
const FOLDERS: [&str; 4] = ["examples", "examples/jobs", "examples/snapshots", "examples/storage"];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn manifests() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(project().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 5, "found {files:?} only");
    files
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.split("\n---\n").map(|document| serde_yaml::from_str(document).unwrap()).collect()
}

/// Whether it is of this project's group; others, such as a certificate, accompany them.
fn is_own(manifest: &Value) -> bool {
    manifest["apiVersion"].as_str().unwrap().starts_with(GROUP)
}

/// Returns the schema of the manifest's kind.
fn schema_of(manifest: &Value) -> Value {
    let kind = manifest["kind"].as_str().unwrap();
    let definition = crd::all().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    serde_json::to_value(crd::root(&definition).unwrap()).unwrap()
}

/// Collects the paths of all fields of `value` that `schema` does not have.
fn find_unknown(value: &Value, schema: &Value, path: String, unknown: &mut Vec<String>) {
    // A pod template preserves unknown fields; an example has none.
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true
        && schema["properties"].as_object().is_none_or(serde_json::Map::is_empty);
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let path = format!("{path}.{key}");
                let known = schema["properties"].get(key).or(schema.get("additionalProperties"));
                match known {
                    Some(schema) => find_unknown(value, schema, path, unknown),
                    // The API server knows these fields in every object.
                    None if is_open || path.starts_with(".metadata") => {}
                    None if ["apiVersion", "kind", "metadata"].contains(&key.as_str()) => {}
                    None => unknown.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_unknown(item, &schema["items"], format!("{path}[{index}]"), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
