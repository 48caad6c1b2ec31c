//! The programs of the control plane: Go sources inside this program, built once into the user's cache, in a folder
//! named after the build's inputs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::archive::hex;
use super::command::{is_executable, run_logged};
use super::error::{Error, Missing};
use super::process::remove;
use super::progress::Progress;
use super::requirements::go;
use super::state::{cache, lock};

/// The Kubernetes version that the module in `sandbox/go.mod` requires.
pub(super) const KUBERNETES: &str = "v1.34.4";

const SOURCES: [(&str, &str); 6] = [
    ("go.mod", include_str!("../../../sandbox/go.mod")),
    ("go.sum", include_str!("../../../sandbox/go.sum")),
    ("main.go", include_str!("../../../sandbox/main.go")),
    ("coredns/main.go", include_str!("../../../sandbox/coredns/main.go")),
    ("pause/main.go", include_str!("../../../sandbox/pause/main.go")),
    ("signing-key/main.go", include_str!("../../../sandbox/signing-key/main.go")),
];
/// Parts that the single program acts as, depending on the name it is called by.
const PARTS: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
];
/// Time limit for finding and downloading the modules.
const DOWNLOAD: Duration = Duration::from_mins(20);
/// Time limit for compiling, which takes four minutes on two idle cores.
const COMPILE: Duration = Duration::from_hours(1);

/// The location of the programs.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    /// Identifies the build.
    pub(super) key: String,
    folder: PathBuf,
    /// Folder with programs to use instead, for the parts it contains.
    instead: Option<PathBuf>,
}

impl Programs {
    /// Returns where they are, or will be.
    pub(super) fn locate() -> Result<Self, Error> {
        Self::of_build(key())
    }

    /// Returns those of an earlier build, which an instance may still run.
    pub(super) fn of_build(key: String) -> Result<Self, Error> {
        let folder = cache()?.join("sandbox").join(&key);
        let instead = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        Ok(Self { key, folder, instead: instead.filter(|path| !path.as_os_str().is_empty()) })
    }

    /// Returns the program of a part.
    pub(super) fn path(&self, part: &str) -> PathBuf {
        self.instead
            .as_ref()
            .map(|folder| folder.join(part))
            .filter(|path| is_executable(path))
            .unwrap_or_else(|| self.folder.join(part))
    }

    /// Returns whether everything is built.
    pub(super) fn are_built(&self) -> bool {
        self.folder.exists()
    }

    /// Builds them, unless they exist.
    pub(super) async fn build(&self, progress: &Progress<'_>) -> Result<(), Error> {
        if self.are_built() {
            return Ok(());
        }
        let parent = cache()?.join("sandbox");
        let _lock = lock(&parent, "build.lock", "the build of the control plane", COMPILE).await?;
        if self.are_built() {
            return Ok(());
        }
        let Some(go) = go().await else {
            return Err(Error::Missing(vec![Missing {
                what: "Go".into(),
                fix: "use --install, or put `go` into PATH".into(),
            }]));
        };
        let work = parent.join(format!("{}.new", self.key));
        if work.exists() {
            fs::remove_dir_all(&work).map_err(Error::file("remove", &work))?;
        }
        let sources = work.join("sources");
        for (name, text) in SOURCES {
            let path = sources.join(name);
            let folder = path.parent().unwrap_or(&sources);
            fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
            fs::write(&path, text).map_err(Error::file("write", &path))?;
        }
        let log = parent.join("build.log");
        remove(&log)?;
        let packages = download(&go, &sources, &log, progress).await?;
        compile(&go, &sources, &work, &log, packages, progress).await?;
        for part in PARTS {
            let link = work.join(part);
            symlink("sandbox", &link).map_err(Error::file("make", &link))?;
        }
        fs::remove_dir_all(&sources).map_err(Error::file("remove", &sources))?;
        fs::rename(&work, &self.folder).map_err(Error::file("make", &self.folder))
    }
}

/// Downloads the modules and returns the number of packages to compile.
async fn download(
    go: &Path,
    sources: &Path,
    log: &Path,
    progress: &Progress<'_>,
) -> Result<u64, Error> {
    let task = progress.task("downloading the sources of Kubernetes (once)");
    let mut packages = 0;
    let mut command = go_command(go, sources);
    command.args(["list", "-deps", "-f", "{{.ImportPath}}", "./..."]);
    run_logged(&mut command, DOWNLOAD, log, |line| match line.strip_prefix("go: downloading ") {
        Some(module) => task.detail(module),
        None => packages += 1,
    })
    .await?;
    task.done();
    Ok(packages)
}

async fn compile(
    go: &Path,
    sources: &Path,
    target: &Path,
    log: &Path,
    packages: u64,
    progress: &Progress<'_>,
) -> Result<(), Error> {
    let task = progress.bar("building the control plane (once, some minutes)", packages);
    let (major, minor) = major_and_minor();
    let version = "k8s.io/component-base/version";
    let mut command = go_command(go, sources);
    // `examples/demo.sh` begins with the same packages.
    command.args(["build", "-v", "-trimpath", "-ldflags"]);
    command.arg(format!(
        "-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    ));
    command.arg("-o").arg(target).arg("./...");
    run_logged(&mut command, COMPILE, log, |line| {
        // With `-v`, each package is printed when it has been compiled; cached ones are not.
        task.advance();
        task.detail(line);
    })
    .await?;
    task.done();
    Ok(())
}

fn go_command(go: &Path, sources: &Path) -> Command {
    let mut command = Command::new(go);
    // Static programs, from exactly these versions, whatever the user's environment sets.
    command.current_dir(sources).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly");
    command.env("GOWORK", "off").env_remove("GOOS").env_remove("GOARCH");
    command
}

fn major_and_minor() -> (&'static str, &'static str) {
    let mut numbers = KUBERNETES.trim_start_matches('v').split('.');
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

/// Identifies a build by all of its inputs.
fn key() -> String {
    let mut digest = Sha256::new();
    digest.update(KUBERNETES);
    digest.update(std::env::consts::ARCH);
    for (name, text) in SOURCES {
        digest.update(name);
        digest.update([0]);
        digest.update(text);
        digest.update([0]);
    }
    hex(&digest.finalize())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_given_to_the_build_is_the_one_required() {
        let module = SOURCES[0].1;
        assert!(module.contains(&format!("k8s.io/kubernetes {KUBERNETES}\n")));
        assert_eq!(major_and_minor(), ("1", "34"));
    }

    #[test]
    fn every_part_is_known_to_the_program() {
        let program = SOURCES[2].1;
        for part in PARTS {
            assert!(program.contains(&format!("\"{part}\"")), "{part}");
        }
    }

    #[test]
    fn key_is_the_same_each_time() {
        assert_eq!(key(), key());
        assert_eq!(key().len(), 16);
    }
}
