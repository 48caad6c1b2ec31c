//! The operator's image has one name: what a release publishes is what every installation asks for.

use std::fs;

use operator::install::values::{Image, Values, published};
use serde_json::Value;
use testing::sources::path;

fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn yaml(file: &str) -> Value {
    serde_yaml::from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the name that follows from where the project is, which only `Cargo.toml` says.
fn name() -> String {
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find_map(|line| line.strip_prefix("repository = "));
    let repository = line.expect("Cargo.toml names the repository").trim_matches('"');
    let place = repository.strip_prefix("https://github.com/").expect("its image is at ghcr.io");
    format!("ghcr.io/{place}")
}

#[test]
fn a_release_publishes_the_image_that_installations_ask_for() {
    let name = name();
    assert_eq!(published(), name);
    assert_eq!(yaml(".github/workflows/release.yaml")["env"]["IMAGE"], name.as_str());

    let Image { repository, tag, .. } = Values::default().image;
    assert_eq!((repository.as_str(), tag.as_str()), (name.as_str(), ""));
    let chart = "helm/kubectl-flink-operator";
    let values = yaml(&format!("{chart}/values.yaml"));
    assert_eq!(values["image"]["repository"], name.as_str());
    let helpers = read(&format!("{chart}/templates/_helpers.tpl"));
    let instead_of_java = format!("\n{name}:{{{{ $.Chart.AppVersion }}}}\n");
    assert!(helpers.contains(&instead_of_java), "the chart replaces Java's image by another one");

    // The version of a release is the tag, in all of these.
    let version = env!("CARGO_PKG_VERSION");
    for folder in ["base", "dashboard", "webhook"] {
        let objects = read(&format!("kustomize/{folder}/operator.yaml"));
        let image = objects.lines().find_map(|line| line.trim().strip_prefix("image: "));
        assert_eq!(image, Some(format!("{name}:{version}").as_str()), "kustomize/{folder}");
    }
    let commands = read("docs/commands.md");
    assert!(commands.contains(&format!("[default: {name}:{version}]")), "`operator image`");
    for page in ["docs/from-java.md", "docs/operator.md"] {
        assert!(read(page).contains(&format!("`{name}")), "{page} names another image");
    }
}
