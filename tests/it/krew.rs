//! Checks `krew-manifest.yaml` against the rules of krew's index, and unpacks the archive as krew does.
//!
//! The rules are those of krew's repository: `internal/index/validation`, `cmd/validate-krew-manifest`, which krew's index
//! runs on each change, `internal/download`, and the naming guide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;

use crate::support::program::{PROGRAM, other};

/// The target that the test's archive is packaged for.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Plugin {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    version: String,
    homepage: String,
    short_description: String,
    description: String,
    caveats: String,
    platforms: Vec<Platform>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    selector: Selector,
    uri: String,
    sha256: String,
    files: Vec<FileOperation>,
    bin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOperation {
    from: String,
    to: String,
}

/// The platforms that krew knows, of those that this program is built for.
const PLATFORMS: [[&str; 2]; 4] =
    [["linux", "amd64"], ["linux", "arm64"], ["darwin", "amd64"], ["darwin", "arm64"]];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(text: &str) -> Plugin {
    serde_yaml::from_str(text).unwrap()
}

/// Reads and checks a manifest that was written; its file is named after the plugin.
pub(crate) fn of_file(path: &Path) -> Plugin {
    let plugin = read(&std::fs::read_to_string(path).unwrap());
    check(&plugin);
    assert_eq!(
        path.file_name().unwrap().to_str().unwrap(),
        format!("{}.yaml", plugin.metadata.name)
    );
    plugin
}

/// Checks the rules of krew's index.
fn check(plugin: &Plugin) {
    let Plugin { api_version, kind, metadata: Metadata { name }, spec } = plugin;
    assert_eq!(api_version, "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(kind, "Plugin");
    let is_safe = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    assert!(!name.is_empty() && is_safe(name) && *name == name.to_lowercase(), "{name}");
    assert!(!name.starts_with("kubectl") && !name.starts_with("kube-"), "the prefix is implied");
    let Spec { version, homepage, short_description, description, caveats, platforms } = spec;
    let numbers = version.strip_prefix('v').expect("a version begins with v").split('.');
    let numbers = numbers.map(str::parse::<u32>).collect::<Result<Vec<_>, _>>();
    assert_eq!(numbers.map(|it| it.len()), Ok(3), "{version}");
    assert!(homepage.starts_with("https://"));
    assert!(short_description.len() <= 50 && !short_description.ends_with('.'));
    assert!(!short_description.contains('\n'));
    for text in [description, caveats] {
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
    assert!(!platforms.is_empty());
    let mut seen = Vec::new();
    for Platform { selector, uri, sha256, files, bin } in platforms {
        // With both labels, two selectors overlap only if they are the same.
        let labels = &selector.match_labels;
        assert_eq!(labels.len(), 2, "{labels:?}");
        let platform = ["os", "arch"].map(|label| labels[label].as_str());
        assert!(PLATFORMS.contains(&platform), "krew knows no {platform:?}");
        assert!(!seen.contains(&platform), "two platforms match {platform:?}");
        seen.push(platform);
        assert!(uri.starts_with("https://") && uri.ends_with(".tar.gz"), "{uri}");
        assert!(uri.contains(version.as_str()), "{uri}");
        assert_eq!(sha256.len(), 64, "{uri}");
        assert!(sha256.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()), "{uri}");
        assert!(!bin.is_empty() && !files.is_empty());
        for FileOperation { from, to } in files {
            assert!(!from.is_empty() && !to.is_empty());
            assert!(!from.contains("..") && !to.contains("..") && !to.starts_with('/'));
        }
        assert!(files.iter().any(|file| file.from == "LICENSE"), "the licence goes along");
        assert!(files.iter().any(|file| file.from == *bin && file.to == "."), "{bin} is installed");
    }
}

#[test]
fn the_template_is_a_manifest_by_krews_rules() {
    let text = std::fs::read_to_string(root().join("krew-manifest.yaml")).unwrap();
    let sum = "0".repeat(64);
    let mut text = text.replace("{{VERSION}}", env!("CARGO_PKG_VERSION"));
    for platform in ["LINUX_AMD64", "LINUX_ARM64", "DARWIN_AMD64", "DARWIN_ARM64"] {
        text = text.replace(&format!("{{{{SHA256_{platform}}}}}"), &sum);
    }
    let plugin = read(&text);
    check(&plugin);
    assert_eq!(plugin.spec.platforms.len(), 4);
}

/// Packages the program of this build, and installs it as krew does.
#[test]
fn what_is_packaged_is_installed_as_krew_does() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("dist");
    // A stand-in for the release build, which a test does not make; the man pages come from this build.
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho installed\n").unwrap();
    let packaged = other(root().join("dist/package.sh"))
        .args([TARGET, program.to_str().unwrap()])
        .env("DIST", &out)
        .env("TOOL", PROGRAM)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&packaged.stderr);
    assert!(packaged.status.success(), "{error}");
    for left_out in ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "aarch64-apple-darwin"] {
        assert!(error.contains(&format!("without {left_out}")), "{error}");
    }
    let plugin = of_file(&out.join("flink.yaml"));
    let [platform] = plugin.spec.platforms.as_slice() else { panic!("only what is there") };
    let archive = out.join(platform.uri.rsplit('/').next().unwrap());
    let bytes = std::fs::read(&archive).unwrap();
    assert_eq!(sum_of(&bytes), platform.sha256);
    for entry in tar::Archive::new(GzDecoder::new(bytes.as_slice())).entries().unwrap() {
        let entry = entry.unwrap();
        let (kind, path) = (entry.header().entry_type(), entry.path().unwrap());
        assert!(kind.is_file() || kind.is_dir(), "krew unpacks no {kind:?}: {}", path.display());
        assert!(path.is_relative() && !path.to_str().unwrap().contains(".."), "{}", path.display());
    }
    let unpacked = folder.path().join("unpacked");
    tar::Archive::new(GzDecoder::new(bytes.as_slice())).unpack(&unpacked).unwrap();
    assert!(unpacked.join("man/kubectl-flink-restore.1").exists());
    assert!(unpacked.join("completions/kubectl_complete-flink").exists());
    let installed = folder.path().join("installed");
    std::fs::create_dir(&installed).unwrap();
    for FileOperation { from, to } in &platform.files {
        let to: PathBuf = installed.join(to).join(from);
        std::fs::copy(unpacked.join(from), to).unwrap();
    }
    let ran = other(installed.join(&platform.bin)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "installed\n");
}

pub(crate) fn sum_of(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digits = |byte: &u8| [byte >> 4, byte & 0xF].map(|it| char::from_digit(it.into(), 16));
    Sha256::digest(bytes).iter().flat_map(digits).flatten().collect()
}
