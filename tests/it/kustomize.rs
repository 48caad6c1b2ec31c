//! The kustomize bases: what `operator install` makes, as files that a repository can name.

use expect_test::expect_file;
use operator::install::merge::{Scalars, defaults, set, typed};
use operator::install::objects::Release;
use serde_json::{Value, json};

use crate::support::program::other;

const NAMESPACE: &str = "flink-operator";
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize");

/// What an installation with these values makes, with the namespace that it is in.
fn installed(values: &[&str]) -> Vec<Value> {
    let mut all = defaults();
    for text in values {
        set(&mut all, text, Scalars::Typed).unwrap();
    }
    let values = typed(all).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let release =
        Release { namespace: NAMESPACE, version, managed_by: "kustomize", values: &values };
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    std::iter::once(namespace).chain(release.objects()).collect()
}

fn page(objects: &[Value]) -> String {
    let head = "# Made by `UPDATE_EXPECT=1 cargo test --test it kustomize::`: not to be edited.\n";
    let documents =
        objects.iter().map(|object| format!("---\n{}", serde_yaml::to_string(object).unwrap()));
    std::iter::once(head.to_owned()).chain(documents).collect()
}

#[test]
fn the_bases_are_what_an_installation_makes() {
    expect_file![format!("{FOLDER}/base/operator.yaml")].assert_eq(&page(&installed(&[])));
    let webhook = installed(&["webhook.create=true"]);
    expect_file![format!("{FOLDER}/webhook/operator.yaml")].assert_eq(&page(&webhook));
    let dashboard = installed(&["dashboard.enabled=true"]);
    expect_file![format!("{FOLDER}/dashboard/operator.yaml")].assert_eq(&page(&dashboard));
    expect_file![format!("{FOLDER}/resource-view/rights.yaml")].assert_eq(&page(&resource_view()));
}

/// The rights that this value adds to an installation.
fn resource_view() -> Vec<Value> {
    let base = installed(&[]);
    let mut with = installed(&["rbac.resourceViewRule.create=true"]);
    with.retain(|object| !base.contains(object));
    with
}

/// What `kubectl kustomize` makes of a folder.
fn kustomized(folder: &str) -> Vec<Value> {
    let output = other("kubectl").args(["kustomize", folder]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_yaml::from_multiple(&text).unwrap()
}

fn names(objects: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut names: Vec<(String, String)> = objects
        .iter()
        .map(|object| (text(&object["kind"]), text(&object["metadata"]["name"])))
        .collect();
    names.sort();
    names
}

#[test]
#[ignore = "needs kubectl: tests/helm.sh"]
fn kustomize_makes_of_the_bases_what_is_in_them() {
    for (folder, expected) in [
        ("base", installed(&[])),
        ("webhook", installed(&["webhook.create=true"])),
        ("dashboard", installed(&["dashboard.enabled=true"])),
        ("resource-view", resource_view()),
    ] {
        let made = kustomized(&format!("{FOLDER}/{folder}"));
        assert_eq!(names(&made), names(&expected), "{folder}");
        for object in &expected {
            assert!(
                made.contains(object),
                "{folder}: {}",
                names(std::slice::from_ref(object))[0].1
            );
        }
    }
}

/// As a user lays something over a base.
#[test]
#[ignore = "needs kubectl: tests/helm.sh"]
fn a_base_can_be_laid_over() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let base = folder.path().join("base");
    std::fs::create_dir(&base).unwrap();
    for file in std::fs::read_dir(format!("{FOLDER}/base")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), base.join(file.file_name())).unwrap();
    }
    let overlay = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["base"],
        "images": [{"name": "kubectl-flink", "newName": "registry.example/flink", "newTag": "v7"}],
        "replicas": [{"name": "kubectl-flink-operator", "count": 2}],
    });
    let text = serde_yaml::to_string(&overlay).unwrap();
    std::fs::write(folder.path().join("kustomization.yaml"), text).unwrap();
    let made = kustomized(folder.path().to_str().unwrap());
    let deployment = made.iter().find(|object| object["kind"] == "Deployment").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/flink:v7");
}
