//! Turns Cargo's metadata into a bill of materials.
//!
//! The same packages give the same text: it contains no time and no serial number. What only tests need is left out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

/// The version of `CycloneDX`.
const SPEC: &str = "1.5";

/// Returns the bill of the package that `metadata` is about; `lock` is the text of Cargo.lock, which contains the
/// checksums.
pub(crate) fn of(metadata: &Value, lock: &str) -> anyhow::Result<Value> {
    let root = text(&metadata["resolve"]["root"]).context("there is no root package")?;
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).filter_map(|it| Some((text(&it["id"])?, it))).collect();
    let needs: BTreeMap<&str, BTreeSet<&str>> = list(&metadata["resolve"]["nodes"])
        .filter_map(|it| Some((text(&it["id"])?, needs(it))))
        .collect();
    let sums = sums(lock);
    let mut found = BTreeSet::from([root]);
    let mut ahead = vec![root];
    while let Some(id) = ahead.pop() {
        for next in needs.get(id).into_iter().flatten().copied() {
            if found.insert(next) {
                ahead.push(next);
            }
        }
    }
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for id in &found {
        let Some(package) = packages.get(id) else { bail!("nothing is known of `{id}`") };
        if *id != root {
            components.push(component(package, "library", &sums));
        }
        let of = needs.get(id).into_iter().flatten().filter_map(|id| packages.get(id));
        let of: BTreeSet<String> = of.map(|package| address(package)).collect();
        dependencies.push(json!({"ref": address(package), "dependsOn": of}));
    }
    let by = |name: &'static str| move |it: &Value| it[name].to_string();
    components.sort_by_key(by("bom-ref"));
    dependencies.sort_by_key(by("ref"));
    let Some(own) = packages.get(root) else { bail!("nothing is known of `{root}`") };
    Ok(json!({
        "$schema": format!("http://cyclonedx.org/schema/bom-{SPEC}.schema.json"),
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {"component": component(own, "application", &sums)},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the dependencies that go into the package, without those of its tests.
fn needs(node: &Value) -> BTreeSet<&str> {
    let is_in = |kind: &Value| kind["kind"].is_null() || kind["kind"] == "build";
    list(&node["deps"])
        .filter(|dependency| list(&dependency["dep_kinds"]).any(is_in))
        .filter_map(|dependency| text(&dependency["pkg"]))
        .collect()
}

fn component(package: &Value, kind: &str, sums: &BTreeMap<(&str, &str), &str>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
    let address = address(package);
    let mut component = json!({
        "type": kind, "bom-ref": address, "name": name, "version": version, "purl": address,
    });
    if let Some(license) = text(&package["license"]) {
        // An older notation for OR.
        let expression = license.replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    if let Some(sum) = sums.get(&(name, version)) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    if let Some(url) = text(&package["repository"]) {
        component["externalReferences"] = json!([{"type": "vcs", "url": url}]);
    }
    component
}

/// Returns the package URL.
fn address(package: &Value) -> String {
    let part = |name| text(&package[name]).unwrap_or_default().replace('+', "%2B");
    format!("pkg:cargo/{}@{}", part("name"), part("version"))
}

/// Returns SHA-256 sums of packages, by name and version.
fn sums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let mut sums = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let field = |key: &str| {
            block
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        if let (Some(name), Some(version), Some(sum)) =
            (field("name"), field("version"), field("checksum"))
        {
            let _former = sums.insert((name, version), sum);
        }
    }
    sums
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}
