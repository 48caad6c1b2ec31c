//! What a release publishes, made by a rehearsal of it with stand-ins for the built programs, and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use expect_test::expect;
use flate2::read::GzDecoder;
use operator::install::values::published;
use serde_json::Value;
use testing::sources::path;

use crate::krew;
use crate::support::program::{PROGRAM, other};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CHART: &str = "helm/kubectl-flink-operator/Chart.yaml";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const TAG: &str = "org.opencontainers.image.ref.name";

/// The header of a 64-bit Linux program for amd64, of which nothing else is looked at.
fn elf() -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    (header[16], header[18], header[20], header[52]) = (2, 62, 1, 64);
    header
}

/// An image layout, read without the program that wrote it.
struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    /// Files that were asked for.
    used: BTreeSet<String>,
}

impl Layout {
    fn open(archive: &Path) -> Self {
        let mut files = BTreeMap::new();
        let bytes = fs::read(archive).unwrap();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            assert!(files.insert(name, content).is_none(), "a file is there twice");
        }
        let layout = files.remove("oci-layout").unwrap();
        assert_eq!(layout, br#"{"imageLayoutVersion":"1.0.0"}"#);
        Self { files, used: BTreeSet::new() }
    }

    /// Takes what a descriptor describes: its digest and size are right, and a manifest is of the type that is said.
    fn take(&mut self, descriptor: &Value) -> Vec<u8> {
        let digits = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let file = format!("blobs/sha256/{digits}");
        let content = self.files[&file].clone();
        let (sum, size) = (krew::sum_of(&content), content.len() as u64);
        assert_eq!((sum.as_str(), descriptor["size"].as_u64()), (digits, Some(size)));
        self.used.insert(file);
        content
    }

    /// Takes a manifest or an index with all below it.
    fn manifest(&mut self, descriptor: &Value) -> Value {
        let manifest: Value = serde_json::from_slice(&self.take(descriptor)).unwrap();
        assert_eq!(manifest["mediaType"], descriptor["mediaType"]);
        assert_eq!(manifest["schemaVersion"], 2);
        let below = |list: &str| manifest[list].as_array().cloned().unwrap_or_default();
        for below in below("manifests") {
            self.manifest(&below);
        }
        let config = manifest.get("config").cloned();
        for below in config.into_iter().chain(below("layers")) {
            self.take(&below);
        }
        manifest
    }

    /// Returns the index's descriptors, and what they describe.
    fn manifests(&mut self) -> Vec<(Value, Value)> {
        let index: Value = serde_json::from_slice(&self.files["index.json"]).unwrap();
        assert_eq!(index["mediaType"], INDEX);
        self.used.insert("index.json".to_owned());
        let manifests = index["manifests"].as_array().unwrap().iter();
        manifests.map(|it| (it.clone(), self.manifest(it))).collect()
    }

    fn unused(&self) -> Vec<&String> {
        self.files.keys().filter(|file| !self.used.contains(*file)).collect()
    }
}

#[test]
fn a_rehearsal_makes_what_a_release_publishes() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let out = folder.path().join("packages");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("kubectl-flink-v0.0.1-of-before.tar.gz"), "").unwrap();
    let rehearsed = other(path("dist/release.sh"))
        .arg("rehearse")
        .envs([("DIST", &out), ("PROGRAM", &put("program", b"#!/bin/sh\n"))])
        .envs([("STATIC", put("static", &elf())), ("SBOM", put("sbom", b"{}"))])
        .envs([("TOOL", PROGRAM), ("TARGET", krew::TARGET), ("DIRTY", "allowed")])
        .output()
        .unwrap();
    let (said, error) = (String::from_utf8(rehearsed.stdout), String::from_utf8(rehearsed.stderr));
    let (said, error) = (said.unwrap(), error.unwrap());
    assert!(rehearsed.status.success(), "{said}{error}");
    let (_, missing) = said.split_once("left to the release:").unwrap();
    let lacking = other(path("dist/package.sh")).arg("lacking").output().unwrap();
    let lacking = String::from_utf8(lacking.stdout).unwrap();
    for left in lacking.lines().chain(["nothing is signed", "nothing is published"]) {
        assert!(missing.contains(left), "nothing is said of {left}: {missing}");
    }

    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    let files = sums.lines().map(|line| line.split_once("  ").unwrap().1);
    let files = files.map(|file| file.replace(VERSION, "VERSION") + "\n").collect::<String>();
    let there = fs::read_dir(&out).unwrap().count();
    assert_eq!(there, files.lines().count() + 1, "checksums are of all other files");
    // Not every machine has the program that makes it.
    let files = files.replace("kubectl-flink_VERSION_amd64.deb\n", "");
    expect![[r#"
        flink.yaml
        kubectl-flink-operator-VERSION.oci.tar
        kubectl-flink-operator-VERSION.tgz
        kubectl-flink-operator-image-vVERSION-amd64.tar
        kubectl-flink-operator-image-vVERSION.tar
        kubectl-flink-vVERSION-x86_64-unknown-linux-gnu.tar.gz
        sbom.cdx.json
    "#]]
    .assert_eq(&files);
    krew::of_file(&out.join("flink.yaml"));
    let image = out.join(format!("kubectl-flink-operator-image-v{VERSION}"));
    one_image_for_all_machines_has_what_each_has(&image);
    let chart = fs::read(out.join(format!("kubectl-flink-operator-{VERSION}.tgz"))).unwrap();
    a_chart_is_the_only_layer(
        &out.join(format!("kubectl-flink-operator-{VERSION}.oci.tar")),
        &chart,
    );
    a_chart_has_its_crds(&chart);
}

fn one_image_for_all_machines_has_what_each_has(image: &Path) {
    let mut one = Layout::open(Path::new(&format!("{}-amd64.tar", image.display())));
    let manifests = one.manifests();
    let [(image_of_one, manifest), (attached, referrer)] = manifests.as_slice() else {
        panic!("{manifests:#?}")
    };
    let name = format!("{}:{VERSION}", published());
    assert_eq!(image_of_one["annotations"]["io.containerd.image.name"], name);
    assert_eq!(referrer["artifactType"], "application/vnd.cyclonedx+json");
    assert_eq!(referrer["subject"]["digest"], image_of_one["digest"]);
    assert_eq!(referrer["subject"]["mediaType"], MANIFEST);
    assert_eq!(one.take(&referrer["layers"][0]), b"{}");
    // The same files are in the format of `docker save`.
    assert_eq!(one.unused(), ["manifest.json"]);
    let of_docker: Value = serde_json::from_slice(&one.files["manifest.json"]).unwrap();
    assert_eq!(of_docker[0]["RepoTags"], serde_json::json!([name]));
    for (file, descriptor) in
        [("/0/Config", &manifest["config"]), ("/0/Layers/0", &manifest["layers"][0])]
    {
        let file = of_docker.pointer(file).unwrap().as_str().unwrap();
        assert_eq!(descriptor["digest"], format!("sha256:{}", file.rsplit('/').next().unwrap()));
    }

    let mut all = Layout::open(Path::new(&format!("{}.tar", image.display())));
    let manifests = all.manifests();
    let [(descriptor, index), (also_attached, _)] = manifests.as_slice() else {
        panic!("{manifests:#?}")
    };
    assert_eq!(
        (&descriptor["mediaType"], &descriptor["annotations"][TAG]),
        (&INDEX.into(), &VERSION.into())
    );
    assert_eq!(index["manifests"][0]["digest"], image_of_one["digest"]);
    assert_eq!(index["manifests"][0]["platform"]["architecture"], "amd64");
    assert_eq!(also_attached, attached);
    assert!(all.unused().is_empty(), "{:?}", all.unused());
}

fn a_chart_is_the_only_layer(layout: &Path, chart: &[u8]) {
    let mut layout = Layout::open(layout);
    let manifests = layout.manifests();
    let [(descriptor, manifest)] = manifests.as_slice() else { panic!("{manifests:#?}") };
    assert_eq!(descriptor["annotations"][TAG], VERSION);
    let types = [&manifest["config"], &manifest["layers"][0]].map(|it| it["mediaType"].clone());
    assert_eq!(
        types,
        [
            "application/vnd.cncf.helm.config.v1+json",
            "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
        ]
    );
    assert_eq!(layout.take(&manifest["layers"][0]), chart);
    let about: Value = serde_json::from_slice(&layout.take(&manifest["config"])).unwrap();
    assert_eq!(about, serde_yaml::from_str::<Value>(&read(CHART)).unwrap());
    assert!(layout.unused().is_empty(), "{:?}", layout.unused());
}

fn a_chart_has_its_crds(chart: &[u8]) {
    let mut archive = tar::Archive::new(GzDecoder::new(chart));
    let names = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 0, "packages do not differ by when");
        entry.path().unwrap().to_str().unwrap().to_owned()
    });
    let names: Vec<String> = names.collect();
    for file in ["Chart.yaml", "README.md", "LICENSE", "crds/flink.apache.org.yaml"] {
        assert!(names.contains(&format!("kubectl-flink-operator/{file}")), "{file}: {names:?}");
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Runs `dist/release.sh check` on a project in which `from` is `to` in a file.
fn checked(file: &str, from: &str, to: &str, tag: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let values = "image:\n  repository: a\n  tag: \"\"\nnext:\n  tag: 1\n";
    for (name, text) in [
        ("dist/release.sh", read("dist/release.sh").as_str()),
        ("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n"),
        (CHART, "name: c\nversion: 1.2.3\nappVersion: \"1.2.3\"\n"),
        ("helm/kubectl-flink-operator/values.yaml", values),
        (
            "docs/some.md",
            "Flink 1.20.5, and `x/kubectl-flink:1.2.3` of kubectl-flink-v1.2.3-x86_64.tar.gz.\n",
        ),
        ("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2027-01-31\n\n- New.\n"),
    ] {
        let place = folder.path().join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let text = if name == file {
            assert!(text.contains(from), "{name} has no {from}");
            text.replace(from, to)
        } else {
            text.to_owned()
        };
        fs::write(place, text).unwrap();
    }
    let output = other("sh")
        .arg(folder.path().join("dist/release.sh"))
        .arg("check")
        .args(tag)
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_release_has_one_version() {
    let (agree, error) = checked("docs/some.md", "Flink", "Flink", &["v1.2.3"]);
    assert!(agree, "{error}");
    for (file, from, to, told) in [
        (CHART, "\nversion: 1.2.3", "\nversion: 1.2.2", "version in"),
        (CHART, "\"1.2.3\"", "1.2.4", "appVersion in"),
        ("helm/kubectl-flink-operator/values.yaml", "\"\"", "1.2", "image.tag"),
        ("docs/some.md", "flink:1.2.3", "flink:1.2.30", "docs/some.md:1 has version `1.2.30`"),
        ("docs/some.md", "v1.2.3-", "v1.3.0-", "docs/some.md:1 has version `1.3.0"),
        ("CHANGELOG.md", "[1.2.3]", "[11.2.3]", "no section"),
        ("CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n- More.\n", "[Unreleased]"),
        ("CHANGELOG.md", "2027-01-31", "Unreleased", "no date"),
    ] {
        let (agree, error) = checked(file, from, to, &["v1.2.3"]);
        assert!(!agree && error.contains(told), "{file}: {from} → {to}: {error}");
    }
    assert!(!checked(CHART, "c", "c", &["v1.2.4"]).0, "the tag is of another version");
    let (agree, error) = checked("CHANGELOG.md", "2027-01-31", "Unreleased", &[]);
    assert!(agree, "a date is only needed for the tag: {error}");
}
